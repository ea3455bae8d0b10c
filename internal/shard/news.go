package shard

import "galgo/internal/vsr"

const (
	// newsMax bounds the records of views, repairs and transfers of a loop in newsTicks:
	// a node that goes changes the view of every group.
	newsMax   = 20
	newsTicks = 100
	// repairMin is how many missing ops are worth a record: a few come again by themselves.
	repairMin = 32
)

// telling bounds how much the groups of a loop tell.
type telling struct{ said, left, ticks int }

func (t *telling) may() bool {
	if t.said >= newsMax {
		t.left++
		return false
	}
	t.said++
	return true
}

// tick passes time; what was left out is counted in one record.
func (t *telling) tick(note func(string, ...any)) {
	if t.ticks++; t.ticks < newsTicks {
		return
	}
	if t.left > 0 {
		note("more changes of views, repairs and transfers than are told one by one", "left out", t.left)
	}
	*t = telling{}
}

// news tells people what becomes of a group's view, and why.
type news struct {
	note func(string, ...any)
	rate *telling

	view         vsr.View // the last that was told
	settled      bool     // that it was followed was told
	repairing    bool
	transferring bool
}

// from is the view that needs no telling: the replica was there when it stopped.
func (n *news) from(s vsr.State) { n.view, n.settled = s.View, s.View == s.LogView }

// tell compares the core with what was told last.
func (n *news) tell(id vsr.GroupID, c *vsr.Core) {
	s := c.View()
	if s.View != n.view {
		n.say("a view has ended", "group", id, "view", n.view, "next", s.View, "its primary", c.Primary(), "why", n.why(c))
		n.view, n.settled = s.View, false
	}
	if settled := s.LogView == s.View && c.Status() == vsr.StatusNormal; settled && !n.settled {
		n.settled = true
		n.say("a view has begun here", "group", id, "view", s.View, "primary", c.Primary(), "leads", c.IsPrimary(), "head", c.Head(), "applied", c.CommitMin())
	}
	n.tellRepair(id, c)
}

func (n *news) why(c *vsr.Core) string {
	if c.Cause() == vsr.CauseNone {
		return "it runs already, as another replica says"
	}
	return c.Cause().String()
}

func (n *news) tellRepair(id vsr.GroupID, c *vsr.Core) {
	if now := c.Transferring(); now != n.transferring {
		n.transferring = now
		if now {
			n.say("a checkpoint is taken from another replica: the others have freed the log that is missing here", "group", id, "head", c.Head(), "known to be committed", c.CommitMax())
		} else {
			n.say("the transfer of a checkpoint has ended", "group", id, "head", c.Head(), "applied", c.CommitMin())
		}
	}
	switch wants := c.Wants(); {
	case wants >= repairMin && !n.repairing:
		n.repairing = true
		n.say("ops of the log are missing here and asked for", "group", id, "missing", wants, "head", c.Head())
	case wants == 0 && n.repairing:
		n.repairing = false
		n.say("the missing ops have come", "group", id, "head", c.Head())
	}
}

func (n *news) say(msg string, args ...any) {
	if n.rate.may() {
		n.note(msg, args...)
	}
}
