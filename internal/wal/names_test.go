package wal

import (
	"errors"
	"testing"

	"galgo/internal/disk/memdisk"
	"galgo/internal/vsr"
)

// doubt makes the n-th sync of a directory from now on fail.
func doubt(d *memdisk.Disk, n int) {
	d.Inject(memdisk.Fault{Class: memdisk.SyncFailure, Ops: memdisk.OpSyncDir, At: n})
}

// fill writes and syncs records until the log has rolled into another file.
func fill(t *testing.T, l *Log, p *prepares) vsr.Op {
	t.Helper()
	var last vsr.Op
	for from := l.cur.sequence; l.cur.sequence == from; {
		r := p.next(7, 400)
		must(t, l.Write([]Record{r}, true))
		last = r.Header.Op
	}
	return last
}

func wantLast(t *testing.T, rec *Recovered, op vsr.Op) {
	t.Helper()
	if len(rec.Groups) != 1 || rec.Groups[0].Last != op {
		t.Errorf("recovered %+v, want op %d", rec.Groups, op)
	}
}

// The name of a file that was made when a sync of the directory failed may never become
// durable, however often that is synced again. Nothing may be promised in such a file.
func TestSpareWhoseNameIsInDoubt(t *testing.T) {
	d, p := memdisk.New(memdisk.Options{}), newPrepares()
	l, _ := mustOpen(t, d)
	must(t, l.Write([]Record{p.next(7, 40)}, true))
	must(t, l.Mark()) // or the start would use the spare for the end of the log
	doubt(d, 1)
	if err := l.EnsureSpare(1); !errors.Is(err, ErrPoisoned) {
		t.Fatal(err)
	}
	d = d.Kill()
	l, _ = mustOpen(t, d)
	last := fill(t, l, p)
	_, rec := mustOpen(t, d.PowerLoss(nil))
	wantLast(t, rec, last)
}

// The same of the file that a start puts in the place of the last one, also where all that
// it holds has a witness.
func TestTailWhoseNameIsInDoubt(t *testing.T) {
	for name, tear := range map[string]func(*testing.T, *Log, *prepares){
		"nothing witnesses the last record": func(*testing.T, *Log, *prepares) {},
		"a write behind a mark was torn": func(t *testing.T, l *Log, _ *prepares) {
			must(t, l.Mark())
			must(t, writeTrace(l.cur, l.end))
		},
		"the first write into a file was torn": func(t *testing.T, l *Log, p *prepares) {
			for l.cur.sequence == 1 {
				must(t, l.Write([]Record{p.next(7, 3000)}, true)) // leaves room in the first file
			}
			must(t, l.cur.f.WriteAt([]byte{0xEE}, blockSize+frameSize+vsr.HeaderSize))
			must(t, l.cur.f.Sync())
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, p := memdisk.New(memdisk.Options{}), newPrepares()
			l, _ := mustOpen(t, d)
			must(t, l.Write([]Record{p.next(7, 40)}, true))
			tear(t, l, p)
			d = d.Kill()
			doubt(d, 2) // behind the rename
			if _, _, err := Open(d, testDir, testOptions()); !errors.Is(err, ErrPoisoned) {
				t.Fatal(err)
			}
			d = d.Kill()
			l, _ = mustOpen(t, d)
			last, _ := l.Last(7)
			h, err := l.Header(7, last)
			must(t, err)
			p.rewind(h)
			must(t, l.Write([]Record{p.next(7, 40)}, true))
			_, rec := mustOpen(t, d.PowerLoss(nil))
			wantLast(t, rec, last+1)
		})
	}
}

func TestFirstFileWhoseNameIsInDoubt(t *testing.T) {
	d, p := memdisk.New(memdisk.Options{}), newPrepares()
	must(t, d.MkdirAll(testDir))
	doubt(d, 2) // behind the rename
	if _, _, err := Open(d, testDir, testOptions()); !errors.Is(err, ErrPoisoned) {
		t.Fatal(err)
	}
	d = d.Kill()
	l, _ := mustOpen(t, d)
	must(t, l.Write([]Record{p.next(7, 40)}, true))
	_, rec := mustOpen(t, d.PowerLoss(nil))
	wantLast(t, rec, 1)
}

// A file that was freed may come back with a power loss, if the sync behind its removal
// failed. The log says that it needs it no more.
func TestFreedFileThatComesBack(t *testing.T) {
	o := testOptions()
	o.FilesSpare = 0
	d, p := memdisk.New(memdisk.Options{}), newPrepares()
	l, _, err := Open(d, testDir, o)
	must(t, err)
	l.Release(7, fill(t, l, p)-1)
	doubt(d, 1)
	if err := l.Reclaim(); !errors.Is(err, ErrPoisoned) {
		t.Fatal(err)
	}
	d = d.Kill()
	if l, _, err = Open(d, testDir, o); err != nil {
		t.Fatal(err)
	}
	last := fill(t, l, p)
	l.Release(7, last-1)
	must(t, l.Reclaim())
	d = d.PowerLoss(nil)
	if d.Bytes(l.fileName(1, fileSuffix)) == nil {
		t.Fatal("the file did not come back: nothing is tested")
	}
	_, rec, err := Open(d, testDir, o)
	must(t, err)
	wantLast(t, rec, last)
	if d.Bytes(l.fileName(1, fileSuffix)) != nil {
		t.Error("it is still there")
	}
}
