package partition

import (
	"fmt"
	"slices"

	"galgo"
)

// sent is a numbered send that is stored.
type sent struct {
	number uint64
	base   uint64 // offset of its first message
}

// producer remembers the recent numbered sends of one client, in the order in
// which they were stored.
type producer struct {
	client galgo.ClientID
	lastOp uint64
	// floor is the highest number that was forgotten; anyForgotten says that
	// there is one. A number at or below it that is not in the ring may or may
	// not have been stored: nobody can tell any more.
	floor        uint64
	anyForgotten bool
	ring         []sent // oldest at start once it is full
	start        int

	newer, older *producer // by lastOp
}

// producers is the producer table: which sends can be recognised. Entries are
// linked by the op that touched them last, so who goes when it is full follows
// from the log alone.
type producers struct {
	byClient       map[galgo.ClientID]*producer
	newest, oldest *producer
	limit, ring    int
}

// Verdict says what is known about a numbered send.
type Verdict uint8

// The verdicts of CheckNumbered.
const (
	// Fresh: not stored, as far as is remembered: admit it.
	Fresh Verdict = iota
	// Stored: it was, and its first message is at the offset returned.
	Stored
	// InFlight: it is in the log but not committed yet: answer when it is.
	InFlight
	// TooOld: newer numbers of this client have pushed the memory of it out, so
	// whether it was stored is not known. It must not be stored now.
	TooOld
)

func newProducers(limit, ring int) producers {
	return producers{byClient: make(map[galgo.ClientID]*producer), limit: limit, ring: ring}
}

func (t *producers) check(client galgo.ClientID, number uint64) (Verdict, uint64) {
	p := t.byClient[client]
	if p == nil {
		return Fresh, 0
	}
	for i := range p.ring {
		if p.ring[i].number == number {
			return Stored, p.ring[i].base
		}
	}
	if p.anyForgotten && number <= p.floor {
		return TooOld, 0
	}
	return Fresh, 0
}

// record remembers that a send was stored by op. The first place of a number
// stays if it should come twice.
func (t *producers) record(op uint64, client galgo.ClientID, number, base uint64) {
	p := t.touch(op, client)
	for i := range p.ring {
		if p.ring[i].number == number {
			return
		}
	}
	if len(p.ring) < t.ring {
		p.ring = append(p.ring, sent{number, base})
		return
	}
	p.floor, p.anyForgotten = max(p.floor, p.ring[p.start].number), true
	p.ring[p.start] = sent{number, base}
	p.start = (p.start + 1) % t.ring
}

// touch returns the entry of a client as the newest, made anew if need be; the
// client that has been silent longest makes room.
func (t *producers) touch(op uint64, client galgo.ClientID) *producer {
	p := t.byClient[client]
	if p == nil {
		if len(t.byClient) >= t.limit {
			t.evictOldest()
		}
		p = &producer{client: client}
		t.byClient[client] = p
	} else {
		t.unlink(p)
	}
	if t.newest != nil && t.newest.lastOp >= op {
		panic(fmt.Sprintf("partition: producer table goes from op %d to op %d", t.newest.lastOp, op))
	}
	p.lastOp = op
	t.link(p)
	return p
}

func (t *producers) evictOldest() {
	gone := t.oldest
	t.unlink(gone)
	delete(t.byClient, gone.client)
}

func (t *producers) link(p *producer) {
	p.older, p.newer = t.newest, nil
	if t.newest != nil {
		t.newest.newer = p
	} else {
		t.oldest = p
	}
	t.newest = p
}

func (t *producers) unlink(p *producer) {
	if p.newer != nil {
		p.newer.older = p.older
	} else {
		t.newest = p.older
	}
	if p.older != nil {
		p.older.newer = p.newer
	} else {
		t.oldest = p.newer
	}
}

func (t *producers) clear() { *t = newProducers(t.limit, t.ring) }

// export copies the table, silent longest first, each ring oldest first.
func (t *producers) export() []producerState {
	out := make([]producerState, 0, len(t.byClient))
	for p := t.oldest; p != nil; p = p.newer {
		ring := slices.Concat(p.ring[p.start:], p.ring[:p.start])
		out = append(out, producerState{p.client, p.lastOp, p.floor, p.anyForgotten, ring})
	}
	return out
}

// load fills an empty table with what export gave.
func (t *producers) load(states []producerState) {
	for _, s := range states {
		p := &producer{
			client: s.client, lastOp: s.lastOp, floor: s.floor, anyForgotten: s.anyForgotten,
			ring: slices.Clone(s.ring),
		}
		t.byClient[s.client] = p
		t.link(p)
	}
}

// producerState is an entry of the producer table in a checkpoint.
type producerState struct {
	client       galgo.ClientID
	lastOp       uint64
	floor        uint64
	anyForgotten bool
	ring         []sent
}
