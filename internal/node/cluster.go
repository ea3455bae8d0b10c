package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"galgo/internal/config"
	"galgo/internal/disk"
	"galgo/internal/engine"
	"galgo/internal/metadata"
	"galgo/internal/peer"
	"galgo/internal/router"
	"galgo/internal/superblock"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// Refusals of a node among others.
var (
	// ErrEmpty: the data directory is empty, and the cluster has begun without it.
	ErrEmpty = errors.New("node: the data directory is empty, but the cluster has begun")
	// ErrNothingToReplace: a node was told that its disk is lost, but the cluster has
	// not begun.
	ErrNothingToReplace = errors.New("node: nothing to replace, as the cluster has not begun")
	// ErrLifeLost: the replica has taken part, and its file of lives is gone.
	ErrLifeLost = errors.New("node: the data directory holds data but not both of FORMAT and LIFE")
	// ErrPast: the disk is an old copy, see peer.ErrPast.
	ErrPast = errors.New("node: the disk of this replica is of the past")
	// ErrOutlived: another node has heard a later life of this replica.
	ErrOutlived = errors.New("node: the cluster knows a later life of this replica")
)

// cluster is this node among others: its links, what it has heard of the others, and
// how it begins. docs/decisions/0018 has the rule.
type cluster struct {
	node     *Node
	disk     disk.Disk
	self     uint8
	replicas int
	links    *peer.Links
	running  sync.WaitGroup

	engine atomic.Pointer[engine.Engine]
	router atomic.Pointer[router.Router]

	mu    sync.Mutex
	there []bool // told in the log
	known uint64 // the latest life of this replica that another knows of
	life  uint64 // 0 before it takes part
	news  chan struct{}

	writing sync.Mutex // held while LIFE is written
	written superblock.Life
}

// joins makes the node one of several, if the roster has several.
func (n *Node) joins(d disk.Disk) error {
	c := &n.cfg.Cluster
	if !c.Enabled || len(c.Nodes) < 2 {
		return nil
	}
	n.cluster = &cluster{
		node: n, disk: d, self: uint8(c.ReplicaID), replicas: len(c.Nodes), there: make([]bool, len(c.Nodes)), news: make(chan struct{}, 1),
	}
	return n.cluster.makeLinks()
}

func (c *cluster) makeLinks() (err error) {
	cfg := &c.node.cfg.Cluster
	o := peer.Options{
		Cluster: engine.ClusterID(cfg.Name), ClusterName: cfg.Name, Self: c.self, Nodes: make([]peer.Node, c.replicas), Log: c.node.log,
	}
	for _, n := range cfg.Nodes {
		o.Nodes[n.ReplicaID] = peer.Node{Name: n.Name, Address: n.PeerAddress()}
	}
	if network := c.node.network; network != nil {
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) { return network.Dial(ctx, "tcp", address) }
	}
	if cfg.Auth.Enabled {
		o.Secret, o.Previous = []byte(cfg.Auth.SharedSecret), []byte(cfg.Auth.PreviousSharedSecret)
	}
	if o.TLS, err = linkTLS(&cfg.TLS); err == nil {
		c.links, err = peer.New(o, c)
	}
	return err
}

func linkTLS(t *config.ClusterTLS) (*peer.TLS, error) {
	switch {
	case !t.Enabled:
		return nil, nil
	case t.SelfSigned:
		return peer.SelfSigned()
	}
	return peer.LoadTLS(t.CertFile, t.KeyFile, t.CAFile)
}

// options is what the engine of a node among others is made of.
func (c *cluster) options(o *engine.Options) {
	if c == nil {
		return
	}
	o.Home = c.home()
	o.Replica, o.Replicas, o.Boot, o.Network, o.Timing = c.self, c.replicas, c.life, c.links, timing(&c.node.cfg.Cluster.Timing)
}

// home is where sessions are whose connections are here: the life has begun.
func (c *cluster) home() metadata.Home {
	if c == nil {
		return metadata.Home{}
	}
	return metadata.Home{Replica: c.self, Life: c.life}
}

func timing(t *config.ClusterTiming) vsr.Timing {
	ticks := func(d time.Duration) int { return max(1, int(d/engine.Tick)) }
	return vsr.Timing{
		HeartbeatTicks: ticks(t.CommitBroadcast), RetransmitTicks: ticks(t.PrepareRetransmit), ElectionTicks: ticks(t.HeartbeatTimeout),
		ViewChangeTicks: ticks(t.ViewChangeStatus), RepeatTicks: ticks(t.ViewChangeRetransmit), ProbeTicks: ticks(t.Probe),
		ProbeAttempts: t.ProbeAttempts, RepairTicks: ticks(t.Repair), CommitTicks: 1,
	}
}

// begin connects to the others and returns when this node may take part: its life is
// durable by then.
func (c *cluster) begin(ctx, work context.Context, o engine.Options) error {
	if c == nil {
		return nil
	}
	o.Replica, o.Replicas = c.self, c.replicas
	phase, number, last, err := c.past(o)
	if err != nil {
		return err
	}
	if phase == peer.Begun {
		err = c.takePart(number, last)
	} else {
		c.links.SetState(number, last, phase)
	}
	if err != nil {
		return err
	}
	if err := c.listen(work); err != nil || phase == peer.Begun {
		return err
	}
	if err := c.settle(ctx, phase, number, o); err != nil {
		return err
	}
	number = max(number, c.outlived()+1)
	return c.takePart(number, number-1)
}

func (c *cluster) listen(work context.Context) error {
	self, _ := c.node.cfg.Cluster.Self()
	listener, err := c.node.listenStream(self.PeerBind())
	if err != nil {
		return fmt.Errorf("cluster.nodes: ip and ports.tcp_replica of %s: %w; is another server running?", self.Name, err)
	}
	c.running.Go(func() {
		if err := c.links.Run(work, listener); err != nil {
			c.node.fail(err)
		}
	})
	return nil
}

// past finds out from the disk how far this replica has come, and numbers its new life.
func (c *cluster) past(o engine.Options) (phase peer.Phase, number, last uint64, err error) {
	_, err = superblock.ReadIdentity(c.disk)
	formatted := err == nil
	if err != nil && !errors.Is(err, superblock.ErrIdentityAbsent) {
		return 0, 0, 0, err
	}
	if formatted {
		if err := engine.Format(c.disk, o); err != nil { // which checks whose it is
			return 0, 0, 0, err
		}
	}
	l, lived, err := superblock.ReadLife(c.disk)
	if err != nil {
		return 0, 0, 0, err
	}
	if l.Past {
		return 0, 0, 0, fmt.Errorf("%w: %w", ErrPast, peer.ErrPast)
	}
	number = max(o.Clock.Now(), l.Number+1)
	if lived && formatted {
		return peer.Begun, number, l.Number, nil
	}
	untouched, err := engine.Untouched(c.disk, o)
	switch {
	case err != nil:
		return 0, 0, 0, err
	case lived || !untouched && formatted:
		return 0, 0, 0, fmt.Errorf("%w; restore it from a copy of this directory, or replace the disk of this replica", ErrLifeLost)
	case formatted:
		return peer.Formed, number, 0, nil
	}
	return peer.Empty, number, 0, nil
}

// settle waits until this node may take part. What is decided here follows from what the
// others say of themselves in this life of the process.
func (c *cluster) settle(ctx context.Context, phase peer.Phase, number uint64, o engine.Options) error {
	remind := time.NewTicker(10 * time.Second)
	defer remind.Stop()
	defer c.node.health.waitsFor("")
	for {
		c.node.health.waitsFor(fmt.Sprintf("the other nodes: %v; this one is %v", c.missing(), phase))
		next, err := c.step(phase, o)
		if err != nil || next == peer.Begun {
			return err
		}
		if next != phase {
			phase = next
			c.links.SetState(number, 0, phase)
			continue
		}
		select {
		case <-c.news:
		case <-remind.C:
			c.node.log.Info("waiting for the other nodes", "this node is", phase.String(), "for", c.missing())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// step decides whether the node comes on by what it has heard.
func (c *cluster) step(phase peer.Phase, o engine.Options) (peer.Phase, error) {
	all, begun, formed := c.others()
	switch {
	case phase == peer.Formed && c.outlived() > 0:
		return phase, c.endAsPast(c.outlived(), peer.ErrPast)
	case phase == peer.Formed && formed:
		return peer.Begun, nil
	case phase == peer.Formed:
	case c.node.cfg.Replace && begun != "":
		o.Replace = true
		return peer.Begun, engine.Format(c.disk, o)
	case c.node.cfg.Replace && all:
		return phase, fmt.Errorf("%w; start without --replace", ErrNothingToReplace)
	case c.node.cfg.Replace:
	case begun != "":
		return phase, fmt.Errorf("%w, as node %q says; if the disk of this replica is lost, start once with --replace, else attach its data directory", ErrEmpty, begun)
	case all:
		return peer.Formed, engine.Format(c.disk, o)
	}
	return phase, nil
}

// outlived is the latest life of this replica that another knows of, 0 for none. Where
// the disk knows of none it is a copy from before.
func (c *cluster) outlived() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}

// endAsPast is why a node on a disk of the past ends, and is not started again.
func (c *cluster) endAsPast(life uint64, cause error) error {
	return errors.Join(fmt.Errorf("%w: %w", ErrPast, cause), c.writeLife(superblock.Life{Number: life, Past: true}))
}

// endAsOutlived is why a node ends that hears of a later life. The next start is above it.
func (c *cluster) endAsOutlived(life, own uint64) error {
	err := fmt.Errorf("%w: %d, this one is %d; make sure that it does not run twice, and that the clock of this machine is right; then start it again", ErrOutlived, life, own)
	return errors.Join(err, c.writeLife(superblock.Life{Number: life}))
}

// writeLife makes a life durable. Peers may tell at once what has to be written, from
// several goroutines: the number never goes back, and what is of the past stays so.
func (c *cluster) writeLife(l superblock.Life) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	l = superblock.Life{Number: max(l.Number, c.written.Number), Past: l.Past || c.written.Past}
	if l == c.written {
		return nil
	}
	if err := superblock.WriteLife(c.disk, l); err != nil {
		return err
	}
	c.written = l
	return nil
}

// others sums up what the others say: whether all are there, the name of one that has
// begun, and whether all have formatted their disks and told what they know of this node.
func (c *cluster) others() (all bool, begun string, formed bool) {
	all, formed = true, true
	for i := range c.replicas {
		if i == int(c.self) {
			continue
		}
		s := c.links.Status(uint8(i))
		all = all && s.Connected
		formed = formed && s.Connected && s.Judged && s.Phase >= peer.Formed
		if s.Connected && s.Phase == peer.Begun {
			begun = c.name(i)
		}
	}
	return all, begun, formed
}

// missing names the nodes that are waited for.
func (c *cluster) missing() (names []string) {
	for i := range c.replicas {
		if s := c.links.Status(uint8(i)); i != int(c.self) && (!s.Connected || s.Phase == peer.Empty) {
			names = append(names, c.name(i))
		}
	}
	return names
}

func (c *cluster) name(replica int) string {
	for _, n := range c.node.cfg.Cluster.Nodes {
		if n.ReplicaID == replica {
			return n.Name
		}
	}
	return ""
}

// takePart makes the number of this life durable, then tells the others. A later life
// that was heard of meanwhile ends it: from here on Outlived does.
func (c *cluster) takePart(number, last uint64) error {
	if err := c.writeLife(superblock.Life{Number: number}); err != nil {
		return err
	}
	c.mu.Lock()
	known := c.known
	if known < number {
		c.life = number
	}
	c.mu.Unlock()
	if known >= number {
		return c.endAsOutlived(known, number)
	}
	c.links.SetState(number, last, peer.Begun)
	return nil
}

// wait returns when the links have ended, and what else was begun for them.
func (c *cluster) wait() {
	if c != nil {
		c.running.Wait()
	}
}

// leave has nobody wait for what a node that stops will not see.
func (n *Node) leave() {
	n.stopping.Store(true)
	if n.cluster != nil {
		n.cluster.router.Load().Stop()
	}
}

// connect has what the others say come to the engine, and returns what the edge asks.
func (c *cluster) connect(e *engine.Engine) *router.Router {
	r := router.New(e, c.self, c.links)
	c.engine.Store(e)
	c.router.Store(r)
	return r
}

// Deliver implements peer.Handler.
func (c *cluster) Deliver(m vsr.Message, done func()) {
	if e := c.engine.Load(); e != nil {
		e.DeliverThen(m, done)
	} else {
		done()
	}
}

// Asked implements peer.Handler.
func (c *cluster) Asked(from, subject uint8, question []byte, answer func([]byte)) {
	if r := c.router.Load(); r != nil {
		r.Asked(from, subject, question, answer)
	} else {
		answer(nil)
	}
}

// Heard implements peer.Handler.
func (c *cluster) Heard(replica uint8) {
	if s := c.links.Status(replica); c.changed(replica, s.Connected) && s.Connected {
		c.node.log.Info("a node is there", "node", c.name(int(replica)), "it is", s.Phase.String())
	}
	c.nudge()
}

// LinkDown implements peer.Handler.
func (c *cluster) LinkDown(replica uint8) {
	if connected := c.links.Status(replica).Connected; c.changed(replica, connected) && !connected {
		c.node.log.Warn("a node is gone, or cannot be reached", "node", c.name(int(replica)))
	}
	if e := c.engine.Load(); e != nil {
		e.LinkDown(replica)
	}
	c.nudge()
}

// changed reports whether it is news that a node is there, or is not.
func (c *cluster) changed(replica uint8, there bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	news := c.there[replica] != there
	c.there[replica] = there
	return news
}

// Outlived implements peer.Handler. A life that has begun cannot be numbered anew: it
// ends, and the next one is above what is known; but not on a disk of the past.
func (c *cluster) Outlived(life uint64, cause error) {
	c.mu.Lock()
	c.known = max(c.known, life)
	own := c.life
	c.mu.Unlock()
	switch {
	case own == 0:
		c.nudge()
	case errors.Is(cause, peer.ErrPast):
		c.node.fail(c.endAsPast(own, cause))
	case life > own:
		c.node.fail(c.endAsOutlived(life, own))
	}
}

func (c *cluster) nudge() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// member says how a node of the roster is, as far as this one knows.
func (c *cluster) member(replica int) (wire.NodeRole, wire.NodeStatus) {
	role := wire.RoleFollower
	if leader, known := c.node.engine.MetadataLeader(); known && int(leader) == replica {
		role = wire.RoleLeader
	}
	if replica == int(c.self) {
		if c.node.stopping.Load() {
			return role, wire.NodeStopping
		}
		return role, wire.NodeHealthy
	}
	switch s := c.links.Status(uint8(replica)); {
	case !s.Connected:
		return role, wire.NodeUnreachable
	case s.Phase != peer.Begun:
		return role, wire.NodeStarting
	}
	return role, wire.NodeHealthy
}

// roster is the cluster as a client with this address is told of it.
func (n *Node) roster(bound config.Bound, client netip.Addr) wire.ClusterMetadata {
	roster := wire.ClusterMetadata{Name: n.cfg.ClusterName()}
	for _, m := range n.cfg.Roster(bound, client) {
		role, status := wire.RoleLeader, wire.NodeHealthy
		if n.cluster != nil {
			role, status = n.cluster.member(m.ReplicaID)
		}
		roster.Nodes = append(roster.Nodes, wire.ClusterNode{
			Name: m.Name, Address: m.Host, TCP: uint16(m.Ports.TCP), QUIC: uint16(m.Ports.QUIC),
			HTTP: uint16(m.Ports.HTTP), WebSocket: uint16(m.Ports.WebSocket), Role: role, Status: status,
		})
	}
	return roster
}
