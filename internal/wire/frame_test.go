package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

func TestReadFrame(t *testing.T) {
	header := make([]byte, HeaderSize)
	first := (&RequestHeader{Operation: OperationNonReplicated, Command: CommandPing}).AppendFrame(nil, nil)
	second := (&RequestHeader{Operation: OperationCreateStream}).AppendFrame(nil, []byte("body"))
	r := iotest.OneByteReader(bytes.NewReader(append(bytes.Clone(first), second...)))
	for _, want := range [][]byte{first, second} {
		got, err := ReadFrame(r, header, FrameLimits{})
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "frame", got, want)
	}
	if _, err := ReadFrame(r, header, FrameLimits{}); err != io.EOF {
		t.Errorf("at the end: %v, want io.EOF", err)
	}
}

func TestReadFrameRefuses(t *testing.T) {
	frame := func(size uint32, kind FrameCommand) []byte {
		b := make([]byte, HeaderSize)
		putPrefix(b, size, kind)
		return b
	}
	allocate := func(n int) []byte {
		if n > 1000 {
			t.Errorf("allocates %d bytes", n)
		}
		return make([]byte, n)
	}
	for name, c := range map[string]struct {
		stream []byte
		want   error
	}{
		"empty":                {nil, io.EOF},
		"cut in the header":    {frame(256, FrameRequest)[:100], io.ErrUnexpectedEOF},
		"cut before the body":  {frame(257, FrameRequest), io.ErrUnexpectedEOF},
		"cut in the body":      {append(frame(259, FrameRequest), 1), io.ErrUnexpectedEOF},
		"smaller than itself":  {frame(255, FrameRequest), ErrHeader},
		"size 0":               {frame(0, FrameRequest), ErrHeader},
		"above the limit":      {frame(1001, FrameRequest), ErrHeader},
		"largest size":         {frame(1<<32-1, FrameRequest), ErrHeader},
		"kind not defined":     {frame(256, 30), ErrHeader},
		"kind 255":             {frame(256, 255), ErrHeader},
		"last replica kind":    {frame(256, 29), nil},
		"at the limit":         {append(frame(1000, FrameReply), make([]byte, 744)...), nil},
		"one behind the limit": {append(frame(1001, FrameReply), make([]byte, 745)...), ErrHeader},
	} {
		got, err := ReadFrame(bytes.NewReader(c.stream), make([]byte, HeaderSize), FrameLimits{SizeMax: 1000, Allocate: allocate})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if c.want == nil && !bytes.Equal(got, c.stream) {
			t.Errorf("%s: %d bytes, want %d", name, len(got), len(c.stream))
		}
	}
}
