package engine

import (
	"fmt"
	"testing"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// Who leads a partition and hears of the deletion of a consumer group by a snapshot of the metadata removes
// what the group has left there, as who hears of it by the log does.
func TestDeletionOfAGroupThatComesWithASnapshot(t *testing.T) {
	c := newCluster(t, 3, worldConfig())
	admin, group := c.begin()
	c.call(admin, wire.OperationCreateTopic, wire.CreateTopicRequest{Stream: galgo.NamedID("s"), Name: "t", Partitions: 3}.Append(nil))
	c.call(admin, wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t"), Name: "g"}.Append(nil))
	decides := c.leader(0)
	g, behind := uint64(0), decides
	for p := uint32(0); behind == decides; p++ {
		g = group("t", p)
		c.send(g, "x")
		behind = c.leader(g)
	}
	member := c.signInAt(20, decides)
	c.call(member, wire.OperationJoinConsumerGroup, namedGroup())
	c.asking("an offset is stored", func(w *world, done func(bool)) {
		w.engine.StoreOffset(edge.OffsetRequest{Group: g, Kind: galgo.ConsumerGroup, Member: member.id, Tenure: 1}, func(r edge.OffsetReply) { done(r.Code == galgo.CodeOK) })
	})
	c.until("it is known where the deletion is decided", func() (found bool) {
		c.nodes[decides].engine.Offset(g, galgo.ConsumerGroup, 0, func(r edge.OffsetReply) { found = r.Found })
		c.round()
		return found
	})
	c.lost = func(m vsr.Message) bool {
		return m.Group == vsr.MetadataGroup && (int(m.To) == behind || int(m.From) == behind)
	}
	answered := false
	admin.request++
	c.nodes[decides].engine.Metadata(edge.MetadataRequest{
		Operation: wire.OperationDeleteConsumerGroup, Client: admin.id, Session: admin.epoch, Request: admin.request, Body: namedGroup(),
	}, func(r edge.MetadataReply) { answered = r.Outcome == edge.OutcomeReply })
	c.until("the group is deleted", func() bool {
		_, ok := c.nodes[decides].engine.View().ConsumerGroupAt(0, 0, 0)
		return !ok
	})
	other := c.signInAt(21, decides)
	for i := range 300 {
		c.call(other, wire.OperationCreateStream, wire.CreateStreamRequest{Name: fmt.Sprint("x", i)}.Append(nil))
	}
	c.checkpoints()
	if first := c.nodes[decides].engine.meta.LogFirst(); first < 100 {
		t.Fatalf("the log still begins with op %d", first)
	}
	if at := c.leader(g); at != behind {
		t.Fatalf("node %d leads the partition, not %d", at, behind)
	}
	c.lost = func(vsr.Message) bool { return false }
	c.until("the snapshot has come", func() bool {
		_, ok := c.nodes[behind].engine.View().ConsumerGroupAt(0, 0, 0)
		return !ok
	})
	c.until("the deletion is answered", func() bool { return answered })
	for range 20 {
		c.round()
	}
	for i := range c.nodes {
		if offset, ok := c.nodes[i].offsetOf(g, galgo.ConsumerGroup, 0); ok {
			t.Errorf("node %d: offset %d of the deleted group is still there", i, offset)
		}
	}
}
