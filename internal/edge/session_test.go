package edge

import (
	"slices"
	"testing"

	"galgo"
	"galgo/internal/wire"
)

func TestMainJob(t *testing.T) {
	p := newRig(t).signedIn()
	p.makeTopic(2)
	first := p.sendTo(1, "a", "b")
	second := p.sendTo(1, "c")
	if first != (wire.SendConfirmation{PartitionID: 1}) || second.BaseOffset != 2 {
		t.Fatalf("confirmations %+v and %+v, want offsets 0 and 2 of partition 1", first, second)
	}
	polled := p.poll(pollBody(1, galgo.FromOffset(0), 10, false))
	if got, want := payloads(polled), []string{"a", "b", "c"}; !slices.Equal(got, want) || polled.CurrentOffset != 2 {
		t.Fatalf("polled %v, current offset %d, want %v and 2", got, polled.CurrentOffset, want)
	}
	if got := payloads(p.poll(pollBody(1, galgo.FromOffset(1), 1, false))); !slices.Equal(got, []string{"b"}) {
		t.Fatalf("polled %v from the middle of a batch, want b", got)
	}
}
