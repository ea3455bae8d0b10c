package memdisk

import "slices"

type nameKind uint8

const (
	nameCreated nameKind = iota
	nameRemoved
	nameRenamed
)

// nameChange is a creation, removal or rename that a power loss may undo. It is
// durable once each directory it touches was synced after it.
type nameChange struct {
	kind    nameKind
	node    *node
	dir     *node  // directory of name
	name    string // the name that appears, or goes
	oldDir  *node  // rename: where the node was,
	oldName string // and under which name
	synced  [2]bool
	stuck   bool // a failed SyncDir lost it: later ones do not make it durable
}

func (c *nameChange) durable() bool {
	return c.synced[0] && (c.kind != nameRenamed || c.synced[1])
}

// recordName appends to the journal of names; the live tree was changed already.
func (d *Disk) recordName(c nameChange) { d.names = append(d.names, &c) }

// syncNames makes the changes of one directory durable and folds the durable
// prefix of the journal into the base tree.
func (d *Disk) syncNames(dir *node) {
	for _, c := range d.names {
		if c.stuck {
			continue
		}
		c.synced[0] = c.synced[0] || c.dir == dir
		c.synced[1] = c.synced[1] || c.oldDir == dir
	}
	done := 0
	for done < len(d.names) && d.names[done].durable() {
		applyName(d.root, d.names[done])
		done++
	}
	d.names = slices.Delete(d.names, 0, done)
}

// dropNames is a SyncDir that failed: what is pending in dir stays in doubt
// for ever.
func (d *Disk) dropNames(dir *node) {
	for _, c := range d.names {
		if !c.durable() && (c.dir == dir || c.oldDir == dir) {
			c.stuck = true
		}
	}
}

// applyName plays a change into the base tree below root. Changes before it may
// have been lost, so the node may have another name than it had, or none.
func applyName(root *node, c *nameChange) {
	switch c.kind {
	case nameCreated:
	case nameRemoved:
		unlink(root, c.node, c.dir, c.name)
		return
	case nameRenamed:
		unlink(root, c.node, c.oldDir, c.oldName)
	}
	c.dir.base[c.name] = c.node
}

// unlink removes the one name that n has in the base tree, most likely name in
// dir: else it is searched for, below root.
func unlink(root, n, dir *node, name string) {
	if dir.base[name] == n {
		delete(dir.base, name)
		return
	}
	unlinkBelow(root, n)
}

func unlinkBelow(dir, n *node) bool {
	for name, child := range dir.base {
		if child == n {
			delete(dir.base, name)
			return true
		}
		if child.isDir && unlinkBelow(child, n) {
			return true
		}
	}
	return false
}
