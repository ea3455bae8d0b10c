package shard

import (
	"slices"
	"testing"

	"galgo/internal/vsr"
)

// Who waits for an op reads when it is there, in the order in which they came, and for a
// bounded time.
func TestReaders(t *testing.T) {
	var r readers
	var read []vsr.Op
	var gaveUp []vsr.Op
	wait := func(op vsr.Op) {
		r.add(op, func(there bool) {
			if there {
				read = append(read, op)
			} else {
				gaveUp = append(gaveUp, op)
			}
		})
	}
	wait(5)
	wait(3)
	wait(9)
	r.settle(2)
	if len(read) != 0 {
		t.Errorf("read %v before it is there", read)
	}
	r.settle(5)
	if !slices.Equal(read, []vsr.Op{5, 3}) || len(r) != 1 {
		t.Errorf("read %v, %d wait", read, len(r))
	}
	for range waitTicks {
		if len(gaveUp) != 0 {
			t.Errorf("gave up %v too early", gaveUp)
		}
		r.tick()
	}
	if !slices.Equal(gaveUp, []vsr.Op{9}) || len(r) != 0 || len(read) != 2 {
		t.Errorf("gave up %v, read %v, %d wait", gaveUp, read, len(r))
	}
}
