package engine

import (
	"fmt"
	"testing"

	"galgo/internal/vsr"
	"galgo/internal/wire"
)

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
