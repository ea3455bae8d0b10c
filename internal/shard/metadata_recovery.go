package shard

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"galgo"
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
	recovered, err := m.openLog()
	if err != nil {
		return nil, err
	}
	if err := m.recover(store, state, base, recovered); err != nil {
		return nil, errors.Join(err, m.log.Close())
	}
	return m, nil
}

func (m *Metadata) recover(store superblock.Store, state superblock.State, base vsr.Header, recovered wal.RecoveredGroup) error {
	taken, err := m.finishTaking(base.Op, recovered)
	if err == nil && taken {
		base, err = m.loadSnapshot(state)
	}
	if err == nil && !taken {
		err = m.renewTaken(base.Op, state, recovered)
	}
	if err != nil {
		return err
	}
	promised, err := m.recoverPromise(state, recovered)
	if err != nil {
		return err
	}
	m.promise = promised
	m.settleReplaced(base.Op)
	replay, err := m.replay(base, state)
	if err != nil {
		return err
	}
	if state, err = noteCommitted(store, state, replay.applied.Op, m.cfg.Replicas); err != nil {
		return err
	}
	m.super = superblockWriter{store: store, exec: m.cfg.Executor, state: state}
	m.ckpt.op = base.Op
	m.group = group[metadata.Output]{
		id: vsr.MetadataGroup, ticks: &m.ticks, log: m.log, feed: &m.feed, exec: m.cfg.Executor, net: m.cfg.Network, note: m.cfg.Note,
		sync: true, apply: m.apply, wake: func() {}, persist: m.persist, recovered: replay.rest, news: news{note: m.cfg.Note, rate: &m.told},
	}
	m.courier = m.newCourier()
	m.group.transfer = m.courier.do
	fresh := recovered.State == nil && replay.head.Op == 0
	m.group.news.from(promised.State)
	m.group.late = vsr.New(m.cfg.config(m.cfg.Cluster, vsr.MetadataGroup, 0, m.cfg.Pipeline), replay.recovered(vsr.Recovered{
		Fresh: fresh, State: promised.State, Checkpoint: base.Op,
	}))
	if fresh {
		m.group.begin(m.cfg.Replica)
	}
	m.group.touch()
	return nil
}

// noteCommitted has the superblock know what a prepare in the log named as committed:
// groups are about to be made of it, and a view may drop that prepare (see settleOwed). It
// is written in any case: a process whose sync of the directory failed has left a record
// that can be read, and that no later sync makes durable.
func noteCommitted(store superblock.Store, state superblock.State, applied vsr.Op, replicas int) (superblock.State, error) {
	if replicas == 1 {
		return state, nil
	}
	state.CommitMax = max(state.CommitMax, uint64(applied))
	if err := store.Write(state.Append(nil)); err != nil {
		return state, fmt.Errorf("superblock: %w", err)
	}
	return state, nil
}

// recoverPromise reads what this replica has promised: the log has it first, so the
// superblock cannot know of a later one.
func (m *Metadata) recoverPromise(state superblock.State, recovered wal.RecoveredGroup) (promise, error) {
	var p promise
	if recovered.State != nil {
		var err error
		if p, err = decodePromise(recovered.State); err != nil {
			return p, fmt.Errorf("%s: %w", metadataLogDir, err)
		}
	}
	if state.View > uint32(p.View) || state.LogView > uint32(p.LogView) {
		return p, fmt.Errorf("%w: %s knows view %d and log_view %d, the superblock knows view %d and log_view %d; restore the log, or rebuild this replica from its peers",
			ErrLogShort, metadataLogDir, p.View, p.LogView, state.View, state.LogView)
	}
	return p, nil
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
	generations, err := snapshotsOf(&m.cfg).List()
	if err != nil {
		return vsr.Header{}, err
	}
	if len(generations) == 0 {
		m.machine = metadata.New()
		return vsr.Header{}, state.CheckPairing(0, [16]byte{})
	}
	newest := generations[0]
	s, err := snapshotsOf(&m.cfg).Read(newest.Number)
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

func (m *Metadata) openLog() (wal.RecoveredGroup, error) {
	log, recovered, err := wal.Open(m.cfg.Disk, metadataLogDir, wal.Options{
		FileSize: m.cfg.WALFileSize, FilesSpare: m.cfg.WALSpare, Salt: m.cfg.Salt, Vault: m.cfg.Vault, Cluster: m.cfg.Cluster, Replica: m.cfg.Replica, Shard: metadataShard,
	})
	if err != nil {
		return wal.RecoveredGroup{}, err
	}
	m.log = log
	m.feed = feeder{log: log, apart: m.cfg.SyncApart, exec: m.cfg.Executor, fail: m.cfg.Fail, note: m.cfg.Note, fileSize: m.cfg.WALFileSize}
	return recoveredGroup(recovered, vsr.MetadataGroup), nil
}

// recoveredGroup is what the log held of one group; nothing, if it did not know it.
func recoveredGroup(r *wal.Recovered, id vsr.GroupID) wal.RecoveredGroup {
	at, ok := slices.BinarySearchFunc(r.Groups, id, func(g wal.RecoveredGroup, id vsr.GroupID) int { return cmp.Compare(g.Group, id) })
	if !ok {
		return wal.RecoveredGroup{Group: id}
	}
	return r.Groups[at]
}

// replay applies what the log holds above the snapshot and is known to be committed.
func (m *Metadata) replay(base vsr.Header, state superblock.State) (replay, error) {
	m.ckpt.head = base
	known := vsr.Op(state.CommitMax)
	r, err := replayFrom(m.log, metadataLogDir, vsr.MetadataGroup, base, m.cfg.Replicas, known, func(p *vsr.Prepare) { m.apply(p) })
	if err != nil {
		return r, err
	}
	if known > r.head.Op {
		return r, fmt.Errorf("%w: %s ends at op %d, the superblock knows op %d as committed; restore the log, or rebuild this replica from its peers", ErrLogShort, metadataLogDir, r.head.Op, state.CommitMax)
	}
	return r, nil
}

// replay is what was found in the log of a group at start.
type replay struct {
	applied vsr.Header // of the last op that was applied, or of the checkpoint
	head    vsr.Header // of the last op
	rest    []*vsr.Prepare
}

// recovered completes what the core is told.
func (r *replay) recovered(to vsr.Recovered) vsr.Recovered {
	to.Head, to.HeadIdentity, to.HeadTimestamp, to.Commit = r.head.Op, r.head.Identity, r.head.Timestamp, r.applied.Op
	for _, p := range r.rest {
		to.Suffix = append(to.Suffix, p.Header)
	}
	return to
}

// replayFrom hands the prepares of a group above base to apply, in order, after
// checking that log and checkpoint belong together. One replica is its own quorum: all
// that its log holds is committed. Of several, only what one of the prepares names as
// committed, or the caller knows to be: the rest is left to the core.
func replayFrom(log *wal.Log, dir string, group vsr.GroupID, base vsr.Header, replicas int, known vsr.Op, apply func(*vsr.Prepare)) (replay, error) {
	r := replay{applied: base, head: base}
	last, err := checkReach(log, dir, group, base)
	if err != nil || last == 0 {
		return r, err
	}
	if replicas == 1 {
		known = last
	} else if last > base.Op {
		h, err := log.Header(group, last)
		if err != nil {
			return r, err
		}
		known = max(known, h.Commit)
	}
	for op := base.Op + 1; op <= last; op++ {
		p, err := log.Read(group, op)
		if err != nil {
			return r, err
		}
		if p.Parent != r.head.Identity {
			return r, fmt.Errorf("%w: %s: group %d op %d follows %v, but op %d is %v", ErrLogForks, dir, group, op, p.Parent, r.head.Op, r.head.Identity)
		}
		r.head = p.Header
		if op > known {
			r.rest = append(r.rest, &p)
			continue
		}
		if err := redo(&p, apply); err != nil {
			return r, fmt.Errorf("%w: %s: group %d op %d, operation %d: %w", ErrOperationUnknown, dir, group, op, p.Operation, err)
		}
		r.applied = p.Header
	}
	return r, nil
}

// checkReach refuses a log that does not go on where the checkpoint ends, and returns
// its last op, 0 if it has none.
func checkReach(log *wal.Log, dir string, group vsr.GroupID, base vsr.Header) (vsr.Op, error) {
	last, _ := log.Last(group)
	first := log.First(group)
	switch {
	case last == 0:
		return 0, nil
	case last < base.Op:
		return 0, fmt.Errorf("%w: %s: group %d ends at op %d, its checkpoint is at op %d; restore the log, or rebuild this replica from its peers", ErrLogShort, dir, group, last, base.Op)
	case first > base.Op+1:
		return 0, fmt.Errorf("%w: %s: group %d begins at op %d, its checkpoint ends at op %d; restore the checkpoint, or rebuild this replica from its peers", ErrLogGap, dir, group, first, base.Op)
	}
	if id, ok := log.Identity(group, base.Op); ok && base.Op > 0 && id != base.Identity {
		return 0, fmt.Errorf("%w: %s: group %d op %d is %v in the log and %v in the checkpoint; one of them is from another node or time", ErrLogForks, dir, group, base.Op, id, base.Identity)
	}
	return last, nil
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

func snapshotsOf(cfg *MetadataConfig) *snapshot.Store {
	return snapshot.NewStore(cfg.Disk, metadataSnapshotDir, snapshot.ExtMetadata, cfg.Vault)
}

func writeMetadataSnapshot(cfg MetadataConfig, head vsr.Header, view *metadata.View) ([16]byte, error) {
	h := snapshot.Header{Cluster: cfg.Cluster, Group: uint64(vsr.MetadataGroup), Op: uint64(head.Op), CreatedAt: head.Timestamp}
	return snapshotsOf(&cfg).Write(uint64(head.Op), h, metadataSections(head, view))
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

// snapshotHead reads the header of the op that a snapshot covers.
func snapshotHead(s *snapshot.Snapshot) (vsr.Header, error) {
	b, err := s.Section(sectionHead, sectionVersion)
	if err != nil {
		return vsr.Header{}, err
	}
	head, err := vsr.DecodeHeader(b)
	if err != nil {
		return vsr.Header{}, err
	}
	if uint64(head.Op) != s.Header.Op {
		return vsr.Header{}, fmt.Errorf("%w: head section is of op %d, the file of op %d", snapshot.ErrMalformed, head.Op, s.Header.Op)
	}
	return head, nil
}

func decodeMetadataSnapshot(s *snapshot.Snapshot) (*metadata.Machine, vsr.Header, error) {
	head, err1 := snapshotHead(s)
	state, err2 := s.Section(sectionState, sectionVersion)
	clients, err3 := s.Section(sectionClients, sectionVersion)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, vsr.Header{}, err
	}
	machine, err := metadata.Decode(state, clients)
	return machine, head, err
}

func pruneMetadataSnapshots(cfg MetadataConfig) error {
	return snapshotsOf(&cfg).Prune(snapshotsKept)
}
