package engine

import (
	"testing"

	"galgo/internal/vsr"
)

// The primary of the first view sends a prepare before its own log has it. If it dies
// then, its log must know that it has taken part: else it would begin once more, and
// give the op another prepare, while the first may be committed by the others.
func TestFirstPrimaryDoesNotForgetThatItBegan(t *testing.T) {
	c := newCluster(t, 3, worldConfig())
	sent := map[uint8]bool{} // by nodes that have not been killed
	c.lost = func(m vsr.Message) bool {
		sent[m.From] = true
		return false
	}
	for i := range c.nodes {
		disk := c.disks[i].Clone()
		for !sent[uint8(i)] {
			disk = c.disks[i].Clone().PowerLoss(nil)
			c.round()
		}
		// As the power loss left it just before it said the first thing.
		w := c.nodes[i]
		c.disks[i] = disk
		c.start(i, false)
		for loop := range c.nodes[i].loops {
			for _, s := range c.nodes[i].engine.Statuses(loop) {
				if s.Status == vsr.StatusNormal && s.Primary {
					t.Errorf("node %d has spoken to others, and begins as the primary of group %d", i, s.Group)
				}
			}
		}
		c.nodes[i] = w
	}
}
