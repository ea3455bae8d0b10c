package edge

import (
	"context"

	"galgo"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// getGroups tells how this node stands in its consensus groups. That is no matter of the
// committed state, so it is told also by a node that hears nobody.
func (c *conn) getGroups(ctx context.Context, r *request) {
	if !c.server.backend.View().Allows(r.session.actor, metadata.RuleServerInfo, 0, 0) {
		c.deny(&r.RequestHeader, galgo.CodeUnauthorized)
		return
	}
	q := newCall[wire.NodeGroups](nil)
	c.server.backend.Groups(q.done)
	reply, ok := await(ctx, c, r, q)
	if !ok {
		c.deny(&r.RequestHeader, galgo.CodeTransientNotAccepted)
		return
	}
	c.answerBounded(ctx, r, reply.Append(nil))
}

// stepDown has this node give up what it leads.
func (c *conn) stepDown(ctx context.Context, r *request) {
	m, err := wire.DecodeStepDownRequest(r.body)
	if err != nil {
		c.deny(&r.RequestHeader, galgo.CodeInvalidCommand)
		return
	}
	if !c.server.backend.View().Allows(r.session.actor, metadata.RuleManageServer, 0, 0) {
		c.deny(&r.RequestHeader, galgo.CodeUnauthorized)
		return
	}
	q := newCall[wire.StepDownReply](nil)
	c.server.backend.StepDown(m, q.done)
	reply, ok := await(ctx, c, r, q)
	if !ok {
		c.deny(&r.RequestHeader, galgo.CodeTransientNotCommitted)
		return
	}
	c.answerBounded(ctx, r, reply.Append(nil))
}

// answerBounded answers with a body that may be long: it takes its share of the byte
// budget first.
func (c *conn) answerBounded(ctx context.Context, r *request, body []byte) {
	var charge int64
	if n := min(len(body), int(c.server.options.FrameMax)); n >= longReply {
		var ok bool
		if charge, ok = c.acquire(ctx, int64(n)); !ok {
			return
		}
	}
	c.answerCharged(r, body, charge)
}
