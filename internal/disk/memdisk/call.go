package memdisk

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Op names a kind of disk call; several may be joined in a mask.
type Op uint16

// The kinds of call. All up to OpMkdirAll change the disk and are counted by
// Calls; the rest are counted by Reads. OpWrite is both WriteAt and WritevAt.
const (
	OpCreate Op = 1 << iota
	OpWrite
	OpTruncate
	OpSync
	OpSyncDir
	OpRename
	OpRemove
	OpMkdirAll
	OpOpen
	OpRead
	OpList
	OpSize

	changing = OpCreate | OpWrite | OpTruncate | OpSync | OpSyncDir | OpRename | OpRemove | OpMkdirAll
)

var opNames = []string{"create", "write", "truncate", "sync", "syncdir", "rename", "remove", "mkdirall", "open", "read", "list", "size"}

// String names the one kind, or lists the kinds of a mask.
func (op Op) String() string {
	var s string
	for i, name := range opNames {
		if op&(1<<i) != 0 {
			if s != "" {
				s += "|"
			}
			s += name
		}
	}
	return s
}

// Call is one call of the disk.
type Call struct {
	Op   Op
	Name string // the file or directory; of a rename the old name
}

// String is what a test prints: "sync metadata/superblock.a.tmp".
func (c Call) String() string { return c.Op.String() + " " + c.Name }

// verdict is what was decided about a call before it runs.
type verdict struct {
	err     error // what the caller will be told; nil: go on
	crashed bool  // err is ErrCrashed and this is the call that crashed
	fault   *Fault
	rng     *rand.Rand
}

// happens decides whether a call that crashes and has no parts was done.
func (v *verdict) happens() bool { return v.rng != nil && v.rng.IntN(2) == 0 }

// part decides how much of a call of size total is done although it fails.
func (v *verdict) part(total int64) int64 {
	if !v.crashed {
		if v.fault == nil || v.fault.Keep < 0 {
			return 0
		}
		return min(v.fault.Keep, total)
	}
	if v.rng == nil || total == 0 {
		return 0
	}
	switch v.rng.IntN(3) {
	case 0:
		return 0
	case 1:
		return total
	}
	return v.rng.Int64N(total + 1)
}

func (d *Disk) tell(op Op, name string) {
	if d.opt.OnCall != nil {
		d.opt.OnCall(Call{op, name})
	}
}

// begin counts a call and decides whether it crashes or meets a fault.
func (d *Disk) begin(op Op, name string) verdict {
	if d.dead {
		return verdict{err: wrap(op, name, ErrCrashed)}
	}
	if d.opt.Trace {
		d.trace = append(d.trace, Call{op, name})
	}
	if op&changing == 0 {
		d.reads++
		return d.meetFault(op, name)
	}
	d.calls++
	if d.opt.CrashAt != 0 && d.calls >= d.opt.CrashAt {
		d.dead = true
		err := fmt.Errorf("memdisk: %v %s: call %d: %w", op, name, d.calls, ErrCrashed)
		return verdict{err: err, crashed: true, rng: d.opt.Rand}
	}
	return d.meetFault(op, name)
}

// Calls returns how many calls so far changed, or synced, or tried to.
func (d *Disk) Calls() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

// Reads returns how many calls so far only looked.
func (d *Disk) Reads() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reads
}

// Trace returns every call so far if Options.Trace was set.
func (d *Disk) Trace() []Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.trace)
}
