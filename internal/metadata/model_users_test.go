package metadata

import (
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"
	"unicode"

	"pgregory.net/rapid"

	"galgo"
	"galgo/internal/wire"
)

// The part of the property test that is about users and tokens.

// oTokensMax is little, so that the limit is met.
const oTokensMax = 3

type oUser struct {
	id             uint32
	name           string
	created        uint64
	born, password uint64 // ops
	hash           string
	active         bool
	from, kept     uint64 // sessions that hold: behind that op, and that one
	rights         *galgo.Permissions
	tokens         []*oToken
}

type oToken struct {
	name    string
	hash    TokenHash
	op      uint64
	expires uint64
}

func (o *oracle) user(id galgo.Identifier) *oUser {
	return pick(o.users, func(u *oUser) bool { return matches(id, u.id, u.name) })
}

// may reads the table of wire.md §7 as it is written.
func (o *oracle) may(user uint32, rule Rule, stream, topic uint32) bool {
	u := o.user(galgo.NumericID(user))
	if user == RootUser {
		return true
	}
	if u == nil || u.rights == nil {
		return false
	}
	has := map[string]bool{}
	given(has, "g.", u.rights.Global)
	for _, s := range u.rights.Streams {
		if s.StreamID != stream {
			continue
		}
		given(has, "s.", s)
		for _, t := range s.Topics {
			if t.TopicID == topic {
				given(has, "t.", t)
			}
		}
	}
	for flag := range strings.SplitSeq(rights[rule], ", ") {
		if has[flag] {
			return true
		}
	}
	return false
}

// given notes the names of the fields that are true, as the table writes them.
func given(has map[string]bool, prefix string, flags any) {
	v := reflect.ValueOf(flags)
	for i := range v.NumField() {
		if v.Field(i).Kind() != reflect.Bool || !v.Field(i).Bool() {
			continue
		}
		var name strings.Builder
		for n, r := range v.Type().Field(i).Name {
			if unicode.IsUpper(r) && n > 0 {
				name.WriteByte('_')
			}
			name.WriteRune(unicode.ToLower(r))
		}
		has[prefix+name.String()] = true
	}
}

// credential is how a login with it ends, 0 if well.
func (o *oracle) credential(user uint32, by Credential, now uint64) Login {
	u := o.user(galgo.NumericID(user))
	if by.Kind == CredentialPassword {
		if u == nil || !u.active || u.password != by.Op {
			return LoginNoUser
		}
		return 0
	}
	if u == nil {
		return LoginNoToken
	}
	t := pick(u.tokens, func(t *oToken) bool { return t.op == by.Op })
	switch {
	case t == nil || t.expires != 0 && t.expires <= now:
		return LoginNoToken
	case !u.active:
		return LoginInactive
	}
	return 0
}

func (o *oracle) runUsers(req any, user uint32, now uint64) (galgo.Code, wire.Body) {
	switch req := req.(type) {
	case NewUser:
		return o.createUser(req, user, now)
	case NewPassword:
		return o.changePassword(req, user), nil
	case NewToken:
		return o.createToken(req, user, now), nil
	case wire.DeleteTokenRequest:
		u := o.user(galgo.NumericID(user))
		t := pick(u.tokens, func(t *oToken) bool { return t.name == req.Name })
		if t == nil {
			return galgo.CodeResourceNotFound, nil
		}
		u.tokens = without(u.tokens, t)
		return galgo.CodeOK, nil
	case wire.UpdateUserRequest:
		return o.onUser(req.User, user, func(u *oUser) galgo.Code { return o.updateUser(req, u) }), nil
	case wire.UserRequest:
		return o.onUser(req.User, user, o.deleteUser), nil
	case NewPermissions:
		return o.onUser(req.User, user, func(u *oUser) galgo.Code {
			if u.id == RootUser {
				return galgo.CodeCannotChangePermissions
			}
			if req.Refusal != 0 {
				return galgo.CodeTransientNotAccepted
			}
			u.rights = req.Permissions
			return galgo.CodeOK
		}), nil
	}
	panic(fmt.Sprintf("oracle: %T", req))
}

func (o *oracle) onUser(id galgo.Identifier, user uint32, do func(*oUser) galgo.Code) galgo.Code {
	u := o.user(id)
	if u == nil {
		return galgo.CodeResourceNotFound
	}
	if !o.may(user, RuleManageUsers, 0, 0) {
		return galgo.CodeUnauthorized
	}
	return do(u)
}

func (o *oracle) createUser(req NewUser, user uint32, now uint64) (galgo.Code, wire.Body) {
	switch {
	case !o.may(user, RuleManageUsers, 0, 0):
		return galgo.CodeUnauthorized, nil
	case req.Refusal != 0:
		return galgo.CodeTransientNotAccepted, nil
	case len(req.Username) < 3 || len(req.Username) > 50:
		return galgo.CodeInvalidUsername, nil
	case o.user(galgo.NamedID(req.Username)) != nil:
		return galgo.CodeUserAlreadyExists, nil
	}
	u := &oUser{
		id: lowestUnused(o.users, func(u *oUser) uint32 { return u.id }), name: req.Username, created: now,
		born: o.op, password: o.op, hash: req.PasswordHash, active: req.Active, rights: req.Permissions,
	}
	o.users = append(o.users, u)
	status := galgo.UserInactive
	if u.active {
		status = galgo.UserActive
	}
	return galgo.CodeOK, wire.UserDetails{
		UserInfo: wire.UserInfo{ID: u.id, CreatedAt: now, Status: status, Username: u.name}, Permissions: u.rights,
	}
}

// endSessions ends those of a user, but for one.
func (o *oracle) endSessions(u *oUser, kept *oClient) {
	u.from, u.kept = o.op, 0
	if kept != nil {
		u.kept = kept.epoch
	}
	o.clients = slices.DeleteFunc(slices.Clone(o.clients), func(c *oClient) bool { return c.user == u.id && c != kept })
}

func (o *oracle) updateUser(req wire.UpdateUserRequest, u *oUser) galgo.Code {
	inactive := req.Status != nil && *req.Status == galgo.UserInactive
	if req.Username != nil {
		name := *req.Username
		if len(name) < 3 || len(name) > 50 {
			return galgo.CodeInvalidUsername
		}
		if other := o.user(galgo.NamedID(name)); other != nil && other != u {
			return galgo.CodeUserAlreadyExists
		}
		if !(inactive && u.id == RootUser) {
			u.name = name
		}
	}
	switch {
	case inactive && u.id == RootUser:
		return galgo.CodeInvalidUserStatus
	case inactive && u.active:
		o.endSessions(u, nil)
	}
	if req.Status != nil && (*req.Status == galgo.UserActive || *req.Status == galgo.UserInactive) {
		u.active = *req.Status == galgo.UserActive
	}
	return galgo.CodeOK
}

func (o *oracle) deleteUser(u *oUser) galgo.Code {
	if u.id == RootUser {
		return galgo.CodeCannotDeleteUser
	}
	o.users = without(o.users, u)
	for _, c := range o.clients {
		if c.user == u.id {
			o.gone(c.id)
		}
	}
	o.clients = slices.DeleteFunc(slices.Clone(o.clients), func(c *oClient) bool { return c.user == u.id })
	return galgo.CodeOK
}

func (o *oracle) changePassword(req NewPassword, user uint32) galgo.Code {
	u := o.user(req.User)
	switch {
	case u == nil:
		return galgo.CodeResourceNotFound
	case u.id != user && !o.may(user, RuleManageUsers, 0, 0):
		return galgo.CodeUnauthorized
	case req.Verified != u.password:
		return galgo.CodeTransientNotAccepted
	case req.Refusal != 0:
		return req.Refusal
	}
	if u.id == user {
		o.endSessions(u, o.caller)
	} else {
		o.endSessions(u, nil)
	}
	u.hash, u.password = req.PasswordHash, o.op
	return galgo.CodeOK
}

func (o *oracle) createToken(req NewToken, user uint32, now uint64) galgo.Code {
	u := o.user(galgo.NumericID(user))
	taken := pick(u.tokens, func(t *oToken) bool { return t.name == req.Name }) != nil
	for _, u := range o.users {
		taken = taken || pick(u.tokens, func(t *oToken) bool { return t.hash == req.Hash }) != nil
	}
	t := &oToken{name: req.Name, hash: req.Hash, op: o.op}
	if req.Expiry != 0 && req.Expiry != galgo.Never {
		t.expires = now + req.Expiry
	}
	switch {
	case len(u.tokens) >= oTokensMax:
		return galgo.CodePersonalAccessTokensLimitReached
	case taken:
		return galgo.CodePersonalAccessTokenAlreadyExists
	case t.expires != 0 && t.expires < now:
		return galgo.CodeInvalidPersonalAccessTokenExpiry
	}
	u.tokens = append(u.tokens, t)
	return galgo.CodeOK
}

func (p *pair) sweep(t *rapid.T) {
	p.apply(Input{Operation: OperationSweepTokens})
	for _, u := range p.o.users {
		u.tokens = slices.DeleteFunc(u.tokens, func(t *oToken) bool { return t.expires != 0 && t.expires <= startTime+p.op })
	}
}

// drawCredential is one that the user has, or had, or never had.
func (p *pair) drawCredential(t *rapid.T, user uint32) Credential {
	ops := []uint64{rapid.Uint64Range(0, p.op).Draw(t, "op")}
	kind := rapid.SampledFrom([]CredentialKind{CredentialPassword, CredentialToken}).Draw(t, "kind")
	if u := p.o.user(galgo.NumericID(user)); u != nil {
		ops = append(ops, u.password, u.password)
		for _, token := range u.tokens {
			if kind == CredentialToken {
				ops = append(ops, token.op, token.op, token.op)
			}
		}
	}
	return Credential{kind, rapid.SampledFrom(ops).Draw(t, "credential"), drawHome(t)}
}

func drawUsername(t *rapid.T) string {
	return rapid.SampledFrom([]string{"guest", "topics", "ann", "bob", "iggy", "ab", strings.Repeat("x", 51)}).Draw(t, "username")
}

func drawUserID(t *rapid.T) galgo.Identifier {
	if rapid.Bool().Draw(t, "user by name") {
		return galgo.NamedID(drawUsername(t))
	}
	return galgo.NumericID(rapid.Uint32Range(0, 4).Draw(t, "user"))
}

// drawRights is nothing, or a few rights on things that exist now and then, sorted.
func drawRights(t *rapid.T) *galgo.Permissions {
	if rapid.IntRange(0, 3).Draw(t, "none") == 0 {
		return nil
	}
	flag := func(name string) bool { return rapid.IntRange(0, 4).Draw(t, name) == 0 }
	p := &galgo.Permissions{Global: galgo.GlobalPermissions{
		ManageUsers: flag("users"), ManageStreams: flag("streams"), ReadStreams: flag("read streams"), ManageTopics: flag("topics"), ReadTopics: flag("read topics"),
	}}
	for stream := range uint32(2) {
		if flag("stream") {
			continue
		}
		s := galgo.StreamPermissions{StreamID: stream, ManageStream: flag("manage stream"), ReadStream: flag("read stream"), ManageTopics: flag("topics of")}
		for topic := range uint32(2) {
			if !flag("topic") {
				s.Topics = append(s.Topics, galgo.TopicPermissions{TopicID: topic, ManageTopic: flag("manage topic"), ReadTopic: flag("read topic")})
			}
		}
		p.Streams = append(p.Streams, s)
	}
	return p
}

func (p *pair) drawUserRequest(t *rapid.T) (wire.Operation, wire.Body) {
	switch rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3, 3, 4, 4, 5, 5, 5, 6}).Draw(t, "user request") {
	case 0:
		n := NewUser{Username: drawUsername(t), PasswordHash: drawName(t), Active: rapid.IntRange(0, 4).Draw(t, "active") > 0, Permissions: drawRights(t)}
		if rapid.IntRange(0, 9).Draw(t, "refused") == 0 {
			n.Refusal, n.PasswordHash, n.Permissions = galgo.CodeUnauthorized, "", nil
		}
		return wire.OperationCreateUser, n
	case 1:
		req := wire.UpdateUserRequest{User: drawUserID(t)}
		if rapid.Bool().Draw(t, "renamed") {
			name := drawUsername(t)
			req.Username = &name
		}
		if rapid.Bool().Draw(t, "restated") {
			status := galgo.UserStatus(rapid.Uint8Range(0, 3).Draw(t, "status"))
			req.Status = &status
		}
		return wire.OperationUpdateUser, req
	case 2:
		return wire.OperationDeleteUser, wire.UserRequest{User: drawUserID(t)}
	case 3:
		return wire.OperationChangePassword, p.drawNewPassword(t)
	case 4:
		return wire.OperationUpdatePermissions, p.drawNewPermissions(t)
	case 5:
		return wire.OperationCreateToken, NewToken{
			Name:   drawName(t),
			Expiry: rapid.SampledFrom([]uint64{0, galgo.Never, 1, 5, 20, galgo.Never - 1}).Draw(t, "expiry"),
			Hash:   TokenHash{rapid.Byte().Draw(t, "hash")},
		}
	default:
		return wire.OperationDeleteToken, wire.DeleteTokenRequest{Name: drawName(t)}
	}
}

func (p *pair) drawNewPermissions(t *rapid.T) NewPermissions {
	if rapid.IntRange(0, 5).Draw(t, "refused") == 0 {
		return NewPermissions{User: drawUserID(t), Refusal: rapid.SampledFrom([]galgo.Code{galgo.CodeResourceNotFound, galgo.CodeUnauthorized}).Draw(t, "refusal")}
	}
	return NewPermissions{User: drawUserID(t), Permissions: drawRights(t)}
}

func (p *pair) drawNewPassword(t *rapid.T) NewPassword {
	n := NewPassword{User: drawUserID(t), PasswordHash: drawName(t), Verified: rapid.Uint64Range(0, p.op).Draw(t, "verified")}
	if u := p.o.user(n.User); u != nil && rapid.IntRange(0, 3).Draw(t, "right") > 0 {
		n.Verified = u.password
	}
	n.Refusal = rapid.SampledFrom([]galgo.Code{0, 0, 0, galgo.CodeResourceNotFound, galgo.CodeUnauthorized, galgo.CodeInvalidCredentials}).Draw(t, "refusal")
	if n.Refusal != 0 {
		n.PasswordHash = ""
	}
	return n
}

func (o *oracle) dumpUsers(b *strings.Builder) {
	sort.Slice(o.users, func(i, j int) bool { return o.users[i].id < o.users[j].id })
	for _, u := range o.users {
		fmt.Fprintf(b, "user %d %q %d born %d password %q of %d active %t from %d kept %d tokens %d rights %s\n",
			u.id, u.name, u.created, u.born, u.hash, u.password, u.active, u.from, u.kept, len(u.tokens), rightsText(u.rights))
		sort.Slice(u.tokens, func(i, j int) bool { return u.tokens[i].name < u.tokens[j].name })
		for _, t := range u.tokens {
			fmt.Fprintf(b, " token %q %x of %d expires %d\n", t.name, t.hash[:1], t.op, t.expires)
		}
	}
}

func dumpViewUsers(b *strings.Builder, v *View) {
	for u := range v.Users() {
		fmt.Fprintf(b, "user %d %q %d born %d password %q of %d active %t from %d kept %d tokens %d rights %s\n",
			u.ID, u.Name, u.CreatedAt, u.Born, u.PasswordHash, u.PasswordOp, u.Active, u.SessionsFrom, u.Kept, u.Tokens, rightsText(u.Permissions))
		for t := range v.Tokens(u) {
			fmt.Fprintf(b, " token %q %x of %d expires %d\n", t.Name, t.Hash[:1], t.Op, t.ExpiresAt)
		}
	}
}

func rightsText(p *galgo.Permissions) string {
	if p == nil {
		return "none"
	}
	return fmt.Sprintf("%x", wire.AppendPermissions(nil, *p))
}
