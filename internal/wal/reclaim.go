package wal

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"galgo/internal/vsr"
)

// carryBatch bounds the records in one write of Reclaim.
const carryBatch = 1024

// Reclaim frees the files below the lowest op that is not released: up to
// FilesSpare of them become spares, the rest are removed. What groups still need
// from them is first written anew. It does nothing while the oldest file is
// needed.
//
// An error that is not ErrPoisoned freed nothing, and Reclaim can be tried again.
func (l *Log) Reclaim() error {
	if err := l.poisoned(); err != nil {
		return err
	}
	low := l.lowest()
	if l.oldest() >= low {
		return nil
	}
	recs, forgets, err := l.carry(low)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(recs, carryBatch) {
		if err := l.write(chunk, false); err != nil {
			return err
		}
	}
	if err := l.Sync(); err != nil {
		return err
	}
	// The mark comes after a sync of its own, so that it witnesses what was
	// carried: its only other copy is about to go. If it cannot be written, a later
	// one may say the same: nothing below low is needed from here on.
	l.low = low
	if err := l.writeMark(); err != nil {
		return err
	}
	l.dropForgot(forgets)
	for l.oldest() < low {
		if err := l.freeOldest(); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) oldest() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.files[0].sequence
}

// lowest returns the first file with an op that is not released, or else the
// current one.
func (l *Log) lowest() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	low := l.files[len(l.files)-1].sequence
	for _, g := range l.groups {
		if len(g.entries) > 0 {
			low = min(low, g.entries[0].at.file)
		}
	}
	return low
}

// PinnedBy returns the groups, sorted, that keep the oldest file from being
// freed; none if it is the current one or can be freed.
func (l *Log) PinnedBy() []vsr.GroupID {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var ids []vsr.GroupID
	if len(l.files) < 2 {
		return nil
	}
	for id, g := range l.groups {
		if len(g.entries) > 0 && g.entries[0].at.file == l.files[0].sequence {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// carried is what a group still needs from the files that are to be freed.
type carried struct {
	group vsr.GroupID
	op    vsr.Op // of the floor; 0 if none is needed
	floor entry
	state where // file 0 if none is needed
}

// carry makes the records that have to be written before the files below low may
// go, in the order of their groups: the log's bytes depend on nothing else. The
// first forgets of them are KindForget.
func (l *Log) carry(low uint64) (recs []Record, forgets int, err error) {
	needs := l.needs(low)
	l.mu.RLock()
	for _, id := range l.forgot {
		recs = append(recs, Record{Kind: KindForget, Group: id})
	}
	l.mu.RUnlock()
	forgets = len(recs)
	for _, n := range needs {
		if n.op > 0 {
			h, err := l.floorHeader(n)
			if err != nil {
				return nil, 0, err
			}
			recs = append(recs, Record{Kind: KindFloor, Group: n.group, Header: h})
		}
		if n.state.file > 0 {
			state, err := l.readState(n)
			if err != nil {
				return nil, 0, err
			}
			recs = append(recs, Record{Kind: KindState, Group: n.group, State: state})
		}
	}
	return recs, forgets, nil
}

// needs lists what has to be carried, by group. It reads nothing, so that the
// index is not locked for long.
func (l *Log) needs(low uint64) []carried {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var all []carried
	for _, id := range slices.Sorted(maps.Keys(l.groups)) {
		g := l.groups[id]
		n := carried{group: id}
		if g.needsFloor(low) {
			n.op, n.floor = g.base, entry{g.baseID, g.baseAt}
		}
		if g.state.file < low {
			n.state = g.state
		}
		if n.op > 0 || n.state.file > 0 {
			all = append(all, n)
		}
	}
	return all
}

// needsFloor reports whether what is left of the group would begin in the middle
// with nothing that says why. A floor below the base does not: what lies between
// them may be gone.
func (g *group) needsFloor(low uint64) bool {
	return g.base > 0 && g.bornFile < low && (g.floorEntry.at.file < low || g.floorOp != g.base)
}

func (l *Log) floorHeader(n carried) (*vsr.Header, error) {
	f := l.fileOf(n.floor.at)
	p, err := l.readAt(f, n.floor.at, true)
	if err == nil && p.Identity != n.floor.id {
		err = fmt.Errorf("%w: op %d is %v, want %v", errPayload, p.Op, p.Identity, n.floor.id)
	}
	if err != nil {
		return nil, readError(f, n.floor.at, n.group, n.op, err)
	}
	return &p.Header, nil
}

func (l *Log) readState(n carried) ([]byte, error) {
	f := l.fileOf(n.state)
	r, b, err := readFrame(f, n.state, n.state.size)
	if err == nil && (r.kind != KindState || r.group != n.group) {
		err = fmt.Errorf("%w: %v of group %d, want the state of group %d", errPayload, r.kind, r.group, n.group)
	}
	if err != nil {
		return nil, readError(f, n.state, n.group, 0, err)
	}
	return b[frameSize:], nil
}

// dropForgot lets go of the first n groups to forget: the log now says so.
func (l *Log) dropForgot(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgot = slices.Delete(l.forgot, 0, n)
}

// freeOldest recycles or removes the first file. Names go one at a time, each
// durably, so that a crash never leaves a gap.
func (l *Log) freeOldest() error {
	l.mu.Lock()
	f := l.files[0]
	l.files = l.files[1:]
	l.mu.Unlock()
	f.readers.Lock() // waits for readers; there are no new ones
	defer f.readers.Unlock()
	if l.spareCount() < l.o.FilesSpare && f.size == l.o.FileSize {
		return l.recycle(f)
	}
	err := errors.Join(f.f.Close(), l.d.Remove(f.name))
	if err == nil {
		err = l.d.SyncDir(l.dir)
	}
	if err != nil {
		return l.poison(err)
	}
	return nil
}

// recycle makes a freed file the last spare. Its old records stay in it, under a
// sequence number that no longer is its own.
func (l *Log) recycle(f *file) error {
	l.spareMu.Lock()
	defer l.spareMu.Unlock()
	temp := l.fileName(l.nextSequence, tempSuffix)
	raw, err := l.demote(f, temp)
	if err != nil {
		return l.poison(err)
	}
	s, err := l.adopt(raw, temp, l.nextSequence, f.size)
	if err != nil {
		return err
	}
	l.spares = append(l.spares, s)
	l.nextSequence++
	return nil
}
