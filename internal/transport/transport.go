// Package transport carries frames of the client protocol over TCP, TLS, WebSocket
// and QUIC, for both ends. What a frame says is not its business; where one begins
// and ends is, since a WebSocket message and a QUIC stream hold one frame each
// (wire.md §1.3 to §1.5).
//
//	transport.go    what the edge and the client see
//	tcp.go          a stream of bytes, plain or under TLS
//	websocket.go    messages; upgrade.go for how a connection becomes one of them
//	quic.go         a stream for each request; quic_listener.go, quic_client.go
//	certificate.go  the server's certificate, read again when its file changes
//	dial.go         the client's end of all of them
package transport

import (
	"context"
	"errors"
	"net"

	"galgo/internal/wire"
)

// Conn is a connection that carries frames. One goroutine reads and one writes, each
// with a deadline of its own to set; any may close.
type Conn interface {
	// Read reads the bytes of frames, back to back. Write writes whole frames.
	net.Conn
	// WriteFrames writes whole frames that are given in pieces, each header in one
	// of them, and consumes the slice, as [net.Buffers] does.
	WriteFrames(pieces *net.Buffers) error
	// Drop is told by the reader that the frame it read last, be it whole or not, gets
	// no answer. It reports whether the next frame can be found all the same.
	Drop() bool
	// Transport is what clients are told of the connection.
	Transport() wire.Transport
}

// Listener hands out peers that want a connection.
type Listener interface {
	Accept() (Incoming, error)
	// Stop ends Accept; connections that are open stay so.
	Stop() error
	// Close gives up what is bound, when no connection is left.
	Close() error
	Addr() net.Addr
}

// Incoming is a peer whose connection is not open yet: what its transport begins
// with may still have to be done. It ends by Open or by Close.
type Incoming interface {
	RemoteAddr() net.Addr
	// Open does what comes before the first frame, within ctx. After an error the
	// peer is gone.
	Open(ctx context.Context) (Conn, error)
	Close() error
}

// errLonger is a message or stream that goes on behind its frame.
var errLonger = errors.New("transport: more bytes than the frame has")
