package peer

import (
	"slices"
	"testing"

	"galgo/internal/vsr"
)

func sized(n int) entry { return entry{kind: recordCall, size: n} }

func TestQueueTakesNothingWithoutAConnection(t *testing.T) {
	q := newQueue()
	if q.put(sized(1), rankNow) {
		t.Error("taken before there is a connection")
	}
	q.reopen(true)
	if !q.put(sized(1), rankNow) {
		t.Error("not taken")
	}
	q.reopen(false)
	if q.put(sized(1), rankNow) || len(q.take(nil)) != 0 {
		t.Error("something is left of a connection that ended")
	}
}

func TestQueueIsBounded(t *testing.T) {
	for _, c := range []struct {
		name string
		size int
		room int
	}{{"by count", 1, queueCountMax}, {"by bytes", queueBytesMax / 4, 4}, {"but for one that is longer", queueBytesMax + 1, 1}} {
		q := newQueue()
		q.reopen(true)
		n := 0
		for q.put(sized(c.size), rankNow) {
			n++
		}
		if n != c.room {
			t.Errorf("%s: %d fit, want %d", c.name, n, c.room)
		}
		if !q.put(sized(1), rankLater) {
			t.Errorf("%s: the other rank has no room of its own", c.name)
		}
	}
}

// What acknowledgements wait for goes first, and the rest has its turn all the same.
func TestQueueRanks(t *testing.T) {
	q := newQueue()
	q.reopen(true)
	const size = 256 << 10
	q.put(sized(size+1), rankLater)
	q.put(sized(size+1), rankLater)
	for range 2 * laterShare / size {
		q.put(sized(size), rankNow)
	}
	first, turn, n := true, 0, 0
	for {
		batch := q.take(nil)
		if len(batch) == 0 {
			break
		}
		for _, e := range batch {
			n++
			if e.size == size+1 && turn == 0 {
				turn = n
			}
			first = first && (n > 1 || e.size == size)
		}
	}
	if !first || turn != 1+laterShare/size || n != 2+2*laterShare/size {
		t.Errorf("an entry of the first rank came first: %v; the second had its turn at %d of %d", first, turn, n)
	}
}

// Questions come after what acknowledgements wait for and before what repairs, and have
// their turn.
func TestQueueRankOfQuestions(t *testing.T) {
	q := newQueue()
	q.reopen(true)
	q.put(sized(3), rankLater)
	for range 3 {
		q.put(sized(2), rankAsked)
	}
	q.put(sized(1), rankNow)
	var sizes []int
	for batch := q.take(nil); len(batch) > 0; batch = q.take(nil) {
		for _, e := range batch {
			sizes = append(sizes, e.size)
		}
	}
	if !slices.Equal(sizes, []int{1, 2, 2, 2, 3}) {
		t.Errorf("left in the order %v", sizes)
	}
	q.put(sized(2), rankAsked)
	for range 2 * laterShare / batchBytesMax {
		q.put(sized(batchBytesMax), rankNow)
	}
	for n := 0; q.waiting[rankAsked].len() > 0; n++ {
		if q.take(nil); n > laterShare/batchBytesMax {
			t.Fatal("under load no question leaves")
		}
	}
}

// A batch is bounded, and what is longer leaves alone.
func TestQueueBatches(t *testing.T) {
	q := newQueue()
	q.reopen(true)
	for range batchCountMax + 1 {
		q.put(sized(1), rankNow)
	}
	q.put(sized(batchBytesMax+1), rankNow)
	for i, want := range []int{batchCountMax, 1, 1, 0} {
		if got := len(q.take(nil)); got != want {
			t.Errorf("batch %d has %d entries, want %d", i, got, want)
		}
	}
	for r := range ranks {
		if q.bytes[r] != 0 {
			t.Errorf("%d bytes are left of rank %d", q.bytes[r], r)
		}
	}
}

func TestSizeOfFrames(t *testing.T) {
	p := prepare(1, 1000)
	for _, m := range []vsr.Message{
		{Kind: vsr.MessagePrepare, Op: 1, Identity: p.Identity, Prepare: p},
		{Kind: vsr.MessageChunk, Rest: &vsr.Rest{Data: make([]byte, 5000)}},
		{Kind: vsr.MessageHeaders, Rest: &vsr.Rest{Headers: make([]vsr.Header, 100)}},
	} {
		e := frameEntry(m)
		head, body := appendRecord(nil, &e)
		if got := len(head) + len(body); got > e.size+100 || got < e.size-100 {
			t.Errorf("%v has %d bytes, reckoned with %d", m.Kind, got, e.size)
		}
	}
}
