package peer

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	"galgo/internal/vsr"
)

// Errors of a question.
var (
	// ErrNotAsked: the question never left, so the peer has done nothing.
	ErrNotAsked = errors.New("peer: there is no connection to the node, or too much waits for it")
	// ErrLost: the question left, and no answer can come any more.
	ErrLost = errors.New("peer: the connection was lost before the answer came")
)

// callsMax bounds the questions that wait for their answers.
const callsMax = 1 << 16

// calls are the questions of this node that wait for their answers.
type calls struct {
	mu      sync.Mutex
	next    uint64 // never that of an earlier life: it begins anywhere
	pending map[uint64]call
	bytes   [vsr.ReplicasMax]int // of those that wait, by who was asked
}

type call struct {
	to   uint8
	size int
	done func(answer []byte, err error)
}

func newCalls() *calls { return &calls{next: rand.Uint64(), pending: map[uint64]call{}} }

func (c *calls) begin(to uint8, size int, done func([]byte, error)) (id uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size += askedCost
	if len(c.pending) >= callsMax || c.bytes[to] > 0 && c.bytes[to]+size > askedMax {
		return 0, false
	}
	c.next++
	c.pending[c.next] = call{to, size, done}
	c.bytes[to] += size
	return c.next, true
}

// remove takes a question out, under the lock.
func (c *calls) remove(id uint64, q call) {
	delete(c.pending, id)
	c.bytes[q.to] -= q.size
}

// end takes a question out; false if its outcome was told already.
func (c *calls) end(id uint64) (call, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q, ok := c.pending[id]
	if ok {
		c.remove(id, q)
	}
	return q, ok
}

// forget has nobody told of a question.
func (c *calls) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q, ok := c.pending[id]; ok {
		q.done = func([]byte, error) {}
		c.pending[id] = q
	}
}

// answered tells an answer to who waits for it, if the one that was asked gives it.
func (c *calls) answered(from uint8, id uint64, answer []byte) { c.over(from, id, answer, nil) }

// unanswered tells who waits for an answer that it will not come.
func (c *calls) unanswered(from uint8, id uint64) { c.over(from, id, nil, ErrLost) }

func (c *calls) over(from uint8, id uint64, answer []byte, err error) {
	c.mu.Lock()
	q, ok := c.pending[id]
	ok = ok && q.to == from
	if ok {
		c.remove(id, q)
	}
	c.mu.Unlock()
	if ok {
		q.done(answer, err)
	}
}

// lost tells all who wait for a peer that its answers will not come, in the order in
// which they asked.
func (c *calls) lost(to uint8) {
	var ids []uint64
	over := map[uint64]call{}
	c.mu.Lock()
	for id, q := range c.pending {
		if q.to == to {
			ids = append(ids, id)
			over[id] = q
			c.remove(id, q)
		}
	}
	last := c.next
	c.mu.Unlock()
	slices.SortFunc(ids, func(a, b uint64) int { return cmp.Compare(last-b, last-a) }) // the numbers wrap
	for _, id := range ids {
		over[id].done(nil, ErrLost)
	}
}

// shortBody is the length up to which answers go on the control lane.
const shortBody = 16 << 10

// Ask asks a peer, after what was asked of it on the same lane. done is called once, from
// any goroutine, and must not block: with the answer, with ErrNotAsked, or with ErrLost.
// cancel forgets who asked: done is not called any more unless it was. The question counts
// until it is answered or lost, as it does for the one that was asked.
func (l *Links) Ask(to uint8, lane Lane, subject uint8, head, body []byte, done func(answer []byte, err error)) (cancel func()) {
	nothing := func() {}
	if int(to) >= len(l.peers) || to == l.o.Self {
		done(nil, ErrNotAsked)
		return nothing
	}
	id, ok := l.calls.begin(to, callHeadSize+len(head)+len(body), done)
	if !ok {
		done(nil, ErrNotAsked)
		return nothing
	}
	b := make([]byte, 0, callHeadSize+len(head))
	b = append(binary.LittleEndian.AppendUint64(b, id), subject)
	if !l.peers[to].out[lane].queue.put(dataEntry(recordCall, append(b, head...), body), rankAsked) {
		if _, ok := l.calls.end(id); ok {
			done(nil, ErrNotAsked)
		}
		return nothing
	}
	return func() { l.calls.forget(id) }
}

// answer sends the answer to a question of the peer. It may be lost with the connection,
// which the peer notices too. An answer for which there is no room is said to be lost:
// what was asked may have been done.
func (k *link) answer(id uint64, answer []byte) {
	head := binary.LittleEndian.AppendUint64(nil, id)
	e, lane := dataEntry(recordAnswer, head, answer), Control
	if e.size > shortBody {
		lane = Bulk
	}
	if !k.out[lane].queue.put(e, rankAnswer) {
		k.out[Control].queue.force(dataEntry(recordLost, head, nil), rankAnswer)
	}
}
