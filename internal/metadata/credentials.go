package metadata

import (
	"galgo"
	"galgo/internal/wire"
)

// Bodies of the log that stand for requests with a secret in them. The edge has seen
// the secret and worked out what depends on it, before the log, so that no replica has
// to hash and none ever knows it.

// CredentialKind says how a user proved who it is.
type CredentialKind uint8

// The kinds of credentials.
const (
	CredentialPassword CredentialKind = 1 + iota
	CredentialToken
)

// Credential is the body of Register: what the edge has checked of the user in the
// header. A credential is named by the op that made it, so that one which was replaced
// before the Register came to the log does not count.
//
//	off  size  field
//	  0     1  version  1
//	  1     1  kind     1 password, 2 token
//	  2     8  op       that set the password, or made the token
//	 10     1  replica  where the connection is
//	 11     8  life     of that replica; 0: of a node alone
type Credential struct {
	Kind CredentialKind
	Op   uint64
	Home Home // of the session that is to be
}

// PasswordOf is the credential of who knows the password that the user has.
func PasswordOf(u *User) Credential { return Credential{Kind: CredentialPassword, Op: u.PasswordOp} }

// Append appends the body.
func (c Credential) Append(b []byte) []byte {
	b = le.AppendUint64(append(b, internalVersion, byte(c.Kind)), c.Op)
	return c.Home.append(b)
}

// DecodeCredential reads the body of Register.
func DecodeCredential(body []byte) (Credential, error) {
	r := reader{part: "register body", b: body}
	r.version(internalVersion)
	c := Credential{Kind: CredentialKind(r.u8()), Op: r.u64(), Home: r.home()}
	if r.err == nil && c.Kind != CredentialPassword && c.Kind != CredentialToken {
		r.fail(ErrCorrupt, "credential of kind %d", c.Kind)
	}
	return c, r.end()
}

// NewUser is the body of CreateUser in the log.
//
//	off  size   field
//	  0     1   version      1
//	  1     4   refusal      code that the edge has found; 0: none
//	  5   1+n   username
//	        2+n password     encoded argon2id hash; empty with a refusal
//	        1   active       0 or 1
//	        1   permitted    1 if permissions follow; 0 with a refusal
//	      4+n   permissions  as on the wire, streams and topics ascending by id
type NewUser struct {
	// Refusal is galgo.CodeUnauthorized if the edge saw that the user may not do this,
	// and so did not hash the password.
	Refusal      galgo.Code
	Username     string
	PasswordHash string
	Active       bool
	Permissions  *galgo.Permissions
}

// Append appends the body. It sorts the permissions.
func (n NewUser) Append(b []byte) []byte {
	b = le.AppendUint32(append(b, internalVersion), uint32(n.Refusal))
	b = appendName(b, n.Username)
	b = appendHash(b, n.PasswordHash)
	b = appendBool(b, n.Active)
	return appendPermissions(b, sorted(n.Permissions))
}

// DecodeNewUser reads the body of CreateUser in the log.
func DecodeNewUser(body []byte) (NewUser, error) {
	r := reader{part: "create user body", b: body}
	r.version(internalVersion)
	n := NewUser{Refusal: r.refusal(galgo.CodeUnauthorized)}
	n.Username = r.name(1, NameMax)
	n.PasswordHash = r.hashUnless(n.Refusal)
	n.Active = r.bool()
	n.Permissions = r.permissionsUnless(n.Refusal)
	return n, r.end()
}

// NewPassword is the body of ChangePassword in the log.
//
//	off  size   field
//	  0     1   version   1
//	  1     4   refusal   code that the edge has found; 0: none
//	  5     8   verified  op that set the hash which the current password was checked with
//	 13     n   user      identifier as on the wire
//	        2+n password  encoded argon2id hash; empty with a refusal
type NewPassword struct {
	// Refusal is what the edge saw: no such user (galgo.CodeResourceNotFound), no right
	// (galgo.CodeUnauthorized), or another password (galgo.CodeInvalidCredentials).
	Refusal      galgo.Code
	Verified     uint64
	User         galgo.Identifier
	PasswordHash string
}

// Append appends the body.
func (n NewPassword) Append(b []byte) []byte {
	b = le.AppendUint32(append(b, internalVersion), uint32(n.Refusal))
	b = le.AppendUint64(b, n.Verified)
	b = wire.UserRequest{User: n.User}.Append(b)
	return appendHash(b, n.PasswordHash)
}

// DecodeNewPassword reads the body of ChangePassword in the log.
func DecodeNewPassword(body []byte) (NewPassword, error) {
	r := reader{part: "change password body", b: body}
	r.version(internalVersion)
	n := NewPassword{Refusal: r.refusal(galgo.CodeResourceNotFound, galgo.CodeUnauthorized, galgo.CodeInvalidCredentials)}
	n.Verified = r.u64()
	n.User = r.identifier()
	n.PasswordHash = r.hashUnless(n.Refusal)
	return n, r.end()
}

// NewPermissions is the body of UpdatePermissions in the log. There is no secret in it:
// the edge only keeps the permissions of those who may not change them out of the log.
//
//	off  size   field
//	  0     1   version      1
//	  1     4   refusal      code that the edge has found; 0: none
//	  5     n   user         identifier as on the wire
//	        1   permitted    1 if permissions follow; 0 with a refusal
//	      4+n   permissions  as on the wire, streams and topics ascending by id
type NewPermissions struct {
	// Refusal is what the edge saw: no such user (galgo.CodeResourceNotFound), or no right
	// (galgo.CodeUnauthorized). It is not the same as no permissions, which would take all away.
	Refusal     galgo.Code
	User        galgo.Identifier
	Permissions *galgo.Permissions
}

// Append appends the body. It sorts the permissions.
func (n NewPermissions) Append(b []byte) []byte {
	b = le.AppendUint32(append(b, internalVersion), uint32(n.Refusal))
	b = wire.UserRequest{User: n.User}.Append(b)
	return appendPermissions(b, sorted(n.Permissions))
}

// DecodeNewPermissions reads the body of UpdatePermissions in the log.
func DecodeNewPermissions(body []byte) (NewPermissions, error) {
	r := reader{part: "update permissions body", b: body}
	r.version(internalVersion)
	n := NewPermissions{Refusal: r.refusal(galgo.CodeResourceNotFound, galgo.CodeUnauthorized)}
	n.User = r.identifier()
	n.Permissions = r.permissionsUnless(n.Refusal)
	return n, r.end()
}

// NewToken is the body of CreatePersonalAccessToken in the log.
//
//	off  size  field
//	  0     1  version  1
//	  1   1+n  name
//	       8   expiry   µs from the timestamp on; 0 and 2^64-1: never
//	      32   hash     SHA-256 of the token
type NewToken struct {
	Name   string
	Expiry uint64
	Hash   TokenHash
}

// Append appends the body.
func (n NewToken) Append(b []byte) []byte {
	b = appendName(append(b, internalVersion), n.Name)
	b = le.AppendUint64(b, n.Expiry)
	return append(b, n.Hash[:]...)
}

// DecodeNewToken reads the body of CreatePersonalAccessToken in the log.
func DecodeNewToken(body []byte) (NewToken, error) {
	r := reader{part: "create token body", b: body}
	r.version(internalVersion)
	n := NewToken{Name: r.name(1, NameMax), Expiry: r.u64()}
	copy(n.Hash[:], r.bytes(uint64(len(n.Hash))))
	return n, r.end()
}

// refusal takes a code that is 0 or one of those.
func (r *reader) refusal(codes ...galgo.Code) galgo.Code {
	code := galgo.Code(r.u32())
	if code == galgo.CodeOK {
		return code
	}
	for _, c := range codes {
		if c == code {
			return code
		}
	}
	r.fail(ErrCorrupt, "refusal with code %d", code)
	return code
}

// permissionsUnless takes permissions, which are there only without a refusal.
func (r *reader) permissionsUnless(refusal galgo.Code) *galgo.Permissions {
	p := r.permissions()
	if p != nil && refusal != galgo.CodeOK {
		r.fail(ErrCorrupt, "permissions with a refusal")
	}
	return p
}

// hashUnless takes a password hash, which is empty exactly with a refusal.
func (r *reader) hashUnless(refusal galgo.Code) string {
	if refusal == galgo.CodeOK {
		return r.passwordHash()
	}
	if n := r.u16(); n != 0 {
		r.fail(ErrCorrupt, "%d bytes of a hash with a refusal", n)
	}
	return ""
}
