package sim

import (
	"fmt"
	"math/rand/v2"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/engine"
	"galgo/internal/metadata"
)

// workPlan is what clients do, and how.
type workPlan struct {
	think      int64 // µs between two things that a client begins
	timeout    int64 // µs until an answer is given up
	latency    int64 // µs between client and node
	window     int   // sends of a client under way at a time
	batchMax   int   // messages of a send
	payloadMax int   // bytes of a message
	big        int   // one message in so many has up to 300 KiB
	saved      uint32
	expiry     uint64 // µs, of all topics; 0: never
	streams    int
	topics     int
	partitions int
	weights    [works]int
	memory     int // one topic in so many has durability memory
	twins      int // one request in so many is met by a second login; 0: none
	hangUp     int // one answer in so many is lost with the connection
}

// work is a kind of thing that a client does.
type work int

const (
	workSend work = iota
	workSendNumbered
	workPoll
	workStore
	workDelete
	workOffset
	workCreate
	workRemove
	workGrow
	workShrink
	workPurge
	workRename
	workGroup
	workLogin
	workLogout
	workUser
	workSweep
	workJoin
	workLeave
	workMemberPoll
	workSegments
	workRetain
	works
)

func drawWork(rng *rand.Rand) workPlan {
	p := workPlan{
		think: between(rng, millisecond, 60*millisecond), timeout: between(rng, 300*millisecond, 5*second),
		latency: between(rng, 20, 2*millisecond), window: 1 + rng.IntN(8), batchMax: 1 + rng.IntN(12),
		payloadMax: 1 << rng.IntN(12), big: pick(rng, 0, 0, 20, 100), saved: uint32(1 + rng.IntN(60)),
		streams: 1 + rng.IntN(3), topics: 1 + rng.IntN(3), partitions: 1 + rng.IntN(3), hangUp: 20 + rng.IntN(200),
	}
	p.weights = [works]int{
		workSend: 20 + rng.IntN(40), workSendNumbered: 20 + rng.IntN(60), workPoll: 10 + rng.IntN(40), workStore: rng.IntN(20),
		workDelete: rng.IntN(4), workOffset: rng.IntN(15), workCreate: 6 + rng.IntN(8), workRemove: rng.IntN(4), workGrow: rng.IntN(4),
		workShrink: rng.IntN(3), workPurge: rng.IntN(4), workRename: rng.IntN(3), workGroup: rng.IntN(5),
		workLogin: rng.IntN(4), workLogout: rng.IntN(2), workUser: 3 + rng.IntN(3), workSweep: rng.IntN(2),
		workJoin: 3 + rng.IntN(12), workLeave: rng.IntN(3), workMemberPoll: 10 + rng.IntN(40), workSegments: rng.IntN(5), workRetain: rng.IntN(4),
	}
	p.expiry = pick(rng, 0, 0, uint64(100*millisecond), uint64(5*second))
	return p
}

// crowd is all clients and what they have sent.
type crowd struct {
	w       *world
	clients []*client
	sends   []*sendRecord // by serial - 1
	twins   *rand.Rand
}

// client is one program that talks to the cluster: to one node at a time, and to
// another when that does not answer.
type client struct {
	w       *world
	crowd   *crowd
	index   int
	id      galgo.ClientID
	rng     *rand.Rand
	node    *node
	session session
	changes int // metadata operations under way: at most one
	sending []*sendRecord
	open    int // of everything that is under way
	guest   bool
	actor   metadata.Actor // as whom it has signed in
	tenures edge.Tenures   // at the node it is at
}

func newCrowd(w *world) *crowd {
	c := &crowd{w: w, twins: stream(w.seed, partTwins)}
	for i := range w.plan.clients {
		rng := stream(w.seed, partClients<<32+part(i))
		cl := &client{w: w, crowd: c, index: i, rng: rng, node: w.nodes[rng.IntN(len(w.nodes))], guest: i == 1 && w.seed%2 == 1}
		cl.id[0], cl.id[1] = byte(i+1), 0xC1
		c.clients = append(c.clients, cl)
	}
	return c
}

func (c *crowd) begin() {
	for _, cl := range c.clients {
		cl.bootstrap()
		cl.later()
	}
}

func (c *client) later() {
	c.w.after(between(c.rng, 1, 2*c.w.plan.work.think), func() {
		if c.w.calm {
			return
		}
		if d := c.w.nemesis.dance; d == nil || !d.hush && !d.gaze {
			c.act()
		}
		c.later()
	})
}

// act begins something at random.
func (c *client) act() {
	total := 0
	for _, weight := range c.w.plan.work.weights {
		total += weight
	}
	n := c.rng.IntN(total)
	for kind := range works {
		if n -= c.w.plan.work.weights[kind]; n < 0 {
			c.do(kind)
			return
		}
	}
}

func (c *client) do(kind work) {
	switch kind {
	case workSend, workSendNumbered:
		c.send(kind == workSendNumbered)
	case workPoll:
		c.poll()
	case workStore, workDelete:
		c.writeOffset(kind == workDelete)
	case workOffset:
		c.readOffset()
	case workMemberPoll:
		c.pollAsMember()
	case workRetain:
		c.retain()
	case workLogin:
		c.login()
	case workLogout:
		c.logout()
	case workSweep:
		c.sweep()
	default:
		c.change(kind)
	}
}

// move goes to another node: this one did not help.
func (c *client) move() {
	if n := len(c.w.nodes); n > 1 {
		c.node = c.w.nodes[(int(c.node.id)+1+c.rng.IntN(n-1))%n]
		c.tenures = edge.Tenures{}
	}
}

// backoff is how long a client waits before it tries again.
func (c *client) backoff() int64 { return between(c.rng, millisecond, 100*millisecond) }

// fate is what a client knows of an attempt that got no answer.
type fate uint8

const (
	answered fate = iota
	unsent        // the node was not there
	open          // it may have happened, or happen later
)

// attempts are those that wait for an answer of one life of a node.
type attempts struct{ waiting []*attempt }

// attempt is one request to one node.
type attempt struct {
	over bool
	lost func()
}

// lose breaks the connections to a node.
func (a *attempts) lose(w *world) {
	waiting := a.waiting
	a.waiting = nil
	for _, at := range waiting {
		if !at.over {
			w.after(millisecond, at.lost)
		}
	}
}

func (a *attempts) add(at *attempt) {
	kept := a.waiting[:0]
	for _, old := range a.waiting {
		if !old.over {
			kept = append(kept, old)
		}
	}
	clear(a.waiting[len(kept):])
	a.waiting = append(kept, at)
}

// try sends one request to the client's node and ends with its answer, a time-out or
// a lost connection. An answer that comes twice is a failure, whoever waits for it.
func try[R any](c *client, what string, call func(*engine.Engine, func(R)), end func(R, fate)) {
	w, n, p := c.w, c.node, &c.w.plan.work
	var none R
	at := &attempt{}
	finish := func(r R, f fate) {
		if !at.over {
			at.over = true
			end(r, f)
		}
	}
	at.lost = func() {
		if !at.over {
			w.cover.ConnectionsLost++
			finish(none, open)
		}
	}
	w.after(between(c.rng, 1, p.latency), func() {
		if n.engine == nil {
			finish(none, unsent)
			return
		}
		n.attempts.add(at)
		answers := 0
		call(n.engine, func(r R) {
			if answers++; answers > 1 {
				w.fail("answers", "node %d answers twice: %s of client %d", n.id, what, c.index)
			}
			w.mark(markAnswer, uint64(c.index), markText(what))
			if w.plan.faults[faultClient] && !w.calm && oneIn(c.rng, p.hangUp) {
				w.after(between(c.rng, 1, p.latency), at.lost)
				return
			}
			w.after(between(c.rng, 1, p.latency), func() { finish(r, answered) })
		})
	})
	w.after(p.timeout, func() {
		if !at.over {
			w.cover.TimeOuts++
			w.say("client %d gives up on n%d: %s", c.index, n.id, what)
			finish(none, open)
		}
	})
}

// begun and done count what is under way.
func (c *client) begun() { c.open++ }

func (c *client) done() { c.open-- }

func (c *client) String() string { return fmt.Sprintf("client %d", c.index) }
