package sim

import (
	"galgo/internal/engine"
	"galgo/internal/shard"
)

// loop is an engine.Loop without a thread. What is posted to it runs some µs later,
// all of it together and then a Turn; a job runs at one moment, some time after it
// was queued, and its completion is posted.
type loop struct {
	node   *node
	index  int
	driver engine.Driver // nil until the engine is open
	posts  []func()
	lanes  [shard.Lanes]lane
	woken  bool
	armed  bool // a tick is on its way
	ticks  int  // of this life
	dead   bool
}

type lane struct {
	jobs []job
	busy bool
}

type job struct {
	run  func() error
	done func(error)
}

// Post implements engine.Loop.
func (l *loop) Post(f func()) bool {
	if l.dead {
		return false
	}
	l.posts = append(l.posts, f)
	l.wake()
	return true
}

// Go implements shard.Executor.
func (l *loop) Go(lane shard.Lane, run func() error, done func(error)) {
	l.lanes[lane].jobs = append(l.lanes[lane].jobs, job{run, done})
	l.serve(lane)
}

// begin lets the loop run: its engine is open.
func (l *loop) begin(d engine.Driver) {
	l.driver = d
	l.wake()
	for lane := range l.lanes {
		l.serve(shard.Lane(lane))
	}
}

func (l *loop) wake() {
	if l.woken || l.driver == nil {
		return
	}
	l.woken = true
	l.node.after(l.node.turnDelay(), l.turn)
}

// turn is what the goroutine of a loop does between two waits.
func (l *loop) turn() {
	l.woken = false
	posts := l.posts
	l.posts = nil
	l.node.w.mark(markTurn, uint64(l.node.id), uint64(l.index), uint64(len(posts)))
	for _, f := range posts {
		f()
	}
	l.finish()
}

func (l *loop) tick() {
	l.armed = false
	l.ticks++
	l.node.w.mark(markTick, uint64(l.node.id), uint64(l.index))
	l.driver.Tick()
	l.finish()
}

// finish ends a turn: what is due happens, and the next tick is asked for if the
// driver waits for one.
func (l *loop) finish() {
	l.driver.Turn()
	l.node.w.checks.turned(l.node, l.index)
	if l.node.failing != nil {
		l.node.giveUp()
		return
	}
	if !l.armed && l.driver.Ticking() {
		l.armed = true
		l.node.after(l.node.tickDelay(), l.tick)
	}
}

// serve starts the next job of a lane, if it is idle.
func (l *loop) serve(lane shard.Lane) {
	q := &l.lanes[lane]
	if q.busy || len(q.jobs) == 0 || l.driver == nil {
		return
	}
	q.busy = true
	l.node.after(l.node.jobDelay(lane), func() { l.perform(lane) })
}

func (l *loop) perform(lane shard.Lane) {
	q := &l.lanes[lane]
	j := q.jobs[0]
	q.jobs[0] = job{}
	q.jobs = q.jobs[1:]
	err := j.run()
	if l.node.met() {
		return
	}
	q.busy = false
	l.Post(func() { j.done(err) })
	l.serve(lane)
}

// underWay returns the jobs that a crash finds begun.
func (l *loop) underWay() (begun []job) {
	for i := range l.lanes {
		if l.lanes[i].busy {
			begun = append(begun, l.lanes[i].jobs[0])
		}
	}
	return begun
}
