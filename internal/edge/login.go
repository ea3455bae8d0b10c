package edge

import (
	"context"
	"errors"

	"galgo"
	"galgo/internal/auth"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// register signs a client in (wire.md §3.4).
func (c *conn) register(ctx context.Context, r *request) {
	version, rest, err := wire.DecodeClientVersion(r.body)
	readable := r.whole && err == nil
	switch {
	case readable && !version.Protocol.Accepted():
		// Before the checksum, which another protocol may compute in its own way.
		c.refuseLogin(r, wire.EvictionIncompatibleProtocol)
		return
	case r.whole && !r.ChecksumMatches(r.body):
		c.deny(&r.RequestHeader, galgo.CodeInvalidFormat)
		return
	case !readable:
		c.refuseLogin(r, wire.EvictionMalformedLogin)
		return
	}
	who, verdict := c.authenticate(ctx, r, rest)
	switch {
	case verdict.code != galgo.CodeOK:
		c.reject(r, verdict.code)
	case verdict.reason != 0:
		c.refuseLogin(r, verdict.reason)
	case c.leaveFormerSession(ctx, r, who.actor):
		c.openSession(ctx, r, &who, &version)
	}
}

// identity is who signs in, and by what.
type identity struct {
	actor metadata.Actor
	by    metadata.Credential
}

// loginVerdict is why a login is not accepted: an eviction, or the code of
// a refusal that the client may answer by trying again.
type loginVerdict struct {
	reason wire.EvictionReason
	code   galgo.Code
}

// authenticate finds out who signs in. Nothing in the bytes tells a password from
// a token, so what is not accepted as one is tried as the other. An account or a token
// that another node has just made is known before anybody is refused.
func (c *conn) authenticate(ctx context.Context, r *request, rest []byte) (who identity, v loginVerdict) {
	password, token := wire.DecodeLogin(rest)
	if password == nil && token == nil {
		return identity{}, loginVerdict{reason: wire.EvictionMalformedLogin}
	}
	c.out.flush()
	if !c.refresh(ctx, r) {
		return identity{}, loginVerdict{code: galgo.CodeTransientNotAccepted}
	}
	if password == nil {
		// Nobody guesses a token, and it costs no hash: nothing has to be slowed.
		return c.checkToken(token)
	}
	leave, ok := c.server.throttle.enter(ctx, c.source)
	if !ok {
		return identity{}, loginVerdict{code: galgo.CodeTransientNotAccepted}
	}
	who, v = c.checkPassword(ctx, password)
	if token != nil && v.reason != 0 {
		who, v = c.checkToken(token)
	}
	leave(v.reason != 0)
	return who, v
}

// checkPassword looks a user up and checks the password. It costs one hash
// whatever is wrong, so that accounts cannot be told by the time it takes; but for names
// and passwords of a length that no account has.
func (c *conn) checkPassword(ctx context.Context, login *wire.PasswordLogin) (identity, loginVerdict) {
	refused := loginVerdict{reason: wire.EvictionInvalidCredentials}
	if wire.ValidateUsername(login.Username) != nil || wire.ValidatePassword(login.Password) != nil {
		return identity{}, refused
	}
	hasher := c.server.options.Hasher
	password := []byte(login.Password)
	u, known := c.server.backend.View().User(galgo.NamedID(login.Username))
	if !known || !u.Active {
		if hasher.VerifyNothing(ctx, password) != nil {
			return identity{}, loginVerdict{code: galgo.CodeTransientNotAccepted}
		}
		return identity{}, refused
	}
	right, err := hasher.Verify(ctx, u.PasswordHash, password)
	switch {
	case errors.Is(err, auth.ErrFormat):
		c.server.events.badHash(u.ID, err)
		return identity{}, refused
	case err != nil:
		return identity{}, loginVerdict{code: galgo.CodeTransientNotAccepted}
	case !right:
		return identity{}, refused
	}
	return identity{u.Actor(), metadata.PasswordOf(u)}, loginVerdict{}
}

// checkToken looks a token up. Whether it has expired is for the log to say, which has
// the time; here it is seen as of the last operation.
func (c *conn) checkToken(login *wire.TokenLogin) (identity, loginVerdict) {
	t, owner, ok := c.server.backend.View().TokenOwner(auth.HashToken(login.Token))
	switch {
	case !ok:
		return identity{}, loginVerdict{reason: wire.EvictionInvalidToken}
	case !owner.Active:
		return identity{}, loginVerdict{reason: wire.EvictionUserInactive}
	}
	return identity{owner.Actor(), metadata.Credential{Kind: metadata.CredentialToken, Op: t.Op}}, loginVerdict{}
}

// refuseLogin answers a sign-in that is not accepted. A client that is told so
// counts any session that it had as gone.
func (c *conn) refuseLogin(r *request, reason wire.EvictionReason) {
	c.endSession(r.session)
	c.evict(r.Client, reason)
}

// leaveFormerSession logs a session out that the connection still has, unless the
// sign-in renews it. It reports whether the sign-in may go on (wire.md §12 row 12).
func (c *conn) leaveFormerSession(ctx context.Context, r *request, actor metadata.Actor) bool {
	former := r.session
	if former == nil || former.client == r.Client && former.actor == actor {
		return true
	}
	reply, ok := c.propose(ctx, r, logoutRequest(former, 0, [16]byte{}), nil)
	switch {
	case !ok:
		c.reject(r, galgo.CodeTransientNotCommitted)
		return false
	case reply.Outcome == OutcomeResult || reply.Outcome == OutcomeStatus:
		c.reject(r, reply.Code)
		return false
	}
	c.server.registry.unbind(c, former)
	return true
}

// openSession has the metadata group make the session and binds it. The checksum of the
// request, which covers the password, goes nowhere.
func (c *conn) openSession(ctx context.Context, r *request, who *identity, version *wire.ClientVersion) {
	who.by.Home = c.server.options.Home
	request := MetadataRequest{Operation: wire.OperationRegister, Client: r.Client, User: who.actor.User, Body: who.by.Append(nil)}
	reply, ok := c.propose(ctx, r, request, func(late MetadataReply) { c.abandonSession(&request, &late) })
	switch {
	case !ok:
		c.reject(r, galgo.CodeTransientNotCommitted)
	case reply.Outcome == OutcomeReply:
		c.bindSession(r, &binding{client: r.Client, epoch: reply.Op, actor: who.actor}, reply.Born, version)
	case reply.Outcome == OutcomeResult || reply.Outcome == OutcomeStatus:
		c.reject(r, reply.Code)
	case reply.Outcome == OutcomeEvict:
		c.refuseLogin(r, reply.Reason)
	}
}

// abandonSession releases a session that was made after its client was told that
// the outcome is open, or has gone.
func (c *conn) abandonSession(request *MetadataRequest, late *MetadataReply) {
	if late.Outcome == OutcomeReply {
		c.detacher.detach(&binding{client: request.Client, epoch: late.Op, actor: metadata.Actor{User: request.User}})
	}
}

// bindSession binds the connection and answers. born tells a client that comes back
// whether its entry is still the one that it knew.
func (c *conn) bindSession(r *request, b *binding, born uint64, version *wire.ClientVersion) {
	if !c.server.registry.bind(c, b) {
		c.evict(r.Client, wire.EvictionSessionTooLow)
		return
	}
	c.server.events.login(c, b, version.SDKName, version.SDKVersion)
	reply := wire.RegisterReply{
		UserID:        b.actor.User,
		Session:       b.epoch,
		Protocol:      wire.VersionCurrent,
		ServerVersion: c.server.options.Version,
	}
	h := wire.ReplyTo(&r.RequestHeader, galgo.CodeOK)
	h.Context = born
	h.Op, h.Commit = b.epoch, max(b.epoch, c.server.backend.CommitOp())
	c.push(&h, reply.Append(wire.AppendResultOK(nil)), nil, nil)
}

// logout ends the session of the connection, which stays open (wire.md §3.9).
func (c *conn) logout(ctx context.Context, r *request) {
	reply, ok := c.propose(ctx, r, logoutRequest(r.session, r.Request, r.RequestChecksum), nil)
	switch {
	case !ok:
		c.deny(&r.RequestHeader, galgo.CodeTransientNotCommitted)
	case reply.Outcome == OutcomeResult || reply.Outcome == OutcomeStatus:
		c.deny(&r.RequestHeader, reply.Code)
	default:
		// Gone already, by eviction or by a login elsewhere, is logged out too.
		c.server.registry.unbind(c, r.session)
		c.server.events.logout(c, r.session)
		c.answerLogout(r, r.session, reply.Op)
	}
}

func logoutRequest(b *binding, number uint64, sum [16]byte) MetadataRequest {
	return MetadataRequest{
		Operation:  wire.OperationLogout,
		Client:     b.client,
		Session:    b.epoch,
		Request:    number,
		RequestSum: sum,
		User:       b.actor.User,
	}
}

func (c *conn) answerLogout(r *request, b *binding, op uint64) {
	h := wire.ReplyTo(&r.RequestHeader, galgo.CodeOK)
	if b != nil {
		h.Client, h.Op, h.Commit = b.client, b.epoch, op
	}
	c.push(&h, nil, nil, nil)
}
