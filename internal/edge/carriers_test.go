package edge

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/quic-go/quic-go"

	"galgo/internal/transport"
	"galgo/internal/wire"
)

// carrier is a transport, as tests use both of its ends.
type carrier struct {
	name   string
	kind   wire.Transport
	listen func(t testing.TB, secure *tls.Config) transport.Listener
	dial   func(ctx context.Context, addr string, secure *tls.Config) (net.Conn, error)
	// raw connects and returns a function that sends bytes as they are, in a message
	// or stream of their own where there are such, and says whether more follow.
	raw func(t testing.TB, addr string, secure *tls.Config) rawPeer
	// survives says that a bad frame ends its stream, not its connection.
	survives bool
}

// rawPeer sends what is no frame.
type rawPeer interface {
	// begin sends bytes with more to come; whole sends bytes and ends what holds them.
	begin(t testing.TB, b []byte)
	whole(t testing.TB, b []byte)
	// ended waits until the server has given up on what was sent last.
	ended(t testing.TB)
	close()
}

func listenTCP(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var quicForTests = transport.QUICOptions{
	Streams: 1, InitialMTU: 1200, Window: 64 << 20, StreamWindow: 64 << 20,
	KeepAlive: 10 * time.Second, IdleTimeout: 30 * time.Second, HandshakeTime: 10 * time.Second,
}

func listenQUIC(t testing.TB, secure *tls.Config) transport.Listener {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := transport.ListenQUIC(socket, secure, quicForTests)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// carriers are all of them, the plain one first.
var carriers = []carrier{
	{
		name: "tcp", kind: wire.TransportTCP,
		listen: func(t testing.TB, _ *tls.Config) transport.Listener { return transport.ListenTCP(listenTCP(t), nil) },
		dial: func(ctx context.Context, addr string, _ *tls.Config) (net.Conn, error) {
			return transport.DialTCP(ctx, addr, nil)
		},
		raw: func(t testing.TB, addr string, _ *tls.Config) rawPeer { return dialRawStream(t, addr, nil) },
	},
	{
		name: "tls", kind: wire.TransportTCP,
		listen: func(t testing.TB, secure *tls.Config) transport.Listener {
			return transport.ListenTCP(listenTCP(t), secure)
		},
		dial: func(ctx context.Context, addr string, secure *tls.Config) (net.Conn, error) {
			return transport.DialTCP(ctx, addr, secure)
		},
		raw: func(t testing.TB, addr string, secure *tls.Config) rawPeer { return dialRawStream(t, addr, secure) },
	},
	{
		name: "websocket", kind: wire.TransportWebSocket,
		listen: func(t testing.TB, _ *tls.Config) transport.Listener {
			return transport.ListenWebSocket(listenTCP(t), nil, wire.FrameSizeMax)
		},
		dial: func(ctx context.Context, addr string, _ *tls.Config) (net.Conn, error) {
			return transport.DialWebSocket(ctx, addr, nil, 0)
		},
		raw: func(t testing.TB, addr string, _ *tls.Config) rawPeer { return dialRawMessages(t, addr) },
	},
	{
		name: "secure websocket", kind: wire.TransportWebSocket,
		listen: func(t testing.TB, secure *tls.Config) transport.Listener {
			return transport.ListenWebSocket(listenTCP(t), secure, wire.FrameSizeMax)
		},
		dial: func(ctx context.Context, addr string, secure *tls.Config) (net.Conn, error) {
			return transport.DialWebSocket(ctx, addr, secure, 0)
		},
	},
	{
		name: "quic", kind: wire.TransportQUIC, survives: true,
		listen: listenQUIC,
		dial: func(ctx context.Context, addr string, secure *tls.Config) (net.Conn, error) {
			return transport.DialQUIC(ctx, addr, secure)
		},
		raw: func(t testing.TB, addr string, secure *tls.Config) rawPeer { return dialRawStreams(t, addr, secure) },
	},
}

// carried is a rig that is served over one transport.
type carried struct {
	*edgeRig
	carrier
	addr   string
	client *tls.Config
	stop   func()
}

// overCarrier serves a new rig over a transport, with a certificate that clients check.
func overCarrier(t testing.TB, c carrier, change ...func(*Options)) *carried {
	t.Helper()
	r := newRig(t, change...)
	pair, err := transport.SelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	l := c.listen(t, &tls.Config{Certificates: []tls.Certificate{pair}})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- r.server.Serve(ctx, l) }()
	var stopped bool
	all := &carried{edgeRig: r, carrier: c, addr: l.Addr().String(), client: &tls.Config{RootCAs: roots, ServerName: "localhost"}}
	all.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve over %s: %v", c.name, err)
		}
	}
	t.Cleanup(all.stop)
	return all
}

// connect opens a connection that is not signed in.
func (c *carried) connect() *peer {
	c.t.Helper()
	conn, err := c.dial(context.Background(), c.addr, c.client)
	if err != nil {
		c.t.Fatalf("dial over %s: %v", c.name, err)
	}
	c.t.Cleanup(func() { conn.Close() })
	return c.peerOver(conn)
}

func (c *carried) signedIn() *peer {
	c.t.Helper()
	p := c.connect()
	p.login("iggy", "iggy")
	return p
}

// rawStream is a connection of bytes: the end of what holds them is its own.
type rawStream struct{ net.Conn }

func dialRawStream(t testing.TB, addr string, secure *tls.Config) rawPeer {
	t.Helper()
	conn, err := transport.DialTCP(context.Background(), addr, secure)
	if err != nil {
		t.Fatal(err)
	}
	return rawStream{conn}
}

func (r rawStream) begin(t testing.TB, b []byte) {
	t.Helper()
	if _, err := r.Write(b); err != nil {
		t.Fatal(err)
	}
}

func (r rawStream) whole(t testing.TB, b []byte) { r.begin(t, b) }

func (r rawStream) ended(t testing.TB) {
	t.Helper()
	if n, err := r.Read(make([]byte, 1)); err == nil {
		t.Fatalf("read %d bytes, want the end of the connection", n)
	}
}

func (r rawStream) close() { r.Close() }

// rawMessages is a WebSocket connection.
type rawMessages struct{ *websocket.Conn }

func dialRawMessages(t testing.TB, addr string) rawPeer {
	t.Helper()
	ws, _, err := websocket.Dial(context.Background(), "ws://"+addr+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	return rawMessages{ws}
}

func (rawMessages) begin(t testing.TB, _ []byte) {
	t.Helper()
	t.Skip("the library sends no half messages: see TestHalfMessages")
}

func (r rawMessages) whole(t testing.TB, b []byte) {
	t.Helper()
	if err := r.Write(context.Background(), websocket.MessageBinary, b); err != nil {
		t.Fatal(err)
	}
}

func (r rawMessages) ended(t testing.TB) {
	t.Helper()
	if _, b, err := r.Read(context.Background()); err == nil {
		t.Fatalf("read a message of %d bytes, want the end of the connection", len(b))
	}
}

func (r rawMessages) close() { r.CloseNow() }

// rawStreams is a QUIC connection.
type rawStreams struct {
	*quic.Conn
	last *quic.Stream
}

func dialRawStreams(t testing.TB, addr string, secure *tls.Config) rawPeer {
	t.Helper()
	conn, err := quic.DialAddr(context.Background(), addr, secure, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &rawStreams{Conn: conn}
}

func (r *rawStreams) begin(t testing.TB, b []byte) {
	t.Helper()
	var err error
	if r.last, err = r.OpenStreamSync(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.last.Write(b); err != nil {
		t.Fatal(err)
	}
}

func (r *rawStreams) whole(t testing.TB, b []byte) {
	t.Helper()
	r.begin(t, b)
	r.last.Close()
}

func (r *rawStreams) ended(t testing.TB) {
	t.Helper()
	if n, err := r.last.Read(make([]byte, 1)); err == nil || r.Context().Err() != nil {
		t.Fatalf("read %d bytes, %v; want a stream that was reset on a connection that lives (%v)", n, err, context.Cause(r.Context()))
	}
}

func (r *rawStreams) close() { r.CloseWithError(0, "") }
