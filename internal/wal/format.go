package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"

	"galgo/internal/disk"
	"galgo/internal/vsr"
)

// Version of the format. A change of anything in this file is another version.
const Version = 1

const (
	fileMagic  = "galgowal"
	frameMagic = 0x6c777267 // "grwl"

	blockSize = 4096 // of the file header; the first record follows
	frameSize = 64
	alignment = 8

	// headMax bounds what a frame's checksum covers of its payload.
	headMax = 64 << 10
	// payloadMax bounds a payload: a prepare with the largest body, sealed.
	payloadMax = vsr.HeaderSize + vsr.BodyMax + sealedOverhead
	// padMax bounds the padding: up to alignment, and then to a sector.
	padMax = alignment + disk.Sector
)

// StateMax bounds the state of a group in bytes.
const StateMax = 4096

// Kind tells records apart.
type Kind uint8

// Kinds of records. The first four may be given to Write.
const (
	// KindPrepare: the payload is the prepare header and the body.
	KindPrepare Kind = 1
	// KindTruncate: the ops of the group above this one (u64) are dead.
	KindTruncate Kind = 2
	// KindState: what the group must not forget, at most StateMax bytes. The
	// newest counts.
	KindState Kind = 3
	// KindReset: the log of the group begins anew behind this prepare header,
	// which a checkpoint has that came from elsewhere. Earlier ops are dead.
	KindReset Kind = 4
	// KindFloor: this prepare header is the group's commit point. Everything up
	// to it is in a checkpoint, and may be in files that are gone.
	KindFloor Kind = 5
	// KindForget: the group was deleted. No payload.
	KindForget Kind = 6
	// KindMark: a witness that the log was synced. The payload is the lowest
	// file that is needed (u64).
	KindMark Kind = 7
)

var kindNames = [...]string{"", "prepare", "truncate", "state", "reset", "floor", "forget", "mark"}

// String names the kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) && k != 0 {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Position is a place in the log.
type Position struct {
	File   uint64 // sequence number, counted from 1
	Offset int64  // bytes
}

// Less reports whether p is before q.
func (p Position) Less(q Position) bool {
	return p.File < q.File || p.File == q.File && p.Offset < q.Offset
}

// String is file:offset.
func (p Position) String() string { return fmt.Sprintf("%d:%d", p.File, p.Offset) }

// fileHeader is the first block of a file.
//
//	 off  size  field
//	   0     8  magic     "galgowal"
//	   8     4  version   1
//	  12     4  reserved  zero
//	  16    16  cluster
//	  32     1  replica
//	  33     3  reserved  zero
//	  36     4  shard
//	  40     8  sequence  also the name of the file
//	  48     8  size      of the whole file in bytes
//	  56     8  salt      seed of the checksums of this file's records
//	  64  4024  reserved  zero
//	4088     8  checksum  XXH3-64 over bytes 0..4088
type fileHeader struct {
	cluster  [16]byte
	replica  uint8
	shard    uint32
	sequence uint64
	size     int64
	salt     uint64
}

var (
	errNoHeader  = errors.New("does not begin with the magic of a log")
	errHeaderSum = errors.New("header does not match its checksum")
	errReserved  = errors.New("reserved bytes are not zero")
	errSize      = errors.New("header names an impossible size")
)

func (h *fileHeader) put(b []byte) {
	b = b[:blockSize]
	clear(b)
	le := binary.LittleEndian
	copy(b, fileMagic)
	le.PutUint32(b[8:], Version)
	copy(b[16:], h.cluster[:])
	b[32] = h.replica
	le.PutUint32(b[36:], h.shard)
	le.PutUint64(b[40:], h.sequence)
	le.PutUint64(b[48:], uint64(h.size))
	le.PutUint64(b[56:], h.salt)
	le.PutUint64(b[4088:], xxh3.Hash(b[:4088]))
}

// decodeFileHeader looks at the version before anything that a later version may
// have changed.
func decodeFileHeader(b []byte) (fileHeader, error) {
	if len(b) < blockSize || string(b[:8]) != fileMagic {
		return fileHeader{}, errNoHeader
	}
	le := binary.LittleEndian
	if v := le.Uint32(b[8:]); v != Version {
		return fileHeader{}, fmt.Errorf("%w: %d, this program knows %d", ErrVersion, v, Version)
	}
	if got, want := xxh3.Hash(b[:4088]), le.Uint64(b[4088:]); got != want {
		return fileHeader{}, fmt.Errorf("%w: %016x, want %016x", errHeaderSum, got, want)
	}
	h := fileHeader{
		replica:  b[32],
		shard:    le.Uint32(b[36:]),
		sequence: le.Uint64(b[40:]),
		salt:     le.Uint64(b[56:]),
	}
	copy(h.cluster[:], b[16:])
	size := le.Uint64(b[48:])
	if size < FileSizeMin || size > fileSizeCeiling || size%disk.Sector != 0 {
		return fileHeader{}, fmt.Errorf("%w: %d", errSize, size)
	}
	h.size = int64(size)
	var again [blockSize]byte
	if h.put(again[:]); !bytes.Equal(again[:], b[:blockSize]) {
		return fileHeader{}, errReserved
	}
	return h, nil
}

// frame precedes the payload of every record. Payload and padding follow it.
//
//	off  size  field
//	  0     8  checksum  XXH3-64, seeded with the file's salt, over bytes 8..64
//	                     and the first head bytes of the payload
//	  8     4  magic     "grwl"
//	 12     1  kind      128 more if the payload is sealed
//	 13     1  reserved  zero
//	 14     2  pad       bytes of zeros after the payload
//	 16     8  file      sequence number: a recycled file still holds records of
//	                     its former life
//	 24     8  group     0 where the kind has none
//	 32     8  synced    file and, in units of 8 bytes, ...
//	 40     4            ... offset up to which the log was known synced
//	 44     4  at        own offset in units of 8 bytes
//	 48     4  length    of the payload in bytes
//	 52     4  head      bytes of the payload that the checksum covers: the header
//	                     of a prepare, whose hash covers the body; the hash of
//	                     what is sealed; else all
//	 56     8  previous  checksum of the record before; 0 for the first of a log
type frame struct {
	sum    uint64
	kind   Kind
	sealed bool
	pad    uint16
	file   uint64
	group  vsr.GroupID
	synced Position
	at     int64
	length uint32
	head   uint32
	prev   uint64
}

// size is the length of the whole record in bytes.
func (f *frame) size() int64 { return frameSize + int64(f.length) + int64(f.pad) }

// put encodes all but the checksum.
func (f *frame) put(b []byte) {
	_ = b[frameSize-1]
	le := binary.LittleEndian
	le.PutUint32(b[8:], frameMagic)
	b[12] = byte(f.kind)
	if f.sealed {
		b[12] |= sealedFlag
	}
	b[13] = 0
	le.PutUint16(b[14:], f.pad)
	le.PutUint64(b[16:], f.file)
	le.PutUint64(b[24:], uint64(f.group))
	le.PutUint64(b[32:], f.synced.File)
	le.PutUint32(b[40:], uint32(f.synced.Offset/alignment))
	le.PutUint32(b[44:], uint32(f.at/alignment))
	le.PutUint32(b[48:], f.length)
	le.PutUint32(b[52:], f.head)
	le.PutUint64(b[56:], f.prev)
}

// seal puts the checksum into an encoded frame that the covered part of its
// payload follows, and returns it.
func seal(b []byte, salt uint64) uint64 {
	sum := xxh3.HashSeed(b[8:], salt)
	binary.LittleEndian.PutUint64(b, sum)
	return sum
}

var (
	errNoFrame  = errors.New("no record begins here")
	errStale    = errors.New("record of a former life of this file")
	errBounds   = errors.New("record has impossible bounds")
	errFrameSum = errors.New("record does not match its checksum")
	errChain    = errors.New("record does not follow the one before it")
	errPayload  = errors.New("payload does not fit its kind")
)

// looksLikeFrame is the cheap test of a search: magic and file sequence.
func looksLikeFrame(b []byte, file uint64) bool {
	return binary.LittleEndian.Uint32(b[8:]) == frameMagic && binary.LittleEndian.Uint64(b[16:]) == file
}

// parseFrame decodes the fixed part and checks that it is a frame of the given
// file, at the given offset, whose record ends within size. The checksum still
// has to be compared, over frame and head.
func parseFrame(b []byte, file uint64, at, size int64) (frame, error) {
	if len(b) < frameSize || binary.LittleEndian.Uint32(b[8:]) != frameMagic {
		return frame{}, errNoFrame
	}
	le := binary.LittleEndian
	f := frame{
		sum:    le.Uint64(b),
		kind:   Kind(b[12] &^ sealedFlag),
		sealed: b[12]&sealedFlag != 0,
		pad:    le.Uint16(b[14:]),
		file:   le.Uint64(b[16:]),
		group:  vsr.GroupID(le.Uint64(b[24:])),
		synced: Position{le.Uint64(b[32:]), int64(le.Uint32(b[40:])) * alignment},
		at:     int64(le.Uint32(b[44:])) * alignment,
		length: le.Uint32(b[48:]),
		head:   le.Uint32(b[52:]),
		prev:   le.Uint64(b[56:]),
	}
	if f.file != file {
		return frame{}, fmt.Errorf("%w: sequence %d, want %d", errStale, f.file, file)
	}
	if f.at != at || b[13] != 0 || f.length > payloadMax || f.head > min(f.length, headMax) ||
		f.pad >= padMax || f.size()%alignment != 0 || f.size() > size-at || (Position{file, at}).Less(f.synced) {
		return frame{}, fmt.Errorf("%w: at %d, length %d, head %d, pad %d, synced %v", errBounds, f.at, f.length, f.head, f.pad, f.synced)
	}
	return f, nil
}

// verify compares the checksum. b is the frame and the covered part of the
// payload.
func (f *frame) verify(b []byte, salt uint64) error {
	if got := xxh3.HashSeed(b[8:frameSize+f.head], salt); got != f.sum {
		return fmt.Errorf("%w: %016x, want %016x", errFrameSum, got, f.sum)
	}
	return nil
}

// checkPayload compares length and head with what the kind has. An unknown kind
// in a frame that verifies was written by a later version, not torn.
func (f *frame) checkPayload() error {
	ok := false
	switch f.kind {
	case KindPrepare, KindReset, KindFloor:
		ok = f.headerFits()
	case KindTruncate, KindMark:
		ok = f.length == 8 && f.head == f.length
	case KindState:
		ok = f.length <= StateMax && f.head == f.length
	case KindForget:
		ok = f.length == 0 && f.head == 0
	default:
		return fmt.Errorf("%w: a record of kind %d", ErrVersion, f.kind)
	}
	if f.sealed && !f.kind.secret() {
		return fmt.Errorf("%w: a %v that is sealed", ErrVersion, f.kind)
	}
	if !ok {
		return fmt.Errorf("%w: %v of %d bytes, %d covered", errPayload, f.kind, f.length, f.head)
	}
	return nil
}

// roundUp rounds n up to a multiple of unit, a power of two.
func roundUp(n, unit int64) int64 { return (n + unit - 1) &^ (unit - 1) }

// headerFits compares the lengths with a prepare header and, of a prepare, what follows.
func (f *frame) headerFits() bool {
	length, head := int64(f.length), uint32(vsr.HeaderSize)
	if f.sealed {
		length, head = length-sealedOverhead, sealedHead
	}
	return f.head == head && (length == vsr.HeaderSize || length > vsr.HeaderSize && f.kind == KindPrepare)
}
