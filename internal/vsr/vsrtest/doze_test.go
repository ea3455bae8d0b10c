package vsrtest

import (
	"fmt"
	"strings"
	"testing"
)

// A group that dozes does the same at the same ticks as one that is kept awake, and what
// its replicas say of themselves is of now.
func TestDozingChangesNothing(t *testing.T) {
	for seed := range uint64(80) {
		dozing, awake := newSchedule(seed), newSchedule(seed)
		awake.cluster.wakeful = true
		for _, s := range []*schedule{dozing, awake} {
			s.cluster.quiet = false
		}
		for n := range 1000 {
			for _, s := range []*schedule{dozing, awake} {
				s.step(s.draw())
				if n%50 == 0 {
					s.rest()
				}
			}
			if got, want := dozing.news(), awake.news(); got != want {
				t.Fatalf("seed %d, step %d: without dozing and with it\n%s", seed, n, difference(want, got))
			}
		}
	}
}

// rest has everything that is due come to its end, and then time pass.
func (s *schedule) rest() {
	for range s.rng.IntN(60) {
		for i := range s.cluster.replicas {
			s.cluster.tick(uint8(i))
		}
		s.calm()
	}
}

// news is what has happened since the last time, and what the replicas say of themselves.
func (s *schedule) news() string {
	var b strings.Builder
	b.WriteString(s.tail(len(s.trace) + len(s.cluster.events)))
	s.trace = s.trace[:0]
	for _, r := range s.cluster.replicas {
		if c := r.core; c != nil {
			fmt.Fprintf(&b, "\n%d: %v %v, primary %v, hears %v, current %v, since %d, caught up", r.id, c.Status(), c.View(), c.IsPrimary(), c.Hears(), c.Current(), c.ViewAge())
			for i := range s.cluster.replicas {
				fmt.Fprint(&b, " ", c.CaughtUp(uint8(i)))
			}
		}
	}
	return b.String()
}
