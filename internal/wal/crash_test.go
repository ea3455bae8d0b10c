package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"galgo/internal/disk/memdisk"
)

// script is a workload that meets every kind of disk call a log makes: files
// that roll, spares, truncation, marks, reclaiming with files recycled and
// removed, groups forgotten, a reset. It ends at the first error.
func script(d *memdisk.Disk, h *history) error {
	l, _, err := Open(d, testDir, testOptions())
	if err != nil {
		return err
	}
	p := newPrepares()
	steps := []func() error{
		func() error { return h.write(l, true, p.next(1, 100), p.next(2, 700), p.next(3, 0)) },
		func() error { return h.write(l, true, Record{Kind: KindState, Group: 1, State: []byte("view 1")}) },
		func() error { return l.EnsureSpare(l.o.FilesSpare) },
		func() error { return h.write(l, false, p.next(1, 1200), p.next(1, 1300)) },
		func() error { return h.write(l, true, p.next(2, 900), p.next(3, 1), p.next(2, 2500), p.next(1, 40)) },
		l.Mark,
		func() error { p.rewind(*h.find(1, 3)); return nil },
		func() error {
			return h.write(l, true, Record{Kind: KindTruncate, Group: 1, Op: 3}, p.next(1, 333), p.next(1, 3))
		},
		func() error { h.release(l, 1, 3); h.release(l, 2, 2); h.release(l, 3, 1); return nil },
		l.Reclaim,
		func() error { return l.EnsureSpare(l.o.FilesSpare) },
		func() error { return h.write(l, true, p.next(1, 3000)) },
		func() error { return h.write(l, true, p.next(3, 3000), p.next(4, 10)) },
		func() error { h.release(l, 1, 6); h.release(l, 3, 3); h.release(l, 2, 3); return nil },
		func() error { h.forget(l, 4); return nil },
		l.Reclaim,
		func() error { return h.write(l, true, h.resetTo(p, 2, 50), p.next(2, 20), p.next(3, 600)) },
		l.Mark,
		func() error { return h.write(l, false, p.next(3, 100)) },
		func() error { return h.write(l, true, p.next(5, 2*FileSizeMin), p.next(3, 9)) },
		func() error { h.release(l, 3, 5); h.release(l, 5, 1); h.release(l, 2, 51); return nil },
		l.Reclaim,
		func() error { return h.write(l, true, p.next(2, 200)) },
		l.Close,
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// TestCrashAtEachCall cuts the script at each disk call in turn, by loss of power
// with many mixtures of what survives, and by a kill that keeps all.
func TestCrashAtEachCall(t *testing.T) {
	mixtures := 24
	if testing.Short() {
		mixtures = 4
	}
	for call := 1; ; call++ {
		var ended bool
		for mix := range mixtures {
			rng := rand.New(rand.NewPCG(uint64(call), uint64(mix)))
			d := memdisk.CrashAt(call, rng)
			h := newHistory()
			err := script(d, h)
			if err != nil && !errors.Is(err, memdisk.ErrCrashed) {
				t.Fatalf("call %d, mixture %d: the script ended with %v", call, mix, err)
			}
			after, least := d.PowerLoss(rng), h.durable
			if mix%6 == 5 {
				after, least = d.Kill(), h.written
			}
			after, err2 := h.recoverAndCheck(after, least, rng)
			if err2 == nil && mix%4 == 3 {
				err2 = h.continueFrom(after)
			}
			if err2 != nil {
				t.Fatalf("call %d, mixture %d: %d records durable of %d: %v", call, mix, h.durable, len(h.recs), err2)
			}
			ended = err == nil
		}
		if ended {
			if call < 60 {
				t.Fatalf("the script makes only %d calls", call)
			}
			t.Logf("%d calls, %d mixtures each", call, mixtures)
			return
		}
	}
}

// A crash in the middle of a recovery, and of the recovery after that.
func TestCrashInRecovery(t *testing.T) {
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 1))
		h := newHistory()
		d := memdisk.CrashAt(20+rng.IntN(70), rng)
		if err := script(d, h); err != nil && !errors.Is(err, memdisk.ErrCrashed) {
			t.Fatal(err)
		}
		d = d.PowerLoss(rng)
		for call := 1; call < 12; call++ {
			c := d.Clone()
			c.Inject(memdisk.Fault{Class: memdisk.Fail, At: call, Times: memdisk.Forever, Ops: memdisk.OpCreate | memdisk.OpWrite |
				memdisk.OpSync | memdisk.OpSyncDir | memdisk.OpRename | memdisk.OpRemove})
			if l, _, err := Open(c, testDir, testOptions()); err == nil {
				_ = l
				break
			}
			if _, err := h.recoverAndCheck(c.PowerLoss(rng), h.durable, rng); err != nil {
				t.Fatalf("seed %d, recovery cut at call %d: %v", seed, call, err)
			}
		}
		if _, err := h.recoverAndCheck(d, h.durable, rng); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
