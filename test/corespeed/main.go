// Command corespeed measures the consensus core alone: three replicas in one process
// with a state machine that does nothing, in memory or with synced write-ahead logs.
// It prints one line with the rate, latencies and the processor time of an op.
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"galgo/internal/disk"
	"galgo/internal/vsr"
	"galgo/internal/wal"
)

var (
	window   = flag.Int("window", 1024, "proposals outstanding")
	size     = flag.Int("size", 64, "bytes of a body")
	dur      = flag.Duration("dur", 5*time.Second, "measured time")
	warm     = flag.Duration("warm", time.Second, "warm-up")
	walDir   = flag.String("wal", "", "keep synced logs below this directory")
	mode     = flag.String("mode", "chan", "chan: a goroutine per replica; loop: one for all three")
	pack     = flag.Int("pack", 1, "most operations in the body of a prepare")
	maxBatch = flag.Int("maxbatch", 1024, "most proposals taken per step")
)

const (
	replicas = 3
	group    = vsr.GroupID(1)
	sampled  = 64 // one op of so many is timed
)

// replica is a core and what it needs.
type replica struct {
	core   *vsr.Core
	log    *wal.Log
	inbox  chan []vsr.Message
	bodies chan []byte
	out    [replicas][]vsr.Message
	recs   []wal.Record
	queue  [][]byte // taken, and waiting for room in the pipeline
	freed  vsr.Op
	tally  *tally
}

// tally is what the measurement counts, on the primary.
type tally struct {
	done      atomic.Uint64
	began     [1 << 16]atomic.Int64 // ns, by sequence number
	latencies []int64
	measuring atomic.Bool
	tokens    chan struct{} // nil in loop mode
}

func (t *tally) applied(body []byte) {
	if sequence := binary.LittleEndian.Uint64(body); sequence%sampled == 0 && t.measuring.Load() {
		t.latencies = append(t.latencies, time.Now().UnixNano()-t.began[sequence%uint64(len(t.began))].Load())
	}
	t.done.Add(1)
	if t.tokens != nil {
		<-t.tokens
	}
}

func newReplica(i int) (*replica, error) {
	r := &replica{inbox: make(chan []vsr.Message, 4096), bodies: make(chan []byte, 1<<16)}
	r.core = vsr.New(vsr.Config{
		Group: group, Replica: uint8(i), Replicas: replicas, Pipeline: vsr.PipelineCeiling, Boot: 1,
	}, vsr.Recovered{Fresh: true})
	if *walDir == "" {
		return r, nil
	}
	dir := filepath.Join(*walDir, fmt.Sprint("r", i))
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	d, err := disk.OpenOS(dir)
	if err != nil {
		return nil, err
	}
	if r.log, _, err = wal.Open(d, "wal", wal.Options{FilesSpare: 4}); err != nil {
		return nil, err
	}
	return r, r.log.EnsureSpare(2)
}

// take moves bodies that wait into the pipeline.
func (r *replica) take() error {
	for len(r.queue) < *maxBatch && len(r.bodies) > 0 {
		r.queue = append(r.queue, <-r.bodies)
	}
	for len(r.queue) > 0 && r.core.Room() > 0 {
		n := min(*pack, len(r.queue))
		body := packed(r.queue[:n])
		if _, _, err := r.core.Propose(vsr.Request{Operation: 160, Timestamp: r.core.NextTimestamp(0), Body: body}); err != nil {
			return err
		}
		clear(r.queue[:n])
		r.queue = r.queue[n:]
	}
	return nil
}

// packed is the body of a prepare with these operations.
func packed(ops [][]byte) []byte {
	if len(ops) == 1 {
		return ops[0]
	}
	body := make([]byte, 0, len(ops)*(*size))
	for _, op := range ops {
		body = append(body, op...)
	}
	return body
}

// apply applies the operations of a prepare one by one.
func (t *tally) apply(body []byte) {
	for ; len(body) > 0; body = body[*size:] {
		t.applied(body[:*size])
	}
}

// ready performs what the core wants, and reports whether there was anything. What
// others are told does not wait for this replica's own disk.
func (r *replica) ready(send func(to int, m []vsr.Message)) (bool, error) {
	ready := r.core.Ready()
	if ready.Empty() {
		return false, nil
	}
	for i := range ready.Send {
		m := &ready.Send[i]
		r.out[m.To] = append(r.out[m.To], *m)
	}
	for to, m := range r.out {
		if len(m) > 0 {
			send(to, m)
			r.out[to] = takeBatch()
		}
	}
	if err := r.write(ready.Append); err != nil {
		return true, err
	}
	for _, p := range ready.Append {
		r.core.AppendDone(p.Op, p.Identity)
	}
	for _, c := range ready.Commit {
		if r.tally != nil {
			r.tally.apply(c.Prepare.Body)
		}
	}
	if n := len(ready.Commit); n > 0 {
		last := ready.Commit[n-1].Op
		r.core.Applied(last)
		if err := r.free(last); err != nil {
			return true, err
		}
	}
	r.core.Reuse(&ready)
	return true, nil
}

func (r *replica) write(prepares []*vsr.Prepare) error {
	if r.log == nil || len(prepares) == 0 {
		return nil
	}
	r.recs = r.recs[:0]
	for _, p := range prepares {
		r.recs = append(r.recs, wal.Record{Kind: wal.KindPrepare, Group: group, Header: &p.Header, Body: p.Body})
	}
	return r.log.Write(r.recs, true)
}

// free lets go of the log now and then, as checkpoints do.
func (r *replica) free(op vsr.Op) error {
	const every = 200_000
	if r.log == nil || op < r.freed+every {
		return nil
	}
	r.freed = op
	r.log.Release(group, op)
	return r.log.Reclaim()
}

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "corespeed:", err)
		os.Exit(1)
	}
}

func run() error {
	t := &tally{}
	var rs []*replica
	for i := range replicas {
		r, err := newReplica(i)
		if err != nil {
			return err
		}
		rs = append(rs, r)
	}
	rs[0].tally = t
	if *mode == "loop" {
		return runLoop(rs, t)
	}
	t.tokens = make(chan struct{}, *window)
	failed := make(chan error, replicas)
	for _, r := range rs {
		go func() { failed <- r.run(rs) }()
	}
	go func() {
		for source := (bodies{}); ; {
			t.tokens <- struct{}{}
			rs[0].bodies <- source.next(t)
		}
	}()
	return measure(t, func(span time.Duration) error {
		select {
		case err := <-failed:
			return err
		case <-time.After(span):
			return nil
		}
	})
}

// run drives one replica on its own goroutine.
func (r *replica) run(rs []*replica) error {
	send := func(to int, m []vsr.Message) { rs[to].inbox <- m }
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case batch := <-r.inbox:
			r.step(batch)
		case body := <-r.bodies:
			r.queue = append(r.queue, body)
		case <-tick.C:
			r.core.Tick()
		}
		for range 256 {
			if len(r.inbox) == 0 {
				break
			}
			r.step(<-r.inbox)
		}
		for busy := true; busy; {
			if err := r.take(); err != nil {
				return err
			}
			var err error
			if busy, err = r.ready(send); err != nil {
				return err
			}
		}
	}
}

func (r *replica) step(batch []vsr.Message) {
	for i := range batch {
		r.core.Step(batch[i])
	}
	clear(batch)
	select {
	case spare <- batch[:0]:
	default:
	}
}

// spare are batches to be filled again.
var spare = make(chan []vsr.Message, 64)

func takeBatch() []vsr.Message {
	select {
	case b := <-spare:
		return b
	default:
		return nil
	}
}

// runLoop drives all replicas on this goroutine, a window of ops at a time.
func runLoop(rs []*replica, t *tally) error {
	source := bodies{}
	var mail [replicas][][]vsr.Message
	send := func(to int, m []vsr.Message) { mail[to] = append(mail[to], m) }
	round := func() error {
		for range *window {
			rs[0].bodies <- source.next(t)
		}
		for busy := true; busy; {
			busy = false
			for i, r := range rs {
				for _, m := range mail[i] {
					r.step(m)
				}
				mail[i] = mail[i][:0]
				if i == 0 {
					if err := r.take(); err != nil {
						return err
					}
				}
				did, err := r.ready(send)
				if err != nil {
					return err
				}
				busy = busy || did
			}
		}
		return nil
	}
	return measure(t, func(span time.Duration) error {
		for start := time.Now(); time.Since(start) < span; {
			if err := round(); err != nil {
				return err
			}
		}
		return nil
	})
}

// bodies makes numbered bodies.
type bodies struct {
	chunk    []byte
	sequence uint64
}

func (s *bodies) next(t *tally) []byte {
	if len(s.chunk) < *size {
		s.chunk = make([]byte, *size*256)
	}
	b := s.chunk[:*size:*size]
	s.chunk = s.chunk[*size:]
	binary.LittleEndian.PutUint64(b, s.sequence)
	if s.sequence%sampled == 0 {
		t.began[s.sequence%uint64(len(t.began))].Store(time.Now().UnixNano())
	}
	s.sequence++
	return b
}

// measure lets ops pass for the time of the warm-up and of the measurement.
func measure(t *tally, pass func(time.Duration) error) error {
	if err := pass(*warm); err != nil {
		return err
	}
	t.measuring.Store(true)
	cpu, done, start := processorTime(), t.done.Load(), time.Now()
	if err := pass(*dur); err != nil {
		return err
	}
	n, took := t.done.Load()-done, time.Since(start)
	cpu = processorTime() - cpu
	t.measuring.Store(false)
	time.Sleep(20 * time.Millisecond) // an op that is being timed
	report(n, took, cpu, t.latencies)
	return nil
}

func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func report(n uint64, took, cpu time.Duration, latencies []int64) {
	l := slices.Sorted(slices.Values(latencies))
	at := func(q float64) float64 {
		if len(l) == 0 {
			return 0
		}
		return float64(l[int(float64(len(l)-1)*q)]) / 1e3
	}
	name := "galgo " + *mode
	if *pack > 1 {
		name += fmt.Sprintf(", up to %d a prepare", *pack)
	}
	if *walDir != "" {
		name += " + synced logs"
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Printf("RESULT name=%q window=%d size=%d rate=%.0f p50us=%.1f p99us=%.1f cpu_us_per_op=%.3f cores=%.2f heapMB=%d\n",
		name, *window, *size, float64(n)/took.Seconds(), at(.5), at(.99), float64(cpu.Microseconds())/float64(n), cpu.Seconds()/took.Seconds(), m.HeapSys>>20)
}
