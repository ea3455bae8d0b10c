package shard

import (
	"fmt"
	"slices"
	"testing"

	"galgo/internal/vsr"
)

// Each view that ends or begins is told once, with the reason; more than a bound are
// counted.
func TestNewsOfViews(t *testing.T) {
	var told []string
	note := func(msg string, args ...any) { told = append(told, fmt.Sprint(append([]any{msg}, args...)...)) }
	rate := &telling{}
	n := news{note: note, rate: rate}
	n.from(vsr.State{})
	c := vsr.New(vsr.Config{Group: 7, Replicas: 3, Replica: 1, Pipeline: 8, Boot: 1}, vsr.Recovered{Fresh: true})
	n.tell(7, c)
	if len(told) > 0 {
		t.Errorf("nothing has changed: %q", told)
	}
	c.LinkDown(0)
	c.Step(vsr.Message{Kind: vsr.MessageSuspect, From: 2, To: 1, Group: 7, Boot: 1})
	for range 2 {
		n.tell(7, c)
	}
	want := fmt.Sprint("a view has ended", "group", 7, "view", 0, "next", 1, "its primary", 1, "why", "the connection to the primary broke")
	if !slices.Equal(told, []string{want}) {
		t.Errorf("told %q, want %q", told, want)
	}
	told = nil
	for i := range 3 * newsMax {
		n.view = vsr.View(100 + i)
		n.tell(7, c)
	}
	if len(told) != newsMax-1 {
		t.Errorf("%d records, want %d", len(told), newsMax-1)
	}
	for range newsTicks {
		rate.tick(note)
	}
	if last := told[len(told)-1]; len(told) != newsMax || last != fmt.Sprint("more changes of views, repairs and transfers than are told one by one", "left out", 2*newsMax+1) {
		t.Errorf("%d records, the last: %q", len(told), last)
	}
}
