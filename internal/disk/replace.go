package disk

import (
	"errors"
	"fmt"
	"path"
)

// TmpSuffix is appended to the name of a file while Replace writes it.
const TmpSuffix = ".tmp"

// Stage is a step of Replace.
type Stage uint8

// The stages, in order.
const (
	StageWrite Stage = iota + 1
	StageSync
	StageRename
	StageSyncDir
)

// String says what is being done in the stage.
func (s Stage) String() string {
	switch s {
	case StageWrite:
		return "write"
	case StageSync:
		return "sync"
	case StageRename:
		return "rename"
	case StageSyncDir:
		return "sync directory"
	}
	return fmt.Sprintf("stage %d", uint8(s))
}

// ReplaceError says which step of Replace did not succeed. After StageSyncDir
// the new content may be found under the name, and may be gone after a power
// loss; after any other the old content is untouched.
type ReplaceError struct {
	Name  string
	Stage Stage
	Err   error
}

// Error names file, stage and cause.
func (e *ReplaceError) Error() string {
	return fmt.Sprintf("disk: replace %s: %v: %v", e.Name, e.Stage, e.Err)
}

// Unwrap returns the cause.
func (e *ReplaceError) Unwrap() error { return e.Err }

// Replace makes pieces, back to back, the whole content of a file, durably and
// atomically: whatever happens the name holds the old content or the new one. It
// goes through name + TmpSuffix. Errors are *ReplaceError.
//
// The name moves only once the bytes are durable, else a power loss could leave
// it on bytes that never arrived. The sync of the directory makes the move
// itself durable; a reader in a later process, which cannot know whether that
// happened, calls SyncDir before it relies on what it finds.
func Replace(d Disk, name string, pieces [][]byte) error {
	tmp := name + TmpSuffix
	stage, err := writeNew(d, tmp, pieces)
	if err == nil {
		stage, err = StageRename, d.Rename(tmp, name)
	}
	if err != nil {
		d.Remove(tmp) // best effort: the next attempt removes it too
		return &ReplaceError{Name: name, Stage: stage, Err: err}
	}
	if err := d.SyncDir(path.Dir(name)); err != nil {
		return &ReplaceError{Name: name, Stage: StageSyncDir, Err: err}
	}
	return nil
}

// writeNew makes a file and syncs it. One of that name, left by an earlier
// attempt, goes first: after a failed sync only a new file can be trusted.
func writeNew(d Disk, name string, pieces [][]byte) (stage Stage, err error) {
	if err := d.Remove(name); err != nil && !errors.Is(err, ErrNotExist) {
		return StageWrite, err
	}
	f, err := d.Create(name, 0)
	if err != nil {
		return StageWrite, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.WritevAt(pieces, 0); err != nil {
		return StageWrite, err
	}
	return StageSync, f.Sync()
}
