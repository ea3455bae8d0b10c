package sim

import (
	"math/rand/v2"
	"strings"

	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
)

// tap is the disk as one life of a node sees it. It puts each call that changes
// something into the fingerprint of the run, and may die at one: nothing reaches
// the disk from then on, and who calls is told so.
type tap struct {
	w    *world
	node uint8
	d    *memdisk.Disk
	dead bool
	doom *doom
	last memdisk.Call // that changed something
}

// doom is a call at which a node dies.
type doom struct {
	ops  memdisk.Op
	part string // of the name; "" is any
	left int    // matching calls until then
	rng  *rand.Rand
	hit  memdisk.Call

	ambush string // after what it was set; "" if it was not
}

// call takes note of a call and decides whether it happens.
func (t *tap) call(op memdisk.Op, name string, content uint32) error {
	if t.dead {
		return memdisk.ErrCrashed
	}
	t.w.mark(markDisk, uint64(t.node), uint64(op), markText(name), uint64(content))
	if was := t.last; was.Op != 0 {
		t.w.nemesis.lurk(t, was.Op, was.Name)
		t.w.nemesis.deny(t, was.Op, was.Name)
	}
	t.last = memdisk.Call{Op: op, Name: name}
	if d := t.doom; d != nil && d.ops&op != 0 && strings.Contains(name, d.part) {
		if d.left--; d.left <= 0 {
			t.dead = true
			d.hit = t.last
			return memdisk.ErrCrashed
		}
	}
	return nil
}

// part says how much of the call at which the node died was done.
func (t *tap) part(size int) int {
	if t.doom == nil || size == 0 {
		return 0
	}
	switch t.doom.rng.IntN(3) {
	case 0:
		return 0
	case 1:
		return size
	}
	return t.doom.rng.IntN(size)
}

func (t *tap) Create(name string, size int64) (disk.File, error) {
	if err := t.call(memdisk.OpCreate, name, uint32(size)); err != nil {
		return nil, err
	}
	f, err := t.d.Create(name, size)
	return t.file(f, err)
}

func (t *tap) Open(name string) (disk.File, error) {
	if t.dead {
		return nil, memdisk.ErrCrashed
	}
	f, err := t.d.Open(name)
	return t.file(f, err)
}

func (t *tap) file(f disk.File, err error) (disk.File, error) {
	if err != nil {
		return nil, err
	}
	return tapFile{f, t}, nil
}

func (t *tap) Rename(from, to string) error {
	if err := t.call(memdisk.OpRename, from, 0); err != nil {
		return err
	}
	err := t.d.Rename(from, to)
	if err == nil {
		t.w.nemesis.doubt(t, to)
	}
	return err
}

func (t *tap) Remove(name string) error {
	if err := t.call(memdisk.OpRemove, name, 0); err != nil {
		return err
	}
	return t.d.Remove(name)
}

func (t *tap) List(dir string) ([]disk.Entry, error) {
	if t.dead {
		return nil, memdisk.ErrCrashed
	}
	return t.d.List(dir)
}

func (t *tap) MkdirAll(dir string) error {
	if err := t.call(memdisk.OpMkdirAll, dir, 0); err != nil {
		return err
	}
	return t.d.MkdirAll(dir)
}

func (t *tap) SyncDir(dir string) error {
	if err := t.call(memdisk.OpSyncDir, dir, 0); err != nil {
		return err
	}
	return t.d.SyncDir(dir)
}

type tapFile struct {
	disk.File
	t *tap
}

func (f tapFile) ReadAt(p []byte, off int64) (int, error) {
	if f.t.dead {
		return 0, memdisk.ErrCrashed
	}
	return f.File.ReadAt(p, off)
}

func (f tapFile) WriteAt(p []byte, off int64) error { return f.WritevAt([][]byte{p}, off) }

func (f tapFile) WritevAt(bufs [][]byte, off int64) error {
	was := f.t.dead
	if err := f.t.call(memdisk.OpWrite, f.Name(), content(bufs, off)); err != nil {
		if !was {
			f.tear(bufs, off)
		}
		return err
	}
	err := f.File.WritevAt(bufs, off)
	if err == nil {
		f.t.w.nemesis.stray(f.t, f.Name(), off, sizeOf(bufs))
	}
	return err
}

func sizeOf(bufs [][]byte) (n int) {
	for _, b := range bufs {
		n += len(b)
	}
	return n
}

// tear does a part of the write at which the node dies.
func (f tapFile) tear(bufs [][]byte, off int64) {
	var all []byte
	for _, b := range bufs {
		all = append(all, b...)
	}
	if n := f.t.part(len(all)); n > 0 {
		_ = f.File.WriteAt(all[:n], off)
	}
}

func (f tapFile) Truncate(size int64) error {
	if err := f.t.call(memdisk.OpTruncate, f.Name(), uint32(size)); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f tapFile) Sync() error {
	if err := f.t.call(memdisk.OpSync, f.Name(), 0); err != nil {
		return err
	}
	return f.File.Sync()
}
