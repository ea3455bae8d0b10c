package transport

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
)

const upgradeRequest = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"

// oneConn is a listener of one connection.
type oneConn struct{ net.Conn }

func (o oneConn) Accept() (net.Conn, error) { return o.Conn, nil }
func (o oneConn) Addr() net.Addr            { return o.LocalAddr() }

// serveOnce opens a WebSocket connection at the server's end and reads it to its end.
func serveOnce(conn net.Conn) (got []byte, err error) {
	peer, err := ListenWebSocket(oneConn{conn}, nil, 1<<20).Accept()
	if err != nil {
		return nil, err
	}
	c, err := peer.Open(context.Background())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var all bytes.Buffer
	_, err = io.Copy(&all, c)
	return all.Bytes(), err
}

// masked is a message of a client, in fragments, each masked with zeros.
func masked(parts ...[]byte) []byte {
	var b []byte
	for i, p := range parts {
		first := byte(0)
		if i == 0 {
			first = 2
		}
		if i == len(parts)-1 {
			first |= 0x80
		}
		b = append(b, first, 0x80|126, byte(len(p)>>8), byte(len(p)), 0, 0, 0, 0)
		b = append(b, p...)
	}
	return b
}

// saidBy writes bytes to a connection and closes it when the server has
// answered the request to upgrade, or has gone.
func saidBy(conn net.Conn, said []byte) {
	answered := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		in := bufio.NewReader(conn)
		http.ReadResponse(in, nil)
		close(answered)
		io.Copy(io.Discard, in)
	})
	conn.Write(said) // may find the other end closed
	if bytes.HasPrefix(said, []byte(upgradeRequest)) {
		<-answered
	}
	conn.Close()
	reading.Wait()
}

// A message in fragments is one frame like any other; what follows the request to
// upgrade in the same packet is not lost.
func TestFragmentsAreOneFrame(t *testing.T) {
	server, client := net.Pipe()
	frame := frameOf(1000)
	go saidBy(client, append([]byte(upgradeRequest), masked(frame[:10], nil, frame[10:256], frame[256:])...))
	if got, err := serveOnce(server); !bytes.Equal(got, frame) {
		t.Errorf("%d bytes, %v; want the frame of %d", len(got), err, len(frame))
	}
}

// An end that comes within a message is not taken for one between two.
func TestEndWithinAMessage(t *testing.T) {
	for _, n := range []int{0, 1, 100, 300} {
		server, client := net.Pipe()
		go saidBy(client, append([]byte(upgradeRequest), masked(frameOf(100))[:8+n]...))
		if _, err := serveOnce(server); err == nil {
			t.Errorf("%d bytes of a message: no error", n)
		}
	}
}

// FuzzWebSocket writes bytes to a server that waits for a request to upgrade, or for
// messages. It may refuse them.
func FuzzWebSocket(f *testing.F) {
	f.Add([]byte(upgradeRequest), false)
	f.Add(masked(frameOf(0)), true)
	f.Add(masked(frameOf(10)[:20], frameOf(10)[20:]), true)
	f.Add([]byte{0x88, 0x82, 0, 0, 0, 0, 3, 0xe8}, true)
	f.Add([]byte{0x89, 0x80, 0, 0, 0, 0}, true)
	f.Fuzz(func(t *testing.T, said []byte, upgraded bool) {
		if upgraded {
			said = append([]byte(upgradeRequest), said...)
		}
		server, client := net.Pipe()
		var writing sync.WaitGroup
		writing.Go(func() { saidBy(client, said) })
		got, err := serveOnce(server)
		server.Close()
		writing.Wait()
		if err == nil {
			t.Error("a connection ended without a reason")
		}
		if len(got) > len(said) {
			t.Errorf("%d bytes came out of %d", len(got), len(said))
		}
	})
}
