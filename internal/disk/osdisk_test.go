//go:build linux

package disk_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"galgo/internal/disk"
	"galgo/internal/disk/disktest"
)

func openOS(t *testing.T, dir string) *disk.OS {
	t.Helper()
	d, err := disk.OpenOS(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestOSConformance(t *testing.T) {
	disktest.Run(t, func(t *testing.T) disk.Disk { return openOS(t, t.TempDir()) })
}

func TestOSMakesRoot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	d := openOS(t, dir)
	if d.Dir() != dir {
		t.Fatalf("dir %s, want %s", d.Dir(), dir)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("data directory: %v, %v, want mode 0700", info, err)
	}
}

// The lock is seen by another opening of the same directory, in this process or
// in another, and ends with Close.
func TestOSLock(t *testing.T) {
	dir := t.TempDir()
	d := openOS(t, dir)
	_, err := disk.OpenOS(dir)
	if !errors.Is(err, disk.ErrLocked) {
		t.Fatalf("second open: %v, want %v", err, disk.ErrLocked)
	}
	for _, part := range []string{dir, fmt.Sprint("process ", os.Getpid()), "stop that process"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	openOS(t, dir)
}

func TestOSLockOfAnotherProcess(t *testing.T) {
	if dir := os.Getenv("GALGO_TEST_LOCK"); dir != "" {
		_, err := disk.OpenOS(dir)
		fmt.Printf("locked=%t\n", errors.Is(err, disk.ErrLocked))
		os.Exit(0)
	}
	dir := t.TempDir()
	d := openOS(t, dir)
	other := func() string {
		cmd := exec.Command(os.Args[0], "-test.run=^TestOSLockOfAnotherProcess$")
		cmd.Env = append(os.Environ(), "GALGO_TEST_LOCK="+dir)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	if got := other(); got != "locked=true" {
		t.Fatalf("while held: %s", got)
	}
	d.Close()
	if got := other(); got != "locked=false" {
		t.Fatalf("after close: %s", got)
	}
}

// A refused open leaves the directory as it was, LOCK included.
func TestOSRefusedOpenChangesNothing(t *testing.T) {
	dir := t.TempDir()
	openOS(t, dir)
	lock := filepath.Join(dir, disk.LockName)
	if err := os.WriteFile(lock, []byte("no number"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := disk.OpenOS(dir)
	if !errors.Is(err, disk.ErrLocked) || !strings.Contains(err.Error(), "left no number") {
		t.Fatalf("open: %v", err)
	}
	if b, _ := os.ReadFile(lock); string(b) != "no number" {
		t.Fatalf("LOCK became %q", b)
	}
}

func TestOSSymlinkStaysInside(t *testing.T) {
	dir := t.TempDir()
	d := openOS(t, dir)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open("link"); err == nil {
		t.Fatal("a symbolic link led out of the data directory")
	}
}

// Blocks of a new file are there, not only its length.
func TestOSCreateAllocates(t *testing.T) {
	d := openOS(t, t.TempDir())
	f, err := d.Create("a", 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := allocated(t, filepath.Join(d.Dir(), "a")); got < 4<<20 {
		t.Fatalf("%d bytes allocated of %d", got, 4<<20)
	}
}

// A create that fails leaves no name for the retry to stumble over.
func TestOSCreateFailsClean(t *testing.T) {
	d := openOS(t, t.TempDir())
	for _, size := range []int64{-1, 1 << 62} {
		if _, err := d.Create("a", size); err == nil {
			t.Fatalf("create with %d bytes succeeded", size)
		}
		if _, err := d.Open("a"); !errors.Is(err, disk.ErrNotExist) {
			t.Fatalf("open after create with %d bytes: %v, want %v", size, err, disk.ErrNotExist)
		}
	}
}

func TestOSFree(t *testing.T) {
	d := openOS(t, t.TempDir())
	free, total, err := d.Free()
	if err != nil || free > total || total == 0 {
		t.Fatalf("free %d of %d, %v", free, total, err)
	}
}

func TestOSWriteAllocatesNothing(t *testing.T) {
	d := openOS(t, t.TempDir())
	f, err := d.Create("a", 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	bufs := [][]byte{make([]byte, 100), make([]byte, 4000), make([]byte, 7)}
	n := testing.AllocsPerRun(100, func() {
		if err := f.WritevAt(bufs, 512); err != nil {
			t.Fatal(err)
		}
	})
	if n > 1 { // the list of iovecs that the system call wants
		t.Fatalf("%v allocations per vectored write, want at most 1", n)
	}
}
