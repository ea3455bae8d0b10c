package metadata

import (
	"fmt"

	"galgo"
	"galgo/internal/wire"
)

// Login is how a Register ends, or would end.
type Login uint8

// The ends of a Register.
const (
	// LoginAccepted makes a session, or renews the one that the client id has: the
	// watermark and the kept replies stay, and the old session is fenced off.
	LoginAccepted Login = 1 + iota
	// LoginOtherUser: the client id has a session of another user (eviction 12).
	LoginOtherUser
	// LoginNoUser: the user is gone, not active, or has another password by now
	// (eviction 9).
	LoginNoUser
	// LoginNoToken: the token is gone or has expired (eviction 10).
	LoginNoToken
	// LoginInactive: the token holds, and its user is not active (eviction 11).
	LoginInactive
)

// String names the outcome.
func (l Login) String() string {
	switch l {
	case LoginAccepted:
		return "accepted"
	case LoginOtherUser:
		return "client id of another user"
	case LoginNoUser:
		return "no such active user"
	case LoginNoToken:
		return "no such token"
	case LoginInactive:
		return "user is inactive"
	}
	return fmt.Sprintf("login %d", uint8(l))
}

// checkRegister tells how a Register of the user under the client id would end at a
// time in µs. What the edge checked may have changed since: the credential has to be
// the one that the user has now.
func (s *state) checkRegister(id galgo.ClientID, user uint32, by Credential, now uint64) Login {
	u, ok := s.users.get(user)
	switch {
	case by.Kind == CredentialToken:
		if t, held := s.tokenOf(user, by.Op); !held || t.expiredAt(now) {
			return LoginNoToken
		}
		if !u.Active {
			return LoginInactive
		}
	case !ok || !u.Active || u.PasswordOp != by.Op:
		return LoginNoUser
	}
	if c, ok := s.client(id); ok && c.User != user {
		return LoginOtherUser
	}
	return LoginAccepted
}

// onRegister makes or renews a session. Its number is the op of the Register:
// above all before it, and never given out again.
func (m *Machine) onRegister(in *Input) Output {
	if in.Client.IsZero() {
		panic(fmt.Sprintf("metadata: op %d registers client id zero", in.Op))
	}
	by := decoded(in, DecodeCredential)
	login := m.s.checkRegister(in.Client, in.User, by, in.Timestamp)
	if login != LoginAccepted {
		return Output{Login: login}
	}
	reply := Reply{RequestSum: in.RequestSum, Op: in.Op, Timestamp: in.Timestamp, Operation: wire.OperationRegister}
	var ended []galgo.ClientID
	c := Client{ID: in.Client, User: in.User, Born: in.Op}
	if old, ok := m.s.client(in.Client); ok {
		c = *old
		c.Detached = false
		m.s.leaveAll(c.ID) // its place in a group was that of the session before
	} else {
		ended = m.s.evictDownTo(int(m.s.settings.ClientsMax) - 1)
		c.Slot = lowestFree(m.s.clients.cow)
	}
	c.Epoch, c.LatestCommit, c.Home = in.Op, in.Op, by.Home
	c.Replies = withReply(withoutRegister(c.Replies), reply)
	m.s.putClient(&c)
	return Output{Login: LoginAccepted, Session: in.Op, Born: c.Born, User: in.User, Ended: ended}
}

// onLogout ends the session that the request names. A session that is already
// gone, or was renewed since, needs no ending.
func (m *Machine) onLogout(in *Input) Output {
	c, ok := m.s.client(in.Client)
	if !ok || c.Epoch != in.Session {
		return Output{Verdict: m.s.check(in.Client, in.Session, in.Request, in.RequestSum)}
	}
	m.s.removeClient(c)
	return Output{Ended: []galgo.ClientID{c.ID}}
}

// onDetach marks a session whose connection was lost. A client that came back
// before this was committed has a newer session, which is in use.
func (m *Machine) onDetach(in *Input) Output {
	c, ok := m.s.client(in.Client)
	if !ok || c.Epoch != in.Session {
		return Output{Verdict: m.s.check(in.Client, in.Session, in.Request, in.RequestSum)}
	}
	detached := *c
	detached.Detached = true
	m.s.putClient(&detached)
	m.s.leaveAll(c.ID)
	return Output{}
}

// onBootstrap makes the root user and the settings. It is rejected unless the
// state is empty: two nodes may both have proposed it, and the first one counts.
func (m *Machine) onBootstrap(in *Input) Output {
	o := decoded(in, DecodeBootstrap)
	if m.s.rooted {
		return Output{Body: wire.AppendResultError(nil, galgo.CodeInvalidCommand)}
	}
	all := galgo.AllPermissions()
	m.s.rooted = true
	m.s.settings = o.Settings
	m.s.putUser(&User{
		ID: RootUser, Name: o.Username, CreatedAt: rootCreatedAt,
		Born: in.Op, PasswordHash: o.PasswordHash, PasswordOp: in.Op, Active: true, Permissions: &all,
	})
	return Output{Body: wire.AppendResultOK(nil), Changes: []Change{{Kind: SettingsChanged}}}
}

// onConfigure replaces the settings. A table that is to be smaller loses the
// entries that it would evict first.
func (m *Machine) onConfigure(in *Input) Output {
	o := decoded(in, DecodeConfigure)
	if !m.s.rooted {
		return Output{Body: wire.AppendResultError(nil, galgo.CodeInvalidCommand)}
	}
	if o.Settings == m.s.settings {
		return Output{Body: wire.AppendResultOK(nil)}
	}
	m.s.settings = o.Settings
	ended := m.s.evictDownTo(int(o.Settings.ClientsMax))
	return Output{Body: wire.AppendResultOK(nil), Ended: ended, Changes: []Change{{Kind: SettingsChanged}}}
}
