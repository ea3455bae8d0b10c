package vsr

// Timing is how long things take, in ticks of 10 ms in production. Zero means
// the default.
type Timing struct {
	HeartbeatTicks  int // between commit messages of a primary
	RetransmitTicks int // before an unacknowledged prepare is repeated; doubles up to 16 times
	ElectionTicks   int // of silence before a primary is suspected
	ViewChangeTicks int // in one view change before the next view is tried
	RepeatTicks     int // before a message of a view change is repeated
	ProbeTicks      int // between questions for the present view
	ProbeAttempts   int // unanswered ones before a restarted replica joins an election
	RepairTicks     int // before another source is asked for what is missing
	TransferRounds  int // of RepairTicks without progress before a transfer is given up
	// CommitTicks: a commit point that no later prepare carries is told by a heartbeat so
	// soon, for those who read from a backup. 0: with the next heartbeat.
	CommitTicks int
}

// Defaults of Timing.
var timingDefault = Timing{
	HeartbeatTicks: 50, RetransmitTicks: 25, ElectionTicks: 500, ViewChangeTicks: 500, RepeatTicks: 50,
	ProbeTicks: 100, ProbeAttempts: 5, RepairTicks: 100, TransferRounds: 5,
}

func (t Timing) complete() Timing {
	d := timingDefault
	for _, f := range []struct{ set, standard *int }{
		{&t.HeartbeatTicks, &d.HeartbeatTicks}, {&t.RetransmitTicks, &d.RetransmitTicks},
		{&t.ElectionTicks, &d.ElectionTicks}, {&t.ViewChangeTicks, &d.ViewChangeTicks},
		{&t.RepeatTicks, &d.RepeatTicks}, {&t.ProbeTicks, &d.ProbeTicks},
		{&t.ProbeAttempts, &d.ProbeAttempts}, {&t.RepairTicks, &d.RepairTicks},
		{&t.TransferRounds, &d.TransferRounds},
	} {
		if *f.set <= 0 {
			*f.set = *f.standard
		}
	}
	return t
}

// Election is ElectionTicks, or its default.
func (t Timing) Election() int { return t.complete().ElectionTicks }

// backoffMax bounds the doublings between repetitions of a prepare.
const backoffMax = 4

// patienceMax bounds the doublings of the time that a view gets to begin.
const patienceMax = 3

// clocks count ticks. Each is compared with its limit in Tick and nowhere else.
type clocks struct {
	silent     int // since the primary was heard; as primary: since a quorum was
	patience   int // limit of silent, with jitter
	behind     int // since due was the commit point, and not all of it applied
	due        Op
	beat       uint64 // of the newest heartbeat that came,
	beatView   View   // in the newest view of which one came
	said       uint64 // heartbeats of this replica, as primary of the view
	heartbeat  int    // since the last commit message
	told       Op     // commit point in the last one, or in a prepare since
	untold     int    // since the commit point passed it
	retransmit int    // until the oldest unacknowledged prepare is repeated
	backoff    int
	commit     Op  // commit point when retransmit was set
	status     int // in the present view change
	statusMax  int
	repeat     int // since a message of an election was repeated
	probe      int // until the next question for the view
	probes     int // unanswered ones
	recovering int // since this life began
	repair     int // since the last request for something missing
}

func (c *Core) jitter(n int) int {
	if c.cfg.Rand == nil || n <= 0 {
		return 0
	}
	return int(c.cfg.Rand.Uint64N(uint64(n) + 1))
}

// patience returns a limit of about so many ticks. When several views in a row
// came to nothing it may be the disks or the links that need longer, so later ones
// get more time.
func (c *Core) patience(ticks int) int {
	return ticks<<min(c.election.tries/2, patienceMax) + c.jitter(ticks/4)
}

// restartElectionClock gives the primary the full time again.
func (c *Core) restartElectionClock() {
	c.clocks.silent = 0
	c.clocks.patience = c.patience(c.timing.ElectionTicks)
	c.election.suspecting, c.election.cause = false, CauseNone
}

// patient reports whether views that came to nothing have given a primary more time than
// at first to be heard.
func (c *Core) patient() bool {
	return c.clocks.patience > c.timing.ElectionTicks+c.timing.ElectionTicks/4
}

// calmDown ends that: a primary is followed.
func (c *Core) calmDown() { c.clocks.patience = c.patience(c.timing.ElectionTicks) }

// followers counts the replicas that have the log of this primary's view, with itself.
func (c *Core) followers() int {
	n := 1
	for i := range c.peers {
		if uint8(i) != c.cfg.Replica && c.peers[i].installed {
			n++
		}
	}
	return n
}

// Tick passes one unit of logical time.
func (c *Core) Tick() {
	switch {
	case c.cfg.Replicas == 1:
		return
	case c.doze.left > 0:
		c.sleep(1)
		return
	}
	c.now++
	c.spare = Ready{} // an idle group keeps no room
	switch c.status {
	case StatusNormal:
		if c.leads() {
			c.tickPrimary()
		} else {
			c.tickBackup()
		}
	case StatusViewChange:
		c.tickViewChange()
	case StatusRecovering:
		c.tickRecovering()
	}
	c.tickSuspicion()
	c.tickRepair()
	c.tickTransfer()
	c.advance()
	c.fallAsleep()
}

// tickPrimary: heartbeats for those who follow, start_view for those who do not
// yet, and repetitions. A primary that hears no quorum falls silent, so that
// those who still hear it can replace it (one-way links). So does one whose own disk has
// not for long what is committed without it: its pipeline is full, and stays so.
func (c *Core) tickPrimary() {
	lately := c.lately(2 * c.timing.HeartbeatTicks)
	if !c.heard && c.hearsQuorum(max(lately, 1)) { // who follows may believe it from now on
		c.heard, c.clocks.heartbeat = true, c.timing.HeartbeatTicks
	}
	c.tickBehind()
	if c.hearsQuorum(lately) && c.clocks.behind < 2*c.timing.ElectionTicks {
		c.clocks.silent = 0
		c.election.suspecting, c.election.cause = false, CauseNone
	} else if c.clocks.silent++; c.clocks.silent >= c.clocks.patience {
		c.because(CauseNoQuorum)
		c.election.suspecting = true
	}
	c.clocks.heartbeat++
	switch owes := c.owesCommit(); {
	case c.election.suspecting:
	case c.clocks.heartbeat >= c.timing.HeartbeatTicks:
		c.clocks.heartbeat = 0
		c.sayHeartbeat(true)
	case owes:
		c.sayHeartbeat(false)
	}
	c.tickRetransmit()
}

// owesCommit counts for how long the backups have not been told of the commit point.
func (c *Core) owesCommit() bool {
	if c.timing.CommitTicks <= 0 || c.commitMax <= c.clocks.told {
		c.clocks.untold = 0
		return false
	}
	c.clocks.untold++
	return c.clocks.untold >= c.timing.CommitTicks
}

// lately is the tick so many ago.
func (c *Core) lately(ticks int) uint64 { return c.now - min(c.now, uint64(ticks)) }

// hearsQuorum: enough replicas have spoken in this view since a tick to commit.
func (c *Core) hearsQuorum(since uint64) bool {
	heard := 1
	for i := range c.peers {
		if uint8(i) != c.cfg.Replica && c.peers[i].heardAt >= since {
			heard++
		}
	}
	return heard >= c.quorums.Replication
}

// sayHeartbeat tells those who follow the commit point; what the view is, those who have
// not installed its log, unless only the commit point is owed. The primary of the first
// view of a group that is new to it may have been away while others went on to later ones:
// until a quorum has answered it, what it says counts as no life.
func (c *Core) sayHeartbeat(view bool) {
	if c.heard {
		c.clocks.said++
	}
	c.clocks.told = c.commitMax
	for i := range c.peers {
		switch {
		case uint8(i) == c.cfg.Replica:
		case c.peers[i].installed:
			c.send(&Message{Kind: MessageCommit, To: uint8(i), Op: c.log.head, Identity: c.log.headIdentity, Beat: c.clocks.said})
		case view:
			c.sendStartView(uint8(i), 0)
		}
	}
}

// tickRetransmit backs off while nothing commits and starts over when something
// does, with jitter so that groups do not fall into step.
func (c *Core) tickRetransmit() {
	if c.commitMax == c.log.head || c.clocks.commit != c.commitMax {
		c.clocks.commit, c.clocks.backoff = c.commitMax, 0
		c.clocks.retransmit = c.timing.RetransmitTicks
		return
	}
	if c.clocks.retransmit--; c.clocks.retransmit > 0 {
		return
	}
	c.clocks.backoff = min(c.clocks.backoff+1, backoffMax)
	next := c.timing.RetransmitTicks << c.clocks.backoff
	c.clocks.retransmit = next/2 + c.jitter(next/2)
	c.retransmit()
}

// tickBackup: a silent primary is suspected; if a newer view was seen, this
// replica is what is behind, and it asks instead. So does one that is to install
// the log of its view and has lost sight of it, and a replaced one in any case: it
// takes the next view only as an answer, and what it wants may be gone with this.
func (c *Core) tickBackup() {
	if !c.settled() && (c.target == nil || c.doubt == DoubtAll) && !c.transferring() {
		c.tickProbe()
	}
	c.tickBehind()
	c.clocks.silent++
	if c.clocks.silent < c.clocks.patience || c.doubt == DoubtAll {
		return
	}
	if c.election.observed > c.view && c.clocks.probes < c.timing.ProbeAttempts {
		c.tickProbe()
		return
	}
	c.suspect()
}

// tickBehind counts for how long this replica has not applied what it knew to be chosen.
func (c *Core) tickBehind() {
	c.clocks.behind++
	if c.log.base >= c.clocks.due {
		c.clocks.behind, c.clocks.due = 0, c.commitMax
	}
}

// tickViewChange repeats what was said, asks whether the view has long begun,
// and goes on to the next view if others are stuck in this one as well. Alone it
// stays: a replica that hears nobody must not run through the views, nor must one
// whose disk does not follow.
func (c *Core) tickViewChange() {
	if c.clocks.repeat++; c.clocks.repeat >= c.timing.RepeatTicks {
		c.clocks.repeat = 0
		c.sayViewChange()
	}
	c.tickProbe()
	if c.clocks.status++; c.clocks.status < c.clocks.statusMax {
		return
	}
	if c.leavers() >= c.quorums.ViewChange && !c.needsPersist() {
		c.because(CauseNotBegun)
		c.enterViewChange(c.view + 1)
		return
	}
	c.clocks.status = 0
}

// tickRecovering asks for the present view, often at first: the links may not be there
// yet. Where all have come back together nobody knows a running view, and they elect.
func (c *Core) tickRecovering() {
	nobody := c.clocks.probes >= c.timing.ProbeAttempts || c.nobodyLeads()
	c.clocks.recovering++
	if n := c.clocks.recovering; n >= hurryFrom && n < c.timing.ProbeTicks && n&(n-1) == 0 {
		q := c.question()
		c.broadcast(&q)
	}
	c.tickProbe()
	if nobody && c.doubt != DoubtAll {
		c.suspect()
	}
}

// hurryFrom is the tick of the second question of a life. The next ones come after twice
// as long each, until it is time for a probe.
const hurryFrom = 4

// tickSuspicion repeats a suspicion while it lasts.
func (c *Core) tickSuspicion() {
	if !c.election.suspecting || c.status == StatusViewChange {
		return
	}
	if c.clocks.repeat++; c.clocks.repeat >= c.timing.RepeatTicks {
		c.clocks.repeat = 0
		c.saySuspicion()
	}
}
