package vsr

// recover begins the life of a replica that had one before, or that replaces
// another (§4.3, with durable state). It gives up a primaryship it may have had,
// asks for the present view, and joins elections only when nobody knows one.
func (c *Core) recover() {
	c.status = StatusRecovering
	c.clocks.probe = 1
	c.clocks.patience = c.patience(c.timing.ElectionTicks)
	if c.log.base < c.log.head {
		c.barrier = c.log.head
	}
}

// tickProbe asks everybody for the present view, again and again.
func (c *Core) tickProbe() {
	if c.clocks.probe--; c.clocks.probe > 0 {
		return
	}
	c.clocks.probe = c.timing.ProbeTicks
	c.clocks.probes++
	q := c.question()
	c.broadcast(&q)
}

// nobodyLeads reports whether there is nothing to wait for: who leads does not ask for the
// view, and all have asked. Where some are away, enough of them for a view change, the
// one that leads may be among those that are not heard; it has two probes to answer.
func (c *Core) nobodyLeads() bool {
	asked := 1
	for i := range c.peers {
		if p := &c.peers[i]; p.askedAt > 0 && c.now-p.askedAt <= uint64(2*c.timing.ProbeTicks) {
			asked++
		}
	}
	return asked == c.cfg.Replicas || asked >= c.quorums.ViewChange && c.clocks.probes >= 2
}

// question asks for the present view. It promises nothing, so it shows the view
// that is durable and needs no other.
func (c *Core) question() Message {
	return Message{Kind: MessageRequestStartView, Doubt: c.doubt}
}

// observe learns from a message of the normal case that a newer view runs, and
// asks its sender for it, now and then.
func (c *Core) observe(m *Message) {
	if m.View <= c.election.observed && c.clocks.probe > 0 {
		return
	}
	c.election.observed = max(c.election.observed, m.View)
	c.clocks.probe = c.timing.ProbeTicks
	q := c.question()
	q.To = c.primaryOf(m.View)
	if q.To != c.cfg.Replica {
		c.send(&q)
	}
}

// onRequestStartView answers with the present view, if this replica leads it. A
// replaced replica hears from everybody which views it may have been part of.
// If it is the primary of this very view that asks, it cannot lead any more, and
// it is suspected at once instead of after a timeout (its log_view tells that the
// question is not an old one, from before it led). If the one that asks has
// promised a later view it can never come back to this one, so the primary ends it.
func (c *Core) onRequestStartView(m *Message) {
	c.peers[m.From].askedAt = c.now
	switch {
	case c.leads() && m.View > c.view:
		v := m.View
		if c.primaryOf(v) == m.From {
			v++
		}
		c.because(CausePromised)
		c.enterViewChange(v)
	case c.doubt == DoubtAll || c.needsPersist():
	case c.leads():
		c.sendStartView(m.From, m.Boot)
	case m.Doubt == DoubtAll:
		c.send(&Message{Kind: MessagePresentView, To: m.From, Echo: m.Boot})
	}
	if c.status == StatusNormal && m.From == c.Primary() && m.View == c.view && m.LogView == m.View && c.doubt != DoubtAll {
		c.because(CauseRestarted)
		c.clocks.silent = c.clocks.patience
		c.suspect()
	}
}

// onPresentView hears, as a replaced replica, which view another is in.
func (c *Core) onPresentView(m *Message) { c.noteAnswer(m) }

// noteAnswer counts the replicas that answered a question of this life.
func (c *Core) noteAnswer(m *Message) {
	if m.Echo != c.cfg.Boot || c.doubt != DoubtAll {
		return
	}
	c.answers |= 1 << m.From
	c.answerView = max(c.answerView, m.View)
}

// trusts reports whether a replaced replica may adopt this view. It has
// forgotten which views it voted for and what it acknowledged, so a view-change
// quorum of others must have told their views, and the answer must be of the
// latest. Each quorum that its former life was part of has a member among them
// (O-8).
func (c *Core) trusts(m *Message) bool {
	others := 0
	for i := range c.cfg.Replicas {
		others += int(c.answers >> i & 1)
	}
	return m.Echo == c.cfg.Boot && m.View >= c.answerView && others >= min(c.quorums.ViewChange, c.cfg.Replicas-1)
}

// knows checks the life that a message is from. Numbers of lives grow, so what
// an earlier life said is over; with a new one all that the replica acknowledged
// counts as unsaid, until it says it again (O-7).
func (c *Core) knows(from uint8, boot uint64) bool {
	p := &c.peers[from]
	if boot < p.boot {
		return false
	}
	if p.boot == 0 {
		p.boot = boot // the first that is heard: there is nothing to unsay
	}
	if boot > p.boot {
		p.boot, p.installed, p.held, p.suspectAt, p.askedAt = boot, false, 0, 0, 0
		for i := range c.log.entries {
			c.log.entries[i].acks &^= 1 << from
		}
	}
	return true
}

// boots returns the lives this replica knows of, by replica.
func (c *Core) boots() []uint64 {
	boots := make([]uint64, c.cfg.Replicas)
	for i := range boots {
		boots[i] = c.peers[i].boot
	}
	boots[c.cfg.Replica] = c.cfg.Boot
	return boots
}

// alive drops the votes of lives that another voter knows to be over. A replaced
// replica was answered by a view-change quorum of others, so each quorum has a
// voter who knows.
func alive(votes []Message) []Message {
	var kept []Message
	for i := range votes {
		over := false
		for j := range votes {
			if b := votes[j].Boots; int(votes[i].From) < len(b) {
				over = over || b[votes[i].From] > votes[i].Boot
			}
		}
		if !over {
			kept = append(kept, votes[i])
		}
	}
	return kept
}
