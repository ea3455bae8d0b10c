// Package router takes the requests of clients to the node that decides them: any node
// takes any request. What this node does not lead it asks of the one that does, and
// answers its own client. It waits, for a bounded time, while nobody leads.
//
// A request that nobody has accepted is tried again. One that left and was not answered
// is not, unless the log would recognise it: its outcome is open, which the client is
// told, and a client that repeats it is recognised by the log if it can be.
//
//	line.go    the writes of a client to a group, in their order
//	trip.go    one request
//	guests.go  the order of what other nodes ask for
//	codec.go   the bytes of questions and answers
package router

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/peer"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

const (
	// patience is how long a request is tried while nobody accepts it. It is longer than
	// a change of the primary takes, and shorter than the edge waits.
	patience = 10 * time.Second
	// answerMax is how long an answer of another node may take; as long as the edge waits.
	answerMax = 25 * time.Second
	shortBody = 16 << 10
)

// Local is what the router needs of this node's engine.
type Local interface {
	edge.Backend
	// Leader tells which replica decides for a group, as far as is known here.
	Leader(group uint64, done func(replica uint8, known bool))
	// Reached runs done when an op of the metadata is applied here, or after a while.
	Reached(op uint64, done func(there bool))
	// Told has reads of a group wait for an op that a client is told of; group 0 is that
	// of the metadata, which are not current before they have it.
	Told(group, op uint64)
	// Stored takes note of an offset that another node has stored for a client of this one.
	Stored(edge.OffsetRequest)
}

// Peers asks other nodes; see peer.Links.
type Peers interface {
	Ask(to uint8, lane peer.Lane, subject uint8, head, body []byte, done func(answer []byte, err error)) (cancel func())
}

// Router is the backend of the edge of a node among several.
type Router struct {
	Local
	self    uint8
	peers   Peers
	stopped atomic.Bool
	process uint64 // of all routers that others may have heard of, this one

	arrivals atomic.Uint64
	rounds   rounds
	lines    [linesShards]lines
	guests   guests
}

// New returns a router between the engine of a replica and its peers.
func New(local Local, self uint8, peers Peers) *Router {
	return &Router{Local: local, self: self, peers: peers, process: rand.Uint64()}
}

// Stop has requests refused that would wait for somebody to accept them.
func (r *Router) Stop() { r.stopped.Store(true) }

// Metadata implements edge.Backend.
func (r *Router) Metadata(req edge.MetadataRequest, done func(edge.MetadataReply)) {
	t := &trip[edge.MetadataReply]{
		router: r, lane: laneOf(len(req.Body)), subject: subjectMetadata,
		question: func(uint64) (head, body []byte) { return appendMetadata(nil, &req), req.Body },
		here:     func(_ edge.Gate, done func(edge.MetadataReply)) { r.Local.Metadata(req, done) },
		decode:   decodeMetadataReply,
		refused:  refusedMetadata,
		pending:  func(*edge.MetadataReply) bool { return false },
		refusal: func(code galgo.Code) edge.MetadataReply {
			return edge.MetadataReply{Outcome: edge.OutcomeResult, Operation: req.Operation, Code: code}
		},
		settle: r.settleMetadata,
		done:   done,
	}
	t.enter()
}

// settleMetadata waits until what another node has decided shows here.
func (r *Router) settleMetadata(v edge.MetadataReply, tell func(edge.MetadataReply)) {
	if v.Outcome != edge.OutcomeReply || v.Op == 0 {
		tell(v)
		return
	}
	r.Reached(v.Op, func(there bool) {
		if !there {
			r.Told(0, v.Op)
		}
		tell(v)
	})
}

// laneOf is the lane of a question whose order among others does not matter.
func laneOf(size int) peer.Lane {
	if size > shortBody {
		return peer.Bulk
	}
	return peer.Control
}

func refusedMetadata(v *edge.MetadataReply) bool {
	return v.Outcome == edge.OutcomeResult && v.Code == galgo.CodeTransientNotAccepted
}

// Send implements edge.Backend.
func (r *Router) Send(req edge.SendRequest, done func(edge.SendReply)) {
	seen := r.View().Op()
	t := &trip[edge.SendReply]{
		router: r, group: req.Group, client: req.Client, lane: peer.Bulk, subject: subjectSend, recognised: req.Numbered,
		question: func(round uint64) (head, body []byte) {
			return appendSend(appendTurn(nil, r.process, round), &req, seen), req.Batch
		},
		here: func(gate edge.Gate, done func(edge.SendReply)) {
			req := req
			req.Gate = gate
			r.Local.Send(req, done)
		},
		decode:  decodeSendReply,
		refused: func(v *edge.SendReply) bool { return v.Code == galgo.CodeTransientNotAccepted },
		pending: func(v *edge.SendReply) bool { return v.Code == galgo.CodeTransientNotCommitted },
		refusal: func(code galgo.Code) edge.SendReply { return edge.SendReply{Code: code} },
		settle: func(v edge.SendReply, tell func(edge.SendReply)) {
			r.told(req.Group, v.Code, v.Op)
			tell(v)
		},
		done: done,
	}
	t.enter()
}

// StoreOffset implements edge.Backend.
func (r *Router) StoreOffset(req edge.OffsetRequest, done func(edge.OffsetReply)) {
	r.offset(req, subjectStoreOffset, r.Local.StoreOffset, done)
}

// DeleteOffset implements edge.Backend.
func (r *Router) DeleteOffset(req edge.OffsetRequest, done func(edge.OffsetReply)) {
	r.offset(req, subjectDeleteOffset, r.Local.DeleteOffset, done)
}

// Claim implements edge.Backend.
func (r *Router) Claim(req edge.OffsetRequest, done func(edge.OffsetReply)) {
	r.offset(req, subjectClaim, r.Local.Claim, done)
}

func (r *Router) offset(req edge.OffsetRequest, subject uint8, here func(edge.OffsetRequest, func(edge.OffsetReply)), done func(edge.OffsetReply)) {
	seen := r.View().Op()
	t := &trip[edge.OffsetReply]{
		router: r, group: req.Group, client: req.Client, lane: peer.Bulk, subject: subject, recognised: subject == subjectClaim,
		question: func(round uint64) (head, body []byte) {
			return appendOffset(appendTurn(nil, r.process, round), &req, seen), nil
		},
		here: func(gate edge.Gate, done func(edge.OffsetReply)) {
			req := req
			req.Gate = gate
			here(req, done)
		},
		decode:  decodeOffsetReply,
		refused: func(v *edge.OffsetReply) bool { return v.Code == galgo.CodeTransientNotAccepted },
		pending: func(*edge.OffsetReply) bool { return false },
		refusal: func(code galgo.Code) edge.OffsetReply { return edge.OffsetReply{Code: code} },
		settle: func(v edge.OffsetReply, tell func(edge.OffsetReply)) {
			r.told(req.Group, v.Code, v.Op)
			if subject == subjectStoreOffset && v.Code == galgo.CodeOK {
				r.Stored(req)
			}
			tell(v)
		},
		done: done,
	}
	t.enter()
}

func (r *Router) told(group uint64, code galgo.Code, op uint64) {
	if code == galgo.CodeOK {
		r.Told(group, op)
	}
}

// Asked answers the question of a peer from what this node decides itself: a question
// goes no further. An answer without a reply says that nothing was done.
func (r *Router) Asked(from, subject uint8, question []byte, answer func([]byte)) {
	switch subject {
	case subjectMetadata:
		if req, err := decodeMetadata(question); err == nil {
			r.Local.Metadata(req, func(v edge.MetadataReply) {
				if refusedMetadata(&v) {
					r.refuse(0, answer)
				} else {
					answer(appendMetadataReply(nil, &v))
				}
			})
			return
		}
	case subjectFresh:
		if len(question) == 0 {
			r.freshHere(func(v freshness) { answer(appendFreshness(nil, &v)) })
			return
		}
	case subjectSend, subjectStoreOffset, subjectDeleteOffset, subjectClaim:
		if asker, round, rest, err := cutTurn(question); err == nil && from < vsr.ReplicasMax {
			r.askedToWrite(&guest{guests: &r.guests, from: from, asker: asker, round: round}, subject, rest, answer)
			return
		}
	}
	answer(nil)
}

// refuse answers that nothing was done, and whether that is as this node has too much to
// do: who asks waits then, and else looks for who leads.
func (r *Router) refuse(group uint64, answer func([]byte)) {
	r.Leader(group, func(leader uint8, known bool) {
		if known && leader == r.self {
			answer([]byte{reasonBusy})
		} else {
			answer(nil)
		}
	})
}

// turnAway refuses a write of another node's client, and what follows of its round.
func (r *Router) turnAway(g *guest, answer func([]byte)) {
	g.refuse()
	r.refuse(g.place.group, answer)
}

// askedToWrite decides a write of another node's client.
func (r *Router) askedToWrite(g *guest, subject uint8, question []byte, answer func([]byte)) {
	if subject == subjectSend {
		req, seen, err := decodeSend(question)
		if err != nil || wire.Batch(req.Batch).ValidateProduced() != nil {
			answer(nil)
			return
		}
		g.place, req.Gate = place{req.Client, req.Group}, g
		reply := func(v edge.SendReply) {
			if v.Code == galgo.CodeTransientNotAccepted {
				r.turnAway(g, answer)
			} else {
				answer(appendSendReply(nil, &v))
			}
		}
		r.judged(g, req.User, req.Born, metadata.RuleSend, seen, answer, func() { r.Local.Send(req, reply) },
			func() { reply(edge.SendReply{Code: galgo.CodeUnauthorized}) })
		return
	}
	req, seen, err := decodeOffset(question)
	if err != nil {
		answer(nil)
		return
	}
	g.place, req.Gate = place{req.Client, req.Group}, g
	here := r.Local.StoreOffset
	switch subject {
	case subjectDeleteOffset:
		here = r.Local.DeleteOffset
	case subjectClaim:
		here = r.Local.Claim
	}
	reply := func(v edge.OffsetReply) {
		if v.Code == galgo.CodeTransientNotAccepted {
			r.turnAway(g, answer)
		} else {
			answer(appendOffsetReply(nil, &v))
		}
	}
	r.judged(g, req.User, req.Born, metadata.RulePoll, seen, answer, func() { here(req, reply) },
		func() { reply(edge.OffsetReply{Code: galgo.CodeUnauthorized}) })
}

// judged does what a write's rights allow.
func (r *Router) judged(g *guest, user uint32, born uint64, rule metadata.Rule, seen uint64, answer func([]byte), do, deny func()) {
	switch r.judge(g.place.group, metadata.Actor{User: user, Born: born}, rule, seen) {
	case allowed:
		do()
	case denied:
		deny()
	default:
		g.refuse()
		answer(nil)
	}
}

// judgement is what the deciding node finds of the rights of a write.
type judgement uint8

const (
	unknown judgement = iota // the metadata here may be of the past
	allowed
	denied
)

// judge looks at the rights of a write once more: the node that asks may not have heard
// yet that they were taken away. What it has seen itself has to be here too, as that may
// have given them. A partition that is not known here is a matter for who decides.
func (r *Router) judge(group uint64, who metadata.Actor, rule metadata.Rule, seen uint64) judgement {
	view := r.View()
	if !r.Current() || view.Op() < seen {
		return unknown
	}
	if p, ok := view.PartitionOf(group); ok && !view.Allows(who, rule, p.Stream, p.Topic) {
		return denied
	}
	return allowed
}
