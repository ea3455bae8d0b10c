// Package disktest is the contract of package disk as tests, run against every
// implementation.
package disktest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"galgo/internal/disk"
)

// Run tests the disk that open returns, empty, once per test.
func Run(t *testing.T, open func(t *testing.T) disk.Disk) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, d disk.Disk)
	}{
		{"create", testCreate},
		{"open", testOpen},
		{"read and write", testReadWrite},
		{"vectored write", testWritev},
		{"truncate", testTruncate},
		{"rename", testRename},
		{"remove", testRemove},
		{"list", testList},
		{"directories", testDirectories},
		{"names", testNames},
		{"closed", testClosed},
		{"replace", testReplace},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

func testCreate(t *testing.T, d disk.Disk) {
	const size = 3<<20 + 17 // no multiple of a page or of a chunk
	f := create(t, d, "a", size)
	if got, err := f.Size(); got != size || err != nil {
		t.Fatalf("size of a new file: %d, %v, want %d", got, err, size)
	}
	if got := contents(t, f); !bytes.Equal(got, make([]byte, size)) {
		t.Fatal("a new file is not all zeros")
	}
	if f.Name() != "a" {
		t.Fatalf("name %q, want a", f.Name())
	}
	_, err := d.Create("a", 5)
	wantErr(t, "create of a name that is taken", err, disk.ErrExist)
	if got, _ := f.Size(); got != size {
		t.Fatalf("a refused create changed the size to %d", got)
	}
	_, err = d.Create("none/a", 5)
	wantErr(t, "create in a missing directory", err, disk.ErrNotExist)
	if !strings.Contains(err.Error(), "none/a") {
		t.Fatalf("error %q does not name the file", err)
	}
}

func testOpen(t *testing.T, d disk.Disk) {
	_, err := d.Open("a")
	wantErr(t, "open of a missing file", err, disk.ErrNotExist)
	must(t, d.MkdirAll("dir"))
	if _, err := d.Open("dir"); err == nil {
		t.Fatal("a directory opened as a file")
	}
	f := create(t, d, "dir/a", 0)
	must(t, f.WriteAt([]byte("seen"), 0))
	g, err := d.Open("dir/a")
	must(t, err)
	if got := contents(t, g); string(got) != "seen" {
		t.Fatalf("a second handle sees %q, want seen", got)
	}
	must(t, f.Sync())
	must(t, errors.Join(f.Close(), g.Close()))
}

func testReadWrite(t *testing.T, d disk.Disk) {
	f := create(t, d, "a", 10)
	must(t, f.WriteAt([]byte("abc"), 8)) // beyond the end: grows
	must(t, f.WriteAt(nil, 100))         // of nothing: does not
	if got := string(contents(t, f)); got != "\x00\x00\x00\x00\x00\x00\x00\x00abc" {
		t.Fatalf("contents %q", got)
	}
	must(t, f.WriteAt([]byte("z"), 20)) // a hole reads as zeros
	if got := contents(t, f)[11:]; !bytes.Equal(got, append(make([]byte, 9), 'z')) {
		t.Fatalf("after a hole: %q", got)
	}
	p := make([]byte, 5)
	if n, err := f.ReadAt(p, 18); n != 3 || err != io.EOF || p[2] != 'z' {
		t.Fatalf("short read: %d, %v, %q, want 3, EOF", n, err, p)
	}
	if n, err := f.ReadAt(p, 500); n != 0 || err != io.EOF {
		t.Fatalf("read past the end: %d, %v, want 0, EOF", n, err)
	}
	if err := f.WriteAt([]byte("x"), -1); err == nil {
		t.Fatal("a write at a negative offset succeeded")
	}
}

func testWritev(t *testing.T, d disk.Disk) {
	f := create(t, d, "a", 0)
	var bufs [][]byte
	for i := range 3000 { // more than one system call takes, empty ones among them
		bufs = append(bufs, bytes.Repeat([]byte{byte(i)}, i%7))
	}
	want := slices.Concat(bufs...)
	before := fmt.Sprint(bufs)
	must(t, f.WritevAt(bufs, 3))
	if got := contents(t, f)[3:]; !bytes.Equal(got, want) {
		t.Fatalf("%d bytes came back of %d, or others", len(got), len(want))
	}
	if fmt.Sprint(bufs) != before {
		t.Fatal("WritevAt changed the buffers")
	}
	must(t, f.WritevAt(nil, 5))
	must(t, f.WritevAt([][]byte{nil, {}}, 1<<20))
	if got, _ := f.Size(); got != int64(3+len(want)) {
		t.Fatalf("writing nothing changed the size to %d", got)
	}
}

func testTruncate(t *testing.T, d disk.Disk) {
	f := create(t, d, "a", 0)
	must(t, f.WriteAt(bytes.Repeat([]byte("x"), 9000), 0))
	must(t, f.Truncate(5))
	must(t, f.Truncate(9000))
	if got := contents(t, f); !bytes.Equal(got, append([]byte("xxxxx"), make([]byte, 8995)...)) {
		t.Fatal("bytes that were cut off came back")
	}
	if err := f.Truncate(-1); err == nil {
		t.Fatal("truncate to -1 succeeded")
	}
}

func testRename(t *testing.T, d disk.Disk) {
	must(t, d.MkdirAll("x"))
	f := create(t, d, "a", 0)
	must(t, f.WriteAt([]byte("new"), 0))
	old := create(t, d, "x/b", 0)
	must(t, old.WriteAt([]byte("old"), 0))
	must(t, d.Rename("a", "x/b"))
	_, err := d.Open("a")
	wantErr(t, "open of the old name", err, disk.ErrNotExist)
	if got := read(t, d, "x/b"); got != "new" {
		t.Fatalf("the new name has %q, want new", got)
	}
	if got := string(contents(t, old)); got != "old" {
		t.Fatalf("an open handle of the replaced file sees %q, want old", got)
	}
	must(t, f.WriteAt([]byte("N"), 0))
	if got := read(t, d, "x/b"); got != "New" {
		t.Fatalf("a handle does not follow its file: %q", got)
	}
	wantErr(t, "rename of a missing file", d.Rename("a", "c"), disk.ErrNotExist)
	must(t, d.Rename("x", "y"))
	if got := read(t, d, "y/b"); got != "New" {
		t.Fatalf("below a renamed directory: %q", got)
	}
	if err := d.Rename("y/b", "y"); err == nil {
		t.Fatal("a file replaced a directory")
	}
}

func testRemove(t *testing.T, d disk.Disk) {
	must(t, d.MkdirAll("x"))
	f := create(t, d, "x/a", 0)
	if err := d.Remove("x"); err == nil {
		t.Fatal("a directory with a file was removed")
	}
	must(t, d.Remove("x/a"))
	wantErr(t, "second remove", d.Remove("x/a"), disk.ErrNotExist)
	must(t, f.WriteAt([]byte("still"), 0))
	if got := string(contents(t, f)); got != "still" {
		t.Fatalf("a handle of a removed file sees %q", got)
	}
	must(t, d.Remove("x"))
	_, err := d.List("x")
	wantErr(t, "list of a removed directory", err, disk.ErrNotExist)
}

func testList(t *testing.T, d disk.Disk) {
	must(t, d.MkdirAll("x/sub"))
	for _, name := range []string{"b", "a10", "a9", "Z"} {
		create(t, d, "x/"+name, int64(len(name)))
	}
	got, err := d.List("x")
	must(t, err)
	want := []disk.Entry{{Name: "Z", Size: 1}, {Name: "a10", Size: 3}, {Name: "a9", Size: 2}, {Name: "b", Size: 1}, {Name: "sub", Dir: true}}
	if !slices.Equal(got, want) {
		t.Fatalf("list: %v, want %v", got, want)
	}
	_, err = d.List("none")
	wantErr(t, "list of a missing directory", err, disk.ErrNotExist)
	if _, err := d.List("x/b"); err == nil {
		t.Fatal("a file was listed")
	}
}

func testDirectories(t *testing.T, d disk.Disk) {
	must(t, d.MkdirAll("a/b/c"))
	must(t, d.MkdirAll("a/b/c"))
	must(t, d.MkdirAll("."))
	create(t, d, "a/b/c/f", 1)
	for _, dir := range []string{".", "a", "a/b", "a/b/c"} {
		must(t, d.SyncDir(dir))
	}
	wantErr(t, "sync of a missing directory", d.SyncDir("none"), disk.ErrNotExist)
	if err := d.SyncDir("a/b/c/f"); err == nil {
		t.Fatal("a file was synced as a directory")
	}
	if err := d.MkdirAll("a/b/c/f/g"); err == nil {
		t.Fatal("a directory was made below a file")
	}
}

func testNames(t *testing.T, d disk.Disk) {
	for _, name := range []string{"", "/a", "../a", "a/../b", "a//b", "./a", "a/"} {
		_, err := d.Create(name, 0)
		wantErr(t, fmt.Sprintf("create %q", name), err, disk.ErrName)
		_, err = d.Open(name)
		wantErr(t, fmt.Sprintf("open %q", name), err, disk.ErrName)
		_, err = d.List(name)
		wantErr(t, fmt.Sprintf("list %q", name), err, disk.ErrName)
		wantErr(t, fmt.Sprintf("rename %q", name), d.Rename(name, "b"), disk.ErrName)
		wantErr(t, fmt.Sprintf("rename to %q", name), d.Rename("b", name), disk.ErrName)
		wantErr(t, fmt.Sprintf("remove %q", name), d.Remove(name), disk.ErrName)
		wantErr(t, fmt.Sprintf("mkdir %q", name), d.MkdirAll(name), disk.ErrName)
		wantErr(t, fmt.Sprintf("syncdir %q", name), d.SyncDir(name), disk.ErrName)
	}
}

func testClosed(t *testing.T, d disk.Disk) {
	f := create(t, d, "a", 4)
	must(t, f.Close())
	_, err := f.ReadAt(make([]byte, 1), 0)
	if err == nil || f.WriteAt([]byte("x"), 0) == nil || f.WritevAt([][]byte{[]byte("x")}, 0) == nil ||
		f.Sync() == nil || f.Truncate(0) == nil || f.Close() == nil {
		t.Fatal("a closed file works")
	}
	if got := read(t, d, "a"); got != "\x00\x00\x00\x00" {
		t.Fatalf("a closed file was changed to %q", got)
	}
}

func testReplace(t *testing.T, d disk.Disk) {
	must(t, d.MkdirAll("x"))
	create(t, d, "x/a.tmp", 100) // left by an earlier attempt
	for _, content := range []string{"first", "2nd", ""} {
		must(t, disk.Replace(d, "x/a", [][]byte{[]byte(content[:len(content)/2]), []byte(content[len(content)/2:])}))
		if got := read(t, d, "x/a"); got != content {
			t.Fatalf("replaced by %q, read %q", content, got)
		}
	}
	if entries, _ := d.List("x"); len(entries) != 1 {
		t.Fatalf("left in the directory: %v", entries)
	}
}

func create(t *testing.T, d disk.Disk, name string, size int64) disk.File {
	t.Helper()
	f, err := d.Create(name, size)
	must(t, err)
	return f
}

func read(t *testing.T, d disk.Disk, name string) string {
	t.Helper()
	f, err := d.Open(name)
	must(t, err)
	defer f.Close()
	return string(contents(t, f))
}

func contents(t *testing.T, f disk.File) []byte {
	t.Helper()
	size, err := f.Size()
	must(t, err)
	p := make([]byte, size)
	if n, err := f.ReadAt(p, 0); int64(n) != size || err != nil {
		t.Fatalf("read %s: %d of %d bytes, %v", f.Name(), n, size, err)
	}
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: %v, want %v", what, err, want)
	}
}
