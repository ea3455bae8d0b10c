package transport

import (
	"errors"
	"io"

	"galgo/internal/wire"
)

// intake follows a frame that comes in a message or stream of its own, whose length
// must be that of the frame. The zero value is before the first byte.
type intake struct {
	header [wire.HeaderSize]byte
	got    int64
	probe  [1]byte
}

// begin starts a new frame.
func (i *intake) begin() { i.got = 0 }

// read reads on. The frame is whole when the message has ended with it; a message
// that ends before is io.ErrUnexpectedEOF, one that goes on is errLonger.
func (i *intake) read(from io.Reader, p []byte) (n int, whole bool, err error) {
	n, err = from.Read(p)
	if i.got < wire.HeaderSize {
		copy(i.header[i.got:], p[:n])
	}
	i.got += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, false, err
	}
	over := i.got - i.size()
	if over == 0 && err == nil {
		// The last bytes are not handed on before it is known that they are the last.
		var more int
		more, err = io.ReadFull(from, i.probe[:])
		over += int64(more)
	}
	switch {
	case over > 0:
		return 0, false, errLonger
	case err == nil:
		return n, false, nil
	case !errors.Is(err, io.EOF):
		return 0, false, err
	case over < 0:
		return n, false, io.ErrUnexpectedEOF
	}
	return n, true, nil
}

// size is the length of the frame as far as it is known.
func (i *intake) size() int64 {
	if i.got < wire.HeaderSize {
		return wire.HeaderSize
	}
	return max(int64(wire.FrameSize(i.header[:])), wire.HeaderSize)
}

// known reports whether the header is complete.
func (i *intake) known() bool { return i.got >= wire.HeaderSize }

// errPieces is what is no whole number of frames, and was to be written as such.
var errPieces = errors.New("transport: what is to be written is not made of whole frames")

// eachFrame takes pieces apart into frames. A header must not be spread over pieces.
func eachFrame(pieces [][]byte, emit func(frame [][]byte, size int) error) error {
	var frame [][]byte
	for len(pieces) > 0 {
		if len(pieces[0]) < wire.HeaderSize {
			return errPieces
		}
		size := max(int(wire.FrameSize(pieces[0])), wire.HeaderSize)
		left := size
		for frame = frame[:0]; left > 0 && len(pieces) > 0; {
			p := pieces[0]
			if len(p) > left {
				p, pieces[0] = p[:left], p[left:]
			} else {
				pieces = pieces[1:]
			}
			frame = append(frame, p)
			left -= len(p)
		}
		if left > 0 {
			return errPieces
		}
		if err := emit(frame, size); err != nil {
			return err
		}
	}
	return nil
}
