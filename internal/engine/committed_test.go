package engine

import (
	"testing"

	"galgo/internal/disk/memdisk"
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
		c.wantKnown(i, c.disks[i])
	}
}

// wantKnown checks that after a power loss the superblock would know what a node has
// applied at its start.
func (c *cluster) wantKnown(i int, d *memdisk.Disk) {
	c.t.Helper()
	applied := uint64(c.nodes[i].engine.Statuses(0)[0].CommitMin)
	store, err := superblock.Open(d.Clone().PowerLoss(nil), "metadata")
	if err != nil {
		c.t.Fatal(err)
	}
	state, err := superblock.DecodeState(store.Latest().Payload)
	if err != nil {
		c.t.Fatal(err)
	}
	if applied == 0 || state.CommitMax < applied {
		c.t.Errorf("node %d has applied op %d at its start, its superblock knows op %d", i, applied, state.CommitMax)
	}
}

// The same where a start before has written the superblock, and ended as the sync of the
// directory failed: its record can be read, and the next power loss takes it.
func TestWhatAStartAppliesIsKnownThroughAFailedSync(t *testing.T) {
	c := newCluster(t, 3, worldConfig())
	admin, _ := c.begin()
	for _, name := range []string{"a", "b", "d", "e"} {
		c.call(admin, wire.OperationCreateStream, wire.CreateStreamRequest{Name: name}.Append(nil))
	}
	c.kill(0)
	failed := 0
	for at := 1; at <= 8; at++ {
		d := c.disks[0].Clone()
		d.Inject(memdisk.Fault{Class: memdisk.SyncFailure, Ops: memdisk.OpSyncDir, Match: memdisk.Named("metadata"), At: at})
		if c.startOn(0, d, false) == nil {
			continue
		}
		failed++
		d = d.Kill()
		if err := c.startOn(0, d, false); err != nil {
			t.Fatal(err)
		}
		c.wantKnown(0, d)
		c.nodes[0] = nil
	}
	if failed < 2 {
		t.Errorf("%d starts ended by a failed sync, want also one behind the superblock", failed)
	}
}
