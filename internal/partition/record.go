package partition

import (
	"fmt"

	"galgo/internal/wire"
)

// recordHead is what the machine needs of the header of a batch record.
type recordHead struct {
	partition uint64
	base      uint64
	time      uint64 // µs
	length    uint64 // bytes, of header and frames
	count     uint32
}

func (r *recordHead) end() uint64 { return r.base + uint64(r.count) }

// peekRecord reads the header of a record. Nothing in it is verified but that
// there is a whole header.
func peekRecord(b []byte) (recordHead, error) {
	if len(b) < wire.BatchHeaderSize {
		return recordHead{}, fmt.Errorf("partition: record of %d bytes, a header has %d", len(b), wire.BatchHeaderSize)
	}
	batch := wire.Batch(b)
	return recordHead{
		partition: batch.PartitionID(),
		base:      batch.BaseOffset(),
		time:      batch.BaseTimestamp(),
		length:    batch.Length(),
		count:     batch.MessageCount(),
	}, nil
}

func stampRecord(b []byte, partition, base, time uint64) { wire.Batch(b).Stamp(partition, base, time) }
