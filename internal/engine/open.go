package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"time"

	"galgo/internal/cipher"
	"galgo/internal/config"
	"galgo/internal/disk"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/shard"
	"galgo/internal/superblock"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// Tick is the unit of time of the loops, about.
const Tick = 10 * time.Millisecond

// walSpares is how many files of the metadata log are kept to be written again.
const walSpares = 2

// spares is the same for the logs of the partitions: as many as one checkpoint
// frees, so that in the long run no file is made. Under load that is what made it
// due, and half as much again that came while it ran.
func spares(c config.WAL) int { return int(c.Limit/c.FileSize)*3/2 + 2 }

// ClusterID names a cluster by its name: a directory belongs to it for ever.
func ClusterID(name string) (id [16]byte) {
	sum := sha256.Sum256([]byte("galgo cluster " + name))
	copy(id[:], sum[:])
	return id
}

// Options is what an engine is made of: everything that is not the same at every
// run comes in here.
type Options struct {
	Config config.Config

	Replica  uint8
	Replicas int // 0: one
	// Home is where the log knows those sessions to be whose connections are here.
	Home metadata.Home
	// Boot numbers the lives of this replica: see vsr.Config. Not 0 among replicas.
	Boot uint64
	// Replace makes an empty disk that of a replica whose disk is lost: it may not
	// vote, nor acknowledge, before it has been told everything by the others.
	Replace bool
	// Network takes what this node says to others; nil for a single one. What they say
	// comes back through Deliver.
	Network shard.Network
	Timing  vsr.Timing
	Clock   shard.Clock
	Random  func() uint64 // unguessable in production
	// Keys seal what is on the disk; nil: it is in the clear.
	Keys  *cipher.Ring
	vault *cipher.Vault // of the directory, once it is opened
	// Tails bounds the batches that all partitions together keep in memory, in bytes.
	Tails int64
	// SegmentFiles is how many segment files stay open between uses, UnsyncedGroups
	// how many partitions may hold theirs open until a checkpoint.
	SegmentFiles, UnsyncedGroups int
	// SyncApart: see shard.DataConfig.
	SyncApart int
	// Loop makes one; the first is for the metadata, then one a shard.
	Loop func() Loop
	// Observe is told of each operation of each group before it is applied, live and
	// when a log is replayed, on the loop of the group. What it is given does not
	// change any more. Nil where nobody watches.
	Observe func(*vsr.Prepare)
	// Fail is told why the node must stop, Note what an operator may want to read.
	Fail func(error)
	Note func(string, ...any)
}

// Open formats an empty disk or recovers what is on it. Nothing runs yet
// when it returns: the loops it asked for are to be started.
func Open(d disk.Disk, o Options) (*Engine, error) {
	c := o.Config
	cluster := ClusterID(c.Cluster.Name)
	o.Replicas = max(o.Replicas, 1)
	if err := Format(d, o); err != nil {
		return nil, err
	}
	e := &Engine{replica: o.Replica, home: o.Home, durable: c.Partition.Durability != config.DurabilityMemory, files: partition.NewFiles(d, o.SegmentFiles),
		deliveries: newDeliveries(), retention: retention{hold: c.DataMaintenance.Messages.Hold, batch: uint64(c.MessageBus.MaxMessageSize)}, patience: uint64(c.ConsumerGroup.RebalancingTimeout.Microseconds())}
	vault, err := shard.VaultOf(d, o.Keys)
	if err != nil {
		return nil, err
	}
	o.vault = vault
	if err := e.openMetadata(d, cluster, o); err != nil {
		return nil, err
	}
	view := e.View()
	named := func(id vsr.GroupID) bool { _, ok := view.PartitionOf(uint64(id)); return ok }
	err = shard.SweepGroups(d, named, view.GroupsIssued(), o.Note)
	for i := 0; i < c.System.Shards && err == nil; i++ {
		err = e.openData(d, cluster, i, o)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// Format makes an empty disk that of this replica, or checks that it is. Open does so
// too; what is formatted and was never opened has promised nothing.
func Format(d disk.Disk, o Options) error { return shard.Format(d, o.format()) }

// Untouched reports whether a disk, formatted or not, holds nothing that a replica has
// done.
func Untouched(d disk.Disk, o Options) (bool, error) { return shard.Untouched(d, o.format()) }

func (o *Options) format() shard.FormatConfig {
	c := o.Config
	format := shard.FormatConfig{
		Identity: superblock.Identity{Cluster: ClusterID(c.Cluster.Name), Replica: o.Replica, ReplicaCount: uint8(max(o.Replicas, 1)), CreatedAt: o.Clock.Now()},
		Shards:   c.System.Shards, WALFileSize: int64(c.WAL.FileSize), Salt: o.Random(), Ring: o.Keys, Replace: o.Replace,
	}
	binary.LittleEndian.PutUint64(format.Identity.Node[:], o.Random())
	binary.LittleEndian.PutUint64(format.Identity.Node[8:], o.Random())
	return format
}

func (e *Engine) openMetadata(d disk.Disk, cluster [16]byte, o Options) (err error) {
	c := o.Config
	e.metaLoop = o.Loop()
	e.meta, err = shard.OpenMetadata(shard.MetadataConfig{
		Disk: d, Clock: o.Clock, Executor: e.metaLoop, Cluster: cluster, Replication: o.replication(), Pipeline: c.Metadata.PrepareQueueDepth,
		WALFileSize: int64(c.WAL.FileSize), WALSpare: walSpares, Salt: o.Random(), SyncApart: o.SyncApart, Vault: o.vault,
		CheckpointSlots: uint64(c.Metadata.JournalSlots), CheckpointMargin: uint64(c.Metadata.CheckpointMargin),
		CheckpointBytes: int64(c.Metadata.CheckpointBytes),
		Publish:         e.publish, Changed: e.changed, Busy: e.busy, HandOvers: e.mayHandOver, AbsenceTicks: absenceTicks(c.Heartbeat.Interval, o.Timing), Installed: e.installed, Leads: e.leads, Observe: o.Observe, Fail: o.Fail, Note: o.Note,
	})
	if err == nil {
		e.publish(e.meta.View(), e.meta.CommitMin())
		primary, known := e.meta.Primary()
		e.leads(primary, known, e.meta.Readable())
	}
	return err
}

// absenceTicks is how long a node may not be heard of before it is taken for gone: as long as a
// client may be silent, but no shorter than it takes to be sure.
func absenceTicks(heartbeat time.Duration, t vsr.Timing) uint64 {
	return uint64(max(int(edge.Silence(heartbeat)/Tick), 2*t.Election()))
}

func (e *Engine) openData(d disk.Disk, cluster [16]byte, i int, o Options) error {
	c, view, l := o.Config, e.View(), o.Loop()
	specs := e.specs(view, i, c.System.Shards)
	var data *shard.Data
	var err error
	data, err = shard.OpenData(shard.DataConfig{
		Disk: d, Clock: o.Clock, Executor: l, Cluster: cluster, Shard: uint32(i), Replication: o.replication(), Pipeline: c.Partition.PrepareQueueDepth,
		WALFileSize: int64(c.WAL.FileSize), WALSpare: spares(c.WAL), Salt: o.Random(), SyncApart: o.SyncApart, Vault: o.vault, WALLimit: int64(c.WAL.Limit),
		TailBytes: int(c.Partition.TailBytes), TailsBytes: o.Tails / int64(c.System.Shards), Files: e.files,
		GroupDeleted: e.groupDeleted,
		UnsyncedMax:  max(1, o.UnsyncedGroups/c.System.Shards), Moved: func(id vsr.GroupID) { e.moved(data, id) }, Observe: o.Observe, Fail: o.Fail, Note: o.Note,
	}, specs, view.GroupsIssued())
	if err != nil {
		return err
	}
	e.purge(data, specs, e.meta.Hold(0))
	e.data = append(e.data, data)
	e.dataLoops = append(e.dataLoops, l)
	for _, id := range data.Groups() {
		e.moved(data, id)
	}
	return nil
}

// replication is the part of the options that the shards hand to their cores.
func (o *Options) replication() shard.Replication {
	return shard.Replication{
		Replica: o.Replica, Replicas: o.Replicas, Boot: o.Boot, Network: o.Network, Timing: o.Timing,
		Rand: rand.New(rand.NewPCG(o.Random(), o.Random())),
	}
}

// specs lists the groups that the metadata names for one shard.
func (e *Engine) specs(v *metadata.View, index, shards int) []shard.GroupSpec {
	var specs []shard.GroupSpec
	for p := range v.AllPartitions() {
		if int(p.Group%uint64(shards)) != index {
			continue
		}
		if s, ok := e.spec(v, p.Group); ok {
			specs = append(specs, s)
		}
	}
	return specs
}

// spec says what the metadata knows of a group; false if it has none of that id.
func (e *Engine) spec(v *metadata.View, group uint64) (shard.GroupSpec, bool) {
	s, o, ok := shard.SpecOf(v, group)
	if ok {
		s.Sync, s.Doubtful = e.syncs(o), e.meta.Doubts(s.Incarnation)
	}
	return s, ok
}

// syncs reports whether a topic's messages are acknowledged after the sync: see
// the decision on the durability of a topic in docs/decisions.
func (e *Engine) syncs(o *wire.TopicOptions) bool {
	switch o.Durability() {
	case wire.DurabilityFsync:
		return true
	case wire.DurabilityMemory:
		return false
	}
	return e.durable
}

// Close marks and closes the logs. Nothing may be under way.
func (e *Engine) Close() error {
	err := e.meta.Close()
	for _, d := range e.data {
		err = errors.Join(err, d.Close())
	}
	e.files.Close()
	return err
}
