package router

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/peer"
)

// heldPeers keep what is asked, and answer when they are told to.
type heldPeers struct {
	asked chan held
}

type held struct {
	to      uint8
	lane    peer.Lane
	request uint64
	round   uint64
	answer  func([]byte, error)
}

func (p *heldPeers) Ask(to uint8, lane peer.Lane, subject uint8, head, body []byte, done func([]byte, error)) func() {
	h := held{to: to, lane: lane, answer: done}
	_, round, rest, _ := cutTurn(slices.Concat(head, body))
	h.round = round
	if subject == subjectSend {
		req, _, _ := decodeSend(rest)
		h.request = req.Request
	} else {
		req, _, _ := decodeOffset(rest)
		h.request = req.Request
	}
	p.asked <- h
	return func() {}
}

// sending is a router of node 0 whose peers answer as they are told to.
func sending(leader ...int) (*Router, *heldPeers, *fakeNode) {
	p := &heldPeers{asked: make(chan held, 1000)}
	n := &fakeNode{codes: []galgo.Code{refused}, leader: leader, told: map[uint64]uint64{}}
	return New(n, 0, p), p, n
}

var stored = appendSendReply(nil, &edge.SendReply{Op: 1})

// The writes of a client to a group that leave the node are all asked at once, in their
// order. Where one is refused all that were go again, in their order, when the last has
// landed. Those of others, or to other groups, do not wait for them.
func TestWritesOfAClientKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p, _ := sending(1)
		answered := make(chan uint64, 10)
		send := func(client byte, group, request uint64) {
			r.Send(edge.SendRequest{Client: galgo.ClientID{client}, Group: group, Request: request}, func(edge.SendReply) { answered <- request })
		}
		send(1, 5, 1)
		send(1, 5, 2)
		r.StoreOffset(edge.OffsetRequest{Client: galgo.ClientID{1}, Group: 5, Request: 3}, func(edge.OffsetReply) { answered <- 3 })
		first, second, third := <-p.asked, <-p.asked, <-p.asked
		for i, h := range []held{first, second, third} {
			if h.request != uint64(i+1) || h.round != first.round || h.lane != peer.Bulk {
				t.Fatalf("asked %+v, want %d in the round of the first, %d", h, i+1, first.round)
			}
		}
		send(2, 5, 9)
		send(1, 6, 8)
		if a, b := <-p.asked, <-p.asked; a.request != 9 || b.request != 8 {
			t.Errorf("asked %d and %d: others wait", a.request, b.request)
		}
		first.answer(stored, nil)
		send(1, 5, 4)
		fourth := <-p.asked
		third.answer(nil, nil)
		time.Sleep(time.Minute / 60)
		if len(p.asked) > 0 {
			t.Errorf("asked %+v again while one before it is under way", <-p.asked)
		}
		fourth.answer(nil, nil)
		second.answer(nil, nil)
		var again []held
		for len(again) < 3 {
			h := <-p.asked
			again = append(again, h)
			h.answer(stored, nil) // of an offset this is malformed: its outcome is open
		}
		if again[0].request != 2 || again[1].request != 3 || again[2].request != 4 || again[0].round <= first.round {
			t.Errorf("asked again: %+v", again)
		}
		for want := uint64(1); want <= 4; want++ {
			if got := <-answered; got != want {
				t.Errorf("%d was answered, want %d", got, want)
			}
		}
		synctest.Wait()
		left := 0
		for i := range r.lines {
			left += len(r.lines[i].all)
		}
		if left != 2 {
			t.Errorf("%d lines are left, want 2 that carry something", left)
		}
	})
}

// A leader that has too much to do is asked again ever more seldom, within the time that
// the client has, and a new one at once.
func TestBusyLeaderIsSpared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p, n := sending(1)
		var answered atomic.Uint32
		code := func() galgo.Code { return galgo.Code(answered.Load()) }
		asks := 0
		ask := func(answer []byte, until func() bool) {
			answered.Store(99)
			r.Send(edge.SendRequest{Client: galgo.ClientID{1}, Group: 5}, func(v edge.SendReply) { answered.Store(uint32(v.Code)) })
			for asks = 0; !until(); {
				select {
				case h := <-p.asked:
					asks++
					h.answer(answer, nil)
				case <-time.After(time.Millisecond):
				}
			}
		}
		began := time.Now()
		ask([]byte{reasonBusy}, func() bool { return code() != 99 })
		if took := time.Since(began); code() != refused || asks < 5 || asks > 20 || took < patience || took > patience+time.Second {
			t.Errorf("code %d after %d sends and %v", code(), asks, took)
		}
		ask(nil, func() bool { return code() != 99 })
		if code() != refused || asks < 20 || asks > 70 {
			t.Errorf("who does not lead is asked %d times, code %d", asks, code())
		}
		began = time.Now()
		ask([]byte{reasonBusy}, func() bool { return time.Since(began) > 5*time.Second })
		n.mu.Lock()
		n.leader = []int{2}
		n.mu.Unlock()
		began = time.Now()
		for h := (held{}); h.to != 2; {
			if h = <-p.asked; h.to == 2 {
				h.answer(stored, nil)
			} else {
				h.answer([]byte{reasonBusy}, nil)
			}
		}
		if took := time.Since(began); took > 3*pauseMax/2 {
			t.Errorf("the new leader is asked after %v", took)
		}
	})
}

// What one that leads refuses is told apart from what one refuses that does not.
func TestRefusalsSayWhy(t *testing.T) {
	for leader, want := range map[int]refusal{1: busy, 0: nothing, -1: nothing} {
		n := &fakeNode{codes: []galgo.Code{refused}, leader: []int{leader}}
		b := New(n, 1, nil)
		var got []refusal
		answer := func(a []byte) { got = append(got, refusalOf(a)) }
		b.Asked(0, subjectSend, append(appendSend(appendTurn(nil, 1, 1), &edge.SendRequest{Group: 5}, 0), batch()...), answer)
		b.Asked(0, subjectStoreOffset, appendOffset(appendTurn(nil, 1, 1), &edge.OffsetRequest{Group: 5}, 0), answer)
		b.Asked(0, subjectMetadata, appendMetadata(nil, &edge.MetadataRequest{}), answer)
		if !slices.Equal(got, []refusal{want, want, want}) {
			t.Errorf("the leader is %d: refused with %v, want %d", leader, got, want)
		}
	}
}

// What follows a refused write of a line is refused, until a new round begins.
func TestGuestsDoNotOvertake(t *testing.T) {
	var all guests
	at := func(asker uint64, client byte, round uint64) *guest {
		return &guest{guests: &all, from: 1, asker: asker, place: place{galgo.ClientID{client}, 5}, round: round}
	}
	admits := func(g *guest, want bool, what string) {
		t.Helper()
		if g.Admit() != want {
			t.Errorf("%s: admitted is %v", what, !want)
		}
	}
	at(7, 1, 3).refuse()
	admits(at(7, 1, 3), false, "one behind it")
	admits(at(7, 2, 3), true, "another line")
	admits(at(7, 1, 4), true, "the next round")
	admits(at(7, 1, 4), true, "one behind that")
	if len(all.of[1].refused) != 0 {
		t.Error("a round that is over is remembered")
	}
	for i := range marksMax + 1 {
		g := at(7, 1, 10)
		g.place.group = uint64(i)
		g.refuse()
	}
	if n := len(all.of[1].refused); n > marksMax {
		t.Errorf("%d lines are remembered", n)
	}
	admits(at(7, 1, 10), false, "a round as old as those that are not remembered")
	admits(at(7, 1, 11), true, "a later round")
	admits(at(8, 1, 2), true, "another process")
	if g := (&guest{guests: &all, from: 2, asker: 7, place: place{galgo.ClientID{1}, 5}, round: 3}); !g.Admit() {
		t.Error("another node is refused")
	}
}

// lossy is three nodes of which one leads a group, with links that lose.
type lossy struct {
	mu      sync.Mutex // of rng, inboxes and what flies: the pauses of routers end beside the test
	rng     *rand.Rand
	leader  int
	log     []uint64 // of the sends, those that came twice once
	known   map[uint64]bool
	nodes   [3]*lossyNode
	wires   [3][3]*link
	refusal int // so many sends are refused next
}

func (c *lossy) draw(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.IntN(n)
}

type lossyNode struct {
	*fakeNode
	net    *lossy
	self   int
	router *Router
	inbox  []func()
}

// link is the connection from one node to another: first in, first out, until it breaks.
type link struct {
	to     *lossyNode
	from   uint8
	life   int
	flying []*flight
}

type flight struct {
	subject  uint8
	question []byte
	done     func([]byte, error)
}

// later has something done in a step.
func (n *lossyNode) later(f func()) {
	n.net.mu.Lock()
	n.inbox = append(n.inbox, f)
	n.net.mu.Unlock()
}

// next takes what is done first, if there is anything.
func (n *lossyNode) next() func() {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	if len(n.inbox) == 0 {
		return nil
	}
	f := n.inbox[0]
	n.inbox = n.inbox[1:]
	return f
}

func (n *lossyNode) Send(req edge.SendRequest, done func(edge.SendReply)) {
	n.later(func() {
		c := n.net
		switch {
		case c.leader != n.self:
			done(edge.SendReply{Code: refused})
		case c.known[req.Request]:
			done(edge.SendReply{Op: 1})
		case c.refusal > 0:
			c.refusal--
			done(edge.SendReply{Code: refused})
		case req.Gate != nil && !req.Gate.Admit():
			done(edge.SendReply{Code: refused})
		default:
			c.log = append(c.log, req.Request)
			c.known[req.Request] = true
			done(edge.SendReply{Op: 1})
		}
	})
}

func (n *lossyNode) Leader(_ uint64, done func(uint8, bool)) {
	n.later(func() {
		if n.net.draw(5) == 0 {
			done(0, false)
		} else {
			done(uint8(n.net.leader), true)
		}
	})
}

// peersOf is how a node asks the others.
type peersOf struct {
	net  *lossy
	self int
}

func (p *peersOf) Ask(to uint8, _ peer.Lane, subject uint8, head, body []byte, done func([]byte, error)) func() {
	if p.net.draw(20) == 0 {
		done(nil, peer.ErrNotAsked)
		return func() {}
	}
	w := p.net.wires[p.self][to]
	p.net.mu.Lock()
	w.flying = append(w.flying, &flight{subject, slices.Concat(head, body), done})
	p.net.mu.Unlock()
	return func() {}
}

// step has something happen.
func (c *lossy) step() {
	a, b, what := c.draw(3), c.draw(3), c.draw(600)
	if what%3 > 0 {
		if f := c.nodes[a].next(); f != nil {
			f()
			return
		}
	}
	switch {
	case a != b && c.wires[a][b].step(c):
	case what < 3:
		c.leader = c.draw(3)
	case what < 9:
		c.refusal = c.draw(4)
	}
}

// step delivers the first question on a link, or breaks it. It reports whether there was
// anything.
func (w *link) step(c *lossy) bool {
	c.mu.Lock()
	if len(w.flying) == 0 {
		c.mu.Unlock()
		return false
	}
	if c.rng.IntN(30) == 0 {
		over := w.flying
		w.flying, w.life = nil, w.life+1
		c.mu.Unlock()
		for _, f := range over {
			f.done(nil, peer.ErrLost)
		}
		return true
	}
	i := slices.IndexFunc(w.flying, func(f *flight) bool { return f.question != nil })
	if w.flying[0].question == nil || i < 0 {
		c.mu.Unlock()
		return true // what is behind it may still be delivered: answers come in any order
	}
	f, life := w.flying[i], w.life
	question := f.question
	f.question = nil
	c.mu.Unlock()
	w.to.router.Asked(w.from, f.subject, question, func(answer []byte) {
		c.mu.Lock()
		here := w.life == life
		if here {
			w.flying = slices.DeleteFunc(w.flying, func(o *flight) bool { return o == f })
		}
		c.mu.Unlock()
		if here {
			f.done(answer, nil)
		}
	})
	return true
}

// Whatever is lost or refused on the way, and whoever leads: the sends of a client that
// are numbered are stored once each, in their order.
func TestOrderOverLinksThatLose(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			c := &lossy{rng: rand.New(rand.NewPCG(seed, 1)), leader: int(seed % 3), known: map[uint64]bool{}}
			for i := range c.nodes {
				n := &lossyNode{fakeNode: &fakeNode{told: map[uint64]uint64{}}, net: c, self: i}
				n.router = New(n, uint8(i), &peersOf{c, i})
				c.nodes[i] = n
			}
			for i := range c.wires {
				for j := range c.wires[i] {
					c.wires[i][j] = &link{to: c.nodes[j], from: uint8(i)}
				}
			}
			const each = 30
			sent := [2]uint64{}
			var answered, failed atomic.Int64
			for deadline := time.Now().Add(patience / 2); answered.Load() < 2*each && time.Now().Before(deadline); {
				for client := range uint64(2) {
					if sent[client] < each && c.draw(4) == 0 {
						sent[client]++
						id := client*1000 + sent[client]
						c.nodes[client].router.Send(edge.SendRequest{
							Client: galgo.ClientID{byte(client + 1)}, Group: 5, Request: id, Numbered: true, Batch: batch(),
						}, func(v edge.SendReply) {
							answered.Add(1)
							if v.Code != accepted && v.Code != refused && v.Code != open {
								failed.Add(1)
							}
						})
					}
				}
				for range 5 {
					c.step()
				}
				if c.draw(4) == 0 {
					time.Sleep(time.Millisecond)
					synctest.Wait()
				}
			}
			if n := answered.Load(); n < 2*each {
				t.Errorf("seed %d: %d of %d are answered", seed, n, 2*each)
			}
			if n := failed.Load(); n > 0 {
				t.Errorf("seed %d: %d are answered with codes that no send has", seed, n)
			}
			last := [2]uint64{}
			for _, id := range c.log {
				if client := id / 1000; id <= last[client] {
					t.Errorf("seed %d: %d comes after %d", seed, id, last[client])
				} else {
					last[client] = id
				}
			}
			for _, n := range c.nodes {
				n.router.Stop()
			}
			time.Sleep(time.Minute) // what is under way ends
			synctest.Wait()
		})
	}
}

// When the time of the first is over, nothing behind it goes on alone.
func TestWhoGivesUpIsNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p, _ := sending(1)
		var over []time.Duration
		began := time.Now()
		send := func() {
			r.Send(edge.SendRequest{Client: galgo.ClientID{1}, Group: 5}, func(edge.SendReply) { over = append(over, time.Since(began)) })
		}
		send()
		second := false
		for time.Since(began) < 2*patience {
			select {
			case h := <-p.asked:
				h.answer([]byte{reasonBusy}, nil)
			case <-time.After(time.Millisecond):
			}
			if !second && time.Since(began) > patience/2 {
				second = true
				send()
			}
		}
		if len(over) != 2 || over[0] != over[1] {
			t.Errorf("given up after %v", over)
		}
	})
}

// slowPeers take their time to take a question.
type slowPeers struct {
	inside, go1 chan struct{}
	mu          sync.Mutex
	asked       []uint64
}

func (p *slowPeers) Ask(_ uint8, _ peer.Lane, _ uint8, head, body []byte, done func([]byte, error)) func() {
	_, _, rest, _ := cutTurn(slices.Concat(head, body))
	req, _, _ := decodeSend(rest)
	if req.Request == 1 {
		close(p.inside)
		<-p.go1
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, req.Request)
	return func() {}
}

// One goroutine at a time asks for a line.
func TestOneAsksForALine(t *testing.T) {
	p := &slowPeers{inside: make(chan struct{}), go1: make(chan struct{})}
	r := New(&fakeNode{codes: []galgo.Code{refused}, leader: []int{1}}, 0, p)
	send := func(request uint64) {
		r.Send(edge.SendRequest{Client: galgo.ClientID{1}, Group: 5, Request: request}, func(edge.SendReply) {})
	}
	over := make(chan struct{})
	go func() { send(1); close(over) }()
	<-p.inside
	send(2)
	close(p.go1)
	<-over
	if !slices.Equal(p.asked, []uint64{1, 2}) {
		t.Errorf("asked in the order %v", p.asked)
	}
}

// still is a passenger that flies until it is told that it has landed.
type still struct {
	n     uint64
	until time.Time
	flew  bool
}

func (s *still) fly(uint8, uint64)    { s.flew = true }
func (s *still) fail()                {}
func (s *still) number() uint64       { return s.n }
func (s *still) deadline() *time.Time { return &s.until }

// Whoever comes late to look after a line that was empty, and is forgotten, leaves alone the one that has
// its place now: else a third could begin beside it, and writes overtake each other.
func TestForgottenLineForgetsNoOther(t *testing.T) {
	r := New(&fakeNode{leader: []int{1}}, 0, nil)
	p := place{galgo.ClientID{1}, 5}
	var first, second, third *line
	a, b, c, d := &still{n: 1}, &still{n: 2}, &still{n: 3}, &still{n: 4}
	r.join(p, a, &first)
	r.join(p, b, &first)
	first.pump()
	first.note(a, taken) // two goroutines land at the same moment
	first.note(b, taken)
	first.pump() // one looks after the line
	r.join(p, c, &second)
	second.pump()
	first.pump() // the other
	r.join(p, d, &third)
	third.pump()
	if !c.flew || !d.flew {
		t.Fatal("a write does not fly")
	}
	if third != second {
		t.Error("two lines of one client to one group carry writes at a time")
	}
}
