package sim

import (
	"slices"

	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// A topic with durability memory may lose its last messages when the only node loses
// power, or a sync fails. What is lost was never there from then on, for the model too.

// born takes note of a group that the metadata has just made, and whether for a topic with
// durability memory. An update of the topic may end that, but a node finds out when it is
// restarted.
func (m *model) born(id uint64) {
	v := m.metadata.View()
	if p, ok := v.PartitionOf(id); ok {
		if t, ok := v.TopicOf(p); ok {
			m.group(vsr.GroupID(id)).volatile = t.Options.Durability() == wire.DurabilityMemory
		}
	}
}

// forget cuts a group to what a power loss left of it.
func (m *model) forget(g *groupModel, op vsr.Op) {
	m.w.cover.Forgotten += int(g.head() - op)
	m.w.say("group %d has lost ops %d to %d, as it may", g.id, op+1, g.head())
	g.chosen, g.forgot = g.chosen[:op], true
	for len(g.sends) > 0 && g.sends[len(g.sends)-1].op > op {
		lost := g.sends[len(g.sends)-1]
		g.sends = g.sends[:len(g.sends)-1]
		lost.send.stored = slices.DeleteFunc(lost.send.stored, func(at storedSend) bool { return at.op > op })
	}
	g.purges = slices.DeleteFunc(g.purges, func(p storedPurge) bool { return p.op > op })
	g.truncations = slices.DeleteFunc(g.truncations, func(t storedTruncation) bool { return t.op > op })
	// order-free: each consumer by itself.
	for k := range g.offsets {
		g.offsets[k] = slices.DeleteFunc(g.offsets[k], func(o storedOffset) bool { return o.op > op })
	}
	// order-free: each consumer group by itself.
	for k := range g.claims {
		g.claims[k] = slices.DeleteFunc(g.claims[k], func(c claimed) bool { return c.op > op })
	}
	_, g.next = g.at(op)
	g.time = 0
	g.acked, g.due = min(g.acked, op), min(g.due, op)
	g.answers = slices.DeleteFunc(g.answers, func(a timedOp) bool { return a.op > op })
	for _, s := range m.w.crowd.sends {
		if s.group == g.id {
			s.floor = min(s.floor, op)
		}
	}
	for _, n := range m.w.nodes {
		n.served[g.id] = min(n.served[g.id], op)
	}
}
