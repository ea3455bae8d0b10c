package partition

import (
	"testing"

	"galgo"
)

// The guards of docs/guards.md that no other test of this package would miss.

// One write or sync is in flight at a time: two would write the same bytes, and a
// sync would not cover what the other writes.
func TestOneJobAtATime(t *testing.T) {
	r := newRig(t, smallConfig(newDisk()))
	r.send(1, 100)
	r.must(r.save())
	r.purge(1)
	r.send(1, 100)
	j := r.m.NextWrite(true)
	if j == nil {
		t.Fatal("no write is due")
	}
	r.m.Settled(r.m.Op()) // something is to be removed
	if r.m.NextWrite(true) != nil || r.m.BeginCheckpoint() != nil || r.m.NextRemove() != nil || r.m.Remove() != nil {
		t.Error("another job is handed out while a write is in flight")
	}
	err := j.Run()
	r.m.WriteDone(j, err)
	r.must(err)
	s := r.m.BeginCheckpoint()
	if s == nil {
		t.Fatal("no checkpoint after the write")
	}
	if r.m.NextWrite(true) != nil || r.m.BeginCheckpoint() != nil || r.m.NextRemove() != nil || r.m.Remove() != nil {
		t.Error("another job is handed out while a sync is in flight")
	}
	err = s.Run()
	r.m.SyncDone(s, err)
	r.must(err)
}

// A checkpoint is the state at its beginning: what is applied while its segments
// are synced, or before anybody asks for it, is not in it.
func TestCheckpointIsOfItsBeginning(t *testing.T) {
	d := newDisk()
	r := newRig(t, smallConfig(d))
	r.send(3, 100)
	op := r.m.Op()
	j := r.m.BeginCheckpoint()
	r.send(2, 100)
	r.store(galgo.ConsumerSingle, 1, 4, false)
	err := j.Run()
	r.send(1, 100)
	r.m.SyncDone(j, err)
	r.must(err)
	r.send(1, 100)
	c := j.Checkpoint()
	if c.Op != op || c.Next != 3 || len(c.consumers) != 0 || c.segments[0].last != 2 {
		t.Errorf("checkpoint at op %d of %d messages and %d consumers, want op %d, 3 and none", c.Op, c.Next, len(c.consumers), op)
	}
	r.checkpoint, r.freed = c.Append(nil), c.Op
	r.must(r.reopen(d.PowerLoss(nil)))
	mustEqual(t, "after a power loss", r, r.twin())
}
