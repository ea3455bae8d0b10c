package engine

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/config"
	"galgo/internal/disk/memdisk"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/shard"
	"galgo/internal/snapshot"
	"galgo/internal/wire"
)

// filesOf lists the files of a directory with an extension, sorted.
func filesOf(d *memdisk.Disk, dir, ext string) []string {
	return slices.DeleteFunc(d.Names(), func(name string) bool {
		return !strings.HasPrefix(name, dir+"/") || !strings.HasSuffix(name, ext)
	})
}

// The acceptance scenario of a checkpoint that is due by operations: the first
// stream is only in the snapshot, the last only in the log, and both are there.
func TestCheckpointByOperations(t *testing.T) {
	d := healthy()
	c := worldConfig()
	c.Metadata.JournalSlots, c.Metadata.CheckpointMargin = 1024, config.Default().Metadata.CheckpointMargin
	w, err := open(t, d, c, 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	const streams = 1024
	createStreams(t, w, 0, streams)
	snapshots := filesOf(d, "metadata/snapshot", ".snap")
	if len(snapshots) != 1 {
		t.Fatalf("snapshots after %d streams: %v, want one", streams, snapshots)
	}
	logs := filesOf(d, "metadata/wal", ".wal")
	if strings.HasSuffix(logs[0], "0000000001.wal") {
		t.Errorf("the first log file is still there after a checkpoint: %v", logs)
	}
	covered, err := snapshot.NewStore(d, "metadata/snapshot", snapshot.ExtMetadata, nil).List()
	if err != nil {
		t.Fatal(err)
	}
	if first := w.engine.meta.LogFirst(); uint64(first) != covered[0].Number+1 {
		t.Errorf("the log begins at op %d, the snapshot covers op %d", first, covered[0].Number)
	}

	again, err := open(t, d.PowerLoss(nil), c, 2, 2_000_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"stream 0", fmt.Sprintf("stream %d", streams-1)} {
		if _, ok := again.engine.View().Stream(galgo.NamedID(name)); !ok {
			t.Errorf("%q is gone after the restart", name)
		}
	}
	if n := again.engine.View().Counts().Streams; n != streams {
		t.Errorf("%d streams after the restart, want %d", n, streams)
	}
}

func createStreams(t *testing.T, w *world, from, to int) {
	t.Helper()
	if !w.bootstrap() {
		t.Fatal(w.failed)
	}
	s, ok := w.login(galgo.ClientID{byte(from), 7})
	if !ok {
		t.Fatal(w.failed)
	}
	c := &cast{admin: s}
	for i := from; i < to; i++ {
		if !c.call(w, wire.OperationCreateStream, wire.CreateStreamRequest{Name: fmt.Sprintf("stream %d", i)}.Append(nil)) {
			t.Fatalf("stream %d: %v", i, w.failed)
		}
	}
}

// A snapshot is a function of the state: what is read back encodes to the same
// bytes, and so does the state of another node that applied the same log.
func TestSnapshotEncodesToTheSameBytes(t *testing.T) {
	d := healthy()
	w, err := open(t, d, worldConfig(), 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	createStreams(t, w, 0, 20)
	s, _ := w.login(galgo.ClientID{9})
	again, ok := w.call(s, wire.OperationCreateStream, wire.CreateStreamRequest{Name: "stream 0"}.Append(nil))
	view := w.engine.View()
	if n := view.Counts().Streams; !ok || again.Outcome != edge.OutcomeReply || n != 20 {
		t.Fatalf("a stream that exists, created again: %+v, %d streams; want a committed refusal", again, n)
	}
	decoded, err := metadata.Decode(view.EncodeState(), view.EncodeClients())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(decoded.View().EncodeState(), view.EncodeState()) || !bytes.Equal(decoded.View().EncodeClients(), view.EncodeClients()) {
		t.Error("decoded and encoded again, the snapshot has other bytes")
	}
	replayed, err := open(t, d.Kill(), worldConfig(), 9, 5_000_000)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(replayed.engine.View().EncodeState(), view.EncodeState()) || !bytes.Equal(replayed.engine.View().EncodeClients(), view.EncodeClients()) {
		t.Error("replayed from the log, the state has other bytes")
	}
}

// Commits go on while a checkpoint is written: the job that encodes and writes is
// held back, and operations are acknowledged meanwhile.
func TestCommitsGoOnDuringACheckpoint(t *testing.T) {
	w, err := open(t, healthy(), worldConfig(), 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	createStreams(t, w, 0, 5)
	finished := false
	w.engine.meta.Checkpoint(func(err error) {
		if err != nil {
			t.Error(err)
		}
		finished = true
	})
	held := w.loops[0].jobs[shard.LaneCheckpoint]
	w.loops[0].jobs[shard.LaneCheckpoint] = nil
	if len(held) != 1 {
		t.Fatalf("%d checkpoint jobs, want 1", len(held))
	}
	createStreams(t, w, 5, 10)
	if finished {
		t.Fatal("the checkpoint ended before its job ran")
	}
	w.loops[0].jobs[shard.LaneCheckpoint] = held
	w.settle()
	if !finished {
		t.Fatal("the checkpoint did not end")
	}
}

// A request that was answered is answered again, byte for byte, after a restart
// from a checkpoint; one that aged out of the table is refused for good.
func TestRetryAfterRestartGetsTheFirstAnswer(t *testing.T) {
	d := healthy()
	w, err := open(t, d, worldConfig(), 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	w.bootstrap()
	s, _ := w.login(galgo.ClientID{3})
	var requests []edge.MetadataRequest
	var first []edge.MetadataReply
	for i := range 8 {
		req := edge.MetadataRequest{
			Operation: wire.OperationCreateStream, Client: s.id, Session: s.epoch, Request: uint64(i + 1),
			Body: wire.CreateStreamRequest{Name: fmt.Sprint("r", i)}.Append(nil),
		}
		r, ok := w.metadata(req)
		if !ok || r.Outcome != edge.OutcomeReply {
			t.Fatalf("request %d: %+v", i+1, r)
		}
		requests, first = append(requests, req), append(first, r)
		if i == 5 && !w.checkpoint() {
			t.Fatal(w.failed)
		}
	}
	again, err := open(t, d.PowerLoss(nil), worldConfig(), 2, 2_000_000)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(requests) - metadata.RepliesMax; i < len(requests); i++ {
		r, _ := again.metadata(requests[i])
		if r.Outcome != edge.OutcomeReply || !bytes.Equal(r.Body, first[i].Body) || r.Op != first[i].Op || r.Operation != first[i].Operation {
			t.Errorf("request %d again: %+v, the first answer was %+v", i+1, r, first[i])
		}
	}
	if r, _ := again.metadata(requests[0]); r.Outcome != edge.OutcomeResult || r.Code != galgo.CodeRequestAlreadyApplied {
		t.Errorf("request 1 again: %+v, want the refusal of a forgotten answer", r)
	}
	if n := again.engine.View().Counts().Streams; n != 8 {
		t.Errorf("%d streams, want 8: a retry ran twice", n)
	}
}

// A numbered send that is retried over a restart gets the first offset; after a
// purge a new send under a new number is stored.
func TestNumberedSendOverRestartAndPurge(t *testing.T) {
	d := healthy()
	w, err := open(t, d, worldConfig(), 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	c := &cast{}
	for _, s := range script[:4] {
		if !s.run(w, c) {
			t.Fatal(s.name)
		}
	}
	id, group := galgo.ClientID{9}, w.group("s", "t", 0)
	for n, want := range []uint64{0, 1, 2} {
		if r, ok := w.send(group, id, uint64(n+1), fmt.Sprint("m", n)); !ok || r.Base != want {
			t.Fatalf("send %d: %+v", n+1, r)
		}
		if n == 1 && !w.checkpoint() { // the first two come from the checkpoint, the third from the log
			t.Fatal(w.failed)
		}
	}
	again, err := open(t, d.PowerLoss(nil), worldConfig(), 2, 2_000_000)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []uint64{0, 1, 2} {
		if r, ok := again.send(group, id, uint64(n+1), fmt.Sprint("m", n)); !ok || r.Code != galgo.CodeOK || r.Base != want {
			t.Errorf("send %d again: %+v, want base %d", n+1, r, want)
		}
	}
	if all, err := again.poll(group, 0); err != nil || len(all) != 3 {
		t.Fatalf("%q, %v: a retried send was stored again", all, err)
	}
	s, _ := again.login(galgo.ClientID{4})
	if !(&cast{admin: s}).call(again, wire.OperationPurgeTopic, wire.TopicRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t")}.Append(nil)) {
		t.Fatal("purge refused")
	}
	if r, ok := again.send(group, id, 4, "new"); !ok || r.Code != galgo.CodeOK || r.Base != 0 {
		t.Errorf("send after the purge: %+v, want base 0", r)
	}
}
