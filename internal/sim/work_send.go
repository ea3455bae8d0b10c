package sim

import (
	"encoding/binary"
	"fmt"
	"slices"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/engine"
	"galgo/internal/metadata"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// sendRecord is a batch that a client wants stored, over all its attempts.
type sendRecord struct {
	serial   uint64
	client   *client
	group    vsr.GroupID
	number   uint64 // 0: it cannot be recognised
	count    uint32
	sizes    []int
	floor    vsr.Op // whatever was answered before it was first sent is below it
	attempts int
	refused  int // attempts that did nothing
	stored   []storedSend
	over     bool
}

// payloadHead is what a payload begins with: serial and place in the batch.
const payloadHead = 12

// inFlightSpan keeps the numbers of a client that are under way close enough
// together that each is still known when it is repeated, as galgo's client does.
const inFlightSpan = 32

// send begins a send to any partition that the client's node knows.
func (c *client) send(numbered bool) {
	if g := c.anyGroup(); g != nil {
		c.sendTo(vsr.GroupID(g.Group), numbered)
	}
}

func (c *client) sendTo(group vsr.GroupID, numbered bool) {
	p := &c.w.plan.work
	if len(c.sending) >= p.window {
		return
	}
	s := &sendRecord{serial: uint64(len(c.crowd.sends) + 1), client: c, group: group, count: uint32(1 + c.rng.IntN(p.batchMax))}
	if numbered {
		s.number = s.serial
		for _, other := range c.sending {
			if other.number > 0 && c.numbersAfter(other) >= inFlightSpan {
				return
			}
		}
	}
	for range s.count {
		size := payloadHead + c.rng.IntN(p.payloadMax)
		if oneIn(c.rng, p.big) {
			size = c.rng.IntN(300 << 10)
		}
		s.sizes = append(s.sizes, max(size, payloadHead))
	}
	c.crowd.sends = append(c.crowd.sends, s)
	c.sending = append(c.sending, s)
	c.w.cover.Sends++
	c.begun()
	s.floor = c.w.model.group(s.group).acked
	s.attempt()
}

// numbersAfter counts the numbers that the client has given out since.
func (c *client) numbersAfter(s *sendRecord) (n int) {
	for _, other := range c.crowd.sends[s.serial:] {
		if other.client == c && other.number > 0 {
			n++
		}
	}
	return n
}

// anyGroup draws a partition of those that the client's node knows.
func (c *client) anyGroup() *metadata.Partition {
	if c.node.engine == nil {
		c.move()
		return nil
	}
	all := slices.Collect(c.node.engine.View().AllPartitions())
	if len(all) == 0 {
		return nil
	}
	return all[c.rng.IntN(len(all))]
}

// batch encodes the send as a producer does.
func (s *sendRecord) batch() []byte {
	messages := make([]galgo.Message, s.count)
	for i := range messages {
		payload := make([]byte, s.sizes[i])
		binary.LittleEndian.PutUint64(payload, s.serial)
		binary.LittleEndian.PutUint32(payload[8:], uint32(i))
		for j := payloadHead; j < len(payload); j += 97 {
			payload[j] = byte(s.serial) + byte(j)
		}
		messages[i] = galgo.Message{Payload: payload, Timestamp: s.serial}
		messages[i].ID[0], messages[i].ID[1] = byte(i+1), 1
	}
	b, err := wire.AppendBatch(nil, messages)
	if err != nil {
		panic(fmt.Sprintf("sim: batch of send %d: %v", s.serial, err))
	}
	return b
}

// sendOf finds the send that a batch came from.
func (c *crowd) sendOf(b wire.Batch) (*sendRecord, uint32, error) {
	messages := wire.AppendMessages(nil, b)
	if len(messages) == 0 || len(messages[0].Payload) < payloadHead {
		return nil, 0, fmt.Errorf("a batch of %d messages that nobody sent", len(messages))
	}
	serial := binary.LittleEndian.Uint64(messages[0].Payload)
	if serial == 0 || serial > uint64(len(c.sends)) {
		return nil, 0, fmt.Errorf("a batch of send %d, which was never made", serial)
	}
	s := c.sends[serial-1]
	if len(messages) != int(s.count) {
		return nil, 0, fmt.Errorf("send %d is stored with %d messages, it had %d", serial, len(messages), s.count)
	}
	for i, m := range messages {
		if !s.is(uint32(i), m.Payload) {
			return nil, 0, fmt.Errorf("message %d of send %d is another one", i, serial)
		}
	}
	return s, s.count, nil
}

// is reports whether a payload is that of message i.
func (s *sendRecord) is(i uint32, payload []byte) bool {
	return i < s.count && len(payload) == s.sizes[i] && binary.LittleEndian.Uint64(payload) == s.serial && binary.LittleEndian.Uint32(payload[8:]) == i
}

func (s *sendRecord) attempt() {
	s.attempts++
	if s.attempts > 1 {
		s.client.w.cover.SendsRepeated++
	}
	try(s.client, "send", func(e *engine.Engine, done func(edge.SendReply)) {
		e.Send(edge.SendRequest{
			Group: uint64(s.group), Batch: s.batch(), Count: s.count, Client: s.client.id, Request: s.number, Numbered: s.number > 0,
		}, done)
	}, s.ended)
}

// ended takes the end of one attempt.
func (s *sendRecord) ended(r edge.SendReply, f fate) {
	w, c := s.client.w, s.client
	if f != answered {
		if f == unsent {
			s.refuse()
		}
		c.move()
		s.again()
		return
	}
	w.say("send %d of client %d, number %d, to group %d at n%d: %v", s.serial, c.index, s.number, s.group, c.node.id, r.Code)
	switch r.Code {
	case galgo.CodeOK:
		s.ack(r)
	case galgo.CodeTransientNotAccepted:
		w.cover.NotAccepted++
		s.refuse()
		if s.number == 0 && oneIn(c.rng, 8) {
			s.finish()
			return
		}
		c.move()
		s.again()
	case galgo.CodeTransientNotCommitted:
		w.cover.NotCommitted++
		s.again()
	case galgo.CodeResourceNotFound:
		if w.model.lives(s.group) {
			w.fail("sends", "send %d: group %d is not found, but the metadata has it", s.serial, s.group)
		}
		s.finish()
	default:
		w.fail("sends", "send %d to group %d, number %d: answered with %v", s.serial, s.group, s.number, r.Code)
	}
}

// refuse: an attempt has done nothing and never will.
func (s *sendRecord) refuse() {
	s.refused++
	s.client.w.checks.attempted(s)
}

// again tries once more: a numbered send always, another one perhaps.
func (s *sendRecord) again() {
	c := s.client
	gone := !c.w.model.lives(s.group)
	if gone || s.number == 0 && oneIn(c.rng, 3) {
		s.finish()
		return
	}
	c.w.after(c.backoff(), s.attempt)
}

func (s *sendRecord) finish() {
	s.over = true
	c := s.client
	c.sending = slices.DeleteFunc(c.sending, func(other *sendRecord) bool { return other == s })
	c.done()
}

// ack holds the answer against the log.
func (s *sendRecord) ack(r edge.SendReply) {
	w := s.client.w
	i := slices.IndexFunc(s.stored, func(at storedSend) bool {
		return at.base == r.Base && (uint64(at.op) == r.Op || s.number > 0 && uint64(at.op) < r.Op)
	})
	if i < 0 && w.model.group(s.group).forgot { // it was stored, and lost while the answer was on its way
		s.finish()
		return
	}
	if i < 0 {
		w.fail("acknowledged", "send %d to group %d is answered with offset %d, op %d; it is stored at %v", s.serial, s.group, r.Base, r.Op, s.places())
		return
	}
	if uint64(s.stored[i].op) != r.Op || s.attempts > 1 {
		w.cover.SendsAlreadyStored++
	}
	g := w.model.group(s.group)
	g.answered(s.stored[i].op, w.now)
	w.cover.SendsAcked++
	s.finish()
}

func (s *sendRecord) places() string {
	var b []byte
	for _, at := range s.stored {
		b = fmt.Appendf(b, " op %d offset %d generation %d", at.op, at.base, at.generation)
	}
	if len(b) == 0 {
		return "no op"
	}
	return string(b[1:])
}

// stored looks at a send that has just become part of a group.
func (k *checks) stored(g *groupModel, op vsr.Op, s *sendRecord, base uint64) {
	generation := g.generation()
	switch {
	case s.group != g.id:
		k.w.fail("sends", "send %d is for group %d and is op %d of group %d", s.serial, s.group, op, g.id)
	case op <= s.floor:
		k.w.fail("order", "send %d is op %d of group %d, but op %d was answered before it was sent", s.serial, op, g.id, s.floor)
	case s.number > 0 && slices.ContainsFunc(s.stored, func(at storedSend) bool { return at.generation == generation }):
		k.w.fail("once", "send %d, number %d, is op %d of group %d; it is stored already: %s", s.serial, s.number, op, g.id, s.places())
	}
	s.stored = append(s.stored, storedSend{op: op, generation: generation, base: base, send: s})
	k.attempted(s)
}

// attempted: each attempt that was not refused can have stored the send once.
func (k *checks) attempted(s *sendRecord) {
	if len(s.stored) > s.attempts-s.refused {
		k.w.fail("refused", "send %d to group %d was tried %d times and refused %d times, and is stored %d times: %s",
			s.serial, s.group, s.attempts, s.refused, len(s.stored), s.places())
	}
}
