package shard

import (
	"errors"
	"fmt"

	"galgo/internal/disk"
	"galgo/internal/metadata"
	"galgo/internal/snapshot"
	"galgo/internal/superblock"
	"galgo/internal/vsr"
)

// A snapshot of the metadata fits into a file, with room for what else is in it.
const _ = uint(snapshot.SizeMax - 1<<20 - metadata.SnapshotMax)

// snapshotsKept is the number of checkpoint generations left on disk.
const snapshotsKept = 2

// Backoff of a checkpoint that failed, in ticks; and the number of failures in a
// row after which the superblock counts as wedged and the node stops. A full disk is
// no such failure: the log does not grow on it either, what is there can be read, and
// it goes on when there is room.
const (
	checkpointRetryTicksMax = 100
	checkpointFailuresMax   = 120
)

// setbacks counts the failures of a checkpoint since the last one that succeeded.
type setbacks struct {
	failures int // of all kinds
	faults   int // but for want of room
	pause    int // ticks until the next attempt
}

// failed takes note of a failure and reports whether to give up.
func (s *setbacks) failed(err error) (wedged bool) {
	s.failures++
	s.pause = min(1<<min(s.failures, 7), checkpointRetryTicksMax)
	if !errors.Is(err, disk.ErrNoSpace) {
		s.faults++
	}
	return s.faults >= checkpointFailuresMax
}

func (s *setbacks) tick() {
	if s.pause > 0 {
		s.pause--
	}
}

// metadataCheckpoint keeps the state of the machine in a file so that the log
// below it can go. Three phases in one order (storage.md §6.7): the snapshot is
// durable; the superblock names it; the log's prefix is released. A crash or a
// failure between two of them leaves the log longer than it need be and nothing
// else. Commits go on meanwhile: the view that is encoded never changes.
type metadataCheckpoint struct {
	head vsr.Header // of the last applied op: the commit point

	// written is the last snapshot that is durable, paired or not. A sealed one is not
	// written again: its bytes, and with them its checksum, would be others than those
	// that a superblock whose write has failed may name.
	written writtenSnapshot

	op      vsr.Op // of the last complete checkpoint
	bytes   int64  // of log since then
	running bool
	setbacks
}

type writtenSnapshot struct {
	op  vsr.Op
	sum [16]byte
}

func (k *metadataCheckpoint) note(p *vsr.Prepare) {
	k.head = p.Header
	k.bytes += int64(len(p.Body)) + vsr.HeaderSize
}

// maybeCheckpoint starts one if it is due by ops or by bytes.
func (m *Metadata) maybeCheckpoint() {
	k := &m.ckpt
	ops := uint64(m.group.core().CommitMin() - k.op)
	due := ops > 0 && (ops+m.cfg.CheckpointMargin >= m.cfg.CheckpointSlots || k.bytes >= m.cfg.CheckpointBytes ||
		m.feed.full() || m.feed.tight && k.bytes > m.cfg.WALFileSize)
	if due && !k.running && k.pause == 0 {
		m.Checkpoint(func(error) {})
	}
}

// Checkpoint takes one now, unless one is under way, or one of a peer, or nothing has
// changed.
// done is called on the loop.
func (m *Metadata) Checkpoint(done func(error)) {
	k := &m.ckpt
	if k.running || m.taking.installing || m.group.core().CommitMin() == k.op {
		done(nil)
		return
	}
	k.running = true
	head, view, bytes := k.head, m.machine.View(), k.bytes
	if k.written.op == head.Op {
		m.pair(head, k.written.sum, bytes, done)
		return
	}
	var sum [16]byte
	m.cfg.Executor.Go(LaneCheckpoint, func() (err error) {
		sum, err = writeMetadataSnapshot(m.cfg, head, view)
		return err
	}, func(err error) {
		if err != nil {
			m.checkpointDone(fmt.Errorf("metadata checkpoint at op %d: %w", head.Op, err), done)
			return
		}
		if m.cfg.Vault != nil {
			k.written = writtenSnapshot{head.Op, sum}
		}
		m.pair(head, sum, bytes, done)
	})
}

// pair is the second phase: the superblock names the snapshot.
func (m *Metadata) pair(head vsr.Header, sum [16]byte, bytes int64, done func(error)) {
	k, commit := &m.ckpt, uint64(m.group.core().CommitMin())
	m.super.update(func(s *superblock.State) {
		s.CommitMax = max(s.CommitMax, commit)
		s.CheckpointOp, s.CheckpointSum = uint64(head.Op), sum
	}, func(err error) {
		if err != nil {
			m.checkpointDone(fmt.Errorf("metadata checkpoint at op %d: superblock: %w", head.Op, err), done)
			return
		}
		k.op, k.bytes = head.Op, k.bytes-bytes
		m.group.core().CheckpointDone(head.Op, head.Identity)
		m.release(head.Op, done)
	})
}

// release is the third phase: the log below the checkpoint may go.
func (m *Metadata) release(op vsr.Op, done func(error)) {
	m.log.Release(vsr.MetadataGroup, op)
	m.feed.reclaim(func(err error) {
		if err != nil {
			m.checkpointDone(fmt.Errorf("metadata checkpoint at op %d: log: %w", op, err), done)
			return
		}
		m.cfg.Executor.Go(LaneCheckpoint, func() error { return pruneMetadataSnapshots(m.cfg) }, func(err error) {
			m.checkpointDone(err, done)
		})
	})
}

func (m *Metadata) checkpointDone(err error, done func(error)) {
	k := &m.ckpt
	k.running = false
	if err == nil {
		k.setbacks = setbacks{}
		done(nil)
		return
	}
	wedged := k.failed(err)
	if rare(k.failures) {
		m.cfg.Note("checkpoint failed; the log grows until one succeeds", "attempt", k.failures, "err", err)
	}
	if wedged {
		m.cfg.Fail(fmt.Errorf("%w: %w", ErrCheckpointWedged, err))
	}
	done(err)
}

// rare reports whether the n-th failure in a row is worth a line in the log: the
// first, and then ever fewer.
func rare(n int) bool { return n&(n-1) == 0 }

// Sections of a metadata snapshot.
const (
	sectionHead    = 1 // the header of the op that the snapshot covers
	sectionState   = 2
	sectionClients = 3
)

const sectionVersion = 1
