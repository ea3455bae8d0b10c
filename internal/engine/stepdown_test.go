package engine

import (
	"fmt"
	"testing"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// leads is the node that leads a group now; -1: none.
func (c *cluster) leads(group uint64) int {
	for i, w := range c.nodes {
		if w != nil && c.status(i, group).Primary {
			return i
		}
	}
	return -1
}

func (c *cluster) stepDown(i int, req wire.StepDownRequest) (reply wire.StepDownReply) {
	c.t.Helper()
	answered := false
	c.nodes[i].engine.StepDown(req, func(r wire.StepDownReply) { reply, answered = r, true })
	c.until("the node answers", func() bool { return answered })
	return reply
}

// A node that gives everything up leads nothing a moment later; what was under way is
// stored once, and nobody waits for an election timeout.
func TestStepDown(t *testing.T) {
	c, _, g := topicOf(t)
	want := c.sendMany(g, nil, 5)
	for range 3 * len(c.nodes) {
		at := c.leader(g)
		for range 2 * clusterTiming.HeartbeatTicks {
			c.round()
		}
		replies := make([]edge.SendReply, 3)
		for n := range replies {
			payload := fmt.Sprint("flying", len(want))
			want = append(want, payload)
			replies[n].Code = unanswered
			c.nodes[at].engine.Send(edge.SendRequest{Group: g, Batch: batchOf(payload), Count: 1}, func(r edge.SendReply) { replies[n] = r })
		}
		c.pass()
		reply := c.stepDown(at, wire.StepDownRequest{All: true})
		found := false
		for _, s := range reply.Groups {
			found = found || s.Group == g && s.Outcome == wire.StepDownBegun && int(s.Successor) != at
		}
		if !found {
			t.Fatalf("node %d: %+v", at, reply)
		}
		rounds := 0
		c.until("another leads", func() bool { rounds++; return c.leads(g) >= 0 && c.leads(g) != at })
		if rounds > clusterTiming.ElectionTicks/2 {
			t.Errorf("another leads after %d ticks", rounds)
		}
		for n := range replies {
			c.until("what was under way is answered", func() bool { return replies[n].Code != unanswered })
			if replies[n].Code != galgo.CodeOK {
				t.Errorf("send %d: code %v", n, replies[n].Code)
			}
		}
	}
	c.equal(g, want)
	if r := c.stepDown((c.leader(g)+1)%3, wire.StepDownRequest{Group: g}); r.Groups[0].Outcome != wire.StepDownNotPrimary {
		t.Errorf("a backup: %+v", r)
	}
	if r := c.stepDown(0, wire.StepDownRequest{Group: 1 << 40}); r.Groups[0].Outcome != wire.StepDownUnknown {
		t.Errorf("no such group: %+v", r)
	}
}

// A primary whose backups are not heard keeps its place.
func TestStepDownWithoutASuccessor(t *testing.T) {
	c, _, g := topicOf(t)
	c.sendMany(g, nil, 2)
	at := c.leader(g)
	c.lost = isolated(at)
	for range 2*clusterTiming.HeartbeatTicks + 1 {
		c.round()
	}
	if r := c.stepDown(at, wire.StepDownRequest{Group: g}); r.Groups[0].Outcome != wire.StepDownNoSuccessor {
		t.Errorf("%+v", r)
	}
}

// After failures primaries go home, when all is well and has been for a while, and no more
// at a time than are allowed.
func TestPrimariesGoHome(t *testing.T) {
	c := newCluster(t, 3, worldConfig())
	admin, group := c.begin()
	var groups []uint64
	for i := range 6 {
		c.createTopic(admin, fmt.Sprint("t", i))
		groups = append(groups, group(fmt.Sprint("t", i), 0))
	}
	away := func() (n int) {
		for _, g := range groups {
			if at := c.leader(g); at >= 0 && at != int(g%3) {
				n++
			}
		}
		return n
	}
	c.until("all are led from home", func() bool { return away() == 0 })
	c.kill(0)
	for _, g := range groups {
		c.send(g, "without node 0")
	}
	if away() != 2 {
		t.Fatalf("%d are led elsewhere, want 2", away())
	}
	balance := func(settled uint64, most int) {
		for _, w := range c.nodes {
			if w != nil {
				w.engine.Balance(settled, most)
			}
		}
		for range 4 * clusterTiming.HeartbeatTicks {
			c.round()
		}
	}
	if balance(1, 10); away() != 2 {
		t.Error("primaries move although a node is away")
	}
	c.start(0, false)
	for _, g := range groups {
		c.all(g, 1)
	}
	for range 4 * clusterTiming.HeartbeatTicks {
		c.round()
	}
	third := func(m vsr.Message) bool { return m.From == 2 || m.To == 2 }
	c.lost = third // neither who leads them nor who is to
	for range 2*clusterTiming.HeartbeatTicks + 1 {
		c.round()
	}
	for _, w := range c.nodes {
		w.engine.Balance(1, 10)
	}
	for range 2 {
		c.round()
	}
	for _, g := range groups {
		if g%3 == 0 && c.leads(g) != 1 {
			t.Error("primaries move although a node is not heard")
		}
	}
	c.lost = func(vsr.Message) bool { return false }
	for range 4 * clusterTiming.HeartbeatTicks {
		c.round()
	}
	if balance(1<<40, 10); away() != 2 {
		t.Error("primaries move before the view has settled")
	}
	if balance(1, 0); away() != 2 {
		t.Error("more primaries move than may")
	}
	balance(1, 10)
	c.until("all are led from home again", func() bool { return away() == 0 })
	for _, g := range groups {
		c.send(g, "again")
		c.equal(g, []string{"without node 0", "again"})
	}
}

// How a node stands in its groups is told, of each of them.
func TestGroupsOfANode(t *testing.T) {
	c, _, g := topicOf(t)
	want := c.sendMany(g, nil, 3)
	c.all(g, len(want))
	for i, w := range c.nodes {
		var got wire.NodeGroups
		answered := false
		w.engine.Groups(func(n wire.NodeGroups) { got, answered = n, true })
		c.until("the node answers", func() bool { return answered })
		if got.Replica != uint8(i) || len(got.Groups) != 2 || got.Groups[0].Group != uint64(vsr.MetadataGroup) || got.Groups[1].Group != g {
			t.Fatalf("node %d: %+v", i, got)
		}
		s := got.Groups[1]
		if s.CommitMin < 3 || s.Head < 3 || s.Flags&wire.GroupLed == 0 || (s.Flags&wire.GroupPrimary != 0) != (c.leader(g) == i) || int(s.Leader) != c.leader(g) || s.View != s.LogView {
			t.Errorf("node %d: %+v", i, s)
		}
	}
}
