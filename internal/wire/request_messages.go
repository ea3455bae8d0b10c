package wire

import "galgo"

// SendMessagesRequest appends one batch to one partition.
//
//	u32    metadata length: bytes of the next four fields
//	ident  stream
//	ident  topic
//	       partitioning
//	u32    messages count
//	       batch, to the end of the body
type SendMessagesRequest struct {
	Stream        galgo.Identifier
	Topic         galgo.Identifier
	Partitioning  galgo.Partitioning // Key aliases the body
	MessagesCount uint32
	Batch         Batch // aliases the body; not checked yet, see CheckBatch
}

// Append appends the body of the request.
func (r SendMessagesRequest) Append(b []byte) []byte {
	b = AppendSendTarget(b, r.Stream, r.Topic, r.Partitioning, r.MessagesCount)
	return append(b, r.Batch...)
}

// AppendSendTarget appends all of the body but the batch, so that AppendBatch can
// write that into the same buffer.
func AppendSendTarget(b []byte, stream, topic galgo.Identifier, p galgo.Partitioning, messages uint32) []byte {
	b = le.AppendUint32(b, 0)
	start := len(b)
	b = appendPartitioning(appendIdentifier(appendIdentifier(b, stream), topic), p)
	b = le.AppendUint32(b, messages)
	le.PutUint32(b[start-4:], uint32(len(b)-start))
	return b
}

// DecodeSendMessagesRequest reads the target and finds the batch, which it does
// not look at. An error means the target is not known: servers answer
// CodeResourceNotFound.
func DecodeSendMessagesRequest(body []byte) (SendMessagesRequest, error) {
	c := read("send messages", body)
	target := read("send messages", c.bytes32("metadata"))
	r := SendMessagesRequest{
		Stream:        target.identifier("stream"),
		Topic:         target.identifier("topic"),
		Partitioning:  target.partitioning(),
		MessagesCount: target.u32("messages count"),
		Batch:         Batch(c.rest()),
	}
	if c.err == nil {
		c.err = target.end()
	}
	if c.err != nil {
		return SendMessagesRequest{}, c.err
	}
	return r, nil
}

// CheckBatch validates the batch as one that a producer made, see
// Batch.ValidateProduced, and that it holds MessagesCount messages. The error is
// an ErrBatch.
func (r *SendMessagesRequest) CheckBatch() error {
	if err := r.Batch.ValidateProduced(); err != nil {
		return err
	}
	if got := r.Batch.MessageCount(); got != r.MessagesCount {
		return &BatchError{Reason: "message count differs from that of the request", Got: uint64(got), Want: uint64(r.MessagesCount)}
	}
	return nil
}

// PollMessagesRequest asks for messages: [consumer][ident stream][ident topic]
// [u8 flag, u32 partition][u8 kind, u64 value][u32 count][u8 auto commit].
type PollMessagesRequest struct {
	Consumer   galgo.Consumer
	Stream     galgo.Identifier
	Topic      galgo.Identifier
	Partition  OptionalPartition
	Strategy   galgo.PollingStrategy
	Count      uint32
	AutoCommit bool
}

// Append appends the body of the request.
func (r PollMessagesRequest) Append(b []byte) []byte {
	b = appendTarget(b, r.Consumer, r.Stream, r.Topic, r.Partition)
	b = appendStrategy(b, r.Strategy)
	b = le.AppendUint32(b, r.Count)
	return appendBool(b, r.AutoCommit)
}

// DecodePollMessagesRequest reads the body. Servers answer an error with an empty
// poll of partition 0.
func DecodePollMessagesRequest(body []byte) (PollMessagesRequest, error) {
	c := read("poll messages", body)
	r := PollMessagesRequest{
		Consumer:   c.consumer(),
		Stream:     c.identifier("stream"),
		Topic:      c.identifier("topic"),
		Partition:  c.optionalPartition(),
		Strategy:   c.strategy(),
		Count:      c.u32("count"),
		AutoCommit: c.bool("auto commit"),
	}
	if c.err != nil {
		return PollMessagesRequest{}, c.err
	}
	return r, nil
}

// FlushRequest asks for buffered messages to be written: [ident stream]
// [ident topic][u32 partition][u8 fsync]. Servers refuse it.
type FlushRequest struct {
	Stream      galgo.Identifier
	Topic       galgo.Identifier
	PartitionID uint32
	Fsync       bool
}

// Append appends the body of the request.
func (r FlushRequest) Append(b []byte) []byte {
	b = appendIdentifier(appendIdentifier(b, r.Stream), r.Topic)
	return appendBool(le.AppendUint32(b, r.PartitionID), r.Fsync)
}

// DecodeFlushRequest reads the body.
func DecodeFlushRequest(body []byte) (FlushRequest, error) {
	c := read("flush", body)
	r := FlushRequest{
		Stream:      c.identifier("stream"),
		Topic:       c.identifier("topic"),
		PartitionID: c.u32("partition"),
		Fsync:       c.bool("fsync"),
	}
	if c.err != nil {
		return FlushRequest{}, c.err
	}
	return r, nil
}
