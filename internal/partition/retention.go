package partition

import (
	"math"
)

// Retention says which of the oldest segments a partition need not keep. Whoever leads
// the group decides by it and puts what follows into the log as OpTruncate: a clock or a
// sum of one replica must not decide what another one drops.
type Retention struct {
	Now    uint64 // µs
	Expiry uint64 // µs: segments go when their last batch is older; 0: never
	Bytes  uint64 // of sealed segments that may stay; 0: any
	// Hold keeps what a consumer with a stored offset has not come to yet.
	Hold bool
	// Max bounds the segments that go at a time; 0: any number.
	Max int
}

// Disposable returns the offset below which segments may go by the rules; 0 if none may.
// The open segment is never among them.
func (m *Machine) Disposable(r Retention) (below uint64) {
	n := max(m.expired(r), m.oversized(r))
	if r.Max > 0 {
		n = min(n, r.Max)
	}
	return m.endOf(n, r.Hold)
}

// Bound names the oldest segments of a partition: those that end below an offset and whose
// last batch is no younger than a time. The time tells them from what is written in their
// place after power loss has taken them from a topic in memory.
type Bound struct {
	Below uint64
	Until uint64 // µs
}

// Max is the bound that names what either does.
func (b Bound) Max(other Bound) Bound {
	return Bound{max(b.Below, other.Below), max(b.Until, other.Until)}
}

// Oldest names the n oldest sealed segments; fewer, if there are not as many or a
// consumer has not come to them yet.
func (m *Machine) Oldest(n int) (b Bound) {
	below := m.endOf(n, true)
	for _, s := range m.segments {
		if s.last >= below {
			break
		}
		b = Bound{s.last + 1, s.time}
	}
	return b
}

// Bounded returns the offset below which the segments are that a bound names, as far as
// every consumer that has stored an offset is past them; 0 if there are none.
func (m *Machine) Bounded(b Bound) (below uint64) {
	if m.within(b, math.MaxUint64) == 0 {
		return 0 // most often, and the offsets are many
	}
	return m.within(b, m.consumers.least())
}

// Droppable is what is left of an offset below which segments are to go where the
// truncation is given its place in the log: with hold, what a consumer has not come to
// stays, also one that went back by a store that is in the log and not applied.
func (m *Machine) Droppable(below uint64, hold bool) uint64 {
	barrier := uint64(math.MaxUint64)
	if hold {
		barrier = m.consumers.least()
		for _, offset := range m.frontier.stores {
			barrier = min(barrier, offset)
		}
	}
	return m.within(Bound{below, math.MaxUint64}, barrier)
}

// within returns the offset below which the segments are that a bound names and that end
// at the barrier or before it.
func (m *Machine) within(b Bound, barrier uint64) (below uint64) {
	for _, s := range m.segments {
		if !s.sealed || s.last >= b.Below || s.time > b.Until || s.last > barrier {
			break
		}
		below = s.last + 1
	}
	return below
}

// expired counts the leading segments that are too old. It stops at the first that is
// not, so that no hole comes into being whatever the times are.
func (m *Machine) expired(r Retention) (n int) {
	if r.Expiry == 0 || r.Expiry > r.Now {
		return 0
	}
	for _, s := range m.segments {
		if !s.sealed || s.time > r.Now-r.Expiry {
			break
		}
		n++
	}
	return n
}

// oversized counts the leading segments by which the sealed ones are too many.
func (m *Machine) oversized(r Retention) (n int) {
	if r.Bytes == 0 {
		return 0
	}
	sealed := uint64(0)
	for _, s := range m.segments {
		if s.sealed {
			sealed += s.size
		}
	}
	for _, s := range m.segments {
		if !s.sealed || sealed <= r.Bytes {
			break
		}
		sealed -= s.size
		n++
	}
	return n
}

// endOf returns where the n oldest segments end, as far as they are sealed and, with
// hold, every consumer that has stored an offset is past them.
func (m *Machine) endOf(n int, hold bool) (below uint64) {
	barrier := uint64(math.MaxUint64)
	if hold {
		barrier = m.consumers.least()
	}
	for _, s := range m.segments[:min(n, len(m.segments))] {
		if !s.sealed || s.last > barrier {
			break
		}
		below = s.last + 1
	}
	return below
}
