package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// place is an address of a network without a system.
type place string

func (p place) Network() string { return "tcp" }
func (p place) String() string  { return string(p) }

// slow is an end of a pipe: what is read took a while, and came from somewhere.
type slow struct {
	net.Conn
	from place
}

func (c *slow) RemoteAddr() net.Addr { return c.from }

func (c *slow) Read(b []byte) (int, error) {
	time.Sleep(3 * time.Millisecond)
	return c.Conn.Read(b)
}

// door is a listener that is handed its connections.
type door struct {
	at     place
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newDoor(at place) *door {
	return &door{at: at, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.conns:
		return c, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

func (d *door) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

func (d *door) Addr() net.Addr { return d.at }

// connect comes to the door from a place.
func (d *door) connect(ctx context.Context, from place) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case d.conns <- &slow{there, from}:
		return &slow{here, d.at}, nil
	case <-d.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A node is linked also while others connect without end and say nothing, wherever they
// come from.
func TestStrangersDoNotKeepNodesOut(t *testing.T) {
	for _, c := range []struct {
		name      string
		addresses [2]string         // of the roster
		from      func(n int) place // of the strangers
		each      time.Duration     // between two of them
		peer      place             // where the other node comes from
	}{
		{"from everywhere, to a node that is known by its address", [2]string{"10.0.0.1:1", "10.0.0.2:1"},
			func(n int) place { return place(fmt.Sprintf("11.%d.%d.%d:9", n>>16&255, n>>8&255, n&255)) }, 100 * time.Microsecond, "10.0.0.2:5"},
		{"from one place, to a node that has a name only", [2]string{"a.example:1", "b.example:1"},
			func(n int) place { return "11.0.0.1:9" }, 100 * time.Microsecond, "10.0.0.2:5"},
		{"from one network", [2]string{"a.example:1", "b.example:1"},
			func(n int) place { return place(fmt.Sprintf("[2001:db8::%x]:9", n&0xffff)) }, 100 * time.Microsecond, "10.0.0.2:5"},
		{"from where the node is", [2]string{"10.0.0.1:1", "10.0.0.2:1"},
			func(n int) place { return place(fmt.Sprint("10.0.0.2:", n&0x7fff)) }, 2 * time.Millisecond, "10.0.0.2:5"},
		{"from everywhere, but not faster than a node speaks", [2]string{"a.example:1", "b.example:1"},
			func(n int) place { return place(fmt.Sprintf("11.%d.%d.%d:9", n>>16&255, n>>8&255, n&255)) }, time.Millisecond, "10.0.0.2:5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				doors := [2]*door{newDoor(place(c.addresses[0])), newDoor(place(c.addresses[1]))}
				at := [2]place{"10.0.0.1:5", c.peer}
				var nodes [2]node
				ctx, cancel := context.WithCancel(t.Context())
				var strangers sync.WaitGroup
				strangers.Go(func() {
					for n := 0; ctx.Err() == nil; n++ {
						if conn, err := doors[0].connect(ctx, c.from(n)); err == nil {
							strangers.Go(func() {
								io.Copy(io.Discard, conn)
								conn.Close()
							})
						}
						time.Sleep(c.each)
					}
				})
				time.Sleep(time.Second)
				for i := range nodes {
					o := options(uint8(i), c.addresses[0], c.addresses[1])
					o.Dial = func(ctx context.Context, _ string) (net.Conn, error) { return doors[1-i].connect(ctx, at[i]) }
					nodes[i] = run(t, o, doors[i])
				}
				time.Sleep(time.Second)
				for i, n := range nodes {
					if s := n.Status(uint8(1 - i)); !s.Connected || !s.Judged {
						t.Errorf("node %d after a second: %+v", i, s)
					}
				}
				nodes[0].lobby.mu.Lock()
				if n := len(nodes[0].lobby.waiting); n > strangersMax+sourceMax {
					t.Errorf("%d strangers are kept", n)
				}
				nodes[0].lobby.mu.Unlock()
				cancel()
				for _, n := range nodes {
					n.stop()
				}
				strangers.Wait()
			})
		})
	}
}

// Those that are turned away are told of, but not all of them.
func TestComplaintsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c complaints
		told := 0
		for n := range 10 * complaintsMax {
			key := fmt.Sprint(n / 2)
			if c.first(key) {
				told++
			}
		}
		if told != complaintsMax {
			t.Errorf("told %d times, want %d", told, complaintsMax)
		}
		time.Sleep(complaintsInterval)
		if !c.first("later") || c.first("later") {
			t.Error("nothing is told any more, or twice")
		}
	})
}

// A listener that fails ends all that came by it.
func TestListenerThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor("10.0.0.1:1")
		a := mustNew(t, options(0, "10.0.0.1:1", "10.0.0.2:1"))
		a.o.Dial = func(ctx context.Context, _ string) (net.Conn, error) { return nil, errors.New("nobody") }
		over := make(chan error, 1)
		go func() { over <- a.Run(t.Context(), d) }()
		b := mustNew(t, options(1, "10.0.0.1:1", "10.0.0.2:1"))
		conn, err := d.connect(t.Context(), "10.0.0.2:5")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.greet(conn, 0, Control); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if !a.Status(1).Connected {
			t.Fatal("not connected")
		}
		d.Close()
		time.Sleep(time.Second)
		select {
		case err := <-over:
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("ended with %v", err)
			}
		default:
			t.Error("it waits for a connection that nobody ends")
			conn.Close()
		}
	})
}

// Who says nothing keeps neither a place nor who dialed.
func TestSilenceEndsAHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := restarted{door: newDoor("10.0.0.1:1"), peer: newDoor("10.0.0.2:1")}
		o := options(0, "10.0.0.1:1", "10.0.0.2:1")
		o.Dial = func(ctx context.Context, _ string) (net.Conn, error) { return r.peer.connect(ctx, "10.0.0.1:5") }
		r.node = run(t, o, r.door)
		silent, err := r.door.connect(t.Context(), "10.0.0.9:1")
		if err != nil {
			t.Fatal(err)
		}
		dialed := <-r.peer.conns
		<-r.peer.conns
		for who, conn := range map[string]net.Conn{"who dials and is silent": silent, "who accepts and is silent": dialed} {
			if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, io.EOF) {
				t.Errorf("%s: %v", who, err)
			}
			conn.Close()
		}
		r.lobby.mu.Lock()
		if len(r.lobby.waiting) > 0 {
			t.Error("a place is kept")
		}
		r.lobby.mu.Unlock()
		r.stop()
	})
}
