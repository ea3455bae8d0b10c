package edge

import (
	"context"
	"sync"
	"time"
)

// call is a question to the node that the reader waits for. Whoever comes second,
// the answer or the end of the wait, finds the other's trace under the lock.
type call[T any] struct {
	answer chan T // room for the one answer: done functions never wait

	mu        sync.Mutex
	abandoned bool
	late      func(T) // gets an answer that nobody waits for; may be nil
}

func newCall[T any](late func(T)) *call[T] {
	return &call[T]{answer: make(chan T, 1), late: late}
}

// done is what the node calls.
func (q *call[T]) done(v T) {
	q.mu.Lock()
	abandoned := q.abandoned
	if !abandoned {
		q.answer <- v
	}
	q.mu.Unlock()
	if abandoned && q.late != nil {
		q.late(v)
	}
}

// abandon ends the wait. It reports an answer that came in the last moment.
func (q *call[T]) abandon() (v T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case v = <-q.answer:
		return v, true
	default:
		q.abandoned = true
		return v, false
	}
}

// await waits for the node, at most until the request's deadline and no longer than
// the connection lives. Answers that are queued leave first. Only the reader awaits.
func await[T any](ctx context.Context, c *conn, r *request, q *call[T]) (v T, ok bool) {
	select {
	case v = <-q.answer:
		return v, true
	default:
	}
	c.out.flush()
	timeout := time.NewTimer(time.Until(r.deadline))
	defer timeout.Stop()
	select {
	case v = <-q.answer:
		return v, true
	case <-timeout.C:
	case <-ctx.Done():
	}
	return q.abandon()
}

// refresh waits until View holds what any node has acknowledged before.
func (c *conn) refresh(ctx context.Context, r *request) bool {
	q := newCall[bool](nil)
	c.server.backend.Fresh(q.done)
	fresh, answered := await(ctx, c, r, q)
	return answered && fresh
}

// propose asks the node for an operation of the metadata group. It reports false
// if no answer came in time: the outcome is open, and late gets it, if it comes.
func (c *conn) propose(ctx context.Context, r *request, request MetadataRequest, late func(MetadataReply)) (MetadataReply, bool) {
	q := newCall(late)
	c.server.backend.Metadata(request, q.done)
	return await(ctx, c, r, q)
}
