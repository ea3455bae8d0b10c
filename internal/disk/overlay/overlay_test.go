package overlay

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"testing"

	"galgo/internal/disk"
	"galgo/internal/disk/disktest"
	"galgo/internal/disk/memdisk"
)

func TestDisk(t *testing.T) {
	disktest.Run(t, func(*testing.T) disk.Disk { return New(memdisk.New(memdisk.Options{})) })
}

// untouched is a disk that fails the test when something is changed.
type untouched struct {
	disk.Disk
	t *testing.T
}

type untouchedFile struct {
	disk.File
	t *testing.T
}

func (u untouched) Open(name string) (disk.File, error) {
	f, err := u.Disk.Open(name)
	if err != nil {
		return nil, err
	}
	return untouchedFile{f, u.t}, nil
}

func (u untouched) Create(name string, size int64) (disk.File, error) {
	u.t.Errorf("create %s", name)
	return nil, disk.ErrExist
}
func (u untouched) Rename(a, b string) error  { u.t.Errorf("rename %s to %s", a, b); return nil }
func (u untouched) Remove(name string) error  { u.t.Errorf("remove %s", name); return nil }
func (u untouched) MkdirAll(dir string) error { u.t.Errorf("mkdir %s", dir); return nil }
func (u untouched) SyncDir(dir string) error  { u.t.Errorf("sync %s", dir); return nil }

func (f untouchedFile) WriteAt([]byte, int64) error    { f.t.Error("write"); return nil }
func (f untouchedFile) WritevAt([][]byte, int64) error { f.t.Error("write"); return nil }
func (f untouchedFile) Truncate(int64) error           { f.t.Error("truncate"); return nil }
func (f untouchedFile) Sync() error                    { f.t.Error("sync"); return nil }

// Whatever is done to a copy of a disk, an overlay of that disk shows the same, and the
// disk stays as it is.
func TestOverlayIsACopy(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		base, copied := memdisk.New(memdisk.Options{}), memdisk.New(memdisk.Options{})
		for _, d := range []disk.Disk{base, copied} {
			fill(t, d, rand.New(rand.NewPCG(seed, 1)))
		}
		over := New(untouched{base, t})
		before := show(t, base)
		for range 40 {
			change := rng.Uint64()
			want := act(copied, rand.New(rand.NewPCG(change, 2)))
			got := act(over, rand.New(rand.NewPCG(change, 2)))
			if (got == nil) != (want == nil) {
				t.Fatalf("seed %d: %v, want %v", seed, got, want)
			}
			if got, want := show(t, over), show(t, copied); got != want {
				t.Fatalf("seed %d: the overlay shows\n%s\nwant\n%s", seed, got, want)
			}
		}
		if show(t, base) != before {
			t.Fatalf("seed %d: the disk below was changed", seed)
		}
	}
}

func fill(t *testing.T, d disk.Disk, rng *rand.Rand) {
	if err := d.MkdirAll("dir"); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		f, err := d.Create(nameOf(i), 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.WriteAt(noise(rng, rng.IntN(5*pageSize)), 0); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
}

func nameOf(i int) string {
	if i%2 == 0 {
		return fmt.Sprint("f", i)
	}
	return fmt.Sprint("dir/f", i)
}

func noise(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// act does one thing to a disk.
func act(d disk.Disk, rng *rand.Rand) error {
	name := nameOf(rng.IntN(6))
	switch rng.IntN(6) {
	case 0:
		return d.Remove(name)
	case 1:
		return d.Rename(name, nameOf(rng.IntN(6)))
	case 2:
		f, err := d.Create(name, int64(rng.IntN(3*pageSize)))
		if err == nil {
			f.Close()
		}
		return err
	}
	f, err := d.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if rng.IntN(2) == 0 {
		return f.Truncate(int64(rng.IntN(5 * pageSize)))
	}
	return f.WritevAt([][]byte{noise(rng, rng.IntN(pageSize)), noise(rng, rng.IntN(2*pageSize))}, int64(rng.IntN(4*pageSize)))
}

// show is everything on a disk, read in pieces of odd sizes.
func show(t *testing.T, d disk.Disk) string {
	var b bytes.Buffer
	for _, dir := range []string{".", "dir"} {
		entries, err := d.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			fmt.Fprintf(&b, "%s/%s %v %d\n", dir, e.Name, e.Dir, e.Size)
			if e.Dir {
				continue
			}
			f, err := d.Open(dir + "/" + e.Name)
			if dir == "." {
				f, err = d.Open(e.Name)
			}
			if err != nil {
				t.Fatal(err)
			}
			sum := fnv.New64()
			if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, io.NewSectionReader(f, 0, e.Size), make([]byte, 1777)); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%x\n", sum.Sum(nil))
			f.Close()
		}
	}
	return b.String()
}
