package sim

import (
	"errors"
	"slices"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/engine"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// poll reads messages of any partition and holds them against the model as of the
// op that the node had applied when it made the plan.
func (c *client) poll() {
	if g := c.anyGroup(); g != nil {
		c.pollOf(g)
	}
}

func (c *client) pollOf(g *metadata.Partition) {
	c.begun()
	n, w := c.node, c.w
	q := pollCheck{c: c, n: n, group: vsr.GroupID(g.Group), partition: g.ID, consumer: consumerKey{galgo.ConsumerSingle, uint32(c.rng.IntN(3))}}
	q.strategy, q.count = c.strategy(g.Group), uint32(1+c.rng.IntN(200))
	if oneIn(c.rng, 3) {
		q.bytes = 1 + c.rng.IntN(20<<10)
	}
	try(c, "poll", func(e *engine.Engine, done func(edge.PollReply)) {
		q.life = n.life
		e.Poll(edge.PollRequest{
			Group: g.Group, Kind: q.consumer.kind, Key: q.consumer.key, Strategy: q.strategy, Count: q.count, Bytes: q.bytes, Plan: &q.plan,
		}, func(r edge.PollReply) {
			q.op = n.commitMin(q.group)
			if r.Code == galgo.CodeOK {
				w.checks.reads(n, q.group, q.op)
			}
			done(r)
		})
	}, func(r edge.PollReply, f fate) {
		c.done()
		switch {
		case f != answered:
			c.move()
		case r.Code == galgo.CodeTransientNotAccepted:
			c.move()
		case r.Code != galgo.CodeOK:
			w.fail("polls", "poll of group %d at node %d is answered with %v", q.group, n.id, r.Code)
		case oneIn(c.rng, 20): // files may go until it is read
			w.after(between(c.rng, 1, 3*second), q.read)
		default:
			q.read()
		}
	})
}

func (c *client) strategy(group uint64) galgo.PollingStrategy {
	switch c.rng.IntN(5) {
	case 0:
		return galgo.FromFirst()
	case 1:
		return galgo.FromLast()
	case 2:
		return galgo.FromNext()
	}
	return galgo.FromOffset(uint64(c.rng.IntN(int(c.w.model.group(vsr.GroupID(group)).next) + 3)))
}

// pollCheck is a poll and what it must return.
type pollCheck struct {
	c         *client
	n         *node
	life      int
	group     vsr.GroupID
	partition uint32
	consumer  consumerKey
	strategy  galgo.PollingStrategy
	count     uint32
	bytes     int
	plan      partition.Plan
	op        vsr.Op // that the node had applied
}

// from is where the answer must begin, next where it must end at the latest.
func (q *pollCheck) from(next uint64) uint64 {
	switch q.strategy.Kind {
	case galgo.PollFromOffset:
		return q.strategy.Value
	case galgo.PollLast:
		return next - min(uint64(q.count), next)
	case galgo.PollNext:
		if o := q.c.w.model.group(q.group).offsetAt(q.consumer, q.op); o.set {
			return o.value + 1
		}
	}
	return 0
}

// read reads the plan, if the node that made it still lives.
func (q *pollCheck) read() {
	w := q.c.w
	if q.n.life != q.life {
		return
	}
	w.cover.Polls++
	if q.plan.OnDisk() {
		w.cover.PollsOfDisk++
	}
	var reply partition.Reply
	if err := q.plan.Read(&reply); err != nil {
		q.failed(err)
		return
	}
	sends, next := w.model.group(q.group).at(q.op)
	from := max(q.from(next), w.model.group(q.group).lowAt(q.op))
	got := uint64(0)
	for rest := slices.Concat(reply.Chunks...); len(rest) > 0; {
		batch, tail, err := wire.SplitBatch(rest)
		if err == nil {
			err = batch.Validate()
		}
		if err != nil {
			w.fail("polls", "group %d at node %d: %v", q.group, q.n.id, err)
			return
		}
		for _, m := range wire.AppendMessages(nil, batch) {
			if !q.holds(sends, from+got, &m) {
				return
			}
			got++
		}
		rest = tail
	}
	w.cover.PolledMessages += int(got)
	want := uint64(0)
	if next > from {
		want = min(uint64(q.count), next-from)
	}
	if got > want || got < want && (q.bytes == 0 || got == 0) {
		w.fail("polls", "poll of group %d at node %d from offset %d: %d messages, want %d of %d as of op %d", q.group, q.n.id, from, got, want, next, q.op)
	}
}

// holds compares one message with the model.
func (q *pollCheck) holds(sends []storedSend, offset uint64, m *galgo.Message) bool {
	w := q.c.w
	i, found := slices.BinarySearchFunc(sends, offset, func(s storedSend, offset uint64) int {
		switch {
		case s.base+uint64(s.send.count) <= offset:
			return -1
		case s.base > offset:
			return 1
		}
		return 0
	})
	switch {
	case m.Offset != offset:
		w.fail("polls", "group %d at node %d returns offset %d where %d was due", q.group, q.n.id, m.Offset, offset)
	case !found:
		w.fail("polls", "group %d at node %d returns offset %d, which is not committed as of op %d", q.group, q.n.id, offset, q.op)
	case !sends[i].send.is(uint32(offset-sends[i].base), m.Payload):
		w.fail("polls", "group %d at node %d returns another message at offset %d than send %d", q.group, q.n.id, offset, sends[i].send.serial)
	}
	return w.failure == nil
}

// failed looks at a plan that could not be read: files may have gone since, and a
// disk that fails or rots may say so.
func (q *pollCheck) failed(err error) {
	w := q.c.w
	var damage *partition.DamageError
	switch {
	case errors.Is(err, partition.ErrStale):
		w.cover.PollsStale++
	case q.n.rotten && errors.As(err, &damage):
		w.cover.PollsDamaged++
	case q.n.faulted:
		w.cover.PollsFailed++
	default:
		w.fail("polls", "group %d at node %d: %v", q.group, q.n.id, err)
	}
}

// writeOffset stores or deletes an offset, once: what did not end well is not
// repeated, and the model knows from the log what became of it.
func (c *client) writeOffset(remove bool) {
	g := c.anyGroup()
	if g == nil {
		return
	}
	group := vsr.GroupID(g.Group)
	m := c.w.model.group(group)
	k := consumerKey{galgo.ConsumerSingle, uint32(c.rng.IntN(3))}
	value := uint64(c.rng.IntN(int(m.next) + 2))
	c.begun()
	req := edge.OffsetRequest{Group: g.Group, Kind: k.kind, Key: k.key, Offset: value, Monotone: oneIn(c.rng, 3), Client: c.id}
	try(c, "offset", func(e *engine.Engine, done func(edge.OffsetReply)) {
		if remove {
			e.DeleteOffset(req, done)
		} else {
			e.StoreOffset(req, done)
		}
	}, func(r edge.OffsetReply, f fate) {
		c.done()
		if f != answered {
			c.move()
			return
		}
		switch r.Code {
		case galgo.CodeOK:
			c.w.cover.Offsets++
			m.offsetAnswered(c.w, k, req, remove, r)
		case galgo.CodeTransientNotAccepted:
			c.w.cover.NotAccepted++
			c.move()
		case galgo.CodeTransientNotCommitted, galgo.CodeResourceNotFound, galgo.CodeInvalidOffset, galgo.CodeConsumerOffsetNotFound:
		default:
			c.w.fail("offsets", "group %d: answered with %v", group, r.Code)
		}
	})
}

// offsetAnswered holds the answer to a store or a deletion against the log.
func (g *groupModel) offsetAnswered(w *world, k consumerKey, req edge.OffsetRequest, remove bool, r edge.OffsetReply) {
	if g.forgot {
		return
	}
	o := g.offsetAt(k, vsr.Op(r.Op))
	if remove && o.set || !remove && !o.set || !remove && !req.Monotone && (o.value != req.Offset || uint64(o.op) != r.Op) {
		w.fail("offsets", "group %d answers at op %d that consumer %d is at %d (removed: %v); the log says %+v", g.id, r.Op, k.key, req.Offset, remove, o)
	}
	g.answered(vsr.Op(r.Op), w.now)
}

// readOffset compares a stored offset with the model.
func (c *client) readOffset() {
	g := c.anyGroup()
	if g == nil {
		return
	}
	n, group := c.node, vsr.GroupID(g.Group)
	k := consumerKey{galgo.ConsumerSingle, uint32(c.rng.IntN(3))}
	c.begun()
	try(c, "read offset", func(e *engine.Engine, done func(edge.OffsetReply)) {
		e.Offset(g.Group, k.kind, k.key, func(r edge.OffsetReply) {
			if r.Code == galgo.CodeOK {
				c.w.cover.OffsetReads++
				c.compareOffset(n, group, k, r)
			}
			done(r)
		})
	}, func(_ edge.OffsetReply, f fate) {
		c.done()
		if f != answered {
			c.move()
		}
	})
}

func (c *client) compareOffset(n *node, group vsr.GroupID, k consumerKey, r edge.OffsetReply) {
	m, op := c.w.model.group(group), n.commitMin(group)
	c.w.checks.reads(n, group, op)
	_, next := m.at(op)
	want := m.offsetAt(k, op)
	if r.Found != want.set || r.Found && r.Stored != want.value || r.Current != next-min(next, 1) {
		c.w.fail("offsets", "node %d group %d consumer %d: stored %d (%v), current %d; as of op %d it is %+v, the next offset %d",
			n.id, group, k.key, r.Stored, r.Found, r.Current, op, want, next)
	}
}

// readNow polls a partition from its first message on, with no client in between. A
// node that has not heard of its primary lately may ask to come again.
func (q *pollCheck) readNow(group uint64) {
	w := q.c.w
	q.strategy = galgo.FromOffset(0)
	code, busy := galgo.CodeTransientNotAccepted, false
	ask := func() {
		busy = true
		q.n.engine.Poll(edge.PollRequest{Group: group, Strategy: q.strategy, Count: q.count, Plan: &q.plan}, func(r edge.PollReply) {
			q.op, code, busy = q.n.commitMin(q.group), r.Code, false
		})
	}
	ask()
	for until := w.now + 10*second; code != galgo.CodeOK && w.now < until && w.step(); {
		if !busy && code == galgo.CodeTransientNotAccepted {
			ask()
		}
	}
	if code != galgo.CodeOK {
		w.fail("polls", "poll of group %d at node %d ends with %v", q.group, q.n.id, code)
	}
	if w.failure == nil {
		q.read()
	}
}
