package router

import (
	"sync"
	"sync/atomic"

	"galgo"
)

// line is where the writes of a client to a group wait for each other.
type line struct {
	client galgo.ClientID
	group  uint64
}

// lines keep the order in which the writes of a client to a group came, once one of them
// has to leave this node: the first is on its way, the others follow one after another.
type lines struct {
	mu    sync.Mutex
	some  atomic.Bool // there is one
	queue map[line][]func()
}

// behind has next run when it is its turn, if there is a line; else it reports false.
func (q *lines) behind(l line, next func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting, ok := q.queue[l]
	if ok {
		q.queue[l] = append(waiting, next)
	}
	return ok
}

// join begins a line, or has next run when it is its turn, and reports false.
func (q *lines) join(l line, next func()) (first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting, ok := q.queue[l]
	switch {
	case ok:
		q.queue[l] = append(waiting, next)
	case q.queue == nil:
		q.queue = map[line][]func(){l: nil}
	default:
		q.queue[l] = nil
	}
	q.some.Store(true)
	return !ok
}

// leave is called by the first of a line when it is over.
func (q *lines) leave(l line) {
	q.mu.Lock()
	waiting := q.queue[l]
	if len(waiting) == 0 {
		delete(q.queue, l)
		q.some.Store(len(q.queue) > 0)
		q.mu.Unlock()
		return
	}
	q.queue[l] = waiting[1:]
	q.mu.Unlock()
	waiting[0]()
}
