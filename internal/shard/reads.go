package shard

import "galgo/internal/vsr"

// waitTicks bounds how long a reader waits for what another node has decided.
const waitTicks = 100

// reader waits until an op has been applied here.
type reader struct {
	op    vsr.Op
	ticks int
	run   func(there bool)
}

// readers wait for ops, each for a bounded time.
type readers []reader

func (r *readers) add(op vsr.Op, run func(bool)) { *r = append(*r, reader{op, waitTicks, run}) }

// settle runs those whose op is applied.
func (r *readers) settle(applied vsr.Op) {
	r.leave(func(w *reader) (there, over bool) { return w.op <= applied, w.op <= applied })
}

// tick has those give up that have waited long enough.
func (r *readers) tick() {
	r.leave(func(w *reader) (there, over bool) {
		w.ticks--
		return false, w.ticks <= 0
	})
}

// leave runs those that need not wait any more, in order.
func (r *readers) leave(judge func(*reader) (there, over bool)) {
	if len(*r) == 0 {
		return
	}
	var due []func()
	kept := (*r)[:0]
	for i := range *r {
		w := (*r)[i]
		if there, over := judge(&w); over {
			due = append(due, func() { w.run(there) })
		} else {
			kept = append(kept, w)
		}
	}
	clear((*r)[len(kept):])
	*r = kept
	for _, f := range due {
		f()
	}
}

// When runs f on the loop once op is applied, or after some time with false.
func (m *Metadata) When(op vsr.Op, f func(there bool)) {
	if op <= m.group.core().CommitMin() {
		f(true)
		return
	}
	m.readers.add(op, f)
}

// Told remembers that this node has told a client of an op, which another node decided:
// what is read here afterwards must have it.
func (d *Data) Told(id vsr.GroupID, op vsr.Op) {
	if g := d.groups[id]; g != nil {
		g.told = max(g.told, op)
	}
}

// WhenReadable runs f on the loop once the group holds what clients of this node were
// told of, or after some time with false.
func (d *Data) WhenReadable(id vsr.GroupID, f func(there bool)) {
	g := d.groups[id]
	if g == nil || g.told <= g.group.core().CommitMin() {
		f(true)
		return
	}
	g.readers.add(g.told, f)
	d.wake(g)
}

// Primary tells which replica leads the metadata group, as far as this one knows: false
// if it has not heard of one lately.
func (m *Metadata) Primary() (uint8, bool) { return primaryOf(m.group.core()) }

// Primary is the same for a group of partitions.
func (d *Data) Primary(id vsr.GroupID) (uint8, bool) {
	g := d.groups[id]
	if g == nil {
		return 0, false
	}
	return primaryOf(g.group.core())
}

// Readable reports whether the metadata here is not of the past: see dataGroup.readable.
func (m *Metadata) Readable() bool { return m.group.core().Current() }

func primaryOf(c *vsr.Core) (uint8, bool) {
	return c.Primary(), c.Status() == vsr.StatusNormal && c.Hears()
}
