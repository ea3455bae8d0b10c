package snapshot

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
)

// mixtures is how many power losses are tried at each crash point.
const mixtures = 40

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 5)) }

// checkpoints writes ops 1 to 4, pruning to two, and returns the last one that
// became durable.
func checkpoints(d *memdisk.Disk) (durable uint64, err error) {
	if err := d.MkdirAll(testDir); err != nil {
		return 0, err
	}
	s := NewStore(d, testDir, ExtMetadata, testVault)
	for op := uint64(1); op <= 4; op++ {
		if _, err := write(s, op); err != nil {
			return durable, err
		}
		durable = op
		if err := s.Prune(2); err != nil {
			return durable, err
		}
	}
	return durable, nil
}

// newest reads the newest checkpoint and returns its op, 0 if there is none.
// Every file under a final name has to verify: names move to whole files only.
func newest(t *testing.T, what string, d *memdisk.Disk) uint64 {
	t.Helper()
	s := NewStore(d, testDir, ExtMetadata, testVault)
	found, err := s.List()
	if errors.Is(err, disk.ErrNotExist) {
		return 0
	}
	must(t, err)
	for _, g := range found {
		snap, err := s.Read(g.Number)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if snap.Op != g.Number {
			t.Fatalf("%s: %s is of op %d", what, g.Name, snap.Op)
		}
	}
	if len(found) == 0 {
		return 0
	}
	return found[0].Number
}

func eachCrash(t *testing.T, check func(k int, durable uint64, d *memdisk.Disk)) {
	for k := 1; ; k++ {
		for seed := range uint64(4) {
			d := memdisk.CrashAt(k, rng(uint64(k)<<8|seed))
			durable, err := checkpoints(d)
			if err == nil {
				return
			}
			if !errors.Is(err, memdisk.ErrCrashed) {
				t.Fatalf("crash at call %d: %v", k, err)
			}
			check(k, durable, d)
		}
	}
}

func TestPowerLossAtEveryCall(t *testing.T) {
	eachCrash(t, func(k int, durable uint64, d *memdisk.Disk) {
		for seed := range uint64(mixtures) {
			what := fmt.Sprintf("power lost at call %d, seed %d, op %d durable", k, seed, durable)
			after := d.PowerLoss(rng(seed))
			if got := newest(t, what, after); got != durable && got != durable+1 {
				t.Fatalf("%s: newest is %d", what, got)
			}
			again(t, what, after)
		}
	})
}

// What the next process finds is durable from then on: it will pair with it.
func TestKillAtEveryCall(t *testing.T) {
	eachCrash(t, func(k int, durable uint64, d *memdisk.Disk) {
		what := fmt.Sprintf("killed at call %d, op %d durable", k, durable)
		after := d.Kill()
		got := newest(t, what, after)
		if got != durable && got != durable+1 {
			t.Fatalf("%s: newest is %d", what, got)
		}
		for seed := range uint64(mixtures) {
			if n := newest(t, what, after.PowerLoss(rng(seed))); n != got {
				t.Fatalf("%s: the next process found %d, and after a power loss (seed %d) there is %d", what, got, seed, n)
			}
		}
		again(t, what, after.PowerLoss(nil))
	})
}

// again writes and prunes after a recovery.
func again(t *testing.T, what string, d *memdisk.Disk) {
	t.Helper()
	s := newStore(t, d)
	if _, err := write(s, 9); err != nil {
		t.Fatalf("%s: write after recovery: %v", what, err)
	}
	if err := s.Prune(2); err != nil {
		t.Fatalf("%s: prune after recovery: %v", what, err)
	}
	after := d.PowerLoss(nil)
	if got := newest(t, what, after); got != 9 {
		t.Fatalf("%s: newest after recovery is %d, want 9", what, got)
	}
	if entries, err := after.List(testDir); err != nil || len(entries) > 2 {
		t.Fatalf("%s: left after prune: %v, %v", what, entries, err)
	}
}

// A device that lies is found out by the checksum when the file is read.
func TestLyingDevice(t *testing.T) {
	for _, class := range []memdisk.Class{memdisk.LostWrite, memdisk.MisdirectedWrite} {
		d := newDisk()
		s := newStore(t, d)
		_, err := write(s, 1)
		must(t, err)
		d.Inject(memdisk.Fault{Class: class, To: s.Name(1), ToOffset: 100})
		_, err = write(s, 2)
		must(t, err)
		after := NewStore(d.PowerLoss(nil), testDir, ExtMetadata, testVault)
		if _, err := after.Read(2); !errors.Is(err, ErrNotASnapshot) {
			t.Errorf("class %d: the file whose bytes never arrived: %v", class, err)
		}
		_, err = after.Read(1)
		if class == memdisk.MisdirectedWrite && !errors.Is(err, ErrChecksum) || class == memdisk.LostWrite && err != nil {
			t.Errorf("class %d: the older file: %v", class, err)
		}
	}
}
