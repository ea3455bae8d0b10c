package vsr

import "testing"

// A group that seems new to a replica may be old: it was away when others made it. It
// reads nothing from it before it has heard of its view.
func TestReplicaThatHeardNothingIsNotCurrent(t *testing.T) {
	backup := fresh(2, 3)
	if backup.Current() {
		t.Error("a backup is current that has heard nobody")
	}
	beat := told(MessageCommit, 0, 0)
	beat.Beat = 1
	backup.Step(beat)
	if !backup.Current() {
		t.Error("a backup is not current that has heard its primary")
	}
	primary := fresh(0, 3)
	primary.Tick()
	if primary.Current() {
		t.Error("a primary is current that has heard nobody")
	}
	primary.Step(told(MessagePrepareOk, 1, 0))
	primary.Tick()
	if !primary.Current() {
		t.Error("a primary is not current that has heard a quorum")
	}
}

// What an earlier primary has answered is in the log of the view that a backup adopts. It
// reads nothing before it has applied that; and nothing else keeps it waiting, also not
// the log of a view before that never came.
func TestBackupReadsWhatTheViewBeganWith(t *testing.T) {
	a := after(nil, 1, "a")
	b := after(a, 1, "b")
	c := fresh(2, 3)
	c.Step(startView(1, 1, 0, a, b))
	if c.Barrier() != 2 {
		t.Errorf("barrier %d, the log of the view ends at op 2", c.Barrier())
	}
	c.Step(startView(0, 3, 0, a))
	if c.Barrier() != 1 {
		t.Errorf("barrier %d, the log of the next view ends at op 1", c.Barrier())
	}
}
