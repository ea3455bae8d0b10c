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

// NextTimestamp returns the time that the next prepare must carry: now, or just
// after the previous one where the clock stands still or has gone back.
func (c *Core) NextTimestamp(now uint64) uint64 { return max(now, c.lastTimestamp+1) }

// Propose gives the request the next op and seals it (VR Revisited §4.1 step 3).
// It fails with ErrNotPrimary or ErrPipelineFull, and has then done nothing.
func (c *Core) Propose(r Request) (Op, Identity, error) {
	if !c.IsPrimary() {
		return 0, Identity{}, ErrNotPrimary
	}
	if c.Room() <= 0 {
		return 0, Identity{}, ErrPipelineFull
	}
	if r.Timestamp <= c.lastTimestamp {
		panic(fmt.Sprintf("vsr: group %d: timestamp %d is not above %d", c.cfg.Group, r.Timestamp, c.lastTimestamp))
	}
	p := &Prepare{
		Header: Header{
			Parent: c.headIdentity, Cluster: c.cfg.Cluster, Client: r.Client, RequestSum: r.RequestSum,
			Group: c.cfg.Group, Incarnation: c.cfg.Incarnation, Op: c.head + 1, Commit: c.commitMax,
			Timestamp: r.Timestamp, Session: r.Session, Request: r.Request, Offset: r.Offset,
			View: c.view, User: r.User, Operation: r.Operation,
		},
		Body: r.Body,
	}
	p.Seal()
	c.push(p)
	c.broadcast(Message{Kind: MessagePrepare, Op: p.Op, Identity: p.Identity, Prepare: p})
	return p.Op, p.Identity, nil
}

// push puts a prepare at the head of the log.
func (c *Core) push(p *Prepare) {
	if p.Op != c.head+1 || p.Parent != c.headIdentity {
		panic(fmt.Sprintf("vsr: group %d: op %d with parent %v does not follow op %d, %v", c.cfg.Group, p.Op, p.Parent, c.head, c.headIdentity))
	}
	c.head, c.headIdentity, c.lastTimestamp = p.Op, p.Identity, p.Timestamp
	c.entries = append(c.entries, entry{prepare: p, header: p.Header})
	c.out.Append = append(c.out.Append, p)
}

// Step takes a message from another replica. Messages that do not fit the
// replica's present are dropped: the sender repeats what matters.
func (c *Core) Step(m Message) {
	if m.Group != c.cfg.Group || m.View != c.view || c.status != StatusNormal || int(m.From) >= c.cfg.Replicas || m.From == c.cfg.Replica {
		return
	}
	switch m.Kind {
	case MessagePrepare:
		c.onPrepare(m)
	case MessagePrepareOk:
		c.onPrepareOk(m)
	case MessageCommit:
		c.onCommit(m)
	}
}

// onPrepare appends the next op of the primary (§4.1 step 4). One that is in the
// log already is acknowledged again if this disk holds it; one that leaves a gap
// waits for its predecessors to be repeated.
func (c *Core) onPrepare(m Message) {
	if c.IsPrimary() || m.From != c.Primary() || m.Prepare == nil {
		return
	}
	p := m.Prepare
	c.learnCommit(m.Commit)
	switch {
	case p.Group != c.cfg.Group || p.Cluster != c.cfg.Cluster || p.Incarnation != c.cfg.Incarnation:
	case p.Op <= c.head:
		if e := c.entry(p.Op); e != nil && e.header.Identity == p.Identity && p.Op <= c.held {
			c.ack(p.Op, p.Identity)
		}
	case p.Op == c.head+1 && p.Parent == c.headIdentity && c.Room() > 0:
		c.push(p)
	}
	c.advance()
}

// AppendDone says that the prepare is on stable storage. Only now does this
// replica hold it: as primary it counts itself, as backup it tells the primary
// (§4.1 step 4, design rule 1). A completion for a prepare that is no longer
// the one at its op says nothing.
func (c *Core) AppendDone(op Op, id Identity) {
	e := c.entry(op)
	if e == nil || e.header.Identity != id {
		return
	}
	e.acks |= c.self()
	for c.held < c.head {
		next := c.entry(c.held + 1)
		if next.acks&c.self() == 0 {
			break
		}
		c.held++
		if !c.IsPrimary() {
			c.ack(next.header.Op, next.header.Identity)
		}
	}
	c.advance()
}

// ack vouches for everything up to op, so it is only sent for a prefix that is
// held without a hole.
func (c *Core) ack(op Op, id Identity) {
	c.send(Message{Kind: MessagePrepareOk, To: c.Primary(), Op: op, Identity: id})
}

// onPrepareOk counts a backup that holds the op (§4.1 step 5), and with it all
// before: the parent chain makes them the same.
func (c *Core) onPrepareOk(m Message) {
	if !c.IsPrimary() {
		return
	}
	e := c.entry(m.Op)
	if e == nil || e.header.Identity != m.Identity {
		return
	}
	for i := range c.entries {
		if c.entries[i].header.Op <= m.Op {
			c.entries[i].acks |= 1 << m.From
		}
	}
	c.advance()
}

// onCommit learns the commit point of the primary (§4.1 step 7).
func (c *Core) onCommit(m Message) {
	if c.IsPrimary() || m.From != c.Primary() {
		return
	}
	c.learnCommit(m.Commit)
	c.advance()
}

func (c *Core) learnCommit(op Op) { c.commitMax = max(c.commitMax, op) }

// advance moves the commit point over every op that has its quorum and hands
// out what may be applied. It is the only place where ops commit.
func (c *Core) advance() {
	if c.IsPrimary() {
		for c.commitMax < c.head {
			e := c.entry(c.commitMax + 1)
			if e == nil || bits.OnesCount32(e.acks) < c.quorums.Replication {
				break
			}
			c.commitMax++
		}
	}
	for c.commitOut < min(c.commitMax, c.held) {
		e := c.entry(c.commitOut + 1)
		c.commitOut++
		c.out.Commit = append(c.out.Commit, Committed{Op: e.header.Op, Identity: e.header.Identity, Prepare: e.prepare})
	}
}

// Applied says that the host has applied everything up to op.
func (c *Core) Applied(op Op) {
	if op < c.commitMin || op > c.commitOut {
		panic(fmt.Sprintf("vsr: group %d: applied op %d, but %d was before it and %d was handed out", c.cfg.Group, op, c.commitMin, c.commitOut))
	}
	n := int(op - c.commitMin)
	kept := copy(c.entries, c.entries[n:])
	clear(c.entries[kept:])
	c.entries = c.entries[:kept]
	c.commitMin = op
}

// Tick passes one unit of logical time. An idle primary repeats its commit point
// so that backups apply the last op, and its oldest unacknowledged prepare.
func (c *Core) Tick() {
	if !c.IsPrimary() || c.cfg.Replicas == 1 {
		return
	}
	c.idleTicks++
	if c.cfg.HeartbeatTicks > 0 && c.idleTicks >= c.cfg.HeartbeatTicks {
		c.broadcast(Message{Kind: MessageCommit, Op: c.commitMax})
	}
	if e := c.entry(c.commitMax + 1); e != nil && e.prepare != nil {
		if e.idleTick++; c.cfg.RetransmitTicks > 0 && e.idleTick >= c.cfg.RetransmitTicks {
			e.idleTick = 0
			c.repeat(e)
		}
	}
}

// repeat sends a prepare again to the backups that have not acknowledged it.
func (c *Core) repeat(e *entry) {
	for i := range c.cfg.Replicas {
		if e.acks&(1<<i) == 0 && uint8(i) != c.cfg.Replica {
			c.send(Message{Kind: MessagePrepare, To: uint8(i), Op: e.header.Op, Identity: e.header.Identity, Prepare: e.prepare})
		}
	}
}

// broadcast sends to all backups at once, so that latency is that of the slower
// needed one and not the sum of a chain.
func (c *Core) broadcast(m Message) {
	c.idleTicks = 0
	for i := range c.cfg.Replicas {
		if uint8(i) != c.cfg.Replica {
			m.To = uint8(i)
			c.send(m)
		}
	}
}

// entry returns the entry of an op that is not applied yet, or nil.
func (c *Core) entry(op Op) *entry {
	if op <= c.commitMin || op > c.head {
		return nil
	}
	return &c.entries[op-c.commitMin-1]
}
