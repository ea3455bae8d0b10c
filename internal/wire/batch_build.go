package wire

import (
	"math"

	"github.com/zeebo/xxh3"

	"galgo"
)

// BatchSize is the length in bytes of the batch that AppendBatch would make.
func BatchSize(messages []galgo.Message) int {
	size := BatchHeaderSize
	for i := range messages {
		size += FrameHeaderSize + len(messages[i].Payload) + len(messages[i].UserHeaders)
	}
	return size
}

// AppendBatch appends the batch of a producer's messages, in their order. Of each
// it takes ID, Payload, UserHeaders and Timestamp. It returns an Error with
// CodeInvalidMessagesCount for no message, CodeInvalidMessageTimestampDelta when
// the timestamps are more than 2^32-1 µs apart, CodeTooBigMessagePayload and
// CodeTooBigUserHeaders for what does not fit.
func AppendBatch(b []byte, messages []galgo.Message) ([]byte, error) {
	origin, err := checkMessages(messages)
	if err != nil {
		return nil, err
	}
	start := len(b)
	b, _ = grow(b, BatchHeaderSize)
	for i := range messages {
		b = appendFrame(b, &messages[i], uint32(i), uint32(messages[i].Timestamp-origin))
	}
	batch := Batch(b[start:])
	clear(batch[:BatchHeaderSize])
	le.PutUint64(batch[offBatchOrigin:], origin)
	le.PutUint64(batch[offBatchLength:], uint64(len(batch)))
	le.PutUint32(batch[offBatchCount:], uint32(len(messages)))
	le.PutUint64(batch[offBatchChecksum:], batch.checksum())
	return b, nil
}

// checkMessages finds the smallest timestamp, from which all others must be
// reached in 32 bits.
func checkMessages(messages []galgo.Message) (origin uint64, err error) {
	if len(messages) == 0 || uint64(len(messages)) > math.MaxUint32 {
		return 0, galgo.Errorf(galgo.CodeInvalidMessagesCount, "batch of %d messages", len(messages))
	}
	origin, last := messages[0].Timestamp, messages[0].Timestamp
	for i := range messages {
		m := &messages[i]
		origin, last = min(origin, m.Timestamp), max(last, m.Timestamp)
		if uint64(len(m.Payload)) > math.MaxUint32 {
			return 0, galgo.Errorf(galgo.CodeTooBigMessagePayload, "message %d: payload of %d bytes", i, len(m.Payload))
		}
		if len(m.UserHeaders) > UserHeadersMax {
			return 0, galgo.Errorf(galgo.CodeTooBigUserHeaders, "message %d: user headers of %d bytes, limit %d", i, len(m.UserHeaders), UserHeadersMax)
		}
	}
	if last-origin > math.MaxUint32 {
		return 0, galgo.Errorf(galgo.CodeInvalidMessageTimestampDelta, "timestamps from %d to %d µs in one batch, at most %d apart", origin, last, uint32(math.MaxUint32))
	}
	return origin, nil
}

func appendFrame(b []byte, m *galgo.Message, offsetDelta, timestampDelta uint32) []byte {
	start := len(b)
	b, head := grow(b, FrameHeaderSize)
	copy(head[8:], m.ID[:])
	le.PutUint32(head[24:], offsetDelta)
	le.PutUint32(head[28:], timestampDelta)
	le.PutUint32(head[32:], uint32(len(m.UserHeaders)))
	le.PutUint32(head[36:], uint32(len(m.Payload)))
	le.PutUint64(head[40:], 0)
	b = append(append(b, m.Payload...), m.UserHeaders...)
	le.PutUint64(b[start:], xxh3.Hash(b[start+8:]))
	return b
}

// AppendMessages appends the messages of one record of a poll. The batch was
// validated; payloads and user headers alias it.
func AppendMessages(messages []galgo.Message, b Batch) []galgo.Message {
	it := b.Frames()
	for it.Next() {
		f := it.Frame()
		messages = append(messages, galgo.Message{
			ID:              f.ID(),
			Payload:         f.Payload(),
			UserHeaders:     f.UserHeaders(),
			Timestamp:       b.OriginTimestamp() + uint64(f.TimestampDelta()),
			Offset:          b.BaseOffset() + uint64(f.OffsetDelta()),
			ServerTimestamp: b.BaseTimestamp(),
			Checksum:        f.Checksum(),
		})
	}
	return messages
}
