package edge

import (
	"context"
	"time"

	"galgo"
	"galgo/internal/wire"
)

// serve answers a request, or hands it to the node. It returns an error only when
// the connection has to end. What the request holds of the byte budget is given
// back here, unless a write took it over.
func (c *conn) serve(ctx context.Context, r *request) error {
	if r.session != nil {
		// It may have been bound elsewhere while the body came.
		r.session = c.bound.Load()
	}
	r.deadline = time.Now().Add(c.server.options.ReplyTimeout)
	c.life.serving.Store(true)
	c.dispatch(ctx, r)
	c.life.served()
	if r.charge > 0 {
		c.server.budget.Release(r.charge)
		r.charge = 0
	}
	if ctx.Err() != nil {
		return errStopped
	}
	return nil
}

func (c *conn) dispatch(ctx context.Context, r *request) {
	switch {
	case r.Operation == wire.OperationRegister:
		c.register(ctx, r)
	case r.session == nil:
		c.serveUnbound(r)
	case !c.server.backend.View().Holds(r.session.actor, r.session.epoch):
		// The user is deleted, and whoever has its id now is another; or it was made
		// inactive or given another password. Its sessions went with that.
		c.server.registry.unbind(c, r.session)
		c.evict(r.session.client, wire.EvictionNoSession)
	case r.Operation.IsInternal():
		c.endSession(r.session)
		c.evict(r.session.client, wire.EvictionInvalidRequestOperation)
	case !r.whole && r.Operation != wire.OperationNonReplicated:
		c.deny(&r.RequestHeader, galgo.CodeInvalidCommand) // too long, and thrown away
	case r.RequestChecksum != [16]byte{} && (!r.whole || !r.ChecksumMatches(r.body)):
		c.deny(&r.RequestHeader, galgo.CodeInvalidFormat)
	case r.Operation == wire.OperationLogout:
		c.logout(ctx, r)
	case r.Operation == wire.OperationNonReplicated:
		c.serveLocal(ctx, r)
	case r.Operation == wire.OperationDeleteSegments && !decodes(r.body, wire.DecodeDeleteSegmentsRequest):
		c.answerUnframed(r)
	case r.Operation.IsMetadata() && c.server.backend.View().IsDetached(r.session.client, r.session.epoch):
		c.endDetached(r.session)
	case r.Operation.IsMetadata():
		c.serveMetadata(ctx, r)
	default:
		c.serveWrite(r)
	}
}

// answerUnframed answers a DeleteSegments that does not decode: under its own operation,
// which has no result section, with nothing (wire.md §6.3).
func (c *conn) answerUnframed(r *request) {
	h := wire.ReplyTo(&r.RequestHeader, galgo.CodeOK)
	h.Operation, h.Client, h.Commit = r.Operation, c.transportID(), c.server.backend.CommitOp()
	c.push(&h, nil, nil, nil)
}

// decodes reports whether a body can be read.
func decodes[T any](body []byte, decode func([]byte) (T, error)) bool {
	_, err := decode(body)
	return err == nil
}

// serveUnbound answers a connection that is not signed in (wire.md §3.11). The
// body was thrown away: no answer depends on it.
func (c *conn) serveUnbound(r *request) {
	switch {
	case r.Operation == wire.OperationLogout:
		c.answerLogout(r, nil, 0)
	case r.Operation != wire.OperationNonReplicated:
		c.evict(c.transportID(), wire.EvictionNoSession)
	case r.Command == wire.CommandPing:
		h := wire.ReplyTo(&r.RequestHeader, galgo.CodeOK)
		c.push(&h, nil, nil, nil)
	case r.Command == wire.CommandLegacyLogin || r.Command == wire.CommandLegacyTokenLogin:
		c.evict(r.Client, wire.EvictionMalformedLogin)
	default:
		c.deny(&r.RequestHeader, galgo.CodeUnauthenticated)
	}
}

// endSession takes a session from the connection that the client has to count as
// gone, and has the node know that nobody uses it any more.
func (c *conn) endSession(b *binding) {
	if b != nil && c.server.registry.unbind(c, b) {
		c.detacher.detach(b)
	}
}

// serveMetadata runs an operation of the metadata group and waits for it, as the
// next request of the connection may depend on it.
func (c *conn) serveMetadata(ctx context.Context, r *request) {
	request := MetadataRequest{
		Operation:  r.Operation,
		Client:     r.session.client,
		Session:    r.session.epoch,
		Request:    r.Request,
		RequestSum: r.RequestChecksum,
		User:       r.session.actor.User,
		Body:       r.body,
	}
	token, ok := c.seal(ctx, r, &request)
	if !ok {
		return
	}
	reply, ok := c.propose(ctx, r, request, nil)
	if !ok {
		c.reject(r, galgo.CodeTransientNotCommitted)
		return
	}
	switch reply.Outcome {
	case OutcomeReply:
		c.leftGroup(r)
		reply.Body = unseal(&reply, token)
		c.answerCommitted(r, &reply)
	case OutcomeStatus:
		c.deny(&r.RequestHeader, reply.Code)
	case OutcomeResult:
		c.reject(r, reply.Code)
	case OutcomeEvict:
		// The session is gone at the node too: there is nothing to detach.
		c.server.registry.unbind(c, r.session)
		c.evict(r.session.client, reply.Reason)
	case OutcomeDrop:
		c.drop("request contradicts one with the same number, or its session was never given out")
	}
}

func (c *conn) answerCommitted(r *request, reply *MetadataReply) {
	h := wire.ReplyTo(&r.RequestHeader, galgo.CodeOK)
	if reply.Operation != wire.OperationReserved {
		h.Operation = wire.OperationInReply(reply.Operation)
	}
	h.Client = r.session.client
	h.Op, h.Commit, h.Timestamp = reply.Op, reply.Op, reply.Timestamp
	c.push(&h, reply.Body, nil, nil)
}
