package memdisk

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
)

// Files returns the content of every file by name, as readers see it now.
func (d *Disk) Files() map[string][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	files := map[string][]byte{}
	for name, n := range flatten(d.root) {
		if !n.isDir {
			files[name] = n.cache.bytes()
		}
	}
	return files
}

// Names returns the names of all files and directories, sorted.
func (d *Disk) Names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(flatten(d.root)))
}

// Bytes returns the content of one file as readers see it, or nil when there is
// no such file. It is neither counted nor subject to faults.
func (d *Disk) Bytes(name string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.find(name)
	if err != nil || n.isDir {
		return nil
	}
	return n.cache.bytes()
}

// Put sets the content of a file, durably, making it and its directories if
// they are missing. It is neither counted nor subject to faults: it is for
// arranging what a test starts from.
func (d *Disk) Put(name string, content []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.mkdirs(splitDir(name), true); err != nil {
		panic(fmt.Sprintf("memdisk: put %s: %v", name, err))
	}
	dir, base, err := d.parent(name)
	if err != nil || dir.live[base] != nil && dir.live[base].isDir {
		panic(fmt.Sprintf("memdisk: put %s: %v", name, err))
	}
	n := dir.live[base]
	if n == nil {
		n = d.create(dir, base, 0)
		d.syncNames(dir)
	}
	n.write(change{truncate: true})
	n.write(change{data: bytes.Clone(content)})
	n.sync()
}

// Delete removes a file durably, as Put makes one. It panics if there is none.
func (d *Disk) Delete(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.remove(name); err != nil {
		panic(fmt.Sprintf("memdisk: delete %s: %v", name, err))
	}
	dir, _, _ := d.parent(name)
	d.syncNames(dir)
}

// Equal reports whether two disks have the same names and, as readers see them,
// the same bytes.
func Equal(a, b *Disk) bool { return Diff(a, b) == "" }

// Diff names the first difference between two disks, "" if there is none. Take a
// Clone before what must not change the disk, and compare after it.
func Diff(a, b *Disk) string {
	if a == b {
		return ""
	}
	// The copies keep two locks from being held at once.
	x, y := flatten(a.Clone().root), flatten(b.Clone().root)
	for _, name := range slices.Sorted(maps.Keys(x)) {
		if d := diffNode(x[name], y[name]); d != "" {
			return name + ": " + d
		}
	}
	for _, name := range slices.Sorted(maps.Keys(y)) {
		if x[name] == nil {
			return name + ": only on the second disk"
		}
	}
	return ""
}

func diffNode(a, b *node) string {
	switch {
	case b == nil:
		return "only on the first disk"
	case a.isDir != b.isDir:
		return "a file on one disk, a directory on the other"
	case a.isDir:
		return ""
	case a.cache.size != b.cache.size:
		return fmt.Sprintf("%d bytes on the first disk, %d on the second", a.cache.size, b.cache.size)
	}
	if off := firstDifference(a.cache, b.cache); off >= 0 {
		return fmt.Sprintf("differs at byte %d of %d", off, a.cache.size)
	}
	return ""
}

// flatten returns every node below a directory by its full name.
func flatten(dir *node) map[string]*node {
	all := map[string]*node{}
	var walk func(prefix string, n *node)
	walk = func(prefix string, n *node) {
		for base, child := range n.live {
			name := path.Join(prefix, base)
			all[name] = child
			if child.isDir {
				walk(name, child)
			}
		}
	}
	walk("", dir)
	return all
}

func eachFile(dir *node, do func(*node)) {
	for _, n := range flatten(dir) {
		if !n.isDir {
			do(n)
		}
	}
}
