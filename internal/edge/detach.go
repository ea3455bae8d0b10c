package edge

import (
	"sync"
	"time"

	"galgo"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// detacher tells the node of sessions whose connection is lost, so that what they
// hold is given to others. It repeats itself until the node has taken note.
type detacher struct {
	backend Backend
	events  *events

	mu       sync.Mutex
	queue    []farewell
	deadline time.Time // zero until stop

	wake     chan struct{}      // holds a token when queue or deadline changed
	finished chan farewellReply // room for all in flight: done functions never wait
}

// farewell ends a session: by Detach, or by Logout.
type farewell struct {
	binding
	operation wire.Operation
}

type farewellReply struct {
	farewell
	again bool
}

func newDetacher(backend Backend, events *events) *detacher {
	return &detacher{
		backend:  backend,
		events:   events,
		wake:     make(chan struct{}, 1),
		finished: make(chan farewellReply, detachInflightMax),
	}
}

// detach queues a session whose connection is lost.
func (d *detacher) detach(b *binding) { d.add(farewell{*b, metadata.OperationDetach}) }

// add queues a farewell. If more wait than there can be sessions the oldest is
// forgotten: the client table evicts it in time.
func (d *detacher) add(f farewell) {
	d.mu.Lock()
	if len(d.queue) >= detachPendingMax {
		d.queue = d.queue[1:]
	}
	d.queue = append(d.queue, f)
	d.mu.Unlock()
	d.nudge()
}

func (d *detacher) nudge() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// stop has run return when all is told, or after grace.
func (d *detacher) stop(grace time.Duration) {
	d.mu.Lock()
	d.deadline = time.Now().Add(grace)
	d.mu.Unlock()
	d.nudge()
}

// run submits farewells, a bounded number at a time, until stop.
func (d *detacher) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	timer.Stop()
	inflight := 0
	paused := false
	for {
		if !paused {
			inflight += d.submit(detachInflightMax - inflight)
		}
		left, stopping := d.left(inflight)
		switch {
		case stopping && left <= 0:
			return
		case stopping && !paused:
			timer.Reset(left)
		}
		select {
		case <-d.wake:
		case reply := <-d.finished:
			inflight--
			if reply.again {
				d.add(reply.farewell)
				paused = true
				timer.Reset(detachRetry)
			}
		case <-timer.C:
			paused = false
		}
	}
}

// left is how long run may go on once it was told to stop; nothing if all is done.
func (d *detacher) left(inflight int) (left time.Duration, stopping bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deadline.IsZero() {
		return 0, false
	}
	if len(d.queue) == 0 && inflight == 0 {
		return 0, true
	}
	if left := time.Until(d.deadline); left > 0 {
		return left, true
	}
	d.events.undetached(len(d.queue) + inflight)
	return 0, true
}

// submit hands up to n farewells to the node and returns how many.
func (d *detacher) submit(n int) int {
	d.mu.Lock()
	n = min(n, len(d.queue))
	batch := append([]farewell(nil), d.queue[:n]...)
	d.queue = d.queue[n:]
	if len(d.queue) == 0 {
		d.queue = nil
	}
	d.mu.Unlock()
	for _, f := range batch {
		request := MetadataRequest{Operation: f.operation, Client: f.client, Session: f.epoch, User: f.actor.User}
		d.backend.Metadata(request, func(r MetadataReply) {
			d.finished <- farewellReply{f, transient(r)}
		})
	}
	return n
}

// transient reports whether the node may take the same request later.
func transient(r MetadataReply) bool {
	return (r.Outcome == OutcomeResult || r.Outcome == OutcomeStatus) && galgo.Code(r.Code).Retriable()
}
