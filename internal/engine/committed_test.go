package engine

import (
	"testing"

	"galgo/internal/superblock"
	"galgo/internal/wire"
)

// At start a node applies what a prepare of its metadata log names as committed, and makes
// groups of it. A view may drop that prepare, so the superblock has to know it: else the
// next start finds groups that the metadata does not have.
func TestWhatAStartAppliesIsKnownToTheNext(t *testing.T) {
	c := newCluster(t, 3, worldConfig())
	admin, _ := c.begin()
	for _, name := range []string{"a", "b", "d", "e"} { // no groups, so nothing else writes the superblock
		c.call(admin, wire.OperationCreateStream, wire.CreateStreamRequest{Name: name}.Append(nil))
	}
	for i := range c.nodes {
		c.kill(i)
		c.start(i, false)
		applied := uint64(c.nodes[i].engine.Statuses(0)[0].CommitMin)
		store, err := superblock.Open(c.disks[i].Clone().PowerLoss(nil), "metadata")
		if err != nil {
			t.Fatal(err)
		}
		state, err := superblock.DecodeState(store.Latest().Payload)
		if err != nil {
			t.Fatal(err)
		}
		if applied == 0 || state.CommitMax < applied {
			t.Errorf("node %d has applied op %d at its start, its superblock knows op %d", i, applied, state.CommitMax)
		}
	}
}
