package sim

import (
	"container/heap"
	"fmt"
	"runtime/debug"
	"strings"
)

// Durations in µs of virtual time.
const (
	microsecond = int64(1)
	millisecond = 1000 * microsecond
	second      = 1000 * millisecond
)

// epoch is what the clocks say when a run begins, in µs since the Unix epoch.
const epoch = 1_750_000_000 * second

// event is something that happens at a time. Events of one time happen in the
// order in which they were asked for.
type event struct {
	at  int64
	seq uint64
	run func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*q = old[:len(old)-1]
	return e
}

// world is one run.
type world struct {
	seed  uint64
	plan  plan
	now   int64 // µs since the beginning
	queue events
	seq   uint64
	steps int

	nodes   []*node
	net     *network
	nemesis *nemesis
	echoes  *echoes
	crowd   *crowd
	model   *model
	checks  *checks
	history history

	cover   Coverage
	trace   trace
	failure *Failure
	calm    bool // all faults have ended
	over    bool // the cluster cannot go on, as it should not: see node.refused
}

// after asks for f to run later.
func (w *world) after(delay int64, f func()) {
	w.seq++
	heap.Push(&w.queue, event{w.now + max(0, delay), w.seq, f})
}

// step runs the next event; false if there is none, or the run has failed.
func (w *world) step() bool {
	if w.failure != nil || w.over || len(w.queue) == 0 {
		return false
	}
	e := heap.Pop(&w.queue).(event)
	w.now = e.at
	w.steps++
	w.guard(e.run)
	return w.failure == nil
}

// guard turns a panic of the system into the failure of the run.
func (w *world) guard(f func()) {
	defer func() {
		if r := recover(); r != nil {
			w.fail("panic", "%v\n%s", r, stack())
		}
	}()
	f()
}

// stack is the goroutine's, from the panic on.
func stack() string {
	lines := strings.Split(string(debug.Stack()), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "panic(") {
			lines = lines[i+2:]
			break
		}
	}
	return strings.Join(lines[:min(len(lines), 24)], "\n")
}

// Failure is a broken check.
type Failure struct {
	Check  string `json:"check"`
	Detail string `json:"detail"`
	Step   int    `json:"step"`
	Time   int64  `json:"time"` // µs
}

func (f *Failure) Error() string {
	return fmt.Sprintf("step %d at %s: %s: %s", f.Step, clock(f.Time), f.Check, f.Detail)
}

// fail keeps the first failure.
func (w *world) fail(check, format string, args ...any) {
	if w.failure != nil {
		return
	}
	w.failure = &Failure{Check: check, Detail: fmt.Sprintf(format, args...), Step: w.steps, Time: w.now}
	w.say("FAILED %s: %s", check, w.failure.Detail)
}

// clock writes a time in seconds.
func clock(µs int64) string { return fmt.Sprintf("%d.%06d", µs/second, µs%second) }
