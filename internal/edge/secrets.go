package edge

import (
	"bytes"
	"context"
	"errors"

	"galgo"
	"galgo/internal/auth"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// Some requests carry a password, and one is answered with a token. What depends on the
// secret is worked out here: only hashes go on to the node, and with that into the log.
// Permissions are no secret, but large: those of a request that is refused stay out of the
// log too. A refusal is what this node knows, which may be less than the log does: where
// they differ when the request is applied, the client is asked to send it again.
// The request's checksum stays here too: a fast hash of a password is as good as the
// password to whoever can read the log and guess.

// sealed is a request without its secret.
type sealed struct {
	body []byte
	// open says that there is no secret in the request, and so none in its checksum.
	open bool
	// token is what the client is told if the request succeeds, this once.
	token string
}

// seals work the requests with secrets out. The code is the status of a refusal; one
// that is transient goes into a result section.
var seals = map[wire.Operation]func(*conn, context.Context, *request) (sealed, galgo.Code){
	wire.OperationCreateUser:        (*conn).sealCreateUser,
	wire.OperationChangePassword:    (*conn).sealChangePassword,
	wire.OperationCreateToken:       (*conn).sealCreateToken,
	wire.OperationUpdatePermissions: (*conn).sealUpdatePermissions,
}

// seal puts the request into the form that the node takes it in.
func (c *conn) seal(ctx context.Context, r *request, request *MetadataRequest) (token string, ok bool) {
	seal, secret := seals[r.Operation]
	if !secret {
		return "", true
	}
	s, code := seal(c, ctx, r)
	switch {
	case code.Retriable():
		c.reject(r, code)
		return "", false
	case code != galgo.CodeOK:
		c.deny(&r.RequestHeader, code)
		return "", false
	}
	request.Body = s.body
	if !s.open {
		request.RequestSum = [16]byte{}
	}
	return s.token, true
}

func (c *conn) sealCreateUser(ctx context.Context, r *request) (sealed, galgo.Code) {
	m, err := wire.DecodeCreateUserRequest(r.body)
	switch {
	case err != nil:
		return sealed{}, galgo.CodeInvalidCommand
	case len(m.Options) > 0:
		return sealed{}, galgo.CodeUnsupportedOptionKey
	}
	user := metadata.NewUser{Username: m.Username, Active: m.Status != galgo.UserInactive}
	view := c.server.backend.View()
	if !view.Allows(r.session.actor, metadata.RuleManageUsers, 0, 0) || repeated(view, r) {
		// It costs no hash to be told so.
		user.Refusal = galgo.CodeUnauthorized
		return sealed{body: user.Append(nil)}, galgo.CodeOK
	}
	user.Permissions = m.Permissions
	c.out.flush()
	if user.PasswordHash, err = c.server.options.Hasher.Hash(ctx, []byte(m.Password)); err != nil {
		return sealed{}, galgo.CodeTransientNotAccepted
	}
	return sealed{body: user.Append(nil)}, galgo.CodeOK
}

// repeated reports whether the client table answers the request, whatever is in it: a
// retry whose first answer was lost. To work it out once more would cost hashes, and a
// password that was right then is wrong now.
func repeated(view *metadata.View, r *request) bool {
	v := view.CheckRequest(r.session.client, r.session.epoch, r.Request, [16]byte{}).Kind
	return v == metadata.VerdictDuplicate || v == metadata.VerdictAlreadyApplied
}

// sealUpdatePermissions keeps the permissions only of those who may change them.
func (c *conn) sealUpdatePermissions(_ context.Context, r *request) (sealed, galgo.Code) {
	m, err := wire.DecodeUpdatePermissionsRequest(r.body)
	if err != nil {
		return sealed{}, galgo.CodeInvalidCommand
	}
	view := c.server.backend.View()
	change := metadata.NewPermissions{User: m.User}
	switch _, known := view.User(m.User); {
	case !known:
		change.Refusal = galgo.CodeResourceNotFound
	case !view.Allows(r.session.actor, metadata.RuleManageUsers, 0, 0):
		change.Refusal = galgo.CodeUnauthorized
	default:
		change.Permissions = m.Permissions
	}
	return sealed{body: change.Append(nil), open: true}, galgo.CodeOK
}

// sealChangePassword compares the current password, as no replica can. What is wrong
// with the request is told to the log with it, so that it is answered like any other.
func (c *conn) sealChangePassword(ctx context.Context, r *request) (sealed, galgo.Code) {
	m, err := wire.DecodeChangePasswordRequest(r.body)
	if err != nil {
		return sealed{}, galgo.CodeInvalidCommand
	}
	view := c.server.backend.View()
	password := metadata.NewPassword{User: m.User}
	u, known := view.User(m.User)
	switch {
	case !known:
		password.Refusal = galgo.CodeResourceNotFound
	case u.Actor() != r.session.actor && !view.Allows(r.session.actor, metadata.RuleManageUsers, 0, 0):
		password.Refusal = galgo.CodeUnauthorized
	case repeated(view, r):
		password.Refusal = galgo.CodeInvalidCredentials
	default:
		if password.Refusal, password.PasswordHash, err = c.rehash(ctx, u, &m); err != nil {
			return sealed{}, galgo.CodeTransientNotAccepted
		}
		password.Verified = u.PasswordOp
	}
	return sealed{body: password.Append(nil)}, galgo.CodeOK
}

// rehash checks the current password and hashes the new one. The error is that there was
// no room for it.
func (c *conn) rehash(ctx context.Context, u *metadata.User, m *wire.ChangePasswordRequest) (refusal galgo.Code, hash string, err error) {
	c.out.flush()
	leave, ok := c.server.throttle.enter(ctx, c.source)
	if !ok {
		return 0, "", auth.ErrBusy
	}
	defer func() { leave(refusal != galgo.CodeOK) }()
	hasher := c.server.options.Hasher
	right, err := hasher.Verify(ctx, u.PasswordHash, []byte(m.Current))
	switch {
	case errors.Is(err, auth.ErrFormat):
		c.server.events.badHash(u.ID, err)
		return galgo.CodeInvalidCredentials, "", nil
	case err != nil:
		return 0, "", err
	case !right:
		return galgo.CodeInvalidCredentials, "", nil
	}
	hash, err = hasher.Hash(ctx, []byte(m.New))
	return galgo.CodeOK, hash, err
}

func (c *conn) sealCreateToken(_ context.Context, r *request) (sealed, galgo.Code) {
	m, err := wire.DecodeCreateTokenRequest(r.body)
	if err != nil {
		return sealed{}, galgo.CodeInvalidCommand
	}
	token := auth.NewToken()
	body := metadata.NewToken{Name: m.Name, Expiry: m.Expiry, Hash: auth.HashToken(token)}.Append(nil)
	return sealed{body: body, token: token}, galgo.CodeOK
}

// unseal gives the answer to a request the token that the node does not know. An answer
// that is not a success has none; nor has that to an earlier request which had the number
// of this one.
func unseal(reply *MetadataReply, token string) []byte {
	var ok [4]byte
	if token == "" || reply.Operation != wire.OperationCreateToken || !bytes.Equal(reply.Body, wire.AppendResultOK(ok[:0])) {
		return reply.Body
	}
	return wire.CreatedToken{Token: token}.Append(wire.AppendResultOK(nil))
}
