package router

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"galgo"
	"galgo/internal/peer"
)

// trip is a request on its way to whoever decides it.
type trip[T any] struct {
	router *Router
	group  uint64
	client galgo.ClientID // whose writes to the group keep their order; zero: of nobody

	here    func(done func(T)) // asks this node
	lane    peer.Lane
	subject uint8 // head and body: the question to another
	head    []byte
	body    []byte
	decode  func([]byte) (T, error)
	refused func(*T) bool // nobody has done anything
	refusal func(galgo.Code) T
	settle  func(v T, tell func(T)) // takes the answer of another node
	done    func(T)

	first bool      // of its line
	until time.Time // zero before it waits
	pause time.Duration
}

// enter asks this node, unless an earlier write of the client is on its way.
func (t *trip[T]) enter() {
	if t.ordered() && t.router.lines.some.Load() {
		t.until = time.Now().Add(patience)
		if t.router.lines.behind(t.line(), t.next) {
			return
		}
	}
	t.begin()
}

func (t *trip[T]) ordered() bool { return t.client != galgo.ClientID{} }

func (t *trip[T]) line() line { return line{t.client, t.group} }

func (t *trip[T]) begin() { t.here(t.answeredHere) }

// next begins as the first of its line.
func (t *trip[T]) next() {
	t.first = true
	t.begin()
}

// end tells the outcome, and has the next of the line begin.
func (t *trip[T]) end(v T) {
	t.done(v)
	if t.first {
		t.router.lines.leave(t.line())
	}
}

func (t *trip[T]) answeredHere(v T) {
	if !t.refused(&v) {
		t.end(v)
		return
	}
	if t.ordered() && !t.first {
		if !t.router.lines.join(t.line(), t.next) {
			return
		}
		t.first = true
	}
	t.router.Leader(t.group, func(leader uint8, known bool) {
		switch {
		case !known:
			t.again()
		case leader == t.router.self:
			t.end(v) // it has too much to do, or will lead in a moment
		default:
			t.ask(leader)
		}
	})
}

// again tries once more after a pause, unless it took too long already.
func (t *trip[T]) again() {
	now := time.Now()
	switch {
	case t.until.IsZero():
		t.until = now.Add(patience)
	case now.After(t.until) || t.router.stopped.Load():
		t.end(t.refusal(galgo.CodeTransientNotAccepted))
		return
	}
	t.pause = max(t.pause, pauseMin)
	pause := t.pause/2 + rand.N(t.pause)
	t.pause = min(2*t.pause, pauseMax)
	time.AfterFunc(pause, t.begin) // from here on the trip is that of another goroutine
}

// ask asks the node that leads. An answer that does not come in time is not waited for:
// the outcome is open.
func (t *trip[T]) ask(leader uint8) {
	var over atomic.Bool
	var cancel atomic.Pointer[func()]
	timer := time.AfterFunc(answerMax, func() {
		if !over.CompareAndSwap(false, true) {
			return
		}
		if forget := cancel.Load(); forget != nil {
			(*forget)()
		}
		t.end(t.refusal(galgo.CodeTransientNotCommitted))
	})
	forget := t.router.peers.Ask(leader, t.lane, t.subject, t.head, t.body, func(answer []byte, err error) {
		if over.CompareAndSwap(false, true) {
			timer.Stop()
			t.answered(answer, err)
		}
	})
	cancel.Store(&forget)
}

func (t *trip[T]) answered(answer []byte, err error) {
	if errors.Is(err, peer.ErrNotAsked) || err == nil && len(answer) == 0 {
		t.again()
		return
	}
	if err != nil {
		t.end(t.refusal(galgo.CodeTransientNotCommitted))
		return
	}
	v, err := t.decode(answer)
	switch {
	case err != nil:
		t.end(t.refusal(galgo.CodeTransientNotCommitted))
	case t.refused(&v):
		t.again()
	default:
		t.settle(v, t.end)
	}
}
