package memdisk

import (
	"path"
	"slices"
	"strings"
)

// clone copies the trees and the journal; contents are shared until written.
func (d *Disk) clone() *Disk {
	c := cloner{}
	after := New(Options{Capacity: d.opt.Capacity})
	after.root = c.node(d.root)
	for _, ch := range d.names {
		cp := *ch
		cp.node, cp.dir, cp.oldDir = c.node(ch.node), c.node(ch.dir), c.node(ch.oldDir)
		after.names = append(after.names, &cp)
	}
	return after
}

// cloner maps nodes to their copies, so that a node with two names stays one.
type cloner map[*node]*node

func (c cloner) node(n *node) *node {
	if n == nil {
		return nil
	}
	if cp := c[n]; cp != nil {
		return cp
	}
	cp := &node{isDir: n.isDir}
	c[n] = cp
	if n.isDir {
		cp.live, cp.base = c.names(n.live), c.names(n.base)
		return cp
	}
	cp.cache, cp.platter, cp.pending = n.cache.share(), n.platter.share(), slices.Clone(n.pending)
	return cp
}

func (c cloner) names(m map[string]*node) map[string]*node {
	cp := make(map[string]*node, len(m))
	for name, n := range m {
		cp[name] = c.node(n)
	}
	return cp
}

func splitDir(name string) []string {
	dir := path.Dir(name)
	if dir == "." {
		return nil
	}
	return strings.Split(dir, "/")
}
