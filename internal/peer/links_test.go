package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"galgo/internal/freeport"
	"galgo/internal/vsr"
)

// recorder is a handler that keeps what it is told. Questions are answered with
// themselves, the subject before them; subject 0 is never answered.
type recorder struct {
	mu       sync.Mutex
	frames   []vsr.Message
	down     []uint8
	asked    int
	outlived uint64
}

func (r *recorder) Deliver(m vsr.Message, done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frames = append(r.frames, m)
	done()
}

func (r *recorder) Asked(_, subject uint8, question []byte, answer func([]byte)) {
	r.mu.Lock()
	r.asked++
	r.mu.Unlock()
	if subject != 0 {
		answer(append([]byte{subject}, question...))
	}
}

func (r *recorder) Heard(uint8) {}

func (r *recorder) LinkDown(replica uint8) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = append(r.down, replica)
}

func (r *recorder) Outlived(life uint64, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outlived = max(r.outlived, life)
}

// holds waits until a condition on what was recorded holds.
func (r *recorder) holds(t *testing.T, what string, f func() bool) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		ok := f()
		r.mu.Unlock()
		if ok {
			return
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("it never came to this: %s", what)
		}
	}
}

// side is one of two nodes.
type node struct {
	*Links
	*recorder
	stop func()
}

func options(self uint8, addresses ...string) Options {
	o := Options{Cluster: [16]byte{1}, ClusterName: "c", Self: self, Log: slog.New(slog.DiscardHandler)}
	for i, a := range addresses {
		o.Nodes = append(o.Nodes, Node{fmt.Sprint("n", i), a})
	}
	return o
}

func mustNew(t *testing.T, o Options) node {
	t.Helper()
	r := &recorder{}
	l, err := New(o, r)
	if err != nil {
		t.Fatal(err)
	}
	l.SetState(100, 100, Begun)
	return node{Links: l, recorder: r}
}

func run(t *testing.T, o Options, listener net.Listener) node {
	t.Helper()
	n := mustNew(t, o)
	n.begin(t, listener)
	return n
}

// begin runs a node.
func (n *node) begin(t *testing.T, listener net.Listener) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx, listener) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(n.stop)
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// pair runs two nodes that are connected.
func pair(t *testing.T, change func(*Options)) (a, b node) {
	t.Helper()
	ports, err := freeport.Take(2) // who comes back listens where it did before
	if err != nil {
		t.Fatal(err)
	}
	la, lb := listen(t, freeport.Loopback(ports[0])), listen(t, freeport.Loopback(ports[1]))
	oa, ob := options(0, la.Addr().String(), lb.Addr().String()), options(1, la.Addr().String(), lb.Addr().String())
	if change != nil {
		change(&oa)
		change(&ob)
	}
	a, b = run(t, oa, la), run(t, ob, lb)
	a.await(t, 1)
	b.await(t, 0)
	return a, b
}

// await waits until both lanes to a peer take frames.
func (n node) await(t *testing.T, peer uint8) {
	t.Helper()
	n.holds(t, fmt.Sprintf("connected to %d", peer), func() bool {
		for _, o := range n.peers[peer].out {
			o.queue.mu.Lock()
			open := o.queue.open
			o.queue.mu.Unlock()
			if !open {
				return false
			}
		}
		return n.Status(peer).Connected
	})
}

func prepare(op vsr.Op, size int) *vsr.Prepare {
	p := &vsr.Prepare{Header: vsr.Header{Group: 7, Op: op, Timestamp: uint64(op)}, Body: slices.Repeat([]byte{byte(op)}, size)}
	p.Seal()
	return p
}

// Frames of both lanes come as they left, in the order of their lane.
func TestFrames(t *testing.T) {
	a, b := pair(t, nil)
	sizes := []int{0, 100, bodyCopied, bodyCopied + 1, growth, 5 << 20}
	for i, size := range sizes {
		p := prepare(vsr.Op(i+1), size)
		a.Send(vsr.Message{Kind: vsr.MessagePrepare, To: 1, Op: p.Op, Identity: p.Identity, Prepare: p})
		a.Send(vsr.Message{Kind: vsr.MessageCommit, To: 1, Op: p.Op, Beat: uint64(i + 1)})
	}
	b.holds(t, "all frames are there", func() bool { return len(b.frames) == 2*len(sizes) })
	var beat uint64
	var op vsr.Op
	for _, m := range b.frames {
		switch m.Kind {
		case vsr.MessageCommit:
			if beat++; m.Beat != beat || m.From != 0 {
				t.Errorf("beat %d of %d, want %d", m.Beat, m.From, beat)
			}
		case vsr.MessagePrepare:
			if op++; m.Op != op || len(m.Prepare.Body) != sizes[op-1] {
				t.Errorf("op %d with %d bytes, want %d", m.Op, len(m.Prepare.Body), op)
			}
		}
	}
}

func TestQuestions(t *testing.T) {
	a, b := pair(t, nil)
	type outcome struct {
		answer []byte
		err    error
	}
	ask := func(to, subject uint8, head, body []byte) chan outcome {
		c := make(chan outcome, 2)
		a.Ask(to, Lane(len(body)%2), subject, head, body, func(answer []byte, err error) { c <- outcome{answer, err} })
		return c
	}
	for _, size := range []int{0, 10, shortBody, 3 << 20} {
		body := slices.Repeat([]byte{9}, size)
		got := <-ask(1, 5, []byte("head"), body)
		if want := "\x05head" + string(body); string(got.answer) != want || got.err != nil {
			t.Errorf("a question of %d bytes is answered with %d, %v", size, len(got.answer), got.err)
		}
	}
	if got := <-ask(0, 1, nil, nil); !errors.Is(got.err, ErrNotAsked) {
		t.Errorf("asking oneself: %v", got.err)
	}
	open := ask(1, 0, nil, nil)
	b.stop()
	if got := <-open; !errors.Is(got.err, ErrLost) {
		t.Errorf("the one that was asked is gone: %v", got.err)
	}
	a.holds(t, "told that the link is down", func() bool { return slices.Contains(a.down, 1) })
	for {
		if got := <-ask(1, 1, nil, nil); errors.Is(got.err, ErrNotAsked) {
			break
		}
	}
	if n := len(a.calls.pending); n != 0 {
		t.Errorf("%d questions are kept", n)
	}
}

// A question that was forgotten is not answered, nor one by somebody else.
func TestAnswersThatNobodyWaitsFor(t *testing.T) {
	c := newCalls()
	told := 0
	id, _ := c.begin(1, 10, func([]byte, error) { told++ })
	c.answered(2, id, nil)
	if told != 0 || len(c.pending) != 1 {
		t.Error("another replica answered")
	}
	c.answered(1, id, nil)
	c.answered(1, id, nil)
	c.lost(1)
	if told != 1 || c.bytes[1] != 0 {
		t.Errorf("told %d times, %d bytes are under way", told, c.bytes[1])
	}
	if _, ok := c.begin(2, askedMax+1, nil); !ok {
		t.Error("a long question is never asked")
	}
	if _, ok := c.begin(2, 1, nil); ok {
		t.Error("the bytes of questions are not bounded")
	}
	if _, ok := c.begin(3, askedMax-askedCost, nil); !ok {
		t.Error("a node has too much to answer, and another is not asked")
	}
	if a, b := newCalls(), newCalls(); a.next == b.next {
		t.Error("two lives number their questions alike")
	}
	c.next = 5
	for len(c.pending) < callsMax {
		c.pending[uint64(len(c.pending)+10)] = call{}
	}
	if _, ok := c.begin(1, 1, nil); ok {
		t.Error("questions are not bounded")
	}
}

// A node that comes back is found again, with what it says of itself now.
func TestReconnect(t *testing.T) {
	a, b := pair(t, nil)
	b.stop()
	a.holds(t, "told that the link is down", func() bool { return slices.Contains(a.down, 1) && !a.Status(1).Connected })
	again := mustNew(t, b.o)
	again.SetState(200, 100, Formed)
	again.begin(t, listen(t, b.o.Nodes[1].Address))
	a.await(t, 1)
	a.holds(t, "the phase is heard", func() bool { return a.Status(1).Phase == Formed })
	again.SetState(201, 100, Begun)
	a.holds(t, "the change is heard", func() bool { return a.Status(1) == Status{Connected: true, Phase: Begun, Life: 201, Judged: true} })
}

// The process of an earlier life is told so, and is not heard any more.
func TestLaterLifeTakesThePlace(t *testing.T) {
	a, b := pair(t, nil)
	o := b.o
	o.Nodes = slices.Clone(o.Nodes)
	o.Nodes[1].Address = "127.0.0.1:0" // of no use: both run at once
	later := mustNew(t, o)
	later.SetState(300, 200, Begun)
	later.begin(t, listen(t, "127.0.0.1:0"))
	b.holds(t, "the earlier life learns of the later", func() bool { return b.outlived == 300 })
	a.holds(t, "the later life is there", func() bool { return a.Status(1).Connected && a.Status(1).Life == 300 })
	var first vsr.Message
	a.holds(t, "the later life is heard", func() bool {
		later.Send(vsr.Message{Kind: vsr.MessageSuspect, From: 1, To: 0, View: 77})
		b.Send(vsr.Message{Kind: vsr.MessageSuspect, From: 1, To: 0, View: 66})
		if len(a.frames) > 0 {
			first = a.frames[0]
		}
		return len(a.frames) > 0
	})
	if first.View != 77 {
		t.Errorf("heard view %d, of the life that is over", first.View)
	}
}

// A node that comes back over one lane is not heard over the other any more, as it was
// in its life before.
func TestConnectionsOfOtherLivesAreClosed(t *testing.T) {
	n := mustNew(t, options(0, "a:1", "b:1"))
	k := n.peers[1]
	old, other := net.Pipe()
	k.connected(newIncoming(k, Bulk, 100, old), Begun)
	k.connected(newIncoming(k, Control, 90, nil), Empty)
	other.SetReadDeadline(time.Now().Add(time.Second))
	if _, err := other.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection of another life: %v", err)
	}
	if k.in[Bulk] != nil || k.life != 100 {
		t.Errorf("it still counts; latest life %d", k.life)
	}
}

// An empty process with the id of a node that runs does not take its place.
func TestWhoHasNotBegunReplacesNobody(t *testing.T) {
	n := mustNew(t, options(0, "a:1", "b:1"))
	k := n.peers[1]
	live, _ := net.Pipe()
	other, _ := net.Pipe()
	if !k.connected(newIncoming(k, Control, 100, live), Begun) {
		t.Fatal("not connected")
	}
	for _, lane := range []Lane{Control, Bulk} {
		for _, phase := range []Phase{Empty, Formed} {
			if k.connected(newIncoming(k, lane, 200, other), phase) || n.Status(1) != (Status{Connected: true, Phase: Begun, Life: 100}) {
				t.Errorf("one that is %v took the place over %v: %+v", phase, lane, n.Status(1))
			}
		}
	}
	k.disconnected(k.in[Control])
	if !k.connected(newIncoming(k, Control, 200, other), Empty) {
		t.Error("not connected, although the one that ran is gone")
	}
}

// What does not belong on a connection ends it.
func TestRecordsThatEndAConnection(t *testing.T) {
	frame := func(m vsr.Message) entry { return frameEntry(m) }
	commit := vsr.Message{Kind: vsr.MessageCommit, From: 1, To: 0}
	p := prepare(1, 10)
	torn := dataEntry(recordState, make([]byte, stateSize), nil)
	for _, c := range []struct {
		name  string
		entry entry
		spoil func([]byte)
	}{
		{"of another replica", frame(vsr.Message{Kind: vsr.MessageCommit, From: 2, To: 0}), nil},
		{"for another replica", frame(vsr.Message{Kind: vsr.MessageCommit, From: 1, To: 2}), nil},
		{"on the wrong lane", frame(vsr.Message{Kind: vsr.MessagePrepare, From: 1, To: 0, Op: 1, Identity: p.Identity, Prepare: p}), nil},
		{"a torn frame", frame(commit), func(b []byte) { b[len(b)-1]++ }},
		{"a torn record", torn, func(b []byte) { b[len(b)-1]++ }},
		{"an unknown kind", torn, func(b []byte) { b[4] = byte(recordKinds) }},
		{"too long", torn, func(b []byte) { b[3] = 0xff }},
		{"too short", torn, func(b []byte) { b[0]-- }},
		{"something where zeros belong", torn, func(b []byte) { b[6] = 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			la := listen(t, "127.0.0.1:0")
			a := run(t, options(0, la.Addr().String(), "127.0.0.1:1", "127.0.0.1:1"), la)
			b := mustNew(t, options(1, la.Addr().String(), "127.0.0.1:1", "127.0.0.1:1"))
			conn, err := net.Dial("tcp", la.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := b.greet(conn, 0, Control); err != nil {
				t.Fatal(err)
			}
			head, body := appendRecord(nil, &c.entry)
			bytes := append(head, body...)
			if c.spoil != nil {
				c.spoil(bytes)
			}
			good := frameEntry(vsr.Message{Kind: vsr.MessageSuspect, From: 1, To: 0})
			head, _ = appendRecord(nil, &good)
			conn.Write(append(bytes, head...)) // nothing that follows is heard
			a.holds(t, "the connection is ended", func() bool { return slices.Contains(a.down, 1) })
			a.stop()
			if len(a.frames) > 0 {
				t.Errorf("delivered %v", a.frames)
			}
		})
	}
}

func TestWindow(t *testing.T) {
	w := newWindow(10)
	if !w.acquire(20) {
		t.Fatal("nothing is under way, and a long record has no room")
	}
	if w.tryAcquire(1) {
		t.Error("taken beyond the window")
	}
	got := make(chan bool)
	go func() { got <- w.acquire(10) }()
	w.release(20)
	if !<-got {
		t.Error("no room after it was given back")
	}
	go func() { got <- w.acquire(10) }()
	w.close()
	if <-got {
		t.Error("taken although the window was closed")
	}
}
