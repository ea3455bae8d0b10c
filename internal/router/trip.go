package router

import (
	"errors"
	"sync/atomic"
	"time"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/peer"
)

// trip is a request on its way to whoever decides it.
type trip[T any] struct {
	router *Router
	group  uint64
	client galgo.ClientID // whose writes to the group keep their order; zero: of nobody

	here     func(gate edge.Gate, done func(T)) // asks this node
	lane     peer.Lane
	subject  uint8
	question func(round uint64) (head, body []byte) // to another
	decode   func([]byte) (T, error)
	refused  func(*T) bool // nobody has done anything
	pending  func(*T) bool // what became of it is not known there
	refusal  func(galgo.Code) T
	settle   func(v T, tell func(T)) // takes the answer of another node
	done     func(T)
	// recognised: the log knows the request when it comes again, so that what was lost on
	// the way is asked once more.
	recognised bool

	line  *line
	order uint64
	until time.Time
	open  bool // it left, and what became of it is not known
}

func (t *trip[T]) enter() {
	t.order = t.router.arrivals.Add(1)
	if (t.client == galgo.ClientID{}) {
		t.line = t.router.alone(t.group, t)
	} else {
		t.router.join(place{t.client, t.group}, t, &t.line)
	}
	t.line.pump()
}

func (t *trip[T]) number() uint64       { return t.order }
func (t *trip[T]) deadline() *time.Time { return &t.until }

// Admit implements edge.Gate.
func (t *trip[T]) Admit() bool { return t.line.unbroken() }

func (t *trip[T]) fly(to uint8, round uint64) {
	if to == t.router.self {
		t.here(t, t.answeredHere)
	} else {
		t.ask(to, round)
	}
}

// fail tells the client that nobody has accepted the request, or that its outcome is
// open.
func (t *trip[T]) fail() {
	if t.open {
		t.done(t.refusal(galgo.CodeTransientNotCommitted))
	} else {
		t.done(t.refusal(galgo.CodeTransientNotAccepted))
	}
}

func (t *trip[T]) answeredHere(v T) {
	if t.refused(&v) {
		t.line.landed(t, here)
		return
	}
	t.done(v)
	t.line.landed(t, taken)
}

// ask asks another node. An answer that does not come in time is not waited for: the
// outcome is open.
func (t *trip[T]) ask(to uint8, round uint64) {
	var over atomic.Bool
	var cancel atomic.Pointer[func()]
	timer := time.AfterFunc(answerMax, func() {
		if !over.CompareAndSwap(false, true) {
			return
		}
		if forget := cancel.Load(); forget != nil {
			(*forget)()
		}
		t.unknown()
	})
	head, body := t.question(round)
	forget := t.router.peers.Ask(to, t.lane, t.subject, head, body, func(answer []byte, err error) {
		if over.CompareAndSwap(false, true) {
			timer.Stop()
			t.answered(answer, err)
		}
	})
	cancel.Store(&forget)
}

func (t *trip[T]) answered(answer []byte, err error) {
	switch {
	case errors.Is(err, peer.ErrNotAsked):
		t.line.landed(t, unasked)
		return
	case err != nil:
		t.open = true
		if t.recognised {
			t.line.landed(t, lost)
		} else {
			t.unknown()
		}
		return
	case len(answer) <= refusalSize:
		t.line.landed(t, refusalOf(answer))
		return
	}
	v, err := t.decode(answer)
	if err != nil {
		t.unknown()
		return
	}
	if t.open && t.pending(&v) { // it has come twice, and the first one is under way
		t.line.landed(t, lost)
		return
	}
	t.settle(v, func(v T) {
		t.done(v)
		t.line.landed(t, taken)
	})
}

// unknown ends with an open outcome.
func (t *trip[T]) unknown() {
	t.done(t.refusal(galgo.CodeTransientNotCommitted))
	t.line.landed(t, taken)
}
