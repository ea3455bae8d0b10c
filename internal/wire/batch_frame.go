package wire

// Frame is one message of a batch: a header, the payload, and the user headers.
// One that a FrameIterator yields is as long as its header says.
//
//	off  size  field
//	  0     8  checksum         XXH3-64 of the frame from byte 8
//	  8    16  id
//	 24     4  offset delta     index in the batch
//	 28     4  timestamp delta  µs behind the batch's origin timestamp
//	 32     4  user headers length
//	 36     4  payload length
//	 40     8  reserved
//	 48        payload, user headers
type Frame []byte

// Checksum is the checksum that the frame claims.
func (f Frame) Checksum() uint64 { return le.Uint64(f) }

// ID is the producer's id of the message.
func (f Frame) ID() [16]byte { return [16]byte(f[8:24]) }

// OffsetDelta is how far the message is behind the batch's base offset.
func (f Frame) OffsetDelta() uint32 { return le.Uint32(f[24:]) }

// TimestampDelta is how far the message is behind the batch's origin timestamp, in
// µs.
func (f Frame) TimestampDelta() uint32 { return le.Uint32(f[28:]) }

func (f Frame) headersLength() uint32 { return le.Uint32(f[32:]) }
func (f Frame) payloadLength() uint32 { return le.Uint32(f[36:]) }

// Payload is the payload, aliased.
func (f Frame) Payload() []byte {
	end := FrameHeaderSize + int(f.payloadLength())
	return f[FrameHeaderSize:end:end]
}

// UserHeaders is the encoded user headers, aliased; nil if there are none.
func (f Frame) UserHeaders() []byte {
	if f.headersLength() == 0 {
		return nil
	}
	return f[FrameHeaderSize+int(f.payloadLength()):]
}

// FrameIterator walks the frames of a batch without allocating.
//
//	it := batch.Frames()
//	for it.Next() {
//		use(it.Index(), it.Frame())
//	}
type FrameIterator struct {
	rest  []byte
	frame Frame
	index int    // of frame, plus one: 0 before the first
	want  uint32 // frames that the header claims
	bad   string // why Next stopped early
}

// Frames starts before the first frame. The batch has a whole header. In a batch
// that was not validated Next may end early.
func (b Batch) Frames() FrameIterator {
	return FrameIterator{rest: b[BatchHeaderSize:], want: b.MessageCount()}
}

// Next moves to the next frame and reports whether there is one.
func (it *FrameIterator) Next() bool {
	if len(it.rest) == 0 || it.bad != "" {
		return false
	}
	if len(it.rest) < FrameHeaderSize {
		it.bad = "bytes of the header"
		return false
	}
	f := Frame(it.rest)
	// The sum of two lengths of 32 bits does not wrap around in 64.
	size := FrameHeaderSize + uint64(f.headersLength()) + uint64(f.payloadLength())
	if size > uint64(len(it.rest)) {
		it.bad = "length passes the end"
		return false
	}
	if le.Uint64(f[40:]) != 0 {
		it.bad = "reserved bytes are not zero"
		return false
	}
	it.frame, it.rest = f[:size:size], it.rest[size:]
	it.index++
	return true
}

// Frame is the frame that Next moved to, aliased.
func (it *FrameIterator) Frame() Frame { return it.frame }

// Index is the index in this batch of the frame that Next moved to. In a slice of
// a batch it differs from the offset delta.
func (it *FrameIterator) Index() int { return it.index - 1 }

// fault tells, after the last Next, why the frames are not what the header says.
func (it *FrameIterator) fault() error {
	if it.bad != "" {
		return &BatchError{Reason: it.bad, Frame: it.index, Got: uint64(len(it.rest)), Want: FrameHeaderSize}
	}
	if uint64(it.index) != uint64(it.want) {
		return headerFault("message count", uint64(it.want), uint64(it.index))
	}
	return nil
}
