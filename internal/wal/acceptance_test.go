package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
	"galgo/internal/vsr"
)

// The guards of docs/guards.md that no other test of this package would miss.

// A log does not begin anew below what a checkpoint covers, nor at no op at all.
func TestResetBelowTheCommitPointPanics(t *testing.T) {
	for _, op := range []vsr.Op{0, 2} {
		d := memdisk.New(memdisk.Options{})
		l, _ := mustOpen(t, d)
		p := newPrepares()
		must(t, l.Write([]Record{p.next(1, 5), p.next(1, 5), p.next(1, 5), p.next(1, 5)}, true))
		l.Release(1, 3)
		h := vsr.Prepare{Header: vsr.Header{Cluster: testCluster, Group: 1, Op: op}}
		h.Seal()
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a reset to op %d was written, the commit point is op 3", op)
				}
			}()
			_ = l.Write([]Record{{Kind: KindReset, Group: 1, Header: &h.Header}}, true)
		}()
	}
}

func TestTruncationBelowTheCommitPointPanics(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	must(t, l.Write([]Record{p.next(1, 5), p.next(1, 5), p.next(1, 5)}, true))
	l.Release(1, 2)
	before := d.Clone()
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "to op 1 of 2..3") {
			t.Errorf("a truncation to op 1, the commit point is op 2: %s", got)
		}
		if diff := memdisk.Diff(before, d); diff != "" {
			t.Errorf("it was written all the same: %s", diff)
		}
	}()
	_ = l.Write([]Record{{Kind: KindTruncate, Group: 1, Op: 1}}, true)
}

// A header of which nobody knows whether it is durable is not the beginning of a
// file, and nothing is written any more.
func TestHeaderThatMayNotBeDurablePoisons(t *testing.T) {
	for _, f := range []memdisk.Fault{{Class: memdisk.SyncFailure, Ops: memdisk.OpSync, At: 2, KeepCache: true}, {Class: memdisk.Fail, Ops: memdisk.OpWrite}} {
		d := memdisk.New(memdisk.Options{})
		l, _ := mustOpen(t, d)
		f.Match = func(name string) bool { return strings.HasSuffix(name, tempSuffix) }
		d.Inject(f)
		if err := l.EnsureSpare(1); !errors.Is(err, ErrPoisoned) || d.Fired() != 1 {
			t.Errorf("%+v: %v, fired %d times, want ErrPoisoned", f, err, d.Fired())
		}
		if err := l.Write([]Record{newPrepares().next(1, 5)}, true); !errors.Is(err, ErrPoisoned) {
			t.Errorf("%+v: write after it: %v, want ErrPoisoned", f, err)
		}
	}
}

// A batch that goes on in the next file ends with the sync of the one it leaves, if
// that fails: another sync, of another file, does not make up for it.
func TestFailedSyncOfTheFileThatIsLeft(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	h, p := newHistory(), newPrepares()
	must(t, l.EnsureSpare(1))
	must(t, h.write(l, true, p.next(1, 10)))
	d.Inject(memdisk.Fault{Class: memdisk.SyncFailure, KeepCache: true, Match: memdisk.Named(fileNamed(1))})
	if err := h.write(l, true, p.next(1, 1000), p.next(1, 3000)); !errors.Is(err, ErrPoisoned) || d.Fired() != 1 {
		t.Fatalf("write over the end of a file that cannot be synced: %v, want ErrPoisoned", err)
	}
	if op, _ := l.Last(1); op != 1 {
		t.Errorf("last is op %d, want 1: what followed was never durable", op)
	}
	if _, err := h.recoverAndCheck(d.Kill(), h.durable, nil); err != nil {
		t.Error(err)
	}
}

// A group that is forgotten while a batch with its ops is being written does not
// come back with them.
func TestForgottenWhileItIsWritten(t *testing.T) {
	var l *Log
	d := memdisk.New(memdisk.Options{OnCall: func(c memdisk.Call) {
		if l != nil && c.Op == memdisk.OpSync {
			l.Forget(1)
		}
	}})
	l, _ = mustOpen(t, d)
	p := newPrepares()
	must(t, l.Write([]Record{p.next(1, 10), {Kind: KindState, Group: 1, State: []byte("s")}, p.next(2, 10)}, true))
	if op, _ := l.Last(1); op != 0 || l.Stats().Groups != 1 {
		t.Errorf("the forgotten group is at op %d, the log has %d groups", op, l.Stats().Groups)
	}
}

// What a group leaves behind that is forgotten is not found again by one that has
// its number.
func TestForgottenWithItsState(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	must(t, l.Write([]Record{p.next(2, 3000)}, true))
	must(t, l.Write([]Record{p.next(2, 3000), {Kind: KindState, Group: 1, State: []byte("old")}}, true))
	l.Forget(1)
	l.Release(2, 1)
	must(t, l.Reclaim())
	must(t, l.Write([]Record{p.next(1, 10)}, true))
	_, rec := mustOpen(t, d.Kill())
	if g := rec.Groups[0]; g.Group != 1 || g.Last != 1 || g.State != nil {
		t.Errorf("group 1, begun anew: %+v, want op 1 without a state", g)
	}
}

// Two makers of spares would take each other's file away.
func TestOneSpareIsMadeAtATime(t *testing.T) {
	var l *Log
	made := 0
	d := memdisk.New(memdisk.Options{OnCall: func(c memdisk.Call) {
		if l != nil && strings.HasSuffix(c.Name, "spare"+tempSuffix) {
			if made++; l.making.TryLock() {
				l.making.Unlock()
				t.Errorf("%v while another may make a spare", c)
			}
		}
	}})
	l, _ = mustOpen(t, d)
	if must(t, l.EnsureSpare(1)); made == 0 {
		t.Error("no spare was made")
	}
}

// A directory that cannot be listed is no empty log, and one that cannot be synced
// may have names that will be gone.
func TestOpenOfADirectoryThatFails(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	must(t, l.Write([]Record{newPrepares().next(1, 5)}, true))
	for _, op := range []memdisk.Op{memdisk.OpList, memdisk.OpSyncDir} {
		d := d.Kill()
		d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: op})
		if _, rec, err := Open(d, testDir, testOptions()); !errors.Is(err, memdisk.ErrIO) || d.Fired() != 1 {
			t.Errorf("open with a failed %v: %+v, %v; want the error of the disk", op, rec, err)
		}
	}
}

// Names of which nobody knows whether they are durably gone end the writing.
func TestFailureInFreeingPoisons(t *testing.T) {
	for _, op := range []memdisk.Op{memdisk.OpRename, memdisk.OpRemove, memdisk.OpSyncDir} {
		d := memdisk.New(memdisk.Options{})
		l, _ := mustOpen(t, d)
		if op == memdisk.OpRemove {
			l.o.FilesSpare = 0 // else a freed file is renamed
		}
		p := newPrepares()
		for l.Stats().Files < 3 {
			must(t, l.Write([]Record{p.next(1, 1000)}, true))
		}
		l.Release(1, p.last[1].Op)
		d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: op})
		if err := l.Reclaim(); !errors.Is(err, ErrPoisoned) || d.Fired() != 1 {
			t.Errorf("reclaim with a failed %v: %v, fired %d times, want ErrPoisoned", op, err, d.Fired())
		}
		if err := l.Write([]Record{p.next(1, 5)}, true); !errors.Is(err, ErrPoisoned) {
			t.Errorf("write after a failed %v: %v, want ErrPoisoned", op, err)
		}
	}
}

func TestReleaseAboveTheLastOpPanics(t *testing.T) {
	l, _ := mustOpen(t, memdisk.New(memdisk.Options{}))
	must(t, l.Write([]Record{newPrepares().next(1, 5)}, true))
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "last is 1") {
			t.Errorf("op 2 was released, the last is op 1: %s", got)
		}
	}()
	l.Release(1, 2)
}

// A mark witnesses also what was written without a sync: rot of it is found.
func TestMarkWitnessesWhatWasNotSynced(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	at := l.end
	must(t, l.Write([]Record{newPrepares().next(1, 50)}, false))
	must(t, l.Mark())
	d = d.Kill()
	d.FlipBit(fileNamed(1), at+frameSize+10, 0)
	if e := refused(t, "rot of what was marked", d, ErrDamaged); e.Offset != at {
		t.Errorf("%v, want damage at %d", e, at)
	}
}

// Each field of a file header is checked although its checksum is right.
func TestDecodeFileHeaderRefuses(t *testing.T) {
	var good [blockSize]byte
	(&fileHeader{cluster: testCluster, sequence: 3, size: FileSizeMin}).put(good[:])
	with := func(change func(b []byte)) []byte {
		b := append([]byte(nil), good[:]...)
		change(b)
		binary.LittleEndian.PutUint64(b[4088:], xxh3.Hash(b[:4088]))
		return b
	}
	le := binary.LittleEndian
	for name, c := range map[string]struct {
		in   []byte
		want error
	}{
		"cut":                 {good[:blockSize-1], errNoHeader},
		"magic":               {with(func(b []byte) { b[0]++ }), errNoHeader},
		"version":             {with(func(b []byte) { b[8]++ }), ErrVersion},
		"checksum":            {append(append([]byte(nil), good[:100]...), append([]byte{1}, good[101:]...)...), errHeaderSum},
		"reserved byte":       {with(func(b []byte) { b[12] = 1 }), errReserved},
		"reserved byte later": {with(func(b []byte) { b[4000] = 1 }), errReserved},
		"small size":          {with(func(b []byte) { le.PutUint64(b[48:], FileSizeMin-disk.Sector) }), errSize},
		"large size":          {with(func(b []byte) { le.PutUint64(b[48:], 1<<63) }), errSize},
		"odd size":            {with(func(b []byte) { le.PutUint64(b[48:], FileSizeMin+1) }), errSize},
	} {
		if _, err := decodeFileHeader(c.in); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := decodeFileHeader(with(func([]byte) {})); err != nil {
		t.Errorf("as it was: %v", err)
	}
}

// halfCreate leaves a file behind when it fails, as a disk may that can then not
// remove it either.
type halfCreate struct{ *memdisk.Disk }

func (d halfCreate) Create(name string, size int64) (disk.File, error) {
	f, err := d.Disk.Create(name, size)
	if errors.Is(err, disk.ErrNoSpace) {
		d.Put(name, []byte("half"))
	}
	return f, err
}

// A file that a failed attempt left half made is no obstacle to the next one.
func TestHalfMadeFileIsMadeAnew(t *testing.T) {
	d := halfCreate{memdisk.New(memdisk.Options{})}
	l, _ := mustOpen(t, d)
	for _, try := range []func() error{
		func() error { return l.EnsureSpare(1) },
		func() error { return l.EnsureSpare(2) },
	} {
		d.Inject(memdisk.Fault{Class: memdisk.NoSpace, Ops: memdisk.OpCreate})
		if err := try(); !errors.Is(err, disk.ErrNoSpace) {
			t.Fatalf("spare without room: %v", err)
		}
		must(t, try())
	}
}

// The first record of a file that is not the first is rot, not a torn tail, when a
// record behind it in the same file, or in the next, says that it was synced.
func TestRotAtTheFrontOfAFile(t *testing.T) {
	for _, files := range []int{2, 3} {
		d := memdisk.New(memdisk.Options{})
		l, _ := mustOpen(t, d)
		p := newPrepares()
		for l.Stats().Files < files {
			must(t, l.Write([]Record{p.next(1, 1000)}, true))
		}
		must(t, l.Write([]Record{p.next(1, 10)}, true))
		d = d.Kill()
		d.FlipBit(fileNamed(2), blockSize+frameSize+10, 0)
		if e := refused(t, "first record of file 2", d, ErrDamaged); e.File != fileNamed(2) || e.Offset != blockSize {
			t.Errorf("%d files: %v, want damage at the first record of file 2", files, e)
		}
	}
}

// A witness is looked for to the end of the file, however far behind the rot.
func TestRotFarBeforeItsWitness(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	o := testOptions()
	o.FileSize = 8 * windowSize
	l, _, err := Open(d, testDir, o)
	must(t, err)
	p := newPrepares()
	at := l.end
	must(t, l.Write([]Record{p.next(1, 3*windowSize)}, true))
	must(t, l.Write([]Record{p.next(1, 10)}, true))
	d = d.Kill()
	d.FlipBit(fileNamed(1), at+frameSize+10, 0)
	if e := refused(t, "a large record", d, ErrDamaged); e.Offset != at {
		t.Errorf("%v, want damage at %d", e, at)
	}
}

// The first record of a log follows nothing; one that says otherwise is not it.
func TestFirstRecordFollowsNothing(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	must(t, l.Write([]Record{newPrepares().next(1, 5)}, true))
	_, rec := mustOpen(t, resealed(d, l, blockSize, func(r []byte) { r[56]++ }))
	if rec.Cut == nil || rec.Cut.At.Offset != blockSize || len(rec.Groups) != 0 {
		t.Errorf("cut %+v, groups %+v; want the record cut", rec.Cut, rec.Groups)
	}
}

// What cannot be read is no end of the log: a read that fails refuses the start,
// and nothing is cut.
func TestReadFaultsRefuse(t *testing.T) {
	written := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, written)
	p := newPrepares()
	for l.Stats().Files < 3 {
		must(t, l.Write([]Record{p.next(1, 1000)}, true))
	}
	must(t, l.Close())
	for at := 1; ; at++ {
		d := written.Kill()
		before := d.Clone()
		d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpRead, At: at})
		_, _, err := Open(d, testDir, testOptions())
		if d.Fired() == 0 {
			if at < 5 {
				t.Fatalf("open reads only %d times", at-1)
			}
			return
		}
		if !errors.Is(err, memdisk.ErrIO) {
			t.Fatalf("read %d fails: open: %v, want the error of the disk", at, err)
		}
		if diff := memdisk.Diff(before, d); diff != "" {
			t.Fatalf("read %d fails: the refusal changed the disk: %s", at, diff)
		}
	}
}

// Where the first record of a file is gone as well as the last of the one before,
// the earlier is named: what is left of it shows that the file did not end there.
func TestRotOnBothSidesOfAFilesEnd(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	var last, end int64 // of the last record in file 1
	for l.Stats().Files < 2 {
		last, end = end, l.end
		must(t, l.Write([]Record{p.next(1, 1000)}, true))
	}
	must(t, l.Write([]Record{p.next(1, 10)}, true))
	hurt := damaged(d, fileNamed(1), func(b []byte) { b[last+frameSize+10]++ })
	hurt = damaged(hurt, fileNamed(2), func(b []byte) { clear(b[blockSize:][:frameSize]) })
	if e := refused(t, "both", hurt, ErrDamaged); e.File != fileNamed(1) || e.Offset != last {
		t.Errorf("%v, want damage at %d of file 1", e, last)
	}
}

// What is carried is read by the index and compared with it: a header or a state
// of another group is not written as that of this one.
func TestCarriedIsCompared(t *testing.T) {
	for name, swap := range map[string]func(a, b *group){
		"header": func(a, b *group) { a.baseAt, b.baseAt = b.baseAt, a.baseAt },
		"state":  func(a, b *group) { a.state, b.state = b.state, a.state },
	} {
		l, _ := mustOpen(t, memdisk.New(memdisk.Options{}))
		p := newPrepares()
		for _, g := range []vsr.GroupID{1, 2} {
			must(t, l.Write([]Record{p.next(g, 10), {Kind: KindState, Group: g, State: []byte{byte(g)}}}, true))
			l.Release(g, 1)
		}
		for l.Stats().Files < 2 {
			must(t, l.Write([]Record{p.next(3, 1000)}, true))
		}
		l.Release(3, p.last[3].Op)
		swap(l.groups[1], l.groups[2])
		if err := l.Reclaim(); !errors.Is(err, ErrDamaged) || l.oldest() != 1 {
			t.Errorf("%s of another group: reclaim: %v, oldest file %d; want ErrDamaged and nothing freed", name, err, l.oldest())
		}
	}
}

// A group that was deleted while the disk is full is forgotten when there is room.
func TestForgottenOnAFullDisk(t *testing.T) {
	d := memdisk.New(memdisk.Options{Capacity: 2 * FileSizeMin})
	l, _ := mustOpen(t, d)
	h, p := newHistory(), newPrepares()
	must(t, h.write(l, true, p.next(1, 10), Record{Kind: KindState, Group: 2, State: make([]byte, 3000)}))
	must(t, h.write(l, true, p.next(2, 2000), p.next(1, 10)))
	h.forget(l, 1)
	h.release(l, 2, 1)
	if err := l.Reclaim(); !errors.Is(err, disk.ErrNoSpace) {
		t.Fatalf("reclaim that has to carry more than fits: %v, want ErrNoSpace", err)
	}
	must(t, h.write(l, true, Record{Kind: KindState, Group: 2, State: nil}))
	must(t, l.Reclaim())
	if l.oldest() == 1 {
		t.Fatal("nothing was freed")
	}
	if _, err := h.recoverAndCheck(d, h.durable, nil); err != nil {
		t.Fatal(err)
	}
}

// A read verifies what it finds although frame and checksum are right: kind,
// cluster, and the header itself. One that fails is no damage.
func TestReadChecksWhatRecordsSay(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	must(t, l.Write([]Record{p.next(1, 0)}, true))
	good := d.Bytes(fileNamed(1))
	for name, change := range map[string]func(r []byte){
		"kind":    func(r []byte) { r[12] = byte(KindFloor) },
		"unknown": func(r []byte) { r[12] = byte(KindMark + 1) },
		"header":  func(r []byte) { r[frameSize+100]++ },
		"cluster": func(r []byte) {
			pr := vsr.Prepare{Header: p.last[1]}
			pr.Cluster[0]++
			pr.Seal()
			pr.PutHeader(r[frameSize:])
			l.groups[1].entries[0].id = pr.Identity
		},
	} {
		f, err := d.Open(fileNamed(1))
		must(t, err)
		must(t, f.WriteAt(resealed(d, l, blockSize, change).Bytes(fileNamed(1)), 0))
		if _, err := l.Read(1, 1); !errors.Is(err, ErrDamaged) {
			t.Errorf("another %s: %v, want ErrDamaged", name, err)
		}
		must(t, f.WriteAt(good, 0))
		l.groups[1].entries[0].id = p.last[1].Identity
	}
	d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpRead})
	if _, err := l.Read(1, 1); !errors.Is(err, memdisk.ErrIO) || errors.Is(err, ErrDamaged) {
		t.Errorf("a read that fails: %v, want the error of the disk and no damage", err)
	}
	l.groups[1].entries[0].at.file = 7
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "index names file 7") {
			t.Errorf("a file that the log does not have: %s", got)
		}
	}()
	_, _ = l.Read(1, 1)
}

// A closed log takes nothing, says so, and is closed once more without harm; what
// poisoned it first stays the reason.
func TestClosedLogTakesNothing(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	must(t, l.Close())
	if err := l.EnsureSpare(1); !errors.Is(err, ErrPoisoned) || l.Stats().Spares != 0 {
		t.Errorf("spare of a closed log: %v", err)
	}
	if err := l.Write([]Record{newPrepares().next(1, 5)}, true); !errors.Is(err, ErrPoisoned) || !strings.Contains(err.Error(), "closed") {
		t.Errorf("write to a closed log: %v", err)
	}
	l, _ = mustOpen(t, d)
	d.Inject(memdisk.Fault{Class: memdisk.SyncFailure})
	p := newPrepares()
	if err := l.Write([]Record{p.next(1, 5)}, true); !errors.Is(err, memdisk.ErrIO) {
		t.Fatalf("write with a failed sync: %v", err)
	}
	before := d.Clone()
	_ = l.Close()
	if diff := memdisk.Diff(before, d); diff != "" {
		t.Errorf("a poisoned log is marked when it is closed: %s", diff)
	}
	if err := l.Write([]Record{p.next(1, 5)}, true); !errors.Is(err, memdisk.ErrIO) || strings.Contains(err.Error(), "closed") {
		t.Errorf("write to a log that was poisoned and closed: %v, want the first cause", err)
	}
}

// Below what was released there is no way back, whoever asks for it.
func TestCutBelowTheBasePanics(t *testing.T) {
	g := &group{id: 1, base: 4, begun: true}
	if err := g.admitCut(3); !errors.Is(err, errCut) {
		t.Errorf("a truncation to op 3 is read, the commit point is op 4: %v", err)
	}
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "below the released op 4") {
			t.Errorf("cut to op 3: %s", got)
		}
	}()
	g.cut(3)
}

// What Reclaim keeps is files of the usual size, however many may be kept.
func TestLargeFilesAreNotKept(t *testing.T) {
	l, _ := mustOpen(t, memdisk.New(memdisk.Options{}))
	l.o.FilesSpare = 5
	p := newPrepares()
	must(t, l.Write([]Record{p.next(1, 5), p.next(1, 3*FileSizeMin)}, true))
	must(t, l.Write([]Record{p.next(1, 5)}, true))
	l.Release(1, p.last[1].Op)
	must(t, l.Reclaim())
	if s := l.Stats(); s.Spares == 0 || s.Bytes != int64(s.Files+s.Spares)*FileSizeMin {
		t.Errorf("%+v, want files of %d bytes alone", s, FileSizeMin)
	}
}

// What is carried for many groups is not one write.
func TestCarryIsBounded(t *testing.T) {
	l, _ := mustOpen(t, memdisk.New(memdisk.Options{}))
	p := newPrepares()
	for g := range vsr.GroupID(carryBatch + 1) {
		must(t, l.Write([]Record{{Kind: KindState, Group: g + 2, State: []byte("s")}}, false))
	}
	must(t, l.Write([]Record{p.next(1, 3000)}, true))
	must(t, l.Write([]Record{p.next(1, 3000)}, true))
	l.Release(1, 2)
	before := l.Stats()
	l.o.FileSize = 1 << 20 // so that only the bound divides what is written
	must(t, l.Reclaim())
	if s := l.Stats(); s.Records-before.Records <= carryBatch || s.Writes-before.Writes < 3 {
		t.Errorf("%d records were carried in %d writes, want several of at most %d", s.Records-before.Records, s.Writes-before.Writes, carryBatch)
	}
}

// A truncation that is read to an op of which nothing was seen leaves a group
// without its end, unless it is the op of a floor.
func TestCutBeforeWhatWasSeen(t *testing.T) {
	for op, orphan := range map[vsr.Op]bool{2: false, 3: true} {
		begins := &group{id: 1, base: 2}
		begins.cut(op)
		seen := &group{id: 1, base: 4, begun: true, orphan: true, floorOp: 2, entries: []entry{{}}}
		seen.cut(op)
		if begins.orphan != orphan || seen.orphan != orphan || seen.base != 2 {
			t.Errorf("cut to op %d, the floor is op 2: orphan %t and %t, base %d; want %t and 2", op, begins.orphan, seen.orphan, seen.base, orphan)
		}
	}
}
