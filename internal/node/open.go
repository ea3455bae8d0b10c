package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"galgo"
	"galgo/internal/auth"
	"galgo/internal/config"
	"galgo/internal/disk"
	"galgo/internal/edge"
	"galgo/internal/engine"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// TailsBytes bounds the batches that all partitions together keep in memory.
const TailsBytes = 256 << 20

// openDirectory opens the data directory, and empties it if that was asked for: not
// before it is locked, as another server may be running on it.
func openDirectory(c config.Config) (*disk.OS, error) {
	d, err := disk.OpenOS(c.System.Path)
	if err != nil {
		return d, err
	}
	d.CacheBehind(int64(c.System.CachedBehind))
	if !c.Fresh {
		return d, nil
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
func (n *Node) recover(ctx, work context.Context, d disk.Disk) error {
	keys, err := Keys(n.cfg.System.Encryption)
	if err != nil {
		return err
	}
	if err := n.joins(d); err != nil {
		return err
	}
	n.files = shareFiles(filesAllowed(), n.cfg.Limits.Connections)
	o := engine.Options{
		Keys: keys, Config: n.cfg, Clock: wallClock{}, Random: randomUint64, Tails: TailsBytes, Fail: n.fail, Note: n.note,
		SegmentFiles: n.files.segments, UnsyncedGroups: n.files.unsynced,
		Loop: func() engine.Loop {
			l := newLoop()
			n.loops = append(n.loops, l)
			return l
		},
	}
	if err := n.cluster.begin(ctx, work, o); err != nil {
		return n.named(err)
	}
	n.cluster.options(&o)
	e, err := engine.Open(d, o)
	if err != nil {
		return n.named(err)
	}
	n.engine, n.backend = e, e
	if n.cluster != nil {
		n.backend = n.cluster.connect(e)
	}
	return n.makeEdge()
}

// named says of which data directory an error is.
func (n *Node) named(err error) error {
	return fmt.Errorf("data directory %s: %w", n.cfg.System.Path, err)
}

func (n *Node) makeEdge() error {
	l := n.cfg.Limits
	if n.files.connections < l.Connections {
		n.log.Warn("fewer connections than configured: the system allows too few open files", "limits.connections", l.Connections, "connections", n.files.connections, "open files allowed", filesAllowed())
	}
	hasher, err := auth.NewHasher(auth.HasherOptions{Concurrency: l.LoginConcurrency})
	if err != nil {
		return err
	}
	n.edge = edge.New(edge.Options{
		Hasher: hasher, Logger: n.log, Version: n.version, Connections: n.files.connections,
		FrameMax: uint32(n.cfg.MessageBus.MaxMessageSize), ByteBudget: int64(n.cfg.System.MemoryBudget),
		InflightSends: l.RequestsPerConnection, InflightBytes: int64(l.BytesPerConnection), LoginsUnslowed: !l.LoginSlowdown,
		HandshakeTimeout: n.cfg.MessageBus.HandshakeGrace, Diagnostics: n,
		HeartbeatInterval: heartbeat(n.cfg.Heartbeat), Home: n.cluster.home(),
	}, n.backend)
	return nil
}

// heartbeat is the interval, 0 if silence is nothing to be looked for.
func heartbeat(c config.Heartbeat) time.Duration {
	if !c.Enabled {
		return 0
	}
	return c.Interval
}

// wellKnown is the name and the password that stock clients try.
const wellKnown = "iggy"

// bootstrap makes the root user through the log, at the first start, and brings
// the replicated settings in line with the configuration at every start.
func (n *Node) bootstrap(ctx context.Context) error {
	settings := metadata.Settings{ClientsMax: uint32(n.cfg.Metadata.ClientsTableMax), TokensMax: uint32(n.cfg.Tokens.MaxPerUser)}
	if n.cluster != nil {
		return n.bootstrapTogether(ctx, settings)
	}
	view := n.engine.View()
	if !view.Bootstrapped() {
		return n.makeRoot(ctx, settings)
	}
	if err := n.configure(ctx, settings); err != nil {
		return err
	}
	return n.departed(ctx)
}

// departed detaches the sessions whose connections the last life of this node has taken along
// without saying so: a member of a consumer group that cannot poll must not keep its
// partitions from others. It is for a single node, where all of them are gone; among several
// who leads the metadata sees to it.
func (n *Node) departed(ctx context.Context) error {
	for {
		d, any := n.engine.View().DepartureOf(0, 0)
		if !any {
			return nil
		}
		if err := n.internal(ctx, metadata.OperationDepart, d.Encode()); err != nil {
			return err
		}
	}
}

func (n *Node) configure(ctx context.Context, settings metadata.Settings) error {
	if n.engine.View().Settings() == settings {
		return nil
	}
	body, err := metadata.Configure{Settings: settings}.Encode()
	if err != nil {
		return err
	}
	return n.internal(ctx, metadata.OperationConfigure, body)
}

// bootstrapTogether waits until the cluster has its root user, which whoever leads makes.
// The settings may wait: a node that comes back serves also where nobody leads.
func (n *Node) bootstrapTogether(ctx context.Context, settings metadata.Settings) error {
	again := time.NewTicker(bootstrapRetry)
	defer again.Stop()
	for !n.engine.View().Bootstrapped() {
		if n.leads() {
			if err := n.makeRoot(ctx, settings); err != nil && !retriable(err) {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again.C:
		}
	}
	n.tellRoot()
	n.cluster.running.Go(func() { n.configureTogether(ctx, settings) })
	return nil
}

// configureTogether brings the settings of the cluster in line with the configuration,
// as soon as somebody leads.
func (n *Node) configureTogether(ctx context.Context, settings metadata.Settings) {
	again := time.NewTicker(bootstrapRetry)
	defer again.Stop()
	for {
		err := n.configure(ctx, settings)
		switch {
		case err == nil || ctx.Err() != nil:
			return
		case !retriable(err):
			n.log.Error("the settings of the cluster are not brought in line with this configuration", "err", err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// bootstrapRetry is the pause before what another node has to decide is tried again.
const bootstrapRetry = 20 * time.Millisecond

func retriable(err error) bool {
	code, ok := galgo.CodeOf(err)
	return ok && code.Retriable()
}

// rootUser is the first user as this node would make it.
type rootUser struct {
	name, hash string
	generated  bool // its password is, and is shown in the log
}

// makeRoot makes the root user. It is the same one at each attempt: the outcome of one
// before may be open, and one password is told.
func (n *Node) makeRoot(ctx context.Context, settings metadata.Settings) error {
	if n.root == nil {
		name, password, generated := n.rootCredentials()
		hasher, err := auth.NewHasher(auth.HasherOptions{})
		if err != nil {
			return err
		}
		hash, err := hasher.Hash(ctx, []byte(password))
		if err != nil {
			return fmt.Errorf("root user: %w", err)
		}
		n.root = &rootUser{name, hash, generated}
	}
	body, err := metadata.Bootstrap{Username: n.root.name, PasswordHash: n.root.hash, Settings: settings}.Encode()
	if err != nil {
		return fmt.Errorf("root user: %w", err)
	}
	return n.internal(ctx, metadata.OperationBootstrap, body)
}

// tellRoot says so when another node was quicker, as the log may show a password here.
func (n *Node) tellRoot() {
	if n.root == nil || !n.root.generated {
		return
	}
	if root, ok := n.engine.View().User(galgo.NumericID(0)); ok && root.PasswordHash != n.root.hash {
		n.log.Warn("the root user was made by another node: its name and password are those of that node's configuration or log, not those shown here")
	}
}

// generatedMark begins the one message that holds a secret, and that therefore never
// leaves the machine in a snapshot.
const generatedMark = "root user made: name"

// rootCredentials decides the first password: see the decision on root
// credentials in docs/decisions.
func (n *Node) rootCredentials() (name, password string, generated bool) {
	root := n.cfg.Root
	switch {
	case root.Username != "":
		return root.Username, root.Password, false
	case !reachable(n.cfg.Listen()):
		n.log.Warn("root user made with the well-known name and password; set GALGO_ROOT_USERNAME and GALGO_ROOT_PASSWORD before others can reach this server", "username", wellKnown)
		return wellKnown, wellKnown, false
	}
	password = rand.Text()
	// In the text of the message: attributes of this name are masked in every log.
	n.log.Warn(generatedMark + " " + wellKnown + ", password " + password + " (generated, shown only here)")
	return wellKnown, password, true
}

// internal runs an operation of the node's own through the metadata log.
func (n *Node) internal(ctx context.Context, op wire.Operation, body []byte) error {
	return n.propose(ctx, edge.MetadataRequest{Operation: op, Body: body})
}

func (n *Node) propose(ctx context.Context, req edge.MetadataRequest) error {
	done := make(chan edge.MetadataReply, 1)
	n.backend.Metadata(req, func(r edge.MetadataReply) { done <- r })
	select {
	case r := <-done:
		if r.Outcome != edge.OutcomeReply {
			return fmt.Errorf("operation %v: %w", req.Operation, &galgo.Error{Code: r.Code})
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// announce tells clients and whoever started the node where it can be reached.
func (n *Node) announce() {
	n.engine.Announce(func(client netip.Addr) wire.ClusterMetadata { return n.roster(n.bound, client) }, newHost(n.version, n.owned).stats)
	if n.owned != nil {
		path := n.cfg.CurrentPath()
		if err := config.WriteCurrent(path, config.CurrentTOML(n.cfg, n.bound)); err != nil {
			// Whoever deletes topics to make room needs a server that starts. What an
			// earlier one has left there is not true any more.
			n.log.Warn("the current configuration is not written; the server goes on without it", "err", err)
			os.Remove(path)
		}
	}
	n.log.Info("listening", "tcp", shown(n.bound.TCP, n.cfg.TCP.TLS.Enabled), "quic", shown(n.bound.QUIC, false),
		"websocket", shown(n.bound.WebSocket, n.cfg.WebSocket.TLS.Enabled), "data", n.cfg.System.Path, "took", time.Since(processStart).Round(time.Millisecond))
}

// shown is an address as the log has it.
func shown(address string, secure bool) string {
	switch {
	case address == "":
		return "off"
	case secure:
		return address + " (TLS)"
	}
	return address
}
