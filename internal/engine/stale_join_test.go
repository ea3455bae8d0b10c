package engine

import (
	"slices"
	"testing"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/partition"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// What the primary knew of the partitions when a join was asked for says nothing of who has them when it
// is decided: a member at another node that got one in between may have been given messages of it.
func TestJoinBehindAChangeOfTheGroup(t *testing.T) {
	c, g := twoShared(t)
	leader := c.leader(0)
	away, third := (leader+1)%3, (leader+2)%3
	stays, leaves, joins := c.signInAt(20, away), c.signInAt(21, leader), c.signInAt(22, third)
	c.send(g, "x")
	c.call(stays, wire.OperationJoinConsumerGroup, namedGroup())
	c.call(leaves, wire.OperationJoinConsumerGroup, namedGroup())
	may := func(node int, s *session, p uint32) bool {
		cg, ok := c.nodes[node].engine.View().ConsumerGroupAt(0, 0, 0)
		return ok && cg.MayPoll(s.id, p)
	}
	done := c.nodes[away].engine.Done()
	c.until("the first has to give one up", func() bool { return c.nodes[away].engine.View().IsRevoking() })
	c.metadata(edge.MetadataRequest{Operation: wire.OperationCompleteGroupRevocation, Body: done.Next()[0].Encode()})
	c.until("each has one", func() bool { return may(leader, stays, 0) && may(leader, leaves, 1) })

	// The second leaves and a third joins, at once; the join takes longer.
	before := c.nodes[leader].engine.CommitOp()
	c.lost = func(m vsr.Message) bool {
		return m.Group == vsr.MetadataGroup && m.Prepare != nil && uint64(m.Prepare.Op) > before+1
	}
	joined := false
	ask := func(s *session, op wire.Operation, then func(edge.MetadataReply)) {
		s.request++
		c.nodes[leader].engine.Metadata(edge.MetadataRequest{Operation: op, Client: s.id, Session: s.epoch, Request: s.request, Body: namedGroup()}, then)
	}
	ask(leaves, wire.OperationLeaveConsumerGroup, func(edge.MetadataReply) {})
	ask(joins, wire.OperationJoinConsumerGroup, func(r edge.MetadataReply) { joined = r.Outcome == edge.OutcomeReply })
	c.until("the first has both", func() bool { return may(away, stays, 1) })
	poll := func(node int, s *session) (given int) {
		var plan partition.Plan
		req := edge.PollRequest{Group: g, Kind: galgo.ConsumerGroup, Member: s.id, Strategy: galgo.FromNext(), Count: 9, Plan: &plan}
		code := galgo.CodeTransientNotAccepted
		c.nodes[node].engine.Poll(req, func(r edge.PollReply) { req.Ticket, code = r.Ticket, r.Code })
		c.round()
		if code != galgo.CodeOK {
			return 0
		}
		got, err := payloadsOf(&plan, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !c.nodes[node].engine.Polled(req, 0, len(got) > 0) {
			return 0
		}
		return len(got)
	}
	c.until("the first is given the message", func() bool { return poll(away, stays) == 1 })
	c.lost = func(vsr.Message) bool { return false }
	c.until("the third has joined", func() bool { return joined })
	for range 50 {
		c.round()
	}
	if n := poll(third, joins); n != 0 {
		t.Errorf("the third is given %d messages that the first has and has not committed", n)
	}
	cg, _ := c.nodes[leader].engine.View().ConsumerGroupAt(0, 0, 0)
	if m, _ := cg.Member(stays.id); !slices.Contains(m.Partitions, 1) {
		t.Errorf("partition 1 was taken from its owner at once: %+v", cg.Members)
	}
}
