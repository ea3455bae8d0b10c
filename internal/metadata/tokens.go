package metadata

import (
	"encoding/binary"

	"galgo"
	"galgo/internal/wire"
)

// The handlers of operations on personal access tokens. Everybody manages their own
// and nobody else's, so there is no right to check.

// createToken stores the hash of a token that the edge has made. The token itself is
// not known here, so the answer that has it cannot be given again: whoever repeats the
// request is told that the name is taken (wire.md §6.6).
func (m *Machine) createToken(c call, req NewToken) result {
	s := &m.s
	owner, _ := s.users.get(c.user)
	_, known := s.token(req.Hash)
	expiresAt, inTime := expiryAt(c.timestamp, req.Expiry)
	switch {
	case owner.Tokens >= s.settings.TokensMax:
		return rejected(galgo.CodePersonalAccessTokensLimitReached)
	case s.tokens.has(keyOfToken(c.user, req.Name)) || known:
		return rejected(galgo.CodePersonalAccessTokenAlreadyExists)
	case !inTime:
		return rejected(galgo.CodeInvalidPersonalAccessTokenExpiry)
	}
	u := *owner
	u.Tokens++
	s.users.set(u.ID, &u)
	s.putToken(&Token{User: u.ID, Name: req.Name, Hash: req.Hash, Op: c.op, ExpiresAt: expiresAt})
	return result{once: true}
}

// expiryAt is when a token expires that is to live for so many µs: 0 if it never does,
// false if that is beyond what a time can be.
func expiryAt(now, life uint64) (at uint64, ok bool) {
	if life == galgo.ServerDefault || life == galgo.Never {
		return 0, true
	}
	return now + life, now+life > now
}

func (m *Machine) deleteToken(c call, req wire.DeleteTokenRequest) result {
	s := &m.s
	t, ok := s.tokens.get(keyOfToken(c.user, req.Name))
	if !ok {
		return rejected(galgo.CodeResourceNotFound)
	}
	s.forgetToken(t)
	return result{}
}

// onSweepTokens removes tokens that have expired by now.
func (m *Machine) onSweepTokens(in *Input) Output {
	for range TokensPerSweep {
		_, key, ok := m.s.expiries.at(0)
		if !ok {
			break
		}
		t, _ := m.s.tokens.get(key)
		if !t.expiredAt(in.Timestamp) {
			break
		}
		m.s.forgetToken(t)
	}
	return Output{Body: wire.AppendResultOK(nil)}
}

// forgetToken removes a token of a user that stays.
func (s *state) forgetToken(t *Token) {
	owner, _ := s.users.get(t.User)
	u := *owner
	u.Tokens--
	s.users.set(u.ID, &u)
	s.removeToken(t)
}

func (s *state) putToken(t *Token) {
	s.tokens.set(t.key(), t)
	s.tokenHashes.set(string(t.Hash[:]), t.key())
	if t.ExpiresAt != 0 {
		s.expiries.set(expiryKey(t), t.key())
	}
}

func (s *state) removeToken(t *Token) {
	s.tokens.delete(t.key())
	s.tokenHashes.delete(string(t.Hash[:]))
	s.expiries.delete(expiryKey(t))
}

func (s *state) tokenList(user uint32) (list []*Token) {
	s.tokensOf(user, func(t *Token) bool { list = append(list, t); return true })
	return list
}

// tokenOf finds the token of a user that an op made.
func (s *state) tokenOf(user uint32, op uint64) (found *Token, ok bool) {
	s.tokensOf(user, func(t *Token) bool {
		if t.Op == op {
			found = t
		}
		return found == nil
	})
	return found, found != nil
}

// expiryOf is the time at the front of an expiryKey.
func expiryOf(key string) uint64 { return binary.BigEndian.Uint64([]byte(key[:8])) }
