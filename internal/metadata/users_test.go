package metadata

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/wire"
)

func newUserBody(name string, p *galgo.Permissions) []byte {
	return NewUser{Username: name, PasswordHash: "hash of " + name, Active: true, Permissions: p}.Append(nil)
}

func deleteUserBody(user galgo.Identifier) []byte { return wire.UserRequest{User: user}.Append(nil) }

func updateUserBody(user galgo.Identifier, name string, status galgo.UserStatus) []byte {
	req := wire.UpdateUserRequest{User: user}
	if name != "" {
		req.Username = &name
	}
	if status != 0 {
		req.Status = &status
	}
	return req.Append(nil)
}

func permissionsBody(user galgo.Identifier, p *galgo.Permissions) []byte {
	return NewPermissions{User: user, Permissions: p}.Append(nil)
}

func passwordBody(user galgo.Identifier, verified uint64) []byte {
	return NewPassword{User: user, Verified: verified, PasswordHash: "new"}.Append(nil)
}

func tokenBody(name string, expiry uint64, hash byte) []byte {
	return NewToken{Name: name, Expiry: expiry, Hash: TokenHash{hash}}.Append(nil)
}

func (r *rig) createUser(name string, p *galgo.Permissions) *User {
	r.t.Helper()
	r.must(wire.OperationCreateUser, newUserBody(name, p))
	return r.user(name)
}

func (r *rig) user(name string) *User {
	r.t.Helper()
	u, ok := r.m.View().User(galgo.NamedID(name))
	if !ok {
		r.t.Fatalf("no user %q", name)
	}
	return u
}

// manager may manage users, and nothing else.
func manager() *galgo.Permissions {
	return &galgo.Permissions{Global: galgo.GlobalPermissions{ManageUsers: true}}
}

func TestCreateUserAnswersWithIt(t *testing.T) {
	r := newRig(t)
	p := scoped()
	p.Streams = append(p.Streams, galgo.StreamPermissions{StreamID: 2, ReadStream: true})
	payload, out := r.must(wire.OperationCreateUser, newUserBody("ann", p))
	got, err := wire.DecodeUserDetails(payload)
	if err != nil || got.ID != 1 || got.CreatedAt != r.now() || got.Status != galgo.UserActive || got.Username != "ann" {
		t.Fatalf("created %+v, %v", got, err)
	}
	if got.Permissions.Streams[0].StreamID != 2 || got.Permissions.Streams[1].StreamID != 7 {
		t.Errorf("permissions %+v, want them sorted", got.Permissions)
	}
	u := r.user("ann")
	if u.PasswordHash != "hash of ann" || u.Born != r.op || u.PasswordOp != r.op || len(out.Changes) != 0 {
		t.Errorf("user %+v, changes %v", u, out.Changes)
	}
}

// Rows of wire.md §6.5, in the order of the checks: object, right, rule.
func TestUserRules(t *testing.T) {
	r := newRig(t)
	r.createUser("ann", manager())
	r.createUser("bob", nil)
	ann, bob := clientID(2), clientID(3)
	r.login(ann, 1)
	r.login(bob, 2)
	long := strings.Repeat("x", 51)
	for _, tt := range []struct {
		as   galgo.ClientID
		want galgo.Code
		op   wire.Operation
		body []byte
	}{
		{bob, galgo.CodeUnauthorized, wire.OperationCreateUser, newUserBody("ann", nil)},
		{ann, galgo.CodeInvalidUsername, wire.OperationCreateUser, newUserBody("ab", nil)},
		{ann, galgo.CodeInvalidUsername, wire.OperationCreateUser, newUserBody(long, nil)},
		{ann, galgo.CodeUserAlreadyExists, wire.OperationCreateUser, newUserBody("bob", nil)},
		{ann, galgo.CodeTransientNotAccepted, wire.OperationCreateUser, NewUser{Refusal: galgo.CodeUnauthorized, Username: "new"}.Append(nil)},
		{bob, galgo.CodeUnauthorized, wire.OperationCreateUser, NewUser{Refusal: galgo.CodeUnauthorized, Username: "new"}.Append(nil)},

		{bob, galgo.CodeResourceNotFound, wire.OperationUpdateUser, updateUserBody(id(9), "ab", 0)},
		{bob, galgo.CodeUnauthorized, wire.OperationUpdateUser, updateUserBody(name("bob"), "ab", 0)},
		{ann, galgo.CodeInvalidUsername, wire.OperationUpdateUser, updateUserBody(name("bob"), "ab", 0)},
		{ann, galgo.CodeInvalidUsername, wire.OperationUpdateUser, updateUserBody(name("bob"), long, 0)},
		{ann, galgo.CodeUserAlreadyExists, wire.OperationUpdateUser, updateUserBody(name("bob"), "iggy", 0)},
		{ann, galgo.CodeUnsupportedOptionKey, wire.OperationUpdateUser, wire.UpdateUserRequest{
			User: id(2), Options: block([]galgo.Header{option("any", galgo.BoolValue(true))}),
		}.Append(nil)},

		{ann, galgo.CodeInvalidUserStatus, wire.OperationUpdateUser, updateUserBody(id(0), "gone", galgo.UserInactive)},
		{clientID(1), galgo.CodeInvalidUserStatus, wire.OperationUpdateUser, updateUserBody(name("iggy"), "", galgo.UserInactive)},

		{bob, galgo.CodeResourceNotFound, wire.OperationDeleteUser, deleteUserBody(name("9"))},
		{bob, galgo.CodeUnauthorized, wire.OperationDeleteUser, deleteUserBody(id(0))},
		{bob, galgo.CodeUnauthorized, wire.OperationDeleteUser, deleteUserBody(id(2))},
		{ann, galgo.CodeCannotDeleteUser, wire.OperationDeleteUser, deleteUserBody(id(0))},
		{clientID(1), galgo.CodeCannotDeleteUser, wire.OperationDeleteUser, deleteUserBody(name("iggy"))},

		{bob, galgo.CodeResourceNotFound, wire.OperationUpdatePermissions, permissionsBody(id(9), nil)},
		{bob, galgo.CodeUnauthorized, wire.OperationUpdatePermissions, permissionsBody(id(2), manager())},
		{ann, galgo.CodeCannotChangePermissions, wire.OperationUpdatePermissions, permissionsBody(id(0), nil)},
		{clientID(1), galgo.CodeCannotChangePermissions, wire.OperationUpdatePermissions, permissionsBody(id(0), manager())},

		{ann, galgo.CodeTransientNotAccepted, wire.OperationUpdatePermissions, NewPermissions{User: id(2), Refusal: galgo.CodeUnauthorized}.Append(nil)},
		{ann, galgo.CodeTransientNotAccepted, wire.OperationUpdatePermissions, NewPermissions{User: id(2), Refusal: galgo.CodeResourceNotFound}.Append(nil)},
		{bob, galgo.CodeUnauthorized, wire.OperationUpdatePermissions, NewPermissions{User: id(2), Refusal: galgo.CodeUnauthorized}.Append(nil)},

		{bob, galgo.CodeResourceNotFound, wire.OperationChangePassword, passwordBody(id(9), 1)},
		{bob, galgo.CodeUnauthorized, wire.OperationChangePassword, passwordBody(id(0), 1)},
		{bob, galgo.CodeTransientNotAccepted, wire.OperationChangePassword, passwordBody(name("bob"), 1)},
		{ann, galgo.CodeTransientNotAccepted, wire.OperationChangePassword, NewPassword{Refusal: galgo.CodeInvalidCredentials, User: id(2), Verified: 1}.Append(nil)},
		{bob, galgo.CodeTransientNotAccepted, wire.OperationChangePassword, NewPassword{Refusal: galgo.CodeUnauthorized, User: id(2)}.Append(nil)},
		{ann, galgo.CodeInvalidCredentials, wire.OperationChangePassword,
			NewPassword{Refusal: galgo.CodeInvalidCredentials, User: id(2), Verified: r.user("bob").PasswordOp}.Append(nil)},
		{bob, galgo.CodeResourceNotFound, wire.OperationDeleteToken, wire.DeleteTokenRequest{Name: "none"}.Append(nil)},
	} {
		r.wantCodeAs(tt.as, tt.want, tt.op, tt.body)
	}
	r.must(wire.OperationUpdateUser, updateUserBody(id(0), "root", 0)) // root can be renamed
	r.must(wire.OperationChangePassword, passwordBody(name("root"), r.user("root").PasswordOp))
	if u := r.user("root"); u.PasswordHash != "new" || u.PasswordOp != r.op {
		t.Errorf("root is %+v after a change of its password at op %d", u, r.op)
	}
}

func TestUpdateUser(t *testing.T) {
	r := newRig(t)
	r.createUser("ann", nil)
	r.must(wire.OperationUpdateUser, updateUserBody(name("ann"), "ann", 0)) // its own name
	r.must(wire.OperationUpdateUser, updateUserBody(name("ann"), "eve", galgo.UserInactive))
	r.must(wire.OperationUpdateUser, updateUserBody(name("eve"), "", 7)) // unknown: ignored
	if u := r.user("eve"); u.Active || u.ID != 1 {
		t.Errorf("user %+v", u)
	}
	if _, ok := r.m.View().User(name("ann")); ok {
		t.Error("the former name is still one")
	}
	r.must(wire.OperationUpdateUser, updateUserBody(name("eve"), "", galgo.UserActive))
	if !r.user("eve").Active {
		t.Error("not active again")
	}
	r.createUser("ann", nil)
}

// The rights of a user are those of the log, at the place of the request.
func TestRightsChangeAtOnce(t *testing.T) {
	r := newRig(t)
	r.createUser("ann", nil)
	ann := clientID(2)
	r.login(ann, 1)
	r.wantCodeAs(ann, galgo.CodeUnauthorized, wire.OperationCreateStream, createStreamBody("s"))
	r.must(wire.OperationUpdatePermissions, permissionsBody(name("ann"), &galgo.Permissions{Global: galgo.GlobalPermissions{ManageStreams: true}}))
	if _, _, err := r.as(ann, wire.OperationCreateStream, createStreamBody("s")); err != nil {
		t.Errorf("with the right: %v", err)
	}
	r.must(wire.OperationUpdatePermissions, permissionsBody(name("ann"), nil))
	r.wantCodeAs(ann, galgo.CodeUnauthorized, wire.OperationCreateStream, createStreamBody("t"))
	if p := r.user("ann").Permissions; p != nil {
		t.Errorf("permissions %+v, want none", p)
	}
}

// Who deletes a user ends all that could act as it, and whoever gets its id begins
// with nothing (wire.md §6.5).
func TestDeletedUserLeavesNothing(t *testing.T) {
	r := newRig(t)
	first := r.createUser("ann", manager())
	ann, again := clientID(2), clientID(3)
	r.login(ann, first.ID)
	r.login(again, first.ID)
	if _, _, err := r.as(ann, wire.OperationCreateToken, tokenBody("ci", 0, 1)); err != nil {
		t.Fatal(err)
	}
	byToken := Credential{Kind: CredentialToken, Op: r.op}
	_, out := r.must(wire.OperationDeleteUser, deleteUserBody(name("ann")))
	if !slices.Equal(out.Ended, []galgo.ClientID{ann, again}) {
		t.Errorf("ended %v, want both sessions", out.Ended)
	}
	if _, _, ok := r.m.View().TokenOwner(TokenHash{1}); ok {
		t.Error("its token is still one")
	}
	next := r.createUser("eve", nil)
	if next.ID != first.ID {
		t.Fatalf("the next user is %d, want %d", next.ID, first.ID)
	}
	if v := r.m.View(); v.s.exists(first.Actor()) || v.Allows(first.Actor(), RuleManageUsers, 0, 0) || !v.s.exists(next.Actor()) {
		t.Error("the next user is taken for the one before")
	}
	s := r.sessions[ann]
	verdict := r.apply(Input{Operation: wire.OperationCreateStream, Client: ann, Session: s.epoch, Request: s.next, Body: createStreamBody("s")}).Verdict
	if verdict.Kind != VerdictNoSession {
		t.Errorf("a request of the ended session is %v", verdict.Kind)
	}
	for _, by := range []Credential{PasswordOf(first), byToken} {
		if login := r.loginBy(ann, first.ID, by).Login; login == LoginAccepted {
			t.Errorf("a login by the %v of the deleted user is accepted", by.Kind)
		}
	}
	restored(t, r.m)
}

// Who may, may also delete oneself: the answer leaves, the session does not stay.
func TestUserDeletesItself(t *testing.T) {
	r := newRig(t)
	r.createUser("ann", manager())
	ann := clientID(2)
	r.login(ann, 1)
	_, out, err := r.as(ann, wire.OperationDeleteUser, deleteUserBody(id(1)))
	if err != nil || !slices.Equal(out.Ended, []galgo.ClientID{ann}) {
		t.Errorf("ended %v, %v", out.Ended, err)
	}
	if _, ok := r.m.View().Client(ann); ok {
		t.Error("the session is still there")
	}
	restored(t, r.m)
}

// The sessions of a user end when it is made inactive, and when its password changes, but
// for the one that changes it. An edge tells from the user alone which are over.
func TestSessionsThatEnd(t *testing.T) {
	r := newRig(t)
	u := r.createUser("ann", manager())
	own, other, later := clientID(2), clientID(3), clientID(4)
	r.login(own, u.ID)
	r.login(other, u.ID)
	ended := func(out Output, want ...galgo.ClientID) {
		t.Helper()
		if !slices.Equal(out.Ended, want) {
			t.Errorf("ended %v, want %v", out.Ended, want)
		}
		for id, s := range r.sessions {
			c, there := r.m.View().Client(id)
			if id != clientID(1) && r.m.View().Holds(u.Actor(), s.epoch) != there {
				t.Errorf("%v: in the table %t, and holds %t", id, there, !there)
			}
			if there && c.Epoch != s.epoch {
				t.Errorf("%v is of %d", id, c.Epoch)
			}
		}
		r.m = restored(t, r.m)
	}
	_, out, err := r.as(own, wire.OperationChangePassword, passwordBody(name("ann"), u.PasswordOp))
	if err != nil {
		t.Fatal(err)
	}
	ended(out, other)
	r.login(later, u.ID)
	ended(Output{})
	_, out, err = r.as(later, wire.OperationChangePassword, passwordBody(name("ann"), r.user("ann").PasswordOp))
	if err != nil {
		t.Fatal(err)
	}
	ended(out, own)
	_, out = r.must(wire.OperationChangePassword, passwordBody(name("ann"), r.user("ann").PasswordOp))
	ended(out, later)
	r.login(own, u.ID)
	_, out = r.must(wire.OperationUpdateUser, updateUserBody(name("ann"), "", galgo.UserInactive))
	ended(out, own)
	if v := r.m.View(); v.Allows(u.Actor(), RuleManageUsers, 0, 0) {
		t.Error("an inactive user has a right")
	}
	_, out = r.must(wire.OperationUpdateUser, updateUserBody(name("ann"), "", galgo.UserActive))
	ended(out) // what was ended stays so
	r.login(own, u.ID)
	_, out = r.must(wire.OperationUpdateUser, updateUserBody(name("ann"), "", galgo.UserActive))
	ended(out)
}

// What was worked out from less of the log does not run and is not recorded: the same
// request under the same number does, once the edge knows.
func TestRequestsWorkedOutTooEarlyAreNotRecorded(t *testing.T) {
	r := newRig(t)
	s := r.sessions[clientID(1)]
	in := Input{Operation: wire.OperationCreateUser, Client: clientID(1), Session: s.epoch, Request: s.next}
	in.Body = NewUser{Refusal: galgo.CodeUnauthorized, Username: "ann"}.Append(nil)
	before := r.m.View().EncodeClients()
	if code, _, err := wire.SplitResult(r.apply(in).Body); code != galgo.CodeTransientNotAccepted || err != nil {
		t.Errorf("too early: %v, %v", code, err)
	}
	if !bytes.Equal(r.m.View().EncodeClients(), before) {
		t.Error("the client table has changed")
	}
	in.Body = newUserBody("ann", nil)
	if code, _, err := wire.SplitResult(r.apply(in).Body); code != galgo.CodeOK || err != nil {
		t.Errorf("once more: %v, %v", code, err)
	}
}

// The state does not outgrow what a snapshot file holds: what would make it larger is
// taken back, whatever it is, and what makes it smaller is run.
func TestStateIsBounded(t *testing.T) {
	r := newRig(t)
	r.createUser("ann", nil)
	r.createStream("s")
	r.createTopic(0, "t", 1)
	r.change(func(s *state) { s.users.bytes += StateMax - s.size() })
	for _, tt := range []struct {
		op   wire.Operation
		body []byte
		want galgo.Code
	}{
		{wire.OperationCreateUser, newUserBody("bob", nil), galgo.CodeUsersLimitReached},
		{wire.OperationUpdateUser, updateUserBody(name("ann"), "anna", 0), galgo.CodeInvalidOptionValue},
		{wire.OperationUpdatePermissions, permissionsBody(name("ann"), manager()), galgo.CodeInvalidOptionValue},
		{wire.OperationCreateToken, tokenBody("ci", 0, 1), galgo.CodePersonalAccessTokensLimitReached},
		{wire.OperationCreateStream, createStreamBody("u"), galgo.CodeTooManyStreams},
		{wire.OperationUpdateStream, updateStreamBody(id(0), "longer"), galgo.CodeInvalidOptionValue},
		{wire.OperationCreateTopic, createTopicBody(id(0), "u", 1), galgo.CodeTooManyTopics},
		{wire.OperationCreatePartitions, partitionsBody(id(0), id(0), 1), galgo.CodeTooManyPartitions},
		{wire.OperationCreateConsumerGroup, createGroupBody(id(0), id(0), "g"), galgo.CodeInvalidOptionValue},
	} {
		r.wantCode(tt.want, tt.op, tt.body)
	}
	if n := r.m.s.size(); n != StateMax {
		t.Errorf("%d bytes, want the %d that there were", n, StateMax)
	}
	r.must(wire.OperationUpdateUser, updateUserBody(name("ann"), "eve", 0)) // no longer than before
	r.must(wire.OperationDeleteTopic, deleteTopicBody(id(0), id(0)))
	r.createUser("bob", nil)
}

// Nor does the client table: replies are dropped for which there is no room.
func TestClientTableIsBounded(t *testing.T) {
	r := newRig(t)
	s := r.sessions[clientID(1)]
	r.change(func(st *state) { st.clients.bytes += ClientTableMax - st.clients.bytes })
	r.createStream("s")
	v := r.m.View().CheckRequest(clientID(1), s.epoch, s.next-1, [16]byte{})
	if code, _, err := wire.SplitResult(v.Reply.Body()); code != galgo.CodeRequestAlreadyApplied || err != nil {
		t.Errorf("a retry is answered %v, %v", code, err)
	}
	r.must(wire.OperationDeleteStream, deleteStreamBody(id(0)))
	v = r.m.View().CheckRequest(clientID(1), s.epoch, s.next-1, [16]byte{})
	if code, _, err := wire.SplitResult(v.Reply.Body()); code != galgo.CodeOK || err != nil {
		t.Errorf("a retry whose answer is short is answered %v, %v", code, err)
	}
}

// What the edge checked may have changed before the Register comes to the log.
func TestCredentialsOfYesterday(t *testing.T) {
	r := newRig(t)
	u := r.createUser("ann", nil)
	old := PasswordOf(u)
	r.must(wire.OperationChangePassword, passwordBody(name("ann"), u.PasswordOp))
	if login := r.loginBy(clientID(2), 1, old).Login; login != LoginNoUser {
		t.Errorf("the former password: %v", login)
	}
	if login := r.login(clientID(2), 1).Login; login != LoginAccepted {
		t.Errorf("the new password: %v", login)
	}
	r.as(clientID(2), wire.OperationCreateToken, tokenBody("ci", 0, 1))
	ci := Credential{Kind: CredentialToken, Op: r.op}
	r.as(clientID(2), wire.OperationCreateToken, tokenBody("tmp", 3000, 2)) // three ops
	tmp := Credential{Kind: CredentialToken, Op: r.op}
	for _, by := range []Credential{ci, tmp} {
		if login := r.loginBy(clientID(3), 1, by).Login; login != LoginAccepted {
			t.Errorf("token: %v", login)
		}
	}
	if login := r.loginBy(clientID(3), 1, tmp).Login; login != LoginNoToken {
		t.Errorf("a token that expires now: %v", login)
	}
	if login := r.loginBy(clientID(3), RootUser, ci).Login; login != LoginNoToken {
		t.Errorf("a token of another user: %v", login)
	}
	r.must(wire.OperationUpdateUser, updateUserBody(name("ann"), "", galgo.UserInactive))
	if login := r.loginBy(clientID(4), 1, ci).Login; login != LoginInactive {
		t.Errorf("an inactive user, by token: %v", login)
	}
	if login := r.login(clientID(4), 1).Login; login != LoginNoUser {
		t.Errorf("an inactive user, by password: %v", login)
	}
	r.must(wire.OperationUpdateUser, updateUserBody(name("ann"), "", galgo.UserActive))
	r.login(clientID(3), 1)
	if _, _, err := r.as(clientID(3), wire.OperationDeleteToken, wire.DeleteTokenRequest{Name: "ci"}.Append(nil)); err != nil {
		t.Errorf("active again: %v", err)
	}
	if login := r.loginBy(clientID(4), 1, ci).Login; login != LoginNoToken {
		t.Errorf("a deleted token: %v", login)
	}
}

func TestTokenRules(t *testing.T) { // wire.md §6.6
	r := newRig(t)
	r.bootstrapLimit(3)
	create := wire.OperationCreateToken
	_, out := r.must(create, tokenBody("b", 0, 1))
	if string(out.Body) != string(wire.AppendResultOK(nil)) {
		t.Errorf("answered %x: the token is not known here", out.Body)
	}
	r.wantCode(galgo.CodePersonalAccessTokenAlreadyExists, create, tokenBody("b", 0, 2))
	r.wantCode(galgo.CodePersonalAccessTokenAlreadyExists, create, tokenBody("c", 0, 1)) // the same token
	r.wantCode(galgo.CodeInvalidPersonalAccessTokenExpiry, create, tokenBody("c", galgo.Never-1, 2))
	r.must(create, tokenBody("a", galgo.Never, 2))
	r.must(create, tokenBody("c", 1, 3))
	r.wantCode(galgo.CodePersonalAccessTokensLimitReached, create, tokenBody("a", galgo.Never-1, 4)) // before all else
	v, root := r.m.View(), r.user("iggy")
	var list []Token
	for tok := range v.Tokens(root) {
		list = append(list, *tok)
	}
	want := []Token{
		{Name: "a", Hash: TokenHash{2}, Op: list[0].Op}, {Name: "b", Hash: TokenHash{1}, Op: list[1].Op},
		{Name: "c", Hash: TokenHash{3}, Op: list[2].Op, ExpiresAt: list[2].ExpiresAt},
	}
	if !slices.Equal(list, want) || root.Tokens != 3 {
		t.Errorf("tokens %+v of %d, want %+v", list, root.Tokens, want)
	}
	r.must(wire.OperationDeleteToken, wire.DeleteTokenRequest{Name: "a"}.Append(nil))
	r.wantCode(galgo.CodeResourceNotFound, wire.OperationDeleteToken, wire.DeleteTokenRequest{Name: "a"}.Append(nil))
	r.must(create, tokenBody("a", 0, 2))
	restored(t, r.m)
}

// bootstrapLimit changes how many tokens a user may have.
func (r *rig) bootstrapLimit(tokens uint32) {
	r.t.Helper()
	body, err := Configure{Settings{ClientsMax: ClientsDefault, TokensMax: tokens}}.Encode()
	if err != nil {
		r.t.Fatal(err)
	}
	r.apply(Input{Operation: OperationConfigure, Body: body})
}

// A token is shown once. Whoever repeats the request is told that there is one by that
// name (wire.md §3.8 row 6); a refusal is repeated as it was.
func TestTokenCreationRepeated(t *testing.T) { // N-15
	r := newRig(t)
	s := r.sessions[clientID(1)]
	for _, tt := range []struct {
		body        []byte
		first, then galgo.Code
	}{
		{tokenBody("ci", 0, 1), galgo.CodeOK, galgo.CodePersonalAccessTokenAlreadyExists},
		{tokenBody("x", galgo.Never-1, 2), galgo.CodeInvalidPersonalAccessTokenExpiry, galgo.CodeInvalidPersonalAccessTokenExpiry},
	} {
		in := Input{Operation: wire.OperationCreateToken, Client: clientID(1), Session: s.epoch, Request: s.next, Body: tt.body}
		s.next++
		answered := func(when string, want galgo.Code) {
			if code, _, err := wire.SplitResult(r.apply(in).Body); code != want || err != nil {
				t.Errorf("%s: %v, %v, want %v", when, code, err, want)
			}
		}
		answered("first", tt.first)
		answered("again", tt.then)
		r.m = restored(t, r.m)
		answered("after a restart", tt.then)
	}
}

// An answer that is too long to be kept is given once.
func TestLongAnswersAreNotKept(t *testing.T) {
	r := newRig(t)
	p := &galgo.Permissions{Streams: []galgo.StreamPermissions{{StreamID: 1}}}
	for n := range uint32(ReplyMax / 9) {
		p.Streams[0].Topics = append(p.Streams[0].Topics, galgo.TopicPermissions{TopicID: n})
	}
	s := r.sessions[clientID(1)]
	_, out := r.must(wire.OperationCreateUser, newUserBody("ann", p))
	if len(out.Body) <= ReplyMax {
		t.Fatalf("answer of %d bytes, want more than are kept", len(out.Body))
	}
	v := r.m.View().CheckRequest(clientID(1), s.epoch, s.next-1, [16]byte{})
	if code, _, err := wire.SplitResult(v.Reply.Body()); code != galgo.CodeRequestAlreadyApplied || err != nil {
		t.Errorf("a retry is answered %v, %v", code, err)
	}
	restored(t, r.m)
}

func TestPermissionsAreBounded(t *testing.T) {
	p := &galgo.Permissions{Streams: []galgo.StreamPermissions{{StreamID: 1, Topics: make([]galgo.TopicPermissions, PermissionsMax/9+1)}}}
	for n := range p.Streams[0].Topics {
		p.Streams[0].Topics[n].TopicID = uint32(n)
	}
	v := newRig(t).m.View()
	wantAdmit(t, v, galgo.CodeInvalidCommand, wire.OperationCreateUser, newUserBody("ann", p))
	wantAdmit(t, v, galgo.CodeInvalidCommand, wire.OperationUpdatePermissions, permissionsBody(id(1), p))
}

// Expired tokens go by an operation of the log, the oldest first, so many at a time.
func TestSweepTokens(t *testing.T) {
	r := newRig(t)
	r.bootstrapLimit(2*TokensPerSweep + 1)
	const n = TokensPerSweep + 5
	for i := range n {
		r.must(wire.OperationCreateToken, NewToken{Name: string(rune('A' + i)), Expiry: uint64(2000 * (n - i)), Hash: TokenHash{byte(i), byte(i >> 8)}}.Append(nil))
	}
	r.must(wire.OperationCreateToken, NewToken{Name: "ever", Hash: TokenHash{31: 1}}.Append(nil))
	left := func() int { return int(r.user("iggy").Tokens) }
	if at, ok := r.m.View().NextExpiry(); !ok || at > r.now()+2000*n {
		t.Errorf("next expiry %d, %t", at, ok)
	}
	before := left()
	r.apply(Input{Operation: OperationSweepTokens})
	if gone := before - left(); gone == 0 || gone > TokensPerSweep {
		t.Errorf("%d are gone", gone)
	}
	for tok := range r.m.View().Tokens(r.user("iggy")) {
		if at, _ := r.m.View().NextExpiry(); tok.ExpiresAt != 0 && tok.ExpiresAt < at {
			t.Errorf("%+v is left, and the next expires at %d", tok, at)
		}
	}
	r.op += 4 * n
	for range 2 {
		r.apply(Input{Operation: OperationSweepTokens})
	}
	if _, ok := r.m.View().NextExpiry(); ok || left() != 1 {
		t.Errorf("%d are left, want the one that does not expire", left())
	}
	restored(t, r.m)
}

func TestUserIDsAreThoseThatAreFree(t *testing.T) { // wire.md §8.1
	r := newRig(t)
	for _, name := range []string{"ann", "bob", "eve"} {
		r.createUser(name, nil)
	}
	r.must(wire.OperationDeleteUser, deleteUserBody(name("ann")))
	r.must(wire.OperationDeleteUser, deleteUserBody(id(3)))
	s := *r.sessions[clientID(1)]
	again := &rig{t: t, m: restored(t, r.m), op: r.op, sessions: map[galgo.ClientID]*testSession{clientID(1): &s}}
	for _, r := range []*rig{r, again} {
		if a, b := r.createUser("new", nil).ID, r.createUser("newer", nil).ID; a != 1 || b != 3 {
			t.Errorf("ids %d and %d, want 1 and 3", a, b)
		}
	}
}

func TestUserIDsRunOut(t *testing.T) {
	r := newRig(t)
	r.change(func(s *state) {
		root, _ := s.users.get(0)
		for n := range uint32(UsersMax) {
			s.users.set(n, root)
		}
	})
	if _, _, err := r.root(wire.OperationCreateUser, newUserBody("ann", nil)); err == nil {
		t.Error("a user more than there are ids")
	} else if code, _ := galgo.CodeOf(err); code != galgo.CodeUsersLimitReached {
		t.Errorf("%v", err)
	}
}
