package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sort"

	"galgo/internal/disk"
)

// readOnly is a data directory that is only looked at: it takes no lock, so it may
// belong to a server that runs, and every write fails.
type readOnly struct {
	dir  string
	root *os.Root
}

var errReadOnly = errors.New("the data directory is open for reading only")

func openReadOnly(dir string) (*readOnly, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	return &readOnly{dir, root}, nil
}

func (d *readOnly) Close() error { return d.root.Close() }

// Open opens a file for reading.
func (d *readOnly) Open(name string) (disk.File, error) {
	if err := disk.CheckName(name); err != nil {
		return nil, err
	}
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	return &readOnlyFile{f, name}, nil
}

// List returns the entries of a directory sorted by name.
func (d *readOnly) List(dir string) ([]disk.Entry, error) {
	if err := disk.CheckName(dir); err != nil {
		return nil, err
	}
	names, err := fs.ReadDir(d.root.FS(), dir)
	if err != nil {
		return nil, err
	}
	entries := make([]disk.Entry, 0, len(names))
	for _, n := range names {
		e := disk.Entry{Name: n.Name(), Dir: n.IsDir()}
		if info, err := n.Info(); err == nil && !e.Dir {
			e.Size = info.Size()
		}
		entries = append(entries, e)
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name < entries[j].Name })
	return entries, nil
}

// SyncDir does nothing: readers that must know that what they see is durable are
// of no harm here.
func (d *readOnly) SyncDir(string) error { return nil }

func (d *readOnly) Create(string, int64) (disk.File, error) { return nil, errReadOnly }
func (d *readOnly) Rename(string, string) error             { return errReadOnly }
func (d *readOnly) Remove(string) error                     { return errReadOnly }
func (d *readOnly) MkdirAll(string) error                   { return errReadOnly }

type readOnlyFile struct {
	*os.File
	name string
}

func (f *readOnlyFile) Name() string { return f.name }

func (f *readOnlyFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *readOnlyFile) WriteAt([]byte, int64) error    { return errReadOnly }
func (f *readOnlyFile) WritevAt([][]byte, int64) error { return errReadOnly }
func (f *readOnlyFile) Truncate(int64) error           { return errReadOnly }
func (f *readOnlyFile) Sync() error                    { return errReadOnly }

var (
	_ disk.Disk = (*readOnly)(nil)
	_ disk.File = (*readOnlyFile)(nil)
)
