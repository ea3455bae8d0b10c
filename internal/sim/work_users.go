package sim

import (
	"fmt"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/engine"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// guestName is the user that guests sign in as. It has no rights: whatever one of them
// asks for has to be refused. It is made and deleted like any other.
const guestName = "guest"

// drawUser is an operation on users or tokens. A password or a token is not needed: the
// edge hands on what it has made of it.
func (c *client) drawUser(in changeInput) (changeInput, wire.Operation, []byte) {
	names := []string{guestName, guestName, "user-0", "user-1"}
	name := names[c.rng.IntN(len(names))]
	in.stream = "user " + name
	switch c.rng.IntN(8) {
	case 0:
		in.kind = deleteUser
		return in, wire.OperationDeleteUser, wire.UserRequest{User: galgo.NamedID(name)}.Append(nil)
	case 1, 2, 3:
		in.kind = createUser
		return in, wire.OperationCreateUser, metadata.NewUser{Username: name, PasswordHash: "x", Active: true}.Append(nil)
	case 4:
		in.kind = unjudged
		u, _ := c.w.model.metadata.View().User(galgo.NamedID(name))
		n := metadata.NewPassword{User: galgo.NamedID(name), PasswordHash: "y"}
		if u != nil {
			n.Verified = u.PasswordOp
		}
		return in, wire.OperationChangePassword, n.Append(nil)
	}
	token := metadata.NewToken{Name: fmt.Sprintf("k%d", c.rng.IntN(3))}
	token.Hash[0], token.Hash[1] = byte(c.index), 1
	putRequest(&token.Hash, c.session.epoch, c.session.request)
	in.stream = "token " + token.Name
	switch c.rng.IntN(3) {
	case 0:
		in.kind = deleteToken
		return in, wire.OperationDeleteToken, wire.DeleteTokenRequest{Name: token.Name}.Append(nil)
	case 1:
		in.kind = unjudged // it expires
		token.Name, token.Expiry = "e"+token.Name, uint64(between(c.rng, 1, second))
	default:
		in.kind = createToken
	}
	return in, wire.OperationCreateToken, token.Append(nil)
}

// putRequest makes the hash one that no other request has.
func putRequest(h *metadata.TokenHash, epoch, request uint64) {
	for i := range 8 {
		h[8+i], h[16+i] = byte(epoch>>(8*i)), byte(request>>(8*i))
	}
}

// sweep removes expired tokens, as the job of a node does.
func (c *client) sweep() {
	if !c.w.model.metadata.View().Bootstrapped() {
		return
	}
	c.begun()
	try(c, "sweep", func(e *engine.Engine, done func(edge.MetadataReply)) {
		e.Metadata(edge.MetadataRequest{Operation: metadata.OperationSweepTokens}, done)
	}, func(_ edge.MetadataReply, f fate) {
		c.done()
		if f != answered {
			c.move()
		}
	})
}

// identity is who the client signs in as, and by what; false while there is no such
// user.
func (c *client) identity() (user uint32, by metadata.Credential, ok bool) {
	id := galgo.NumericID(metadata.RootUser)
	if c.guest {
		id = galgo.NamedID(guestName)
	}
	u, ok := c.w.model.metadata.View().User(id)
	if !ok {
		return 0, by, false
	}
	return u.ID, metadata.PasswordOf(u), true
}

// guestIn holds what a guest is answered against the log: nothing is allowed, but for
// its own tokens.
func (r *changeRecord) guestIn(code galgo.Code) {
	w := r.client.w
	switch {
	case r.op == wire.OperationCreateToken || r.op == wire.OperationDeleteToken:
	case r.op == wire.OperationChangePassword: // its own
	case code == galgo.CodeOK:
		w.fail("rights", "%v, a user without rights, was allowed request %d: %v of %s", r.client, r.request, r.input.kind, r.input.stream)
	case code == galgo.CodeUnauthorized:
		w.cover.Denied++
	}
}

// countUsers counts what became of users and tokens.
func (m *model) countUsers(op wire.Operation, out *metadata.Output) {
	done := out.Verdict.Kind == metadata.VerdictNew && len(out.Body) == 4 // a success that tells nothing
	cover, before := &m.w.cover, m.tokens
	if root, ok := m.metadata.View().User(galgo.NumericID(metadata.RootUser)); ok {
		m.tokens = root.Tokens
	}
	switch {
	case op == metadata.OperationSweepTokens:
		cover.TokensSwept += int(before - m.tokens)
	case op == wire.OperationDeleteUser && done && len(out.Ended) > 0:
		cover.UsersGone++
	case op == wire.OperationCreateToken && done:
		cover.TokensMade++
	}
}
