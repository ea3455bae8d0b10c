package shard

import (
	"fmt"

	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/vsr"
	"galgo/internal/wal"
	"galgo/internal/wire"
)

// Audit is a group of a node that was opened to be looked at, and is never driven.
type Audit struct {
	Group       vsr.GroupID
	Incarnation uint64
	State       vsr.State  // what the replica has promised
	Base        vsr.Header // of the op that the checkpoint covers; op 0: there is none
	Applied     vsr.Header // of the last op that is in the state

	// Machine and Checkpoint are of a partition: its state, and that which the state was
	// made of; nil if there was none.
	Machine    *partition.Machine
	Checkpoint *partition.Checkpoint

	log    *wal.Log
	rest   []*vsr.Prepare // above Applied, in order
	redo   func(*vsr.Prepare)
	encode func() []byte
}

// Audit describes the metadata group. Call it once.
func (m *Metadata) Audit() *Audit {
	a := &Audit{
		State: m.promise.State, Base: m.ckpt.head, log: m.log, rest: m.group.recovered,
		redo:   func(p *vsr.Prepare) { m.apply(p) },
		encode: func() []byte { return encodeMetadata(m.machine.View()) },
	}
	a.Applied = a.headOf(m.group.core().CommitMin())
	return a
}

func encodeMetadata(v *metadata.View) []byte { return append(v.EncodeState(), v.EncodeClients()...) }

// Audit describes the groups of the shard, in order. Call it once.
func (d *Data) Audit() ([]*Audit, error) {
	all := make([]*Audit, 0, len(d.sorted))
	for _, g := range d.sorted {
		a := &Audit{
			Group: g.spec.ID, Incarnation: g.spec.Incarnation, State: g.group.core().View(), Base: g.synced.head, Applied: g.head,
			Machine: g.machine, log: d.log, rest: g.group.recovered,
			redo:   func(p *vsr.Prepare) { d.apply(g, p) },
			encode: func() []byte { return g.machine.State().Append(nil) },
		}
		if len(g.synced.blob) > 0 {
			var err error
			if a.Checkpoint, err = partition.DecodeCheckpoint(g.synced.blob); err != nil {
				return nil, fmt.Errorf("group %d: %w", g.spec.ID, err)
			}
		}
		all = append(all, a)
	}
	return all, nil
}

// headOf finds the header of an op at or above the checkpoint; only op and identity of
// one that cannot be read any more.
func (a *Audit) headOf(op vsr.Op) vsr.Header {
	if op == a.Base.Op {
		return a.Base
	}
	h, err := a.log.Header(a.Group, op)
	if err != nil {
		h.Op = op
	}
	return h
}

// First is the lowest op whose identity is known.
func (a *Audit) First() vsr.Op {
	first := a.log.First(a.Group)
	if a.Base.Op > 0 {
		first = min(first, a.Base.Op)
	}
	return first
}

// Head is the last op of the log, committed or not.
func (a *Audit) Head() vsr.Op {
	last, _ := a.log.Last(a.Group)
	return max(last, a.Base.Op)
}

// Identity is that of an op from First to Head.
func (a *Audit) Identity(op vsr.Op) (vsr.Identity, bool) {
	if op == a.Base.Op && op > 0 {
		return a.Base.Identity, true
	}
	return a.log.Identity(a.Group, op)
}

// Advance applies the next op of the log, which somebody else knows to be committed under
// this identity; false if the log does not hold it.
func (a *Audit) Advance(op vsr.Op, identity vsr.Identity) (bool, error) {
	if len(a.rest) == 0 || a.rest[0].Op != op || a.rest[0].Identity != identity {
		return false, nil
	}
	p := a.rest[0]
	a.rest = a.rest[1:]
	if err := redo(p, a.redo); err != nil {
		return false, fmt.Errorf("%w: group %d op %d, operation %d: %w", ErrOperationUnknown, a.Group, op, p.Operation, err)
	}
	a.Applied = p.Header
	return true, nil
}

// Encode gives the state in the form in which it is equal on all replicas at equal op.
func (a *Audit) Encode() []byte { return a.encode() }

// SpecOf says what the metadata knows of a group, and the options of its topic; false if
// it has none of that id. How it is synced, and what a disk before this one may have
// promised in it, is for the caller to add.
func SpecOf(v *metadata.View, group uint64) (GroupSpec, *wire.TopicOptions, bool) {
	p, ok := v.PartitionOf(group)
	if !ok {
		return GroupSpec{}, nil, false
	}
	t, ok := v.TopicOf(p)
	if !ok {
		return GroupSpec{}, nil, false
	}
	o := &t.Options
	return GroupSpec{
		ID: vsr.GroupID(p.Group), Incarnation: p.CreatedRevision, Stream: p.Stream, Topic: p.Topic, Partition: p.ID,
		SegmentSize: o.SegmentSize, MessagesToSave: o.MessagesRequiredToSave, BytesToSave: o.SizeOfMessagesRequiredToSave,
		Preallocate: o.PreallocateSegments, PurgeGeneration: p.PurgeGeneration, Deleted: partition.Bound{Below: p.DeletedBelow, Until: p.DeletedUntil},
	}, o, true
}
