package engine

import (
	"testing"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/wire"
)

// Many partitions with a little each do not add up in memory: those written to
// longest ago give their batches to their segments, and polls find them there.
func TestTailsOfManyPartitionsAreBoundedTogether(t *testing.T) {
	w, err := open(t, healthy(), worldConfig(), 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	w.bootstrap()
	s, _ := w.login(galgo.ClientID{1})
	const partitions, payload = 100, 200 << 10
	if r, ok := w.call(s, wire.OperationCreateStream, wire.CreateStreamRequest{Name: "s"}.Append(nil)); !ok || r.Outcome != edge.OutcomeReply {
		t.Fatalf("%+v", r)
	}
	body := wire.CreateTopicRequest{Stream: galgo.NamedID("s"), Partitions: partitions, Name: "t"}.Append(nil)
	if r, ok := w.call(s, wire.OperationCreateTopic, body); !ok || r.Outcome != edge.OutcomeReply {
		t.Fatalf("%+v", r)
	}
	for p := range uint32(partitions) {
		if r, ok := w.send(w.group("s", "t", p), galgo.ClientID{}, 0, big("x", payload)); !ok || r.Code != galgo.CodeOK {
			t.Fatalf("partition %d: %+v (%v)", p, r, w.failed)
		}
	}
	var resident uint64
	for p := range uint32(partitions) {
		f, _ := w.engine.Stats(w.group("s", "t", p))
		resident += f.Resident
	}
	if resident > worldTails+payload+1024 {
		t.Errorf("%d bytes in memory, the bound is %d", resident, worldTails)
	}
	for p := range uint32(partitions) {
		if got, err := w.poll(w.group("s", "t", p), 0); err != nil || len(got) != 1 || len(got[0]) != payload {
			t.Fatalf("partition %d: %d messages, %v", p, len(got), err)
		}
	}
}
