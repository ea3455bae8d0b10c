package router

import (
	"slices"
	"testing"

	"galgo/internal/metadata"
	"galgo/internal/peer"
)

func (r *Router) askFresh() bool {
	got := make(chan bool, 1)
	r.Fresh(func(ok bool) { got <- ok })
	return <-got
}

// viewWithRoot is metadata with an op.
func viewWithRoot(t *testing.T) *metadata.View {
	m := metadata.New()
	body, err := metadata.Bootstrap{Username: "iggy", PasswordHash: "h", Settings: metadata.Settings{ClientsMax: 2, TokensMax: 2}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	m.Apply(metadata.Input{Op: 41, Operation: metadata.OperationBootstrap, Body: body})
	return m.View()
}

// Whoever decides for the metadata says how far they are, and this node waits until it is
// as far. It asks until somebody says so.
func TestFreshIsAsFarAsWhoDecides(t *testing.T) {
	here := &fakeNode{leader: []int{-1, -1, 1, 1, 1}}
	there := &fakeNode{leader: []int{0, 1}, view: viewWithRoot(t)}
	r, p := world(here, there, peer.ErrNotAsked, nil)
	if !r.askFresh() {
		t.Error("not fresh")
	}
	if want := []uint64{there.view.Op()}; there.view.Op() == 0 || !slices.Equal(here.reached, want) {
		t.Errorf("waited for %v, want %v", here.reached, want)
	}
	if len(p.asked) < 3 {
		t.Errorf("asked %v: one question was lost, and one came to a node that did not decide yet", p.asked)
	}
}

func TestFreshThatShowsTooLateIsNotFresh(t *testing.T) {
	here := &fakeNode{leader: []int{1}, slow: true}
	r, _ := world(here, &fakeNode{leader: []int{1}})
	if r.askFresh() {
		t.Error("fresh without what the other node has")
	}
}

// A node that decides knows; but not if it has not heard from the others for so long
// that another may decide by now.
func TestFreshOfWhoDecides(t *testing.T) {
	here := &fakeNode{leader: []int{0}}
	r, p := world(here, &fakeNode{})
	if !r.askFresh() {
		t.Error("not fresh")
	}
	here.stale = true
	if r.askFresh() {
		t.Error("fresh, and of the past")
	}
	if len(p.asked) > 0 {
		t.Errorf("asked %v", p.asked)
	}
}
