package vsr

import "testing"

// The disk of a primary hangs: no append ends, and none fails. Both backups hold and apply
// what it proposed, and it is heard; but it applies nothing itself, so its pipeline is full
// for ever. It must not go on to lead, nor be read from, for longer than an election takes.
func TestPrimaryWhoseDiskHangs(t *testing.T) {
	g := newGroup(3)
	primary := g.cores[0]
	for range primary.cfg.Pipeline {
		propose(t, primary, "x")
	}
	for range 4 * primary.timing.ElectionTicks {
		for _, c := range g.cores {
			c.Tick()
		}
		for range 2 {
			g.perform(0, false, nil)
			g.perform(1, true, nil)
			g.perform(2, true, nil)
		}
	}
	if got := g.cores[1].CommitMin(); int(got) != primary.cfg.Pipeline {
		t.Fatalf("backup applied up to op %d", got)
	}
	if primary.Current() {
		t.Errorf("the primary is current at op %d; its backups have applied op %d for four election timeouts", primary.CommitMin(), g.cores[1].CommitMin())
	}
	if primary.IsPrimary() && primary.Room() == 0 {
		t.Error("the primary leads and takes nothing, and nobody else may")
	}
}
