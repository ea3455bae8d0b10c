package edge

import (
	"encoding/binary"

	"galgo"
	"galgo/internal/wire"
)

// transportID is the id of the connection where a header wants a client id, as
// the reference server puts it there.
func (c *conn) transportID() (id galgo.ClientID) {
	binary.LittleEndian.PutUint32(id[:], c.id)
	return id
}

// push queues a reply. The body is copied; the tail must stay as it is until
// release is called.
func (c *conn) push(h *wire.ReplyHeader, body []byte, tail [][]byte, release func()) {
	size := wire.HeaderSize + len(body)
	for _, t := range tail {
		size += len(t)
	}
	h.Size = uint32(size)
	var head [wire.HeaderSize]byte
	h.Put(head[:])
	c.out.push(head[:], body, tail, release)
}

// answer gives a command that is not replicated its body.
func (c *conn) answer(r *request, body []byte) { c.answerLong(r, body, nil, nil) }

func (c *conn) answerLong(r *request, body []byte, tail [][]byte, release func()) {
	h := wire.ReplyTo(&r.RequestHeader, galgo.CodeOK)
	h.Op, h.Commit = r.Session, c.server.backend.CommitOp()
	c.push(&h, body, tail, release)
}

// deny refuses a request by status, which comes without a body. Before the
// sign-in nothing is disclosed of how far the log has come.
func (c *conn) deny(r *wire.RequestHeader, code galgo.Code) {
	h := wire.ReplyTo(r, code)
	h.Client = c.transportID()
	if c.bound.Load() != nil {
		h.Commit = c.server.backend.CommitOp()
	}
	c.push(&h, nil, nil, nil)
}

// reject refuses a request by a result section. What never reached the log is
// told under the request's own operation, if that one is result framed.
func (c *conn) reject(r *request, code galgo.Code) {
	h := wire.ReplyTo(&r.RequestHeader, galgo.CodeOK)
	if r.Operation.ResultFramed() {
		h.Operation = r.Operation
	}
	if r.session != nil {
		h.Client, h.Commit = r.session.client, c.server.backend.CommitOp()
	}
	var body [12]byte
	c.push(&h, wire.AppendResultError(body[:0], code), nil, nil)
}

// evict tells the client that it has no session. The connection stays.
func (c *conn) evict(client galgo.ClientID, reason wire.EvictionReason) {
	c.server.events.evicted(c, reason)
	h := wire.Eviction(client, reason)
	var frame [wire.HeaderSize]byte
	h.Put(frame[:])
	c.out.push(frame[:], nil, nil, nil)
}
