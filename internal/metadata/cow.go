package metadata

import (
	"cmp"

	"github.com/tidwall/btree"
)

// cow is an ordered map with an O(1) copy: the copy and the original share nodes
// until one of them writes, and writing copies the path it touches. A copy may be
// read by any number of goroutines while the original is written: readers touch
// only shared nodes, and no shared node is ever written (TestViewUnderRace).
//
// The type of the values must not have a method Copy or IsoCopy: btree would call
// it on each value of a node that it copies.
type cow[K cmp.Ordered, V any] struct {
	m *btree.Map[K, V]
}

func newCow[K cmp.Ordered, V any]() cow[K, V] { return cow[K, V]{new(btree.Map[K, V])} }

// copied may only be called by the owner of c: it changes the mark by which c
// knows its own nodes.
func (c cow[K, V]) copied() cow[K, V] { return cow[K, V]{c.m.Copy()} }

func (c cow[K, V]) len() int              { return c.m.Len() }
func (c cow[K, V]) get(key K) (V, bool)   { return c.m.Get(key) }
func (c cow[K, V]) has(key K) bool        { _, ok := c.m.Get(key); return ok }
func (c cow[K, V]) set(key K, value V)    { c.m.Set(key, value) }
func (c cow[K, V]) delete(key K)          { c.m.Delete(key) }
func (c cow[K, V]) at(i int) (K, V, bool) { return c.m.GetAt(i) }

// insert reports whether the key was free; a key that is taken is left alone.
func (c cow[K, V]) insert(key K, value V) bool {
	if c.has(key) {
		return false
	}
	c.m.Set(key, value)
	return true
}

// all calls f in the order of the keys until it returns false.
func (c cow[K, V]) all(f func(K, V) bool) { c.m.Scan(f) }

// between calls f for the keys from <= key < to, in order, until it returns false.
func (c cow[K, V]) between(from, to K, f func(K, V) bool) {
	c.m.Ascend(from, func(k K, v V) bool { return k < to && f(k, v) })
}

// before returns the last entry with a key below the bound.
func (c cow[K, V]) before(bound K) (key K, value V, ok bool) {
	c.m.Descend(bound, func(k K, v V) bool {
		if k >= bound {
			return true
		}
		key, value, ok = k, v, true
		return false
	})
	return key, value, ok
}

// lowestFree returns the smallest number that is no key of c, by bisection: in an
// ordered map of distinct numbers the key at index i is i exactly as long as
// nothing below it is free.
func lowestFree[V any](c cow[uint32, V]) uint32 {
	low, high := 0, c.len()
	for low < high {
		mid := (low + high) / 2
		if key, _, _ := c.at(mid); key == uint32(mid) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return uint32(low)
}
