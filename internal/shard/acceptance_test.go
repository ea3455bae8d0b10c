package shard

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/disk/memdisk"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/snapshot"
	"galgo/internal/vsr"
	"galgo/internal/wal"
	"galgo/internal/wire"
)

// The guards of docs/guards.md that no other test of this package or of the node
// would miss.

func TestSyncIfOneOfABatchAsks(t *testing.T) {
	f, _ := newFeeder(t, memdisk.New(memdisk.Options{}))
	p := chain(2, 10)
	f.prepare(p[0], true, nil)
	f.prepare(p[1], false, nil)
	if n, _, sync := f.batch(); n != 2 || !sync {
		t.Errorf("a batch of %d records, sync %v; want 2, true: the first asks for it", n, sync)
	}
}

func TestFailedMarkIsFatal(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	f, exec := newFeeder(t, d)
	var failure error
	f.fail = func(err error) { failure = err }
	f.prepare(chain(1, 10)[0], true, nil)
	f.flush()
	exec.runAll()
	d.Inject(memdisk.Fault{Class: memdisk.SyncFailure, KeepCache: true})
	for range markAfterTicks {
		f.tick()
	}
	exec.runAll()
	if !errors.Is(failure, wal.ErrPoisoned) {
		t.Errorf("failure %v, want that of a poisoned log", failure)
	}
}

func TestFailedSyncWhileTheLogIsFreedIsFatal(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	f, exec := newFeeder(t, d)
	var failure error
	f.fail = func(err error) { failure = err }
	for _, p := range chain(4, 40<<10) { // more than a file of the log
		f.prepare(p, true, nil)
	}
	f.flush()
	exec.runAll()
	f.log.Release(1, 4)
	d.Inject(memdisk.Fault{Class: memdisk.SyncFailure, KeepCache: true})
	f.reclaim(func(error) {})
	exec.runAll()
	if !errors.Is(failure, wal.ErrPoisoned) {
		t.Errorf("failure %v, want that of a poisoned log", failure)
	}
}

func TestCommitThatNamesAnotherPrepare(t *testing.T) {
	g := &group[int]{apply: func(*vsr.Prepare) int { t.Error("applied"); return 0 }}
	defer func() {
		if recover() == nil {
			t.Error("a commit of another prepare was let pass")
		}
	}()
	p := chain(1, 1)[0]
	other := p.Identity
	other[0] ^= 1
	g.commit(&vsr.Committed{Op: 1, Identity: other, Prepare: p})
}

// reopened recovers the shard from a disk.
func reopened(t *testing.T, d *memdisk.Disk, specs ...GroupSpec) (*Data, *manual) {
	t.Helper()
	exec := &manual{}
	data, err := OpenData(dataConfig(t, d, exec), specs, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return data, exec
}

func dataConfig(t *testing.T, d *memdisk.Disk, exec Executor) DataConfig {
	return DataConfig{
		Disk: d, Clock: stillClock{}, Executor: exec, Replication: Replication{Replicas: 1}, Pipeline: 32,
		WALFileSize: 64 << 10, WALLimit: 1 << 40, TailBytes: 1 << 20, TailsBytes: 1 << 30, Vault: testVault,
		Fail: func(err error) { t.Errorf("the shard gave up: %v", err) }, Note: func(string, ...any) {},
	}
}

// stored drives a batch into a group; the answer must be that it was stored.
func stored(t *testing.T, d *Data, exec *manual, id vsr.GroupID, size int) {
	t.Helper()
	answer := d.store(id, size)
	if drive(d, exec); *answer != galgo.CodeOK {
		t.Fatalf("send to group %d: %v", id, *answer)
	}
}

func checkpointed(t *testing.T, d *Data, exec *manual) error {
	t.Helper()
	err := errors.New("the checkpoint did not end")
	d.Checkpoint(func(e error) { err = e })
	drive(d, exec)
	return err
}

func wantMessages(t *testing.T, d *Data, id vsr.GroupID, want uint64) {
	t.Helper()
	if g := d.groups[id]; g == nil || g.machine.NextOffset() != want {
		t.Errorf("group %d ends at another offset than %d after a restart", id, want)
	}
}

// Operations that come while the segments are synced are above the checkpoint.
func TestSendsWhileSegmentsAreSynced(t *testing.T) {
	disk := memdisk.New(memdisk.Options{})
	d, exec := newData(t, disk, nil)
	d.Create(spec(1))
	stored(t, d, exec, 1, 10)
	d.Checkpoint(func(error) {})
	d.Turn()
	syncing := exec.jobs
	exec.jobs = nil
	stored(t, d, exec, 1, 10)
	exec.jobs = append(exec.jobs, syncing...)
	drive(d, exec)
	if got := d.groups[1].saved.head.Op; got != 1 {
		t.Errorf("the checkpoint covers op %d, its segments were synced at op 1", got)
	}
	again, _ := reopened(t, disk.PowerLoss(nil), spec(1))
	wantMessages(t, again, 1, 2)
}

// A checkpoint in which a step fails counts for nothing and harms nothing.
func TestCheckpointThatFails(t *testing.T) {
	for name, fault := range map[string]memdisk.Fault{
		"segment not made":    {Class: memdisk.NoSpace, Ops: memdisk.OpCreate, Match: func(n string) bool { return strings.HasPrefix(n, groupsDir) }},
		"segment not written": {Class: memdisk.NoSpace, Ops: memdisk.OpWrite, Match: func(n string) bool { return strings.HasSuffix(n, ".log") }},
		"table not written":   {Class: memdisk.NoSpace, Ops: memdisk.OpWrite, Match: func(n string) bool { return strings.Contains(n, ".ckpt") }},
		"table not synced":    {Class: memdisk.SyncFailure, Match: func(n string) bool { return strings.Contains(n, ".ckpt") }},
		"table not renamed":   {Class: memdisk.Fail, Ops: memdisk.OpRename, Match: func(n string) bool { return strings.Contains(n, ".ckpt") }},
	} {
		t.Run(name, func(t *testing.T) {
			disk := memdisk.New(memdisk.Options{})
			d, exec := newData(t, disk, nil)
			d.Create(spec(1))
			stored(t, d, exec, 1, 100)
			disk.Inject(fault)
			if err := checkpointed(t, d, exec); err == nil || disk.Fired() != 1 {
				t.Fatalf("checkpoint ended with %v, %d faults", err, disk.Fired())
			}
			if d.groups[1].saved.head.Op != 0 || d.log.First(1) != 1 {
				t.Errorf("the checkpoint that failed covers op %d, the log begins at op %d", d.groups[1].saved.head.Op, d.log.First(1))
			}
			again, _ := reopened(t, disk.Clone().PowerLoss(nil), spec(1))
			wantMessages(t, again, 1, 1)
			for range segmentRetryTicks {
				d.Tick()
			}
			if err := checkpointed(t, d, exec); err != nil {
				t.Fatalf("the next checkpoint: %v", err)
			}
			again, _ = reopened(t, disk.PowerLoss(nil), spec(1))
			wantMessages(t, again, 1, 1)
		})
	}
}

// A group without news is in the next table all the same: its log is gone.
func TestIdleGroupsStayInTheTable(t *testing.T) {
	disk := memdisk.New(memdisk.Options{})
	d, exec := newData(t, disk, nil)
	d.Create(spec(1))
	d.Create(spec(2))
	stored(t, d, exec, 1, 70<<10) // a file of the log for itself
	for range 3 {
		stored(t, d, exec, 2, 40<<10)
		if err := checkpointed(t, d, exec); err != nil {
			t.Fatal(err)
		}
	}
	again, _ := reopened(t, disk.PowerLoss(nil), spec(1), spec(2))
	wantMessages(t, again, 1, 1)
	wantMessages(t, again, 2, 3)
}

// The table that the log names counts, also beside a newer one that was written and
// not paired; and the next table has a number that none has.
func TestTableThatWasNotPaired(t *testing.T) {
	disk := memdisk.New(memdisk.Options{})
	d, exec := newData(t, disk, nil)
	d.Create(spec(1))
	stored(t, d, exec, 1, 70<<10)
	if err := checkpointed(t, d, exec); err != nil {
		t.Fatal(err)
	}
	first := d.groups[1].saved
	stored(t, d, exec, 1, 70<<10)
	if err := checkpointed(t, d, exec); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	// What the first checkpoint said, under a number that is newer than both.
	if _, err := writeTable(d.cfg, 3, []tableRow{{id: 1, incarnation: 0, groupCheckpoint: first}}); err != nil {
		t.Fatal(err)
	}
	again, exec := reopened(t, disk.PowerLoss(nil), spec(1))
	wantMessages(t, again, 1, 2)
	if again.ckpt.number != 2 {
		t.Errorf("goes on from table %d, the log names 2", again.ckpt.number)
	}
	stored(t, again, exec, 1, 10)
	if err := checkpointed(t, again, exec); err != nil || again.ckpt.number != 3 {
		t.Errorf("the next table has number %d, %v", again.ckpt.number, err)
	}
}

// readTable takes the table of this shard, with the checksum that the log names.
func TestTableMustBeTheOneNamed(t *testing.T) {
	disk := memdisk.New(memdisk.Options{})
	d, _ := newData(t, disk, nil)
	sum, err := writeTable(d.cfg, 7, []tableRow{row(1, 7, "one")})
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := readTable(d.cfg, pairing{7, sum}); err != nil || len(rows) != 1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	other := sum
	other[0] ^= 1
	foreignCluster, foreignShard := d.cfg, d.cfg
	foreignCluster.Cluster[0] ^= 1
	foreignShard.Shard = 1
	if err := disk.MkdirAll("shards/1/checkpoint"); err != nil {
		t.Fatal(err)
	}
	disk.Put(tablesOf(foreignShard).Name(7), disk.Bytes(tablesOf(d.cfg).Name(7)))
	for name, c := range map[string]struct {
		cfg  DataConfig
		p    pairing
		want error
	}{
		"no such file":     {d.cfg, pairing{8, sum}, ErrCheckpointLost},
		"another checksum": {d.cfg, pairing{7, other}, ErrCheckpointLost},
		"another cluster":  {foreignCluster, pairing{7, sum}, snapshot.ErrForeign},
		"another shard":    {foreignShard, pairing{7, sum}, snapshot.ErrForeign},
	} {
		if _, err := readTable(c.cfg, c.p); !errors.Is(err, c.want) || !strings.Contains(err.Error(), ".ckpt") {
			t.Errorf("%s: %v, want %v with the file", name, err, c.want)
		}
	}
}

// The head in a metadata snapshot is that of the op of the file.
func TestSnapshotWithTheHeadOfAnotherOp(t *testing.T) {
	view := metadata.New().View()
	for op, ok := range map[uint64]bool{3: true, 4: false} {
		head := chain(3, 1)[2].Header
		_, _, err := decodeMetadataSnapshot(&snapshot.Snapshot{Name: "x.snap", Header: snapshot.Header{Op: op}, Sections: metadataSections(head, view)})
		if ok != (err == nil) || err != nil && !errors.Is(err, snapshot.ErrMalformed) {
			t.Errorf("head of op 3 in the snapshot of op %d: %v", op, err)
		}
	}
}

// A group on the disk that the metadata does not name was deleted, and leaves the
// log; one that the metadata has never given out means that the metadata is older.
func TestGroupsThatTheMetadataDoesNotName(t *testing.T) {
	disk := memdisk.New(memdisk.Options{})
	d, exec := newData(t, disk, nil)
	d.Create(spec(5))
	stored(t, d, exec, 5, 10)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenData(dataConfig(t, disk, exec), nil, 4); !errors.Is(err, ErrMetadataLost) || !strings.Contains(err.Error(), "group 5") {
		t.Errorf("groups up to 4 were given out: %v, want %v", err, ErrMetadataLost)
	}
	again, _ := reopened(t, disk)
	if n := again.log.Stats().Groups; n != 0 {
		t.Errorf("the log still has %d groups", n)
	}
}

// So does one in the table alone: of a group whose log has gone, and of which the
// log does not even know the commit point any more.
func TestTableNamesAGroupThatWasNeverGivenOut(t *testing.T) {
	disk := memdisk.New(memdisk.Options{})
	d, exec := newData(t, disk, nil)
	sum, err := writeTable(d.cfg, 1, []tableRow{row(5, 7, "")})
	if err != nil {
		t.Fatal(err)
	}
	named := wal.Record{Kind: wal.KindState, Group: pairingGroup, State: pairing{1, sum}.append(nil)}
	if err := errors.Join(d.log.Write([]wal.Record{named}, true), d.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenData(dataConfig(t, disk, exec), nil, 4); !errors.Is(err, ErrMetadataLost) || !strings.Contains(err.Error(), "group 5") {
		t.Errorf("groups up to 4 were given out: %v, want %v", err, ErrMetadataLost)
	}
	if _, err := OpenData(dataConfig(t, disk, exec), nil, 5); err != nil {
		t.Errorf("group 5 was deleted: %v", err)
	}
}

// The order of a checkpoint, as the disk sees it: segments synced, table in its
// place, log synced with the record that names the table; and only then what they
// make superfluous goes: files of the log, older tables, files of an old life.
func TestOrderOfADataCheckpoint(t *testing.T) {
	disk := memdisk.New(memdisk.Options{Trace: true})
	d, exec := newData(t, disk, nil)
	d.Create(spec(1))
	for range 3 {
		stored(t, d, exec, 1, 70<<10)
		if err := checkpointed(t, d, exec); err != nil {
			t.Fatal(err)
		}
	}
	d.Purge(1, 1, func() {})
	drive(d, exec)
	stored(t, d, exec, 1, 70<<10)
	before := len(disk.Trace())
	if err := checkpointed(t, d, exec); err != nil {
		t.Fatal(err)
	}
	wantOrder(t, disk.Trace()[before:], []event{
		{"segment synced", memdisk.OpSync, "groups/", ".log"},
		{"table synced", memdisk.OpSync, "shards/0/checkpoint/", ".ckpt.tmp"},
		{"table renamed", memdisk.OpRename, "shards/0/checkpoint/", ".ckpt.tmp"},
		{"directory of the table synced", memdisk.OpSyncDir, "shards/0/checkpoint", ""},
		{"record that names it synced", memdisk.OpSync, "shards/0/wal/", ".wal"},
	}, []event{
		{"file of the log freed", memdisk.OpRename | memdisk.OpRemove, "shards/0/wal/", ".wal"},
		{"older table removed", memdisk.OpRemove, "shards/0/checkpoint/", ".ckpt"},
		{"file of the old life removed", memdisk.OpRemove, "groups/", ".log"},
	})
}

// event is a kind of disk call.
type event struct {
	what           string
	op             memdisk.Op
	prefix, suffix string
}

func (e event) in(calls []memdisk.Call) int {
	return slices.IndexFunc(calls, func(c memdisk.Call) bool {
		return c.Op&e.op != 0 && strings.HasPrefix(c.Name, e.prefix) && strings.HasSuffix(c.Name, e.suffix)
	})
}

// wantOrder checks that the first ones come in order, each behind the one before,
// and that none of the last ones comes before all of them.
func wantOrder(t *testing.T, calls []memdisk.Call, inOrder, last []event) {
	t.Helper()
	at := 0
	for _, e := range inOrder {
		i := e.in(calls[at:])
		if i < 0 {
			t.Fatalf("%s: not seen behind call %d of %v", e.what, at, calls)
		}
		at += i + 1
	}
	for _, e := range last {
		if i := e.in(calls); i < at {
			t.Errorf("%s at call %d; all that must come before is done at call %d of %v", e.what, i, at, calls)
		}
	}
}

// A failed sync of a segment says nothing of what is on the device: the node stops.
func TestFailedSyncOfASegmentIsFatal(t *testing.T) {
	disk := memdisk.New(memdisk.Options{})
	var failure error
	d, exec := newData(t, disk, func(c *DataConfig) { c.Fail = func(err error) { failure = err } })
	d.Create(spec(1))
	stored(t, d, exec, 1, 10)
	disk.Inject(memdisk.Fault{Class: memdisk.SyncFailure, KeepCache: true, Match: func(n string) bool { return strings.HasSuffix(n, ".log") }})
	if err := checkpointed(t, d, exec); !errors.Is(err, partition.ErrSync) || !errors.Is(failure, partition.ErrSync) {
		t.Errorf("checkpoint %v, failure %v; want both to say that a sync failed", err, failure)
	}
}

// Checkpoints are tried again, ever more rarely, and stop the node in the end.
func TestCheckpointsThatKeepFailing(t *testing.T) {
	disk := memdisk.New(memdisk.Options{})
	var failure error
	d, exec := newData(t, disk, func(c *DataConfig) { c.WALLimit = 1; c.Fail = func(err error) { failure = err } })
	d.Create(spec(1))
	disk.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpRename, Times: memdisk.Forever, Match: func(n string) bool { return strings.Contains(n, ".ckpt") }})
	stored(t, d, exec, 1, 10)
	ticks := 0
	for ; failure == nil && ticks < 100_000; ticks++ {
		d.Tick()
		drive(d, exec)
	}
	if !errors.Is(failure, ErrCheckpointWedged) || d.ckpt.failures != checkpointFailuresMax || ticks < 50*checkpointFailuresMax {
		t.Errorf("%v after %d failures and %d ticks", failure, d.ckpt.failures, ticks)
	}
}

func TestNothingIsTakenWhileTheLogIsFull(t *testing.T) {
	disk := memdisk.New(memdisk.Options{})
	d, exec := newData(t, disk, nil)
	d.Create(spec(1))
	d.Create(spec(2))
	disk.Inject(memdisk.Fault{Class: memdisk.NoSpace, Times: memdisk.Forever, Match: func(n string) bool { return strings.HasPrefix(n, "shards/") }})
	large := d.store(1, 70<<10) // needs a file of its own
	drive(d, exec)
	if small := d.store(2, 10); *small != galgo.CodeTransientNotAccepted {
		t.Errorf("a send to another group is answered %v at once, want %v", *small, galgo.CodeTransientNotAccepted)
	}
	disk.ClearFaults()
	for range retryTicksMax {
		d.Tick()
		drive(d, exec)
	}
	if *large != galgo.CodeOK {
		t.Errorf("what was taken before is answered %v", *large)
	}
	stored(t, d, exec, 2, 10)
}

// The same numbered send twice, before the first is in the log: one is stored, the
// other is told to ask again.
func TestNumberedSendTwiceInFlight(t *testing.T) {
	for _, turn := range []bool{false, true} { // both wait for the turn, or one is in the pipeline
		d, exec := newData(t, memdisk.New(memdisk.Options{}), nil)
		d.Create(spec(1))
		var codes []galgo.Code
		for range 2 {
			d.Send(SendRequest{Group: 1, Batch: record(10), Client: galgo.ClientID{1}, Request: 9, Numbered: true},
				func(code galgo.Code, _ uint64, _ vsr.Op) { codes = append(codes, code) })
			if turn {
				d.Turn()
			}
		}
		drive(d, exec)
		if !slices.Equal(codes, []galgo.Code{galgo.CodeTransientNotCommitted, galgo.CodeOK}) || d.groups[1].machine.NextOffset() != 1 {
			t.Errorf("turn between them %v: answers %v, %d messages; want one stored", turn, codes, d.groups[1].machine.NextOffset())
		}
	}
}

// Sends before and behind a purge, all of them in one pipeline.
func TestSendsAroundAPurgeInFlight(t *testing.T) {
	disk := memdisk.New(memdisk.Options{})
	d, exec := newData(t, disk, nil)
	d.Create(spec(1))
	stored(t, d, exec, 1, 10)
	var bases []uint64
	send := func() {
		d.Send(SendRequest{Group: 1, Batch: record(10)}, func(_ galgo.Code, base uint64, _ vsr.Op) { bases = append(bases, base) })
	}
	send()
	d.Purge(1, 1, func() {})
	send()
	send()
	drive(d, exec)
	if !slices.Equal(bases, []uint64{1, 0, 1}) {
		t.Errorf("offsets %v, want 1 before the purge, then 0 and 1", bases)
	}
	again, _ := reopened(t, disk.PowerLoss(nil), GroupSpec{ID: 1, SegmentSize: 1 << 20, Sync: true, PurgeGeneration: 1})
	wantMessages(t, again, 1, 2)
}

// What the client table says of a request, as the client is told it (wire.md §3.8).
func TestAnswersOfTheClientTable(t *testing.T) {
	for _, c := range []struct {
		kind  metadata.VerdictKind
		op    wire.Operation
		final bool
		want  MetadataReply
	}{
		{metadata.VerdictNew, wire.OperationCreateStream, false, MetadataReply{}},
		{metadata.VerdictNoSession, wire.OperationCreateStream, true, MetadataReply{Outcome: OutcomeEvict, Reason: wire.EvictionNoSession}},
		{metadata.VerdictFenced, wire.OperationCreateStream, true, MetadataReply{Outcome: OutcomeEvict, Reason: wire.EvictionSessionTooLow}},
		{metadata.VerdictEpochAhead, wire.OperationCreateStream, true, MetadataReply{Outcome: OutcomeDrop}},
		{metadata.VerdictChecksumMismatch, wire.OperationCreateStream, true, MetadataReply{Outcome: OutcomeDrop}},
		{metadata.VerdictAlreadyApplied, wire.OperationCreateStream, true,
			MetadataReply{Outcome: OutcomeResult, Operation: wire.OperationCreateStream, Code: galgo.CodeRequestAlreadyApplied}},
		{metadata.VerdictDuplicate, wire.OperationCreateStream, true, MetadataReply{Outcome: OutcomeReply, Operation: 128, Op: 5, Timestamp: 6}},
	} {
		v := metadata.Verdict{Kind: c.kind}
		if c.kind == metadata.VerdictDuplicate {
			v.Reply = &metadata.Reply{Op: 5, Timestamp: 6, Operation: wire.OperationCreateStream}
		}
		got, final := answerOf(v, c.op)
		if got.Body = nil; final != c.final || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v of operation %v: %+v, final %v; want %+v, %v", c.kind, c.op, got, final, c.want, c.final)
		}
	}
}
