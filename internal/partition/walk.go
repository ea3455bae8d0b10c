package partition

import (
	"errors"
	"fmt"
	"io"

	"galgo/internal/cipher"
	"galgo/internal/wire"
)

// Sizes in bytes of what is read of a log at once.
const (
	windowMin = 64 << 10
	windowMax = 4 << 20
)

// walker reads the records of a log in order and verifies each: header, frame
// and batch checksums, its place in the sequence of offsets and times, and that
// it ends where the log may still be read.
type walker struct {
	seg       *segment
	file      io.ReaderAt
	partition uint64
	sealing   *sealing // nil: records are in the clear

	pos, end uint64 // bytes of the log that are still to be read
	next     uint64 // offset the record at pos must start with
	time     uint64 // µs, of the record before pos; 0 if unknown

	window []byte // bytes of the log from at on
	at     uint64
	want   int                // bytes to read at once
	buffer func(n int) []byte // makes a window; records alias it
}

// record returns the next record; nil at the end. The error is a *DamageError,
// ErrStale if the segment is gone, or an error of the disk.
func (w *walker) record() ([]byte, recordHead, error) {
	if w.pos == w.end {
		return nil, recordHead{}, nil
	}
	if w.end-w.pos < wire.BatchHeaderSize {
		return nil, recordHead{}, w.damage(fmt.Sprintf("%d bytes at the end are no record", w.end-w.pos))
	}
	b, err := w.bytes(wire.BatchHeaderSize)
	if err != nil {
		return nil, recordHead{}, err
	}
	head, _ := peekRecord(b)
	if err := w.checkHead(&head); err != nil {
		return nil, recordHead{}, err
	}
	if b, err = w.bytes(head.length); err != nil {
		return nil, recordHead{}, err
	}
	if err := w.check(b); err != nil {
		return nil, recordHead{}, w.damage(err.Error())
	}
	w.pos += head.length
	w.next, w.time = head.end(), head.time
	return b, head, nil
}

// check verifies the checksums of a record. What is sealed stays closed: see open.
func (w *walker) check(b []byte) error {
	if w.sealing != nil {
		return checkSealed(b)
	}
	return wire.Batch(b).Validate()
}

// open returns the batch in the record that was read last. Nothing of it can be read
// again.
func (w *walker) open(b []byte) ([]byte, error) {
	if w.sealing == nil {
		return b, nil
	}
	from := w.pos - uint64(len(b)) - w.at
	end := from + uint64(len(b))
	room := w.window[end : end+cipher.TagSize : end+cipher.TagSize] // of the next record, perhaps
	saved := [cipher.TagSize]byte(room)
	err := w.sealing.open(w.window[from : end : end+cipher.TagSize])
	copy(room, saved[:])
	if err != nil {
		e := w.damageAt(w.pos-uint64(len(b)), err.Error())
		if e, ok := e.(*DamageError); ok {
			e.Kind = sealKind(err)
		}
		return nil, e
	}
	return b, nil
}

// checkHead looks at what can be known before the checksums are: lengths before
// anything is read by them, and the record's place.
func (w *walker) checkHead(r *recordHead) error {
	switch {
	case r.length < wire.BatchHeaderSize || r.length > RecordMax || r.length > w.end-w.pos:
		return w.damage(fmt.Sprintf("record of %d bytes, %d are left", r.length, w.end-w.pos))
	case r.base != w.next:
		return w.damage(fmt.Sprintf("record at offset %d, want %d", r.base, w.next))
	case r.partition != w.partition:
		return w.damage(fmt.Sprintf("record of partition %d, want %d", r.partition, w.partition))
	case r.time <= w.time:
		return w.damage(fmt.Sprintf("record stamped %d µs behind one stamped %d", r.time, w.time))
	}
	return nil
}

// bytes returns the next n bytes, reading a window if they are not at hand.
func (w *walker) bytes(n uint64) ([]byte, error) {
	if w.pos >= w.at && w.pos+n <= w.at+uint64(len(w.window)) {
		from := w.pos - w.at
		return w.window[from : from+n : from+n], nil
	}
	size := min(max(n, uint64(w.want)), w.end-w.pos)
	w.window, w.at = w.room(int(size)), w.pos
	if got, err := w.file.ReadAt(w.window, int64(w.pos)); err != nil && got < len(w.window) {
		return nil, w.fault(err)
	}
	return w.window[:n:n], nil
}

// room makes a window. Behind one that is opened there is room for a tag.
func (w *walker) room(n int) []byte {
	if w.sealing == nil {
		return w.buffer(n)
	}
	return w.buffer(n + cipher.TagSize)[:n]
}

func (w *walker) fault(err error) error {
	if w.seg.gone.Load() {
		return ErrStale
	}
	if errors.Is(err, io.EOF) {
		return &DamageError{Kind: ErrMissing, Group: w.seg.group, File: w.seg.logName, Pos: w.pos,
			Reason: fmt.Sprintf("file ends before byte %d, up to which it was written", w.end)}
	}
	return fmt.Errorf("partition: group %d: read %s at byte %d: %w", w.seg.group, w.seg.logName, w.pos, err)
}

func (w *walker) damage(reason string) error { return w.damageAt(w.pos, reason) }

func (w *walker) damageAt(pos uint64, reason string) error {
	if w.seg.gone.Load() {
		return ErrStale
	}
	return &DamageError{Kind: ErrDamaged, Group: w.seg.group, File: w.seg.logName, Pos: pos, Reason: reason}
}

// oneWindow makes windows that take each other's place, for who keeps no record.
func oneWindow() func(n int) []byte {
	var window []byte
	return func(n int) []byte {
		if cap(window) < n {
			window = make([]byte, n)
		}
		return window[:n]
	}
}
