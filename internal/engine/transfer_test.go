package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"galgo/internal/disk/memdisk"
	"galgo/internal/edge"
	"galgo/internal/shard"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// behind is a cluster of three in which node 2 is down and has missed more of both
// planes than the logs of the others hold.
type behind struct {
	*cluster
	admin   *session
	group   uint64
	sent    []string
	streams int
}

func newBehind(t *testing.T) *behind {
	cfg := worldConfig()
	cfg.WAL.FileSize = 8 << 10
	b := &behind{cluster: newCluster(t, 3, cfg), streams: 1}
	admin, group := b.begin()
	b.createTopic(admin, "t")
	b.admin, b.group = admin, group("t", 0)
	b.more(3)
	b.equal(b.group, b.sent)
	b.kill(2)
	b.leave()
	return b
}

func (b *behind) more(n int) { b.sent = b.sendMany(b.group, b.sent, n) }

func (b *behind) stream() {
	b.call(b.admin, wire.OperationCreateStream, wire.CreateStreamRequest{Name: fmt.Sprint("x", b.streams)}.Append(nil))
	b.streams++
}

// leave has the others go on and free their logs.
func (b *behind) leave() {
	b.t.Helper()
	for range 10 {
		b.more(2)
		b.stream()
	}
	b.checkpoints()
	b.more(2)
}

// caughtUp waits until node 2 has everything.
func (b *behind) caughtUp() {
	b.t.Helper()
	b.equal(b.group, b.sent)
	b.until("node 2 has the metadata", func() bool {
		return len(slices.Collect(b.nodes[2].engine.View().Streams())) == b.streams
	})
}

// named matches files that have all parts in their names.
func named(parts ...string) func(string) bool {
	return func(name string) bool {
		return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(name, p) })
	}
}

// What the disk refuses while a checkpoint of a peer is taken is tried again, or it
// ends the node, which finishes at its next start. In the end everything is there.
func TestTransferOverFaults(t *testing.T) {
	const metadata, partition = "metadata/transfer/", "shards/0/transfer/"
	type fault struct {
		memdisk.Fault
		stops int // of the node
	}
	faults := map[string]fault{
		"segment not made":        {memdisk.Fault{Class: memdisk.NoSpace, Ops: memdisk.OpCreate, Match: named("groups/", ".log")}, 0},
		"segment not written":     {memdisk.Fault{Class: memdisk.ShortWrite, Keep: 10, Match: named("groups/", ".log")}, 0},
		"segment not cut":         {memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpTruncate, Match: named("groups/")}, 0},
		"segment not synced":      {memdisk.Fault{Class: memdisk.SyncFailure, Match: named("groups/", ".log")}, 1},
		"segments not in dir":     {memdisk.Fault{Class: memdisk.SyncFailure, Ops: memdisk.OpSyncDir, Match: named("groups/")}, 1},
		"log not synced":          {memdisk.Fault{Class: memdisk.SyncFailure, Match: named("shards/0/wal"), At: 2}, 1},
		"snapshot not named":      {memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpRename, Match: named(metadata, ".part")}, 0},
		"name not synced":         {memdisk.Fault{Class: memdisk.SyncFailure, Ops: memdisk.OpSyncDir, Match: named("metadata/snapshot")}, 1},
		"superblock not written":  {memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpCreate, Match: named("superblock"), Times: 5}, 0},
		"superblock not synced":   {memdisk.Fault{Class: memdisk.SyncFailure, Match: named("superblock")}, 0},
		"checkpoint not written":  {memdisk.Fault{Class: memdisk.NoSpace, Match: named(".ckpt"), Times: 3}, 0},
		"log of metadata refused": {memdisk.Fault{Class: memdisk.SyncFailure, Match: named("metadata/wal"), At: 2}, 1},
	}
	for plane, dir := range map[string]string{"metadata": metadata, "partition": partition} {
		for name, f := range map[string]memdisk.Fault{
			"no directory":       {Class: memdisk.NoSpace, Ops: memdisk.OpMkdirAll, Match: named(strings.TrimSuffix(dir, "/"))},
			"offer not made":     {Class: memdisk.NoSpace, Ops: memdisk.OpCreate, Match: named(dir, ".offer"), Times: 2},
			"offer not written":  {Class: memdisk.NoSpace, Ops: memdisk.OpWrite, Match: named(dir, ".offer")},
			"offer not synced":   {Class: memdisk.SyncFailure, Match: named(dir, ".offer")},
			"offer not renamed":  {Class: memdisk.Fail, Ops: memdisk.OpRename, Match: named(dir, ".offer")},
			"offer not in dir":   {Class: memdisk.SyncFailure, Ops: memdisk.OpSyncDir, Match: named(strings.TrimSuffix(dir, "/"))},
			"part not made":      {Class: memdisk.NoSpace, Ops: memdisk.OpCreate, Match: named(dir, ".part"), Times: 2},
			"part not opened":    {Class: memdisk.Fail, Ops: memdisk.OpOpen, Match: named(dir, ".part"), Times: 2},
			"piece not written":  {Class: memdisk.NoSpace, Ops: memdisk.OpWrite, Match: named(dir, ".part"), Keep: 100, Times: 3},
			"piece lost":         {Class: memdisk.LostWrite, Match: named(dir, ".part")},
			"part not read":      {Class: memdisk.Fail, Ops: memdisk.OpRead, Match: named(dir, ".part")},
			"part not read late": {Class: memdisk.Fail, Ops: memdisk.OpRead, Match: named(dir, ".part"), At: 2},
			"part not sized":     {Class: memdisk.Fail, Ops: memdisk.OpSize, Match: named(dir, ".part")},
			"part not synced":    {Class: memdisk.SyncFailure, Match: named(dir, ".part")},
		} {
			faults[plane+", "+name] = fault{f, 0}
		}
	}
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			b := newBehind(t)
			b.start(2, false)
			b.disks[2].Inject(f.Fault)
			b.restarts = true
			disk := b.disks[2]
			b.caughtUp()
			if disk.Fired() == 0 || b.stopped != f.stops {
				t.Errorf("the fault came %d times, the node stopped %d times, want %d", disk.Fired(), b.stopped, f.stops)
			}
			if b.kinds[vsr.MessageChunk] == 0 || b.data[vsr.MessageChunk] == 0 {
				t.Error("no checkpoint was sent")
			}
			b.kill(2)
			b.start(2, false)
			b.caughtUp()
		})
	}
}

// What was taken and is in no table yet is not thrown away for the next offer, also
// when the node was started in between: there is nothing else to start from.
func TestNextTransferWaitsForTheTable(t *testing.T) {
	b := newBehind(t)
	b.disks[2].Inject(memdisk.Fault{Class: memdisk.NoSpace, Ops: memdisk.OpCreate, Match: named("groups/"), Times: memdisk.Forever})
	b.start(2, false)
	b.until("the files are refused", func() bool { return b.disks[2].Fired() > 0 })
	b.kill(2)
	b.disks[2].Inject(memdisk.Fault{Class: memdisk.NoSpace, Ops: memdisk.OpCreate, Match: named(".ckpt"), Times: memdisk.Forever})
	b.lost = func(m vsr.Message) bool { return m.From == 2 || m.To == 2 }
	b.start(2, false)
	b.leave()
	asked := false
	b.lost = func(m vsr.Message) bool {
		asked = asked || m.From == 2 && m.Kind == vsr.MessageRequestOffer && uint64(m.Group) == b.group
		return m.Kind == vsr.MessageChunk
	}
	b.until("the node asks for the next", func() bool { return asked })
	for range 10 {
		b.round() // it has the offer, and of the checkpoint nothing
	}
	b.kill(2)
	b.lost = func(vsr.Message) bool { return false }
	b.start(2, false)
	b.caughtUp()
}

// Who asked for a purge is answered also where the purge comes with a checkpoint of a
// peer, and nothing else ever happens in the partition.
func TestPurgeThatComesWithACheckpoint(t *testing.T) {
	c := newCluster(t, 3, worldConfig())
	admin, group := c.begin()
	c.createTopic(admin, "t")
	g := group("t", 0)
	want := c.sendMany(g, nil, 3)
	c.equal(g, want)
	c.until("node 0 leads the metadata", func() bool { return c.status(0, 0).Primary })
	c.lost = func(m vsr.Message) bool { return uint64(m.Group) == g && m.To == 0 }
	answered := false
	admin.request++
	c.nodes[0].engine.Metadata(edge.MetadataRequest{
		Operation: wire.OperationPurgeTopic, Client: admin.id, Session: admin.epoch, Request: admin.request, Body: topicBody("t"),
	}, func(r edge.MetadataReply) { answered = r.Outcome == edge.OutcomeReply })
	c.until("the others have purged", func() bool {
		f, ok := c.nodes[1].engine.Stats(g)
		return ok && f.Messages == 0
	})
	c.checkpoints()
	if answered {
		t.Fatal("answered before it is done here")
	}
	c.lost = func(vsr.Message) bool { return false }
	c.until("the purge is answered", func() bool { return answered })
	if c.data[vsr.MessageChunk] == 0 {
		t.Error("no checkpoint was sent")
	}
	c.equal(g, nil)
}

// A message that reaches the wrong replica is dropped before a core sees it.
func TestMessagesForAnotherReplicaAreDropped(t *testing.T) {
	c := newCluster(t, 3, worldConfig())
	admin, group := c.begin()
	c.createTopic(admin, "t")
	g := group("t", 0)
	c.sendMany(g, nil, 1)
	for _, id := range []uint64{0, g} {
		before := c.status(1, id)
		m := vsr.Message{Kind: vsr.MessageStartViewChange, From: 2, To: 0, Group: vsr.GroupID(id), Incarnation: before.Incarnation, Boot: 1 << 40, View: before.State.View + 7}
		c.nodes[1].engine.Deliver(m)
		for c.nodes[1].step() {
		}
		if after := c.status(1, id); after.State != before.State {
			t.Errorf("group %d went from %+v to %+v", id, before.State, after.State)
		}
		m.To = 1
		c.nodes[1].engine.Deliver(m)
		for c.nodes[1].step() {
		}
		if after := c.status(1, id); after.State.View != m.View {
			t.Errorf("group %d did not take its own message: %+v", id, after.State)
		}
	}
}

// A group is removed while its node takes a checkpoint of it, at each step of that:
// nothing of it stays, neither files nor what was gathered.
func TestGroupRemovedDuringATransfer(t *testing.T) {
	for step := 0; ; step++ {
		b := newBehind(t)
		u := func() uint64 { return b.nodes[0].group("s", "u", 0) }
		b.createTopic(b.admin, "u")
		b.until("there is another topic", func() bool { return u() != 0 })
		b.lost = func(m vsr.Message) bool { return uint64(m.Group) == b.group && m.To == 2 }
		b.start(2, false)
		b.until("node 2 has the metadata, which would make the group again", func() bool { return b.nodes[2].group("s", "u", 0) != 0 })
		b.lost = func(vsr.Message) bool { return false }
		b.untilGathering()
		for range step {
			b.pass()
		}
		ended := !b.gathering()
		e := b.nodes[2].engine // it removes the group now, the others when the metadata says so
		e.onData(b.group, func(d *shard.Data) { e.remove(d, vsr.GroupID(b.group), func() {}) }, func() {})
		b.call(b.admin, wire.OperationDeleteTopic, topicBody("t"))
		b.until("the group is gone on node 2", func() bool {
			_, there := b.nodes[2].engine.Stats(b.group)
			return !there
		})
		for range 20 {
			b.round()
		}
		for _, name := range b.disks[2].Names() {
			if strings.Contains(name, fmt.Sprintf("%020d", b.group)) && (strings.HasPrefix(name, "groups/") || strings.HasPrefix(name, "shards/0/transfer/")) {
				t.Errorf("step %d: %s is still there", step, name)
			}
		}
		b.send(u(), "still served")
		b.equal(u(), []string{"still served"})
		b.kill(2)
		b.start(2, false)
		b.equal(u(), []string{"still served"})
		if ended || t.Failed() {
			t.Logf("%d steps", step)
			return
		}
		if step > 500 {
			t.Fatal("the transfer does not end")
		}
	}
}

// gathering is true while node 2 has something of a peer's checkpoint of the partition.
func (b *behind) gathering() bool {
	return b.disks[2].Bytes(fmt.Sprintf("shards/0/transfer/%020d.offer", b.group)) != nil
}

// untilGathering lets things happen, one by one, until node 2 begins to take the
// checkpoint of the partition.
func (b *behind) untilGathering() {
	b.t.Helper()
	for range 10 * roundsMax {
		if b.gathering() {
			return
		}
		if !b.pass() {
			b.tick()
		}
	}
	b.t.Fatal("the transfer does not begin")
}

// A node is closed in order while it takes a checkpoint, after each step of that: it
// ends what its disk is doing, and goes on at the next start.
func TestCloseDuringATransfer(t *testing.T) {
	for step, over := 0, false; !over; step++ {
		b := newBehind(t)
		b.start(2, false)
		b.untilGathering()
		for range step {
			b.pass()
		}
		over = !b.gathering()
		b.lost = isolated(2)
		for b.nodes[2].step() {
		}
		if err := b.nodes[2].engine.Close(); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		b.kill(2)
		b.lost = func(vsr.Message) bool { return false }
		b.start(2, false)
		b.caughtUp()
	}
}

// A node takes checkpoints of its own all the time while it takes those of a peer.
func TestCheckpointsDuringATransfer(t *testing.T) {
	b := newBehind(t)
	b.start(2, false)
	for range 200 {
		if !b.pass() {
			b.tick()
		}
		w := b.nodes[2]
		for i, d := range w.engine.Drivers() {
			w.loops[i].Post(func() { d.Checkpoint(func(error) {}) })
		}
	}
	b.caughtUp()
	if b.kinds[vsr.MessageChunk] == 0 || b.data[vsr.MessageChunk] == 0 {
		t.Error("no checkpoint was sent")
	}
	b.kill(2)
	b.start(2, false)
	b.caughtUp()
}

// The metadata's newest snapshot is offered again and again, so that what was gathered
// before the asker was restarted serves.
func TestOffersStayTheSame(t *testing.T) {
	b := newBehind(t)
	offers := map[vsr.Offer]bool{}
	b.lost = func(m vsr.Message) bool {
		if m.Kind == vsr.MessageOffer && m.Group == vsr.MetadataGroup {
			offers[m.Offer] = true
		}
		return m.Kind == vsr.MessageChunk
	}
	for range 3 {
		b.stream() // it is above the snapshot
		b.start(2, false)
		for range 100 {
			b.round()
		}
		b.kill(2)
	}
	if len(offers) != 1 {
		t.Errorf("%d different offers", len(offers))
	}
}

// The name of a snapshot of a peer was not synced, and the node was started again: it
// relies on the snapshot, and lets go of what was gathered when the next transfer begins.
// The next power loss does not take the snapshot.
func TestSnapshotOfAPeerWhoseNameIsInDoubt(t *testing.T) {
	b := newBehind(t)
	b.start(2, false)
	b.disks[2].Inject(memdisk.Fault{Class: memdisk.SyncFailure, Ops: memdisk.OpSyncDir, Match: named("metadata/snapshot")})
	b.restarts = true
	b.caughtUp()
	if b.stopped != 1 {
		t.Fatalf("the node stopped %d times", b.stopped)
	}
	const staging = "metadata/transfer" // what a transfer does that begins
	for _, name := range b.disks[2].Names() {
		if strings.HasPrefix(name, staging+"/") {
			if err := b.disks[2].Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := b.disks[2].SyncDir(staging); err != nil {
		t.Fatal(err)
	}
	b.nodes[2] = nil
	b.disks[2] = b.disks[2].PowerLoss(nil)
	b.start(2, false)
	b.caughtUp()
}
