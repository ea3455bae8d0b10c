package vsr

import (
	"fmt"
	"math/bits"
)

// Request is an operation that a client or galgo itself wants in the log, with
// everything that only the primary may decide: who acts, when, and where the
// messages go.
type Request struct {
	Client     [16]byte
	RequestSum [16]byte
	Session    uint64
	Request    uint64
	User       uint32
	Operation  uint8
	Timestamp  uint64 // µs, from NextTimestamp
	Offset     uint64
	Body       []byte
}

// retransmitMax bounds the prepares that are repeated at once to a backup.
const retransmitMax = 8

// NextTimestamp returns the time that the next prepare must carry: now, or just
// after the previous one where the clock stands still or has gone back.
func (c *Core) NextTimestamp(now uint64) uint64 { return max(now, c.log.timestamp+1) }

// Propose gives the request the next op and seals it (VR Revisited §4.1 step 3).
// It fails with ErrNotPrimary or ErrPipelineFull, and has then done nothing.
// While the view is being made durable it is ErrNotPrimary.
func (c *Core) Propose(r Request) (Op, Identity, error) {
	if !c.IsPrimary() {
		return 0, Identity{}, ErrNotPrimary
	}
	if c.Room() <= 0 {
		return 0, Identity{}, ErrPipelineFull
	}
	if r.Timestamp <= c.log.timestamp {
		panic(fmt.Sprintf("vsr: group %d: timestamp %d is not above %d", c.cfg.Group, r.Timestamp, c.log.timestamp))
	}
	c.Wake()
	p := &Prepare{
		Header: Header{
			Parent: c.log.headIdentity, Cluster: c.cfg.Cluster, Client: r.Client, RequestSum: r.RequestSum,
			Group: c.cfg.Group, Incarnation: c.cfg.Incarnation, Op: c.log.head + 1, Commit: c.commitMax,
			Timestamp: r.Timestamp, Session: r.Session, Request: r.Request, Offset: r.Offset,
			View: c.view, User: r.User, Operation: r.Operation,
		},
		Body: r.Body,
	}
	p.Seal()
	c.append(p)
	c.verified, c.clocks.told = p.Op, c.commitMax
	c.broadcast(&Message{Kind: MessagePrepare, Op: p.Op, Identity: p.Identity, Prepare: p})
	return p.Op, p.Identity, nil
}

// fromPrimary reports whether a message of the normal case is from the primary
// of this replica's view, and that view is running here. A newer view is asked
// for; an older primary is told.
func (c *Core) fromPrimary(m *Message) bool {
	switch {
	case m.View > c.view:
		c.observe(m)
		return false
	case m.View < c.view:
		c.correct(m.From)
		return false
	}
	return c.status == StatusNormal && m.From == c.Primary()
}

// mine reports whether a prepare belongs to this group at all.
func (c *Core) mine(p *Prepare) bool {
	return p != nil && p.Group == c.cfg.Group && p.Cluster == c.cfg.Cluster && p.Incarnation == c.cfg.Incarnation
}

// onPrepare appends the next op of the primary (§4.1 step 4) if its parent is
// the head (O-13). One that is in the log already is acknowledged again if this
// disk holds it; one that leaves a gap is kept for when repair has closed it.
func (c *Core) onPrepare(m *Message) {
	if !c.fromPrimary(m) || !c.mine(m.Prepare) {
		return
	}
	p := m.Prepare
	c.learnCommit(m.Commit)
	switch {
	case p.Op <= c.log.base:
		c.ack()
	case p.Op <= c.log.head && c.log.entry(p.Op).header.Identity == p.Identity:
		if p.Op <= c.log.held {
			c.ack()
		}
	case c.mayExtend() && p.Op == c.log.head+1:
		if p.Parent == c.log.headIdentity && c.backupRoom() {
			c.append(p)
			c.verified = p.Op
			c.join() // it may be what closes a gap
			c.fill()
		}
	default:
		c.extendTarget(p)
	}
	c.advance()
}

// mayExtend: ops that were sealed in this view enter the log only when it is
// durable that the log is the one of this view, so that no crash leaves them on
// top of an older one.
func (c *Core) mayExtend() bool {
	return c.settled() && !c.needsPersist() && !c.transferring()
}

func (c *Core) backupRoom() bool { return c.log.head-c.log.base < windowMax }

// AppendDone says that the prepare is on stable storage. It is called once for
// each prepare that was handed out. Only now does this replica hold it: as
// primary it counts itself, as backup it tells the primary (§4.1 step 4, design
// rule 1). A completion for a prepare that was replaced since says nothing.
func (c *Core) AppendDone(op Op, id Identity) {
	if !c.log.done(op, id, c.self()) {
		return
	}
	held := c.log.held
	c.log.settle(c.self())
	if c.log.held > held && !c.leads() {
		c.ack()
	}
	c.finishInstall()
	c.advance()
}

// ack has the primary told, with the next Ready, of everything that this disk
// holds by then: one message for all that was completed in between.
func (c *Core) ack() { c.acking = true }

// sayAck vouches for a whole prefix, so it names the last op before the first
// hole. It needs a settled, durable view: without that the same op may be
// replaced later.
func (c *Core) sayAck() {
	if !c.acking {
		return
	}
	c.acking = false
	if !c.settled() || c.leads() || c.cfg.Replicas == 1 || c.transferring() {
		return
	}
	id, ok := c.log.identity(c.log.held)
	if !ok {
		panic(fmt.Sprintf("vsr: group %d: held op %d is below commit_min %d", c.cfg.Group, c.log.held, c.log.base))
	}
	c.send(&Message{Kind: MessagePrepareOk, To: c.Primary(), Op: c.log.held, Identity: id})
}

// onPrepareOk counts a backup that holds the op (§4.1 step 5), and with it all
// before: the parent chain makes them the same. What an earlier life of the
// backup acknowledged does not come here (O-7, Core.knows).
func (c *Core) onPrepareOk(m *Message) {
	if m.View != c.view || !c.leads() {
		return
	}
	p := &c.peers[m.From]
	p.installed, p.held, c.election.tries = true, max(p.held, m.Op), 0
	if c.patient() && c.followers() >= c.quorums.Replication {
		c.calmDown()
	}
	if e := c.log.entry(m.Op); e == nil || e.header.Identity != m.Identity {
		return
	}
	for op := m.Op; op > c.log.base && c.log.entry(op).acks&(1<<m.From) == 0; op-- {
		c.log.entry(op).acks |= 1 << m.From
	}
	c.advance()
}

// onCommit takes the heartbeat of the primary: its commit point (§4.1 step 7)
// and its head. Only one that is newer than the last one proves that the
// primary lives: a repeated one must not put an election off.
func (c *Core) onCommit(m *Message) {
	news := c.newest(m)
	if !c.fromPrimary(m) {
		return
	}
	c.learnCommit(m.Commit)
	if news {
		if !c.Hears() { // others went on meanwhile
			c.barrier = max(c.barrier, c.commitMax)
		}
		c.clocks.silent = 0
		c.heard = true
		c.election.suspecting, c.election.tries = false, 0
		if c.patient() {
			c.calmDown()
		}
		c.election.cause = CauseNone
	}
	if c.settled() && m.Op > c.log.head && c.target == nil {
		c.aim(target{op: m.Op, identity: m.Identity, below: m.Op, belowIdentity: m.Identity})
	}
	c.ack()
	c.advance()
}

// newest takes note of a heartbeat, also where it cannot be followed yet, and reports
// whether none as new has come. Each primary counts its own, from when a quorum has
// answered it.
func (c *Core) newest(m *Message) bool {
	if m.Beat == 0 || m.From != c.primaryOf(m.View) || m.View < c.clocks.beatView || m.View == c.clocks.beatView && m.Beat <= c.clocks.beat {
		return false
	}
	c.clocks.beatView, c.clocks.beat = m.View, m.Beat
	return true
}

func (c *Core) learnCommit(op Op) { c.commitMax = max(c.commitMax, op) }

// advance moves the commit point over every op that has its quorum and hands
// out what may be applied: chosen, on this disk, and proven to be in the log
// that the commit point is of (O-6). It is the only place where ops commit.
func (c *Core) advance() {
	if c.leads() {
		for c.commitMax < c.log.head {
			e := c.log.entry(c.commitMax + 1)
			if e == nil || bits.OnesCount32(e.acks) < c.quorums.Replication {
				break
			}
			c.commitMax++
		}
	}
	if c.transfer.stage == transferInstalling {
		return
	}
	for c.commitOut < min(c.commitMax, c.log.held, c.verified) {
		e := c.log.entry(c.commitOut + 1)
		c.commitOut++
		c.out.Commit = append(c.out.Commit, Committed{Op: e.header.Op, Identity: e.header.Identity, Prepare: e.prepare})
	}
}

// Applied says that the host has applied everything up to op.
func (c *Core) Applied(op Op) {
	if op < c.log.base || op > c.commitOut {
		panic(fmt.Sprintf("vsr: group %d: applied op %d, but %d was before it and %d was handed out", c.cfg.Group, op, c.log.base, c.commitOut))
	}
	c.log.applied(op)
	c.pumpTransfer()
	c.fill()
}

// CheckpointDone says that everything up to op, which has this identity, is in a
// durable checkpoint and the log up to there may be freed: peers that need it
// must take the checkpoint.
func (c *Core) CheckpointDone(op Op, id Identity) {
	if op > c.log.base || op == c.log.base && id != c.log.baseIdentity {
		panic(fmt.Sprintf("vsr: group %d: checkpoint of op %d, %v, but applied is op %d, %v", c.cfg.Group, op, id, c.log.base, c.log.baseIdentity))
	}
	c.checkpoint = max(c.checkpoint, op)
}

// retransmit repeats the oldest prepares without a quorum to the backups that
// have not acknowledged them. What this replica has no body of any more, or the
// backup has not the log for, the backup repairs.
func (c *Core) retransmit() {
	for i := range min(int(c.log.head-c.commitMax), retransmitMax) {
		e := c.log.entry(c.commitMax + 1 + Op(i))
		if e.prepare == nil {
			continue
		}
		for r := range c.cfg.Replicas {
			if e.acks&(1<<r) == 0 && uint8(r) != c.cfg.Replica && c.peers[r].installed {
				c.send(&Message{Kind: MessagePrepare, To: uint8(r), Op: e.header.Op, Identity: e.header.Identity, Prepare: e.prepare})
			}
		}
	}
}
