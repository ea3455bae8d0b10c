package partition

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/disk/memdisk"
)

// The guards of the jobs that write, sync and remove.

func TestWriteJobIsBounded(t *testing.T) {
	cfg := smallConfig(newDisk())
	cfg.SegmentSize, cfg.TailBytes = 64<<20, 64<<20
	r := newRig(t, cfg)
	for _, size := range []int{WriteMax / 2, WriteMax / 3, WriteMax / 3, 2 * WriteMax, 10} {
		r.send(1, size)
	}
	for i, want := range []int{2, 1, 1, 1} {
		j := r.m.NextWrite(true)
		if j == nil || len(j.bufs) != want {
			t.Fatalf("write %d takes %+v, want %d batches", i, j, want)
		}
		err := j.Run()
		r.m.WriteDone(j, err)
		r.must(err)
	}
}

// A job that made the directory half way and runs again syncs its name as one of a
// later life does, and if that fails nothing more is written.
func TestDirectoryIsSyncedWhenAJobRunsAgain(t *testing.T) {
	d := &halfMkdir{Disk: newDisk()}
	r := newRig(t, smallConfig(d))
	r.send(1, 8)
	j := r.m.NextWrite(true)
	if err := j.Run(); !errors.Is(err, memdisk.ErrIO) {
		t.Fatalf("write with a failing mkdir: %v", err)
	}
	d.Inject(memdisk.Fault{Class: memdisk.SyncFailure, Ops: memdisk.OpSyncDir})
	err := j.Run()
	if !d.synced || !errors.Is(err, ErrSync) {
		t.Errorf("the name of the directory was synced: %t, with %v; want ErrSync", d.synced, err)
	}
	if r.m.WriteDone(j, err); r.m.NextWrite(true) != nil || r.m.BeginCheckpoint() != nil || !errors.Is(r.m.Err(), ErrSync) {
		t.Errorf("the machine goes on after a failed sync: %v", r.m.Err())
	}
}

// Who is done with a job that is not the one in flight has lost count.
func TestOnlyTheJobInFlightIsDone(t *testing.T) {
	for name, done := range map[string]func(m *Machine){
		"a write":   func(m *Machine) { m.WriteDone(&WriteJob{}, nil) },
		"a sync":    func(m *Machine) { m.SyncDone(&SyncJob{}, nil) },
		"a removal": func(m *Machine) { m.RemoveDone(&RemoveJob{}, nil) },
	} {
		r := newRig(t, smallConfig(newDisk()))
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, name+" is done that is not in flight") {
					t.Errorf("%s: %s", name, got)
				}
			}()
			done(r.m)
		}()
	}
}

// The index of a segment is lost and made anew by the job that appends to it, with
// its header; one that is there and cannot be opened is left alone.
func TestIndexOfALaterWrite(t *testing.T) {
	r, d := settledRig(t)
	active := r.m.segments[len(r.m.segments)-1]
	r.m.cfg.Files.Close()
	before := d.Clone()
	d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpOpen, Match: memdisk.Named(active.indexName)})
	r.send(1, 300)
	if err := r.write(true); !errors.Is(err, memdisk.ErrIO) || !bytes.Equal(d.Bytes(active.indexName), before.Bytes(active.indexName)) {
		t.Fatalf("write with an index that cannot be opened: %v", err)
	}
	d.Delete(active.indexName)
	r.must(r.write(true))
	if got, want := d.Bytes(active.indexName), active.indexIdentity(r.m.cfg.IndexInterval).appendHeader(nil); !bytes.HasPrefix(got, want) {
		t.Errorf("the index begins with %x, want the header %x", got[:min(len(got), indexHeaderSize)], want)
	}
}

// Jobs append to an index and readers mend it, one at a time.
func TestIndexHasOneWriter(t *testing.T) {
	var r *rig
	writes := 0
	d := memdisk.New(memdisk.Options{OnCall: func(c memdisk.Call) {
		if c.Op != memdisk.OpWrite || !strings.HasSuffix(c.Name, indexSuffix) {
			return
		}
		if writes++; r.m.segments[0].indexMu.TryLock() {
			r.m.segments[0].indexMu.Unlock()
			t.Errorf("%v while another may write to it", c)
		}
	}})
	r = newRig(t, smallConfig(d))
	r.send(1, 100)
	r.must(r.save())
	appended := writes
	r.m.Trim(0)
	r.m.cfg.Files.Close()
	d.Delete(r.m.segments[0].indexName)
	r.poll(galgo.FromFirst(), 1)
	if appended == 0 || writes == appended {
		t.Errorf("%d writes of a job, %d of a reader", appended, writes-appended)
	}
}

// What a purge has taken away is neither synced for the checkpoint that no longer
// names it, nor kept in mind to be synced by a later one.
func TestSegmentsThatAreGoneAreNotSynced(t *testing.T) {
	d := memdisk.New(memdisk.Options{Trace: true})
	r := newRig(t, smallConfig(d))
	r.send(1, 100)
	r.must(r.write(true))
	gone := r.m.segments[0].logName
	r.purge(1)
	r.must(r.save())
	for _, c := range d.Trace() {
		if c.Op == memdisk.OpSync && c.Name == gone {
			t.Errorf("%v, which was purged before", c)
		}
	}
	if n := len(r.m.unsynced); n != 0 {
		t.Errorf("%d segments wait for a sync, all are gone", n)
	}
}

// A removal that fails is due again, whatever is settled meanwhile.
func TestRemovalIsDueUntilItIsDone(t *testing.T) {
	d := newDisk()
	r := newRig(t, smallConfig(d))
	r.must(sendAndWrite(r, 12, 420))
	r.purge(1)
	d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpRemove, At: 2})
	if err := r.save(); !errors.Is(err, memdisk.ErrIO) || r.m.Trash() == 0 {
		t.Fatalf("removal that fails: %v, %d segments are left to remove", err, r.m.Trash())
	}
	r.m.Settled(1) // told late
	if r.must(r.remove()); len(segmentFiles(d)) != 0 || r.m.Trash() != 0 {
		t.Errorf("files %v are left, %d segments to remove", segmentFiles(d), r.m.Trash())
	}
}

// A file that goes is not kept open, neither by who wrote it nor for the next
// reader: its space would not come back. So with a machine that ends.
func TestFilesThatGoAreNotKeptOpen(t *testing.T) {
	for name, end := range map[string]func(r *rig) error{
		"purged":                 func(r *rig) error { r.purge(1); return r.save() },
		"purged in what follows": func(r *rig) error { r.must(r.save()); r.purge(1); return r.save() },
		"closed":                 func(r *rig) error { return r.m.Close() },
		"closed when idle":       func(r *rig) error { r.must(r.save()); return r.m.Close() },
	} {
		d := newDisk()
		cfg := smallConfig(d)
		cfg.Files = NewFiles(d, 10)
		r := newRig(t, cfg)
		r.send(1, 100)
		r.must(r.write(true))
		held := r.m.segments[0].log
		r.must(end(r))
		if _, err := held.ReadAt(make([]byte, 1), 0); err == nil {
			t.Errorf("%s: the log of the segment is still open", name)
		}
		if used, idle := cfg.Files.Open(); used+idle != 0 {
			t.Errorf("%s: %d files in use and %d idle", name, used, idle)
		}
	}
}

// What stops the removal of a group is told: a directory that cannot be listed, a
// name that may come back, a directory where a segment should be.
func TestRemovalThatFails(t *testing.T) {
	for op, want := range map[memdisk.Op]error{memdisk.OpList: memdisk.ErrIO, memdisk.OpSyncDir: ErrSync} {
		r, d := settledRig(t)
		d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: op})
		if err := RemoveDir(d, r.m.cfg.Dir); !errors.Is(err, want) {
			t.Errorf("removal with a failed %v: %v, want %v", op, err, want)
		}
	}
	d := newDisk()
	r := newRig(t, smallConfig(d))
	odd := r.m.cfg.Dir + "/" + fileName(0, 0, logSuffix)
	r.must(d.MkdirAll(odd))
	if err := RemoveDir(d, r.m.cfg.Dir); err == nil || !strings.Contains(err.Error(), "which no partition makes") {
		t.Errorf("removal beside the directory %s: %v", odd, err)
	}
}
