package vsr

import (
	"errors"
	"fmt"
)

// PipelineCeiling is the largest depth of the pipeline: a view change describes
// the whole uncommitted range in one bit set of 128.
const PipelineCeiling = 127

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

// Config fixes what a group is and how its replica behaves.
type Config struct {
	Cluster     [16]byte
	Group       GroupID
	Incarnation uint64 // of the group: the metadata revision that created it
	Replica     uint8
	Replicas    int // 1..ReplicasMax
	Pipeline    int // ops that may wait for their quorum, 1..PipelineCeiling
	// HeartbeatTicks is how long an idle primary waits between commit messages,
	// RetransmitTicks how long before it repeats an unacknowledged prepare.
	HeartbeatTicks  int
	RetransmitTicks int
}

// State is what a replica has promised and must never forget.
type State struct {
	View    View
	LogView View
}

// Recovered is what a replica found on its own disk.
type Recovered struct {
	State         State
	Head          Op // last op in the log or, if that is empty, of the checkpoint
	HeadIdentity  Identity
	HeadTimestamp uint64 // µs; floor of the next timestamp
	Commit        Op     // applied by the host already: CommittedAtLeast
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

// Ready is the work that inputs caused. It belongs to the host once taken.
type Ready struct {
	Append   []*Prepare
	Truncate *Op // drop everything above it
	Persist  *State
	Send     []Message
	Commit   []Committed
}

// Empty reports whether there is nothing to do.
func (r *Ready) Empty() bool {
	return len(r.Append) == 0 && r.Truncate == nil && r.Persist == nil && len(r.Send) == 0 && len(r.Commit) == 0
}

// entry is an op between its arrival and its application.
type entry struct {
	prepare  *Prepare // nil if it was in the log at start
	header   Header
	acks     uint32 // bit i: replica i holds exactly this identity durably
	idleTick int    // ticks since it was last sent
}

// Core is the consensus of one group on one replica.
type Core struct {
	cfg     Config
	quorums Quorums
	status  Status

	// view is the current view, logView the last one in which this log was
	// settled. Invariant: logView <= view, durable <= present, none goes back.
	view, logView View
	durable       State
	persisting    bool // Persist was handed out and is not answered yet

	// head is the last op in the log, held the last one up to which this disk
	// is known to have every op, commitMin the last one applied, commitMax the
	// last one known to be chosen.
	// Invariant: commitMin <= commitOut <= held <= head, commitMin <= commitMax.
	// commitMax may pass head: a heartbeat overtakes its prepares. What is
	// applied never passes held: state is never ahead of its own disk's log.
	head, held           Op
	commitMin, commitMax Op
	commitOut            Op // last op handed out in Ready.Commit
	headIdentity         Identity
	lastTimestamp        uint64

	// entries are the ops commitMin+1..head in order.
	entries []entry

	idleTicks int       // since the primary last sent anything to all backups
	gated     []Message // what must wait for the present view to be durable
	out       Ready
}

// New starts the core of a group from what its disk held.
func New(cfg Config, r Recovered) *Core {
	if cfg.Pipeline < 1 || cfg.Pipeline > PipelineCeiling {
		panic(fmt.Sprintf("vsr: pipeline of %d, want 1..%d", cfg.Pipeline, PipelineCeiling))
	}
	if int(cfg.Replica) >= cfg.Replicas {
		panic(fmt.Sprintf("vsr: replica %d of %d", cfg.Replica, cfg.Replicas))
	}
	if r.Commit > r.Head {
		panic(fmt.Sprintf("vsr: group %d: recovered commit %d is above the head %d", cfg.Group, r.Commit, r.Head))
	}
	if Op(len(r.Suffix)) != r.Head-r.Commit {
		panic(fmt.Sprintf("vsr: group %d: %d headers for ops %d..%d", cfg.Group, len(r.Suffix), r.Commit+1, r.Head))
	}
	c := &Core{
		cfg: cfg, quorums: QuorumsOf(cfg.Replicas), status: StatusNormal,
		view: r.State.View, logView: r.State.LogView, durable: r.State,
		head: r.Head, held: r.Head, headIdentity: r.HeadIdentity, lastTimestamp: r.HeadTimestamp,
		commitMin: r.Commit, commitMax: r.Commit, commitOut: r.Commit,
	}
	for _, h := range r.Suffix {
		c.entries = append(c.entries, entry{header: h, acks: c.self()})
	}
	c.advance()
	return c
}

// Ready returns the work that is due and forgets it: it is handed out once.
func (c *Core) Ready() Ready {
	if c.needsPersist() && !c.persisting {
		c.persisting = true
		c.out.Persist = &State{View: c.view, LogView: c.logView}
	}
	r := c.out
	c.out = Ready{}
	return r
}

// StateDurable says that this view and log_view are on stable storage. Messages
// that waited for them leave now, if the replica has not moved on meanwhile.
func (c *Core) StateDurable(s State) {
	if s.View > c.view || s.LogView > c.logView {
		panic(fmt.Sprintf("vsr: group %d: %v reported durable, but the replica is at view %d, log_view %d", c.cfg.Group, s, c.view, c.logView))
	}
	c.persisting = false
	c.durable.View = max(c.durable.View, s.View)
	c.durable.LogView = max(c.durable.LogView, s.LogView)
	if c.needsPersist() {
		return
	}
	for _, m := range c.gated {
		if m.View == c.view {
			c.out.Send = append(c.out.Send, m)
		}
	}
	c.gated = c.gated[:0]
}

// needsPersist: commit points are not part of it, they are only lower bounds.
func (c *Core) needsPersist() bool {
	return c.view != c.durable.View || c.logView != c.durable.LogView
}

// send is the only way out for a message that shows a view: it leaves when the
// disk holds the view, so that no replica acts for others in a view it could
// forget (promise P2).
func (c *Core) send(m Message) {
	m.From, m.Group, m.View, m.Commit = c.cfg.Replica, c.cfg.Group, c.view, c.commitMax
	if c.needsPersist() {
		c.gated = append(c.gated, m)
		return
	}
	c.out.Send = append(c.out.Send, m)
}

func (c *Core) self() uint32 { return 1 << c.cfg.Replica }

// Primary returns the index of the replica that leads the present view.
func (c *Core) Primary() uint8 { return uint8(int(c.view) % c.cfg.Replicas) }

// IsPrimary reports whether this replica may propose.
func (c *Core) IsPrimary() bool {
	return c.status == StatusNormal && c.Primary() == c.cfg.Replica
}

// Status returns the replica's status.
func (c *Core) Status() Status { return c.status }

// View returns the present view and log_view.
func (c *Core) View() State { return State{View: c.view, LogView: c.logView} }

// Head returns the last op in the log, applied or not.
func (c *Core) Head() Op { return c.head }

// CommitMin returns the last op that the host has applied.
func (c *Core) CommitMin() Op { return c.commitMin }

// CommitMax returns the last op that is known to be chosen.
func (c *Core) CommitMax() Op { return c.commitMax }

// Room returns how many more ops Propose takes now.
func (c *Core) Room() int { return c.cfg.Pipeline - int(c.head-c.commitMin) }
