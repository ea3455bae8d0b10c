package client

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"galgo"
	"galgo/internal/wire"
)

// PollRequest says what to poll.
type PollRequest struct {
	Consumer  galgo.Consumer
	Stream    galgo.Identifier
	Topic     galgo.Identifier
	Partition uint32
	Strategy  galgo.PollingStrategy
	Count     uint32 // the most messages to return
	// AutoCommit stores the offset of the last message returned, on the server and
	// before they arrive here: they are delivered at most once.
	AutoCommit bool
}

// Batch is what a poll returned. Its messages lie in one buffer that the Batch owns.
type Batch struct {
	PartitionID   uint32
	CurrentOffset uint64 // of the last message of the partition, 0 if there is none

	count   uint32
	last    uint64
	records []byte // checked: nothing in it can surprise Messages
	buffer  []byte
}

// Len is the number of messages.
func (b *Batch) Len() int { return int(b.count) }

// LastOffset is the offset of the last message. It is meaningless if there is none.
func (b *Batch) LastOffset() uint64 { return b.last }

// Messages yields the messages in the order of their offsets. Payloads and user
// headers alias the Batch: they are good until the next PollInto with it.
func (b *Batch) Messages() iter.Seq[galgo.Message] {
	return func(yield func(galgo.Message) bool) {
		for rest := b.records; len(rest) > 0; {
			var record wire.Batch
			record, rest, _ = wire.SplitBatch(rest)
			for it := record.Frames(); it.Next(); {
				if !yield(messageOf(record, it.Frame())) {
					return
				}
			}
		}
	}
}

func messageOf(b wire.Batch, f wire.Frame) galgo.Message {
	return galgo.Message{
		ID:              f.ID(),
		Payload:         f.Payload(),
		UserHeaders:     f.UserHeaders(),
		Timestamp:       b.OriginTimestamp() + uint64(f.TimestampDelta()),
		Offset:          b.BaseOffset() + uint64(f.OffsetDelta()),
		ServerTimestamp: b.BaseTimestamp(),
		Checksum:        f.Checksum(),
	}
}

// Headers decodes the user headers of a message. Their data alias it.
func Headers(m galgo.Message) ([]galgo.Header, error) { return wire.DecodeUserHeaders(m.UserHeaders) }

// EncodeHeaders makes the user headers of a message.
func EncodeHeaders(headers ...galgo.Header) ([]byte, error) {
	return wire.AppendUserHeaders(nil, headers)
}

// Poll reads messages of a partition, those that are committed. None is not an
// error; the server does not wait for any to come.
func (c *Client) Poll(ctx context.Context, r PollRequest) (*Batch, error) {
	b := new(Batch)
	return b, c.PollInto(ctx, r, b)
}

// PollInto is Poll into a Batch whose memory is used again: its former messages are
// lost, also when there is an error.
func (c *Client) PollInto(ctx context.Context, r PollRequest, b *Batch) error {
	if err := r.check(); err != nil {
		return &Error{Call: "poll", Err: err}
	}
	k := c.newCall("poll", wire.CommandPollMessages, wire.PollMessagesRequest{
		Consumer: r.Consumer, Stream: r.Stream, Topic: r.Topic, Partition: wire.Partition(r.Partition),
		Strategy: r.Strategy, Count: r.Count, AutoCommit: r.AutoCommit,
	})
	if r.AutoCommit {
		k.rule = replayNever
	}
	k.reply = b.buffer
	*b = Batch{}
	a, err := c.do(ctx, k)
	if err == nil {
		if err = b.decode(a); err == nil {
			return nil
		}
		err = undecodable("poll", wire.CommandPollMessages, err)
	}
	if e, ok := err.(*Error); ok {
		e.Call = describe("poll", r.Stream, "/", r.Topic, "/", r.Partition)
	}
	return err
}

func (r *PollRequest) check() error {
	if k := r.Consumer.Kind; k != galgo.ConsumerSingle && k != galgo.ConsumerGroup {
		return galgo.Errorf(galgo.CodeInvalidCommand, "%v is neither a single one (1) nor a group (2)", k)
	}
	if k := r.Strategy.Kind; k < galgo.PollFromOffset || k > galgo.PollNext {
		return galgo.Errorf(galgo.CodeInvalidCommand, "polling strategy of unknown kind %d", k)
	}
	return errors.Join(r.Consumer.ID.Validate(), r.Stream.Validate(), r.Topic.Validate())
}

// decode takes an answer over. It checks everything that Messages relies on, but
// not checksums; see Verify.
func (b *Batch) decode(a answer) error {
	p, records, err := wire.DecodePollPrefix(a.payload)
	if err != nil {
		return err
	}
	count, last := uint64(0), uint64(0)
	for rest := records; len(rest) > 0; {
		var record wire.Batch
		if record, rest, err = wire.SplitBatch(rest); err != nil {
			return err
		}
		if err := record.ValidateLayout(); err != nil {
			return err
		}
		count += uint64(record.MessageCount())
		last = lastOffset(record)
	}
	if count != uint64(p.Count) {
		return fmt.Errorf("%w: the poll announces %d messages and has %d", ErrProtocol, p.Count, count)
	}
	*b = Batch{
		PartitionID: p.PartitionID, CurrentOffset: p.CurrentOffset,
		count: p.Count, last: last, records: records, buffer: a.frame,
	}
	return nil
}

func lastOffset(record wire.Batch) (offset uint64) {
	for it := record.Frames(); it.Next(); {
		offset = record.BaseOffset() + uint64(it.Frame().OffsetDelta())
	}
	return offset
}

// Verify computes the checksums of all messages, which the server did when it
// stored them, and returns an error if one differs.
func (b *Batch) Verify() error {
	for rest := b.records; len(rest) > 0; {
		var record wire.Batch
		record, rest, _ = wire.SplitBatch(rest)
		if err := record.Validate(); err != nil {
			return fmt.Errorf("client: poll of partition %d: %w", b.PartitionID, err)
		}
	}
	return nil
}

// Flush asks the server to write what it holds of a partition, with fsync to stable
// storage. Servers that write before they answer refuse it with
// CodeFeatureUnavailable.
func (c *Client) Flush(ctx context.Context, stream, topic galgo.Identifier, partition uint32, fsync bool) error {
	call := describe("flush", stream, "/", topic, "/", partition)
	if err := checkTarget(call, stream, topic); err != nil {
		return err
	}
	return c.change(ctx, call, wire.CommandFlushUnsavedBuffer,
		wire.FlushRequest{Stream: stream, Topic: topic, PartitionID: partition, Fsync: fsync})
}
