package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
)

const (
	// handshakesMax bounds the QUIC connections that are not accepted yet.
	handshakesMax = 1024
	// handshakesTrusted of them may be there before peers have to show, by another
	// round trip, that they are where they say.
	handshakesTrusted = 64
	// windowFirst is the flow control window that a connection begins with: a peer
	// that nobody knows yet can make the server hold no more. It grows as the peer
	// is read from.
	windowFirst = 64 << 10
	// datagramMax is the largest packet size that QUIC begins with.
	datagramMax = 1452
	// streamsAhead is how many streams a client may open beyond those it may have under
	// way. A stream counts until the peer has acknowledged its end, for which it takes
	// its time; the next request must not wait for that.
	streamsAhead = 8
	// never is an idle timeout that nobody lives to see.
	never = 10 * 365 * 24 * time.Hour
)

// QUICOptions shape QUIC connections of a server. Windows are in bytes.
type QUICOptions struct {
	Streams       int // requests that a client may have under way
	InitialMTU    int
	Window        int64         // of a connection, what it may grow to
	StreamWindow  int64         // of a stream
	KeepAlive     time.Duration // 0: none
	IdleTimeout   time.Duration // 0: none
	HandshakeTime time.Duration
}

func (o QUICOptions) config() *quic.Config {
	idle := o.IdleTimeout
	if idle == 0 {
		idle = never
	}
	return &quic.Config{
		HandshakeIdleTimeout:           max(o.HandshakeTime/2, time.Millisecond), // the whole may take twice that
		MaxIdleTimeout:                 idle,
		KeepAlivePeriod:                o.KeepAlive,
		MaxIncomingStreams:             int64(o.Streams) + streamsAhead,
		MaxIncomingUniStreams:          -1,
		InitialPacketSize:              uint16(min(o.InitialMTU, datagramMax)),
		InitialStreamReceiveWindow:     uint64(min(windowFirst, o.StreamWindow)),
		MaxStreamReceiveWindow:         uint64(o.StreamWindow),
		InitialConnectionReceiveWindow: uint64(min(windowFirst, o.Window)),
		MaxConnectionReceiveWindow:     uint64(o.Window),
	}
}

// quicListener accepts QUIC connections.
type quicListener struct {
	transport *quic.Transport
	listener  *quic.Listener
	socket    net.PacketConn
	pending   atomic.Int64 // connections that are not accepted
	accepting context.Context
	stop      context.CancelFunc
}

// ListenQUIC carries frames over QUIC on a socket, which it closes.
func ListenQUIC(socket net.PacketConn, config *tls.Config, o QUICOptions) (Listener, error) {
	l := &quicListener{socket: socket}
	l.accepting, l.stop = context.WithCancel(context.Background())
	l.transport = &quic.Transport{
		Conn:                socket,
		ConnContext:         l.admit,
		VerifySourceAddress: func(net.Addr) bool { return l.pending.Load() >= handshakesTrusted },
	}
	var err error
	if l.listener, err = l.transport.Listen(config, o.config()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// arrival counts a connection as pending until it is accepted or ends.
type arrival struct{ once sync.Once }

type arrivalKey struct{}

var errHandshakes = errors.New("transport: too many QUIC handshakes at a time")

func (l *quicListener) admit(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
	if l.pending.Add(1) > handshakesMax {
		l.pending.Add(-1)
		return nil, errHandshakes
	}
	a := new(arrival)
	context.AfterFunc(ctx, func() { l.settle(a) })
	return context.WithValue(ctx, arrivalKey{}, a), nil
}

func (l *quicListener) settle(a *arrival) { a.once.Do(func() { l.pending.Add(-1) }) }

func (l *quicListener) Accept() (Incoming, error) {
	conn, err := l.listener.Accept(l.accepting)
	if err != nil {
		if l.accepting.Err() != nil || errors.Is(err, quic.ErrServerClosed) {
			return nil, net.ErrClosed
		}
		return nil, err
	}
	if a, ok := conn.Context().Value(arrivalKey{}).(*arrival); ok {
		l.settle(a)
	}
	return incomingQUIC{newRequests(conn)}, nil
}

// Stop lets no new connections in.
func (l *quicListener) Stop() error {
	l.stop()
	return l.listener.Close()
}

func (l *quicListener) Close() error {
	l.stop()
	return errors.Join(l.transport.Close(), l.socket.Close())
}

func (l *quicListener) Addr() net.Addr { return l.socket.LocalAddr() }

// incomingQUIC is a connection whose handshake is done.
type incomingQUIC struct{ *requests }

func (i incomingQUIC) Open(context.Context) (Conn, error) { return i.requests, nil }
