package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"time"

	"galgo/internal/config"
)

// FileName is the file within the log directory that records go to.
const FileName = "galgo-server.log"

// Logs is where a server's records go. Its methods may be called from any
// goroutine.
type Logs struct {
	logger *slog.Logger
	file   *file // nil: standard error alone
	every  time.Duration
}

// New returns logs that write to stderr at once and, if the configuration wants
// it, to files below dataDir from [Logs.Open] on. clock tells the time by which
// files age; nil is the wall clock. An error is one of a configuration that was
// never validated, never one of a file.
func New(c config.Logging, dataDir string, stderr io.Writer, clock func() time.Time) (*Logs, error) {
	if clock == nil {
		clock = time.Now
	}
	options := slog.HandlerOptions{Level: c.SlogLevel(), ReplaceAttr: replace}
	text := slog.NewTextHandler(stderr, &options)
	if !c.FileEnabled {
		return &Logs{logger: slog.New(text)}, nil
	}
	if err := check(c); err != nil {
		return nil, err
	}
	f := newFile(c, filepath.Join(dataDir, c.Path, FileName), clock)
	f.complain = func(err error) {
		if ctx := context.Background(); text.Enabled(ctx, slog.LevelError) {
			record := slog.NewRecord(clock(), slog.LevelError, "log file: records may be here only until it works again", 0)
			record.AddAttrs(slog.String("err", err.Error()))
			text.Handle(ctx, record) // there is nobody left to tell
		}
	}
	lines := slog.NewJSONHandler(f, &options)
	return &Logs{slog.New(slog.NewMultiHandler(lines, text)), f, c.RotationCheckInterval}, nil
}

// check refuses what would remove files it must not, or never end.
func check(c config.Logging) error {
	switch {
	case !filepath.IsLocal(c.Path):
		return fmt.Errorf("telemetry: system.logging.path %q: want a path inside system.path", c.Path)
	case c.RotationCheckInterval <= 0:
		return fmt.Errorf("telemetry: system.logging.rotation_check_interval %v: want more than 0", c.RotationCheckInterval)
	case c.Retention <= 0:
		return fmt.Errorf("telemetry: system.logging.retention %v: want more than 0", c.Retention)
	}
	return nil
}

func newFile(c config.Logging, path string, clock func() time.Time) *file {
	f := &file{
		path: path, limit: bytesOf(c.MaxFileSize), totalMax: bytesOf(c.MaxTotalSize), countMax: rotatedMax, retention: c.Retention,
		clock: clock, openFile: os.OpenFile,
	}
	if f.totalMax < math.MaxInt64 {
		// A file as large as all may be together would go as soon as it is
		// rotated: at least half of what is allowed stays.
		f.limit = min(f.limit, f.totalMax/2)
	}
	return f
}

// bytesOf returns a limit that may be 0, which means none.
func bytesOf(size config.ByteSize) int64 {
	if size == 0 {
		return math.MaxInt64
	}
	return int64(min(size, math.MaxInt64))
}

// Logger returns the logger of the server.
func (l *Logs) Logger() *slog.Logger { return l.logger }

// Open begins the log file with the records that were logged before; see the
// package doc for when. If the file cannot be opened, standard error says so, and
// it is tried again.
func (l *Logs) Open() {
	if l.file != nil {
		l.file.begin()
	}
}

// Run looks after the age and size of the files at the configured interval, until
// ctx ends. It returns nil.
func (l *Logs) Run(ctx context.Context) error {
	if l.file == nil {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(l.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			l.file.check()
		}
	}
}

// Close ends the log file. What is logged later goes to standard error alone.
func (l *Logs) Close() {
	if l.file != nil {
		l.file.end()
	}
}
