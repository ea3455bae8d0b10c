package vsr

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// EnvelopeSize is what a reader needs of a frame to know its length, in bytes.
const EnvelopeSize = 72

// FrameMax bounds a frame in bytes: a prepare with the largest body.
const FrameMax = EnvelopeSize + fieldsMax + HeaderSize + BodyMax

const (
	frameMagic   = 0x7273_7667 // "gvsr"
	frameVersion = 1
	flagUnknown  = 1
	refSize      = 24
	fieldsMax    = 160
)

// frameEnvelope precedes every message between replicas. All integers are
// little-endian.
//
//	off  size  field
//	  0    16  checksum   XXH3-128 over the rest of the frame, but not a body or data
//	 16     4  magic      "gvsr"
//	 20     1  version    1
//	 21     1  kind
//	 22     1  flags      1: the sender cannot tell (do_view_change only)
//	 23     1  from
//	 24     1  to
//	 25     1  boots      numbers of lives at the end of the fields
//	 26     2  reserved   zero
//	 28     4  size       of what follows, in bytes
//	 32     8  group
//	 40     8  incarnation  of the group
//	 48     8  boot       life of the sender
//	 56     4  view       of the sender
//	 60     4  log_view   of the sender, at most view
//	 64     8  commit
//
// Then the fields of the kind (see fieldsOf), in this order:
//
//	size  field
//	  24  op, identity
//	  16  commit identity
//	   8  low
//	   8  doubt
//	   8  beat
//	   8  echo
//	   8  offset
//	   4  length
//	  56  offer      op, identity, timestamp, sum, size
//	  16  data sum   XXH3-128 over the data
//	 8 n  boots
//
// Then the rest: a prepare header and its body, which the header covers; or
// prepare headers; or refs of op and identity; or data.
type frameEnvelope struct {
	size                         uint32
	kind                         MessageKind
	flags, from, to, boots       uint8
	group, incarnation, boot, at uint64
	view, logView                uint32
}

// Errors of FrameSize and DecodeFrame.
var (
	ErrFrameShort    = errors.New("vsr: frame is cut short")
	ErrFrameMagic    = errors.New("vsr: not a frame of this protocol")
	ErrFrameVersion  = errors.New("vsr: frame has an unknown version")
	ErrFrameKind     = errors.New("vsr: frame has an unknown kind")
	ErrFrameSize     = errors.New("vsr: frame has a size that its kind cannot have")
	ErrFrameChecksum = errors.New("vsr: frame does not match its checksum")
	ErrFrameField    = errors.New("vsr: frame has a field out of range")
)

// fieldSet says which fields a kind has.
type fieldSet uint16

const (
	fieldOp fieldSet = 1 << iota
	fieldCommitIdentity
	fieldLow
	fieldDoubt
	fieldBeat
	fieldEcho
	fieldOffset
	fieldLength
	fieldOffer
	fieldDataSum
	fieldBoots
	restPrepare
	restHeaders
	restRefs
	restData
)

// fieldsOfRest are those that lie in Message.Rest.
const fieldsOfRest = fieldCommitIdentity | fieldOffer | fieldBoots | restHeaders | restRefs | restData

var fieldsOf = [...]fieldSet{
	MessageSuspect:          0,
	MessagePrepare:          fieldOp | restPrepare,
	MessagePrepareOk:        fieldOp,
	MessageCommit:           fieldOp | fieldBeat,
	MessageStartViewChange:  0,
	MessageDoViewChange:     fieldOp | fieldCommitIdentity | fieldDoubt | fieldBoots | restHeaders,
	MessageStartView:        fieldOp | fieldCommitIdentity | fieldEcho | restHeaders,
	MessagePresentView:      fieldEcho,
	MessageRequestStartView: fieldDoubt,
	MessageRequestPrepares:  restRefs,
	MessageRepairPrepare:    fieldOp | restPrepare,
	MessageRequestHeaders:   fieldOp | fieldLow,
	MessageHeaders:          fieldOp | restHeaders,
	MessageGone:             fieldOp | fieldLow,
	MessageRequestOffer:     fieldOp,
	MessageOffer:            fieldOffer,
	MessageRequestChunk:     fieldOffset | fieldLength | fieldOffer,
	MessageChunk:            fieldOffset | fieldOffer | fieldDataSum | restData,
}

// AppendFrame appends the frame of m to b, except for the body of its prepare or
// its data, which it returns: that goes on the wire behind b, uncopied.
func AppendFrame(b []byte, m *Message) (head, body []byte) {
	start := len(b)
	fields := fieldsOf[m.Kind]
	b = append(b, make([]byte, EnvelopeSize)...)
	b = appendFields(b, m, fields)
	switch {
	case fields&restPrepare != 0:
		b, body = m.Prepare.AppendHeader(b), m.Prepare.Body
	case fields&restHeaders != 0:
		for i := range m.Headers {
			b = m.Headers[i].AppendHeader(b)
		}
	case fields&restRefs != 0:
		for _, r := range m.Refs {
			b = append(binary.LittleEndian.AppendUint64(b, uint64(r.Op)), r.Identity[:]...)
		}
	case fields&restData != 0:
		body = m.Data
	}
	putEnvelope(b[start:], m, len(b)-start-EnvelopeSize+len(body))
	sum := sum128(b[start+16:])
	copy(b[start:], sum[:])
	return b, body
}

func putEnvelope(b []byte, m *Message, size int) {
	le := binary.LittleEndian
	le.PutUint32(b[16:], frameMagic)
	b[20], b[21], b[23], b[24] = frameVersion, byte(m.Kind), m.From, m.To
	if m.Unknown {
		b[22] = flagUnknown
	}
	if fieldsOf[m.Kind]&fieldBoots != 0 {
		b[25] = byte(len(m.Boots))
	}
	le.PutUint32(b[28:], uint32(size))
	le.PutUint64(b[32:], uint64(m.Group))
	le.PutUint64(b[40:], m.Incarnation)
	le.PutUint64(b[48:], m.Boot)
	le.PutUint32(b[56:], uint32(m.View))
	le.PutUint32(b[60:], uint32(m.LogView))
	le.PutUint64(b[64:], uint64(m.Commit))
}

func appendFields(b []byte, m *Message, fields fieldSet) []byte {
	le := binary.LittleEndian
	if fields&fieldOp != 0 {
		b = append(le.AppendUint64(b, uint64(m.Op)), m.Identity[:]...)
	}
	if fields&fieldCommitIdentity != 0 {
		b = append(b, m.CommitIdentity[:]...)
	}
	for _, f := range [...]struct {
		bit   fieldSet
		value uint64
	}{
		{fieldLow, uint64(m.Low)}, {fieldDoubt, uint64(m.Doubt)}, {fieldBeat, m.Beat},
		{fieldEcho, m.Echo}, {fieldOffset, m.Offset},
	} {
		if fields&f.bit != 0 {
			b = le.AppendUint64(b, f.value)
		}
	}
	if fields&fieldLength != 0 {
		b = le.AppendUint32(b, m.Length)
	}
	if fields&fieldOffer != 0 {
		o := &m.Offer
		b = append(le.AppendUint64(b, uint64(o.Op)), o.Identity[:]...)
		b = append(le.AppendUint64(b, o.Timestamp), o.Sum[:]...)
		b = le.AppendUint64(b, o.Size)
	}
	if fields&fieldDataSum != 0 {
		sum := sum128(m.Data)
		b = append(b, sum[:]...)
	}
	if fields&fieldBoots != 0 {
		for _, boot := range m.Boots {
			b = le.AppendUint64(b, boot)
		}
	}
	return b
}

// fieldsSize returns the bytes of the fields of a kind.
func fieldsSize(fields fieldSet, boots uint8) int {
	n := 0
	for i, size := range [...]int{24, 16, 8, 8, 8, 8, 8, 4, 56, 16, 8 * int(boots)} {
		if fields>>i&1 != 0 {
			n += size
		}
	}
	return n
}

// FrameSize returns the length in bytes of the frame that begins with b, of which
// EnvelopeSize bytes are enough. It trusts nothing but bounds it.
func FrameSize(b []byte) (int, error) {
	e, err := parseEnvelope(b)
	return EnvelopeSize + int(e.size), err
}

func parseEnvelope(b []byte) (frameEnvelope, error) {
	if len(b) < EnvelopeSize {
		return frameEnvelope{}, fmt.Errorf("%w: %d bytes of %d", ErrFrameShort, len(b), EnvelopeSize)
	}
	le := binary.LittleEndian
	e := frameEnvelope{
		kind: MessageKind(b[21]), flags: b[22], from: b[23], to: b[24], boots: b[25], size: le.Uint32(b[28:]),
		group: le.Uint64(b[32:]), incarnation: le.Uint64(b[40:]), boot: le.Uint64(b[48:]),
		view: le.Uint32(b[56:]), logView: le.Uint32(b[60:]), at: le.Uint64(b[64:]),
	}
	switch {
	case le.Uint32(b[16:]) != frameMagic:
		return e, fmt.Errorf("%w: it begins with %x", ErrFrameMagic, b[16:20])
	case b[20] != frameVersion:
		return e, fmt.Errorf("%w: %d", ErrFrameVersion, b[20])
	case e.kind == MessageNone || !e.kind.known():
		return e, fmt.Errorf("%w: %d", ErrFrameKind, b[21])
	case b[26] != 0 || b[27] != 0 || e.from >= ReplicasMax || e.to >= ReplicasMax || e.boots > ReplicasMax || e.logView > e.view,
		e.flags&^flagUnknown != 0, e.flags != 0 && e.kind != MessageDoViewChange, e.boots != 0 && fieldsOf[e.kind]&fieldBoots == 0:
		return e, fmt.Errorf("%w: %v from %d to %d, flags %d, log_view %d in view %d", ErrFrameField, e.kind, e.from, e.to, e.flags, e.logView, e.view)
	}
	return e, e.checkSize()
}

// checkSize bounds the rest of a frame by its kind.
func (e *frameEnvelope) checkSize() error {
	fields := fieldsOf[e.kind]
	least := uint64(fieldsSize(fields, e.boots))
	most, unit := least, uint64(1)
	switch {
	case fields&restPrepare != 0:
		least, most = least+HeaderSize, least+HeaderSize+BodyMax
	case fields&restHeaders != 0:
		most, unit = least+HeadersMax*HeaderSize, HeaderSize
	case fields&restRefs != 0:
		most, unit = least+RefsMax*refSize, refSize
	case fields&restData != 0:
		most = least + ChunkMax
	}
	if size := uint64(e.size); size < least || size > most || (size-least)%unit != 0 {
		return fmt.Errorf("%w: %v with %d bytes, want %d..%d", ErrFrameSize, e.kind, e.size, least, most)
	}
	return nil
}

// DecodeFrame reads and verifies one whole frame. A body and data are not
// copied: they belong to the message from then on.
func DecodeFrame(b []byte) (Message, error) {
	e, err := parseEnvelope(b)
	if err != nil {
		return Message{}, err
	}
	if uint64(len(b)) != EnvelopeSize+uint64(e.size) {
		return Message{}, fmt.Errorf("%w: %v of %d bytes, its size says %d", ErrFrameShort, e.kind, len(b), EnvelopeSize+uint64(e.size))
	}
	fields := fieldsOf[e.kind]
	rest := EnvelopeSize + fieldsSize(fields, e.boots)
	covered := len(b)
	switch {
	case fields&restPrepare != 0:
		covered = rest + HeaderSize
	case fields&restData != 0:
		covered = rest
	}
	if sum := sum128(b[16:covered]); sum != [16]byte(b[:16]) {
		return Message{}, fmt.Errorf("%w: %v from %d hashes to %v, its checksum is %v", ErrFrameChecksum, e.kind, e.from, Identity(sum), Identity(b[:16]))
	}
	m := Message{
		Kind: e.kind, From: e.from, To: e.to, Unknown: e.flags&flagUnknown != 0, Group: GroupID(e.group), Incarnation: e.incarnation,
		Boot: e.boot, View: View(e.view), LogView: View(e.logView), Commit: Op(e.at), Rest: &nothing,
	}
	if fields&fieldsOfRest != 0 {
		m.Rest = &Rest{}
	}
	sum := m.decodeFields(b[EnvelopeSize:rest], fields, e.boots)
	return m, m.decodeRest(b[rest:], fields, sum)
}

// decodeFields reads the fields, whose length is checked, and returns the sum of
// the data.
func (m *Message) decodeFields(b []byte, fields fieldSet, boots uint8) (sum [16]byte) {
	le := binary.LittleEndian
	take := func(bit fieldSet, n int) []byte {
		if fields&bit == 0 {
			return nil
		}
		f := b[:n]
		b = b[n:]
		return f
	}
	if f := take(fieldOp, 24); f != nil {
		m.Op, m.Identity = Op(le.Uint64(f)), Identity(f[8:])
	}
	if f := take(fieldCommitIdentity, 16); f != nil {
		m.CommitIdentity = Identity(f)
	}
	if f := take(fieldLow, 8); f != nil {
		m.Low = Op(le.Uint64(f))
	}
	if f := take(fieldDoubt, 8); f != nil {
		m.Doubt = Op(le.Uint64(f))
	}
	if f := take(fieldBeat, 8); f != nil {
		m.Beat = le.Uint64(f)
	}
	if f := take(fieldEcho, 8); f != nil {
		m.Echo = le.Uint64(f)
	}
	if f := take(fieldOffset, 8); f != nil {
		m.Offset = le.Uint64(f)
	}
	if f := take(fieldLength, 4); f != nil {
		m.Length = le.Uint32(f)
	}
	if f := take(fieldOffer, 56); f != nil {
		m.Offer = Offer{
			Op: Op(le.Uint64(f)), Identity: Identity(f[8:24]), Timestamp: le.Uint64(f[24:]), Sum: [16]byte(f[32:48]), Size: le.Uint64(f[48:]),
		}
	}
	if f := take(fieldDataSum, 16); f != nil {
		sum = [16]byte(f)
	}
	for range boots {
		m.Boots = append(m.Boots, le.Uint64(b))
		b = b[8:]
	}
	return sum
}

// decodeRest reads what follows the fields. Its length is checked, apart from
// that of a body.
func (m *Message) decodeRest(b []byte, fields fieldSet, sum [16]byte) error {
	switch {
	case fields&restPrepare != 0:
		h, err := DecodeHeader(b)
		if err != nil {
			return fmt.Errorf("vsr: %v from %d: %w", m.Kind, m.From, err)
		}
		if h.Op != m.Op || h.Identity != m.Identity {
			return fmt.Errorf("%w: %v names op %d, %v and carries op %d, %v", ErrFrameField, m.Kind, m.Op, m.Identity, h.Op, h.Identity)
		}
		m.Prepare = &Prepare{Header: h, Body: b[HeaderSize:]}
		return h.CheckBody(m.Prepare.Body)
	case fields&restHeaders != 0:
		for ; len(b) > 0; b = b[HeaderSize:] {
			h, err := DecodeHeader(b)
			if err != nil {
				return fmt.Errorf("vsr: %v from %d: header %d: %w", m.Kind, m.From, len(m.Headers), err)
			}
			m.Headers = append(m.Headers, h)
		}
	case fields&restRefs != 0:
		for ; len(b) > 0; b = b[refSize:] {
			m.Refs = append(m.Refs, Ref{Op(binary.LittleEndian.Uint64(b)), Identity(b[8:refSize])})
		}
	case fields&restData != 0:
		if got := sum128(b); got != sum {
			return fmt.Errorf("%w: data hashes to %v, want %v", ErrFrameChecksum, Identity(got), Identity(sum))
		}
		m.Data = b
	}
	return nil
}
