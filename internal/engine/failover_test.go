package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/disk/memdisk"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// leader is the node that leads a group, once one does.
func (c *cluster) leader(group uint64) (at int) {
	c.t.Helper()
	c.until("somebody leads the group", func() bool {
		for i, w := range c.nodes {
			if w != nil && c.status(i, group).Primary {
				at = i
				return true
			}
		}
		return false
	})
	return at
}

// topicOf is a cluster of three with one topic.
func topicOf(t *testing.T) (*cluster, *session, uint64) {
	c := newCluster(t, 3, worldConfig())
	admin, group := c.begin()
	c.createTopic(admin, "t")
	return c, admin, group("t", 0)
}

func isolated(i int) func(vsr.Message) bool {
	return func(m vsr.Message) bool { return int(m.From) == i || int(m.To) == i }
}

// numbered sends one numbered message through a node; nothing may come back.
func (c *cluster) numbered(i int, group, number uint64, reply *edge.SendReply) {
	c.nodes[i].engine.Send(edge.SendRequest{
		Group: group, Batch: batchOf(fmt.Sprint("n", number)), Count: 1, Client: galgo.ClientID{7}, Request: number, Numbered: true,
	}, func(r edge.SendReply) { *reply = r })
}

const unanswered = galgo.Code(1<<32 - 1)

// A primary that is cut off answers all that it has taken, what waits for room
// included, and none of it as done: the next view knows nothing of it.
func TestDeposedPrimaryAnswersWhatWaits(t *testing.T) {
	c, admin, g := topicOf(t)
	want := c.sendMany(g, nil, 3)
	c.equal(g, want)
	old := c.leader(g)
	c.lost = isolated(old)
	replies := make([]edge.SendReply, 2*c.cfg.Partition.PrepareQueueDepth)
	for i := range replies {
		replies[i].Code = unanswered
		c.numbered(old, g, uint64(i+1), &replies[i])
	}
	c.until("the others have another primary", func() bool {
		return c.status((old+1)%3, g).Primary || c.status((old+2)%3, g).Primary
	})
	c.send(g, "new")
	want = append(want, "new")
	c.lost = func(vsr.Message) bool { return false }
	c.equal(g, want)
	for i, r := range replies {
		if r.Code != galgo.CodeTransientNotCommitted && r.Code != galgo.CodeTransientNotAccepted {
			t.Errorf("send %d was answered %v", i+1, r.Code)
		}
	}
	old = c.leader(0)
	c.lost = isolated(old)
	meta := edge.MetadataReply{Code: unanswered}
	c.nodes[old].engine.Metadata(edge.MetadataRequest{
		Operation: wire.OperationCreateStream, Client: admin.id, Session: admin.epoch, Request: admin.request + 1, Body: wire.CreateStreamRequest{Name: "late"}.Append(nil),
	}, func(r edge.MetadataReply) { meta = r })
	c.until("the metadata has another primary", func() bool {
		return c.status((old+1)%3, 0).Primary || c.status((old+2)%3, 0).Primary
	})
	c.call(&session{id: admin.id, epoch: admin.epoch, request: admin.request}, wire.OperationCreateStream, wire.CreateStreamRequest{Name: "other"}.Append(nil))
	c.lost = func(vsr.Message) bool { return false }
	c.until("the request is answered", func() bool { return meta.Code != unanswered })
	if meta.Outcome != edge.OutcomeResult || meta.Code != galgo.CodeTransientNotCommitted {
		t.Errorf("the request was answered %v, code %v", meta.Outcome, meta.Code)
	}
}

// The answers to five numbered sends are lost, and so is their primary. The client
// repeats them at the next one: each is stored once, at the offset it had. After a purge
// a new number is stored.
func TestNumberedSendsAtTheNextPrimary(t *testing.T) {
	c, admin, g := topicOf(t)
	first := make([]edge.SendReply, 5)
	old := c.leader(g)
	for i := range first {
		first[i].Code = unanswered
		c.numbered(old, g, uint64(i+1), &first[i])
	}
	c.until("they are committed", func() bool { return first[4].Code == galgo.CodeOK })
	c.kill(old)
	for i := range first {
		again := edge.SendReply{}
		c.asking("the repeated send is answered", func(w *world, done func(bool)) {
			at := slices.Index(c.nodes, w)
			c.nodes[at].engine.Send(edge.SendRequest{
				Group: g, Batch: batchOf(fmt.Sprint("n", i+1)), Count: 1, Client: galgo.ClientID{7}, Request: uint64(i + 1), Numbered: true,
			}, func(r edge.SendReply) { again = r; done(r.Code == galgo.CodeOK) })
		})
		if again.Base != first[i].Base {
			t.Errorf("send %d is at offset %d, it was at %d", i+1, again.Base, first[i].Base)
		}
	}
	c.equal(g, []string{"n1", "n2", "n3", "n4", "n5"})
	c.start(old, false)
	c.equal(g, []string{"n1", "n2", "n3", "n4", "n5"})
	c.call(admin, wire.OperationPurgeTopic, topicBody("t"))
	var reply edge.SendReply
	c.asking("a send after the purge is answered", func(w *world, done func(bool)) {
		w.engine.Send(edge.SendRequest{Group: g, Batch: batchOf("after"), Count: 1, Client: galgo.ClientID{7}, Request: 6, Numbered: true},
			func(r edge.SendReply) { reply = r; done(r.Code == galgo.CodeOK) })
	})
	if c.equal(g, []string{"after"}); reply.Base != 0 {
		t.Errorf("after the purge the first offset is %d", reply.Base)
	}
}

// A metadata request whose answer was lost is answered the same by the next primary, and
// not run again; the session is still the same.
func TestSessionsAtTheNextPrimary(t *testing.T) {
	c, admin, _ := topicOf(t)
	old := c.leader(0)
	first := c.call(admin, wire.OperationCreateStream, wire.CreateStreamRequest{Name: "once"}.Append(nil))
	c.kill(old)
	again := c.metadata(edge.MetadataRequest{
		Operation: wire.OperationCreateStream, Client: admin.id, Session: admin.epoch, Request: admin.request, Body: wire.CreateStreamRequest{Name: "once"}.Append(nil),
	})
	if again.Op != first.Op || !bytes.Equal(again.Body, first.Body) {
		t.Errorf("answered with op %d %x, at first with op %d %x", again.Op, again.Body, first.Op, first.Body)
	}
	if r := c.call(admin, wire.OperationCreateStream, wire.CreateStreamRequest{Name: "next"}.Append(nil)); r.Code != galgo.CodeOK {
		t.Errorf("the session does not go on: %v", r.Code)
	}
	c.start(old, false)
	c.until("three streams everywhere", func() bool {
		return !slices.ContainsFunc(c.nodes, func(w *world) bool { return len(slices.Collect(w.engine.View().Streams())) != 3 })
	})
}

// Who does not lead decides nothing: no session is called gone, nothing gets an op, and
// the client is told to ask elsewhere.
func TestBackupsDecideNothing(t *testing.T) {
	c, admin, g := topicOf(t)
	for i, w := range c.nodes {
		if i == c.leader(0) {
			continue
		}
		for name, req := range map[string]edge.MetadataRequest{
			"a login":            {Operation: wire.OperationRegister, Client: galgo.ClientID{8}, Body: rootPassword()},
			"a logout":           {Operation: wire.OperationLogout, Client: admin.id, Session: admin.epoch},
			"no session":         {Operation: wire.OperationCreateStream, Client: galgo.ClientID{8}, Session: 1, Request: 1},
			"a new request":      {Operation: wire.OperationCreateStream, Client: admin.id, Session: admin.epoch, Request: admin.request + 1},
			"a repeated request": {Operation: wire.OperationCreateTopic, Client: admin.id, Session: admin.epoch, Request: admin.request},
		} {
			got := edge.MetadataReply{Code: unanswered}
			w.engine.Metadata(req, func(r edge.MetadataReply) { got = r })
			c.round()
			if got.Outcome != edge.OutcomeResult || got.Code != galgo.CodeTransientNotAccepted {
				t.Errorf("node %d, %s: outcome %v, code %v", i, name, got.Outcome, got.Code)
			}
		}
	}
	for i := range c.nodes {
		reply := edge.SendReply{Code: unanswered}
		if i != c.leader(g) {
			if c.numbered(i, g, 1, &reply); !c.pass() || reply.Code != galgo.CodeTransientNotAccepted {
				t.Errorf("node %d: a send was answered %v", i, reply.Code)
			}
		}
	}
}

// A primary that does not know what a client has seen refuses nothing for good: it may be
// deposed, and not have noticed yet.
func TestPrimaryRefusesNothingThatIsNewToIt(t *testing.T) {
	c, admin, _ := topicOf(t)
	w, ahead := c.nodes[c.leader(0)], uint64(c.status(c.leader(0), 0).CommitMin)+1
	by := metadata.Credential{Kind: metadata.CredentialPassword, Op: ahead}
	for name, req := range map[string]edge.MetadataRequest{
		"a session":  {Operation: wire.OperationCreateStream, Client: admin.id, Session: ahead, Request: 1},
		"a password": {Operation: wire.OperationRegister, Client: galgo.ClientID{8}, Body: by.Append(nil)},
	} {
		got := edge.MetadataReply{Code: unanswered}
		w.engine.Metadata(req, func(r edge.MetadataReply) { got = r })
		c.round()
		if got.Outcome != edge.OutcomeResult || got.Code != galgo.CodeTransientNotAccepted {
			t.Errorf("%s: outcome %v, code %v", name, got.Outcome, got.Code)
		}
	}
}

// A survivor that cannot write down what it promises is no part of an election; it
// neither leads nor votes, tries less and less often, and when it can again a primary is
// found and nothing that was acknowledged is missing.
func TestSurvivorThatCannotWriteItsPromise(t *testing.T) {
	c, _, g := topicOf(t)
	want := c.sendMany(g, nil, 3)
	c.equal(g, want)
	old := c.leader(0)
	deaf := (old + 1) % 3
	c.disks[deaf].Inject(memdisk.Fault{Class: memdisk.NoSpace, Match: named("superblock"), Times: memdisk.Forever})
	written := func() string {
		return string(c.disks[deaf].Bytes("metadata/superblock.a")) + string(c.disks[deaf].Bytes("metadata/superblock.b"))
	}
	before := written()
	c.kill(old)
	for range 400 {
		c.round()
		for i, w := range c.nodes {
			if w != nil && c.status(i, 0).Primary {
				t.Fatalf("node %d leads the metadata on the promise of one", i)
			}
		}
	}
	if fired := c.disks[deaf].Fired(); fired == 0 || fired > 40 {
		t.Errorf("%d attempts in 400 ticks", fired)
	}
	if s := c.status(deaf, 0); s.State.View == 0 || s.State.View > 4 || before != written() {
		t.Errorf("in %+v, and the superblock has changed: %v", s.State, before != written())
	}
	c.disks[deaf].ClearFaults()
	c.leader(0)
	c.send(g, "again")
	c.equal(g, append(want, "again"))
}

// The files of a partition are the same on all nodes, byte for byte, whatever node led
// when; and the two that were backups serve all of it.
func TestFilesAreEqualOnAllNodes(t *testing.T) {
	c, _, g := topicOf(t)
	want := c.sendMany(g, nil, 20)
	for victim := range 3 {
		c.kill(victim)
		want = c.sendMany(g, want, 10)
		c.start(victim, false)
		c.equal(g, want)
	}
	c.checkpoints()
	files := func(i int) map[string][]byte {
		found := map[string][]byte{}
		for name, b := range c.disks[i].Files() {
			if strings.HasPrefix(name, "groups/") {
				found[name] = openedLog(t, c.disks[i], keysOf(i), name, b)
			}
		}
		return found
	}
	first := files(0)
	for i := range c.disks {
		other := files(i)
		if len(first) == 0 || len(other) != len(first) {
			t.Fatalf("node %d has %d files, node 0 %d", i, len(other), len(first))
		}
		for name, b := range first {
			if !bytes.Equal(b, other[name]) {
				t.Errorf("%s differs on node %d", name, i)
			}
		}
	}
	c.kill(c.leader(g))
	c.equal(g, want)
}

// Power fails everywhere, under load; the nodes come back in every order, also with one
// missing. What was acknowledged is there.
func TestPowerLossOfAllNodes(t *testing.T) {
	for seed := range uint64(12) {
		c, admin, g := topicOf(t)
		want := c.sendMany(g, nil, 5)
		if seed%2 == 0 {
			c.checkpoints()
		}
		want = c.sendMany(g, want, 5)
		c.createTopic(admin, "u")
		flying := edge.SendReply{Code: unanswered}
		c.numbered(c.leader(g), g, 1, &flying)
		for range seed % 4 {
			c.pass()
		}
		rng := rand.New(rand.NewPCG(seed, 3))
		for i := range c.nodes {
			c.nodes[i] = nil
			c.disks[i] = c.disks[i].PowerLoss(rng)
		}
		c.mail = nil
		order := rng.Perm(3)
		for _, i := range order[:2] {
			c.start(i, false)
			for range rng.IntN(30) {
				c.round()
			}
		}
		c.send(g, "after")
		var got []string
		c.until("the last message is there", func() bool {
			got = c.everything(order[0], g)
			return len(got) > 0 && got[len(got)-1] == "after"
		})
		if flying.Code == galgo.CodeOK || slices.Contains(got, "n1") {
			want = append(want, "n1") // unless it was acknowledged, either is right
		}
		if !slices.Equal(got, append(want, "after")) {
			t.Errorf("seed %d: %q, want %q and one more", seed, got, want)
		}
		c.start(order[2], false)
		c.until("the third has it too", func() bool {
			return slices.Equal(c.everything(order[2], g), c.everything(order[0], g)) && c.nodes[order[2]].group("s", "u", 0) != 0
		})
	}
}

// The disks of all nodes refuse what one partition needs: it alone waits, what was
// acknowledged stays, and with room again it goes on without a restart.
func TestAllDisksAreFullForOnePartition(t *testing.T) {
	c := newCluster(t, 3, worldConfig())
	admin, group := c.begin()
	c.createTopic(admin, "t")
	c.createTopic(admin, "u")
	hurt, well := group("t", 0), group("u", 0)
	c.send(hurt, "before")
	segments := fmt.Sprintf("groups/%020d/", hurt)
	for _, d := range c.disks {
		d.Inject(memdisk.Fault{Class: memdisk.NoSpace, Times: memdisk.Forever, Match: func(name string) bool { return strings.HasPrefix(name, segments) }})
	}
	large := strings.Repeat("x", 100<<10) // wants its segment soon
	for range 20 {
		c.send(hurt, large)
		c.send(well, large)
	}
	for i, d := range c.disks {
		if d.Fired() == 0 {
			t.Errorf("the disk of node %d was not asked for anything", i)
		}
		d.ClearFaults()
	}
	c.send(hurt, "after")
	c.all(hurt, 22)
	c.all(well, 20)
	c.checkpoints()
	for _, g := range []uint64{hurt, well} {
		c.equal(g, c.everything(0, g))
	}
}
