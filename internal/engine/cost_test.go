package engine

import (
	"fmt"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/shard"
	"galgo/internal/wire"
)

// withTopic is a world with stream s, topic t and one partition.
func withTopic(t testing.TB, d disk.Disk) (*world, uint64) {
	t.Helper()
	config := worldConfig()
	config.WAL.FileSize = 64 << 20 // no file is made on the way
	w, err := open(t, d, config, 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	c := &cast{}
	for _, s := range script[:4] {
		if !s.run(w, c) {
			t.Fatalf("%s: %v", s.name, w.failed)
		}
	}
	return w, w.group("s", "t", 0)
}

// The whole way of a send through the node, from the edge's hand-over to its
// answer, and of a poll to its plan: as many allocations for a thousand messages
// as for one.
func TestAllocationsDoNotGrowWithMessages(t *testing.T) {
	measure := func(messages int) (send, poll float64) {
		// The system's files: a disk in memory allocates for each sector.
		d, err := disk.OpenOS(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		w, group := withTopic(t, d)
		payloads := make([]string, messages)
		for i := range payloads {
			payloads[i] = "x"
		}
		const runs = 50
		batches := make([][]byte, 0, runs+1)
		for range runs + 1 {
			batches = append(batches, batchOf(payloads...))
		}
		send = testing.AllocsPerRun(runs, func() {
			batch := batches[0]
			batches = batches[1:]
			ok := false
			w.engine.Send(edge.SendRequest{Group: group, Batch: batch, Count: uint32(messages)}, func(r edge.SendReply) { ok = r.Code == galgo.CodeOK })
			for range 4 {
				w.step()
			}
			if !ok {
				t.Fatal("a send is not answered")
			}
		})
		var plan partition.Plan
		var reply partition.Reply
		poll = testing.AllocsPerRun(runs, func() {
			w.engine.Poll(edge.PollRequest{Group: group, Strategy: galgo.FromOffset(0), Count: uint32(messages), Plan: &plan}, func(edge.PollReply) {})
			w.step()
			if err := plan.Read(&reply); err != nil || reply.Count != uint32(messages) {
				t.Fatalf("%d messages, %v", reply.Count, err)
			}
		})
		return send, poll
	}
	send1, poll1 := measure(1)
	send1000, poll1000 := measure(1000)
	t.Logf("allocations per batch: send %.0f (1 message), %.0f (1000); poll %.0f, %.0f", send1, send1000, poll1, poll1000)
	// More bytes make segment writes due more often; that is per megabyte.
	const slack = 16
	if send1000 > send1+slack || poll1000 > poll1+slack {
		t.Errorf("a batch of 1000 costs more allocations than one of 1: send %.0f and %.0f, poll %.0f and %.0f", send1000, send1, poll1000, poll1)
	}
}

// Group commit: operations of many clients that wait at the same time share syncs.
func TestOperationsThatWaitShareASync(t *testing.T) {
	syncs := 0
	d := memdisk.New(memdisk.Options{OnCall: func(c memdisk.Call) {
		if c.Op == memdisk.OpSync && strings.HasPrefix(c.Name, "metadata/wal/") {
			syncs++
		}
	}})
	w, err := open(t, d, worldConfig(), 1, 1_000_000)
	if err != nil || !w.bootstrap() {
		t.Fatal(err, w.failed)
	}
	const clients = 64
	sessions := make([]*session, clients)
	for i := range sessions {
		s, ok := w.login(galgo.ClientID{byte(i + 1)})
		if !ok {
			t.Fatal(w.failed)
		}
		sessions[i] = s
	}
	answered, before := 0, syncs
	for i, s := range sessions {
		s.request++
		w.engine.Metadata(edge.MetadataRequest{
			Operation: wire.OperationCreateStream, Client: s.id, Session: s.epoch, Request: s.request,
			Body: wire.CreateStreamRequest{Name: fmt.Sprint("s", i)}.Append(nil),
		}, func(r edge.MetadataReply) {
			if r.Outcome == edge.OutcomeReply {
				answered++
			}
		})
	}
	for answered < clients && w.failed == nil {
		if !w.step() {
			t.Fatalf("stuck after %d answers", answered)
		}
	}
	if perSync := float64(clients) / float64(syncs-before); perSync < 10 {
		t.Errorf("%d operations took %d syncs: %.1f a sync, want at least 10", clients, syncs-before, perSync)
	}
}

// A thousand clients that ask at once wait for room in the pipeline instead of being sent
// away to come again. What waits is bounded all the same, and all that was taken is
// answered.
func TestMetadataRequestsThatWaitAreBounded(t *testing.T) {
	w, err := open(t, healthy(), worldConfig(), 1, 1_000_000)
	if err != nil || !w.bootstrap() {
		t.Fatal(err, w.failed)
	}
	const asked, room = 5000, 4096
	answered, refused := 0, 0
	w.loops[0].Post(func() {
		for range asked {
			w.engine.meta.Submit(shard.MetadataRequest{Operation: metadata.OperationSweepTokens}, func(r shard.MetadataReply) {
				switch {
				case r.Outcome == shard.OutcomeReply:
					answered++
				case r.Code == galgo.CodeTransientNotAccepted:
					refused++
				default:
					t.Errorf("answered %+v", r)
				}
			})
		}
		if refused != asked-room || answered > 0 {
			t.Errorf("of %d at once %d are refused, %d answered; want %d and 0", asked, refused, answered, asked-room)
		}
	})
	for answered+refused < asked && w.failed == nil {
		if !w.step() {
			t.Fatalf("stuck after %d answers", answered)
		}
	}
	if answered != room {
		t.Errorf("%d are answered, want %d", answered, room)
	}
}

// What has been put into the log is not counted as waiting any more: of bodies that come
// one after the other any number of bytes is taken.
func TestMetadataRequestsThatLeaveMakeRoom(t *testing.T) {
	w, err := open(t, healthy(), worldConfig(), 1, 1_000_000)
	if err != nil || !w.bootstrap() {
		t.Fatal(err, w.failed)
	}
	body := make([]byte, 4<<20)
	for n := range 6 {
		answered := 0
		w.loops[0].Post(func() {
			for range 2 {
				w.engine.meta.Submit(shard.MetadataRequest{Operation: metadata.OperationSweepTokens, Body: body}, func(r shard.MetadataReply) {
					if r.Outcome != shard.OutcomeReply {
						t.Errorf("after %d times: %+v", n, r)
					}
					answered++
				})
			}
		})
		for answered < 2 && w.failed == nil {
			if !w.step() {
				t.Fatalf("stuck after %d answers", answered)
			}
		}
	}
}
