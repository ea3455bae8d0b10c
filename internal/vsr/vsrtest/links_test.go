package vsrtest

import (
	"fmt"
	"strings"
	"testing"

	"galgo/internal/vsr"
)

// links plays a cluster with some links cut: within a bounded time the others
// commit again, views do not run away, and with the links back all agree.
func links(t *testing.T, n int, cut string, spared func(i int) bool) {
	t.Helper()
	var s Script
	playAll(t, &s, fmt.Sprintf("new n=%d\npropose 0 a\nsettle\n%s\nrun 200", n, cut))
	before := s.cluster.checks.highest
	proposed := false
	for range 100 {
		for i := range n {
			if spared(i) && s.cluster.replicas[i].core.IsPrimary() {
				proposed = s.cluster.Propose(uint8(i), "b") == nil || proposed
			}
		}
		playAll(t, &s, "run 1")
	}
	if !proposed || s.cluster.checks.highest <= before {
		t.Errorf("n=%d %s: nothing is committed after 300 ticks (proposed: %t)\n%s", n, cut, proposed, playAll(t, &s, "show"))
	}
	playAll(t, &s, "run 1000")
	for i := range n {
		if v := s.cluster.replicas[i].core.View().View; v > vsr.View(2*n) {
			t.Errorf("n=%d %s: replica %d is in view %d after 1300 ticks", n, cut, i, v)
		}
	}
	playAll(t, &s, "heal\nrun 300")
	for i := range n {
		if r := s.cluster.replicas[i]; r.core.CommitMin() != s.cluster.checks.highest {
			t.Errorf("n=%d %s: after healing\n%s", n, cut, playAll(t, &s, "show"))
			return
		}
	}
}

// PF-consensus-08: a replica that can send but not receive, and the reverse.
func TestOneWayLinks(t *testing.T) {
	for _, n := range []int{3, 5} {
		for i := range n {
			var deaf, mute []string
			for j := range n {
				if j != i {
					deaf = append(deaf, fmt.Sprintf("%d>%d", j, i))
					mute = append(mute, fmt.Sprintf("%d>%d", i, j))
				}
			}
			others := func(j int) bool { return j != i }
			links(t, n, "cut "+strings.Join(deaf, " "), others)
			links(t, n, "cut "+strings.Join(mute, " "), others)
		}
	}
}

// PF-consensus-09: one link is cut, for each pair.
func TestOneLinkCut(t *testing.T) {
	for _, n := range []int{3, 5} {
		for i := range n {
			for j := range i {
				links(t, n, fmt.Sprintf("cut %d-%d", j, i), func(int) bool { return true })
			}
		}
	}
}

// S-05: a survivor that cannot write its state record leads nothing, and does
// not drive the views on.
func TestSurvivorThatCannotWriteItsState(t *testing.T) {
	var s Script
	seen := playAll(t, &s, "new n=3\npropose 0 a\nsettle\nfail-state 2\ncrash 0\nrun 800\nshow")
	wantUnseen(t, seen, "primary")
	if v := s.cluster.replicas[1].core.View().View; v > 40 {
		t.Errorf("view %d after 800 ticks", v)
	}
	seen = playAll(t, &s, "mend 2\nrun 200\nshow")
	wantSeen(t, seen, "primary")
}

// A replica misses more ops than one answer has headers for and more than its
// window takes. It gets them from the log, or from a checkpoint and the log.
func TestLongGap(t *testing.T) {
	for name, checkpoint := range map[string]string{"from the log": "", "from a checkpoint": "checkpoint 0 keep=20\ncheckpoint 1"} {
		var s Script
		playAll(t, &s, "new n=3 pipeline=100\ncut 0-2 1-2")
		for range 12 {
			for range 100 {
				if err := s.cluster.Propose(0, "x"); err != nil {
					t.Fatal(err)
				}
			}
			playAll(t, &s, "settle\nrun 6")
		}
		playAll(t, &s, checkpoint)
		playAll(t, &s, "propose 0 y z\nsettle\nheal\nrun 100")
		if r := s.cluster.replicas[2]; r.core.CommitMin() != 1202 {
			t.Errorf("%s: %s", name, s.cluster.show(2)[:200])
		}
		if installed := s.cluster.checks.installed > 0; installed != (checkpoint != "") {
			t.Errorf("%s: a checkpoint was installed: %t", name, installed)
		}
	}
}

// Every state record takes long, up to more than a view change may: the views must
// not run ahead of the disks.
func TestSlowStateRecords(t *testing.T) {
	for _, ticks := range []int{15, 30, 45, 60, 90, 120} {
		if !commitsOnSlowDisks(t, ticks, 30*ticks) {
			t.Errorf("with state records that take %d ticks nothing is committed", ticks)
		}
	}
}

// commitsOnSlowDisks reports whether two survivors of three commit something.
func commitsOnSlowDisks(t *testing.T, slow, limit int) bool {
	var s Script
	playAll(t, &s, "new n=3\npropose 0 a\nsettle\ncrash 0\nhold 1\nhold 2")
	c := s.cluster
	began := map[*vsr.State]int{}
	for tick := range limit {
		for i := uint8(1); i <= 2; i++ {
			c.tick(i)
			r := c.replicas[i]
			s.complete(r, 8, false)
			for _, w := range r.writes {
				if start, ok := began[w.persist]; w.persist != nil && !ok {
					began[w.persist] = tick
				} else if ok && tick-start >= slow {
					s.complete(r, 1, true)
					break
				}
			}
		}
		if err := s.settle(); err != nil {
			t.Fatal(err)
		}
		for i := uint8(1); i <= 2; i++ {
			if r := c.replicas[i]; r.core.IsPrimary() && r.core.Head() == 1 {
				_ = c.Propose(i, "b")
			} else if r.core.CommitMin() > 1 {
				t.Logf("%d ticks: committed in view %d after %d ticks", slow, r.core.View().View, tick)
				return true
			}
		}
	}
	t.Log(c.show(1), c.show(2))
	return false
}
