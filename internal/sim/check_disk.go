package sim

import (
	"errors"
	"fmt"

	"galgo/internal/disk/memdisk"
	"galgo/internal/superblock"
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
func durableState(d *memdisk.Disk, shards int, group vsr.GroupID) (vsr.State, error) {
	if group == vsr.MetadataGroup {
		return durableMetadata(d)
	}
	return stateRecord(d, logDir(int(uint64(group)%uint64(shards))), group)
}

func durableMetadata(d *memdisk.Disk) (vsr.State, error) {
	s, err := superblock.Open(d, "metadata")
	if err != nil {
		return vsr.State{}, err
	}
	outcome := s.Latest()
	if err := outcome.Err("metadata"); err != nil || outcome.Kind != superblock.Present {
		return vsr.State{}, errors.Join(errNoState, err)
	}
	state, err := superblock.DecodeState(outcome.Payload)
	return vsr.State{View: vsr.View(state.View), LogView: vsr.View(state.LogView)}, err
}

// stateRecord reads the newest state record of a group in a log.
func stateRecord(d *memdisk.Disk, dir string, group vsr.GroupID) (state vsr.State, err error) {
	found := false
	_ = wal.Inspect(d, dir, func(i wal.Item) error {
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

// decodeState reads the state of a group from its record.
func decodeState([]byte) (vsr.State, error) { return vsr.State{}, errNoState }
