package engine

import (
	"testing"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/shard"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// Offsets are the group's: they outlive its members, a restart and the loss of all of
// them, and end with the group (PF-groups-05, -09).
func TestGroupOffsetsOutliveMembersNotTheGroup(t *testing.T) {
	d := healthy()
	g := openGrouped(t, d, 3)
	sendBoth(g)
	g.join(0)
	g.join(1)
	g.commit(0, 0, 1)
	g.commit(1, 1, 0)
	g.must(0, wire.OperationLeaveConsumerGroup, namedGroup())
	g.run(func(done func()) {
		g.engine.Metadata(edge.MetadataRequest{Operation: metadata.OperationDetach, Client: g.members[1].id, Session: g.members[1].epoch}, func(edge.MetadataReply) { done() })
	})
	w, err := open(t, d.Kill(), worldConfig(), 2, 2_000_000)
	if err != nil {
		t.Fatal(err)
	}
	g.world = w
	g.join(2)
	for p, want := range []int{1, 2} {
		if got, code := g.pollAs(2, uint32(p)); len(got) != want || code != galgo.CodeOK {
			t.Errorf("partition %d: polled %d messages (%v), want those behind the committed offset, %d", p, len(got), code, want)
		}
	}
	g.must(2, wire.OperationDeleteConsumerGroup, namedGroup())
	c := &cast{admin: g.members[2]}
	if !creatingGroup(w, c) {
		t.Fatal("no group")
	}
	for p := range uint32(2) {
		for key := range uint32(2) {
			if offset, ok := g.offsetOf(g.group("s", "t", p), galgo.ConsumerGroup, key); ok {
				t.Errorf("partition %d: offset %d of group %d is still there", p, offset, key)
			}
		}
	}
}

// A store that is under way when its group is deleted leaves nothing behind.
func TestStoreMeetsTheDeletionOfItsGroup(t *testing.T) {
	g := openGrouped(t, healthy(), 1)
	sendBoth(g)
	g.join(0)
	group := g.group("s", "t", 0)
	answered := 0
	for range 3 {
		g.engine.StoreOffset(edge.OffsetRequest{Group: group, Kind: galgo.ConsumerGroup, Member: g.members[0].id, Offset: 1}, func(edge.OffsetReply) { answered++ })
	}
	g.members[0].request++
	g.engine.Metadata(edge.MetadataRequest{
		Operation: wire.OperationDeleteConsumerGroup, Client: g.members[0].id, Session: g.members[0].epoch, Request: g.members[0].request, Body: namedGroup(),
	}, func(edge.MetadataReply) { answered++ })
	g.metadataAlone() // deleted, while the stores wait for the partition's loop
	if _, ok := g.engine.View().ConsumerGroupAt(0, 0, 0); ok {
		t.Fatal("the group is still there")
	}
	g.settle()
	if _, ok := g.offsetOf(group, galgo.ConsumerGroup, 0); ok || answered != 4 {
		t.Errorf("the offset is there: %t, %d answers, want 4", ok, answered)
	}
}

// An offset of a group that another primary, which had not heard of its deletion, has
// let into the log goes again.
func TestOffsetOfADeletedGroupIsSwept(t *testing.T) {
	g := openGrouped(t, healthy(), 1)
	sendBoth(g)
	g.must(0, wire.OperationDeleteConsumerGroup, namedGroup())
	group := g.group("s", "t", 0)
	g.unfenced(group, 0, 1)
	g.settle()
	if _, ok := g.offsetOf(group, galgo.ConsumerGroup, 0); ok {
		t.Error("the offset of a deleted group is still there")
	}
	for key, want := range []uint64{2, 1} { // the claim, and of the deleted group its removal
		before := g.committed(group)
		g.run(func(done func()) {
			g.loops[1].Post(func() {
				g.engine.data[0].Claim(shard.OffsetRequest{Group: vsr.GroupID(group), Kind: galgo.ConsumerGroup, Key: uint32(key), Tenure: 3}, func(galgo.Code, vsr.Op) { done() })
			})
		})
		g.settle()
		if got := g.committed(group) - before; got != want {
			t.Errorf("a claim of consumer group %d is %d operations, want %d", key, got, want)
		}
	}
	g.unfenced(group, 7, 1) // of a group that this node has not heard of yet
	g.settle()
	if _, ok := g.offsetOf(group, galgo.ConsumerGroup, 7); !ok {
		t.Error("the offset of a group that is to come is gone")
	}
}

// committed is the last op of a group that is.
func (g *grouped) committed(group uint64) (op uint64) {
	g.engine.Groups(func(n wire.NodeGroups) {
		for _, s := range n.Groups {
			if s.Group == group {
				op = s.CommitMin
			}
		}
	})
	g.settle()
	return op
}

// unfenced stores an offset of a consumer group without asking whose the partition is.
func (g *grouped) unfenced(group uint64, key uint32, offset uint64) {
	g.t.Helper()
	code := galgo.CodeError
	g.run(func(done func()) {
		g.loops[1].Post(func() {
			g.engine.data[0].StoreOffset(shard.OffsetRequest{Group: vsr.GroupID(group), Kind: galgo.ConsumerGroup, Key: key, Offset: offset},
				func(got galgo.Code, _ vsr.Op) { code = got; done() })
		})
	})
	if code != galgo.CodeOK {
		g.t.Fatalf("store: %v", code)
	}
}

// The same of the offsets of a deleted group.
func TestGroupOffsetsGoAtStartWhereACrashCameBetween(t *testing.T) {
	d := healthy()
	g := openGrouped(t, d, 1)
	sendBoth(g)
	g.join(0)
	g.commit(0, 0, 1)
	g.members[0].request++
	g.engine.Metadata(edge.MetadataRequest{
		Operation: wire.OperationDeleteConsumerGroup, Client: g.members[0].id, Session: g.members[0].epoch, Request: g.members[0].request, Body: namedGroup(),
	}, func(edge.MetadataReply) { t.Error("answered although the partition's loop stands still") })
	g.metadataAlone()
	group := g.group("s", "t", 0)
	w, err := open(t, d.Kill(), worldConfig(), 2, 2_000_000)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := w.offsetOf(group, galgo.ConsumerGroup, 0); ok {
		t.Error("the offset is still there")
	}
}

// The deletion of an offset is no commit: of what was given out everything is open then.
func TestDeletedOffsetIsNoCommit(t *testing.T) {
	g := openGrouped(t, healthy(), 2)
	if !sending(1, "x")(g.world, nil) || !sending(0, "x")(g.world, nil) {
		t.Fatal("send")
	}
	g.join(0)
	g.commit(0, 1, 0)
	var plan partition.Plan
	req := g.request(0, 1, &plan)
	req.Strategy = galgo.FromOffset(0)
	g.begin(&req)
	g.engine.Polled(req, 0, true)
	code := galgo.CodeError
	g.engine.DeleteOffset(edge.OffsetRequest{Group: req.Group, Kind: galgo.ConsumerGroup, Member: g.members[0].id}, func(r edge.OffsetReply) { code = r.Code })
	g.settle()
	if code != galgo.CodeOK {
		t.Fatalf("delete: %v", code)
	}
	g.join(1)
	g.wantHas(1)
}

// Who waits for an operation that came with a snapshot is answered when the groups fit it.
func TestAnswersWaitForGroupsOfASnapshot(t *testing.T) {
	g := openGrouped(t, healthy(), 1)
	fit := false
	g.loops[0].Post(func() { g.engine.installed(func() { fit = true }) })
	g.metadataAlone()
	if fit {
		t.Error("answered while the loop of the partitions stands still")
	}
	g.settle()
	if !fit {
		t.Error("never answered")
	}
}
