package engine

import (
	"fmt"
	"testing"

	"galgo/internal/shard"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// status is what a node says of a group.
func (c *cluster) status(i int, group uint64) (found shard.Status) {
	for loop := range c.nodes[i].loops {
		for _, s := range c.nodes[i].engine.Statuses(loop) {
			if uint64(s.Group) == group {
				found = s
			}
		}
	}
	return found
}

// sendMany sends so many messages and returns them.
func (c *cluster) sendMany(group uint64, sent []string, n int) []string {
	c.t.Helper()
	for range n {
		sent = append(sent, fmt.Sprint("m", len(sent)))
		c.send(group, sent[len(sent)-1])
	}
	return sent
}

// A replaced node that has taken a part of a partition's log crashes. It comes back as
// one that does not know what it has promised, although there is something in its log:
// the group is in its first view still, of which nothing is written down.
func TestReplacedNodeStaysInDoubtOverACrash(t *testing.T) {
	c := newCluster(t, 3, worldConfig())
	admin, group := c.begin()
	c.createTopic(admin, "t")
	g := group("t", 0)
	want := c.sendMany(g, nil, 8)
	c.equal(g, want)
	victim := int(c.status(0, g).State.View+1) % 3
	c.lose(victim)
	c.lost = func(m vsr.Message) bool {
		return m.Kind == vsr.MessageRepairPrepare && uint64(m.Group) == g && m.Op > 3
	}
	c.start(victim, true)
	c.until("the replaced node has a part of the log", func() bool { return c.status(victim, g).Head == 3 })
	c.until("and has it on its disk", func() bool { return !c.nodes[victim].step() })
	c.kill(victim)
	c.start(victim, true)
	if s := c.status(victim, g); s.State.Doubt != vsr.DoubtAll || s.Head != 3 {
		t.Errorf("after the crash the replaced node is in %+v with head %d", s.State, s.Head)
	}
	c.lost = func(vsr.Message) bool { return false }
	c.equal(g, want)
	c.until("the doubt ends", func() bool { return c.status(victim, g).State.Doubt == 0 })
}

// A node whose disk was replaced may have promised something in the groups that were
// there, and in no later one: if it doubted those too, one more lost disk would leave
// nobody who knows what is in them.
func TestReplacedNodeDoesNotDoubtLaterGroups(t *testing.T) {
	c := newCluster(t, 3, worldConfig())
	admin, group := c.begin()
	for i := range 20 { // ops that make no revision
		c.call(admin, wire.OperationCreateStream, wire.CreateStreamRequest{Name: fmt.Sprint("x", i)}.Append(nil))
	}
	c.createTopic(admin, "before")
	group("before", 0)
	c.lose(0)
	c.start(0, true)
	whole := func() bool {
		for loop := range c.nodes[0].loops {
			for _, s := range c.nodes[0].engine.Statuses(loop) {
				if s.State.Doubt != 0 || s.CommitMin != s.Head {
					return false
				}
			}
		}
		return c.nodes[0].group("s", "before", 0) != 0
	}
	c.until("node 0 is whole", whole)
	c.lost = func(m vsr.Message) bool { return m.Group != vsr.MetadataGroup }
	c.createTopic(admin, "later")
	later := vsr.GroupID(group("later", 0))
	c.until("node 0 has the group", func() bool {
		for _, s := range c.nodes[0].engine.Statuses(1) {
			if s.Group == later {
				if s.State.Doubt != 0 {
					t.Fatalf("node 0 is in doubt about group %d, which was made after its disk", later)
				}
				return true
			}
		}
		return false
	})
}
