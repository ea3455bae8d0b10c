// Package disk is the seam between galgo and a filesystem: everything galgo
// keeps is written and read through it, by the node on the operating system's
// files and by tests on a disk in memory that crashes, tears and corrupts.
//
// What survives a power loss, and nothing else:
//
//   - the bytes of a file up to its last successful Sync. Of later writes any
//     mixture of old bytes, new bytes and zeros may be found, sector by sector;
//   - the names of a directory up to its last successful SyncDir. Of later
//     creations, renames and removals any subset may be found.
//
// A process that is killed loses nothing that was written: the operating system
// still has it. A failed Sync loses what it should have made durable, and a
// second Sync that succeeds does not bring it back: the caller must stop, or
// write anew.
package disk

import (
	"errors"
	"fmt"
	"io/fs"
)

// Sector is the unit, in bytes, in which a device writes whole or not at all.
const Sector = 512

// Sentinel errors. Implementations wrap them with the operation and the name.
var (
	// ErrNotExist: no such file or directory.
	ErrNotExist = fs.ErrNotExist
	// ErrExist: Create of a name that is taken.
	ErrExist = fs.ErrExist
	// ErrNoSpace: the device is full. What was written before stays.
	ErrNoSpace = errors.New("disk: no space left")
	// ErrName: a name that is absolute, empty, not clean or leaves the root.
	ErrName = errors.New("disk: name is not a clean path below the data directory")
	// ErrLocked: another process holds the data directory.
	ErrLocked = errors.New("disk: data directory is in use by another process")
)

// CheckName returns nil for a slash-separated, clean, relative name that stays
// below the root ("." is the root itself), and an error wrapping ErrName for
// any other.
func CheckName(name string) error {
	if !fs.ValidPath(name) {
		return fmt.Errorf("%w: %q", ErrName, name)
	}
	return nil
}

// Entry is one name of a directory.
type Entry struct {
	Name string // the last element, without the directory
	Dir  bool
	Size int64 // bytes; 0 for a directory
}

// Disk is all that galgo asks of a filesystem. Names are slash-separated and
// relative to the root of the data directory; a name that leaves the root is an
// error. Methods may be called at the same time on different names.
type Disk interface {
	// Create makes a new file of size bytes, all of them written as zeros
	// (not only reserved), and opens it. It fails with ErrExist when the name
	// is taken. The name survives a power loss only after SyncDir, the zeros
	// only after Sync. A Create that returns an error leaves no name behind; a
	// crash in the middle may leave the name with fewer bytes than size.
	Create(name string, size int64) (File, error)
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// Rename replaces newname, atomically, if it exists.
	Rename(oldname, newname string) error
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// List returns the entries of a directory sorted by name; ErrNotExist
	// when there is no such directory.
	List(dir string) ([]Entry, error)
	// MkdirAll makes a directory and its parents. When it returns nil all of
	// them survive a power loss, also those that it found: a process killed
	// between making one and syncing its parent may have left it in doubt.
	MkdirAll(dir string) error
	// SyncDir makes creations, renames and removals in dir survive a power loss.
	SyncDir(dir string) error
}

// WriteBack asks for a range of f to be on its way to the device, so that a later
// Sync has less to wait for. It promises nothing, and not every File can.
func WriteBack(f File, off, n int64) {
	if w, ok := f.(interface{ WriteBack(off, n int64) }); ok {
		w.WriteBack(off, n)
	}
}

// Reserve asks for room for a file that will be written from front to back and is about
// to be written up to end: a write into what is reserved has no room to look for. It
// promises nothing, changes no length, and not every File can.
func Reserve(f File, end int64) {
	if r, ok := f.(interface{ Reserve(end int64) }); ok {
		r.Reserve(end)
	}
}

// Unreserve gives back what is reserved behind the end of a file.
func Unreserve(f File) {
	if r, ok := f.(interface{ Unreserve() }); ok {
		r.Unreserve()
	}
}

// File is an open file. ReadAt may run at the same time as anything; writers and
// Truncate of one file are serialised by their caller, and so are its Syncs. A Sync may
// run at the same time as a write, which it need not cover then.
type File interface {
	// ReadAt is io.ReaderAt: a short read comes with io.EOF.
	ReadAt(p []byte, off int64) (int, error)
	// WriteAt writes all of p or fails; it retries short writes.
	WriteAt(p []byte, off int64) error
	// WritevAt writes the buffers back to back from off on, all of them or it
	// fails. It may be given any number of buffers and does not change bufs.
	WritevAt(bufs [][]byte, off int64) error
	// Truncate sets the length; a longer file is filled with zeros.
	Truncate(size int64) error
	// Sync makes contents and length durable (fdatasync).
	Sync() error
	// Size returns the length in bytes.
	Size() (int64, error)
	// Close releases the file without syncing it.
	Close() error
	// Name returns the name the file was opened with.
	Name() string
}
