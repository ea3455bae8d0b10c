package partition

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/disk/memdisk"
	"galgo/internal/wire"
)

// The guards of what is read, and of where the next batch goes.

// A length is not believed before the checksum is, however large the file.
func TestLengthOfARecordIsBounded(t *testing.T) {
	w := walker{seg: &segment{}, end: 1 << 40, partition: 3}
	for length, ok := range map[uint64]bool{wire.BatchHeaderSize - 1: false, wire.BatchHeaderSize: true, RecordMax: true, RecordMax + 1: false} {
		if err := w.checkHead(&recordHead{length: length, partition: 3, time: 1}); ok != (err == nil) || err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("record of %d bytes: %v", length, err)
		}
	}
}

// What is missing of a segment that is gone is no damage.
func TestWhatIsGoneIsNoDamage(t *testing.T) {
	w := walker{seg: &segment{}}
	if err := w.fault(io.EOF); !errors.Is(err, ErrMissing) {
		t.Errorf("end of file: %v, want ErrMissing", err)
	}
	if err := w.damage("x"); !errors.Is(err, ErrDamaged) {
		t.Errorf("damage: %v, want ErrDamaged", err)
	}
	w.seg.gone.Store(true)
	for _, err := range []error{w.fault(io.EOF), w.damage("x")} {
		if !errors.Is(err, ErrStale) {
			t.Errorf("of a segment that is gone: %v, want ErrStale", err)
		}
	}
}

// A reader that finds, when it has read the log, that the segment is gone makes no
// index of it.
func TestNoIndexOfASegmentThatIsGone(t *testing.T) {
	var seg *segment
	d := memdisk.New(memdisk.Options{OnCall: func(c memdisk.Call) {
		if seg != nil && c.Op == memdisk.OpRead && c.Name == seg.logName {
			seg.gone.Store(true)
		}
	}})
	r := newRig(t, smallConfig(d))
	r.send(1, 100)
	r.must(r.save())
	r.m.Trim(0)
	r.m.cfg.Files.Close()
	d.Delete(r.m.segments[0].indexName)
	seg = r.m.segments[0]
	if _, err := pollMachine(r.m, PollRequest{Strategy: galgo.FromOffset(0), Count: 1}); !errors.Is(err, ErrStale) || d.Bytes(seg.indexName) != nil {
		t.Errorf("poll: %v, the index has %d bytes; want ErrStale and none", err, len(d.Bytes(seg.indexName)))
	}
}

// Batches keep the places that they were given, whatever is applied meanwhile.
func TestFrontierKeepsItsPlace(t *testing.T) {
	batch := func() []byte { return makeBatch(t, 0, 1, 8) }
	stamps := func(m *Machine, ts, want uint64) []byte {
		t.Helper()
		b := batch()
		if base := m.Stamp(b, ts); base != want {
			t.Errorf("batch stamped %d at offset %d, want %d", ts, base, want)
		}
		return b
	}
	panics := func(says string, f func()) {
		t.Helper()
		defer func() {
			t.Helper()
			if got := fmt.Sprint(recover()); !strings.Contains(got, says) {
				t.Errorf("panic %q, want one that says %q", got, says)
			}
		}()
		f()
	}
	r := newRig(t, smallConfig(newDisk()))
	first := stamps(r.m, 10, 0)
	stamps(r.m, 20, 1)
	r.apply(Entry{Timestamp: 10, Operation: OpSend, Body: first})
	stamps(r.m, 30, 2)
	r.m.NotePurge(1)
	stamps(r.m, 40, 0)
	r.m.NotePurge(1)
	stamps(r.m, 50, 1)
	panics("what is no batch", func() { r.m.Stamp([]byte("x"), 60) })
	// A purge that another primary ordered is applied: times go on.
	r.apply(Entry{Operation: OpPurge, Body: AppendPurge(nil, 2)})
	panics("batch stamped 50 after one stamped 50", func() { r.m.Stamp(batch(), 50) })
	stamps(r.m, 60, 0)

	r.m.Abandon()
	inherited := func(base, ts uint64) Entry {
		b := batch()
		stampRecord(b, testPartition, base, ts)
		return Entry{Timestamp: ts, Operation: OpSend, Body: b}
	}
	panics("expected offset 0", func() { r.m.Inherit(inherited(1, 70)) })
	panics("time above 10", func() { r.m.Inherit(inherited(0, 10)) })
	r.m.Inherit(inherited(0, 70))
	r.m.Inherit(Entry{Operation: OpPurge, Body: AppendPurge(nil, 3)})
	stamps(r.m, 80, 0)
	f := frontier{generation: 5}
	if f.applied(&Machine{time: 9}, &Entry{}); f.generation != 5 || f.time != 9 {
		t.Errorf("generation %d, time %d after an operation of time 9; want 5 and 9", f.generation, f.time)
	}
	if code := r.m.CheckDelete(galgo.ConsumerSingle, 1); code != galgo.CodeConsumerOffsetNotFound {
		t.Errorf("deletion of an offset that is not there: %v", code)
	}
}
