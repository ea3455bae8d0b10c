package shard

import (
	"galgo"
	"galgo/internal/partition"
	"galgo/internal/vsr"
)

// What goes out of a partition without the partition going: its oldest segments, and the
// offsets of consumer groups that were deleted. The metadata has decided either, and the
// primary of the group puts it into the group's log, whichever node that is or becomes.

// deleting is what a group has to do of it, or is doing.
type deleting struct {
	truncated uint64 // offset of the last truncation that was queued; 0: none is under way
	sweeping  bool   // there may be offsets of deleted consumer groups
	dropping  int    // of them, deletions that are under way
}

// Truncate drops the segments of a partition that a bound names, but for those that a
// consumer has not come to; done runs when that is applied here. The bound is of the life
// that begins with the purge of the generation: a later life has none of these segments.
func (d *Data) Truncate(id vsr.GroupID, generation uint64, bound partition.Bound, done func()) {
	g := d.groups[id]
	if g == nil || g.gone || generation < g.spec.PurgeGeneration {
		done()
		return
	}
	g.spec.Deleted = g.spec.Deleted.Max(bound)
	d.await(g, func() bool {
		return g.machine.Generation() == generation && g.machine.Bounded(bound) == 0 || g.machine.Generation() > generation
	}, done)
}

// truncate queues the truncation that the metadata has decided last, if this node leads
// the group and there is something to drop. No queue may refuse it.
func (d *Data) truncate(g *dataGroup) {
	if g.spec.Deleted == (partition.Bound{}) {
		return // most often, and nothing else of the machine has to be looked at
	}
	below, generation := g.machine.Bounded(g.spec.Deleted), g.spec.PurgeGeneration
	if below <= g.truncated || g.machine.Generation() != generation || !g.group.core().Serving() {
		return
	}
	g.lead()
	d.queueTruncation(g, generation, below, true)
}

// queueTruncation drops segments below an offset, of the generation. With hold, what a
// consumer has gone back to until the truncation has its place in the log stays.
func (d *Data) queueTruncation(g *dataGroup, generation, below uint64, hold bool) {
	g.truncated = below
	over := func() { g.truncated = 0 }
	g.queue = append(g.queue, dataCall{
		admit: func(ts uint64) (vsr.Request, bool) {
			left := uint64(0)
			if g.machine.StampedGeneration() == generation {
				left = g.machine.Droppable(below, hold)
			}
			if left == 0 {
				over()
				return vsr.Request{}, false
			}
			return vsr.Request{Operation: partition.OpTruncate, Timestamp: ts, Body: partition.AppendTruncate(nil, left-1)}, true
		},
		done:   func(*vsr.Prepare, partition.Result) { over() },
		refuse: func(galgo.Code) { over() },
	})
}

// Oldest finds out what deleting the n oldest segments of a partition means, in the life of
// the generation. False if the group is not here or may not be read now.
func (d *Data) Oldest(id vsr.GroupID, n int) (generation uint64, b partition.Bound, ok bool) {
	g := d.groups[id]
	if g == nil || !g.readable() {
		return 0, partition.Bound{}, false
	}
	return g.machine.Generation(), g.machine.Oldest(n), true
}

// Retain applies a rule to every partition that this node leads. A truncation that is
// still under way is waited for.
func (d *Data) Retain(rule func(vsr.GroupID) partition.Retention) {
	for _, id := range d.Groups() {
		g := d.groups[id]
		if g.truncated > 0 || !g.group.core().Serving() || d.feed.full() {
			continue
		}
		r := rule(id)
		r.Now = d.cfg.Clock.Now()
		if below := g.machine.Disposable(r); below > 0 {
			g.lead()
			d.queueTruncation(g, g.machine.Generation(), below, r.Hold)
			d.activate(g)
		}
	}
}

// ForgetGroup removes the offsets of a consumer group that the metadata has deleted; done
// runs when that is applied here.
func (d *Data) ForgetGroup(id vsr.GroupID, key uint32, done func()) {
	g := d.groups[id]
	if g == nil || g.gone {
		done()
		return
	}
	g.sweeping = true
	d.await(g, func() bool { return !g.machine.KnowsGroup(key) }, done)
}

// Sweep looks at all groups for what consumer groups have left that the metadata has deleted,
// which this node did not hear of one by one: they came whole, from a peer.
func (d *Data) Sweep() {
	for _, g := range d.sorted {
		g.sweeping = true
		d.activate(g)
	}
}

// sweep queues the deletion of offsets of consumer groups that the metadata has deleted,
// if this node leads the group: those that were just deleted, those of which a crash or
// another primary has left something, and those that a store has brought back which was
// under way. The numbers of consumer groups are not used again.
func (d *Data) sweep(g *dataGroup) {
	if !g.sweeping || g.dropping > 0 || !g.group.core().Serving() {
		return
	}
	g.sweeping = false
	for _, key := range g.machine.KnownGroups() {
		if d.deleted(g, key) {
			g.lead()
			d.drop(g, key)
		}
	}
}

func (d *Data) deleted(g *dataGroup, key uint32) bool {
	return d.cfg.GroupDeleted != nil && d.cfg.GroupDeleted(g.spec.ID, key)
}

func (d *Data) drop(g *dataGroup, key uint32) {
	g.dropping++
	over := func() {
		g.dropping = max(0, g.dropping-1)
		g.sweeping = true // what was refused is tried again
	}
	body := partition.DeleteOffset{Kind: galgo.ConsumerGroup, Key: key, Tenure: partition.Forever}.Append(nil)
	g.queue = append(g.queue, dataCall{
		admit: func(ts uint64) (vsr.Request, bool) {
			return vsr.Request{Operation: partition.OpDeleteOffset, Timestamp: ts, Body: body}, true
		},
		done:   func(*vsr.Prepare, partition.Result) { over() },
		refuse: func(galgo.Code) { over() },
	})
}

// noteWritten looks at what was just written for a consumer group, which may have been
// deleted while it was under way. What is refused may have left a claim.
func (d *Data) noteWritten(g *dataGroup, p *vsr.Prepare) {
	if key, ok := groupOf(p); ok && d.deleted(g, key) {
		g.sweeping = true
	}
}

// groupOf is the consumer group of which an op may leave something.
func groupOf(p *vsr.Prepare) (key uint32, ok bool) {
	switch p.Operation {
	case partition.OpStoreOffset:
		s, err := partition.DecodeStoreOffset(p.Body)
		return s.Key, err == nil && s.Kind == galgo.ConsumerGroup
	case partition.OpDeleteOffset:
		o, err := partition.DecodeDeleteOffset(p.Body)
		return o.Key, err == nil && o.Kind == galgo.ConsumerGroup
	case partition.OpClaim:
		c, err := partition.DecodeClaim(p.Body)
		return c.Key, err == nil
	}
	return 0, false
}
