package shard

import (
	"slices"

	"galgo/internal/vsr"
)

// rests says when the groups of a shard are looked at next. Of thousands most are at rest
// most of the time: a tick reads this and nothing of theirs, which is in no cache by then.
type rests struct {
	ids []vsr.GroupID // ascending
	due []uint64      // the tick at which that group is looked at
}

// place is where a group is in the order of their numbers, or would be.
func (r *rests) place(id vsr.GroupID) int {
	at, _ := slices.BinarySearch(r.ids, id)
	return at
}

func (r *rests) insert(at int, id vsr.GroupID) {
	r.ids, r.due = slices.Insert(r.ids, at, id), slices.Insert(r.due, at, 0)
}

func (r *rests) delete(at int) {
	r.ids, r.due = slices.Delete(r.ids, at, at+1), slices.Delete(r.due, at, at+1)
}

// doze leaves a group alone until something may come of a tick, or something else happens:
// see wake.
func (d *Data) doze(g *dataGroup) {
	ticks := g.group.core().Dozes()
	if ticks == 0 || g.gone || g.active || len(g.readers) > 0 {
		return
	}
	g.dozes = true
	d.due[d.place(g.spec.ID)] = d.ticks + uint64(ticks) + 1
}

// wake has a group looked at with each tick.
func (d *Data) wake(g *dataGroup) {
	if g.dozes {
		g.dozes = false
		d.due[d.place(g.spec.ID)] = 0
	}
}
