package node

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"galgo"
	"galgo/internal/auth"
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

// tailsBytes bounds the batches that all partitions together keep in memory.
const tailsBytes = 256 << 20

// walSpares is how many files of the metadata log are kept to be written again.
const walSpares = 2

// spares is the same for the logs of the partitions: as many as one checkpoint
// frees, so that in the long run no file is made.
func spares(c config.WAL) int { return int(c.Limit/c.FileSize) + 2 }

// openDirectory opens the data directory, and empties it if that was asked for: not
// before it is locked, as another server may be running on it.
func openDirectory(c config.Config) (*disk.OS, error) {
	d, err := disk.OpenOS(c.System.Path)
	if err != nil || !c.Fresh {
		return d, err
	}
	if err := emptyDirectory(d.Dir()); err != nil {
		return nil, errors.Join(fmt.Errorf("--fresh: %w", err), d.Close())
	}
	return d, nil
}

func emptyDirectory(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != disk.LockName {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// recover brings the shards to where the data directory says they were.
func (n *Node) recover(d disk.Disk, version string) error {
	if n.cfg.Cluster.Enabled && len(n.cfg.Cluster.Nodes) != 1 {
		return errors.New("cluster.nodes: this version of galgo runs as a single node; leave one node in the roster, or set cluster.enabled to false")
	}
	n.files = shareFiles(filesAllowed(), n.cfg.Limits.Connections)
	e, err := openEngine(d, engineOptions{
		config: n.cfg, clock: wallClock{}, random: randomUint64, tails: tailsBytes, files: n.files, fail: n.fail, note: n.note,
		loop: func() Loop {
			l := newLoop()
			n.loops = append(n.loops, l)
			return l
		},
	})
	if err != nil {
		return fmt.Errorf("data directory %s: %w", n.cfg.System.Path, err)
	}
	n.engine = e
	e.host = newHost(version, n.owned).stats
	return n.makeEdge(version)
}

// engineOptions is what an engine is made of: everything that is not the same at
// every run comes in here.
type engineOptions struct {
	config config.Config
	clock  shard.Clock
	random func() uint64
	tails  int64 // bytes of batches that all partitions together keep in memory
	files  fileShares
	loop   func() Loop // makes one; the first is for the metadata, then one a shard
	fail   func(error)
	note   func(string, ...any)
}

// openEngine formats an empty disk or recovers what is on it. Nothing runs yet
// when it returns: the loops it asked for are to be started.
func openEngine(d disk.Disk, o engineOptions) (*engine, error) {
	c := o.config
	cluster := clusterID(c.Cluster.Name)
	format := shard.FormatConfig{
		Identity: superblock.Identity{Cluster: cluster, ReplicaCount: 1, CreatedAt: o.clock.Now()},
		Shards:   c.System.Shards, WALFileSize: int64(c.WAL.FileSize), Salt: o.random(),
	}
	binary.LittleEndian.PutUint64(format.Identity.Node[:], o.random())
	binary.LittleEndian.PutUint64(format.Identity.Node[8:], o.random())
	if err := shard.Format(d, format); err != nil {
		return nil, err
	}
	e := &engine{durable: c.Partition.Durability != config.DurabilityMemory, files: partition.NewFiles(d, o.files.segments)}
	if err := e.openMetadata(d, cluster, o); err != nil {
		return nil, err
	}
	view := e.View()
	named := func(id vsr.GroupID) bool { _, ok := view.PartitionOf(uint64(id)); return ok }
	err := shard.SweepGroups(d, named, view.GroupsIssued(), o.note)
	for i := 0; i < c.System.Shards && err == nil; i++ {
		err = e.openData(d, cluster, i, o)
	}
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

func (e *engine) openMetadata(d disk.Disk, cluster [16]byte, o engineOptions) (err error) {
	c := o.config
	e.metaLoop = o.loop()
	e.meta, err = shard.OpenMetadata(shard.MetadataConfig{
		Disk: d, Clock: o.clock, Executor: e.metaLoop, Cluster: cluster, Replicas: 1, Pipeline: c.Metadata.PrepareQueueDepth,
		WALFileSize: int64(c.WAL.FileSize), WALSpare: walSpares, Salt: o.random(),
		CheckpointSlots: uint64(c.Metadata.JournalSlots), CheckpointMargin: uint64(c.Metadata.CheckpointMargin),
		CheckpointBytes: int64(c.Metadata.CheckpointBytes),
		Publish:         e.publish, Changed: e.changed, Fail: o.fail, Note: o.note,
	})
	if err == nil {
		e.publish(e.meta.View(), e.meta.CommitMin())
	}
	return err
}

func (e *engine) openData(d disk.Disk, cluster [16]byte, i int, o engineOptions) error {
	c, view, l := o.config, e.View(), o.loop()
	data, err := shard.OpenData(shard.DataConfig{
		Disk: d, Clock: o.clock, Executor: l, Cluster: cluster, Shard: uint32(i), Replicas: 1, Pipeline: c.Partition.PrepareQueueDepth,
		WALFileSize: int64(c.WAL.FileSize), WALSpare: spares(c.WAL), Salt: o.random(), WALLimit: int64(c.WAL.Limit),
		TailBytes: int(c.Partition.TailBytes), TailsBytes: o.tails / int64(c.System.Shards), Files: e.files,
		UnsyncedMax: max(1, o.files.unsynced/c.System.Shards), Fail: o.fail, Note: o.note,
	}, e.specs(view, i, c.System.Shards), view.GroupsIssued())
	if err != nil {
		return err
	}
	e.data = append(e.data, data)
	e.dataLoops = append(e.dataLoops, l)
	for _, id := range data.Groups() {
		e.stats.Store(uint64(id), data.Stats(id))
	}
	return nil
}

// specs lists the groups that the metadata names for one shard.
func (e *engine) specs(v *metadata.View, index, shards int) []shard.GroupSpec {
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
func (e *engine) spec(v *metadata.View, group uint64) (shard.GroupSpec, bool) {
	p, ok := v.PartitionOf(group)
	if !ok {
		return shard.GroupSpec{}, false
	}
	t, ok := v.TopicOf(p)
	if !ok {
		return shard.GroupSpec{}, false
	}
	o := t.Options
	return shard.GroupSpec{
		ID: vsr.GroupID(p.Group), Incarnation: p.CreatedRevision, Stream: p.Stream, Topic: p.Topic, Partition: p.ID,
		SegmentSize: o.SegmentSize, MessagesToSave: o.MessagesRequiredToSave, BytesToSave: o.SizeOfMessagesRequiredToSave,
		Preallocate: o.PreallocateSegments, Sync: e.syncs(&o), PurgeGeneration: p.PurgeGeneration,
	}, true
}

// syncs reports whether a topic's messages are acknowledged after the sync: see
// the decision on the durability of a topic in docs/decisions.
func (e *engine) syncs(o *wire.TopicOptions) bool {
	switch o.Durability() {
	case wire.DurabilityFsync:
		return true
	case wire.DurabilityMemory:
		return false
	}
	return e.durable
}

func (e *engine) close() error {
	err := e.meta.Close()
	for _, d := range e.data {
		err = errors.Join(err, d.Close())
	}
	e.files.Close()
	return err
}

func (n *Node) makeEdge(version string) error {
	l := n.cfg.Limits
	if n.files.connections < l.Connections {
		n.log.Warn("fewer connections than configured: the system allows too few open files", "limits.connections", l.Connections, "connections", n.files.connections, "open files allowed", filesAllowed())
	}
	hasher, err := auth.NewHasher(auth.HasherOptions{Concurrency: l.LoginConcurrency})
	if err != nil {
		return err
	}
	n.edge = edge.New(edge.Options{
		Hasher: hasher, Logger: n.log, Version: version, Connections: n.files.connections,
		FrameMax: uint32(n.cfg.MessageBus.MaxMessageSize), ByteBudget: int64(n.cfg.System.MemoryBudget),
		InflightSends: l.RequestsPerConnection, InflightBytes: int64(l.BytesPerConnection),
	}, n.engine)
	return nil
}

// wellKnown is the name and the password that stock clients try.
const wellKnown = "iggy"

// bootstrap makes the root user through the log, at the first start, and brings
// the replicated settings in line with the configuration at every start.
func (n *Node) bootstrap(ctx context.Context) error {
	settings := metadata.Settings{ClientsMax: uint32(n.cfg.Metadata.ClientsTableMax)}
	view := n.engine.View()
	switch {
	case !view.Bootstrapped():
		return n.makeRoot(ctx, settings)
	case view.Settings() != settings:
		body, err := metadata.Configure{Settings: settings}.Encode()
		if err != nil {
			return err
		}
		return n.internal(ctx, metadata.OperationConfigure, body)
	}
	return nil
}

func (n *Node) makeRoot(ctx context.Context, settings metadata.Settings) error {
	name, password := n.rootCredentials()
	hasher, err := auth.NewHasher(auth.HasherOptions{})
	if err != nil {
		return err
	}
	hash, err := hasher.Hash(ctx, []byte(password))
	if err != nil {
		return fmt.Errorf("root user: %w", err)
	}
	body, err := metadata.Bootstrap{Username: name, PasswordHash: hash, Settings: settings}.Encode()
	if err != nil {
		return fmt.Errorf("root user: %w", err)
	}
	return n.internal(ctx, metadata.OperationBootstrap, body)
}

// rootCredentials decides the first password: see the decision on root
// credentials in docs/decisions.
func (n *Node) rootCredentials() (name, password string) {
	root := n.cfg.Root
	switch {
	case root.Username != "":
		return root.Username, root.Password
	case loopbackOnly(n.cfg.TCP.Address):
		n.log.Warn("root user made with the well-known name and password; set GALGO_ROOT_USERNAME and GALGO_ROOT_PASSWORD before others can reach this server", "username", wellKnown)
		return wellKnown, wellKnown
	}
	generated := rand.Text()
	// In the text of the message: attributes of this name are masked in every log.
	n.log.Warn("root user made: name " + wellKnown + ", password " + generated + " (generated, shown only here)")
	return wellKnown, generated
}

func loopbackOnly(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// internal runs an operation of the node's own through the metadata log.
func (n *Node) internal(ctx context.Context, op wire.Operation, body []byte) error {
	done := make(chan edge.MetadataReply, 1)
	n.engine.Metadata(edge.MetadataRequest{Operation: op, Body: body}, func(r edge.MetadataReply) { done <- r })
	select {
	case r := <-done:
		if r.Outcome != edge.OutcomeReply {
			return fmt.Errorf("operation %v: %w", op, &galgo.Error{Code: r.Code})
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// announce tells clients and whoever started the node where it can be reached.
func (n *Node) announce() {
	bound := config.Bound{TCP: n.tcp.Addr().String()}
	roster := wire.ClusterMetadata{Name: n.cfg.ClusterName()}
	for _, m := range n.cfg.Roster(bound, netip.Addr{}) {
		roster.Nodes = append(roster.Nodes, wire.ClusterNode{
			Name: m.Name, Address: m.Host, TCP: uint16(m.Ports.TCP), QUIC: uint16(m.Ports.QUIC),
			HTTP: uint16(m.Ports.HTTP), WebSocket: uint16(m.Ports.WebSocket), Role: wire.RoleLeader, Status: wire.NodeHealthy,
		})
	}
	n.engine.roster = roster
	if n.owned != nil {
		path := n.cfg.CurrentPath()
		if err := config.WriteCurrent(path, config.CurrentTOML(n.cfg, bound)); err != nil {
			// Whoever deletes topics to make room needs a server that starts. What an
			// earlier one has left there is not true any more.
			n.log.Warn("the current configuration is not written; the server goes on without it", "err", err)
			os.Remove(path)
		}
	}
	n.log.Info("listening", "tcp", bound.TCP, "data", n.cfg.System.Path, "took", time.Since(processStart).Round(time.Millisecond))
}
