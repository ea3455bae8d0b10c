package peer

// ring is a queue of entries that keeps its memory and moves none of them, but when it
// grows. Its length is a power of two.
type ring struct {
	slots []entry
	head  int
	count int
}

func (r *ring) len() int { return r.count }

func (r *ring) first() *entry { return &r.slots[r.head] }

func (r *ring) push(e entry) {
	if r.count == len(r.slots) {
		r.grow()
	}
	r.slots[(r.head+r.count)&(len(r.slots)-1)] = e
	r.count++
}

// pop takes the first entry, of which there is one, and forgets what it refers to.
func (r *ring) pop() entry {
	e := r.slots[r.head]
	r.slots[r.head] = entry{}
	r.head = (r.head + 1) & (len(r.slots) - 1)
	r.count--
	return e
}

func (r *ring) grow() {
	grown := make([]entry, max(16, 2*len(r.slots)))
	n := copy(grown, r.slots[r.head:])
	copy(grown[n:], r.slots[:r.head])
	r.slots, r.head = grown, 0
}
