package shard

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"galgo/internal/disk/memdisk"
	"galgo/internal/vsr"
	"galgo/internal/wal"
)

// manual is an Executor whose jobs run when the test says so.
type manual struct{ jobs []func() }

func (m *manual) Go(_ Lane, job func() error, done func(error)) {
	m.jobs = append(m.jobs, func() { done(job()) })
}

// run runs the i-th job that waits.
func (m *manual) run(i int) {
	job := m.jobs[i]
	m.jobs = slices.Delete(m.jobs, i, i+1)
	job()
}

func (m *manual) runAll() {
	for len(m.jobs) > 0 {
		job := m.jobs[0]
		m.jobs = m.jobs[1:]
		job()
	}
}

func newFeeder(t *testing.T, d *memdisk.Disk) (*feeder, *manual) {
	t.Helper()
	if err := d.MkdirAll("wal"); err != nil {
		t.Fatal(err)
	}
	log, _, err := wal.Open(d, "wal", wal.Options{FileSize: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	exec := &manual{}
	return &feeder{log: log, exec: exec, fileSize: 64 << 10, fail: func(err error) { t.Fatalf("the feeder gave up: %v", err) }, note: func(string, ...any) {}}, exec
}

// chain makes prepares that follow one another in group 1.
func chain(n, size int) []*vsr.Prepare {
	var parent vsr.Identity
	prepares := make([]*vsr.Prepare, n)
	for i := range prepares {
		p := &vsr.Prepare{Header: vsr.Header{Group: 1, Op: vsr.Op(i + 1), Parent: parent, Timestamp: uint64(i + 1)}, Body: make([]byte, size)}
		p.Seal()
		prepares[i], parent = p, p.Identity
	}
	return prepares
}

func TestWhatWaitsGoesTogether(t *testing.T) {
	f, exec := newFeeder(t, memdisk.New(memdisk.Options{}))
	var done []int
	for i, p := range chain(5, 100) {
		f.prepare(p, true, func() { done = append(done, i) })
		if i == 0 {
			f.flush() // the first goes alone; the others wait for its sync
		}
	}
	before := f.log.Stats()
	f.flush()
	if len(exec.jobs) != 1 {
		t.Fatalf("%d writes under way, want one", len(exec.jobs))
	}
	exec.runAll()
	f.flush()
	exec.runAll()
	if s := f.log.Stats(); s.Syncs-before.Syncs != 2 || !slices.Equal(done, []int{0, 1, 2, 3, 4}) {
		t.Errorf("%d syncs, completions %v; want 2, in order", s.Syncs-before.Syncs, done)
	}
}

func TestCompletionComesAfterTheWrite(t *testing.T) {
	f, exec := newFeeder(t, memdisk.New(memdisk.Options{}))
	done := false
	f.prepare(chain(1, 10)[0], true, func() { done = true })
	f.flush()
	if done {
		t.Fatal("complete before the write ran")
	}
	exec.runAll()
	if !done {
		t.Fatal("not complete after the write")
	}
}

func TestBatchIsBounded(t *testing.T) {
	f, _ := newFeeder(t, memdisk.New(memdisk.Options{}))
	for _, p := range chain(5, batchBytesMax/2) {
		f.prepare(p, true, nil)
	}
	if n, _, sync := f.batch(); n != 2 || !sync {
		t.Errorf("a batch of %d records, sync %v; want 2, true", n, sync)
	}
	f.waiting = f.waiting[:0]
	f.prepare(chain(1, batchBytesMax+1)[0], false, nil)
	if n, _, sync := f.batch(); n != 1 || sync {
		t.Errorf("a record above the bound: batch of %d, sync %v; want it alone, without a sync", n, sync)
	}
}

// A record that makes room must not stand behind those that wait for room.
func TestUrgentRecordGoesBeforeWhatWaits(t *testing.T) {
	f, exec := newFeeder(t, memdisk.New(memdisk.Options{}))
	p := chain(3, 10)
	var done []int
	note := func(i int) func() { return func() { done = append(done, i) } }
	f.prepare(p[0], true, note(0))
	f.flush()
	f.prepare(p[1], true, note(1))
	f.urgent(wal.Record{Kind: wal.KindState, Group: pairingGroup, State: []byte("pairing")}, note(10))
	f.prepare(p[2], true, note(2))
	f.urgent(wal.Record{Kind: wal.KindState, Group: pairingGroup, State: []byte("again")}, note(11))
	exec.runAll()
	f.flush()
	exec.runAll()
	if op, _ := f.log.Last(1); op != 3 || !slices.Equal(done, []int{0, 10, 11, 1, 2}) {
		t.Errorf("the log ends at op %d, want 3; completions %v", op, done)
	}
}

// On a full disk the record that makes room goes alone: it fits where what waits
// does not.
func TestUrgentRecordFitsOnAFullDisk(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	f, exec := newFeeder(t, d)
	stored, paired := false, false
	f.prepare(chain(1, 70<<10)[0], true, func() { stored = true }) // needs a file of its own
	d.Inject(memdisk.Fault{Class: memdisk.NoSpace, Ops: memdisk.OpCreate, Times: memdisk.Forever})
	f.flush()
	exec.runAll()
	f.urgent(wal.Record{Kind: wal.KindState, Group: pairingGroup, State: []byte("pairing")}, func() { paired = true })
	for range 2 {
		for f.pause > 0 {
			f.tick()
		}
		f.flush()
		exec.runAll()
	}
	if !paired || stored || !f.full() {
		t.Fatalf("pairing written %v, the other %v, full %v; want only the first, and full", paired, stored, f.full())
	}
	d.ClearFaults()
	for f.pause > 0 {
		f.tick()
	}
	f.flush()
	exec.runAll()
	if !stored || f.full() {
		t.Errorf("stored %v, full %v with space again", stored, f.full())
	}
}

// What was written without a sync is on stable storage when synced says so.
func TestSyncedCoversWhatWasWritten(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	f, exec := newFeeder(t, d)
	f.prepare(chain(1, 10)[0], false, nil)
	f.flush()
	exec.runAll()
	done := false
	f.synced(func() { done = true })
	f.flush()
	if done {
		t.Fatal("synced before the sync ran")
	}
	exec.runAll()
	_, recovered, err := wal.Open(d.PowerLoss(nil), "wal", wal.Options{FileSize: 64 << 10})
	if err != nil || !done || len(recovered.Groups) != 1 || recovered.Groups[0].Last != 1 {
		t.Errorf("done %v; after a loss of power the log has %+v, %v; want op 1", done, recovered, err)
	}
}

// While a large write is synced the next one is made; each is complete when a sync that
// began after it has ended, and not before.
func TestWritesGoOnDuringASync(t *testing.T) {
	for name, syncFirst := range map[string]bool{"the sync ends first": true, "the write ends first": false} {
		t.Run(name, func(t *testing.T) {
			d := memdisk.New(memdisk.Options{})
			f, exec := newFeeder(t, d)
			f.apart = 1
			p := chain(3, 10)
			var done []int
			store := func(i int) {
				f.prepare(p[i], true, func() { done = append(done, i) })
				f.flush()
			}
			expect := func(jobs int, complete ...int) {
				t.Helper()
				if len(exec.jobs) != jobs || !slices.Equal(done, complete) {
					t.Fatalf("%d jobs and %v complete, want %d and %v", len(exec.jobs), done, jobs, complete)
				}
				_, recovered, err := wal.Open(d.Clone().PowerLoss(nil), "wal", wal.Options{FileSize: 64 << 10})
				if err != nil || len(done) > 0 && (len(recovered.Groups) != 1 || int(recovered.Groups[0].Last) < len(done)) {
					t.Fatalf("%v complete, but after a loss of power the log has %+v, %v", done, recovered, err)
				}
			}
			store(0)
			exec.run(0)
			expect(1)
			if f.idling() {
				t.Error("idle while a sync is under way")
			}
			store(1)
			expect(2) // the sync of the first, the write of the second
			if syncFirst {
				exec.run(0)
				expect(1, 0)
				exec.run(0)
				expect(1, 0)
			} else {
				exec.run(1)
				expect(1)
				exec.run(0)
				expect(1, 0) // the second may not have been there when it began
			}
			store(2)
			exec.runAll()
			expect(0, 0, 1, 2)
			if !f.idling() {
				t.Error("something is still under way")
			}
		})
	}
}

// A small write beside a sync leaves its own to the next one.
func TestSmallWriteDuringASyncIsSyncedLater(t *testing.T) {
	f, exec := newFeeder(t, memdisk.New(memdisk.Options{}))
	f.apart = 1000
	p := chain(2, 1000)
	p[1] = &vsr.Prepare{Header: vsr.Header{Group: 1, Op: 2, Parent: p[0].Identity, Timestamp: 2}, Body: []byte("small")}
	p[1].Seal()
	done := 0
	f.prepare(p[0], true, func() { done++ })
	f.flush()
	exec.run(0)
	f.prepare(p[1], true, func() { done++ })
	f.flush()
	before := f.log.Stats().Syncs
	exec.run(1)
	if s := f.log.Stats().Syncs; s != before || done != 0 {
		t.Errorf("%d syncs by the small write, %d complete; want none", s-before, done)
	}
	exec.runAll()
	if done != 2 {
		t.Errorf("%d complete in the end, want 2", done)
	}
}

// What needs no sync does not overtake what does: groups rely on the order of the log.
func TestCompletionsComeInTheOrderOfTheLog(t *testing.T) {
	f, exec := newFeeder(t, memdisk.New(memdisk.Options{}))
	f.apart = 1
	p := chain(2, 10)
	var done []int
	f.prepare(p[0], true, func() { done = append(done, 0) })
	f.flush()
	exec.run(0)
	f.prepare(p[1], false, func() { done = append(done, 1) })
	f.flush()
	exec.run(1)
	if len(done) != 0 {
		t.Errorf("%v complete before the sync of the first", done)
	}
	exec.runAll()
	if !slices.Equal(done, []int{0, 1}) {
		t.Errorf("%v complete, want 0 and 1", done)
	}
}

// A sync beside the writes that fails ends the node as any other.
func TestFailedSyncBesideTheWritesIsFatal(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	f, exec := newFeeder(t, d)
	f.apart = 1
	var failure error
	f.fail = func(err error) { failure = err }
	done := false
	f.prepare(chain(1, 10)[0], true, func() { done = true })
	f.flush()
	exec.run(0)
	d.Inject(memdisk.Fault{Class: memdisk.SyncFailure, KeepCache: true})
	exec.runAll()
	if done || !errors.Is(failure, wal.ErrPoisoned) {
		t.Errorf("done %v, failure %v; want a poisoned log and nothing done", done, failure)
	}
}

// A full disk is tried again, with growing pauses; nothing is complete meanwhile.
func TestFullDiskIsTriedAgain(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	f, exec := newFeeder(t, d)
	done := false
	f.prepare(chain(1, 70<<10)[0], true, func() { done = true }) // needs a file of its own
	d.Inject(memdisk.Fault{Class: memdisk.NoSpace, Times: 2})
	for range 2 {
		f.flush()
		exec.runAll()
		if done || !f.full() {
			t.Fatalf("done %v, full %v after a failed write", done, f.full())
		}
		f.flush()
		if len(exec.jobs) != 0 {
			t.Fatal("tried again without a pause")
		}
		for f.pause > 0 {
			f.tick()
		}
	}
	f.flush()
	exec.runAll()
	if !done || f.full() {
		t.Errorf("done %v, full %v with space again", done, f.full())
	}
}

// Want of a file for another reason passes, or it ends the node: it need not last.
func TestWantOfAFileIsTriedForAWhile(t *testing.T) {
	for _, times := range []int{1, failuresMax, failuresMax + 1} {
		d := memdisk.New(memdisk.Options{})
		f, exec := newFeeder(t, d)
		var failure error
		f.fail = func(err error) { failure = err }
		done := false
		f.prepare(chain(1, 70<<10)[0], true, func() { done = true }) // needs a file of its own
		d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpCreate, Times: times})
		for !done && failure == nil {
			f.flush()
			exec.runAll()
			f.tick()
		}
		if done != (times <= failuresMax) {
			t.Errorf("%d failures: done %v, %v", times, done, failure)
		}
	}
}

// After a failed sync no later one proves anything: the node has to stop.
func TestFailedSyncIsFatal(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	f, exec := newFeeder(t, d)
	var failure error
	f.fail = func(err error) { failure = err }
	done := false
	f.prepare(chain(1, 10)[0], true, func() { done = true })
	d.Inject(memdisk.Fault{Class: memdisk.SyncFailure, KeepCache: true})
	f.flush()
	exec.runAll()
	if done || !errors.Is(failure, wal.ErrPoisoned) {
		t.Errorf("done %v, failure %v; want a poisoned log and nothing done", done, failure)
	}
}

// An idle log is marked once, so that its last write has a witness.
func TestIdleLogIsMarkedOnce(t *testing.T) {
	f, exec := newFeeder(t, memdisk.New(memdisk.Options{}))
	f.prepare(chain(1, 10)[0], true, nil)
	f.flush()
	exec.runAll()
	marks := 0
	for range 20 {
		f.tick()
		marks += len(exec.jobs)
		exec.runAll()
	}
	if marks != 1 || f.ticking() {
		t.Errorf("%d marks in 20 idle ticks, still ticking %v; want one, and rest", marks, f.ticking())
	}
}

// What nobody waits for is synced all the same within a bounded time, also while more of
// it comes without end.
func TestWhatNobodyWaitsForIsSyncedInTime(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	f, exec := newFeeder(t, d)
	syncs, since := f.log.Stats().Syncs, 0
	for i, p := range chain(3*syncAfterTicks, 10) {
		f.prepare(p, false, nil)
		f.flush()
		exec.runAll()
		f.tick()
		exec.runAll()
		since++
		if now := f.log.Stats().Syncs; now != syncs {
			syncs, since = now, 0
		}
		if since > syncAfterTicks {
			t.Fatalf("after %d ticks with a write each the last %d were not synced", i+1, since)
		}
	}
	if !f.ticking() {
		t.Error("time does not pass while something is not synced")
	}
}

func Example_rare() {
	for n := 1; n <= 9; n++ {
		fmt.Print(rare(n), " ")
	}
	// Output: true true false true false false false true false
}
