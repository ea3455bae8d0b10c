package memdisk

import (
	"fmt"

	"galgo/internal/disk"
)

// Class is what goes wrong.
type Class uint8

// The classes of faults. Each looks at the calls named here unless Fault.Ops
// says otherwise.
const (
	// Fail makes a call fail with ErrIO and without any effect. All calls.
	Fail Class = iota + 1
	// NoSpace makes a create, write, truncate or mkdirall fail with
	// disk.ErrNoSpace; of a write the first Keep bytes are written.
	NoSpace
	// ShortWrite writes the first Keep bytes and fails with ErrIO.
	ShortWrite
	// SyncFailure makes a Sync or SyncDir fail with ErrIO and lose what it
	// should have made durable: the next one succeeds without it. See KeepCache.
	SyncFailure
	// LostWrite reports success, and the bytes never reach the device, whatever
	// syncs follow; the length of the file, which is kept elsewhere, does.
	// Readers see the bytes in the cache until the process is killed and its
	// cache evicted, or power is lost.
	LostWrite
	// MisdirectedWrite reports success, and the bytes reach the device at
	// ToOffset of file To (the same file if empty), at once, cut at its end.
	// Readers see the cache, as with LostWrite.
	MisdirectedWrite
)

// Forever as Fault.Times: every matching call from At on.
const Forever = -1

// Fault is one injected failure.
type Fault struct {
	Class Class
	// Ops narrows or widens the calls that match; 0 means those of the class.
	Ops Op
	// Match selects by the name that the file was opened with; nil means all.
	Match func(name string) bool
	// At is the number of the first matching call that fails, counted from 1
	// from the moment of Inject on. 0 means 1.
	At int
	// Times is how many matching calls fail from At on. 0 means 1.
	Times int
	// Keep is how many bytes of a failing write are written all the same.
	Keep int64
	// KeepCache: after a failed Sync readers still see the data, until power is
	// lost, as with Linux, which marks such pages clean. Else they are gone.
	KeepCache bool
	To        string
	ToOffset  int64
}

type armed struct {
	Fault
	seen, fired int
}

// Named is a Match for one exact name.
func Named(name string) func(string) bool { return func(n string) bool { return n == name } }

// Inject arms a fault. A call meets the first armed fault that is due for it.
func (d *Disk) Inject(f Fault) {
	if f.Ops == 0 {
		f.Ops = f.Class.ops()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, &armed{Fault: f})
}

// ClearFaults disarms all faults: space was made, the device answers again.
func (d *Disk) ClearFaults() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = nil
}

// Fired returns how many calls met an armed fault.
func (d *Disk) Fired() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, a := range d.faults {
		n += a.fired
	}
	return n
}

func (c Class) ops() Op {
	switch c {
	case NoSpace:
		return OpCreate | OpWrite | OpTruncate | OpMkdirAll
	case ShortWrite, LostWrite, MisdirectedWrite:
		return OpWrite
	case SyncFailure:
		return OpSync | OpSyncDir
	}
	return ^Op(0)
}

func (d *Disk) meetFault(op Op, name string) verdict {
	var met *armed
	for _, a := range d.faults {
		if a.Ops&op == 0 || a.Match != nil && !a.Match(name) {
			continue
		}
		a.seen++
		if met == nil && a.due() {
			met = a
		}
	}
	if met == nil {
		return verdict{}
	}
	met.fired++
	v := verdict{fault: &met.Fault}
	switch met.Class {
	case LostWrite, MisdirectedWrite:
	case NoSpace:
		v.err = wrap(op, name, disk.ErrNoSpace)
	default:
		v.err = wrap(op, name, ErrIO)
	}
	return v
}

func (a *armed) due() bool {
	first := max(1, a.At)
	return a.seen >= first && (a.Times == Forever || a.seen < first+max(1, a.Times))
}

// astray performs a lost or misdirected write: readers see it where it should
// be, the device has it elsewhere or nowhere.
func (d *Disk) astray(n *node, f *Fault, p []byte, off int64) error {
	change{off: off, data: p}.apply(n.cache)
	if n.cache.size > n.deviceSize() {
		n.pending = append(n.pending, change{truncate: true, off: n.cache.size})
	}
	if f.Class == LostWrite {
		return nil
	}
	if f.To != "" {
		to, err := d.find(f.To)
		if err != nil || to.isDir {
			panic(fmt.Sprintf("memdisk: a write is to be misdirected to %s, which is no file: %v", f.To, err))
		}
		n = to
	}
	room := min(int64(len(p)), max(0, n.platter.size-f.ToOffset))
	n.platter.write(p[:room], f.ToOffset)
	return nil
}

// FlipBit inverts bit (0..7) of the byte at off of a file, in the cache and on
// the device. It panics when there is no such byte: the test is wrong.
func (d *Disk) FlipBit(name string, off int64, bit uint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.find(name)
	if err != nil || n.isDir || off < 0 || off >= n.cache.size {
		panic(fmt.Sprintf("memdisk: flip bit %d at %d of %s: no such byte (%v)", bit, off, name, err))
	}
	n.flip(off, 1<<(bit%8))
}
