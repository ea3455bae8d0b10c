package sim

import (
	"errors"

	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
	"galgo/internal/shard"
	"galgo/internal/vsr"
	"galgo/internal/wal"
)

// checks holds what was seen of each replica against what it shows now.
type checks struct {
	w *world
	// seen is what each group of each node was last seen to be, in this life.
	seen []map[vsr.GroupID]shard.Status
	// shown is what others were told by a node, over all its lives: it must never
	// come back with less.
	shown []map[vsr.GroupID]vsr.State
	// durable is what its disk was last found to hold.
	durable []map[vsr.GroupID]vsr.State
	// acked is the last op of each group that it has acknowledged, and in which view.
	acked []map[vsr.GroupID]acknowledged
}

func newChecks(w *world) *checks {
	k := &checks{w: w}
	for range w.plan.replicas {
		k.seen = append(k.seen, map[vsr.GroupID]shard.Status{})
		k.shown = append(k.shown, map[vsr.GroupID]vsr.State{})
		k.durable = append(k.durable, map[vsr.GroupID]vsr.State{})
		k.acked = append(k.acked, map[vsr.GroupID]acknowledged{})
	}
	return k
}

// acknowledged is an op that a replica has told a primary it holds.
type acknowledged struct {
	view vsr.View
	op   vsr.Op
}

// anything reports whether there is anything to lose yet.
func (k *checks) anything() bool { return k.w.model.group(vsr.MetadataGroup).head() > 0 }

// started looks at what a node comes back with.
func (k *checks) started(n *node) {
	for i := range n.loops {
		for _, s := range n.engine.Statuses(i) {
			if was := k.shown[n.id][s.Group]; s.State.View < was.View || s.State.LogView < was.LogView {
				k.w.fail("amnesia", "node %d comes back with view %d, log_view %d of group %d; it has shown view %d, log_view %d",
					n.id, s.State.View, s.State.LogView, s.Group, was.View, was.LogView)
			}
			k.keeps(n, s)
			if applied := n.applied[s.Group]; applied != 0 && applied != s.CommitMin {
				k.w.fail("order", "node %d comes back with op %d of group %d applied, but commit_min %d", n.id, applied, s.Group, s.CommitMin)
			}
			n.applied[s.Group] = s.CommitMin
			k.wholeAlone(n, s)
		}
	}
	k.compareState(n)
}

// keeps: while a view lasts, its log only grows at a replica. So what it has acknowledged
// in the view that it comes back with is there.
func (k *checks) keeps(n *node, s shard.Status) {
	if was := k.acked[n.id][s.Group]; !n.rotten && s.State.View == was.view && s.Head < was.op {
		k.w.fail("held", "node %d comes back with op %d of group %d in view %d; it has acknowledged op %d there", n.id, s.Head, s.Group, was.view, was.op)
	}
}

// wholeAlone: the disk of a single node is its quorum. It comes back with all that
// was ever applied.
func (k *checks) wholeAlone(n *node, s shard.Status) {
	if k.w.plan.replicas > 1 {
		return
	}
	g := k.w.model.group(s.Group)
	if s.CommitMin < g.head() && g.volatile && n.lossy {
		k.w.model.forget(g, s.CommitMin)
	}
	if n.rotten {
		return
	}
	if head := g.head(); s.CommitMin < head {
		k.w.fail("durability", "node %d comes back with op %d of group %d, op %d was applied", n.id, s.CommitMin, s.Group, head)
	}
}

// turned looks at the groups of a loop after it ran.
func (k *checks) turned(n *node, loop int) {
	seen := k.seen[n.id]
	for _, s := range n.engine.Statuses(loop) {
		was, ok := seen[s.Group]
		seen[s.Group] = s
		if s.State.Doubt != 0 {
			n.doubting[s.Group] = true
		}
		if !ok {
			n.silences[s.Group] = silence{since: n.loops[loop].ticks}
		}
		if !ok || was == s {
			continue
		}
		if s.State.View < was.State.View || s.State.LogView < was.State.LogView || s.CommitMin < was.CommitMin || s.CommitMax < was.CommitMax {
			k.w.fail("monotone", "node %d group %d goes back: %s, was %s", n.id, s.Group, statusString(s), statusString(was))
		}
		if s.State.View > was.State.View {
			k.w.cover.ViewChanges++
		}
		if s.Head < was.Head {
			k.w.cover.Cuts++
		}
		k.w.cover.Truncations += s.Nacked - was.Nacked
		if s.CommitMin > n.applied[s.Group] { // without having been told op by op
			k.w.cover.Transfers++
			n.applied[s.Group] = s.CommitMin
		}
		if s.CommitMin != was.CommitMin && loop == 0 {
			k.compareState(n)
		}
	}
	k.heal(n)
}

// compareState holds the metadata of a node against the model's at the same op.
func (k *checks) compareState(n *node) {
	v := n.engine.View()
	op := v.Op()
	if op == 0 || op > uint64(len(k.w.model.results)) {
		return
	}
	k.w.cover.StatesCompared++
	if got, want := hashOf(v), k.w.model.results[op-1].hash; got != want {
		k.w.fail("state", "the metadata of node %d at op %d hashes to %x, the model's to %x", n.id, op, got, want)
	}
}

// heal ends the damage of a replaced node when it has all that it may have had, and would
// have it after a power cut.
func (k *checks) heal(n *node) {
	if !n.replaced || n.lacks() != "" || k.doubtful(n) {
		return
	}
	n.replaced, n.goals = false, nil
	k.w.cover.Healed++
	k.w.say("n%d is whole again", n.id)
}

// doubtful reports whether a power cut would leave a node in doubt of a group again.
func (k *checks) doubtful(n *node) bool {
	image := n.disk.Clone().PowerLoss(nil)
	for i := range n.loops {
		for _, s := range n.engine.Statuses(i) {
			if k.doubtfulOf(n, image, s.Group) {
				return true
			}
		}
	}
	return false
}

// doubtfulOf: a group of which there is no record is as it was made, with a doubt or
// without.
func (k *checks) doubtfulOf(n *node, image *memdisk.Disk, group vsr.GroupID) bool {
	s, err := stateRecord(image, logDirOf(group, k.w.plan.config.System.Shards), group)
	if errors.Is(err, errNoState) {
		return n.doubting[group]
	}
	return err != nil || s.Doubt != 0
}

// leaves looks at a frame on its way out. What it shows others of a view must be on
// the disk of its sender as a power cut at this very moment would leave it.
func (k *checks) leaves(n *node, m *vsr.Message) {
	if m.Kind < vsr.MessageSuspect || m.Kind > vsr.MessagePresentView {
		return
	}
	if m.Kind == vsr.MessageDoViewChange && !m.Unknown {
		if s, _ := n.status(m.Group); s.Transferring {
			k.w.fail("vote", "node %d takes a checkpoint and votes as if it could tell: %s", n.id, describe(m))
		}
	}
	if m.Kind == vsr.MessagePrepareOk {
		k.acknowledges(n, m)
	}
	if m.Kind == vsr.MessageStartView && m.View != firstView(m.Group, k.w.plan.replicas) { // that one is not announced when it begins
		k.w.model.group(m.Group).begins(m.View)
	}
	shown := k.shown[n.id][m.Group]
	k.shown[n.id][m.Group] = vsr.State{View: max(shown.View, m.View), LogView: max(shown.LogView, m.LogView)}
	if d := k.durable[n.id][m.Group]; m.View <= d.View && m.LogView <= d.LogView {
		return
	}
	k.w.cover.GateReads++
	image := n.disk.Clone().PowerLoss(nil)
	d, err := durableState(image, k.w.plan.config.System.Shards, k.w.plan.replicas, m.Group)
	if err != nil {
		k.w.fail("gate", "node %d sends %s, and a power cut now leaves no state of the group: %v", n.id, describe(m), err)
		return
	}
	k.durable[n.id][m.Group] = d
	if m.View > d.View || m.LogView > d.LogView {
		k.w.fail("gate", "node %d sends %s, and a power cut now leaves it with view %d, log_view %d", n.id, describe(m), d.View, d.LogView)
	}
}

func (k *checks) acknowledges(n *node, m *vsr.Message) {
	was, is := k.acked[n.id][m.Group], acknowledged{m.View, m.Op}
	if is.view == was.view {
		is.op = max(is.op, was.op)
	}
	k.acked[n.id][m.Group] = is
}

func (k *checks) ended(n *node) {
	clear(k.seen[n.id])
	clear(n.hears)
	clear(n.silences)
}

// replaced: an empty disk remembers nothing, and need not.
func (k *checks) replaced(n *node) {
	clear(k.shown[n.id])
	clear(k.durable[n.id])
	clear(k.acked[n.id])
}

// torn counts the torn tails that a start is about to find.
func (k *checks) torn(d disk.Disk) {
	for _, dir := range logDirs(k.w.plan.config.System.Shards) {
		_ = wal.Inspect(d, dir, nil, func(i wal.Item) error {
			if i.Torn {
				k.w.cover.TornTails++
			}
			return nil
		})
	}
}
