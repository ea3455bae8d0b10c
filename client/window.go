package client

import (
	"context"
	"sync"
)

// SendsInFlightMax bounds the sends of a client that wait for an answer, and how far
// their numbers spread. A galgo server remembers the last 64 sends of a client in a
// partition. While a send waits, up to 31 with higher numbers and 31 with lower ones
// can be stored after it: it is still remembered when it is repeated.
const SendsInFlightMax = 32

// window gives numbers to sends, from 1 on, and gives none that is SendsInFlightMax
// or more above the lowest one that is still out.
type window struct {
	mu    sync.Mutex
	low   uint64 // lowest number that is out, or next if none is
	next  uint64
	back  [SendsInFlightMax]bool // of number n at n modulo the length: given back
	moved chan struct{}          // closed, and made anew, when low has risen
}

func newWindow() *window { return &window{low: 1, next: 1, moved: make(chan struct{})} }

// acquire waits for a number. It returns 0 when ctx ends or done is closed first.
func (w *window) acquire(ctx context.Context, done <-chan struct{}) uint64 {
	for {
		number, moved := w.try()
		if number != 0 {
			return number
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return 0
		case <-done:
			return 0
		}
	}
}

func (w *window) try() (number uint64, moved <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next >= w.low+SendsInFlightMax {
		return 0, w.moved
	}
	w.next++
	return w.next - 1, nil
}

// release gives a number back: its send is not repeated any more.
func (w *window) release(number uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.back[number%SendsInFlightMax] = true
	from := w.low
	for w.low < w.next && w.back[w.low%SendsInFlightMax] {
		w.back[w.low%SendsInFlightMax] = false
		w.low++
	}
	if w.low != from {
		close(w.moved)
		w.moved = make(chan struct{})
	}
}
