package edge

import (
	"testing"

	"galgo"
)

func TestRegistryKeepsTheNewestSession(t *testing.T) {
	r := newRegistry()
	a, b := &conn{id: 1}, &conn{id: 2}
	r.add(a)
	r.add(b)
	id := galgo.ClientID{1}
	newer, older := &binding{client: id, epoch: 6}, &binding{client: id, epoch: 5}
	if !r.bind(b, newer) {
		t.Fatal("first binding refused")
	}
	if r.bind(a, older) {
		t.Error("an older session took the client id from a newer one")
	}
	if a.bound.Load() != nil || b.bound.Load() != newer {
		t.Errorf("bound to %v and %v", a.bound.Load(), b.bound.Load())
	}
	if r.unbind(a, older) || r.unbind(b, older) {
		t.Error("unbound a session that was not bound")
	}
	renewed := &binding{client: id, epoch: 7}
	if !r.bind(a, renewed) || b.bound.Load() != nil {
		t.Error("a newer session did not take the client id")
	}
	if lost := r.remove(b); lost != nil {
		t.Errorf("the connection that lost its session reports %v", lost)
	}
	if lost := r.remove(a); lost != renewed || len(r.owners) != 0 || len(r.conns) != 0 {
		t.Errorf("removed with %v, %d owners and %d connections left", lost, len(r.owners), len(r.conns))
	}
}

func TestTransportIDsAreASequence(t *testing.T) {
	r := newRegistry()
	for want := uint32(1); want <= 3; want++ {
		if got := r.nextID(); got != want {
			t.Fatalf("id %d, want %d", got, want)
		}
	}
	r.last = 1<<32 - 1
	r.add(&conn{id: 1})
	if got := r.nextID(); got != 2 {
		t.Fatalf("id %d after the sequence came round, want 2: 0 is none and 1 is taken", got)
	}
}

func TestTurnsAreBounded(t *testing.T) {
	turns := newTurns()
	for i := range turnsMax + 10 {
		turns.next[turnKey{stream: uint32(i)}] = 1
		if len(turns.next) == turnsMax {
			break
		}
	}
	p := newRig(t).signedIn()
	p.makeTopic(2)
	topic, _ := p.rig.node.View().Topic(s0, t0)
	if got := turns.take(topic); got != 0 || len(turns.next) != 1 {
		t.Fatalf("took %d, %d topics remembered", got, len(turns.next))
	}
	if got := turns.take(topic); got != 1 {
		t.Fatalf("took %d, want 1", got)
	}
}
