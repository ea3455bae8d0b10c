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

// The same where the first that a replica hears is a prepare: its primary may be as new to
// the group, so that proves nothing. What a heartbeat says is chosen is what the group has.
func TestReplicaThatHearsAPrepareFirst(t *testing.T) {
	c := fresh(2, 3)
	a := after(nil, 0, "a")
	c.Step(carrying(told(MessagePrepare, 0, 0), a))
	if c.Hears() || c.Current() {
		t.Errorf("hears %v, current %v: nobody has said that the view runs", c.Hears(), c.Current())
	}
	beat := told(MessageCommit, 0, 0)
	if c.Step(beat); c.Hears() {
		t.Error("a primary is heard that has heard no quorum")
	}
	beat.Beat, beat.Commit = 1, 5
	if c.Step(beat); !c.Hears() || c.Current() || c.Barrier() != 5 {
		t.Errorf("hears %v, current %v, barrier %d; ops up to 5 are chosen", c.Hears(), c.Current(), c.Barrier())
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

// A backup that was cut off hears a heartbeat again: what it has applied is of the past
// until it has all that was chosen meanwhile.
func TestBackupIsNotCurrentAfterASilence(t *testing.T) {
	g := newGroup(3)
	primary, backup := g.cores[0], g.cores[2]
	cut := func(m Message) bool { return m.To == 2 }
	for range 8 {
		propose(t, primary, "x")
		for range 3 {
			g.perform(0, true, cut)
			g.perform(1, true, cut)
		}
	}
	for range 2 * backup.timing.ElectionTicks {
		backup.Tick()
	}
	if backup.Current() {
		t.Fatal("current while it is cut off")
	}
	beat := Message{Kind: MessageCommit, From: 0, Group: 7, Incarnation: 3, Boot: 1, Op: primary.Head(), Identity: primary.HeadIdentity(), Commit: primary.CommitMax(), Beat: 1}
	backup.Step(beat)
	if !backup.Hears() || backup.Current() || backup.Barrier() != primary.CommitMax() {
		t.Errorf("hears %v, current %v, barrier %d; it knows that ops up to %d are chosen", backup.Hears(), backup.Current(), backup.Barrier(), primary.CommitMax())
	}
	beat.Beat, beat.Commit = 2, primary.CommitMax()+9
	backup.Step(beat)
	if backup.Barrier() != primary.CommitMax() {
		t.Errorf("barrier %d: it moves on although the silence is over", backup.Barrier())
	}
}

// A backup that hears its primary all the time, and applies nothing of what it learns, is
// of the past after an election timeout; one that is only a little behind is not.
func TestBackupThatDoesNotKeepUpIsNotCurrent(t *testing.T) {
	backup := fresh(2, 3)
	g := &group{cores: []*Core{2: backup}}
	lost := func(Message) bool { return true }
	var last *Prepare
	beat := func(commit Op) {
		m := told(MessageCommit, 0, 0)
		m.Beat, m.Commit = backup.clocks.beat+1, commit
		backup.Step(m)
		backup.Tick()
	}
	beat(0)
	for op := Op(1); op <= Op(2*backup.timing.ElectionTicks); op++ {
		last = after(last, 0, "x")
		backup.Step(carrying(told(MessagePrepare, 0, 0), last))
		beat(op - 1)
		if !backup.Current() {
			t.Fatalf("not current, with op %d applied and %d chosen", backup.CommitMin(), backup.CommitMax())
		}
		g.perform(2, true, lost)
	}
	for range 2 * backup.timing.ElectionTicks {
		beat(last.Op + 5)
	}
	if !backup.Hears() || backup.Current() {
		t.Errorf("hears %v, current %v, with op %d applied for so long and %d chosen", backup.Hears(), backup.Current(), backup.CommitMin(), backup.CommitMax())
	}
}

// Who installs the log of the view is told of it with the heartbeats, however often the
// others are told of the commit point.
func TestStartViewsAreNotRepeatedWithEachCommit(t *testing.T) {
	for _, commitTicks := range []int{0, 1} {
		g := newGroup(3)
		c := g.cores[0]
		c.timing.CommitTicks = commitTicks
		c.peers[2].installed = false
		views := 0
		for i := range 100 {
			if i%3 == 0 {
				propose(t, c, "x")
			}
			c.Tick()
			for range 3 {
				for i := range 2 {
					sent, _ := g.perform(i, true, func(m Message) bool { return m.To == 2 })
					for _, m := range sent {
						if m.Kind == MessageStartView {
							views++
						}
					}
				}
			}
		}
		if most := 100 / c.timing.HeartbeatTicks; views == 0 || views > most {
			t.Errorf("commit points after %d ticks: the view was told %d times, want 1..%d", commitTicks, views, most)
		}
	}
}

// A heartbeat that came while it could not be followed is no news when it comes again; and
// that of a new primary is, however many an earlier one has sent.
func TestHeartbeatsAreNewsOncePerView(t *testing.T) {
	c := fresh(2, 3)
	beat := func(view View, from uint8, n uint64) {
		m := told(MessageCommit, from, view)
		m.Beat = n
		c.Step(m)
	}
	heard := func() bool { return c.clocks.silent == 0 }
	c.status = StatusRecovering
	beat(0, 0, 9)
	c.setView(0) // as who finds that it runs already
	c.status = StatusNormal
	c.clocks.silent = 5
	for _, n := range []uint64{9, 4} {
		if beat(0, 0, n); heard() {
			t.Errorf("heartbeat %d is news, and 9 has come before", n)
		}
	}
	if beat(0, 0, 10); !heard() {
		t.Error("heartbeat 10 is no news")
	}
	c.setView(1)
	c.logView, c.clocks.silent = 1, 5
	if beat(0, 0, 11); heard() {
		t.Error("the primary of the view that was left is heard")
	}
	if beat(1, 2, 99); heard() {
		t.Error("who does not lead the view is heard as its primary")
	}
	if beat(1, 1, 1); !heard() {
		t.Error("the first heartbeat of the next primary is no news")
	}
	c.clocks.silent = 5
	if beat(0, 0, 11); heard() {
		t.Error("the primary of an earlier view is heard")
	}
	if beat(1, 1, 1); heard() {
		t.Error("a heartbeat is news twice, as one of an earlier view came between")
	}
}
