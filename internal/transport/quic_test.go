package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"galgo/internal/freeport"
)

// listenForTest is a QUIC listener and what its clients trust.
func listenForTest(t *testing.T) (*quicListener, *tls.Config) {
	t.Helper()
	pair, err := SelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	ports, err := freeport.Take(1) // it is looked at again when the listener is closed
	if err != nil {
		t.Fatal(err)
	}
	socket, err := net.ListenPacket("udp", freeport.Loopback(ports[0]))
	if err != nil {
		t.Fatal(err)
	}
	l, err := ListenQUIC(socket, &tls.Config{Certificates: []tls.Certificate{pair}}, QUICOptions{
		Streams: 1, InitialMTU: 65535, Window: 1 << 20, StreamWindow: 1 << 20, HandshakeTime: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	return l.(*quicListener), &tls.Config{RootCAs: roots}
}

// Peers whose handshake is under way are counted: beyond the bound they are refused,
// and below it, when there are many, they have to show where they are.
func TestQUICHandshakesAreCounted(t *testing.T) {
	l, config := listenForTest(t)
	dial := func() (Conn, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return DialQUIC(ctx, l.Addr().String(), config)
	}
	l.pending.Store(handshakesMax)
	if c, err := dial(); err == nil {
		c.Close()
		t.Error("one more than the bound is let in")
	}
	for _, waiting := range []int64{0, handshakesTrusted} {
		l.pending.Store(waiting)
		c, err := dial()
		if err != nil {
			t.Fatalf("%d others are waiting: %v", waiting, err)
		}
		peer, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		for l.pending.Load() != waiting { // it is counted out beside this
			time.Sleep(time.Millisecond)
		}
		c.Close()
		peer.Close()
	}
	if n := l.pending.Load(); n != handshakesTrusted {
		t.Errorf("%d are waiting after the connections ended, want %d", n, handshakesTrusted)
	}
}

// A listener that is stopped leaves its connections, and its port when it is closed.
func TestStopLeavesConnections(t *testing.T) {
	l, config := listenForTest(t)
	c, err := DialQUIC(t.Context(), l.Addr().String(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("accepted after the stop")
	}
	server, err := peer.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := frameOf(10)
	if _, err := c.Write(ask); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(ask))
	for n := 0; n < len(got); {
		k, err := server.Read(got[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += k
	}
	other, right := answerTo(8), answerTo(7)
	if err := server.WriteFrames(&net.Buffers{other, right}); err != nil {
		t.Fatal(err)
	}
	got = make([]byte, 2*len(right))
	n, err := c.Read(got)
	if err != nil || n != len(right) || got[200] != 7 {
		t.Errorf("%d bytes, %v, of the answer to %d; want the one to 7", n, err, got[200])
	}
	server.Close()
	l.Close()
	socket, err := net.ListenPacket("udp", l.Addr().String())
	if err != nil {
		t.Fatalf("the port is not given up: %v", err)
	}
	socket.Close()
}

// answerTo is a reply to the request of a number.
func answerTo(number byte) []byte {
	f := frameOf(0)
	f[60], f[200] = 8, number
	return f
}
