package wire

import (
	"unicode/utf8"

	"galgo"
)

// ClientVersion leads every sign-in.
type ClientVersion struct {
	Protocol   Version
	SDKName    string // 1..255 bytes
	SDKVersion string // 1..255 bytes
}

// PasswordLogin is the rest of a sign-in with a password.
type PasswordLogin struct {
	Username string // 1..255 bytes on the wire
	Password string // 0..255 bytes on the wire
	Context  string // ignored by servers
}

// TokenLogin is the rest of a sign-in with a token.
type TokenLogin struct {
	Token   string // 0..255 bytes on the wire
	Context string // ignored by servers
}

// RegisterRequest is a sign-in of either form. Nothing in the bytes tells the two
// apart, so a decoded one holds each form that parses: a server tries Password
// first and Token if that is not accepted. One to be sent holds exactly one.
//
//	u32 version, name SDK, name SDK version, then
//	password form: name username, u8 length and password, u32 length and context
//	token form:    u8 length and token, u32 length and context
type RegisterRequest struct {
	Client   ClientVersion
	Password *PasswordLogin
	Token    *TokenLogin
}

// Append appends the body of the request.
func (r RegisterRequest) Append(b []byte) []byte {
	b = le.AppendUint32(b, uint32(r.Client.Protocol))
	b = appendBytes8(b, r.Client.SDKName)
	b = appendBytes8(b, r.Client.SDKVersion)
	if r.Password != nil {
		b = appendBytes8(b, r.Password.Username)
		b = appendBytes8(b, r.Password.Password)
		return appendBytes32(b, r.Password.Context)
	}
	if r.Token == nil {
		panic("wire: sign-in with neither password nor token")
	}
	b = appendBytes8(b, r.Token.Token)
	return appendBytes32(b, r.Token.Context)
}

// DecodeClientVersion reads the part of a sign-in that both forms share and
// returns what is behind it, aliased, for DecodeLogin. A server judges the version
// before it looks at that.
func DecodeClientVersion(body []byte) (v ClientVersion, rest []byte, err error) {
	c := read("sign-in", body)
	v = ClientVersion{
		Protocol:   Version(c.u32("protocol version")),
		SDKName:    c.name("SDK name"),
		SDKVersion: c.name("SDK version"),
	}
	rest = c.rest()
	if c.err != nil {
		return ClientVersion{}, nil, c.err
	}
	return v, rest, nil
}

// DecodeLogin reads the credentials of a sign-in. Both results are nil if the
// bytes are in neither form.
func DecodeLogin(rest []byte) (*PasswordLogin, *TokenLogin) {
	return decodePassword(rest), decodeToken(rest)
}

func decodePassword(rest []byte) *PasswordLogin {
	c := read("sign-in with password", rest)
	login := PasswordLogin{
		Username: c.name("username"),
		Password: c.string8("password"),
		Context:  c.string32("context"),
	}
	if c.err != nil {
		return nil
	}
	return &login
}

func decodeToken(rest []byte) *TokenLogin {
	c := read("sign-in with token", rest)
	login := TokenLogin{
		Token:   c.string8("token"),
		Context: c.string32("context"),
	}
	if c.err != nil {
		return nil
	}
	return &login
}

// DecodeRegisterRequest reads a sign-in. It fails if the shared part does not
// decode or the rest is in neither form.
func DecodeRegisterRequest(body []byte) (RegisterRequest, error) {
	v, rest, err := DecodeClientVersion(body)
	if err != nil {
		return RegisterRequest{}, err
	}
	r := RegisterRequest{Client: v}
	r.Password, r.Token = DecodeLogin(rest)
	if r.Password == nil && r.Token == nil {
		return RegisterRequest{}, &DecodeError{Body: "sign-in", Field: "credentials", Offset: len(body) - len(rest), Reason: "neither password nor token"}
	}
	return r, nil
}

// ValidateUsername returns a CodeInvalidUsername Error unless the name has 3..50
// bytes of UTF-8.
func ValidateUsername(name string) error {
	if len(name) < galgo.UsernameMin || len(name) > galgo.UsernameMax || !utf8.ValidString(name) {
		return galgo.Errorf(galgo.CodeInvalidUsername, "user name has %d bytes, want %d..%d of UTF-8", len(name), galgo.UsernameMin, galgo.UsernameMax)
	}
	return nil
}

// ValidatePassword returns a CodeInvalidPassword Error unless the password has
// 3..100 bytes of UTF-8.
func ValidatePassword(password string) error {
	if len(password) < galgo.PasswordMin || len(password) > galgo.PasswordMax || !utf8.ValidString(password) {
		return galgo.Errorf(galgo.CodeInvalidPassword, "password has %d bytes, want %d..%d of UTF-8", len(password), galgo.PasswordMin, galgo.PasswordMax)
	}
	return nil
}
