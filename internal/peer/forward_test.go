package peer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"galgo/internal/vsr"
)

// leading is a node that leads a group: a question is a send, and is answered when the
// peer has acknowledged the prepare made of it, as of two nodes of three while the third
// is away.
type leading struct {
	recorder
	links   *Links
	self    uint8
	mu      sync.Mutex
	op      vsr.Op
	pending map[vsr.Op]func([]byte)
}

func (h *leading) Deliver(m vsr.Message, done func()) {
	switch m.Kind {
	case vsr.MessagePrepare:
		h.links.Send(vsr.Message{Kind: vsr.MessagePrepareOk, From: h.self, To: m.From, Op: m.Op})
	case vsr.MessagePrepareOk:
		h.mu.Lock()
		answer := h.pending[m.Op]
		delete(h.pending, m.Op)
		h.mu.Unlock()
		answer([]byte("stored"))
	}
	done()
}

func (h *leading) Asked(_, _ uint8, question []byte, answer func([]byte)) {
	h.mu.Lock()
	h.op++
	p := &vsr.Prepare{Header: vsr.Header{Group: 7, Op: h.op, Timestamp: uint64(h.op)}, Body: question}
	h.pending[h.op] = answer
	h.mu.Unlock()
	p.Seal()
	h.links.Send(vsr.Message{Kind: vsr.MessagePrepare, From: h.self, To: 1 - h.self, Op: p.Op, Identity: p.Identity, Prepare: p})
}

// Two nodes ask each other for more than they may have under way, and each question wants
// a frame of the one who asked before it is answered: nothing waits for itself.
func TestForwardingBothWaysDoesNotStopFrames(t *testing.T) {
	la, lb := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
	var hs [2]*leading
	for i, l := range []net.Listener{la, lb} {
		h := &leading{self: uint8(i), pending: map[vsr.Op]func([]byte){}}
		links, err := New(options(uint8(i), la.Addr().String(), lb.Addr().String()), h)
		if err != nil {
			t.Fatal(err)
		}
		h.links, hs[i] = links, h
		links.SetState(100, 100, Begun)
		n := node{Links: links, recorder: &h.recorder}
		n.begin(t, l)
	}
	for i, h := range hs {
		node{Links: h.links, recorder: &h.recorder}.await(t, uint8(1-i))
	}
	body := bytes.Repeat([]byte{7}, 1<<20)
	var all sync.WaitGroup
	for i := range hs {
		for range 2 * askedMax >> 20 {
			all.Go(func() {
				for {
					outcome := make(chan error, 1)
					hs[i].links.Ask(uint8(1-i), Bulk, 2, nil, body, func(_ []byte, err error) { outcome <- err })
					err := <-outcome
					if err == nil {
						return
					}
					if !errors.Is(err, ErrNotAsked) {
						t.Errorf("a question ends with %v", err)
						return
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
	}
	all.Wait()
	for _, h := range hs {
		h.recorder.mu.Lock()
		if len(h.down) > 0 {
			t.Error("a connection broke")
		}
		h.recorder.mu.Unlock()
	}
}

// silent answers nothing.
type silent struct {
	recorder
	asked int
}

func (h *silent) Asked(uint8, uint8, []byte, func([]byte)) { h.asked++ }

// A question for which there is no room is answered with nothing, and what follows is
// read.
func TestQuestionsBeyondTheBoundAreAnsweredWithNothing(t *testing.T) {
	la, lb := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
	h := &silent{}
	links, err := New(options(0, la.Addr().String(), lb.Addr().String()), h)
	if err != nil {
		t.Fatal(err)
	}
	links.SetState(100, 100, Begun)
	a := node{Links: links, recorder: &h.recorder}
	a.begin(t, la)
	b := run(t, options(1, la.Addr().String(), lb.Addr().String()), lb)
	a.await(t, 1)
	b.await(t, 0)
	got := make(chan []byte, 1)
	id, _ := b.calls.begin(0, 1, func(answer []byte, _ error) { got <- answer })
	put := func(id uint64, size int) {
		head := append(binary.LittleEndian.AppendUint64(nil, id), 1)
		b.peers[0].out[Bulk].queue.put(dataEntry(recordCall, head, make([]byte, size)), rankAsked)
	}
	put(id+1, askedMax)
	put(id, shortBody)
	if answer := <-got; len(answer) != 0 {
		t.Errorf("answered with %q", answer)
	}
	b.Send(vsr.Message{Kind: vsr.MessageCommit, From: 1, To: 0})
	a.holds(t, "what follows is read", func() bool { return len(a.frames) == 1 })
	if h.asked != 1 {
		t.Errorf("asked %d times", h.asked)
	}
}

// ordered records the order of questions, of which each is a number first.
type ordered struct {
	recorder
	seen []uint32
}

func (h *ordered) Asked(_, _ uint8, question []byte, answer func([]byte)) {
	h.seen = append(h.seen, binary.LittleEndian.Uint32(question))
	answer([]byte{1})
}

// Questions on a lane come in the order in which they were asked, whatever their length.
func TestQuestionsKeepTheirOrder(t *testing.T) {
	la, lb := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
	a := run(t, options(0, la.Addr().String(), lb.Addr().String()), la)
	h := &ordered{}
	links, err := New(options(1, la.Addr().String(), lb.Addr().String()), h)
	if err != nil {
		t.Fatal(err)
	}
	links.SetState(100, 100, Begun)
	b := node{Links: links, recorder: &h.recorder}
	b.begin(t, lb)
	a.await(t, 1)
	b.await(t, 0)
	var all sync.WaitGroup
	for i := range uint32(100) {
		size := 100
		if i%2 == 0 {
			size = 200 << 10
		}
		all.Add(1)
		a.Ask(1, Bulk, 2, binary.LittleEndian.AppendUint32(nil, i), make([]byte, size), func([]byte, error) { all.Done() })
	}
	all.Wait()
	b.stop()
	if len(h.seen) != 100 || !slices.IsSorted(h.seen) {
		t.Errorf("%d questions came in the order %v", len(h.seen), h.seen)
	}
}
