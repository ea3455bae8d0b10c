package wal

import (
	"errors"
	"fmt"
	"strings"

	"galgo/internal/vsr"
)

// Errors of a log. Those of Open and of reads come wrapped in an *Error.
var (
	// ErrPoisoned: a write or a sync failed before. Nothing more is written,
	// since no later success could prove what that one lost. Reads still work.
	ErrPoisoned = errors.New("wal: poisoned by a failed write or sync")
	// ErrDamaged: bytes that were durable are not what was written.
	ErrDamaged = errors.New("damaged")
	// ErrMissing: a file, or the beginning of a group, that must be there is not.
	ErrMissing = errors.New("missing")
	// ErrForeign: a file of another cluster, replica or shard, or under another
	// file's name.
	ErrForeign = errors.New("foreign")
	// ErrVersion: a format this program does not know.
	ErrVersion = errors.New("unknown version")
	// ErrNotFound: the log does not hold this op: it was never written, was
	// truncated, or was released.
	ErrNotFound = errors.New("wal: op is not in the log")
)

// Next steps that errors name.
const (
	nextRestore = "nothing was changed; restore the file from a copy, or rebuild this replica from its peers"
	nextForeign = "nothing was changed; put back the data directory that belongs to this node"
	nextUpgrade = "nothing was changed; start the version of galgo that wrote it, or a later one"
)

// Error says what is wrong where. errors.Is matches it with its Kind.
type Error struct {
	Kind   error       // ErrDamaged, ErrMissing, ErrForeign or ErrVersion
	File   string      // name below the data directory; a directory if no file is at fault
	Offset int64       // bytes; -1 if the whole file is meant
	Group  vsr.GroupID // if HasOp
	Op     vsr.Op      // if HasOp
	HasOp  bool
	Reason string // what was found, with the numbers
	Next   string // what the operator can do
}

// Error names file, offset, group and op, what was found, and the next step.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "wal: %s", e.File)
	if e.Offset >= 0 {
		fmt.Fprintf(&b, " at %d", e.Offset)
	}
	if e.HasOp {
		fmt.Fprintf(&b, ": group %d op %d", e.Group, e.Op)
	}
	fmt.Fprintf(&b, ": %v: %s", e.Kind, e.Reason)
	if e.Next != "" {
		fmt.Fprintf(&b, " (%s)", e.Next)
	}
	return b.String()
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }
