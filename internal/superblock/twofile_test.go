package superblock

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"testing"

	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
)

var slotA, slotB = path.Join(testDir, slotNames[0]), path.Join(testDir, slotNames[1])

// written returns a disk with a store of some records.
func written(t *testing.T, payloads ...string) *memdisk.Disk {
	t.Helper()
	d := memdisk.New(memdisk.Options{})
	mkdir(t, d)
	s := open(t, d)
	for _, p := range payloads {
		must(t, s.Write([]byte(p)))
	}
	return d
}

func rot(d *memdisk.Disk, slot string) { d.FlipBit(slot, recordHead, 0) }

// storage.md §10.1, D-04.
func TestSlotsAlternate(t *testing.T) {
	d := written(t)
	for i := range uint64(6) {
		s := open(t, d) // reopened before every write: the counters come from the files
		must(t, s.Write(fmt.Appendf(nil, "p%d", i+1)))
		slots := [2]Slot{DecodeSlot(d.Bytes(slotA)), DecodeSlot(d.Bytes(slotB))}
		if got := slots[i%2]; got.Sequence != i+1 {
			t.Fatalf("write %d is not in slot %d: %v", i+1, i%2, slots)
		}
		if got := slots[1-i%2].Sequence; got != i {
			t.Fatalf("write %d touched the other slot: %v", i+1, slots)
		}
	}
	if got := d.Names(); len(got) != 3 {
		t.Fatalf("files left: %v", got)
	}
}

// storage.md §10.1, D-05, D-06: the newer record may be the one that rotted.
func TestCorruptSlotRefuses(t *testing.T) {
	for _, slot := range []string{slotA, slotB} {
		d := written(t, "one", "two")
		rot(d, slot)
		before := d.Clone()
		s := open(t, d)
		o := s.Latest()
		if o.Kind != Unreadable || o.VersionKnown || o.Payload != nil {
			t.Fatalf("%s corrupt: %v with %q", slot, o.Kind, o.Payload)
		}
		wantErr(t, "write to a degraded store", s.Write([]byte("three")), ErrDegraded)
		if diff := memdisk.Diff(before, d); diff != "" {
			t.Fatalf("the refusal changed %s", diff)
		}
		err := o.Err(testDir)
		wantErr(t, "outcome", err, ErrUnreadable)
		for _, part := range []string{slotA, slotB, "corrupt: checksum", "valid, sequence", "restore a backup"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q does not say %q", err, part)
			}
		}
	}
}

func TestUnknownVersionRefuses(t *testing.T) {
	d := written(t, "one", "two")
	d.Put(slotA, with(record(9, "nine"), 4, 3))
	o := open(t, d).Latest()
	if o.Kind != Unreadable || !o.VersionKnown || o.Version != 3 {
		t.Fatalf("%v, version %d (%t)", o.Kind, o.Version, o.VersionKnown)
	}
	if err := o.Err(testDir); !strings.Contains(err.Error(), "format version 3, this galgo knows 1") || !strings.Contains(err.Error(), "start with that one") {
		t.Fatalf("error %q", err)
	}
}

// storage.md §10.1, D-13: a file that is longer than any record is not read.
func TestOversizedSlotIsNotRead(t *testing.T) {
	d := written(t, "one")
	d.Put(slotB, make([]byte, recordMax+1))
	before := d.Reads()
	s := open(t, d)
	if got := s.Latest(); got.Kind != Unreadable || !strings.Contains(got.Slots[1].Reason, "4133 bytes") {
		t.Fatalf("%v: %v", got.Kind, got.Slots)
	}
	// Open, size and one read of a; open and size of b.
	if got := d.Reads() - before; got != 5 {
		t.Fatalf("%d calls to read the slots, want 5", got)
	}
	d.Put(slotB, make([]byte, recordMax))
	before = d.Reads()
	open(t, d)
	if got := d.Reads() - before; got != 6 {
		t.Fatalf("%d calls to read a slot of the largest size, want 6", got)
	}
}

// storage.md §10.1, D-09.
func TestOfflineDecoderAgrees(t *testing.T) {
	d := written(t)
	for i := range 4 {
		offline, live := DecodeSlots(d.Bytes(slotA), d.Bytes(slotB)), open(t, d).Latest()
		if describe(offline) != describe(live) {
			t.Fatalf("after %d writes: offline %s, live %s", i, describe(offline), describe(live))
		}
		must(t, open(t, d).Write(fmt.Appendf(nil, "p%d", i)))
	}
	if got := describe(DecodeSlots(nil, d.Bytes(slotB))); got != "present 4 p3" {
		t.Fatalf("b alone: %s", got)
	}
	if got := describe(DecodeSlots(d.Bytes(slotA), nil)); got != "present 3 p2" {
		t.Fatalf("a alone: %s", got)
	}
}

// An error of the disk is no outcome: it says nothing about what is there.
func TestReadErrorIsAnError(t *testing.T) {
	for _, op := range []memdisk.Op{memdisk.OpOpen, memdisk.OpRead, memdisk.OpSize, memdisk.OpSyncDir} {
		d := written(t, "one", "two")
		d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: op, At: 1})
		_, err := Open(d, testDir)
		wantErr(t, op.String(), err, memdisk.ErrIO)
		if !strings.Contains(err.Error(), testDir) {
			t.Errorf("error %q does not name the directory", err)
		}
	}
	_, err := Open(memdisk.New(memdisk.Options{}), testDir)
	wantErr(t, "a missing directory", err, disk.ErrNotExist)
}

func TestSequenceExhausted(t *testing.T) {
	for _, sequence := range []uint64{1<<64 - 1, 1<<64 - 2} {
		d := written(t)
		d.Put(slotA, record(sequence, "last"))
		wantErr(t, fmt.Sprintf("write after record %d", sequence), open(t, d).Write(nil), ErrSequence)
	}
}

// A file that an earlier attempt left is not written into: it may be longer.
func TestStaleTemporaryFile(t *testing.T) {
	d := written(t, "one")
	d.Put(slotB+disk.TmpSuffix, make([]byte, 9999))
	must(t, open(t, d).Write([]byte("two")))
	wantPresent(t, open(t, d), 2, "two")
}

// Each fault of the device ends in an error, the old record in force and a retry
// that works, also when power is lost after the failure.
func TestEveryFaultOfAWrite(t *testing.T) {
	faults := []memdisk.Fault{
		{Class: memdisk.NoSpace}, {Class: memdisk.NoSpace, Ops: memdisk.OpWrite, Keep: 10},
		{Class: memdisk.ShortWrite, Keep: 20}, {Class: memdisk.SyncFailure}, {Class: memdisk.SyncFailure, KeepCache: true},
		{Class: memdisk.SyncFailure, Ops: memdisk.OpSyncDir}, {Class: memdisk.Fail, Ops: memdisk.OpRename},
		{Class: memdisk.Fail, Ops: memdisk.OpRemove},
	}
	for _, fault := range faults {
		d := written(t, "one", "two")
		s := open(t, d)
		d.Inject(fault)
		if err := s.Write([]byte("three")); err == nil || d.Fired() != 1 {
			t.Fatalf("%+v: write: %v, fired %d times", fault, err, d.Fired())
		}
		wantPresent(t, s, 2, "two")
		for seed := range uint64(20) {
			got := describe(open(t, d.Clone().PowerLoss(rng(seed))).Latest())
			if got != "present 2 two" && got != "present 3 three" {
				t.Fatalf("%+v, then a power loss (seed %d): %s", fault, seed, got)
			}
		}
		must(t, s.Write([]byte("three again")))
		wantPresent(t, open(t, d.PowerLoss(nil)), 3, "three again")
	}
}

// A device that lies is found out: never the older record as if nothing were.
func TestLyingDevice(t *testing.T) {
	for _, class := range []memdisk.Class{memdisk.LostWrite, memdisk.MisdirectedWrite} {
		d := written(t, "one", "two")
		s := open(t, d)
		d.Inject(memdisk.Fault{Class: class, To: slotB, ToOffset: 4})
		must(t, s.Write([]byte("three")))
		if o := open(t, d.PowerLoss(nil)).Latest(); o.Kind != Unreadable {
			t.Errorf("class %d: %s", class, describe(o))
		}
	}
}

func TestEveryFlippedBitRefuses(t *testing.T) {
	d := written(t, "one", "two")
	for _, slot := range []string{slotA, slotB} {
		for bit := range 8 * len(d.Bytes(slot)) {
			c := d.Clone()
			c.FlipBit(slot, int64(bit/8), uint(bit%8))
			o := open(t, c).Latest()
			if o.Kind != Unreadable {
				t.Fatalf("%s, bit %d of byte %d flipped: %s", slot, bit%8, bit/8, describe(o))
			}
		}
	}
}

// Slots that a hand swapped still give the newest.
func TestSwappedSlots(t *testing.T) {
	d := written(t, "one", "two")
	a, b := bytes.Clone(d.Bytes(slotA)), bytes.Clone(d.Bytes(slotB))
	d.Put(slotA, b)
	d.Put(slotB, a)
	s := open(t, d)
	wantPresent(t, s, 2, "two")
	must(t, s.Write([]byte("three")))
	if got := DecodeSlot(d.Bytes(slotB)); got.Sequence != 3 {
		t.Fatalf("the write did not go over the older record: %v", got)
	}
}
