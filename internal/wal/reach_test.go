package wal

import (
	"sync"
	"testing"

	"galgo/internal/disk/memdisk"
	"galgo/internal/vsr"
)

// duringSync opens a log and has f run whenever a file of it is about to be synced.
func duringSync(t *testing.T, f func(*Log)) (*memdisk.Disk, *Log) {
	t.Helper()
	var l *Log
	d := memdisk.New(memdisk.Options{OnCall: func(c memdisk.Call) {
		if l != nil && c.Op == memdisk.OpSync {
			f(l)
		}
	}})
	l, _ = mustOpen(t, d)
	return d, l
}

// A sync vouches for what was written when it began, whatever else it may have caught.
func TestSyncVouchesForWhatWasWrittenBefore(t *testing.T) {
	p := newPrepares()
	late := true
	_, l := duringSync(t, func(l *Log) {
		if late {
			late = false
			must(t, l.Write([]Record{p.next(1, 10)}, false))
		}
	})
	must(t, l.Write([]Record{p.next(1, 10)}, false))
	end := Position{1, l.end}
	must(t, l.Sync())
	if got := l.reach.known(); got != end {
		t.Errorf("known to be durable up to %v, want %v: what came meanwhile may not be", got, end)
	}
	must(t, l.Sync())
	if got, want := l.reach.known(), (Position{1, l.end}); got != want || l.Stats().Syncs != 2 {
		t.Errorf("after %d syncs known up to %v, want two and %v", l.Stats().Syncs, got, want)
	}
	must(t, l.Sync())
	if n := l.Stats().Syncs; n != 2 {
		t.Errorf("%d syncs, the third had nothing to do", n)
	}
}

// What a record says of the log is what was known before it was written.
func TestRecordsWrittenDuringASyncDoNotWitnessIt(t *testing.T) {
	p := newPrepares()
	var before, said Position
	_, l := duringSync(t, func(l *Log) {
		if before == (Position{}) {
			before = l.reach.known()
			must(t, l.Write([]Record{p.next(1, 10)}, false))
			said = l.reach.last.carries
		}
	})
	must(t, l.Write([]Record{p.next(1, 10)}, true))
	if said != before {
		t.Errorf("a record written during the sync witnesses %v, known was %v", said, before)
	}
	must(t, l.Mark())
	if w := l.reach.witnessed(); w.Less(l.dataEnd) {
		t.Errorf("after a mark the log is witnessed up to %v, it ends at %v", w, l.dataEnd)
	}
}

// The file of a sync is neither freed nor synced by somebody else meanwhile.
func TestSyncHoldsItsFile(t *testing.T) {
	seen := 0
	_, l := duringSync(t, func(l *Log) {
		seen++
		if l.cur.readers.TryLock() {
			t.Error("the file may be freed during its sync")
			l.cur.readers.Unlock()
		}
		if l.syncing.TryLock() {
			t.Error("another sync may begin")
			l.syncing.Unlock()
		}
	})
	must(t, l.Write([]Record{newPrepares().next(1, 10)}, false))
	must(t, l.Sync())
	if seen == 0 {
		t.Error("no sync was seen")
	}
	if !l.cur.readers.TryLock() {
		t.Error("the file is still held after its sync")
	}
}

// Writes, syncs and reclaiming at the same time, with files that end: what was written
// before a sync began is there after a loss of power.
func TestSyncsBesideWrites(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	var mu sync.Mutex
	last := vsr.Op(0) // written
	stop := make(chan struct{})
	var syncer sync.WaitGroup
	syncer.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			mu.Lock()
			want := last
			mu.Unlock()
			if err := l.Sync(); err != nil {
				t.Error(err)
				return
			}
			if n%8 != 0 {
				continue
			}
			again, _ := mustOpen(t, d.Clone().PowerLoss(nil))
			if got, _ := again.Last(1); got < want {
				t.Errorf("op %d was written before a sync, after a loss of power the log ends at %d", want, got)
				return
			}
		}
	})
	for op := vsr.Op(1); op <= 600; op++ {
		must(t, l.Write([]Record{p.next(1, int(op*37%1500))}, op%5 == 0))
		mu.Lock()
		last = op
		mu.Unlock()
		if op%50 == 0 {
			must(t, l.Sync())
			l.Release(1, op-20)
			must(t, l.Reclaim())
		}
	}
	close(stop)
	syncer.Wait()
}
