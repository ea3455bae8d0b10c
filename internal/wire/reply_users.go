package wire

import "galgo"

// UserInfo is a user in lists: [u32 id][u64 created at][u8 status][name]
// [options32].
type UserInfo struct {
	ID        uint32
	CreatedAt uint64 // µs
	Status    galgo.UserStatus
	Username  string
	Options   Options // aliases the body
}

func (u UserInfo) append(b []byte) []byte {
	b = append(le.AppendUint64(le.AppendUint32(b, u.ID), u.CreatedAt), byte(u.Status))
	return appendBytes32(appendBytes8(b, u.Username), []byte(u.Options))
}

func (c *cursor) userInfo() UserInfo {
	return UserInfo{
		ID: c.u32("user id"), CreatedAt: c.u64("created at"), Status: galgo.UserStatus(c.u8("status")),
		Username: c.name("username"), Options: c.options32("user options"),
	}
}

// AppendUsers appends the users back to back.
func AppendUsers(b []byte, users []UserInfo) []byte {
	for _, u := range users {
		b = u.append(b)
	}
	return b
}

// DecodeUsers reads users to the end of the body.
func DecodeUsers(body []byte) ([]UserInfo, error) {
	return decodeAll(body, "users", (*cursor).userInfo)
}

// UserDetails answers user.get and user.create: the user, then [u8 1]
// [u32 length, permissions], or four zero bytes for a user without a record.
type UserDetails struct {
	UserInfo
	Permissions *galgo.Permissions
}

// Append appends the body of the reply.
func (d UserDetails) Append(b []byte) []byte {
	b = d.UserInfo.append(b)
	if d.Permissions == nil {
		return append(b, 0, 0, 0, 0)
	}
	return appendFlaggedPermissions(b, d.Permissions)
}

// DecodeUserDetails reads the body. An empty one means that there is no such user;
// callers look at that first.
func DecodeUserDetails(body []byte) (UserDetails, error) {
	c := read("user", body)
	d := UserDetails{UserInfo: c.userInfo()}
	if c.u8("permissions flag") != 0 {
		d.Permissions = c.sizedPermissions()
	} else {
		c.zeros("no permissions", 3)
	}
	if err := c.end(); err != nil {
		return UserDetails{}, err
	}
	return d, nil
}

// zeros reads n bytes that must be zero.
func (c *cursor) zeros(field string, n uint64) {
	if !allZero(c.take(field, n)) {
		c.fail(field, "bytes are not zero")
	}
}

// TokenInfo is a personal access token in the list of its owner: [name]
// [u64 expires at].
type TokenInfo struct {
	Name      string
	ExpiresAt uint64 // µs since the epoch, 0 is never
}

// AppendTokens appends the tokens back to back, in the order of names.
func AppendTokens(b []byte, tokens []TokenInfo) []byte {
	for _, t := range tokens {
		b = le.AppendUint64(appendBytes8(b, t.Name), t.ExpiresAt)
	}
	return b
}

// DecodeTokens reads tokens to the end of the body.
func DecodeTokens(body []byte) ([]TokenInfo, error) {
	return decodeAll(body, "tokens", func(c *cursor) TokenInfo {
		return TokenInfo{Name: c.name("name"), ExpiresAt: c.u64("expires at")}
	})
}

// CreatedToken answers personal_access_token.create: [u8 length, token]. It is the
// only time that the token is shown.
type CreatedToken struct{ Token string }

// Append appends the payload of the reply.
func (t CreatedToken) Append(b []byte) []byte { return appendBytes8(b, t.Token) }

// DecodeCreatedToken reads the payload.
func DecodeCreatedToken(body []byte) (CreatedToken, error) {
	c := read("created token", body)
	t := CreatedToken{Token: c.name("token")}
	if err := c.end(); err != nil {
		return CreatedToken{}, err
	}
	return t, nil
}
