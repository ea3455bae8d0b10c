package partition

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"galgo"
	"galgo/internal/disk/memdisk"
	"galgo/internal/wire"
)

// TestWholeRecordsAreServedAsStored: no copy from memory, and the stored bytes
// from disk; cut records keep base offset, times and frames.
func TestWholeRecordsAreServedAsStored(t *testing.T) {
	r := newRig(t, smallConfig(newDisk()))
	for range 3 {
		r.send(4, 30)
	}
	var p Plan
	var reply Reply
	r.m.Poll(PollRequest{Strategy: galgo.FromOffset(2), Count: 8}, &p)
	if err := p.Read(&reply); err != nil {
		t.Fatal(err)
	}
	// 2 cut off the first, 4, 2 of the last: header, frames, record, header, frames
	if len(reply.Chunks) != 5 || &reply.Chunks[2][0] != &r.log[1].Body[0] {
		t.Fatalf("%d chunks, the middle one copied: %v", len(reply.Chunks), len(reply.Chunks) == 5)
	}
	stored := wire.Batch(r.log[0].Body)
	cut := wire.Batch(slices.Concat(reply.Chunks[0], reply.Chunks[1]))
	if cut.BaseOffset() != stored.BaseOffset() || cut.BaseTimestamp() != stored.BaseTimestamp() || cut.OriginTimestamp() != stored.OriginTimestamp() {
		t.Fatalf("cut record at offset %d, times %d, %d; stored %d, %d, %d", cut.BaseOffset(), cut.BaseTimestamp(), cut.OriginTimestamp(),
			stored.BaseOffset(), stored.BaseTimestamp(), stored.OriginTimestamp())
	}
	if !slices.Equal(reply.Chunks[1], stored[len(stored)-len(reply.Chunks[1]):]) {
		t.Fatal("the frames of a cut record are not those stored")
	}
}

func TestReplyKeepsToItsBytes(t *testing.T) {
	for _, where := range []string{"memory", "disk"} {
		r := newRig(t, smallConfig(newDisk()))
		for i := range 12 {
			r.send(1+i%4, 150)
		}
		if where == "disk" {
			r.must(r.save())
			r.m.Trim(0)
		}
		all := r.poll(galgo.FromFirst(), 1000)
		for limit := 1; limit < 6000; limit += 37 {
			for start := uint64(0); start < r.m.NextOffset(); start += 3 {
				var p Plan
				var reply Reply
				req := PollRequest{Strategy: galgo.FromOffset(start), Count: 1000, Bytes: limit}
				r.m.Poll(req, &p)
				err := p.Read(&reply)
				got, bad := decodeReply(&p, &reply, req)
				switch {
				case err != nil || bad != nil:
					t.Fatalf("%s, %d bytes from %d: %v, %v", where, limit, start, err, bad)
				case reply.Count == 0 || reply.Count > 1 && reply.Bytes > limit:
					t.Fatalf("%s, %d bytes from %d: %d messages in %d bytes", where, limit, start, reply.Count, reply.Bytes)
				case !slices.Equal(got, all[start:start+uint64(len(got))]):
					t.Fatalf("%s, %d bytes from %d: got %v", where, limit, start, got)
				}
			}
		}
	}
}

// TestPlansOutliveWhatHappens: a plan answers as of its moment, or says that it
// is stale; it never shows an end that is not there.
func TestPlansOutliveWhatHappens(t *testing.T) {
	req := PollRequest{Strategy: galgo.FromFirst(), Count: 1000}
	events := []struct {
		name  string
		do    func(r *rig)
		stale bool
	}{
		{"more sends, rolls and writes", func(r *rig) { r.must(sendAndWrite(r, 30, 300)); r.must(r.save()); r.m.Trim(0) }, false},
		{"purged, files still there", func(r *rig) { r.purge(1) }, false},
		{"purged and removed", func(r *rig) { r.purge(1); r.must(r.save()) }, true},
		{"truncated and removed", func(r *rig) { r.truncate(r.m.segments[1].last); r.must(r.save()) }, true},
		{"group removed", func(r *rig) { j := r.m.Remove(); r.must(j.Run()) }, true},
	}
	for _, e := range events {
		t.Run(e.name, func(t *testing.T) {
			r, _ := settledRig(t)
			r.send(3, 40) // and something in memory
			r.m.cfg.Files.Close()
			want := r.poll(galgo.FromFirst(), 1000)
			r.m.cfg.Files.Close()
			var p Plan
			r.m.Poll(req, &p)
			e.do(r)
			var reply Reply
			err := p.Read(&reply)
			if e.stale {
				if !errors.Is(err, ErrStale) || reply.Count != 0 || len(reply.Chunks) != 0 {
					t.Fatalf("read says %v with %d messages, want ErrStale and none", err, reply.Count)
				}
				return
			}
			got, bad := decodeReply(&p, &reply, req)
			if err != nil || bad != nil || !slices.Equal(got, want) {
				t.Fatalf("read says %v, %v: %d messages, want the %d of the plan", err, bad, len(got), len(want))
			}
		})
	}
}

// TestReadWhileTheWriteIsUnderWay: from its commit on a message can be read,
// also while it is being written and after a write that failed.
func TestReadWhileTheWriteIsUnderWay(t *testing.T) {
	d := newDisk()
	cfg := smallConfig(d)
	cfg.TailBytes = -1
	r := newRig(t, cfg)
	last := func(what string) {
		t.Helper()
		end := r.m.NextOffset()
		if got := r.poll(galgo.FromOffset(end-1), 5); len(got) != 1 || got[0].offset != end-1 {
			t.Fatalf("%s: polled %v, want offset %d", what, got, end-1)
		}
		if got := r.poll(galgo.FromFirst(), 1000); uint64(len(got)) != end {
			t.Fatalf("%s: polled %d messages, want %d", what, len(got), end)
		}
	}
	for round := range 12 {
		r.send(2, 200)
		j := r.m.NextWrite(true)
		last("job handed out")
		r.send(1, 300)
		if round%3 == 1 {
			d.Inject(memdisk.Fault{Class: memdisk.ShortWrite, Keep: 77})
		}
		err := j.Run()
		last("job has run")
		r.m.WriteDone(j, err)
		last("job is done")
		d.ClearFaults()
	}
}

// TestManyTinyBatchesInOneWrite is what one flush of a busy partition looks like.
func TestManyTinyBatchesInOneWrite(t *testing.T) {
	d := newDisk()
	cfg := Config{Group: testGroup, Partition: testPartition, Disk: d, MessagesToSave: 1 << 20, BytesToSave: 1 << 30, TailBytes: -1}
	r := newRig(t, cfg)
	var want []byte
	for range 5000 {
		r.send(1, 1)
		want = append(want, r.log[len(r.log)-1].Body...)
	}
	if r.m.NextWrite(false) != nil {
		t.Fatal("a write is due below the thresholds")
	}
	r.must(r.write(true))
	if got := d.Bytes(r.m.segments[0].logName); !slices.Equal(got, want) {
		t.Fatalf("the log has %d bytes, want the 5000 records in %d", len(got), len(want))
	}
	if got := r.poll(galgo.FromFirst(), 10000); len(got) != 5000 {
		t.Fatalf("polled %d messages of 5000", len(got))
	}
	r.must(r.save())
	r.must(r.reopen(d.Kill()))
	if got := r.poll(galgo.FromOffset(4321), 2); len(got) != 2 || got[0].number != 4321 {
		t.Fatalf("polled %v", got)
	}
}

// TestReadersBesideTheLoop reads plans on other goroutines while the loop sends,
// rolls, writes, purges, truncates and removes, and jobs run beside both.
func TestReadersBesideTheLoop(t *testing.T) {
	d := newDisk()
	cfg := smallConfig(d)
	cfg.Files = NewFiles(d, 2)
	r := newRig(t, cfg)
	type ask struct {
		plan *Plan
		req  PollRequest
	}
	plans := make(chan ask, 4)
	bad := make(chan error, 4)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			var reply Reply
			for a := range plans {
				err := a.plan.Read(&reply)
				if err == nil {
					_, err = decodeReply(a.plan, &reply, a.req)
				}
				if err != nil && !errors.Is(err, ErrStale) {
					select {
					case bad <- fmt.Errorf("%+v: %w", a.req, err):
					default:
					}
				}
			}
		})
	}
	rng := seeded(5)
	for i := range 400 {
		r.send(1+rng.IntN(4), 50+rng.IntN(400))
		switch i % 97 {
		case 90:
			r.purge(uint64(i))
		case 50, 70:
			r.truncate(r.m.low + uint64(rng.IntN(30)))
		}
		finish := r.startJobBeside(i)
		for range 3 {
			a := ask{new(Plan), PollRequest{Strategy: galgo.FromOffset(uint64(rng.IntN(200))), Count: uint32(rng.IntN(60))}}
			if rng.IntN(3) == 0 {
				a.req.Strategy = galgo.FromTimestamp(r.time - uint64(rng.IntN(1000)))
			}
			r.m.Poll(a.req, a.plan)
			plans <- a
		}
		finish()
	}
	for r.m.Remove() == nil {
		t.Fatal("no removal, though no job is in flight")
	}
	r.must(r.m.removing.Run())
	close(plans)
	readers.Wait()
	select {
	case err := <-bad:
		t.Fatal(err)
	default:
	}
}

// startJobBeside runs a job on a goroutine; the function returned waits for it.
func (r *rig) startJobBeside(i int) (finish func()) {
	var run func() error
	var done func(error)
	if i%11 == 10 {
		j := r.m.BeginCheckpoint()
		run, done = j.Run, func(err error) { r.m.SyncDone(j, err); r.m.Settled(j.Checkpoint().Op) }
	} else if j := r.m.NextRemove(); j != nil {
		run, done = j.Run, func(err error) { r.m.RemoveDone(j, err) }
	} else if j := r.m.NextWrite(i%3 == 0); j != nil {
		run, done = j.Run, func(err error) { r.m.WriteDone(j, err) }
	} else {
		return func() {}
	}
	result := make(chan error)
	go func() { result <- run() }()
	return func() {
		err := <-result
		done(err)
		r.must(err)
	}
}

// TestSearchReadsFewEntries: an index is searched where it lies, whatever its size.
func TestSearchReadsFewEntries(t *testing.T) {
	d := newDisk()
	r := newRig(t, Config{Group: testGroup, Partition: testPartition, Disk: d, IndexInterval: indexIntervalMin, TailBytes: -1})
	for range 3000 {
		r.send(1, 8)
	}
	r.must(r.save())
	if n := r.m.segments[0].onDisk; n != 3000 {
		t.Fatalf("%d index entries in the file alone, want 3000", n)
	}
	before := d.Reads()
	for _, offset := range []uint64{0, 1234, 2999} {
		if got := r.poll(galgo.FromOffset(offset), 1); len(got) != 1 || got[0].number != offset {
			t.Fatalf("polled %v, want offset %d", got, offset)
		}
	}
	// each: 12 entries, the header of the record found, the record; two opens in all
	if reads := d.Reads() - before; reads > 3*14+2 {
		t.Fatalf("three polls made %d reads, want at most 44", reads)
	}
}

func TestFilesAreSharedAndBounded(t *testing.T) {
	d := newDisk()
	for i := range 5 {
		d.Put(fmt.Sprint("f", i), []byte{byte(i)})
	}
	f := NewFiles(d, 2)
	a, _ := f.acquire("f0")
	b, _ := f.acquire("f0")
	if a != b {
		t.Fatal("two users of a file have a file each")
	}
	a.release()
	for i := 1; i < 5; i++ {
		o, err := f.acquire(fmt.Sprint("f", i))
		if err != nil {
			t.Fatal(err)
		}
		o.release()
	}
	if used, idle := f.Open(); used != 1 || idle != 2 {
		t.Fatalf("%d files in use and %d idle, want 1 and 2", used, idle)
	}
	f.drop("f0")
	if got := make([]byte, 1); true {
		if _, err := b.ReadAt(got, 0); err != nil {
			t.Fatalf("a dropped file that is in use: %v", err)
		}
	}
	b.release()
	if _, err := b.ReadAt(make([]byte, 1), 0); err == nil {
		t.Fatal("a dropped file is open after its last user has gone")
	}
	f.Close()
	if used, idle := f.Open(); used+idle != 0 {
		t.Fatalf("%d files open after close", used+idle)
	}
	var none *openFile
	none.release()
}

func TestCloseMakesPlansStaleAndWaitsForJobs(t *testing.T) {
	r, _ := settledRig(t)
	r.send(1, 8)
	j := r.m.NextWrite(true)
	if err := r.m.Close(); err == nil || r.m.Remove() != nil {
		t.Fatalf("closed or removed with a job in flight: %v", err)
	}
	r.m.WriteDone(j, j.Run())
	r.must(r.m.Close())
	if used, _ := r.m.cfg.Files.Open(); used != 0 || r.m.NextWrite(true) != nil || r.m.BeginCheckpoint() != nil {
		t.Fatalf("after close %d files are in use, or jobs go on", used)
	}
}
