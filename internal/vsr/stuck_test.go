package vsr

import "testing"

// A replica that only asks for the view cannot help to commit: a primary that hears
// nobody else has to say so, or those who are in a later view wait for it for ever.
func TestWhoAsksForTheViewIsNoQuorum(t *testing.T) {
	c := fresh(0, 3)
	for range 4 * timingDefault.ElectionTicks {
		m := told(MessageRequestStartView, 2, 0)
		m.Doubt = DoubtAll
		c.Step(m)
		c.Tick()
		c.Ready()
	}
	if c.IsPrimary() {
		t.Error("it hears nobody who could acknowledge, and goes on as primary")
	}
}

// Bodies that come while a checkpoint is being taken are appended when that is given
// up: nobody sends them again.
func TestWhatCameDuringATransferIsTaken(t *testing.T) {
	a := after(nil, 1, "a")
	b := after(a, 1, "b")
	c := fresh(2, 3)
	c.Step(startView(1, 1, 0, a, b))
	c.beginTransfer(1)
	for _, p := range []*Prepare{a, b} {
		c.Step(carrying(told(MessageRepairPrepare, 1, 1), p))
	}
	for range 4 * timingDefault.RepairTicks * timingDefault.TransferRounds {
		r := c.Ready()
		if r.Persist != nil {
			c.StateDurable(*r.Persist)
		}
		for _, p := range r.Append {
			c.AppendDone(p.Op, p.Identity)
		}
		c.Tick()
	}
	if c.Transferring() || c.Head() != 2 {
		t.Errorf("transferring %v, head %d; want the log of the view, to op 2", c.Transferring(), c.Head())
	}
}
