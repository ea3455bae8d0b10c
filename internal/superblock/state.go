package superblock

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// StateSize is the encoded length of a State in bytes.
const StateSize = 66

// stateSizeOld is the former length, without the frontier: still read.
const stateSizeOld = 58

// Errors of a State.
var (
	// ErrStateLength: a payload is no state. A record that passed its checksum
	// and does not decode is a bug or a foreign record: do not start.
	ErrStateLength = errors.New("superblock: state has a wrong length")
	// ErrStateViews: log_view is above view, which no replica can reach.
	ErrStateViews = errors.New("superblock: state has log_view above view")
	// ErrForeign: the record belongs to another cluster, replica or roster.
	ErrForeign = errors.New("superblock: record of another node")
	// ErrCheckpointAhead: the superblock names a checkpoint newer than the
	// newest snapshot there is.
	ErrCheckpointAhead = errors.New("superblock: checkpoint is ahead of the snapshot")
	// ErrCheckpointChecksum: the snapshot at the op of the checkpoint is not
	// the one that the superblock was paired with.
	ErrCheckpointChecksum = errors.New("superblock: checkpoint is paired with another snapshot")
)

// State is what a replica may not forget: the payload of the superblock.
// storage.md §3, little-endian:
//
//	off  size  field
//	  0    16  cluster         id of the cluster, a u128 as its bytes
//	 16     1  replica
//	 17     1  replica count
//	 18     4  view
//	 22     4  log view        last view whose log was adopted, at most view
//	 26     8  commit max      lower bound of the commit point
//	 34     8  checkpoint op   of the paired snapshot, 0 = none
//	 42    16  checkpoint sum  of the paired snapshot, zero = none
//	 58     8  offset frontier next offset to assign, lower bound; 0 for metadata
//
// A state of 58 bytes, without the last field, is read with a frontier of 0.
type State struct {
	Cluster        [16]byte
	Replica        uint8
	ReplicaCount   uint8
	View           uint32
	LogView        uint32
	CommitMax      uint64
	CheckpointOp   uint64
	CheckpointSum  [16]byte
	OffsetFrontier uint64
}

// Append appends the encoded state to b. It panics when LogView is above View:
// such a state must not become durable.
func (s *State) Append(b []byte) []byte {
	if s.LogView > s.View {
		panic(fmt.Sprintf("superblock: encode log_view %d above view %d", s.LogView, s.View))
	}
	le := binary.LittleEndian
	b = append(b, s.Cluster[:]...)
	b = append(b, s.Replica, s.ReplicaCount)
	b = le.AppendUint32(b, s.View)
	b = le.AppendUint32(b, s.LogView)
	b = le.AppendUint64(b, s.CommitMax)
	b = le.AppendUint64(b, s.CheckpointOp)
	b = append(b, s.CheckpointSum[:]...)
	return le.AppendUint64(b, s.OffsetFrontier)
}

// DecodeState decodes a state of 66 or 58 bytes.
func DecodeState(b []byte) (State, error) {
	if len(b) != StateSize && len(b) != stateSizeOld {
		return State{}, fmt.Errorf("%w: %d bytes, want %d or %d", ErrStateLength, len(b), StateSize, stateSizeOld)
	}
	le := binary.LittleEndian
	s := State{
		Replica:      b[16],
		ReplicaCount: b[17],
		View:         le.Uint32(b[18:]),
		LogView:      le.Uint32(b[22:]),
		CommitMax:    le.Uint64(b[26:]),
		CheckpointOp: le.Uint64(b[34:]),
	}
	copy(s.Cluster[:], b)
	copy(s.CheckpointSum[:], b[42:])
	if len(b) == StateSize {
		s.OffsetFrontier = le.Uint64(b[58:])
	}
	if s.LogView > s.View {
		return State{}, fmt.Errorf("%w: %d above %d", ErrStateViews, s.LogView, s.View)
	}
	return s, nil
}

// CheckNode returns an error wrapping ErrForeign when the state was written by
// another node than the one configured: a swapped disk or a wrong configuration.
// dir is the directory of the superblock, for the message.
func (s *State) CheckNode(dir string, cluster [16]byte, replica, replicaCount uint8) error {
	var field, found, want string
	switch {
	case s.Cluster != cluster:
		field, found, want = "cluster", hex.EncodeToString(s.Cluster[:]), hex.EncodeToString(cluster[:])
	case s.Replica != replica:
		field, found, want = "replica", fmt.Sprint(s.Replica), fmt.Sprint(replica)
	case s.ReplicaCount != replicaCount:
		field, found, want = "replica count", fmt.Sprint(s.ReplicaCount), fmt.Sprint(replicaCount)
	default:
		return nil
	}
	return fmt.Errorf("%w: %s has %s %s, the configuration says %s; correct the configuration, or attach the disk of this node",
		ErrForeign, dir, field, found, want)
}

// CheckPairing compares the checkpoint in the state with the newest snapshot, 0
// and zero if there is none. A snapshot that is newer is fine: the crash came
// between writing it and pairing it, and it holds all that the older one did.
// storage.md §6.8; without a state there is nothing to check.
func (s *State) CheckPairing(snapshotOp uint64, snapshotSum [16]byte) error {
	switch {
	case s.CheckpointOp > snapshotOp:
		return fmt.Errorf("%w: the superblock names op %d, the newest snapshot is of op %d (0: there is none); "+
			"the snapshot was lost: restore it, or rebuild this replica from its peers", ErrCheckpointAhead, s.CheckpointOp, snapshotOp)
	case s.CheckpointOp == snapshotOp && s.CheckpointSum != snapshotSum:
		return fmt.Errorf("%w: op %d: the superblock has checksum %x, the snapshot %x; "+
			"the snapshot was replaced: restore it, or rebuild this replica from its peers", ErrCheckpointChecksum, snapshotOp, s.CheckpointSum, snapshotSum)
	}
	return nil
}
