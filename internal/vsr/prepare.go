package vsr

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"
)

type (
	// Op is a position in the prepare log of a group, counted from 1; 0 means none.
	Op uint64
	// View decides the primary of a group: view mod the number of replicas.
	View uint32
	// GroupID names a consensus group for ever: numbers are never reused, so a
	// partition that is deleted and made anew is another group.
	GroupID uint64
)

// MetadataGroup is the group that orders streams, topics, users and sessions.
// Partition groups count from 1.
const MetadataGroup GroupID = 0

// Identity is the 128-bit hash of a sealed header, which covers the hash of the
// body. Two prepares are the same if and only if their identities are equal.
type Identity [16]byte

// IsZero reports whether id names no prepare (the parent of op 1).
func (id Identity) IsZero() bool { return id == Identity{} }

// String shows the first four bytes, enough to tell prepares apart in a trace.
func (id Identity) String() string { return hex.EncodeToString(id[:4]) }

// HeaderSize is the encoded length of a prepare header in bytes.
const HeaderSize = 192

// headerVersion is the format of the header below.
const headerVersion = 1

// BodyMax bounds the body of a prepare in bytes: the largest client frame.
const BodyMax = 64 << 20

// Header is the immutable head of a prepare: sealed once by the primary that
// made it and the same bytes from then on, on every replica, on disk and on the
// wire. It is never stamped again, whatever view carries it (design rule 7).
//
//	off  size  field
//	  0    16  identity   XXH3-128 over bytes 16..192
//	 16    16  body       XXH3-128 over the body
//	 32    16  parent     identity of op-1 in this group; zero for op 1
//	 48    16  cluster
//	 64    16  client     zero for operations galgo makes itself
//	 80    16  checksum   the request checksum the client sent; zero if none
//	 96     8  group
//	104     8  incarnation  metadata revision that created the group; 0 for metadata
//	112     8  op
//	120     8  commit     what the primary had committed when it sealed this
//	128     8  timestamp  µs since the Unix epoch, strictly growing in a group
//	136     8  session    epoch of the client's session
//	144     8  request    the client's request number
//	152     8  offset     base offset of a batch of messages; else 0
//	160     4  view       the view it was sealed in
//	164     4  size       of the body in bytes
//	168     4  user       acting user, stamped by the primary
//	172     1  operation
//	173     1  version    1
//	174    18  reserved   zero
type Header struct {
	Identity    Identity
	BodySum     [16]byte
	Parent      Identity
	Cluster     [16]byte
	Client      [16]byte
	RequestSum  [16]byte
	Group       GroupID
	Incarnation uint64
	Op          Op
	Commit      Op
	Timestamp   uint64
	Session     uint64
	Request     uint64
	Offset      uint64
	View        View
	Size        uint32
	User        uint32
	Operation   uint8
}

// Prepare is a sealed header with its body. Neither is changed after Seal; the
// body may be shared by log, peers, cache and segment.
type Prepare struct {
	Header
	Body []byte
}

// Errors of DecodeHeader and CheckBody.
var (
	ErrHeaderShort    = errors.New("vsr: prepare header is cut short")
	ErrHeaderVersion  = errors.New("vsr: prepare header has an unknown version")
	ErrHeaderChecksum = errors.New("vsr: prepare header does not match its identity")
	ErrHeaderReserved = errors.New("vsr: prepare header has non-zero reserved bytes")
	ErrHeaderSize     = errors.New("vsr: prepare header names a body above the limit")
	ErrBodyChecksum   = errors.New("vsr: prepare body does not match its header")
)

// Seal fills Size, BodySum and Identity from the rest. It is called once, by the
// primary that makes the prepare.
func (p *Prepare) Seal() {
	if len(p.Body) > BodyMax {
		panic(fmt.Sprintf("vsr: seal op %d with a body of %d bytes, limit %d", p.Op, len(p.Body), BodyMax))
	}
	p.Size = uint32(len(p.Body))
	putSum(&p.BodySum, p.Body)
	var buf [HeaderSize]byte
	p.Header.put(buf[:])
	putSum((*[16]byte)(&p.Identity), buf[16:])
}

// AppendHeader appends the encoded header to b.
func (h *Header) AppendHeader(b []byte) []byte {
	n := len(b)
	b = append(b, make([]byte, HeaderSize)...)
	h.put(b[n:])
	return b
}

// PutHeader encodes the header into b, which must have HeaderSize bytes.
func (h *Header) PutHeader(b []byte) { h.put(b[:HeaderSize:HeaderSize]) }

func (h *Header) put(b []byte) {
	_ = b[HeaderSize-1]
	copy(b[0:], h.Identity[:])
	copy(b[16:], h.BodySum[:])
	copy(b[32:], h.Parent[:])
	copy(b[48:], h.Cluster[:])
	copy(b[64:], h.Client[:])
	copy(b[80:], h.RequestSum[:])
	le := binary.LittleEndian
	le.PutUint64(b[96:], uint64(h.Group))
	le.PutUint64(b[104:], h.Incarnation)
	le.PutUint64(b[112:], uint64(h.Op))
	le.PutUint64(b[120:], uint64(h.Commit))
	le.PutUint64(b[128:], h.Timestamp)
	le.PutUint64(b[136:], h.Session)
	le.PutUint64(b[144:], h.Request)
	le.PutUint64(b[152:], h.Offset)
	le.PutUint32(b[160:], uint32(h.View))
	le.PutUint32(b[164:], h.Size)
	le.PutUint32(b[168:], h.User)
	b[172] = h.Operation
	b[173] = headerVersion
	clear(b[174:HeaderSize])
}

// DecodeHeader reads and verifies a header. A header that decodes is exactly one
// that Seal made: its identity covers every other byte.
func DecodeHeader(b []byte) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, fmt.Errorf("%w: %d bytes of %d", ErrHeaderShort, len(b), HeaderSize)
	}
	if b[173] != headerVersion {
		return Header{}, fmt.Errorf("%w: %d", ErrHeaderVersion, b[173])
	}
	var h Header
	copy(h.Identity[:], b)
	if got := Identity(sum128(b[16:HeaderSize])); got != h.Identity {
		return Header{}, fmt.Errorf("%w: it hashes to %v, its identity is %v", ErrHeaderChecksum, got, h.Identity)
	}
	for _, c := range b[174:HeaderSize] {
		if c != 0 {
			return Header{}, ErrHeaderReserved
		}
	}
	copy(h.BodySum[:], b[16:])
	copy(h.Parent[:], b[32:])
	copy(h.Cluster[:], b[48:])
	copy(h.Client[:], b[64:])
	copy(h.RequestSum[:], b[80:])
	le := binary.LittleEndian
	h.Group = GroupID(le.Uint64(b[96:]))
	h.Incarnation = le.Uint64(b[104:])
	h.Op = Op(le.Uint64(b[112:]))
	h.Commit = Op(le.Uint64(b[120:]))
	h.Timestamp = le.Uint64(b[128:])
	h.Session = le.Uint64(b[136:])
	h.Request = le.Uint64(b[144:])
	h.Offset = le.Uint64(b[152:])
	h.View = View(le.Uint32(b[160:]))
	h.Size = le.Uint32(b[164:])
	h.User = le.Uint32(b[168:])
	h.Operation = b[172]
	if h.Size > BodyMax {
		return Header{}, fmt.Errorf("%w: %d", ErrHeaderSize, h.Size)
	}
	return h, nil
}

// CheckBody reports whether body is the one the header was sealed with.
func (h *Header) CheckBody(body []byte) error {
	if uint64(len(body)) != uint64(h.Size) {
		return fmt.Errorf("%w: op %d has %d bytes, want %d", ErrBodyChecksum, h.Op, len(body), h.Size)
	}
	if got := sum128(body); got != h.BodySum {
		return fmt.Errorf("%w: op %d hashes to %v, want %v", ErrBodyChecksum, h.Op, Identity(got), Identity(h.BodySum))
	}
	return nil
}

// sum128 is XXH3-128 of b in big-endian order of its canonical form.
func sum128(b []byte) (sum [16]byte) {
	putSum(&sum, b)
	return sum
}

// putSum is sum128 into a place: to return 16 bytes that were just written as two
// words, and to copy them as one, costs as much as to hash the 64 before.
func putSum(to *[16]byte, b []byte) {
	h := xxh3.Hash128(b)
	binary.BigEndian.PutUint64(to[:8], h.Hi)
	binary.BigEndian.PutUint64(to[8:], h.Lo)
}
