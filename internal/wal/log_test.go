package wal

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
	"galgo/internal/vsr"
)

// W-01.
func TestOpenMakesAnEmptyLog(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, rec := mustOpen(t, d)
	if op, id := l.Last(3); !rec.Fresh || len(rec.Groups) != 0 || op != 0 || !id.IsZero() || l.First(3) != 1 {
		t.Fatalf("fresh %v, %d groups, group 3 at op %d %v from %d; want a fresh, empty log", rec.Fresh, len(rec.Groups), op, id, l.First(3))
	}
	must(t, l.Close())
	before := d.Clone()
	l, rec = mustOpen(t, d)
	if rec.Fresh || len(rec.Groups) != 0 || rec.Cut != nil {
		t.Fatalf("reopened: fresh %v, %d groups, cut %v; want an old, empty log", rec.Fresh, len(rec.Groups), rec.Cut)
	}
	must(t, l.Close())
	if diff := memdisk.Diff(before, d); diff != "" {
		t.Fatalf("opening an empty log changed it: %s", diff)
	}
}

// W-02, W-03, W-04, W-11, W-12, W-19.
func TestWriteReadReopen(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, rec := mustOpen(t, d)
	h, p := newHistory(), newPrepares()
	for round := range 20 {
		must(t, h.write(l, true, p.next(0, round), p.next(9, 100*round), p.next(4, 0),
			Record{Kind: KindState, Group: 9, State: []byte{byte(round)}}))
		rec.Groups = []RecoveredGroup{{Group: 9, State: []byte{byte(round)}}, {Group: 0}, {Group: 4}}
		if _, err := h.check(l, rec, h.durable); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if round%5 == 4 {
			must(t, l.Close())
			l, rec = mustOpen(t, d)
			if _, err := h.check(l, rec, h.durable); err != nil {
				t.Fatalf("reopened after round %d: %v", round, err)
			}
		}
	}
	for op := vsr.Op(2); op <= 20; op++ {
		head, err := l.Header(9, op)
		must(t, err)
		if id, ok := l.Identity(9, op-1); !ok || head.Parent != id {
			t.Fatalf("op %d has parent %v, op %d is %v", op, head.Parent, op-1, id)
		}
	}
	if s := l.Stats(); s.Files < 3 || s.Groups != 3 {
		t.Fatalf("stats %+v, want several files and 3 groups", s)
	}
}

func TestReadOfWhatIsNotThere(t *testing.T) {
	l, _ := mustOpen(t, memdisk.New(memdisk.Options{}))
	p := newPrepares()
	must(t, l.Write([]Record{p.next(1, 5), p.next(1, 5), p.next(1, 5)}, true))
	l.Release(1, 2)
	for _, c := range []struct {
		group vsr.GroupID
		op    vsr.Op
	}{{1, 0}, {1, 2}, {1, 4}, {2, 1}} {
		if _, err := l.Read(c.group, c.op); !errors.Is(err, ErrNotFound) {
			t.Errorf("read group %d op %d: %v, want ErrNotFound", c.group, c.op, err)
		}
	}
	if _, err := l.Header(1, 1); !errors.Is(err, ErrNotFound) {
		t.Errorf("header of a released op: %v, want ErrNotFound", err)
	}
	if h, err := l.Header(1, 2); err != nil || h.Op != 2 {
		t.Errorf("header at the commit point: op %d, %v; want op 2", h.Op, err)
	}
	if l.First(1) != 3 {
		t.Errorf("first is op %d, want 3", l.First(1))
	}
}

func TestOneWriteOneSync(t *testing.T) {
	d := memdisk.New(memdisk.Options{Trace: true})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	before := len(d.Trace())
	must(t, l.Write([]Record{p.next(1, 100), p.next(2, 200), p.next(1, 0), p.next(3, 7)}, true))
	var got []string
	for _, c := range d.Trace()[before:] {
		got = append(got, c.Op.String())
	}
	if !slices.Equal(got, []string{"write", "sync"}) {
		t.Fatalf("a batch of four took %v, want one write and one sync", got)
	}
}

func TestWriteWithoutSync(t *testing.T) {
	d := memdisk.New(memdisk.Options{Trace: true})
	l, rec := mustOpen(t, d)
	h, p := newHistory(), newPrepares()
	before := len(d.Trace())
	must(t, h.write(l, false, p.next(1, 100)))
	must(t, h.write(l, false, p.next(1, 100)))
	if op, _ := l.Last(1); op != 2 {
		t.Fatalf("last is op %d after two unsynced writes, want 2", op)
	}
	rec.Groups = []RecoveredGroup{{Group: 1}}
	if _, err := h.check(l, rec, 2); err != nil {
		t.Fatal(err)
	}
	for _, c := range d.Trace()[before:] {
		if c.Op == memdisk.OpSync {
			t.Fatal("a write without sync synced")
		}
	}
	lost := d.Clone().PowerLoss(nil)
	if l, _ := mustOpen(t, lost); l.First(1) != 1 {
		t.Fatal("what was not synced survived a power loss that loses all")
	}
	must(t, l.Sync())
	lost = d.PowerLoss(nil)
	l, rec = mustOpen(t, lost)
	if _, err := h.check(l, rec, 2); err != nil {
		t.Fatal(err)
	}
}

// W-18.
func TestTruncate(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, rec := mustOpen(t, d)
	h, p := newHistory(), newPrepares()
	var first [6]Record
	for i := range first {
		first[i] = p.next(5, 300)
	}
	must(t, h.write(l, true, first[:]...))
	h.release(l, 5, 2)
	p.rewind(*first[3].Header)
	second := p.next(5, 10)
	must(t, h.write(l, true, Record{Kind: KindTruncate, Group: 5, Op: 4}, second))
	if second.Header.Op != 5 || second.Header.Identity == first[4].Header.Identity {
		t.Fatal("the second op 5 is not another one")
	}
	rec.Groups = []RecoveredGroup{{Group: 5}}
	if _, err := h.check(l, rec, h.durable); err != nil {
		t.Fatal(err)
	}
	// Within one batch: back to an op of that batch, and to one before it.
	a, b := p.next(5, 1), p.next(5, 2)
	p.rewind(*a.Header)
	c := p.next(5, 3)
	p.rewind(*second.Header)
	e := p.next(5, 4)
	must(t, h.write(l, true, a, b, Record{Kind: KindTruncate, Group: 5, Op: 6}, c, Record{Kind: KindTruncate, Group: 5, Op: 5}, e))
	if _, err := h.check(l, rec, h.durable); err != nil {
		t.Fatal(err)
	}
	if _, err := h.recoverAndCheck(d.Kill(), h.durable, nil); err != nil {
		t.Fatal(err)
	}
}

func TestReset(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	h, p := newHistory(), newPrepares()
	must(t, h.write(l, true, p.next(5, 30), p.next(5, 30), p.next(6, 30)))
	far := vsr.Prepare{Header: vsr.Header{Cluster: testCluster, Group: 5, Op: 40, Parent: vsr.Identity{1}}}
	far.Seal()
	p.rewind(far.Header)
	must(t, h.write(l, true, Record{Kind: KindReset, Group: 5, Header: &far.Header}, p.next(5, 30)))
	if _, err := h.recoverAndCheck(d.Kill(), h.durable, nil); err != nil {
		t.Fatal(err)
	}
}

// W-10 and its kin: a record that could not be read back is not written.
func TestWriteOfWhatDoesNotContinuePanics(t *testing.T) {
	seal := func(change func(*vsr.Prepare)) Record {
		p := newPrepares()
		p.next(1, 5)
		r := p.next(1, 5)
		pr := vsr.Prepare{Header: *r.Header, Body: r.Body}
		change(&pr)
		pr.Seal()
		return Record{Kind: KindPrepare, Group: 1, Header: &pr.Header, Body: pr.Body}
	}
	with := func(change func(*Record)) Record {
		r := seal(func(*vsr.Prepare) {})
		change(&r)
		return r
	}
	for name, r := range map[string]Record{
		"gap":            seal(func(p *vsr.Prepare) { p.Op = 3 }),
		"repeated":       seal(func(p *vsr.Prepare) { p.Op = 1 }),
		"parent":         seal(func(p *vsr.Prepare) { p.Parent[0]++ }),
		"cluster":        seal(func(p *vsr.Prepare) { p.Cluster[0]++ }),
		"group":          with(func(r *Record) { r.Group = 2 }),
		"long body":      with(func(r *Record) { r.Body = append(bytes.Clone(r.Body), 0) }),
		"changed body":   with(func(r *Record) { r.Body = bytes.Clone(r.Body); r.Body[0]++ }),
		"changed header": with(func(r *Record) { h := *r.Header; h.Commit++; r.Header = &h }),
		"size":           with(func(r *Record) { r.Header = resized(*r.Header) }),
		"reset, group":   with(func(r *Record) { r.Kind, r.Group = KindReset, 2 }),
		"reset, cluster": with(func(r *Record) { r.Kind, r.Header = KindReset, seal(func(p *vsr.Prepare) { p.Cluster[0]++ }).Header }),
		"cut too far":    {Kind: KindTruncate, Group: 1, Op: 2},
		"large state":    {Kind: KindState, Group: 1, State: make([]byte, StateMax+1)},
		"mark":           {Kind: KindMark},
		"unknown":        {Kind: KindMark + 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := memdisk.New(memdisk.Options{})
			l, _ := mustOpen(t, d)
			p := newPrepares()
			must(t, l.Write([]Record{p.next(1, 5)}, true))
			before := d.Clone()
			defer func() {
				if recover() == nil {
					t.Fatal("no panic")
				}
				if diff := memdisk.Diff(before, d); diff != "" {
					t.Fatalf("it was written all the same: %s", diff)
				}
			}()
			_ = l.Write([]Record{r}, true)
		})
	}
}

// resized is a sealed header that names another length of the same body.
func resized(h vsr.Header) *vsr.Header {
	h.Size++
	var b [vsr.HeaderSize]byte
	h.PutHeader(b[:])
	h.Identity = xxh3.Hash128(b[16:]).Bytes()
	return &h
}

func TestMarkIsWrittenOnce(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	records := func() uint64 { return l.Stats().Records }
	must(t, l.Mark())
	if records() != 0 {
		t.Fatalf("a mark of an empty log wrote %d records, want 0", records())
	}
	must(t, l.Write([]Record{p.next(1, 5)}, true))
	must(t, l.Mark())
	must(t, l.Mark())
	if records() != 2 {
		t.Fatalf("one write and two marks wrote %d records, want 2", records())
	}
	must(t, l.Write([]Record{p.next(1, 5)}, false))
	must(t, l.Mark())
	if lost := d.PowerLoss(nil); lost != nil {
		l, rec := mustOpen(t, lost)
		if op, _ := l.Last(1); op != 2 || rec.Cut != nil {
			t.Fatalf("after a mark op %d survived, cut %v; want op 2", op, rec.Cut)
		}
	}
}

// A record larger than a file gets a file of its own, also where a spare waits.
func TestLargeRecord(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	h, p := newHistory(), newPrepares()
	must(t, l.EnsureSpare(l.o.FilesSpare))
	must(t, h.write(l, true, p.next(1, 5), p.next(1, 3*FileSizeMin), p.next(1, 5), p.next(2, 2*FileSizeMin), p.next(2, 5)))
	after, err := h.recoverAndCheck(d.Kill(), h.durable, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, _ = mustOpen(t, after)
	h.release(l, 1, 3)
	h.release(l, 2, 2)
	must(t, l.Reclaim())
	if s := l.Stats(); s.Files != 1 || s.Spares > 1+1 {
		t.Fatalf("after reclaiming all: %+v, want one file", s)
	}
	if _, err := h.recoverAndCheck(after.Kill(), h.durable, nil); err != nil {
		t.Fatal(err)
	}
}

func TestSpareKeepsCreationOutOfWrite(t *testing.T) {
	d := memdisk.New(memdisk.Options{Trace: true})
	l, _ := mustOpen(t, d)
	must(t, l.EnsureSpare(l.o.FilesSpare))
	p := newPrepares()
	before := len(d.Trace())
	must(t, l.Write([]Record{p.next(1, 3000), p.next(1, 3000)}, true))
	if l.Stats().Files != 2 {
		t.Fatalf("%d files, want 2", l.Stats().Files)
	}
	for _, c := range d.Trace()[before:] {
		if c.Op != memdisk.OpWrite && c.Op != memdisk.OpSync {
			t.Errorf("a write into a spare file called %v", c)
		}
	}
}

func TestNoSpaceIsACleanRefusal(t *testing.T) {
	d := memdisk.New(memdisk.Options{Capacity: 2 * FileSizeMin})
	d.Put("filler", make([]byte, FileSizeMin/2))
	l, _ := mustOpen(t, d)
	h, p := newHistory(), newPrepares()
	must(t, h.write(l, true, p.next(1, 100)))
	saved := p.last[1]
	before := d.Clone()
	err := l.Write([]Record{p.next(1, 100), p.next(1, 2000), p.next(1, 3000)}, true)
	if !errors.Is(err, disk.ErrNoSpace) || errors.Is(err, ErrPoisoned) {
		t.Fatalf("write without room for a file: %v, want ErrNoSpace and not ErrPoisoned", err)
	}
	if diff := memdisk.Diff(before, d); diff != "" {
		t.Fatalf("a refused write changed the disk: %s", diff)
	}
	if op, _ := l.Last(1); op != 1 {
		t.Fatalf("last is op %d after a refused write, want 1", op)
	}
	p.rewind(saved)
	must(t, h.write(l, true, p.next(1, 200)))
	must(t, l.Mark())

	// PF-ops-09: with a mark at its end the log opens without a byte to spare;
	// without one it needs a file, says so, and changes nothing.
	if _, err := h.recoverAndCheck(d.Clone(), h.durable, nil); err != nil {
		t.Fatal(err)
	}
	must(t, h.write(l, true, p.next(1, 200)))
	d = d.Kill()
	before = d.Clone()
	if _, _, err := Open(d, testDir, testOptions()); !errors.Is(err, disk.ErrNoSpace) || !strings.Contains(err.Error(), "8192 bytes") {
		t.Fatalf("open on a full disk: %v, want ErrNoSpace and the bytes needed", err)
	}
	if diff := memdisk.Diff(before, d); diff != "" {
		t.Fatalf("a refused open changed the disk: %s", diff)
	}
	d.Delete("filler")
	if _, err := h.recoverAndCheck(d, h.durable, nil); err != nil {
		t.Fatal(err)
	}
}

// A full disk does not keep a node from starting that crashed with a spare.
func TestOpenOnAFullDiskUsesTheSpare(t *testing.T) {
	d := memdisk.New(memdisk.Options{Capacity: 2 * FileSizeMin})
	l, _ := mustOpen(t, d)
	h, p := newHistory(), newPrepares()
	must(t, l.EnsureSpare(l.o.FilesSpare))
	must(t, h.write(l, true, p.next(1, 100)))
	if _, err := h.recoverAndCheck(d.Kill(), h.durable, nil); err != nil {
		t.Fatal(err)
	}
}

// W-17, PF-storage-20.
func TestFailedSyncPoisons(t *testing.T) {
	for _, f := range []memdisk.Fault{
		{Class: memdisk.SyncFailure},
		{Class: memdisk.SyncFailure, KeepCache: true},
		{Class: memdisk.ShortWrite, Keep: 100},
		{Class: memdisk.Fail, Ops: memdisk.OpWrite},
		{Class: memdisk.NoSpace, Ops: memdisk.OpWrite, Keep: 600},
	} {
		d := memdisk.New(memdisk.Options{})
		l, _ := mustOpen(t, d)
		h, p := newHistory(), newPrepares()
		must(t, h.write(l, true, p.next(1, 100), Record{Kind: KindState, Group: 1, State: []byte("s")}))
		d.Inject(f)
		if err := h.write(l, true, p.next(1, 100)); !errors.Is(err, ErrPoisoned) {
			t.Fatalf("%+v: write: %v, want ErrPoisoned", f, err)
		}
		l.Release(1, 0)
		for name, err := range map[string]error{
			"write": l.Write([]Record{p.next(2, 1)}, true), "sync": l.Sync(), "mark": l.Mark(),
			"reclaim": l.Reclaim(), "spare": l.EnsureSpare(l.o.FilesSpare),
		} {
			if !errors.Is(err, ErrPoisoned) {
				t.Errorf("%+v: %s: %v, want ErrPoisoned", f, name, err)
			}
		}
		if op, _ := l.Last(1); op != 1 {
			t.Errorf("%+v: last is op %d, want 1: the second was never durable", f, op)
		}
		if _, err := l.Read(1, 1); err != nil {
			t.Errorf("%+v: read of a durable op: %v", f, err)
		}
		// The process restarts: what it finds in the cache may not be on the disk.
		if _, err := h.recoverAndCheck(d.Kill(), h.durable, nil); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

func TestFailedSyncOfAMark(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	h, p := newHistory(), newPrepares()
	must(t, h.write(l, true, p.next(1, 100)))
	d.Inject(memdisk.Fault{Class: memdisk.SyncFailure, KeepCache: true})
	if err := l.Mark(); !errors.Is(err, ErrPoisoned) {
		t.Fatalf("mark: %v, want ErrPoisoned", err)
	}
	d = d.Kill()
	l, _ = mustOpen(t, d)
	must(t, h.write(l, true, p.next(1, 100)))
	if _, err := h.recoverAndCheck(d.PowerLoss(nil), h.durable, nil); err != nil {
		t.Fatal(err)
	}
}

// A failure in making a file whose name may be lost must not be survived.
func TestFailedDirSyncPoisons(t *testing.T) {
	for _, op := range []memdisk.Op{memdisk.OpSyncDir, memdisk.OpRename, memdisk.OpSync, memdisk.OpOpen} {
		d := memdisk.New(memdisk.Options{})
		l, _ := mustOpen(t, d)
		d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: op})
		if err := l.EnsureSpare(l.o.FilesSpare); !errors.Is(err, ErrPoisoned) {
			t.Errorf("spare with a failed %v: %v, want ErrPoisoned", op, err)
		}
		if err := l.Write([]Record{newPrepares().next(1, 5)}, true); !errors.Is(err, ErrPoisoned) {
			t.Errorf("write after a failed %v: %v, want ErrPoisoned", op, err)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{FileSize: 1}, {FileSize: FileSizeMax + 1}, {FileSize: -1}, {FilesSpare: -1}} {
		if _, _, err := Open(memdisk.New(memdisk.Options{}), testDir, o); err == nil {
			t.Errorf("open with %+v: no error", o)
		}
	}
}

// PF-recovery-04.
func TestStraysAreLeftAlone(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	must(t, l.Close())
	must(t, d.MkdirAll(testDir+"/00000000000000000009.wal"))
	d.Put(testDir+"/.hidden", nil)
	d.Put(testDir+"/1.wal", []byte("x"))
	d.Put(testDir+"/00000000000000000000.wal", nil)
	d.Put(testDir+"/spare.new", []byte("ours"))
	before := d.Clone()
	before.Delete(testDir + "/spare.new")
	_, rec := mustOpen(t, d)
	if got := strings.Join(rec.Strays, " "); got != ".hidden 00000000000000000000.wal 00000000000000000009.wal 1.wal" {
		t.Errorf("strays %q", got)
	}
	if diff := memdisk.Diff(before, d); diff != "" {
		t.Errorf("opening beside strays: %s", diff)
	}
}
