package shard

import "errors"

// Refusals: findings at start after which the node must not serve. Each comes
// wrapped with the file, the op and the next step; nothing on disk was changed.
var (
	// ErrFormatLost: there is data, but no FORMAT file to say whose it is.
	ErrFormatLost = errors.New("the data directory holds data but no FORMAT file")
	// ErrSuperblockLost: the directory was formatted, but its superblock is empty.
	ErrSuperblockLost = errors.New("the superblock is empty in a formatted data directory")
	// ErrLogLost: the directory was formatted, but a log has no files.
	ErrLogLost = errors.New("a write-ahead log is missing")
	// ErrLogShort: the log ends before an op that is known to be committed.
	ErrLogShort = errors.New("a write-ahead log is shorter than it must be")
	// ErrLogGap: the log begins after the op that follows the checkpoint.
	ErrLogGap = errors.New("a write-ahead log does not reach back to the checkpoint")
	// ErrLogForks: log and checkpoint hold different prepares at one op.
	ErrLogForks = errors.New("a write-ahead log and its checkpoint do not belong together")
	// ErrCheckpointLost: the log names a checkpoint of the partitions that is
	// not there or is another.
	ErrCheckpointLost = errors.New("the checkpoint of the partitions is missing or another")
	// ErrMetadataLost: a log or a directory names a group that this node's
	// metadata has never given out.
	ErrMetadataLost = errors.New("partition data is newer than the metadata")
	// ErrOperationUnknown: a committed operation that this version cannot read.
	ErrOperationUnknown = errors.New("a committed operation that this version of galgo does not know")
	// ErrShardsChanged: the number of shards is fixed when a directory is made.
	ErrShardsChanged = errors.New("the number of shards cannot change")
	// ErrCheckpointWedged: checkpoints have failed for so long that the node
	// stops rather than let its log grow.
	ErrCheckpointWedged = errors.New("checkpoints keep failing")
)
