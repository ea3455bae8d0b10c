package partition

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"sort"

	"galgo/internal/disk"
)

// The index of a segment is derived from its log: an entry for the first record
// and for each that starts IndexInterval bytes or more behind the last one
// indexed. It speeds up searches and is never trusted: an entry that does not
// verify, or that does not point at the record it names, makes the reader build
// the entries anew from the log.
//
// File header:
//
//	off  size  field
//	  0     8  magic       "galgoidx"
//	  8     4  version     1
//	 12     4  interval    bytes of log between entries, at least
//	 16     8  group
//	 24     8  generation  of the last purge before the segment
//	 32     8  base        offset of the segment's first message
//	 40    20  reserved    zero
//	 60     4  crc         CRC-32C of bytes 0..60
//
// Entry i, at byte 64 + 32·i:
//
//	off  size  field
//	  0     8  offset     of the record's first message; strictly growing
//	  8     8  timestamp  of the record, µs; strictly growing
//	 16     8  position   of the record in the log, bytes; strictly growing
//	 24     4  number     i, so that an entry in the wrong place is noticed
//	 28     4  crc        CRC-32C of the header's bytes 0..60, then of bytes 0..28
//
// Timestamps of records only grow, so an entry's is also the highest so far.
const (
	indexMagic      = "galgoidx"
	indexVersion    = 1
	indexHeaderSize = 64
	indexEntrySize  = 32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errIndex: an entry does not verify. It does not leave the package.
var errIndex = errors.New("partition: index does not match its log")

// indexEntry points at a record.
type indexEntry struct {
	offset uint64
	time   uint64 // µs
	pos    uint64
}

// indexIdentity is what tells one index file from another.
type indexIdentity struct {
	interval   uint32
	group      uint64
	generation uint64
	base       uint64
}

func (s *segment) indexIdentity(interval uint32) indexIdentity {
	return indexIdentity{interval, s.group, s.generation, s.base}
}

// appendHeader appends the file header.
func (id indexIdentity) appendHeader(b []byte) []byte {
	start := len(b)
	b = append(b, indexMagic...)
	b = binary.LittleEndian.AppendUint32(b, indexVersion)
	b = binary.LittleEndian.AppendUint32(b, id.interval)
	b = binary.LittleEndian.AppendUint64(b, id.group)
	b = binary.LittleEndian.AppendUint64(b, id.generation)
	b = binary.LittleEndian.AppendUint64(b, id.base)
	b = append(b, make([]byte, 20)...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// seed starts the checksum of every entry of the file.
func (id indexIdentity) seed() uint32 {
	var buf [indexHeaderSize]byte
	return binary.LittleEndian.Uint32(id.appendHeader(buf[:0])[60:])
}

// decodeIndexHeader reads a file header; only one that appendHeader made passes.
func decodeIndexHeader(b []byte) (indexIdentity, error) {
	if len(b) < indexHeaderSize {
		return indexIdentity{}, errIndex
	}
	id := indexIdentity{
		interval:   binary.LittleEndian.Uint32(b[12:]),
		group:      binary.LittleEndian.Uint64(b[16:]),
		generation: binary.LittleEndian.Uint64(b[24:]),
		base:       binary.LittleEndian.Uint64(b[32:]),
	}
	var want [indexHeaderSize]byte
	if string(id.appendHeader(want[:0])) != string(b[:indexHeaderSize]) {
		return indexIdentity{}, errIndex
	}
	return id, nil
}

// append appends entry number i of a file with this checksum seed.
func (e indexEntry) append(b []byte, seed, number uint32) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint64(b, e.offset)
	b = binary.LittleEndian.AppendUint64(b, e.time)
	b = binary.LittleEndian.AppendUint64(b, e.pos)
	b = binary.LittleEndian.AppendUint32(b, number)
	return binary.LittleEndian.AppendUint32(b, crc32.Update(seed, castagnoli, b[start:]))
}

// decodeIndexEntry reads entry number i of a file with this checksum seed.
func decodeIndexEntry(b []byte, seed, number uint32) (indexEntry, error) {
	if len(b) != indexEntrySize ||
		crc32.Update(seed, castagnoli, b[:28]) != binary.LittleEndian.Uint32(b[28:]) ||
		binary.LittleEndian.Uint32(b[24:]) != number {
		return indexEntry{}, errIndex
	}
	return indexEntry{
		offset: binary.LittleEndian.Uint64(b),
		time:   binary.LittleEndian.Uint64(b[8:]),
		pos:    binary.LittleEndian.Uint64(b[16:]),
	}, nil
}

// indexed appends the entry of the next record of a log, if its index has one of it: the
// rule of segment.append, for who has all entries of the log.
func indexed(entries []indexEntry, e indexEntry, interval uint32) []indexEntry {
	if n := len(entries); n == 0 || e.pos-entries[n-1].pos >= uint64(interval) {
		entries = append(entries, e)
	}
	return entries
}

func indexPos(number uint32) int64 {
	return indexHeaderSize + int64(number)*indexEntrySize
}

// target is what a search looks for: the record that holds an offset or a byte of the log,
// or the first one stamped at a time or later.
type target struct {
	byTime  bool
	byPlace bool
	value   uint64 // offset, byte, or µs
}

// after reports whether the record of e starts behind what is looked for.
func (t target) after(e indexEntry) bool {
	switch {
	case t.byTime:
		return e.time > t.value
	case t.byPlace:
		return e.pos > t.value
	}
	return e.offset > t.value
}

// searchEntries returns the last entry that is not behind the target. There is
// none only for a time before the first record.
func searchEntries(entries []indexEntry, t target) (indexEntry, bool) {
	i := sort.Search(len(entries), func(i int) bool { return t.after(entries[i]) })
	if i == 0 {
		return indexEntry{}, false
	}
	return entries[i-1], true
}

// searchIndexFile does the same among the first n entries of a file. It reads a
// few entries, whatever the size of the file, and fails with errIndex if one of
// them does not verify.
func searchIndexFile(f disk.File, seed, n uint32, t target) (indexEntry, bool, error) {
	var found indexEntry
	low, high := uint32(0), n // entries below low are not behind the target
	for low < high {
		middle := low + (high-low)/2
		var buf [indexEntrySize]byte
		if _, err := f.ReadAt(buf[:], indexPos(middle)); err != nil {
			return found, false, errIndex
		}
		e, err := decodeIndexEntry(buf[:], seed, middle)
		if err != nil {
			return found, false, err
		}
		if t.after(e) {
			high = middle
		} else {
			found, low = e, middle+1
		}
	}
	return found, low > 0, nil
}
