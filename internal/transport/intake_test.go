package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/iotest"

	"galgo/internal/wire"
)

// frameOf is a request with a body of n bytes.
func frameOf(n int) []byte {
	h := wire.RequestHeader{Operation: wire.OperationNonReplicated, Command: wire.CommandPing, Request: 7}
	body := make([]byte, n)
	for i := range body {
		body[i] = byte(i)
	}
	return h.AppendFrame(nil, body)
}

// takeAll reads one message to its end.
func takeAll(message io.Reader, step int) (got []byte, err error) {
	var i intake
	i.begin()
	for p := make([]byte, step); ; {
		n, whole, err := i.read(message, p)
		got = append(got, p[:n]...)
		if whole || err != nil {
			return got, err
		}
	}
}

func TestIntakeWantsTheFrameAndNoMore(t *testing.T) {
	short := frameOf(0)
	short[48] = 10
	short[49] = 0 // a size of 10, for the edge to refuse
	for _, c := range []struct {
		name    string
		message []byte
		want    error
	}{
		{"header", frameOf(0), nil},
		{"header and body", frameOf(1000), nil},
		{"nothing", nil, io.ErrUnexpectedEOF},
		{"half a header", frameOf(0)[:100], io.ErrUnexpectedEOF},
		{"all but one byte", frameOf(1000)[:wire.HeaderSize+999], io.ErrUnexpectedEOF},
		{"one byte more", append(frameOf(1000), 1), errLonger},
		{"two frames", append(frameOf(0), frameOf(0)...), errLonger},
		{"size below a header", short, nil},
	} {
		for _, step := range []int{1, 100, 4096} {
			for how, message := range map[string]io.Reader{
				"at once": bytes.NewReader(c.message), "by bytes": iotest.OneByteReader(bytes.NewReader(c.message)),
				"end with the last": iotest.DataErrReader(bytes.NewReader(c.message)),
			} {
				got, err := takeAll(message, step)
				if !errors.Is(err, c.want) || c.want == nil && !bytes.Equal(got, c.message) {
					t.Errorf("%s, %s, read by %d: %d bytes, %v; want %v", c.name, how, step, len(got), err, c.want)
				}
			}
		}
	}
}

func TestEachFrame(t *testing.T) {
	a, b, c := frameOf(0), frameOf(10), frameOf(5000)
	all := slices.Concat(a, b, c)
	want := [][]byte{a, b, c}
	for name, pieces := range map[string][][]byte{
		"one piece":        {all},
		"a piece each":     {a, b, c},
		"bodies apart":     {slices.Concat(a, b, c[:wire.HeaderSize]), c[wire.HeaderSize:1000], c[1000:]},
		"body in pieces":   {a, b[:wire.HeaderSize], b[wire.HeaderSize : wire.HeaderSize+1], slices.Concat(b[wire.HeaderSize+1:], c)},
		"nothing to write": {},
	} {
		var got [][]byte
		err := eachFrame(pieces, func(frame [][]byte, size int) error {
			whole := slices.Concat(frame...)
			if len(whole) != size {
				t.Errorf("%s: frame of %d bytes, told %d", name, len(whole), size)
			}
			got = append(got, whole)
			return nil
		})
		if err != nil || len(pieces) > 0 && !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("%s: %d frames, %v", name, len(got), err)
		}
	}
	for name, pieces := range map[string]net.Buffers{"half a header": {a[:100]}, "half a body": {b[:wire.HeaderSize+1]}} {
		if err := eachFrame(pieces, func([][]byte, int) error { return nil }); !errors.Is(err, errPieces) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzIntake: whatever a message holds, it is taken as the one frame that it is, or
// refused.
func FuzzIntake(f *testing.F) {
	f.Add(frameOf(0), 1)
	f.Add(frameOf(300), 64)
	f.Add(append(frameOf(1), 0), 4096)
	f.Fuzz(func(t *testing.T, message []byte, step int) {
		if step < 1 || step > 1<<16 {
			return
		}
		got, err := takeAll(bytes.NewReader(message), step)
		if err == nil && !bytes.Equal(got, message) {
			t.Errorf("%d bytes of a message of %d", len(got), len(message))
		}
		if err == nil && len(message) < wire.HeaderSize {
			t.Errorf("a message of %d bytes passed for a frame", len(message))
		}
	})
}

// FuzzEachFrame: what is to be written is taken apart without loss, or refused.
func FuzzEachFrame(f *testing.F) {
	f.Add(frameOf(0), 10)
	f.Add(append(frameOf(300), frameOf(1)...), 256)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		pieces := [][]byte{data}
		if cut >= 0 && cut < len(data) {
			pieces = [][]byte{data[:cut:cut], data[cut:]}
		}
		var got []byte
		err := eachFrame(pieces, func(frame [][]byte, _ int) error {
			got = append(got, slices.Concat(frame...)...)
			return nil
		})
		if err == nil && !bytes.Equal(got, data) || !bytes.HasPrefix(data, got) {
			t.Errorf("%d bytes of %d, %v", len(got), len(data), err)
		}
	})
}
