package sim

import (
	"encoding/binary"
	"errors"
	"fmt"

	"galgo/internal/disk/memdisk"
	"galgo/internal/vsr"
	"galgo/internal/wal"
)

// What is read of a disk from outside, to judge what its node says.

// logDirs are the logs of a node: the metadata's and one of each shard.
func logDirs(shards int) []string {
	dirs := []string{"metadata/wal"}
	for i := range shards {
		dirs = append(dirs, logDir(i))
	}
	return dirs
}

func logDir(shard int) string { return fmt.Sprintf("shards/%d/wal", shard) }

// errNoState: nothing on the disk says anything of the group.
var errNoState = errors.New("no record of the group's state")

// durableState reads the view and log_view of a group that a disk holds.
func durableState(d *memdisk.Disk, shards, replicas int, group vsr.GroupID) (vsr.State, error) {
	s, err := stateRecord(d, logDirOf(group, shards), group)
	if errors.Is(err, errNoState) {
		// The first view of a group needs no record: it follows from its number.
		first := firstView(group, replicas)
		return vsr.State{View: first, LogView: first}, nil
	}
	return s, err
}

// logDirOf is where the log of a group is. The superblock has the state of the metadata
// too, but later: a start believes the log.
func logDirOf(group vsr.GroupID, shards int) string {
	if group == vsr.MetadataGroup {
		return "metadata/wal"
	}
	return logDir(int(uint64(group) % uint64(shards)))
}

// firstView is the view in which a group is made.
func firstView(group vsr.GroupID, replicas int) vsr.View {
	if group == vsr.MetadataGroup {
		return 0
	}
	return vsr.View(uint64(group) % uint64(replicas))
}

// stateRecord reads the newest state record of a group in a log.
func stateRecord(d *memdisk.Disk, dir string, group vsr.GroupID) (state vsr.State, err error) {
	found := false
	_ = wal.Inspect(d, dir, nil, func(i wal.Item) error {
		if i.Record && i.Kind == wal.KindState && i.Group == group && i.Problem == nil {
			found = true
			state, err = decodeState(i.State)
		}
		return nil
	})
	if !found {
		return state, errNoState
	}
	return state, err
}

// decodeState reads the state of a group from its record: view, log_view and doubt,
// little-endian (docs/formats.md).
func decodeState(b []byte) (vsr.State, error) {
	if len(b) < 16 {
		return vsr.State{}, fmt.Errorf("a state record of %d bytes", len(b))
	}
	le := binary.LittleEndian
	return vsr.State{View: vsr.View(le.Uint32(b)), LogView: vsr.View(le.Uint32(b[4:])), Doubt: vsr.Op(le.Uint64(b[8:]))}, nil
}
