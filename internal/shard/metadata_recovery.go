package shard

import (
	"errors"
	"fmt"

	"galgo"
	"galgo/internal/disk"
	"galgo/internal/metadata"
	"galgo/internal/snapshot"
	"galgo/internal/superblock"
	"galgo/internal/vsr"
	"galgo/internal/wal"
)

// Places of the metadata group in the data directory.
const (
	metadataDir         = "metadata"
	metadataLogDir      = "metadata/wal"
	metadataSnapshotDir = "metadata/snapshot"
)

// metadataShard is the number that the files of the metadata log carry.
const metadataShard = ^uint32(0)

// OpenMetadata recovers the metadata group: the newest snapshot, verified and
// paired with the superblock, then the log from there through the same code as
// live commits (storage.md §8.1). Anything that does not fit is refused by name.
func OpenMetadata(cfg MetadataConfig) (*Metadata, error) {
	m := &Metadata{cfg: cfg, busy: make(map[galgo.ClientID]struct{})}
	store, state, err := openSuperblock(cfg)
	if err != nil {
		return nil, err
	}
	base, err := m.loadSnapshot(state)
	if err != nil {
		return nil, err
	}
	if err := m.openLog(); err != nil {
		return nil, err
	}
	head, err := m.replay(base, state)
	if err != nil {
		m.log.Close()
		return nil, err
	}
	m.ckpt.store, m.ckpt.state, m.ckpt.op = store, state, base.Op
	m.group = group[metadata.Output]{feed: &m.feed, sync: true, apply: m.apply, wake: func() {}}
	m.group.core = vsr.New(vsr.Config{
		Cluster: cfg.Cluster, Group: vsr.MetadataGroup, Replica: cfg.Replica, Replicas: cfg.Replicas, Pipeline: cfg.Pipeline,
	}, vsr.Recovered{
		State: vsr.State{View: vsr.View(state.View), LogView: vsr.View(state.LogView)},
		Head:  head.Op, HeadIdentity: head.Identity, HeadTimestamp: head.Timestamp, Commit: head.Op,
	})
	return m, nil
}

// openSuperblock opens the one store of the node and reads what it has promised.
// An empty one belongs to a directory that was never formatted: the identity
// file is written after the first superblock.
func openSuperblock(cfg MetadataConfig) (superblock.Store, superblock.State, error) {
	store, err := superblock.Open(cfg.Disk, metadataDir)
	if err != nil {
		return nil, superblock.State{}, err
	}
	outcome := store.Latest()
	switch outcome.Kind {
	case superblock.Unreadable:
		return nil, superblock.State{}, outcome.Err(metadataDir)
	case superblock.Empty:
		return nil, superblock.State{}, fmt.Errorf("%w: %s/superblock.a and .b: the node may have forgotten a view it voted in; restore them, or rebuild this replica from its peers", ErrSuperblockLost, metadataDir)
	}
	state, err := superblock.DecodeState(outcome.Payload)
	if err != nil {
		return nil, superblock.State{}, fmt.Errorf("%s: %w", metadataDir, err)
	}
	return store, state, state.CheckNode(metadataDir, cfg.Cluster, cfg.Replica, uint8(cfg.Replicas))
}

// loadSnapshot makes the machine from the newest snapshot, if there is one, and
// returns the header of the op it covers.
func (m *Metadata) loadSnapshot(state superblock.State) (vsr.Header, error) {
	generations, err := snapshotsOf(m.cfg.Disk).List()
	if err != nil {
		return vsr.Header{}, err
	}
	if len(generations) == 0 {
		m.machine = metadata.New()
		return vsr.Header{}, state.CheckPairing(0, [16]byte{})
	}
	newest := generations[0]
	s, err := snapshotsOf(m.cfg.Disk).Read(newest.Number)
	if err != nil {
		return vsr.Header{}, err
	}
	if err := s.CheckOwner(m.cfg.Cluster, uint64(vsr.MetadataGroup)); err != nil {
		return vsr.Header{}, err
	}
	if err := state.CheckPairing(s.Header.Op, s.Sum); err != nil {
		return vsr.Header{}, fmt.Errorf("%s: %w", newest.Name, err)
	}
	var head vsr.Header
	m.machine, head, err = decodeMetadataSnapshot(s)
	if err != nil {
		return vsr.Header{}, fmt.Errorf("%s: %w", newest.Name, err)
	}
	return head, nil
}

func (m *Metadata) openLog() error {
	log, _, err := wal.Open(m.cfg.Disk, metadataLogDir, wal.Options{
		FileSize: m.cfg.WALFileSize, FilesSpare: m.cfg.WALSpare, Salt: m.cfg.Salt, Cluster: m.cfg.Cluster, Replica: m.cfg.Replica, Shard: metadataShard,
	})
	if err != nil {
		return err
	}
	m.log = log
	m.feed = feeder{log: log, exec: m.cfg.Executor, fail: m.cfg.Fail, note: m.cfg.Note, fileSize: m.cfg.WALFileSize}
	return nil
}

// replay applies what the log holds above the snapshot and returns the header of
// the head. One replica is its own quorum: all that its log holds is committed.
func (m *Metadata) replay(base vsr.Header, state superblock.State) (vsr.Header, error) {
	m.ckpt.head = base
	head, err := replayFrom(m.log, metadataLogDir, vsr.MetadataGroup, base, func(p *vsr.Prepare) { m.apply(p) })
	if err != nil {
		return head, err
	}
	if vsr.Op(state.CommitMax) > head.Op {
		return head, fmt.Errorf("%w: %s ends at op %d, the superblock knows op %d as committed; restore the log, or rebuild this replica from its peers", ErrLogShort, metadataLogDir, head.Op, state.CommitMax)
	}
	return head, nil
}

// replayFrom hands the prepares of a group above base to apply, in order, after
// checking that log and checkpoint belong together.
func replayFrom(log *wal.Log, dir string, group vsr.GroupID, base vsr.Header, apply func(*vsr.Prepare)) (vsr.Header, error) {
	last, _ := log.Last(group)
	first := log.First(group)
	switch {
	case last == 0:
		return base, nil
	case last < base.Op:
		return base, fmt.Errorf("%w: %s: group %d ends at op %d, its checkpoint is at op %d; restore the log, or rebuild this replica from its peers", ErrLogShort, dir, group, last, base.Op)
	case first > base.Op+1:
		return base, fmt.Errorf("%w: %s: group %d begins at op %d, its checkpoint ends at op %d; restore the checkpoint, or rebuild this replica from its peers", ErrLogGap, dir, group, first, base.Op)
	}
	if id, ok := log.Identity(group, base.Op); ok && base.Op > 0 && id != base.Identity {
		return base, fmt.Errorf("%w: %s: group %d op %d is %v in the log and %v in the checkpoint; one of them is from another node or time", ErrLogForks, dir, group, base.Op, id, base.Identity)
	}
	head := base
	for op := base.Op + 1; op <= last; op++ {
		p, err := log.Read(group, op)
		if err != nil {
			return head, err
		}
		if p.Parent != head.Identity {
			return head, fmt.Errorf("%w: %s: group %d op %d follows %v, but op %d is %v", ErrLogForks, dir, group, op, p.Parent, head.Op, head.Identity)
		}
		if err := redo(&p, apply); err != nil {
			return head, fmt.Errorf("%w: %s: group %d op %d, operation %d: %w", ErrOperationUnknown, dir, group, op, p.Operation, err)
		}
		head = p.Header
	}
	return head, nil
}

// redo applies a committed operation that a log held at start. A machine panics
// on a body that it cannot read. The checksums vouch for the bytes, so another
// version of galgo wrote them: at start that is a refusal for a person to read,
// and nothing has been served yet.
func redo(p *vsr.Prepare, apply func(*vsr.Prepare)) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v; start the version of galgo that wrote it", r)
		}
	}()
	apply(p)
	return nil
}

func snapshotsOf(d disk.Disk) *snapshot.Store {
	return snapshot.NewStore(d, metadataSnapshotDir, snapshot.ExtMetadata)
}

func writeMetadataSnapshot(cfg MetadataConfig, head vsr.Header, view *metadata.View) ([16]byte, error) {
	h := snapshot.Header{Cluster: cfg.Cluster, Group: uint64(vsr.MetadataGroup), Op: uint64(head.Op), CreatedAt: head.Timestamp}
	return snapshotsOf(cfg.Disk).Write(uint64(head.Op), h, metadataSections(head, view))
}

func metadataSections(head vsr.Header, view *metadata.View) []snapshot.Section {
	section := func(kind uint32, data []byte) snapshot.Section {
		return snapshot.Section{Kind: kind, Version: sectionVersion, Data: [][]byte{data}}
	}
	return []snapshot.Section{
		section(sectionHead, head.AppendHeader(nil)),
		section(sectionState, view.EncodeState()),
		section(sectionClients, view.EncodeClients()),
	}
}

func decodeMetadataSnapshot(s *snapshot.Snapshot) (*metadata.Machine, vsr.Header, error) {
	headBytes, err1 := s.Section(sectionHead, sectionVersion)
	state, err2 := s.Section(sectionState, sectionVersion)
	clients, err3 := s.Section(sectionClients, sectionVersion)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, vsr.Header{}, err
	}
	head, err := vsr.DecodeHeader(headBytes)
	if err != nil {
		return nil, vsr.Header{}, err
	}
	if uint64(head.Op) != s.Header.Op {
		return nil, vsr.Header{}, fmt.Errorf("%w: head section is of op %d, the file of op %d", snapshot.ErrMalformed, head.Op, s.Header.Op)
	}
	machine, err := metadata.Decode(state, clients)
	return machine, head, err
}

func pruneMetadataSnapshots(cfg MetadataConfig) error {
	return snapshotsOf(cfg.Disk).Prune(snapshotsKept)
}
