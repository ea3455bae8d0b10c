package vsr

import "math/bits"

// election is what this replica knows of how its view ends or begins.
type election struct {
	cause      Cause
	suspecting bool // it finds its primary dead; as primary: it hears no quorum
	observed   View // highest view seen in use by others
	tries      int  // views since a primary was followed
	leaving    uint32
	voted      bool
	merged     bool // primary-elect: the merge has decided
	outcome    outcome
	votes      []Message // primary-elect: of this view, in order of arrival
}

// suspect says that the primary is silent. One replica that finds so changes
// nothing: it may be the one that is deaf. Only when a view-change quorum says
// so at the same time does the view end, so one-way links and restarts of one
// replica cannot drive the views on.
func (c *Core) suspect() {
	if c.election.suspecting {
		return
	}
	c.because(CauseSilence)
	c.election.suspecting = true
	c.clocks.repeat = 0
	c.saySuspicion()
}

func (c *Core) saySuspicion() {
	c.broadcast(&Message{Kind: MessageSuspect})
	c.tryElection()
}

// LinkDown says that the connection to a replica broke, which is evidence
// against it if it is the primary.
func (c *Core) LinkDown(replica uint8) {
	if c.status == StatusNormal && replica == c.Primary() && !c.leads() && c.doubt != DoubtAll {
		c.Wake()
		c.because(CauseLinkDown)
		c.clocks.silent = c.clocks.patience
		c.suspect()
	}
}

// onSuspect remembers that another replica hears no primary. It need not be in
// the same view: replicas that come back together have to find one.
func (c *Core) onSuspect(m *Message) {
	c.correct(m.From)
	c.peers[m.From].suspectAt, c.peers[m.From].suspectView = c.now, m.View
	c.tryElection()
}

// tryElection leaves the view when a view-change quorum hears no primary, this
// replica among them. Suspicions that are not repeated expire.
func (c *Core) tryElection() {
	if !c.election.suspecting || c.status == StatusViewChange || c.needsPersist() {
		return
	}
	count, latest := 1, c.view
	for i := range c.peers {
		if p := &c.peers[i]; p.suspectAt > 0 && c.now-p.suspectAt <= uint64(2*c.timing.RepeatTicks) {
			count++
			latest = max(latest, p.suspectView)
		}
	}
	if count >= c.quorums.ViewChange {
		c.enterViewChange(latest + 1)
	}
}

// enterViewChange leaves the present view for another (§4.2 step 1). What the
// replica knows to be chosen stays known; the rest of its log is a matter for
// the new view.
func (c *Core) enterViewChange(v View) {
	c.setView(v)
	c.status = StatusViewChange
	c.election.leaving = c.self()
	c.sayViewChange()
}

// setView moves to a later view and forgets what belonged to the one before.
func (c *Core) setView(v View) {
	c.view, c.entered = v, c.now
	c.verified = min(c.verified, c.commitMax)
	if c.transfer.stage == transferInstalling {
		c.verified = c.commitOut
	}
	c.target = nil
	c.cause = c.election.cause
	c.election = election{observed: c.election.observed, tries: c.election.tries + 1}
	for i := range c.peers {
		c.peers[i].suspectAt, c.peers[i].installed, c.peers[i].held = 0, false, 0
	}
	for i := range c.log.entries {
		c.log.entries[i].acks &= c.self()
	}
	c.clocks = clocks{
		patience: c.clocks.patience, probe: c.timing.ProbeTicks, beat: c.clocks.beat, beatView: c.clocks.beatView,
		statusMax: c.patience(c.timing.ViewChangeTicks),
	}
}

// sayViewChange repeats what this replica has to say in its view change.
func (c *Core) sayViewChange() {
	c.broadcast(&Message{Kind: MessageStartViewChange})
	if c.election.voted {
		c.sayVote()
		return
	}
	c.tryVote()
}

// sayVote sends the vote to the primary-elect. It is made anew each time: a
// checkpoint may have been installed since.
func (c *Core) sayVote() {
	if c.Primary() != c.cfg.Replica {
		m := c.vote()
		m.To = c.Primary()
		c.send(&m)
	}
}

// leavers counts the replicas that are known to be in this view change.
func (c *Core) leavers() int { return bits.OnesCount32(c.election.leaving) }

// onStartViewChange joins a view change and, when enough others are in it,
// votes (§4.2 steps 1 and 2). A restarted replica first asks for the view.
func (c *Core) onStartViewChange(m *Message) {
	if !c.joins(m) {
		return
	}
	c.election.leaving |= 1 << m.From
	c.tryVote()
}

// joins follows a message of a view change into its view and reports whether
// this replica is in that view change. A sender that missed the start of the
// view is told by the primary. If the primary is gone again, those who still try
// to enter the view hear it as little as those who have: they count as such.
func (c *Core) joins(m *Message) bool {
	if c.status == StatusRecovering && !c.election.suspecting || c.doubt == DoubtAll {
		return false
	}
	if m.View > c.view {
		c.because(CauseOthersLeft)
		c.enterViewChange(m.View)
	}
	if m.View == c.view && c.status == StatusViewChange {
		return true
	}
	c.onSuspect(m)
	return false
}

// tryVote settles this replica's vote once enough others leave the view.
func (c *Core) tryVote() {
	others := (c.cfg.Replicas - 1) / 2
	if c.status != StatusViewChange || c.election.voted || c.leavers()-1 < others {
		return
	}
	c.election.voted = true
	if c.Primary() == c.cfg.Replica {
		own := c.vote()
		own.From, own.View, own.LogView, own.Boot = c.cfg.Replica, c.view, c.logView, c.cfg.Boot
		c.record(&own)
		return
	}
	c.sayVote()
}

// vote describes this replica's log above its commit point (§4.2 step 2): the
// ops it has. It never had what is above its head; it cannot tell up to Doubt,
// and about nothing at all while a checkpoint replaces its log (O-9). Silence
// about an op is no answer (design rule 5).
func (c *Core) vote() Message {
	m := Message{Kind: MessageDoViewChange, Op: c.log.head, Identity: c.log.headIdentity, Doubt: c.doubt, Rest: &Rest{Boots: c.boots()}}
	commit := min(c.commitMax, c.verified)
	if c.transferring() || c.log.head-commit > PipelineCeiling {
		m.Unknown = true
		return m
	}
	m.Commit = commit
	m.CommitIdentity, _ = c.log.identity(commit)
	m.Headers = c.log.headers(commit+1, c.log.head)
	return m
}

// onDoViewChange collects votes as the primary-elect (§4.2 step 3).
func (c *Core) onDoViewChange(m *Message) {
	if !m.Unknown && !m.chained() || m.LogView > m.View || !c.joins(m) || c.Primary() != c.cfg.Replica {
		return
	}
	c.election.leaving |= 1 << m.From
	c.tryVote()
	c.record(m)
}

// record keeps the first vote of each replica. One that could not tell gives way
// to one that can, and that of an earlier life to that of a later one.
func (c *Core) record(m *Message) {
	for i := range c.election.votes {
		if v := &c.election.votes[i]; v.From == m.From {
			if m.Boot <= v.Boot && (!v.Unknown || m.Unknown) {
				return
			}
			*v = *m
			c.tryMerge()
			return
		}
	}
	c.election.votes = append(c.election.votes, *m)
	c.tryMerge()
}

// tryMerge decides the log of the view and starts to install it (§4.2 step 3).
// log_view stays: it claims that this log is that of the view, which is true
// when all of it is on this disk.
func (c *Core) tryMerge() {
	if c.election.merged {
		return
	}
	var log mergedLog
	log, c.election.outcome = merge(c.quorums, alive(c.election.votes))
	if c.election.outcome != mergeReady {
		return
	}
	c.election.merged = true
	if log.nacked {
		c.nacked++
	}
	c.learnCommit(log.commit)
	c.aim(target{
		op: log.op, identity: log.identity, install: true,
		below: log.commit, belowIdentity: log.commitIdentity, items: itemsOf(log.headers),
	})
	c.advance()
}
