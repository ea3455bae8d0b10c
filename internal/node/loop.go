package node

import (
	"context"
	"time"

	"galgo/internal/engine"
	"galgo/internal/shard"
)

// loop is the goroutine that owns a shard. Whoever wants something of the
// driver posts a function; the loop runs what has come and then one Turn, so
// that work is gathered in batches.
type loop struct {
	inbox *queue
	lanes [shard.Lanes]*queue
}

func newLoop() *loop {
	l := &loop{inbox: newQueue()}
	for i := range l.lanes {
		l.lanes[i] = newQueue()
	}
	return l
}

// Post implements engine.Loop.
func (l *loop) Post(f func()) bool { return l.inbox.put(f) }

// Go implements shard.Executor: a job runs on the goroutine of its lane.
func (l *loop) Go(lane shard.Lane, job func() error, done func(error)) {
	l.lanes[lane].put(func() {
		err := job()
		l.inbox.put(func() { done(err) })
	})
}

// run drives d until ctx is done. Time passes only while the driver waits for it:
// an idle node does not wake. Lanes are run by runLane, apart: they must outlive the
// loop's last jobs only as long as those run.
func (l *loop) run(ctx context.Context, d engine.Driver) error {
	tick := time.NewTimer(engine.Tick)
	defer tick.Stop()
	armed := true
	var spare []func()
	for {
		select {
		case <-ctx.Done():
			l.inbox.close()
			return nil
		case <-tick.C:
			armed = false
			d.Tick()
		case <-l.inbox.wake:
		}
		batch := l.inbox.take(spare)
		for _, f := range batch {
			f()
		}
		d.Turn()
		clear(batch) // an idle loop keeps no request alive
		spare = batch
		if !armed && d.Ticking() {
			tick.Reset(engine.Tick)
			armed = true
		}
	}
}

// runLane runs the jobs of one lane until ctx is done; a job that has begun is
// finished.
func (l *loop) runLane(ctx context.Context, lane int) error {
	q := l.lanes[lane]
	var spare []func()
	for {
		select {
		case <-ctx.Done():
			q.close()
			return nil
		case <-q.wake:
		}
		batch := q.take(spare)
		for _, f := range batch {
			if ctx.Err() != nil {
				break
			}
			f()
		}
		clear(batch)
		spare = batch
	}
}
