package partition

import (
	"errors"
	"fmt"

	"galgo/internal/cipher"
)

// Sentinel errors; most come wrapped in a DamageError that says where.
var (
	// ErrDamaged: bytes below the recovery point are not what was written.
	ErrDamaged = errors.New("damaged")
	// ErrMissing: a file that the checkpoint names is absent or too short.
	ErrMissing = errors.New("missing")
	// ErrUnexplained: files hold what neither the checkpoint nor the log explains,
	// as when a checkpoint was lost or belongs to other files.
	ErrUnexplained = errors.New("not explained by checkpoint and log")
	// ErrCheckpoint: the bytes of a checkpoint are not one that Append made.
	ErrCheckpoint = errors.New("partition: checkpoint is not valid")
	// ErrForeign: a checkpoint of another group or incarnation.
	ErrForeign = errors.New("partition: checkpoint belongs to another group")
	// ErrStale: the files a plan names were purged, truncated, removed or closed
	// since it was made. Poll again.
	ErrStale = errors.New("partition: plan is stale, poll again")
)

// DamageError says which file of which group is not as it must be, and what to
// do. It wraps ErrDamaged, ErrMissing, ErrUnexplained or, of what is sound and does not
// open, an error of the cipher.
type DamageError struct {
	Kind   error // one of the sentinels
	Group  uint64
	File   string
	Pos    uint64 // byte position in the file
	Reason string
}

// Error names the group, the file, the position, the finding and the next step.
func (e *DamageError) Error() string {
	return fmt.Sprintf("partition: group %d: %s at byte %d: %v: %s; %s",
		e.Group, e.File, e.Pos, e.Kind, e.Reason, e.nextStep())
}

// Unwrap returns the sentinel.
func (e *DamageError) Unwrap() error { return e.Kind }

func (e *DamageError) nextStep() string {
	switch {
	case errors.Is(e.Kind, ErrUnexplained):
		return "nothing was changed: restore the shard's checkpoint and log, or move the file away if it is not of this group"
	case errors.Is(e.Kind, cipher.ErrKeyUnknown):
		return "add that key to system.encryption.older_keys"
	case errors.Is(e.Kind, cipher.ErrKeyMissing):
		return "set system.encryption.enabled to true, and the key"
	}
	return "restore the file from a replica or a backup"
}
