package wire

import (
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf8"
)

var le = binary.LittleEndian

// cursor walks a body from front to back. The first failure sticks: all later
// reads return zero values, so a decoder reads its fields and asks once at the
// end. It allocates only for strings and for the error.
type cursor struct {
	b    []byte
	off  int
	body string // what is decoded, for the error
	err  error
}

func read(body string, b []byte) cursor { return cursor{b: b, body: body} }

func (c *cursor) fail(field, reason string) {
	if c.err == nil {
		c.err = &DecodeError{Body: c.body, Field: field, Offset: c.off, Reason: reason}
	}
}

// left is the number of bytes not read yet.
func (c *cursor) left() int { return len(c.b) - c.off }

// take returns the next n bytes, aliased, or nil after a failure.
func (c *cursor) take(field string, n uint64) []byte {
	if c.err != nil {
		return nil
	}
	if n > uint64(c.left()) {
		c.fail(field, "needs "+strconv.FormatUint(n, 10)+" bytes, "+strconv.Itoa(c.left())+" are left")
		return nil
	}
	p := c.b[c.off : c.off+int(n) : c.off+int(n)]
	c.off += int(n)
	return p
}

// rest returns what is left, aliased.
func (c *cursor) rest() []byte { return c.take("rest", uint64(c.left())) }

// end fails unless everything was read.
func (c *cursor) end() error {
	if c.err == nil && c.left() != 0 {
		c.fail("end", strconv.Itoa(c.left())+" bytes too many")
	}
	return c.err
}

func (c *cursor) u8(field string) uint8 {
	p := c.take(field, 1)
	if p == nil {
		return 0
	}
	return p[0]
}

func (c *cursor) u16(field string) uint16 {
	p := c.take(field, 2)
	if p == nil {
		return 0
	}
	return le.Uint16(p)
}

func (c *cursor) u32(field string) uint32 {
	p := c.take(field, 4)
	if p == nil {
		return 0
	}
	return le.Uint32(p)
}

func (c *cursor) u64(field string) uint64 {
	p := c.take(field, 8)
	if p == nil {
		return 0
	}
	return le.Uint64(p)
}

func (c *cursor) f32(field string) float32 { return math.Float32frombits(c.u32(field)) }

func (c *cursor) bool(field string) bool { return c.u8(field) != 0 }

// count reads the number of elements that follow, each of at least size bytes, so
// that a caller may allocate for them.
func (c *cursor) count(field string, size int) int {
	n := c.u32(field)
	if c.err == nil && uint64(n)*uint64(size) > uint64(c.left()) {
		c.fail(field, strconv.FormatUint(uint64(n), 10)+" elements do not fit in "+strconv.Itoa(c.left())+" bytes")
	}
	if c.err != nil {
		return 0
	}
	return int(n)
}

// bytes8 reads bytes behind a length of one byte, aliased.
func (c *cursor) bytes8(field string) []byte { return c.take(field, uint64(c.u8(field))) }

// bytes32 reads bytes behind a length of four bytes, aliased.
func (c *cursor) bytes32(field string) []byte { return c.take(field, uint64(c.u32(field))) }

func (c *cursor) text(field string, p []byte) string {
	if c.err == nil && !utf8.Valid(p) {
		c.fail(field, "not UTF-8")
	}
	if c.err != nil {
		return ""
	}
	return string(p)
}

// name reads 1..255 bytes of UTF-8 behind a length of one byte.
func (c *cursor) name(field string) string {
	p := c.bytes8(field)
	if c.err == nil && len(p) == 0 {
		c.fail(field, "empty name")
	}
	return c.text(field, p)
}

// string8 reads UTF-8 behind a length of one byte; it may be empty.
func (c *cursor) string8(field string) string { return c.text(field, c.bytes8(field)) }

// string32 reads UTF-8 behind a length of four bytes; it may be empty.
func (c *cursor) string32(field string) string { return c.text(field, c.bytes32(field)) }
