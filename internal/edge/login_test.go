package edge

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"galgo"
	"galgo/internal/auth"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// operations lists what the node was asked for.
func (n *fakeNode) operations() []wire.Operation {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []wire.Operation
	for _, r := range n.proposed {
		all = append(all, r.Operation)
	}
	return all
}

func (n *fakeNode) lastProposed() MetadataRequest {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.proposed[len(n.proposed)-1]
}

func TestRegisterReply(t *testing.T) {
	p := newRig(t).connect()
	h := registerHeader(p.client)
	h.Timestamp = 99
	f := p.ask(h, loginBody("iggy", "iggy"))
	reply, payload, err := wire.ParseReply(f)
	if err != nil {
		t.Fatal(err)
	}
	got, err := wire.DecodeRegisterReply(payload)
	want := wire.RegisterReply{UserID: 0, Session: got.Session, Protocol: wire.VersionCurrent, ServerVersion: "1.2.3"}
	if err != nil || got != want || got.Session == 0 {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if reply.Request != 0 || reply.Operation != wire.OperationRegister || reply.Client != p.client ||
		reply.Op != got.Session || reply.Timestamp != 99 || reply.Commit < got.Session {
		t.Errorf("header %+v", reply)
	}
}

// A client of another protocol may stamp its sign-in in its own way. It has to hear
// which versions are taken, not that its frame is damaged.
func TestVersionIsJudgedBeforeTheChecksum(t *testing.T) {
	for name, tc := range map[string]struct {
		version wire.Version
		want    wire.EvictionReason // 0: status 4
	}{
		"newer":               {wire.PackVersion(0, 12, 0), wire.EvictionIncompatibleProtocol},
		"older":               {wire.PackVersion(0, 10, 0), wire.EvictionIncompatibleProtocol},
		"current":             {wire.VersionCurrent, 0},
		"patch of this minor": {wire.PackVersion(0, 11, 9), 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := newRig(t).connect()
			h := registerHeader(p.client)
			h.RequestChecksum = [16]byte{1}
			body := append(le.AppendUint32(nil, uint32(tc.version)), loginBody("iggy", "iggy")[4:]...)
			answer := p.ask(h, body)
			if tc.want == 0 {
				p.wantStatus(answer, galgo.CodeInvalidFormat)
				return
			}
			if e := p.wantEviction(answer, tc.want); e.VersionMax != wire.VersionCurrent || e.VersionMin != wire.VersionMin {
				t.Errorf("window %v to %v, want %v to %v", e.VersionMin, e.VersionMax, wire.VersionMin, wire.VersionCurrent)
			}
		})
	}
}

// Rows of wire.md §3.4 and §3.5 that refuse.
func TestRefusedLogins(t *testing.T) {
	versioned := func(v wire.Version, rest ...byte) []byte {
		b := le.AppendUint32(nil, uint32(v))
		return append(append(b, "\x03sdk\x011"...), rest...)
	}
	password := func(user, password string) []byte { return loginBody(user, password) }
	tooLong := strings.Repeat("u", 51)
	for name, tc := range map[string]struct {
		body []byte
		want wire.EvictionReason
	}{
		"wrong password":                         {password("iggy", "iggx"), wire.EvictionInvalidCredentials},
		"unknown user":                           {password("nobody", "iggy"), wire.EvictionInvalidCredentials},
		"inactive user":                          {password("sleeper", "secret"), wire.EvictionInvalidCredentials},
		"name in other case":                     {password("Iggy", "iggy"), wire.EvictionInvalidCredentials},
		"username of 2 bytes":                    {password("ig", "iggy"), wire.EvictionInvalidCredentials},
		"username of 51 bytes":                   {password(tooLong, "iggy"), wire.EvictionInvalidCredentials},
		"password of 2 bytes":                    {password("iggy", "ig"), wire.EvictionInvalidCredentials},
		"password of 101 bytes":                  {password("iggy", strings.Repeat("p", 101)), wire.EvictionInvalidCredentials},
		"empty password, which reads as a token": {password("iggy", ""), wire.EvictionInvalidToken},
		"token": {wire.RegisterRequest{
			Client: wire.ClientVersion{Protocol: wire.VersionCurrent, SDKName: "sdk", SDKVersion: "1"},
			Token:  &wire.TokenLogin{Token: strings.Repeat("A", 68)},
		}.Append(nil), wire.EvictionInvalidToken},
		"empty body":                    {nil, wire.EvictionMalformedLogin},
		"version only":                  {le.AppendUint32(nil, uint32(wire.VersionCurrent)), wire.EvictionMalformedLogin},
		"empty sdk name":                {append(le.AppendUint32(nil, uint32(wire.VersionCurrent)), 0, 1, '1'), wire.EvictionMalformedLogin},
		"neither form":                  {versioned(wire.VersionCurrent, 200, 1), wire.EvictionMalformedLogin},
		"nothing behind the version":    {versioned(wire.VersionCurrent), wire.EvictionMalformedLogin},
		"version 0.10.1023":             {versioned(wire.PackVersion(0, 10, 1023), 1), wire.EvictionIncompatibleProtocol},
		"version 0.12.0":                {versioned(wire.PackVersion(0, 12, 0)), wire.EvictionIncompatibleProtocol},
		"version 1.0.0":                 {versioned(wire.PackVersion(1, 0, 0)), wire.EvictionIncompatibleProtocol},
		"more than any sign-in needs":   {append(loginBody("iggy", "iggy"), make([]byte, 1<<20)...), wire.EvictionMalformedLogin},
		"context longer than the frame": {append(loginBody("iggy", "iggy")[:len(loginBody("iggy", "iggy"))-4], 0xFF, 0xFF, 0xFF, 0xFF), wire.EvictionMalformedLogin},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.node.addUser(t, "sleeper", "secret", false, nil)
			p := r.connect()
			e := p.wantEviction(p.ask(registerHeader(p.client), tc.body), tc.want)
			if e.Client != p.client {
				t.Errorf("eviction names client %v, want %v", e.Client, p.client)
			}
			if tc.want == wire.EvictionIncompatibleProtocol && (e.VersionMax != wire.VersionCurrent || e.VersionMin != wire.VersionMin) {
				t.Errorf("window %v to %v", e.VersionMin, e.VersionMax)
			}
			if ops := r.node.operations(); len(ops) != 0 {
				t.Errorf("the node was asked for %v", ops)
			}
			p.login("iggy", "iggy") // the connection stays
		})
	}
}

func TestLoginWithNewerPatchAndContext(t *testing.T) {
	p := newRig(t).connect()
	body := wire.RegisterRequest{
		Client:   wire.ClientVersion{Protocol: wire.PackVersion(0, 11, 7), SDKName: "csharp-sdk", SDKVersion: "x"},
		Password: &wire.PasswordLogin{Username: "iggy", Password: "iggy", Context: "free text"},
	}.Append(nil)
	if _, code := p.parsed(p.ask(registerHeader(p.client), append(body, 1, 2, 3))); code != galgo.CodeOK {
		t.Fatalf("login with patch 7, a context and trailing bytes: %v", code)
	}
}

// Rows of wire.md §3.11.
func TestBeforeLogin(t *testing.T) {
	p := newRig(t).connect()
	p.alive()
	for _, c := range []wire.Command{wire.CommandLegacyLogin, wire.CommandLegacyTokenLogin} {
		if e := p.wantEviction(p.ask(p.commandHeader(c), []byte("body")), wire.EvictionMalformedLogin); e.Client != p.client {
			t.Errorf("%v: eviction names client %v", c, e.Client)
		}
	}
	for _, c := range []wire.Command{
		wire.CommandGetClusterMetadata, wire.CommandGetStats, wire.CommandGetMe, wire.CommandPollMessages,
		wire.CommandLogout, wire.CommandLoginRegister, wire.CommandCreateStream, wire.CommandFlushUnsavedBuffer, 60000, 0,
	} {
		h := p.wantStatus(p.ask(p.commandHeader(c), make([]byte, 3000)), galgo.CodeUnauthenticated)
		if h.Commit != 0 || h.Op != 0 || h.Request != 1 {
			t.Errorf("%v: header %+v discloses the log or does not echo", c, h)
		}
	}
	p.session = 7
	for _, o := range []wire.Operation{128, 137, 138, 149, 160, 161, 162, 64, 68} {
		if e := p.wantEviction(p.ask(p.header(o), make([]byte, 70_000)), wire.EvictionNoSession); e.Client != p.rig.transportID(1) {
			t.Errorf("operation %d: eviction names client %v, want the transport id", o, e.Client)
		}
	}
	if f := p.ask(p.header(wire.OperationLogout), nil); len(f) != wire.HeaderSize || le.Uint32(f[216:]) != 0 {
		t.Error("logout without a session is not an empty success")
	}
	p.login("iggy", "iggy")
}

func (r *edgeRig) transportID(n uint32) (id galgo.ClientID) {
	le.PutUint32(id[:], n)
	return id
}

func TestPingWithoutNumber(t *testing.T) {
	p := newRig(t).connect()
	h := wire.RequestHeader{Client: p.client, Operation: wire.OperationNonReplicated, Command: wire.CommandPing}
	p.wantStatus(p.ask(h, nil), galgo.CodeOK)
}

func TestLogout(t *testing.T) {
	r := newRig(t)
	p := r.signedIn()
	session := p.session
	f := p.ask(p.header(wire.OperationLogout), nil)
	h := p.wantStatus(f, galgo.CodeOK)
	if h.Operation != wire.OperationLogout || h.Op != session || h.Client != p.client || h.Request != 1 {
		t.Errorf("logout answered by %+v", h)
	}
	if _, ok := r.node.View().Client(p.client); ok {
		t.Error("the session is still in the client table")
	}
	p.wantStatus(p.ask(p.commandHeader(wire.CommandGetMe), nil), galgo.CodeUnauthenticated)
	p.wantEviction(p.ask(p.header(wire.OperationDeleteStream), nil), wire.EvictionNoSession)
	p.client[0] ^= 0xFF // SDKs take a new id
	p.login("iggy", "iggy")
	p.alive()
}

func TestLogoutThatCannotBeReplicated(t *testing.T) {
	for _, code := range []galgo.Code{galgo.CodeTransientNotAccepted, galgo.CodeTransientNotCommitted} {
		r := newRig(t)
		p := r.signedIn()
		r.node.onMetadata = func(req MetadataRequest, done func(MetadataReply)) bool {
			if req.Operation == wire.OperationLogout {
				done(MetadataReply{Outcome: OutcomeResult, Code: code})
				return true
			}
			return false
		}
		p.wantStatus(p.ask(p.header(wire.OperationLogout), nil), code)
		p.mustRead(wire.CommandGetMe, nil) // still signed in
	}
}

// Rows of wire.md §3.6.
func TestSessionBelongsToItsConnection(t *testing.T) {
	r := newRig(t)
	a, b := r.signedIn(), r.signedIn()
	stolen := r.connect()
	stolen.client, stolen.session = a.client, a.session
	stolen.wantEviction(stolen.ask(stolen.header(wire.OperationCreateStream), nil), wire.EvictionNoSession)
	stolen.wantStatus(stolen.ask(stolen.commandHeader(wire.CommandGetMe), nil), galgo.CodeUnauthenticated)
	a.alive()
	b.alive()
}

func TestClientIDMovesToItsNewestConnection(t *testing.T) {
	r := newRig(t)
	a := r.signedIn()
	a.must(wire.OperationCreateStream, wire.CreateStreamRequest{Name: "one"}.Append(nil))
	b := r.connect()
	b.client = a.client
	b.login("iggy", "iggy")
	if b.session <= a.session {
		t.Fatalf("session %d follows %d", b.session, a.session)
	}
	a.wantStatus(a.ask(a.commandHeader(wire.CommandGetMe), nil), galgo.CodeUnauthenticated)
	a.wantEviction(a.ask(a.header(wire.OperationCreateStream), nil), wire.EvictionNoSession)
	// The watermark came along: number 1 is answered from the table.
	if _, code := b.do(wire.OperationCreateStream, wire.CreateStreamRequest{Name: "two"}.Append(nil)); code != galgo.CodeOK {
		t.Fatalf("repeated number: %v", code)
	}
	if n := r.node.View().Counts().Streams; n != 1 {
		t.Fatalf("%d streams, want 1: number 1 ran again", n)
	}
	a.conn.Close() // takes nothing from b
	b.alive()
	b.mustRead(wire.CommandGetMe, nil)
}

func TestClientIDOfAnotherUser(t *testing.T) {
	r := newRig(t)
	r.node.addUser(t, "other", "secret", true, nil)
	a := r.signedIn()
	b := r.connect()
	b.client = a.client
	b.wantEviction(b.ask(registerHeader(b.client), loginBody("other", "secret")), wire.EvictionSessionError)
	a.mustRead(wire.CommandGetMe, nil)
	b.client[0] ^= 0xFF
	b.login("other", "secret")
}

// wire.md §12 row 12: a sign-in on a connection that has a session ends that one.
func TestSecondLoginOnConnection(t *testing.T) {
	r := newRig(t)
	r.node.addUser(t, "other", "secret", true, nil)
	p := r.signedIn()
	former := p.client
	p.client[0] ^= 0xFF
	p.login("other", "secret")
	if _, ok := r.node.View().Client(former); ok {
		t.Error("the former session is still in the client table")
	}
	c, err := wire.DecodeClientDetails(p.mustRead(wire.CommandGetMe, nil))
	if err != nil || c.UserID != 1 {
		t.Errorf("me is user %d, %v, want 1", c.UserID, err)
	}
	if got := r.node.operations(); !slices.Equal(got, []wire.Operation{wire.OperationRegister, wire.OperationLogout, wire.OperationRegister}) {
		t.Errorf("node was asked for %v", got)
	}
	// The same client and user again: the session is renewed, not ended.
	before := p.session
	p.login("other", "secret")
	if p.session <= before || r.node.lastProposed().Operation != wire.OperationRegister {
		t.Errorf("renewed session %d after %d", p.session, before)
	}
	p.mustRead(wire.CommandGetMe, nil)
	// Another user under the same client id: the session it has is its own to end.
	p.login("iggy", "iggy")
	p.mustRead(wire.CommandGetStats, nil)
}

func TestRefusedLoginEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.signedIn()
		p.wantEviction(p.ask(registerHeader(p.client), loginBody("iggy", "wrong")), wire.EvictionInvalidCredentials)
		p.wantStatus(p.ask(p.commandHeader(wire.CommandGetMe), nil), galgo.CodeUnauthenticated)
		synctest.Wait()
		if got := r.node.lastProposed().Operation; got != metadata.OperationDetach {
			t.Errorf("last proposed %v, want detach", got)
		}
	})
}

func TestTransientLogins(t *testing.T) {
	for _, code := range []galgo.Code{galgo.CodeTransientNotAccepted, galgo.CodeTransientNotCommitted} {
		r := newRig(t)
		refuse := true
		r.node.onMetadata = func(req MetadataRequest, done func(MetadataReply)) bool {
			if refuse {
				refuse = false
				done(MetadataReply{Outcome: OutcomeResult, Code: code})
				return true
			}
			return false
		}
		p := r.connect()
		h := p.wantResult(p.ask(registerHeader(p.client), loginBody("iggy", "iggy")), code)
		if h.Operation != wire.OperationRegister {
			t.Errorf("operation %v", h.Operation)
		}
		p.login("iggy", "iggy") // the same bytes again
	}
}

func TestDisconnectDetaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.StopGrace = time.Second })
		refusals := 3
		r.node.onMetadata = func(req MetadataRequest, done func(MetadataReply)) bool {
			if req.Operation == metadata.OperationDetach && refusals > 0 {
				refusals--
				done(MetadataReply{Outcome: OutcomeResult, Code: galgo.CodeTransientNotAccepted})
				return true
			}
			return false
		}
		p := r.signedIn()
		p.conn.Close()
		synctest.Wait()
		r.stop() // waits until the node has taken note
		c, ok := r.node.View().Client(p.client)
		if !ok || !c.Detached || c.Epoch != p.session {
			t.Fatalf("entry %+v, %v, want a detached one of session %d", c, ok, p.session)
		}
	})
}

func TestStopDetachesAndGivesUpInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.node.onMetadata = func(req MetadataRequest, done func(MetadataReply)) bool {
			return req.Operation == metadata.OperationDetach // no answer at all
		}
		for range 20 {
			r.signedIn()
		}
		r.stop() // would hang, and the bubble say so
	})
}

// A Register that commits after its client was told that the outcome is open, or
// after its connection has gone, leaves no session that counts as in use.
func TestLateRegisterIsDetached(t *testing.T) {
	for name, leave := range map[string]func(*peer){
		"timeout":    func(p *peer) { p.wantResult(p.receive(), galgo.CodeTransientNotCommitted) },
		"disconnect": func(p *peer) { p.conn.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				var late func()
				r.node.onMetadata = func(req MetadataRequest, done func(MetadataReply)) bool {
					if req.Operation != wire.OperationRegister || late != nil {
						return false
					}
					late = func() { done(r.node.metadata(req)) }
					return true
				}
				p := r.connect()
				p.send(registerHeader(p.client), loginBody("iggy", "iggy"))
				synctest.Wait()
				leave(p)
				if name == "disconnect" {
					r.stop()
				}
				r.node.post(late)
				synctest.Wait()
				c, ok := r.node.View().Client(p.client)
				if name == "timeout" && (!ok || !c.Detached) {
					t.Errorf("entry %+v, %v, want a detached one", c, ok)
				}
			})
		})
	}
}

// countingHasher counts what it is asked, and refuses when it is told to.
type countingHasher struct {
	Passwords
	hashed, verified, nothing int
	err                       error
}

func (h *countingHasher) Hash(ctx context.Context, password []byte) (string, error) {
	if h.hashed++; h.err != nil {
		return "", h.err
	}
	return h.Passwords.Hash(ctx, password)
}

func (h *countingHasher) Verify(ctx context.Context, hash string, password []byte) (bool, error) {
	if h.verified++; h.err != nil {
		return false, h.err
	}
	return h.Passwords.Verify(ctx, hash, password)
}

func (h *countingHasher) VerifyNothing(ctx context.Context, password []byte) error {
	if h.nothing++; h.err != nil {
		return h.err
	}
	return h.Passwords.VerifyNothing(ctx, password)
}

// An account, a password and a token that another node has acknowledged hold here too,
// although they show here only while the client signs in.
func TestLoginKnowsWhatOtherNodesAcknowledged(t *testing.T) {
	r := newRig(t)
	p := r.connect()
	arrives := func(change func()) { r.node.onFresh = sync.OnceFunc(change) }
	arrives(func() { r.node.addUser(t, "newcomer", "secret", true, nil) })
	p.login("newcomer", "secret")
	arrives(func() {
		u, _ := r.node.View().User(galgo.NamedID("newcomer"))
		r.node.asRoot(t, wire.OperationChangePassword, metadata.NewPassword{
			User: galgo.NamedID("newcomer"), PasswordHash: auth.Hash([]byte("another"), [auth.SaltLen]byte{3}, cheapParams), Verified: u.PasswordOp,
		})
	})
	p.wantEviction(r.connect().ask(registerHeader(p.client), loginBody("newcomer", "secret")), wire.EvictionInvalidCredentials)
	r.connect().login("newcomer", "another")
}

// What a node cannot find out it does not refuse for good.
func TestLoginOfANodeThatCannotFindOut(t *testing.T) {
	r := newRig(t)
	r.node.stale.Store(true)
	p := r.connect()
	for _, password := range []string{"iggy", "wrong"} {
		p.wantResult(p.ask(registerHeader(p.client), loginBody("iggy", password)), galgo.CodeTransientNotAccepted)
	}
	r.node.stale.Store(false)
	p.login("iggy", "iggy")
}

// Whatever is wrong with a login, it costs one hash: the time does not tell. What no
// account can be called costs none, whoever asks.
func TestEveryLoginCostsOneHash(t *testing.T) {
	hasher := &countingHasher{}
	r := newRig(t, func(o *Options) { hasher.Passwords = o.Hasher; o.Hasher = hasher })
	r.node.addUser(t, "sleeper", "secret", false, nil)
	p := r.connect()
	for _, login := range []struct {
		user, password string
		want           int
	}{
		{"iggy", "wrong", 1}, {"nobody", "iggy", 1}, {"sleeper", "secret", 1},
		{"ig", "iggy", 0}, {"iggy", "x", 0}, {strings.Repeat("n", 51), "iggy", 0}, {"iggy", strings.Repeat("p", 101), 0},
	} {
		before := hasher.verified + hasher.nothing
		p.ask(registerHeader(p.client), loginBody(login.user, login.password))
		if n := hasher.verified + hasher.nothing - before; n != login.want {
			t.Errorf("login %q cost %d hashes, want %d", login.user, n, login.want)
		}
	}
}

func TestLoginWithoutRoomIsRetriable(t *testing.T) {
	hasher := &countingHasher{err: auth.ErrBusy}
	r := newRig(t, func(o *Options) { hasher.Passwords = o.Hasher; o.Hasher = hasher })
	p := r.connect()
	for _, user := range []string{"iggy", "nobody"} {
		p.wantResult(p.ask(registerHeader(p.client), loginBody(user, "iggy")), galgo.CodeTransientNotAccepted)
	}
	hasher.err = auth.ErrFormat // the stored hash is damaged: no retry helps
	p.wantEviction(p.ask(registerHeader(p.client), loginBody("iggy", "iggy")), wire.EvictionInvalidCredentials)
	hasher.err = nil
	p.login("iggy", "iggy")
}

// A second sign-in that goes wrong half way: the former session is kept exactly as
// long as the node has not ended it.
func TestSecondLoginThatFails(t *testing.T) {
	for name, tc := range map[string]struct {
		refused wire.Operation
		kept    bool
	}{
		"logout refused":   {wire.OperationLogout, true},
		"register refused": {wire.OperationRegister, false},
	} {
		for _, outcome := range []MetadataOutcome{OutcomeResult, OutcomeStatus} {
			r := newRig(t)
			p := r.signedIn()
			r.node.onMetadata = func(req MetadataRequest, done func(MetadataReply)) bool {
				if req.Operation != tc.refused {
					return false
				}
				done(MetadataReply{Outcome: outcome, Code: galgo.CodeTransientNotAccepted})
				return true
			}
			h := registerHeader(clientID(999))
			p.wantResult(p.ask(h, loginBody("iggy", "iggy")), galgo.CodeTransientNotAccepted)
			_, code := p.read(wire.CommandGetMe, nil)
			if kept := code == galgo.CodeOK; kept != tc.kept {
				t.Errorf("%s: me answers %v, want the former session kept: %v", name, code, tc.kept)
			}
		}
	}
}

func TestSecondLoginTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.signedIn()
		r.node.onMetadata = func(req MetadataRequest, _ func(MetadataReply)) bool {
			return req.Operation == wire.OperationLogout
		}
		p.wantResult(p.ask(registerHeader(clientID(999)), loginBody("iggy", "iggy")), galgo.CodeTransientNotCommitted)
		p.wantStatus(p.ask(p.header(wire.OperationLogout), nil), galgo.CodeTransientNotCommitted)
		p.mustRead(wire.CommandGetMe, nil)
	})
}
