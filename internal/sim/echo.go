package sim

import (
	"math/rand/v2"

	"galgo/internal/vsr"
)

// echoes are old answers that come again when the next question is asked, as if the
// network had kept them: answers to another question, of another view, or of a life
// that is over.
type echoes struct {
	w    *world
	rng  *rand.Rand
	rate int
	kept map[echoKey][]echo
}

type echoKey struct {
	to    uint8
	kind  vsr.MessageKind
	group vsr.GroupID
}

type echo struct {
	from  uint8
	frame []byte
}

// Bounds of what is kept: answers of a kind to one replica, and bytes of each.
const (
	echoesMax    = 24
	echoBytesMax = 64 << 10
)

// questions name what comes again with a message: answers that its sender got before.
var questions = map[vsr.MessageKind][]vsr.MessageKind{
	vsr.MessageRequestPrepares:  {vsr.MessageRepairPrepare},
	vsr.MessageRequestHeaders:   {vsr.MessageHeaders, vsr.MessageRepairPrepare},
	vsr.MessageRequestStartView: {vsr.MessageStartView, vsr.MessagePresentView},
	vsr.MessagePrepare:          {vsr.MessagePrepareOk},
	vsr.MessageStartViewChange:  {vsr.MessageDoViewChange, vsr.MessageStartViewChange, vsr.MessagePrepareOk},
	vsr.MessageStartView:        {vsr.MessagePrepareOk, vsr.MessageDoViewChange},
	vsr.MessagePrepareOk:        {vsr.MessagePrepare, vsr.MessageCommit, vsr.MessageStartView},
	vsr.MessageRequestOffer:     {vsr.MessageOffer, vsr.MessageChunk},
	vsr.MessageRequestChunk:     {vsr.MessageChunk},
}

func newEchoes(w *world) *echoes {
	e := &echoes{w: w, rng: stream(w.seed, partEcho), kept: map[echoKey][]echo{}}
	e.rate = 1 + e.rng.IntN(30)
	return e
}

// passes keeps a message, and sends again what it calls forth.
func (e *echoes) passes(m *vsr.Message, frame []byte) {
	if e.w.calm || !e.w.plan.faults[faultEcho] && !e.w.plan.faults[faultFork] {
		return
	}
	if len(frame) <= echoBytesMax {
		k := echoKey{m.To, m.Kind, m.Group}
		if list := e.kept[k]; len(list) < echoesMax {
			e.kept[k] = append(list, echo{m.From, frame})
		} else {
			list[e.rng.IntN(echoesMax)] = echo{m.From, frame}
		}
	}
	asked := questions[m.Kind]
	if len(asked) == 0 || !e.w.plan.faults[faultEcho] || !oneIn(e.rng, e.rate) {
		return
	}
	list := e.kept[echoKey{m.From, pick(e.rng, asked...), m.Group}]
	for range min(len(list), 1+e.rng.IntN(4)) {
		e.again(m.From, list[e.rng.IntN(len(list))])
	}
}

func (e *echoes) again(to uint8, old echo) {
	e.w.cover.Echoes++
	e.w.after(between(e.rng, 0, e.w.plan.network.delayMin), func() { e.w.net.arrive(old.from, e.w.nodes[to], old.frame) })
}

// all has everything come again that a replica was told of a group.
func (e *echoes) all(to uint8, group vsr.GroupID) {
	for kind := vsr.MessageSuspect; kind <= vsr.MessageHeaders; kind++ {
		for _, old := range e.kept[echoKey{to, kind, group}] {
			e.again(to, old)
		}
	}
}
