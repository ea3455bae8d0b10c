package partition

import (
	"encoding/binary"
	"fmt"

	"galgo"
)

// Operations of a partition group's log. 0 stands for an operation of the core
// that means nothing to the machine but takes a place in the log.
const (
	OpNone         uint8 = 0
	OpTruncate     uint8 = 68  // body: AppendTruncate
	OpPurge        uint8 = 112 // body: AppendPurge
	OpSend         uint8 = 160 // body: the stamped batch record, as stored and polled
	OpStoreOffset  uint8 = 161 // body: StoreOffset
	OpDeleteOffset uint8 = 162 // body: DeleteOffset
)

// Lengths in bytes of the bodies below.
const (
	TruncateSize     = 8
	PurgeSize        = 8
	StoreOffsetSize  = 14
	DeleteOffsetSize = 5
)

// flagMonotone marks a store that never moves an offset backwards.
const flagMonotone = 1

// StoreOffset is the body of OpStoreOffset.
//
//	off  size  field
//	  0     1  kind    1 consumer, 2 group
//	  1     1  flags   1: monotone, as the commits that polls make; else 0
//	  2     4  key
//	  6     8  offset  last processed message
type StoreOffset struct {
	Kind     galgo.ConsumerKind
	Monotone bool
	Key      uint32
	Offset   uint64
}

// Append appends the encoded body.
func (s StoreOffset) Append(b []byte) []byte {
	flags := byte(0)
	if s.Monotone {
		flags = flagMonotone
	}
	b = append(b, byte(s.Kind), flags)
	b = binary.LittleEndian.AppendUint32(b, s.Key)
	return binary.LittleEndian.AppendUint64(b, s.Offset)
}

// DecodeStoreOffset reads the body of OpStoreOffset.
func DecodeStoreOffset(b []byte) (StoreOffset, error) {
	if len(b) != StoreOffsetSize {
		return StoreOffset{}, fmt.Errorf("partition: store offset body has %d bytes, want %d", len(b), StoreOffsetSize)
	}
	if b[1] > flagMonotone {
		return StoreOffset{}, fmt.Errorf("partition: store offset body has flags %#x", b[1])
	}
	s := StoreOffset{
		Kind:     galgo.ConsumerKind(b[0]),
		Monotone: b[1] == flagMonotone,
		Key:      binary.LittleEndian.Uint32(b[2:]),
		Offset:   binary.LittleEndian.Uint64(b[6:]),
	}
	return s, checkKind(s.Kind)
}

// DeleteOffset is the body of OpDeleteOffset.
//
//	off  size  field
//	  0     1  kind  1 consumer, 2 group
//	  1     4  key
type DeleteOffset struct {
	Kind galgo.ConsumerKind
	Key  uint32
}

// Append appends the encoded body.
func (d DeleteOffset) Append(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(append(b, byte(d.Kind)), d.Key)
}

// DecodeDeleteOffset reads the body of OpDeleteOffset.
func DecodeDeleteOffset(b []byte) (DeleteOffset, error) {
	if len(b) != DeleteOffsetSize {
		return DeleteOffset{}, fmt.Errorf("partition: delete offset body has %d bytes, want %d", len(b), DeleteOffsetSize)
	}
	d := DeleteOffset{Kind: galgo.ConsumerKind(b[0]), Key: binary.LittleEndian.Uint32(b[1:])}
	return d, checkKind(d.Kind)
}

// AppendPurge appends the body of OpPurge: the generation, u64. A purge acts if
// its generation is above the one applied last, so that one purge, however often
// it is proposed, acts once.
func AppendPurge(b []byte, generation uint64) []byte {
	return binary.LittleEndian.AppendUint64(b, generation)
}

// DecodePurge reads the body of OpPurge.
func DecodePurge(b []byte) (generation uint64, err error) {
	if len(b) != PurgeSize {
		return 0, fmt.Errorf("partition: purge body has %d bytes, want %d", len(b), PurgeSize)
	}
	return binary.LittleEndian.Uint64(b), nil
}

// AppendTruncate appends the body of OpTruncate: an offset, u64. Sealed segments
// whose last message is at or below it go.
func AppendTruncate(b []byte, upTo uint64) []byte {
	return binary.LittleEndian.AppendUint64(b, upTo)
}

// DecodeTruncate reads the body of OpTruncate.
func DecodeTruncate(b []byte) (upTo uint64, err error) {
	if len(b) != TruncateSize {
		return 0, fmt.Errorf("partition: truncate body has %d bytes, want %d", len(b), TruncateSize)
	}
	return binary.LittleEndian.Uint64(b), nil
}

func checkKind(k galgo.ConsumerKind) error {
	if k != galgo.ConsumerSingle && k != galgo.ConsumerGroup {
		return fmt.Errorf("partition: consumer kind %d, want 1 or 2", k)
	}
	return nil
}
