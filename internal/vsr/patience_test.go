package vsr

import "testing"

// The time for a primary to be heard is longer after views that came to nothing, until one
// is followed. It is no longer than at first from then on: neither for who follows nor for
// who leads, whose heartbeats end with it.
func TestPatienceEndsWhenAPrimaryIsFollowed(t *testing.T) {
	most := fresh(0, 3).timing.ElectionTicks * 5 / 4

	t.Run("backup", func(t *testing.T) {
		c := fresh(2, 3)
		durable := func() { c.Ready(); c.StateDurable(c.state()) }
		for v := View(1); v <= 6; v++ { // six views in a row come to nothing
			c.Step(told(MessageStartViewChange, 1, v))
			durable()
		}
		c.Step(startView(1, 7, 0))
		durable()
		c.Step(told(MessageCommit, 1, 7)) // not counted
		for n := range 1000 {
			m := told(MessageCommit, 1, 7)
			m.Beat = uint64(n + 1)
			c.Step(m)
			c.Tick()
			c.Ready()
		}
		if !c.Hears() {
			t.Fatal("it follows nobody")
		}
		n := 0
		for ; !c.election.suspecting; n++ {
			c.Tick()
			c.Ready()
		}
		if n > most {
			t.Errorf("a backup suspects its primary after %d ticks of silence, want %d at most: it was followed for long", n, most)
		}
	})

	t.Run("primary", func(t *testing.T) {
		c := fresh(1, 3)
		durable := func() { c.Ready(); c.StateDurable(c.state()); c.Ready() }
		for v := View(1); v <= 7; v++ {
			c.Step(told(MessageStartViewChange, 2, v))
			durable()
		}
		c.Step(told(MessageDoViewChange, 2, 7))
		durable()
		if !c.IsPrimary() {
			t.Fatal("it does not lead view 7")
		}
		for range 1000 {
			c.Step(told(MessagePrepareOk, 2, 7))
			c.Tick()
			c.Ready()
		}
		n := 0
		for ; !c.election.suspecting; n++ {
			c.Tick()
			c.Ready()
		}
		if most += 2 * c.timing.HeartbeatTicks; n > most {
			t.Errorf("a primary without a quorum says that it leads for %d ticks, want %d at most", n, most)
		}
	})
}
