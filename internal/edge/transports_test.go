package edge

import (
	"bytes"
	"context"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"galgo"
	"galgo/internal/wire"
)

// eachCarrier runs a test over every transport.
func eachCarrier(t *testing.T, test func(t *testing.T, c carrier)) {
	for _, c := range carriers {
		t.Run(c.name, func(t *testing.T) { test(t, c) })
	}
}

// One session, over each transport: what a client does is answered alike.
func TestEachTransportCarriesASession(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		r := overCarrier(t, c)
		p := r.connect()
		p.alive()
		p.login("iggy", "iggy")
		p.makeTopic(2)
		for i, text := range []string{"first", "second"} {
			if placed := p.sendTo(1, text); placed.BaseOffset != uint64(i) {
				t.Errorf("%q is at offset %d, want %d", text, placed.BaseOffset, i)
			}
		}
		if got := payloads(p.poll(pollBody(1, galgo.FromFirst(), 10, true))); !slices.Equal(got, []string{"first", "second"}) {
			t.Errorf("polled %q", got)
		}
		if got := p.poll(pollBody(1, galgo.FromNext(), 10, false)); len(got.Messages) != 0 {
			t.Errorf("%d messages behind the offset that the poll stored", len(got.Messages))
		}
		me, err := wire.DecodeClientDetails(p.mustRead(wire.CommandGetMe, nil))
		if err != nil || me.Transport != c.kind {
			t.Errorf("the client is told of transport %v, %v; want %v", me.Transport, err, c.kind)
		}
		p.must(wire.OperationLogout, nil)
		p.login("iggy", "iggy")
		p.alive()
	})
}

// Frames of megabytes come whole in both directions, over what splits and windows them.
func TestEachTransportCarriesLongFrames(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		p := overCarrier(t, c).signedIn()
		p.makeTopic(1)
		var want []string
		for i := range 3 {
			text := strings.Repeat(string(rune('a'+i)), 7<<20)
			p.sendTo(0, text)
			want = append(want, text)
		}
		if got := payloads(p.poll(pollBody(0, galgo.FromFirst(), 10, false))); !slices.Equal(got, want) {
			t.Errorf("%d messages came, want %d, each as sent", len(got), len(want))
		}
	})
}

// A client that does not wait for answers gets them all, each once.
func TestEachTransportTakesRequestsAtOnce(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		p := overCarrier(t, c).signedIn()
		p.makeTopic(1)
		const requests = 100
		var all []byte
		for i := range requests {
			h := p.header(wire.OperationSendMessages)
			h.Request = uint64(i) + 1
			all = h.AppendFrame(all, sendBody(t, s0, t0, galgo.ToPartition(0), "m"))
		}
		var writing sync.WaitGroup
		writing.Go(func() { p.write(all) })
		for i := range requests {
			h, err := wire.DecodeReplyHeader(p.receive())
			if err != nil || h.Status != 0 || h.Request != uint64(i)+1 {
				t.Fatalf("answer %d: %+v, %v", i, h, err)
			}
		}
		writing.Wait()
		p.alive()
	})
}

// Each frame that SDKs were seen to send is answered over each transport by the bytes
// that answer it over TCP.
func TestEachTransportAnswersRecordedFramesAlike(t *testing.T) {
	vectors := requestVectors(t)
	names := slices.Sorted(maps.Keys(vectors))
	var overTCP [][]byte
	eachCarrier(t, func(t *testing.T, c carrier) {
		r := overCarrier(t, c)
		var answers [][]byte
		for _, name := range names {
			p := r.signedIn()
			p.write(p.as(vectors[name]))
			answers = append(answers, p.receive())
		}
		if overTCP == nil {
			overTCP = answers
			return
		}
		for i, name := range names {
			got, want := withoutOps(answers[i]), withoutOps(overTCP[i])
			h, _ := wire.DecodeRequestHeader(vectors[name])
			switch h.EffectiveCommand() {
			case wire.CommandGetMe, wire.CommandGetClient, wire.CommandGetClients, wire.CommandCreateToken:
				// They tell of the transport and the port of the peer, or a secret.
				got, want = got[wire.HeaderSize-60:wire.HeaderSize], want[wire.HeaderSize-60:wire.HeaderSize]
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s: answered by %d bytes, over TCP by %d, or by others", name, len(got), len(want))
			}
		}
	})
}

// withoutOps is an answer without the numbers of operations: those count also what the
// node does beside it, as to end sessions whose connections are lost.
func withoutOps(answer []byte) []byte {
	b := slices.Clone(answer)
	clear(b[176:192])
	return b
}

// hostileFrames are what no client sends, and that ends what it came in.
func hostileFrames() map[string][]byte {
	ping := wire.RequestHeader{Client: clientID(1), Operation: wire.OperationNonReplicated, Command: wire.CommandPing}
	lying := func(size uint32) []byte {
		f := ping.AppendFrame(nil, nil)
		le.PutUint32(f[48:], size)
		return f
	}
	unknown := ping.AppendFrame(nil, nil)
	unknown[60] = 200
	return map[string][]byte{
		"zeros":                make([]byte, wire.HeaderSize),
		"text":                 bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 16),
		"size below a header":  lying(wire.HeaderSize - 1),
		"size of 4 GiB":        lying(1<<32 - 1),
		"size above the limit": lying(wire.FrameSizeMax + 1),
		"unknown kind":         unknown,
	}
}

// What is no frame ends its connection, or over QUIC its stream, and nothing else.
func TestEachTransportRefusesWhatIsNoFrame(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		if c.raw == nil {
			t.Skip("as the plain one: what is beneath differs, and nothing else")
		}
		r := overCarrier(t, c)
		other := r.signedIn()
		for what, frame := range hostileFrames() {
			raw := c.raw(t, r.addr, r.client)
			raw.whole(t, frame)
			raw.ended(t)
			if c.survives {
				raw.whole(t, frame)
				raw.ended(t)
			}
			raw.close()
			if t.Failed() {
				t.Fatalf("that was %s", what)
			}
		}
		other.alive()
	})
}

// A frame that ends before its length, or goes on behind it, is refused where the
// transport tells where it ends.
func TestMessagesHoldOneFrameEach(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		if c.raw == nil || c.name == "tcp" || c.name == "tls" {
			t.Skip("frames follow each other without more")
		}
		r := overCarrier(t, c)
		ping := wire.RequestHeader{Client: clientID(1), Operation: wire.OperationNonReplicated, Command: wire.CommandPing}
		frame := ping.AppendFrame(nil, make([]byte, 100))
		for what, b := range map[string][]byte{
			"half a header":    frame[:128],
			"half a body":      frame[:300],
			"one byte less":    frame[:len(frame)-1],
			"one byte more":    append(slices.Clone(frame), 0),
			"two frames":       append(slices.Clone(frame), frame...),
			"a header and one": append(ping.AppendFrame(nil, nil), 1),
		} {
			raw := c.raw(t, r.addr, r.client)
			raw.whole(t, b)
			raw.ended(t)
			raw.close()
			if t.Failed() {
				t.Fatalf("that was %s", what)
			}
		}
		r.signedIn().alive()
	})
}

// A frame that stops coming ends its connection, or its stream, in bounded time; and
// a peer that goes away within one does no harm.
func TestEachTransportBoundsHalfFrames(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		if c.raw == nil {
			t.Skip("as the plain one: what is beneath differs, and nothing else")
		}
		r := overCarrier(t, c, func(o *Options) { o.FrameTimeout = 20 * time.Millisecond })
		ping := wire.RequestHeader{Client: clientID(1), Operation: wire.OperationNonReplicated, Command: wire.CommandPing}
		frame := ping.AppendFrame(nil, make([]byte, 100))
		for _, n := range []int{1, 255, 256, 300} {
			raw := c.raw(t, r.addr, r.client)
			raw.begin(t, frame[:n])
			raw.ended(t)
			raw.close()
			gone := c.raw(t, r.addr, r.client)
			gone.begin(t, frame[:n])
			gone.close()
		}
		r.signedIn().alive()
	})
}

// As above, for a fragment of a message.
func TestHalfMessages(t *testing.T) {
	c := carriers[2]
	r := overCarrier(t, c, func(o *Options) { o.FrameTimeout = 20 * time.Millisecond })
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	handshake := "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
	// A binary fragment of 300 bytes, masked with zeros, of which only 10 come.
	part := append([]byte(handshake), 0x02, 0x80|126, 300>>8, 300&0xff, 0, 0, 0, 0)
	if _, err := conn.Write(append(part, make([]byte, 10)...)); err != nil {
		t.Fatal(err)
	}
	// Whatever comes, it comes to an end.
	for b := make([]byte, 512); err == nil; _, err = conn.Read(b) {
	}
	r.signedIn().alive()
}

// Text ends a WebSocket connection.
func TestTextMessagesAreRefused(t *testing.T) {
	r := overCarrier(t, carriers[2])
	raw := carriers[2].raw(t, r.addr, nil).(rawMessages)
	defer raw.close()
	ping := wire.RequestHeader{Client: clientID(1), Operation: wire.OperationNonReplicated, Command: wire.CommandPing}
	if err := raw.Write(t.Context(), websocket.MessageText, ping.AppendFrame(nil, nil)); err != nil {
		t.Fatal(err)
	}
	raw.ended(t)
}

// A peer that says nothing, or too slowly, is let go of while nobody knows it.
func TestHandshakesAreBounded(t *testing.T) {
	for _, c := range carriers {
		if c.name == "tcp" || c.kind == wire.TransportQUIC {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			r := overCarrier(t, c, func(o *Options) { o.HandshakeTimeout = 20 * time.Millisecond })
			for _, said := range []string{"", "G", "GET / HTTP/1.1\r\nHost:"} {
				conn, err := net.Dial("tcp", r.addr)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := conn.Write([]byte(said)); err != nil {
					t.Fatal(err)
				}
				for b := make([]byte, 512); err == nil; _, err = conn.Read(b) {
				}
				conn.Close()
			}
		})
	}
}

// A request that does not ask for WebSocket gets an answer of HTTP and no connection.
func TestRequestsOfBrowsers(t *testing.T) {
	r := overCarrier(t, carriers[2])
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n": "HTTP/1.1 426 ",
		"GET / HTTP/1.1\r\nHost: x\r\nOrigin: http://evil\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n": "HTTP/1.1 403 ",
		"nonsense\r\n\r\n": "",
		"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n\r\n": "",
	} {
		conn, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		conn.Write([]byte(request)) // may fail half way: the server reads no more than it wants
		var got bytes.Buffer
		got.ReadFrom(conn)
		conn.Close()
		if !strings.HasPrefix(got.String(), want) || want == "" && got.Len() > 0 {
			t.Errorf("%.60q is answered by %q, want %q", request, got.String(), want)
		}
	}
}

// A server that stops ends every connection, whatever it is doing, and leaves none
// of its goroutines behind: stop waits for them.
func TestEachTransportStops(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		r := overCarrier(t, c)
		idle, busy := r.signedIn(), r.signedIn()
		busy.makeTopic(1)
		held := make(chan func(), 1)
		r.node.between(func() { // the race detector does not see through sockets
			r.node.onSend = func(req SendRequest, done func(SendReply)) bool {
				held <- func() { done(r.node.send(req)) }
				return true
			}
		})
		busy.send(busy.header(wire.OperationSendMessages), sendBody(t, s0, t0, galgo.ToPartition(0), "m"))
		answer := <-held
		r.stop()
		idle.wantClosed()
		busy.wantClosed()
		r.node.post(answer)
		if n := len(r.server.registry.conns); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		if conn, err := c.dial(shortly(t), r.addr, r.client); err == nil {
			conn.Close()
			t.Error("a server that has stopped takes a connection")
		}
	})
}

// shortly is a context for what is expected to fail.
func shortly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// Connections count over all transports together, and one that ends makes room.
func TestConnectionLimitHoldsOverTransports(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		r := overCarrier(t, c, func(o *Options) { o.Connections = 1 })
		first := r.signedIn()
		if conn, err := c.dial(t.Context(), r.addr, r.client); err == nil {
			second := r.peerOver(conn)
			h := second.commandHeader(wire.CommandPing)
			conn.Write(h.AppendFrame(nil, nil)) // may work: the end comes when it comes
			second.wantClosed()
			conn.Close()
		}
		first.alive()
		first.conn.Close()
		for {
			conn, err := c.dial(t.Context(), r.addr, r.client)
			if err == nil {
				next := r.peerOver(conn)
				h := next.commandHeader(wire.CommandPing)
				if _, err = conn.Write(h.AppendFrame(nil, nil)); err == nil {
					_, err = next.tryReceive()
				}
				conn.Close()
			}
			if err == nil {
				return
			}
		}
	})
}

// A certificate that the client does not know is refused by the client.
func TestCertificatesAreChecked(t *testing.T) {
	for _, c := range carriers {
		if c.name == "tcp" || c.name == "websocket" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			r := overCarrier(t, c)
			config := r.client.Clone()
			config.RootCAs = nil
			if conn, err := c.dial(t.Context(), r.addr, config); err == nil {
				conn.Close()
				t.Error("connected to a server that nobody vouches for")
			}
			config = r.client.Clone()
			config.ServerName = "elsewhere"
			if conn, err := c.dial(t.Context(), r.addr, config); err == nil {
				conn.Close()
				t.Error("connected to a server of another name")
			}
		})
	}
}

// A frame that gets no answer does not hold up what comes behind it: over QUIC its
// stream is reset, elsewhere the client sees nothing.
func TestFramesWithoutAnswerOverEachTransport(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		r := overCarrier(t, c)
		nobody := wire.RequestHeader{Operation: wire.OperationNonReplicated, Command: wire.CommandPing}
		frame := nobody.AppendFrame(nil, []byte("body"))
		if c.survives {
			raw := c.raw(t, r.addr, r.client)
			for range 20 {
				raw.whole(t, frame)
				raw.ended(t)
			}
			raw.close()
			return
		}
		p := r.connect()
		p.write(frame)
		p.alive()
	})
}
