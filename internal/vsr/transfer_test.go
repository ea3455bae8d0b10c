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
