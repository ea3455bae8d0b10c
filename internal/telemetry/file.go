package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	// waitingMax bounds, in bytes, the records that wait in memory for the file:
	// before it is opened, and while it takes none.
	waitingMax = 1 << 20
	// retryAfter is how long something that went wrong is not tried again, so
	// that a broken disk is not asked at each record.
	retryAfter = time.Second
)

// Modes of the directory and the files: tools of the same group may read.
const (
	dirMode  = 0o750
	fileMode = 0o640
)

// phase is where a file is in its life.
type phase uint8

const (
	early phase = iota // the directory may be another's: nothing is touched
	opened
	ended
)

// file is an io.Writer of whole lines that keeps itself bounded. Records reach it
// in the order in which they are written, pass through waiting, and leave it only
// when they are written in full: a file that is rotated, full or gone loses none,
// up to waitingMax.
type file struct {
	path      string
	limit     int64 // bytes of one file; a longer record has a file of its own
	totalMax  int64 // bytes of all files together
	countMax  int   // rotated files
	retention time.Duration
	clock     func() time.Time
	complain  func(error)                                                     // called with mu held
	openFile  func(name string, flag int, mode os.FileMode) (*os.File, error) // os.OpenFile, but in tests

	mu      sync.Mutex
	phase   phase
	out     *os.File // nil: to be opened
	size    int64    // of out
	kept    int64    // of the rotated files together, as last counted
	waiting []byte   // whole lines
	missing int      // lines that waiting had no room for

	writeAgain  time.Time // not before, after an error
	rotateAgain time.Time
	troubles    int  // errors so far
	told        bool // that something is wrong
}

// Write takes one line. It returns no error: those of a log file are told on
// standard error, as they are nothing that the one who logs could act on.
func (f *file) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.phase == ended {
		return len(line), nil
	}
	if len(f.waiting)+len(line) <= waitingMax {
		f.waiting = append(f.waiting, line...)
	} else {
		f.missing++
	}
	if f.phase == opened && !f.clock().Before(f.writeAgain) {
		f.flush()
	}
	return len(line), nil
}

func (f *file) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.phase == early {
		f.phase = opened
		f.flush()
	}
}

func (f *file) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.phase == opened {
		f.flush()
	}
	f.phase, f.waiting = ended, nil
	if f.out != nil {
		if err := f.out.Close(); err != nil {
			f.trouble(err)
		}
		f.out = nil
	}
}

// flush writes what waits, as far as the file takes it.
func (f *file) flush() {
	var err error
	if f.out == nil {
		err = f.open()
	}
	rest := f.waiting
	for err == nil && len(rest) > 0 {
		line := rest[:bytes.IndexByte(rest, '\n')+1]
		if err = f.put(line); err == nil {
			rest = rest[len(line):]
		}
	}
	f.waiting = append(f.waiting[:0], rest...)
	if err == nil && f.missing > 0 {
		if err = f.put(f.gap()); err == nil {
			f.missing = 0
		}
	}
	f.writeAgain = time.Time{}
	if err != nil {
		f.writeAgain = f.clock().Add(retryAfter)
		f.trouble(err)
	}
}

// gap is the record that stands where others are missing.
func (f *file) gap() []byte {
	var line bytes.Buffer
	record := slog.NewRecord(f.clock(), slog.LevelError, "records are missing here: the log file did not take them; standard error had them", 0)
	record.AddAttrs(slog.Int("records", f.missing))
	handler := slog.NewJSONHandler(&line, &slog.HandlerOptions{ReplaceAttr: replace})
	handler.Handle(context.Background(), record) // a buffer takes everything
	return line.Bytes()
}

// put writes one line to a file that has room for it. After an error nothing of
// the line is in the file, and the file is to be opened anew: it may be one that
// never works again, such as of a filesystem that is gone.
func (f *file) put(line []byte) error {
	f.makeRoom(int64(len(line)))
	n, err := f.out.Write(line)
	if err == nil {
		f.size += int64(n)
		return nil
	}
	if n > 0 {
		f.out.Truncate(f.size) // if it fails, open ends the broken line
	}
	f.out.Close() // the error of the write says it all
	f.out = nil
	return err
}

// open opens the file, or makes it, and counts what is there.
func (f *file) open() error {
	if err := os.MkdirAll(filepath.Dir(f.path), dirMode); err != nil {
		return err
	}
	out, err := f.openFile(f.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, fileMode)
	if err != nil {
		return err
	}
	size, err := endLine(out)
	if err != nil {
		return errors.Join(err, out.Close())
	}
	rotated, err := f.rotated()
	if err != nil {
		return errors.Join(err, out.Close())
	}
	f.out, f.size, f.kept = out, size, sizeOf(rotated)
	return nil
}

// endLine ends a line that a crash has left unfinished, so that the next record
// has one of its own, and returns the size of the file.
func endLine(out *os.File) (int64, error) {
	info, err := out.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is no regular file; move it away", out.Name())
	}
	size := info.Size()
	if size == 0 {
		return 0, nil
	}
	var last [1]byte
	if _, err := out.ReadAt(last[:], size-1); err != nil {
		return 0, err
	}
	if last[0] == '\n' {
		return size, nil
	}
	n, err := out.Write([]byte{'\n'})
	return size + int64(n), err
}

// trouble tells once that something is wrong, until check finds that nothing is.
func (f *file) trouble(err error) {
	f.troubles++
	if !f.told {
		f.told = true
		f.complain(err)
	}
}
