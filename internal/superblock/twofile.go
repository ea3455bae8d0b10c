package superblock

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"sync/atomic"

	"galgo/internal/disk"
)

var slotNames = [2]string{"superblock.a", "superblock.b"}

// TwoFile is the Store of storage.md §2.3. It is opened once; a second one on
// the same directory would fork the sequence.
type TwoFile struct {
	d       disk.Disk
	dir     string
	latest  Outcome
	next    uint64 // sequence of the next record
	slot    int    // where it goes: never the slot of the newest record
	writing atomic.Bool
}

var _ Store = (*TwoFile)(nil)

// Open reads the two slots in dir, which must exist. A store whose slots are
// Unreadable opens too: Latest says so and Write refuses. An error of the disk
// is an error, never an outcome.
//
// The directory is synced first. A process that was killed between a rename and
// the sync of the directory leaves a record that can be read but would not
// survive a power loss, and whoever reads it goes on to act on it.
func Open(d disk.Disk, dir string) (*TwoFile, error) {
	if err := d.SyncDir(dir); err != nil {
		return nil, fmt.Errorf("superblock: open %s: %w", dir, err)
	}
	var slots [2]Slot
	for i, name := range slotNames {
		slot, err := readSlot(d, path.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("superblock: open %s: %w", dir, err)
		}
		slots[i] = slot
	}
	s := &TwoFile{d: d, dir: dir, latest: combine(slots[0], slots[1]), next: 1}
	if s.latest.Kind == Present {
		s.slot = 1 - newestSlot(slots)
		s.next = s.latest.Sequence + 1
	}
	return s, nil
}

// readSlot reads and classifies one file. A file that is longer than any record
// is not read.
func readSlot(d disk.Disk, name string) (Slot, error) {
	f, err := d.Open(name)
	if errors.Is(err, disk.ErrNotExist) {
		return Slot{}, nil
	}
	if err != nil {
		return Slot{}, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return Slot{}, err
	}
	if size > recordMax {
		return tooLong(size), nil
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return Slot{}, err
	}
	return DecodeSlot(b), nil
}

// Latest implements Store.
func (s *TwoFile) Latest() Outcome {
	o := s.latest
	o.Payload = bytes.Clone(o.Payload)
	return o
}

// Write implements Store.
func (s *TwoFile) Write(payload []byte) error {
	if !s.writing.CompareAndSwap(false, true) {
		panic(fmt.Sprintf("superblock: write %d of %s began while another was under way: the store has one writer", s.next, s.dir))
	}
	// Deferred, so that a write which ends by a panic does not latch it.
	defer s.writing.Store(false)
	if err := s.check(payload); err != nil {
		return err
	}
	record := appendRecord(make([]byte, 0, recordOverhead+len(payload)), s.next, payload)
	name := path.Join(s.dir, slotNames[s.slot])
	if err := disk.Replace(s.d, name, [][]byte{record}); err != nil {
		return fmt.Errorf("superblock: write record %d: %w", s.next, err)
	}
	// Only now: a write that fails before this point is repeated with the same
	// number into the same slot, and the newest record stays untouched.
	s.advance(payload)
	return nil
}

func (s *TwoFile) check(payload []byte) error {
	switch {
	case s.latest.Kind == Unreadable:
		return fmt.Errorf("%w: %w", ErrDegraded, s.latest.Err(s.dir))
	case len(payload) > PayloadMax:
		return fmt.Errorf("%w: %d bytes of at most %d", ErrPayload, len(payload), PayloadMax)
	case s.next == 0 || s.next == math.MaxUint64:
		return fmt.Errorf("%w: %s", ErrSequence, path.Join(s.dir, slotNames[1-s.slot]))
	}
	return nil
}

func (s *TwoFile) advance(payload []byte) {
	payload = append([]byte{}, payload...)
	s.latest.Slots[s.slot] = Slot{State: SlotValid, Sequence: s.next, Payload: payload}
	s.latest.Kind, s.latest.Payload, s.latest.Sequence = Present, payload, s.next
	s.next++
	s.slot = 1 - s.slot
}
