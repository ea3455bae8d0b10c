package peer

import (
	"sync"

	"galgo/internal/vsr"
)

// rank orders what waits on a lane.
type rank uint8

const (
	rankNow    rank = iota // what acknowledgements wait for
	rankAnswer             // answers, which clients wait for
	rankAsked              // questions, whose answers may wait for the above
	rankLater              // what repairs a replica that is behind
	ranks
)

// Bounds of what waits on a lane, of each rank. One entry may be longer.
const (
	queueCountMax = 8192
	queueBytesMax = 64 << 20
)

// countMax bounds the entries of a rank. Answers are as many as there are questions.
func countMax(r rank) int {
	if r == rankAnswer {
		return askedMax / askedCost
	}
	return queueCountMax
}

// laterShare: after so many bytes of the ranks before it one entry of a rank has its
// turn, so that a replica that is behind catches up also under load.
const laterShare = 4 << 20

// Bounds of what is written at once.
const (
	batchCountMax = 256
	batchBytesMax = 1 << 20
)

// entry is a record that waits to be written. What it refers to does not change.
type entry struct {
	kind    recordKind
	message vsr.Message // of a frame
	head    []byte      // of all others, and what follows
	body    []byte
	size    int // in bytes, about
}

func frameEntry(m vsr.Message) entry {
	e := entry{kind: recordFrame, message: m, size: recordHeadSize + vsr.EnvelopeSize + 64}
	if m.Prepare != nil {
		e.size += vsr.HeaderSize + len(m.Prepare.Body)
	}
	if m.Rest != nil {
		e.size += len(m.Rest.Data) + len(m.Rest.Headers)*vsr.HeaderSize
	}
	return e
}

func dataEntry(kind recordKind, head, body []byte) entry {
	return entry{kind: kind, head: head, body: body, size: recordHeadSize + len(head) + len(body)}
}

// queue is what waits on a lane. It takes nothing while there is no connection: what
// would lie there is of the past when one comes.
type queue struct {
	mu      sync.Mutex
	waiting [ranks]ring
	bytes   [ranks]int
	passed  [ranks]int // bytes of the ranks before since one had its turn
	open    bool
	wake    chan struct{} // a token says that something waits
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

// put queues an entry; false if there is no connection or no room.
func (q *queue) put(e entry, r rank) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.waiting[r].len()
	if !q.open || n > 0 && (n >= countMax(r) || q.bytes[r]+e.size > queueBytesMax) {
		return false
	}
	q.add(e, r)
	return true
}

// force queues an entry that is bounded elsewhere, unless there is no connection.
func (q *queue) force(e entry, r rank) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open {
		q.add(e, r)
	}
}

func (q *queue) add(e entry, r rank) {
	q.waiting[r].push(e)
	q.bytes[r] += e.size
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take moves what is to be written next to the end of batch.
func (q *queue) take(batch []entry) []entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	for r := rankLater; r > rankNow; r-- {
		count := 1
		switch nothing := q.bytesBefore(r) == 0; {
		case nothing && r < rankLater:
			count = batchCountMax
		case !nothing && q.passed[r] < laterShare:
			continue
		}
		q.passed[r] = 0
		batch = q.write(batch, r, count)
	}
	return q.write(batch, rankNow, batchCountMax)
}

func (q *queue) bytesBefore(r rank) (n int) {
	for before := range r {
		n += q.bytes[before]
	}
	return n
}

// write moves entries of a rank and counts them as passed for those behind.
func (q *queue) write(batch []entry, r rank, count int) []entry {
	before := q.bytes[r]
	batch = q.move(batch, r, count)
	for behind := r + 1; behind < ranks; behind++ {
		q.passed[behind] += before - q.bytes[r]
	}
	return batch
}

func (q *queue) move(batch []entry, r rank, count int) []entry {
	w, size := &q.waiting[r], 0
	for n := 0; w.len() > 0 && n < count && (n == 0 || size+w.first().size <= batchBytesMax); n++ {
		e := w.pop()
		size += e.size
		batch = append(batch, e)
	}
	q.bytes[r] -= size
	return batch
}

// reopen empties the queue and takes entries from now on, or no more.
func (q *queue) reopen(open bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open, q.waiting, q.bytes, q.passed = open, [ranks]ring{}, [ranks]int{}, [ranks]int{}
}
