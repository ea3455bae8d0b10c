package vsr

// Cause is why a replica left a view, for people. Nothing is decided by it.
type Cause uint8

// The causes.
const (
	CauseNone        Cause = iota
	CauseSilence           // the primary was not heard for the election timeout
	CauseLinkDown          // the connection to the primary broke
	CauseRestarted         // the primary itself asked for the view: it has started anew
	CauseNoQuorum          // as primary, no quorum was heard
	CauseOthersLeft        // other replicas had left it
	CauseNotBegun          // it did not begin in time
	CausePromised          // a replica had promised a later one
	CauseSteppedDown       // the primary gave its place up
)

// String is the cause in words.
func (c Cause) String() string {
	names := [...]string{
		"none", "the primary is silent", "the connection to the primary broke", "the primary has started anew", "as primary, no quorum is heard",
		"others have left the view", "the view did not begin", "a replica had promised a later view", "the primary gave its place up",
	}
	if int(c) < len(names) {
		return names[c]
	}
	return "unknown"
}

// because remembers the first reason to leave the present view.
func (c *Core) because(cause Cause) {
	if c.election.cause == CauseNone {
		c.election.cause = cause
	}
}

// Cause is why the view before the present one was left; CauseNone if this life of the
// replica has left none, or was told of the present one when it had begun.
func (c *Core) Cause() Cause { return c.cause }

// Wants is how many ops this replica knows to be in the log of its view and does not have.
func (c *Core) Wants() uint64 {
	if c.target == nil || c.target.op <= c.log.head {
		return 0
	}
	return uint64(c.target.op - c.log.head)
}
