package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/quic-go/quic-go"

	"galgo/internal/wire"
)

const (
	// answersWaiting bounds the requests that wait for their answers; beyond, writing
	// waits for reading.
	answersWaiting = 1024
	// quicKeepAlive keeps a connection alive at servers that end silent ones.
	quicKeepAlive = 10 * time.Second
	// quicWindow is the flow control window, in bytes, that an answer may need: the
	// largest frame.
	quicWindow = wire.FrameSizeMax
)

// answers is a QUIC connection at a client: each frame that is written opens a
// stream, which brings the answer. Servers take streams one after the other, so
// answers are read in the order of the requests.
type answers struct {
	conn  *quic.Conn
	asked chan *quic.Stream // what the reader reads next

	current *quic.Stream // of the reader
	write   time.Time    // deadline, of the writer
}

func dialQUIC(ctx context.Context, addr string, config *tls.Config) (Conn, error) {
	conn, err := quic.DialAddr(ctx, addr, config, &quic.Config{
		MaxIncomingStreams: -1, MaxIncomingUniStreams: -1,
		KeepAlivePeriod:            quicKeepAlive,
		MaxStreamReceiveWindow:     quicWindow,
		MaxConnectionReceiveWindow: quicWindow,
	})
	if err != nil {
		return nil, err
	}
	return &answers{conn: conn, asked: make(chan *quic.Stream, answersWaiting)}, nil
}

func (a *answers) Write(p []byte) (int, error) {
	pieces := net.Buffers{p}
	if err := a.WriteFrames(&pieces); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (a *answers) WriteFrames(pieces *net.Buffers) error {
	err := eachFrame(*pieces, a.ask)
	*pieces = nil
	return err
}

// ask waits until the server admits another stream, and puts a request on it.
func (a *answers) ask(frame [][]byte, _ int) error {
	ctx := a.conn.Context()
	if !a.write.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, a.write, os.ErrDeadlineExceeded)
		defer cancel()
	}
	stream, err := a.conn.OpenStreamSync(ctx)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	stream.SetWriteDeadline(a.write)
	for _, p := range frame {
		if _, err := stream.Write(p); err != nil {
			return err
		}
	}
	if err := stream.Close(); err != nil {
		return err
	}
	select {
	case a.asked <- stream:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *answers) Read(p []byte) (int, error) {
	for {
		if a.current == nil {
			select {
			case a.current = <-a.asked:
			case <-a.conn.Context().Done():
				return 0, context.Cause(a.conn.Context())
			}
		}
		n, err := a.current.Read(p)
		if errors.Is(err, io.EOF) {
			a.current, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// Drop is never called at this end.
func (*answers) Drop() bool { return false }

func (*answers) Transport() wire.Transport { return wire.TransportQUIC }

func (a *answers) LocalAddr() net.Addr  { return a.conn.LocalAddr() }
func (a *answers) RemoteAddr() net.Addr { return a.conn.RemoteAddr() }

func (a *answers) Close() error { return a.conn.CloseWithError(quicNoError, "") }

func (a *answers) SetDeadline(t time.Time) error {
	return errors.Join(a.SetReadDeadline(t), a.SetWriteDeadline(t))
}

// SetReadDeadline refuses: whoever waits for answers closes the connection to end it.
func (a *answers) SetReadDeadline(t time.Time) error {
	if t.IsZero() {
		return nil
	}
	return os.ErrNoDeadline
}

func (a *answers) SetWriteDeadline(t time.Time) error {
	a.write = t
	return nil
}
