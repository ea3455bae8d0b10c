package memdisk_test

import (
	"errors"
	"strings"
	"testing"

	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
)

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: %v, want %v", what, err, want)
	}
}

func wantBytes(t *testing.T, what string, d *memdisk.Disk, name, want string) {
	t.Helper()
	if got := string(d.Bytes(name)); got != want {
		t.Fatalf("%s: %s has %q, want %q", what, name, got, want)
	}
}

func TestNoSpaceAtTheKthWrite(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	f := newFile(t, d, "a", "")
	d.Inject(memdisk.Fault{Class: memdisk.NoSpace, At: 2, Keep: 2})
	must(t, f.WriteAt([]byte("one"), 0))
	wantErr(t, "second write", f.WriteAt([]byte("two"), 3), disk.ErrNoSpace)
	wantBytes(t, "after it", d, "a", "onetw")
	must(t, f.WriteAt([]byte("two"), 3))
	wantBytes(t, "after the retry", d, "a", "onetwo")
	if d.Fired() != 1 {
		t.Fatalf("fired %d times, want 1", d.Fired())
	}
}

func TestNoSpaceForever(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	f := newFile(t, d, "a", "")
	d.Inject(memdisk.Fault{Class: memdisk.NoSpace, Times: memdisk.Forever})
	for range 3 {
		wantErr(t, "write", f.WriteAt([]byte("x"), 0), disk.ErrNoSpace)
	}
	_, err := d.Create("b", 10)
	wantErr(t, "create", err, disk.ErrNoSpace)
	wantErr(t, "mkdir", d.MkdirAll("c"), disk.ErrNoSpace)
	must(t, f.Sync())
	must(t, d.Remove("a"))
	if got := d.Names(); len(got) != 0 {
		t.Fatalf("refused calls left %v", got)
	}
	d.ClearFaults()
	_, err = d.Create("b", 10)
	must(t, err)
}

func TestCapacity(t *testing.T) {
	d := memdisk.New(memdisk.Options{Capacity: 10})
	f := newFile(t, d, "a", "12345678")
	wantErr(t, "write", f.WriteAt([]byte("abcd"), 8), disk.ErrNoSpace)
	wantBytes(t, "what fits", d, "a", "12345678ab")
	must(t, f.WriteAt([]byte("over"), 0))
	_, err := d.Create("b", 1)
	wantErr(t, "create", err, disk.ErrNoSpace)
	wantErr(t, "truncate", f.Truncate(11), disk.ErrNoSpace)
	must(t, f.Truncate(4))
	if free, total, err := d.Free(); free != 6 || total != 10 || err != nil {
		t.Fatalf("free %d of %d, %v, want 6 of 10", free, total, err)
	}
	_, err = d.Create("b", 6)
	must(t, err)
}

func TestShortWrite(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	f := newFile(t, d, "a", "")
	d.Inject(memdisk.Fault{Class: memdisk.ShortWrite, Keep: 3})
	wantErr(t, "write", f.WritevAt([][]byte{[]byte("ab"), []byte("cd")}, 0), memdisk.ErrIO)
	wantBytes(t, "after it", d, "a", "abc")
}

// A failed sync is seen once: the next one succeeds without the data.
func TestSyncFailureLosesData(t *testing.T) {
	for _, keepCache := range []bool{false, true} {
		d := memdisk.New(memdisk.Options{})
		f := newFile(t, d, "a", "old")
		d.Inject(memdisk.Fault{Class: memdisk.SyncFailure, KeepCache: keepCache})
		must(t, f.WriteAt([]byte("NEW"), 0))
		wantErr(t, "sync", f.Sync(), memdisk.ErrIO)
		must(t, f.Sync())
		want := "old"
		if keepCache {
			want = "NEW"
		}
		wantBytes(t, "for readers", d, "a", want)
		wantBytes(t, "after the second sync and a power loss", d.PowerLoss(nil), "a", "old")
		d = d.Kill()
		f, err := d.Open("a")
		must(t, err)
		must(t, f.WriteAt([]byte("N"), 0))
		must(t, f.Sync())
		wantBytes(t, "only what is written anew is durable", d.PowerLoss(nil), "a", "Nld")
	}
}

func TestSyncDirFailureLosesNames(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	d.Inject(memdisk.Fault{Class: memdisk.SyncFailure, Match: memdisk.Named(".")})
	_, err := d.Create("a", 0)
	must(t, err)
	wantErr(t, "syncdir", d.SyncDir("."), memdisk.ErrIO)
	must(t, d.SyncDir("."))
	if got := d.PowerLoss(nil).Names(); len(got) != 0 {
		t.Fatalf("names whose sync failed came back: %v", got)
	}
}

func TestLostWrite(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	f := newFile(t, d, "a", "old")
	d.Inject(memdisk.Fault{Class: memdisk.LostWrite, At: 2})
	must(t, f.WriteAt([]byte("1"), 0))
	must(t, f.WriteAt([]byte("2345"), 1))
	must(t, f.Sync())
	wantBytes(t, "for readers", d, "a", "12345")
	wantBytes(t, "after a power loss", d.PowerLoss(nil), "a", "1ld\x00\x00")
	after := d.Kill()
	after.EvictCaches()
	wantBytes(t, "after a kill and an eviction", after, "a", "1ld\x00\x00")
}

func TestMisdirectedWrite(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	f := newFile(t, d, "a", "aaaa")
	newFile(t, d, "b", "bbbb")
	d.Inject(memdisk.Fault{Class: memdisk.MisdirectedWrite, To: "b", ToOffset: 2})
	d.Inject(memdisk.Fault{Class: memdisk.MisdirectedWrite, At: 2, ToOffset: 3})
	must(t, f.WriteAt([]byte("xyz"), 0))
	must(t, f.Sync())
	wantBytes(t, "for readers", d, "a", "xyza")
	after := d.Clone().PowerLoss(nil)
	wantBytes(t, "the file that was meant", after, "a", "aaaa")
	wantBytes(t, "the file that was hit", after, "b", "bbxy")
	must(t, f.WriteAt([]byte("Q"), 0))
	wantBytes(t, "within a file", d.PowerLoss(nil), "a", "aaaQ")
}

func TestFlipBit(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	f := newFile(t, d, "a", "aaaa")
	must(t, f.WriteAt([]byte("bb"), 2))
	d.FlipBit("a", 0, 1)
	d.FlipBit("a", 3, 0)
	wantBytes(t, "for readers", d, "a", "cabc")
	must(t, f.Sync())
	wantBytes(t, "after a sync and a power loss", d.PowerLoss(nil), "a", "cabc")
}

func TestFailByOpAndName(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	newFile(t, d, "x/a", "1")
	d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpRename, Match: func(n string) bool { return strings.HasPrefix(n, "x/") }})
	must(t, d.SyncDir("x"))
	err := d.Rename("x/a", "x/b")
	wantErr(t, "rename", err, memdisk.ErrIO)
	if !strings.Contains(err.Error(), "rename x/a") {
		t.Fatalf("error %q does not name the call", err)
	}
	wantBytes(t, "after it", d, "x/a", "1")
	d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpRead})
	f, err := d.Open("x/a")
	must(t, err)
	_, err = f.ReadAt(make([]byte, 1), 0)
	wantErr(t, "read", err, memdisk.ErrIO)
}
