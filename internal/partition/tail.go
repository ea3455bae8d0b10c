package partition

import (
	"fmt"
	"sort"
)

// resident is a committed batch in memory.
type resident struct {
	body  []byte // the record, shared: never changed
	base  uint64
	count uint32
	time  uint64
	seg   *segment
	pos   uint64 // of the record in its segment
}

func (r *resident) end() uint64 { return r.base + uint64(r.count) }

// tail holds the newest batches without a gap, up to the last one: all that are
// not written to their segment yet and, before them, written ones for polls.
//
// Batches have sequence numbers that only grow, so that a job can say up to which
// one it has written even if the front has moved meanwhile. Invariant:
// first <= written <= first+len(live()).
type tail struct {
	items   []resident
	head    int    // items[:head] are gone
	first   uint64 // sequence of items[head]
	written uint64 // sequence of the first batch that is not written
	bytes   int    // of all bodies
	before  uint64 // µs, of the batch before the front; 0 if there is none

	unwrittenBytes    uint64
	unwrittenMessages uint64
}

func (t *tail) live() []resident { return t.items[t.head:] }

func (t *tail) len() int { return len(t.items) - t.head }

// front returns the oldest batch; there must be one.
func (t *tail) front() *resident { return &t.items[t.head] }

// end is the sequence behind the newest batch.
func (t *tail) end() uint64 { return t.first + uint64(t.len()) }

func (t *tail) push(r resident) {
	if t.head > 0 && len(t.items) == cap(t.items) {
		t.compact()
	}
	t.items = append(t.items, r)
	t.bytes += len(r.body)
	t.unwrittenBytes += uint64(len(r.body))
	t.unwrittenMessages += uint64(r.count)
}

// compact moves the live batches to the start. It runs when the slice is full,
// so at most once per batch on average if half of it is free; if less is free
// the slice is let grow instead.
func (t *tail) compact() {
	if t.head < len(t.items)/2 {
		return
	}
	n := copy(t.items, t.live())
	clear(t.items[n:])
	t.items, t.head = t.items[:n], 0
}

// unwritten returns the batches from the first unwritten one on.
func (t *tail) unwritten() []resident { return t.live()[t.written-t.first:] }

// markWritten says that all batches below sequence end are in their files.
func (t *tail) markWritten(end uint64) {
	if end > t.end() {
		panic(fmt.Sprintf("partition: batch %d written, newest is %d", end, t.end()))
	}
	for ; t.written < end; t.written++ {
		r := &t.live()[t.written-t.first]
		t.unwrittenBytes -= uint64(len(r.body))
		t.unwrittenMessages -= uint64(r.count)
	}
}

// evict drops written batches from the front until at most keep bytes are left.
func (t *tail) evict(keep int) {
	for t.bytes > keep && t.first < t.written {
		t.pop()
	}
}

// dropBelow drops batches below offset, written or not.
func (t *tail) dropBelow(offset uint64) {
	for t.len() > 0 && t.front().base < offset {
		if t.first == t.written {
			t.markWritten(t.first + 1)
		}
		t.pop()
	}
}

func (t *tail) pop() {
	r := t.front()
	t.before = r.time
	t.bytes -= len(r.body)
	*r = resident{}
	t.head++
	t.first++
	if t.len() == 0 {
		t.items, t.head = t.items[:0], 0
	}
}

// clear drops everything; sequences go on.
func (t *tail) clear() {
	clear(t.items)
	end := t.end()
	*t = tail{items: t.items[:0], first: end, written: end}
}

// findOffset returns the index in live() of the batch that holds offset, which
// must not be below the front; len if it is beyond the newest.
func (t *tail) findOffset(offset uint64) int {
	live := t.live()
	return sort.Search(len(live), func(i int) bool { return live[i].end() > offset })
}

// findTime returns the index in live() of the first batch stamped at µs or later.
func (t *tail) findTime(µs uint64) int {
	live := t.live()
	return sort.Search(len(live), func(i int) bool { return live[i].time >= µs })
}
