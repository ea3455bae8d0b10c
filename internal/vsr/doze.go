package vsr

// doze is a time in which nothing comes of a tick unless something else happens, so Tick
// only counts: most groups of a node are at rest most of the time.
type doze struct {
	left  int  // ticks of it
	leads bool // which clock it is that runs
}

// Dozes is of how many ticks nothing will come unless something else happens: they may be
// passed late, together, before the next input or question.
func (c *Core) Dozes() int { return c.doze.left }

// Pass passes ticks, as so many calls of Tick do.
func (c *Core) Pass(ticks uint64) {
	for ticks > 0 {
		if n := min(ticks, uint64(c.doze.left)); n > 0 {
			c.sleep(int(n))
			ticks -= n
			continue
		}
		c.Tick()
		ticks--
	}
}

// sleep passes ticks of the doze.
func (c *Core) sleep(ticks int) {
	c.doze.left -= ticks
	c.now += uint64(ticks)
	if c.doze.leads {
		c.clocks.heartbeat += ticks
	} else {
		c.clocks.silent += ticks
	}
}

// Wake ends the doze: the next tick may be one of which something comes. Nothing is
// different for it but what the tick costs.
func (c *Core) Wake() { c.doze.left = 0 }

// fallAsleep finds out, at the end of a tick, for how many more nothing will be due. What a
// doze counts is exact, so it may end at any time; it must not last too long.
func (c *Core) fallAsleep() {
	c.doze.leads = c.leads()
	switch {
	case !c.settled() || c.target != nil || c.transferring():
	case c.doze.leads:
		c.doze.left = c.dozeOfPrimary()
	case c.log.base == c.commitMax: // who suspects its primary has no patience left
		c.doze.left = max(0, c.clocks.patience-c.clocks.silent-1)
	}
}

// dozeOfPrimary lasts until the next heartbeat, if everything is committed, the backups know,
// and a quorum of them is heard until then.
func (c *Core) dozeOfPrimary() int {
	owes := c.timing.CommitTicks > 0 && c.commitMax > c.clocks.told
	if owes || c.log.base < c.log.head || !c.hearsQuorum(c.lately(c.timing.HeartbeatTicks)) {
		return 0
	}
	return c.timing.HeartbeatTicks - c.clocks.heartbeat - 1
}
