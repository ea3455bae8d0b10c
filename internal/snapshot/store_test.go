package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
)

const testDir = "metadata/snapshot"

func newStore(t testing.TB, d disk.Disk) *Store {
	t.Helper()
	must(t, d.MkdirAll(testDir))
	return NewStore(d, testDir, ExtMetadata, testVault)
}

func newDisk() *memdisk.Disk { return memdisk.New(memdisk.Options{}) }

func stateAt(op uint64) (Header, []Section) {
	h := testHeader
	h.Op = op
	return h, []Section{{Kind: 1, Version: 1, Data: [][]byte{bytes.Repeat([]byte{byte(op)}, 700), fmt.Appendf(nil, "op %d", op)}}}
}

func write(s *Store, op uint64) (Sum, error) {
	h, sections := stateAt(op)
	return s.Write(op, h, sections)
}

func numbers(t testing.TB, s *Store) []uint64 {
	t.Helper()
	found, err := s.List()
	must(t, err)
	var n []uint64
	for _, g := range found {
		n = append(n, g.Number)
	}
	return n
}

func TestWriteAndRead(t *testing.T) {
	d := newDisk()
	s := newStore(t, d)
	sum, err := write(s, 41)
	must(t, err)
	if got := s.Name(41); got != "metadata/snapshot/00000000000000000041.snap" {
		t.Fatalf("name %s", got)
	}
	got, err := NewStore(d.PowerLoss(nil), testDir, ExtMetadata, testVault).Read(41)
	must(t, err)
	h, sections := stateAt(41)
	if got.Header != h || got.Sum != sum || !bytes.Equal(got.Sections[0].Data[0], slices.Concat(sections[0].Data...)) {
		t.Fatalf("read %+v, checksum %v, want %+v, %v", got.Header, got.Sum, h, sum)
	}
}

// storage.md §10.4: written again, the bytes and the checksum are the same.
func TestSameStateSameFile(t *testing.T) {
	a, b := newDisk(), newDisk()
	sumA, err := write(newStore(t, a), 7)
	must(t, err)
	s := newStore(t, b)
	_, err = write(s, 7)
	must(t, err)
	sumB, err := write(s, 7) // replaces
	must(t, err)
	if diff := memdisk.Diff(a, b); diff != "" || sumA != sumB {
		t.Fatalf("two checkpoints of one state: %s, checksums %v and %v", diff, sumA, sumB)
	}
}

// A file as large as many system calls take goes out without being gathered.
func TestWriteDoesNotCopySections(t *testing.T) {
	h, _ := stateAt(1)
	data := make([][]byte, 64)
	for i := range data {
		data[i] = make([]byte, 1<<20)
	}
	var c container
	n := testing.AllocsPerRun(1, func() {
		var err error
		c, err = build(h, []Section{{Kind: 1, Data: data}}, nil)
		must(t, err)
	})
	if n > 100 || &c.pieces[2][0] != &data[0][0] {
		t.Fatalf("%v allocations, or the section was copied", n)
	}
}

func TestReadErrors(t *testing.T) {
	d := newDisk()
	s := newStore(t, d)
	_, err := s.Read(5)
	if !errors.Is(err, disk.ErrNotExist) || !strings.Contains(err.Error(), s.Name(5)) {
		t.Fatalf("a missing file: %v", err)
	}
	_, err = write(s, 5)
	must(t, err)
	good := d.Bytes(s.Name(5))
	for _, c := range []struct {
		name string
		in   []byte
		want error
	}{
		{"no bytes", nil, ErrTruncated},
		{"a cut file", good[:len(good)-1], ErrTruncated},
		{"another version", with(good, 8, 3), ErrVersion},
		{"another version, cut", with(good, 8, 3)[:20], ErrVersion},
		{"a flipped payload", with(good, 200, 0xff), ErrChecksum},
		{"a flipped trailer", with(good, len(good)-1, good[len(good)-1]^1), ErrChecksum},
		{"another file", []byte("hello, world"), ErrNotASnapshot},
		{"a longer file", append(bytes.Clone(good), 1), ErrMalformed},
	} {
		d.Put(s.Name(5), c.in)
		before := d.Clone()
		if _, err := s.Read(5); !errors.Is(err, c.want) || !strings.Contains(err.Error(), s.Name(5)) {
			t.Errorf("%s: %v, want %v naming the file", c.name, err, c.want)
		}
		if diff := memdisk.Diff(before, d); diff != "" {
			t.Errorf("%s: the refusal changed %s", c.name, diff)
		}
	}
	d.Put(s.Name(5), good)
	for at := 1; at <= 2; at++ {
		d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpRead, At: at})
		if _, err := s.Read(5); !errors.Is(err, memdisk.ErrIO) || !strings.Contains(err.Error(), s.Name(5)) {
			t.Errorf("read %d fails: %v", at, err)
		}
		d.ClearFaults()
	}
}

// A header that does not verify is enough: the rest of a file is not read.
func TestHeaderRefusedBeforeBody(t *testing.T) {
	d := newDisk()
	s := newStore(t, d)
	d.Put(s.Name(1), append([]byte("not ours"), make([]byte, 1<<20)...))
	before := d.Reads()
	if _, err := s.Read(1); !errors.Is(err, ErrNotASnapshot) {
		t.Fatal(err)
	}
	if got := d.Reads() - before; got != 3 {
		t.Fatalf("%d calls to refuse it, want 3: open, size, one read", got)
	}
}

// The error carries the stage; the older checkpoint stays; a retry works.
func TestWriteFailsAtEachStage(t *testing.T) {
	for _, c := range []struct {
		stage disk.Stage
		fault memdisk.Fault
	}{
		{disk.StageWrite, memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpRemove}},
		{disk.StageWrite, memdisk.Fault{Class: memdisk.NoSpace}},
		{disk.StageWrite, memdisk.Fault{Class: memdisk.NoSpace, Ops: memdisk.OpWrite, Keep: 300}},
		{disk.StageWrite, memdisk.Fault{Class: memdisk.ShortWrite, Keep: 1}},
		{disk.StageSync, memdisk.Fault{Class: memdisk.SyncFailure}},
		{disk.StageRename, memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpRename}},
		{disk.StageSyncDir, memdisk.Fault{Class: memdisk.SyncFailure, Ops: memdisk.OpSyncDir}},
	} {
		d := newDisk()
		s := newStore(t, d)
		_, err := write(s, 1)
		must(t, err)
		d.Inject(c.fault)
		_, err = write(s, 2)
		e, ok := errors.AsType[*disk.ReplaceError](err)
		if !ok || e.Stage != c.stage || e.Name != s.Name(2) || !strings.Contains(err.Error(), c.stage.String()) {
			t.Fatalf("%v: %v", c.stage, err)
		}
		if c.fault.Class == memdisk.NoSpace && !errors.Is(err, disk.ErrNoSpace) {
			t.Fatalf("no space: %v", err)
		}
		if left := d.Bytes(s.Name(2) + disk.TmpSuffix); left != nil {
			t.Fatalf("%v failed, and %d bytes of the attempt stay on the disk", c.stage, len(left))
		}
		after := NewStore(d.Clone().PowerLoss(nil), testDir, ExtMetadata, testVault)
		if got := numbers(t, after); !slices.Equal(got, []uint64{1}) {
			t.Fatalf("%v failed, and after a power loss there are %v", c.stage, got)
		}
		_, err = write(s, 2)
		must(t, err)
		if got := numbers(t, NewStore(d.PowerLoss(nil), testDir, ExtMetadata, testVault)); !slices.Equal(got, []uint64{2, 1}) {
			t.Fatalf("%v failed, and after the retry there are %v", c.stage, got)
		}
	}
}

func TestListAndPrune(t *testing.T) {
	d := newDisk()
	s := newStore(t, d)
	for _, op := range []uint64{9, 100, 1<<64 - 1, 0} {
		_, err := write(s, op)
		must(t, err)
	}
	others := []string{"00000000000000000001.ckpt", "1.snap", "99999999999999999999.snap", "x.snap.tmp", "00000000000000000007.SNAP", "0000000000000000000x.snap", "readme"}
	for _, name := range others {
		d.Put(testDir+"/"+name, nil)
	}
	d.Put(s.Name(50)+disk.TmpSuffix, []byte("left by a crash"))
	must(t, d.MkdirAll(s.Name(8)))
	if got, want := numbers(t, s), []uint64{1<<64 - 1, 100, 9, 0}; !slices.Equal(got, want) {
		t.Fatalf("list %v, want %v", got, want)
	}
	if g, err := s.List(); err != nil || g[1].Name != s.Name(100) || g[1].Size != int64(len(d.Bytes(s.Name(100)))) {
		t.Fatalf("second generation %+v, %v", g[1], err)
	}
	must(t, s.Prune(2))
	after := d.PowerLoss(nil)
	if got, want := numbers(t, NewStore(after, testDir, ExtMetadata, testVault)), []uint64{1<<64 - 1, 100}; !slices.Equal(got, want) {
		t.Fatalf("pruned to %v, want %v", got, want)
	}
	names := after.Names()
	for _, name := range others {
		if !slices.Contains(names, testDir+"/"+name) {
			t.Errorf("prune removed %s, which is not its own", name)
		}
	}
	if slices.Contains(names, s.Name(50)+disk.TmpSuffix) {
		t.Error("prune left the file of an interrupted write")
	}
}

// Prune removes the oldest first, so that a failure or a crash leaves the newest.
func TestPruneCrashes(t *testing.T) {
	for k := 1; ; k++ {
		setup := newDisk()
		s := newStore(t, setup)
		for op := range uint64(5) {
			_, err := write(s, op)
			must(t, err)
		}
		d := setup.Clone()
		d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpRemove | memdisk.OpSyncDir, At: k, Times: memdisk.Forever})
		err := NewStore(d, testDir, ExtMetadata, testVault).Prune(2)
		left := numbers(t, NewStore(d.Clone(), testDir, ExtMetadata, testVault))
		if oldest := left[len(left)-1]; int(4-oldest)+1 != len(left) {
			t.Fatalf("prune failed at call %d (%v) and left a gap: %v", k, err, left)
		}
		for seed := range uint64(10) {
			after := d.PowerLoss(rand.New(rand.NewPCG(seed, 3)))
			got := numbers(t, NewStore(after, testDir, ExtMetadata, testVault))
			if len(got) < 2 || got[0] != 4 || got[1] != 3 {
				t.Fatalf("prune failed at call %d (%v), power lost: %v", k, err, got)
			}
		}
		if err == nil {
			return
		}
		d.ClearFaults()
	}
}

func TestPruneToNothingPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("prune removed the newest checkpoint")
		}
	}()
	newStore(t, newDisk()).Prune(0)
}

func TestMissingDirectory(t *testing.T) {
	s := NewStore(newDisk(), testDir, ExtMetadata, testVault)
	_, listErr := s.List()
	for what, err := range map[string]error{"list": listErr, "prune": s.Prune(2)} {
		if !errors.Is(err, disk.ErrNotExist) || !strings.Contains(err.Error(), testDir) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
