package partition

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"galgo"
	"galgo/internal/disk/memdisk"
)

// The guards of docs/guards.md that no other test of this package would miss.

// One write or sync is in flight at a time: two would write the same bytes, and a
// sync would not cover what the other writes.
func TestOneJobAtATime(t *testing.T) {
	r := newRig(t, smallConfig(newDisk()))
	r.send(1, 100)
	r.must(r.save())
	r.purge(1)
	r.send(1, 100)
	j := r.m.NextWrite(true)
	if j == nil {
		t.Fatal("no write is due")
	}
	r.m.Settled(r.m.Op()) // something is to be removed
	if r.m.NextWrite(true) != nil || r.m.BeginCheckpoint() != nil || r.m.NextRemove() != nil || r.m.Remove() != nil {
		t.Error("another job is handed out while a write is in flight")
	}
	err := j.Run()
	r.m.WriteDone(j, err)
	r.must(err)
	s := r.m.BeginCheckpoint()
	if s == nil {
		t.Fatal("no checkpoint after the write")
	}
	if r.m.NextWrite(true) != nil || r.m.BeginCheckpoint() != nil || r.m.NextRemove() != nil || r.m.Remove() != nil {
		t.Error("another job is handed out while a sync is in flight")
	}
	err = s.Run()
	r.m.SyncDone(s, err)
	r.must(err)
	r.m.Settled(s.Checkpoint().Op)
	gone := r.m.NextRemove()
	if gone == nil {
		t.Fatal("no removal after the checkpoint")
	}
	if r.m.NextRemove() != nil || r.m.Remove() != nil || r.m.Close() == nil {
		t.Error("another removal is handed out, or the machine closed, while one is in flight")
	}
	err = gone.Run()
	r.m.RemoveDone(gone, err)
	r.must(err)
}

// A checkpoint is the state at its beginning: what is applied while its segments
// are synced, or before anybody asks for it, is not in it.
func TestCheckpointIsOfItsBeginning(t *testing.T) {
	d := newDisk()
	r := newRig(t, smallConfig(d))
	r.send(3, 100)
	op := r.m.Op()
	j := r.m.BeginCheckpoint()
	r.send(2, 100)
	r.store(galgo.ConsumerSingle, 1, 4, false)
	err := j.Run()
	r.send(1, 100)
	r.m.SyncDone(j, err)
	r.must(err)
	r.send(1, 100)
	c := j.Checkpoint()
	if c.Op != op || c.Next != 3 || len(c.consumers) != 0 || c.segments[0].last != 2 {
		t.Errorf("checkpoint at op %d of %d messages and %d consumers, want op %d, 3 and none", c.Op, c.Next, len(c.consumers), op)
	}
	r.checkpoint, r.freed = c.Append(nil), c.Op
	r.must(r.reopen(d.PowerLoss(nil)))
	mustEqual(t, "after a power loss", r, r.twin())
}

func TestSettledAboveWhatIsAppliedPanics(t *testing.T) {
	r := newRig(t, smallConfig(newDisk()))
	r.send(1, 8)
	defer func() {
		if recover() == nil {
			t.Error("a checkpoint above the last applied operation was settled")
		}
	}()
	r.m.Settled(r.m.Op() + 1)
}

// What is the same in every version of a checkpoint is looked at although the
// checksum is right, and before anything is allocated by it.
func TestCheckpointFrame(t *testing.T) {
	r, _ := settledRig(t)
	good := r.m.state().Append(nil)
	resealed := func(change func(b []byte) []byte) []byte { return reseal(change(bytes.Clone(good))) }
	le := binary.LittleEndian
	for name, c := range map[string]struct {
		in   []byte
		says string
	}{
		"nothing":               {nil, "0 bytes"},
		"a byte too few":        {good[:checkpointHeader+checkpointTrailer-1], "95 bytes"},
		"another magic":         {resealed(func(b []byte) []byte { b[0]++; return b }), "magic"},
		"version 0":             {resealed(func(b []byte) []byte { b[4] = 0; return b }), "version 0"},
		"a length above its":    {sealedAs(bytes.Clone(good), uint64(len(good)+1)), "want"},
		"too many segments":     {resealed(func(b []byte) []byte { le.PutUint32(b[72:], SegmentsMax+1); return b }), "limits"},
		"too many consumers":    {resealed(func(b []byte) []byte { le.PutUint32(b[76:], ConsumersMax+1); return b }), "limits"},
		"too many producers":    {resealed(func(b []byte) []byte { le.PutUint32(b[80:], ProducersMax+1); return b }), "limits"},
		"too many tenures":      {resealed(func(b []byte) []byte { le.PutUint32(b[84:], tenuresMax+1); return b }), "limits"},
		"a segment not there":   {resealed(func(b []byte) []byte { le.PutUint32(b[72:], le.Uint32(b[72:])+1000); return b }), "sections"},
		"a consumer not there":  {resealed(func(b []byte) []byte { le.PutUint32(b[76:], le.Uint32(b[76:])+1000); return b }), "sections"},
		"a producer not there":  {resealed(func(b []byte) []byte { le.PutUint32(b[80:], le.Uint32(b[80:])+1000); return b }), "sections"},
		"a tenure not there":    {resealed(func(b []byte) []byte { le.PutUint32(b[84:], le.Uint32(b[84:])+1000); return b }), "sections"},
		"reserved by a flag":    {resealed(func(b []byte) []byte { b[checkpointHeader+46] = 1; return b }), "sections"},
		"reserved in consumers": {resealed(func(b []byte) []byte { b[checkpointHeader+len(r.m.segments)*segmentStateSize+2] = 1; return b }), "sections"},
		"flag that is no flag":  {resealed(func(b []byte) []byte { b[checkpointHeader+44] = 2; return b }), "sections"},
		"bytes behind the last": {resealed(func(b []byte) []byte { b = append(b, 0); le.PutUint64(b[8:], uint64(len(b))); return b }), "sections"},
	} {
		if _, err := DecodeCheckpoint(c.in); !errors.Is(err, ErrCheckpoint) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want ErrCheckpoint with %q", name, err, c.says)
		}
	}
}

// sealedAs gives a checkpoint another length, and the checksum that fits.
func sealedAs(b []byte, length uint64) []byte {
	binary.LittleEndian.PutUint64(b[8:], length)
	end := len(b) - checkpointTrailer
	return binary.LittleEndian.AppendUint64(b[:end], xxh3.Hash(b[:end]))
}

// Files are not removed while a reader mends an index: it would make one anew.
func TestRemovalWaitsForMending(t *testing.T) {
	r, _ := settledRig(t)
	seg := r.m.segments[0]
	seg.indexMu.Lock()
	j := r.m.Remove()
	done := make(chan error)
	go func() { done <- j.Run() }()
	for range 1000 {
		runtime.Gosched()
	}
	select {
	case err := <-done:
		t.Errorf("removed while an index was being mended: %v", err)
		seg.indexMu.Unlock()
	default:
		seg.indexMu.Unlock()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Files go oldest first and each index before its log, so that a removal that is
// cut short leaves whole segments without a gap.
func TestFilesGoOldestFirst(t *testing.T) {
	d := memdisk.New(memdisk.Options{Trace: true})
	r := newRig(t, smallConfig(d))
	namesOf := func(segments []*segment) (names []string) {
		for _, s := range segments {
			names = append(names, s.indexName, s.logName)
		}
		return names
	}
	removed := func(do func() error) (names []string) {
		before := len(d.Trace())
		r.must(do())
		for _, c := range d.Trace()[before:] {
			if c.Op == memdisk.OpRemove {
				names = append(names, c.Name)
			}
		}
		return names
	}
	r.must(sendAndWrite(r, 30, 420))
	old := namesOf(r.m.segments)
	r.purge(1)
	if got := removed(r.save); len(old) < 6 || !slices.Equal(got, old) {
		t.Errorf("after a purge went %v, want %v", got, old)
	}
	r.must(sendAndWrite(r, 20, 420))
	old = namesOf(r.m.segments)
	r.purge(2)
	r.must(sendAndWrite(r, 20, 420))
	all := append(append(old, namesOf(r.m.segments)...), r.m.cfg.Dir)
	if got := removed(r.m.Remove().Run); !slices.Equal(got, all) {
		t.Errorf("with the group went %v, want %v", got, all)
	}
}

// A file that no partition makes stays, with the directory, and is named.
func TestRemovalLeavesWhatIsNotOurs(t *testing.T) {
	r, d := settledRig(t)
	notes := r.m.cfg.Dir + "/notes.txt"
	d.Put(notes, []byte("of an operator"))
	if err := RemoveDir(d, r.m.cfg.Dir); err == nil || !strings.Contains(err.Error(), "notes.txt, which no partition makes") {
		t.Errorf("removal beside a foreign file: %v", err)
	}
	if got := segmentFiles(d); len(got) != 0 || d.Bytes(notes) == nil {
		t.Errorf("segment files %v are left, notes.txt has %d bytes", got, len(d.Bytes(notes)))
	}
}
