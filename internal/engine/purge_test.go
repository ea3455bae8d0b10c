package engine

import (
	"testing"

	"galgo"
	"galgo/internal/disk/memdisk"
	"galgo/internal/edge"
	"galgo/internal/partition"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// A purge that is in the log of the metadata and not yet in that of the partition, when
// the node is killed, is answered again only when it has happened: else what the client
// sends next goes with what was to be purged.
func TestPurgeIsNotAnsweredAgainBeforeItHappens(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	w, err := open(t, d, worldConfig(), 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	c := &cast{}
	for _, s := range script[:5] { // up to the first send
		if !s.run(w, c) {
			t.Fatalf("step %q", s.name)
		}
	}
	group := w.group("s", "t", 0)
	body := wire.TopicRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t")}.Append(nil)
	purge := edge.MetadataRequest{Operation: wire.OperationPurgeTopic, Client: c.admin.id, Session: c.admin.epoch, Request: c.admin.request + 1, Body: body}
	w.engine.Metadata(purge, func(edge.MetadataReply) { t.Error("answered although the partition's loop stands still") })
	w.metadataAlone()
	if p, ok := w.engine.View().PartitionOf(group); !ok || p.PurgeGeneration != 1 {
		t.Fatalf("the metadata has %+v", p)
	}

	w, err = start(t, d.Kill(), worldConfig(), 2, 2_000_000)
	if err != nil {
		t.Fatal(err)
	}
	answers := 0
	ask := func() {
		w.engine.Metadata(purge, func(r edge.MetadataReply) {
			if r.Outcome == edge.OutcomeResult && r.Code == galgo.CodeTransientNotCommitted {
				return
			}
			answers++
			var plan partition.Plan
			if code := w.engine.data[0].Poll(vsr.GroupID(group), partition.PollRequest{Strategy: galgo.FromOffset(0), Count: 9}, &plan); code != galgo.CodeOK {
				t.Errorf("poll: %v", code)
			}
			if got, err := payloadsOf(&plan, 0); err != nil || len(got) > 0 {
				t.Errorf("the purge is answered (%v), and %v are still there (%v)", r.Outcome, got, err)
			}
		})
	}
	ask()
	w.metadataAlone()
	w.settle()
	ask()
	w.settle()
	if answers == 0 {
		t.Error("no answer")
	}
}

// metadataAlone runs the loop of the metadata and no other.
func (w *world) metadataAlone() {
	all := w.loops
	w.loops = all[:1]
	w.settle()
	w.loops = all
}
