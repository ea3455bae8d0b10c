package superblock

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"
)

// The record, storage.md §2.2. A slot file is exactly one record.
//
//	   off  size  field
//	     0     4  magic     0x53424C4B: the bytes 4B 4C 42 53
//	     4     2  version   1
//	     6     2  reserved  zero
//	     8     8  sequence  from 1, one more with each write
//	    16     8  parent    zero, kept for a chained format of several copies
//	    24     4  length    of the payload, n
//	    28     n  payload
//	28 + n     8  checksum  XXH3-64 over all before it
const (
	recordMagic    = 0x53424C4B
	recordVersion  = 1
	recordHead     = 28
	recordOverhead = recordHead + 8
	// recordMax is the longest slot file that is read at all.
	recordMax = recordOverhead + PayloadMax
)

// SlotState is what one slot file turned out to be.
type SlotState uint8

const (
	// SlotAbsent: no file, or one without bytes.
	SlotAbsent SlotState = iota
	// SlotValid: a record that verifies.
	SlotValid
	// SlotCorrupt: bytes that are no record; Reason says why.
	SlotCorrupt
	// SlotUnknownVersion: a record of another format.
	SlotUnknownVersion
)

// Slot is the classification of one slot file.
type Slot struct {
	State    SlotState
	Sequence uint64 // SlotValid
	Payload  []byte // SlotValid: a copy
	Version  uint16 // SlotUnknownVersion
	Reason   string // SlotCorrupt
}

// String describes the slot in a few words.
func (s Slot) String() string {
	switch s.State {
	case SlotAbsent:
		return "absent"
	case SlotValid:
		return fmt.Sprintf("valid, sequence %d, payload of %d bytes", s.Sequence, len(s.Payload))
	case SlotUnknownVersion:
		return fmt.Sprintf("format version %d, this galgo knows %d", s.Version, recordVersion)
	}
	return "corrupt: " + s.Reason
}

func corrupt(format string, args ...any) Slot {
	return Slot{State: SlotCorrupt, Reason: fmt.Sprintf(format, args...)}
}

// appendRecord appends the record of a payload of at most PayloadMax bytes.
func appendRecord(b []byte, sequence uint64, payload []byte) []byte {
	start := len(b)
	le := binary.LittleEndian
	b = le.AppendUint32(b, recordMagic)
	b = le.AppendUint16(b, recordVersion)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint64(b, sequence)
	b = le.AppendUint64(b, 0)
	b = le.AppendUint32(b, uint32(len(payload)))
	b = append(b, payload...)
	return le.AppendUint64(b, xxh3.Hash(b[start:]))
}

// DecodeSlot classifies the bytes of one slot file, in the order of storage.md
// §2.4: the version before the checksum, which another version may keep
// elsewhere.
func DecodeSlot(b []byte) Slot {
	le := binary.LittleEndian
	switch {
	case len(b) == 0:
		return Slot{}
	case len(b) > recordMax:
		return tooLong(int64(len(b)))
	case len(b) < recordOverhead:
		return corrupt("%d bytes, a record has at least %d", len(b), recordOverhead)
	case le.Uint32(b) != recordMagic:
		return corrupt("magic %08x, want %08x", le.Uint32(b), uint32(recordMagic))
	}
	if v := le.Uint16(b[4:]); v != recordVersion {
		return Slot{State: SlotUnknownVersion, Version: v}
	}
	if n := le.Uint32(b[24:]); uint64(n)+recordOverhead != uint64(len(b)) {
		return corrupt("payload length %d does not fit a file of %d bytes", n, len(b))
	}
	end := len(b) - 8
	if got, want := xxh3.Hash(b[:end]), le.Uint64(b[end:]); got != want {
		return corrupt("checksum %016x, the record says %016x", got, want)
	}
	payload := append([]byte{}, b[recordHead:end]...)
	return Slot{State: SlotValid, Sequence: le.Uint64(b[8:]), Payload: payload}
}

func tooLong(size int64) Slot {
	return corrupt("%d bytes, a record has at most %d", size, recordMax)
}

// DecodeSlots gives the answer of a Store from the bytes of superblock.a and
// superblock.b alone; nil or empty stands for a missing file. It is for tools:
// a node goes through Open.
func DecodeSlots(a, b []byte) Outcome { return combine(DecodeSlot(a), DecodeSlot(b)) }

// combine is the table of storage.md §2.5. Only absent slots may stand beside a
// valid one.
func combine(a, b Slot) Outcome {
	o := Outcome{Slots: [2]Slot{a, b}}
	for _, s := range o.Slots {
		switch {
		case s.State == SlotUnknownVersion:
			o.Kind, o.VersionKnown, o.Version = Unreadable, true, max(o.Version, s.Version)
		case s.State == SlotCorrupt:
			o.Kind = Unreadable
		case s.State == SlotValid && o.Kind != Unreadable:
			o.Kind = Present
		}
	}
	if o.Kind == Present {
		newest := o.Slots[newestSlot(o.Slots)]
		o.Payload, o.Sequence = newest.Payload, newest.Sequence
	}
	return o
}

// newestSlot returns the slot with the newest valid record, A if there is none
// and on a tie.
func newestSlot(slots [2]Slot) int {
	a, b := slots[0], slots[1]
	if b.State == SlotValid && (a.State != SlotValid || b.Sequence > a.Sequence) {
		return 1
	}
	return 0
}
