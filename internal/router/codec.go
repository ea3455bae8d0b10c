package router

import (
	"encoding/binary"
	"errors"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/wire"
)

// Subjects of the questions between nodes. The bytes are little-endian, and belong to
// the version of the links (internal/peer).
const (
	subjectMetadata uint8 = 1 + iota
	subjectSend
	subjectStoreOffset
	subjectDeleteOffset
	subjectFresh
	subjectClaim
)

// errMalformed: a question or an answer has a length that it cannot have.
var errMalformed = errors.New("router: what another node sent is malformed")

// refusalSize is the length of an answer that says why nothing was done: 1 is that the
// node leads and has too much to do. Without it there is no reason.
const refusalSize = 1

const reasonBusy = 1

// refusalOf reads an answer that is no longer than a refusal.
func refusalOf(answer []byte) refusal {
	if len(answer) == refusalSize && answer[0] == reasonBusy {
		return busy
	}
	return nothing
}

// turnSize is the length of what keeps the order of writes, before each: 8 process of
// the one who asks, 8 round.
const turnSize = 16

func appendTurn(b []byte, asker, round uint64) []byte {
	b = binary.LittleEndian.AppendUint64(b, asker)
	return binary.LittleEndian.AppendUint64(b, round)
}

// cutTurn returns what follows.
func cutTurn(b []byte) (asker, round uint64, rest []byte, err error) {
	if len(b) < turnSize {
		return 0, 0, nil, errMalformed
	}
	return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), b[turnSize:], nil
}

const (
	metadataSize      = 53
	metadataReplySize = 31
	sendSize          = 57
	sendReplySize     = 20
	offsetSize        = 90
	offsetReplySize   = 29
	freshnessSize     = 8
)

const (
	flagNoAck = 1 << iota
	flagMonotone
)

// appendMetadata encodes all but the body, which goes behind:
// 1 operation, 16 client, 8 session, 8 request, 16 request checksum, 4 user.
func appendMetadata(b []byte, r *edge.MetadataRequest) []byte {
	le := binary.LittleEndian
	b = append(b, byte(r.Operation))
	b = append(b, r.Client[:]...)
	b = le.AppendUint64(b, r.Session)
	b = le.AppendUint64(b, r.Request)
	b = append(b, r.RequestSum[:]...)
	return le.AppendUint32(b, r.User)
}

func decodeMetadata(b []byte) (r edge.MetadataRequest, err error) {
	if len(b) < metadataSize {
		return r, errMalformed
	}
	le := binary.LittleEndian
	r = edge.MetadataRequest{
		Operation: wire.Operation(b[0]), Session: le.Uint64(b[17:]), Request: le.Uint64(b[25:]), User: le.Uint32(b[49:]), Body: b[metadataSize:],
	}
	copy(r.Client[:], b[1:])
	copy(r.RequestSum[:], b[33:])
	return r, nil
}

// appendMetadataReply: 1 outcome, 1 operation, 1 reason, 8 op, 8 born, 8 timestamp,
// 4 code, then the body.
func appendMetadataReply(b []byte, r *edge.MetadataReply) []byte {
	le := binary.LittleEndian
	b = append(b, byte(r.Outcome), byte(r.Operation), byte(r.Reason))
	b = le.AppendUint64(b, r.Op)
	b = le.AppendUint64(b, r.Born)
	b = le.AppendUint64(b, r.Timestamp)
	b = le.AppendUint32(b, uint32(r.Code))
	return append(b, r.Body...)
}

func decodeMetadataReply(b []byte) (r edge.MetadataReply, err error) {
	if len(b) < metadataReplySize || edge.MetadataOutcome(b[0]) > edge.OutcomeDrop {
		return r, errMalformed
	}
	le := binary.LittleEndian
	return edge.MetadataReply{
		Outcome: edge.MetadataOutcome(b[0]), Operation: wire.Operation(b[1]), Reason: wire.EvictionReason(b[2]), Op: le.Uint64(b[3:]),
		Born: le.Uint64(b[11:]), Timestamp: le.Uint64(b[19:]), Code: galgo.Code(le.Uint32(b[27:])), Body: b[metadataReplySize:],
	}, nil
}

// appendSend encodes all but the batch, which goes behind:
// 8 group, 16 client, 8 request, 4 user, 4 count, 8 born, 8 op of the metadata that were
// seen when it was asked, 1 numbered.
func appendSend(b []byte, r *edge.SendRequest, seen uint64) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, r.Group)
	b = append(b, r.Client[:]...)
	b = le.AppendUint64(b, r.Request)
	b = le.AppendUint32(b, r.User)
	b = le.AppendUint32(b, r.Count)
	b = le.AppendUint64(b, r.Born)
	b = le.AppendUint64(b, seen)
	if r.Numbered {
		return append(b, 1)
	}
	return append(b, 0)
}

func decodeSend(b []byte) (r edge.SendRequest, seen uint64, err error) {
	if len(b) < sendSize || b[56] > 1 {
		return r, 0, errMalformed
	}
	le := binary.LittleEndian
	r = edge.SendRequest{
		Group: le.Uint64(b), Request: le.Uint64(b[24:]), User: le.Uint32(b[32:]), Count: le.Uint32(b[36:]), Born: le.Uint64(b[40:]), Numbered: b[56] == 1, Batch: b[sendSize:],
	}
	copy(r.Client[:], b[8:])
	return r, le.Uint64(b[48:]), nil
}

// appendSendReply: 4 code, 8 base offset, 8 op.
func appendSendReply(b []byte, r *edge.SendReply) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(r.Code))
	b = le.AppendUint64(b, r.Base)
	return le.AppendUint64(b, r.Op)
}

func decodeSendReply(b []byte) (r edge.SendReply, err error) {
	if len(b) != sendReplySize {
		return r, errMalformed
	}
	le := binary.LittleEndian
	return edge.SendReply{Code: galgo.Code(le.Uint32(b)), Base: le.Uint64(b[4:]), Op: le.Uint64(b[12:])}, nil
}

// appendOffset: 8 group, 1 kind, 4 key, 8 offset, 1 flags, 16 client, 8 request, 4 user,
// 8 born, 16 member, 8 op of the metadata that were seen when it was asked, 8 tenure.
func appendOffset(b []byte, r *edge.OffsetRequest, seen uint64) []byte {
	le := binary.LittleEndian
	b = append(le.AppendUint64(b, r.Group), byte(r.Kind))
	b = le.AppendUint32(b, r.Key)
	b = le.AppendUint64(b, r.Offset)
	var flags byte
	if r.NoAck {
		flags |= flagNoAck
	}
	if r.Monotone {
		flags |= flagMonotone
	}
	b = append(b, flags)
	b = append(b, r.Client[:]...)
	b = le.AppendUint64(b, r.Request)
	b = le.AppendUint32(b, r.User)
	b = le.AppendUint64(b, r.Born)
	b = append(b, r.Member[:]...)
	b = le.AppendUint64(b, seen)
	return le.AppendUint64(b, r.Tenure)
}

func decodeOffset(b []byte) (r edge.OffsetRequest, seen uint64, err error) {
	if len(b) != offsetSize || b[21]&^(flagNoAck|flagMonotone) != 0 {
		return r, 0, errMalformed
	}
	le := binary.LittleEndian
	r = edge.OffsetRequest{
		Group: le.Uint64(b), Kind: galgo.ConsumerKind(b[8]), Key: le.Uint32(b[9:]), Offset: le.Uint64(b[13:]),
		NoAck: b[21]&flagNoAck != 0, Monotone: b[21]&flagMonotone != 0, Request: le.Uint64(b[38:]), User: le.Uint32(b[46:]), Born: le.Uint64(b[50:]), Tenure: le.Uint64(b[82:]),
	}
	copy(r.Client[:], b[22:])
	copy(r.Member[:], b[58:])
	return r, le.Uint64(b[74:]), nil
}

// appendOffsetReply: 4 code, 1 found, 8 stored, 8 current, 8 op.
func appendOffsetReply(b []byte, r *edge.OffsetReply) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(r.Code))
	if r.Found {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	b = le.AppendUint64(b, r.Stored)
	b = le.AppendUint64(b, r.Current)
	return le.AppendUint64(b, r.Op)
}

func decodeOffsetReply(b []byte) (r edge.OffsetReply, err error) {
	if len(b) != offsetReplySize || b[4] > 1 {
		return r, errMalformed
	}
	le := binary.LittleEndian
	return edge.OffsetReply{Code: galgo.Code(le.Uint32(b)), Found: b[4] == 1, Stored: le.Uint64(b[5:]), Current: le.Uint64(b[13:]), Op: le.Uint64(b[21:])}, nil
}
