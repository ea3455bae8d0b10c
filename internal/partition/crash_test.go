package partition

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"galgo"
	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
)

// script is a short life with everything in it: sends that roll segments, offsets,
// numbered sends, purges, truncations, checkpoints with and without operations
// after them. It stops at the first job that fails.
func script(r *rig) error {
	steps := []func() error{
		func() error { return sendAndWrite(r, 6, 300) },
		func() error { r.store(galgo.ConsumerSingle, 1, 3, false); return nil },
		r.save,
		func() error { return sendAndWrite(r, 20, 420) },
		func() error { r.sendAs(galgo.ClientID{1}, 5, 2, 60); return r.write(true) },
		func() error { r.truncate(12); return r.save() },
		func() error { return sendAndWrite(r, 3, 900) },
		func() error { r.purge(1); return nil },
		func() error { return sendAndWrite(r, 10, 500) },
		func() error { r.store(galgo.ConsumerGroup, 2, 4, true); return r.save() },
		func() error { return sendAndWrite(r, 4, 100) },
		func() error { r.purge(2); r.purge(5); return r.save() },
		func() error { return sendAndWrite(r, 9, 700) },
		func() error { r.truncate(5); return r.write(true) },
		r.save,
		func() error { return sendAndWrite(r, 2, 10) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func sendAndWrite(r *rig, n, size int) error {
	for i := range n {
		r.send(1+i%3, size)
		if err := r.write(i%4 == 3); err != nil {
			return err
		}
	}
	return nil
}

// TestCrashAtEveryCall ends the script at each disk call in turn, loses power,
// and recovers: state, answers and bytes must be those of a machine that never
// crashed. Then it crashes a second time, and that changes nothing.
func TestCrashAtEveryCall(t *testing.T) {
	mixtures := 2
	if testing.Short() {
		mixtures = 1
	}
	for _, preallocate := range []bool{false, true} {
		calls := 0
		for k := 1; ; k++ {
			rng := seeded(uint64(k))
			d := memdisk.CrashAt(k, rng)
			cfg := smallConfig(d)
			cfg.Preallocate = preallocate
			r := newRig(t, cfg)
			err := script(r)
			if err != nil && !errors.Is(err, memdisk.ErrCrashed) {
				t.Fatalf("call %d: %v", k, err)
			}
			for range mixtures {
				recoverTwice(t, fmt.Sprintf("preallocate %v, crash at call %d", preallocate, k), *r, d, rng)
			}
			if err == nil {
				break // the script ended first: every call was tried
			}
			calls = k
		}
		if calls < 80 {
			t.Fatalf("the script makes %d disk calls: too few to show anything", calls)
		}
	}
}

// recoverTwice recovers from one mixture of what a power loss leaves. r is a copy.
func recoverTwice(t *testing.T, what string, r rig, d *memdisk.Disk, rng *rand.Rand) {
	t.Helper()
	after := d.PowerLoss(rng)
	if err := r.reopen(after); err != nil {
		t.Fatalf("%s: recovery: %v", what, err)
	}
	again := r
	if rng.IntN(2) == 0 { // the second crash comes at some point of what follows
		r.send(2, 333)
		r.must(r.write(true))
		again = r
	}
	if err := again.reopen(after.PowerLoss(rng)); err != nil {
		t.Fatalf("%s: second recovery: %v", what, err)
	}
	mustEqual(t, what, &again, again.twin())
	r.must(again.reopen(again.cfg.Disk.(*memdisk.Disk).PowerLoss(nil)))
	mustEqual(t, what+", third recovery", &again, again.twin())
}

// TestCrashDuringRecovery cuts the recovery itself at each of its disk calls.
func TestCrashDuringRecovery(t *testing.T) {
	d := newDisk()
	r := newRig(t, smallConfig(d))
	r.must(script(r))
	r.must(sendAndWrite(r, 12, 600))
	r.purge(9)
	r.must(sendAndWrite(r, 12, 600))
	left := d.Kill()
	for k := 1; ; k++ {
		crashing := rebuilt(left, memdisk.Options{CrashAt: k, Rand: seeded(uint64(k))})
		cut := *r
		err := cut.reopen(crashing)
		if err != nil && !errors.Is(err, memdisk.ErrCrashed) {
			t.Fatalf("call %d: %v", k, err)
		}
		again := *r
		r.must(again.reopen(crashing.PowerLoss(seeded(uint64(k)))))
		mustEqual(t, fmt.Sprintf("recovery crashed at call %d", k), &again, again.twin())
		if err == nil {
			if k < 5 {
				t.Fatalf("recovery made %d calls: nothing was cut", k-1)
			}
			return
		}
	}
}

// rebuilt is a disk with the files of another, all of them durable.
func rebuilt(d *memdisk.Disk, opt memdisk.Options) *memdisk.Disk {
	out := memdisk.New(opt)
	for name, content := range d.Files() {
		out.Put(name, content)
	}
	return out
}

// TestFaultsOfTheDisk meets each fault in turn: a job fails and says so, nothing
// is lost, and after a failed sync nothing is written any more.
func TestFaultsOfTheDisk(t *testing.T) {
	classes := map[string]memdisk.Class{"fail": memdisk.Fail, "no space": memdisk.NoSpace, "short write": memdisk.ShortWrite, "sync": memdisk.SyncFailure}
	for name, class := range classes {
		t.Run(name, func(t *testing.T) {
			for at := 1; ; at++ {
				d := newDisk()
				d.Inject(memdisk.Fault{Class: class, At: at, Keep: 100})
				r := newRig(t, smallConfig(d))
				err := scriptWithRetries(r)
				if d.Fired() == 0 {
					return
				}
				switch {
				case errors.Is(err, ErrSync):
					if r.m.Err() == nil || r.m.NextWrite(true) != nil || r.m.BeginCheckpoint() != nil {
						t.Fatalf("fault %d: the machine goes on writing after %v", at, err)
					}
				case err != nil:
					t.Fatalf("fault %d: %v", at, err)
				}
				d.ClearFaults()
				r.must(r.reopen(d.PowerLoss(seeded(uint64(at)))))
				mustEqual(t, fmt.Sprintf("fault %d", at), r, r.twin())
			}
		})
	}
}

// scriptWithRetries runs the script again from the step that failed, as a host
// does, unless a sync failed.
func scriptWithRetries(r *rig) error {
	err := script(r)
	if err == nil || errors.Is(err, ErrSync) {
		return err
	}
	if err := r.write(true); err != nil {
		return err
	}
	if err := r.save(); err != nil {
		return err
	}
	return sendAndWrite(r, 5, 400)
}

// TestRemoveAtEveryCall removes the group of a deleted partition; a crash at any
// call leaves what a second attempt removes.
func TestRemoveAtEveryCall(t *testing.T) {
	for k := 1; ; k++ {
		d := newDisk()
		r := newRig(t, smallConfig(d))
		r.must(script(r))
		j := r.m.Remove()
		if j == nil {
			t.Fatal("no removal, though no job is in flight")
		}
		crash := d.Calls() + k
		d.Inject(memdisk.Fault{Class: memdisk.Fail, At: k, Times: memdisk.Forever, Ops: memdisk.OpRemove | memdisk.OpSyncDir})
		err := j.Run()
		r.m.RemoveDone(j, err)
		d.ClearFaults()
		left := d.PowerLoss(seeded(uint64(crash)))
		if err := RemoveDir(left, r.m.cfg.Dir); err != nil {
			t.Fatalf("removal stopped at call %d: second attempt: %v", k, err)
		}
		if _, err := left.PowerLoss(nil).List(r.m.cfg.Dir); !errors.Is(err, disk.ErrNotExist) {
			t.Fatalf("removal stopped at call %d: the directory is still there: %v", k, err)
		}
		if err == nil {
			return
		}
	}
}
