package galgo

// KeyMax bounds a message key in bytes; the least is 1.
const KeyMax = 255

// PartitioningKind says who picks the partition of a batch.
type PartitioningKind uint8

// The kinds of partitioning.
const (
	PartitioningBalanced  PartitioningKind = 1 // the server, in turn
	PartitioningPartition PartitioningKind = 2 // the caller
	PartitioningKey       PartitioningKind = 3 // the hash of a key
)

// Partitioning picks the partition of a batch.
type Partitioning struct {
	Kind        PartitioningKind
	PartitionID uint32 // of PartitioningPartition
	Key         []byte // of PartitioningKey, 1..255 bytes
}

// Balanced lets the server pick partitions in turn.
func Balanced() Partitioning { return Partitioning{Kind: PartitioningBalanced} }

// ToPartition picks the partition numbered id.
func ToPartition(id uint32) Partitioning {
	return Partitioning{Kind: PartitioningPartition, PartitionID: id}
}

// ByKey picks the partition that HashKey of key, modulo their number, points at.
func ByKey(key []byte) Partitioning { return Partitioning{Kind: PartitioningKey, Key: key} }

// KeyPartition is the partition of a key among count partitions, which must be
// above 0. All clients and servers must agree on it.
func KeyPartition(key []byte, count uint32) uint32 { return HashKey(key) % count }

// MessageID identifies a message for its producer; the server never looks at it.
type MessageID [16]byte

// Message is one message, to be sent or as it was polled. The slices of a polled
// message alias the bytes of the reply.
type Message struct {
	ID          MessageID
	Payload     []byte
	UserHeaders []byte // entries as Headers encodes them, or nothing
	Timestamp   uint64 // µs, by the producer's clock

	// What the server and the batch tell of a polled message.
	Offset          uint64
	ServerTimestamp uint64 // µs, the same for a whole batch
	Checksum        uint64 // XXH3-64 of the frame behind its checksum
}
