package router

import (
	"slices"
	"testing"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/peer"
)

// heldPeers keep what is asked, and answer when they are told to.
type heldPeers struct {
	asked chan held
}

type held struct {
	lane    peer.Lane
	request uint64
	answer  func([]byte, error)
}

func (p *heldPeers) Ask(_ uint8, lane peer.Lane, subject uint8, head, body []byte, done func([]byte, error)) func() {
	h := held{lane: lane, answer: done}
	if subject == subjectSend {
		req, _, _ := decodeSend(slices.Concat(head, body))
		h.request = req.Request
	} else {
		req, _, _ := decodeOffset(head)
		h.request = req.Request
	}
	p.asked <- h
	return func() {}
}

// The writes of a client to a group that leave the node keep their order: one that is
// tried again is not overtaken. Those of others, or to other groups, do not wait for it.
func TestWritesOfAClientKeepTheirOrder(t *testing.T) {
	p := &heldPeers{asked: make(chan held, 10)}
	n := &fakeNode{codes: []galgo.Code{refused}, leader: []int{1}, told: map[uint64]uint64{}}
	r := New(n, 0, p)
	answered := make(chan uint64, 10)
	send := func(client byte, group, request uint64) {
		r.Send(edge.SendRequest{Client: galgo.ClientID{client}, Group: group, Request: request}, func(edge.SendReply) { answered <- request })
	}
	send(1, 5, 1)
	send(1, 5, 2)
	r.StoreOffset(edge.OffsetRequest{Client: galgo.ClientID{1}, Group: 5, Request: 3}, func(edge.OffsetReply) { answered <- 3 })
	first := <-p.asked
	if first.request != 1 || first.lane != peer.Bulk || len(p.asked) > 0 {
		t.Fatalf("asked %+v, and %d more", first, len(p.asked))
	}
	send(2, 5, 9)
	send(1, 6, 8)
	if a, b := <-p.asked, <-p.asked; a.request != 9 || b.request != 8 {
		t.Errorf("asked %d and %d: others wait", a.request, b.request)
	}
	first.answer(nil, nil) // nothing was done: it is tried again
	first = <-p.asked
	if first.request != 1 {
		t.Errorf("asked %d, before 1 is over", first.request)
	}
	stored := appendSendReply(nil, &edge.SendReply{Op: 1})
	first.answer(stored, nil)
	second := <-p.asked
	second.answer(stored, nil)
	third := <-p.asked
	third.answer(nil, peer.ErrLost)
	for want := uint64(1); want <= 3; want++ {
		if got := <-answered; got != want {
			t.Errorf("%d was answered, want %d", got, want)
		}
	}
	if second.request != 2 || third.request != 3 || len(r.lines.queue) != 2 {
		t.Errorf("asked %d and %d; %d lines are left", second.request, third.request, len(r.lines.queue))
	}
}
