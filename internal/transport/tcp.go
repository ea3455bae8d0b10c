package transport

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"

	"galgo/internal/wire"
)

// stream is a connection whose frames follow each other without more: TCP, and
// whatever else is a stream of bytes.
type stream struct{ net.Conn }

// OverStream carries frames over a stream of bytes.
func OverStream(conn net.Conn) Conn {
	if c, ok := conn.(Conn); ok {
		return c
	}
	if c, ok := conn.(*tls.Conn); ok {
		return newSecure(c)
	}
	return stream{conn}
}

func (s stream) WriteFrames(pieces *net.Buffers) error {
	_, err := pieces.WriteTo(s.Conn) // one system call on a TCP socket
	return err
}

// Drop reports that what follows a frame which was not read to its end cannot be
// told from the rest of it.
func (stream) Drop() bool { return false }

func (stream) Transport() wire.Transport { return wire.TransportTCP }

// recordSize is what one TLS record holds at most.
const recordSize = 16 << 10

// secure is a stream under TLS. It gathers small pieces, which would else be a
// record and a write each.
type secure struct {
	stream
	out *bufio.Writer
}

func newSecure(conn *tls.Conn) secure {
	return secure{stream{conn}, bufio.NewWriterSize(conn, recordSize)}
}

func (s secure) WriteFrames(pieces *net.Buffers) error {
	for _, p := range *pieces {
		if _, err := s.out.Write(p); err != nil {
			return err
		}
	}
	*pieces = nil
	return s.out.Flush()
}

// streamListener accepts TCP connections, which open makes ready for frames.
type streamListener struct {
	net.Listener
	open func(context.Context, net.Conn) (Conn, error)
}

// ListenTCP carries frames over the connections of a listener, under TLS if there
// is a configuration of it.
func ListenTCP(listener net.Listener, config *tls.Config) Listener {
	return &streamListener{listener, func(ctx context.Context, conn net.Conn) (Conn, error) {
		if config == nil {
			return stream{conn}, nil
		}
		secured, err := handshake(ctx, conn, config)
		if err != nil {
			return nil, err
		}
		return newSecure(secured), nil
	}}
}

func handshake(ctx context.Context, conn net.Conn, config *tls.Config) (*tls.Conn, error) {
	secured := tls.Server(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secured, nil
}

func (l *streamListener) Accept() (Incoming, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return incomingStream{conn, l.open}, nil
}

// Stop gives the port up, too: connections do not need it.
func (l *streamListener) Stop() error { return l.Listener.Close() }

type incomingStream struct {
	net.Conn
	open func(context.Context, net.Conn) (Conn, error)
}

func (i incomingStream) Open(ctx context.Context) (Conn, error) {
	if tcp, ok := i.Conn.(*net.TCPConn); ok {
		tcp.SetNoDelay(true) // an error shows again at the first read
	}
	return i.open(ctx, i.Conn)
}
