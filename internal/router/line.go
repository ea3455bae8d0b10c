package router

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"galgo"
)

// place is whose writes keep their order, and where.
type place struct {
	client galgo.ClientID
	group  uint64
}

// refusal is why a request was not taken.
type refusal uint8

const (
	taken   refusal = iota
	here            // this node does not lead, or has too much to do
	unasked         // there is no connection to who leads, or too much waits for it
	nothing         // the other node does not lead, or cannot judge yet
	busy            // it leads, and has too much to do
	lost            // it left, and what became of it is not known
)

const (
	// flyingMax bounds what a line has under way.
	flyingMax = 256
	pauseMin  = 5 * time.Millisecond
	pauseMax  = 100 * time.Millisecond // between two looks at who leads
	// A node that refused is asked again after a pause that doubles up to these. What is
	// asked may be long, and who has too much to do must not be kept busy refusing.
	refusedPauseMax = 250 * time.Millisecond
	busyPauseMin    = 20 * time.Millisecond
	busyPauseMax    = time.Second
)

// passenger is a request that a line carries.
type passenger interface {
	fly(to uint8, round uint64) // asks a node; the line hears how it landed
	fail()                      // it is not tried any more
	number() uint64             // in the order of their coming
	deadline() *time.Time       // zero before anything went wrong
}

// line is the requests of a client to a group, in the order in which they came. All that
// it may have under way is asked of one node, in this order; the node that refuses one
// refuses all that follow of this round (Gate, guests), and when all have landed those
// that were refused go again, in a new round, to who leads then.
type line struct {
	router *Router
	place  place
	lines  *lines // nil: nobody else joins

	mu        *sync.Mutex
	waiting   []passenger // in order
	flying    int
	back      []passenger // refused in this round
	why       refusal     // of the first that was
	round     uint64
	to        uint8
	window    int
	launching bool // by another goroutine, or below on the stack
	resting   bool // somebody looks who leads, or a timer runs

	refusedBy uint8 // node that is not asked again before a time
	notBefore time.Time
	pause     time.Duration
	idle      time.Duration // between the last two looks at who leads
}

// linesShards is how many locks the lines have.
const linesShards = 16

// lines are those that carry something.
type lines struct {
	mu  sync.Mutex
	all map[place]*line
}

// Number of the rounds of all lines, so that a later one is never taken for an earlier.
type rounds struct{ last atomic.Uint64 }

func (r *rounds) next() uint64 { return r.last.Add(1) }

func (r *Router) newLine(p place, of *lines, mu *sync.Mutex) *line {
	return &line{router: r, place: p, lines: of, mu: mu, to: r.self, window: flyingMax, round: r.rounds.next()}
}

// join puts a request behind those of its place. It says in which line before anybody asks
// for it.
func (r *Router) join(p place, v passenger, in **line) {
	q := &r.lines[(p.client[0]^byte(p.group))%linesShards]
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.all[p]
	if l == nil {
		if q.all == nil {
			q.all = map[place]*line{}
		}
		l = r.newLine(p, q, &q.mu)
		q.all[p] = l
	}
	l.waiting = append(l.waiting, v)
	*in = l
}

// alone is a line for one request, whose order among others does not matter.
func (r *Router) alone(group uint64, v passenger) *line {
	l := r.newLine(place{group: group}, nil, new(sync.Mutex))
	l.waiting = append(l.waiting, v)
	return l
}

// pump asks what may be asked. One goroutine at a time does, so that the order holds; what
// others find meanwhile it sees to.
func (l *line) pump() {
	l.mu.Lock()
	if l.launching {
		l.mu.Unlock()
		return
	}
	l.launching = true
	for l.why == taken && !l.resting && len(l.waiting) > 0 && l.flying < l.window {
		v := l.waiting[0]
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
		l.flying++
		to, round := l.to, l.round
		l.mu.Unlock()
		v.fly(to, round)
		l.mu.Lock()
	}
	l.launching = false
	var next func()
	switch {
	case l.flying > 0 || l.resting:
	case l.why != taken:
		next = l.turn()
	case len(l.waiting) == 0 && l.lines != nil && l.lines.all[l.place] == l: // else it was forgotten before
		delete(l.lines.all, l.place)
	}
	l.mu.Unlock()
	if next != nil {
		next()
	}
}

// unbroken reports whether nothing of the round was refused yet. What flies is of this
// round.
func (l *line) unbroken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why == taken
}

// landed says what became of a request that flew.
func (l *line) landed(v passenger, why refusal) {
	l.note(v, why)
	l.pump()
}

// note is the part of landed that has to happen before a node is asked to admit the next.
func (l *line) note(v passenger, why refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying--
	if why == taken {
		l.window, l.idle = min(2*l.window, flyingMax), 0
		return
	}
	if l.why == taken {
		l.why = why
	}
	at, _ := slices.BinarySearchFunc(l.back, v.number(), func(b passenger, n uint64) int {
		if b.number() < n {
			return -1
		}
		return 1
	})
	l.back = slices.Insert(l.back, at, v)
}

// turn begins a new round, and returns what is to be done without the lock.
func (l *line) turn() func() {
	now := time.Now()
	why := l.why
	l.waiting, l.back, l.why = append(l.back, l.waiting...), nil, taken
	l.round, l.resting = l.router.rounds.next(), true
	for _, v := range l.waiting {
		if d := v.deadline(); d.IsZero() {
			*d = now.Add(patience)
		}
	}
	if why == here {
		return func() { l.look(true) }
	}
	least, most := pauseMin, refusedPauseMax
	switch why {
	case busy:
		least, most = busyPauseMin, busyPauseMax
		l.window = 1
	case unasked:
		l.window = max(1, l.window/2)
	default:
		l.window = 1
	}
	if l.refusedBy != l.to {
		l.refusedBy, l.pause = l.to, 0
	}
	l.pause = min(max(2*l.pause, least), most)
	l.notBefore = now.Add(jittered(l.pause))
	return func() { l.rest(func() { l.look(false) }) }
}

func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// rest has the line go on after a pause, on another goroutine. While it rests nobody else
// does anything with it.
func (l *line) rest(then func()) {
	l.idle = min(max(2*l.idle, pauseMin), pauseMax)
	time.AfterFunc(jittered(l.idle), then)
}

// look finds out who leads.
func (l *line) look(refusedHere bool) {
	l.router.Leader(l.place.group, func(leader uint8, known bool) { l.looked(leader, known, refusedHere) })
}

func (l *line) looked(leader uint8, known, refusedHere bool) {
	now := time.Now()
	l.mu.Lock()
	self := known && leader == l.router.self
	switch {
	case self && refusedHere: // it has too much to do, or will lead in a moment
		l.giveUp()
		return
	case l.router.stopped.Load() || now.After(*l.waiting[0].deadline()):
		l.giveUp()
		return
	case !known:
		l.mu.Unlock()
		l.rest(func() { l.launch(l.router.self) })
		return
	case !self && leader == l.refusedBy && now.Before(l.notBefore):
		l.mu.Unlock()
		l.rest(func() { l.look(false) })
		return
	}
	l.mu.Unlock()
	l.launch(leader)
}

// launch has the line go on with this node.
func (l *line) launch(to uint8) {
	l.mu.Lock()
	l.to, l.resting = to, false
	l.mu.Unlock()
	l.pump()
}

// giveUp fails all that waits: to fail the first alone would have the others overtake it.
// It unlocks.
func (l *line) giveUp() {
	all := l.waiting
	l.waiting, l.resting = nil, false
	l.mu.Unlock()
	for _, v := range all {
		v.fail()
	}
	l.pump()
}
