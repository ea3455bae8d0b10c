package engine

import (
	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
)

// mortal is a disk that is gone after some more calls: nothing reaches it any more,
// and who calls is told so. That is where a process is killed or a machine loses
// power, wherever in a job it is.
type mortal struct {
	disk.Disk
	left int // calls; 0: for ever
	dead bool
}

func (m *mortal) call() error {
	if m.left > 0 {
		m.left--
		m.dead = m.left == 0
	}
	if m.dead {
		return memdisk.ErrCrashed
	}
	return nil
}

func (m *mortal) Create(name string, size int64) (disk.File, error) {
	if err := m.call(); err != nil {
		return nil, err
	}
	f, err := m.Disk.Create(name, size)
	return mortalFile{f, m}, err
}

func (m *mortal) Open(name string) (disk.File, error) {
	if err := m.call(); err != nil {
		return nil, err
	}
	f, err := m.Disk.Open(name)
	return mortalFile{f, m}, err
}

func (m *mortal) Rename(from, to string) error {
	if err := m.call(); err != nil {
		return err
	}
	return m.Disk.Rename(from, to)
}

func (m *mortal) Remove(name string) error {
	if err := m.call(); err != nil {
		return err
	}
	return m.Disk.Remove(name)
}

func (m *mortal) MkdirAll(dir string) error {
	if err := m.call(); err != nil {
		return err
	}
	return m.Disk.MkdirAll(dir)
}

func (m *mortal) SyncDir(dir string) error {
	if err := m.call(); err != nil {
		return err
	}
	return m.Disk.SyncDir(dir)
}

type mortalFile struct {
	disk.File
	m *mortal
}

func (f mortalFile) WriteAt(p []byte, off int64) error {
	if err := f.m.call(); err != nil {
		return err
	}
	return f.File.WriteAt(p, off)
}

func (f mortalFile) WritevAt(bufs [][]byte, off int64) error {
	if err := f.m.call(); err != nil {
		return err
	}
	return f.File.WritevAt(bufs, off)
}

func (f mortalFile) Truncate(size int64) error {
	if err := f.m.call(); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f mortalFile) Sync() error {
	if err := f.m.call(); err != nil {
		return err
	}
	return f.File.Sync()
}
