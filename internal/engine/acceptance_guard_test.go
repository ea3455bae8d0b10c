package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/disk/memdisk"
	"galgo/internal/edge"
	"galgo/internal/shard"
	"galgo/internal/snapshot"
	"galgo/internal/superblock"
	"galgo/internal/vsr"
	"galgo/internal/wal"
	"galgo/internal/wire"
)

// The guards of docs/guards.md that show in a whole node, and that no other test
// would miss.

// A fault that the disk reports destroys nothing: whatever call it hits, the next
// start finds all that was acknowledged, and refuses nothing.
func TestReportedFaultsAreSurvived(t *testing.T) {
	want := expected(t, healthy)
	for name, class := range map[string]memdisk.Class{
		"failed call": memdisk.Fail, "no space": memdisk.NoSpace, "short write": memdisk.ShortWrite, "failed sync": memdisk.SyncFailure,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for k := 1; ; k++ {
				d := healthy()
				d.Inject(memdisk.Fault{Class: class, At: k, Keep: 512, KeepCache: k%2 == 0})
				acknowledged := lifeWithFaults(t, d)
				if d.Fired() == 0 {
					return
				}
				d.ClearFaults()
				after := d.PowerLoss(rand.New(rand.NewPCG(uint64(k), 6)))
				if got := survivedOrNamed(t, after, want, acknowledged, fmt.Sprintf("%s at call %d", name, k)); got != "recovered" {
					t.Fatalf("%s at call %d, in step %q: %s", name, k, stepName(acknowledged), got)
				}
			}
		})
	}
}

// The order of a metadata checkpoint, as the disk sees it: snapshot in its place,
// superblock that names it in its place; and only then what they make superfluous
// goes: files of the log, older snapshots.
func TestOrderOfAMetadataCheckpoint(t *testing.T) {
	d := memdisk.New(memdisk.Options{Trace: true})
	w, err := open(t, d, worldConfig(), 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 { // two older generations, and files of the log to free
		createLongStreams(t, w, round, 400)
		if round < 2 && !w.checkpoint() {
			t.Fatal(w.failed)
		}
	}
	before := len(d.Trace())
	if !w.checkpoint() {
		t.Fatal(w.failed)
	}
	calls := d.Trace()[before:]
	at := 0
	next := func(what string, op memdisk.Op, prefix, suffix string) {
		t.Helper()
		i := callOf(calls[at:], op, prefix, suffix)
		if i < 0 {
			t.Fatalf("%s: not seen behind call %d of %v", what, at, calls)
		}
		at += i + 1
	}
	next("snapshot synced", memdisk.OpSync, "metadata/snapshot/", ".snap.tmp")
	next("snapshot renamed", memdisk.OpRename, "metadata/snapshot/", ".snap.tmp")
	next("directory of the snapshot synced", memdisk.OpSyncDir, "metadata/snapshot", "")
	next("superblock synced", memdisk.OpSync, "metadata/superblock", "")
	next("superblock renamed", memdisk.OpRename, "metadata/superblock", ".tmp")
	next("directory of the superblock synced", memdisk.OpSyncDir, "metadata", "metadata")
	for what, i := range map[string]int{
		"file of the log freed":  callOf(calls, memdisk.OpRename|memdisk.OpRemove, "metadata/wal/", ".wal"),
		"older snapshot removed": callOf(calls, memdisk.OpRemove, "metadata/snapshot/", ".snap"),
	} {
		if i < at {
			t.Errorf("%s at call %d; all that must come before is done at call %d of %v", what, i, at, calls)
		}
	}
}

func callOf(calls []memdisk.Call, op memdisk.Op, prefix, suffix string) int {
	return slices.IndexFunc(calls, func(c memdisk.Call) bool {
		return c.Op&op != 0 && strings.HasPrefix(c.Name, prefix) && strings.HasSuffix(c.Name, suffix)
	})
}

// createLongStreams makes the log of the metadata grow by some 400 bytes each.
func createLongStreams(t *testing.T, w *world, round, n int) {
	t.Helper()
	if !w.bootstrap() {
		t.Fatal(w.failed)
	}
	s, ok := w.login(galgo.ClientID{byte(round), 8})
	if !ok {
		t.Fatal(w.failed)
	}
	c := &cast{admin: s}
	for i := range n {
		name := fmt.Sprintf("%d %d %s", round, i, strings.Repeat("x", 200))
		if !c.call(w, wire.OperationCreateStream, wire.CreateStreamRequest{Name: name}.Append(nil)) {
			t.Fatalf("stream %d: %v", i, w.failed)
		}
	}
}

// Operations that come while a snapshot is written are above it: they stay in the
// log, and a start applies them to it. There is one checkpoint at a time.
func TestOperationsDuringAMetadataCheckpoint(t *testing.T) {
	d := healthy()
	w, err := open(t, d, worldConfig(), 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	createLongStreams(t, w, 0, 10)
	ended := 0
	for range 2 {
		w.engine.meta.Checkpoint(func(error) { ended++ })
	}
	if n := len(w.loops[0].jobs[shard.LaneCheckpoint]); n != 1 {
		t.Fatalf("%d checkpoint jobs, want one", n)
	}
	release := w.hold(0, shard.LaneCheckpoint)
	createLongStreams(t, w, 1, 400) // several files of the log
	release()
	w.settle()
	if ended != 2 {
		t.Fatalf("%d of 2 callers heard of the end", ended)
	}
	again, err := open(t, d.PowerLoss(nil), worldConfig(), 2, 2_000_000)
	if err != nil {
		t.Fatal(err)
	}
	if n := again.engine.View().Counts().Streams; n != 410 {
		t.Errorf("%d streams after a restart, want 410", n)
	}
}

// A checkpoint of the metadata in which a step fails counts for nothing.
func TestMetadataCheckpointThatFails(t *testing.T) {
	for _, part := range []string{".snap", "superblock"} {
		for _, fault := range []memdisk.Fault{
			{Class: memdisk.NoSpace, Ops: memdisk.OpWrite}, {Class: memdisk.SyncFailure, Ops: memdisk.OpSync}, {Class: memdisk.Fail, Ops: memdisk.OpRename},
		} {
			d := healthy()
			w, err := open(t, d, worldConfig(), 1, 1_000_000)
			if err != nil {
				t.Fatal(err)
			}
			createLongStreams(t, w, 0, 400)
			fault.Match = func(name string) bool { return strings.Contains(name, part) }
			d.Inject(fault)
			outcome := error(nil)
			w.run(func(done func()) {
				w.loops[0].Post(func() { w.engine.meta.Checkpoint(func(err error) { outcome = err; done() }) })
			})
			if outcome == nil || d.Fired() != 1 || w.engine.meta.LogFirst() != 1 {
				t.Errorf("%s, %v: checkpoint ended with %v, the log begins at op %d", part, fault.Ops, outcome, w.engine.meta.LogFirst())
			}
			again, err := open(t, d.Clone().PowerLoss(nil), worldConfig(), 2, 2_000_000)
			if err != nil {
				t.Fatalf("%s, %v: %v", part, fault.Ops, err)
			}
			if n := again.engine.View().Counts().Streams; n != 400 {
				t.Errorf("%s, %v: %d streams after a restart, want 400", part, fault.Ops, n)
			}
		}
	}
}

// checkpointPause is the longest wait between two attempts, in ticks.
const checkpointPause = 100

// Checkpoints of the metadata that keep failing stop the node in the end.
func TestMetadataCheckpointsThatKeepFailing(t *testing.T) {
	d := healthy()
	c := worldConfig()
	c.Metadata.JournalSlots, c.Metadata.CheckpointMargin = 256, 255
	d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpRename, Times: memdisk.Forever, Match: func(name string) bool { return strings.Contains(name, ".snap") }})
	w, err := open(t, d, c, 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	w.patience = checkpointPause / 2 // less than between two attempts: each settle ends
	w.bootstrap()
	for ticks := 0; w.failed == nil && ticks < 100_000; ticks += w.patience {
		w.settle()
	}
	if !errors.Is(w.failed, shard.ErrCheckpointWedged) {
		t.Errorf("%v, want %v", w.failed, shard.ErrCheckpointWedged)
	}
}

// What a client is told is there for whoever reads next, and what it created can
// be used at once.
func TestAnswersComeAfterWhatTheySay(t *testing.T) {
	w, err := open(t, healthy(), worldConfig(), 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	w.bootstrap()
	s, _ := w.login(galgo.ClientID{1})
	answered := 0
	ask := func(op wire.Operation, body []byte, check func() bool) {
		s.request++
		w.engine.Metadata(edge.MetadataRequest{Operation: op, Client: s.id, Session: s.epoch, Request: s.request, Body: body}, func(r edge.MetadataReply) {
			answered++
			if !check() {
				t.Errorf("operation %v is answered before it shows", op)
			}
			if w.engine.CommitOp() < r.Op {
				t.Errorf("operation %v is answered at op %d, readers are at op %d", op, r.Op, w.engine.CommitOp())
			}
		})
		w.settle()
	}
	ask(wire.OperationCreateStream, wire.CreateStreamRequest{Name: "s"}.Append(nil), func() bool {
		_, ok := w.engine.View().Stream(galgo.NamedID("s"))
		return ok
	})
	ask(wire.OperationCreateTopic, wire.CreateTopicRequest{Stream: galgo.NamedID("s"), Partitions: 3, Name: "t"}.Append(nil), func() bool {
		return len(w.engine.data[0].Groups()) == 3
	})
	ask(wire.OperationDeleteTopic, topicBody("t"), func() bool { return len(w.engine.data[0].Groups()) == 0 })
	if answered != 3 {
		t.Fatalf("%d answers (%v)", answered, w.failed)
	}
}

// A client has one metadata request under way, so that its numbers commit in order.
func TestOneMetadataRequestOfAClient(t *testing.T) {
	w, err := open(t, healthy(), worldConfig(), 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	w.bootstrap()
	s, _ := w.login(galgo.ClientID{1})
	var answers []edge.MetadataReply
	for n := range uint64(2) {
		w.engine.Metadata(edge.MetadataRequest{
			Operation: wire.OperationCreateStream, Client: s.id, Session: s.epoch, Request: n + 1, Body: wire.CreateStreamRequest{Name: fmt.Sprint(n)}.Append(nil),
		}, func(r edge.MetadataReply) { answers = append(answers, r) })
	}
	w.settle()
	if len(answers) != 2 || answers[0].Code != galgo.CodeTransientNotCommitted || answers[1].Outcome != edge.OutcomeReply {
		t.Errorf("answers %+v; want the second to wait and the first to run", answers)
	}
}

// The files of partitions that were deleted go at the next start.
func TestDirectoriesOfDeletedPartitionsGoAtStart(t *testing.T) {
	d := rested(t)
	const dead = "groups/00000000000000000001/00000000000000000000.log"
	d.Put(dead, []byte("x"))
	w, err := open(t, d, worldConfig(), 2, 2_000_000)
	if err != nil {
		t.Fatal(err)
	}
	if names := d.PowerLoss(nil).Names(); slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "groups/00000000000000000001") }) {
		t.Errorf("left after a start: %v", names)
	}
	_ = w
}

// More ways in which the parts of a directory can contradict each other, and what
// is said of them (see TestRefusals).
func TestPartsOfDifferentTimes(t *testing.T) {
	type times struct{ atSnapshot, atEnd *memdisk.Disk } // of one node, stopped at two moments
	lived := func(t *testing.T) times {
		d := healthy()
		w, err := open(t, d, worldConfig(), 1, 1_000_000)
		if err != nil {
			t.Fatal(err)
		}
		createLongStreams(t, w, 0, 10)
		if !w.checkpoint() {
			t.Fatal(w.failed)
		}
		createLongStreams(t, w, 1, 300) // so that the first file of the log can go
		w.engine.meta.Checkpoint(func(error) {})
		release := w.hold(0, shard.LaneCheckpoint)
		early := d.Clone()
		createLongStreams(t, w, 2, 300) // committed while the checkpoint is under way
		release()
		w.settle()
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		// The first start after the log was freed copies the mark that says so; those
		// behind it find nothing to do.
		if w, err = open(t, d, worldConfig(), 1, 1_500_000); err == nil {
			err = w.close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return times{early, d}
	}
	replace := func(d, from *memdisk.Disk, dir string) {
		for _, name := range filesOf(d, dir, "") {
			d.Delete(name)
		}
		for _, name := range filesOf(from, dir, "") {
			if from.Bytes(name) != nil {
				d.Put(name, from.Bytes(name))
			}
		}
	}
	newest := func(d *memdisk.Disk) string {
		names := filesOf(d, "metadata/snapshot", ".snap")
		return names[len(names)-1]
	}
	reheaded := func(t *testing.T, d *memdisk.Disk, change func(h *snapshot.Header, head *vsr.Prepare)) {
		name := newest(d)
		s, err := snapshot.Decode(name, d.Bytes(name))
		if err != nil {
			t.Fatal(err)
		}
		h, err := vsr.DecodeHeader(s.Sections[0].Data[0])
		if err != nil {
			t.Fatal(err)
		}
		p := vsr.Prepare{Header: h}
		change(&s.Header, &p)
		s.Sections[0].Data = [][]byte{p.AppendHeader(nil)}
		b, err := snapshot.Encode(s.Header, s.Sections)
		if err != nil {
			t.Fatal(err)
		}
		d.Put(name, b)
		pairWith(t, d, name)
	}
	for _, r := range []struct {
		name string
		hurt func(t *testing.T, l times)
		want error
		says []string
	}{
		{"log that ends before the checkpoint", func(t *testing.T, l times) {
			young := healthy()
			w, err := open(t, young, worldConfig(), 1, 1_000_000)
			if err != nil {
				t.Fatal(err)
			}
			createLongStreams(t, w, 0, 3)
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			replace(l.atEnd, young, "metadata/wal")
		}, shard.ErrLogShort, []string{"metadata/wal", "checkpoint", "restore"}},
		{"log that ends before what the superblock knows as committed", func(t *testing.T, l times) {
			replace(l.atEnd, l.atSnapshot, "metadata/wal")
		}, shard.ErrLogShort, []string{"metadata/wal", "committed", "restore"}},
		{"log that begins behind the checkpoint", func(t *testing.T, l times) {
			l.atEnd.Delete(newest(l.atEnd))
			name := newest(l.atEnd)
			s, err := snapshot.Decode(name, l.atEnd.Bytes(name))
			if err != nil {
				t.Fatal(err)
			}
			rewriteSuperblock(t, l.atEnd, func(state superblock.State) []byte {
				state.CheckpointOp, state.CheckpointSum = s.Header.Op, s.Sum
				return state.Append(nil)
			})
		}, shard.ErrLogGap, []string{"metadata/wal", "checkpoint", "restore"}},
		{"another operation in the log at the op of the checkpoint", func(t *testing.T, l times) {
			reheaded(t, l.atEnd, func(_ *snapshot.Header, head *vsr.Prepare) { head.Timestamp++; head.Seal() })
		}, shard.ErrLogForks, []string{"metadata/wal", "in the log", "in the checkpoint"}},
		{"snapshot of another cluster", func(t *testing.T, l times) {
			reheaded(t, l.atEnd, func(h *snapshot.Header, _ *vsr.Prepare) { h.Cluster[0] ^= 1 })
		}, snapshot.ErrForeign, []string{".snap", "cluster"}},
		{"snapshot of a partition", func(t *testing.T, l times) {
			reheaded(t, l.atEnd, func(h *snapshot.Header, _ *vsr.Prepare) { h.Group = 3 })
		}, snapshot.ErrForeign, []string{".snap", "group"}},
		{"no snapshot at all", func(t *testing.T, l times) {
			for _, name := range filesOf(l.atEnd, "metadata/snapshot", ".snap") {
				l.atEnd.Delete(name)
			}
		}, superblock.ErrCheckpointAhead, []string{"restore"}},
	} {
		t.Run(r.name, func(t *testing.T) {
			l := lived(t)
			r.hurt(t, l)
			before := l.atEnd.Clone()
			_, err := open(t, l.atEnd, worldConfig(), 2, 2_000_000)
			if !errors.Is(err, r.want) {
				t.Fatalf("got %v\nwant an error that wraps: %v", err, r.want)
			}
			for _, s := range r.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("the message does not say %q:\n%v", s, err)
				}
			}
			if diff := memdisk.Diff(before, l.atEnd); diff != "" {
				t.Errorf("the refusal changed the disk: %s", diff)
			}
		})
	}
}

// A directory without FORMAT is formatted only if nothing was ever done in it.
func TestNoFormattingOverWhatWasDone(t *testing.T) {
	bootstrapped := func(t *testing.T) *memdisk.Disk { // no snapshot, no partition: logs alone
		d := healthy()
		w, err := open(t, d, worldConfig(), 1, 1_000_000)
		if err != nil || !w.bootstrap() {
			t.Fatal(err)
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		d.Delete("FORMAT")
		return d
	}
	formatted := func(t *testing.T) *memdisk.Disk { // formatted, and nothing else
		d := healthy()
		if _, err := open(t, d, worldConfig(), 1, 1_000_000); err != nil {
			t.Fatal(err)
		}
		d.Delete("FORMAT")
		return d
	}
	for _, r := range []struct {
		name string
		disk func(t *testing.T) *memdisk.Disk
		hurt func(t *testing.T, d *memdisk.Disk)
		want error
		says []string
	}{
		{"log with records", bootstrapped, func(*testing.T, *memdisk.Disk) {}, shard.ErrFormatLost, []string{"FORMAT", "metadata/wal", "records"}},
		{"superblock that is not the first", formatted, func(t *testing.T, d *memdisk.Disk) {
			rewriteSuperblock(t, d, func(s superblock.State) []byte { s.View = 1; return s.Append(nil) })
		}, shard.ErrFormatLost, []string{"FORMAT", "superblock"}},
		{"superblock that cannot be read", formatted, flipped("metadata/superblock.a"), superblock.ErrUnreadable, []string{"superblock.a"}},
		{"nothing but a superblock that cannot be read", func(*testing.T) *memdisk.Disk { return healthy() }, func(t *testing.T, d *memdisk.Disk) {
			d.Put("metadata/superblock.a", []byte("not a superblock"))
		}, superblock.ErrUnreadable, []string{"superblock.a"}},
		{"nothing but a log that cannot be read", func(*testing.T) *memdisk.Disk { return healthy() }, func(t *testing.T, d *memdisk.Disk) {
			d.Put("metadata/wal/00000000000000000001.wal", []byte("not a log"))
		}, wal.ErrDamaged, []string{"00000000000000000001.wal"}},
		{"segment", formatted, func(t *testing.T, d *memdisk.Disk) {
			d.Put("groups/00000000000000000001/00000000000000000000.log", []byte("x"))
		}, shard.ErrFormatLost, []string{"groups/"}},
		{"snapshot", formatted, func(t *testing.T, d *memdisk.Disk) { d.Put("metadata/snapshot/00000000000000000003.snap", []byte("x")) },
			shard.ErrFormatLost, []string{"metadata/snapshot/"}},
	} {
		t.Run(r.name, func(t *testing.T) {
			d := r.disk(t)
			r.hurt(t, d)
			refuses(t, d, r.want, r.says)
		})
	}
	t.Run("nothing was done", func(t *testing.T) {
		if _, err := open(t, formatted(t), worldConfig(), 2, 2_000_000); err != nil {
			t.Errorf("formatting that was cut short is not done again: %v", err)
		}
	})
}
