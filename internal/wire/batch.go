package wire

import (
	"fmt"

	"github.com/zeebo/xxh3"
)

// BatchHeaderSize and FrameHeaderSize are the lengths in bytes of the headers of a
// batch and of a message in it.
const (
	BatchHeaderSize = 256
	FrameHeaderSize = 48
)

// Batch is one batch of messages as it is sent, replicated, stored and polled: a
// header and message frames. The accessors need a whole header; what a stranger
// sent is first given to Validate or ValidateProduced.
//
//	off  size  field
//	  0     8  partition
//	  8     8  base offset       of frame 0 of the stored batch
//	 16     8  base timestamp    µs, when the server appended it
//	 24     8  origin timestamp  µs, the smallest of the producer's
//	 32     8  length            of header and frames
//	 40     8  checksum          see Checksum
//	 48     4  message count     at least 1
//	 52   204  reserved
//	256        frames, see Frame
//
// A producer leaves the first three fields zero and the server stamps them.
type Batch []byte

const (
	offBatchPartition     = 0
	offBatchBaseOffset    = 8
	offBatchBaseTimestamp = 16
	offBatchOrigin        = 24
	offBatchLength        = 32
	offBatchChecksum      = 40
	offBatchCount         = 48
	offBatchReserved      = 52
)

// PartitionID is the partition the batch is stored in.
func (b Batch) PartitionID() uint64 { return le.Uint64(b[offBatchPartition:]) }

// BaseOffset is what the frames' offset deltas count from.
func (b Batch) BaseOffset() uint64 { return le.Uint64(b[offBatchBaseOffset:]) }

// BaseTimestamp is the server's time of every message of the batch, in µs.
func (b Batch) BaseTimestamp() uint64 { return le.Uint64(b[offBatchBaseTimestamp:]) }

// OriginTimestamp is what the frames' timestamp deltas count from, in µs.
func (b Batch) OriginTimestamp() uint64 { return le.Uint64(b[offBatchOrigin:]) }

// Length is the length of header and frames that the header claims, in bytes.
func (b Batch) Length() uint64 { return le.Uint64(b[offBatchLength:]) }

// Checksum is the XXH3-64 that the header claims: of its bytes 0..40 and 48..52
// and the checksums of all frames in order.
func (b Batch) Checksum() uint64 { return le.Uint64(b[offBatchChecksum:]) }

// MessageCount is the number of frames that the header claims.
func (b Batch) MessageCount() uint32 { return le.Uint32(b[offBatchCount:]) }

// BatchError tells what is wrong with a batch.
type BatchError struct {
	Reason string
	Frame  int // index of the frame, or -1 if it is not about one
	Got    uint64
	Want   uint64
}

// Error names the frame, the reason and the two numbers.
func (e *BatchError) Error() string {
	what := e.Reason
	if e.Frame >= 0 {
		what = fmt.Sprintf("frame %d: %s", e.Frame, e.Reason)
	}
	if e.Reason == faultChecksum {
		return fmt.Sprintf("wire: batch: %s: %016x, want %016x", what, e.Got, e.Want)
	}
	return fmt.Sprintf("wire: batch: %s: %d, want %d", what, e.Got, e.Want)
}

// faultChecksum is the one reason whose numbers are shown in hexadecimal.
const faultChecksum = "checksum"

// Unwrap yields ErrBatch and a CodeInvalidFormat Error.
func (e *BatchError) Unwrap() []error { return []error{ErrBatch, invalidFormat} }

func headerFault(reason string, got, want uint64) error {
	return &BatchError{Reason: reason, Frame: -1, Got: got, Want: want}
}

// Validate checks a whole batch, sliced or not: what is reserved is zero, the
// frames fill exactly Length bytes and are MessageCount, at least one, and every
// checksum fits. The error is a *BatchError.
func (b Batch) Validate() error { return b.validate(false) }

// ValidateProduced checks what a producer sent: as Validate, and that the offset
// delta of each frame is its index, since offsets would repeat or leave gaps
// otherwise.
func (b Batch) ValidateProduced() error { return b.validate(true) }

func (b Batch) validate(dense bool) error {
	if err := b.validateHeader(); err != nil {
		return err
	}
	it := b.Frames()
	for it.Next() {
		f := it.Frame()
		if dense && uint64(f.OffsetDelta()) != uint64(it.Index()) {
			return &BatchError{Reason: "offset delta", Frame: it.Index(), Got: uint64(f.OffsetDelta()), Want: uint64(it.Index())}
		}
		if got, want := f.Checksum(), xxh3.Hash(f[8:]); got != want {
			return &BatchError{Reason: faultChecksum, Frame: it.Index(), Got: got, Want: want}
		}
	}
	if err := it.fault(); err != nil {
		return err
	}
	if got, want := b.Checksum(), b.checksum(); got != want {
		return headerFault(faultChecksum, got, want)
	}
	return nil
}

// ValidateLayout checks a batch as Validate does, but for the checksums: what is
// read back from memory that was validated once.
func (b Batch) ValidateLayout() error {
	if err := b.validateHeader(); err != nil {
		return err
	}
	it := b.Frames()
	for it.Next() {
	}
	return it.fault()
}

func (b Batch) validateHeader() error {
	if len(b) < BatchHeaderSize {
		return headerFault("bytes of the header", uint64(len(b)), BatchHeaderSize)
	}
	if got := b.Length(); got != uint64(len(b)) {
		return headerFault("length", got, uint64(len(b)))
	}
	if !allZero(b[offBatchReserved:BatchHeaderSize]) {
		return headerFault("reserved bytes are not zero", 1, 0)
	}
	if b.MessageCount() == 0 {
		return headerFault("message count", 0, 1)
	}
	return nil
}

func allZero(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		if le.Uint64(b) != 0 {
			return false
		}
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// checksumChunk is how many frame checksums are gathered before they are hashed.
const checksumChunk = 128

// checksum computes what Checksum should be. The frames have a valid layout.
func (b Batch) checksum() uint64 {
	return batchChecksum(b[:BatchHeaderSize], b[BatchHeaderSize:])
}

// batchChecksum hashes a header with the checksums of frames that may lie
// elsewhere. It keeps everything on the stack.
func batchChecksum(header, frames []byte) uint64 {
	var h xxh3.Hasher
	var chunk [8 * checksumChunk]byte
	n := copy(chunk[:], header[:offBatchChecksum])
	n += copy(chunk[n:], header[offBatchCount:offBatchReserved])
	it := FrameIterator{rest: frames}
	for it.Next() {
		if len(chunk)-n < 8 {
			h.Write(chunk[:n])
			n = 0
		}
		n += copy(chunk[n:], it.frame[:8])
	}
	h.Write(chunk[:n])
	return h.Sum64()
}

// Stamp writes where and when the server stores the batch, and its new checksum.
// Frames are not touched. The batch was validated.
func (b Batch) Stamp(partition, baseOffset, baseTimestamp uint64) {
	le.PutUint64(b[offBatchPartition:], partition)
	le.PutUint64(b[offBatchBaseOffset:], baseOffset)
	le.PutUint64(b[offBatchBaseTimestamp:], baseTimestamp)
	le.PutUint64(b[offBatchChecksum:], b.checksum())
}

// Slice cuts the frames with index from..to-1 out of a validated batch. It writes
// the header of the cut into header, which has BatchHeaderSize bytes, and returns
// the frames, aliased: together they are the record that a poll serves. Offsets
// still count from the base offset of the whole batch. The range must hold at
// least one frame and lie in the batch.
func (b Batch) Slice(from, to uint32, header []byte) (frames []byte) {
	count := b.MessageCount()
	if from >= to || to > count {
		panic(fmt.Sprintf("wire: slice %d..%d of a batch of %d messages", from, to, count))
	}
	start := skipFrames(b[BatchHeaderSize:], from)
	end := start + skipFrames(b[BatchHeaderSize+start:], to-from)
	frames = b[BatchHeaderSize+start : BatchHeaderSize+end : BatchHeaderSize+end]
	header = header[:BatchHeaderSize]
	copy(header, b)
	le.PutUint64(header[offBatchLength:], uint64(BatchHeaderSize+len(frames)))
	le.PutUint32(header[offBatchCount:], to-from)
	le.PutUint64(header[offBatchChecksum:], batchChecksum(header, frames))
	return frames
}

// skipFrames is the length of the first n frames.
func skipFrames(frames []byte, n uint32) int {
	it := FrameIterator{rest: frames}
	for range n {
		if !it.Next() {
			panic(fmt.Sprintf("wire: batch ends before frame %d of %d", it.index+1, n))
		}
	}
	return len(frames) - len(it.rest)
}

// SplitBatch takes the first record off records that lie back to back, as in a
// poll or in a segment, by the length in its header. The record is not validated
// otherwise. The error is a *BatchError.
func SplitBatch(records []byte) (b Batch, rest []byte, err error) {
	if len(records) < BatchHeaderSize {
		return nil, nil, headerFault("bytes of the header", uint64(len(records)), BatchHeaderSize)
	}
	n := Batch(records).Length()
	if n < BatchHeaderSize || n > uint64(len(records)) {
		return nil, nil, headerFault("length, with bytes left", n, uint64(len(records)))
	}
	return Batch(records[:n:n]), records[n:], nil
}
