package wire

import (
	"fmt"
	"math"
	"strconv"

	"galgo"
)

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendF32(b []byte, v float32) []byte { return le.AppendUint32(b, math.Float32bits(v)) }

// appendBytes8 writes a length of one byte and p. Callers validate what people
// type; a longer p here is a bug of galgo.
func appendBytes8[T []byte | string](b []byte, p T) []byte {
	if len(p) > math.MaxUint8 {
		panic(fmt.Sprintf("wire: %d bytes behind a length of one byte", len(p)))
	}
	b = append(b, byte(len(p)))
	return append(b, p...)
}

// appendBytes32 writes a length of four bytes and p.
func appendBytes32[T []byte | string](b []byte, p T) []byte {
	if uint64(len(p)) > math.MaxUint32 {
		panic(fmt.Sprintf("wire: %d bytes behind a length of four bytes", len(p)))
	}
	b = le.AppendUint32(b, uint32(len(p)))
	return append(b, p...)
}

// appendIdentifier writes kind, length and value. The identifier is valid.
func appendIdentifier(b []byte, id galgo.Identifier) []byte {
	if id.Kind == galgo.IdentifierNumeric {
		b = append(b, byte(galgo.IdentifierNumeric), 4)
		return le.AppendUint32(b, id.ID)
	}
	return appendBytes8(append(b, byte(galgo.IdentifierNamed)), id.Name)
}

func (c *cursor) identifier(field string) galgo.Identifier {
	switch kind := c.u8(field); galgo.IdentifierKind(kind) {
	case galgo.IdentifierNumeric:
		if n := c.u8(field); c.err == nil && n != 4 {
			c.fail(field, "numeric identifier of "+strconv.Itoa(int(n))+" bytes, want 4")
		}
		return galgo.NumericID(c.u32(field))
	case galgo.IdentifierNamed:
		return galgo.NamedID(c.name(field))
	default:
		c.fail(field, "identifier of kind "+strconv.Itoa(int(kind)))
		return galgo.Identifier{}
	}
}

func appendConsumer(b []byte, consumer galgo.Consumer) []byte {
	return appendIdentifier(append(b, byte(consumer.Kind)), consumer.ID)
}

func (c *cursor) consumer() galgo.Consumer {
	kind := galgo.ConsumerKind(c.u8("consumer kind"))
	if kind != galgo.ConsumerSingle && kind != galgo.ConsumerGroup {
		c.fail("consumer kind", kind.String())
	}
	return galgo.Consumer{Kind: kind, ID: c.identifier("consumer")}
}

// OptionalPartition is a partition id that may be absent. The zero value is.
type OptionalPartition struct {
	Present bool
	ID      uint32 // 0 if absent
}

// Partition is the optional partition that is present.
func Partition(id uint32) OptionalPartition { return OptionalPartition{Present: true, ID: id} }

func appendOptionalPartition(b []byte, p OptionalPartition) []byte {
	if !p.Present {
		return append(b, 0, 0, 0, 0, 0)
	}
	return le.AppendUint32(append(b, 1), p.ID)
}

// optionalPartition takes any flag but 1 as absent, and ignores the id then.
func (c *cursor) optionalPartition() OptionalPartition {
	flag := c.u8("partition flag")
	id := c.u32("partition")
	if flag != 1 {
		return OptionalPartition{}
	}
	return OptionalPartition{Present: true, ID: id}
}

func appendStrategy(b []byte, s galgo.PollingStrategy) []byte {
	return le.AppendUint64(append(b, byte(s.Kind)), s.Value)
}

func (c *cursor) strategy() galgo.PollingStrategy {
	kind := galgo.PollingKind(c.u8("polling kind"))
	if kind < galgo.PollFromOffset || kind > galgo.PollNext {
		c.fail("polling kind", "unknown kind "+strconv.Itoa(int(kind)))
	}
	return galgo.PollingStrategy{Kind: kind, Value: c.u64("polling value")}
}

// appendPartitioning writes kind, length and value. A key has 1..255 bytes.
func appendPartitioning(b []byte, p galgo.Partitioning) []byte {
	b = append(b, byte(p.Kind))
	switch p.Kind {
	case galgo.PartitioningPartition:
		return le.AppendUint32(append(b, 4), p.PartitionID)
	case galgo.PartitioningKey:
		return appendBytes8(b, p.Key)
	}
	return append(b, 0)
}

func (c *cursor) partitioning() galgo.Partitioning {
	kind := galgo.PartitioningKind(c.u8("partitioning kind"))
	value := c.bytes8("partitioning")
	switch {
	case c.err != nil:
	case kind == galgo.PartitioningBalanced && len(value) == 0:
		return galgo.Balanced()
	case kind == galgo.PartitioningPartition && len(value) == 4:
		return galgo.ToPartition(le.Uint32(value))
	case kind == galgo.PartitioningKey && len(value) > 0:
		return galgo.ByKey(value)
	default:
		c.fail("partitioning", fmt.Sprintf("kind %d with %d bytes", kind, len(value)))
	}
	return galgo.Partitioning{}
}

func (c *cursor) ack() galgo.Ack {
	ack := c.u8("ack")
	if ack > uint8(galgo.AckQuorum) {
		c.fail("ack", "unknown ack "+strconv.Itoa(int(ack)))
	}
	return galgo.Ack(ack)
}
