package memdisk

import (
	"errors"
	"io"
	"io/fs"
	"slices"

	"galgo/internal/disk"
)

var errNegative = errors.New("negative offset or size")

// file is an open handle. It keeps working after its name is gone.
type file struct {
	d      *Disk
	n      *node
	name   string
	closed bool
}

func (f *file) Name() string { return f.name }

// begin is Disk.begin for a handle. Call it with the disk locked.
func (f *file) begin(op Op) verdict {
	v := f.d.begin(op, f.name)
	if f.closed && v.err == nil {
		v = verdict{err: wrap(op, f.name, fs.ErrClosed)}
	}
	return v
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	f.d.tell(OpRead, f.name)
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if v := f.begin(OpRead); v.err != nil {
		return 0, v.err
	}
	if off < 0 {
		return 0, wrap(OpRead, f.name, errNegative)
	}
	n := int(min(int64(len(p)), max(0, f.n.cache.size-off)))
	f.n.cache.read(p[:n], off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(p []byte, off int64) error { return f.write(slices.Clone(p), off) }

func (f *file) WritevAt(bufs [][]byte, off int64) error {
	return f.write(slices.Concat(bufs...), off)
}

// write takes p over.
func (f *file) write(p []byte, off int64) error {
	f.d.tell(OpWrite, f.name)
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	v := f.begin(OpWrite)
	if off < 0 && v.err == nil {
		return wrap(OpWrite, f.name, errNegative)
	}
	if v.err != nil {
		f.put(p[:v.part(int64(len(p)))], off)
		return v.err
	}
	if room := f.d.room() - max(0, off+int64(len(p))-f.n.cache.size); room < 0 {
		f.put(p[:max(0, int64(len(p))+room)], off)
		return wrap(OpWrite, f.name, disk.ErrNoSpace)
	}
	if v.fault != nil {
		return f.d.astray(f.n, v.fault, p, off)
	}
	f.put(p, off)
	return nil
}

func (f *file) put(p []byte, off int64) {
	if len(p) > 0 && off >= 0 && !f.closed {
		f.n.write(change{off: off, data: p})
	}
}

func (f *file) Truncate(size int64) error {
	f.d.tell(OpTruncate, f.name)
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	v := f.begin(OpTruncate)
	switch {
	case size < 0:
		v.err, v.crashed = errors.Join(v.err, wrap(OpTruncate, f.name, errNegative)), false
	case v.err == nil && !f.d.fits(size-f.n.cache.size):
		v.err = wrap(OpTruncate, f.name, disk.ErrNoSpace)
	case v.err == nil || v.crashed && v.happens():
		f.n.write(change{truncate: true, off: size})
	}
	return v.err
}

func (f *file) Sync() error {
	f.d.tell(OpSync, f.name)
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	v := f.begin(OpSync)
	switch {
	case v.err == nil || v.crashed && v.happens():
		f.n.sync()
	case v.fault != nil:
		f.n.dropPending(v.fault.KeepCache)
	}
	return v.err
}

func (f *file) Size() (int64, error) {
	f.d.tell(OpSize, f.name)
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if v := f.begin(OpSize); v.err != nil {
		return 0, v.err
	}
	return f.n.cache.size, nil
}

// Close works once, also after a crash, and is not counted: it changes nothing.
func (f *file) Close() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.closed {
		return wrap(0, f.name, fs.ErrClosed)
	}
	f.closed = true
	return nil
}
