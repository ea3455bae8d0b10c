package vsr

import (
	"errors"
	"fmt"
	"math"
)

// PipelineCeiling is the largest depth of the pipeline: a view change describes
// the whole uncommitted range in HeadersMax headers.
const PipelineCeiling = 127

// viewMax is the largest view that a message may show. No group comes near it, and
// the numbers behind it are for counting on.
const viewMax View = math.MaxUint32 / 2

// spareMax bounds the room that a Ready which was given back keeps, in elements.
const spareMax = 2 * windowMax

// windowMax bounds the ops between a backup's commit point and its head.
const windowMax = 2 * PipelineCeiling

// Status of a replica in its group.
type Status uint8

// Statuses (VR Revisited §4). Only a Normal replica acknowledges or proposes.
const (
	StatusNormal Status = iota
	StatusViewChange
	StatusRecovering
)

func (s Status) String() string {
	switch s {
	case StatusNormal:
		return "normal"
	case StatusViewChange:
		return "view-change"
	case StatusRecovering:
		return "recovering"
	default:
		return "unknown"
	}
}

// Errors of Propose. All are retriable: nothing was given a place in the log.
var (
	ErrNotPrimary   = errors.New("vsr: this replica is not the primary of the group")
	ErrPipelineFull = errors.New("vsr: too many operations are waiting for their quorum")
)

// Random is the source of jitter. *rand.Rand of math/rand/v2 is one.
type Random interface {
	Uint64N(n uint64) uint64
}

// Config fixes what a group is and how its replica behaves.
type Config struct {
	Cluster     [16]byte
	Group       GroupID
	Incarnation uint64 // of the group: the metadata revision that created it
	Replica     uint8
	Replicas    int // 1..ReplicasMax
	Pipeline    int // ops that may wait for their quorum, 1..PipelineCeiling
	// Boot numbers the lives of this replica and grows from one to the next, also
	// when its disk is replaced: peers ignore what an earlier life said. The time of
	// the start in µs will do if it is above what the peers know. Not 0 among
	// replicas.
	Boot   uint64
	Rand   Random // jitter; nil for none
	Timing Timing
}

// DoubtAll marks a replaced replica: it knows nothing of what it once promised.
const DoubtAll Op = math.MaxUint64

// State is what a replica has promised and must never forget.
type State struct {
	View    View
	LogView View
	// Doubt: ops above the head up to this one may have been acknowledged by this
	// replica and are lost, so it cannot tell about them. With DoubtAll it has no
	// vote at all. It ends when the log of a view is installed.
	Doubt Op
}

// Recovered is what a replica found on its own disk.
type Recovered struct {
	// Fresh: this replica has never been part of the group, and neither has its
	// place: all replicas of the group begin together. It is Normal at once.
	Fresh bool
	// State is what the disk holds. A Doubt that was found at this start is written
	// before the core begins.
	State         State
	Head          Op // last op in the log or, if that is empty, of the checkpoint
	HeadIdentity  Identity
	HeadTimestamp uint64 // µs; floor of the next timestamp
	Commit        Op     // applied by the host already: CommittedAtLeast
	Checkpoint    Op     // up to here the log may have been freed
	// Suffix holds the headers Commit+1..Head in order. It is empty where one
	// replica is a quorum.
	Suffix []Header
}

// Committed names a prepare that is chosen for ever.
type Committed struct {
	Op       Op
	Identity Identity
	Prepare  *Prepare // nil for an op that was in the log at start
}

// Read asks the host for what a peer needs from the log. With Low 0 it is the
// prepare Op, Identity; else the headers Low..Op, of which Op has Identity.
type Read struct {
	To       uint8
	Op       Op
	Identity Identity
	Low      Op
}

// Ready is the work that inputs caused. It belongs to the host once taken.
type Ready struct {
	Truncate *Op // drop everything above it, before anything is appended; see Fits
	Append   []*Prepare
	Persist  *State
	Send     []Message
	Commit   []Committed
	Read     []Read
	Transfer []Transfer
}

// Fits reports whether the log of the host ends below Truncate as it is: what was dropped
// was never handed out, and something below it comes with this Ready. Then there is
// nothing to drop from it; but whoever waits for an op above Truncate waits in vain.
func (r *Ready) Fits() bool { return len(r.Append) > 0 && r.Append[0].Op <= *r.Truncate }

// Empty reports whether there is nothing to do.
func (r *Ready) Empty() bool {
	return len(r.Append) == 0 && r.Truncate == nil && r.Persist == nil && len(r.Send) == 0 &&
		len(r.Commit) == 0 && len(r.Read) == 0 && len(r.Transfer) == 0
}

// Core is the consensus of one group on one replica.
type Core struct {
	cfg     Config
	quorums Quorums
	status  Status
	timing  Timing

	// view is the current view, logView the last one whose log this replica has
	// installed. Invariant: logView <= view, durable <= present, none goes back.
	view, logView View
	doubt         Op // see State
	durable       State
	persisting    bool // Persist was handed out and is not answered yet

	log log

	// verified is the last op of the log that is known to be in the log of the
	// view that commitMax was learned from. Nothing above it is applied.
	verified             Op
	commitMax, commitOut Op // known to be chosen; handed out in Ready.Commit
	checkpoint           Op // up to here the log may have been freed
	barrier              Op // reads wait for it: see Barrier

	peers    []peer
	now      uint64 // ticks since New, from 1: 0 is never
	doze     doze
	entered  uint64 // tick at which the present view was entered
	cause    Cause  // why the view before it ended
	clocks   clocks
	election election
	target   *target
	transfer transfer
	// answers are the replicas that told a replaced one their views, answerView the
	// highest of those.
	answers    uint32
	answerView View

	acking bool // the primary is to be told what is held
	heard  bool // in this life, that the view runs: a group that seems new may be old
	reads  int  // Read handed out and not answered
	nacked int  // see Nacked
	out    Ready
	spare  Ready // empty, with the slices of one that was performed
}

// peer is what a replica remembers of another (of itself: nothing).
type peer struct {
	heardAt     uint64 // tick of its last message in the present view; 0: never
	suspectAt   uint64 // tick at which it last heard no primary; 0: never
	suspectView View   // its view then
	askedAt     uint64 // tick at which it last asked for the present view, so did not lead; 0: never
	installed   bool   // it acknowledged in the present view
	held        Op     // up to where it did
	boot        uint64 // its latest life that was heard of
}

// New starts the core of a group from what its disk held.
func New(cfg Config, r Recovered) *Core {
	cfg.check()
	r.check(cfg.Group)
	c := &Core{
		cfg: cfg, quorums: QuorumsOf(cfg.Replicas), timing: cfg.Timing.complete(),
		view: r.State.View, logView: r.State.LogView, doubt: r.State.Doubt, durable: r.State,
		log: newLog(r, 1<<cfg.Replica), now: 1, commitMax: r.Commit, commitOut: r.Commit, verified: r.Commit,
		checkpoint: r.Checkpoint,
	}
	if n := len(r.Suffix); n > 0 {
		// What a header of this log vouches for chains to it, so it is here.
		c.commitMax = max(c.commitMax, min(r.Suffix[n-1].Commit, r.Head))
	}
	c.verified = c.commitMax
	if cfg.Replicas > 1 {
		c.peers = make([]peer, cfg.Replicas)
	}
	switch {
	case cfg.Replicas == 1:
		c.verified = r.Head
	case r.Fresh:
		c.verified = r.Head
		c.restartElectionClock()
		for i := range c.peers {
			c.peers[i].installed = true
		}
	default:
		c.recover()
	}
	c.advance()
	return c
}

func (cfg *Config) check() {
	if cfg.Pipeline < 1 || cfg.Pipeline > PipelineCeiling {
		panic(fmt.Sprintf("vsr: pipeline of %d, want 1..%d", cfg.Pipeline, PipelineCeiling))
	}
	if int(cfg.Replica) >= cfg.Replicas {
		panic(fmt.Sprintf("vsr: replica %d of %d", cfg.Replica, cfg.Replicas))
	}
	if cfg.Replicas > 1 && cfg.Boot == 0 {
		panic(fmt.Sprintf("vsr: group %d: replica %d of %d has no boot number", cfg.Group, cfg.Replica, cfg.Replicas))
	}
}

func (r *Recovered) check(g GroupID) {
	if r.Commit > r.Head {
		panic(fmt.Sprintf("vsr: group %d: recovered commit %d is above the head %d", g, r.Commit, r.Head))
	}
	if Op(len(r.Suffix)) != r.Head-r.Commit {
		panic(fmt.Sprintf("vsr: group %d: %d headers for ops %d..%d", g, len(r.Suffix), r.Commit+1, r.Head))
	}
	if r.State.LogView > r.State.View {
		panic(fmt.Sprintf("vsr: group %d: recovered log_view %d is above view %d", g, r.State.LogView, r.State.View))
	}
	if n := len(r.Suffix); n > 0 && !chain(r.Commit, r.Suffix[0].Parent, r.Suffix, r.HeadIdentity) {
		panic(fmt.Sprintf("vsr: group %d: recovered ops %d..%d are no chain that ends in %v", g, r.Commit+1, r.Head, r.HeadIdentity))
	}
}

// Due reports whether Ready has work to hand out.
func (c *Core) Due() bool {
	return c.acking || c.needsPersist() && !c.persisting || !c.out.Empty()
}

// Ready returns the work that is due and forgets it: it is handed out once.
func (c *Core) Ready() Ready {
	c.assert()
	c.sayAck()
	if c.needsPersist() && !c.persisting {
		c.persisting = true
		s := c.state()
		c.out.Persist = &s
	}
	if c.out.Empty() {
		return Ready{}
	}
	r := c.out
	c.out, c.spare = c.spare, Ready{}
	return r
}

// Reuse gives back the slices of a Ready that was performed, so that a later one need
// not be allocated. The host may not look at them any more; what they pointed to it may.
func (c *Core) Reuse(r *Ready) {
	if r.Empty() {
		return
	}
	c.Wake()
	c.spare = Ready{Append: emptied(r.Append), Send: emptied(r.Send), Commit: emptied(r.Commit)}
}

// emptied keeps the room of a slice, unless a burst left more than is worth keeping.
func emptied[T any](s []T) []T {
	if cap(s) > spareMax {
		return nil
	}
	clear(s)
	return s[:0]
}

// assert checks what must hold between inputs. It is on in production: a crash
// turns a wrong answer into a missing one.
func (c *Core) assert() {
	l := &c.log
	if l.base > c.commitOut || c.commitOut > l.held || l.held > l.head || l.base > c.commitMax || c.logView > c.view ||
		c.durable.View > c.view || c.durable.LogView > c.logView || c.commitOut > c.verified || c.verified > l.head ||
		c.leads() && c.commitMax > l.head {
		panic(fmt.Sprintf("vsr: group %d replica %d: commit_min %d, handed out %d, held %d, head %d, commit_max %d, verified %d, view %d, log_view %d, durable %+v",
			c.cfg.Group, c.cfg.Replica, l.base, c.commitOut, l.held, l.head, c.commitMax, c.verified, c.view, c.logView, c.durable))
	}
}

// StateDurable says that these values are on stable storage: the ones that were
// written, not what the core holds by now (design rule 2).
func (c *Core) StateDurable(s State) {
	if s.View > c.view || s.LogView > c.logView {
		panic(fmt.Sprintf("vsr: group %d: %v reported durable, but the replica is at view %d, log_view %d", c.cfg.Group, s, c.view, c.logView))
	}
	c.persisting = false
	c.durable.View = max(c.durable.View, s.View)
	c.durable.LogView = max(c.durable.LogView, s.LogView)
	c.durable.Doubt = s.Doubt
	c.announce()
}

// announce says what waited for the present view to be durable; send withholds it
// if that is not so yet. Nothing was queued: what is due is derived from the state
// of now (design rule 4).
func (c *Core) announce() {
	switch {
	case c.status == StatusViewChange:
		c.sayViewChange()
	case c.leads():
		c.sayStartView()
	case c.settled():
		c.ack()
	}
	c.fill()
	c.advance()
}

func (c *Core) state() State { return State{View: c.view, LogView: c.logView, Doubt: c.doubt} }

// needsPersist: commit points are not part of it, they are only lower bounds.
func (c *Core) needsPersist() bool { return c.state() != c.durable }

// send is the only way out. A message that shows a view leaves when the disk
// holds that view, so that no replica acts for others in a view it could forget
// (promise P2); until then it is dropped, and announce says it. A question shows
// the view that is durable.
func (c *Core) send(m *Message) {
	if m.Rest == nil {
		m.Rest = &nothing
	}
	m.From, m.Group, m.Incarnation, m.Boot = c.cfg.Replica, c.cfg.Group, c.cfg.Incarnation, c.cfg.Boot
	m.View, m.LogView = c.durable.View, c.durable.LogView
	if m.Kind.gated() && c.needsPersist() {
		return
	}
	if m.Kind != MessageDoViewChange { // a vote names what its own log shows
		m.Commit = c.commitMax
	}
	c.out.Send = append(c.out.Send, *m)
}

// broadcast sends to all others at once, so that latency is that of the slower
// needed one and not the sum of a chain.
func (c *Core) broadcast(m *Message) {
	for i := range c.cfg.Replicas {
		if uint8(i) != c.cfg.Replica {
			m.To = uint8(i)
			c.send(m)
		}
	}
}

// Step takes a message from another replica. One that does not fit the
// replica's present is dropped: the sender repeats what matters.
func (c *Core) Step(m Message) {
	if m.Group != c.cfg.Group || m.Incarnation != c.cfg.Incarnation || int(m.From) >= c.cfg.Replicas || m.From == c.cfg.Replica || m.View > viewMax {
		return
	}
	if !c.knows(m.From, m.Boot) {
		return
	}
	if m.View == c.view && m.Kind != MessageRequestStartView { // who asks for the view cannot help to commit in it
		c.peers[m.From].heardAt = c.now
	}
	if m.Rest == nil {
		m.Rest = &nothing
	}
	c.Wake()
	switch m.Kind {
	case MessageSuspect:
		c.onSuspect(&m)
	case MessagePrepare:
		c.onPrepare(&m)
	case MessagePrepareOk:
		c.onPrepareOk(&m)
	case MessageCommit:
		c.onCommit(&m)
	case MessageStartViewChange:
		c.onStartViewChange(&m)
	case MessageDoViewChange:
		c.onDoViewChange(&m)
	case MessageStartView:
		c.onStartView(&m)
	case MessagePresentView:
		c.onPresentView(&m)
	case MessageRequestStartView:
		c.onRequestStartView(&m)
	case MessageRequestPrepares:
		c.onRequestPrepares(&m)
	case MessageRepairPrepare:
		c.onRepairPrepare(&m)
	case MessageRequestHeaders:
		c.onRequestHeaders(&m)
	case MessageHeaders:
		c.onHeaders(&m)
	case MessageGone:
		c.onGone(&m)
	case MessageRequestOffer:
		c.onRequestOffer(&m)
	case MessageOffer:
		c.onOffer(&m)
	case MessageRequestChunk:
		c.onRequestChunk(&m)
	case MessageChunk:
		c.onChunk(&m)
	}
}

func (c *Core) self() uint32 { return 1 << c.cfg.Replica }

func (c *Core) primaryOf(v View) uint8 { return uint8(int(v) % c.cfg.Replicas) }

// settled: this replica's log is the log of its view, and it knows all that it
// ever acknowledged. Only then it acknowledges.
func (c *Core) settled() bool {
	return c.status == StatusNormal && c.logView == c.view && c.doubt == 0 && (c.target == nil || !c.target.install)
}

// leads: this replica started its view and has not left it.
func (c *Core) leads() bool { return c.settled() && c.primaryOf(c.view) == c.cfg.Replica }

// Primary returns the index of the replica that leads the present view.
func (c *Core) Primary() uint8 { return c.primaryOf(c.view) }

// IsPrimary reports whether this replica may propose: it leads a view that is
// durable, and has heard a replication quorum within the election timeout.
func (c *Core) IsPrimary() bool {
	return c.leads() && !c.needsPersist() && !c.election.suspecting
}

// Barrier returns the op that reads wait for, 0 for none: after a restart this replica
// may have acknowledged everything up to there before, after a silence others may.
func (c *Core) Barrier() Op {
	if c.log.base >= c.barrier {
		return 0
	}
	return c.barrier
}

// Hears reports whether the replica has heard of its view within the election timeout:
// as a backup its primary, as the primary a quorum.
func (c *Core) Hears() bool {
	return c.cfg.Replicas == 1 || c.heard && c.settled() && !c.election.suspecting && c.clocks.silent < c.timing.ElectionTicks
}

// Current reports whether what is applied here may be read as of now: the replica hears
// of its view, holds all that was chosen while it did not, and has applied what it knew
// to be chosen an election timeout ago.
func (c *Core) Current() bool {
	return c.Hears() && c.Barrier() == 0 && c.clocks.behind < c.timing.ElectionTicks
}

// Status returns the replica's status.
func (c *Core) Status() Status { return c.status }

// View returns the present view and log_view. They need not be durable yet.
func (c *Core) View() State { return c.state() }

// Head returns the last op in the log, applied or not.
func (c *Core) Head() Op { return c.log.head }

// HeadIdentity returns the identity of the last op in the log.
func (c *Core) HeadIdentity() Identity { return c.log.headIdentity }

// CommitMin returns the last op that the host has applied.
func (c *Core) CommitMin() Op { return c.log.base }

// CommitMax returns the last op that is known to be chosen.
func (c *Core) CommitMax() Op { return c.commitMax }

// Nacked counts the views whose log this replica decided, in this life, and ended before
// an op that a voter had, because a nack quorum never had it.
func (c *Core) Nacked() int { return c.nacked }

// Room returns how many more ops Propose takes now.
func (c *Core) Room() int { return c.cfg.Pipeline - int(c.log.head-c.log.base) }
