package edge

import (
	"testing"
	"time"

	"galgo/internal/metadata"
)

// What a session remembers of its tenures is bounded by the groups that it is a member of.
func TestTenuresOfFormerMembersAreDropped(t *testing.T) {
	r := newRig(t)
	a := r.signedIn()
	a.makeGroup(1)
	a.join()
	view := r.node.View()
	g, _ := view.ConsumerGroupAt(0, 0, 0)
	member := g.Members[0].Client
	p, _ := view.PartitionAt(0, 0, 0)
	var all Tenures
	all.Claimed(view, g, member, p, 1)
	for id := range uint32(1000) {
		gone := metadata.ConsumerGroup{ID: 1 + id}
		all.Claimed(view, &gone, member, p, 1)
	}
	if len(all.of) > 16 {
		t.Errorf("%d tenures are kept, of one group that is there", len(all.of))
	}
	if since, unclaimed := all.Unclaimed(g, member, p); unclaimed {
		t.Errorf("the tenure since %d is forgotten", since)
	}
}

func TestServedIsASign(t *testing.T) {
	l := life{began: time.Now().Add(-time.Hour)}
	l.serving.Store(true)
	l.served()
	if l.serving.Load() || l.silent() > time.Minute {
		t.Errorf("served just now, and silent for %v", l.silent())
	}
}
