package verify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"

	"galgo/internal/cipher"
	"galgo/internal/disk"
	"galgo/internal/disk/overlay"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/shard"
	"galgo/internal/snapshot"
	"galgo/internal/superblock"
	"galgo/internal/vsr"
	"galgo/internal/wal"
	"galgo/internal/wire"
)

// Places in a data directory.
const (
	metadataDir = "metadata"
	shardsDir   = "shards"
	groupsDir   = "groups"
)

// filesKept is how many segment files of a directory stay open between uses.
const filesKept = 16

// replica is a data directory, and what the code of a start makes of it.
type replica struct {
	name     string
	source   disk.Disk
	disk     *overlay.Disk
	problems []Problem

	id         superblock.Identity
	keys       *cipher.Ring
	vault      *cipher.Vault // nil: the directory is in the clear, or stays closed
	life       superblock.Life
	identified bool
	given      bool // it is not looked at any further
	shards     int

	snapshots  map[uint64]snapshot.Sum // of the metadata, by op
	meta       *shard.Metadata
	audit      *shard.Audit
	data       []*shard.Data
	files      *partition.Files
	partitions map[vsr.GroupID]*shard.Audit
	sends      map[vsr.GroupID][]sent
	counted    count
}

type count struct{ messages, bytes uint64 }

func newReplica(s Source) *replica {
	d := overlay.New(s.Disk)
	return &replica{
		name: s.Name, source: s.Disk, disk: d, keys: s.Keys, files: partition.NewFiles(d, filesKept),
		snapshots: map[uint64]snapshot.Sum{}, partitions: map[vsr.GroupID]*shard.Audit{}, sends: map[vsr.GroupID][]sent{},
	}
}

func (p *replica) close() {
	if p.meta != nil {
		_ = p.meta.Close() // of the overlay: nothing can be lost
	}
	for _, d := range p.data {
		_ = d.Close()
	}
	p.files.Close()
}

// problem notes what is wrong in the directory. What was found twice is told once.
func (p *replica) problem(format string, args ...any) {
	found := Problem{Directory: p.name, What: fmt.Sprintf(format, args...)}
	if !slices.ContainsFunc(p.problems, func(q Problem) bool { return q.What == found.What }) {
		p.problems = append(p.problems, found)
	}
}

// give notes why the directory is not looked at any further.
func (p *replica) give(format string, args ...any) {
	p.problem(format, args...)
	p.given = true
}

// examine verifies all that can be read without knowing what belongs to what.
func (p *replica) examine() {
	var err error
	if p.id, err = superblock.ReadIdentity(p.disk); err != nil {
		p.give("%v", err)
	} else {
		p.identified = true
		p.unlock()
		p.checkLife()
	}
	p.checkSuperblock()
	p.countShards()
	p.readLogs()
	p.readCheckpoints()
	if p.identified {
		format := shard.FormatConfig{Identity: p.id, Shards: p.shards, Ring: p.keys}
		if err := shard.Format(p.disk, format); err != nil {
			p.give("%v", err)
		}
	}
}

// unlock takes the keys if the directory is sealed. What they do not open is told by
// whatever reads it.
func (p *replica) unlock() {
	if cipher.ID(p.id.Key) == (cipher.ID{}) {
		p.keys = nil
		return
	}
	if p.keys != nil {
		p.vault = p.keys.Vault(p.id.Node)
	}
}

func (p *replica) checkLife() {
	life, lived, err := superblock.ReadLife(p.disk)
	p.life = life
	switch {
	case err != nil:
		p.problem("%v", err)
	case !lived && p.id.ReplicaCount > 1:
		p.problem("%s is not there, in the directory of a replica among %d: it has never taken part, or the file is lost", superblock.LifeName, p.id.ReplicaCount)
	case life.Past:
		p.problem("%s says that the disk is of the past: it has forgotten what the replica promised since; replace it", superblock.LifeName)
	}
}

func (p *replica) checkSuperblock() {
	store, err := superblock.Open(p.disk, metadataDir)
	if err != nil {
		p.give("%v", err)
		return
	}
	o := store.Latest()
	if err := o.Err(metadataDir); err != nil {
		p.give("%v", err)
		return
	}
	if o.Kind == superblock.Empty {
		p.give("%s: the superblock is empty", metadataDir)
		return
	}
	state, err := superblock.DecodeState(o.Payload)
	if err == nil && p.identified {
		err = state.CheckNode(metadataDir, p.id.Cluster, p.id.Replica, p.id.ReplicaCount)
	}
	if err != nil {
		p.give("%v", err)
	}
}

// countShards finds how many shards the directory has: 0, 1, 2 and so on.
func (p *replica) countShards() {
	entries, err := p.disk.List(shardsDir)
	if err != nil {
		p.give("%v", err)
		return
	}
	for _, e := range entries {
		if _, err := strconv.ParseUint(e.Name, 10, 32); err == nil && e.Dir {
			p.shards++
		}
	}
	for i := range p.shards {
		if _, err := p.disk.List(path.Join(shardsDir, strconv.Itoa(i))); err != nil {
			p.give("there are %d directories below %s, but not %s/%d: %v", p.shards, shardsDir, shardsDir, i, err)
		}
	}
}

// readLogs reads every record of every log.
func (p *replica) readLogs() {
	dirs := []string{path.Join(metadataDir, "wal")}
	for i := range p.shards {
		dirs = append(dirs, path.Join(shardsDir, strconv.Itoa(i), "wal"))
	}
	for _, dir := range dirs {
		err := wal.Inspect(p.disk, dir, p.vault, func(wal.Item) error { return nil })
		for _, e := range each(err) {
			p.problem("%v", e)
		}
	}
}

// each takes joined errors apart.
func each(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// readCheckpoints verifies every checkpoint file, also those that do not count any more.
func (p *replica) readCheckpoints() {
	p.readStore(path.Join(metadataDir, "snapshot"), snapshot.ExtMetadata, func(s *snapshot.Snapshot) {
		if p.vault == nil { // no two seal alike
			p.snapshots[s.Op] = s.Sum
		}
	})
	for i := range p.shards {
		p.readStore(path.Join(shardsDir, strconv.Itoa(i), "checkpoint"), snapshot.ExtPartition, func(*snapshot.Snapshot) {})
	}
}

func (p *replica) readStore(dir, ext string, visit func(*snapshot.Snapshot)) {
	store := snapshot.NewStore(p.disk, dir, ext, p.vault)
	found, err := store.List()
	if err != nil {
		p.problem("%v", err)
	}
	for _, g := range found {
		s, err := store.Read(g.Number)
		if err != nil {
			p.problem("%v", err)
			continue
		}
		visit(s)
	}
}

// still is what a start asks for that nobody drives: nothing is run, sent or written.
type still struct{}

func (still) Go(shard.Lane, func() error, func(error)) {}
func (still) Now() uint64                              { return 0 }
func (still) Send(vsr.Message)                         {}

func (p *replica) replication() shard.Replication {
	r := shard.Replication{Replica: p.id.Replica, Replicas: int(p.id.ReplicaCount), Rand: rand.New(rand.NewPCG(0, 0))}
	if r.Replicas > 1 {
		r.Boot, r.Network = p.life.Number+1, still{}
	}
	return r
}

// openMetadata recovers the metadata as a start does; nil if that refuses.
func (p *replica) openMetadata() *member {
	if p.given {
		return nil
	}
	var err error
	p.meta, err = shard.OpenMetadata(shard.MetadataConfig{
		Disk: p.disk, Vault: p.vault, Clock: still{}, Executor: still{}, Cluster: p.id.Cluster, Replication: p.replication(), Pipeline: vsr.PipelineCeiling,
		Observe: p.observe, Fail: func(error) {}, Note: func(string, ...any) {},
	})
	if err != nil {
		p.meta = nil
		p.give("%v", err)
		return nil
	}
	p.audit = p.meta.Audit()
	return &member{p, p.audit}
}

// openPartitions recovers the partitions that the metadata names.
func (p *replica) openPartitions() {
	if p.meta == nil {
		return
	}
	view := p.meta.View()
	named := func(id vsr.GroupID) bool { _, ok := view.PartitionOf(uint64(id)); return ok }
	if err := shard.SweepGroups(p.disk, named, view.GroupsIssued(), func(string, ...any) {}); err != nil {
		p.give("%v", err)
		return
	}
	for i := range p.shards {
		if err := p.openShard(i, view); err != nil {
			p.problem("%v", err)
		}
	}
}

func (p *replica) openShard(i int, view *metadata.View) error {
	var specs []shard.GroupSpec
	for q := range view.AllPartitions() {
		if s, _, ok := p.spec(vsr.GroupID(q.Group)); ok && int(q.Group%uint64(p.shards)) == i {
			s.Sync, s.Doubtful = true, p.meta.Doubts(s.Incarnation)
			specs = append(specs, s)
		}
	}
	data, err := shard.OpenData(shard.DataConfig{
		Disk: p.disk, Vault: p.vault, Clock: still{}, Executor: still{}, Cluster: p.id.Cluster, Shard: uint32(i), Replication: p.replication(), Pipeline: vsr.PipelineCeiling,
		Files: p.files, Observe: p.observe, Fail: func(error) {}, Note: func(string, ...any) {},
	}, specs, view.GroupsIssued())
	if err != nil {
		return err
	}
	p.data = append(p.data, data)
	audits, err := data.Audit()
	for _, a := range audits {
		p.partitions[a.Group] = a
	}
	return err
}

func (p *replica) spec(id vsr.GroupID) (shard.GroupSpec, *wire.TopicOptions, bool) {
	if p.meta == nil {
		return shard.GroupSpec{}, nil, false
	}
	return shard.SpecOf(p.meta.View(), uint64(id))
}

// lookAtLooseSegments verifies the messages of a directory in which it is not known what
// belongs to what, so that all its damage is told and not only the first.
func (p *replica) lookAtLooseSegments(ctx context.Context) error {
	groups, err := p.source.List(groupsDir)
	if err != nil && !errors.Is(err, disk.ErrNotExist) {
		p.problem("%v", err)
	}
	for _, g := range groups {
		id, err := strconv.ParseUint(g.Name, 10, 64)
		if err != nil || p.partitions[vsr.GroupID(id)] != nil || p.meta != nil && !p.given && !p.has(id) {
			continue
		}
		files, err := p.source.List(path.Join(groupsDir, g.Name))
		if err != nil {
			p.problem("%v", err)
		}
		for _, f := range files {
			if err := ctx.Err(); err != nil {
				return err
			}
			p.lookAtSegment(path.Join(groupsDir, g.Name, f.Name))
		}
	}
	return nil
}

func (p *replica) has(group uint64) bool {
	_, _, ok := p.spec(vsr.GroupID(group))
	return ok
}

func (p *replica) lookAtSegment(name string) {
	if n, ok := partition.ParseSegmentName(path.Base(name)); !ok || n.Index {
		return
	}
	r, err := partition.InspectSegment(p.source, name, p.vault, nil)
	if err == nil {
		err = r.Problem
	}
	if err != nil {
		p.problem("%v", err)
	}
}
