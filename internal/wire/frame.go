package wire

import (
	"fmt"
	"io"
)

// FrameLimits bounds what ReadFrame takes.
type FrameLimits struct {
	// SizeMax is the largest frame in bytes, header included; 0 is FrameSizeMax.
	SizeMax uint32
	// Allocate returns a buffer of n bytes for a whole frame; the frame that
	// ReadFrame returns is this buffer. Nil uses make. It is called once for a
	// frame whose header was read and is within the limits.
	Allocate func(n int) []byte
}

// ReadFrame reads one frame, header and body. At the end of the stream between
// two frames it returns io.EOF, inside of one io.ErrUnexpectedEOF. A size out of
// bounds and a kind that is not defined are ErrHeader: what follows on the stream
// cannot be trusted. header is scratch of HeaderSize bytes that a connection owns.
func ReadFrame(r io.Reader, header []byte, limits FrameLimits) ([]byte, error) {
	header = header[:HeaderSize]
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, err
	}
	if err := CheckFrame(header, limits.SizeMax); err != nil {
		return nil, err
	}
	size := int(FrameSize(header))
	var frame []byte
	if limits.Allocate == nil {
		frame = make([]byte, size)
	} else if frame = limits.Allocate(size); len(frame) != size {
		panic(fmt.Sprintf("wire: allocator returned %d bytes for a frame of %d", len(frame), size))
	}
	copy(frame, header)
	if _, err := io.ReadFull(r, frame[HeaderSize:]); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return frame, nil
}

// CheckFrame reports an ErrHeader if a header has a size below its own or above
// sizeMax (0: FrameSizeMax), or a kind that the protocol does not define.
func CheckFrame(header []byte, sizeMax uint32) error {
	if sizeMax == 0 {
		sizeMax = FrameSizeMax
	}
	if size := FrameSize(header); size < HeaderSize || size > sizeMax {
		return headerErrorf("frame size %d, want %d..%d", size, HeaderSize, sizeMax)
	}
	if kind := FrameCommandOf(header); kind > frameCommandLast {
		return headerErrorf("frame of undefined kind %d", kind)
	}
	return nil
}

// Answers reports whether a frame to a client is one that a request may take for
// its answer: a reply with the same number, or an eviction. Both are headers.
func Answers(answer, request []byte) bool {
	if FrameCommandOf(answer) == FrameEviction {
		return true
	}
	return FrameCommandOf(answer) == FrameReply && le.Uint64(answer[offReplyRequest:]) == le.Uint64(request[offRequestNumber:])
}
