package vsr

import "errors"

// Refusals of StepDown. Nothing was done.
var (
	// ErrNoSuccessor: the replica that is to lead is this one or none, has not been heard
	// lately, or does not hold nearly all that this one holds.
	ErrNoSuccessor = errors.New("vsr: no replica that could take over holds the log")
)

// StepDown has a primary end its view for the next one that another replica leads. What is
// on its way in the log stays: those who vote hold it. It fails with ErrNotPrimary or
// ErrNoSuccessor.
//
// A replica may leave for any later view whenever it likes, so this is no other case than
// the end of a view by a quorum that hears no primary; those who hear of it follow at once.
// If the successor dies meanwhile, the views go on as always.
func (c *Core) StepDown(to uint8) error {
	switch {
	case !c.IsPrimary():
		return ErrNotPrimary
	case !c.CaughtUp(to) || to == c.cfg.Replica:
		return ErrNoSuccessor
	}
	n := View(c.cfg.Replicas)
	next := c.view + (View(to)+n-c.view%n)%n
	if next > viewMax {
		return ErrNoSuccessor
	}
	c.Wake()
	c.election.cause = CauseSteppedDown
	c.enterViewChange(next)
	return nil
}

// CaughtUp reports whether a replica could take over from this primary without fetching
// more than a pipeline of ops. The primary itself always could.
func (c *Core) CaughtUp(replica uint8) bool {
	if !c.leads() || int(replica) >= c.cfg.Replicas {
		return false
	}
	if replica == c.cfg.Replica {
		return true
	}
	p := &c.peers[replica]
	return p.installed && p.heardAt > 0 && p.heardAt >= c.lately(2*c.timing.HeartbeatTicks) && p.held+PipelineCeiling >= c.log.head
}

// ViewAge is for how many ticks the present view has lasted, as far as this life of the
// replica knows.
func (c *Core) ViewAge() uint64 { return c.now - c.entered }
