package edge

import (
	"context"
	"errors"
	"sync"

	"galgo"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/wire"
)

const (
	// pollTries bounds how often a poll starts over because files it was to read
	// went away meanwhile.
	pollTries = 3
	// pollLeast is charged for any poll before its size is known, in bytes.
	pollLeast = 4 << 10
)

// polled holds the messages of a poll until they are written. Its memory serves
// one poll after the other.
type polled struct {
	partition.Reply
	plan    partition.Plan
	lent    bool // the node may still write the plan: never use this memory again
	server  *Server
	charge  int64
	release func() // done, bound once
}

var polledPool sync.Pool

func newPolled(s *Server, charge int64) *polled {
	p, ok := polledPool.Get().(*polled)
	if !ok {
		p = new(polled)
		p.release = p.done
	}
	p.server, p.charge = s, charge
	return p
}

// done lets go of the batches and gives the memory back.
func (p *polled) done() {
	p.server.budget.Release(p.charge)
	if p.lent {
		return
	}
	clear(p.Chunks)
	p.plan.Reset()
	p.server, p.charge = nil, 0
	polledPool.Put(p)
}

// settle corrects the charge once the size is known. What the estimate fell short
// of is taken if it is there, and not waited for: the poll already holds what
// others may wait for.
func (p *polled) settle() {
	size := int64(p.Bytes)
	switch {
	case size < p.charge:
		p.server.budget.Release(p.charge - size)
		p.charge = size
	case size > p.charge && p.server.budget.TryAcquire(size-p.charge):
		p.charge = size
	}
}

// poll serves messages (wire.md §6.10).
func (c *conn) poll(ctx context.Context, r *request) {
	m, err := wire.DecodePollMessagesRequest(r.body)
	switch {
	case err != nil:
		c.answerEmptyPoll(r, 0, 0)
	case m.Consumer.Kind == galgo.ConsumerGroup:
		c.pollGroup(ctx, r, &m)
	default:
		c.pollSingle(ctx, r, &m)
	}
}

func (c *conn) pollSingle(ctx context.Context, r *request, m *wire.PollMessagesRequest) {
	view := c.server.backend.View()
	t, err := view.Topic(m.Stream, m.Topic)
	if err != nil {
		c.deny(&r.RequestHeader, codeOf(err, galgo.CodeTopicIDNotFound))
		return
	}
	p, ok := view.Partition(t, m.Partition.ID) // 0 if absent
	if !ok {
		c.deny(&r.RequestHeader, galgo.CodePartitionNotFound)
		return
	}
	if !view.Allows(r.session.actor, metadata.RulePoll, t.Stream, t.ID) {
		c.deny(&r.RequestHeader, galgo.CodeUnauthorized)
		return
	}
	key, ok := m.Consumer.OffsetKey()
	if !ok {
		c.answerEmptyPoll(r, p.ID, 0)
		return
	}
	c.serveMessages(ctx, r, p, PollRequest{
		Group:    p.Group,
		Kind:     m.Consumer.Kind,
		Key:      key,
		Strategy: m.Strategy,
		Count:    m.Count,
		Bytes:    c.pollBytes(),
	}, m.AutoCommit)
}

// pollBytes is what a poll may return of batches.
func (c *conn) pollBytes() int {
	return int(c.server.options.FrameMax) - wire.HeaderSize - wire.PollPrefixSize
}

// serveMessages plans, reads and answers a poll.
func (c *conn) serveMessages(ctx context.Context, r *request, p *metadata.Partition, request PollRequest, commit bool) {
	charge, ok := c.acquire(ctx, c.estimate(&request))
	if !ok {
		return
	}
	messages := newPolled(c.server, charge)
	request.Plan = &messages.plan
	code, err := c.readPlanned(ctx, r, &request, messages)
	if code == galgo.CodeOK && !c.polled(&request, messages.Last, err == nil && messages.Count > 0) {
		code = galgo.CodeConsumerGroupPartitionNotOwned
	}
	switch {
	case code != galgo.CodeOK:
		c.refusePoll(r, p, code)
	case err != nil:
		c.answerUnreadable(r, p, err)
	case messages.Count == 0:
		c.answerEmptyPoll(r, p.ID, messages.plan.Current)
	default:
		messages.settle()
		if !commit || c.autoCommit(ctx, r, &request, messages.Last) {
			c.answerMessages(r, p, messages)
			return
		}
		c.answerEmptyPoll(r, wire.PollPartitionResync, 0)
	}
	messages.done()
}

// refusePoll answers a poll of which nothing comes: a member that does not have the
// partition is to sync again, and one that the node does not have yet looks empty.
func (c *conn) refusePoll(r *request, p *metadata.Partition, code galgo.Code) {
	switch {
	case code == galgo.CodeConsumerGroupPartitionNotOwned:
		c.answerEmptyPoll(r, wire.PollPartitionResync, 0)
	case code == galgo.CodeTransientNotAccepted && c.tooEarly(p):
		c.answerEmptyPoll(r, p.ID, 0)
	default:
		c.deny(&r.RequestHeader, code)
	}
}

// readPlanned asks for a plan and reads what it names, and does so again while files go
// away in between.
func (c *conn) readPlanned(ctx context.Context, r *request, request *PollRequest, into *polled) (code galgo.Code, err error) {
	ended := *request // for an answer that nobody waits for any more
	for try := range pollTries {
		if try > 0 {
			c.polled(request, 0, false)
		}
		q := newCall(func(late PollReply) {
			if late.Code == galgo.CodeOK {
				ended.Ticket = late.Ticket
				c.polled(&ended, 0, false)
			}
		})
		c.server.backend.Poll(*request, q.done)
		reply, ok := await(ctx, c, r, q)
		if !ok {
			into.lent = true
			return galgo.CodeTransientNotAccepted, nil
		}
		if reply.Code != galgo.CodeOK {
			return reply.Code, nil
		}
		request.Ticket = reply.Ticket
		if err = into.plan.Read(&into.Reply); !errors.Is(err, partition.ErrStale) {
			return galgo.CodeOK, err
		}
	}
	return galgo.CodeOK, err
}

// estimate is about how many bytes a poll will hold.
func (c *conn) estimate(request *PollRequest) int64 {
	f, _ := c.server.backend.Stats(request.Group)
	if f.Messages == 0 {
		return pollLeast
	}
	mean := f.SizeBytes/f.Messages + 1
	wanted := min(uint64(request.Count)*2*mean, f.SizeBytes, uint64(request.Bytes))
	return int64(max(wanted, pollLeast))
}

// autoCommit stores the offset of the last message served before the client sees
// it, so that its next poll goes on behind. If that fails the messages are served
// all the same, and will be again. It reports false if they are another member's by now.
func (c *conn) autoCommit(ctx context.Context, r *request, poll *PollRequest, last uint64) bool {
	member := poll.Kind == galgo.ConsumerGroup
	if member && c.bound.Load() != r.session {
		return false // the client may be a member again, over another connection
	}
	q := newCall[OffsetReply](nil)
	request := r.offsetRequest(poll.Group, poll.Kind, poll.Key)
	request.Offset, request.Monotone = last, true
	request.Member, request.Tenure = poll.Member, poll.Tenure
	c.server.backend.StoreOffset(request, q.done)
	reply, ok := await(ctx, c, r, q)
	return !member || !ok || reply.Code != galgo.CodeResourceNotFound
}

func (c *conn) answerMessages(r *request, p *metadata.Partition, messages *polled) {
	var prefix [wire.PollPrefixSize]byte
	wire.PollPrefix{PartitionID: p.ID, CurrentOffset: messages.plan.Current, Count: messages.Count}.Put(prefix[:])
	c.answerLong(r, prefix[:], messages.Chunks, messages.release)
}

func (c *conn) answerEmptyPoll(r *request, id uint32, current uint64) {
	var prefix [wire.PollPrefixSize]byte
	wire.PollPrefix{PartitionID: id, CurrentOffset: current}.Put(prefix[:])
	c.answer(r, prefix[:])
}

// answerUnreadable answers a poll of messages that exist and cannot be read. One
// that is damaged must not look like the end of the data.
func (c *conn) answerUnreadable(r *request, p *metadata.Partition, err error) {
	c.server.events.readFailed(p.Group, err)
	if _, damaged := errors.AsType[*partition.DamageError](err); damaged {
		c.deny(&r.RequestHeader, galgo.CodeCannotReadMessage)
		return
	}
	c.answerEmptyPoll(r, p.ID, 0)
}
