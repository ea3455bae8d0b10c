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
//     does not hold, or acknowledges what the disk does not hold;
//   - an op that a replication quorum acknowledged in one view is replaced, also
//     if nobody came to apply it;
//   - two replicas commit in one view as its primary;
//   - view or log_view goes back over a restart.
type checks struct {
	chosen    map[vsr.Op]vsr.Identity
	highest   vsr.Op
	primaries map[vsr.View]uint8
	states    map[uint8]vsr.State
	acks      map[ackKey]uint32             // who acknowledged, by bit
	acked     map[vsr.View]map[uint8]vsr.Op // up to where
	err       error
	kinds     map[vsr.MessageKind]int
	installed int
}

func newChecks() checks {
	return checks{
		chosen: map[vsr.Op]vsr.Identity{}, primaries: map[vsr.View]uint8{}, states: map[uint8]vsr.State{},
		kinds: map[vsr.MessageKind]int{}, acks: map[ackKey]uint32{}, acked: map[vsr.View]map[uint8]vsr.Op{},
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
		key := ackKey{m.View, op, id}
		k.acks[key] |= 1 << r.id
		if held, ok := primary.disk.identity(op); ok && held == id && primary.disk.state.LogView == m.View {
			k.acks[key] |= 1 << primary.id
		}
		if bits.OnesCount32(k.acks[key]) >= vsr.QuorumsOf(len(c.replicas)).Replication {
			k.chooses(c, r, op, id)
		}
	}
	k.acked[m.View][r.id] = max(k.acked[m.View][r.id], m.Op)
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
	if committed.Op != vsr.Op(len(r.history))+1 {
		k.failf("replica %d applies op %d after op %d", r.id, committed.Op, len(r.history))
	}
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

func (k *checks) leaves(c *Cluster, r *replica, m vsr.Message) {
	k.kinds[m.Kind]++
	s := r.disk.state
	if m.View > s.View || m.LogView > s.LogView {
		k.failf("replica %d sends %s with log_view %d, its disk has %s", r.id, c.messageString(m), m.LogView, stateString(s))
	}
	switch m.Kind {
	case vsr.MessagePrepareOk:
		if s.Doubt != 0 || m.View != s.View || m.LogView != s.View {
			k.failf("replica %d acknowledges in view %d, its disk has %s", r.id, m.View, stateString(s))
		}
		if id, ok := r.disk.identity(m.Op); !ok || id != m.Identity {
			k.failf("replica %d acknowledges %s, which its log does not hold", r.id, c.of(m.Op, m.Identity))
		}
		k.acknowledges(c, r, m)
	case vsr.MessageDoViewChange, vsr.MessageStartViewChange:
		if s.Doubt == vsr.DoubtAll {
			k.failf("replica %d was replaced and votes: %s", r.id, c.messageString(m))
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
