package engine

import (
	"slices"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

func (c *cluster) storeOffset(group uint64, key uint32, offset uint64) {
	c.t.Helper()
	c.asking("an offset is stored", func(w *world, done func(bool)) {
		w.engine.StoreOffset(edge.OffsetRequest{Group: group, Kind: galgo.ConsumerSingle, Key: key, Offset: offset, Monotone: true},
			func(r edge.OffsetReply) { done(r.Code == galgo.CodeOK) })
	})
}

// stored waits until a node says where a consumer is.
func (c *cluster) storedIs(i int, group uint64, key uint32, want uint64) {
	c.t.Helper()
	c.until("the node has the offset", func() bool {
		got, found := uint64(0), false
		c.nodes[i].engine.Offset(group, galgo.ConsumerSingle, key, func(r edge.OffsetReply) { got, found = r.Stored, r.Found })
		c.round()
		return found && got == want
	})
}

// Offsets are stored while a node is away. It has them when it is back, also when it
// comes back by a checkpoint, and when it leads.
func TestOffsetsAreReplicated(t *testing.T) {
	c, _, g := topicOf(t)
	c.sendMany(g, nil, 5)
	c.kill(2)
	c.storeOffset(g, 1, 3)
	c.start(2, false)
	c.storedIs(2, g, 1, 3)
	c.kill(2)
	c.storeOffset(g, 2, 4)
	c.checkpoints()
	c.storeOffset(g, 1, 2) // an automatic one does not go back
	c.start(2, false)
	for i := range c.nodes {
		c.storedIs(i, g, 1, 3)
		c.storedIs(i, g, 2, 4)
	}
	c.kill(c.leader(g))
	next := c.leader(g)
	c.storedIs(next, g, 1, 3)
	c.storedIs(next, g, 2, 4)
}

// All nodes are closed in order and started: somebody leads, and the next message has
// the next offset.
func TestOrderlyRestartOfAllNodes(t *testing.T) {
	c, _, g := topicOf(t)
	want := c.sendMany(g, nil, 5)
	c.equal(g, want)
	c.lost = func(vsr.Message) bool { return true }
	for c.pass() {
	}
	for i, w := range c.nodes {
		if err := w.engine.Close(); err != nil {
			t.Fatal(err)
		}
		c.kill(i)
	}
	c.lost = func(vsr.Message) bool { return false }
	for i := range c.nodes {
		c.start(i, false)
	}
	c.equal(g, c.sendMany(g, want, 1))
}

// The view of a partition comes back as it was promised, and with it that of the
// metadata, whatever is in the logs.
func TestViewsComeBack(t *testing.T) {
	c, _, g := topicOf(t)
	for _, id := range []uint64{0, g} {
		before := c.status(0, id).State.View
		old := c.leader(id)
		c.lost = isolated(old)
		c.until("there is another view", func() bool { return c.status((old+1)%3, id).State.View > before })
		c.leader(id)
		c.lost = func(vsr.Message) bool { return false }
		c.until("all are in it", func() bool {
			s := c.status(old, id).State
			return s.View > before && s.LogView == s.View
		})
		for range 20 {
			c.round() // what it promised is on its disk
		}
		for i := range c.nodes {
			was := c.status(i, id)
			c.kill(i)
			c.start(i, false)
			if is := c.status(i, id); is.State != was.State || is.Status != vsr.StatusRecovering || is.Primary {
				t.Errorf("group %d: node %d comes back %v in %+v, it was in %+v", id, i, is.Status, is.State, was.State)
			}
			c.until("it takes part again", func() bool { return c.status(i, id).Status == vsr.StatusNormal })
		}
	}
}

// Bytes behind the end of a segment and its index on one backup are cut, for good; after
// two starts the files are those of the others.
func TestGarbageOnABackup(t *testing.T) {
	c, _, g := topicOf(t)
	want := c.sendMany(g, nil, 5)
	c.equal(g, want)
	c.checkpoints()
	victim := (c.leader(g) + 1) % 3
	c.kill(victim)
	for name, b := range c.disks[victim].Files() {
		if strings.HasPrefix(name, "groups/") {
			c.disks[victim].Put(name, append(slices.Clone(b), "ten bytes!"...))
		}
	}
	c.start(victim, false)
	want = c.sendMany(g, want, 20)
	c.equal(g, want)
	c.kill(victim)
	c.start(victim, false)
	c.equal(g, want)
	c.checkpoints()
	for name, b := range c.disks[victim].Files() {
		if strings.HasPrefix(name, "groups/") && !slices.Equal(b, c.disks[c.leader(g)].Bytes(name)) {
			t.Errorf("%s differs", name)
		}
	}
}

// The node that sends a checkpoint dies in the middle. The other one sends its own, and
// when the first is back it misses nothing.
func TestSourceOfATransferDies(t *testing.T) {
	b := newBehind(t)
	source := -1
	b.lost = func(m vsr.Message) bool {
		if m.Kind == vsr.MessageOffer && uint64(m.Group) == b.group && m.Offer.Op > 0 && source < 0 {
			source = int(m.From)
		}
		return m.Kind == vsr.MessageChunk && int(m.From) == source
	}
	b.start(2, false)
	b.until("somebody offers a checkpoint", func() bool { return source >= 0 })
	b.kill(source)
	b.caughtUp()
	b.more(3)
	b.stream() // in the session of before
	b.start(source, false)
	b.caughtUp()
}

// The partition is purged while its checkpoint is on its way: the files that were offered
// are gone at the source. What arrives in the end is the state after the purge.
func TestPurgeDuringATransfer(t *testing.T) {
	b := newBehind(t)
	b.lost = func(m vsr.Message) bool { return m.Kind == vsr.MessageChunk && uint64(m.Group) == b.group }
	b.start(2, false)
	b.untilGathering()
	var purged edge.MetadataReply
	b.admin.request++
	w := b.nodes[b.leader(0)]
	w.engine.Metadata(edge.MetadataRequest{
		Operation: wire.OperationPurgeTopic, Client: b.admin.id, Session: b.admin.epoch, Request: b.admin.request, Body: topicBody("t"),
	}, func(r edge.MetadataReply) { purged = r })
	b.until("the purge is answered", func() bool { return purged.Op > 0 })
	b.sent = nil
	b.more(2)
	b.checkpoints()
	b.lost = func(vsr.Message) bool { return false }
	b.caughtUp()
	b.kill(2)
	b.start(2, false)
	b.caughtUp()
	for _, name := range b.disks[2].Names() {
		if strings.HasPrefix(name, "groups/") && strings.HasSuffix(name, "/00000000000000000000.log") {
			t.Errorf("%s is of before the purge", name)
		}
	}
}

// Nodes of several shards: whichever dies, groups of all shards have a primary again.
func TestPrimaryOfManyShardsDies(t *testing.T) {
	for _, shape := range []struct{ nodes, shards int }{{3, 4}, {5, 3}} {
		cfg := worldConfig()
		cfg.System.Shards = shape.shards
		c := newCluster(t, shape.nodes, cfg)
		admin, group := c.begin()
		c.call(admin, wire.OperationCreateTopic, wire.CreateTopicRequest{Stream: galgo.NamedID("s"), Name: "t", Partitions: 6}.Append(nil))
		sent := make(map[uint64][]string)
		round := func() {
			for p := range uint32(6) {
				g := group("t", p)
				sent[g] = c.sendMany(g, sent[g], 2)
			}
		}
		round()
		for victim := range 2 {
			c.kill(victim)
			round()
			c.start(victim, false)
		}
		for g, want := range sent {
			c.equal(g, want)
		}
	}
}

// One partition gets no acknowledgements and is full. Another one goes on; when the first
// can, it ends what it has taken.
func TestBlockedPartitionHoldsUpNoOther(t *testing.T) {
	c, admin, a := topicOf(t)
	c.createTopic(admin, "u")
	b := uint64(0)
	c.until("there is another topic", func() bool { b = c.nodes[0].group("s", "u", 0); return b != 0 })
	at := c.leader(a)
	c.lost = func(m vsr.Message) bool { return uint64(m.Group) == a && m.Kind == vsr.MessagePrepareOk }
	replies := make([]edge.SendReply, c.cfg.Partition.PrepareQueueDepth+10)
	for i := range replies {
		replies[i].Code = unanswered
		c.numbered(at, a, uint64(i+1), &replies[i])
	}
	want := c.sendMany(b, nil, 5)
	c.equal(b, want)
	for i, r := range replies {
		if r.Code != unanswered {
			t.Fatalf("send %d was answered %v", i+1, r.Code)
		}
	}
	c.lost = func(vsr.Message) bool { return false }
	c.until("all are answered", func() bool {
		return !slices.ContainsFunc(replies, func(r edge.SendReply) bool { return r.Code != galgo.CodeOK })
	})
	c.all(a, len(replies))
}

// The metadata comes as a snapshot in which a partition is gone and another is there: the
// groups of the node are made to fit it, and nothing of the first is left on its disk.
func TestSnapshotMakesAndRemovesGroups(t *testing.T) {
	b := newBehind(t)
	b.call(b.admin, wire.OperationDeleteTopic, topicBody("t"))
	b.createTopic(b.admin, "u")
	b.stream()
	b.checkpoints()
	u := b.nodes[0].group("s", "u", 0)
	b.start(2, false)
	b.send(u, "one")
	b.equal(u, []string{"one"})
	b.until("the old group is gone", func() bool {
		_, there := b.nodes[2].engine.Stats(b.group)
		return !there
	})
	for range 20 {
		b.round()
	}
	if b.kinds[vsr.MessageChunk] == 0 {
		t.Error("no snapshot was sent")
	}
	for _, name := range b.disks[2].Names() {
		if strings.HasPrefix(name, "groups/00000000000000000001") {
			t.Errorf("%s is still there", name)
		}
	}
}

// A segment has rotted on the node that is asked for its checkpoint. The rot does not
// travel: the checkpoint is refused, and taken from the other node.
func TestRotDoesNotTravel(t *testing.T) {
	b := newBehind(t)
	rotten := b.leader(b.group)
	var log string
	for name := range b.disks[rotten].Files() {
		if strings.HasPrefix(name, "groups/") && strings.HasSuffix(name, ".log") {
			log = name
		}
	}
	sound := slices.Clone(b.disks[1-rotten].Bytes(log))
	b.disks[rotten].FlipBit(log, int64(len(sound))/2, 4)
	offers := map[uint8]int{}
	b.lost = func(m vsr.Message) bool {
		if m.Kind == vsr.MessageOffer && uint64(m.Group) == b.group && m.Offer.Op > 0 {
			offers[m.From]++
		}
		return false
	}
	b.start(2, false)
	b.caughtUp()
	if offers[uint8(rotten)] == 0 || offers[uint8(1-rotten)] == 0 {
		t.Errorf("offers of %v, want one of each", offers)
	}
	if got := b.disks[2].Bytes(log); len(got) < len(sound) || !slices.Equal(got[:len(sound)], sound) {
		t.Error("node 2 has other bytes than the sound node")
	}
}

// Questions for a checkpoint that come while it is being read do not have it read again.
func TestCheckpointIsReadOnceForAllWhoAsk(t *testing.T) {
	b := newBehind(t)
	source := b.leader(b.group)
	s := b.status(source, b.group)
	ask := vsr.Message{
		Kind: vsr.MessageRequestOffer, From: 2, To: uint8(source), Group: s.Group, Incarnation: s.Incarnation, Boot: 1 << 40, View: s.State.View, LogView: s.State.View,
	}
	offers := 0
	b.lost = func(m vsr.Message) bool {
		if m.Kind == vsr.MessageOffer && m.Offer.Op > 0 {
			offers++
		}
		return false
	}
	before := b.disks[source].Reads()
	const questions = 20
	for range questions {
		b.nodes[source].engine.Deliver(ask)
	}
	for b.nodes[source].step() {
	}
	for _, m := range b.mail {
		b.lost(m)
	}
	if reads := b.disks[source].Reads() - before; offers != questions || reads > questions {
		t.Errorf("%d offers for %d questions, with %d reads of the disk", offers, questions, reads)
	}
}
