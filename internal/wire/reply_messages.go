package wire

import "galgo"

// SendConfirmation tells where a batch went: [u32 stream][u32 topic]
// [u32 partition][u64 base offset].
type SendConfirmation struct {
	StreamID    uint32
	TopicID     uint32
	PartitionID uint32
	BaseOffset  uint64 // of the first message
}

const sendConfirmationSize = 20

// AppendSendConfirmations appends [u32 count] and the confirmations: the body of
// message.send, which has no result section and is never empty.
func AppendSendConfirmations(b []byte, confirmations ...SendConfirmation) []byte {
	b = le.AppendUint32(b, uint32(len(confirmations)))
	for _, s := range confirmations {
		b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, s.StreamID), s.TopicID), s.PartitionID)
		b = le.AppendUint64(b, s.BaseOffset)
	}
	return b
}

// DecodeSendConfirmations reads the body.
func DecodeSendConfirmations(body []byte) ([]SendConfirmation, error) {
	c := read("send confirmations", body)
	var confirmations []SendConfirmation
	for range c.count("count", sendConfirmationSize) {
		confirmations = append(confirmations, SendConfirmation{
			StreamID: c.u32("stream"), TopicID: c.u32("topic"), PartitionID: c.u32("partition"), BaseOffset: c.u64("base offset"),
		})
	}
	if err := c.end(); err != nil {
		return nil, err
	}
	return confirmations, nil
}

// PollPartitionResync is the partition of an empty poll that tells a group member
// to ask for its partitions again.
const PollPartitionResync = 0xFFFFFFFF

// PollPrefixSize is the length in bytes of a PollPrefix.
const PollPrefixSize = 16

// PollPrefix leads the body of every poll; batches follow.
//
//	off  size  field
//	  0     4  partition
//	  4     8  current offset  last committed one, 0 if there is none
//	 12     4  count           of messages, over all batches
type PollPrefix struct {
	PartitionID   uint32
	CurrentOffset uint64
	Count         uint32
}

// Append appends the prefix: the whole body of a poll that serves nothing.
func (p PollPrefix) Append(b []byte) []byte {
	b = le.AppendUint64(le.AppendUint32(b, p.PartitionID), p.CurrentOffset)
	return le.AppendUint32(b, p.Count)
}

// Put writes the prefix over b, which has PollPrefixSize bytes.
func (p PollPrefix) Put(b []byte) {
	le.PutUint32(b, p.PartitionID)
	le.PutUint64(b[4:], p.CurrentOffset)
	le.PutUint32(b[12:], p.Count)
}

// DecodePollPrefix reads the prefix and returns the batches behind it, aliased and
// not checked.
func DecodePollPrefix(body []byte) (p PollPrefix, batches []byte, err error) {
	c := read("poll", body)
	p = PollPrefix{PartitionID: c.u32("partition"), CurrentOffset: c.u64("current offset"), Count: c.u32("count")}
	batches = c.rest()
	if c.err != nil {
		return PollPrefix{}, nil, c.err
	}
	return p, batches, nil
}

// PolledMessages is the body of a poll, decoded.
type PolledMessages struct {
	PollPrefix
	Messages []galgo.Message // alias the body
}

// DecodePolledMessages reads the body of a poll and checks all of it: records fill
// it, each is valid with its checksums, and the messages are as many as it says.
// The error is an ErrUndecodable or an ErrBatch.
func DecodePolledMessages(body []byte) (PolledMessages, error) {
	p, batches, err := DecodePollPrefix(body)
	if err != nil {
		return PolledMessages{}, err
	}
	polled := PolledMessages{PollPrefix: p}
	if fit := len(batches) / FrameHeaderSize; uint64(p.Count) <= uint64(fit) {
		polled.Messages = make([]galgo.Message, 0, p.Count)
	}
	for len(batches) > 0 {
		var b Batch
		if b, batches, err = SplitBatch(batches); err != nil {
			return PolledMessages{}, err
		}
		if err = b.Validate(); err != nil {
			return PolledMessages{}, err
		}
		polled.Messages = AppendMessages(polled.Messages, b)
	}
	if got := uint64(len(polled.Messages)); got != uint64(p.Count) {
		return PolledMessages{}, headerFault("messages of the poll", uint64(p.Count), got)
	}
	return polled, nil
}

// ConsumerOffset answers consumer_offset.get: [u32 partition][u64 current]
// [u64 stored]. An empty body means that nothing is stored.
type ConsumerOffset struct {
	PartitionID   uint32
	CurrentOffset uint64
	StoredOffset  uint64
}

// Append appends the body of the reply.
func (o ConsumerOffset) Append(b []byte) []byte {
	b = le.AppendUint32(b, o.PartitionID)
	return le.AppendUint64(le.AppendUint64(b, o.CurrentOffset), o.StoredOffset)
}

// DecodeConsumerOffset reads the body; callers look first if it is empty.
func DecodeConsumerOffset(body []byte) (ConsumerOffset, error) {
	c := read("consumer offset", body)
	o := ConsumerOffset{PartitionID: c.u32("partition"), CurrentOffset: c.u64("current offset"), StoredOffset: c.u64("stored offset")}
	if err := c.end(); err != nil {
		return ConsumerOffset{}, err
	}
	return o, nil
}
