package cli

import (
	"math/bits"
	"time"
)

// A histogram sorts durations into buckets: exact up to 127 ns, then 64 for every
// power of two, so a quantile is at most 1/64 too high.
const (
	exactBits   = 7
	perPower    = 1 << (exactBits - 1)
	bucketCount = 2*perPower + (64-exactBits)*perPower
)

type histogram struct {
	buckets [bucketCount]uint64
	count   uint64
	sum     time.Duration
	max     time.Duration
}

func bucketOf(ns uint64) int {
	shift := max(bits.Len64(ns)-exactBits, 0)
	return shift*perPower + int(ns>>shift)
}

// bucketTop is the largest value of a bucket.
func bucketTop(i int) uint64 {
	if i < 2*perPower {
		return uint64(i)
	}
	shift := i/perPower - 1
	return (uint64(i-shift*perPower)+1)<<shift - 1
}

func (h *histogram) add(d time.Duration) {
	h.buckets[bucketOf(uint64(max(d, 0)))]++
	h.count++
	h.sum += d
	h.max = max(h.max, d)
}

func (h *histogram) merge(o *histogram) {
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
	h.count += o.count
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

// quantile is the duration that a share q, 0..1, of all does not exceed; 0 if there
// are none.
func (h *histogram) quantile(q float64) time.Duration {
	rank := uint64(q * float64(h.count))
	if float64(rank) < q*float64(h.count) || rank == 0 {
		rank++
	}
	seen := uint64(0)
	for i, n := range h.buckets {
		if seen += n; seen >= rank && n > 0 {
			return min(time.Duration(bucketTop(i)), h.max)
		}
	}
	return 0
}

func (h *histogram) mean() time.Duration {
	if h.count == 0 {
		return 0
	}
	return h.sum / time.Duration(h.count)
}
