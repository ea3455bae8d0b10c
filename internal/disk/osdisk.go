//go:build linux

package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// LockName is the file at the root of a data directory that the owning process
// holds locked. It contains the number of that process, for people.
const LockName = "LOCK"

const (
	dirMode  = 0o700 // the data holds password hashes
	fileMode = 0o600
	// zeroChunk bounds one write of Create.
	zeroChunk = 1 << 20
	// pidMax bounds what is read of LOCK.
	pidMax = 32
)

// OS is the data directory of a node on the operating system's filesystem. Names
// cannot leave its root, not even by symbolic links.
type OS struct {
	dir          string
	root         *os.Root
	lock         *os.File
	cachedBehind int64 // see CacheBehind
}

var _ Disk = (*OS)(nil)

// OpenOS opens the data directory, making it if it is absent, and locks it until
// Close. It fails with ErrLocked when another process has it.
func OpenOS(dir string) (*OS, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("disk: open data directory %s: %w", dir, err)
	}
	if err := makeRoot(dir); err != nil {
		return nil, fmt.Errorf("disk: make data directory %s: %w", dir, reason(err))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("disk: open data directory %s: %w", dir, reason(err))
	}
	lock, err := lockRoot(root, dir)
	if err != nil {
		root.Close()
		return nil, err
	}
	return &OS{dir: dir, root: root, lock: lock, cachedBehind: CachedBehindDefault}, nil
}

// CachedBehindDefault is what CacheBehind is given if nobody says anything else.
const CachedBehindDefault = 64 << 20

// CacheBehind sets how many bytes of a file that is written from front to back stay in
// the memory of the system behind its end; 0: as many as the system wants. Without a
// bound the file takes ever more memory from others, and memory that a virtual machine
// has not used lately may be slower than the device. It is called before files are used.
func (d *OS) CacheBehind(bytes int64) { d.cachedBehind = bytes }

// makeRoot makes dir and its missing parents, and syncs what got a new entry.
func makeRoot(dir string) error {
	parent := filepath.Dir(dir)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		// Best effort, in case a process that made it was killed before the
		// sync: a parent that is not ours may be unreadable to us.
		syncPath(parent)
		return err
	}
	if err := makeRoot(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncPath(parent)
}

func syncPath(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func lockRoot(root *os.Root, dir string) (*os.File, error) {
	f, err := root.OpenFile(LockName, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, fmt.Errorf("disk: open %s: %w", filepath.Join(dir, LockName), reason(err))
	}
	err = retry(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if err == nil {
		err = writePid(f)
	}
	if err == nil {
		return f, nil
	}
	defer f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: %s is held by %s; stop that process, or give this one a directory of its own", ErrLocked, dir, holder(f))
	}
	return nil, fmt.Errorf("disk: lock %s: %w", filepath.Join(dir, LockName), reason(err))
}

func writePid(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := fmt.Fprintf(f, "%d\n", os.Getpid())
	return err
}

// holder describes the process that has the lock, as far as LOCK tells.
func holder(f *os.File) string {
	var buf [pidMax]byte
	n, _ := f.ReadAt(buf[:], 0)
	pid := strings.TrimSpace(string(buf[:n]))
	if pid == "" || strings.Trim(pid, "0123456789") != "" {
		return "a process that left no number"
	}
	return "process " + pid
}

// Dir returns the absolute path of the data directory.
func (d *OS) Dir() string { return d.dir }

// Close gives up the lock. Files that are still open keep working, which the
// caller must not rely on: another process may be writing by then.
func (d *OS) Close() error {
	return errors.Join(d.lock.Close(), d.root.Close())
}

// Free returns the bytes that this process may still write to the filesystem of
// the data directory, and the size of that filesystem.
func (d *OS) Free() (free, total uint64, err error) {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(d.dir, &st) }); err != nil {
		return 0, 0, d.wrap("free space", ".", err)
	}
	return st.Bavail * uint64(st.Bsize), st.Blocks * uint64(st.Bsize), nil
}

// Create implements Disk. The zeros are written, not only reserved, so that a
// later sync of data has no block to allocate and no extent to convert.
func (d *OS) Create(name string, size int64) (File, error) {
	f, err := d.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, d.wrap("create", name, err)
	}
	if err := f.fill(size); err != nil {
		f.f.Close()
		d.root.Remove(name) // else the caller's retry would meet ErrExist
		return nil, d.wrap(fmt.Sprintf("create with %d bytes", size), name, err)
	}
	return f, nil
}

// Open implements Disk.
func (d *OS) Open(name string) (File, error) {
	f, err := d.open(name, os.O_RDWR)
	if err != nil {
		return nil, d.wrap("open", name, err)
	}
	return f, nil
}

func (d *OS) open(name string, flag int) (*osFile, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	f, err := d.root.OpenFile(name, flag, fileMode)
	if err != nil {
		return nil, err
	}
	return newOSFile(d, f, name)
}

// Rename implements Disk.
func (d *OS) Rename(oldname, newname string) error {
	err := errors.Join(CheckName(oldname), CheckName(newname))
	if err == nil {
		err = d.root.Rename(oldname, newname)
	}
	return d.wrap("rename to "+newname, oldname, err)
}

// Remove implements Disk.
func (d *OS) Remove(name string) error {
	err := CheckName(name)
	if err == nil {
		err = d.root.Remove(name)
	}
	return d.wrap("remove", name, err)
}

// List implements Disk.
func (d *OS) List(name string) ([]Entry, error) {
	infos, err := d.readDir(name)
	if err != nil {
		return nil, d.wrap("list", name, err)
	}
	entries := make([]Entry, 0, len(infos))
	for _, info := range infos {
		e := Entry{Name: info.Name(), Dir: info.IsDir()}
		if !e.Dir {
			e.Size = info.Size()
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

func (d *OS) readDir(name string) ([]fs.FileInfo, error) {
	f, err := d.openDir(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdir(-1)
}

// MkdirAll implements Disk.
func (d *OS) MkdirAll(name string) error {
	if err := CheckName(name); err != nil {
		return d.wrap("make directory", name, err)
	}
	return d.wrap("make directory", name, d.mkdirAll(name))
}

func (d *OS) mkdirAll(name string) error {
	if name == "." {
		return nil
	}
	parent := path.Dir(name)
	if err := d.mkdirAll(parent); err != nil {
		return err
	}
	err := d.root.Mkdir(name, dirMode)
	if errors.Is(err, fs.ErrExist) {
		err = d.wantDir(name)
	}
	if err != nil {
		return err
	}
	return d.syncDir(parent)
}

func (d *OS) wantDir(name string) error {
	info, err := d.root.Stat(name)
	if err == nil && !info.IsDir() {
		return unix.ENOTDIR
	}
	return err
}

// SyncDir implements Disk.
func (d *OS) SyncDir(name string) error { return d.wrap("sync directory", name, d.syncDir(name)) }

func (d *OS) syncDir(name string) error {
	f, err := d.openDir(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d *OS) openDir(name string) (*os.File, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	return d.root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
}

// wrap names what was done and to which file, and maps a full device.
func (d *OS) wrap(doing, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("disk: %s %s: %w", doing, filepath.Join(d.dir, name), reason(err))
}

// reason drops the operation and path that package os put around an error, and
// adds ErrNoSpace to those that mean it.
func reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		err = le.Err
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w (%w)", ErrNoSpace, err)
	}
	return err
}

// retry repeats a system call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// zeros is what Create writes. It is never modified.
var zeros [zeroChunk]byte

// errStuck: the system took no byte of a write and gave no reason.
var errStuck = fmt.Errorf("write made no progress: %w", io.ErrShortWrite)
