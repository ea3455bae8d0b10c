package superblock

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"galgo/internal/disk/memdisk"
)

// mixtures is how many power losses are tried at each crash point.
const mixtures = 40

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// writeSome writes the numbers up to 5 and returns the last one acknowledged.
func writeSome(d *memdisk.Disk) (acked int, err error) {
	if err := d.MkdirAll(testDir); err != nil {
		return 0, err
	}
	s, err := Open(d, testDir)
	if err != nil {
		return 0, err
	}
	for n := 1; n <= 5; n++ {
		if err := s.Write([]byte(strconv.Itoa(n))); err != nil {
			return acked, err
		}
		acked = n
	}
	return acked, nil
}

// recovered opens the store and returns the number in it, 0 when it is empty.
func recovered(t *testing.T, what string, d *memdisk.Disk) int {
	t.Helper()
	if _, err := d.List(testDir); err != nil {
		return 0
	}
	o := open(t, d).Latest()
	if o.Kind == Unreadable {
		t.Fatalf("%s: %v", what, o.Err(testDir))
	}
	n, _ := strconv.Atoi(string(o.Payload))
	if uint64(n) != o.Sequence {
		t.Fatalf("%s: record %d has payload %q", what, o.Sequence, o.Payload)
	}
	return n
}

// eachCrash runs the writes with a crash at each disk call in turn.
func eachCrash(t *testing.T, check func(k, acked int, d *memdisk.Disk)) {
	for k := 1; ; k++ {
		for seed := range uint64(4) {
			d := memdisk.CrashAt(k, rng(uint64(k)<<8|seed))
			acked, err := writeSome(d)
			if err == nil {
				return
			}
			if !errors.Is(err, memdisk.ErrCrashed) {
				t.Fatalf("crash at call %d: %v", k, err)
			}
			check(k, acked, d)
		}
	}
}

// The old record or the new one, never neither: at every crash point and for
// many mixtures of what a power loss leaves. What was read stays, whatever
// comes next, and the store goes on.
func TestPowerLossAtEveryCall(t *testing.T) {
	eachCrash(t, func(k, acked int, d *memdisk.Disk) {
		for seed := range uint64(mixtures) {
			what := fmt.Sprintf("power lost at call %d, seed %d, %d acknowledged", k, seed, acked)
			after := d.PowerLoss(rng(seed))
			got := recovered(t, what, after)
			if got != acked && got != acked+1 {
				t.Fatalf("%s: found %d", what, got)
			}
			goOn(t, what, after, got)
		}
	})
}

// A killed process loses nothing, and what the next one reads is durable from
// then on even if power is lost: it will have acted on it.
func TestKillAtEveryCall(t *testing.T) {
	eachCrash(t, func(k, acked int, d *memdisk.Disk) {
		what := fmt.Sprintf("killed at call %d, %d acknowledged", k, acked)
		after := d.Kill()
		got := recovered(t, what, after)
		if got != acked && got != acked+1 {
			t.Fatalf("%s: found %d", what, got)
		}
		for seed := range uint64(mixtures) {
			again := after.PowerLoss(rng(seed))
			if n := recovered(t, what, again); n != got {
				t.Fatalf("%s: the next process read %d, and after a power loss (seed %d) there is %d", what, got, seed, n)
			}
		}
		goOn(t, what, after.PowerLoss(nil), got)
	})
}

// goOn writes one more record after a recovery that found n.
func goOn(t *testing.T, what string, d *memdisk.Disk, n int) {
	t.Helper()
	if _, err := d.List(testDir); err != nil {
		mkdir(t, d)
	}
	if err := open(t, d).Write([]byte(strconv.Itoa(n + 1))); err != nil {
		t.Fatalf("%s: write after recovery: %v", what, err)
	}
	if got := recovered(t, what, d.PowerLoss(nil)); got != n+1 {
		t.Fatalf("%s: wrote %d after recovery, found %d", what, n+1, got)
	}
}

// The same for the identity of the directory: none, or the whole.
func TestIdentityAtEveryCall(t *testing.T) {
	for k := 1; ; k++ {
		d := memdisk.CrashAt(k, rng(uint64(k)))
		err := WriteIdentity(d, testIdentity)
		if err == nil {
			break
		}
		for seed := range uint64(mixtures) {
			checkIdentity(t, k, d.PowerLoss(rng(seed)))
		}
		killed := d.Kill()
		_, seen := ReadIdentity(killed)
		checkIdentity(t, k, killed)
		if _, err := ReadIdentity(killed.PowerLoss(nil)); seen == nil && err != nil {
			t.Fatalf("call %d: the next process read the identity, and after a power loss: %v", k, err)
		}
	}
	d := memdisk.New(memdisk.Options{})
	must(t, WriteIdentity(d, testIdentity))
	if got, err := ReadIdentity(d.PowerLoss(nil)); err != nil || got != testIdentity {
		t.Fatalf("written, and after a power loss: %+v, %v", got, err)
	}
}

func checkIdentity(t *testing.T, k int, d *memdisk.Disk) {
	t.Helper()
	got, err := ReadIdentity(d)
	if err == nil && got == testIdentity {
		return
	}
	if !errors.Is(err, ErrIdentityAbsent) {
		t.Fatalf("crash at call %d: %+v, %v", k, got, err)
	}
	if err := WriteIdentity(d.Clone(), testIdentity); err != nil {
		t.Fatalf("crash at call %d: formatting again: %v", k, err)
	}
}
