//go:build linux

package disk

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A system call may take any part of a vectored write; what is left must be the
// rest of the bytes, in order.
func TestAdvance(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var bufs [][]byte
		for range 1 + rng.IntN(6) {
			b := make([]byte, rng.IntN(5))
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			bufs = append(bufs, b)
		}
		want := slices.Concat(bufs...)
		var got []byte
		for left := skipEmpty(slices.Clone(bufs)); len(left) > 0; left = skipEmpty(left) {
			n := 1 + rng.IntN(total(left))
			got = append(got, slices.Concat(left...)[:n]...)
			left = advance(left, n)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v came out as %v, want %v", bufs, got, want)
		}
	}
}

func TestReason(t *testing.T) {
	for _, c := range []struct {
		err, want error
	}{
		{&fs.PathError{Op: "write", Path: "x", Err: unix.ENOSPC}, ErrNoSpace},
		{unix.EDQUOT, ErrNoSpace},
		{unix.ENOSPC, unix.ENOSPC},
		{&os.LinkError{Op: "rename", Err: unix.ENOENT}, ErrNotExist},
		{&fs.PathError{Op: "open", Path: "x", Err: unix.EEXIST}, ErrExist},
	} {
		got := reason(c.err)
		if !errors.Is(got, c.want) {
			t.Errorf("%v became %v, want %v", c.err, got, c.want)
		}
		if strings.Contains(got.Error(), "x:") {
			t.Errorf("%v became %v: it still has the path", c.err, got)
		}
	}
}

// The system refuses to sync a pipe, so an error shows that it was asked.
func TestSyncReachesTheSystem(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f, err := newOSFile(&OS{dir: "dir"}, w, "pipe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), "sync dir/pipe") {
		t.Fatalf("sync of a pipe: %v, want %v naming dir/pipe", err, unix.EINVAL)
	}
}

// The system refuses to sync a directory of /proc.
func TestSyncDirReachesTheSystem(t *testing.T) {
	root, err := os.OpenRoot("/proc")
	if err != nil {
		t.Skip("no /proc here")
	}
	defer root.Close()
	d := &OS{dir: "/proc", root: root}
	if err := d.SyncDir("sys"); !errors.Is(err, unix.EINVAL) {
		t.Fatalf("sync of /proc/sys: %v, want %v", err, unix.EINVAL)
	}
}

// What lies far behind the end of what is written leaves the memory of the system, and
// reads as before.
func TestWriteBackGivesUpWhatIsFarBehind(t *testing.T) {
	chunk := bytes.Repeat([]byte("galgo"), dropStep/5+1)[:dropStep]
	const last = CachedBehindDefault + 2*dropStep // where the last write begins
	for _, c := range []struct{ behind, dropped int64 }{
		{CachedBehindDefault, last - CachedBehindDefault},
		{3 * dropStep, last - 3*dropStep},
		{last, 0},
		{0, 0}, // everything stays
	} {
		f := newFile(t, 0)
		f.(*osFile).d.CacheBehind(c.behind)
		for off := int64(0); off <= last; off += dropStep {
			if err := f.WriteAt(chunk, off); err != nil {
				t.Fatal(err)
			}
			WriteBack(f, off, dropStep)
		}
		if dropped := f.(*osFile).dropped; dropped != c.dropped {
			t.Errorf("with %d bytes behind the end %d are given up, want %d", c.behind, dropped, c.dropped)
		}
		got := make([]byte, dropStep)
		if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, chunk) {
			t.Errorf("what was given up reads as something else: %v", err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
}

// WriteBack only asks: the file reads as before, and a Sync after it is a Sync.
func TestWriteBackChangesNothing(t *testing.T) {
	f := newFile(t, 4096)
	if err := f.WriteAt([]byte("abc"), 1000); err != nil {
		t.Fatal(err)
	}
	WriteBack(f, 0, 4096)
	WriteBack(f, 1<<40, 1) // beyond the end: nothing to do
	got := make([]byte, 3)
	if _, err := f.ReadAt(got, 1000); err != nil || string(got) != "abc" {
		t.Fatalf("read %q, %v", got, err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

// Room is set aside in proportion to what a file has, is no part of its length, and is
// given back.
func TestReserveIsBoundedAndGivenBack(t *testing.T) {
	f := newFile(t, 0)
	blocks := func() int64 {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Fstat(int(f.(*osFile).f.Fd()), &st); err != nil {
			t.Fatal(err)
		}
		return st.Blocks * 512
	}
	const size = 8 << 20
	Reserve(f, size)
	if blocks() < size {
		t.Skip("this filesystem sets nothing aside")
	}
	if most := int64(size + size/reservePart + 1<<20); blocks() > most {
		t.Errorf("%d bytes set aside for %d, want %d at most", blocks(), size, most)
	}
	if got, err := f.Size(); err != nil || got != 0 {
		t.Errorf("the length is %d, %v: want 0", got, err)
	}
	before := f.(*osFile).reserved
	Reserve(f, size+1)
	if got := f.(*osFile).reserved; got != before {
		t.Errorf("asked again for %d although %d are reserved", got, before)
	}
	if err := f.WriteAt(make([]byte, 4096), 0); err != nil {
		t.Fatal(err)
	}
	Unreserve(f)
	if got := blocks(); got > 1<<20 {
		t.Errorf("%d bytes are still set aside", got)
	}
	if got, err := f.Size(); err != nil || got != 4096 {
		t.Errorf("the length is %d, %v: want 4096", got, err)
	}
	if Reserve(f, 1<<40); f.(*osFile).reserved < 1<<40 {
		t.Error("a filesystem that is full is asked again and again")
	}
}

// newFile makes a file of size bytes on a disk of its own.
func newFile(t *testing.T, size int64) File {
	t.Helper()
	d, err := OpenOS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	f, err := d.Create("f", size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
