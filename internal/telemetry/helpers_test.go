package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"galgo/internal/config"
)

// bench is a log under test, with a clock that stands still unless it is moved.
type bench struct {
	*Logs
	t      testing.TB
	dir    string // the data directory
	stderr bytes.Buffer
	now    time.Time
	config config.Logging
}

// start makes logs with the change to the default configuration, unopened.
func start(t testing.TB, dir string, change func(*config.Logging)) *bench {
	t.Helper()
	b := &bench{t: t, dir: dir, now: time.Now(), config: config.Default().System.Logging}
	if change != nil {
		change(&b.config)
	}
	logs, err := New(b.config, dir, &b.stderr, func() time.Time { return b.now })
	if err != nil {
		t.Fatal(err)
	}
	b.Logs = logs
	t.Cleanup(b.Close)
	return b
}

func (b *bench) path(suffix string) string { return filepath.Join(b.dir, "logs", FileName+suffix) }

func (b *bench) write(suffix, text string) {
	b.t.Helper()
	must(b.t, os.MkdirAll(filepath.Join(b.dir, "logs"), 0o700))
	must(b.t, os.WriteFile(b.path(suffix), []byte(text), 0o600))
}

func (b *bench) exists(suffix string) bool {
	_, err := os.Lstat(b.path(suffix))
	return !errors.Is(err, fs.ErrNotExist)
}

func (b *bench) size(suffix string) int64 {
	info, err := os.Stat(b.path(suffix))
	must(b.t, err)
	return info.Size()
}

// number logs a record that carries a number, about 100 bytes of JSON.
func (b *bench) number(n int) { b.Logger().Info("a record among many", "n", n) }

// numbers returns the numbers of all records in the files, oldest file first, and
// -1 for a record without one.
func (b *bench) numbers() []int {
	b.t.Helper()
	files, err := b.file.rotated()
	must(b.t, err)
	var all []int
	for _, r := range slices.Backward(files) {
		all = append(all, numbersIn(b.t, b.file.numbered(r.number))...)
	}
	return append(all, numbersIn(b.t, b.path(""))...)
}

func numbersIn(t testing.TB, path string) (all []int) {
	t.Helper()
	for _, r := range records(t, path) {
		n := -1
		if v, ok := r["n"].(float64); ok {
			n = int(v)
		}
		all = append(all, n)
	}
	return all
}

// records reads a file of JSON lines, each of which must be whole.
func records(t testing.TB, path string) (all []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	for line := range strings.Lines(string(text)) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil || !strings.HasSuffix(line, "}\n") {
			t.Fatalf("%s holds the line %q, which is no whole record: %v", path, line, err)
		}
		all = append(all, r)
	}
	return all
}

// complaints is how often standard error was told that the file is in trouble.
func (b *bench) complaints() int { return strings.Count(b.stderr.String(), "log file: ") }

func upTo(from, to int) (all []int) {
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lineSize is the size of one of bench.number's records with a one-digit number.
func lineSize(t testing.TB) int64 {
	b := start(t, t.TempDir(), nil)
	b.Open()
	b.Logger().LogAttrs(t.Context(), slog.LevelInfo, "a record among many", slog.Int("n", 1))
	// Fractions of a second lose their trailing zeros.
	return b.size("") + 10
}
