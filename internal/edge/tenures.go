package edge

import (
	"context"

	"galgo"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// Tenures are since when a session has the partitions that it has polled as a member of
// consumer groups, and what it was given of them. It claims a partition before its first
// poll, in the log of the partition, so that nothing of who had it before comes later. What
// it stores is stored as of then: if the partition was another's meanwhile, and the client
// has not noticed, it is refused, as the other may have come further.
//
// They belong to one session at one node. The zero value is ready; it is for one goroutine.
type Tenures struct {
	of    map[tenant]map[uint64]uint64 // by the consensus group of the partition
	least int                          // tenants that were left when those that are gone were dropped
}

// tenant is a member of a consumer group.
type tenant struct {
	stream, topic, group uint32
	member               galgo.ClientID
}

func tenantOf(g *metadata.ConsumerGroup, member galgo.ClientID) tenant {
	return tenant{g.Stream, g.Topic, g.ID, member}
}

// Unclaimed tells since when the member may poll a partition, if it has not claimed that yet.
func (t *Tenures) Unclaimed(g *metadata.ConsumerGroup, member galgo.ClientID, p *metadata.Partition) (since uint64, unclaimed bool) {
	if !g.MayPoll(member, p.ID) {
		return 0, false
	}
	since, _ = g.Tenure(member, p.ID)
	claimed, ok := t.of[tenantOf(g, member)][p.Group]
	return since, !ok || claimed != since
}

// Claimed takes note of a claim that is in the log.
func (t *Tenures) Claimed(view *metadata.View, g *metadata.ConsumerGroup, member galgo.ClientID, p *metadata.Partition, since uint64) {
	if t.of == nil {
		t.of = map[tenant]map[uint64]uint64{}
	}
	partitions := t.of[tenantOf(g, member)]
	if partitions == nil {
		t.prune(view)
		partitions = map[uint64]uint64{}
		t.of[tenantOf(g, member)] = partitions
	}
	partitions[p.Group] = since
}

// Since is what a store of the member goes by: what it has claimed, or, if it has not polled,
// what it has.
func (t *Tenures) Since(g *metadata.ConsumerGroup, member galgo.ClientID, p *metadata.Partition) uint64 {
	if claimed, ok := t.of[tenantOf(g, member)][p.Group]; ok {
		return claimed
	}
	since, _ := g.Tenure(member, p.ID)
	return since
}

// Left forgets what a member had: if it joins again it begins anew.
func (t *Tenures) Left(g *metadata.ConsumerGroup, member galgo.ClientID) {
	delete(t.of, tenantOf(g, member))
}

// prune drops members that are none any more, whenever there are twice as many as there
// were left by the last time.
func (t *Tenures) prune(view *metadata.View) {
	if len(t.of) < 2*t.least+8 {
		return
	}
	for k := range t.of { // order-free: each is looked at by itself
		g, ok := view.ConsumerGroupAt(k.stream, k.topic, k.group)
		if ok {
			_, ok = g.Member(k.member)
		}
		if !ok {
			delete(t.of, k)
		}
	}
	t.least = len(t.of)
}

// claim has the session be the one whose offsets of a partition count, before it is given
// anything of it, and tells since when it has the partition. Nothing is asked of the node for
// who may not poll it: by the time that the node looks, the partition may be its own, and
// would not be claimed. Whether it may still be given what it asks for is the node's to say.
func (c *conn) claim(ctx context.Context, r *request, view *metadata.View, g *metadata.ConsumerGroup, p *metadata.Partition) (since uint64, code galgo.Code) {
	if !g.MayPoll(r.Client, p.ID) || r.Client == r.session.client && r.isFormer(view) {
		return 0, galgo.CodeConsumerGroupPartitionNotOwned
	}
	since, unclaimed := r.session.tenures.Unclaimed(g, r.Client, p)
	if !unclaimed {
		return since, galgo.CodeOK
	}
	request := r.offsetRequest(p.Group, galgo.ConsumerGroup, g.ID)
	request.Member, request.Tenure = r.Client, since
	q := newCall[OffsetReply](nil)
	c.server.backend.Claim(request, q.done)
	reply, ok := await(ctx, c, r, q)
	switch {
	case !ok, reply.Code == galgo.CodeTransientNotCommitted:
		return 0, galgo.CodeTransientNotAccepted // a claim that comes twice is one
	case reply.Code == galgo.CodeResourceNotFound:
		return 0, galgo.CodeConsumerGroupPartitionNotOwned
	case reply.Code == galgo.CodeOK:
		r.session.tenures.Claimed(view, g, r.Client, p, since)
	}
	return since, reply.Code
}

// isFormer reports whether the client has signed in since, over a connection to another node: what it
// has as a member is that session's, and what comes over this connection comes late.
func (r *request) isFormer(view *metadata.View) bool {
	return !view.IsLatest(r.session.client, r.session.epoch)
}

// leftGroup follows a request to leave a consumer group that was decided.
func (c *conn) leftGroup(r *request) {
	if r.Operation != wire.OperationLeaveConsumerGroup {
		return
	}
	m, err := wire.DecodeGroupRequest(r.body)
	if err != nil {
		return
	}
	view := c.server.backend.View()
	t, err := view.Topic(m.Stream, m.Topic)
	if err != nil {
		return
	}
	if g, ok := view.ConsumerGroup(t, m.Group); ok {
		r.session.tenures.Left(g, r.session.client)
	}
}
