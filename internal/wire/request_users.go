package wire

import "galgo"

// UserRequest names a user: get user and delete user. [ident user]
type UserRequest struct{ User galgo.Identifier }

// Append appends the body of the request.
func (r UserRequest) Append(b []byte) []byte { return appendIdentifier(b, r.User) }

// DecodeUserRequest reads the body.
func DecodeUserRequest(body []byte) (UserRequest, error) {
	c := read("user", body)
	r := UserRequest{User: c.identifier("user")}
	if c.err != nil {
		return UserRequest{}, c.err
	}
	return r, nil
}

// CreateUserRequest makes a user: [name][u8 length, password][u8 status]
// [u8 has permissions, u32 length, permissions][options].
type CreateUserRequest struct {
	Username    string
	Password    string           // 0..255 bytes on the wire; never logged
	Status      galgo.UserStatus // any byte is taken; what is not known means active
	Permissions *galgo.Permissions
	Options     Options
}

// Append appends the body of the request.
func (r CreateUserRequest) Append(b []byte) []byte {
	b = appendBytes8(b, r.Username)
	b = appendBytes8(b, r.Password)
	b = append(b, byte(r.Status))
	b = appendFlaggedPermissions(b, r.Permissions)
	return append(b, r.Options...)
}

// DecodeCreateUserRequest reads the body.
func DecodeCreateUserRequest(body []byte) (CreateUserRequest, error) {
	c := read("create user", body)
	r := CreateUserRequest{
		Username:    c.name("username"),
		Password:    c.string8("password"),
		Status:      galgo.UserStatus(c.u8("status")),
		Permissions: c.flaggedPermissions(),
		Options:     c.options(),
	}
	if c.err != nil {
		return CreateUserRequest{}, c.err
	}
	return r, nil
}

// UpdateUserRequest changes a user: [ident user][u8 has name, name]
// [u8 has status, u8 status][options]. Nil leaves a thing as it is.
type UpdateUserRequest struct {
	User     galgo.Identifier
	Username *string
	Status   *galgo.UserStatus
	Options  Options
}

// Append appends the body of the request.
func (r UpdateUserRequest) Append(b []byte) []byte {
	b = appendIdentifier(b, r.User)
	b = appendBool(b, r.Username != nil)
	if r.Username != nil {
		b = appendBytes8(b, *r.Username)
	}
	b = appendBool(b, r.Status != nil)
	if r.Status != nil {
		b = append(b, byte(*r.Status))
	}
	return append(b, r.Options...)
}

// DecodeUpdateUserRequest reads the body. A flag other than 1 is absence.
func DecodeUpdateUserRequest(body []byte) (UpdateUserRequest, error) {
	c := read("update user", body)
	r := UpdateUserRequest{User: c.identifier("user")}
	if c.u8("name flag") == 1 {
		name := c.name("username")
		r.Username = &name
	}
	if c.u8("status flag") == 1 {
		status := galgo.UserStatus(c.u8("status"))
		r.Status = &status
	}
	r.Options = c.options()
	if c.err != nil {
		return UpdateUserRequest{}, c.err
	}
	return r, nil
}

// UpdatePermissionsRequest replaces what a user may do: [ident user]
// [u8 has permissions, u32 length, permissions]. Nil takes every right away.
type UpdatePermissionsRequest struct {
	User        galgo.Identifier
	Permissions *galgo.Permissions
}

// Append appends the body of the request.
func (r UpdatePermissionsRequest) Append(b []byte) []byte {
	return appendFlaggedPermissions(appendIdentifier(b, r.User), r.Permissions)
}

// DecodeUpdatePermissionsRequest reads the body.
func DecodeUpdatePermissionsRequest(body []byte) (UpdatePermissionsRequest, error) {
	c := read("update permissions", body)
	r := UpdatePermissionsRequest{User: c.identifier("user"), Permissions: c.flaggedPermissions()}
	if c.err != nil {
		return UpdatePermissionsRequest{}, c.err
	}
	return r, nil
}

// ChangePasswordRequest replaces a password: [ident user][u8 length, current]
// [u8 length, new]. Neither is logged.
type ChangePasswordRequest struct {
	User    galgo.Identifier
	Current string
	New     string
}

// Append appends the body of the request.
func (r ChangePasswordRequest) Append(b []byte) []byte {
	b = appendIdentifier(b, r.User)
	b = appendBytes8(b, r.Current)
	return appendBytes8(b, r.New)
}

// DecodeChangePasswordRequest reads the body.
func DecodeChangePasswordRequest(body []byte) (ChangePasswordRequest, error) {
	c := read("change password", body)
	r := ChangePasswordRequest{
		User:    c.identifier("user"),
		Current: c.string8("current password"),
		New:     c.string8("new password"),
	}
	if c.err != nil {
		return ChangePasswordRequest{}, c.err
	}
	return r, nil
}

// CreateTokenRequest makes a personal access token of the caller: [name]
// [u64 expiry], in µs from now; 0 and galgo.Never mean that it does not expire.
type CreateTokenRequest struct {
	Name   string
	Expiry uint64
}

// Append appends the body of the request.
func (r CreateTokenRequest) Append(b []byte) []byte {
	return le.AppendUint64(appendBytes8(b, r.Name), r.Expiry)
}

// DecodeCreateTokenRequest reads the body.
func DecodeCreateTokenRequest(body []byte) (CreateTokenRequest, error) {
	c := read("create token", body)
	r := CreateTokenRequest{Name: c.name("name"), Expiry: c.u64("expiry")}
	if c.err != nil {
		return CreateTokenRequest{}, c.err
	}
	return r, nil
}

// DeleteTokenRequest removes a token of the caller: [name].
type DeleteTokenRequest struct{ Name string }

// Append appends the body of the request.
func (r DeleteTokenRequest) Append(b []byte) []byte { return appendBytes8(b, r.Name) }

// DecodeDeleteTokenRequest reads the body.
func DecodeDeleteTokenRequest(body []byte) (DeleteTokenRequest, error) {
	c := read("delete token", body)
	r := DeleteTokenRequest{Name: c.name("name")}
	return r, c.err
}
