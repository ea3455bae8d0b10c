package edge

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"galgo"
	"galgo/internal/auth"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

func createUser(name, password string, p *galgo.Permissions) []byte {
	return wire.CreateUserRequest{Username: name, Password: password, Status: galgo.UserActive, Permissions: p}.Append(nil)
}

func changePassword(user galgo.Identifier, current, replacement string) []byte {
	return wire.ChangePasswordRequest{User: user, Current: current, New: replacement}.Append(nil)
}

// tokenBody is a sign-in by token.
func tokenBody(token string) []byte {
	return wire.RegisterRequest{
		Client: wire.ClientVersion{Protocol: wire.VersionCurrent, SDKName: "test-sdk", SDKVersion: "1"},
		Token:  &wire.TokenLogin{Token: token},
	}.Append(nil)
}

// createToken makes a token and returns it.
func (p *peer) createToken(name string, expiry uint64) string {
	p.t.Helper()
	payload := p.must(wire.OperationCreateToken, wire.CreateTokenRequest{Name: name, Expiry: expiry}.Append(nil))
	created, err := wire.DecodeCreatedToken(payload)
	if err != nil {
		p.t.Fatal(err)
	}
	return created.Token
}

func (p *peer) tokens() string {
	p.t.Helper()
	list, err := wire.DecodeTokens(p.mustRead(wire.CommandGetTokens, nil))
	if err != nil {
		p.t.Fatal(err)
	}
	return fmt.Sprint(list)
}

func (p *peer) loginBy(token string) {
	p.t.Helper()
	_, payload, err := wire.ParseReply(p.ask(registerHeader(p.client), tokenBody(token)))
	if err != nil {
		p.t.Fatalf("login by token: %v", err)
	}
	reply, err := wire.DecodeRegisterReply(payload)
	if err != nil {
		p.t.Fatal(err)
	}
	p.session, p.number = reply.Session, 1
}

func TestUserOfItsOwn(t *testing.T) {
	r := newRig(t)
	root := r.signedIn()
	p := &galgo.Permissions{Global: galgo.GlobalPermissions{ReadStreams: true}}
	created, err := wire.DecodeUserDetails(root.must(wire.OperationCreateUser, createUser("ann", "secret", p)))
	if err != nil || created.ID != 1 || created.Username != "ann" || created.Status != galgo.UserActive || created.Permissions == nil {
		t.Fatalf("created %+v, %v", created, err)
	}
	got := root.mustRead(wire.CommandGetUser, wire.UserRequest{User: galgo.NamedID("ann")}.Append(nil))
	if !bytes.Equal(got, created.Append(nil)) {
		t.Errorf("user.get answers\n%x, and its creation\n%x", got, created.Append(nil))
	}
	ann := r.connect()
	ann.login("ann", "secret")
	ann.mustRead(wire.CommandGetStreams, nil)
	if _, code := ann.do(wire.OperationCreateStream, createStream("s")); code != galgo.CodeUnauthorized {
		t.Errorf("without the right: %v", code)
	}

	ann.must(wire.OperationChangePassword, changePassword(galgo.NamedID("ann"), "secret", "better"))
	if _, code := ann.do(wire.OperationChangePassword, changePassword(galgo.NumericID(1), "secret", "worse")); code != galgo.CodeInvalidCredentials {
		t.Errorf("with the former password: %v", code)
	}
	// Whoever changes another's needs that one's password too.
	if _, code := root.do(wire.OperationChangePassword, changePassword(galgo.NumericID(1), "iggy", "worse")); code != galgo.CodeInvalidCredentials {
		t.Errorf("root with another password: %v", code)
	}
	ann.mustRead(wire.CommandGetStreams, nil) // the session that changed it stays
	root.must(wire.OperationChangePassword, changePassword(galgo.NumericID(1), "better", "best pw"))
	ann.wantEviction(ann.ask(ann.commandHeader(wire.CommandGetStreams), nil), wire.EvictionNoSession)
	again := r.connect()
	again.wantEviction(again.ask(registerHeader(again.client), loginBody("ann", "better")), wire.EvictionInvalidCredentials)
	again.login("ann", "best pw")

	name, inactive := "eve", galgo.UserInactive
	root.must(wire.OperationUpdateUser, wire.UpdateUserRequest{User: galgo.NumericID(1), Username: &name, Status: &inactive}.Append(nil))
	again.wantEviction(again.ask(again.commandHeader(wire.CommandGetStreams), nil), wire.EvictionNoSession)
	again.wantEviction(again.ask(registerHeader(again.client), loginBody("eve", "best pw")), wire.EvictionInvalidCredentials)
	active := galgo.UserActive
	root.must(wire.OperationUpdateUser, wire.UpdateUserRequest{User: galgo.NumericID(1), Status: &active}.Append(nil))
	again = r.connect()
	again.login("eve", "best pw")
	root.must(wire.OperationUpdatePermissions, wire.UpdatePermissionsRequest{User: galgo.NamedID("eve")}.Append(nil))
	if _, code := again.read(wire.CommandGetStreams, nil); code != galgo.CodeUnauthorized {
		t.Errorf("without permissions: %v", code)
	}
}

// A request with a secret is told to the node without it, and without the checksum that
// an SDK has made of it.
func TestSecretsStayAtTheEdge(t *testing.T) {
	r := newRig(t)
	root := r.signedIn()
	stamped := func(o wire.Operation, body []byte) []byte {
		h := root.header(o)
		h.RequestChecksum = wire.RequestChecksum(body)
		payload, code := root.parsed(root.ask(h, body))
		if code != galgo.CodeOK {
			t.Fatalf("%v: %v", o, code)
		}
		return payload
	}
	stamped(wire.OperationCreateUser, createUser("ann", "pass-word-1", nil))
	stamped(wire.OperationChangePassword, changePassword(galgo.NamedID("ann"), "pass-word-1", "pass-word-2"))
	created, err := wire.DecodeCreatedToken(stamped(wire.OperationCreateToken, wire.CreateTokenRequest{Name: "ci"}.Append(nil)))
	if err != nil {
		t.Fatal(err)
	}
	ann := r.connect()
	h := registerHeader(ann.client)
	h.RequestChecksum = wire.RequestChecksum(loginBody("ann", "pass-word-2"))
	if _, code := ann.parsed(ann.ask(h, loginBody("ann", "pass-word-2"))); code != galgo.CodeOK {
		t.Fatal(code)
	}
	root.wantStatus(root.ask(wire.RequestHeader{ // a checksum that is wrong is one all the same
		Client: root.client, Operation: wire.OperationCreateUser, Session: root.session, Request: root.number, RequestChecksum: [16]byte{1},
	}, createUser("bob", "pass-word-3", nil)), galgo.CodeInvalidFormat)

	secrets := []string{"pass-word", created.Token, "iggyiggy"}
	everything := bytes.Join([][]byte{r.node.View().EncodeState(), r.node.View().EncodeClients()}, nil)
	for _, req := range r.node.proposed {
		everything = append(everything, req.Body...)
		if req.RequestSum != [16]byte{} {
			t.Errorf("%v goes on with the checksum of its body", req.Operation)
		}
	}
	for _, s := range secrets {
		if bytes.Contains(everything, []byte(s)) {
			t.Errorf("%q is in what the node was given", s)
		}
	}
}

// Whoever may not make users costs no hash (wire.md §7), and one who asks for what is
// not there neither.
func TestRefusedSecretsCostNoHash(t *testing.T) {
	hasher := &countingHasher{}
	r := newRig(t, func(o *Options) { hasher.Passwords = o.Hasher; o.Hasher = hasher })
	r.node.addUser(t, "ann", "secret", true, nil)
	ann := r.connect()
	ann.login("ann", "secret")
	before := hasher.hashed + hasher.verified
	for _, c := range []struct {
		op   wire.Operation
		body []byte
		want galgo.Code
	}{
		{wire.OperationCreateUser, createUser("eve", "secret", nil), galgo.CodeUnauthorized},
		{wire.OperationChangePassword, changePassword(galgo.NamedID("none"), "secret", "x"), galgo.CodeResourceNotFound},
		{wire.OperationChangePassword, changePassword(galgo.NamedID("iggy"), "iggy", "x"), galgo.CodeUnauthorized},
	} {
		if _, code := ann.do(c.op, c.body); code != c.want {
			t.Errorf("%v is answered %v, want %v", c.op, code, c.want)
		}
	}
	if n := hasher.hashed + hasher.verified - before; n != 0 {
		t.Errorf("%d hashes", n)
	}
	root := r.signedIn()
	hasher.err = auth.ErrBusy
	root.wantResult(root.ask(root.header(wire.OperationCreateUser), createUser("eve", "secret", nil)), galgo.CodeTransientNotAccepted)
	root.wantResult(root.ask(root.header(wire.OperationChangePassword), changePassword(galgo.NumericID(0), "iggy", "x")), galgo.CodeTransientNotAccepted)
	hasher.err = auth.ErrFormat
	root.wantResult(root.ask(root.header(wire.OperationChangePassword), changePassword(galgo.NumericID(0), "iggy", "x")), galgo.CodeInvalidCredentials)
}

// Sessions of a deleted user are over, whatever they do next, also when its id is given
// to another (wire.md §6.5).
func TestSessionsOfADeletedUser(t *testing.T) {
	for name, next := range map[string]func(p *peer) []byte{
		"read": func(p *peer) []byte { return p.ask(p.commandHeader(wire.CommandGetStreams), nil) },
		"ping": func(p *peer) []byte { return p.ask(p.commandHeader(wire.CommandPing), nil) },
		"send": func(p *peer) []byte {
			return p.ask(p.header(wire.OperationSendMessages), sendBody(t, s0, t0, galgo.ToPartition(0), "m"))
		},
		"metadata": func(p *peer) []byte { return p.ask(p.header(wire.OperationCreateStream), createStream("x")) },
		"token":    func(p *peer) []byte { return p.ask(p.header(wire.OperationDeleteToken), []byte("\x01x")) },
	} {
		for _, reused := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, id given again: %t", name, reused), func(t *testing.T) {
				all := galgo.AllPermissions()
				ann, root := withRights(t, &all)
				ann.mustRead(wire.CommandGetStreams, nil)
				root.must(wire.OperationDeleteUser, wire.UserRequest{User: galgo.NamedID("ann")}.Append(nil))
				if reused {
					ann.rig.node.addUser(t, "eve", "secret", true, &all)
					if u, ok := ann.rig.node.View().User(galgo.NumericID(1)); !ok || u.Name != "eve" {
						t.Fatal("the id was not given again")
					}
				}
				if e := ann.wantEviction(next(ann), wire.EvictionNoSession); e.Client != ann.client {
					t.Errorf("eviction of %v", e.Client)
				}
				ann.wantEviction(ann.ask(registerHeader(ann.client), loginBody("ann", "secret")), wire.EvictionInvalidCredentials)
			})
		}
	}
}

func TestTokens(t *testing.T) {
	r := newRig(t)
	root := r.signedIn()
	h := root.header(wire.OperationCreateToken)
	ask := wire.CreateTokenRequest{Name: "ci", Expiry: 3_600_000_000}.Append(nil)
	payload, code := root.parsed(root.ask(h, ask))
	created, err := wire.DecodeCreatedToken(payload)
	if code != galgo.CodeOK || err != nil || len(created.Token) != 68 {
		t.Fatalf("%v, %v, token of %d characters", code, err, len(created.Token))
	}
	expires := r.node.time + 3_600_000_000
	// Shown once: the same request again is told that there is one.
	if _, code := root.parsed(root.ask(h, ask)); code != galgo.CodePersonalAccessTokenAlreadyExists {
		t.Errorf("repeated: %v", code)
	}
	if _, code := root.do(wire.OperationCreateToken, ask); code != galgo.CodePersonalAccessTokenAlreadyExists {
		t.Errorf("another of the name: %v", code)
	}
	root.createToken("a", 0)
	if got, want := root.tokens(), fmt.Sprint([]wire.TokenInfo{{Name: "a"}, {Name: "ci", ExpiresAt: expires}}); got != want {
		t.Errorf("tokens %s, want %s", got, want)
	}
	p := r.connect()
	p.loginBy(created.Token)
	if me, err := wire.DecodeClientDetails(p.mustRead(wire.CommandGetMe, nil)); err != nil || me.UserID != 0 {
		t.Errorf("me %+v, %v", me, err)
	}
	r.node.addUser(t, "ann", "secret", true, nil)
	ann := r.connect()
	ann.login("ann", "secret")
	if got := ann.tokens(); got != "[]" {
		t.Errorf("another user sees tokens %s", got)
	}
	if _, code := ann.do(wire.OperationDeleteToken, wire.DeleteTokenRequest{Name: "ci"}.Append(nil)); code != galgo.CodeResourceNotFound {
		t.Errorf("another user deletes: %v", code)
	}
	root.must(wire.OperationDeleteToken, wire.DeleteTokenRequest{Name: "ci"}.Append(nil))
	p.mustRead(wire.CommandGetMe, nil) // a session is not its token
	late := r.connect()
	late.wantEviction(late.ask(registerHeader(late.client), tokenBody(created.Token)), wire.EvictionInvalidToken)
}

func TestTokensThatDoNotHold(t *testing.T) {
	r := newRig(t)
	r.node.addUser(t, "ann", "secret", true, nil)
	ann := r.connect()
	ann.login("ann", "secret")
	token := ann.createToken("ci", 0)
	short := ann.createToken("short", 10_000)
	p := r.connect()
	p.wantEviction(p.ask(registerHeader(p.client), tokenBody(strings.Repeat("A", 68))), wire.EvictionInvalidToken)
	p.wantEviction(p.ask(registerHeader(p.client), tokenBody(token[:67])), wire.EvictionInvalidToken)
	// Nobody has told this node the time since, so the log says it, and from then on the
	// node knows.
	r.node.mu.Lock()
	r.node.time += 1_000_000
	r.node.mu.Unlock()
	for _, want := range []int{1, 0} {
		before := len(r.node.operations())
		p.wantEviction(p.ask(registerHeader(p.client), tokenBody(short)), wire.EvictionInvalidToken)
		if n := len(r.node.operations()) - before; n != want {
			t.Errorf("an expired token cost %d operations, want %d", n, want)
		}
	}
	if !strings.Contains(ann.tokens(), "short") {
		t.Error("an expired token is not listed until it is swept")
	}
	inactive := galgo.UserInactive
	r.node.asRoot(t, wire.OperationUpdateUser, wire.UpdateUserRequest{User: galgo.NamedID("ann"), Status: &inactive})
	p.wantEviction(p.ask(registerHeader(p.client), tokenBody(token)), wire.EvictionUserInactive)
	p.wantEviction(p.ask(registerHeader(p.client), loginBody("ann", "secret")), wire.EvictionInvalidCredentials)
	r.node.asRoot(t, wire.OperationDeleteUser, wire.UserRequest{User: galgo.NamedID("ann")})
	p.wantEviction(p.ask(registerHeader(p.client), tokenBody(token)), wire.EvictionInvalidToken)
}

func TestTokensOfAUserAreBounded(t *testing.T) {
	root := newRig(t).signedIn()
	for n := range metadata.TokensDefault {
		root.createToken(fmt.Sprint(n), 0)
	}
	if _, code := root.do(wire.OperationCreateToken, wire.CreateTokenRequest{Name: "x"}.Append(nil)); code != galgo.CodePersonalAccessTokensLimitReached {
		t.Errorf("one more: %v", code)
	}
}

// addressed is a connection that says where it comes from.
type addressed struct {
	net.Conn
	from string
}

func (a addressed) RemoteAddr() net.Addr { return textAddr(a.from) }

type textAddr string

func (textAddr) Network() string  { return "tcp" }
func (a textAddr) String() string { return string(a) }

// connectFrom opens a connection from an address.
func (r *edgeRig) connectFrom(address string) *peer {
	r.t.Helper()
	server, client := net.Pipe()
	r.listener.conns <- addressed{server, address}
	r.t.Cleanup(func() { client.Close() })
	return r.peerOver(client)
}

// A source whose attempts are refused waits, on all of its connections; others do not.
func TestRefusedSourcesAreSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		try := func(p *peer, password string) time.Duration {
			start := time.Now()
			p.ask(registerHeader(p.client), loginBody("iggy", password))
			return time.Since(start)
		}
		var took []time.Duration
		for n := range 14 {
			p := r.connectFrom(fmt.Sprintf("192.0.2.1:%d", 1000+n))
			took = append(took, try(p, "wrong"))
			p.conn.Close()
		}
		ms := time.Millisecond
		want := []time.Duration{0, 0, 0, 0, 0, 0, 50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 2000 * ms, 2000 * ms}
		if fmt.Sprint(took) != fmt.Sprint(want) {
			t.Errorf("attempts took %v, want %v", took, want)
		}
		// The right password too, or the time would tell; somebody else's at once.
		if took := try(r.connectFrom("192.0.2.1:7"), "iggy"); took != 2000*ms {
			t.Errorf("the right password took %v", took)
		}
		if took := try(r.connectFrom("192.0.2.2:7"), "iggy"); took != 0 {
			t.Errorf("another address took %v", took)
		}
		// A crowd of connections gets no more attempts than one.
		answers := make(chan galgo.Code, 20)
		for n := range 20 {
			p := r.connectFrom(fmt.Sprintf("192.0.2.1:%d", 2000+n))
			go func() {
				f := p.ask(registerHeader(p.client), loginBody("iggy", "wrong"))
				code := galgo.CodeOK
				if wire.FrameCommandOf(f) == wire.FrameReply {
					_, code = p.parsed(f)
				}
				answers <- code
			}()
		}
		refused := 0
		for range 20 {
			if <-answers == galgo.CodeTransientNotAccepted {
				refused++
			}
		}
		if refused != 15 {
			t.Errorf("%d of 20 were asked to come again, want 15: 10 s hold five gaps", refused)
		}
		time.Sleep(3 * time.Minute) // virtual
		if took := try(r.connectFrom("192.0.2.1:8"), "iggy"); took != 0 {
			t.Errorf("after a long quiet time an attempt took %v", took)
		}
	})
}

// Attempts that come all at once are no cheaper than one after another, and those of one
// source leave room for others: few are under way at a time.
func TestCrowdsOfASourceAreFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hasher := &slowHasher{}
		r := newRig(t, func(o *Options) { hasher.Passwords = o.Hasher; o.Hasher = hasher })
		start, took := time.Now(), make(chan time.Duration, 40)
		try := func(address, password string) {
			p := r.connectFrom(address)
			p.ask(registerHeader(p.client), loginBody("iggy", password))
			took <- time.Since(start)
		}
		for n := range 20 {
			go try(fmt.Sprintf("192.0.2.1:%d", 1000+n), "iggy")
		}
		for range 20 { // right passwords wait for nothing but their turn
			if d := <-took; d > 4*time.Second {
				t.Errorf("a login took %v, want four turns of a second at most", d)
			}
		}
		if hasher.most.Load() != throttleFree {
			t.Errorf("%d of one source at a time, want %d", hasher.most.Load(), throttleFree)
		}
		start = time.Now()
		for n := range 40 {
			go try(fmt.Sprintf("192.0.2.1:%d", 2000+n), "wrong")
		}
		hashed := hasher.verified.Load()
		for range 40 {
			<-took
		}
		// Five at once, five more after the first were refused, then one for each gap.
		if n := hasher.verified.Load() - hashed; n > 20 {
			t.Errorf("%d of 40 wrong passwords were tried at once", n)
		}
	})
}

func TestSourcesAreNotSlowed(t *testing.T) {
	th := newThrottle(true)
	for range 3 * throttleRefusals {
		leave, ok := th.enter(t.Context(), sourceOf("192.0.2.1:1"))
		if !ok {
			t.Fatal("waits, although it is switched off")
		}
		leave(true)
	}
	if len(th.sources) != 0 {
		t.Error("remembers what it does not need")
	}
}

// Tokens cannot be guessed and cost no hash: who signs in by one does not wait for those
// behind the same address whose passwords are refused.
func TestTokensAreNotSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		root := r.signedIn()
		token := root.createToken("ci", 0)
		for n := range throttleRefusals {
			p := r.connectFrom(fmt.Sprintf("192.0.2.1:%d", 1000+n))
			p.ask(registerHeader(p.client), loginBody("iggy", "wrong"))
		}
		start := time.Now()
		r.connectFrom("192.0.2.1:1").loginBy(token)
		if d := time.Since(start); d != 0 {
			t.Errorf("a login by token took %v", d)
		}
	})
}

// A password is guessed by changing it as well as by signing in: both are slowed, and
// count.
func TestRefusedChangesOfAPasswordAreSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.connectFrom("192.0.2.1:1")
		p.login("iggy", "iggy")
		change := func(current string) time.Duration {
			start := time.Now()
			p.do(wire.OperationChangePassword, changePassword(galgo.NumericID(0), current, "iggy"))
			return time.Since(start)
		}
		for range throttleFree {
			if d := change("wrong"); d != 0 {
				t.Errorf("one of the first took %v", d)
			}
		}
		change("wrong")
		if d := change("iggy"); d != throttleGapMin {
			t.Errorf("a change behind %d refusals took %v, want %v", throttleFree, d, throttleGapMin)
		}
		start := time.Now()
		other := r.connectFrom("192.0.2.1:2")
		other.login("iggy", "iggy")
		if time.Since(start) == 0 {
			t.Error("a login of the source did not wait")
		}
	})
}

// slowHasher takes a second for each password, and notes how many there were at a time.
type slowHasher struct {
	Passwords
	now, most, verified atomic.Int64
}

func (h *slowHasher) Verify(ctx context.Context, hash string, password []byte) (bool, error) {
	h.verified.Add(1)
	h.most.Store(max(h.most.Load(), h.now.Add(1)))
	time.Sleep(time.Second)
	h.now.Add(-1)
	return h.Passwords.Verify(ctx, hash, password)
}

// Who repeats a change of a password because the answer was lost gets that answer: by now
// the password is another, but that is no guess.
func TestRepeatedChangeOfAPassword(t *testing.T) {
	hasher := &countingHasher{}
	r := newRig(t, func(o *Options) { hasher.Passwords = o.Hasher; o.Hasher = hasher })
	root := r.signedIn()
	h, body := root.header(wire.OperationChangePassword), changePassword(galgo.NumericID(0), "iggy", "better")
	first := root.ask(h, body)
	before := hasher.hashed + hasher.verified
	if again := root.ask(h, body); !bytes.Equal(first, again) {
		t.Errorf("answered\n%x, and first\n%x", again, first)
	}
	root.must(wire.OperationCreateUser, createUser("ann", "secret", nil))
	h.Operation, h.Request = wire.OperationCreateUser, root.number-1
	hashed := hasher.hashed
	root.parsed(root.ask(h, createUser("ann", "secret", nil)))
	if hasher.hashed != hashed || hasher.verified+hasher.hashed != before+1 {
		t.Error("a repetition costs hashes")
	}
}

// The answer to another request that had the number is given as it was: no token was made.
func TestNoTokenForTheAnswerToAnotherRequest(t *testing.T) {
	r := newRig(t)
	root := r.signedIn()
	root.must(wire.OperationCreateStream, createStream("x"))
	h := root.header(wire.OperationDeleteStream)
	payload, code := root.parsed(root.ask(h, wire.StreamRequest{Stream: galgo.NamedID("x")}.Append(nil)))
	if code != galgo.CodeOK {
		t.Fatal(code)
	}
	h.Operation = wire.OperationCreateToken
	if got, code := root.parsed(root.ask(h, wire.CreateTokenRequest{Name: "ci"}.Append(nil))); code != galgo.CodeOK || !bytes.Equal(got, payload) {
		t.Errorf("answered %v, %x", code, got)
	}
}

// Permissions of who may not change them go no further than the edge, nor do those that
// are too long.
func TestRefusedPermissionsStayAtTheEdge(t *testing.T) {
	r := newRig(t)
	r.node.addUser(t, "ann", "secret", true, nil)
	ann, root := r.connect(), r.signedIn()
	ann.login("ann", "secret")
	p := &galgo.Permissions{Streams: make([]galgo.StreamPermissions, 1000)}
	for n := range p.Streams {
		p.Streams[n].StreamID = uint32(n)
	}
	own := wire.UpdatePermissionsRequest{User: galgo.NumericID(1), Permissions: p}.Append(nil)
	if _, code := ann.do(wire.OperationUpdatePermissions, own); code != galgo.CodeUnauthorized {
		t.Errorf("permissions are answered %v", code)
	}
	if _, code := ann.do(wire.OperationCreateUser, createUser("eve", "secret", p)); code != galgo.CodeUnauthorized {
		t.Errorf("a user is answered %v", code)
	}
	none := wire.UpdatePermissionsRequest{User: galgo.NumericID(9), Permissions: p}.Append(nil)
	if _, code := ann.do(wire.OperationUpdatePermissions, none); code != galgo.CodeResourceNotFound {
		t.Errorf("permissions of nobody are answered %v", code)
	}
	for _, req := range r.node.proposed {
		if len(req.Body) > 100 {
			t.Errorf("%v of %d bytes goes on to the node", req.Operation, len(req.Body))
		}
	}
	root.must(wire.OperationUpdatePermissions, own)
	if u, _ := r.node.View().User(galgo.NumericID(1)); len(u.Permissions.Streams) != 1000 {
		t.Errorf("permissions for %d streams", len(u.Permissions.Streams))
	}
	long := &galgo.Permissions{Streams: make([]galgo.StreamPermissions, wire.PermissionsMax/12+1)}
	for n := range long.Streams {
		long.Streams[n].StreamID = uint32(n)
	}
	h := root.header(wire.OperationUpdatePermissions)
	root.wantStatus(root.ask(h, wire.UpdatePermissionsRequest{User: galgo.NumericID(1), Permissions: long}.Append(nil)), galgo.CodeInvalidCommand)
	h = root.header(wire.OperationCreateUser)
	root.wantStatus(root.ask(h, createUser("eve", "secret", long)), galgo.CodeInvalidCommand)
}

// Whatever is longer than a request of its kind can be is read and thrown away.
func TestFramesThatAreTooLongForTheirKind(t *testing.T) {
	r := newRig(t)
	root := r.signedIn()
	before := len(r.node.proposed)
	for _, op := range []wire.Operation{
		wire.OperationCreateUser, wire.OperationUpdatePermissions, wire.OperationCreateStream, wire.OperationCreateToken, wire.OperationDeleteUser,
	} {
		root.wantStatus(root.ask(root.header(op), make([]byte, metadataBodyMax+1)), galgo.CodeInvalidCommand)
	}
	root.wantStatus(root.ask(root.header(wire.OperationLogout), make([]byte, unboundFrameMax+1)), galgo.CodeInvalidCommand)
	if n := len(r.node.proposed) - before; n != 0 {
		t.Errorf("%d of them went on to the node", n)
	}
	root.mustRead(wire.CommandGetStreams, nil)
	root.wantEviction(root.ask(registerHeader(root.client), make([]byte, unboundFrameMax+1)), wire.EvictionMalformedLogin)
}

// A view in which the id is another's gives that one's rights to nobody.
func TestViewWithAnotherUserOfTheID(t *testing.T) {
	r := newRig(t)
	r.node.addUser(t, "ann", "secret", true, nil)
	view := r.node.View()
	now, _ := view.User(galgo.NumericID(1))
	a := reader{request: &request{session: &binding{actor: metadata.Actor{User: 1, Born: now.Born - 1}}}, view: view}
	if code := a.user(wire.UserRequest{User: galgo.NumericID(1)}.Append(nil)); code != galgo.CodeUnauthorized || a.body != nil {
		t.Errorf("the user is shown: %v", code)
	}
	if code := a.tokens(nil); code != galgo.CodeUnauthorized {
		t.Errorf("its tokens are shown: %v", code)
	}
}

func TestSourceOf(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:80":                      "192.0.2.1",
		"[::ffff:192.0.2.1]:80":             "192.0.2.1",
		"[2001:db8:1:2:3:4:5:6]:80":         "2001:db8:1:2::",
		"[2001:db8:1:2:ffff:4:5:6%eth0]:80": "2001:db8:1:2::",
		"pipe":                              "invalid IP",
		"":                                  "invalid IP",
	} {
		if got := sourceOf(address).String(); got != want {
			t.Errorf("%q comes from %s, want %s", address, got, want)
		}
	}
}

// Many sources take bounded memory, and one that goes on is not forgotten for others.
func TestThrottleIsBounded(t *testing.T) {
	th, now := newThrottle(false), time.Unix(1_000_000, 0)
	worst := sourceOf("192.0.2.1:1")
	refuse := func(s source) {
		a := th.arrive(s, now)
		th.refuse(a, now)
		th.depart(s, a)
	}
	busy := sourceOf("192.0.2.2:1")
	th.arrive(busy, now)
	for n := range 3 * throttleSources {
		now = now.Add(time.Millisecond)
		refuse(sourceOf(fmt.Sprintf("10.%d.%d.%d:1", n>>16&255, n>>8&255, n&255)))
		if n%100 == 0 {
			for range throttleRefusals {
				refuse(worst)
			}
		}
		if len(th.sources) > throttleSources {
			t.Fatalf("%d sources", len(th.sources))
		}
	}
	if a := th.sources[worst]; a.gap() == 0 {
		t.Error("the source that goes on is forgotten")
	}
	if th.sources[busy] == nil {
		t.Error("a source with an attempt under way is forgotten")
	}
	hence := now.Add(time.Hour)
	if _, ok := th.reserve(th.sources[worst], hence, hence); !ok || th.sources[worst].refused != 0 {
		t.Error("an hour does not forgive")
	}
}
