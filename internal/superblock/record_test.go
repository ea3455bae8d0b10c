package superblock

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"
)

// The bytes of a record never change: old directories must open.
func TestRecordGolden(t *testing.T) {
	const want = "4b4c4253" + "0100" + "0000" + "0700000000000000" + "0000000000000000" + "05000000" +
		"68656c6c6f" + "c37b0b47d89f08b3"
	got := hex.EncodeToString(appendRecord(nil, 7, []byte("hello")))
	if got != want {
		t.Fatalf("record\n%s, want\n%s", got, want)
	}
}

// XXH3 with seed 0, so that the checksum is the one that the format names.
func TestChecksumIsXXH3(t *testing.T) {
	for _, c := range []struct {
		in   string
		want uint64
	}{{"", 0x2d06800538d394c2}, {"a", 0xe6c632b61e964e1f}, {"abc", 0x78af5f94892f3950}} {
		if got := xxh3.HashString(c.in); got != c.want {
			t.Errorf("XXH3-64 of %q is %016x, want %016x", c.in, got, c.want)
		}
	}
}

func record(sequence uint64, payload string) []byte {
	return appendRecord(nil, sequence, []byte(payload))
}

// reseal puts the right checksum on a record that was changed.
func reseal(b []byte) []byte {
	end := len(b) - 8
	return binary.LittleEndian.AppendUint64(b[:end:end], xxh3.Hash(b[:end]))
}

func with(b []byte, at int, v ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[at:], v)
	return b
}

// storage.md §2.4.
func TestDecodeSlot(t *testing.T) {
	good := record(3, "payload")
	for _, c := range []struct {
		name string
		in   []byte
		want string
	}{
		{"nothing", nil, "absent"},
		{"no bytes", []byte{}, "absent"},
		{"a record", good, "valid, sequence 3, payload of 7 bytes"},
		{"an empty payload", record(1, ""), "valid, sequence 1, payload of 0 bytes"},
		{"the largest payload", record(1, strings.Repeat("x", PayloadMax)), "valid, sequence 1, payload of 4096 bytes"},
		{"one byte", good[:1], "corrupt: 1 bytes, a record has at least 36"},
		{"one byte short of the least", good[:35], "corrupt: 35 bytes, a record has at least 36"},
		{"a cut record", good[:len(good)-1], "corrupt: payload length 7 does not fit a file of 42 bytes"},
		{"a byte too many", append(bytes.Clone(good), 0), "corrupt: payload length 7 does not fit a file of 44 bytes"},
		{"above the ceiling", make([]byte, recordMax+1), "corrupt: 4133 bytes, a record has at most 4132"},
		{"another magic", with(good, 0, 'X'), "corrupt: magic 53424c58, want 53424c4b"},
		{"zeros", make([]byte, 43), "corrupt: magic 00000000, want 53424c4b"},
		{"version 2 with a checksum that does not match", with(good, 4, 2), "format version 2, this galgo knows 1"},
		{"version 0", with(good, 4, 0), "format version 0, this galgo knows 1"},
		{"version 0x0201 and a length that does not match", with(with(good, 4, 1, 2), 24, 9), "format version 513, this galgo knows 1"},
		{"a length that wraps around", with(good, 24, 0xff, 0xff, 0xff, 0xff), "corrupt: payload length 4294967295 does not fit a file of 43 bytes"},
		{"a flipped sequence", with(good, 8, 4), "corrupt: checksum"},
		{"a flipped payload", with(good, 30, 'X'), "corrupt: checksum"},
		{"a flipped checksum", with(good, len(good)-1, good[len(good)-1]^1), "corrupt: checksum"},
	} {
		if got := DecodeSlot(c.in).String(); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Every single bit of a record is covered.
func TestEveryBitFlipIsFound(t *testing.T) {
	good := record(3, "some payload")
	for bit := range len(good) * 8 {
		b := with(good, bit/8, good[bit/8]^1<<(bit%8))
		if s := DecodeSlot(b); s.State == SlotValid {
			t.Errorf("a record with bit %d of byte %d flipped is valid", bit%8, bit/8)
		}
	}
}

// storage.md §2.5, the later column; D-05, D-07, D-08.
func TestDecodeSlots(t *testing.T) {
	rot := func(b []byte) []byte { return with(b, 30, b[30]^1) }
	version := func(v byte) []byte { return with(record(9, "new"), 4, v) }
	for _, c := range []struct {
		name string
		a, b []byte
		want string
	}{
		{"both absent", nil, nil, "empty"},
		{"a alone", record(1, "one"), nil, "present 1 one"},
		{"b alone", nil, record(1, "one"), "present 1 one"},
		{"a newer", record(5, "five"), record(4, "four"), "present 5 five"},
		{"b newer", record(5, "five"), record(6, "six"), "present 6 six"},
		{"a tie goes to a", record(5, "a"), record(5, "b"), "present 5 a"},
		{"newer corrupt", record(5, "five"), rot(record(6, "six")), "unreadable"},
		{"older corrupt", rot(record(5, "five")), record(6, "six"), "unreadable"},
		{"one corrupt, one absent", nil, rot(record(6, "six")), "unreadable"},
		{"both corrupt", rot(record(5, "five")), rot(record(6, "six")), "unreadable"},
		{"unknown version, absent", version(7), nil, "unreadable 7"},
		{"unknown version, valid", record(5, "five"), version(7), "unreadable 7"},
		{"valid, unknown version", version(7), record(5, "five"), "unreadable 7"},
		{"unknown version wins over corrupt", rot(record(5, "five")), version(7), "unreadable 7"},
		{"two unknown versions", version(7), version(8), "unreadable 8"},
		{"unknown version 0", version(0), nil, "unreadable 0"},
	} {
		if got := describe(DecodeSlots(c.a, c.b)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func describe(o Outcome) string {
	switch {
	case o.Kind == Present:
		return fmt.Sprintf("present %d %s", o.Sequence, o.Payload)
	case o.VersionKnown:
		return fmt.Sprintf("%v %d", o.Kind, o.Version)
	}
	return o.Kind.String()
}

func FuzzDecodeSlots(f *testing.F) {
	f.Add(record(1, "one"), record(2, "two"))
	f.Add([]byte{}, with(record(1, "one"), 4, 9))
	f.Add(make([]byte, 36), make([]byte, recordMax+1))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		o := DecodeSlots(a, b)
		for i, in := range [][]byte{a, b} {
			s := o.Slots[i]
			if s.State != SlotValid {
				continue
			}
			// The two reserved fields are not looked at, as the format says.
			want := reseal(with(with(in, 6, 0, 0), 16, make([]byte, 8)...))
			if got := appendRecord(nil, s.Sequence, s.Payload); !bytes.Equal(got, want) {
				t.Fatalf("slot %d encodes to %x, was %x", i, got, in)
			}
		}
		if o.Kind == Unreadable != (o.Err(testDir) != nil) {
			t.Fatalf("%v with error %v", o.Kind, o.Err(testDir))
		}
	})
}
