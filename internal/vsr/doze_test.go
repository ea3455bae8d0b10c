package vsr

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// A group at rest has something to do with each heartbeat, and at hardly any other tick.
func TestGroupAtRestDozes(t *testing.T) {
	g := newGroup(3)
	for _, c := range g.cores {
		c.timing = Timing{CommitTicks: 1}.complete()
		c.restartElectionClock()
	}
	propose(t, g.cores[0], "a")
	const ticks = 2000
	var awake [3]int
	for range ticks {
		for i, c := range g.cores {
			if c.doze.left == 0 {
				awake[i]++
			}
			c.Tick()
		}
		for range 4 {
			for i := range g.cores {
				g.perform(i, true, nil)
			}
		}
	}
	if g.cores[1].CommitMin() != 1 || !g.cores[1].Current() || !g.cores[0].Current() {
		t.Error("the group is not in its normal case")
	}
	for i, n := range awake {
		if most := 4 * ticks / g.cores[0].timing.HeartbeatTicks; n > most {
			t.Errorf("replica %d was awake at %d of %d ticks, want at most %d", i, n, ticks, most)
		}
	}
}

// A doze that something ends is not taken up again: what happened may have to be repeated.
func TestWhatHappensEndsADoze(t *testing.T) {
	for name, happens := range map[string]func(c *Core){
		"a message":  func(c *Core) { c.Step(told(MessagePrepareOk, 1, 0)) },
		"an op":      func(c *Core) { propose(t, c, "a") },
		"a stepdown": func(c *Core) { c.StepDown(1) },
		"spent room": func(c *Core) { c.Reuse(&Ready{Send: make([]Message, 1)}) },
	} {
		c := fresh(0, 3)
		for from := range uint8(2) {
			c.Step(told(MessagePrepareOk, from+1, 0))
		}
		if c.Tick(); c.doze.left == 0 {
			t.Fatal("a primary at rest is awake")
		}
		if happens(c); c.doze.left > 0 {
			t.Errorf("%s leaves it dozing", name)
		}
	}
	c := fresh(1, 3)
	if c.Tick(); c.doze.left == 0 {
		t.Fatal("a backup at rest is awake")
	}
	if c.LinkDown(0); c.doze.left > 0 {
		t.Error("a broken connection to the primary leaves a backup dozing")
	}
}

// Requests for a checkpoint are repeated, also when nothing else is missing any more.
func TestWhoTakesACheckpointStaysAwake(t *testing.T) {
	c := fresh(1, 3)
	c.beginTransfer(0)
	if c.Tick(); c.doze.left > 0 {
		t.Errorf("it dozes for %d ticks", c.doze.left)
	}
}

// A backup whose disk does not follow is of the past after an election timeout, although
// little happens meanwhile.
func TestBackupThatHasNotAppliedStaysAwake(t *testing.T) {
	c := fresh(1, 3)
	c.Step(carrying(told(MessagePrepare, 0, 0), after(nil, 0, "a")))
	for tick := range 2 * c.timing.ElectionTicks {
		if tick%c.timing.HeartbeatTicks == 0 {
			beat := told(MessageCommit, 0, 0)
			beat.Beat, beat.Commit = c.clocks.beat+1, 1
			c.Step(beat)
		}
		c.Tick()
	}
	if !c.Hears() || c.Current() {
		t.Errorf("hears %v, current %v, with op 1 chosen for so long and not applied", c.Hears(), c.Current())
	}
}

// Ticks that are passed at once are ticks, whatever a core is about.
func TestTicksPassedAtOnce(t *testing.T) {
	dozed := 0
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		leaping, walking := newGroup(3), newGroup(3)
		for range 300 {
			i, n := rng.IntN(3), 1+rng.IntN(30)
			leaping.cores[i].Pass(uint64(n))
			for range n {
				if walking.cores[i].doze.left > 0 {
					dozed++
				}
				walking.cores[i].Tick()
			}
			lost := rng.Uint64()
			for _, g := range []*group{leaping, walking} {
				c := g.cores[i]
				if lost%5 == 0 && c.IsPrimary() && c.Room() > 0 {
					propose(t, c, "x")
				}
				if lost%41 == 0 {
					c.LinkDown(uint8(lost % 3))
				}
				for range 3 {
					r := c.Ready()
					for _, p := range r.Append {
						c.AppendDone(p.Op, p.Identity)
					}
					if r.Persist != nil {
						c.StateDurable(*r.Persist)
					}
					for _, m := range r.Send {
						if lost>>(m.To+3)&1 == 0 {
							g.cores[m.To].Step(m)
						}
					}
					for _, cm := range r.Commit {
						c.Applied(cm.Op)
					}
				}
			}
			for j := range 3 {
				if !reflect.DeepEqual(leaping.cores[j], walking.cores[j]) {
					t.Fatalf("seed %d: after %d ticks of replica %d replica %d is another: %+v, %+v", seed, n, i, j, leaping.cores[j], walking.cores[j])
				}
			}
		}
	}
	if dozed == 0 {
		t.Error("nobody has dozed")
	}
}
