package engine

import (
	"math/rand/v2"
	"testing"

	"galgo"
	"galgo/internal/config"
	"galgo/internal/disk/memdisk"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/wire"
)

// A power loss, wherever it comes, may take the end of a topic in memory, and with it what a
// group has committed there: the offset is one that was committed, or none, and never one of a
// message that is gone. So the group goes on with what comes next: nothing that is sent
// afterwards is passed over, and the group can commit it. An offset beyond the end is refused by
// its name (PF-groups-06).
func TestGroupOffsetsOfATopicInMemory(t *testing.T) {
	c := worldConfig()
	c.Partition.Durability = config.DurabilityMemory
	start := healthy()
	inMemory(t, start, c)
	w, err := open(t, start, c, 1, 1_500_000)
	if err != nil {
		t.Fatal(err)
	}
	creator := joined(t, w, 9)
	if !creatingGroup(w, creator) || !w.checkpoint() || w.close() != nil {
		t.Fatal(w.failed)
	}
	taken, kept := 0, 0
	for k := 1; ; k++ {
		d := &mortal{Disk: start.Clone(), left: k}
		asked := 0
		if w, err := open(t, d, c, uint64(k), 2_000_000); err == nil {
			asked = commitAround(w, 6)
		}
		for mixture := range mixtures {
			after := d.Disk.(*memdisk.Disk).PowerLoss(rand.New(rand.NewPCG(uint64(k), uint64(200+mixture))))
			w, err := open(t, after, c, 3, 3_000_000)
			if err != nil {
				t.Fatalf("power loss at disk call %d: %v", k, err)
			}
			if goesOnAsGroup(t, w, k, asked) {
				kept++
			} else {
				taken++
			}
		}
		if !d.dead {
			break
		}
	}
	if taken == 0 || kept == 0 {
		t.Errorf("offsets were taken %d times and kept %d times: this tries nothing", taken, kept)
	}
}

// joined signs a client in.
func joined(t *testing.T, w *world, client byte) *cast {
	t.Helper()
	s, ok := w.login(galgo.ClientID{client})
	if !ok {
		t.Fatal("no login")
	}
	return &cast{admin: s}
}

// commitAround has a member send, commit and take checkpoints in turn, and returns how many
// messages were sent.
func commitAround(w *world, rounds int) (sent int) {
	s, ok := w.login(galgo.ClientID{2})
	if !ok || !groupStep(wire.OperationJoinConsumerGroup)(w, &cast{admin: s}) {
		return 0
	}
	group := w.group("s", "t", 0)
	for round := range rounds {
		for range 3 {
			w.engine.Send(edge.SendRequest{Group: group, Batch: batchOf("m"), Count: 1}, func(edge.SendReply) {})
			for range 4 {
				w.step()
			}
			w.engine.StoreOffset(edge.OffsetRequest{Group: group, Kind: galgo.ConsumerGroup, Member: s.id, Offset: uint64(sent)}, func(edge.OffsetReply) {})
			sent++
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

// goesOnAsGroup checks what a power loss has left to the group, and that a member goes on from
// there. It reports whether an offset is left.
func goesOnAsGroup(t *testing.T, w *world, k, sent int) (kept bool) {
	t.Helper()
	group := w.group("s", "t", 0)
	f, _ := w.engine.Stats(group)
	stored, kept := w.offsetOf(group, galgo.ConsumerGroup, 0)
	if kept && stored >= f.Messages || f.Messages > uint64(sent) {
		t.Fatalf("power loss at disk call %d: offset %d of %d messages, %d were sent", k, stored, f.Messages, sent)
	}
	next := uint64(0)
	if kept {
		next = stored + 1
	}
	c := joined(t, w, 3)
	if !groupStep(wire.OperationJoinConsumerGroup)(w, c) {
		t.Fatal("no join")
	}
	departed, _ := w.engine.View().DepartureOf(0, 0)
	departed.Seen = c.admin.epoch - 1 // of the life before
	w.metadata(edge.MetadataRequest{Operation: metadata.OperationDepart, Body: departed.Encode()})
	if r, ok := w.send(group, galgo.ClientID{}, 0, "new"); !ok || r.Base != f.Messages {
		t.Fatalf("power loss at disk call %d: the next message is at %d, want %d", k, r.Base, f.Messages)
	}
	var plan partition.Plan
	req := edge.PollRequest{Group: group, Kind: galgo.ConsumerGroup, Member: c.admin.id, Strategy: galgo.FromNext(), Count: 100, Plan: &plan}
	code := galgo.CodeError
	w.run(func(done func()) {
		w.engine.Poll(req, func(r edge.PollReply) { code, req.Ticket = r.Code, r.Ticket; done() })
	})
	got, err := payloadsOf(&plan, next)
	if code != galgo.CodeOK || err != nil || uint64(len(got)) != f.Messages+1-next {
		t.Fatalf("power loss at disk call %d: polled %d messages from %d of %d, %v, %v", k, len(got), next, f.Messages+1, code, err)
	}
	w.engine.Polled(req, f.Messages, true)
	for offset, want := range map[uint64]galgo.Code{f.Messages: galgo.CodeOK, f.Messages + 1: galgo.CodeInvalidOffset} {
		if r, ok := w.storeForGroup(group, c.admin.id, 0, offset); !ok || r.Code != want {
			t.Fatalf("power loss at disk call %d: offset %d is answered %v, want %v", k, offset, r.Code, want)
		}
	}
	return kept
}
