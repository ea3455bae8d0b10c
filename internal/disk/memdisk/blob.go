package memdisk

import "slices"

// pageSize is the unit, in bytes, that copies of a file share until one writes.
const pageSize = 4096

// token marks the one blob that may write a page in place.
type token struct{ _ byte }

type page struct {
	owner *token
	data  [pageSize]byte
}

// blob is the content of a file: zeros cost nothing, and a copy shares its
// pages until one of the two writes. Invariant: bytes of pages above size are 0.
type blob struct {
	size  int64
	pages []*page // nil is a page of zeros
	owner *token
}

func newBlob() *blob { return &blob{owner: new(token)} }

// share returns a copy that neither side sees change.
func (b *blob) share() *blob {
	b.owner = new(token)
	return &blob{size: b.size, pages: slices.Clone(b.pages), owner: new(token)}
}

// read fills p from off on, with zeros above the end.
func (b *blob) read(p []byte, off int64) {
	for len(p) > 0 {
		i, at := int(off/pageSize), int(off%pageSize)
		n := min(len(p), pageSize-at)
		if i < len(b.pages) && b.pages[i] != nil {
			copy(p[:n], b.pages[i].data[at:])
		} else {
			clear(p[:n])
		}
		p, off = p[n:], off+int64(n)
	}
}

// write puts p at off, growing the blob as needed.
func (b *blob) write(p []byte, off int64) {
	if end := off + int64(len(p)); end > b.size && len(p) > 0 {
		b.resize(end)
	}
	for len(p) > 0 {
		i, at := int(off/pageSize), int(off%pageSize)
		n := copy(b.own(i).data[at:], p)
		p, off = p[n:], off+int64(n)
	}
}

// own returns page i ready to be written in place.
func (b *blob) own(i int) *page {
	switch pg := b.pages[i]; {
	case pg == nil:
		b.pages[i] = &page{owner: b.owner}
	case pg.owner != b.owner:
		b.pages[i] = &page{owner: b.owner, data: pg.data}
	}
	return b.pages[i]
}

// resize cuts the blob or fills it with zeros.
func (b *blob) resize(size int64) {
	want := int((size + pageSize - 1) / pageSize)
	if want < len(b.pages) {
		b.pages = slices.Delete(b.pages, want, len(b.pages))
	} else {
		b.pages = append(b.pages, make([]*page, want-len(b.pages))...)
	}
	if tail := int(size % pageSize); size < b.size && tail != 0 && b.pages[want-1] != nil {
		clear(b.own(want - 1).data[tail:])
	}
	b.size = size
}

func (b *blob) bytes() []byte {
	p := make([]byte, b.size)
	b.read(p, 0)
	return p
}

// firstDifference returns the offset of the first byte in which a and b differ,
// or -1 when they are equal.
func firstDifference(a, b *blob) int64 {
	var x, y [pageSize]byte
	for i := range max(len(a.pages), len(b.pages)) {
		if i < len(a.pages) && i < len(b.pages) && a.pages[i] == b.pages[i] {
			continue
		}
		off := int64(i) * pageSize
		a.read(x[:], off)
		b.read(y[:], off)
		for j := range x {
			if x[j] != y[j] {
				return off + int64(j)
			}
		}
	}
	if a.size != b.size {
		return min(a.size, b.size)
	}
	return -1
}
