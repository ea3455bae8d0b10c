package metadata

import "testing"

// loginAt signs a client in as root over a node.
func (r *rig) loginAt(n uint64, home Home) {
	r.t.Helper()
	by := r.password(RootUser)
	by.Home = home
	if out := r.loginBy(clientID(n), RootUser, by); out.Login != LoginAccepted {
		r.t.Fatalf("client %d: %v", n, out.Login)
	}
}

func (r *rig) depart(d Departure) { r.apply(Input{Operation: OperationDepart, Body: d.Encode()}) }

func (r *rig) wantDetached(what string, want ...uint64) {
	r.t.Helper()
	left := map[uint64]bool{}
	for _, n := range want {
		left[n] = true
	}
	for c := range r.m.View().Clients() {
		n := le.Uint64(c.ID[:])
		if c.Detached != left[n] || r.m.View().IsDetached(c.ID, c.Epoch) != c.Detached {
			r.t.Errorf("%s: client %d is detached: %t, want %t", what, n, c.Detached, left[n])
		}
	}
}

// A departure is of the sessions that were at those lives of the node when it was found out:
// who has come back, there or elsewhere, stays, as do those of other nodes.
func TestDepartureIsOfTheSessionsThatWereThere(t *testing.T) {
	r := groupsRig(t, 4, 1)
	r.loginAt(2, Home{1, 10})
	r.loginAt(3, Home{1, 10})
	r.loginAt(4, Home{1, 20})
	r.loginAt(5, Home{2, 10})
	for n := range uint64(4) {
		r.mustJoin(n + 2)
	}
	d, any := r.m.View().DepartureOf(1, 10)
	if !any || d != (Departure{Home{1, 10}, r.op}) {
		t.Fatalf("the departure is %+v, %t", d, any)
	}
	r.loginAt(3, Home{2, 10}) // elsewhere, before the departure is in the log
	r.loginAt(6, Home{1, 10}) // there: the node was not gone
	r.depart(d)
	r.wantDetached("lives up to 10", 2)
	r.wantMembers("4:[0 2] 5:[1 3] ")
	if _, any := r.m.View().DepartureOf(1, 9); any {
		t.Error("a life before is left")
	}
	r.loginAt(2, Home{1, 20})
	r.wantDetached("client 2 is back")
	all, any := r.m.View().DepartureOfAll(1)
	if !any {
		t.Fatal("nobody is at node 1")
	}
	r.depart(all)
	r.wantDetached("all lives", 2, 4, 6)
	r.wantMembers("5:[0 1 2 3] ")
	if d, any := r.m.View().DepartureOfAll(1); any {
		t.Errorf("somebody is left at %+v", d)
	}
	m := restored(t, r.m)
	if _, any := m.View().DepartureOfAll(2); !any {
		t.Error("after a restart nobody is at node 2")
	}
}

// One departure detaches a bounded number; what is left is found by the next.
func TestDeparturesAreBounded(t *testing.T) {
	r := newRig(t)
	const clients = SessionsPerDeparture + 10
	for n := range uint64(clients) {
		r.loginAt(n+2, Home{1, 1})
	}
	left := func() (n int) {
		r.m.s.attachedAt(1, 1, func(*Client) bool { n++; return true })
		return n
	}
	for _, want := range []int{10, 0} {
		d, any := r.m.View().DepartureOfAll(1)
		if !any {
			t.Fatal("nobody is left")
		}
		r.depart(d)
		if got := left(); got != want {
			t.Fatalf("%d are left, want %d", got, want)
		}
	}
	// By memberships: each client has so many that two end as many as one operation may.
	r.createStream("s")
	r.createTopic(0, "t", 1)
	for n := range uint32(SessionsPerDeparture / 2) {
		r.createGroup(0, 0, string(rune('a'+n)))
	}
	for n := range uint64(4) {
		r.loginAt(n+2, Home{1, 2})
		for g := range uint32(SessionsPerDeparture / 2) {
			if err := r.joinAs(clientID(n+2), g); err != nil {
				t.Fatal(err)
			}
		}
	}
	d, _ := r.m.View().DepartureOfAll(1)
	before := r.group().Generation
	r.depart(d)
	remaining := 0
	r.m.s.attachedAt(1, 2, func(*Client) bool { remaining++; return true })
	if remaining != 2 {
		t.Errorf("%d sessions are left, want 2", remaining)
	}
	if g := r.group(); g.Generation != before+1 {
		t.Errorf("two members that go together make %d new assignments, want 1", g.Generation-before)
	}
}

// Who is back has a place in its groups again, once it joins.
func TestDetachedByDepartureJoinsAfterALogin(t *testing.T) {
	r := groupsRig(t, 2, 1)
	r.loginAt(2, Home{1, 1})
	d, _ := r.m.View().DepartureOfAll(1)
	r.depart(d)
	if err := r.joinAs(clientID(2), 0); err == nil {
		t.Error("a detached session joins")
	}
	r.loginAt(2, Home{2, 1})
	r.mustJoin(2)
	r.wantMembers("2:[0 1] ")
}
