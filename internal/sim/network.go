package sim

import (
	"math/rand/v2"

	"galgo/internal/vsr"
)

// networkPlan is what happens to frames. Rates are one in so many; 0 is never.
type networkPlan struct {
	delayMin, delayMax int64 // µs
	loss, repeat       int
	late               int   // frames that are late by
	lateMax            int64 // up to so many µs
}

func drawNetwork(rng *rand.Rand, faults map[fault]bool) networkPlan {
	p := networkPlan{delayMin: between(rng, 20, 500)}
	p.delayMax = p.delayMin + between(rng, 10, 3*millisecond)
	loss, repeat, late, lateMax := 2+rng.IntN(100), 2+rng.IntN(60), 5+rng.IntN(300), between(rng, 100*millisecond, 30*second)
	if faults[faultLoss] {
		p.loss = loss
	}
	if faults[faultRepeat] {
		p.repeat = repeat
	}
	if faults[faultDelay] {
		p.late, p.lateMax = late, lateMax
	}
	return p
}

// network carries frames between nodes.
type network struct {
	w   *world
	rng *rand.Rand
	cut map[[2]uint8]bool // from, to; looked up, never ranged over
}

func newNetwork(w *world) *network {
	return &network{w: w, rng: stream(w.seed, partNetwork), cut: map[[2]uint8]bool{}}
}

// port is the network as one node sees it.
type port struct{ n *node }

// Send implements shard.Network.
func (p port) Send(m vsr.Message) {
	w := p.n.w
	w.checks.leaves(p.n, &m)
	w.cover.frame(m.Kind)
	head, body := vsr.AppendFrame(nil, &m)
	w.net.send(p.n, &m, append(head, body...))
}

func (t *network) send(from *node, m *vsr.Message, frame []byte) {
	w, to := t.w, m.To
	w.markBytes(markFrame, uint64(from.id)<<8|uint64(to), frame[:min(len(frame), vsr.EnvelopeSize)])
	p := &w.plan.network
	w.echoes.passes(m, frame)
	if t.cut[[2]uint8{from.id, to}] || w.nemesis.dance != nil && w.nemesis.dance.sees(m) {
		w.cover.FramesCut++
		return
	}
	if !w.calm && oneIn(t.rng, p.loss) {
		w.cover.FramesLost++
		return
	}
	copies := 1
	if !w.calm && oneIn(t.rng, p.repeat) {
		w.cover.FramesRepeated++
		copies = 2
	}
	for range copies {
		delay := between(t.rng, p.delayMin, p.delayMax) * from.slow
		if !w.calm && oneIn(t.rng, p.late) {
			w.cover.FramesLate++
			delay += between(t.rng, 0, p.lateMax)
		}
		w.after(delay, func() { t.deliver(from.id, w.nodes[to], frame) })
	}
}

// deliver hands a frame to whatever life the receiver has by now, unless it was on a
// link that is cut.
func (t *network) deliver(from uint8, to *node, frame []byte) {
	if !t.cut[[2]uint8{from, to.id}] {
		t.arrive(from, to, frame)
	}
}

func (t *network) arrive(from uint8, to *node, frame []byte) {
	w := t.w
	if to.engine == nil {
		return
	}
	m, err := vsr.DecodeFrame(frame)
	if err != nil {
		w.fail("frame", "what node %d sent cannot be read: %v", from, err)
		return
	}
	if w.trace.on {
		w.say("n%d -> n%d %s", from, to.id, describe(&m))
	}
	w.mark(markDeliver, uint64(from)<<8|uint64(to.id), uint64(m.Kind), uint64(m.Group), uint64(m.Op))
	w.checks.hears(to, &m)
	to.engine.Deliver(m)
}

// down tells the others that the connections of a node broke, as far as they see it.
func (t *network) down(n *node) {
	for _, other := range t.w.nodes {
		if other == n || n.unseen || oneIn(t.rng, 3) {
			continue
		}
		t.w.after(between(t.rng, 0, 50*millisecond), func() {
			if other.engine != nil && !t.cut[[2]uint8{n.id, other.id}] {
				other.engine.LinkDown(n.id)
			}
		})
	}
}

// sever cuts a link in one direction, and may break connections over it.
func (t *network) sever(from, to uint8) {
	t.cut[[2]uint8{from, to}] = true
	for _, pair := range [][2]uint8{{from, to}, {to, from}} {
		if n := t.w.nodes[pair[0]]; n.engine != nil && oneIn(t.rng, 3) {
			n.engine.LinkDown(pair[1])
		}
	}
}

func (t *network) heal() { clear(t.cut) }
