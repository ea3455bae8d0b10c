package auth

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

func newCheapHasher(t *testing.T, concurrency, queue int) *Hasher {
	t.Helper()
	h, err := NewHasher(HasherOptions{Concurrency: concurrency, Queue: queue, Params: cheap()})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHasherRoundTrip(t *testing.T) {
	h := newCheapHasher(t, 1, 1)
	hash, err := h.Hash(t.Context(), []byte("pw"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := h.Hash(t.Context(), []byte("pw"))
	if err != nil || again == hash {
		t.Fatalf("two hashes of one password are equal (%v): the salt is not fresh", err)
	}
	if ok, err := h.Verify(t.Context(), hash, []byte("pw")); !ok || err != nil {
		t.Fatalf("right password: got %v, %v", ok, err)
	}
	if ok, err := h.Verify(t.Context(), hash, []byte("no")); ok || err != nil {
		t.Fatalf("wrong password: got %v, %v", ok, err)
	}
}

func TestHasherDefaults(t *testing.T) {
	h, err := NewHasher(HasherOptions{})
	if err != nil || h.params != DefaultParams() {
		t.Fatalf("zero options: got %+v, %v", h, err)
	}
	for name, o := range map[string]HasherOptions{
		"negative concurrency": {Concurrency: -1},
		"negative queue":       {Queue: -1},
		"bad parameters":       {Params: Params{MemoryKiB: 1, Passes: 1, Lanes: 1}},
		"no randomness":        {Random: bytes.NewReader(nil)},
	} {
		if _, err := NewHasher(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// The decoy must cost what a real hash costs, else unknown users answer faster.
func TestVerifyNothingCostsTheSame(t *testing.T) {
	h := newCheapHasher(t, 1, 1)
	real, err := h.Hash(t.Context(), []byte("pw"))
	if err != nil {
		t.Fatal(err)
	}
	a, errA := parse(real)
	b, errB := parse(h.decoy)
	if errA != nil || errB != nil || a.params != b.params || len(a.salt) != len(b.salt) || len(a.key) != len(b.key) {
		t.Fatalf("decoy %s differs in cost from %s", h.decoy, real)
	}
	if err := h.VerifyNothing(t.Context(), []byte("pw")); err != nil {
		t.Fatal(err)
	}
}

func TestHasherRefusesWhenFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCheapHasher(t, 1, 1)
		if err := h.enter(t.Context()); err != nil { // computing
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var waiting error
		var wg sync.WaitGroup
		wg.Go(func() { waiting = h.enter(ctx) }) // in the queue
		synctest.Wait()
		if _, err := h.Hash(t.Context(), nil); !errors.Is(err, ErrBusy) {
			t.Fatalf("third caller with one computing and one waiting: got %v, want ErrBusy", err)
		}
		cancel()
		wg.Wait()
		if !errors.Is(waiting, context.Canceled) {
			t.Fatalf("waiting caller after cancel: got %v", waiting)
		}
		h.leave()
		if _, err := h.Hash(t.Context(), nil); err != nil {
			t.Fatalf("after all have left: got %v, a place was not given back", err)
		}
	})
}

func TestHasherBoundsConcurrency(t *testing.T) {
	h := newCheapHasher(t, 2, 100)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := h.VerifyNothing(context.Background(), []byte("pw")); err != nil {
				t.Errorf("verify: %v", err)
			}
			if n := len(h.turns); n > 2 {
				t.Errorf("%d computations at a time, want at most 2", n)
			}
		})
	}
	wg.Wait()
	if len(h.turns) != 0 || len(h.places) != 0 {
		t.Fatalf("%d turns and %d places are still held", len(h.turns), len(h.places))
	}
}
