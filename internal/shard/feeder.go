package shard

import (
	"cmp"
	"errors"
	"slices"

	"galgo/internal/disk"
	"galgo/internal/vsr"
	"galgo/internal/wal"
)

// batchBytesMax bounds one write of the log in bytes of bodies. What is above it
// waits for the next; a single larger body goes alone.
const batchBytesMax = 16 << 20

// retryTicksMax bounds the wait between attempts to write to a full disk.
const retryTicksMax = 100

// failuresMax is how often in a row the next file of the log may fail to be made for
// another reason than a full disk, which may last. That is about a minute.
const failuresMax = 60

// apartFrom is how large a write is, in bytes of bodies, whose sync is a job of its own:
// the next write is made meanwhile. Copying what is large takes long enough; for what is
// small another change of goroutines would be the longer part.
const apartFrom = 256 << 10

// feeder is group commit: everything that the groups of a shard want durable
// while one write is under way goes into the next, with one sync for all. There
// is no timer; batches grow with the time that the disk takes. Completions come in the
// order of the log.
type feeder struct {
	log  *wal.Log
	exec Executor
	fail func(error) // the log is beyond use: the node must stop
	note func(msg string, args ...any)

	waiting  []appendJob
	first    []appendJob // urgent: they go before all that wait
	busy     bool        // a write is under way
	pending  []appendJob // written and not complete, in the order of the log
	syncing  bool        // a sync beside the writes is under way
	apart    int         // instead of apartFrom, if not 0
	fileSize int64       // of the log's files, in bytes
	fed      int64       // bytes of bodies written since a spare file was last looked for
	sparing  bool
	tight    bool // there was no room for another file: a checkpoint would free some
	loose    bool // something was written that no sync covers
	loosely  int  // ticks for which that is so
	unmarked bool // something was written that no later record witnesses
	idle     int  // ticks since the last write
	failures int  // writes in a row of which nothing was written, for want of a file
	pause    int  // ticks until the next attempt
}

type appendJob struct {
	rec  wal.Record
	sync bool
	done func()
}

// prepare queues a prepare of a group; done runs on the loop when the log holds
// it: synced if sync, else written.
func (f *feeder) prepare(p *vsr.Prepare, sync bool, done func()) {
	f.append(wal.Record{Kind: wal.KindPrepare, Group: p.Group, Header: &p.Header, Body: p.Body}, sync, done)
}

func (f *feeder) append(rec wal.Record, sync bool, done func()) {
	f.waiting = append(f.waiting, appendJob{rec: rec, sync: sync, done: done})
}

// urgent queues a record before all that wait. It is for what makes room, and
// independent of the order of the groups.
func (f *feeder) urgent(rec wal.Record, done func()) {
	f.first = append(f.first, appendJob{rec: rec, sync: true, done: done})
}

// synced calls done when all that is written by now is on stable storage. It needs
// no room, and what makes some may wait for it: so it is urgent.
func (f *feeder) synced(done func()) { f.urgent(wal.Record{}, done) }

// full reports that the disk has no room, or gives no file: nothing new should be
// given an op.
func (f *feeder) full() bool { return f.failures > 0 }

// idling reports that nothing waits for the disk and nothing is under way.
func (f *feeder) idling() bool {
	return !f.busy && !f.syncing && len(f.pending) == 0 && len(f.waiting) == 0 && len(f.first) == 0
}

// flush starts a write if something waits and none is under way.
func (f *feeder) flush() {
	if f.busy || f.pause > 0 || len(f.waiting) == 0 && len(f.first) == 0 {
		return
	}
	urgent := len(f.first)
	n, bytes, sync := f.batch()
	recs := make([]wal.Record, 0, urgent+n)
	for _, job := range f.first {
		if job.rec.Kind != 0 {
			recs = append(recs, job.rec)
		}
	}
	for i := range n {
		recs = append(recs, f.waiting[i].rec)
	}
	f.busy, f.idle = true, 0
	sync = sync && bytes < cmp.Or(f.apart, apartFrom) && !f.syncing // else the next one beside the writes covers it
	f.exec.Go(LaneLog, func() error { return f.log.Write(recs, sync) }, func(err error) { f.written(urgent, n, sync, err) })
}

// batch says how many of the waiting records go into the next write, behind the
// urgent ones, how many bytes of bodies they have, and whether there has to be a sync.
// On a full disk the urgent ones go alone: the others may need a file that is not there.
func (f *feeder) batch() (n, bytes int, sync bool) {
	if sync = len(f.first) > 0; sync && f.full() {
		return 0, 0, true
	}
	for n < len(f.waiting) && (n == 0 || bytes+len(f.waiting[n].rec.Body) <= batchBytesMax) {
		bytes += len(f.waiting[n].rec.Body)
		sync = sync || f.waiting[n].sync
		n++
	}
	return n, bytes, sync
}

// written takes the completion of a write of so many urgent and n other records.
// Only if the next file could not be made another attempt is worth it: nothing was
// written then. After any other failure no later success could prove what this one
// lost (design rule 4).
func (f *feeder) written(urgent, n int, synced bool, err error) {
	f.busy = false
	switch {
	case err == nil:
		if n > 0 || len(f.waiting) == 0 {
			f.failures = 0
		}
		f.unmarked, f.loose = true, !synced
		f.spare(n)
	case errors.Is(err, wal.ErrPoisoned):
		f.fail(err)
		return
	default:
		f.refused(err)
		return
	}
	f.first = f.move(f.first, urgent)
	f.waiting = f.move(f.waiting, n)
	if synced {
		f.complete(len(f.pending))
	}
	f.settle()
}

// move makes the first n jobs pending.
func (f *feeder) move(jobs []appendJob, n int) (rest []appendJob) {
	for _, job := range jobs[:n] {
		job.rec = wal.Record{}
		f.pending = append(f.pending, job)
	}
	kept := copy(jobs, jobs[n:])
	clear(jobs[kept:])
	return jobs[:kept]
}

// complete ends the first n pending jobs.
func (f *feeder) complete(n int) {
	done := make([]func(), 0, n)
	for _, job := range f.pending[:n] {
		if job.done != nil {
			done = append(done, job.done)
		}
	}
	kept := copy(f.pending, f.pending[n:])
	clear(f.pending[kept:])
	f.pending = f.pending[:kept]
	for _, d := range done {
		d()
	}
}

// settle completes what need not be synced, and starts the sync of what must. While one
// is under way nothing else completes: it covers what was written when it began.
func (f *feeder) settle() {
	if f.syncing {
		return
	}
	if !slices.ContainsFunc(f.pending, func(j appendJob) bool { return j.sync }) {
		f.complete(len(f.pending))
		return
	}
	f.sync()
}

// sync makes all that is written by now durable, beside the writes.
func (f *feeder) sync() {
	n := len(f.pending)
	f.syncing, f.loose, f.loosely = true, false, 0
	f.exec.Go(LaneSync, f.log.Sync, func(err error) {
		f.syncing = false
		if err != nil {
			f.fail(err)
			return
		}
		f.complete(n)
		f.settle()
	})
}

// refused has the same batch tried again after a pause.
func (f *feeder) refused(err error) {
	full := errors.Is(err, disk.ErrNoSpace)
	if f.failures++; f.failures > failuresMax && !full {
		f.fail(err)
		return
	}
	if f.failures == 1 {
		f.note("the log takes nothing until it can make its next file", "full", full, "err", err)
	}
	f.pause = min(1<<min(f.failures, 7), retryTicksMax)
}

// spare has the next file made before it is needed, off the path of the writes.
// After the first checkpoints there are files to write again, and this finds one.
func (f *feeder) spare(n int) {
	for i := range n {
		f.fed += int64(len(f.waiting[i].rec.Body))
	}
	if f.sparing || f.fed < f.fileSize/4 {
		return
	}
	f.sparing, f.fed = true, 0
	f.exec.Go(LaneCheckpoint, func() error { return f.log.EnsureSpare(1) }, func(err error) {
		f.sparing = false
		f.tight = errors.Is(err, disk.ErrNoSpace) && !errors.Is(err, wal.ErrPoisoned)
		f.marked(err)
	})
}

// syncAfterTicks is for how long something may be written and not synced, because nobody
// waits for that: for topics whose durability is memory.
const syncAfterTicks = 100

// markAfterTicks is how long the log stays idle before a witness of its last
// write is added: until then rot of that write looks like a torn tail.
const markAfterTicks = 2

// tick passes one unit of time.
func (f *feeder) tick() {
	if f.pause > 0 {
		f.pause--
	}
	if f.loose {
		if f.loosely++; f.loosely >= syncAfterTicks && !f.syncing {
			f.sync()
		}
	}
	if !f.unmarked || !f.idling() {
		return
	}
	if f.idle++; f.idle >= markAfterTicks {
		f.mark()
	}
}

// ticking reports whether time has to pass for something to happen.
func (f *feeder) ticking() bool { return f.pause > 0 || f.loose || f.unmarked && f.idling() }

func (f *feeder) mark() {
	f.busy, f.unmarked, f.idle = true, false, 0
	f.loose, f.loosely = false, 0
	f.exec.Go(LaneLog, f.log.Mark, func(err error) {
		f.busy = false
		f.marked(err)
	})
}

// marked takes the end of work beside the writes: what was not done there does no
// harm, and the writes will meet what is in the way.
func (f *feeder) marked(err error) {
	if errors.Is(err, wal.ErrPoisoned) {
		f.fail(err)
	}
}

// reclaim frees what the checkpoints made superfluous. A sync that fails there ends the
// node as any other of the log does, and not with the next write.
func (f *feeder) reclaim(done func(error)) {
	f.exec.Go(LaneLog, f.log.Reclaim, func(err error) {
		f.marked(err)
		done(err)
	})
}
