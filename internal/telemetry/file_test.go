package telemetry

import (
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"galgo/internal/config"
)

// full makes the file take only so many bytes more, as on a full disk, until what
// it returns is called.
func (b *bench) full(more int64) (mend func()) {
	b.t.Helper()
	signals := make(chan os.Signal, 1) // or the signal of the limit ends the process
	signal.Notify(signals, syscall.SIGXFSZ)
	var before syscall.Rlimit
	must(b.t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	mend = func() { must(b.t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)) }
	b.t.Cleanup(func() { mend(); signal.Stop(signals) })
	must(b.t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(b.size("") + more), Max: before.Max}))
	return mend
}

// A full disk costs no record while there is memory for them, is told once, and
// told again when it is full again later.
func TestFullDisk(t *testing.T) {
	b := start(t, t.TempDir(), nil)
	b.Open()
	b.number(1)
	mend := b.full(0)
	for n := 2; n <= 5; n++ {
		b.number(n)
		b.now = b.now.Add(retryAfter)
	}
	if n := b.complaints(); n != 1 {
		t.Errorf("told %d times, want once: %s", n, b.stderr.String())
	}
	mend()
	b.number(6)
	if got, want := b.numbers(), upTo(1, 6); !slices.Equal(got, want) {
		t.Errorf("the file has records %v, want %v", got, want)
	}
	b.file.check()
	b.full(0)
	b.number(7)
	if n := b.complaints(); n != 2 {
		t.Errorf("told %d times after trouble, a check without and trouble again, want 2: %s", n, b.stderr.String())
	}
}

// A broken disk is not asked at each record.
func TestRetriesArePaced(t *testing.T) {
	b := start(t, t.TempDir(), nil)
	b.Open()
	b.full(0)
	for range 100 {
		b.number(1)
	}
	if n := b.file.troubles; n != 1 {
		t.Errorf("tried %d times within %v, want once", n, retryAfter)
	}
}

// What memory cannot hold either is counted where it is missing.
func TestMissingRecordsAreCounted(t *testing.T) {
	b := start(t, t.TempDir(), nil)
	b.Open()
	b.number(1)
	mend := b.full(0)
	b.number(2)
	large := strings.Repeat("x", waitingMax/4)
	for range 5 {
		b.Logger().Info(large)
	}
	if got := len(b.file.waiting); got > waitingMax {
		t.Errorf("%d bytes wait, want at most %d", got, waitingMax)
	}
	mend()
	b.file.check()
	b.number(3)
	all := records(t, b.path(""))
	if len(all) != 7 {
		t.Fatalf("%d records, want 7: two, three large ones, the gap, one", len(all))
	}
	if gap := all[5]; gap["records"] != 2.0 || gap["level"] != "ERROR" {
		t.Errorf("got %v where two records are missing, want their number", gap)
	}
	if got := b.numbers()[6]; got != 3 {
		t.Errorf("the last record is %d, want 3", got)
	}
}

// A directory that cannot be made does not stop the server, and is tried again.
func TestDirectoryInTheWay(t *testing.T) {
	b := start(t, t.TempDir(), nil)
	must(t, os.WriteFile(filepath.Join(b.dir, "logs"), nil, 0o600))
	b.number(1)
	b.Open()
	b.number(2)
	b.file.check()
	b.file.check()
	if n := b.complaints(); n != 1 || !strings.Contains(b.stderr.String(), filepath.Join(b.dir, "logs")) {
		t.Errorf("told %d times, want once and with the path: %s", n, b.stderr.String())
	}
	must(t, os.Remove(filepath.Join(b.dir, "logs")))
	b.file.check()
	if got, want := b.numbers(), []int{1, 2}; !slices.Equal(got, want) {
		t.Errorf("the file has records %v, want %v", got, want)
	}
}

func TestNoRegularFile(t *testing.T) {
	b := start(t, t.TempDir(), nil)
	b.write("", "")
	must(t, os.Remove(b.path("")))
	must(t, os.Symlink("/dev/null", b.path("")))
	b.Open()
	if text := b.stderr.String(); !strings.Contains(text, "no regular file") {
		t.Errorf("got %q, want that it is no regular file", text)
	}
}

func TestSilentWhenOff(t *testing.T) {
	b := start(t, t.TempDir(), func(c *config.Logging) { c.Level = "off" })
	must(t, os.WriteFile(filepath.Join(b.dir, "logs"), nil, 0o600))
	b.Open()
	if b.stderr.Len() > 0 {
		t.Errorf("with level off standard error has %q, want nothing", b.stderr.String())
	}
}

// A crash may leave half a line. The next record is whole all the same.
func TestUnfinishedLine(t *testing.T) {
	b := start(t, t.TempDir(), nil)
	b.write("", "{\"n\":1}\n{\"n\":")
	b.Open()
	b.number(2)
	text, err := os.ReadFile(b.path(""))
	must(t, err)
	if lines := strings.Split(string(text), "\n"); len(lines) != 4 || lines[1] != "{\"n\":" || !strings.Contains(lines[2], `"n":2`) {
		t.Errorf("the file has %q, want the unfinished line ended and a record after it", lines)
	}
	if got := b.file.size; got != int64(len(text)) {
		t.Errorf("counted %d bytes, want %d", got, len(text))
	}
}

// A write that takes only a part of a record leaves nothing of it, and the record
// comes whole when there is room.
func TestPartOfALine(t *testing.T) {
	b := start(t, t.TempDir(), nil)
	b.Open()
	b.number(1)
	size := b.size("")
	mend := b.full(20)
	b.number(2)
	if got := b.size(""); got != size || b.complaints() != 1 {
		t.Errorf("the file has %d bytes after a write that failed half-way, told %d times; want %d and once", got, b.complaints(), size)
	}
	mend()
	b.now = b.now.Add(retryAfter)
	b.number(3)
	if got, want := b.numbers(), upTo(1, 3); !slices.Equal(got, want) {
		t.Errorf("the file has records %v, want %v", got, want)
	}
}

// A file that never works again is opened anew, whether a record or the check
// finds out.
func TestBrokenFile(t *testing.T) {
	b := start(t, t.TempDir(), nil)
	b.Open()
	b.number(1)
	must(t, b.file.out.Close())
	b.number(2)
	b.now = b.now.Add(retryAfter)
	b.number(3)
	must(t, b.file.out.Close())
	b.file.check()
	b.number(4)
	if got, want := b.numbers(), upTo(1, 4); !slices.Equal(got, want) || b.complaints() != 1 {
		t.Errorf("the file has records %v, told %d times; want %v and once", got, b.complaints(), want)
	}
}

// Many write while files rotate and are looked after; every record is there, once
// and whole.
func TestConcurrency(t *testing.T) {
	const writers, each = 8, 200
	b := start(t, t.TempDir(), func(c *config.Logging) { c.MaxFileSize = 4000 })
	b.Open()
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			log := b.Logger().With("writer", w)
			for i := range each {
				log.Info("hello", "n", w*each+i)
				if i%20 == 0 {
					b.file.check()
				}
			}
		})
	}
	group.Wait()
	b.Close()
	got := b.numbers()
	slices.Sort(got)
	if want := upTo(0, writers*each-1); !slices.Equal(got, want) {
		t.Errorf("%d records, want %d, each once", len(got), len(want))
	}
	if b.complaints() > 0 {
		t.Errorf("trouble: %s", firstLines(b.stderr.String()))
	}
}

func firstLines(text string) string { return text[:min(len(text), 2000)] }

// A record larger than a file may be has a file of its own.
func TestLargeRecord(t *testing.T) {
	b := start(t, t.TempDir(), func(c *config.Logging) { c.MaxFileSize = 500 })
	b.Open()
	b.number(1)
	b.Logger().Info(strings.Repeat("x", 2000), "n", 2)
	b.number(3)
	for suffix, want := range map[string]int{".2": 1, ".1": 2, "": 3} {
		if got := numbersIn(t, b.path(suffix)); !slices.Equal(got, []int{want}) {
			t.Errorf("%s%s has records %v, want %d alone", FileName, suffix, got, want)
		}
	}
}

// No clock is the wall clock.
func TestWallClock(t *testing.T) {
	l, err := New(config.Default().System.Logging, t.TempDir(), os.Stderr, nil)
	must(t, err)
	if now := l.file.clock(); time.Since(now) > time.Hour {
		t.Errorf("the clock tells %v", now)
	}
}
