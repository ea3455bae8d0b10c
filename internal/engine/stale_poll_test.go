package engine

import (
	"testing"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// twoShared is a cluster that knows which of its nodes members are at, with a topic of two
// partitions and a consumer group; g is that of the second partition.
func twoShared(t *testing.T) (c *cluster, g uint64) {
	t.Helper()
	c = newCluster(t, 3, worldConfig())
	for i, w := range c.nodes {
		w.engine.home = metadata.Home{Replica: uint8(i), Life: c.lives[i]}
	}
	admin, group := c.begin()
	c.call(admin, wire.OperationCreateTopic, wire.CreateTopicRequest{Stream: galgo.NamedID("s"), Name: "t", Partitions: 2}.Append(nil))
	g = group("t", 1)
	c.call(admin, wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t"), Name: "g"}.Append(nil))
	return c, g
}

// A poll that was on its way while its member lost the partition and got it again does not read behind a claim
// of now: a replica that is a little behind would give out again what another has committed.
func TestPollAsOfAnEarlierTenure(t *testing.T) {
	c, g := twoShared(t)
	away := (c.leader(g) + 1) % 3
	slow, other := c.signInAt(20, away), c.signInAt(21, c.leader(g))
	tenure := func(node int, s *session) uint64 {
		cg, _ := c.nodes[node].engine.View().ConsumerGroupAt(0, 0, 0)
		since, _ := cg.Tenure(s.id, 1)
		return since
	}
	c.send(g, "x")
	c.all(g, 1)
	c.call(slow, wire.OperationJoinConsumerGroup, namedGroup())
	c.until("it has the partition", func() bool { return tenure(away, slow) != 0 })
	var plan partition.Plan
	// As the edge asks for it: claimed, and held up before the node looks.
	late := edge.PollRequest{Group: g, Kind: galgo.ConsumerGroup, Member: slow.id, Tenure: tenure(away, slow), Strategy: galgo.FromNext(), Count: 9, Plan: &plan}
	c.call(other, wire.OperationJoinConsumerGroup, namedGroup())
	done := c.nodes[away].engine.Done()
	c.until("another has it", func() bool {
		for _, h := range done.Next() {
			c.metadata(edge.MetadataRequest{Operation: wire.OperationCompleteGroupRevocation, Body: h.Encode()})
		}
		return tenure(c.leader(g), other) != 0
	})
	c.lost = func(m vsr.Message) bool { return uint64(m.Group) == g && int(m.To) == away }
	c.asking("the other commits the message", func(w *world, done func(bool)) {
		w.engine.StoreOffset(edge.OffsetRequest{Group: g, Kind: galgo.ConsumerGroup, Member: other.id, Tenure: tenure(c.leader(g), other)}, func(r edge.OffsetReply) { done(r.Code == galgo.CodeOK) })
	})
	c.call(other, wire.OperationLeaveConsumerGroup, namedGroup())
	c.until("it has it again", func() bool { return tenure(away, slow) != 0 })
	code, over := galgo.CodeOK, false
	c.nodes[away].engine.Poll(late, func(r edge.PollReply) { late.Ticket, code, over = r.Ticket, r.Code, true })
	c.until("the poll is over", func() bool { return over })
	if code == galgo.CodeOK {
		got, err := payloadsOf(&plan, 0)
		if err != nil {
			t.Fatal(err)
		}
		if c.nodes[away].engine.Polled(late, 0, len(got) > 0) && len(got) > 0 {
			t.Errorf("given %q, which another has committed", got)
		}
	}
}
