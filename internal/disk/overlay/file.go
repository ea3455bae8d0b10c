package overlay

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// pageSize is the unit, in bytes, in which changes are kept.
const pageSize = 4096

// file is an open handle. It keeps working after its name is gone.
type file struct {
	d      *Disk
	n      *node
	name   string
	closed bool
}

func (f *file) Name() string { return f.name }

func (f *file) check(op string, off int64) error {
	switch {
	case f.closed:
		return wrap(op, f.name, fs.ErrClosed)
	case off < 0:
		return wrap(op, f.name, errNegative)
	}
	return nil
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.check("read", off); err != nil {
		return 0, err
	}
	n := int(min(int64(len(p)), max(0, f.n.size-off)))
	if err := f.n.read(p[:n], off); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// read fills p, which lies within the file: from the base, and then from the pages over
// it.
func (n *node) read(p []byte, off int64) error {
	below := int(min(int64(len(p)), max(0, n.reach-off)))
	if got, err := n.readBelow(p[:below], off); err != nil {
		return fmt.Errorf("overlay: read %s at byte %d: %w", n.name, off+int64(got), err)
	}
	clear(p[below:])
	if len(n.pages) == 0 {
		return nil
	}
	for at := off - off%pageSize; at < off+int64(len(p)); at += pageSize {
		page, ok := n.pages[at]
		switch {
		case !ok:
		case at < off:
			copy(p, page[off-at:])
		default:
			copy(p[at-off:], page)
		}
	}
	return nil
}

func (n *node) readBelow(p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	got, err := n.below.ReadAt(p, off)
	if got == len(p) {
		err = nil
	} else if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // it was longer when it was opened
	}
	return got, err
}

// page returns the page at a multiple of pageSize, to be written to.
func (n *node) page(at int64) ([]byte, error) {
	if p, ok := n.pages[at]; ok {
		return p, nil
	}
	p := make([]byte, pageSize)
	if _, err := n.readBelow(p[:max(0, min(pageSize, n.reach-at))], at); err != nil {
		return nil, err
	}
	if n.pages == nil {
		n.pages = make(map[int64][]byte)
	}
	n.own = true
	n.pages[at] = p
	return p, nil
}

func (f *file) WriteAt(p []byte, off int64) error { return f.WritevAt([][]byte{p}, off) }

func (f *file) WritevAt(bufs [][]byte, off int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.check("write", off); err != nil {
		return err
	}
	for _, b := range bufs {
		for len(b) > 0 {
			page, err := f.n.page(off - off%pageSize)
			if err != nil {
				return wrap("write", f.name, err)
			}
			n := copy(page[off%pageSize:], b)
			b, off = b[n:], off+int64(n)
			f.n.size = max(f.n.size, off)
		}
	}
	return nil
}

func (f *file) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.check("truncate", size); err != nil {
		return err
	}
	n := f.n
	if size < n.size {
		n.reach = min(n.reach, size)
		for at, page := range n.pages {
			if at >= size {
				delete(n.pages, at)
			} else if at+pageSize > size {
				clear(page[size-at:])
			}
		}
	}
	n.size, n.own = size, true
	return nil
}

func (f *file) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return f.check("sync", 0)
}

func (f *file) Size() (int64, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return f.n.size, f.check("size", 0)
}

func (f *file) Close() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.check("close", 0); err != nil {
		return err
	}
	f.closed = true
	f.n.users--
	return f.d.detach(f.name, f.n)
}
