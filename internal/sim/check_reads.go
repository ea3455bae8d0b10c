package sim

import (
	"cmp"
	"slices"

	"galgo/internal/shard"
	"galgo/internal/vsr"
)

// reads looks at what a node answers a read from: everything of the group up to op.
// What a node has once shown it never takes back, also not over a restart of its disk,
// and what it shows is not of the past for longer than an election may take.
func (k *checks) reads(n *node, group vsr.GroupID, op vsr.Op) {
	if was := n.served[group]; op < was {
		k.w.fail("reads", "node %d answers from op %d of group %d; it has answered from op %d before", n.id, op, group, was)
	}
	n.served[group] = op
	k.w.cover.Reads++
	k.ofItsView(n, group, op)
	k.afterSilence(n, group, op)
	if patience := k.staleness(); patience > 0 {
		if due := k.w.model.group(group).answeredBefore(k.w.now - patience); op < due {
			k.w.fail("reads", "node %d answers from op %d of group %d; op %d was answered to a client more than %s s ago", n.id, op, group, due, clock(patience))
		}
		k.w.cover.ReadsTimed++
	}
}

// ofItsView: what was answered before a view began is in the log that it began with, so
// it is in all that anybody of this view, or of a later one, reads. And who has heard
// nothing of a group since its start knows no view: a group that seems new may be old.
func (k *checks) ofItsView(n *node, group vsr.GroupID, op vsr.Op) {
	if k.w.plan.replicas == 1 {
		return
	}
	if !n.hears[group] {
		k.w.fail("reads", "node %d answers from op %d of group %d, and nobody has told it anything of the group in this life", n.id, op, group)
	}
	s, _ := n.status(group)
	for _, b := range k.w.model.group(group).beginnings {
		if b.view <= s.State.View && op < b.answered {
			k.w.fail("reads", "node %d answers from op %d of group %d in view %d; op %d was answered before view %d began", n.id, op, group, s.State.View, b.answered, b.view)
		}
	}
}

// silence is how long a backup has not heard who leads a group, in ticks of its own: so no
// clock decides, and nothing that makes nodes or frames late hides anything.
type silence struct {
	since int // tick of its loop
	view  vsr.View
	beat  uint64 // the newest heartbeat of that view
	owed  vsr.Op // the commit point that it was told when it heard its primary again
}

// silenceSlack is for ticks between the arrival of a message and the turn that takes it.
const silenceSlack = 2

func (k *checks) silent(n *node, group vsr.GroupID) bool {
	ticks := n.loops[n.loopOf(group)].ticks - n.silences[group].since
	return ticks > k.w.plan.timing.ElectionTicks+silenceSlack
}

// hears takes note of what a node is told. Only who leads its view can end a silence, with
// news; what was chosen meanwhile is what the first heartbeat says.
func (k *checks) hears(n *node, m *vsr.Message) {
	n.hears[m.Group] = true
	s, ok := n.status(m.Group)
	q := n.silences[m.Group]
	switch {
	case !ok:
		return
	case m.Kind == vsr.MessageStartView && !(m.View == s.State.View && follows(&s)): // else it is no news
	case m.Kind == vsr.MessageCommit && m.View == s.State.View && (q.view != m.View || m.Beat > q.beat):
		q.view, q.beat = m.View, m.Beat
		if s.Status == vsr.StatusNormal && k.silent(n, m.Group) {
			q.owed = max(q.owed, m.Commit)
			k.w.cover.Silences++
		}
	default:
		return
	}
	q.since = n.loops[n.loopOf(m.Group)].ticks
	n.silences[m.Group] = q
}

// follows: the log is that of a view that runs here.
func follows(s *shard.Status) bool {
	return s.Status == vsr.StatusNormal && s.State.LogView == s.State.View && s.State.Doubt == 0
}

// afterSilence: a backup that has not heard its primary for an election timeout reads
// nothing, and after that nothing of before it was told what others had done.
func (k *checks) afterSilence(n *node, group vsr.GroupID, op vsr.Op) {
	s, _ := n.status(group)
	if k.w.plan.replicas == 1 || s.Leader == n.id {
		return
	}
	if k.silent(n, group) {
		k.w.fail("reads", "node %d answers from op %d of group %d, and has not heard its primary for an election timeout", n.id, op, group)
	}
	if owed := n.silences[group].owed; op < owed {
		k.w.fail("reads", "node %d answers from op %d of group %d; when it heard its primary again, it was told of op %d", n.id, op, group, owed)
	}
}

// beginning is what had been answered of a group when a view of it began.
type beginning struct {
	view     vsr.View
	answered vsr.Op
}

// begins takes note that a view of the group is announced. What was answered before an
// earlier view was answered before this one, too. A view may begin when a later one has
// begun already, from votes that were long on their way: what was answered since is of the
// later one, perhaps, and not in its log.
func (g *groupModel) begins(view vsr.View) {
	i, known := slices.BinarySearchFunc(g.beginnings, view, func(b beginning, v vsr.View) int { return cmp.Compare(b.view, v) })
	if known {
		return
	}
	answered := g.acked
	for _, later := range g.beginnings[i:] {
		answered = min(answered, later.answered)
	}
	g.beginnings = slices.Insert(g.beginnings, i, beginning{view, answered})
}

// staleness is how far behind an answer may be, in µs, where nothing makes nodes and
// frames late: a primary that nobody follows goes on for an election timeout, and who
// hears it for one more. The timeout grows while elections come to nothing, eightfold
// at most. 0: nobody can tell.
func (k *checks) staleness() int64 {
	p := &k.w.plan
	for _, f := range []fault{faultPause, faultSlow, faultDelay, faultEcho} {
		if p.faults[f] {
			return 0
		}
	}
	ticks := 2*p.timing.HeartbeatTicks + 11*p.timing.ElectionTicks + 10
	return int64(ticks)*(10*millisecond+p.nodes.drift) + second
}

// timedOp is an op that was answered, and when.
type timedOp struct {
	op vsr.Op
	at int64
}

// answered takes note that a client was told that op is done.
func (g *groupModel) answered(op vsr.Op, now int64) {
	if op > g.acked {
		g.acked = op
		g.answers = append(g.answers, timedOp{op, now})
	}
}

// answeredBefore returns the highest op that was answered up to a time.
func (g *groupModel) answeredBefore(then int64) (op vsr.Op) {
	for len(g.answers) > 0 && g.answers[0].at <= then {
		g.due = g.answers[0].op
		g.answers = g.answers[1:]
	}
	return g.due
}
