package wal

import (
	"errors"
	"fmt"

	"galgo/internal/vsr"
)

// where is the place of a record; file 0 is nowhere.
type where struct {
	file uint64
	off  uint32 // in units of alignment
	size uint32 // of the payload in bytes
}

func (w where) offset() int64 { return int64(w.off) * alignment }

// entry is an op in the log. Bodies and headers stay on disk.
type entry struct {
	id vsr.Identity
	at where
}

// group is what the log knows of one group. Ops base+1 .. base+len(entries) are
// in the log in full.
type group struct {
	id      vsr.GroupID
	base    vsr.Op       // the commit-point op; 0 before the first checkpoint
	baseID  vsr.Identity // of op base; zero for op 0
	baseAt  where        // of a record with the header of op base, if there is one
	entries []entry
	state   where
	live    int64 // bytes of entries

	// begun: an op or a reset was seen, so the next op is known. orphan: what came
	// before the first op seen is gone, and no floor has said yet that it may be.
	// That happens in Open only.
	begun, orphan bool

	// bornFile is the file of op 1, 0 if it is not in the log. floorEntry is the
	// newest reset or floor record, of op floorOp; 0 if there is none.
	bornFile   uint64
	floorOp    vsr.Op
	floorEntry entry

	// Where the group will stand when the batch under way is written.
	// Otherwise equal to last and lastID. Only the writer uses them.
	head   vsr.Op
	headID vsr.Identity
}

var (
	errGap    = errors.New("op does not follow the last of its group")
	errParent = errors.New("parent is not the op before it")
	errCut    = errors.New("truncation to an op that the group does not have")
	errFloor  = errors.New("commit point is not an op of the group")
)

func (g *group) last() vsr.Op { return g.base + vsr.Op(len(g.entries)) }

func (g *group) lastID() vsr.Identity {
	if n := len(g.entries); n > 0 {
		return g.entries[n-1].id
	}
	return g.baseID
}

// identity returns that of an op from base on.
func (g *group) identity(op vsr.Op) (vsr.Identity, bool) {
	switch {
	case op == g.base && g.base > 0:
		return g.baseID, true
	case op > g.base && op <= g.last():
		return g.entries[op-g.base-1].id, true
	}
	return vsr.Identity{}, false
}

// extends checks that h is the op after (op, id).
func extends(h *vsr.Header, op vsr.Op, id vsr.Identity) error {
	if h.Op != op+1 {
		return fmt.Errorf("%w: op %d after op %d", errGap, h.Op, op)
	}
	if h.Parent != id {
		return fmt.Errorf("%w: op %d has parent %v, op %d is %v", errParent, h.Op, h.Parent, op, id)
	}
	return nil
}

// admit checks a prepare that is read in Open. The files that held what came
// before the first op seen may have been freed; so may what lies between a floor
// and that op.
func (g *group) admit(h *vsr.Header) error {
	if g.begun || h.Op <= g.base+1 {
		return extends(h, g.last(), g.lastID())
	}
	g.base, g.baseID, g.baseAt, g.orphan = h.Op-1, h.Parent, where{}, true
	return nil
}

// admitCut checks a truncation that is read in Open.
func (g *group) admitCut(op vsr.Op) error {
	if g.begun && op > g.last() || op < g.base && !g.orphan {
		return fmt.Errorf("%w: op %d of %d..%d", errCut, op, g.base, g.last())
	}
	return nil
}

func (g *group) settle() { g.head, g.headID = g.last(), g.lastID() }

// push adds an op that was admitted.
func (g *group) push(h *vsr.Header, at where) {
	if h.Op == 1 {
		g.bornFile = at.file
	}
	g.begun = true
	g.entries = append(g.entries, entry{h.Identity, at})
	g.live += recordBytes(at)
	g.settle()
}

// cut drops the ops above op.
func (g *group) cut(op vsr.Op) {
	switch {
	case !g.begun:
		g.orphan = op > g.base
	case op < g.base && !g.orphan:
		panic(fmt.Sprintf("wal: group %d: truncate to op %d, below the released op %d", g.id, op, g.base))
	case op < g.base: // even the first op seen is dead; back to the floor before it
		g.keepAbove(g.last())
		g.base, g.baseID, g.baseAt = g.floorOp, g.floorEntry.id, g.floorEntry.at
		g.begun, g.orphan = false, op > g.base
	default:
		for _, e := range g.entries[op-g.base:] {
			g.live -= recordBytes(e.at)
		}
		g.entries = g.entries[:op-g.base]
	}
	g.settle()
}

// admitFloor checks a commit point that is read in Open.
func (g *group) admitFloor(h *vsr.Header) error {
	if !g.begun || h.Op < g.base || h.Op == g.base && h.Identity == g.baseID {
		return nil
	}
	if id, ok := g.identity(h.Op); !ok || id != h.Identity {
		return fmt.Errorf("%w: op %d %v of %d..%d", errFloor, h.Op, h.Identity, g.base, g.last())
	}
	return nil
}

// floor makes h, which was admitted, the commit point. A floor below the base
// changes nothing yet: a later one follows, or a truncation back to it, or the
// group was released further while this one was being written.
func (g *group) floor(h *vsr.Header, at where) {
	g.floorOp, g.floorEntry = h.Op, entry{h.Identity, at}
	if h.Op < g.base {
		return
	}
	begun := g.begun
	if begun {
		g.keepAbove(h.Op)
	}
	g.rebase(h, at)
	g.begun = begun
}

// reset makes h the commit point with nothing above it.
func (g *group) reset(h *vsr.Header, at where) {
	g.keepAbove(g.last())
	g.bornFile = 0
	g.rebase(h, at)
}

func (g *group) rebase(h *vsr.Header, at where) {
	g.base, g.baseID, g.baseAt = h.Op, h.Identity, at
	g.floorOp, g.floorEntry = h.Op, entry{h.Identity, at}
	g.begun, g.orphan = true, false
	g.settle()
}

// release moves the base up to op, which is in the log.
func (g *group) release(op vsr.Op) {
	if op <= g.base {
		return
	}
	e := g.entries[op-g.base-1]
	g.keepAbove(op)
	g.base, g.baseID, g.baseAt = op, e.id, e.at
}

// keepAbove drops the entries up to op.
func (g *group) keepAbove(op vsr.Op) {
	n := op - g.base
	for _, e := range g.entries[:n] {
		g.live -= recordBytes(e.at)
	}
	g.entries = g.entries[n:]
	if len(g.entries) == 0 {
		g.entries = nil // let go of the array
	}
}

// recordBytes is the length of a prepare's record without the padding of its
// batch.
func recordBytes(at where) int64 { return frameSize + roundUp(int64(at.size), alignment) }
