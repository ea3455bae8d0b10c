package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"galgo/internal/vsr"
)

// Node is a node of the roster.
type Node struct {
	Name    string
	Address string // host:port that peers dial
}

// Options is what links are made of.
type Options struct {
	Cluster     [16]byte
	ClusterName string
	Self        uint8
	Nodes       []Node // by replica id
	// Secret proves that a node belongs to the cluster, Previous is accepted beside it
	// while it is being replaced. Without a secret every address is believed.
	Secret, Previous []byte
	TLS              *TLS // nil for none; with a secret only
	// Dial connects to an address; nil for TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	Log  *slog.Logger
}

// Handler takes what peers say. Its methods are called from the goroutines of the
// connections and must not block.
type Handler interface {
	// Deliver takes a frame; done is called when it was dealt with.
	Deliver(m vsr.Message, done func())
	// Asked answers a question; answer is called once, at any time.
	Asked(from, subject uint8, question []byte, answer func([]byte))
	// Heard says that a peer has said how far it has come; see Links.Status.
	Heard(replica uint8)
	// LinkDown says that the connection to a peer broke.
	LinkDown(replica uint8)
	// Outlived says that a peer knows of a later life of this node, or of any before this
	// node has begun. With ErrPast this node's disk does not, although it should.
	Outlived(life uint64, err error)
}

// Links connect a node to its peers.
type Links struct {
	o       Options
	keys    keys
	roster  [16]byte
	handler Handler
	log     *slog.Logger
	peers   []*link // by replica; nil for this node
	calls   *calls
	lobby   *lobby

	complaints complaints

	mu         sync.Mutex
	life, last uint64
	phase      Phase
}

// New prepares links; nothing runs yet.
func New(o Options, h Handler) (*Links, error) {
	k, err := newKeys(o.Secret, o.Previous)
	if err != nil {
		return nil, err
	}
	if o.Dial == nil {
		o.Dial = dialTCP
	}
	if o.TLS != nil && !k.prove() {
		return nil, fmt.Errorf("peer: TLS between nodes wants a shared secret, which proves who the other end is")
	}
	var names []string
	for _, n := range o.Nodes {
		if len(n.Name) > nameMax || len(o.ClusterName) > nameMax {
			return nil, fmt.Errorf("peer: a name has more than %d bytes", nameMax)
		}
		names = append(names, n.Name)
	}
	l := &Links{
		o: o, keys: k, roster: rosterDigest(names), handler: h, log: o.Log, calls: newCalls(), lobby: newLobby(o.Nodes),
		peers: make([]*link, len(o.Nodes)),
	}
	for i := range o.Nodes {
		if uint8(i) != o.Self {
			l.peers[i] = newLink(l, uint8(i))
		}
	}
	return l, nil
}

// Run connects to the peers and takes their connections until ctx ends, and returns when
// all that it started has stopped. It closes the listener.
func (l *Links) Run(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	closed := context.AfterFunc(ctx, func() { listener.Close() })
	defer closed()
	var lanesOut sync.WaitGroup
	for _, k := range l.peers {
		if k == nil {
			continue
		}
		for _, o := range k.out {
			lanesOut.Go(func() { o.run(ctx) })
		}
	}
	err := l.accept(ctx, listener)
	cancel()
	lanesOut.Wait()
	return err
}

// Send implements shard.Network: it never waits, and drops what cannot leave.
func (l *Links) Send(m vsr.Message) {
	if int(m.To) >= len(l.peers) || l.peers[m.To] == nil {
		return
	}
	lane, r := Control, rankNow
	if bulky(m.Kind) {
		lane = Bulk
		if m.Kind != vsr.MessagePrepare {
			r = rankLater
		}
	}
	l.peers[m.To].out[lane].queue.put(frameEntry(m), r)
}

// SetState tells the peers how far this node has come, in which life, and which one its
// disk knew of before: that is how a disk of the past is found out. A life is durable
// before it is told as one that has begun.
func (l *Links) SetState(life, last uint64, phase Phase) {
	l.mu.Lock()
	l.life, l.last, l.phase = life, last, phase
	l.mu.Unlock()
	for _, k := range l.peers {
		if k != nil {
			k.out[Control].queue.put(l.stateEntry(), rankNow)
		}
	}
}

func (l *Links) state() (life uint64, phase Phase) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.life, l.phase
}

func (l *Links) stateEntry() entry {
	life, phase := l.state()
	return dataEntry(recordState, append(binary.LittleEndian.AppendUint64(nil, life), byte(phase)), nil)
}

// Status is what a node knows of a peer.
type Status struct {
	Connected bool // its connections are there
	Phase     Phase
	Life      uint64 // the latest that took part; 0: none was heard of
	Judged    bool   // it has told which life of this node it knows; see Handler.Outlived
}

// Status tells what is known of a peer.
func (l *Links) Status(replica uint8) Status {
	if int(replica) >= len(l.peers) || l.peers[replica] == nil {
		return Status{}
	}
	k := l.peers[replica]
	k.mu.Lock()
	defer k.mu.Unlock()
	return Status{Connected: k.in[Control] != nil, Phase: k.phase, Life: k.life, Judged: k.judged}
}

// link is all that there is between this node and a peer.
type link struct {
	links *Links
	id    uint8
	out   [lanes]*outgoing

	mu    sync.Mutex
	in    [lanes]*incoming // the newest of each lane
	phase Phase
	life  uint64 // the latest that took part
	// judged: the connection that this node has dialed was taken.
	judged bool
	// process is the life that the newest connection of the peer began with, under which
	// its process goes here.
	process uint64
	dialed  [lanes]serving // what this node has dialed
}

// serving is a connection that a process of the peer has taken.
type serving struct {
	process uint64
	cut     func(error) // nil: there is none
}

// errReplaced: a later process of the peer has introduced itself.
var errReplaced = errors.New("peer: the node has begun another life")

func newLink(l *Links, id uint8) *link {
	k := &link{links: l, id: id}
	for lane := range lanes {
		k.out[lane] = newOutgoing(k, lane)
	}
	return k
}

func (k *link) node() Node { return k.links.o.Nodes[k.id] }

func (k *link) latestLife() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.life
}

// connected takes a connection in the place of the one before, and ends those of other
// lives: nothing that they still hold is heard any more. What the peer says of itself
// comes over the control lane only, in order.
//
// Who has not begun does not take the place of a connected process that has: it is not
// heard, and dials again. connected reports whether the connection is taken.
func (k *link) connected(in *incoming, phase Phase) bool {
	k.mu.Lock()
	if phase != Begun && k.phase == Begun && k.in[Control] != nil && k.in[Control].life != in.life {
		k.mu.Unlock()
		return false
	}
	if phase == Begun {
		k.life = max(k.life, in.life)
	}
	if in.lane == Control {
		k.phase = phase
	}
	k.process = in.life
	cut := k.cutEarlier()
	var old []*incoming
	for lane, c := range k.in {
		if c != nil && (Lane(lane) == in.lane || c.life != in.life) {
			old = append(old, c)
			k.in[lane] = nil
		}
	}
	k.in[in.lane] = in
	k.mu.Unlock()
	for _, c := range old {
		c.close()
	}
	if len(old) > 0 || cut {
		// Answers may have been on their way over the old connection, or are owed by a
		// process that is gone, although nobody has seen it break.
		k.links.calls.lost(k.id)
	}
	k.links.handler.Heard(k.id)
	for _, o := range k.out {
		o.nudge()
	}
	return true
}

// cutEarlier ends the connections that an earlier process of the peer has taken. It is
// called under the lock.
func (k *link) cutEarlier() (some bool) {
	for _, s := range k.dialed {
		if s.cut != nil && s.process < k.process {
			s.cut(errReplaced)
			some = true
		}
	}
	return some
}

// serves says that a connection that this node has dialed is written to from now on.
func (k *link) serves(lane Lane, process uint64, cut func(error)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dialed[lane] = serving{process, cut}
	k.cutEarlier()
}

// heard takes what a peer says of itself on a connection, unless that was replaced.
func (k *link) heard(in *incoming, life uint64, phase Phase) {
	if phase >= phases || life > lifeMax {
		return
	}
	k.mu.Lock()
	if k.in[Control] == in {
		k.phase = max(k.phase, phase) // a process comes on only; what it says at once may come in any order
		if phase == Begun {
			k.life = max(k.life, life)
		}
	}
	k.mu.Unlock()
	k.links.handler.Heard(k.id)
}

// disconnected forgets a connection. Unless another has taken its place the peer may be
// gone: whoever waits for it is told at once.
func (k *link) disconnected(in *incoming) {
	k.mu.Lock()
	current := k.in[in.lane] == in
	if current {
		k.in[in.lane] = nil
	}
	k.mu.Unlock()
	if current {
		k.broken(in.lane)
	}
}

// greeted says that a connection that this node dialed was taken.
func (k *link) greeted(lane Lane) {
	k.judge(lane, true)
	k.links.handler.Heard(k.id)
}

// unreachable says that the connection that this node dialed has ended.
func (k *link) unreachable(lane Lane) {
	k.mu.Lock()
	k.dialed[lane] = serving{}
	k.mu.Unlock()
	k.judge(lane, false)
	k.broken(lane)
}

func (k *link) judge(lane Lane, judged bool) {
	if lane == Control {
		k.mu.Lock()
		k.judged = judged
		k.mu.Unlock()
	}
}

func (k *link) broken(lane Lane) {
	k.links.calls.lost(k.id)
	if lane == Control {
		k.links.handler.LinkDown(k.id)
	}
}
