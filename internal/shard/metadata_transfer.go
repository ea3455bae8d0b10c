package shard

import (
	"errors"
	"fmt"

	"galgo/internal/disk"
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
		core: func() *vsr.Core { return m.group.core() }, touch: m.group.touch, gone: func() bool { return false },
		exec: m.cfg.Executor, disk: m.cfg.Disk, place: stagingOf(m.cfg.Disk, metadataStagingDir, vsr.MetadataGroup, m.cfg.Vault), note: m.cfg.Note,
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
			generations, err := snapshotsOf(&m.cfg).List()
			if err != nil || len(generations) == 0 {
				return err
			}
			s, err := snapshotsOf(&m.cfg).Read(generations[0].Number)
			if err != nil {
				return err
			}
			if head, err = snapshotHead(s); err == nil {
				found, err = partsOfSnapshot(&m.cfg, generations[0], s)
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

// partsOfSnapshot is a snapshot as it travels: in the clear. One that is sealed on this
// disk stays in memory while it is offered.
func partsOfSnapshot(cfg *MetadataConfig, g snapshot.Generation, s *snapshot.Snapshot) (parts, error) {
	if cfg.Vault == nil {
		return parts{{name: g.Name, size: g.Size}}, nil
	}
	b, err := snapshot.Encode(s.Header, s.Sections)
	return parts{{bytes: b, size: int64(len(b))}}, err
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
		s, err := m.courier.place.snapshot(k.offer)
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

// snapshot reads what was gathered. Who sends it has opened it.
func (s staging) snapshot(o vsr.Offer) (*snapshot.Snapshot, error) {
	b, err := s.bytes(o)
	if err != nil {
		return nil, err
	}
	found, err := snapshot.Decode(s.partName(), b)
	if err != nil {
		return nil, err
	}
	return found, found.Open(nil)
}

// nameTaken makes what was gathered a snapshot like any other.
func (m *Metadata) nameTaken() {
	k := &m.taking
	m.courier.run(func() (err error) {
		k.sum, err = nameStaged(m.cfg, m.courier.place, k.offer, k.sum)
		return err
	}, func(err error) {
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

// nameStaged gives what was gathered, whose checksum is sum, the name of a snapshot,
// durably. It returns the checksum of the file of that name.
func nameStaged(cfg MetadataConfig, place staging, o vsr.Offer, sum snapshot.Sum) (snapshot.Sum, error) {
	if cfg.Vault != nil {
		return sealStaged(cfg, place, o)
	}
	if err := cfg.Disk.Rename(place.partName(), snapshotsOf(&cfg).Name(uint64(o.Op))); err != nil {
		return sum, err
	}
	if err := errors.Join(cfg.Disk.SyncDir(metadataSnapshotDir), cfg.Disk.SyncDir(metadataStagingDir)); err != nil {
		return sum, fmt.Errorf("%w: %w", errNameUnsynced, err)
	}
	return sum, nil
}

// sealStaged makes a snapshot of what was gathered, which is in other pieces.
func sealStaged(cfg MetadataConfig, place staging, o vsr.Offer) (snapshot.Sum, error) {
	s, err := place.snapshot(o)
	if err != nil {
		return snapshot.Sum{}, err
	}
	sum, err := snapshotsOf(&cfg).Write(uint64(o.Op), s.Header, s.Sections)
	if e, ok := errors.AsType[*disk.ReplaceError](err); ok && e.Stage == disk.StageSyncDir {
		return sum, fmt.Errorf("%w: %w", errNameUnsynced, err)
	}
	if err == nil {
		_ = place.discard() // what stays is removed before the next transfer
	}
	return sum, err
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
	waiting := m.owed
	m.owed = nil
	m.cfg.Installed(func() {
		for _, o := range waiting {
			o.done()
		}
	})
	m.feed.reclaim(func(error) {})
}

// finishTaking completes, at start, the installation of a snapshot from a peer that
// was cut short after the log had begun anew behind it. It reports whether there is
// now another snapshot.
func (m *Metadata) finishTaking(base vsr.Op, log wal.RecoveredGroup) (bool, error) {
	if !log.HasFloor || log.Base <= base {
		return false, nil
	}
	place := stagingOf(m.cfg.Disk, metadataStagingDir, vsr.MetadataGroup, m.cfg.Vault)
	o, ok, err := place.sealed()
	if err != nil || !ok || o.Op != log.Base {
		return false, err
	}
	if id, known := m.log.Identity(vsr.MetadataGroup, o.Op); !known || id != o.Identity {
		return false, nil
	}
	_, err = nameStaged(m.cfg, place, o, snapshot.Sum{})
	return true, err
}

// renewTaken writes a snapshot from a peer anew that has its name and that no superblock
// names yet, if the log begins behind it: a process whose sync of the directory failed has
// left a file that can be read, and whose name no later sync makes durable.
func (m *Metadata) renewTaken(base vsr.Op, state superblock.State, log wal.RecoveredGroup) error {
	if paired := vsr.Op(state.CheckpointOp); base <= paired || !log.HasFloor || log.Base <= paired {
		return nil
	}
	return snapshotsOf(&m.cfg).Renew(uint64(base))
}
