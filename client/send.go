package client

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"

	"galgo"
	"galgo/internal/wire"
)

// Placement is where messages were stored: one after the other from BaseOffset on.
type Placement struct {
	StreamID    uint32
	TopicID     uint32
	PartitionID uint32
	BaseOffset  uint64
}

// SendMessages stores messages in one partition of a topic, in their order and
// together: all of them or none. When it returns without an error they are as
// durable as the topic promises.
//
// A message without an ID gets a random one, one without a Timestamp the present.
// messages are copied before SendMessages waits for anything.
//
// Balanced and keyed partitioning are resolved here. The number of partitions is
// read from the server once in a while.
func (c *Client) SendMessages(ctx context.Context, stream, topic galgo.Identifier, p galgo.Partitioning, messages []galgo.Message) (Placement, error) {
	if err := checkSend(stream, topic, p); err != nil {
		return Placement{}, err
	}
	key := topicKey{stream, topic}
	messages = complete(messages)
	for retried := false; ; retried = true {
		partition, err := c.resolve(ctx, key, p)
		if err != nil {
			return Placement{}, err
		}
		placed, err := c.sendTo(ctx, key, partition, messages)
		if retried || p.Kind == galgo.PartitioningPartition || !refused(err, galgo.CodeResourceNotFound) || OutcomeOf(err) != NotApplied {
			return placed, err
		}
		// The partition may have been removed since its topic was read.
		c.topics.forget(key)
	}
}

func checkSend(stream, topic galgo.Identifier, p galgo.Partitioning) error {
	err := errors.Join(stream.Validate(), topic.Validate())
	switch {
	case p.Kind < galgo.PartitioningBalanced || p.Kind > galgo.PartitioningKey:
		err = galgo.Errorf(galgo.CodeInvalidCommand, "partitioning of unknown kind %d", p.Kind)
	case p.Kind == galgo.PartitioningKey && (len(p.Key) < 1 || len(p.Key) > galgo.KeyMax):
		err = galgo.Errorf(galgo.CodeInvalidKeyValueLength, "message key has %d bytes, want 1..%d", len(p.Key), galgo.KeyMax)
	}
	if err != nil {
		return &Error{Call: describe("send to", stream, "/", topic), Err: err}
	}
	return nil
}

func (c *Client) sendTo(ctx context.Context, key topicKey, partition uint32, messages []galgo.Message) (Placement, error) {
	k, err := c.newSend(key, partition, messages)
	if err != nil {
		return Placement{}, sendError(key, partition, err)
	}
	a, err := c.do(ctx, k)
	return placement(key, partition, a, err)
}

// newSend makes the call that stores messages, which are complete, in a partition.
func (c *Client) newSend(key topicKey, partition uint32, messages []galgo.Message) (*call, error) {
	frame := c.frames.get()[:wire.HeaderSize]
	target := galgo.ToPartition(partition)
	frame = wire.AppendSendTarget(frame, key.stream, key.topic, target, uint32(len(messages)))
	frame, err := wire.AppendBatch(frame, messages)
	if err != nil {
		return nil, &Error{Err: err}
	}
	return c.newFramedCall("send messages", wire.CommandSendMessages, frame), nil
}

func placement(key topicKey, partition uint32, a answer, err error) (Placement, error) {
	if err != nil {
		return Placement{}, sendError(key, partition, err)
	}
	confirmed, err := wire.DecodeSendConfirmations(a.payload)
	if err == nil && len(confirmed) == 0 {
		err = galgo.Errorf(galgo.CodeInvalidFormat, "the server does not tell where it stored them")
	}
	if err != nil {
		return Placement{}, sendError(key, partition, undecodable("", wire.CommandSendMessages, err))
	}
	return Placement(confirmed[0]), nil
}

// sendError says where to a send was that went wrong. It is not built before, since
// most sends go well.
func sendError(key topicKey, partition uint32, err error) error {
	if e, ok := err.(*Error); ok {
		e.Call = describe("send to", key.stream, "/", key.topic, "/", partition)
	}
	return err
}

// complete returns messages with ids and timestamps, a copy if any lacks one: the
// caller's are not touched.
func complete(messages []galgo.Message) []galgo.Message {
	for i := range messages {
		if messages[i].ID == (galgo.MessageID{}) || messages[i].Timestamp == 0 {
			messages = slices.Clone(messages)
			fill(messages, now())
			break
		}
	}
	return messages
}

// fill gives each message that lacks them an id and a timestamp.
func fill(messages []galgo.Message, µs uint64) {
	for i := range messages {
		for messages[i].ID == (galgo.MessageID{}) {
			messages[i].ID = newMessageID()
		}
		if messages[i].Timestamp == 0 {
			messages[i].Timestamp = µs
		}
	}
}

func newMessageID() (id galgo.MessageID) {
	binary.LittleEndian.PutUint64(id[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], rand.Uint64())
	return id
}
