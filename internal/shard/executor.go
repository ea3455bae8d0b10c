package shard

// Lane names a queue of jobs that run one at a time, in order.
type Lane uint8

// Lanes of an Executor. Jobs of different lanes may run at the same time.
const (
	// LaneLog owns the write-ahead log: appends, witness marks, reclaiming.
	LaneLog Lane = iota
	// LaneSync syncs the write-ahead log beside that.
	LaneSync
	// LaneSegments owns the segment files of all groups of the shard.
	LaneSegments
	// LaneCheckpoint owns the superblock and the checkpoint files.
	LaneCheckpoint
	// LaneTransfer serves other replicas from this disk, and takes checkpoints from them.
	LaneTransfer
	lanes
)

// Lanes is the number of lanes an Executor has to serve.
const Lanes = int(lanes)

// Executor runs jobs off the loop and brings their completions back to it.
type Executor interface {
	// Go queues job on the lane. When it has run, done is called on the loop
	// with its error, later and never from within Go. Neither may be nil.
	Go(lane Lane, job func() error, done func(error))
}

// Clock tells the time in µs since the Unix epoch. It may stand still or go
// back; whoever needs growing times makes them so.
type Clock interface{ Now() uint64 }
