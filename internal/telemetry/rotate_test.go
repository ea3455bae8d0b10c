package telemetry

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"galgo/internal/config"
)

// Three records a file: the file that is full becomes .1, and older ones move up.
func TestRotation(t *testing.T) {
	line := lineSize(t)
	b := start(t, t.TempDir(), func(c *config.Logging) { c.MaxFileSize = config.ByteSize(3 * line) })
	b.Open()
	for n := range 8 {
		b.number(n)
	}
	for suffix, want := range map[string][]int{".2": {0, 1, 2}, ".1": {3, 4, 5}, "": {6, 7}} {
		if got := numbersIn(t, b.path(suffix)); !slices.Equal(got, want) {
			t.Errorf("%s%s has records %v, want %v", FileName, suffix, got, want)
		}
	}
	if b.exists(".3") {
		t.Error("there is a .3, want .1 and .2 alone")
	}
}

// A size of 0 is no limit.
func TestNoLimits(t *testing.T) {
	b := start(t, t.TempDir(), func(c *config.Logging) { c.MaxFileSize, c.MaxTotalSize = 0, 0 })
	b.write(".1", strings.Repeat("{}\n", 1000))
	b.Open()
	for n := range 100 {
		b.number(n)
	}
	b.file.check()
	if b.exists(".2") || b.size(".1") != 3000 || len(numbersIn(t, b.path(""))) != 100 {
		t.Error("files were rotated or removed although nothing limits them")
	}
}

// The total never passes its limit, the oldest go first, and the newest half stays.
func TestTotalSize(t *testing.T) {
	for _, files := range []int64{1, 2, 5} {
		line := lineSize(t)
		total := 12 * line
		b := start(t, t.TempDir(), func(c *config.Logging) {
			c.MaxTotalSize, c.MaxFileSize = config.ByteSize(total), config.ByteSize(total/files)
		})
		b.Open()
		for n := range 100 {
			b.number(n)
			sum := int64(0)
			for i := range 20 {
				if suffix := strings.TrimSuffix(fmt.Sprint(".", i), ".0"); b.exists(suffix) {
					sum += b.size(suffix)
				}
			}
			if sum > total {
				t.Fatalf("%d bytes in all files after record %d, want at most %d", sum, n, total)
			}
			got := b.numbers()
			if !slices.Equal(got, upTo(got[0], n)) || len(got) < min(n+1, 6) {
				t.Fatalf("after record %d records %v are left, want the newest, half of what fits at least", n, got)
			}
		}
	}
}

// A limit that was lowered takes hold at the start.
func TestLoweredLimits(t *testing.T) {
	b := start(t, t.TempDir(), func(c *config.Logging) { c.MaxFileSize, c.MaxTotalSize = 1000, 2400 })
	for _, suffix := range []string{"", ".1", ".2", ".3"} {
		b.write(suffix, strings.Repeat("{}\n", 400))
	}
	b.Open()
	b.number(1)
	if b.size(".1") != 1200 || b.exists(".2") {
		t.Error("want the large file as .1 and nothing older: with a record two are over 2400 bytes")
	}
}

// What an earlier start has left counts from the first record on.
func TestRotatedFilesCount(t *testing.T) {
	b := start(t, t.TempDir(), func(c *config.Logging) { c.MaxFileSize, c.MaxTotalSize = 1000, 2500 })
	for _, suffix := range []string{".1", ".2"} {
		b.write(suffix, strings.Repeat("{}\n", 400))
	}
	b.Open()
	b.number(1)
	if !b.exists(".2") {
		t.Error(".2 is gone, want it kept: with a record it is all within the limit")
	}
	b.number(2)
	if b.exists(".2") || !b.exists(".1") {
		t.Errorf(".1 is there: %v, .2: %v; want .2 gone, as a second record passes the limit", b.exists(".1"), b.exists(".2"))
	}
}

// Files go by the age of their newest record. One behind a gap in the numbers is
// as good as any.
func TestRetention(t *testing.T) {
	b := start(t, t.TempDir(), func(c *config.Logging) { c.Retention = time.Hour })
	b.Open()
	for suffix, age := range map[string]time.Duration{"": 48 * time.Hour, ".1": time.Minute, ".2": time.Hour, ".3": time.Hour + time.Second, ".7": 2 * time.Hour} {
		if suffix != "" {
			b.write(suffix, "{}\n")
		}
		must(t, os.Chtimes(b.path(suffix), b.now, b.now.Add(-age)))
	}
	b.file.check()
	for suffix, want := range map[string]bool{"": true, ".1": true, ".2": true, ".3": false, ".7": false} {
		if got := b.exists(suffix); got != want {
			t.Errorf("%s%s is there: %v, want %v", FileName, suffix, got, want)
		}
	}
}

// What others put beside the files is not touched.
func TestForeignFiles(t *testing.T) {
	b := start(t, t.TempDir(), func(c *config.Logging) { c.MaxFileSize, c.MaxTotalSize, c.Retention = 200, 400, time.Second })
	foreign := []string{".1.gz", ".01", ".0", ".-1", ".+1", ".x", ".20260304", ".1001", "-old", ".1 "}
	for _, suffix := range foreign {
		b.write(suffix, "theirs")
		must(t, os.Chtimes(b.path(suffix), b.now, b.now.Add(-time.Hour)))
	}
	must(t, os.Mkdir(b.path(".9"), 0o700))
	b.Open()
	for n := range 30 {
		b.number(n)
	}
	b.file.check()
	for _, suffix := range foreign {
		if text, err := os.ReadFile(b.path(suffix)); err != nil || string(text) != "theirs" {
			t.Errorf("%s%s holds %q, %v; want it untouched", FileName, suffix, text, err)
		}
	}
	if !b.exists(".9") || b.complaints() > 0 {
		t.Errorf("the directory is there: %v; trouble: %q", b.exists(".9"), firstLines(b.stderr.String()))
	}
}

// When the old file cannot be moved, records go on into it, which is told once;
// when it can, it is rotated.
func TestRotationFails(t *testing.T) {
	b := start(t, t.TempDir(), func(c *config.Logging) { c.MaxFileSize = 300 })
	b.Open()
	must(t, os.MkdirAll(b.path(".1/in/the/way"), 0o700))
	for n := range 20 {
		b.number(n)
		b.now = b.now.Add(retryAfter / 2)
	}
	if got, want := numbersIn(t, b.path("")), upTo(0, 19); !slices.Equal(got, want) {
		t.Errorf("the file has records %v, want %v", got, want)
	}
	if n := b.complaints(); n != 1 {
		t.Errorf("told %d times, want once: %s", n, b.stderr.String())
	}
	must(t, os.RemoveAll(b.path(".1")))
	b.now = b.now.Add(2 * retryAfter)
	b.number(20)
	if got, want := numbersIn(t, b.path(".1")), upTo(0, 19); !slices.Equal(got, want) {
		t.Errorf(".1 has records %v, want %v", got, want)
	}
}

// A rotation that fails is not tried again at each record, but at each check.
func TestRotationRetriesArePaced(t *testing.T) {
	b := start(t, t.TempDir(), func(c *config.Logging) { c.MaxFileSize = 300 })
	b.Open()
	must(t, os.MkdirAll(b.path(".1/in/the/way"), 0o700))
	for n := range 20 {
		b.number(n)
	}
	if n := b.file.troubles; n != 1 {
		t.Errorf("tried %d times within %v, want once", n, retryAfter)
	}
	must(t, os.RemoveAll(b.path(".1")))
	b.file.check()
	if got, want := numbersIn(t, b.path(".1")), upTo(0, 19); !slices.Equal(got, want) {
		t.Errorf("after a check .1 has records %v, want %v", got, want)
	}
}

// A rotated file that cannot be moved up is not overwritten.
func TestShiftFails(t *testing.T) {
	b := start(t, t.TempDir(), func(c *config.Logging) { c.MaxFileSize = 300 })
	b.Open()
	b.write(".1", "{\"n\":-1}\n")
	must(t, os.MkdirAll(b.path(".2/in/the/way"), 0o700))
	for n := range 10 {
		b.number(n)
	}
	if got := numbersIn(t, b.path(".1")); !slices.Equal(got, []int{-1}) || b.complaints() != 1 {
		t.Errorf(".1 has records %v, told %d times; want it as before, and once", got, b.complaints())
	}
	if got, want := numbersIn(t, b.path("")), upTo(0, 9); !slices.Equal(got, want) {
		t.Errorf("the file has records %v, want %v", got, want)
	}
}

// Old files go at a rotation, too, not only when it is time for a check.
func TestRotationRemovesTheOld(t *testing.T) {
	b := start(t, t.TempDir(), func(c *config.Logging) { c.MaxFileSize = 300 })
	b.Open()
	b.write(".1", "{}\n")
	must(t, os.Chtimes(b.path(".1"), b.now, b.now.Add(-b.config.Retention-time.Second)))
	for n := range 5 {
		b.number(n)
	}
	if !b.exists(".1") || b.exists(".2") {
		t.Errorf("after a rotation .1 is there: %v, .2, which is too old: %v; want only .1", b.exists(".1"), b.exists(".2"))
	}
}

// If the file is moved but there can be no new one, as without a free inode,
// records go on to the old one.
func TestNoNewFile(t *testing.T) {
	b := start(t, t.TempDir(), func(c *config.Logging) { c.MaxFileSize = 300 })
	b.Open()
	b.file.openFile = func(string, int, os.FileMode) (*os.File, error) { return nil, syscall.ENOSPC }
	for n := range 20 {
		b.number(n)
		b.now = b.now.Add(retryAfter / 2)
	}
	b.file.check()
	if n := b.complaints(); n != 1 {
		t.Errorf("told %d times, want once: %s", n, b.stderr.String())
	}
	if got, want := numbersIn(t, b.path(".2")), upTo(0, 19); !slices.Equal(got, want) {
		t.Errorf("the old file has records %v, want %v", got, want)
	}
	b.file.openFile = os.OpenFile
	b.now = b.now.Add(retryAfter)
	b.number(20)
	if got, want := b.numbers(), upTo(0, 20); !slices.Equal(got, want) {
		t.Errorf("the files have records %v, want %v", got, want)
	}
}

// Other tools may move the file away, remove it or cut it; the next check notices.
func TestMovedByOthers(t *testing.T) {
	b := start(t, t.TempDir(), nil)
	b.Open()
	b.number(1)
	must(t, os.Rename(b.path(""), b.path(".moved")))
	b.number(2)
	b.file.check()
	b.number(3)
	if got := numbersIn(t, b.path(".moved")); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("the file that was moved has records %v, want 1 and 2", got)
	}
	if got := numbersIn(t, b.path("")); !slices.Equal(got, []int{3}) {
		t.Errorf("the new file has records %v, want 3", got)
	}
	must(t, os.Truncate(b.path(""), 0))
	b.file.check()
	b.number(4)
	if got := numbersIn(t, b.path("")); !slices.Equal(got, []int{4}) || b.file.size != b.size("") {
		t.Errorf("the file that was cut has records %v and is counted as %d bytes, want 4 and %d", got, b.file.size, b.size(""))
	}
	if b.complaints() > 0 {
		t.Errorf("trouble: %s", b.stderr.String())
	}
}

// The number of files is bounded, too: the oldest is overwritten.
func TestNumberOfFiles(t *testing.T) {
	b := start(t, t.TempDir(), func(c *config.Logging) { c.MaxFileSize, c.MaxTotalSize = 1, 0 })
	b.file.countMax = 3
	b.Open()
	for n := range 10 {
		b.number(n)
	}
	if got, want := b.numbers(), upTo(6, 9); !slices.Equal(got, want) || b.exists(".4") {
		t.Errorf("the files have records %v, want %v; there is a .4: %v", got, want, b.exists(".4"))
	}
}

// Whatever is logged, restarted and waited for: what is left is the newest part of
// what was logged, without a gap, and within the limits.
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		must(t, err)
		limited := false // now or earlier
		change := func(c *config.Logging) {
			c.MaxFileSize = config.ByteSize(rapid.IntRange(0, 1000).Draw(r, "file"))
			c.MaxTotalSize = config.ByteSize(rapid.SampledFrom([]int{0, 75, 500, 2000, 4000}).Draw(r, "total"))
			limited = limited || c.MaxTotalSize > 0
		}
		b := start(t, dir, change)
		b.Open()
		written := 0
		compare := func() {
			got := b.numbers()
			if !slices.Equal(got, upTo(written-len(got), written-1)) {
				r.Fatalf("%d records logged, the files have %v", written, got)
			}
			if !limited && len(got) != written {
				r.Fatalf("%d records logged, %d left though nothing limits them", written, len(got))
			}
			checkLimits(r, b)
		}
		actions := map[string]func(){
			"log": func() {
				for range rapid.IntRange(1, 5).Draw(r, "records") {
					b.Logger().Info(strings.Repeat("x", rapid.IntRange(0, 300).Draw(r, "size")), "n", written)
					written++
				}
			},
			"check":   func() { b.file.check() },
			"compare": compare,
			"restart": func() {
				b.Close()
				b = start(t, dir, change)
				b.number(written) // before Open
				written++
				b.Open()
			},
		}
		for range rapid.IntRange(1, 12).Draw(r, "actions") {
			actions[rapid.SampledFrom([]string{"log", "check", "compare", "restart"}).Draw(r, "action")]()
		}
		compare()
		if b.complaints() > 0 {
			r.Fatalf("trouble: %s", firstLines(b.stderr.String()))
		}
		b.Close()
	})
}

func checkLimits(r *rapid.T, b *bench) {
	sum, largest := b.size(""), b.size("")
	files, err := b.file.rotated()
	must(b.t, err)
	for _, f := range files {
		sum += f.size
	}
	if records := numbersIn(b.t, b.path("")); len(records) > 1 && b.config.MaxFileSize > 0 && largest > int64(b.config.MaxFileSize) {
		r.Fatalf("the file has %d bytes in %d records, want at most %d", largest, len(records), b.config.MaxFileSize)
	}
	if len(files) > 0 && b.config.MaxTotalSize > 0 && sum > int64(b.config.MaxTotalSize) {
		r.Fatalf("%d bytes in all files, want at most %d", sum, b.config.MaxTotalSize)
	}
}
