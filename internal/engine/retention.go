package engine

import (
	"math"

	"galgo/internal/partition"
	"galgo/internal/vsr"
)

// segmentsPerPass bounds the segments of a partition that age and size take at a time,
// so that a setting that was just made smaller does not unlink a thousand files at once.
const segmentsPerPass = 16

// retention is what of the settings decides how long messages are kept.
type retention struct {
	hold  bool   // what a consumer with a stored offset has not read stays
	batch uint64 // bytes by which a segment may pass its size
}

// Retain drops old segments, as the options of their topics say, from the partitions whose
// primary this node is. Which ones go is decided here, once, and put into the log.
func (e *Engine) Retain() {
	for i, d := range e.data {
		e.dataLoops[i].Post(func() { d.Retain(e.retentionOf) })
	}
}

// retentionOf is the rule for a partition, by the options of its topic as of now.
func (e *Engine) retentionOf(id vsr.GroupID) partition.Retention {
	view := e.View()
	p, ok := view.PartitionOf(uint64(id))
	if !ok {
		return partition.Retention{}
	}
	t, ok := view.TopicOf(p)
	if !ok {
		return partition.Retention{}
	}
	r := partition.Retention{Hold: e.retention.hold, Max: segmentsPerPass}
	if expiry := t.Options.MessageExpiry; expiry != math.MaxUint64 {
		r.Expiry = expiry // 0 is never, too
	}
	if size := t.Options.MaxTopicSize; size != 0 && size != math.MaxUint64 {
		// At least one segment: that one may pass its size is no reason to drop it.
		r.Bytes = max(size/uint64(t.Partitions), t.Options.SegmentSize+e.retention.batch)
	}
	return r
}
