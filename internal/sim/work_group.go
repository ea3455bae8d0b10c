package sim

import (
	"slices"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/engine"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/vsr"
)

// pollAsMember polls a partition for one of the consumer groups that the client's node
// knows it in, and commits what it was given, or not.
func (c *client) pollAsMember() {
	if c.node.engine == nil {
		c.move()
		return
	}
	view := c.node.engine.View()
	groups := slices.Collect(view.Memberships(c.id))
	if len(groups) == 0 {
		return
	}
	g := groups[c.rng.IntN(len(groups))]
	t, err := view.Topic(galgo.NumericID(g.Stream), galgo.NumericID(g.Topic))
	if err != nil || t.Partitions == 0 {
		return
	}
	p, _ := view.Partition(t, uint32(c.rng.IntN(int(t.Partitions))))
	if m, _ := g.Member(c.id); len(m.Partitions) > 0 && !oneIn(c.rng, 5) {
		p, _ = view.Partition(t, m.Partitions[c.rng.IntN(len(m.Partitions))])
	}
	c.pollPartition(view, g, p)
}

// pollPartition polls a partition for a consumer group, and claims it before if need be.
func (c *client) pollPartition(view *metadata.View, g *metadata.ConsumerGroup, p *metadata.Partition) {
	since, unclaimed := c.tenures.Unclaimed(g, c.id, p)
	if !unclaimed {
		c.pollClaimed(g, p)
		return
	}
	c.begun()
	n := c.node
	try(c, "claim", func(e *engine.Engine, done func(edge.OffsetReply)) {
		c.claim(e, edge.OffsetRequest{Group: p.Group, Kind: galgo.ConsumerGroup, Key: g.ID, Tenure: since, Member: c.id, Client: c.id}, done)
	}, func(r edge.OffsetReply, f fate) {
		c.done()
		switch {
		case f != answered, r.Code == galgo.CodeTransientNotAccepted, r.Code == galgo.CodeTransientNotCommitted:
			c.move()
		case r.Code == galgo.CodeResourceNotFound:
			c.w.cover.MembersFenced++
		case r.Code != galgo.CodeOK:
			c.w.fail("members", "claim of group %d at node %d is answered with %v", p.Group, n.id, r.Code)
		case c.node == n:
			c.w.cover.Claims++
			c.tenures.Claimed(view, g, c.id, p, since)
			c.pollClaimed(g, p)
		}
	})
}

// claim asks whoever leads the group, as the router does: not one that has not seen of the
// metadata what this node has. What is claimed is what this node reads from then on.
func (c *client) claim(e *engine.Engine, req edge.OffsetRequest, done func(edge.OffsetReply)) {
	e.Leader(req.Group, func(replica uint8, known bool) {
		refuse := edge.OffsetReply{Code: galgo.CodeTransientNotAccepted}
		if !known {
			done(refuse)
			return
		}
		leader := c.w.nodes[replica].engine
		if leader == nil || leader.View().Op() < e.View().Op() {
			done(refuse)
			return
		}
		leader.Claim(req, func(r edge.OffsetReply) {
			if r.Code == galgo.CodeOK {
				e.Told(req.Group, r.Op)
			}
			done(r)
		})
	})
}

// pollClaimed polls a partition that the member has claimed.
func (c *client) pollClaimed(g *metadata.ConsumerGroup, p *metadata.Partition) {
	c.begun()
	n, since := c.node, c.tenures.Since(g, c.id, p)
	q := pollCheck{c: c, n: n, group: vsr.GroupID(p.Group), partition: p.ID, consumer: consumerKey{galgo.ConsumerGroup, g.ID}}
	q.strategy, q.count = galgo.FromNext(), uint32(1+c.rng.IntN(1<<c.rng.IntN(6)))
	req := edge.PollRequest{Group: p.Group, Kind: galgo.ConsumerGroup, Key: g.ID, Member: c.id, Strategy: q.strategy, Count: q.count, Plan: &q.plan}
	given, last := false, uint64(0)
	try(c, "poll as member", func(e *engine.Engine, done func(edge.PollReply)) {
		q.life = n.life
		e.Poll(req, func(r edge.PollReply) {
			q.op = n.commitMin(q.group)
			if r.Code == galgo.CodeOK {
				req.Ticket = r.Ticket
				given, last = q.given(e, req)
			}
			done(r)
		})
	}, func(r edge.PollReply, f fate) {
		c.done()
		switch {
		case f != answered, r.Code == galgo.CodeTransientNotAccepted:
			c.move()
		case r.Code == galgo.CodeConsumerGroupPartitionNotOwned:
			c.w.cover.MembersFenced++
		case r.Code != galgo.CodeOK:
			c.w.fail("polls", "poll of group %d by a member at node %d is answered with %v", q.group, n.id, r.Code)
		case given:
			c.consumed(g, p, last, since)
		}
	})
}

// consumed has a member commit what it was given, at once and go on, or after a while, or
// never.
func (c *client) consumed(g *metadata.ConsumerGroup, p *metadata.Partition, last, since uint64) {
	switch {
	case oneIn(c.rng, 4):
	case oneIn(c.rng, 4):
		c.begun()
		c.w.after(between(c.rng, 10*millisecond, 3*second), func() {
			c.done()
			c.commitAsMember(p.Group, g.ID, last, since, func() {})
		})
	default:
		c.commitAsMember(p.Group, g.ID, last, since, func() {
			if !c.w.calm && !oneIn(c.rng, 12) {
				c.goOn(g, p)
			}
		})
	}
}

// goOn polls on in a partition that the client still has.
func (c *client) goOn(g *metadata.ConsumerGroup, p *metadata.Partition) {
	if c.node.engine == nil {
		return
	}
	view := c.node.engine.View()
	if g, ok := view.ConsumerGroupAt(g.Stream, g.Topic, g.ID); ok && g.MayPoll(c.id, p.ID) {
		c.pollPartition(view, g, p)
	}
}

// given reads what a member's poll has planned, as a connection does, and has the node
// say whether the member may still have it.
func (q *pollCheck) given(e *engine.Engine, req edge.PollRequest) (given bool, last uint64) {
	w := q.c.w
	var reply partition.Reply
	err := q.plan.Read(&reply)
	any := err == nil && reply.Count > 0
	if allowed := e.Polled(req, reply.Last, any); !allowed || !any {
		return false, 0
	}
	w.cover.MemberPolls++
	w.checks.delivered(q, req)
	if w.failure == nil {
		q.read()
	}
	return true, reply.Last
}

// commitAsMember stores the offset of a consumer group.
func (c *client) commitAsMember(group uint64, key uint32, offset, since uint64, then func()) {
	c.begun()
	req := edge.OffsetRequest{Group: group, Kind: galgo.ConsumerGroup, Key: key, Offset: offset, Monotone: oneIn(c.rng, 2), Member: c.id, Tenure: since, Client: c.id}
	try(c, "commit as member", func(e *engine.Engine, done func(edge.OffsetReply)) { e.StoreOffset(req, done) }, func(r edge.OffsetReply, f fate) {
		c.done()
		if f != answered {
			c.move()
			return
		}
		switch r.Code {
		case galgo.CodeOK:
			c.w.cover.MemberCommits++
			c.w.model.group(vsr.GroupID(group)).offsetAnswered(c.w, consumerKey{galgo.ConsumerGroup, key}, req, false, r)
			then()
		case galgo.CodeTransientNotAccepted:
			c.move()
		case galgo.CodeTransientNotCommitted, galgo.CodeResourceNotFound, galgo.CodeInvalidOffset:
		default:
			c.w.fail("offsets", "group %d: a member's commit is answered with %v", group, r.Code)
		}
	})
}

// retain has the client's node drop what topics need not keep, as its own clock would.
func (c *client) retain() {
	if e := c.node.engine; e != nil {
		e.Retain()
	}
}

// groups looks at all consumer groups after an operation of the metadata: a partition has
// one owner, who is there, and shares are even once nothing is on its way.
func (k *checks) groups(v *metadata.View) {
	for p := range v.Streams() {
		for t := range v.Topics(p) {
			for g := range v.ConsumerGroups(t) {
				k.group(v, t, g)
			}
		}
	}
}

func (k *checks) group(v *metadata.View, t *metadata.Topic, g *metadata.ConsumerGroup) {
	owners := map[uint32]galgo.ClientID{}
	least, most, moving := ^0, 0, 0
	for i := range g.Members {
		m := &g.Members[i]
		if c, ok := v.Client(m.Client); !ok || c.Detached {
			k.w.fail("members", "client %v is a member of consumer group %d of topic %d, and has no connection", m.Client, g.ID, t.ID)
		}
		for _, p := range m.Partitions {
			if other, taken := owners[p]; taken {
				k.w.fail("members", "partition %d of topic %d has two owners in consumer group %d: %v and %v", p, t.ID, g.ID, other, m.Client)
			}
			owners[p] = m.Client
		}
		if least < 0 || len(m.Partitions) < least {
			least = len(m.Partitions)
		}
		most, moving = max(most, len(m.Partitions)), moving+len(m.Revoked)
	}
	switch {
	case len(g.Members) > 0 && len(owners) != int(t.Partitions):
		k.w.fail("members", "consumer group %d of topic %d: %d of %d partitions have an owner", g.ID, t.ID, len(owners), t.Partitions)
	case moving == 0 && len(g.Members) > 1 && most-least > 1:
		k.w.fail("members", "consumer group %d of topic %d is settled, and its shares are %d to %d", g.ID, t.ID, least, most)
	}
	k.w.cover.GroupsChecked += min(1, len(g.Members))
}

// delivered: on a single node nobody is given messages of a partition that, by the log, is
// another's or on its way to one.
func (k *checks) delivered(q *pollCheck, req edge.PollRequest) {
	if k.w.plan.replicas > 1 {
		return // this node may lag
	}
	view := k.w.model.metadata.View()
	p, ok := view.PartitionOf(req.Group)
	if !ok {
		return
	}
	if g, ok := view.ConsumerGroupAt(p.Stream, p.Topic, req.Key); ok && g.MayPoll(req.Member, p.ID) {
		return
	}
	k.w.fail("members", "%v is given messages of partition %d, which it does not have in consumer group %d", q.c, p.ID, req.Key)
}

// ask takes note that segments below an offset are to go.
func (g *groupModel) ask(below uint64) {
	if _, known := g.asked[below]; known {
		return
	}
	if g.asked == nil {
		g.asked = map[uint64]vsr.Op{}
	}
	g.asked[below] = g.head()
}

// wentBack: since it was decided that segments below an offset are to go, a consumer has
// been at what is in them.
func (g *groupModel) wentBack(below uint64) bool {
	from := g.asked[below]
	for k, all := range g.offsets { // order-free: any of them will do
		if o := g.offsetAt(k, from); o.set && o.value+1 < below {
			return true
		}
		if slices.ContainsFunc(all, func(o storedOffset) bool { return o.op > from && o.set && o.value+1 < below }) {
			return true
		}
	}
	return false
}

// truncated: who is told that segments were deleted finds it so, but for those that a
// consumer has gone back to.
func (k *checks) truncated(change metadata.Change) {
	id := vsr.GroupID(change.Group)
	if g := k.w.model.group(id); g.generation() <= change.Generation && !g.forgot && g.lowAt(g.head()) < change.Below && !g.wentBack(change.Below) && k.w.model.lives(id) {
		k.w.fail("truncated", "segments of group %d below offset %d are said to be deleted, and nobody has done it", id, change.Below)
	}
}

// storedTruncation is the first offset that is left from an op on.
type storedTruncation struct {
	op         vsr.Op
	generation uint64
	below      uint64
}

// truncate follows a truncation. It is to the end of a segment, so nothing below it stays.
func (m *model) truncate(g *groupModel, op vsr.Op, upTo uint64) {
	if upTo >= g.next {
		m.w.fail("truncated", "op %d of group %d drops offsets up to %d, the next is %d", op, g.id, upTo, g.next)
		return
	}
	m.w.cover.SegmentsDeleted++
	g.truncations = append(g.truncations, storedTruncation{op, g.generation(), max(upTo+1, g.lowAt(op))})
}

// longest is the partition with the most messages: it may have more than one segment.
func (c *client) longest() (stream, topic string, partition uint32, ok bool) {
	v, most := c.w.model.metadata.View(), uint64(0)
	for s := range v.Streams() {
		for t := range v.Topics(s) {
			for p := range v.Partitions(t) {
				if g := c.w.model.groups[vsr.GroupID(p.Group)]; g != nil && g.next-g.lowAt(g.head()) > most {
					most = g.next - g.lowAt(g.head())
					stream, topic, partition, ok = s.Name, t.Name, p.ID, true
				}
			}
		}
	}
	return stream, topic, partition, ok
}

// groupNames are the consumer groups that there are: stream, topic, name.
func (m *model) groupNames() (names [][3]string) {
	v := m.metadata.View()
	for s := range v.Streams() {
		for t := range v.Topics(s) {
			for g := range v.ConsumerGroups(t) {
				names = append(names, [3]string{s.Name, t.Name, g.Name})
			}
		}
	}
	return names
}

// lowAt is the first offset that is left as of an op.
func (g *groupModel) lowAt(op vsr.Op) uint64 {
	for i := len(g.truncations) - 1; i >= 0; i-- {
		if t := g.truncations[i]; t.op <= op {
			if t.generation == g.generationAt(op) {
				return t.below
			}
			break
		}
	}
	return 0
}
