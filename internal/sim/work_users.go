package sim

import (
	"encoding/binary"
	"fmt"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/engine"
	"galgo/internal/metadata"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// rootName is the user that all others sign in as.
const rootName = "root"

// guestName is the user that guests sign in as. It has no rights: whatever one of them
// asks for has to be refused. It is made and deleted like any other.
const guestName = "guest"

// drawUser is an operation on users or tokens. A password or a token is not needed: the
// edge hands on what it has made of it.
func (c *client) drawUser(in changeInput) (changeInput, wire.Operation, []byte) {
	names := []string{guestName, guestName, "user-0", "user-1"}
	name := names[c.rng.IntN(len(names))]
	in.stream = "user " + name
	switch c.rng.IntN(10) {
	case 0:
		in.kind = deleteUser
		return in, wire.OperationDeleteUser, wire.UserRequest{User: galgo.NamedID(name)}.Append(nil)
	case 1, 2, 3:
		in.kind = createUser
		return in, wire.OperationCreateUser, metadata.NewUser{Username: name, PasswordHash: "x", Active: true}.Append(nil)
	case 4:
		in.kind = unjudged
		if oneIn(c.rng, 2) {
			name = rootName
		}
		u, _ := c.w.model.metadata.View().User(galgo.NamedID(name))
		n := metadata.NewPassword{User: galgo.NamedID(name), PasswordHash: "y"}
		if u != nil {
			n.Verified = u.PasswordOp
		}
		return in, wire.OperationChangePassword, n.Append(nil)
	case 5: // of one that nobody signs in as
		in.kind = unjudged
		status := galgo.UserStatus(1 + c.rng.IntN(2))
		return in, wire.OperationUpdateUser, wire.UpdateUserRequest{User: galgo.NamedID(fmt.Sprintf("user-%d", c.rng.IntN(2))), Status: &status}.Append(nil)
	case 6:
		in.kind = unjudged
		n := metadata.NewPermissions{User: galgo.NamedID(fmt.Sprintf("user-%d", c.rng.IntN(2)))}
		if oneIn(c.rng, 2) {
			n.Permissions = &galgo.Permissions{Global: galgo.GlobalPermissions{ReadStreams: oneIn(c.rng, 2), SendMessages: oneIn(c.rng, 2)}}
		}
		return in, wire.OperationUpdatePermissions, n.Append(nil)
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
// user. Now and then it is by the password before the last, which must be refused.
func (c *client) identity() (who metadata.Actor, by metadata.Credential, ok bool) {
	id := galgo.NumericID(metadata.RootUser)
	if c.guest {
		id = galgo.NamedID(guestName)
	}
	u, ok := c.w.model.metadata.View().User(id)
	if !ok {
		return who, by, false
	}
	by = metadata.PasswordOf(u)
	if former := c.w.model.users.former[u.ID]; former != 0 && oneIn(c.rng, 4) {
		by.Op = former
	}
	return u.Actor(), by, true
}

// guestIn holds what a guest is answered against what it may do: nothing, but for its own
// tokens and password, and nothing at all when its user is gone.
func (r *changeRecord) guestIn(op uint64, code galgo.Code) {
	w := r.client.w
	own := r.op == wire.OperationCreateToken || r.op == wire.OperationDeleteToken || r.op == wire.OperationChangePassword
	if gone, ok := w.model.users.gone[r.client.actor.Born]; ok && gone < op {
		w.fail("rights", "%v was answered request %d, op %d, although op %d deleted its user", r.client, r.request, op, gone)
	}
	switch {
	case code == galgo.CodeOK && !own:
		w.fail("rights", "%v, a user without rights, was allowed request %d: %v of %s", r.client, r.request, r.input.kind, r.input.stream)
	case code == galgo.CodeUnauthorized:
		w.cover.Denied++
	}
}

// userLedger follows what the log says of users, by code that shares nothing with the
// machine but the answers.
type userLedger struct {
	password map[uint32]uint64 // the op that set it, by user
	former   map[uint32]uint64 // the one before
	born     map[uint32]uint64
	gone     map[uint64]uint64 // the op that deleted a user, by that which made it
	tokens   uint32            // of root, after the last op
}

func newUserLedger() userLedger {
	return userLedger{password: map[uint32]uint64{}, former: map[uint32]uint64{}, born: map[uint32]uint64{}, gone: map[uint64]uint64{}}
}

// learnUsers takes note of an op that was just applied to the model. before is what the
// metadata was.
func (m *model) learnUsers(p *vsr.Prepare, before *metadata.View, out *metadata.Output) {
	l, cover, op := &m.users, &m.w.cover, uint64(p.Op)
	code, payload, err := wire.SplitResult(out.Body)
	done := err == nil && code == galgo.CodeOK && out.Verdict.Kind == metadata.VerdictNew
	root, _ := m.metadata.View().User(galgo.NumericID(metadata.RootUser))
	switch operation := wire.Operation(p.Operation); {
	case operation == wire.OperationRegister && out.Login == metadata.LoginAccepted:
		by, err := metadata.DecodeCredential(p.Body)
		if err != nil || by.Op != l.password[p.User] {
			m.w.fail("rights", "op %d signs user %d in by the password of op %d, %v; that of op %d holds", op, p.User, by.Op, err, l.password[p.User])
		}
	case !done:
	case operation == metadata.OperationBootstrap:
		l.password[metadata.RootUser], l.born[metadata.RootUser] = op, op
	case operation == wire.OperationCreateUser:
		id := binary.LittleEndian.Uint32(payload)
		l.password[id], l.born[id] = op, op
	case operation == wire.OperationChangePassword:
		if n, err := metadata.DecodeNewPassword(p.Body); err == nil {
			u, _ := before.User(n.User)
			l.former[u.ID], l.password[u.ID] = l.password[u.ID], op
		}
	case operation == wire.OperationDeleteUser:
		if n, err := wire.DecodeUserRequest(p.Body); err == nil {
			u, _ := before.User(n.User)
			l.gone[l.born[u.ID]] = op
			delete(l.password, u.ID)
			delete(l.former, u.ID)
			cover.UsersGone++
		}
	case operation == wire.OperationCreateToken:
		cover.TokensMade++
	case operation == wire.OperationUpdateUser, operation == wire.OperationUpdatePermissions:
		cover.UsersChanged++
	case operation == metadata.OperationSweepTokens:
		cover.TokensSwept += int(l.tokens - root.Tokens)
	}
	if root != nil {
		l.tokens = root.Tokens
	}
}
