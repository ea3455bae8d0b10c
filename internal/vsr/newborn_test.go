package vsr

import "testing"

// Two of five are away while the others make a group, the one that leads its first view
// among them, and a later view begins and commits without them. When they are back and
// hear each other first, both are new to the group and in a view that is long over: that
// its primary says it leads proves nothing as long as no quorum has answered it.
func TestPrimaryWithoutAQuorumProvesNothing(t *testing.T) {
	g := &group{cores: make([]*Core, 5)}
	away := func(m Message) bool { return g.cores[m.To] == nil }
	round := func(who ...int) {
		for range 4 {
			for _, i := range who {
				g.perform(i, true, away)
				if s := g.cores[i].state(); g.cores[i].persisting {
					g.cores[i].StateDurable(s)
				}
			}
		}
	}
	for i := 1; i <= 3; i++ {
		g.cores[i] = fresh(uint8(i), 5)
	}
	for n := 0; !g.cores[1].IsPrimary(); n++ {
		if n > 1000 {
			t.Fatal("three of five elect nobody")
		}
		for i := 1; i <= 3; i++ {
			g.cores[i].Tick()
		}
		round(1, 2, 3)
	}
	for range 9 {
		propose(t, g.cores[1], "x")
		round(1, 2, 3)
	}
	if got := g.cores[1].CommitMin(); got != 9 {
		t.Fatalf("op %d is applied, want 9", got)
	}

	primary, backup := fresh(0, 5), fresh(4, 5)
	g.cores[0], g.cores[4] = primary, backup
	apart := func(m Message) bool { return m.To != 0 && m.To != 4 } // not connected yet
	for n := range 3 * primary.timing.HeartbeatTicks {
		if n == primary.timing.HeartbeatTicks+1 {
			propose(t, primary, "y") // as a purge that the metadata has decided
		}
		primary.Tick()
		backup.Tick()
		for range 2 {
			g.perform(0, true, apart)
			g.perform(4, true, apart)
		}
		if backup.Current() || primary.Current() || backup.Hears() {
			t.Fatalf("after %d ticks: backup current %v, hears %v, at op %d; op 9 was answered long ago", n+1, backup.Current(), backup.Hears(), backup.CommitMin())
		}
	}
}
