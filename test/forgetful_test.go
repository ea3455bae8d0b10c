package test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"galgo/internal/disk"
	"galgo/internal/disk/disktest"
)

// forgetful is a data directory that a process loses power with: what it wrote and did
// not sync is in the memory of the process, so that a kill takes it along. What is in
// the directory is what package disk says survives, with the same luck: of each write
// some sectors may get there early, whole or as zeros, and so may some changes of names.
//
// A file has a link below limbo, which the next start removes. So it can be written
// before its name is durable, and after that is gone.
type forgetful struct {
	os    *disk.OS // the lock, and directories, which are made at once
	limbo string
	luck  luck
	order func() order // what the device does now

	mu    sync.Mutex
	files map[string]*contents
	later map[string][]nameChange // by directory: what its next sync makes durable
	links int
}

// luck is what gets to the device by itself; it may be asked by many at a time.
type luck struct {
	mu       sync.Mutex
	rng      *rand.Rand
	kept     int           // of 16 sectors and names, without a sync
	syncTime time.Duration // the longest
}

// order is what somebody wants of the device.
type order struct {
	full    bool   // nothing may grow
	slow    bool   // a sync takes up to slowSync
	broken  bool   // a sync fails, and what it was to save is lost
	refused string // changes of files whose names contain it fail
}

const slowSync = 150 * time.Millisecond

var errRefused = errors.New("the device refuses, as it was told to")

// nameChange gives a name to a file, or takes it away if that is nil.
type nameChange struct {
	name string
	file *contents
}

func openForgetful(dir string, seed uint64, now func() order) (*forgetful, error) {
	held, err := disk.OpenOS(dir)
	if err != nil {
		return nil, err
	}
	d := &forgetful{os: held, limbo: held.Dir() + ".limbo", order: now, files: map[string]*contents{}, later: map[string][]nameChange{}}
	d.luck.rng = rand.New(rand.NewPCG(seed, uint64(os.Getpid())))
	d.luck.kept = []int{0, 16, 2, 8, 14}[d.luck.rng.IntN(5)]
	d.luck.syncTime = []time.Duration{0, time.Millisecond, 6 * time.Millisecond}[d.luck.rng.IntN(3)]
	if err = os.RemoveAll(d.limbo); err == nil {
		if err = os.Mkdir(d.limbo, 0o700); err == nil {
			err = filepath.WalkDir(held.Dir(), d.find)
		}
	}
	return d, err
}

// find takes over what an earlier process left.
func (d *forgetful) find(where string, e fs.DirEntry, err error) error {
	if err != nil || e.IsDir() || e.Name() == disk.LockName {
		return err
	}
	name, err := filepath.Rel(d.os.Dir(), where)
	if err != nil {
		return err
	}
	c := d.newContents()
	if err = os.Link(where, c.link); err != nil {
		return err
	}
	if err = c.open(0); err != nil {
		return err
	}
	info, err := c.f.Stat()
	if err != nil {
		return err
	}
	c.size, c.solid = info.Size(), info.Size()
	d.files[filepath.ToSlash(name)] = c
	return nil
}

func (d *forgetful) newContents() *contents {
	d.links++
	return &contents{luck: &d.luck, order: d.order, link: filepath.Join(d.limbo, fmt.Sprint(d.links)), dirty: map[int64][]byte{}, uses: 1}
}

// real is where the durable part of a name is.
func (d *forgetful) real(name string) string {
	return filepath.Join(d.os.Dir(), filepath.FromSlash(name))
}

func (d *forgetful) isDir(name string) bool {
	info, err := os.Stat(d.real(name))
	return err == nil && info.IsDir()
}

func (d *forgetful) refuses(op, name string) error {
	if word := d.order().refused; word != "" && strings.Contains(name, word) {
		return failed(op, name, errRefused)
	}
	return nil
}

func failed(op, name string, err error) error {
	return fmt.Errorf("forgetful disk: %s %s: %w", op, name, err)
}

// Create implements disk.Disk.
func (d *forgetful) Create(name string, size int64) (disk.File, error) {
	if err := errors.Join(disk.CheckName(name), d.refuses("create", name)); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !d.isDir(path.Dir(name)):
		return nil, failed("create", name, disk.ErrNotExist)
	case d.files[name] != nil || d.isDir(name):
		return nil, failed("create", name, disk.ErrExist)
	case size > 0 && d.order().full:
		return nil, failed("create", name, disk.ErrNoSpace)
	}
	c := d.newContents()
	if err := c.open(os.O_CREATE | os.O_EXCL); err != nil {
		return nil, err
	}
	c.size = size
	if d.luck.keeps() {
		c.f.Truncate(d.luck.upTo(size))
	}
	d.files[name] = c
	d.change(nameChange{name, c})
	return c.handle(d, name), nil
}

// Open implements disk.Disk.
func (d *forgetful) Open(name string) (disk.File, error) {
	if err := disk.CheckName(name); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.files[name]
	if c == nil {
		return nil, failed("open", name, disk.ErrNotExist)
	}
	return c.handle(d, name), nil
}

// change notes changes that belong together, all in one directory. They may be durable
// at once, before others that came before.
func (d *forgetful) change(all ...nameChange) {
	dir := path.Dir(all[0].name)
	for _, n := range all {
		if n.file != nil {
			n.file.uses++
		}
	}
	d.later[dir] = append(d.later[dir], all...)
	if d.luck.keeps() {
		for _, n := range all {
			d.settle(n)
		}
	}
}

// settle makes a change of a name durable.
func (d *forgetful) settle(n nameChange) error {
	if n.file == nil {
		if err := os.Remove(d.real(n.name)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	link := filepath.Join(d.limbo, "name")
	if err := os.Link(n.file.link, link); err != nil {
		return err
	}
	// The rename of one link of a file to another leaves both; the name is right then.
	return errors.Join(os.Rename(link, d.real(n.name)), removeIfThere(link))
}

func removeIfThere(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// settleAll makes the names of a directory durable, in the order of their changes.
func (d *forgetful) settleAll(dir string) error {
	for _, n := range d.later[dir] {
		if err := d.settle(n); err != nil {
			return err
		}
		if n.file != nil {
			d.release(n.file)
		}
	}
	delete(d.later, dir)
	return nil
}

// release lets go of a file that has lost a name, a handle or a change that waits.
func (d *forgetful) release(c *contents) {
	if c.uses--; c.uses == 0 {
		c.f.Close()
		os.Remove(c.link)
	}
}

// Rename implements disk.Disk.
func (d *forgetful) Rename(from, to string) error {
	if err := errors.Join(disk.CheckName(from), disk.CheckName(to), d.refuses("rename to", to)); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.files[from]
	switch {
	case c == nil && d.isDir(from):
		return d.renameDir(from, to)
	case c == nil || !d.isDir(path.Dir(to)):
		return failed("rename to "+to, from, disk.ErrNotExist)
	case d.isDir(to):
		return failed("rename to "+to, from, syscall.EISDIR)
	}
	if old := d.files[to]; old != nil {
		d.release(old)
	}
	d.files[to] = c
	delete(d.files, from)
	if path.Dir(from) == path.Dir(to) {
		d.change(nameChange{to, c}, nameChange{from, nil})
		return nil
	}
	// The order of changes in two directories is kept by having them durable at once.
	d.change(nameChange{to, c})
	d.change(nameChange{from, nil})
	return errors.Join(d.settleAll(path.Dir(to)), d.settleAll(path.Dir(from)))
}

// renameDir is durable at once.
func (d *forgetful) renameDir(from, to string) error {
	if err := d.settleAll(from); err != nil {
		return err
	}
	if err := d.os.Rename(from, to); err != nil {
		return err
	}
	for name, c := range d.files {
		if rest, below := strings.CutPrefix(name, from+"/"); below {
			delete(d.files, name)
			d.files[to+"/"+rest] = c
		}
	}
	return nil
}

// Remove implements disk.Disk.
func (d *forgetful) Remove(name string) error {
	if err := errors.Join(disk.CheckName(name), d.refuses("remove", name)); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.files[name]; c != nil {
		delete(d.files, name)
		d.change(nameChange{name, nil})
		d.release(c)
		return nil
	}
	if !d.isDir(name) {
		return failed("remove", name, disk.ErrNotExist)
	}
	for other := range d.files {
		if path.Dir(other) == name {
			return failed("remove", name, syscall.ENOTEMPTY)
		}
	}
	return errors.Join(d.settleAll(name), d.os.Remove(name))
}

// List implements disk.Disk.
func (d *forgetful) List(dir string) ([]disk.Entry, error) {
	if err := disk.CheckName(dir); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[dir] != nil {
		return nil, failed("list", dir, syscall.ENOTDIR)
	}
	found, err := d.os.List(dir)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(e disk.Entry) bool { return !e.Dir })
	for name, c := range d.files {
		if path.Dir(name) == dir {
			size, _ := (&forgetfulFile{contents: c}).Size()
			found = append(found, disk.Entry{Name: path.Base(name), Size: size})
		}
	}
	slices.SortFunc(found, func(a, b disk.Entry) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// MkdirAll implements disk.Disk.
func (d *forgetful) MkdirAll(dir string) error {
	if err := errors.Join(disk.CheckName(dir), d.refuses("make directory", dir)); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for at := dir; at != "."; at = path.Dir(at) {
		if d.files[at] != nil {
			return failed("make directory", dir, syscall.ENOTDIR)
		}
	}
	return d.os.MkdirAll(dir)
}

// SyncDir implements disk.Disk.
func (d *forgetful) SyncDir(dir string) error {
	if err := errors.Join(disk.CheckName(dir), d.refuses("sync directory", dir)); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.files[dir] != nil:
		return failed("sync directory", dir, syscall.ENOTDIR)
	case !d.isDir(dir):
		return failed("sync directory", dir, disk.ErrNotExist)
	}
	return d.settleAll(dir)
}

// keeps draws whether something gets to the device by itself.
func (l *luck) keeps() bool { return l.upTo(15) < int64(l.kept) }

// upTo draws a number from 0 to n.
func (l *luck) upTo(n int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rng.Int64N(n + 1)
}

const pageSize = 4096

// contents is a file, whatever its names. Pages that were written since the last sync are
// in memory, those of a sync that runs too.
type contents struct {
	luck  *luck
	order func() order
	link  string
	f     *os.File
	uses  int // names, handles and changes that wait; under the disk's lock

	syncing sync.Mutex // held by a sync and by who cuts off

	mu       sync.RWMutex
	size     int64
	solid    int64            // behind it the device has nothing that counts
	dirty    map[int64][]byte // by number of the page
	flushing map[int64][]byte
	lost     map[int64][]byte // by a sync that failed: the process still sees it
}

func (c *contents) open(flag int) (err error) {
	c.f, err = os.OpenFile(c.link, os.O_RDWR|flag, 0o600)
	return err
}

func (c *contents) handle(d *forgetful, name string) *forgetfulFile {
	c.uses++
	return &forgetfulFile{contents: c, d: d, name: name}
}

// page is a page as it is seen now; it is not to be changed.
func (c *contents) page(n int64) ([]byte, error) {
	if p := c.dirty[n]; p != nil {
		return p, nil
	}
	if p := c.flushing[n]; p != nil {
		return p, nil
	}
	if p := c.lost[n]; p != nil {
		return p, nil
	}
	p := make([]byte, pageSize)
	if at := n * pageSize; at < c.solid {
		if _, err := c.f.ReadAt(p[:min(pageSize, c.solid-at)], at); err != nil && err != io.EOF {
			return nil, err
		}
	}
	return p, nil
}

func (c *contents) write(b []byte, off int64) error {
	c.size = max(c.size, off+int64(len(b)))
	for len(b) > 0 {
		n, at := off/pageSize, int(off%pageSize)
		p := c.dirty[n]
		if p == nil {
			seen, err := c.page(n)
			if err != nil {
				return err
			}
			p = slices.Clone(seen)
			c.dirty[n] = p
		}
		written := copy(p[at:], b)
		c.escape(p, n*pageSize, at, at+written)
		b, off = b[written:], off+int64(written)
	}
	return nil
}

// escape has sectors of a page get to the device by themselves; of some only zeros are
// found, in place of what was written.
func (c *contents) escape(p []byte, off int64, from, to int) {
	for at := from / disk.Sector * disk.Sector; at < to; at += disk.Sector {
		if !c.luck.keeps() {
			continue
		}
		first, last := max(from, at), min(to, at+disk.Sector)
		if c.luck.upTo(31) == 0 {
			c.f.WriteAt(make([]byte, last-first), off+int64(first))
		} else {
			c.f.WriteAt(p[first:last], off+int64(first))
		}
	}
}

// sync writes what there was when it began.
func (c *contents) sync() error {
	c.syncing.Lock()
	defer c.syncing.Unlock()
	c.mu.Lock()
	c.flushing, c.dirty = c.dirty, map[int64][]byte{}
	size, solid := c.size, c.solid
	c.mu.Unlock()
	now := c.order()
	longest := c.luck.syncTime
	if now.slow {
		longest = slowSync
	}
	time.Sleep(time.Duration(c.luck.upTo(int64(longest))))
	if now.broken {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.lost == nil {
			c.lost = map[int64][]byte{}
		}
		maps.Copy(c.lost, c.flushing)
		c.flushing = nil
		return failed("sync", c.link, errRefused)
	}
	err := c.flush(size, solid)
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range c.flushing {
		delete(c.lost, n)
	}
	c.flushing, c.solid = nil, size
	return err
}

// flush brings the pages of a sync, and the length at its beginning, to the device.
func (c *contents) flush(size, solid int64) error {
	info, err := c.f.Stat()
	if err == nil && solid < info.Size() {
		err = c.f.Truncate(solid)
	}
	for n, p := range c.flushing {
		if _, failed := c.f.WriteAt(p[:max(0, min(pageSize, size-n*pageSize))], n*pageSize); failed != nil {
			err = failed
		}
	}
	return errors.Join(err, c.f.Truncate(size))
}

// truncate cuts off, or adds zeros.
func (c *contents) truncate(size int64) error {
	c.syncing.Lock()
	defer c.syncing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if size < c.size {
		last := size / pageSize
		seen, err := c.page(last)
		if err != nil {
			return err
		}
		kept := slices.Clone(seen)
		clear(kept[size%pageSize:])
		for n := range c.dirty {
			if n >= last {
				delete(c.dirty, n)
			}
		}
		for n := range c.lost {
			if n >= last {
				delete(c.lost, n)
			}
		}
		c.dirty[last] = kept
		c.solid = min(c.solid, size)
	}
	c.size = size
	return nil
}

// forgetfulFile is a handle.
type forgetfulFile struct {
	*contents
	d    *forgetful
	name string

	closing sync.Mutex
	closed  bool
}

// check returns why a call is refused.
func (f *forgetfulFile) check(op string, off int64) error {
	f.closing.Lock()
	defer f.closing.Unlock()
	switch {
	case f.closed:
		return failed(op, f.name, fs.ErrClosed)
	case off < 0:
		return failed(op, f.name, syscall.EINVAL)
	case op != "read":
		return f.d.refuses(op, f.name)
	}
	return nil
}

func (f *forgetfulFile) ReadAt(b []byte, off int64) (n int, err error) {
	if err := f.check("read", off); err != nil {
		return 0, err
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	for n < len(b) && off < f.size {
		p, err := f.page(off / pageSize)
		if err != nil {
			return n, err
		}
		p = p[off%pageSize : min(pageSize, f.size-off/pageSize*pageSize)]
		copied := copy(b[n:], p)
		n, off = n+copied, off+int64(copied)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *forgetfulFile) WriteAt(b []byte, off int64) error { return f.WritevAt([][]byte{b}, off) }

func (f *forgetfulFile) WritevAt(bufs [][]byte, off int64) error {
	if err := f.check("write", off); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	full := f.order().full
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		if full && off+int64(len(b)) > f.size {
			return failed("write", f.name, disk.ErrNoSpace)
		}
		if err := f.write(b, off); err != nil {
			return err
		}
		off += int64(len(b))
	}
	return nil
}

func (f *forgetfulFile) Truncate(size int64) error {
	if err := f.check("truncate", size); err != nil {
		return err
	}
	return f.truncate(size)
}

func (f *forgetfulFile) Sync() error {
	if err := f.check("sync", 0); err != nil {
		return err
	}
	return f.sync()
}

func (f *forgetfulFile) Size() (int64, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.size, nil
}

func (f *forgetfulFile) Close() error {
	f.closing.Lock()
	closed := f.closed
	f.closed = true
	f.closing.Unlock()
	if closed {
		return failed("close", f.name, fs.ErrClosed)
	}
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.release(f.contents)
	return nil
}

func (f *forgetfulFile) Name() string { return f.name }

func TestForgetfulDisk(t *testing.T) {
	for seed := range uint64(5) {
		disktest.Run(t, func(t *testing.T) disk.Disk { return mustOpen(t, filepath.Join(t.TempDir(), "data"), seed) })
	}
}

func mustOpen(t *testing.T, dir string, seed uint64) *forgetful {
	t.Helper()
	d, err := openForgetful(dir, seed, func() order { return order{} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.os.Close() })
	return d
}

// What was synced is there after a power loss; of a file that was not, and of one without
// a durable name, nothing need be.
func TestForgetfulDiskForgets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	lost := map[string]int{}
	const tries = 40
	for seed := range uint64(tries) {
		os.RemoveAll(dir)
		d := mustOpen(t, dir, seed)
		f, err := d.Create("synced", 0)
		if err != nil {
			t.Fatal(err)
		}
		nameless, err := d.Create("nameless", 0)
		if err != nil {
			t.Fatal(err)
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(f.WriteAt([]byte("old"), 0))
		must(nameless.WriteAt([]byte("old"), 0))
		must(errors.Join(f.Sync(), nameless.Sync()))
		must(d.Rename("synced", "renamed"))
		must(d.SyncDir("."))
		must(d.Remove("nameless"))
		must(d.Rename("renamed", "in doubt"))
		must(f.WriteAt([]byte("new"), 0))
		must(f.Truncate(4))
		d.os.Close() // the process is gone
		after := mustOpen(t, dir, seed)
		name := "in doubt"
		found, err := after.Open(name)
		if errors.Is(err, disk.ErrNotExist) {
			name = "renamed"
			lost["name"]++
			found, err = after.Open(name)
		}
		must(err)
		b := make([]byte, 3)
		if _, err := found.ReadAt(b, 0); err != nil || string(b) != "old" && string(b) != "new" && string(b) != "\x00\x00\x00" {
			t.Fatalf("seed %d: %s has %q, %v", seed, name, b, err)
		}
		lost[string(b)]++
		if _, err := after.Open("nameless"); err == nil {
			lost["removal"]++
		}
		after.os.Close()
	}
	for _, what := range []string{"name", "old", "new", "removal"} {
		if lost[what] == 0 || lost[what] == tries {
			t.Errorf("%s: %d of %d times", what, lost[what], tries)
		}
	}
}
