package transport

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"galgo/internal/wire"
)

// Codes that connections and streams are closed with (wire.md §1.5).
const (
	quicShutdown          = 0x1003
	quicProtocolViolation = 0x1004
	quicNoError           = 0
)

// noReplyMax is how long a request may wait for its answer before its connection
// is given up: far more than the edge lets any wait.
const noReplyMax = time.Minute

var errNoReply = errors.New("transport: a request on a QUIC stream got no answer")

// requests is a QUIC connection at the server: each stream brings one request and
// takes the answer to it. Streams are taken one after the other, the next one when
// the answer to the one before has left.
type requests struct {
	conn *quic.Conn

	// Of the reader.
	from  *quic.Stream // the frame is read from; nil between frames
	frame intake

	free chan struct{} // holds a token when no stream waits for an answer

	mu     sync.Mutex
	stream *quic.Stream // taken, and not answered; nil if there is none
	asked  bool         // its header is known
	write  time.Time    // deadline
}

func newRequests(conn *quic.Conn) *requests {
	r := &requests{conn: conn, free: make(chan struct{}, 1)}
	r.free <- struct{}{}
	return r
}

// Read never returns io.EOF: a peer that has closed does not listen either.
func (r *requests) Read(p []byte) (int, error) {
	if r.from == nil {
		if err := r.take(); err != nil {
			return 0, err
		}
	}
	known := r.frame.known()
	n, whole, err := r.frame.read(r.from, p)
	if !known && r.frame.known() {
		r.mu.Lock()
		r.asked = true
		r.mu.Unlock()
	}
	if whole {
		r.from = nil
	}
	return n, err
}

// take waits until the request before is answered, and then for a stream.
func (r *requests) take() error {
	late := time.NewTimer(noReplyMax)
	defer late.Stop()
	select {
	case <-r.free:
	case <-r.conn.Context().Done():
		return context.Cause(r.conn.Context())
	case <-late.C:
		return errNoReply
	}
	stream, err := r.conn.AcceptStream(context.Background())
	if err != nil {
		return err
	}
	r.from = stream
	r.frame.begin()
	r.mu.Lock()
	r.stream, r.asked = stream, false
	r.mu.Unlock()
	return nil
}

// leave lets the connection go on to the next stream, if this one still waits.
func (r *requests) leave(stream *quic.Stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if stream != nil && r.stream == stream {
		r.stream = nil
		r.free <- struct{}{} // there is room: the token was taken with the stream
	}
}

func (r *requests) Write(p []byte) (int, error) {
	pieces := net.Buffers{p}
	if err := r.WriteFrames(&pieces); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteFrames writes the answer to the request that waits. What answers none is
// thrown away, as nobody would take it.
func (r *requests) WriteFrames(pieces *net.Buffers) error {
	err := eachFrame(*pieces, r.answer)
	*pieces = nil
	return err
}

func (r *requests) answer(frame [][]byte, _ int) error {
	r.mu.Lock()
	stream, deadline := r.stream, r.write
	fits := r.asked && wire.Answers(frame[0], r.frame.header[:])
	r.mu.Unlock()
	if stream == nil || !fits {
		return nil
	}
	defer r.leave(stream)
	stream.SetWriteDeadline(deadline)
	for _, p := range frame {
		if _, err := stream.Write(p); err != nil {
			if _, gone := errors.AsType[*quic.StreamError](err); gone {
				return nil // the peer does not want this answer any more
			}
			return err
		}
	}
	return stream.Close()
}

// Drop resets the stream of the frame that was read last. The connection lives on.
func (r *requests) Drop() bool {
	r.mu.Lock()
	stream := r.stream
	r.mu.Unlock()
	for _, s := range []*quic.Stream{stream, r.from} {
		if s != nil {
			s.CancelRead(quicProtocolViolation)
			s.CancelWrite(quicProtocolViolation)
		}
	}
	r.from = nil
	r.leave(stream)
	return r.conn.Context().Err() == nil
}

func (*requests) Transport() wire.Transport { return wire.TransportQUIC }

func (r *requests) Close() error         { return r.conn.CloseWithError(quicShutdown, "closed by the server") }
func (r *requests) LocalAddr() net.Addr  { return r.conn.LocalAddr() }
func (r *requests) RemoteAddr() net.Addr { return r.conn.RemoteAddr() }

func (r *requests) SetDeadline(t time.Time) error {
	return errors.Join(r.SetReadDeadline(t), r.SetWriteDeadline(t))
}

// SetReadDeadline bounds reading from the present stream.
func (r *requests) SetReadDeadline(t time.Time) error {
	if r.from != nil {
		return r.from.SetReadDeadline(t)
	}
	return nil
}

// SetWriteDeadline bounds the answers that are written next.
func (r *requests) SetWriteDeadline(t time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write = t
	return nil
}
