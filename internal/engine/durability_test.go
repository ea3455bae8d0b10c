package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/config"
	"galgo/internal/disk/memdisk"
	"galgo/internal/edge"
	"galgo/internal/partition"
	"galgo/internal/shard"
	"galgo/internal/wire"
)

// A topic with durability memory may lose what it acknowledged when power is lost.
// It must not keep the node from starting, wherever the loss comes: neither when its
// segments have reached the disk before its log, nor when a checkpoint was under way,
// nor right after a start from a checkpoint. What is left is the beginning of what
// was sent.
func TestMemoryTopicSurvivesPowerLossAnywhere(t *testing.T) {
	c := worldConfig()
	c.Partition.Durability = config.DurabilityMemory
	fresh := healthy()
	inMemory(t, fresh, c)
	checkpointed := fresh.Clone()
	w, err := open(t, checkpointed, c, 1, 1_500_000)
	if err != nil {
		t.Fatal(err)
	}
	before := w.sendAround(0, 2)
	w.settle()
	if !w.checkpoint() {
		t.Fatal(w.failed)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	for name, start := range map[string]struct {
		disk *memdisk.Disk
		sent []string
	}{"new": {fresh, nil}, "after a checkpoint": {checkpointed, before}} {
		t.Run(name, func(t *testing.T) {
			for k := 1; ; k++ {
				d := &mortal{Disk: start.disk.Clone(), left: k}
				sent := slices.Clone(start.sent)
				if w, err := open(t, d, c, uint64(k), 2_000_000); err == nil {
					sent = append(sent, w.sendAround(len(sent), 6)...)
				}
				for mixture := range mixtures {
					after := d.Disk.(*memdisk.Disk).PowerLoss(rand.New(rand.NewPCG(uint64(k), uint64(100+mixture))))
					w, err := open(t, after, c, 3, 3_000_000)
					if err != nil {
						t.Fatalf("power loss at disk call %d: the start refuses a healthy disk: %v", k, err)
					}
					got, err := w.poll(w.group("s", "t", 0), 0)
					if err != nil || len(got) < len(start.sent) || len(got) > len(sent) || !slices.Equal(got, sent[:len(got)]) {
						t.Fatalf("power loss at disk call %d: %q, %v; want the first ones of %q, %d at least", k, got, err, sent, len(start.sent))
					}
					goesOn(t, w, k)
				}
				if !d.dead {
					return
				}
			}
		})
	}
}

// inMemory makes a topic of two partitions that write every second message to their
// segments.
func inMemory(t *testing.T, d *memdisk.Disk, c config.Config) {
	t.Helper()
	w, err := open(t, d, c, 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	m := &cast{}
	for _, s := range script[:3] {
		if !s.run(w, m) {
			t.Fatal(w.failed)
		}
	}
	options, err := wire.NewOptions([]galgo.Header{{Key: galgo.StringValue(galgo.OptionMessagesRequiredToSave), Value: galgo.Uint32Value(2)}})
	if err != nil {
		t.Fatal(err)
	}
	body := wire.CreateTopicRequest{Stream: galgo.NamedID("s"), Partitions: 2, Name: "t", Options: options}.Append(nil)
	if !m.call(w, wire.OperationCreateTopic, body) {
		t.Fatal(w.failed)
	}
}

// sendAround sends to both partitions, with checkpoints in between, while no time
// passes: nothing marks the log. It returns what partition 0 was asked to store.
func (w *world) sendAround(from, rounds int) (sent []string) {
	for round := range rounds {
		for range 3 {
			payload := fmt.Sprint("m", from+len(sent))
			sent = append(sent, payload)
			for p := range uint32(2) {
				w.engine.Send(edge.SendRequest{Group: w.group("s", "t", p), Batch: batchOf(payload), Count: 1}, func(edge.SendReply) {})
			}
			for range 4 {
				w.step()
			}
		}
		if round%2 == 1 {
			w.loops[1].Post(func() { w.engine.data[0].Checkpoint(func(error) {}) })
		}
		for range 10 {
			w.step()
		}
	}
	return sent
}

// The log of the partitions is put back from a copy that was made just after a
// checkpoint: it still holds operations of the group, but none of those that are in
// the segments since. They were acknowledged: nothing may cut them.
func TestSegmentsAheadOfAnOlderLogAreNotCut(t *testing.T) {
	d := healthy()
	w, c := begun(t, d, 1)
	if !sending(0, "covered")(w, c) || !w.checkpoint() {
		t.Fatal(w.failed)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	older := d.Clone()
	w, err := open(t, d, worldConfig(), 2, 2_000_000)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // together they make a write due
		if !sending(0, big("n", 600<<10))(w, c) {
			t.Fatal(w.failed)
		}
	}
	for _, name := range filesOf(d, "shards/0/wal", "") {
		d.Delete(name)
	}
	for _, name := range filesOf(older, "shards/0/wal", ".wal") {
		d.Put(name, older.Bytes(name))
	}
	_, err = open(t, d, worldConfig(), 3, 3_000_000)
	if !errors.Is(err, partition.ErrUnexplained) || !strings.Contains(err.Error(), "groups/") {
		t.Errorf("got %v, want a refusal that names the segment", err)
	}
}

// A client that repeats a request is not told that it is done before it is: what the
// metadata have decided the shards may still have to do.
func TestRepeatedRequestWaitsForTheShards(t *testing.T) {
	w, c := begun(t, healthy(), 1)
	if !sending(0, "old")(w, c) {
		t.Fatal(w.failed)
	}
	answers := map[string]edge.MetadataReply{}
	c.admin.request++
	purge := edge.MetadataRequest{
		Operation: wire.OperationPurgeTopic, Client: c.admin.id, Session: c.admin.epoch, Request: c.admin.request, Body: topicBody("t"),
	}
	w.engine.Metadata(purge, func(r edge.MetadataReply) { answers["first"] = r })
	for len(w.loops[1].posts) == 0 { // until the metadata have decided it
		w.turn(0)
		w.work(0, shard.LaneLog)
	}
	w.engine.Metadata(purge, func(r edge.MetadataReply) { answers["repeated"] = r })
	w.turn(0)
	if r := answers["repeated"]; len(answers) != 1 || r.Outcome != edge.OutcomeResult || r.Code != galgo.CodeTransientNotCommitted {
		t.Errorf("answers before the purge: %+v", answers)
	}
	w.settle()
	w.engine.Metadata(purge, func(r edge.MetadataReply) { answers["again"] = r })
	w.settle()
	for _, when := range []string{"first", "again"} {
		if r := answers[when]; r.Outcome != edge.OutcomeReply || r.Op != answers["first"].Op {
			t.Errorf("%s: %+v", when, r)
		}
	}
	if got, err := w.poll(w.group("s", "t", 0), 0); err != nil || len(got) != 0 {
		t.Errorf("after the purge: %q, %v", got, err)
	}
}

// Calls that find the disk full although they were let in before it was are
// answered when there is room again, whatever else their groups do.
func TestCallsThatMeetAFullDiskAreAnswered(t *testing.T) {
	for name, begin := range map[string]func(w *world, c *cast) (answered func() bool){
		"send": func(w *world, c *cast) func() bool {
			s := newSender(w)
			s.send(w.group("s", "t", 1))
			return func() bool { return s.ended == 1 }
		},
		"purge": func(w *world, c *cast) func() bool {
			answered := w.submit(c.admin, wire.OperationPurgeTopic, topicBody("t"))
			for len(w.loops[1].posts) == 0 {
				w.turn(0)
				for lane := range w.loops[0].jobs {
					w.work(0, shard.Lane(lane))
				}
			}
			return func() bool { return *answered }
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := healthy()
			w, c := begun(t, d, 1)
			large := newSender(w)
			large.sendAll(w.group("s", "t", 0), big("x", 70<<10)) // needs a file of its own
			w.turn(1)
			d.Inject(memdisk.Fault{Class: memdisk.NoSpace, Times: memdisk.Forever, Match: func(name string) bool { return strings.HasPrefix(name, "shards/") }})
			answered := begin(w, c)
			w.work(1, shard.LaneLog) // that it is full is heard of behind the call
			w.turn(1)
			d.ClearFaults()
			w.patience = 300
			w.settle()
			if !answered() || large.ended != 1 || w.failed != nil {
				t.Fatalf("answered %v, the large one %d times (%v)", answered(), large.ended, w.failed)
			}
		})
	}
}
