package partition

import (
	"hash/crc64"
	"strings"
	"testing"

	"galgo"
)

func checksumOf(b []byte) uint64 { return crc64.Checksum(b, crc64.MakeTable(crc64.ECMA)) }

func TestSendsGetDenseOffsets(t *testing.T) {
	r := newRig(t, smallConfig(newDisk()))
	for i, count := range []int{1, 3, 1, 7} {
		want := r.m.NextOffset()
		if got := r.send(count, 20); got != (Result{Base: want}) {
			t.Fatalf("send %d: result %+v, want base %d", i, got, want)
		}
	}
	if got, ok := r.m.CurrentOffset(); got != 11 || !ok {
		t.Fatalf("current offset %d, %v; want 11", got, ok)
	}
	f := r.m.Stats().Figures()
	if f.Messages != 12 || f.CurrentOffset != 11 || f.Segments != 1 || f.SizeBytes != f.Unwritten {
		t.Fatalf("figures %+v of 12 messages that are in memory", f)
	}
}

func TestEmptyPartition(t *testing.T) {
	r := newRig(t, smallConfig(newDisk()))
	f := r.m.Stats().Figures()
	if f != (Figures{Segments: 1}) {
		t.Fatalf("figures of an empty partition: %+v", f)
	}
	for _, s := range []galgo.PollingStrategy{galgo.FromOffset(0), galgo.FromFirst(), galgo.FromLast(), galgo.FromNext(), galgo.FromTimestamp(0)} {
		if got := r.poll(s, 10); len(got) != 0 {
			t.Fatalf("poll %v of an empty partition: %v", s, got)
		}
	}
	if code := r.m.CheckStore(galgo.ConsumerSingle, 1, 0); code != galgo.CodeInvalidOffset {
		t.Fatalf("store on an empty partition: %v, want InvalidOffset", code)
	}
}

func TestIdleAndNewPartitionsTouchNoFile(t *testing.T) {
	d := newDisk()
	r := newRig(t, smallConfig(d))
	r.send(1, 10)
	r.must(r.write(false))
	if names := d.Names(); len(names) != 0 {
		t.Fatalf("a partition below its thresholds made %v", names)
	}
	r.must(r.save())
	if used, _ := r.m.cfg.Files.Open(); used != 0 {
		t.Fatalf("%d files are in use after a checkpoint", used)
	}
}

func TestSegmentEndsWithTheBatchThatReachesItsSize(t *testing.T) {
	d := newDisk()
	r := newRig(t, smallConfig(d))
	record := len(makeBatch(t, 0, 1, 208)) // 512 bytes: 8 reach 4096 exactly
	for range 20 {
		r.send(1, 208)
		r.must(r.write(true)) // how writes are grouped must not matter
	}
	r.must(r.save())
	infos := r.m.Segments()
	if record != 512 || len(infos) != 3 {
		t.Fatalf("20 records of %d bytes in %d segments, want 3", record, len(infos))
	}
	for i, want := range []SegmentInfo{{Base: 0, Last: 7, Size: 4096, Sealed: true}, {Base: 8, Last: 15, Size: 4096, Sealed: true}, {Base: 16, Last: 19, Size: 2048}} {
		want.Time = infos[i].Time
		if infos[i] != want {
			t.Fatalf("segment %d is %+v, want %+v", i, infos[i], want)
		}
	}
	twin := r.twin() // writes all at once
	mustEqual(t, "one by one against all at once", r, twin)
}

func TestStoredOffsets(t *testing.T) {
	r := newRig(t, smallConfig(newDisk()))
	r.send(10, 8)
	const c, g = galgo.ConsumerSingle, galgo.ConsumerGroup
	check := func(name string, code, wantCode galgo.Code, want uint64) {
		t.Helper()
		got, ok := r.m.StoredOffset(c, 1)
		if !ok {
			got = 99
		}
		if code != wantCode || got != want {
			t.Fatalf("%s: code %v, stored %d; want %v, %d", name, code, got, wantCode, want)
		}
	}
	check("beyond the end", r.store(c, 1, 10, false), galgo.CodeInvalidOffset, 99)
	check("at 2^64-1", r.store(c, 1, ^uint64(0), false), galgo.CodeInvalidOffset, 99)
	check("delete of none", r.deleteOffset(c, 1), galgo.CodeConsumerOffsetNotFound, 99)
	check("first", r.store(c, 1, 5, true), galgo.CodeOK, 5)
	check("monotone back", r.store(c, 1, 3, true), galgo.CodeOK, 5)
	check("rewind", r.store(c, 1, 3, false), galgo.CodeOK, 3)
	check("monotone on", r.store(c, 1, 9, true), galgo.CodeOK, 9)
	check("group of the same key", r.store(g, 1, 2, false), galgo.CodeOK, 9)
	check("delete of the group's", r.deleteOffset(g, 1), galgo.CodeOK, 9)
	check("delete", r.deleteOffset(c, 1), galgo.CodeOK, 99)
	for key := range uint32(8) {
		r.store(c, 10+key, 1, false)
	}
	check("table is full", r.store(c, 1, 1, false), galgo.CodeCannotOpenConsumerOffsetsFile, 99)
	check("full, known one", r.store(c, 12, 4, false), galgo.CodeOK, 99)
}

func TestPurgeStartsAnew(t *testing.T) {
	d := newDisk()
	r := newRig(t, smallConfig(d))
	a := galgo.ClientID{1}
	for i := range 20 {
		r.sendAs(a, uint64(i), 1, 300)
	}
	r.store(galgo.ConsumerSingle, 1, 15, false)
	r.must(r.save())
	r.purge(4)
	f := r.m.Stats().Figures()
	if f.Messages != 0 || f.SizeBytes != 0 || f.CurrentOffset != 0 || f.Trash == 0 {
		t.Fatalf("figures after a purge: %+v", f)
	}
	if _, ok := r.m.StoredOffset(galgo.ConsumerSingle, 1); ok {
		t.Fatal("a stored offset outlives a purge")
	}
	if v, _ := r.m.CheckNumbered(a, 19); v != Fresh {
		t.Fatalf("verdict on a number from before the purge: %v", v)
	}
	r.purge(4) // the same purge proposed twice
	if got := r.send(2, 30); got.Base != 0 {
		t.Fatalf("first send after a purge is at offset %d", got.Base)
	}
	r.purge(3) // an older one, late
	r.send(1, 30)
	if got := r.poll(galgo.FromFirst(), 10); len(got) != 3 || got[0].offset != 0 || got[0].number != 20 {
		t.Fatalf("polled after a purge: %v", got)
	}
	r.must(r.save())
	for _, name := range segmentFiles(d) {
		if !strings.HasPrefix(name, "00000000000000000004-") {
			t.Fatalf("file of the old life: %s", name)
		}
	}
	r.must(r.reopen(d.Kill()))
	mustEqual(t, "after a restart", r, r.twin())
}

func TestPurgeWithSendsInFlight(t *testing.T) {
	r := newRig(t, smallConfig(newDisk()))
	r.send(5, 8)
	// A pipeline of send, purge, send that commits later.
	one, two := makeBatch(t, 100, 2, 8), makeBatch(t, 200, 2, 8)
	if base := r.m.Stamp(one, r.time+1); base != 5 {
		t.Fatalf("send in flight at %d, want 5", base)
	}
	r.m.NotePurge(1)
	r.m.NotePurge(1)
	if base := r.m.Stamp(two, r.time+2); base != 0 {
		t.Fatalf("send behind a purge in flight at %d, want 0", base)
	}
	r.apply(Entry{Timestamp: r.time + 1, Operation: OpSend, Offset: 5, Body: one})
	r.apply(Entry{Operation: OpPurge, Body: AppendPurge(nil, 1)})
	r.apply(Entry{Timestamp: r.time + 2, Operation: OpSend, Offset: 0, Body: two})
	if got := r.poll(galgo.FromFirst(), 10); len(got) != 2 || got[0].number != 200 {
		t.Fatalf("polled %v, want the two messages behind the purge", got)
	}
}

func TestTruncateTakesWholeSealedSegments(t *testing.T) {
	d := newDisk()
	r := newRig(t, smallConfig(d))
	for range 20 {
		r.send(1, 208)
	}
	for _, step := range []struct{ upTo, low uint64 }{{6, 0}, {7, 8}, {7, 8}, {19, 16}} {
		r.truncate(step.upTo)
		if f := r.m.Stats().Figures(); f.FirstOffset != step.low || f.Messages != 20-step.low || f.SizeBytes != 512*(20-step.low) {
			t.Fatalf("truncated up to %d: %+v, want first offset %d", step.upTo, f, step.low)
		}
		if got := r.poll(galgo.FromOffset(0), 3); len(got) != 3 || got[0].offset != step.low {
			t.Fatalf("truncated up to %d: polled %v, want from %d", step.upTo, got, step.low)
		}
	}
	r.must(r.save())
	if names := segmentFiles(d); len(names) != 2 {
		t.Fatalf("files after truncation: %v, want one log and one index", names)
	}
	mustEqual(t, "truncated", r, r.twin())
}

func TestTruncateToNothingKeepsTheOffset(t *testing.T) {
	d := newDisk()
	r := newRig(t, smallConfig(d))
	for range 8 {
		r.send(1, 208)
	}
	r.must(r.save())
	r.truncate(7)
	r.must(r.save())
	r.must(r.reopen(d.Kill()))
	if f := r.m.Stats().Figures(); f.Messages != 0 || f.CurrentOffset != 7 || f.FirstOffset != 8 {
		t.Fatalf("figures %+v, want none of 8 messages left", f)
	}
	if got := r.send(1, 8); got.Base != 8 {
		t.Fatalf("next send at %d, want 8", got.Base)
	}
	mustEqual(t, "emptied", r, r.twin())
}

func TestApplyPanicsOnABrokenLog(t *testing.T) {
	cases := map[string]func(r *rig, e *Entry){
		"op repeated":            func(r *rig, e *Entry) { e.Op = r.m.Op() },
		"op left out":            func(r *rig, e *Entry) { e.Op = r.m.Op() + 2 },
		"offset of the prepare":  func(r *rig, e *Entry) { e.Offset++ },
		"offset of the batch":    func(r *rig, e *Entry) { e.Offset++; stampRecord(e.Body, testPartition, e.Offset, e.Timestamp) },
		"time not the prepare's": func(r *rig, e *Entry) { e.Timestamp++ },
		"time going back": func(r *rig, e *Entry) {
			e.Timestamp = r.time - 10
			stampRecord(e.Body, testPartition, e.Offset, e.Timestamp)
		},
		"another partition":  func(r *rig, e *Entry) { stampRecord(e.Body, testPartition+1, e.Offset, e.Timestamp) },
		"body cut short":     func(r *rig, e *Entry) { e.Body = e.Body[:len(e.Body)-1] },
		"no header":          func(r *rig, e *Entry) { e.Body = e.Body[:100] },
		"unknown operation":  func(r *rig, e *Entry) { e.Operation = 99 },
		"purge without body": func(r *rig, e *Entry) { *e = Entry{Op: e.Op, Operation: OpPurge} },
		"bad consumer kind": func(r *rig, e *Entry) {
			*e = Entry{Op: e.Op, Operation: OpStoreOffset, Body: make([]byte, StoreOffsetSize)}
		},
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, smallConfig(newDisk()))
			r.send(1, 8)
			body := makeBatch(t, 9, 1, 8)
			r.time += 10
			e := Entry{Op: r.m.Op() + 1, Timestamp: r.time, Operation: OpSend, Offset: r.m.Stamp(body, r.time), Body: body}
			spoil(r, &e)
			defer func() {
				if recover() == nil {
					t.Fatalf("applied %+v", e)
				}
			}()
			r.m.Apply(e)
		})
	}
}

func TestFrontier(t *testing.T) {
	r := newRig(t, smallConfig(newDisk()))
	c := galgo.ClientID{9}
	first, second := makeBatch(t, 0, 3, 8), makeBatch(t, 3, 2, 8)
	if base := r.m.Stamp(first, 100); base != 0 {
		t.Fatalf("first batch at %d", base)
	}
	r.m.NoteInFlight(c, 1)
	if base := r.m.Stamp(second, 101); base != 3 {
		t.Fatalf("second batch at %d, want 3 behind the one in flight", base)
	}
	if v, _ := r.m.CheckNumbered(c, 1); v != InFlight {
		t.Fatalf("verdict %v on a send in flight", v)
	}
	// The view ends; a new primary inherits the first alone.
	r.m.Abandon()
	if v, _ := r.m.CheckNumbered(c, 1); v != Fresh {
		t.Fatalf("verdict %v after the pipeline was abandoned", v)
	}
	e := Entry{Timestamp: 100, Operation: OpSend, Client: c, Request: 1, Numbered: true, Body: first}
	r.m.Inherit(e)
	if v, _ := r.m.CheckNumbered(c, 1); v != InFlight {
		t.Fatalf("verdict %v on an inherited send", v)
	}
	if base := r.m.Stamp(second, 102); base != 3 {
		t.Fatalf("batch behind an inherited one at %d, want 3", base)
	}
	r.apply(e)
	if v, base := r.m.CheckNumbered(c, 1); v != Stored || base != 0 {
		t.Fatalf("verdict %v at %d on a committed send", v, base)
	}
	r.apply(Entry{Timestamp: 102, Operation: OpSend, Offset: 3, Body: second})
	if got := r.m.NextOffset(); got != 5 {
		t.Fatalf("next offset %d, want 5", got)
	}
	defer func() {
		if recover() == nil {
			t.Fatal("stamped a batch with the time of the one before")
		}
	}()
	r.m.Stamp(makeBatch(t, 0, 1, 8), 102)
}

func TestProducers(t *testing.T) {
	r := newRig(t, smallConfig(newDisk())) // 4 clients, 4 numbers each
	verdict := func(client byte, number uint64, want Verdict, base uint64) {
		t.Helper()
		if v, b := r.m.CheckNumbered(galgo.ClientID{client}, number); v != want || b != base {
			t.Fatalf("client %d number %d: verdict %v at %d, want %v at %d", client, number, v, b, want, base)
		}
	}
	for _, n := range []uint64{10, 30, 20, 40} {
		r.sendAs(galgo.ClientID{1}, n, 2, 8)
	}
	verdict(1, 10, Stored, 0)
	verdict(1, 20, Stored, 4)
	verdict(1, 15, Fresh, 0) // a late one: all smaller ones are remembered
	r.sendAs(galgo.ClientID{1}, 50, 1, 8)
	verdict(1, 10, TooOld, 0)
	verdict(1, 5, TooOld, 0)
	verdict(1, 15, Fresh, 0)
	r.sendAs(galgo.ClientID{1}, 60, 1, 8) // pushes 30 out, 20 stays
	verdict(1, 20, Stored, 4)
	verdict(1, 30, TooOld, 0)
	verdict(1, 29, TooOld, 0)
	verdict(1, 31, Fresh, 0)
	for c := byte(2); c <= 4; c++ {
		r.sendAs(galgo.ClientID{c}, 1, 1, 8)
	}
	r.sendAs(galgo.ClientID{1}, 70, 1, 8) // now client 2 is silent longest
	r.sendAs(galgo.ClientID{5}, 1, 1, 8)
	verdict(2, 1, Fresh, 0)
	verdict(1, 70, Stored, 13)
	verdict(3, 1, Stored, 11)
	before := r.m.state().Append(nil)
	r.send(1, 8) // not numbered: leaves the table alone
	after, _ := DecodeCheckpoint(r.m.state().Append(nil))
	was, _ := DecodeCheckpoint(before)
	if len(after.producers) != 4 || after.producers[3].lastOp != was.producers[3].lastOp {
		t.Fatalf("a send without number changed the table: %+v", after.producers)
	}
	d := r.m.cfg.Disk
	r.must(r.save())
	r.must(r.reopen(d))
	verdict(1, 20, TooOld, 0)
	verdict(1, 40, Stored, 6)
	verdict(5, 1, Stored, 14)
	mustEqual(t, "producers", r, r.twin())
}

func TestConfigLimits(t *testing.T) {
	bad := map[string]func(*Config){
		"group 0":       func(c *Config) { c.Group = 0 },
		"no disk":       func(c *Config) { c.Disk = nil },
		"segment size":  func(c *Config) { c.SegmentSize = SegmentSizeMax + 1 },
		"interval":      func(c *Config) { c.IndexInterval = 1 },
		"consumers":     func(c *Config) { c.Consumers = ConsumersMax + 1 },
		"producers":     func(c *Config) { c.Producers = -1 },
		"producer ring": func(c *Config) { c.ProducerRing = ProducerRingMax + 1 },
	}
	for name, spoil := range bad {
		cfg := smallConfig(newDisk())
		spoil(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: accepted %+v", name, cfg)
		}
	}
}
