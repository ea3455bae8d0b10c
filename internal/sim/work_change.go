package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/engine"
	"galgo/internal/metadata"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// changeRecord is a metadata operation of a client, over all its attempts.
type changeRecord struct {
	client  *client
	op      wire.Operation
	input   changeInput
	body    []byte
	request uint64
	born    uint64 // of the entry that it was first sent under
	began   int64
	tries   int
}

// change begins a metadata operation, one at a time as clients must.
func (c *client) change(kind work) {
	if c.changes > 0 {
		return
	}
	if c.session.epoch == 0 {
		c.login()
		return
	}
	in, op, body := c.drawChange(kind)
	c.session.request++
	r := &changeRecord{client: c, op: op, input: in, body: body, request: c.session.request, born: c.session.born, began: c.w.now}
	c.changes++
	c.begun()
	c.w.cover.Changes++
	r.attempt()
}

func (c *client) drawChange(kind work) (changeInput, wire.Operation, []byte) {
	p := &c.w.plan.work
	in := changeInput{
		stream: fmt.Sprintf("s%d", c.rng.IntN(p.streams)), topic: fmt.Sprintf("t%d", c.rng.IntN(p.topics)),
		other: fmt.Sprintf("t%d", c.rng.IntN(p.topics)), count: uint32(1 + c.rng.IntN(p.partitions)),
	}
	stream, topic := galgo.NamedID(in.stream), galgo.NamedID(in.topic)
	whole := oneIn(c.rng, 4) // the stream, not a topic of it
	switch kind {
	case workCreate:
		if _, ok := c.w.model.metadata.View().Stream(stream); !ok || oneIn(c.rng, 10) {
			in.kind = createStream
			return in, wire.OperationCreateStream, wire.CreateStreamRequest{Name: in.stream}.Append(nil)
		}
		in.kind = createTopic
		return in, wire.OperationCreateTopic, wire.CreateTopicRequest{Stream: stream, Partitions: in.count, Name: in.topic, Options: c.topicOptions()}.Append(nil)
	case workRemove:
		if whole {
			in.kind = deleteStream
			return in, wire.OperationDeleteStream, wire.StreamRequest{Stream: stream}.Append(nil)
		}
		in.kind = deleteTopic
		return in, wire.OperationDeleteTopic, wire.TopicRequest{Stream: stream, Topic: topic}.Append(nil)
	case workGrow:
		in.kind = createPartitions
		return in, wire.OperationCreatePartitions, wire.PartitionsRequest{Stream: stream, Topic: topic, Count: in.count}.Append(nil)
	case workShrink:
		in.kind = deletePartitions
		return in, wire.OperationDeletePartitions, wire.PartitionsRequest{Stream: stream, Topic: topic, Count: in.count}.Append(nil)
	case workPurge:
		if whole {
			in.kind = purgeStream
			return in, wire.OperationPurgeStream, wire.StreamRequest{Stream: stream}.Append(nil)
		}
		in.kind = purgeTopic
		return in, wire.OperationPurgeTopic, wire.TopicRequest{Stream: stream, Topic: topic}.Append(nil)
	case workRename:
		if whole { // to the name that it has: its topics stay where they are
			in.kind = unjudged
			return in, wire.OperationUpdateStream, wire.UpdateStreamRequest{Stream: stream, Name: in.stream}.Append(nil)
		}
		in.kind = renameTopic
		return in, wire.OperationUpdateTopic, wire.UpdateTopicRequest{Stream: stream, Topic: topic, Name: in.other}.Append(nil)
	case workUser:
		return c.drawUser(in)
	case workSegments:
		in.kind = deleteSegments
		if s, t, p, ok := c.longest(); ok && !oneIn(c.rng, 4) {
			in.stream, in.topic, in.count = s, t, p+1
			stream, topic = galgo.NamedID(s), galgo.NamedID(t)
		}
		return in, wire.OperationDeleteSegments, wire.DeleteSegmentsRequest{Stream: stream, Topic: topic, PartitionID: in.count - 1, Segments: uint32(c.rng.IntN(4))}.Append(nil)
	case workJoin, workLeave:
		in.other = fmt.Sprintf("g%d", c.rng.IntN(3))
		if names := c.w.model.groupNames(); len(names) > 0 && !oneIn(c.rng, 8) {
			in.stream, in.topic, in.other = names[0][0], names[0][1], names[0][2] // all meet in one
			stream, topic = galgo.NamedID(in.stream), galgo.NamedID(in.topic)
		}
		body := wire.GroupRequest{Stream: stream, Topic: topic, Group: galgo.NamedID(in.other)}.Append(nil)
		if in.kind = joinGroup; kind == workJoin {
			return in, wire.OperationJoinConsumerGroup, body
		}
		in.kind = unjudged // whether somebody is a member depends on connections, which no client sees
		return in, wire.OperationLeaveConsumerGroup, body
	default:
		return c.drawGroup(in, stream, topic)
	}
}

func (c *client) drawGroup(in changeInput, stream, topic galgo.Identifier) (changeInput, wire.Operation, []byte) {
	in.other = fmt.Sprintf("g%d", c.rng.IntN(3))
	if oneIn(c.rng, 3) {
		in.kind = deleteGroup
		return in, wire.OperationDeleteConsumerGroup, wire.GroupRequest{Stream: stream, Topic: topic, Group: galgo.NamedID(in.other)}.Append(nil)
	}
	in.kind = createGroup
	return in, wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: stream, Topic: topic, Name: in.other}.Append(nil)
}

// topicOptions keep segments as small as they may be.
func (c *client) topicOptions() wire.Options {
	headers := []galgo.Header{
		{Key: galgo.StringValue(galgo.OptionMessageExpiry), Value: galgo.Uint64Value(c.w.plan.work.expiry)},
		{Key: galgo.StringValue(galgo.OptionSegmentSize), Value: galgo.Uint64Value(galgo.SegmentSizeMin)},
		{Key: galgo.StringValue(galgo.OptionMessagesRequiredToSave), Value: galgo.Uint32Value(c.w.plan.work.saved)},
	}
	if oneIn(c.rng, c.w.plan.work.memory) {
		headers = append(headers, galgo.Header{Key: galgo.StringValue(galgo.OptionEnforceFsync), Value: galgo.BoolValue(false)})
	}
	options, err := wire.NewOptions(headers)
	if err != nil {
		panic(err)
	}
	return options
}

func (r *changeRecord) attempt() {
	c := r.client
	r.tries++
	var sum [16]byte
	binary.LittleEndian.PutUint64(sum[:], r.request)
	n := c.node
	c.twin()
	try(c, r.input.kind.String(), func(e *engine.Engine, done func(edge.MetadataReply)) {
		e.Metadata(edge.MetadataRequest{
			Operation: r.op, Client: c.id, Session: c.session.epoch, Request: r.request, RequestSum: sum, Body: r.body,
		}, func(reply edge.MetadataReply) {
			c.w.checks.usable(n, reply)
			done(reply)
		})
	}, r.ended)
}

// ended takes the end of one attempt.
func (r *changeRecord) ended(reply edge.MetadataReply, f fate) {
	c := r.client
	if f != answered {
		c.move()
		r.again()
		return
	}
	c.w.say("request %d of %v, session %d, at n%d: outcome %d, %v", r.request, c, c.session.epoch, c.node.id, reply.Outcome, reply.Code)
	switch reply.Outcome {
	case edge.OutcomeReply:
		r.replied(reply)
	case edge.OutcomeStatus:
		r.finish(changeOutput{})
	case edge.OutcomeResult:
		if reply.Code == galgo.CodeRequestAlreadyApplied {
			c.w.fail("once", "%v: the answer to its last request, %d, is forgotten", c, r.request)
			return
		}
		c.hesitate(reply.Code)
		r.again()
	case edge.OutcomeEvict:
		c.evicted(reply.Reason)
		c.register(r.resume)
	default:
		entry, _ := c.w.model.metadata.View().Client(c.id)
		c.w.fail("sessions", "%v gets no answer to request %d of session %d, made by op %d; the table has %+v", c, r.request, c.session.epoch, c.session.born, entry)
	}
}

// resume goes on under a new session: the same request, if the entry is the one that
// knows it. Else nobody can tell what became of it.
func (r *changeRecord) resume() {
	if r.client.session.born != r.born {
		c := r.client
		if c.guest {
			r.over()
			return
		}
		c.w.history.open = append(c.w.history.open, openChange{client: c, input: r.input, began: r.began, request: r.request})
		r.over()
		return
	}
	r.attempt()
}

func (r *changeRecord) again() { r.client.w.after(r.client.backoff(), r.attempt) }

// replied holds an answer against the log.
func (r *changeRecord) replied(reply edge.MetadataReply) {
	w, c := r.client.w, r.client
	if reply.Op == 0 || reply.Op > uint64(len(w.model.results)) {
		w.fail("acknowledged", "%v: request %d is answered with op %d, of %d", c, r.request, reply.Op, len(w.model.results))
		return
	}
	at := &w.model.results[reply.Op-1]
	switch {
	case at.client != c.id || at.request != r.request || at.output.Verdict.Kind != metadata.VerdictNew:
		w.fail("acknowledged", "%v: request %d is answered with op %d, which is request %d of %v (%v)", c, r.request, reply.Op, at.request, at.client, at.output.Verdict.Kind)
		return
	case r.op == wire.OperationCreateToken && r.tries > 1 && bytes.Equal(reply.Body, tokenTold):
		// The token is not told twice.
	case !bytes.Equal(at.output.Body, reply.Body):
		w.fail("acknowledged", "%v: request %d, op %d is answered with %x, the log says %x", c, r.request, reply.Op, reply.Body, at.output.Body)
		return
	}
	code, _, err := wire.SplitResult(at.output.Body)
	if err != nil {
		w.fail("acknowledged", "%v: request %d: %v", c, r.request, err)
		return
	}
	if r.tries > 1 {
		w.cover.AnsweredFromTable++
	}
	w.cover.ChangesAcked++
	if r.op == wire.OperationJoinConsumerGroup && code == galgo.CodeOK && !w.calm {
		for range c.w.plan.work.partitions { // as consumers do
			c.pollAsMember()
		}
	}
	for _, change := range at.output.Changes {
		switch change.Kind {
		case metadata.GroupCreated:
			if change.Group > 1 {
				w.cover.Recreated++
			}
		case metadata.GroupPurged:
			w.cover.Purges++
			w.checks.purged(change)
		case metadata.GroupTruncated:
			w.checks.truncated(change)
		}
	}
	if c.guest {
		r.guestIn(reply.Op, code)
		r.over()
		return
	}
	r.finish(changeOutput{ok: code == galgo.CodeOK})
}

// tokenTold is the answer to a token's creation that is repeated.
var tokenTold = wire.AppendResultError(nil, galgo.CodePersonalAccessTokenAlreadyExists)

func (r *changeRecord) finish(out changeOutput) {
	c := r.client
	c.w.history.add(c.index, r.input, r.began, out, c.w.now)
	r.over()
}

func (r *changeRecord) over() {
	r.client.changes--
	r.client.done()
}

// usable: who is told that a partition was made may use it at once, at the same node.
func (k *checks) usable(n *node, reply edge.MetadataReply) {
	if reply.Outcome != edge.OutcomeReply || reply.Op == 0 || reply.Op > uint64(len(k.w.model.results)) {
		return
	}
	for _, change := range k.w.model.results[reply.Op-1].output.Changes {
		if change.Kind != metadata.GroupCreated || !k.w.model.lives(vsr.GroupID(change.Group)) {
			continue
		}
		if _, ok := n.engine.Stats(change.Group); !ok {
			k.w.fail("created", "node %d answers op %d, which makes group %d, and does not have it", n.id, reply.Op, change.Group)
		}
	}
}

// purged: who is told that a partition was purged finds it so.
func (k *checks) purged(change metadata.Change) {
	id := vsr.GroupID(change.Group)
	if g := k.w.model.group(id); g.generation() < change.Generation && k.w.model.lives(id) {
		k.w.fail("purged", "purge %d of group %d is answered, and nobody has applied it", change.Generation, id)
	}
}
