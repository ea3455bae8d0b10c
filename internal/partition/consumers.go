package partition

import (
	"cmp"
	"math"
	"slices"

	"galgo"
)

// storedOffset is the last message a consumer has processed.
type storedOffset struct {
	kind   galgo.ConsumerKind
	key    uint32
	offset uint64
}

// consumers holds stored offsets, sorted by kind and key: found by bisection,
// changed in place, copied at once, and in one order on every replica.
type consumers struct {
	sorted []storedOffset
	limit  int
}

func compareConsumer(s storedOffset, want storedOffset) int {
	if c := cmp.Compare(s.kind, want.kind); c != 0 {
		return c
	}
	return cmp.Compare(s.key, want.key)
}

func (c *consumers) find(kind galgo.ConsumerKind, key uint32) (int, bool) {
	return slices.BinarySearchFunc(c.sorted, storedOffset{kind: kind, key: key}, compareConsumer)
}

func (c *consumers) get(kind galgo.ConsumerKind, key uint32) (uint64, bool) {
	i, ok := c.find(kind, key)
	if !ok {
		return 0, false
	}
	return c.sorted[i].offset, true
}

// store sets an offset, and reports false when there is no room for a new one.
func (c *consumers) store(s StoreOffset) bool {
	i, ok := c.find(s.Kind, s.Key)
	if ok {
		if !s.Monotone || s.Offset > c.sorted[i].offset {
			c.sorted[i].offset = s.Offset
		}
		return true
	}
	if len(c.sorted) >= c.limit {
		return false
	}
	c.sorted = slices.Insert(c.sorted, i, storedOffset{s.Kind, s.Key, s.Offset})
	return true
}

// remove forgets an offset, and reports false when there is none.
func (c *consumers) remove(kind galgo.ConsumerKind, key uint32) bool {
	i, ok := c.find(kind, key)
	if ok {
		c.sorted = slices.Delete(c.sorted, i, i+1)
	}
	return ok
}

// least is the lowest stored offset; above all of them if there is none.
func (c *consumers) least() uint64 {
	least := uint64(math.MaxUint64)
	for _, s := range c.sorted {
		least = min(least, s.offset)
	}
	return least
}

func (c *consumers) clear() { c.sorted = nil }
