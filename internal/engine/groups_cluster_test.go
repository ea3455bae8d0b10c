package engine

import (
	"fmt"
	"slices"
	"testing"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/wire"
)

// Group state is the log's: through one primary after the other the members, their
// partitions and the generation stay what they are, on every node, and committed offsets
// never fall back (PF-groups-07, -08).
func TestGroupsOverManyPrimaries(t *testing.T) {
	c := newCluster(t, 3, worldConfig())
	admin, group := c.begin()
	c.createTopic(admin, "t")
	g := group("t", 0)
	c.call(admin, wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t"), Name: "g"}.Append(nil))
	members := []*session{admin}
	for n := range 2 {
		id := galgo.ClientID{byte(20 + n)}
		members = append(members, &session{id: id, epoch: c.metadata(edge.MetadataRequest{Operation: wire.OperationRegister, Client: id, Body: rootPassword()}).Op})
	}
	for _, m := range members {
		c.call(m, wire.OperationJoinConsumerGroup, namedGroup())
	}
	describe := func(v *metadata.View) string {
		cg, ok := v.ConsumerGroupAt(0, 0, 0)
		if !ok {
			return ""
		}
		return fmt.Sprint(cg.Generation, cg.Members)
	}
	c.until("all nodes know the members", func() bool {
		return !slices.ContainsFunc(c.nodes, func(w *world) bool {
			cg, ok := w.engine.View().ConsumerGroupAt(0, 0, 0)
			return !ok || len(cg.Members) != len(members)
		})
	})
	want, generation := describe(c.nodes[0].engine.View()), uint64(len(members))
	owner := admin
	for _, m := range members {
		if cg, _ := c.nodes[0].engine.View().ConsumerGroupAt(0, 0, 0); cg != nil {
			if cg.Owns(m.id, 0) {
				owner = m
			}
		}
	}
	for round := range uint64(8) {
		c.send(g, fmt.Sprint("m", round))
		c.commitAs(g, owner.id, round)
		for _, plane := range []uint64{0, g} {
			down := c.leader(plane)
			c.kill(down)
			if next := c.leader(g); next == down {
				t.Fatal("a node that is down leads")
			}
			c.start(down, false)
		}
		for i, w := range c.nodes {
			newest := uint64(0)
			c.until(fmt.Sprintf("node %d has all members", i), func() bool {
				cg, ok := w.engine.View().ConsumerGroupAt(0, 0, 0)
				if ok {
					newest = max(newest, cg.Generation)
				}
				return describe(w.engine.View()) == want
			})
			if newest > generation {
				t.Fatalf("round %d: node %d has generation %d, want %d", round, i, newest, generation)
			}
			stored, ok := uint64(0), false
			c.until("the offset is there", func() bool {
				w.engine.Offset(g, galgo.ConsumerGroup, 0, func(r edge.OffsetReply) {
					stored, ok = r.Stored, r.Code == galgo.CodeOK && r.Found && r.Stored == round
				})
				return ok
			})
			if stored != round {
				t.Fatalf("round %d: node %d has offset %d", round, i, stored)
			}
		}
	}
}

// commitAs stores an offset of the consumer group 0 as a member.
func (c *cluster) commitAs(group uint64, member galgo.ClientID, offset uint64) {
	c.t.Helper()
	c.asking("a commit is answered", func(w *world, done func(bool)) {
		w.engine.StoreOffset(edge.OffsetRequest{Group: group, Kind: galgo.ConsumerGroup, Member: member, Offset: offset}, func(r edge.OffsetReply) {
			done(r.Code == galgo.CodeOK)
		})
	})
}

// What the primary has decided to drop goes on every node, and nothing else: segments are
// the same everywhere. A deletion is one also where the primary of the partition is not
// that of the metadata.
func TestSegmentsGoOnEveryNode(t *testing.T) {
	c := newCluster(t, 3, worldConfig())
	admin, group := c.begin()
	options, err := wire.NewOptions([]galgo.Header{
		{Key: galgo.StringValue(galgo.OptionSegmentSize), Value: galgo.Uint64Value(1 << 20)},
		{Key: galgo.StringValue(galgo.OptionMessageExpiry), Value: galgo.Uint64Value(1)},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.call(admin, wire.OperationCreateTopic, wire.CreateTopicRequest{Stream: galgo.NamedID("s"), Name: "t", Partitions: 1, Options: options}.Append(nil))
	g := group("t", 0)
	for range 7 { // three sealed segments of two messages, one open
		c.send(g, big("m", 600<<10))
	}
	c.call(admin, wire.OperationDeleteSegments, wire.DeleteSegmentsRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t"), Segments: 1}.Append(nil))
	first := func(want uint64) {
		t.Helper()
		for i, w := range c.nodes {
			c.until(fmt.Sprintf("node %d begins at offset %d", i, want), func() bool {
				f, ok := w.engine.Stats(g)
				return ok && f.FirstOffset == want && f.CurrentOffset == 6
			})
		}
	}
	first(2)
	for _, w := range c.nodes {
		w.engine.Retain()
	}
	first(6)
	var plan partition.Plan
	c.until("it can be read", func() bool {
		read := false
		c.nodes[0].engine.Poll(edge.PollRequest{Group: g, Strategy: galgo.FromOffset(0), Count: 9, Plan: &plan}, func(r edge.PollReply) {
			if r.Code == galgo.CodeOK {
				got, err := payloadsOf(&plan, 6)
				read = err == nil && len(got) == 1
			}
		})
		c.round()
		return read
	})
}

// signInAt signs a client in over a node.
func (c *cluster) signInAt(client byte, node int) *session {
	c.t.Helper()
	by := metadata.Credential{Kind: metadata.CredentialPassword, Op: 1, Home: c.nodes[node].engine.home}
	id := galgo.ClientID{client}
	return &session{id: id, epoch: c.metadata(edge.MetadataRequest{Operation: wire.OperationRegister, Client: id, Body: by.Append(nil)}).Op}
}

// What a member at another node than the primary was given stays its own until that node
// says that it has committed it: the primary cannot know.
func TestHandOversBetweenNodes(t *testing.T) {
	c := newCluster(t, 3, worldConfig())
	for i, w := range c.nodes {
		w.engine.home = metadata.Home{Replica: uint8(i), Life: c.lives[i]}
	}
	admin, group := c.begin()
	c.call(admin, wire.OperationCreateTopic, wire.CreateTopicRequest{Stream: galgo.NamedID("s"), Name: "t", Partitions: 2}.Append(nil))
	g := group("t", 1)
	c.call(admin, wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t"), Name: "g"}.Append(nil))
	leader := c.leader(0)
	away := (leader + 1) % 3
	first, second := c.signInAt(20, away), c.signInAt(21, leader)
	has := func(s *session, want ...uint32) {
		t.Helper()
		for i, w := range c.nodes {
			c.until(fmt.Sprintf("at node %d client %v may poll %v", i, s.id, want), func() bool {
				cg, _ := w.engine.View().ConsumerGroupAt(0, 0, 0)
				m, ok := cg.Member(s.id)
				return ok && slices.Equal(cg.Assignment(m).Partitions, want)
			})
		}
	}
	c.send(g, "x")
	c.call(first, wire.OperationJoinConsumerGroup, namedGroup())
	has(first, 0, 1)
	var plan partition.Plan
	req := edge.PollRequest{Group: g, Kind: galgo.ConsumerGroup, Member: first.id, Strategy: galgo.FromNext(), Count: 9, Plan: &plan}
	c.until("the message can be polled", func() (polled bool) {
		c.nodes[away].engine.Poll(req, func(r edge.PollReply) {
			req.Ticket, polled = r.Ticket, r.Code == galgo.CodeOK
		})
		c.round()
		return polled && c.nodes[away].engine.Polled(req, 0, true)
	})
	c.call(second, wire.OperationJoinConsumerGroup, namedGroup())
	has(first, 0)
	has(second)
	done := make([]*Done, len(c.nodes))
	for i, w := range c.nodes {
		done[i] = w.engine.Done()
		if list := done[i].Next(); len(list) != 0 {
			t.Errorf("node %d finds the owner done: %+v", i, list)
		}
	}
	for range 20 {
		c.round()
	}
	has(second)
	c.nodes[away].engine.Stored(edge.OffsetRequest{Group: g, Kind: galgo.ConsumerGroup, Offset: 0}) // as the router does
	for i := range c.nodes {
		if list := done[i].Next(); (len(list) == 1) != (i == away) {
			t.Fatalf("node %d finds done: %+v", i, list)
		}
	}
	c.metadata(edge.MetadataRequest{Operation: wire.OperationCompleteGroupRevocation, Body: done[away].Next()[0].Encode()})
	has(second, 1)
}
