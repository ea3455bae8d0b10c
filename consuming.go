package galgo

import "fmt"

// ConsumerKind tells a single consumer from a group.
type ConsumerKind uint8

// The kinds of consumers.
const (
	ConsumerSingle ConsumerKind = 1
	ConsumerGroup  ConsumerKind = 2
)

// String is the kind in a word.
func (k ConsumerKind) String() string {
	switch k {
	case ConsumerSingle:
		return "consumer"
	case ConsumerGroup:
		return "group"
	}
	return fmt.Sprintf("consumer of kind %d", uint8(k))
}

// Consumer is who polls and whose offsets are kept.
type Consumer struct {
	Kind ConsumerKind
	ID   Identifier
}

// OffsetKey is the number under which a partition keeps the consumer's offset:
// the numeric id, or the hash of a single consumer's name (so consumer 7 and one
// whose name hashes to 7 share an offset). It is not known, and ok false, for a
// group given by name: its key is the id that the topic's groups tell.
func (c Consumer) OffsetKey() (key uint32, ok bool) {
	if c.ID.Kind == IdentifierNumeric {
		return c.ID.ID, true
	}
	if c.Kind == ConsumerSingle && c.ID.Kind == IdentifierNamed {
		return HashKey([]byte(c.ID.Name)), true
	}
	return 0, false
}

// String is the kind and the id.
func (c Consumer) String() string { return c.Kind.String() + " " + c.ID.String() }

// PollingKind says where a poll starts.
type PollingKind uint8

// The kinds of polling. Only the first two use the value of the strategy.
const (
	PollFromOffset    PollingKind = 1 // at the offset given
	PollFromTimestamp PollingKind = 2 // at the first batch stamped then or later
	PollFirst         PollingKind = 3 // at the first retained message
	PollLast          PollingKind = 4 // so that the last count messages come
	PollNext          PollingKind = 5 // behind the stored offset
)

// PollingStrategy says where a poll starts.
type PollingStrategy struct {
	Kind  PollingKind
	Value uint64 // offset or µs since the epoch; else 0
}

// FromOffset starts at an offset.
func FromOffset(offset uint64) PollingStrategy { return PollingStrategy{PollFromOffset, offset} }

// FromTimestamp starts at the first batch the server stamped at µs or later.
func FromTimestamp(µs uint64) PollingStrategy { return PollingStrategy{PollFromTimestamp, µs} }

// FromFirst starts at the first retained message.
func FromFirst() PollingStrategy { return PollingStrategy{Kind: PollFirst} }

// FromLast returns the last messages, as many as the poll asks for.
func FromLast() PollingStrategy { return PollingStrategy{Kind: PollLast} }

// FromNext starts behind the stored offset.
func FromNext() PollingStrategy { return PollingStrategy{Kind: PollNext} }
