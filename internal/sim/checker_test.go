package sim

import (
	"slices"
	"testing"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/partition"
	"galgo/internal/shard"
	"galgo/internal/vsr"
)

// byHand is a cluster that has not begun, told by hand what its replicas apply.
func byHand(t *testing.T) *world {
	t.Helper()
	w, err := play(Options{Seed: 1, Replicas: 3, Steps: 1}, false)
	if err != nil {
		t.Fatal(err)
	}
	w.failure = nil
	return w
}

const handGroup = 99

// opByHand is one that forgets the offset of a consumer, which needs nothing before it.
func opByHand(op vsr.Op, consumer uint32) *vsr.Prepare {
	body := partition.DeleteOffset{Kind: galgo.ConsumerSingle, Key: consumer}.Append(nil)
	p := &vsr.Prepare{Header: vsr.Header{Group: handGroup, Op: op, Operation: partition.OpDeleteOffset}, Body: body}
	p.Identity = vsr.Identity{byte(op), byte(consumer)}
	return p
}

func acknowledgement(view vsr.View, op vsr.Op) *vsr.Message {
	return &vsr.Message{Kind: vsr.MessagePrepareOk, Group: handGroup, View: view, Op: op}
}

// aBackup is one of the metadata group, and the heartbeats of its primary.
func aBackup(w *world) (*node, func(commit vsr.Op) *vsr.Message) {
	n := w.nodes[0]
	s, _ := n.status(vsr.MetadataGroup)
	if s.Leader == n.id {
		n = w.nodes[1]
	}
	return n, func(commit vsr.Op) *vsr.Message {
		return &vsr.Message{Kind: vsr.MessageCommit, View: s.State.View, Commit: commit, Beat: 1<<32 + uint64(commit)}
	}
}

// longSilence is more ticks than any election timeout has.
const longSilence = 1000

func wantFailure(t *testing.T, w *world, check string) {
	t.Helper()
	switch {
	case check == "" && w.failure != nil:
		t.Errorf("a history that is right fails: %v", w.failure)
	case check != "" && (w.failure == nil || w.failure.Check != check):
		t.Errorf("got %v, want a failure of %q", w.failure, check)
	}
}

// The checker holds replicas to what was applied, and to nothing before that: an op that a
// replica acknowledged and had to give up, as its view ended, is nobody's business.
func TestCheckerByHand(t *testing.T) {
	for name, c := range map[string]struct {
		check string
		tell  func(w *world)
	}{
		"another op took the place of one that was only acknowledged": {"", func(w *world) {
			w.checks.shown[2][handGroup] = vsr.State{View: 1} // node 2 took part in view 0 and moved on
			for _, n := range w.nodes {
				w.model.applies(n, opByHand(1, 7))
			}
		}},
		"two replicas apply two ops at one place": {"agreement", func(w *world) {
			w.model.applies(w.nodes[0], opByHand(1, 7))
			w.model.applies(w.nodes[2], opByHand(1, 8))
		}},
		"the same identity with other bytes": {"agreement", func(w *world) {
			w.model.applies(w.nodes[0], opByHand(1, 7))
			p := opByHand(1, 8)
			p.Identity = opByHand(1, 7).Identity
			w.model.applies(w.nodes[2], p)
		}},
		"an op is left out": {"order", func(w *world) {
			w.model.applies(w.nodes[0], opByHand(1, 7))
			w.model.applies(w.nodes[0], opByHand(3, 7))
		}},
		"an op is applied twice": {"order", func(w *world) {
			for _, op := range []vsr.Op{1, 2, 2} {
				w.model.applies(w.nodes[0], opByHand(op, 7))
			}
		}},
		"a replica comes back without what it has acknowledged": {"held", func(w *world) {
			w.checks.acknowledges(w.nodes[1], acknowledgement(3, 5))
			w.checks.keeps(w.nodes[1], shard.Status{Group: handGroup, Head: 4, State: vsr.State{View: 3}})
		}},
		"a replica comes back with what it has acknowledged": {"", func(w *world) {
			w.checks.acknowledges(w.nodes[1], acknowledgement(3, 5))
			w.checks.acknowledges(w.nodes[1], acknowledgement(3, 4))
			w.checks.keeps(w.nodes[1], shard.Status{Group: handGroup, Head: 5, State: vsr.State{View: 3}})
		}},
		"a replica gave up what it had acknowledged, as the view ended": {"", func(w *world) {
			w.checks.acknowledges(w.nodes[1], acknowledgement(3, 5))
			w.checks.keeps(w.nodes[1], shard.Status{Group: handGroup, Head: 4, State: vsr.State{View: 4, LogView: 3}})
		}},
		"an empty disk has acknowledged nothing": {"", func(w *world) {
			w.checks.acknowledges(w.nodes[1], acknowledgement(3, 5))
			w.checks.replaced(w.nodes[1])
			w.checks.keeps(w.nodes[1], shard.Status{Group: handGroup, Head: 0, State: vsr.State{View: 3}})
		}},
		"a backup answers that has not heard its primary for long": {"reads", func(w *world) {
			n, beat := aBackup(w)
			w.checks.hears(n, beat(0))
			n.loops[0].ticks += longSilence
			w.checks.reads(n, vsr.MetadataGroup, 0)
		}},
		"a backup answers from before a silence": {"reads", func(w *world) {
			n, beat := aBackup(w)
			n.loops[0].ticks += longSilence
			w.checks.hears(n, beat(7))
			w.checks.reads(n, vsr.MetadataGroup, 6)
		}},
		"a backup answers after a silence from what it was told": {"", func(w *world) {
			n, beat := aBackup(w)
			n.loops[0].ticks += longSilence
			w.checks.hears(n, beat(7))
			w.checks.hears(n, beat(9))
			w.checks.reads(n, vsr.MetadataGroup, 7)
		}},
		"an old heartbeat ends no silence": {"reads", func(w *world) {
			n, beat := aBackup(w)
			w.checks.hears(n, beat(7))
			n.loops[0].ticks += longSilence
			w.checks.hears(n, beat(7))
			w.checks.reads(n, vsr.MetadataGroup, 7)
		}},
		"a backup that hears its primary is a little behind": {"", func(w *world) {
			n, beat := aBackup(w)
			w.checks.hears(n, beat(7))
			w.checks.reads(n, vsr.MetadataGroup, 6)
		}},
		"what a client was answered for was applied nowhere": {"acknowledged", func(w *world) {
			c := w.crowd.clients[0]
			s := &sendRecord{client: c, serial: 1, group: handGroup, number: 1, count: 1}
			s.ack(edge.SendReply{Base: 0, Op: 1})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := byHand(t)
			w.guard(func() { c.tell(w) })
			wantFailure(t, w, c.check)
		})
	}
}

// A view that begins when a later one has begun already knows nothing of what that one
// has answered.
func TestViewThatBeginsLate(t *testing.T) {
	g := &groupModel{}
	g.answered(5, 1)
	g.begins(3)
	g.answered(7, 2)
	g.begins(2)
	g.begins(4)
	want := []beginning{{2, 5}, {3, 5}, {4, 7}}
	if !slices.Equal(g.beginnings, want) {
		t.Errorf("views began with %v, want %v", g.beginnings, want)
	}
}
