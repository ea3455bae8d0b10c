package partition

import (
	"encoding/binary"
	"fmt"
	"math"

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
	OpClaim        uint8 = 163 // body: Claim
)

// Lengths in bytes of the bodies below.
const (
	TruncateSize     = 8
	PurgeSize        = 8
	StoreOffsetSize  = 22
	DeleteOffsetSize = 13
	ClaimSize        = 12
)

// Forever is the tenure of who deletes an offset because the consumer group is deleted.
const Forever = math.MaxUint64

// flagMonotone marks a store that never moves an offset backwards.
const flagMonotone = 1

// StoreOffset is the body of OpStoreOffset.
//
//	off  size  field
//	  0     1  kind    1 consumer, 2 group
//	  1     1  flags   1: monotone, as the commits that polls make; else 0
//	  2     4  key
//	  6     8  offset  last processed message
//	 14     8  tenure  of a group: since when its member has the partition; else 0
type StoreOffset struct {
	Kind     galgo.ConsumerKind
	Monotone bool
	Key      uint32
	Offset   uint64
	Tenure   uint64
}

// Append appends the encoded body.
func (s StoreOffset) Append(b []byte) []byte {
	flags := byte(0)
	if s.Monotone {
		flags = flagMonotone
	}
	b = append(b, byte(s.Kind), flags)
	b = binary.LittleEndian.AppendUint32(b, s.Key)
	b = binary.LittleEndian.AppendUint64(b, s.Offset)
	return binary.LittleEndian.AppendUint64(b, s.Tenure)
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
		Tenure:   binary.LittleEndian.Uint64(b[14:]),
	}
	return s, checkTenure(s.Kind, s.Tenure)
}

// DeleteOffset is the body of OpDeleteOffset.
//
//	off  size  field
//	  0     1  kind    1 consumer, 2 group
//	  1     4  key
//	  5     8  tenure  as in StoreOffset; all ones, Forever: the group is deleted
type DeleteOffset struct {
	Kind   galgo.ConsumerKind
	Key    uint32
	Tenure uint64
}

// Append appends the encoded body.
func (d DeleteOffset) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(append(b, byte(d.Kind)), d.Key)
	return binary.LittleEndian.AppendUint64(b, d.Tenure)
}

// DecodeDeleteOffset reads the body of OpDeleteOffset.
func DecodeDeleteOffset(b []byte) (DeleteOffset, error) {
	if len(b) != DeleteOffsetSize {
		return DeleteOffset{}, fmt.Errorf("partition: delete offset body has %d bytes, want %d", len(b), DeleteOffsetSize)
	}
	d := DeleteOffset{Kind: galgo.ConsumerKind(b[0]), Key: binary.LittleEndian.Uint32(b[1:]), Tenure: binary.LittleEndian.Uint64(b[5:])}
	return d, checkTenure(d.Kind, d.Tenure)
}

// Claim is the body of OpClaim: from here on no offset of the group is written for a
// member that had the partition before.
//
//	off  size  field
//	  0     4  key     of the group
//	  4     8  tenure  since when the member has the partition
type Claim struct {
	Key    uint32
	Tenure uint64
}

// Append appends the encoded body.
func (c Claim) Append(b []byte) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(b, c.Key), c.Tenure)
}

// DecodeClaim reads the body of OpClaim.
func DecodeClaim(b []byte) (Claim, error) {
	if len(b) != ClaimSize {
		return Claim{}, fmt.Errorf("partition: claim body has %d bytes, want %d", len(b), ClaimSize)
	}
	return Claim{Key: binary.LittleEndian.Uint32(b), Tenure: binary.LittleEndian.Uint64(b[4:])}, nil
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

// checkTenure: a single consumer shares the partition with nobody.
func checkTenure(k galgo.ConsumerKind, tenure uint64) error {
	if k == galgo.ConsumerSingle && tenure != 0 {
		return fmt.Errorf("partition: single consumer with tenure %d, which only members of groups have", tenure)
	}
	return checkKind(k)
}

func checkKind(k galgo.ConsumerKind) error {
	if k != galgo.ConsumerSingle && k != galgo.ConsumerGroup {
		return fmt.Errorf("partition: consumer kind %d, want 1 or 2", k)
	}
	return nil
}
