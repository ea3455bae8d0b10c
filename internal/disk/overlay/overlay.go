// Package overlay is a disk that keeps in memory what is changed and reads all else
// from another one, which it never writes to. On it the code of a start runs over a data
// directory that must stay as it is.
package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"galgo/internal/disk"
)

// Disk is safe for use by many goroutines. Of a file it keeps the pages that were
// written, so a large one that is changed in few places costs little.
type Disk struct {
	mu    sync.Mutex
	base  disk.Disk
	names map[string]*node // nil: removed; of names that are not here the base is asked
}

// node is a directory that was made here, or a file that is open, changed or made here.
type node struct {
	dir   bool
	size  int64
	pages map[int64][]byte
	below disk.File // of the base, while a handle needs it; else nil
	name  string    // in the base; "" if nothing of it counts
	reach int64     // bytes of the base that still count
	users int
	own   bool // it is not, or no longer, as the base has it
}

var _ disk.Disk = (*Disk)(nil)

// New lays an empty overlay over base, of which only Open, List, ReadAt and Size are used.
func New(base disk.Disk) *Disk {
	return &Disk{base: base, names: make(map[string]*node)}
}

func wrap(op, name string, err error) error { return fmt.Errorf("overlay: %s %s: %w", op, name, err) }

var (
	errIsDir    = errors.New("is a directory")
	errNotDir   = errors.New("is not a directory")
	errNotEmpty = errors.New("directory is not empty")
	errNegative = errors.New("negative offset or size")
)

// isDir reports whether there is a directory of that name.
func (d *Disk) isDir(name string) bool {
	if name == "." {
		return true
	}
	if n, known := d.names[name]; known {
		return n != nil && n.dir
	}
	_, err := d.base.List(name)
	return err == nil
}

// file finds a file, or says why there is none.
func (d *Disk) file(name string) (*node, error) {
	if n, known := d.names[name]; known {
		switch {
		case n == nil:
			return nil, disk.ErrNotExist
		case n.dir:
			return nil, errIsDir
		}
		return n, d.attach(n)
	}
	if d.isDir(name) {
		return nil, errIsDir
	}
	n := &node{name: name}
	if err := d.attach(n); err != nil {
		return nil, err
	}
	size, err := n.below.Size()
	if err != nil {
		return nil, errors.Join(err, n.below.Close())
	}
	n.size, n.reach = size, size
	d.names[name] = n
	return n, nil
}

// attach opens what a file has in the base.
func (d *Disk) attach(n *node) (err error) {
	if n.name != "" && n.below == nil {
		n.below, err = d.base.Open(n.name)
	}
	return err
}

// detach closes it again, and forgets a file that is as the base has it.
func (d *Disk) detach(at string, n *node) error {
	if n.users > 0 || n.below == nil {
		return nil
	}
	if !n.own && d.names[at] == n {
		delete(d.names, at)
	}
	below := n.below
	n.below = nil
	return below.Close()
}

// Create implements disk.Disk.
func (d *Disk) Create(name string, size int64) (disk.File, error) {
	if err := disk.CheckName(name); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if size < 0 {
		return nil, wrap("create", name, errNegative)
	}
	if !d.isDir(path.Dir(name)) {
		return nil, wrap("create", name, disk.ErrNotExist)
	}
	if there, err := d.file(name); err == nil {
		return nil, errors.Join(wrap("create", name, disk.ErrExist), d.detach(name, there))
	} else if !errors.Is(err, disk.ErrNotExist) {
		return nil, wrap("create", name, disk.ErrExist)
	}
	n := &node{size: size, own: true, users: 1}
	d.names[name] = n
	return &file{d: d, n: n, name: name}, nil
}

// Open implements disk.Disk.
func (d *Disk) Open(name string) (disk.File, error) {
	if err := disk.CheckName(name); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.file(name)
	if err != nil {
		return nil, wrap("open", name, err)
	}
	n.users++
	return &file{d: d, n: n, name: name}, nil
}

// Rename implements disk.Disk.
func (d *Disk) Rename(oldname, newname string) error {
	if err := errors.Join(disk.CheckName(oldname), disk.CheckName(newname)); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.rename(oldname, newname); err != nil {
		return wrap("rename", oldname, err)
	}
	return nil
}

func (d *Disk) rename(oldname, newname string) error {
	if d.isDir(oldname) {
		return d.renameDir(oldname, newname)
	}
	n, err := d.file(oldname)
	switch {
	case err != nil:
		return err
	case d.isDir(newname):
		return errors.Join(errIsDir, d.detach(oldname, n))
	case !d.isDir(path.Dir(newname)):
		return errors.Join(disk.ErrNotExist, d.detach(oldname, n))
	}
	n.own = true
	d.names[oldname], d.names[newname] = nil, n
	return d.detach(newname, n)
}

func (d *Disk) renameDir(oldname, newname string) error {
	entries, err := d.list(oldname)
	if err != nil {
		return err
	}
	if _, err := d.file(newname); err == nil {
		return errNotDir
	}
	d.names[newname] = &node{dir: true}
	for _, e := range entries {
		if err := d.rename(path.Join(oldname, e.Name), path.Join(newname, e.Name)); err != nil {
			return err
		}
	}
	d.names[oldname] = nil
	return nil
}

// Remove implements disk.Disk.
func (d *Disk) Remove(name string) error {
	if err := disk.CheckName(name); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isDir(name) {
		if entries, err := d.list(name); err != nil || len(entries) > 0 {
			return wrap("remove", name, errors.Join(errNotEmpty, err))
		}
		d.names[name] = nil
		return nil
	}
	n, err := d.file(name)
	if err != nil {
		return wrap("remove", name, err)
	}
	d.names[name] = nil
	return d.detach(name, n)
}

// List implements disk.Disk.
func (d *Disk) List(dir string) ([]disk.Entry, error) {
	if err := disk.CheckName(dir); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	entries, err := d.list(dir)
	if err != nil {
		return nil, wrap("list", dir, err)
	}
	return entries, nil
}

func (d *Disk) list(dir string) ([]disk.Entry, error) {
	if n, known := d.names[dir]; known && n == nil {
		return nil, disk.ErrNotExist
	}
	entries, err := d.base.List(dir)
	if err != nil && !d.isDir(dir) {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e disk.Entry) bool {
		_, known := d.names[path.Join(dir, e.Name)]
		return known
	})
	for name, n := range d.names {
		if n != nil && name != "." && path.Dir(name) == dir {
			entries = append(entries, disk.Entry{Name: path.Base(name), Dir: n.dir, Size: n.size})
		}
	}
	slices.SortFunc(entries, func(a, b disk.Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

// MkdirAll implements disk.Disk.
func (d *Disk) MkdirAll(dir string) error {
	if err := disk.CheckName(dir); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.makeDir(dir)
}

func (d *Disk) makeDir(dir string) error {
	if d.isDir(dir) {
		return nil
	}
	if err := d.makeDir(path.Dir(dir)); err != nil {
		return err
	}
	if n, err := d.file(dir); err == nil {
		return errors.Join(wrap("mkdir", dir, errNotDir), d.detach(dir, n))
	}
	d.names[dir] = &node{dir: true}
	return nil
}

// SyncDir implements disk.Disk. Nothing survives this process.
func (d *Disk) SyncDir(dir string) error {
	if err := disk.CheckName(dir); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isDir(dir) {
		return nil
	}
	if n, err := d.file(dir); err == nil {
		return errors.Join(wrap("sync", dir, errNotDir), d.detach(dir, n))
	}
	return wrap("sync", dir, fs.ErrNotExist)
}
