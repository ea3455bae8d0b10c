package vsr

import (
	"fmt"
	"testing"
)

// trio is a group of three that passes messages on by itself and gives back what a
// Ready lent, as a host does.
type trio struct {
	cores [3]*Core
	body  []byte
}

func newTrio() *trio {
	t := &trio{body: make([]byte, 256)}
	for i := range t.cores {
		c := config(uint8(i), 3)
		c.Pipeline = PipelineCeiling
		t.cores[i] = New(c, Recovered{Fresh: true})
	}
	return t
}

// commit has n ops proposed, and applied by all three.
func (t *trio) commit(n int) error {
	for range n {
		c := t.cores[0]
		if _, _, err := c.Propose(Request{Operation: 160, Timestamp: c.NextTimestamp(0), Body: t.body}); err != nil {
			return err
		}
	}
	for range 3 {
		for _, c := range t.cores {
			t.perform(c)
		}
	}
	t.cores[0].sayHeartbeat(true) // it has the backups learn the commit point
	for _, c := range t.cores {
		t.perform(c)
	}
	return nil
}

func (t *trio) perform(c *Core) {
	r := c.Ready()
	for i := range r.Send {
		t.cores[r.Send[i].To].Step(r.Send[i])
	}
	for _, p := range r.Append {
		c.AppendDone(p.Op, p.Identity)
	}
	if n := len(r.Commit); n > 0 {
		c.Applied(r.Commit[n-1].Op)
	}
	c.Reuse(&r)
}

// BenchmarkThreeReplicas is the cost of one op on all three replicas together,
// with this many of them in flight, without disk and network.
func BenchmarkThreeReplicas(b *testing.B) {
	for _, flight := range []int{1, 64, PipelineCeiling} {
		b.Run(fmt.Sprint(flight), func(b *testing.B) {
			b.ReportAllocs()
			t := newTrio()
			for done := 0; done < b.N; done += flight {
				if err := t.commit(flight); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The three replicas of an op allocate its prepare and nothing else.
func TestAllocationsOfAnOp(t *testing.T) {
	const flight = 64
	trio := newTrio()
	commit := func() {
		if err := trio.commit(flight); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		commit() // the slices grow
	}
	// The backing array of the log's entries is replaced now and then.
	if n := testing.AllocsPerRun(200, commit) / flight; n > 1.05 {
		t.Errorf("%.2f allocations an op, want 1", n)
	}
	for i, c := range trio.cores {
		if c.CommitMin() != trio.cores[0].Head() {
			t.Errorf("replica %d has applied up to op %d of %d", i, c.CommitMin(), trio.cores[0].Head())
		}
	}
}

// What was given back keeps no body alive, and an empty Ready takes nothing away.
func TestReuseKeepsTheRoomAndNothingElse(t *testing.T) {
	trio := newTrio()
	if err := trio.commit(8); err != nil {
		t.Fatal(err)
	}
	c := trio.cores[0]
	for range 3 {
		r := c.Ready()
		c.Reuse(&r)
	}
	a, b := &c.out, &c.spare
	if cap(a.Append)+cap(b.Append) < 8 || cap(a.Commit)+cap(b.Commit) < 8 || cap(a.Send)+cap(b.Send) < 16 {
		t.Errorf("the room of the 8 ops is gone: %+v, %+v", a, b)
	}
	for _, set := range []*Ready{a, b} {
		for _, m := range set.Send[:cap(set.Send)] {
			if m.Prepare != nil {
				t.Fatalf("a message that was sent keeps op %d alive", m.Op)
			}
		}
		for _, p := range set.Append[:cap(set.Append)] {
			if p != nil {
				t.Fatalf("an append that is done keeps op %d alive", p.Op)
			}
		}
	}
	if c.Tick(); cap(c.spare.Send) > 0 {
		t.Error("an idle group keeps the room of its last burst")
	}
}
