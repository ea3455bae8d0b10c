package vsr

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// No message, however absurd, ends a replica: what has the right checksum may still
// come from a program that is wrong. What may: a commit point that no log reaches
// stops a primary (see Core.assert), since it would answer with what it has not.
func TestAbsurdMessagesEndNobody(t *testing.T) {
	ops := []Op{0, 1, 2, 3, 127, 128, 1 << 20, math.MaxUint64 - 1, math.MaxUint64}
	views := []View{0, 1, 2, 3, viewMax, viewMax + 1, math.MaxUint32}
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		op := func() Op { return ops[rng.IntN(len(ops))] }
		c := someCore(rng)
		for range 12 {
			m := Message{
				Kind: MessageKind(5 + rng.IntN(22)), From: uint8(rng.IntN(4)), Group: 7, Incarnation: 3, Boot: uint64(1 + rng.IntN(2)),
				View: views[rng.IntN(len(views))], Op: op(), Low: op(), Doubt: op(), Beat: 9, Echo: 1,
				Offset: uint64(op()), Length: uint32(op()), Unknown: rng.IntN(4) == 0,
				Rest: &Rest{
					Offer: Offer{Op: op(), Size: uint64(op())}, Refs: []Ref{{Op: op()}, {Op: op()}},
					Boots: make([]uint64, rng.IntN(5)), Data: make([]byte, rng.IntN(3)),
				},
			}
			m.LogView = min(m.View, views[rng.IntN(len(views))])
			absurdLog(rng, &m, op)
			if rng.IntN(8) == 0 {
				m.Rest = nil
			}
			c.Step(m)
			c.Tick()
			obey(t, c)
		}
	}
	if !reflect.ValueOf(nothing).IsZero() {
		t.Errorf("the Rest of those that have none was written: %+v", nothing)
	}
}

// someCore is a replica of three in one of the situations that it can be in.
func someCore(rng *rand.Rand) *Core {
	a := after(nil, 0, "a")
	switch rng.IntN(5) {
	case 0:
		return fresh(0, 3)
	case 1:
		return fresh(1, 3)
	case 2:
		c := fresh(1, 3)
		c.enterViewChange(1)
		return c
	case 3:
		return New(config(2, 3), Recovered{State: State{View: 1}, Head: 1, HeadIdentity: a.Identity, Suffix: []Header{a.Header}})
	default:
		return New(config(2, 3), Recovered{State: State{Doubt: DoubtAll}})
	}
}

// absurdLog gives a message a log that may follow from its numbers.
func absurdLog(rng *rand.Rand, m *Message, op func() Op) {
	p := &Prepare{Header: Header{Group: 7, Incarnation: 3, Op: op(), View: m.View, Timestamp: 5, Commit: op()}}
	p.Seal()
	switch rng.IntN(4) {
	case 0:
		m.Headers, m.Op, m.Identity, m.Commit = []Header{p.Header}, p.Op, p.Identity, p.Op-1
		m.Prepare = p
	case 1:
		m.Prepare, m.Op, m.Identity = p, p.Op, p.Identity
	case 2:
		m.Commit = m.Op
	default:
		m.Prepare, m.Commit = p, min(m.Op, 1)
	}
	if m.Kind == MessageCommit || m.Kind == MessagePrepare {
		m.Commit = 0
	}
}

// obey does at once what a core wants, with a host that has and finds nothing.
func obey(t *testing.T, c *Core) {
	t.Helper()
	for r := c.Ready(); !r.Empty(); r = c.Ready() {
		for _, p := range r.Append {
			c.AppendDone(p.Op, p.Identity)
		}
		if r.Persist != nil {
			c.StateDurable(*r.Persist)
		}
		for _, committed := range r.Commit {
			c.Applied(committed.Op)
		}
		for _, read := range r.Read {
			if read.Op == 0 || read.Low > read.Op {
				t.Fatalf("the host is asked for op %d, down to %d", read.Op, read.Low)
			}
			c.Fetched(read, nil)
		}
		for _, step := range r.Transfer {
			answerTransfer(t, c, step)
		}
	}
}

func answerTransfer(t *testing.T, c *Core, step Transfer) {
	t.Helper()
	switch step.Action {
	case TransferOffer:
		c.Offered(step.To, Offer{})
	case TransferRead:
		if step.Offset+uint64(step.Length) < step.Offset || step.Offset+uint64(step.Length) > step.Offer.Size {
			t.Fatalf("the host is asked for %d bytes at %d of %d", step.Length, step.Offset, step.Offer.Size)
		}
		c.ChunkRead(step, nil)
	case TransferBegin:
		c.TransferStored(step.Offer, 0)
	case TransferWrite:
		c.TransferStored(step.Offer, step.Offset+uint64(len(step.Data)))
	case TransferInstall:
		c.TransferDone(step.Offer, false)
	}
}

// A view that cannot be counted on from is not entered.
func TestViewsNearTheEndAreRefused(t *testing.T) {
	for view, enters := range map[View]bool{viewMax: true, viewMax + 1: false, math.MaxUint32: false} {
		c := fresh(1, 3)
		if c.Step(told(MessageStartViewChange, 2, view)); (c.View().View == view) != enters {
			t.Errorf("a message of view %d: the replica is in view %d", view, c.View().View)
		}
	}
}
