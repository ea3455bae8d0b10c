package shard

import (
	"errors"
	"fmt"

	"galgo/internal/metadata"
	"galgo/internal/snapshot"
	"galgo/internal/superblock"
	"galgo/internal/vsr"
	"galgo/internal/wal"
)

// metadataStagingDir is where a snapshot from a peer is gathered.
const metadataStagingDir = "metadata/transfer"

// taking is a snapshot of a peer that is being installed. Its order: what was gathered
// is sealed; the log begins anew behind it; it gets the name of a snapshot; the
// superblock names it. From the second step on it can only go forward: a start in
// between finds where the log begins, and finishes (finishTaking).
type taking struct {
	installing bool
	ready      bool // to begin, once no checkpoint is under way
	offer      vsr.Offer
	reset      bool

	machine *metadata.Machine
	head    vsr.Header
	sum     [16]byte
}

func (m *Metadata) newCourier() courier {
	return courier{
		core: func() *vsr.Core { return m.group.core }, touch: m.group.touch, gone: func() bool { return false },
		exec: m.cfg.Executor, disk: m.cfg.Disk, place: stagingOf(m.cfg.Disk, metadataStagingDir, vsr.MetadataGroup), note: m.cfg.Note,
		later: m.later.add, newest: m.newestSnapshot, install: m.take,
	}
}

// newestSnapshot finds what a peer can be given, making one if there is none above op.
func (m *Metadata) newestSnapshot(above vsr.Op, done func(vsr.Header, parts)) {
	checkpoint := m.Checkpoint
	if m.ckpt.op > above {
		checkpoint = func(done func(error)) { done(nil) } // a new one would be another offer
	}
	checkpoint(func(error) {
		var head vsr.Header
		var found parts
		m.cfg.Executor.Go(LaneCheckpoint, func() error {
			generations, err := snapshotsOf(m.cfg.Disk).List()
			if err != nil || len(generations) == 0 {
				return err
			}
			s, err := snapshotsOf(m.cfg.Disk).Read(generations[0].Number)
			if err != nil {
				return err
			}
			if head, err = snapshotHead(s); err == nil {
				found = parts{{name: generations[0].Name, size: generations[0].Size}}
			}
			return err
		}, func(err error) {
			if err != nil {
				m.cfg.Note("no snapshot for a peer", "err", err)
			}
			done(head, found)
		})
	})
}

// take installs what was gathered, as soon as no checkpoint of its own is under way.
func (m *Metadata) take(o vsr.Offer, reset bool) {
	m.taking = taking{installing: true, ready: true, offer: o, reset: reset}
	m.install()
}

func (m *Metadata) install() {
	k := &m.taking
	if !k.ready || m.ckpt.running {
		return
	}
	k.ready = false
	m.courier.run(func() error {
		if k.offer.Size > snapshot.SizeMax {
			return fmt.Errorf("%w: %d bytes", errStaged, k.offer.Size)
		}
		b, err := m.courier.place.bytes(k.offer)
		if err != nil {
			return err
		}
		s, err := snapshot.Decode(m.courier.place.partName(), b)
		if err != nil {
			return err
		}
		if err := s.CheckOwner(m.cfg.Cluster, uint64(vsr.MetadataGroup)); err != nil {
			return err
		}
		k.sum = s.Sum
		k.machine, k.head, err = decodeMetadataSnapshot(s)
		if err == nil && !covers(&k.head, k.offer) {
			err = fmt.Errorf("%w: it covers op %d, %v", errStaged, k.head.Op, k.head.Identity)
		}
		return err
	}, func(err error) {
		switch {
		case err != nil:
			o := k.offer
			m.taking = taking{}
			m.courier.refuse(o, err)
		case k.reset:
			m.feed.append(wal.Record{Kind: wal.KindReset, Group: vsr.MetadataGroup, Header: &k.head}, true, m.nameTaken)
		default:
			m.nameTaken()
		}
	})
}

// nameTaken makes what was gathered a snapshot like any other.
func (m *Metadata) nameTaken() {
	k := &m.taking
	m.courier.run(func() error { return nameStaged(m.cfg, m.courier.place, k.offer) }, func(err error) {
		switch {
		case errors.Is(err, errNameUnsynced):
			m.cfg.Fail(err)
		case err != nil:
			m.courier.again("the snapshot from a peer did not get its name", err, m.nameTaken)
		default:
			m.pairTaken()
		}
	})
}

// errNameUnsynced: a file may or may not keep its new name. No second sync would prove
// that it does; the next start finds out.
var errNameUnsynced = errors.New("shard: the name of a snapshot from a peer was not synced; start the node again")

// nameStaged renames what was gathered, durably.
func nameStaged(cfg MetadataConfig, place staging, o vsr.Offer) error {
	if err := cfg.Disk.Rename(place.partName(), snapshotsOf(cfg.Disk).Name(uint64(o.Op))); err != nil {
		return err
	}
	if err := errors.Join(cfg.Disk.SyncDir(metadataSnapshotDir), cfg.Disk.SyncDir(metadataStagingDir)); err != nil {
		return fmt.Errorf("%w: %w", errNameUnsynced, err)
	}
	return nil
}

func (m *Metadata) pairTaken() {
	k := &m.taking
	m.super.update(func(s *superblock.State) {
		s.CommitMax = max(s.CommitMax, uint64(k.head.Op))
		s.CheckpointOp, s.CheckpointSum = uint64(k.head.Op), k.sum
	}, func(err error) {
		if m.superblockWritten(err) {
			m.becomeTaken()
			return
		}
		m.later.add(m.pairTaken)
	})
}

// becomeTaken is the end: the state is that of the snapshot.
func (m *Metadata) becomeTaken() {
	k := m.taking
	m.taking = taking{}
	m.machine = k.machine
	m.settleReplaced(k.head.Op)
	m.ckpt.head, m.ckpt.op, m.ckpt.bytes = k.head, k.head.Op, 0
	m.log.Release(vsr.MetadataGroup, k.head.Op)
	m.group.skip(k.head.Op, k.reset)
	m.courier.installed(k.offer)
	m.cfg.Publish(m.machine.View(), k.head.Op)
	m.cfg.Installed()
	waiting := m.owed
	m.owed = nil
	for _, o := range waiting {
		o.done()
	}
	m.feed.reclaim(func(error) {})
}

// finishTaking completes, at start, the installation of a snapshot from a peer that
// was cut short after the log had begun anew behind it. It reports whether there is
// now another snapshot.
func (m *Metadata) finishTaking(base vsr.Op, log wal.RecoveredGroup) (bool, error) {
	if !log.HasFloor || log.Base <= base {
		return false, nil
	}
	place := stagingOf(m.cfg.Disk, metadataStagingDir, vsr.MetadataGroup)
	o, ok, err := place.sealed()
	if err != nil || !ok || o.Op != log.Base {
		return false, err
	}
	if id, known := m.log.Identity(vsr.MetadataGroup, o.Op); !known || id != o.Identity {
		return false, nil
	}
	return true, nameStaged(m.cfg, place, o)
}
