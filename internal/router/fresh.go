package router

import (
	"encoding/binary"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/peer"
	"galgo/internal/vsr"
)

// freshness is how far the metadata are of the node that decides for them.
type freshness struct {
	op uint64
	ok bool // it decides, and may say so
}

// Fresh implements edge.Backend: the node that decides for the metadata is asked how far
// it is, and this node waits until it is as far.
func (r *Router) Fresh(done func(ok bool)) {
	t := &trip[freshness]{
		router: r, group: uint64(vsr.MetadataGroup), lane: peer.Control, subject: subjectFresh,
		question: func(uint64) (head, body []byte) { return nil, nil },
		here:     func(_ edge.Gate, done func(freshness)) { r.freshHere(done) },
		decode:   decodeFreshness,
		refused:  func(v *freshness) bool { return !v.ok },
		pending:  func(*freshness) bool { return false },
		refusal:  func(galgo.Code) freshness { return freshness{} },
		settle: func(v freshness, tell func(freshness)) {
			r.Reached(v.op, func(there bool) { tell(freshness{v.op, there}) })
		},
		done: func(v freshness) { done(v.ok) },
	}
	t.enter()
}

// freshHere answers for this node, which knows if it decides.
func (r *Router) freshHere(done func(freshness)) {
	r.Leader(uint64(vsr.MetadataGroup), func(leader uint8, known bool) {
		done(freshness{r.View().Op(), known && leader == r.self && r.Current()})
	})
}

// appendFreshness encodes the op; nothing if it is not for this node to say.
func appendFreshness(b []byte, v *freshness) []byte {
	if !v.ok {
		return b
	}
	return binary.LittleEndian.AppendUint64(b, v.op)
}

func decodeFreshness(b []byte) (freshness, error) {
	if len(b) != freshnessSize {
		return freshness{}, errMalformed
	}
	return freshness{binary.LittleEndian.Uint64(b), true}, nil
}
