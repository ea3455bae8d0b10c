package vsr

import (
	"fmt"
	"slices"
)

// log is the part of the group's log that is not applied yet, and what is known
// of it on this disk. Everything below base is the host's.
//
// Invariant: base <= held <= head; entries are the ops base+1..head, each with
// the identity of the one before as its parent.
type log struct {
	base         Op // last op applied (commit_min)
	baseIdentity Identity
	held         Op // up to here this disk is known to have every op
	head         Op
	headIdentity Identity
	timestamp    uint64 // µs, the highest that was ever in this log

	entries []entry
	array   []entry // entries lie in it, behind those that were applied
	dead    []flight
}

// entry is an op between its arrival and its application.
type entry struct {
	prepare *Prepare // nil if it was in the log at start
	header  *Header  // that of the prepare, if there is one
	acks    uint32   // bit i: replica i holds exactly this identity durably
	flying  bool     // it was handed out, and its completion has not come
}

// flight is an append that is not complete and whose entry is gone. An op that is
// cut and appended again needs the second completion, not the first, though both
// name the same identity.
type flight struct {
	op       Op
	identity Identity
}

func newLog(r Recovered, self uint32) log {
	l := log{
		base: r.Commit, baseIdentity: r.HeadIdentity, held: r.Head, head: r.Head,
		headIdentity: r.HeadIdentity, timestamp: r.HeadTimestamp,
	}
	for i := range r.Suffix {
		h := r.Suffix[i]
		l.entries = append(l.entries, entry{header: &h, acks: self})
		l.timestamp = max(l.timestamp, h.Timestamp)
	}
	if len(r.Suffix) > 0 {
		l.baseIdentity = r.Suffix[0].Parent
	}
	return l
}

// entry returns the entry of an op that is not applied yet, or nil.
func (l *log) entry(op Op) *entry {
	if op <= l.base || op > l.head {
		return nil
	}
	return &l.entries[op-l.base-1]
}

// identity returns that of an op from the last applied one on.
func (l *log) identity(op Op) (Identity, bool) {
	if op == l.base {
		return l.baseIdentity, true
	}
	if e := l.entry(op); e != nil {
		return e.header.Identity, true
	}
	return Identity{}, false
}

// headers returns those of the ops low..high, which must be in the window.
func (l *log) headers(low, high Op) []Header {
	headers := make([]Header, 0, high+1-low)
	for op := low; op <= high; op++ {
		headers = append(headers, *l.entry(op).header)
	}
	return headers
}

// push puts a prepare at the head of the log (O-13: its parent must be there).
func (l *log) push(p *Prepare) {
	if p.Op != l.head+1 || p.Parent != l.headIdentity {
		panic(fmt.Sprintf("vsr: group %d: op %d with parent %v does not follow op %d, %v", p.Group, p.Op, p.Parent, l.head, l.headIdentity))
	}
	l.head, l.headIdentity, l.timestamp = p.Op, p.Identity, max(l.timestamp, p.Timestamp)
	l.add(entry{prepare: p, header: &p.Header, flying: true})
}

// add puts an entry at the end. What was applied leaves room at the front of the
// array, which is used before a larger one is made.
func (l *log) add(e entry) {
	if n := len(l.entries); n == cap(l.entries) {
		if cap(l.array) < 2*n+1 {
			l.array = make([]entry, 0, 2*n+windowMax/4)
		}
		l.array = l.array[:cap(l.array)]
		copy(l.array, l.entries)
		clear(l.array[n:])
		l.entries = l.array[:n]
	}
	l.entries = append(l.entries, e)
}

// done takes the completion of an append and reports whether the entry at op is
// on this disk now.
func (l *log) done(op Op, id Identity, self uint32) bool {
	if i := slices.Index(l.dead, flight{op, id}); i >= 0 {
		l.dead = slices.Delete(l.dead, i, i+1)
		return false
	}
	e := l.entry(op)
	if e == nil || !e.flying || e.header.Identity != id {
		return false
	}
	e.flying = false
	e.acks |= self
	return true
}

// drop forgets the entries from i on. What is in flight of them is dead.
func (l *log) drop(i int) {
	for _, e := range l.entries[i:] {
		if e.flying {
			l.dead = append(l.dead, flight{e.header.Op, e.header.Identity})
		}
	}
	clear(l.entries[i:])
	l.entries = l.entries[:i]
}

// settle moves held over every op that this disk has.
func (l *log) settle(self uint32) {
	for l.held < l.head && l.entry(l.held+1).acks&self != 0 {
		l.held++
	}
}

// cut drops everything above op.
func (l *log) cut(op Op) {
	l.headIdentity, _ = l.identity(op)
	l.drop(int(op - l.base))
	l.head, l.held = op, min(l.held, op)
}

// applied moves the base up to op.
func (l *log) applied(op Op) {
	l.baseIdentity, _ = l.identity(op)
	n := int(op - l.base)
	clear(l.entries[:n])
	l.entries = l.entries[n:]
	l.base = op
}

// reset begins the log anew behind a checkpoint.
func (l *log) reset(o Offer) {
	l.drop(0)
	l.base, l.held, l.head = o.Op, o.Op, o.Op
	l.baseIdentity, l.headIdentity, l.timestamp = o.Identity, o.Identity, max(l.timestamp, o.Timestamp)
}

// append hands a prepare to the log of the host.
func (c *Core) append(p *Prepare) {
	c.log.push(p)
	c.out.Append = append(c.out.Append, p)
}

// truncate drops everything above op, which the log of the view does not hold.
// What the host has not been given yet it never gets.
func (c *Core) truncate(op Op) {
	if op < c.commitOut {
		panic(fmt.Sprintf("vsr: group %d: truncation to op %d would drop op %d, which is applied", c.cfg.Group, op, c.commitOut))
	}
	c.log.cut(op)
	c.verified = min(c.verified, op)
	kept := c.out.Append[:0]
	for _, p := range c.out.Append {
		if p.Op <= op {
			kept = append(kept, p)
			continue
		}
		c.log.done(p.Op, p.Identity, 0) // it never was in flight
	}
	c.out.Append = kept
	if c.out.Truncate == nil || op < *c.out.Truncate {
		c.out.Truncate = &op
	}
}
