package edge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"galgo"
	"galgo/internal/transport"
	"galgo/internal/wire"
)

// Metadata and reads finish before the next request of the connection starts;
// sends are only handed on (wire.md §1.8).
func TestOrderOnOneConnection(t *testing.T) {
	r := newRig(t)
	p := r.signedIn()
	p.makeTopic(1)
	var held func()
	r.node.onSend = func(req SendRequest, done func(SendReply)) bool {
		held = func() { done(r.node.send(req)) }
		return true
	}
	send := p.header(wire.OperationSendMessages)
	send.Request = 1001
	frames := send.AppendFrame(nil, sendBody(t, s0, t0, galgo.ToPartition(0), "a"))
	create := p.header(wire.OperationCreateStream)
	create.Request = 1002
	frames = create.AppendFrame(frames, createStream("late"))
	list := p.commandHeader(wire.CommandGetStream)
	list.Request = 1003
	frames = list.AppendFrame(frames, wire.StreamRequest{Stream: galgo.NamedID("late")}.Append(nil))
	go p.conn.Write(frames) // all in one piece
	for _, want := range []uint64{1002, 1003} {
		h, err := wire.DecodeReplyHeader(p.receive())
		if err != nil || h.Request != want || h.Size == wire.HeaderSize {
			t.Fatalf("reply %+v, %v, want a full one to request %d", h, err, want)
		}
	}
	r.node.post(func() { held() })
	if h, err := wire.DecodeReplyHeader(p.receive()); err != nil || h.Request != 1001 || h.Status != 0 {
		t.Fatalf("reply %+v, %v, want that to the send", h, err)
	}
}

// A pipelining client's sends reach the node in order, and each gets its answer.
func TestPipelinedSends(t *testing.T) {
	r := newRig(t)
	p := r.signedIn()
	p.makeTopic(1)
	const n = 500
	go func() {
		for i := range n {
			h := p.header(wire.OperationSendMessages)
			h.Request = uint64(10_000 + i)
			p.conn.Write(h.AppendFrame(nil, sendBody(t, s0, t0, galgo.ToPartition(0), fmt.Sprint(i))))
		}
	}()
	for i := range n {
		h, payload, err := wire.ParseReply(p.receive())
		if err != nil {
			t.Fatal(err)
		}
		c, err := wire.DecodeSendConfirmations(payload)
		if err != nil || h.Request != uint64(10_000+i) || c[0].BaseOffset != uint64(i) {
			t.Fatalf("answer %d: request %d, offset %+v, %v", i, h.Request, c, err)
		}
	}
	if got := p.poll(pollBody(0, galgo.FromLast(), 1, false)); string(got.Messages[0].Payload) != fmt.Sprint(n-1) {
		t.Errorf("last message %q", got.Messages[0].Payload)
	}
}

// A client that does not read makes the server stop reading, and end the
// connection when it has waited long enough.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.signedIn()
		p.makeTopic(1)
		start := time.Now()
		wrote := 0
		for {
			h := p.header(wire.OperationSendMessages)
			if _, err := p.conn.Write(h.AppendFrame(nil, sendBody(t, s0, t0, galgo.ToPartition(0), "x"))); err != nil {
				break
			}
			if wrote++; wrote > 100_000 {
				t.Fatal("the server reads on without being read from")
			}
		}
		if waited := time.Since(start); waited < DefaultWriteTimeout || waited > 2*DefaultWriteTimeout {
			t.Errorf("ended after %v, want about %v", waited, DefaultWriteTimeout)
		}
		synctest.Wait()
		if r.server.registry.count() != 0 {
			t.Error("the connection is still there")
		}
		if !r.server.budget.TryAcquire(DefaultByteBudget) {
			t.Error("its requests still hold bytes of the budget")
		}
	})
}

func TestInflightLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.InflightSends = 3 })
		p := r.signedIn()
		p.makeTopic(1)
		var held []func()
		r.node.onSend = func(req SendRequest, done func(SendReply)) bool {
			held = append(held, func() { done(r.node.send(req)) })
			return true
		}
		frame := func() []byte {
			h := p.header(wire.OperationSendMessages)
			return h.AppendFrame(nil, sendBody(t, s0, t0, galgo.ToPartition(0), "x"))
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 6 {
				p.conn.Write(frame())
			}
		})
		synctest.Wait()
		if len(held) != 3 {
			t.Fatalf("%d sends reached the node, want 3", len(held))
		}
		r.node.post(held[0])
		if _, code := p.parsed(p.receive()); code != 0 {
			t.Fatal(code)
		}
		synctest.Wait()
		if len(held) != 4 {
			t.Fatalf("%d sends reached the node after one answer, want 4", len(held))
		}
		for i := 1; i < 6; i++ {
			synctest.Wait()
			r.node.post(held[i])
			p.receive()
		}
		wg.Wait()
	})
}

func TestInflightBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.InflightBytes = 1000 })
		p := r.signedIn()
		p.makeTopic(1)
		reached := 0
		r.node.onSend = func(SendRequest, func(SendReply)) bool { reached++; return true }
		h := p.header(wire.OperationSendMessages)
		big := string(make([]byte, 2000)) // alone it may exceed the limit
		go p.conn.Write(append(h.AppendFrame(nil, sendBody(t, s0, t0, galgo.ToPartition(0), big)),
			h.AppendFrame(nil, sendBody(t, s0, t0, galgo.ToPartition(0), "x"))...))
		synctest.Wait()
		if reached != 1 {
			t.Errorf("%d sends reached the node, want 1", reached)
		}
		p.conn.Close()
	})
}

// The byte budget of the server: when it is spent, connections are not read from;
// small commands go on.
func TestByteBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.FrameMax = 64 << 10; o.ByteBudget = 64 << 10 })
		a, b, c := r.signedIn(), r.signedIn(), r.signedIn()
		a.makeTopic(1)
		var held []func()
		r.node.onSend = func(req SendRequest, done func(SendReply)) bool {
			held = append(held, func() { done(r.node.send(req)) })
			return true
		}
		send := func(p *peer) {
			h := p.header(wire.OperationSendMessages)
			p.conn.Write(h.AppendFrame(nil, sendBody(t, s0, t0, galgo.ToPartition(0), string(make([]byte, 40<<10)))))
		}
		go send(a)
		synctest.Wait()
		go send(b)
		synctest.Wait()
		if len(held) != 1 {
			t.Fatalf("%d sends of 40 KiB reached the node with a budget of 64 KiB", len(held))
		}
		c.alive()
		r.node.post(held[0])
		a.receive()
		synctest.Wait()
		if len(held) != 2 {
			t.Fatalf("%d sends reached the node after the first was answered", len(held))
		}
		r.node.post(held[1])
		b.receive()
	})
}

// Polls count against the budget until they are written.
func TestPollsCountAgainstTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.FrameMax = 64 << 10; o.ByteBudget = 64 << 10 })
		a, b := r.signedIn(), r.signedIn()
		a.makeTopic(1)
		a.sendTo(0, string(make([]byte, 50<<10)))
		h := a.commandHeader(wire.CommandPollMessages)
		a.send(h, pollBody(0, galgo.FromFirst(), 1, false)) // is not read
		synctest.Wait()
		b.send(b.commandHeader(wire.CommandPollMessages), pollBody(0, galgo.FromFirst(), 1, false))
		synctest.Wait()
		if r.server.budget.TryAcquire(15 << 10) {
			t.Fatal("a poll of 50 KiB that nobody reads leaves 15 of 64 KiB free")
		}
		a.receive()
		if f := b.receive(); len(f) < 50<<10 {
			t.Fatalf("second poll has %d bytes", len(f))
		}
		synctest.Wait()
		if !r.server.budget.TryAcquire(64 << 10) {
			t.Error("bytes are still held after both polls were written")
		}
	})
}

func TestFrameAboveTheLimitOfOptions(t *testing.T) {
	r := newRig(t, func(o *Options) { o.FrameMax = 8 << 10 })
	p := r.signedIn()
	h := p.header(wire.OperationSendMessages)
	f := h.AppendFrame(nil, make([]byte, 8<<10))
	go p.conn.Write(f)
	p.wantClosed()
}

// A client that starts a frame and does not end it loses its connection.
func TestFrameThatDoesNotArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.signedIn()
		h := p.header(wire.OperationSendMessages)
		p.write(h.AppendFrame(nil, make([]byte, 10<<20))[:1<<20])
		start := time.Now()
		p.wantClosed()
		if waited := time.Since(start); waited != DefaultFrameTimeout+10*time.Second {
			t.Errorf("ended after %v, want the timeout and a second for each MiB", waited)
		}
		synctest.Wait()
		if !r.server.budget.TryAcquire(DefaultByteBudget) {
			t.Error("the frame still holds bytes of the budget")
		}
	})
}

// A quiet connection may be quiet for ever.
func TestQuietConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newRig(t).signedIn()
		p.alive()
		time.Sleep(1000 * time.Hour)
		p.alive()
	})
}

// A client that ends its side still gets what it asked for.
func TestAnswersAfterTheClientHasFinished(t *testing.T) {
	r := newRig(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var served sync.WaitGroup
	served.Go(func() {
		if err := r.server.Serve(ctx, transport.ListenTCP(listener, nil)); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	socket, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	p := r.peerOver(socket)
	p.login("iggy", "iggy")
	p.makeTopic(1)
	held := make(chan func(), 1)
	r.node.onSend = func(req SendRequest, done func(SendReply)) bool {
		held <- func() { done(r.node.send(req)) }
		return true
	}
	p.send(p.header(wire.OperationSendMessages), sendBody(t, s0, t0, galgo.ToPartition(0), "last words"))
	if err := socket.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	r.node.post(<-held)
	if _, code := p.parsed(p.receive()); code != 0 {
		t.Errorf("send before the end: %v", code)
	}
	p.wantClosed()
	cancel()
	served.Wait()
}

// Large polls over a real socket come whole, from many records.
func TestPollOverTCP(t *testing.T) {
	r := newRig(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var served sync.WaitGroup
	served.Go(func() { r.server.Serve(ctx, transport.ListenTCP(listener, nil)) })
	defer served.Wait()
	defer cancel()
	socket, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	p := r.peerOver(socket)
	p.login("iggy", "iggy")
	p.makeTopic(1)
	var want []string
	for i := range 64 {
		payload := fmt.Sprintf("%d-%s", i, make([]byte, 30_000))
		p.sendTo(0, payload)
		want = append(want, payload)
	}
	if got := payloads(p.poll(pollBody(0, galgo.FromFirst(), 1000, false))); !slices.Equal(got, want) {
		t.Errorf("%d messages came, want %d, each as sent", len(got), len(want))
	}
}

func TestConnectionLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Connections = 2 })
		a, b := r.signedIn(), r.signedIn()
		r.connect().wantClosed()
		a.conn.Close()
		synctest.Wait()
		r.signedIn().alive()
		b.alive()
	})
}

// Serve ends when its context does, and leaves nothing behind: the bubble would
// not end otherwise.
// Peers that say nothing cannot keep others out: when all places are taken, the one
// that has been silent for longest goes. Who has spoken stays.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Connections = 3 })
		speaks := r.connect()
		speaks.alive()
		older := r.connect()
		synctest.Wait()
		time.Sleep(r.server.options.HandshakeTimeout - time.Second)
		younger := r.connect()
		synctest.Wait()
		r.connect().wantClosed() // the others have had too little time yet
		time.Sleep(time.Second)
		r.connect().wantClosed()
		older.wantClosed()
		synctest.Wait()
		r.connect().alive()
		r.connect().wantClosed()
		younger.alive()
		speaks.alive()
	})
}

func TestServeStopsAllItStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		idle := r.connect()
		half := r.connect()
		half.write(make([]byte, 100))
		waiting := r.signedIn()
		waiting.makeTopic(1)
		r.node.onSend = func(SendRequest, func(SendReply)) bool { return true }
		r.node.onPoll = func(PollRequest, func(PollReply)) bool { return true }
		waiting.send(waiting.header(wire.OperationSendMessages), sendBody(t, s0, t0, galgo.ToPartition(0), "x"))
		waiting.send(waiting.commandHeader(wire.CommandPollMessages), pollBody(0, galgo.FromFirst(), 1, false))
		r.stop()
		for _, p := range []*peer{idle, half, waiting} {
			p.wantClosed()
		}
		if n := len(r.server.registry.conns); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

// flakyListener fails a few times before it works.
type flakyListener struct {
	*pipeListener
	errs []error
}

func (l *flakyListener) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, err
	}
	return l.pipeListener.Accept()
}

func TestAcceptErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		passing := fmt.Errorf("accept: %w", syscall.EMFILE)
		l := &flakyListener{newPipeListener(), []error{passing, passing, syscall.ECONNABORTED}}
		served := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { served <- r.server.Serve(ctx, transport.ListenTCP(l, nil)) }()
		server, client := net.Pipe()
		l.conns <- server
		p := r.peerOver(client)
		p.alive()
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		broken := errors.New("listener is broken")
		if err := r.server.Serve(t.Context(), transport.ListenTCP(&flakyListener{newPipeListener(), []error{broken}}, nil)); !errors.Is(err, broken) {
			t.Errorf("serve on a broken listener: %v", err)
		}
	})
}

func TestOptionsValidate(t *testing.T) {
	good := newRig(t).server.options
	if err := good.Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	for name, spoil := range map[string]func(*Options){
		"hasher":      func(o *Options) { o.Hasher = nil },
		"version":     func(o *Options) { o.Version = string(make([]byte, 256)) },
		"connections": func(o *Options) { o.Connections = -1 },
		"frame":       func(o *Options) { o.FrameMax = 100 },
		"budget":      func(o *Options) { o.ByteBudget = int64(o.FrameMax) - 1 },
		"sends":       func(o *Options) { o.InflightSends = -1 },
		"bytes":       func(o *Options) { o.InflightBytes = -1 },
		"queue":       func(o *Options) { o.ReplyQueueBytes = -1 },
		"reply":       func(o *Options) { o.ReplyTimeout = -1 },
		"frame time":  func(o *Options) { o.FrameTimeout = -1 },
		"write":       func(o *Options) { o.WriteTimeout = -1 },
		"grace":       func(o *Options) { o.StopGrace = -1 },
	} {
		bad := good
		if spoil(&bad); bad.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// The charge of a poll is estimated from the partition's mean before it is read,
// and corrected afterwards.
func TestChargeOfPollIsCorrected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget = 256 << 10
		r := newRig(t, func(o *Options) { o.FrameMax = 128 << 10; o.ByteBudget = budget })
		p := r.signedIn()
		p.makeTopic(1)
		p.sendTo(0, string(make([]byte, 100<<10)))
		p.sendTo(0, "s")
		for name, tc := range map[string]struct{ offset, free uint64 }{
			"far below the estimate": {1, budget - 1<<10},
			"above the estimate":     {0, budget - 102<<10},
		} {
			p.send(p.commandHeader(wire.CommandPollMessages), pollBody(0, galgo.FromOffset(tc.offset), 1, false))
			synctest.Wait() // it waits to be read
			if !r.server.budget.TryAcquire(int64(tc.free)) {
				t.Errorf("%s: %d bytes are not free while the answer waits", name, tc.free)
			} else {
				r.server.budget.Release(int64(tc.free))
			}
			p.receive()
			synctest.Wait()
		}
	})
}

// What waits to be taken is bounded even when it is not the reader that writes.
func TestReplyQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 8 << 10
		r := newRig(t, func(o *Options) { o.ReplyQueueBytes = limit; o.InflightSends = 4 })
		p := r.signedIn()
		p.makeTopic(1)
		frame := func() []byte {
			h := p.header(wire.OperationSendMessages)
			return h.AppendFrame(nil, sendBody(t, s0, t0, galgo.ToPartition(0), "x"))
		}
		wrote := 0
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 200 {
				if _, err := p.conn.Write(frame()); err != nil {
					return
				}
				wrote++
				time.Sleep(time.Millisecond) // lets the writer be the one that is stuck
			}
		})
		time.Sleep(time.Second)
		synctest.Wait()
		c := r.server.registry.spoken()[0]
		const answer = wire.HeaderSize + 24
		if got := c.out.backlog(); got > limit+5*answer {
			t.Errorf("%d bytes of answers wait after %d sends, limit %d and one answer for each in flight", got, wrote, limit)
		}
		if wrote == 200 {
			t.Error("all was read though nothing was taken")
		}
		p.conn.Close()
		wg.Wait()
	})
}

// Answers that were taken do not count any more, or the reading would stop for
// good, and the bubble say so.
func TestReplyQueueIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newRig(t, func(o *Options) { o.ReplyQueueBytes = 1 << 10 }).signedIn()
		for range 50 {
			p.alive()
		}
	})
}
