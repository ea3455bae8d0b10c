package vsr

import "testing"

// leadingOfThree is the primary of view 0 that two backups follow, with so many ops.
func leadingOfThree(t *testing.T, ops int) *Core {
	t.Helper()
	c := fresh(0, 3)
	for range ops {
		propose(t, c, "x")
		for _, p := range c.Ready().Append {
			c.AppendDone(p.Op, p.Identity)
		}
		id, _ := c.log.identity(c.log.head)
		m := told(MessagePrepareOk, 1, 0)
		m.Op, m.Identity = c.log.head, id
		c.Step(m)
		c.Ready()
		c.Applied(c.log.head)
	}
	return c
}

// Only a replica that is heard, follows, and holds all but a pipeline of the log may take
// over; a primary that may not propose gives nothing up.
func TestCaughtUp(t *testing.T) {
	c := leadingOfThree(t, 3)
	if !c.CaughtUp(0) || !c.CaughtUp(1) {
		t.Error("who holds everything is not caught up")
	}
	if c.CaughtUp(2) || c.StepDown(2) != ErrNoSuccessor {
		t.Error("who was never heard is caught up")
	}
	if c.CaughtUp(3) || c.StepDown(3) != ErrNoSuccessor || c.StepDown(0) != ErrNoSuccessor {
		t.Error("there is no such successor")
	}
	p := c.peers[1]
	c.peers[1].held = 0
	if c.log.head = PipelineCeiling + 1; c.CaughtUp(1) {
		t.Error("who lies more than a pipeline behind is caught up")
	}
	c.log.head, c.peers[1] = 3, p
	for range 2*c.timing.HeartbeatTicks + 1 {
		c.now++
	}
	if c.CaughtUp(1) {
		t.Error("who is silent is caught up")
	}
	c.peers[1].heardAt = c.now
	c.peers[1].installed = false
	if c.CaughtUp(1) {
		t.Error("who does not follow the view is caught up")
	}
	c.peers[1].installed = true
	if b := fresh(1, 3); b.CaughtUp(0) || b.StepDown(0) != ErrNotPrimary {
		t.Error("a backup gives up what it does not lead")
	}
	if err := c.StepDown(1); err != nil || c.View().View != 1 || c.Cause() != CauseSteppedDown || c.peers[1].held != 0 {
		t.Errorf("%v, %+v, %v", err, c.View(), c.Cause())
	}
}

// A view whose number is near the end is not entered.
func TestStepDownNearTheLastView(t *testing.T) {
	c := leadingOfThree(t, 1)
	c.peers[2] = c.peers[1]
	c.view = viewMax - viewMax%3
	c.logView, c.durable = c.view, State{View: c.view, LogView: c.view}
	if err := c.StepDown(2); err != ErrNoSuccessor || !c.leads() {
		t.Errorf("%v, view %d", err, c.view)
	}
}
