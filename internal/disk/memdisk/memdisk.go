// Package memdisk is a disk in memory that crashes, tears and corrupts, for
// tests. It keeps what package disk promises to keep and, when asked to lose
// power, nothing more than that.
//
// A test runs its workload against a Disk and ends it in one of two ways. Kill
// is the end of the process: the bytes written stay, synced or not. PowerLoss is
// the end of the machine: what was not synced survives in a mixture drawn from a
// generator. Both return a new Disk to recover from, and the old one is dead:
// whoever still holds it gets ErrCrashed. To end at each step in turn, give New
// a call to crash at, and count the calls of a run that ended by itself.
//
//	for k := 1; ; k++ {
//		d := memdisk.New(memdisk.Options{CrashAt: k, Rand: rng})
//		acked, err := workload(d)
//		check(acked, d.PowerLoss(rng)) // as often as wanted: d does not change
//		if err == nil {
//			return // the workload ended before call k: every point was tried
//		}
//	}
//
// Everything is deterministic: chance comes from the generators handed in, and
// neither time nor the order of a map has a say.
package memdisk

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"

	"galgo/internal/disk"
)

// Sentinel errors of faults, wrapped with the operation and the name.
var (
	// ErrCrashed: the disk was crashed, killed or lost power; no call works.
	ErrCrashed = errors.New("memdisk: crashed")
	// ErrIO: an injected failure of the device.
	ErrIO = errors.New("memdisk: injected i/o error")

	errIsDir    = errors.New("is a directory")
	errNotDir   = errors.New("not a directory")
	errNotEmpty = errors.New("directory not empty")
)

// Options of a Disk. The zero value is a disk that works and never fills up.
type Options struct {
	// CrashAt is the number of the call, counted from 1, that fails with
	// ErrCrashed, as do all after it. 0: never.
	CrashAt int
	// Rand decides how much of call CrashAt happens: nothing, a part of it, or
	// all of it without the caller knowing. Nil: nothing.
	Rand *rand.Rand
	// Capacity is the sum of the sizes of all files, in bytes, above which
	// writes get disk.ErrNoSpace. 0: no limit.
	Capacity int64
	// Trace keeps every call for Trace.
	Trace bool
	// OnCall is told of every call before it happens, with no lock held. It may
	// use the disk.
	OnCall func(Call)
}

// Disk implements disk.Disk in memory. Methods may be called at the same time.
type Disk struct {
	mu     sync.Mutex
	opt    Options
	root   *node
	names  []*nameChange // of all directories, in order
	faults []*armed
	dead   bool
	calls  int
	reads  int
	trace  []Call
}

var _ disk.Disk = (*Disk)(nil)

// New returns an empty disk.
func New(opt Options) *Disk { return &Disk{opt: opt, root: newDir()} }

// FailFrom returns a disk whose call number k, counted from 1, and all after it
// fail without any effect.
func FailFrom(k int) *Disk { return New(Options{CrashAt: k}) }

// CrashAt returns a disk whose call number k, counted from 1, fails in the
// middle; all after it fail.
func CrashAt(k int, rng *rand.Rand) *Disk { return New(Options{CrashAt: k, Rand: rng}) }

// Create implements disk.Disk. Both the name and the zeros are only in memory
// until SyncDir and Sync.
func (d *Disk) Create(name string, size int64) (disk.File, error) {
	d.tell(OpCreate, name)
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.begin(OpCreate, name)
	dir, base, err := d.parent(name)
	switch {
	case err != nil && v.err == nil:
		return nil, wrap(OpCreate, name, err)
	case err == nil && dir.live[base] != nil && v.err == nil:
		return nil, wrap(OpCreate, name, disk.ErrExist)
	case v.err == nil && !d.fits(size):
		return nil, wrap(OpCreate, name, disk.ErrNoSpace)
	case v.crashed && err == nil && dir.live[base] == nil && v.happens():
		d.create(dir, base, v.part(size))
	}
	if v.err != nil {
		return nil, v.err
	}
	return &file{d: d, n: d.create(dir, base, size), name: name}, nil
}

func (d *Disk) create(dir *node, base string, size int64) *node {
	n := newFile()
	dir.live[base] = n
	d.recordName(nameChange{kind: nameCreated, node: n, dir: dir, name: base})
	if size > 0 {
		n.write(change{truncate: true, off: size})
	}
	return n
}

// Open implements disk.Disk.
func (d *Disk) Open(name string) (disk.File, error) {
	d.tell(OpOpen, name)
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.begin(OpOpen, name); v.err != nil {
		return nil, v.err
	}
	n, err := d.find(name)
	if err == nil && n.isDir {
		err = errIsDir
	}
	if err != nil {
		return nil, wrap(OpOpen, name, err)
	}
	return &file{d: d, n: n, name: name}, nil
}

// Rename implements disk.Disk.
func (d *Disk) Rename(oldname, newname string) error {
	d.tell(OpRename, oldname)
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.begin(OpRename, oldname)
	if v.err != nil && !(v.crashed && v.happens()) {
		return v.err
	}
	if err := d.rename(oldname, newname); err != nil && v.err == nil {
		return wrap(OpRename, oldname+" to "+newname, err)
	}
	return v.err
}

func (d *Disk) rename(oldname, newname string) error {
	oldDir, oldBase, err := d.parent(oldname)
	if err != nil {
		return err
	}
	dir, base, err := d.parent(newname)
	if err != nil {
		return err
	}
	n, target := oldDir.live[oldBase], dir.live[base]
	switch {
	case n == nil:
		return disk.ErrNotExist
	case n == target:
		return nil
	case target != nil && target.isDir:
		return errIsDir
	case target != nil && n.isDir:
		return errNotDir
	case newname == oldname || strings.HasPrefix(newname, oldname+"/"):
		return disk.ErrName
	}
	delete(oldDir.live, oldBase)
	dir.live[base] = n
	d.recordName(nameChange{kind: nameRenamed, node: n, dir: dir, name: base, oldDir: oldDir, oldName: oldBase})
	return nil
}

// Remove implements disk.Disk.
func (d *Disk) Remove(name string) error {
	d.tell(OpRemove, name)
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.begin(OpRemove, name)
	if v.err != nil && !(v.crashed && v.happens()) {
		return v.err
	}
	if err := d.remove(name); err != nil && v.err == nil {
		return wrap(OpRemove, name, err)
	}
	return v.err
}

func (d *Disk) remove(name string) error {
	dir, base, err := d.parent(name)
	if err != nil {
		return err
	}
	n := dir.live[base]
	if n == nil {
		return disk.ErrNotExist
	}
	if n.isDir && len(n.live) > 0 {
		return errNotEmpty
	}
	delete(dir.live, base)
	d.recordName(nameChange{kind: nameRemoved, node: n, dir: dir, name: base})
	return nil
}

// List implements disk.Disk.
func (d *Disk) List(name string) ([]disk.Entry, error) {
	d.tell(OpList, name)
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.begin(OpList, name); v.err != nil {
		return nil, v.err
	}
	dir, err := d.findDir(name)
	if err != nil {
		return nil, wrap(OpList, name, err)
	}
	var entries []disk.Entry
	for _, base := range slices.Sorted(maps.Keys(dir.live)) {
		n := dir.live[base]
		e := disk.Entry{Name: base, Dir: n.isDir}
		if !n.isDir {
			e.Size = n.cache.size
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// MkdirAll implements disk.Disk. As on a real filesystem the sync of a parent
// takes along whatever else waits in it.
func (d *Disk) MkdirAll(name string) error {
	d.tell(OpMkdirAll, name)
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.begin(OpMkdirAll, name)
	if err := disk.CheckName(name); err != nil && v.err == nil {
		return wrap(OpMkdirAll, name, err)
	}
	parts := strings.Split(name, "/")
	if name == "." {
		parts = nil
	}
	sync := true
	if v.err != nil {
		parts, sync = parts[:v.part(int64(len(parts)))], v.happens()
	}
	if err := d.mkdirs(parts, sync); err != nil && v.err == nil {
		return wrap(OpMkdirAll, name, err)
	}
	return v.err
}

// mkdirs syncs each parent, the last one only if syncLast.
func (d *Disk) mkdirs(parts []string, syncLast bool) error {
	dir := d.root
	for i, base := range parts {
		child := dir.live[base]
		if child != nil && !child.isDir {
			return errNotDir
		}
		if child == nil {
			child = newDir()
			dir.live[base] = child
			d.recordName(nameChange{kind: nameCreated, node: child, dir: dir, name: base})
		}
		if syncLast || i < len(parts)-1 {
			d.syncNames(dir)
		}
		dir = child
	}
	return nil
}

// SyncDir implements disk.Disk.
func (d *Disk) SyncDir(name string) error {
	d.tell(OpSyncDir, name)
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.begin(OpSyncDir, name)
	dir, err := d.findDir(name)
	switch {
	case err != nil && v.err == nil:
		return wrap(OpSyncDir, name, err)
	case err == nil && (v.err == nil || v.crashed && v.happens()):
		d.syncNames(dir)
	case err == nil && !v.crashed:
		d.dropNames(dir)
	}
	return v.err
}

// Free returns how many bytes fit and how many there are in all; both are huge
// without Capacity.
func (d *Disk) Free() (free, total uint64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return 0, 0, ErrCrashed
	}
	if d.opt.Capacity == 0 {
		return 1 << 60, 1 << 60, nil
	}
	return uint64(max(0, d.opt.Capacity-used(d.root))), uint64(d.opt.Capacity), nil
}

// fits reports whether files may grow by so many bytes.
func (d *Disk) fits(growth int64) bool { return growth <= d.room() }

func (d *Disk) room() int64 {
	if d.opt.Capacity == 0 {
		return 1 << 60
	}
	return max(0, d.opt.Capacity-used(d.root))
}

func used(dir *node) int64 {
	var sum int64
	for _, n := range dir.live {
		if n.isDir {
			sum += used(n)
		} else {
			sum += n.cache.size
		}
	}
	return sum
}

// find returns what name points at in the live tree.
func (d *Disk) find(name string) (*node, error) {
	if err := disk.CheckName(name); err != nil {
		return nil, err
	}
	if name == "." {
		return d.root, nil
	}
	dir, base, err := d.parent(name)
	if err != nil {
		return nil, err
	}
	if n := dir.live[base]; n != nil {
		return n, nil
	}
	return nil, disk.ErrNotExist
}

func (d *Disk) findDir(name string) (*node, error) {
	n, err := d.find(name)
	if err == nil && !n.isDir {
		return nil, errNotDir
	}
	return n, err
}

// parent returns the directory that holds name, and its last element.
func (d *Disk) parent(name string) (*node, string, error) {
	if err := disk.CheckName(name); err != nil {
		return nil, "", err
	}
	if name == "." {
		return nil, "", disk.ErrName
	}
	dir := d.root
	above, base := path.Split(name)
	for _, part := range strings.FieldsFunc(above, func(r rune) bool { return r == '/' }) {
		child := dir.live[part]
		if child == nil {
			return nil, "", disk.ErrNotExist
		}
		if !child.isDir {
			return nil, "", errNotDir
		}
		dir = child
	}
	return dir, base, nil
}

func wrap(op Op, name string, err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return fmt.Errorf("memdisk: %v %s: closed: %w", op, name, err)
	}
	return fmt.Errorf("memdisk: %v %s: %w", op, name, err)
}
