package wire

import (
	"fmt"

	"github.com/zeebo/xxh3"

	"galgo"
)

// HeaderSize is the length in bytes of every header.
const HeaderSize = 256

// FrameSizeMax is the default bound of a frame in bytes, header included.
const FrameSizeMax = 64 << 20

// FrameCommand is the kind of a frame.
type FrameCommand uint8

// The kinds a client connection sees. All others up to frameCommandLast belong to
// replicas; a server ignores them and a client calls them CodeInvalidCommand.
const (
	FrameRequest  FrameCommand = 5
	FrameReply    FrameCommand = 8
	FrameEviction FrameCommand = 13

	frameCommandLast FrameCommand = 29
)

// Offsets of the prefix that all headers share. What lies between is zero.
const (
	offCluster = 32
	offSize    = 48
	offView    = 52
	offRelease = 56
	offCommand = 60
	offReplica = 61
	offKind    = 128
)

// FrameSize is the length of a frame in bytes as its header tells it, unchecked.
// The header has HeaderSize bytes.
func FrameSize(header []byte) uint32 { return le.Uint32(header[offSize:]) }

// FrameCommandOf is the kind of a frame. The header has HeaderSize bytes.
func FrameCommandOf(header []byte) FrameCommand { return FrameCommand(header[offCommand]) }

// RequestHeader leads a request.
//
//	off  size  field
//	  0    32  two checksums, not used towards clients: 0
//	 32    16  cluster          0
//	 48     4  size             of the frame, header included
//	 52     4  view             0
//	 56     4  release          0
//	 60     1  command          5
//	 61     1  replica          0
//	 62    66  reserved
//	128    16  client           not zero
//	144    16  request checksum XXH3-64 of the body in the low 8 bytes, or 0
//	160     8  timestamp        0, echoed
//	168     8  request          number of the request
//	176     1  operation
//	177     7  padding
//	184     8  session          0 before the sign-in
//	192     4  user             0; never trusted
//	196     4  command code     with OperationNonReplicated, else 0
//	200    56  reserved
type RequestHeader struct {
	Size            uint32
	Client          galgo.ClientID
	RequestChecksum [16]byte
	Timestamp       uint64
	Request         uint64
	Operation       Operation
	Session         uint64
	UserID          uint32
	Command         Command // only with OperationNonReplicated
}

// DecodeRequestHeader reads the header of a request. It checks the kind and that
// size covers the header; it does not judge operation, numbers or what is
// reserved. The error is an ErrHeader.
func DecodeRequestHeader(b []byte) (RequestHeader, error) {
	if err := checkHeader(b, FrameRequest); err != nil {
		return RequestHeader{}, err
	}
	h := RequestHeader{
		Size:      le.Uint32(b[offSize:]),
		Timestamp: le.Uint64(b[160:]),
		Request:   le.Uint64(b[offRequestNumber:]),
		Operation: Operation(b[176]),
		Session:   le.Uint64(b[184:]),
		UserID:    le.Uint32(b[192:]),
	}
	copy(h.Client[:], b[128:])
	copy(h.RequestChecksum[:], b[144:])
	if h.Operation == OperationNonReplicated {
		h.Command = Command(le.Uint32(b[196:]))
	}
	return h, nil
}

// Put writes the header over b, which has HeaderSize bytes.
func (h *RequestHeader) Put(b []byte) {
	putPrefix(b, h.Size, FrameRequest)
	copy(b[128:], h.Client[:])
	copy(b[144:], h.RequestChecksum[:])
	le.PutUint64(b[160:], h.Timestamp)
	le.PutUint64(b[offRequestNumber:], h.Request)
	b[176] = byte(h.Operation)
	le.PutUint64(b[184:], h.Session)
	le.PutUint32(b[192:], h.UserID)
	if h.Operation == OperationNonReplicated {
		le.PutUint32(b[196:], uint32(h.Command))
	}
}

// Append appends the header to b.
func (h *RequestHeader) Append(b []byte) []byte {
	b, p := grow(b, HeaderSize)
	h.Put(p)
	return b
}

// AppendFrame sets Size and appends header and body.
func (h *RequestHeader) AppendFrame(b, body []byte) []byte {
	h.Size = frameSize(len(body))
	return append(h.Append(b), body...)
}

// EffectiveCommand is the command that the request stands for: what the header
// says for OperationNonReplicated, else what the operation implies; 0 if none.
func (h *RequestHeader) EffectiveCommand() Command {
	if h.Operation == OperationNonReplicated {
		return h.Command
	}
	c, _ := h.Operation.Command()
	return c
}

// ChecksumMatches reports whether body is what the client stamped. A checksum of
// zero was not stamped and matches everything.
func (h *RequestHeader) ChecksumMatches(body []byte) bool {
	return h.RequestChecksum == [16]byte{} || h.RequestChecksum == RequestChecksum(body)
}

// RequestChecksum is XXH3-64 of a request's body, widened to 16 bytes.
func RequestChecksum(body []byte) (sum [16]byte) {
	le.PutUint64(sum[:], xxh3.Hash(body))
	return sum
}

// ReplyHeader leads a reply.
//
//	off  size  field
//	  0   128  as in a request, command 8
//	128    16  request checksum of the request
//	144     8  context          of a sign-in: the op that made the client's entry; else 0
//	152     8  reserved
//	160    16  client
//	176     8  op
//	184     8  commit
//	192     8  timestamp
//	200     8  request          of the request; clients check it
//	208     1  operation        see OperationInReply
//	209     7  padding
//	216     4  status           0, or the code of a denial, and then no body
//	220    36  reserved
type ReplyHeader struct {
	Cluster         [16]byte
	Size            uint32
	View            uint32
	Release         uint32
	Replica         uint8
	RequestChecksum [16]byte
	Context         uint64
	Client          galgo.ClientID
	Op              uint64
	Commit          uint64
	Timestamp       uint64
	Request         uint64
	Operation       Operation
	Status          galgo.Code
}

// Where requests have their number, and replies have it again.
const (
	offRequestNumber = 168
	offReplyRequest  = 200
)

// offReplyContext is where galgo tells a client that signs in which entry of its
// client table the session continues. Stock servers leave it zero, and stock
// clients do not look.
const offReplyContext = 144

// ReplyTo starts the header of a reply: it echoes what a client may look at. The
// operation is that of the request; for a success or a result it must go through
// OperationInReply, which ReplyTo does when status is CodeOK.
func ReplyTo(h *RequestHeader, status galgo.Code) ReplyHeader {
	r := ReplyHeader{
		RequestChecksum: h.RequestChecksum,
		Client:          h.Client,
		Timestamp:       h.Timestamp,
		Request:         h.Request,
		Operation:       h.Operation,
		Status:          status,
	}
	if status == galgo.CodeOK {
		r.Operation = OperationInReply(h.Operation)
	}
	return r
}

// DecodeReplyHeader reads the header of a reply. The error is an ErrHeader.
func DecodeReplyHeader(b []byte) (ReplyHeader, error) {
	if err := checkHeader(b, FrameReply); err != nil {
		return ReplyHeader{}, err
	}
	h := ReplyHeader{
		Size:      le.Uint32(b[offSize:]),
		View:      le.Uint32(b[offView:]),
		Release:   le.Uint32(b[offRelease:]),
		Replica:   b[offReplica],
		Context:   le.Uint64(b[offReplyContext:]),
		Op:        le.Uint64(b[176:]),
		Commit:    le.Uint64(b[184:]),
		Timestamp: le.Uint64(b[192:]),
		Request:   le.Uint64(b[offReplyRequest:]),
		Operation: Operation(b[208]),
		Status:    galgo.Code(le.Uint32(b[216:])),
	}
	copy(h.Cluster[:], b[offCluster:])
	copy(h.RequestChecksum[:], b[128:])
	copy(h.Client[:], b[160:])
	return h, nil
}

// Put writes the header over b, which has HeaderSize bytes.
func (h *ReplyHeader) Put(b []byte) {
	putPrefix(b, h.Size, FrameReply)
	copy(b[offCluster:], h.Cluster[:])
	le.PutUint32(b[offView:], h.View)
	le.PutUint32(b[offRelease:], h.Release)
	b[offReplica] = h.Replica
	copy(b[128:], h.RequestChecksum[:])
	le.PutUint64(b[offReplyContext:], h.Context)
	copy(b[160:], h.Client[:])
	le.PutUint64(b[176:], h.Op)
	le.PutUint64(b[184:], h.Commit)
	le.PutUint64(b[192:], h.Timestamp)
	le.PutUint64(b[offReplyRequest:], h.Request)
	b[208] = byte(h.Operation)
	le.PutUint32(b[216:], uint32(h.Status))
}

// Append appends the header to b.
func (h *ReplyHeader) Append(b []byte) []byte {
	b, p := grow(b, HeaderSize)
	h.Put(p)
	return b
}

// AppendFrame sets Size and appends header and body.
func (h *ReplyHeader) AppendFrame(b, body []byte) []byte {
	h.Size = frameSize(len(body))
	return append(h.Append(b), body...)
}

func checkHeader(b []byte, want FrameCommand) error {
	if len(b) < HeaderSize {
		return headerErrorf("header of %d bytes, want %d", len(b), HeaderSize)
	}
	if got := FrameCommandOf(b); got != want {
		return headerErrorf("frame of kind %d, want %d", got, want)
	}
	if size := FrameSize(b); size < HeaderSize {
		return headerErrorf("frame size %d is below that of the header", size)
	}
	return nil
}

// putPrefix clears the header and writes the part that all kinds share.
func putPrefix(b []byte, size uint32, command FrameCommand) {
	clear(b[:HeaderSize])
	le.PutUint32(b[offSize:], size)
	b[offCommand] = byte(command)
}

// grow appends n bytes to b and returns them too; they are not cleared.
func grow(b []byte, n int) (all, added []byte) {
	if cap(b)-len(b) < n {
		b = append(b, make([]byte, n)...)
	} else {
		b = b[:len(b)+n]
	}
	return b, b[len(b)-n:]
}

func frameSize(body int) uint32 {
	size := uint64(HeaderSize) + uint64(body)
	if size > 1<<32-1 {
		panic(fmt.Sprintf("wire: frame with a body of %d bytes", body))
	}
	return uint32(size)
}
