package memdisk

import "slices"

// node is a file or a directory. Names point at nodes; renaming moves the name.
type node struct {
	isDir bool

	// Of a directory: live is what the process sees, base what a power loss
	// leaves before the pending operations of the journal are considered.
	live, base map[string]*node

	// Of a file: cache is what the process sees, platter what was synced,
	// pending what was written since, in order. cache normally equals platter
	// with pending applied; a lost or misdirected write and a failed sync with
	// KeepCache make them differ.
	cache, platter *blob
	pending        []change
}

// change is a write, or the setting of a length, that was not synced yet. Its
// data is never modified, so copies of a disk share it.
type change struct {
	off      int64
	data     []byte
	truncate bool // to off
}

func newFile() *node { return &node{cache: newBlob(), platter: newBlob()} }

func newDir() *node {
	return &node{isDir: true, live: map[string]*node{}, base: map[string]*node{}}
}

func (c change) apply(b *blob) {
	if c.truncate {
		b.resize(c.off)
		return
	}
	b.write(c.data, c.off)
}

// size is the length a file of length old has after c.
func (c change) size(old int64) int64 {
	if c.truncate {
		return c.off
	}
	if len(c.data) == 0 {
		return old
	}
	return max(old, c.off+int64(len(c.data)))
}

// deviceSize is the length that the next sync would give the file.
func (n *node) deviceSize() int64 {
	size := n.platter.size
	for _, c := range n.pending {
		size = c.size(size)
	}
	return size
}

func (n *node) write(c change) {
	c.apply(n.cache)
	n.pending = append(n.pending, c)
}

// sync moves what is pending to the platter. The platter is not copied from the
// cache: what the device lost stays lost.
func (n *node) sync() {
	for _, c := range n.pending {
		c.apply(n.platter)
	}
	n.pending = nil
}

// dropPending is a sync that failed. Unless keepCache, readers lose the data at
// once, as after an eviction.
func (n *node) dropPending(keepCache bool) {
	n.pending = nil
	if !keepCache {
		n.cache = n.platter.share()
	}
}

// evict makes readers see what the device has or will be given.
func (n *node) evict() {
	n.cache = n.platter.share()
	for _, c := range n.pending {
		c.apply(n.cache)
	}
}

// flip inverts a bit wherever the byte is held.
func (n *node) flip(off int64, mask byte) {
	flipIn(n.cache, off, mask)
	flipIn(n.platter, off, mask)
	for i, c := range n.pending {
		if c.truncate || off < c.off || off >= c.off+int64(len(c.data)) {
			continue
		}
		c.data = slices.Clone(c.data)
		c.data[off-c.off] ^= mask
		n.pending[i] = c
	}
}

func flipIn(b *blob, off int64, mask byte) {
	if off >= b.size {
		return
	}
	var p [1]byte
	b.read(p[:], off)
	p[0] ^= mask
	b.write(p[:], off)
}
