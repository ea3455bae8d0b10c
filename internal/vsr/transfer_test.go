package vsr

import "testing"

// While a checkpoint is on its way the log is left alone and nothing is
// acknowledged or served: what the disk holds may be replaced at any time.
func TestNothingIsTakenOrSaidDuringATransfer(t *testing.T) {
	c, _ := checkpointed(t)
	a := after(nil, 0, "a")
	c.Step(carrying(told(MessagePrepare, 0, 0), after(a, 0, "b")))
	beat := told(MessageCommit, 0, 0)
	beat.Beat, beat.Op, beat.Identity = 2, 9, Identity{9}
	c.Step(beat)
	ask := told(MessageRequestPrepares, 1, 0)
	ask.Refs = []Ref{{1, a.Identity}}
	c.Step(ask)
	headers := told(MessageRequestHeaders, 1, 0)
	headers.Op, headers.Identity, headers.Low = 1, a.Identity, 1
	c.Step(headers)
	r := c.Ready()
	if len(r.Append) != 0 || len(r.Read) != 0 {
		t.Errorf("appends %v, reads %v during a transfer", r.Append, r.Read)
	}
	for _, m := range r.Send {
		if m.Kind != MessageRequestOffer {
			t.Errorf("sends %v during a transfer", m.Kind)
		}
	}
}

// A completion of an append from before a checkpoint replaced the log says nothing
// about an op that has its number since.
func TestCompletionFromBeforeAReset(t *testing.T) {
	c := fresh(1, 3)
	a := after(nil, 0, "a")
	x, y := after(a, 0, "x"), after(a, 1, "y")
	c.append(a)
	c.append(x)
	c.log.reset(Offer{Op: 1, Identity: a.Identity})
	c.append(y)
	for _, p := range []*Prepare{a, x} {
		if c.log.done(p.Op, p.Identity, c.self()); c.log.entry(2).acks != 0 {
			t.Fatalf("the completion of op %d of the log before counts for op 2 of this one", p.Op)
		}
	}
	c.log.done(2, y.Identity, c.self())
	if c.log.settle(c.self()); c.log.held != 2 {
		t.Errorf("held %d, want 2", c.log.held)
	}
}

// What is cut is not proven any more.
func TestCutTakesBackTheProof(t *testing.T) {
	c := fresh(1, 3)
	a := after(nil, 0, "a")
	c.append(a)
	c.append(after(a, 0, "b"))
	c.verified = 2
	c.truncate(1)
	if c.verified != 1 {
		t.Errorf("verified up to %d, the log ends at %d", c.verified, c.log.head)
	}
}

// Nothing is handed out to be applied while the state is being replaced.
func TestNothingIsAppliedDuringAnInstall(t *testing.T) {
	c := fresh(2, 3)
	log := []*Prepare{after(nil, 0, "a")}
	for len(log) < 4 {
		log = append(log, after(log[len(log)-1], 0, "x"))
	}
	for _, p := range log {
		c.Step(carrying(told(MessagePrepare, 0, 0), p))
		c.AppendDone(p.Op, p.Identity)
	}
	c.beginTransfer(0)
	o := Offer{Op: 2, Identity: log[1].Identity, Timestamp: 2, Size: 3}
	c.Step(offering(o))
	c.TransferStored(o, 3)
	beat := told(MessageCommit, 0, 0)
	beat.Beat, beat.Commit, beat.Op, beat.Identity = 1, 4, 4, log[3].Identity
	c.Step(beat)
	if r := c.Ready(); len(r.Transfer) != 2 || len(r.Commit) != 0 {
		t.Fatalf("transfer %v, commit %v; want an install alone", r.Transfer, r.Commit)
	}
	c.TransferDone(o, true)
	if r := c.Ready(); len(r.Commit) != 2 || r.Commit[0].Op != 3 {
		t.Fatalf("installed: commit %v, want ops 3 and 4", r.Commit)
	}
}

// A replica that has applied nothing above what the asker has makes no checkpoint for it.
func TestNoOfferOfNothing(t *testing.T) {
	a := after(nil, 0, "a")
	c := fresh(1, 3)
	ask := func(above Op) []TransferAction {
		m := told(MessageRequestOffer, 2, 0)
		m.Op = above
		c.Step(m)
		return transfers(c)
	}
	if got := ask(0); len(got) != 0 {
		t.Errorf("with nothing applied: %v", got)
	}
	c.Step(carrying(told(MessagePrepare, 0, 0), a))
	c.AppendDone(1, a.Identity)
	if got := ask(0); len(got) != 0 {
		t.Errorf("with nothing committed: %v", got)
	}
	m := told(MessageCommit, 0, 0)
	m.Commit, m.Op, m.Identity, m.Beat = 1, 1, a.Identity, 1
	c.Step(m)
	c.Ready()
	c.Applied(1)
	if got := ask(1); len(got) != 0 {
		t.Errorf("to who has as much: %v", got)
	}
	if got := ask(0); len(got) != 1 || got[0] != TransferOffer {
		t.Errorf("to who has less: %v, want to make an offer", got)
	}
}
