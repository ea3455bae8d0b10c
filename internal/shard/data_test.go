package shard

import (
	"errors"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/disk/memdisk"
	"galgo/internal/partition"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

type stillClock struct{}

func (stillClock) Now() uint64 { return 1_000_000 }

// newData makes the driver of a shard whose jobs run when the test says so.
func newData(t *testing.T, d *memdisk.Disk, change func(*DataConfig)) (*Data, *manual) {
	t.Helper()
	if err := d.MkdirAll(shardDir(0) + "/checkpoint"); err != nil {
		t.Fatal(err)
	}
	exec := &manual{}
	c := DataConfig{
		Disk: d, Clock: stillClock{}, Executor: exec, Replication: Replication{Replicas: 1}, Pipeline: 32,
		WALFileSize: 64 << 10, WALLimit: 1 << 40, TailBytes: 1 << 20, TailsBytes: 1 << 30, Vault: testVault,
		Fail: func(err error) { t.Errorf("the shard gave up: %v", err) }, Note: func(string, ...any) {},
	}
	if change != nil {
		change(&c)
	}
	data, err := OpenData(c, nil, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return data, exec
}

// drive takes turns and runs jobs until nothing is left to do.
func drive(d *Data, m *manual) {
	for d.Turn(); len(m.jobs) > 0; d.Turn() {
		m.runAll()
	}
}

func spec(id vsr.GroupID) GroupSpec {
	return GroupSpec{ID: id, SegmentSize: 1 << 20, MessagesToSave: 1 << 20, BytesToSave: 1 << 30, Sync: true}
}

func record(size int) []byte {
	b, err := wire.AppendBatch(nil, []galgo.Message{{ID: galgo.MessageID{1}, Payload: make([]byte, size)}})
	if err != nil {
		panic(err)
	}
	return b
}

func (d *Data) store(id vsr.GroupID, size int) (answer *galgo.Code) {
	answer = new(galgo.Code(^uint32(0)))
	d.Send(SendRequest{Group: id, Batch: record(size)}, func(code galgo.Code, _ uint64, _ vsr.Op) { *answer = code })
	return answer
}

// A group that has answered keeps nothing of what it answered.
func TestAnsweredGroupKeepsNoBatch(t *testing.T) {
	d, exec := newData(t, memdisk.New(memdisk.Options{}), nil)
	d.Create(spec(1))
	for range 5 {
		d.store(1, 10)
	}
	drive(d, exec)
	g := &d.groups[1].group
	for i, a := range g.answers[:cap(g.answers)] {
		if a.prepare != nil || a.done != nil {
			t.Errorf("answer %d of %d is still held", i, cap(g.answers))
		}
	}
}

// Partitions that are made, written to and deleted leave nothing in memory.
func TestRemovedGroupsAreForgotten(t *testing.T) {
	d, exec := newData(t, memdisk.New(memdisk.Options{}), nil)
	for id := vsr.GroupID(1); id <= 100; id++ {
		d.Create(spec(id))
		answer := d.store(id, 10)
		if id%2 == 0 { // the other half is removed with the send under way
			drive(d, exec)
		} else {
			d.Turn()
		}
		removed := false
		d.Remove(id, func() { removed = true })
		drive(d, exec)
		if want := []galgo.Code{galgo.CodeResourceNotFound, galgo.CodeOK}[(id+1)%2]; !removed || *answer != want {
			t.Fatalf("group %d: removed %v, answer %v, want %v", id, removed, *answer, want)
		}
	}
	if d.holding.Len() != 0 || d.resident != 0 || len(d.active) != 0 || d.log.Stats().Groups != 0 {
		t.Errorf("%d groups hold %d bytes, %d are active, the log knows %d; want none",
			d.holding.Len(), d.resident, len(d.active), d.log.Stats().Groups)
	}
}

// The partition that was written to longest ago gives its memory back first.
func TestMemoryIsTakenFromTheIdle(t *testing.T) {
	const size = 100 << 10
	d, exec := newData(t, memdisk.New(memdisk.Options{}), func(c *DataConfig) { c.TailsBytes = 3*size + size/2 })
	for id := vsr.GroupID(1); id <= 4; id++ {
		d.Create(spec(id))
	}
	for _, id := range []vsr.GroupID{1, 2, 3, 1, 4} { // 2 is the longest ago
		d.store(id, size/2*map[bool]int{true: 1, false: 2}[id == 1])
		drive(d, exec)
	}
	for id, held := range map[vsr.GroupID]bool{1: true, 2: false, 3: true, 4: true} {
		if got := d.groups[id].resident > 0; got != held {
			t.Errorf("group %d holds %d bytes in memory; want any: %v", id, d.groups[id].resident, held)
		}
	}
}

// A disk that refuses segments while memory is short is asked again after a pause,
// and not at once and for ever; and what may wait in memory is bounded.
func TestMemoryIsBoundedWhileSegmentsAreRefused(t *testing.T) {
	disk := memdisk.New(memdisk.Options{})
	d, exec := newData(t, disk, func(c *DataConfig) { c.TailsBytes, c.WALFileSize = 1<<20, 64<<20 })
	isSegment := func(name string) bool { return strings.HasPrefix(name, groupsDir+"/") }
	disk.Inject(memdisk.Fault{Class: memdisk.NoSpace, Ops: memdisk.OpCreate | memdisk.OpMkdirAll, Times: memdisk.Forever, Match: isSegment})
	const size = 4 << 20
	accepted := 0
	for id := vsr.GroupID(1); id <= 50; id++ {
		d.Create(spec(id))
		answer := d.store(id, size)
		drive(d, exec) // ends
		if *answer == galgo.CodeOK {
			accepted++
		}
	}
	if most := (unwrittenMax + 1<<20) / size; accepted > most+1 || accepted < most-1 {
		t.Errorf("%d batches of %d bytes were taken, want about %d", accepted, size, most)
	}
	disk.ClearFaults()
	for range segmentRetryTicks {
		d.Tick()
	}
	drive(d, exec)
	if d.resident > d.cfg.TailsBytes {
		t.Errorf("%d bytes in memory with a disk that writes, the bound is %d", d.resident, d.cfg.TailsBytes)
	}
}

// slow runs jobs at once, but for those of the segments, which wait.
type slow struct{ now, segments manual }

func (s *slow) Go(l Lane, job func() error, done func(error)) {
	if l == LaneSegments {
		s.segments.Go(l, job, done)
		return
	}
	s.now.Go(l, job, done)
}

// lag stores batches in a group whose segments do not get written, until one has to
// wait, and returns its answer.
func lag(t *testing.T, d *Data, exec *slow) (answer *galgo.Code) {
	t.Helper()
	d.Create(spec(1))
	const size = 4 << 20
	for taken := 0; taken <= unwrittenMax+2*size; taken += size {
		answer = d.store(1, size)
		drive(d, &exec.now)
		if *answer != galgo.CodeOK {
			break
		}
	}
	if len(exec.segments.jobs) == 0 || *answer != ^galgo.Code(0) {
		t.Fatalf("answer %v with %d writes waiting, want none yet", *answer, len(exec.segments.jobs))
	}
	return answer
}

// While segments are behind, sends go at their pace: they wait, and are not refused.
func TestSendsWaitForSegmentsThatAreBehind(t *testing.T) {
	exec := &slow{}
	d, _ := newData(t, memdisk.New(memdisk.Options{}), func(c *DataConfig) { c.Executor, c.WALFileSize = exec, 64<<20 })
	answer := lag(t, d, exec)
	for *answer == ^galgo.Code(0) && len(exec.segments.jobs) > 0 {
		exec.segments.runAll()
		drive(d, &exec.now)
	}
	if *answer != galgo.CodeOK {
		t.Errorf("answer %v once the segments are written", *answer)
	}
	if len(d.stalled) != 0 {
		t.Errorf("%d groups still wait", len(d.stalled))
	}
}

// What waits for segments that cannot be written is told so.
func TestSendsThatWaitAreRefusedWhenSegmentsFail(t *testing.T) {
	exec, disk := &slow{}, memdisk.New(memdisk.Options{})
	d, _ := newData(t, disk, func(c *DataConfig) { c.Executor, c.WALFileSize = exec, 64<<20 })
	answer := lag(t, d, exec)
	disk.Inject(memdisk.Fault{Class: memdisk.NoSpace, Ops: memdisk.OpWrite | memdisk.OpCreate | memdisk.OpMkdirAll, Times: memdisk.Forever, Match: func(n string) bool { return strings.HasPrefix(n, groupsDir+"/") }})
	exec.segments.runAll()
	drive(d, &exec.now)
	if *answer != galgo.CodeTransientNotAccepted {
		t.Errorf("answer %v, want it refused for now", *answer)
	}
}

// A group that is removed while it waits is let go.
func TestRemovedGroupWaitsForNothing(t *testing.T) {
	exec := &slow{}
	d, _ := newData(t, memdisk.New(memdisk.Options{}), func(c *DataConfig) { c.Executor, c.WALFileSize = exec, 64<<20 })
	answer := lag(t, d, exec)
	d.Remove(1, func() {})
	drive(d, &exec.now)
	if *answer != galgo.CodeResourceNotFound || len(d.stalled) != 0 {
		t.Errorf("answer %v, %d groups wait; want the partition gone and none", *answer, len(d.stalled))
	}
}

// Groups that are written to in turn do not keep their files open without bound.
func TestUnsyncedGroupsAreBounded(t *testing.T) {
	const most = 10
	disk := memdisk.New(memdisk.Options{})
	files := partition.NewFiles(disk, 1)
	d, exec := newData(t, disk, func(c *DataConfig) { c.Files, c.UnsyncedMax = files, most })
	for id := vsr.GroupID(1); id <= 100; id++ {
		s := spec(id)
		s.MessagesToSave = 1
		d.Create(s)
		d.store(id, 10)
		drive(d, exec)
		if id%7 == 0 {
			d.Remove(id, func() {})
			drive(d, exec)
		}
		if inUse, _ := files.Open(); inUse > 2*(most+1) {
			t.Fatalf("%d segment files in use after %d groups, the bound is %d groups", inUse, id, most)
		}
	}
	if d.unsynced > most || d.ckpt.number == 0 {
		t.Errorf("%d groups unsynced after checkpoint %d", d.unsynced, d.ckpt.number)
	}
}

// A disk that stays full does not end the node: what is there can be read, and
// checkpoints go on when there is room.
func TestFullDiskIsWaitedOut(t *testing.T) {
	disk := memdisk.New(memdisk.Options{})
	d, exec := newData(t, disk, func(c *DataConfig) { c.WALLimit = 1 })
	d.Create(spec(1))
	disk.Inject(memdisk.Fault{
		Class: memdisk.NoSpace, Ops: memdisk.OpCreate, Times: memdisk.Forever, Match: func(n string) bool { return strings.Contains(n, ".ckpt") },
	})
	d.store(1, 10)
	for d.ckpt.failures <= checkpointFailuresMax { // a failure of the test ends it
		d.Tick()
		drive(d, exec)
	}
	disk.ClearFaults()
	for range checkpointRetryTicksMax {
		d.Tick()
		drive(d, exec)
	}
	if d.ckpt.number == 0 || d.ckpt.failures != 0 {
		t.Errorf("checkpoint %d after %d failures with room again", d.ckpt.number, d.ckpt.failures)
	}
}

// What a removed group has left in the log is freed by the next checkpoint, though
// no group has anything new to check.
func TestLogOfRemovedGroupsIsFreed(t *testing.T) {
	d, exec := newData(t, memdisk.New(memdisk.Options{}), func(c *DataConfig) { c.WALLimit = 300 << 10 })
	d.Create(spec(1))
	for range 7 {
		d.store(1, 40<<10)
		drive(d, exec)
	}
	if files := d.log.Stats().Files; files < 7 {
		t.Fatalf("%d files of the log: too few to show anything", files)
	}
	d.Remove(1, func() {})
	drive(d, exec)
	done := errors.New("not called")
	d.Checkpoint(func(err error) { done = err })
	drive(d, exec)
	if files := d.log.Stats().Files; files > 1 || done != nil || d.ckpt.bytes != 0 {
		t.Errorf("%d files and %d bytes of log after a checkpoint (%v), want one and none", files, d.ckpt.bytes, done)
	}
}

// What is written about groups that are gone follows from the disk and from nothing else.
func TestGroupsThatAreGoneAreForgottenInOrder(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	data, exec := newData(t, d, nil)
	for id := vsr.GroupID(1); id <= 20; id++ {
		data.Create(spec(id))
		data.store(id, 10<<10) // the log begins a second file, so that there is one to free
	}
	drive(data, exec)
	data.Checkpoint(func(error) {})
	drive(data, exec)
	if err := data.Close(); err != nil {
		t.Fatal(err)
	}
	lives := [2]*memdisk.Disk{d.Clone(), d.Clone()}
	for _, d := range lives {
		data, exec := newData(t, d, nil)
		data.Create(spec(21))
		for range 10 {
			data.store(21, 10<<10)
		}
		drive(data, exec)
		data.Checkpoint(func(error) {})
		drive(data, exec)
	}
	if diff := memdisk.Diff(lives[0], lives[1]); diff != "" {
		t.Errorf("two starts of one disk do not write the same: %s", diff)
	}
}

// While checkpoints fail the log grows to a bound, and no further.
func TestLogIsBoundedWhileCheckpointsFail(t *testing.T) {
	disk := memdisk.New(memdisk.Options{})
	const limit = 200 << 10
	d, exec := newData(t, disk, func(c *DataConfig) { c.WALLimit = limit })
	d.Create(spec(1))
	disk.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpCreate, Match: func(name string) bool { return strings.Contains(name, "checkpoint") }, Times: memdisk.Forever})
	stored := 0
	for range 40 {
		answer := d.store(1, 50<<10)
		drive(d, exec)
		if *answer == galgo.CodeOK {
			stored++
		} else if *answer != galgo.CodeTransientNotAccepted {
			t.Fatalf("answer %v, want it taken or refused for now", *answer)
		}
	}
	if most := logLimitFactor*limit/(50<<10) + 2; stored > most || stored < most/2 {
		t.Errorf("%d sends taken without a checkpoint, want at most %d", stored, most)
	}
	disk.ClearFaults()
	for range 200 {
		d.Tick()
		drive(d, exec)
	}
	answer := d.store(1, 50<<10)
	drive(d, exec)
	if *answer != galgo.CodeOK {
		t.Errorf("answer %v once checkpoints work again", *answer)
	}
}
