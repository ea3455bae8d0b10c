package vsr

import "fmt"

// itemsMax bounds the headers of a target. Who is further behind takes a
// checkpoint.
const itemsMax = 16 << 10

// readsMax bounds what the host is asked at once on behalf of others.
const readsMax = 64

// target is the log that this replica wants to have: that of a view which begins
// (install), or what it misses in its own. Headers come first, from the top down,
// so that each is proven by the one above it; then bodies by (op, identity), from
// anybody, in order (VR Revisited §5.2 with identities; O-6).
type target struct {
	op        Op // the announced head
	identity  Identity
	commit    Op // known to be chosen in it when it was announced
	install   bool
	installOp Op // log_view may rise when this disk holds everything up to here

	// items are the ops below+1..op; the op below has belowIdentity.
	below         Op
	belowIdentity Identity
	items         []item
	joined        bool // it is known where the local log meets it

	source  uint8 // who is asked
	waiting int   // answers that are due from source
	misses  int   // sources in a row that had not what was asked
}

type item struct {
	header  Header
	prepare *Prepare // nil until it is here
}

func itemsOf(headers []Header) []item {
	items := make([]item, len(headers))
	for i := range headers {
		items[i].header = headers[i]
	}
	return items
}

// at returns the item of an op, or nil.
func (t *target) at(op Op) *item {
	if op <= t.below || op > t.op {
		return nil
	}
	return &t.items[op-t.below-1]
}

// identityAt returns the identity of an op in the target.
func (t *target) identityAt(op Op) (Identity, bool) {
	if op == t.below {
		return t.belowIdentity, true
	}
	if it := t.at(op); it != nil {
		return it.header.Identity, true
	}
	return Identity{}, false
}

// aim sets the target and starts for it. What is missing in a running view may
// still be on its way, so it is asked for at the next tick only.
func (c *Core) aim(t target) {
	if t.install {
		t.installOp = t.op
	}
	t.source = c.Primary()
	if t.source == c.cfg.Replica {
		t.source = c.holder()
	}
	c.target = &t
	c.clocks.repair = 0
	c.join()
	c.fill()
	if c.target == &t && t.install {
		c.pump()
	}
}

// holder returns who a primary-elect asks first: the voter with the longest log
// among those with the highest log_view.
func (c *Core) holder() uint8 {
	best := -1
	votes := c.election.votes
	for i := range votes {
		if votes[i].From == c.cfg.Replica {
			continue
		}
		if best < 0 || votes[i].LogView > votes[best].LogView || votes[i].LogView == votes[best].LogView && votes[i].Op > votes[best].Op {
			best = i
		}
	}
	if best < 0 {
		return (c.cfg.Replica + 1) % uint8(c.cfg.Replicas)
	}
	return votes[best].From
}

// join finds where the local log meets the target and, for the log of a view
// that begins, drops what differs above: it was not chosen. In a running view
// nothing is ever dropped (O-5).
func (c *Core) join() {
	t := c.target
	if t == nil || t.joined || c.transfer.stage == transferInstalling {
		return
	}
	low := max(t.below, c.log.base)
	want, known := t.identityAt(low)
	have, here := c.log.identity(low)
	switch {
	case !known: // the target ends below what is applied here: it is of the past
		c.target = nil
		return
	case here && have == want:
	case low == c.log.base && low <= t.commit:
		panic(fmt.Sprintf("vsr: group %d replica %d: op %d is applied as %v, the log of view %d has committed %v", c.cfg.Group, c.cfg.Replica, low, have, c.view, want))
	case low == c.log.base:
		c.target = nil
		return
	default:
		return // headers below are needed
	}
	for low < min(c.log.head, t.op) && c.log.entry(low+1).header.Identity == t.at(low+1).header.Identity {
		low++
	}
	if c.log.head > low {
		if !t.install {
			c.target = nil
			return
		}
		c.truncate(low)
	}
	t.joined = true
	c.verified = max(c.verified, low)
	c.finishInstall()
	c.advance()
}

// fill appends what is here of the target, in order. What the view itself sealed
// waits until log_view is durable.
func (c *Core) fill() {
	for c.target != nil && c.target.joined {
		t := c.target
		it := t.at(c.log.head + 1)
		if it == nil || it.prepare == nil || !c.backupRoom() || c.transferring() {
			break
		}
		if it.header.Op > t.installOp && !c.mayExtend() {
			break
		}
		c.append(it.prepare)
		c.verified = max(c.verified, it.header.Op)
	}
	if t := c.target; t != nil && t.joined {
		t.trim(c.log.head)
		if t.op <= c.log.head && !t.install {
			c.target = nil
		}
	}
}

// trim forgets the items that are in the log.
func (t *target) trim(head Op) {
	if head <= t.below {
		return
	}
	id, ok := t.identityAt(min(head, t.op))
	if !ok {
		return
	}
	n := int(min(head, t.op) - t.below)
	kept := copy(t.items, t.items[n:])
	clear(t.items[kept:])
	t.items, t.below, t.belowIdentity = t.items[:kept], t.below+Op(n), id
}

// extendTarget keeps a prepare of the primary that the log cannot take yet.
func (c *Core) extendTarget(p *Prepare) {
	t := c.target
	switch {
	case t == nil && c.settled() && p.Op > c.log.head:
		c.aim(target{op: p.Op, identity: p.Identity, below: p.Op - 1, belowIdentity: p.Parent, items: []item{{p.Header, p}}})
	case t == nil:
	case p.Op == t.op+1 && p.Parent == t.identity && len(t.items) < windowMax:
		t.items = append(t.items, item{p.Header, p})
		t.op, t.identity = p.Op, p.Identity
	default:
		if it := t.at(p.Op); it != nil && it.header.Identity == p.Identity {
			it.prepare = p
		}
	}
	c.fill()
}

// pump asks for the next that is missing, one request at a time.
func (c *Core) pump() {
	t := c.target
	if t == nil || t.waiting > 0 || c.transferring() {
		return
	}
	if !t.joined {
		if len(t.items) >= itemsMax {
			c.beginTransfer(t.source)
			return
		}
		t.waiting = 1
		c.clocks.repair = 0
		c.send(&Message{Kind: MessageRequestHeaders, To: t.source, Op: t.below, Identity: t.belowIdentity, Low: c.log.base + 1})
		return
	}
	if refs := c.missing(); len(refs) > 0 {
		t.waiting = len(refs)
		c.clocks.repair = 0
		c.send(&Message{Kind: MessageRequestPrepares, To: t.source, Rest: &Rest{Refs: refs}})
	}
}

// missing names the next bodies that are not here, few enough to be taken.
func (c *Core) missing() []Ref {
	t := c.target
	var refs []Ref
	for op := c.log.head + 1; op <= t.op && len(refs) < RefsMax && op-c.log.base <= windowMax; op++ {
		if it := t.at(op); it != nil && it.prepare == nil {
			refs = append(refs, Ref{op, it.header.Identity})
		}
	}
	return refs
}

// nextSource turns to another replica.
func (t *target) nextSource(c *Core) {
	t.waiting = 0
	n := uint8(c.cfg.Replicas)
	t.source = (t.source + 1) % n
	if t.source == c.cfg.Replica {
		t.source = (t.source + 1) % n
	}
}

// tickRepair asks another source when one is silent.
func (c *Core) tickRepair() {
	t := c.target
	if t == nil || c.transferring() {
		return
	}
	if c.clocks.repair++; t.waiting > 0 && c.clocks.repair >= c.timing.RepairTicks {
		t.misses = 0
		t.nextSource(c)
	}
	c.pump()
}

// onHeaders takes headers that end in the one that was asked for: each is the
// parent of one that is known already.
func (c *Core) onHeaders(m *Message) {
	t, n := c.target, len(m.Headers)
	if t == nil || t.joined || n == 0 || n > HeadersMax || m.Headers[n-1].Op != t.below || t.belowIdentity.IsZero() {
		return
	}
	first := &m.Headers[0]
	if first.Op == 0 || !chain(first.Op-1, first.Parent, m.Headers, t.belowIdentity) {
		return
	}
	t.items = append(itemsOf(m.Headers), t.items...)
	t.below, t.belowIdentity = first.Op-1, first.Parent
	c.progress()
}

// onRepairPrepare takes a body. Only its identity counts, not who sent it.
func (c *Core) onRepairPrepare(m *Message) {
	t := c.target
	if t == nil || !c.mine(m.Prepare) {
		return
	}
	it := t.at(m.Prepare.Op)
	if it == nil || it.header.Identity != m.Prepare.Identity {
		return
	}
	it.prepare = m.Prepare
	t.misses = 0
	if m.From == t.source && t.waiting > 1 {
		t.waiting--
		c.clocks.repair = 0
		c.fill()
		return
	}
	c.progress()
}

// progress goes on after an answer.
func (c *Core) progress() {
	c.target.waiting, c.target.misses = 0, 0
	c.join()
	c.fill()
	c.finishInstall()
	c.pump()
}

// onGone turns to another source, or takes a checkpoint where the log has been
// freed. When nobody has it the next attempt waits for the timer.
func (c *Core) onGone(m *Message) {
	t := c.target
	if t == nil || m.From != t.source || t.waiting == 0 {
		return
	}
	if m.Low >= m.Op && m.Low > c.log.base {
		c.beginTransfer(m.From)
		return
	}
	t.nextSource(c)
	if t.misses++; t.misses >= c.cfg.Replicas-1 {
		t.misses, t.waiting = 0, 1
		return
	}
	c.pump()
}

// onRequestHeaders serves headers down from one that is named by its identity.
// Identity is proof enough, so a replica serves in every status.
func (c *Core) onRequestHeaders(m *Message) {
	if c.transferring() || m.Low == 0 || m.Low > m.Op {
		return
	}
	low := m.Low
	if m.Op-low >= HeadersMax {
		low = m.Op - HeadersMax + 1
	}
	e := c.log.entry(m.Op)
	switch {
	case m.Op <= c.log.base:
		c.read(Read{To: m.From, Op: m.Op, Identity: m.Identity, Low: low})
	case e == nil || e.header.Identity != m.Identity:
		c.sayGone(m.From, m.Op, m.Identity)
	default:
		c.send(&Message{Kind: MessageHeaders, To: m.From, Op: m.Op, Identity: m.Identity, Rest: &Rest{Headers: c.log.headers(max(low, c.log.base+1), m.Op)}})
	}
}

// onRequestPrepares serves prepares by identity.
func (c *Core) onRequestPrepares(m *Message) {
	if c.transferring() || len(m.Refs) > RefsMax {
		return
	}
	for _, r := range m.Refs {
		e := c.log.entry(r.Op)
		switch {
		case r.Op == 0: // no such op
		case r.Op <= c.log.base || e != nil && e.prepare == nil && e.header.Identity == r.Identity:
			c.read(Read{To: m.From, Op: r.Op, Identity: r.Identity})
		case e == nil || e.header.Identity != r.Identity:
			c.sayGone(m.From, r.Op, r.Identity)
		default:
			c.send(&Message{Kind: MessageRepairPrepare, To: m.From, Op: r.Op, Identity: r.Identity, Prepare: e.prepare})
		}
	}
}

func (c *Core) sayGone(to uint8, op Op, id Identity) {
	c.send(&Message{Kind: MessageGone, To: to, Op: op, Identity: id, Low: c.checkpoint})
}

func (c *Core) read(r Read) {
	if c.reads < readsMax {
		c.reads++
		c.out.Read = append(c.out.Read, r)
	}
}

// Fetched answers a Read with what the log has: the prepare, or the headers of
// Low..Op as far down as there are (their bodies may be nil), in order; nothing
// if it is not there. It is called once for each Read.
func (c *Core) Fetched(r Read, found []*Prepare) {
	c.reads--
	n := len(found)
	if n == 0 || found[n-1].Identity != r.Identity || found[n-1].Op != r.Op {
		c.sayGone(r.To, r.Op, r.Identity)
		return
	}
	if r.Low == 0 {
		c.send(&Message{Kind: MessageRepairPrepare, To: r.To, Op: r.Op, Identity: r.Identity, Prepare: found[0]})
		return
	}
	headers := make([]Header, 0, min(n, HeadersMax))
	for _, p := range found[max(0, n-HeadersMax):] {
		headers = append(headers, p.Header)
	}
	c.send(&Message{Kind: MessageHeaders, To: r.To, Op: r.Op, Identity: r.Identity, Rest: &Rest{Headers: headers}})
}
