package metadata

import (
	"bytes"
	"fmt"
	"testing"

	"galgo"
	"galgo/internal/wire"
)

// startTime is when the tests' clusters begin, in µs.
const startTime = 1_700_000_000_000_000

// rig feeds a machine as a primary would: each request is admitted, gets the next
// op and a timestamp a millisecond later, and is applied.
type rig struct {
	t  testing.TB
	m  *Machine
	op uint64
	// sessions has the epoch and the next request number of each client.
	sessions map[galgo.ClientID]*testSession
}

type testSession struct{ epoch, next uint64 }

func clientID(n uint64) (id galgo.ClientID) {
	le.PutUint64(id[:], n)
	return id
}

// newRig returns a bootstrapped machine with client 1 logged in as root.
func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, m: New(), sessions: map[galgo.ClientID]*testSession{}}
	r.bootstrap(ClientsDefault)
	r.login(clientID(1), RootUser)
	return r
}

func (r *rig) apply(in Input) Output {
	r.op++
	in.Op, in.Timestamp = r.op, r.now()
	return r.m.Apply(in)
}

// now is the timestamp of the last op.
func (r *rig) now() uint64 { return startTime + r.op*1000 }

func (r *rig) bootstrap(clientsMax uint32) {
	r.t.Helper()
	body, err := Bootstrap{Username: "iggy", PasswordHash: "$argon2id$x", Settings: Settings{ClientsMax: clientsMax, TokensMax: TokensDefault}}.Encode()
	if err != nil {
		r.t.Fatal(err)
	}
	r.apply(Input{Operation: OperationBootstrap, Body: body})
}

func (r *rig) login(id galgo.ClientID, user uint32) Output {
	return r.loginBy(id, user, r.password(user))
}

// password is the credential of a user that is there; else one that does not hold.
func (r *rig) password(user uint32) Credential {
	if u, ok := r.m.s.users.get(user); ok {
		return PasswordOf(u)
	}
	return Credential{Kind: CredentialPassword}
}

func (r *rig) loginBy(id galgo.ClientID, user uint32, by Credential) Output {
	out := r.apply(Input{Operation: wire.OperationRegister, Client: id, User: user, Body: by.Append(nil)})
	if out.Login == LoginAccepted {
		s := r.sessions[id]
		if s == nil {
			s = &testSession{next: 1}
			r.sessions[id] = s
		}
		s.epoch = out.Session
	}
	return out
}

// as runs a request of a client under its next number. The error is that of
// Admit, or the code of a rejection.
func (r *rig) as(id galgo.ClientID, op wire.Operation, body []byte) ([]byte, Output, error) {
	r.t.Helper()
	s := r.sessions[id]
	logOp, logBody, err := Admit(r.m.View(), op, body)
	if err != nil {
		return nil, Output{}, err
	}
	out := r.apply(Input{
		Operation: logOp, Client: id, Session: s.epoch, Request: s.next,
		RequestSum: wire.RequestChecksum(body), Body: logBody,
	})
	if out.Verdict.Kind != VerdictNew {
		return nil, out, fmt.Errorf("verdict %v", out.Verdict.Kind)
	}
	s.next++
	code, payload, err := wire.SplitResult(out.Body)
	if err != nil {
		r.t.Fatalf("op %d: %v", r.op, err)
	}
	if code != galgo.CodeOK {
		return nil, out, galgo.Errorf(code, "rejected")
	}
	return payload, out, nil
}

// root runs a request of client 1.
func (r *rig) root(op wire.Operation, body []byte) ([]byte, Output, error) {
	r.t.Helper()
	return r.as(clientID(1), op, body)
}

// must runs a request of client 1 that succeeds.
func (r *rig) must(op wire.Operation, body []byte) ([]byte, Output) {
	r.t.Helper()
	payload, out, err := r.root(op, body)
	if err != nil {
		r.t.Fatalf("op %d, %v: %v", r.op, op, err)
	}
	return payload, out
}

// wantCode runs a request of client 1 that is refused with a code, and checks that
// it changed nothing but the session.
func (r *rig) wantCode(want galgo.Code, op wire.Operation, body []byte) {
	r.t.Helper()
	r.wantCodeAs(clientID(1), want, op, body)
}

func (r *rig) wantCodeAs(id galgo.ClientID, want galgo.Code, op wire.Operation, body []byte) {
	r.t.Helper()
	before := stateBytes(r.m)
	_, out, err := r.as(id, op, body)
	if got, _ := galgo.CodeOf(err); got != want {
		r.t.Errorf("%v answers %v, want %v", op, err, want)
	}
	if len(out.Changes) != 0 {
		r.t.Errorf("%v, refused with %v, asks for changes %v", op, want, out.Changes)
	}
	if after := stateBytes(r.m); !bytes.Equal(before, after) {
		r.t.Errorf("%v, refused with %v, changed the state from\n%x to\n%x", op, want, before, after)
	}
}

// stateBytes is the encoded state behind the two fields that every op moves.
func stateBytes(m *Machine) []byte { return m.View().EncodeState()[17:] }

// restored is the machine after a snapshot and a restart. It fails the test unless
// both halves encode again to the same bytes.
func restored(t testing.TB, m *Machine) *Machine {
	t.Helper()
	state, clients := m.View().EncodeState(), m.View().EncodeClients()
	m2, err := Decode(state, clients)
	if err != nil {
		t.Fatalf("decoding what was just encoded: %v", err)
	}
	if got := m2.View().EncodeState(); !bytes.Equal(got, state) {
		t.Fatalf("the state encodes to\n%x after decoding\n%x", got, state)
	}
	if got := m2.View().EncodeClients(); !bytes.Equal(got, clients) {
		t.Fatalf("the client table encodes to\n%x after decoding\n%x", got, clients)
	}
	return m2
}
