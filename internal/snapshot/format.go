package snapshot

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/zeebo/xxh3"

	"galgo/internal/cipher"
)

// A file is a header, sections and a trailer, without padding, little-endian.
//
//	header
//	off  size  field
//	  0     8  magic       "GALGOSNP"
//	  8     4  version     1; 2 if the data of all sections are sealed
//	 12     4  sections    how many, at most 1024
//	 16    16  cluster
//	 32     8  group
//	 40     8  op
//	 48     8  created at  µs since the Unix epoch
//	 56     8  size        of the whole file in bytes: tells a cut from rot
//	 64     8  checksum    XXH3-64 over all before it
//
//	section
//	  0     4  kind
//	  4     4  version
//	  8     8  length      of the data, n
//	 16     8  checksum    XXH3-64 over the data
//	 24     n  data
//
//	trailer
//	  0    16  checksum    XXH3-128 over the whole file before it, big-endian
//	                       halves, high first
const (
	magic       = "GALGOSNP"
	headerSize  = 72
	sectionHead = 24
	trailerSize = 16
	sizeMin     = headerSize + trailerSize
)

// container is a file ready to be written: its pieces in order, sharing the
// data of the sections.
type container struct {
	pieces [][]byte
	sum    Sum
}

// build lays out a file without copying what is in the sections, unless it seals them.
func build(h Header, sections []Section, vault *cipher.Vault) (container, error) {
	size, err := fileSize(sections, vault != nil)
	if err != nil {
		return container{}, err
	}
	version := uint32(FormatVersion)
	if vault != nil {
		version, sections = SealedVersion, sealSections(vault, h, sections)
	}
	pieces := [][]byte{appendHeader(nil, h, version, uint32(len(sections)), size)}
	for i := range sections {
		s := &sections[i]
		pieces = append(pieces, appendSectionHead(nil, s))
		pieces = append(pieces, s.Data...)
	}
	whole := xxh3.New()
	for _, p := range pieces {
		whole.Write(p)
	}
	c := container{sum: whole.Sum128().Bytes()}
	c.pieces = append(pieces, c.sum[:])
	return c, nil
}

func fileSize(sections []Section, sealed bool) (uint64, error) {
	if len(sections) > SectionsMax {
		return 0, fmt.Errorf("%w: %d sections of at most %d", ErrLimit, len(sections), SectionsMax)
	}
	size := uint64(sizeMin)
	for i := range sections {
		size += sectionHead + sections[i].Size()
		if sealed {
			size += cipher.Overhead
		}
	}
	if size > SizeMax {
		return 0, fmt.Errorf("%w: %d bytes of at most %d", ErrLimit, size, SizeMax)
	}
	return size, nil
}

func appendHeader(b []byte, h Header, version, sections uint32, size uint64) []byte {
	start := len(b)
	le := binary.LittleEndian
	b = append(b, magic...)
	b = le.AppendUint32(b, version)
	b = le.AppendUint32(b, sections)
	b = append(b, h.Cluster[:]...)
	b = le.AppendUint64(b, h.Group)
	b = le.AppendUint64(b, h.Op)
	b = le.AppendUint64(b, h.CreatedAt)
	b = le.AppendUint64(b, size)
	return le.AppendUint64(b, xxh3.Hash(b[start:]))
}

func appendSectionHead(b []byte, s *Section) []byte {
	sum := xxh3.New()
	for _, p := range s.Data {
		sum.Write(p)
	}
	le := binary.LittleEndian
	b = le.AppendUint32(b, s.Kind)
	b = le.AppendUint32(b, s.Version)
	b = le.AppendUint64(b, s.Size())
	return le.AppendUint64(b, sum.Sum64())
}

// Encode returns the bytes of a file in the clear, in one piece.
func Encode(h Header, sections []Section) ([]byte, error) {
	c, err := build(h, sections, nil)
	if err != nil {
		return nil, err
	}
	var b []byte
	for _, p := range c.pieces {
		b = append(b, p...)
	}
	return b, nil
}

// Decode verifies the bytes of a file and returns what is in it; the sections
// share b, and are closed if they are sealed: see Snapshot.Open. The order: magic, version, header, length, checksum of the whole, and
// only then the structure. name is for the errors.
func Decode(name string, b []byte) (*Snapshot, error) {
	head, err := decodeHeader(name, b, int64(len(b)))
	if err != nil {
		return nil, err
	}
	end := len(b) - trailerSize
	sum := Sum(xxh3.Hash128(b[:end]).Bytes())
	if want := Sum(b[end:]); sum != want {
		return nil, whichChecksum(name, b[:end], head.sections, sum, want)
	}
	s := &Snapshot{Name: name, Header: head.Header, Sum: sum, closed: head.version == SealedVersion}
	s.Sections, err = decodeSections(name, b[:end], head.sections)
	if err != nil {
		return nil, err
	}
	return s, nil
}

type decodedHeader struct {
	Header
	version  uint32
	sections uint32
}

// decodeHeader verifies the head of a file of size bytes; b may be longer than
// the header and shorter than the file.
func decodeHeader(name string, b []byte, size int64) (decodedHeader, error) {
	var h decodedHeader
	le := binary.LittleEndian
	if len(b) < len(magic) || string(b[:len(magic)]) != magic {
		if n := min(len(b), len(magic)); string(b[:n]) == magic[:n] {
			return h, &TruncatedError{Name: name, Size: size, Want: sizeMin}
		}
		return h, fmt.Errorf("%w: %s begins with %x; %s", ErrNotASnapshot, name, b[:min(len(b), len(magic))], stepRestore)
	}
	if len(b) < 12 {
		return h, &TruncatedError{Name: name, Size: size, Want: sizeMin}
	}
	if h.version = le.Uint32(b[8:]); h.version != FormatVersion && h.version != SealedVersion {
		return h, &VersionError{Name: name, Part: "container", Found: h.version, Expected: SealedVersion}
	}
	if len(b) < headerSize || size < sizeMin {
		return h, &TruncatedError{Name: name, Size: size, Want: sizeMin}
	}
	if got, want := xxh3.Hash(b[:64]), le.Uint64(b[64:]); got != want {
		return h, &ChecksumError{Name: name, Part: "header", Found: hex64(got), Want: hex64(want)}
	}
	h.sections = le.Uint32(b[12:])
	copy(h.Cluster[:], b[16:])
	h.Group, h.Op, h.CreatedAt = le.Uint64(b[32:]), le.Uint64(b[40:]), le.Uint64(b[48:])
	return h, checkLimits(name, h.sections, le.Uint64(b[56:]), size)
}

func checkLimits(name string, sections uint32, want uint64, size int64) error {
	switch {
	case sections > SectionsMax:
		return fmt.Errorf("%w: %s: %d sections of at most %d; %s", ErrLimit, name, sections, SectionsMax, stepVersion)
	case want > SizeMax:
		return fmt.Errorf("%w: %s: %d bytes of at most %d; %s", ErrLimit, name, want, SizeMax, stepVersion)
	case uint64(size) < want:
		return &TruncatedError{Name: name, Size: size, Want: int64(want)}
	case uint64(size) > want:
		return fmt.Errorf("%w: %s: %d bytes after the end at %d; %s", ErrMalformed, name, uint64(size)-want, want, stepRestore)
	}
	return nil
}

// decodeSections splits what is between header and trailer; b ends at the
// trailer, and its checksum was verified.
func decodeSections(name string, b []byte, count uint32) ([]Section, error) {
	sections := make([]Section, 0, count)
	rest := b[headerSize:]
	for i := range count {
		s, sum, after, ok := cutSection(rest)
		if !ok {
			return nil, fmt.Errorf("%w: %s: section %d at byte %d passes the end; %s", ErrMalformed, name, i, len(b)-len(rest), stepRestore)
		}
		if got := xxh3.Hash(s.Data[0]); got != sum {
			return nil, &ChecksumError{Name: name, Part: sectionName(i, s.Kind), Found: hex64(got), Want: hex64(sum)}
		}
		sections, rest = append(sections, s), after
	}
	if len(rest) != 0 {
		return nil, fmt.Errorf("%w: %s: %d bytes between the last section and the trailer; %s", ErrMalformed, name, len(rest), stepRestore)
	}
	return sections, nil
}

// cutSection takes a section off the front of b.
func cutSection(b []byte) (s Section, sum uint64, rest []byte, ok bool) {
	if len(b) < sectionHead {
		return s, 0, nil, false
	}
	le := binary.LittleEndian
	n := le.Uint64(b[8:])
	if n > uint64(len(b)-sectionHead) {
		return s, 0, nil, false
	}
	end := sectionHead + int(n)
	s = Section{Kind: le.Uint32(b), Version: le.Uint32(b[4:]), Data: [][]byte{b[sectionHead:end:end]}}
	return s, le.Uint64(b[16:]), b[end:], true
}

// whichChecksum finds out which section rotted, for the message: the checksum of
// the file does not match.
func whichChecksum(name string, b []byte, count uint32, found, want Sum) error {
	e := &ChecksumError{Name: name, Part: "file", Found: hex.EncodeToString(found[:]), Want: hex.EncodeToString(want[:])}
	rest := b[headerSize:]
	for i := range count {
		s, sum, after, ok := cutSection(rest)
		if !ok {
			return e
		}
		if got := xxh3.Hash(s.Data[0]); got != sum {
			e.Part, e.Found, e.Want = sectionName(i, s.Kind), hex64(got), hex64(sum)
			return e
		}
		rest = after
	}
	return e
}

func sectionName(i, kind uint32) string { return fmt.Sprintf("section %d (kind %d)", i, kind) }

func hex64(v uint64) string { return fmt.Sprintf("%016x", v) }
