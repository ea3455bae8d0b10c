package memdisk_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
)

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newFile makes a durable file with some content and returns its handle.
func newFile(t testing.TB, d *memdisk.Disk, name, content string) disk.File {
	t.Helper()
	d.Put(name, []byte(content))
	f, err := d.Open(name)
	must(t, err)
	return f
}

// outcomes counts what a file looks like after many power losses: its content,
// or "absent".
func outcomes(d *memdisk.Disk, name string) map[string]int {
	seen := map[string]int{}
	for seed := range uint64(300) {
		after := d.PowerLoss(rng(seed))
		if b, ok := after.Files()[name]; ok {
			seen[string(b)]++
		} else {
			seen["absent"]++
		}
	}
	return seen
}

func wantOutcomes(t *testing.T, d *memdisk.Disk, name string, want ...string) {
	t.Helper()
	seen := outcomes(d, name)
	for _, w := range want {
		if seen[w] == 0 {
			t.Errorf("%s is never %q after a power loss", name, w)
		}
		delete(seen, w)
	}
	for s, n := range seen {
		t.Errorf("%s is %q after %d power losses of 300", name, s, n)
	}
}

func TestNameNeedsSyncDir(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	f, err := d.Create("a", 3)
	must(t, err)
	must(t, f.Sync())
	if got := d.PowerLoss(nil).Names(); len(got) != 0 {
		t.Fatalf("names without SyncDir: %v", got)
	}
	wantOutcomes(t, d, "a", "absent", "\x00\x00\x00")

	d = d.Kill()
	if got := d.Names(); len(got) != 1 {
		t.Fatalf("names after a kill: %v", got)
	}
	must(t, d.SyncDir("."))
	wantOutcomes(t, d, "a", "\x00\x00\x00")
}

func TestZerosOfCreateNeedSync(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	_, err := d.Create("a", 3)
	must(t, err)
	must(t, d.SyncDir("."))
	wantOutcomes(t, d, "a", "", "\x00\x00\x00")
}

func TestRenameIsOldOrNew(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	d.Put("a", []byte("old"))
	newFile(t, d, "tmp", "new")
	must(t, d.Rename("tmp", "a"))
	wantOutcomes(t, d, "a", "old", "new")
	wantOutcomes(t, d, "tmp", "new", "absent")
	d = d.Kill()
	must(t, d.SyncDir("."))
	wantOutcomes(t, d, "a", "new")
	wantOutcomes(t, d, "tmp", "absent")
}

func TestRemovalMayBeUndone(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	d.Put("a", []byte("x"))
	must(t, d.Remove("a"))
	wantOutcomes(t, d, "a", "x", "absent")
	d = d.Kill()
	must(t, d.SyncDir("."))
	wantOutcomes(t, d, "a", "absent")
}

// A rename of a file whose bytes were not synced may leave the name on nothing.
func TestRenameBeforeSyncLosesBoth(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	d.Put("a", []byte("old"))
	f, err := d.Create("tmp", 0)
	must(t, err)
	must(t, f.WriteAt([]byte("new"), 0))
	must(t, d.Rename("tmp", "a"))
	must(t, d.SyncDir("."))
	wantOutcomes(t, d, "a", "", "new", "\x00\x00\x00")
}

// Of several changes in one directory any subset may stay.
func TestAnySubsetOfNames(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	for _, name := range []string{"a", "b", "c"} {
		_, err := d.Create(name, 0)
		must(t, err)
	}
	seen := map[string]bool{}
	for seed := range uint64(500) {
		seen[strings.Join(d.PowerLoss(rng(seed)).Names(), "")] = true
	}
	if len(seen) != 8 {
		t.Fatalf("%d of 8 subsets seen: %v", len(seen), seen)
	}
}

func TestRenameBetweenDirectoriesNeedsBothSyncs(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	must(t, d.MkdirAll("x"))
	d.Put("a", []byte("1"))
	must(t, d.Rename("a", "x/a"))
	must(t, d.SyncDir("x"))
	if got := fmt.Sprint(d.PowerLoss(nil).Names()); got != "[a x]" {
		t.Fatalf("with one directory synced: %s", got)
	}
	d = d.Kill()
	must(t, d.SyncDir("."))
	if got := fmt.Sprint(d.PowerLoss(nil).Names()); got != "[x x/a]" {
		t.Fatalf("with both synced: %s", got)
	}
}

func TestMkdirAllIsDurable(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	must(t, d.MkdirAll("a/b/c"))
	if got := fmt.Sprint(d.PowerLoss(nil).Names()); got != "[a a/b a/b/c]" {
		t.Fatalf("after a power loss: %s", got)
	}
}

// A crash may leave a directory that was made and not synced; MkdirAll of one
// that exists makes it durable all the same.
func TestMkdirAllThatCrashed(t *testing.T) {
	doubtful := 0
	for seed := range uint64(100) {
		d := memdisk.CrashAt(1, rng(seed))
		d.MkdirAll("a/b")
		after := d.Kill()
		if len(after.Names()) != len(after.Clone().PowerLoss(nil).Names()) {
			doubtful++
		}
		must(t, after.MkdirAll("a/b"))
		if got := fmt.Sprint(after.PowerLoss(nil).Names()); got != "[a a/b]" {
			t.Fatalf("seed %d: made again, and after a power loss: %s", seed, got)
		}
	}
	if doubtful == 0 {
		t.Fatal("a crash never left a directory in doubt")
	}
}

func TestSectorsTear(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	f := newFile(t, d, "a", strings.Repeat("o", 3*disk.Sector))
	must(t, f.WriteAt(bytes.Repeat([]byte("n"), 3*disk.Sector), 0))
	seen := map[string]bool{}
	for seed := range uint64(2000) {
		b := d.PowerLoss(rng(seed)).Bytes("a")
		var kinds []byte
		for s := range 3 {
			sector := b[s*disk.Sector : (s+1)*disk.Sector]
			if bytes.Count(sector, sector[:1]) != disk.Sector {
				t.Fatalf("seed %d: sector %d is torn inside", seed, s)
			}
			kinds = append(kinds, sector[0])
		}
		seen[string(kinds)] = true
	}
	if len(seen) != 27 {
		t.Fatalf("%d of 27 mixtures of old, new and zeros seen", len(seen))
	}
}

// Of a sector that was written twice, the state between the writes may be found.
func TestSectorKeepsAnyVersion(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	f := newFile(t, d, "a", "0000")
	must(t, f.WriteAt([]byte("1111"), 0))
	must(t, f.WriteAt([]byte("22"), 1))
	wantOutcomes(t, d, "a", "0000", "1111", "1221", "\x00\x00\x00\x00")
}

// Bytes of a sector that were synced stay, whatever happens to their neighbours.
func TestSyncedNeighbourStays(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	f := newFile(t, d, "a", "durable")
	must(t, f.WriteAt([]byte("tail"), 7))
	wantOutcomes(t, d, "a", "durable", "durabletail", "durable\x00\x00\x00\x00")
}

func TestTruncateMayBeUndone(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	f := newFile(t, d, "a", "abcd")
	must(t, f.Truncate(2))
	seen := outcomes(d, "a")
	if seen["abcd"] == 0 || seen["ab"] == 0 || seen["ab\x00\x00"] == 0 || len(seen) != 3 {
		t.Fatalf("after a truncate: %v", seen)
	}
	d = d.Kill()
	f, err := d.Open("a")
	must(t, err)
	must(t, f.Sync())
	wantOutcomes(t, d, "a", "ab")
}

func TestKillKeepsAndEndsHandles(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	f := newFile(t, d, "a", "x")
	must(t, f.WriteAt([]byte("y"), 0))
	after := d.Kill()
	if got := string(after.Bytes("a")); got != "y" {
		t.Fatalf("after a kill: %q, want y", got)
	}
	if got := string(after.PowerLoss(nil).Bytes("a")); got != "x" {
		t.Fatalf("after a kill and a power loss: %q, want x: nobody synced", got)
	}
	_, err := f.ReadAt(make([]byte, 1), 0)
	for what, err := range map[string]error{"read": err, "write": f.WriteAt([]byte("z"), 0), "sync": f.Sync(), "remove": d.Remove("a")} {
		if !errors.Is(err, memdisk.ErrCrashed) {
			t.Errorf("%s through a dead disk: %v, want %v", what, err, memdisk.ErrCrashed)
		}
	}
	if got := string(d.Bytes("a")); got != "y" {
		t.Fatalf("the dead disk changed to %q", got)
	}
}

func TestCloneIsIndependent(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	f := newFile(t, d, "a", strings.Repeat("x", 10000))
	c := d.Clone()
	must(t, f.WriteAt([]byte("changed"), 5000))
	must(t, d.MkdirAll("dir"))
	if got := string(c.Bytes("a")); got != strings.Repeat("x", 10000) {
		t.Fatal("a write to the original shows in the clone")
	}
	g, err := c.Open("a")
	must(t, err)
	must(t, g.WriteAt([]byte("other"), 0))
	if string(d.Bytes("a")[:5]) != "xxxxx" {
		t.Fatal("a write to the clone shows in the original")
	}
	if got := memdisk.Diff(d, c); got != "a: differs at byte 0 of 10000" {
		t.Fatalf("diff %q", got)
	}
}

func TestDiff(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	d.Put("x/a", []byte("1"))
	c := d.Clone()
	if !memdisk.Equal(d, c) || !memdisk.Equal(d, d) {
		t.Fatal("a clone differs")
	}
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { c.Put("x/a", []byte("2")) }, "x/a: differs at byte 0 of 1"},
		{func() { c.Put("x/a", []byte("22")) }, "x/a: 1 bytes on the first disk, 2 on the second"},
		{func() { c.Delete("x/a") }, "x/a: only on the first disk"},
		{func() { c.Put("x/a", []byte("1")); c.Put("y", nil) }, "y: only on the second disk"},
	} {
		step.do()
		if got := memdisk.Diff(d, c); got != step.want {
			t.Fatalf("diff %q, want %q", got, step.want)
		}
	}
}

// workload touches every kind of call.
func workload(d *memdisk.Disk) error {
	if err := d.MkdirAll("a/b"); err != nil {
		return err
	}
	f, err := d.Create("a/b/f", 2000)
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return f.WriteAt(bytes.Repeat([]byte("w"), 1500), 100) },
		f.Sync,
		func() error { return f.Truncate(1000) },
		func() error { return d.Rename("a/b/f", "a/b/g") },
		func() error { return d.SyncDir("a/b") },
		func() error { return d.Remove("a/b/g") },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func TestCrashAtEveryCall(t *testing.T) {
	for k := 1; ; k++ {
		d := memdisk.CrashAt(k, rng(uint64(k)))
		err := workload(d)
		if err == nil {
			if k != 9 || d.Calls() != 8 {
				t.Fatalf("the workload ended before call %d after %d calls, want 9 and 8", k, d.Calls())
			}
			return
		}
		if !errors.Is(err, memdisk.ErrCrashed) || d.Calls() != k {
			t.Fatalf("call %d: %v after %d calls", k, err, d.Calls())
		}
		if err := d.MkdirAll("later"); !errors.Is(err, memdisk.ErrCrashed) {
			t.Fatalf("after the crash: %v", err)
		}
	}
}

// The call that crashes may do nothing, something or everything; with FailFrom
// nothing.
func TestCrashIsPartial(t *testing.T) {
	sizes := map[int]bool{}
	for seed := range uint64(100) {
		d := memdisk.CrashAt(3, rng(seed))
		workload(d)
		sizes[bytes.Count(d.Bytes("a/b/f"), []byte("w"))] = true
	}
	if !sizes[0] || !sizes[1500] || len(sizes) < 10 {
		t.Fatalf("bytes written by a write that crashed: %v", sizes)
	}
	d := memdisk.FailFrom(3)
	workload(d)
	if n := bytes.Count(d.Bytes("a/b/f"), []byte("w")); n != 0 {
		t.Fatalf("FailFrom let %d bytes through", n)
	}
}

func TestDeterministic(t *testing.T) {
	run := func(k int, seed uint64) *memdisk.Disk {
		r := rng(seed)
		d := memdisk.CrashAt(k, r)
		workload(d)
		return d.PowerLoss(r)
	}
	for k := range 9 {
		for seed := range uint64(20) {
			if diff := memdisk.Diff(run(k, seed), run(k, seed)); diff != "" {
				t.Fatalf("crash at %d, seed %d, twice: %s", k, seed, diff)
			}
		}
	}
}

func TestCountsAndTrace(t *testing.T) {
	var told []memdisk.Call
	d := memdisk.New(memdisk.Options{Trace: true, OnCall: func(c memdisk.Call) { told = append(told, c) }})
	must(t, workload(d))
	d.List("a")
	if d.Calls() != 8 || d.Reads() != 1 {
		t.Fatalf("%d calls and %d reads, want 8 and 1", d.Calls(), d.Reads())
	}
	want := "[mkdirall a/b create a/b/f write a/b/f sync a/b/f truncate a/b/f rename a/b/f syncdir a/b remove a/b/g list a]"
	if got := fmt.Sprint(d.Trace()); got != want || fmt.Sprint(told) != want {
		t.Fatalf("trace %s\ntold  %s\nwant  %s", got, fmt.Sprint(told), want)
	}
}

// Against a dumb model: a byte that was synced and not written since is what it
// was; any other is what it was, or any value written since, or zero.
func TestPowerLossProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := memdisk.New(memdisk.Options{})
		f, err := d.Create("a", 0)
		must2(t, err)
		must2(t, d.SyncDir("."))
		const span = 4 * disk.Sector
		var durable []byte
		allowed := make([]map[byte]bool, span)
		current := []byte{}
		lengths := map[int]bool{0: true}
		grow := func(n int) {
			for len(current) < n {
				current = append(current, 0)
			}
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				must2(t, f.Sync())
				durable, allowed = bytes.Clone(current), make([]map[byte]bool, span)
				lengths = map[int]bool{len(current): true}
			case 1:
				n := rapid.IntRange(0, span).Draw(t, "length")
				must2(t, f.Truncate(int64(n)))
				for i := n; i < len(current); i++ {
					allow(allowed, i, 0)
				}
				current = current[:min(n, len(current))]
				grow(n)
				lengths[n] = true
			default:
				off := rapid.IntRange(0, span-1).Draw(t, "off")
				p := rapid.SliceOfN(rapid.ByteRange(1, 255), 1, span-off).Draw(t, "data")
				must2(t, f.WriteAt(p, int64(off)))
				grow(off + len(p))
				copy(current[off:], p)
				for i, c := range p {
					allow(allowed, off+i, c)
				}
				lengths[len(current)] = true
			}
		}
		if got := d.Clone().Bytes("a"); !bytes.Equal(got, current) {
			t.Fatalf("readers see %d bytes that are not what was written", len(got))
		}
		for seed := range uint64(20) {
			got := d.PowerLoss(rng(seed)).Bytes("a")
			if !lengths[len(got)] {
				t.Fatalf("seed %d: length %d was never that of the file: %v", seed, len(got), lengths)
			}
			for i, c := range got {
				var was byte
				if i < len(durable) {
					was = durable[i]
				}
				if c != was && !allowed[i][c] {
					t.Fatalf("seed %d: byte %d is %d; synced %d, written since %v", seed, i, c, was, allowed[i])
				}
			}
		}
	})
}

func allow(allowed []map[byte]bool, i int, c byte) {
	if allowed[i] == nil {
		allowed[i] = map[byte]bool{0: true}
	}
	allowed[i][c] = true
}

func must2(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}
