package vsrtest

import (
	"fmt"
	"math/bits"

	"galgo/internal/vsr"
)

// checks are what must never happen, whatever the schedule:
//
//   - two replicas apply different prepares at one op, or one replica applies
//     with a gap, or anything that was applied is replaced after a restart;
//   - a replica applies what its own log does not hold durably;
//   - a message leaves that shows a view or log_view which the disk of its sender
//     does not hold; or acknowledges in another than the sender is in, or what the
//     disk does not hold or is about to drop; or is a vote that denies what the disk
//     holds, or one that claims to tell while a checkpoint replaces the log;
//   - a commit point is named that no replication quorum has reached;
//   - an op that a replication quorum acknowledged in one view is replaced, also
//     if nobody came to apply it;
//   - two replicas commit in one view as its primary;
//   - view or log_view goes back, also over a restart, or a commit point in one
//     life, or the head of a normal replica in one view.
type checks struct {
	chosen    map[vsr.Op]vsr.Identity
	highest   vsr.Op
	primaries map[vsr.View]uint8
	states    map[uint8]vsr.State
	acks      map[ackKey]uint32             // who acknowledged and still has it, by bit
	said      map[ackKey]uint32             // who ever acknowledged
	reached   vsr.Op                        // the highest that a replication quorum ever acknowledged
	acked     map[vsr.View]map[uint8]vsr.Op // up to where
	err       error
	kinds     map[vsr.MessageKind]int
	installed int
}

func newChecks() checks {
	return checks{
		chosen: map[vsr.Op]vsr.Identity{}, primaries: map[vsr.View]uint8{}, states: map[uint8]vsr.State{},
		kinds: map[vsr.MessageKind]int{}, acks: map[ackKey]uint32{}, said: map[ackKey]uint32{}, acked: map[vsr.View]map[uint8]vsr.Op{},
	}
}

type ackKey struct {
	view     vsr.View
	op       vsr.Op
	identity vsr.Identity
}

// acknowledges counts acknowledgements as they leave, apart from the core. What
// has a replication quorum of them is chosen, whether or not they arrive.
func (k *checks) acknowledges(c *Cluster, r *replica, m vsr.Message) {
	if k.acked[m.View] == nil {
		k.acked[m.View] = map[uint8]vsr.Op{}
	}
	primary := c.replicas[int(m.View)%len(c.replicas)]
	for op := max(k.acked[m.View][r.id], r.disk.freed) + 1; op <= m.Op; op++ {
		id, _ := r.disk.identity(op)
		by := uint32(1) << r.id
		if held, ok := primary.disk.identity(op); ok && held == id && primary.disk.state.LogView == m.View {
			by |= 1 << primary.id
		}
		k.counts(c, r, ackKey{m.View, op, id}, by)
	}
	k.acked[m.View][r.id] = max(k.acked[m.View][r.id], m.Op)
}

func (k *checks) counts(c *Cluster, r *replica, key ackKey, by uint32) {
	quorum := vsr.QuorumsOf(len(c.replicas)).Replication
	k.acks[key] |= by
	if bits.OnesCount32(k.acks[key]) >= quorum {
		k.chooses(c, r, key.op, key.identity)
	}
	k.said[key] |= by
	if bits.OnesCount32(k.said[key]) >= quorum {
		k.reached = max(k.reached, key.op)
	}
}

// lost: what a replica acknowledged and has not any more counts for nothing.
func (k *checks) lost(r *replica) {
	for key := range k.acks {
		k.acks[key] &^= 1 << r.id
	}
	for _, acked := range k.acked {
		delete(acked, r.id)
	}
}

// failf keeps the first failure.
func (k *checks) failf(format string, args ...any) {
	if k.err == nil {
		k.err = fmt.Errorf(format, args...)
	}
}

func (k *checks) chooses(c *Cluster, r *replica, op vsr.Op, id vsr.Identity) {
	if was, ok := k.chosen[op]; ok && was != id {
		k.failf("replica %d applies %s, but %s was applied before", r.id, c.of(op, id), c.of(op, was))
	}
	k.chosen[op] = id
	k.highest = max(k.highest, op)
}

func (k *checks) applies(c *Cluster, r *replica, committed vsr.Committed) {
	if committed.Op != r.handed+1 {
		k.failf("replica %d applies op %d after op %d", r.id, committed.Op, r.handed)
	}
	r.handed = committed.Op
	if p := r.disk.at(committed.Op); p == nil || p.Identity != committed.Identity {
		k.failf("replica %d applies %s, which its log does not hold", r.id, c.of(committed.Op, committed.Identity))
	}
	k.chooses(c, r, committed.Op, committed.Identity)
}

func (k *checks) installs(c *Cluster, r *replica, cp checkpoint) {
	k.installed++
	for i, id := range cp.history {
		k.chooses(c, r, vsr.Op(i+1), id)
	}
}

func (k *checks) restarted(c *Cluster, r *replica, recovered vsr.Recovered) {
	was := k.states[r.id]
	if s := recovered.State; s.View < was.View || s.LogView < was.LogView {
		k.failf("replica %d comes back with %s, had %s", r.id, stateString(s), stateString(was))
	}
	for op := r.disk.checkpoint.op + 1; op <= recovered.Commit; op++ {
		k.chooses(c, r, op, r.disk.at(op).Identity)
	}
}

func (k *checks) replaced(r *replica) {
	delete(k.states, r.id)
	k.lost(r)
}

// holds counts an op that a primary has on its disk as its own acknowledgement.
func (k *checks) holds(c *Cluster, r *replica, p *vsr.Prepare) {
	s := r.disk.state
	if int(s.View)%len(c.replicas) != int(r.id) || s.LogView != s.View {
		return
	}
	k.counts(c, r, ackKey{s.View, p.Op, p.Identity}, 1<<r.id)
}

// sight is what was seen of a replica last, in one life.
type sight struct {
	state    vsr.State
	normal   bool
	head     vsr.Op
	min, max vsr.Op // commit points
}

func (k *checks) sees(c *Cluster, r *replica) {
	was, state := r.seen, r.core.View()
	r.seen = sight{
		state: state, head: r.core.Head(), min: r.core.CommitMin(), max: r.core.CommitMax(),
		normal: r.core.Status() == vsr.StatusNormal && state.View == state.LogView && state.Doubt == 0,
	}
	if state.View < was.state.View || state.LogView < was.state.LogView || r.seen.min < was.min || r.seen.max < was.max {
		k.failf("replica %d goes back from %+v to %+v", r.id, was, r.seen)
	}
	if was.normal && state.View == was.state.View && r.seen.head < was.head {
		k.failf("replica %d is normal in view %d and lowers its head from %d to %d", r.id, state.View, was.head, r.seen.head)
	}
}

// denies reports an op that the disk of the sender holds and its vote does not
// name.
func (r *replica) denies(m vsr.Message) (vsr.Op, bool) {
	if m.Kind != vsr.MessageDoViewChange || m.Unknown {
		return 0, false
	}
	for op := m.Commit + 1; op <= r.disk.head(); op++ {
		p := r.disk.at(op)
		if p != nil && (op > m.Op || m.Headers[op-m.Commit-1].Identity != p.Identity) {
			return op, true
		}
	}
	return 0, false
}

// drops reports whether a truncation below op waits to be written.
func (r *replica) drops(op vsr.Op) bool {
	for _, w := range r.writes {
		if w.truncate != nil && *w.truncate < op {
			return true
		}
	}
	return false
}

func (k *checks) leaves(c *Cluster, r *replica, m vsr.Message) {
	k.kinds[m.Kind]++
	s := r.disk.state
	if m.View > s.View || m.LogView > s.LogView {
		k.failf("replica %d sends %s with log_view %d, its disk has %s", r.id, c.messageString(m), m.LogView, stateString(s))
	}
	if m.Commit > max(k.reached, k.highest) {
		k.failf("replica %d sends %s with commit point %d, but a quorum has acknowledged only %d", r.id, c.messageString(m), m.Commit, k.reached)
	}
	if op, bad := r.denies(m); bad {
		k.failf("replica %d sends %s, its disk holds %s", r.id, c.messageString(m), c.of(op, r.disk.at(op).Identity))
	}
	switch m.Kind {
	case vsr.MessagePrepareOk:
		if s.Doubt != 0 || m.View != s.View || m.LogView != s.View || r.core.View() != s {
			k.failf("replica %d acknowledges in view %d, its disk has %s", r.id, m.View, stateString(s))
		}
		if id, ok := r.disk.identity(m.Op); !ok || id != m.Identity || r.drops(m.Op) {
			k.failf("replica %d acknowledges %s, which its log does not hold or will not", r.id, c.of(m.Op, m.Identity))
		}
		k.acknowledges(c, r, m)
	case vsr.MessageDoViewChange, vsr.MessageStartViewChange:
		if s.Doubt == vsr.DoubtAll {
			k.failf("replica %d was replaced and votes: %s", r.id, c.messageString(m))
		}
		if m.Kind == vsr.MessageDoViewChange && r.core.Transferring() && !m.Unknown {
			k.failf("replica %d takes a checkpoint and votes as if it could tell: %s", r.id, c.messageString(m))
		}
	case vsr.MessagePrepare, vsr.MessageCommit, vsr.MessageStartView:
		if was, ok := k.primaries[m.View]; ok && was != r.id {
			k.failf("replicas %d and %d both lead view %d", was, r.id, m.View)
		}
		k.primaries[m.View] = r.id
	}
	was := k.states[r.id]
	k.states[r.id] = vsr.State{View: max(was.View, m.View), LogView: max(was.LogView, m.LogView)}
}

func (d *disk) identity(op vsr.Op) (vsr.Identity, bool) {
	if p := d.at(op); p != nil {
		return p.Identity, true
	}
	if op <= d.checkpoint.op && op > 0 {
		return d.checkpoint.history[op-1], true
	}
	return vsr.Identity{}, op == 0
}
