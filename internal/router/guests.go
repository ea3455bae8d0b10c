package router

import (
	"sync"

	"galgo/internal/vsr"
)

// marksMax bounds the lines of one other node that are remembered as refused.
const marksMax = 4096

// guests keep the order of writes that other nodes ask for. Of a line that had a write
// refused, what follows of the same round is refused as well: it would overtake. A later
// round begins when all of the one before have landed.
type guests struct {
	mu sync.Mutex
	of [vsr.ReplicasMax]guestLines
}

// guestLines are those of one other node.
type guestLines struct {
	asker   uint64 // its process
	refused map[place]uint64
	highest uint64 // round that was seen
	// floor: where too many lines are remembered, all rounds so far are refused, and the
	// other node begins new ones.
	floor uint64
}

// guest is a write that another node asks for.
type guest struct {
	guests *guests
	from   uint8
	asker  uint64
	place  place
	round  uint64
}

// lines are those of the process that asks.
func (g *guest) lines() *guestLines {
	l := &g.guests.of[g.from]
	if l.asker != g.asker {
		*l = guestLines{asker: g.asker, refused: map[place]uint64{}}
	}
	l.highest = max(l.highest, g.round)
	return l
}

// Admit implements edge.Gate.
func (g *guest) Admit() bool {
	g.guests.mu.Lock()
	defer g.guests.mu.Unlock()
	l := g.lines()
	refused, marked := l.refused[g.place]
	if g.round <= l.floor || marked && g.round <= refused {
		return false
	}
	delete(l.refused, g.place)
	return true
}

// refuse notes that the write was refused.
func (g *guest) refuse() {
	g.guests.mu.Lock()
	defer g.guests.mu.Unlock()
	l := g.lines()
	if len(l.refused) >= marksMax {
		l.floor = l.highest
		clear(l.refused)
	}
	l.refused[g.place] = max(l.refused[g.place], g.round)
}
