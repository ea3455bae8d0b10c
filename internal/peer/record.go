package peer

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"

	"galgo/internal/vsr"
)

// recordHeadSize is the length of what precedes each record on a connection. All
// integers are little-endian.
//
//	off  size  field
//	  0     4  size      of what follows the head, in bytes
//	  4     1  kind
//	  5     3  reserved  zero
//	  8     8  checksum  XXH3-64 of what follows; 0 for a frame, which has its own
//
// What follows is, by kind:
//
//	frame   a frame of the core (internal/vsr)
//	call    8 id, 1 subject, then the question
//	answer  8 id, then the answer
//	state   8 life, 1 phase of the sender
//	ping    nothing
//	lost    8 id of a question whose answer there was no room for
const recordHeadSize = 16

type recordKind uint8

const (
	recordFrame recordKind = 1 + iota
	recordCall
	recordAnswer
	recordState
	recordPing
	recordLost
	recordKinds
)

const (
	callHeadSize   = 9
	answerHeadSize = 8
	stateSize      = 9
	// BodyMax bounds a question or an answer in bytes.
	BodyMax = 64<<20 + 64<<10
)

// Errors of what comes over a connection. They end it.
var (
	ErrRecord   = errors.New("peer: a record is malformed")
	ErrChecksum = errors.New("peer: a record does not match its checksum")
)

type recordHead struct {
	size     int
	kind     recordKind
	checksum uint64
}

func (h recordHead) put(b []byte) {
	clear(b[:recordHeadSize])
	le := binary.LittleEndian
	le.PutUint32(b, uint32(h.size))
	b[4] = byte(h.kind)
	le.PutUint64(b[8:], h.checksum)
}

// decodeRecordHead reads a head and bounds what it announces.
func decodeRecordHead(b []byte) (recordHead, error) {
	le := binary.LittleEndian
	h := recordHead{size: int(le.Uint32(b)), kind: recordKind(b[4]), checksum: le.Uint64(b[8:])}
	least, most := 0, 0
	switch h.kind {
	case recordFrame:
		least, most = vsr.EnvelopeSize, vsr.FrameMax
	case recordCall:
		least, most = callHeadSize, callHeadSize+BodyMax
	case recordAnswer:
		least, most = answerHeadSize, answerHeadSize+BodyMax
	case recordState:
		least, most = stateSize, stateSize
	case recordLost:
		least, most = answerHeadSize, answerHeadSize
	case recordPing:
	default:
		return h, fmt.Errorf("%w: kind %d", ErrRecord, b[4])
	}
	if h.size < least || h.size > most || b[5] != 0 || b[6] != 0 || b[7] != 0 {
		return h, fmt.Errorf("%w: kind %d with %d bytes, want %d..%d", ErrRecord, h.kind, h.size, least, most)
	}
	return h, nil
}

// check compares a record with its checksum; a frame is checked when it is decoded.
func (h recordHead) check(body []byte) error {
	if h.kind != recordFrame && xxh3.Hash(body) != h.checksum {
		return fmt.Errorf("%w: kind %d of %d bytes", ErrChecksum, h.kind, h.size)
	}
	return nil
}

// sumOf is the checksum of a record in two parts.
func sumOf(head, body []byte) uint64 {
	if len(body) == 0 {
		return xxh3.Hash(head)
	}
	h := xxh3.New()
	h.Write(head)
	h.Write(body)
	return h.Sum64()
}

// bulky are the messages with bodies. They belong to the bulk lane and to no other.
func bulky(k vsr.MessageKind) bool {
	return k == vsr.MessagePrepare || k == vsr.MessageRepairPrepare || k == vsr.MessageChunk
}
