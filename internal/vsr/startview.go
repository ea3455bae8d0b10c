package vsr

// sayStartView tells all backups that the view runs (§4.2 step 3).
func (c *Core) sayStartView() {
	c.clocks.heartbeat = 0
	for i := range c.peers {
		if uint8(i) != c.cfg.Replica {
			c.sendStartView(uint8(i), 0)
		}
	}
}

// sendStartView sends the log of the view from the commit point on. It always
// carries headers: a bare number would let a backup keep a dead suffix (O-6).
// echo is the boot of the replica that asked, 0 if nobody did.
func (c *Core) sendStartView(to uint8, echo uint64) {
	id, _ := c.log.identity(c.commitMax)
	c.send(&Message{
		Kind: MessageStartView, To: to, Echo: echo, Op: c.log.head, Identity: c.log.headIdentity,
		Rest: &Rest{CommitIdentity: id, Headers: c.log.headers(c.commitMax+1, c.log.head)},
	})
}

// correct tells a replica of an older view about this one. Only a primary whose
// view is durable can.
func (c *Core) correct(to uint8) {
	if c.leads() {
		c.sendStartView(to, 0)
	}
}

// onStartView takes the log of a view from its primary (§4.2 step 5, §4.3).
func (c *Core) onStartView(m *Message) {
	if m.From != c.primaryOf(m.View) || m.View < c.view || !m.chained() {
		return
	}
	c.noteAnswer(m)
	switch {
	case c.doubt == DoubtAll && !c.trusts(m):
	case m.View > c.view || c.status == StatusViewChange:
		c.adopt(m)
	case c.status == StatusRecovering:
		// A log of this very view may have grown since this message was made, and
		// this replica may have acknowledged that: only an answer to a question of
		// this life may lower the head (O-5).
		if m.LogView > c.logView || m.Echo == c.cfg.Boot {
			c.adopt(m)
		}
	case c.settled():
		c.follow(m)
	case c.target == nil:
		c.adopt(m)
	default:
		// What is being installed is where this log begins: the bodies that are here
		// already are worth more than a later head.
		c.learnCommit(m.Commit)
	}
	c.advance()
}

// follow takes from a repeated start_view what a heartbeat would tell. In its
// own view a Normal replica never lowers its head (O-5).
func (c *Core) follow(m *Message) {
	c.learnCommit(m.Commit)
	if m.Op > c.log.head && c.target == nil {
		c.aim(target{op: m.Op, identity: m.Identity, commit: m.Commit, below: m.Commit, belowIdentity: m.CommitIdentity, items: itemsOf(m.Headers)})
	}
	c.ack()
}

// adopt becomes a backup of the view. log_view follows when its log is on this
// disk to the announced head, not before: a crash in between must not leave a
// replica that claims the log of the view without having it.
func (c *Core) adopt(m *Message) {
	c.setView(m.View)
	c.status = StatusNormal
	c.restartElectionClock()
	c.heard = true
	c.barrier = m.Op // an earlier primary may have answered all of it, and nothing else
	c.learnCommit(m.Commit)
	c.aim(target{
		op: m.Op, identity: m.Identity, commit: m.Commit, install: true,
		below: m.Commit, belowIdentity: m.CommitIdentity, items: itemsOf(m.Headers),
	})
}

// finishInstall raises log_view when the log of the view is on this disk. A
// primary-elect starts its view with it; everything that tells others waits for
// the new values to be durable.
func (c *Core) finishInstall() {
	t := c.target
	if t == nil || !t.install || !t.joined || c.log.held < t.installOp || c.transferring() {
		return
	}
	t.install = false
	c.logView, c.doubt = c.view, 0
	c.verified = max(c.verified, min(c.log.head, t.op))
	if c.status == StatusViewChange {
		c.becomePrimary()
	}
	if t.op <= c.log.head {
		c.target = nil
	}
	c.announce()
}

// becomePrimary starts the view: everything in the log stays in the pipeline,
// and nothing new enters it before the view is durable. An earlier primary may have
// answered all of it, so nothing is answered from the state before it is applied.
func (c *Core) becomePrimary() {
	c.status = StatusNormal
	c.barrier = c.log.head
	c.verified = c.log.head
	c.restartElectionClock()
	c.heard = true
	for i := range c.peers {
		c.peers[i].heardAt = c.now
	}
	c.election.votes = nil
}
