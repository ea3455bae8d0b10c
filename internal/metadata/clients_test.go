package metadata

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"galgo"
	"galgo/internal/wire"
)

// The tests of the client table carry the numbers of consensus.md §9.4.9.

func sum(n byte) [16]byte { return [16]byte{n} }

// request applies a numbered create of a stream, around Admit, so that a test may
// give any session, number and checksum.
func (r *rig) request(id galgo.ClientID, session, request uint64, sum [16]byte) Output {
	r.t.Helper()
	body := createStreamBody("s" + id.String()[:8] + string(rune('a'+request)))
	return r.apply(Input{
		Operation: wire.OperationCreateStream, Client: id,
		Session: session, Request: request, RequestSum: sum, Body: body,
	})
}

func wantVerdict(t *testing.T, got Verdict, want VerdictKind) {
	t.Helper()
	if got.Kind != want {
		t.Errorf("verdict %v, want %v", got.Kind, want)
	}
}

func TestRegisterGivesItsOpAsEpoch(t *testing.T) { // T-08, T-23
	r := newRig(t)
	a := r.login(clientID(7), RootUser)
	b := r.login(clientID(8), RootUser)
	if a.Session != r.op-1 || b.Session != r.op {
		t.Errorf("sessions %d and %d, want the ops %d and %d", a.Session, b.Session, r.op-1, r.op)
	}
	if a.User != RootUser || a.Login != LoginAccepted {
		t.Errorf("login ends as %v for user %d", a.Login, a.User)
	}
	c, _ := r.m.View().Client(clientID(7))
	if c.Epoch != a.Session || c.Watermark != 0 || c.LatestCommit != a.Session || c.Detached {
		t.Errorf("entry is %+v", *c)
	}
}

func TestReRegisterKeepsWhatWasRun(t *testing.T) { // T-09, N-01
	r := newRig(t)
	id := clientID(7)
	first := r.login(id, RootUser)
	done := r.request(id, first.Session, 5, sum(5))
	second := r.login(id, RootUser)
	v := r.m.View()
	wantVerdict(t, v.CheckRequest(id, first.Session, 6, sum(6)), VerdictFenced)
	again := v.CheckRequest(id, second.Session, 5, sum(5))
	wantVerdict(t, again, VerdictDuplicate)
	if !bytes.Equal(again.Reply.Body(), done.Body) {
		t.Errorf("the retry is answered %x, first %x", again.Reply.Body(), done.Body)
	}
	c, _ := v.Client(id)
	if c.Watermark != 5 || len(c.Replies) != 2 {
		t.Errorf("watermark %d and %d replies, want 5 and 2: one register, one request", c.Watermark, len(c.Replies))
	}
}

func TestRegisterOfAnotherUser(t *testing.T) { // N-07
	r := newRig(t)
	r.addUser(3, nil)
	if got := r.login(clientID(1), 3); got.Login != LoginOtherUser || got.Session != 0 {
		t.Errorf("login ends as %v with session %d, want %v", got.Login, got.Session, LoginOtherUser)
	}
	if got := r.m.View().CheckRegister(clientID(1), 3, r.password(3)); got != LoginOtherUser {
		t.Errorf("CheckRegister says %v, want %v", got, LoginOtherUser)
	}
	if got := r.login(clientID(9), 4).Login; got != LoginNoUser {
		t.Errorf("login of a user that is not there ends as %v, want %v", got, LoginNoUser)
	}
	r.change(func(s *state) {
		u, _ := s.users.get(3)
		u.Active = false
	})
	if got := r.login(clientID(9), 3).Login; got != LoginNoUser {
		t.Errorf("login of an inactive user ends as %v, want %v", got, LoginNoUser)
	}
	c, _ := r.m.View().Client(clientID(1))
	if c.User != RootUser || c.Epoch != r.sessions[clientID(1)].epoch {
		t.Errorf("the refused login changed the entry to %+v", *c)
	}
}

func TestCheckRequest(t *testing.T) { // T-10 .. T-16
	r := newRig(t)
	id := clientID(7)
	epoch := r.login(id, RootUser).Session
	for request := uint64(1); request <= 6; request++ {
		r.request(id, epoch, request*10, sum(byte(request)))
	}
	tests := []struct {
		name             string
		client           galgo.ClientID
		session, request uint64
		sum              [16]byte
		want             VerdictKind
	}{
		{"no entry", clientID(99), epoch, 1, sum(1), VerdictNoSession},
		{"stale epoch", id, epoch - 1, 61, sum(1), VerdictFenced},
		{"stale epoch of a request that was run", id, epoch - 1, 60, sum(6), VerdictFenced},
		{"future epoch", id, epoch + 1, 61, sum(1), VerdictEpochAhead},
		{"next", id, epoch, 61, sum(1), VerdictNew},
		{"far above", id, epoch, 1 << 60, sum(1), VerdictNew},
		{"at the watermark", id, epoch, 60, sum(6), VerdictDuplicate},
		{"below, kept", id, epoch, 20, sum(2), VerdictDuplicate},
		{"below, forgotten", id, epoch, 10, sum(1), VerdictAlreadyApplied},
		{"in a gap", id, epoch, 55, sum(1), VerdictAlreadyApplied},
		{"zero", id, epoch, 0, sum(1), VerdictAlreadyApplied},
		{"other checksum at the watermark", id, epoch, 60, sum(9), VerdictChecksumMismatch},
		{"other checksum below", id, epoch, 30, sum(9), VerdictChecksumMismatch},
		{"other checksum, forgotten", id, epoch, 10, sum(9), VerdictAlreadyApplied},
		{"no checksum", id, epoch, 60, [16]byte{}, VerdictDuplicate},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := r.m.View().CheckRequest(tt.client, tt.session, tt.request, tt.sum)
			wantVerdict(t, v, tt.want)
			if (v.Reply != nil) != (tt.want == VerdictDuplicate) {
				t.Errorf("verdict %v has reply %v", v.Kind, v.Reply)
			}
			if v.Reply != nil && v.Reply.Request != tt.request {
				t.Errorf("request %d is answered with that to %d", tt.request, v.Reply.Request)
			}
		})
	}
}

func TestZeroChecksumWasCommitted(t *testing.T) { // T-16
	r := newRig(t)
	id := clientID(7)
	epoch := r.login(id, RootUser).Session
	// Number 0 is that of the kept reply to the Register, which is no answer to anything else.
	wantVerdict(t, r.m.View().CheckRequest(id, epoch, 0, [16]byte{}), VerdictAlreadyApplied)
	r.request(id, epoch, 1, [16]byte{})
	wantVerdict(t, r.m.View().CheckRequest(id, epoch, 1, sum(9)), VerdictDuplicate)
}

// Apply asks the table too: what must not run changes nothing, whatever the
// primary believed when it proposed it.
func TestApplyRunsARequestOnce(t *testing.T) { // T-17, T-20, T-21
	r := newRig(t)
	id := clientID(7)
	epoch := r.login(id, RootUser).Session
	first := r.request(id, epoch, 3, sum(3))
	before, table := stateBytes(r.m), r.m.View().EncodeClients()
	for _, tt := range []struct {
		name             string
		client           galgo.ClientID
		session, request uint64
		sum              [16]byte
		want             VerdictKind
		body             []byte
	}{
		{"again", id, epoch, 3, sum(3), VerdictDuplicate, first.Body},
		{"below the watermark", id, epoch, 2, sum(2), VerdictAlreadyApplied, wire.AppendResultError(nil, galgo.CodeRequestAlreadyApplied)},
		{"another with its number", id, epoch, 3, sum(4), VerdictChecksumMismatch, nil},
		{"no session", clientID(9), epoch, 4, sum(4), VerdictNoSession, nil},
		{"old session", id, epoch - 1, 4, sum(4), VerdictFenced, nil},
		{"session of the future", id, epoch + 100, 4, sum(4), VerdictEpochAhead, nil},
	} {
		out := r.request(tt.client, tt.session, tt.request, tt.sum)
		wantVerdict(t, out.Verdict, tt.want)
		if !bytes.Equal(out.Body, tt.body) {
			t.Errorf("%s: answer %x, want %x", tt.name, out.Body, tt.body)
		}
		if !bytes.Equal(stateBytes(r.m), before) || !bytes.Equal(r.m.View().EncodeClients(), table) {
			t.Errorf("%s: changed the state", tt.name)
		}
	}
}

func TestRejectionsAreKeptToo(t *testing.T) {
	r := newRig(t)
	body := createStreamBody("s")
	r.must(wire.OperationCreateStream, body)
	_, out, err := r.root(wire.OperationCreateStream, body)
	if !errors.Is(err, galgo.Errorf(galgo.CodeStreamNameAlreadyExists, "")) {
		t.Fatalf("second create answers %v", err)
	}
	r.must(wire.OperationDeleteStream, deleteStreamBody(galgo.NamedID("s")))
	s := r.sessions[clientID(1)]
	again := r.m.View().CheckRequest(clientID(1), s.epoch, s.next-2, wire.RequestChecksum(body))
	wantVerdict(t, again, VerdictDuplicate)
	if !bytes.Equal(again.Reply.Body(), out.Body) {
		t.Errorf("the retry is answered %x, first %x", again.Reply.Body(), out.Body)
	}
}

func slotsOf(v *View) (slots []uint32) {
	for c := range v.Clients() {
		slots = append(slots, c.Slot)
	}
	return slots
}

func TestFullTableEvictsTheOldestCommit(t *testing.T) { // T-18, T-19
	r := &rig{t: t, m: New(), sessions: map[galgo.ClientID]*testSession{}}
	r.bootstrap(3)
	a, b, c, d := clientID(1), clientID(2), clientID(3), clientID(4)
	for _, id := range []galgo.ClientID{a, b, c} {
		r.login(id, RootUser)
	}
	r.request(a, r.sessions[a].epoch, 1, sum(1))
	out := r.login(d, RootUser)
	if !slices.Equal(out.Ended, []galgo.ClientID{b}) {
		t.Fatalf("evicted %v, want %v: the others committed after it", out.Ended, b)
	}
	if e, _ := r.m.View().Client(d); e.Slot != 1 {
		t.Errorf("the new session has slot %d, want 1, which came free", e.Slot)
	}
	wantVerdict(t, r.m.View().CheckRequest(b, r.sessions[b].epoch, 1, sum(1)), VerdictNoSession)
	if out := r.login(a, RootUser); len(out.Ended) != 0 {
		t.Errorf("a session that is renewed evicts %v", out.Ended)
	}
}

func TestDetachedGoesFirst(t *testing.T) {
	r := &rig{t: t, m: New(), sessions: map[galgo.ClientID]*testSession{}}
	r.bootstrap(4)
	ids := []galgo.ClientID{clientID(1), clientID(2), clientID(3), clientID(4)}
	for _, id := range ids {
		r.login(id, RootUser)
	}
	detach := func(id galgo.ClientID, epoch uint64) {
		r.apply(Input{Operation: OperationDetach, Client: id, Session: epoch})
	}
	detach(ids[3], r.sessions[ids[3]].epoch)
	detach(ids[2], r.sessions[ids[2]].epoch)
	detach(ids[0], r.sessions[ids[0]].epoch-1)
	detach(clientID(77), 1)
	r.login(ids[3], RootUser) // came back
	for i, want := range []galgo.ClientID{ids[2], ids[0], ids[1]} {
		out := r.login(clientID(uint64(10+i)), RootUser)
		if !slices.Equal(out.Ended, []galgo.ClientID{want}) {
			t.Errorf("login %d evicts %v, want %v", i, out.Ended, want)
		}
	}
}

// The scan for one victim and the sort for many are the same order.
func TestShrinkEvictsInTheSameOrder(t *testing.T) { // T-04, T-22
	build := func() *rig {
		r := &rig{t: t, m: New(), sessions: map[galgo.ClientID]*testSession{}}
		r.bootstrap(16)
		for n := range uint64(16) {
			r.login(clientID(n+1), RootUser)
		}
		for n := range uint64(16) {
			if n%3 == 0 {
				r.request(clientID(n+1), r.sessions[clientID(n+1)].epoch, 1, sum(1))
			}
			if n%4 == 1 {
				r.apply(Input{Operation: OperationDetach, Client: clientID(n + 1), Session: r.sessions[clientID(n+1)].epoch})
			}
		}
		return r
	}
	r := build()
	var oneByOne []galgo.ClientID
	for range 13 {
		v := r.m.s.victim()
		r.m.s.removeClient(v)
		oneByOne = append(oneByOne, v.ID)
	}
	r = build()
	out := r.configure(3)
	if !slices.Equal(out.Ended, oneByOne) {
		t.Errorf("shrinking evicts\n%v, want\n%v", out.Ended, oneByOne)
	}
	if got := r.m.View().Counts().Clients; got != 3 {
		t.Errorf("%d sessions are left, want 3", got)
	}
	slots := slotsOf(r.m.View())
	m := restored(t, r.m) // T-03, T-05: slots above the new size stay
	if got := slotsOf(m.View()); !slices.Equal(got, slots) {
		t.Errorf("slots are %v after a restart, were %v", got, slots)
	}
}

func (r *rig) configure(clientsMax uint32) Output {
	body, err := Configure{Settings{ClientsMax: clientsMax}}.Encode()
	if err != nil {
		r.t.Fatal(err)
	}
	return r.apply(Input{Operation: OperationConfigure, Body: body})
}

func TestGrownTableHasRoom(t *testing.T) { // T-06
	r := &rig{t: t, m: New(), sessions: map[galgo.ClientID]*testSession{}}
	r.bootstrap(2)
	r.login(clientID(1), RootUser)
	r.login(clientID(2), RootUser)
	if out := r.configure(3); len(out.Ended) != 0 || len(out.Changes) != 1 {
		t.Errorf("growing ends %v, changes %v", out.Ended, out.Changes)
	}
	if out := r.login(clientID(3), RootUser); len(out.Ended) != 0 {
		t.Errorf("the third login evicts %v from a table of 3", out.Ended)
	}
	if out := r.configure(3); len(out.Changes) != 0 {
		t.Errorf("the same settings again change %v", out.Changes)
	}
}

func TestLogoutEndsTheSession(t *testing.T) { // N-19
	r := newRig(t)
	id := clientID(7)
	old := r.login(id, RootUser).Session
	epoch := r.login(id, RootUser).Session
	logout := Input{Operation: wire.OperationLogout, Client: id, Session: old, Request: 1}
	out := r.apply(logout)
	wantVerdict(t, out.Verdict, VerdictFenced)
	if len(out.Ended) != 0 {
		t.Errorf("a logout of the old session ended %v", out.Ended)
	}
	logout.Session = epoch
	out = r.apply(logout)
	if !slices.Equal(out.Ended, []galgo.ClientID{id}) || out.Verdict.Kind != VerdictNew || len(out.Body) != 0 {
		t.Errorf("logout: ended %v, verdict %v, body %x", out.Ended, out.Verdict.Kind, out.Body)
	}
	wantVerdict(t, r.apply(logout).Verdict, VerdictNoSession)
	fresh := r.login(id, RootUser)
	wantVerdict(t, r.m.View().CheckRequest(id, fresh.Session, 1, sum(1)), VerdictNew)
}

// After a session was evicted, a retry of what it had done must not run again: it
// is told that its session is gone.
func TestRetryAfterEviction(t *testing.T) { // PF-client-01, T-26
	r := &rig{t: t, m: New(), sessions: map[galgo.ClientID]*testSession{}}
	r.bootstrap(2)
	a := clientID(1)
	epoch := r.login(a, RootUser).Session
	r.request(a, epoch, 1, sum(1))
	for n := uint64(2); n <= 4; n++ {
		r.login(clientID(n), RootUser)
	}
	out := r.request(a, epoch, 1, sum(1))
	wantVerdict(t, out.Verdict, VerdictNoSession)
	if got := r.m.View().Counts().Streams; got != 1 {
		t.Errorf("%d streams, want 1: the retry ran", got)
	}
}

func TestRingOverARestart(t *testing.T) { // T-01, T-02, T-14, T-24
	r := newRig(t)
	id := clientID(7)
	epoch := r.login(id, RootUser).Session
	var bodies [][]byte
	for request := uint64(1); request <= 7; request++ {
		bodies = append(bodies, r.request(id, epoch, request, sum(byte(request))).Body)
	}
	v := restored(t, r.m).View()
	for request := uint64(1); request <= 8; request++ {
		got := v.CheckRequest(id, epoch, request, sum(byte(request)))
		want := r.m.View().CheckRequest(id, epoch, request, sum(byte(request)))
		if got.Kind != want.Kind {
			t.Errorf("request %d is %v after a restart, %v before", request, got.Kind, want.Kind)
		}
		if got.Kind == VerdictDuplicate && !bytes.Equal(got.Reply.Body(), bodies[request-1]) {
			t.Errorf("request %d is answered %x after a restart, first %x", request, got.Reply.Body(), bodies[request-1])
		}
	}
	c, _ := v.Client(id)
	if len(c.Replies) != RepliesMax || c.Replies[0].Request != 3 {
		t.Errorf("kept replies %+v, want those to requests 3 to 7", c.Replies)
	}
}
