package vsr

// Serving reports whether this replica may decide requests: it may propose, and has
// applied everything that an earlier primary may have answered, so that what its
// state says of a request is true.
func (c *Core) Serving() bool { return c.IsPrimary() && c.log.base >= c.barrier }

// Uncommitted shows what the log holds above the last applied op, in order. The
// prepare is nil for an op that was in the log at start.
func (c *Core) Uncommitted(visit func(h *Header, p *Prepare)) {
	for i := range c.log.entries {
		visit(c.log.entries[i].header, c.log.entries[i].prepare)
	}
}
