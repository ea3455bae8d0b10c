package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"galgo/internal/disk/memdisk"
	"galgo/internal/partition"
	"galgo/internal/shard"
	"galgo/internal/snapshot"
	"galgo/internal/superblock"
	"galgo/internal/wal"
)

// refusals are the errors by which a start or a poll may say that something is
// damaged or missing. Anything else is a fault of ours.
var refusals = []error{
	shard.ErrFormatLost, shard.ErrSuperblockLost, shard.ErrLogLost, shard.ErrLogShort, shard.ErrLogGap, shard.ErrLogForks,
	shard.ErrCheckpointLost, shard.ErrMetadataLost,
	superblock.ErrUnreadable, superblock.ErrIdentityCorrupt, superblock.ErrIdentityVersion, superblock.ErrStateLength, superblock.ErrStateViews,
	superblock.ErrCheckpointAhead, superblock.ErrCheckpointChecksum,
	snapshot.ErrNotASnapshot, snapshot.ErrVersion, snapshot.ErrTruncated, snapshot.ErrChecksum, snapshot.ErrMalformed,
	partition.ErrDamaged, partition.ErrMissing, partition.ErrUnexplained,
}

func refused(err error) bool {
	if w, ok := errors.AsType[*wal.Error](err); ok {
		return w.File != "" && w.Error() != ""
	}
	return slices.ContainsFunc(refusals, func(target error) bool { return errors.Is(err, target) })
}

// Each single fault of the disk, at each call that it can meet: the life ends
// where the node gives up, or at its end, and the power goes. Then either all
// that was acknowledged is there, or the start or the poll names what is wrong.
// Never is anything missing in silence.
func TestEachFaultIsSurvivedOrNamed(t *testing.T) {
	classes := map[string]memdisk.Class{
		"failed call": memdisk.Fail, "no space": memdisk.NoSpace, "short write": memdisk.ShortWrite,
		"failed sync": memdisk.SyncFailure, "lost write": memdisk.LostWrite, "misdirected write": memdisk.MisdirectedWrite,
	}
	want := expected(t, healthy)
	for name, class := range classes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outcomes := map[string]int{}
			for k := 1; ; k += stride {
				d := healthy()
				d.Inject(memdisk.Fault{Class: class, At: k, Keep: 512, KeepCache: k%2 == 0, ToOffset: int64(k%9) * 4096})
				acknowledged := lifeWithFaults(t, d)
				if d.Fired() == 0 {
					break
				}
				after := d.PowerLoss(rand.New(rand.NewPCG(uint64(k), 5)))
				outcomes[survivedOrNamed(t, after, want, acknowledged, fmt.Sprintf("%s at call %d", name, k))]++
			}
			t.Logf("%v", outcomes)
		})
	}
}

// lifeWithFaults runs the script with the patience that retries take.
func lifeWithFaults(t *testing.T, d *memdisk.Disk) int {
	t.Helper()
	w, err := open(t, d, worldConfig(), 1, 1_000_000)
	if err != nil {
		return 0
	}
	w.patience = 2 * 128
	return perform(w)
}

// survivedOrNamed opens a disk after faults and says how that ended. Anything
// but the two allowed ends fails the test.
func survivedOrNamed(t *testing.T, d *memdisk.Disk, want []string, acknowledged int, what string) string {
	t.Helper()
	before := d.Clone()
	w, err := open(t, d, worldConfig(), 2, 2_000_000)
	if err != nil {
		if !refused(err) {
			t.Fatalf("%s, after step %d: the start fails without a name for it: %v", what, acknowledged, err)
		}
		if diff := memdisk.Diff(before, d); diff != "" {
			t.Fatalf("%s: the start refused (%v), but changed the disk: %s", what, err, diff)
		}
		return "start refused"
	}
	got, err := w.observe()
	if err != nil {
		if !refused(err) {
			t.Fatalf("%s, after step %d: a poll fails without a name for it: %v", what, acknowledged, err)
		}
		return "poll refused"
	}
	allowed := want[acknowledged:min(acknowledged+2, len(want))]
	if !slices.Contains(allowed, got) {
		t.Fatalf("%s, in step %q: recovered in silence\n%s\nwant\n%s\nor what the step adds\n%s",
			what, stepName(acknowledged), got, allowed[0], allowed[len(allowed)-1])
	}
	return "recovered"
}

// A bit flips in any file of a node at rest, killed or stopped.
func TestFlippedBitIsHarmlessOrNamed(t *testing.T) {
	want := expected(t, healthy)
	d := healthy()
	w, err := open(t, d, worldConfig(), 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	if n := perform(w); n != len(script) {
		t.Fatalf("only %d steps", n)
	}
	rested := d.PowerLoss(nil)
	rng := rand.New(rand.NewPCG(7, 7))
	outcomes := map[string]int{}
	files := rested.Files()
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for range 60 {
			size := len(files[name])
			if size == 0 {
				continue
			}
			// Files begin with what matters most.
			off := rng.IntN(size)
			if rng.IntN(2) == 0 {
				off = rng.IntN(min(size, 6000))
			}
			hurt := rested.Clone()
			bit := uint(rng.IntN(8))
			hurt.FlipBit(name, int64(off), bit)
			outcome := survivedOrNamed(t, hurt, want, len(script), fmt.Sprintf("bit %d of byte %d of %s", bit, off, name))
			outcomes[kindOf(name)+": "+outcome]++
		}
	}
	for _, must := range []string{"wal: start refused", "superblock: start refused", "snap: start refused", "ckpt: start refused", "FORMAT: start refused"} {
		if outcomes[must] == 0 {
			t.Errorf("no flip led to %q: the damage was not where it matters (%v)", must, outcomes)
		}
	}
	t.Logf("%v", outcomes)
}

func kindOf(name string) string {
	base := name[strings.LastIndex(name, "/")+1:]
	if strings.HasPrefix(base, "superblock") {
		return "superblock"
	}
	if i := strings.LastIndex(base, "."); i >= 0 {
		return base[i+1:]
	}
	return base
}
