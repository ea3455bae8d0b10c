package shard

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"galgo/internal/disk"
	"galgo/internal/partition"
	"galgo/internal/vsr"
	"galgo/internal/wal"
)

// groupsDir holds a directory for each partition group of the node.
const groupsDir = "groups"

// OpenData recovers the partition groups of a shard: those that the metadata
// names, each from its checkpoint and the log above it. issued is the highest
// group id that the metadata has ever given out. What belongs to a group that
// the metadata has deleted is removed; what belongs to one that it has never
// heard of is refused.
func OpenData(cfg DataConfig, specs []GroupSpec, issued uint64) (*Data, error) {
	d := &Data{cfg: cfg, groups: make(map[vsr.GroupID]*dataGroup)}
	dir := logDir(cfg.Shard)
	log, recovered, err := wal.Open(cfg.Disk, dir, wal.Options{
		FileSize: cfg.WALFileSize, FilesSpare: cfg.WALSpare, Salt: cfg.Salt, Vault: cfg.Vault, Cluster: cfg.Cluster, Replica: cfg.Replica, Shard: cfg.Shard,
	})
	if err != nil {
		return nil, err
	}
	d.log = log
	d.feed = feeder{log: log, apart: cfg.SyncApart, exec: cfg.Executor, fail: cfg.Fail, note: cfg.Note, fileSize: cfg.WALFileSize}
	if err := d.recover(dir, specs, recovered, vsr.GroupID(issued)); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return d, nil
}

func (d *Data) recover(dir string, specs []GroupSpec, recovered *wal.Recovered, issued vsr.GroupID) error {
	rows, err := d.table(recovered)
	if err != nil {
		return err
	}
	known := make(map[vsr.GroupID]bool, len(specs))
	for _, s := range specs {
		known[s.ID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(rows)) { // what the log forgets is written in this order
		if err := d.unknown(dir, id, known, issued); err != nil {
			return err
		}
	}
	for _, g := range recovered.Groups {
		if err := d.unknown(dir, g.Group, known, issued); err != nil {
			return err
		}
	}
	staged, err := d.sweepStaging(known)
	if err != nil {
		return err
	}
	slices.SortFunc(specs, func(a, b GroupSpec) int { return int(int64(a.ID) - int64(b.ID)) })
	for _, s := range specs {
		if err := d.recoverGroup(dir, s, rows[s.ID], recoveredGroup(recovered, s.ID), staged[s.ID]); err != nil {
			return err
		}
	}
	return nil
}

// table reads the checkpoint that the log names, by group.
func (d *Data) table(recovered *wal.Recovered) (map[vsr.GroupID]tableRow, error) {
	i := slices.IndexFunc(recovered.Groups, func(g wal.RecoveredGroup) bool { return g.Group == pairingGroup })
	if i < 0 || recovered.Groups[i].State == nil {
		return nil, nil
	}
	p, err := decodePairing(recovered.Groups[i].State)
	if err != nil {
		return nil, err
	}
	rows, err := readTable(d.cfg, p)
	if err != nil {
		return nil, err
	}
	d.ckpt.number = p.number
	byGroup := make(map[vsr.GroupID]tableRow, len(rows))
	for _, r := range rows {
		byGroup[r.id] = r
	}
	return byGroup, nil
}

// unknown deals with a group that is on disk and not among those to serve.
func (d *Data) unknown(dir string, id vsr.GroupID, known map[vsr.GroupID]bool, issued vsr.GroupID) error {
	switch {
	case known[id] || id == pairingGroup:
		return nil
	case id > issued:
		return fmt.Errorf("%w: %s holds group %d, the metadata has given out groups up to %d; restore the metadata directory that belongs to it", ErrMetadataLost, dir, id, issued)
	}
	d.log.Forget(id)
	return nil
}

func (d *Data) recoverGroup(dir string, s GroupSpec, row tableRow, log wal.RecoveredGroup, staged bool) (err error) {
	taken := false
	if staged {
		if taken, err = d.finishTaking(s, &row); err != nil {
			return err
		}
	}
	var ckpt *partition.Checkpoint
	if row.head.Op > 0 {
		if ckpt, err = partition.DecodeCheckpoint(row.blob); err != nil {
			return fmt.Errorf("group %d: %w", s.ID, err)
		}
	}
	machine, err := partition.Open(d.config(s), ckpt, d.logFrom(s.ID, row.head.Op))
	if err != nil {
		return err
	}
	g := d.add(s, machine, row.groupCheckpoint)
	g.courier.taken = staged
	if taken {
		g.saved, g.taking.unsaved = groupCheckpoint{}, row.head.Op // no table has it yet
		d.ckpt.wanted = true
	}
	r, err := replayFrom(d.log, dir, s.ID, row.head, d.cfg.Replicas, 0, func(p *vsr.Prepare) { d.apply(g, p) })
	if err != nil {
		return err
	}
	promised, err := promiseOf(dir, log)
	if err != nil {
		return err
	}
	d.core(g, &r, promised)
	g.anchored = s.Sync || r.head.Op > row.head.Op // what was recovered is durable
	return nil
}

// promiseOf reads what the replica has promised in a group; nil if it never had to say.
func promiseOf(dir string, log wal.RecoveredGroup) (*promise, error) {
	if log.State == nil {
		return nil, nil
	}
	p, err := decodePromise(log.State)
	if err != nil {
		return nil, fmt.Errorf("%s: group %d: %w", dir, log.Group, err)
	}
	return &p, nil
}

// logFrom is the lowest op of a group that the log holds, 0 if it holds none above
// the checkpoint.
func (d *Data) logFrom(id vsr.GroupID, checkpoint vsr.Op) uint64 {
	if last, _ := d.log.Last(id); last <= checkpoint {
		return 0
	}
	return uint64(d.log.First(id))
}

// SweepGroups removes the directories of groups that the metadata has deleted,
// and reports what it does not know. It runs once, at start, before the shards
// are driven.
func SweepGroups(d disk.Disk, named func(vsr.GroupID) bool, issued uint64, note func(string, ...any)) error {
	entries, err := d.List(groupsDir)
	if errors.Is(err, disk.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", groupsDir, err)
	}
	for _, e := range entries {
		id, err := strconv.ParseUint(e.Name, 10, 64)
		if err != nil || !e.Dir || partition.Dir(id) != groupsDir+"/"+e.Name {
			note("left alone: no partition makes a file of this name", "name", groupsDir+"/"+e.Name)
			continue
		}
		if named(vsr.GroupID(id)) {
			continue
		}
		if id > issued {
			return fmt.Errorf("%w: %s/%s exists, the metadata has given out groups up to %d; restore the metadata directory that belongs to it", ErrMetadataLost, groupsDir, e.Name, issued)
		}
		if err := partition.RemoveDir(d, partition.Dir(id)); err != nil {
			note("files of a deleted partition were not removed", "group", id, "err", err)
		}
	}
	return nil
}
