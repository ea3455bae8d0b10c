package edge

import (
	"context"

	"galgo"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// serveLocal answers a command that is not replicated, from the committed state
// of this node.
func (c *conn) serveLocal(ctx context.Context, r *request) {
	switch r.Command {
	case wire.CommandPing:
		c.answer(r, nil)
	case wire.CommandPollMessages:
		c.poll(ctx, r)
	case wire.CommandGetConsumerOffset:
		c.getOffset(ctx, r)
	case wire.CommandGetGroups:
		c.getGroups(ctx, r)
	case wire.CommandStepDown:
		c.stepDown(ctx, r)
	case wire.CommandLegacyLogin, wire.CommandLegacyTokenLogin:
		c.endSession(r.session)
		c.evict(r.Client, wire.EvictionMalformedLogin)
	case wire.CommandLogout, wire.CommandLoginRegister, wire.CommandLoginRegisterWithToken:
		// They have operations of their own; sent like this they do nothing.
		c.answer(r, nil)
	default:
		c.serveRead(ctx, r)
	}
}

// reads are the commands that need no more than the present view. What is missing
// here is refused by refusal.
var reads = map[wire.Command]func(*reader, []byte) galgo.Code{
	wire.CommandGetStats:           (*reader).stats,
	wire.CommandGetSnapshot:        (*reader).snapshot,
	wire.CommandGetClusterMetadata: (*reader).cluster,
	wire.CommandDescribeOptions:    (*reader).describeOptions,
	wire.CommandGetMe:              (*reader).me,
	wire.CommandGetClient:          (*reader).client,
	wire.CommandGetClients:         (*reader).clients,
	wire.CommandGetUser:            (*reader).user,
	wire.CommandGetUsers:           (*reader).users,
	wire.CommandGetTokens:          (*reader).tokens,
	wire.CommandGetStream:          (*reader).stream,
	wire.CommandGetStreams:         (*reader).streams,
	wire.CommandGetTopic:           (*reader).topic,
	wire.CommandGetTopics:          (*reader).topics,
	wire.CommandGetConsumerGroup:   (*reader).group,
	wire.CommandGetConsumerGroups:  (*reader).groups,
	wire.CommandSyncConsumerGroup:  (*reader).syncGroup,
}

// timeless are the reads that may be answered from any view: they tell of this node, or
// help to find another one.
var timeless = map[wire.Command]bool{
	wire.CommandGetStats: true, wire.CommandGetClusterMetadata: true, wire.CommandDescribeOptions: true,
	wire.CommandGetMe: true, wire.CommandGetClient: true, wire.CommandGetClients: true,
}

// refusal is the status of a command that no read answers.
func refusal(command wire.Command) galgo.Code {
	if command.Known() {
		// Known, but not offered this way: it has an operation of its own, it is
		// never done (flush), or it comes with a later release.
		return galgo.CodeFeatureUnavailable
	}
	return galgo.CodeInvalidCommand
}

// longReply is the length in bytes from which a reply counts against the byte
// budget.
const longReply = 16 << 10

// codeReplyTooLong is the status in place of a reply that would pass the largest
// frame.
const codeReplyTooLong = galgo.CodeInvalidSizeBytes

// reader computes the body of one read.
type reader struct {
	*conn
	*request
	view *metadata.View
	body []byte
	// reserve holds room in the byte budget for a body of about n bytes before it
	// is built. It reports false if the connection ended meanwhile.
	reserve func(n int) bool
}

// serveRead answers from the view. A long body waits for its share of the byte
// budget before it is built, and keeps it until it is written.
func (c *conn) serveRead(ctx context.Context, r *request) {
	read, ok := reads[r.Command]
	if !ok {
		c.deny(&r.RequestHeader, refusal(r.Command))
		return
	}
	if !timeless[r.Command] && !c.server.backend.Current() {
		c.deny(&r.RequestHeader, galgo.CodeTransientNotAccepted)
		return
	}
	var charge int64
	answer := reader{conn: c, request: r, view: c.server.backend.View()}
	answer.reserve = func(n int) bool {
		if n < longReply {
			return true
		}
		n = min(n, int(c.server.options.FrameMax))
		charge, ok = c.acquire(ctx, int64(n))
		return ok
	}
	code := read(&answer, r.body)
	if code != galgo.CodeOK {
		c.deny(&r.RequestHeader, code)
		c.server.budget.Release(charge)
		return
	}
	c.answerCharged(r, answer.body, charge)
}

// answerCharged answers with a body that may be long and holds this much of the byte
// budget; one that passes the largest frame is refused.
func (c *conn) answerCharged(r *request, body []byte, charge int64) {
	switch {
	case wire.HeaderSize+len(body) > int(c.server.options.FrameMax):
		c.deny(&r.RequestHeader, codeReplyTooLong)
	case len(body) < longReply:
		c.answer(r, body)
	default:
		c.answerLong(r, nil, [][]byte{body}, func() { c.server.budget.Release(charge) })
		return
	}
	c.server.budget.Release(charge)
}

// acquire takes n bytes of the budget for a reply, at most all of it. The reader
// holds nothing else of the budget then, or two connections could wait for each
// other.
func (c *conn) acquire(ctx context.Context, n int64) (charge int64, ok bool) {
	n = min(n, c.server.options.ByteBudget)
	if c.server.budget.TryAcquire(n) {
		return n, true
	}
	c.out.flush()
	if c.server.budget.Acquire(ctx, n) != nil {
		return 0, false
	}
	return n, true
}

// full reports whether the body has passed the largest frame, so that building it
// can end.
func (a *reader) full() bool { return len(a.body) > int(a.server.options.FrameMax) }

func (a *reader) allows(rule metadata.Rule, stream, topic uint32) bool {
	return a.view.Allows(a.session.actor, rule, stream, topic)
}
