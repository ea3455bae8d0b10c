package partition

import (
	"fmt"

	"galgo/internal/cipher"
	"galgo/internal/disk"
)

// Limits of a partition. All that grows with input has one.
const (
	// SegmentSizeMax bounds Config.SegmentSize in bytes. A segment may pass its
	// size by less than one batch.
	SegmentSizeMax = 1 << 30
	// RecordMax bounds one batch record in bytes: the largest client frame.
	RecordMax = 64 << 20
	// ConsumersMax bounds the stored offsets of consumers and groups together.
	ConsumersMax = 1 << 16
	// ProducersMax bounds the clients whose numbered sends are remembered.
	ProducersMax = 1 << 12
	// ProducerRingMax bounds the numbers remembered of one client.
	ProducerRingMax = 1 << 10
	// SegmentsMax bounds the segments of a partition.
	SegmentsMax = 1 << 20
	// ReplyMax bounds the batch bytes of one poll: a frame of 64 MiB without its
	// header of 256 bytes and the 16 bytes that precede the batches. A record
	// that was accepted came in a frame with more than that around it, so a
	// whole record always fits.
	ReplyMax = 64<<20 - 256 - 16
)

// Defaults of settings that are zero in a Config.
const (
	defaultSegmentSize    = 1 << 30
	defaultMessagesToSave = 1024
	defaultBytesToSave    = 1 << 20
	defaultIndexInterval  = 32 << 10
	defaultTailBytes      = 4 << 20
	defaultConsumers      = ConsumersMax
	defaultProducers      = 1024
	defaultProducerRing   = 64
	indexIntervalMin      = 64
)

// Config fixes what a partition is and how it is kept. SegmentSize,
// IndexInterval and the bounds of the tables take part in the replicated state:
// they must be equal on all replicas and must not change while the group lives.
type Config struct {
	Group       uint64 // the consensus group, never reused
	Incarnation uint64 // metadata revision that created the partition
	Stream      uint32
	Topic       uint32
	Partition   uint32
	Dir         string // of the group's files; "" is groups/<group, 20 digits>
	Disk        disk.Disk
	Files       *Files        // shared with other partitions; nil makes one for this alone
	Vault       *cipher.Vault // seals the messages in segment files; nil: they are in the clear

	SegmentSize    uint64 // bytes; the batch that reaches it is the last; 0 is 1 GiB
	MessagesToSave uint32 // unwritten messages that make a write due; 0 is 1024
	BytesToSave    uint64 // unwritten bytes that make a write due; 0 is 1 MiB
	Preallocate    bool   // begin a segment file in full size, zeroed; a restart cuts it
	IndexInterval  uint32 // bytes of log between index entries; 0 is 32 KiB
	TailBytes      int    // written batches kept in memory for polls; 0 is 4 MiB, negative none

	Consumers    int // stored offsets, 1..ConsumersMax; 0 is ConsumersMax
	Producers    int // clients remembered, 1..ProducersMax; 0 is 1024
	ProducerRing int // numbers remembered of each, 1..ProducerRingMax; 0 is 64
}

// withDefaults fills what is zero and refuses what is out of range.
func (c Config) withDefaults() (Config, error) {
	setZero(&c.SegmentSize, defaultSegmentSize)
	setZero(&c.MessagesToSave, defaultMessagesToSave)
	setZero(&c.BytesToSave, defaultBytesToSave)
	setZero(&c.IndexInterval, defaultIndexInterval)
	setZero(&c.TailBytes, defaultTailBytes)
	setZero(&c.Consumers, defaultConsumers)
	setZero(&c.Producers, defaultProducers)
	setZero(&c.ProducerRing, defaultProducerRing)
	setZero(&c.Dir, Dir(c.Group))
	c.TailBytes = max(c.TailBytes, 0)
	if c.Files == nil {
		c.Files = NewFiles(c.Disk, FilesDefault)
	}
	return c, c.validate()
}

func setZero[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c *Config) validate() error {
	switch {
	case c.Group == 0:
		return fmt.Errorf("partition: group 0 is the metadata group, partitions count from 1")
	case c.Disk == nil:
		return fmt.Errorf("partition: group %d has no disk", c.Group)
	case c.SegmentSize > SegmentSizeMax:
		return fmt.Errorf("partition: group %d: segment size %d, limit %d", c.Group, c.SegmentSize, SegmentSizeMax)
	case c.IndexInterval < indexIntervalMin:
		return fmt.Errorf("partition: group %d: index interval %d, least %d", c.Group, c.IndexInterval, indexIntervalMin)
	case c.Consumers < 1 || c.Consumers > ConsumersMax:
		return fmt.Errorf("partition: group %d: %d consumers, want 1..%d", c.Group, c.Consumers, ConsumersMax)
	case c.Producers < 1 || c.Producers > ProducersMax:
		return fmt.Errorf("partition: group %d: %d producers, want 1..%d", c.Group, c.Producers, ProducersMax)
	case c.ProducerRing < 1 || c.ProducerRing > ProducerRingMax:
		return fmt.Errorf("partition: group %d: ring of %d numbers, want 1..%d", c.Group, c.ProducerRing, ProducerRingMax)
	}
	return nil
}
