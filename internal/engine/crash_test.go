package engine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"galgo"
	"galgo/internal/disk/memdisk"
)

type diskMaker func() *memdisk.Disk

func healthy() *memdisk.Disk { return memdisk.New(memdisk.Options{}) }

// stride is how many calls of the disk the tests go on at a time; sealed sets it.
var stride = 1

// mixtures is how many outcomes of a power loss are tried at each crash point.
const mixtures = 3

// At each disk call of the script's life the machine loses power, and un-synced
// changes survive in random mixtures. After recovery everything acknowledged is
// there, once and in order, and nothing else but what was asked for and not
// answered (promises P1, P3, P6); a second crash and recovery changes nothing;
// and the node goes on.
func TestPowerLossAtEachDiskCall(t *testing.T) {
	want := expected(t, healthy)
	for k := 1; ; k += stride {
		d := memdisk.New(memdisk.Options{CrashAt: k, Rand: rand.New(rand.NewPCG(uint64(k), 2))})
		acknowledged := life(t, d)
		for mixture := range mixtures {
			after := d.PowerLoss(rand.New(rand.NewPCG(uint64(k), uint64(100+mixture))))
			survives(t, after, want, acknowledged, k)
		}
		if d.Calls() < k {
			t.Logf("%d crash points", k-1)
			return
		}
	}
}

// The process is killed at each disk call: what was written stays, synced or not.
func TestKillAtEachDiskCall(t *testing.T) {
	want := expected(t, healthy)
	for k := 1; ; k += stride {
		d := memdisk.New(memdisk.Options{CrashAt: k, Rand: rand.New(rand.NewPCG(uint64(k), 3))})
		acknowledged := life(t, d)
		survives(t, d.Kill(), want, acknowledged, k)
		if d.Calls() < k {
			return
		}
	}
}

// life runs the script on a disk that may end it, and returns how many steps were
// acknowledged.
func life(t *testing.T, d *memdisk.Disk) int {
	t.Helper()
	w, err := open(t, d, worldConfig(), 1, 1_000_000)
	if err != nil {
		return 0 // the crash came while formatting
	}
	return perform(w)
}

// survives recovers and compares with what may be seen after so many steps.
func survives(t *testing.T, d *memdisk.Disk, want []string, acknowledged, k int) {
	t.Helper()
	w, err := open(t, d, worldConfig(), 2, 2_000_000)
	if err != nil {
		t.Fatalf("crash at disk call %d, after step %d: recovery refused: %v", k, acknowledged, err)
	}
	got, err := w.observe()
	if err != nil {
		t.Fatalf("crash at disk call %d, after step %d: %v", k, acknowledged, err)
	}
	allowed := want[acknowledged:min(acknowledged+2, len(want))]
	if !slices.Contains(allowed, got) {
		t.Fatalf("crash at disk call %d, in step %q: recovered\n%s\nwant\n%s\nor what the step adds\n%s",
			k, stepName(acknowledged), got, allowed[0], allowed[len(allowed)-1])
	}
	again, err := open(t, d.Kill(), worldConfig(), 3, 3_000_000)
	if err != nil {
		t.Fatalf("crash at disk call %d: second recovery refused: %v", k, err)
	}
	if second, err := again.observe(); err != nil || second != got {
		t.Fatalf("crash at disk call %d: second recovery shows\n%s\n(%v), the first\n%s", k, second, err, got)
	}
	goesOn(t, again, k)
}

func stepName(i int) string {
	if i < len(script) {
		return script[i].name
	}
	return "the end"
}

// goesOn sends to a recovered partition: offsets are dense and never used twice.
func goesOn(t *testing.T, w *world, k int) {
	t.Helper()
	group := w.group("s", "t", 0)
	if group == 0 {
		return
	}
	before, err := w.poll(group, 0)
	if err != nil {
		t.Fatal(err)
	}
	r, ok := w.send(group, galgo.ClientID{}, 0, "new")
	if !ok || r.Code != galgo.CodeOK || r.Base != uint64(len(before)) {
		t.Fatalf("crash at disk call %d: send after recovery: ok %v, %+v, want base offset %d (%v)", k, ok, r, len(before), w.failed)
	}
	after, err := w.poll(group, 0)
	if err != nil || !slices.Equal(after, append(before, "new")) {
		t.Fatalf("crash at disk call %d: after the send: %q, %v", k, after, err)
	}
}
