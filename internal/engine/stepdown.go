package engine

import (
	"errors"
	"slices"
	"sync/atomic"

	"galgo/internal/metadata"
	"galgo/internal/shard"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// Groups implements edge.Backend.
func (e *Engine) Groups(done func(wire.NodeGroups)) {
	view := e.View()
	found := make([][]wire.GroupStatus, 1+len(e.data))
	finish := countdown(len(found), func() { done(wire.NodeGroups{Replica: e.replica, Groups: slices.Concat(found...)}) })
	e.everywhere(func(i int) {
		for _, s := range e.Statuses(i) {
			found[i] = append(found[i], groupStatus(view, s))
		}
		finish()
	}, finish)
}

// everywhere runs f on each loop with its number, or lost for one that has ended.
func (e *Engine) everywhere(f func(loop int), lost func()) {
	if !e.metaLoop.Post(func() { f(0) }) {
		lost()
	}
	for i, l := range e.dataLoops {
		if !l.Post(func() { f(i + 1) }) {
			lost()
		}
	}
}

func groupStatus(v *metadata.View, s shard.Status) wire.GroupStatus {
	g := wire.GroupStatus{
		Group: uint64(s.Group), View: uint32(s.State.View), LogView: uint32(s.State.LogView), Head: uint64(s.Head),
		CommitMin: uint64(s.CommitMin), CommitMax: uint64(s.CommitMax), State: wire.GroupState(s.Status), Leader: s.Leader,
	}
	if p, ok := v.PartitionOf(g.Group); ok {
		g.Stream, g.Topic, g.Partition = p.Stream, p.Topic, p.ID
	}
	for flag, set := range map[wire.GroupFlags]bool{
		wire.GroupPrimary: s.Primary, wire.GroupLed: s.Led, wire.GroupReadable: s.Readable, wire.GroupTransferring: s.Transferring,
	} {
		if set {
			g.Flags |= flag
		}
	}
	return g
}

// StepDown implements edge.Backend.
func (e *Engine) StepDown(req wire.StepDownRequest, done func(wire.StepDownReply)) {
	found := make([][]wire.SteppedDown, 1+len(e.data))
	finish := countdown(len(found), func() { done(wire.StepDownReply{Groups: slices.Concat(found...)}) })
	e.everywhere(func(i int) {
		found[i] = e.stepDown(i, req)
		finish()
	}, finish)
}

// stepDown gives up what a loop has of the groups that are asked for.
func (e *Engine) stepDown(loop int, req wire.StepDownRequest) (found []wire.SteppedDown) {
	if loop == 0 {
		if req.All && e.meta.Status().Primary || !req.All && vsr.GroupID(req.Group) == vsr.MetadataGroup {
			to, err := e.meta.StepDown()
			found = append(found, steppedDown(vsr.MetadataGroup, to, err))
		}
		return found
	}
	d := e.data[loop-1]
	ids := []vsr.GroupID{vsr.GroupID(req.Group)}
	switch {
	case req.All:
		ids = d.Led()
	case ids[0] == vsr.MetadataGroup || e.shardOf(req.Group) != loop-1:
		return nil
	}
	for _, id := range ids {
		to, err := d.StepDown(id)
		found = append(found, steppedDown(id, to, err))
	}
	return found
}

func steppedDown(id vsr.GroupID, to uint8, err error) wire.SteppedDown {
	s := wire.SteppedDown{Group: uint64(id), Successor: to}
	switch {
	case err == nil:
	case errors.Is(err, vsr.ErrNoSuccessor):
		s.Outcome = wire.StepDownNoSuccessor
	case errors.Is(err, shard.ErrNoGroup):
		s.Outcome = wire.StepDownUnknown
	default:
		s.Outcome = wire.StepDownNotPrimary
	}
	return s
}

// Balance gives up to most partition groups, which this node leads and which belong
// elsewhere, back to their homes: see shard.Data.GoHome.
func (e *Engine) Balance(settled uint64, most int) {
	var taken atomic.Int64
	take := func() bool { return taken.Add(1) <= int64(most) }
	for i, d := range e.data {
		e.dataLoops[i].Post(func() { d.GoHome(settled, take) })
	}
}
