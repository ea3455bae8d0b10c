package metadata

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"galgo"
)

// Errors of Decode, and of the bodies of galgo's own operations. They are wrapped
// with the part and the position in it.
var (
	// ErrVersion: written by a version of galgo that this one does not know.
	ErrVersion = errors.New("unknown format version")
	// ErrTruncated: the bytes end inside a field.
	ErrTruncated = errors.New("cut short")
	// ErrCorrupt: a field that no version of galgo writes.
	ErrCorrupt = errors.New("corrupt")
	// ErrDuplicateClient: two sessions with one client id.
	ErrDuplicateClient = errors.New("client id is in the table twice")
	// ErrDuplicateSlot: two sessions in one slot.
	ErrDuplicateSlot = errors.New("slot is in the table twice")
	// ErrSlotRange: a slot above the largest table.
	ErrSlotRange = errors.New("slot is out of range")
	// ErrReply: a kept reply that no request can have had.
	ErrReply = errors.New("invalid reply")
)

// reader takes fields off the front of b. The first error stays, and every field
// after it is zero, so that a caller may check once, before it uses a count or at
// the end.
type reader struct {
	part string // what is read, for the error
	b    []byte
	off  int
	err  error
}

func (r *reader) fail(sentinel error, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("metadata: %s at byte %d: %w: %s", r.part, r.off, sentinel, fmt.Sprintf(format, args...))
	}
}

// bytes returns the next n bytes, which share memory with the input.
func (r *reader) bytes(n uint64) []byte {
	if r.err != nil {
		return nil
	}
	if left := uint64(len(r.b) - r.off); n > left {
		r.fail(ErrTruncated, "%d bytes wanted, %d left", n, left)
		return nil
	}
	b := r.b[r.off : r.off+int(n) : r.off+int(n)]
	r.off += int(n)
	return b
}

func (r *reader) u8() uint8 {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.bytes(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) array16() (a [16]byte) {
	copy(a[:], r.bytes(16))
	return a
}

// bool takes a byte that is 0 or 1.
func (r *reader) bool() bool {
	v := r.u8()
	if v > 1 {
		r.fail(ErrCorrupt, "flag is %d, want 0 or 1", v)
	}
	return v == 1
}

// version takes the byte that opens each format.
func (r *reader) version(want uint8) {
	if got := r.u8(); r.err == nil && got != want {
		r.fail(ErrVersion, "%d, this release reads %d", got, want)
	}
}

// name takes a length byte and that many bytes of UTF-8, min .. max of them.
func (r *reader) name(min, max int) string {
	n := int(r.u8())
	if r.err == nil && (n < min || n > max) {
		r.fail(ErrCorrupt, "name has %d bytes, want %d..%d", n, min, max)
	}
	b := r.bytes(uint64(n))
	if !utf8.Valid(b) {
		r.fail(ErrCorrupt, "name %q is not UTF-8", b)
	}
	return string(b)
}

// count takes a number of records of at least size bytes each. A count that the
// rest of the input cannot hold is refused before anything is allocated for it.
func (r *reader) count(max uint64, size int) uint32 {
	n := r.u32()
	if r.err != nil {
		return 0
	}
	if uint64(n) > max {
		r.fail(ErrCorrupt, "%d records, at most %d", n, max)
		return 0
	}
	if left := uint64(len(r.b) - r.off); uint64(n)*uint64(size) > left {
		r.fail(ErrTruncated, "%d records of %d bytes or more, %d left", n, size, left)
		return 0
	}
	return n
}

// end checks that nothing is left.
func (r *reader) end() error {
	if r.err == nil && r.off != len(r.b) {
		r.fail(ErrCorrupt, "%d bytes after the end", len(r.b)-r.off)
	}
	return r.err
}

var le = binary.LittleEndian

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// appendName appends a length byte and the bytes; names are at most 255 long.
func appendName(b []byte, name string) []byte {
	if len(name) > galgo.NameMax {
		panic(fmt.Sprintf("metadata: name of %d bytes, limit %d", len(name), galgo.NameMax))
	}
	return append(append(b, uint8(len(name))), name...)
}
