package metadata

import (
	"errors"
	"fmt"
	"testing"

	"galgo"
	"galgo/internal/wire"
)

// A topic has so many consumer groups at a time, however many it had before.
func TestConsumerGroupsOfATopicAreBounded(t *testing.T) {
	r := groupsRig(t, 1, 1)
	r.change(func(s *state) {
		full := *r.topic(id(0), id(0))
		full.ConsumerGroups = ConsumerGroupsAtOnceMax
		s.topics.set(full.key(), &full)
	})
	r.wantCode(galgo.CodeInvalidOptionValue, wire.OperationCreateConsumerGroup, createGroupBody(id(0), id(0), "more"))
	r.must(wire.OperationDeleteConsumerGroup, groupBody(0))
	r.must(wire.OperationCreateConsumerGroup, createGroupBody(id(0), id(0), "more"))
}

// A client is a member of so many groups at a time, in all topics together.
func TestMembershipsOfAClientAreBounded(t *testing.T) {
	r := groupsRig(t, 1, 2)
	for n := range uint32(MembershipsMax) {
		r.must(wire.OperationCreateConsumerGroup, createGroupBody(id(0), id(0), fmt.Sprint("g", n)))
		if err := r.joinAs(clientID(1), n); err != nil {
			t.Fatalf("group %d: %v", n, err)
		}
	}
	err := r.joinAs(clientID(1), MembershipsMax)
	if code, _ := galgo.CodeOf(err); code != galgo.CodeInvalidOptionValue {
		t.Errorf("one more: %v, want %v", err, galgo.CodeInvalidOptionValue)
	}
	if err := r.joinAs(clientID(1), 0); err != nil {
		t.Errorf("joined again: %v", err)
	}
	if err := r.joinAs(clientID(2), MembershipsMax); err != nil {
		t.Errorf("another client: %v", err)
	}
	restored(t, r.m)
	r.must(wire.OperationLeaveConsumerGroup, groupBody(0))
	if err := r.joinAs(clientID(1), MembershipsMax); err != nil {
		t.Errorf("after it has left one: %v", err)
	}
	g, _ := r.m.s.groups.get(keyOfTopic(0, 0).group(0))
	more := g.copied()
	more.add(clientID(1))
	more.deal(1)
	r.m.s.putConsumerGroup(more)
	if _, err := Decode(r.m.View().EncodeState(), r.m.View().EncodeClients()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a state with one more is read: %v", err)
	}
}

// What a partition takes in each group counts before the state has outgrown a checkpoint,
// not after.
func TestPartitionsOfGroupsDoNotOutgrowACheckpoint(t *testing.T) {
	const partitions = 1000
	r := groupsRig(t, partitions, 1)
	for n := range uint32(growthMax/(4*partitions) + 2) {
		r.change(func(s *state) {
			g := &ConsumerGroup{ID: n}
			g.add(clientID(1))
			g.deal(partitions)
			s.putConsumerGroup(g)
		})
	}
	r.leaveRoom(growthMax + 1)
	r.wantCode(galgo.CodeTooManyPartitions, wire.OperationCreatePartitions, partitionsBody(id(0), id(0), partitions))
}

// leaveRoom has the state outgrow a checkpoint with so many bytes more.
func (r *rig) leaveRoom(n int) { r.change(func(s *state) { s.users.bytes += StateMax - n - s.size() }) }

func TestJoinDoesNotOutgrowACheckpoint(t *testing.T) {
	r := groupsRig(t, 1, 1)
	r.change(func(s *state) {
		topic := *r.topic(id(0), id(0))
		topic.Partitions = PartitionsMax
		s.topics.set(topic.key(), &topic)
	})
	r.leaveRoom(growthMax + 1)
	err := r.joinAs(clientID(1), 0)
	if code, _ := galgo.CodeOf(err); code != galgo.CodeInvalidOptionValue {
		t.Errorf("%v, want %v", err, galgo.CodeInvalidOptionValue)
	}
	r.leaveRoom(8 << 20)
	r.mustJoin(1)
}

// Whose a partition is, is looked up and not looked for, in a group of whatever size.
func TestOwnersAreThoseOfTheMembers(t *testing.T) {
	r := groupsRig(t, 6, 3)
	r.mustJoin(1)
	r.mustJoin(2, 5)
	for _, m := range []*Machine{r.m, restored(t, r.m)} {
		g, _ := m.View().ConsumerGroupAt(0, 0, 0)
		for i := range g.Members {
			member := &g.Members[i]
			may := map[uint32]bool{}
			for _, p := range g.Assignment(member).Partitions {
				may[p] = true
			}
			owns := map[uint32]bool{}
			for _, p := range member.Partitions {
				owns[p] = true
			}
			for p := range uint32(8) {
				if g.Owns(member.Client, p) != owns[p] || g.MayPoll(member.Client, p) != may[p] {
					t.Errorf("member %d, partition %d: owns %t, may poll %t; want %t, %t", member.ID, p, g.Owns(member.Client, p), g.MayPoll(member.Client, p), owns[p], may[p])
				}
			}
		}
		if g.Owns(clientID(3), 0) || len(g.Members[0].Revoked) == 0 {
			t.Errorf("members %+v", g.Members)
		}
	}
}
