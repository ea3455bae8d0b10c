package metadata

import (
	"galgo"
	"galgo/internal/wire"
)

// The handlers of operations on users: lookup, right, then the rules in the order of
// storage.md §7.8. What needs a password in plain was found out at the edge, before the
// log (see NewUser and NewPassword).

func (m *Machine) createUser(c call, req NewUser) result {
	s := &m.s
	switch {
	case !s.allows(c.user, RuleManageUsers, 0, 0):
		return rejected(galgo.CodeUnauthorized)
	case req.Refusal != galgo.CodeOK:
		return again() // the edge knew less of the log: the right was given meanwhile
	case !usernameFits(req.Username):
		return rejected(galgo.CodeInvalidUsername)
	case s.userNames.has(req.Username):
		return rejected(galgo.CodeUserAlreadyExists)
	case s.users.len() >= UsersMax:
		return rejected(galgo.CodeUsersLimitReached)
	}
	u := &User{
		ID: lowestFree(s.users.cow), Name: req.Username, CreatedAt: c.timestamp, Born: c.op,
		PasswordHash: req.PasswordHash, PasswordOp: c.op, Active: req.Active, Permissions: req.Permissions,
	}
	s.putUser(u)
	return result{payload: userDetails(u).Append(nil)}
}

func (m *Machine) updateUser(c call, req wire.UpdateUserRequest) result {
	s := &m.s
	old, code := s.managed(c, req.User)
	if code != galgo.CodeOK {
		return rejected(code)
	}
	u := *old
	if req.Username != nil {
		u.Name = *req.Username
		if !usernameFits(u.Name) {
			return rejected(galgo.CodeInvalidUsername)
		}
		if owner, taken := s.userNames.get(u.Name); taken && owner != u.ID {
			return rejected(galgo.CodeUserAlreadyExists)
		}
	}
	if req.Status != nil {
		switch *req.Status { // others are ignored (wire.md §6.5)
		case galgo.UserActive:
			u.Active = true
		case galgo.UserInactive:
			u.Active = false
		}
	}
	if u.ID == RootUser && !u.Active {
		return rejected(galgo.CodeInvalidUserStatus)
	}
	var ended []galgo.ClientID
	if old.Active && !u.Active {
		ended = s.endSessions(&u, call{op: c.op})
	}
	s.userNames.delete(old.Name)
	s.putUser(&u)
	return result{ended: ended}
}

// deleteUser removes a user with all that could act as it: its tokens and sessions.
// Whoever gets its id next inherits nothing.
func (m *Machine) deleteUser(c call, req wire.UserRequest) result {
	s := &m.s
	u, code := s.managed(c, req.User)
	switch {
	case code != galgo.CodeOK:
		return rejected(code)
	case u.ID == RootUser:
		return rejected(galgo.CodeCannotDeleteUser)
	}
	for _, t := range s.tokenList(u.ID) {
		s.removeToken(t)
	}
	ended := s.endSessionsOf(u.ID, galgo.ClientID{})
	s.users.delete(u.ID)
	s.userNames.delete(u.Name)
	return result{ended: ended}
}

// changePassword needs the current password, whoever asks. The edge has compared it
// with the hash that op Verified set; if that is not the one of today, the password
// was changed in between, and the edge has to look again. Sessions of the user end, since
// whoever knew the former password may have opened them, but for the one that asks.
func (m *Machine) changePassword(c call, req NewPassword) result {
	s := &m.s
	old, ok := s.user(req.User)
	switch {
	case !ok:
		return rejected(galgo.CodeResourceNotFound)
	case old.ID != c.user && !s.allows(c.user, RuleManageUsers, 0, 0):
		return rejected(galgo.CodeUnauthorized)
	case old.PasswordOp != req.Verified:
		return again()
	case req.Refusal != galgo.CodeOK:
		return rejected(req.Refusal)
	}
	u := *old
	u.PasswordHash, u.PasswordOp = req.PasswordHash, c.op
	ended := s.endSessions(&u, c)
	s.users.set(u.ID, &u)
	return result{ended: ended}
}

func (m *Machine) updatePermissions(c call, req NewPermissions) result {
	s := &m.s
	old, code := s.managed(c, req.User)
	switch {
	case code != galgo.CodeOK:
		return rejected(code)
	case old.ID == RootUser:
		return rejected(galgo.CodeCannotChangePermissions)
	case req.Refusal != galgo.CodeOK:
		return again()
	}
	u := *old
	u.Permissions = req.Permissions
	s.users.set(u.ID, &u)
	return result{}
}

// managed finds a user that is to be changed by one who may.
func (s *state) managed(c call, id galgo.Identifier) (*User, galgo.Code) {
	u, ok := s.user(id)
	if !ok {
		return nil, galgo.CodeResourceNotFound
	}
	if !s.allows(c.user, RuleManageUsers, 0, 0) {
		return nil, galgo.CodeUnauthorized
	}
	return u, galgo.CodeOK
}

func usernameFits(name string) bool { return len(name) >= UsernameMin && len(name) <= UsernameMax }

// sorted puts permissions into the order that the state has them in. They were decoded
// from a body just now, so nobody else holds them.
func sorted(p *galgo.Permissions) *galgo.Permissions {
	if p != nil {
		p.Sort()
	}
	return p
}

func (s *state) putUser(u *User) {
	s.users.set(u.ID, u)
	s.userNames.set(u.Name, u.ID)
}

// endSessions ends the sessions of a user that is about to be stored, but for that of
// the call if it is one of them.
func (s *state) endSessions(u *User, c call) (ended []galgo.ClientID) {
	var kept galgo.ClientID
	u.SessionsFrom, u.Kept = c.op, 0
	if own, ok := s.client(c.client); ok && own.User == u.ID {
		kept, u.Kept = own.ID, own.Epoch
	}
	return s.endSessionsOf(u.ID, kept)
}

// endSessionsOf removes the entries of a user from the client table, but for one, and
// returns whose they were, by slot.
func (s *state) endSessionsOf(user uint32, kept galgo.ClientID) (ended []galgo.ClientID) {
	var gone []*Client
	s.clients.all(func(_ uint32, c *Client) bool {
		if c.User == user && c.ID != kept {
			gone = append(gone, c)
		}
		return true
	})
	for _, c := range gone {
		s.removeClient(c)
		ended = append(ended, c.ID)
	}
	return ended
}
