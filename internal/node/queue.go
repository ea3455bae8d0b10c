package node

import "sync"

// queue hands functions from any goroutine to the one that owns it, in order
// and in batches: the owner takes everything that waits at once. It is not
// bounded here; each sender is bounded by what it may have under way.
type queue struct {
	mu      sync.Mutex
	waiting []func()
	closed  bool
	wake    chan struct{} // capacity 1: a token says that something waits
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

// put queues f. It reports false when the owner has gone and f will never run.
func (q *queue) put(f func()) bool {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return false
	}
	first := len(q.waiting) == 0
	q.waiting = append(q.waiting, f)
	q.mu.Unlock()
	if first {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// take returns what waits, in the order in which it was put, and reuses spare,
// which the caller has cleared, for what comes next.
func (q *queue) take(spare []func()) []func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := q.waiting
	q.waiting = spare[:0]
	return taken
}

// close makes put fail from now on and returns what still waited.
func (q *queue) close() []func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	rest := q.waiting
	q.waiting = nil
	return rest
}
