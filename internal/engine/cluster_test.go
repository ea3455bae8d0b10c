package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"galgo"
	"galgo/internal/config"
	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/shard"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// cluster runs the engines of several nodes on one goroutine.
type cluster struct {
	t     testing.TB
	nodes []*world // nil: down
	disks []*memdisk.Disk
	mail  []vsr.Message
	lost  func(vsr.Message) bool
	kinds map[vsr.MessageKind]int // of messages of the metadata that arrived
	data  map[vsr.MessageKind]int // of partitions
	bytes int                     // of checkpoints of partitions that arrived
	boot  uint64
	lives [8]uint64 // of the nodes
	cfg   config.Config
	// restarts: a node that decides to stop is started again; stopped counts that.
	restarts bool
	stopped  int
}

// post is what a node sends through.
type post struct{ c *cluster }

func (p post) Send(m vsr.Message) { p.c.mail = append(p.c.mail, m) }

var clusterTiming = vsr.Timing{
	HeartbeatTicks: 3, RetransmitTicks: 3, ElectionTicks: 15, ViewChangeTicks: 15, RepeatTicks: 4,
	ProbeTicks: 4, ProbeAttempts: 3, RepairTicks: 4, TransferRounds: 5,
}

func newCluster(t testing.TB, n int, cfg config.Config) *cluster {
	c := &cluster{t: t, nodes: make([]*world, n), disks: make([]*memdisk.Disk, n), lost: func(vsr.Message) bool { return false }, boot: 1, cfg: cfg}
	c.kinds, c.data = make(map[vsr.MessageKind]int), make(map[vsr.MessageKind]int)
	for i := range n {
		c.disks[i] = memdisk.New(memdisk.Options{})
		c.start(i, false)
	}
	return c
}

func (c *cluster) start(i int, replace bool) {
	c.t.Helper()
	if err := c.startOn(i, c.disks[i], replace); err != nil {
		c.t.Fatalf("node %d: %v", i, err)
	}
}

// startOn starts a node on a disk, and reports why it does not.
func (c *cluster) startOn(i int, d disk.Disk, replace bool) error {
	c.boot++
	w := &world{t: c.t, disk: d, rng: rand.New(rand.NewPCG(uint64(i), c.boot)), now: 1_000_000 + c.boot*1000, patience: 4}
	e, err := Open(d, Options{
		Keys:   keysOf(i),
		Config: c.cfg, Clock: w, Random: w.rng.Uint64, Tails: worldTails, SegmentFiles: 64, UnsyncedGroups: 64, SyncApart: worldApart,
		Replica: uint8(i), Replicas: len(c.nodes), Boot: c.boot, Replace: replace, Network: post{c}, Timing: clusterTiming,
		Loop: func() Loop {
			l := &inlineLoop{}
			w.loops = append(w.loops, l)
			return l
		},
		Fail: func(err error) { w.failed = errors.Join(w.failed, err) },
		Note: func(msg string, args ...any) { c.t.Log(append([]any{i, msg}, args...)...) },
	})
	if err != nil {
		return err
	}
	w.engine = e
	c.nodes[i], c.lives[i] = w, c.boot
	return nil
}

func (c *cluster) kill(i int) {
	c.nodes[i] = nil
	c.disks[i] = c.disks[i].Kill()
}

func (c *cluster) lose(i int) {
	c.nodes[i] = nil
	c.disks[i] = memdisk.New(memdisk.Options{})
}

// bury takes a node away whose disk is gone.
func (c *cluster) bury(i int) {
	if w := c.nodes[i]; w != nil {
		if m, ok := w.disk.(*mortal); ok && m.dead {
			c.nodes[i] = nil
		}
	}
}

// round passes one tick everywhere, after everything that can happen without has.
func (c *cluster) round() {
	for c.pass() {
	}
	c.tick()
}

// pass has each node do a step, and then takes around what they have to say. It
// reports whether anything happened.
func (c *cluster) pass() (busy bool) {
	for i, w := range c.nodes {
		if w != nil && w.failed == nil {
			busy = w.step() || busy
		}
		c.bury(i)
	}
	mail := c.mail
	c.mail = nil
	for _, m := range mail {
		if w := c.nodes[m.To]; w != nil && !c.lost(m) {
			head, body := vsr.AppendFrame(nil, &m)
			got, err := vsr.DecodeFrame(append(head, body...))
			if err != nil {
				c.t.Fatal(err)
			}
			if m.Group == vsr.MetadataGroup {
				c.kinds[m.Kind]++
			} else {
				c.data[m.Kind]++
				if m.Kind == vsr.MessageChunk {
					c.bytes += len(m.Data)
				}
			}
			w.engine.Deliver(got)
			busy = true
		}
	}
	return busy
}

// tick passes one unit of time everywhere.
func (c *cluster) tick() {
	for i, w := range c.nodes {
		if w == nil {
			continue
		}
		if w.failed != nil {
			if !c.restarts {
				c.t.Fatalf("node %d failed: %v", i, w.failed)
			}
			c.stopped++
			c.kill(i)
			c.start(i, false)
			continue
		}
		for j := range w.loops {
			w.driver(j).Tick()
			w.driver(j).Turn()
		}
	}
}

const roundsMax = 2000

// until lets time pass until cond.
func (c *cluster) until(what string, cond func() bool) {
	c.t.Helper()
	for range roundsMax {
		if cond() {
			return
		}
		c.round()
	}
	c.t.Fatalf("not within %d ticks: %s", roundsMax, what)
}

// asking calls one node after the other until one accepts.
func (c *cluster) asking(what string, ask func(w *world, done func(ok bool))) {
	c.t.Helper()
	waiting, finished := false, false
	next := 0
	c.until(what, func() bool {
		for n := 0; !waiting && !finished && n < len(c.nodes); n++ {
			w := c.nodes[next%len(c.nodes)]
			next++
			if w != nil {
				waiting = true
				ask(w, func(ok bool) { waiting, finished = false, finished || ok })
			}
		}
		return finished
	})
}

// metadata has an operation decided, and returns the answer.
func (c *cluster) metadata(req edge.MetadataRequest) (reply edge.MetadataReply) {
	c.t.Helper()
	c.asking(fmt.Sprintf("operation %v is answered", req.Operation), func(w *world, done func(bool)) {
		w.engine.Metadata(req, func(r edge.MetadataReply) { reply = r; done(r.Outcome == edge.OutcomeReply) })
	})
	return reply
}

func (c *cluster) send(group uint64, payload string) {
	c.t.Helper()
	c.asking("send is answered", func(w *world, done func(bool)) {
		w.engine.Send(edge.SendRequest{Group: group, Batch: batchOf(payload), Count: 1}, func(r edge.SendReply) {
			done(r.Code == galgo.CodeOK)
		})
	})
}

func (c *cluster) all(group uint64, want int) {
	c.t.Helper()
	for i, w := range c.nodes {
		if w == nil {
			continue
		}
		c.until(fmt.Sprintf("node %d has %d messages of group %d", i, want, group), func() bool {
			f, ok := w.engine.Stats(group)
			return ok && f.Messages == uint64(want)
		})
	}
}

func (c *cluster) begin() (admin *session, group func(topic string, partition uint32) uint64) {
	c.t.Helper()
	body, err := metadata.Bootstrap{Username: "root", PasswordHash: "x", Settings: metadata.Settings{ClientsMax: 64}}.Encode()
	if err != nil {
		c.t.Fatal(err)
	}
	c.metadata(edge.MetadataRequest{Operation: metadata.OperationBootstrap, Body: body})
	id := galgo.ClientID{9}
	r := c.metadata(edge.MetadataRequest{Operation: wire.OperationRegister, Client: id, Body: rootPassword()})
	admin = &session{id: id, epoch: r.Op}
	c.call(admin, wire.OperationCreateStream, wire.CreateStreamRequest{Name: "s"}.Append(nil))
	return admin, func(topic string, partition uint32) (found uint64) {
		c.until("the group is known", func() bool {
			for _, w := range c.nodes {
				if w != nil && found == 0 {
					found = w.group("s", topic, partition)
				}
			}
			return found != 0
		})
		return found
	}
}

func (c *cluster) call(s *session, op wire.Operation, body []byte) edge.MetadataReply {
	s.request++
	return c.metadata(edge.MetadataRequest{Operation: op, Client: s.id, Session: s.epoch, Request: s.request, Body: body})
}

func TestThreeNodesReplicate(t *testing.T) {
	c := newCluster(t, 3, worldConfig())
	admin, group := c.begin()
	c.call(admin, wire.OperationCreateTopic, wire.CreateTopicRequest{Stream: galgo.NamedID("s"), Name: "t", Partitions: 1}.Append(nil))
	g := group("t", 0)
	for i := range 20 {
		c.send(g, fmt.Sprint("m", i))
	}
	sent := 20
	for victim := range 3 {
		c.kill(victim)
		for i := range 5 {
			c.send(g, fmt.Sprint("without", victim, i))
		}
		c.call(admin, wire.OperationCreateStream, wire.CreateStreamRequest{Name: fmt.Sprint("x", victim)}.Append(nil))
		c.start(victim, false)
		sent += 5
	}
	for _, w := range c.nodes {
		c.until("messages are the same everywhere", func() bool {
			f, ok := w.engine.Stats(g)
			return ok && f.Messages >= uint64(sent)
		})
	}
}

// everything polls a group on a node from its start.
func (c *cluster) everything(i int, group uint64) []string {
	c.t.Helper()
	var got []string
	c.until(fmt.Sprintf("node %d can be read", i), func() bool {
		var plan partition.Plan
		read := false
		c.nodes[i].engine.Poll(edge.PollRequest{Group: group, Strategy: galgo.FromOffset(0), Count: 1 << 20, Plan: &plan}, func(r edge.PollReply) {
			if r.Code == galgo.CodeOK {
				payloads, err := payloadsOf(&plan, 0)
				if err != nil {
					c.t.Fatal(err)
				}
				got, read = payloads, true
			}
		})
		c.round()
		return read
	})
	return got
}

// equal waits until all nodes have the same messages of a group, this many.
func (c *cluster) equal(group uint64, want []string) {
	c.t.Helper()
	c.all(group, len(want))
	for i, w := range c.nodes {
		if w != nil {
			if got := c.everything(i, group); !slices.Equal(got, want) {
				c.t.Errorf("node %d has %q, want %q", i, got, want)
			}
		}
	}
}

// checkpoints has every node take one of each plane.
func (c *cluster) checkpoints() {
	c.t.Helper()
	for _, w := range c.nodes {
		if w == nil {
			continue
		}
		for i, d := range w.engine.Drivers() {
			done := false
			w.loops[i].Post(func() { d.Checkpoint(func(error) { done = true }) })
			c.until("a checkpoint ends", func() bool { return done })
		}
	}
}

func (c *cluster) createTopic(s *session, name string) {
	c.t.Helper()
	c.call(s, wire.OperationCreateTopic, wire.CreateTopicRequest{Stream: galgo.NamedID("s"), Name: name, Partitions: 1}.Append(nil))
}

// A node that was away until the logs of the others were freed takes their
// checkpoints, of the metadata and of the partitions, and then votes.
func TestNodeFarBehindTakesCheckpoints(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("disk lost %v", lost), func(t *testing.T) {
			c := newCluster(t, 3, worldConfig())
			admin, group := c.begin()
			c.createTopic(admin, "t")
			g := group("t", 0)
			var want []string
			send := func(n int) {
				for range n {
					want = append(want, fmt.Sprint("m", len(want)))
					c.send(g, want[len(want)-1])
				}
			}
			send(5)
			c.equal(g, want)
			if lost {
				c.lose(2)
			} else {
				c.kill(2)
			}
			send(300)
			for i := range 300 {
				c.call(admin, wire.OperationCreateStream, wire.CreateStreamRequest{Name: fmt.Sprint("x", i)}.Append(nil))
			}
			c.checkpoints()
			send(5)
			c.createTopic(admin, "u")
			c.checkpoints()
			for _, i := range []int{0, 1} {
				if first := c.nodes[i].engine.meta.LogFirst(); first < 300 {
					t.Fatalf("node %d still has op %d in its log", i, first)
				}
			}
			c.start(2, lost)
			c.equal(g, want)
			u := group("u", 0)
			c.send(u, "only")
			c.kill(0)
			send(5) // with the vote of the one that came back
			c.equal(g, want)
			c.equal(u, []string{"only"})
			c.start(0, false)
			c.equal(g, want)
			if c.kinds[vsr.MessageChunk] == 0 || c.data[vsr.MessageChunk] == 0 {
				t.Errorf("no checkpoint was sent: %d pieces of the metadata, %d of partitions", c.kinds[vsr.MessageChunk], c.data[vsr.MessageChunk])
			}
		})
	}
}

// A node that takes checkpoints of its peers loses power at each of its disk calls in
// turn: after the next start it has everything, whichever step was cut short.
func TestTransferCutAtEachDiskCall(t *testing.T) {
	cfg := worldConfig()
	cfg.WAL.FileSize = 8 << 10
	base := newCluster(t, 3, cfg)
	admin, group := base.begin()
	base.createTopic(admin, "t")
	g := group("t", 0)
	var want []string
	send := func(c *cluster, n int) {
		for range n {
			want = append(want, fmt.Sprint("m", len(want)))
			c.send(g, want[len(want)-1])
		}
	}
	send(base, 3)
	base.equal(g, want)
	base.kill(2)
	for i := range 20 {
		send(base, 2)
		base.call(admin, wire.OperationCreateStream, wire.CreateStreamRequest{Name: fmt.Sprint("x", i)}.Append(nil))
	}
	base.checkpoints()
	send(base, 2)
	for k := 1; ; k++ {
		c := &cluster{t: t, nodes: make([]*world, 3), disks: make([]*memdisk.Disk, 3), lost: base.lost, boot: base.boot + uint64(2*k), cfg: cfg}
		c.kinds, c.data = make(map[vsr.MessageKind]int), make(map[vsr.MessageKind]int)
		for i := range 3 {
			c.disks[i] = base.disks[i].Kill()
		}
		c.start(0, false)
		c.start(1, false)
		m := &mortal{Disk: c.disks[2], left: k}
		err := c.startOn(2, m, false)
		if err != nil && !errors.Is(err, memdisk.ErrCrashed) {
			t.Fatalf("call %d: %v", k, err)
		}
		c.until("the node is up to date or dead", func() bool {
			if m.dead {
				c.nodes[2] = nil
				return true
			}
			f, ok := c.nodes[2].engine.Stats(g)
			streams := slices.Collect(c.nodes[2].engine.View().Streams())
			return ok && f.Messages == uint64(len(want)) && len(streams) == 21
		})
		if m.dead {
			c.disks[2] = c.disks[2].PowerLoss(rand.New(rand.NewPCG(uint64(k), 7)))
			c.start(2, false)
		}
		m.left = 0 // it has what it was to take: what follows is no part of it
		c.equal(g, want)
		if !m.dead {
			if c.kinds[vsr.MessageChunk] == 0 || c.data[vsr.MessageChunk] == 0 {
				t.Error("no checkpoint was sent")
			}
			t.Logf("%d crash points", k-1)
			return
		}
	}
}

// The primary of a first view loses power after its op has left and before it is on its
// own disk. When it is back, with nothing of the group, it must not give another op the
// same place in the same view.
func TestPrimaryOfTheFirstViewThatForgets(t *testing.T) {
	c := newCluster(t, 3, worldConfig())
	admin, group := c.begin()
	c.createTopic(admin, "t")
	g := group("t", 0)
	primary, backup := int(g%3), uint8((g+1)%3)
	c.all(g, 0)
	c.until("the view runs", func() bool {
		s := c.status(primary, g)
		return s.Primary && s.State == c.status(int(backup), g).State
	})
	c.lost = func(m vsr.Message) bool {
		return uint64(m.Group) == g && (m.Kind == vsr.MessagePrepareOk || m.Kind == vsr.MessagePrepare && m.To != backup)
	}
	c.nodes[primary].engine.Send(edge.SendRequest{Group: g, Batch: batchOf("first"), Count: 1}, func(edge.SendReply) {})
	c.nodes[primary].turn(1)
	c.nodes[primary].hold(1, shard.LaneLog) // its own disk never gets it
	c.until("one backup has the op", func() bool { return c.status(int(backup), g).Head == 1 })
	c.nodes[primary] = nil
	c.disks[primary] = c.disks[primary].PowerLoss(rand.New(rand.NewPCG(1, 1)))
	c.lost = func(vsr.Message) bool { return false }
	c.start(primary, false)
	c.send(g, "second")
	var want []string
	c.until("what was answered is there", func() bool {
		want = c.everything(primary, g)
		return slices.Contains(want, "second")
	})
	c.equal(g, want)
}
