package memnet

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const latency = 5 * time.Millisecond

// pair connects two hosts.
func pair(t *testing.T, n *Network) (client, server net.Conn) {
	t.Helper()
	l, err := n.Host("b").Listen("tcp", "0.0.0.0:1")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = n.Host("a").Dial(t.Context(), "tcp", "b:1"); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return client, server
}

func bubble(t *testing.T, f func(t *testing.T, n *Network)) {
	synctest.Test(t, func(t *testing.T) { f(t, New(latency)) })
}

func TestBytesTakeTimeAndKeepTheirOrder(t *testing.T) {
	bubble(t, func(t *testing.T, n *Network) {
		client, server := pair(t, n)
		began := time.Now()
		text := strings.Repeat("galgo", bufferMax/3) // more than fits
		go func() {
			io.WriteString(client, text)
			client.Close()
		}()
		got, err := io.ReadAll(server)
		if err != nil || string(got) != text {
			t.Fatalf("read %d bytes, %v; want %d in order", len(got), err, len(text))
		}
		if took := time.Since(began); took < 2*latency {
			t.Errorf("more than a buffer took %v, one takes %v", took, latency)
		}
	})
}

func TestCutIsLateAndNotLost(t *testing.T) {
	bubble(t, func(t *testing.T, n *Network) {
		client, server := pair(t, n)
		n.Cut("a", "b")
		io.WriteString(client, "late")
		server.SetReadDeadline(time.Now().Add(time.Second))
		var b [4]byte
		if _, err := io.ReadFull(server, b[:]); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read across a cut: %q, %v", b, err)
		}
		io.WriteString(server, "back") // the other way is open
		if _, err := io.ReadFull(client, b[:]); err != nil || string(b[:]) != "back" {
			t.Fatalf("read the other way: %q, %v", b, err)
		}
		server.SetReadDeadline(time.Time{})
		time.AfterFunc(time.Second, func() { n.Heal("a", "b") })
		if _, err := io.ReadFull(server, b[:]); err != nil || string(b[:]) != "late" {
			t.Fatalf("read after the cut: %q, %v", b, err)
		}
	})
}

func TestDialAcrossACutWaits(t *testing.T) {
	bubble(t, func(t *testing.T, n *Network) {
		l, err := n.Host("b").Listen("tcp", ":1")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for _, way := range [][2]string{{"a", "b"}, {"b", "a"}} {
			n.Cut(way[0], way[1])
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := n.Host("a").Dial(ctx, "tcp", "b:1"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("dial with %v cut: %v", way, err)
			}
			cancel()
			n.Heal(way[0], way[1])
		}
		if _, err := n.Host("a").Dial(t.Context(), "tcp", "b:2"); !errors.Is(err, ErrRefused) {
			t.Errorf("dial where nobody listens: %v", err)
		}
		if _, err := n.Host("b").Listen("tcp", ":1"); !errors.Is(err, ErrInUse) {
			t.Errorf("listen twice: %v", err)
		}
	})
}

func TestDownBreaksConnections(t *testing.T) {
	bubble(t, func(t *testing.T, n *Network) {
		client, server := pair(t, n)
		io.WriteString(server, "lost")
		read := make(chan error)
		go func() {
			time.Sleep(latency / 2)
			n.Host("b").Down()
		}()
		go func() {
			var b [4]byte
			_, err := io.ReadFull(client, b[:])
			read <- err
		}()
		if err := <-read; !errors.Is(err, ErrReset) {
			t.Errorf("read from a host that went down: %v", err)
		}
		if _, err := server.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read on the host that went down: %v", err)
		}
		if _, err := client.Write([]byte("x")); !errors.Is(err, ErrReset) {
			t.Errorf("write to a host that went down: %v", err)
		}
		if _, err := n.Host("a").Dial(t.Context(), "tcp", "b:1"); !errors.Is(err, ErrRefused) {
			t.Errorf("dial a host that went down: %v", err)
		}
	})
}

func TestDeadlines(t *testing.T) {
	bubble(t, func(t *testing.T, n *Network) {
		client, server := pair(t, n)
		client.SetWriteDeadline(time.Now().Add(time.Second))
		if k, err := client.Write(make([]byte, bufferMax+1)); !errors.Is(err, os.ErrDeadlineExceeded) || k != bufferMax {
			t.Errorf("wrote %d, %v; want a full buffer and the deadline", k, err)
		}
		server.SetDeadline(time.Now().Add(-time.Second))
		if _, err := server.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read behind the deadline: %v", err)
		}
		server.SetDeadline(time.Now().Add(time.Second))
		if k, err := server.Read(make([]byte, 1)); k != 1 || err != nil {
			t.Errorf("read with a new deadline: %d, %v", k, err)
		}
		server.SetDeadline(time.Time{})
		time.Sleep(time.Minute)
		if k, err := server.Read(make([]byte, 1)); k != 1 || err != nil {
			t.Errorf("read without a deadline: %d, %v", k, err)
		}
	})
}

// A deadline that is set while a read waits counts for that read.
func TestDeadlineOfAReadThatWaits(t *testing.T) {
	bubble(t, func(t *testing.T, n *Network) {
		_, server := pair(t, n)
		time.AfterFunc(time.Second, func() { server.SetReadDeadline(time.Now()) })
		if _, err := server.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
	})
}
