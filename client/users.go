package client

import (
	"context"

	"galgo"
	"galgo/internal/wire"
)

// User is who may sign in.
type User struct {
	ID        uint32
	Name      string
	CreatedAt uint64 // µs
	Status    galgo.UserStatus
}

// UserDetails is a user with what it may do; nil is nothing but to sign in.
type UserDetails struct {
	User
	Permissions *galgo.Permissions
}

// UserSpec is a user to be made.
type UserSpec struct {
	Name     string // 3..50 bytes
	Password string // 3..100 bytes
	Inactive bool   // may not sign in
	// Permissions are what it may do; nil is nothing but to sign in.
	Permissions *galgo.Permissions
}

// UserUpdate is what becomes of a user; what is zero stays as it is.
type UserUpdate struct {
	Name   string
	Status galgo.UserStatus
}

func userOf(u wire.UserInfo) User {
	return User{ID: u.ID, Name: u.Username, CreatedAt: u.CreatedAt, Status: u.Status}
}

func decodeUser(payload []byte) (UserDetails, error) {
	d, err := wire.DecodeUserDetails(payload)
	if err != nil {
		return UserDetails{}, err
	}
	return UserDetails{User: userOf(d.UserInfo), Permissions: d.Permissions}, nil
}

// Users lists all users by id.
func (c *Client) Users(ctx context.Context) ([]User, error) {
	return query(ctx, c, "list users", wire.CommandGetUsers, nil, func(payload []byte) ([]User, error) {
		infos, err := wire.DecodeUsers(payload)
		users := make([]User, len(infos))
		for i := range infos {
			users[i] = userOf(infos[i])
		}
		return users, err
	})
}

// User reads a user; everybody may read the own one. If there is none the error has
// CodeResourceNotFound.
func (c *Client) User(ctx context.Context, user galgo.Identifier) (UserDetails, error) {
	call := describe("get user", user)
	if err := checkTarget(call, user); err != nil {
		return UserDetails{}, err
	}
	return get(ctx, c, call, wire.CommandGetUser, wire.UserRequest{User: user}, galgo.CodeResourceNotFound, decodeUser)
}

// CreateUser makes a user. A name that is taken is CodeUserAlreadyExists.
func (c *Client) CreateUser(ctx context.Context, spec UserSpec) (UserDetails, error) {
	call := describe("create user", spec.Name)
	if err := checkAccount(call, spec.Name, spec.Password); err != nil {
		return UserDetails{}, err
	}
	status := galgo.UserActive
	if spec.Inactive {
		status = galgo.UserInactive
	}
	return query(ctx, c, call, wire.CommandCreateUser, wire.CreateUserRequest{
		Username: spec.Name, Password: spec.Password, Status: status, Permissions: spec.Permissions,
	}, decodeUser)
}

// UpdateUser renames a user, or changes whether it may sign in. Sessions that a user
// has stay when it becomes inactive.
func (c *Client) UpdateUser(ctx context.Context, user galgo.Identifier, update UserUpdate) error {
	call := describe("update user", user)
	if err := checkTarget(call, user); err != nil {
		return err
	}
	request := wire.UpdateUserRequest{User: user}
	if update.Name != "" {
		if err := wire.ValidateUsername(update.Name); err != nil {
			return &Error{Call: call, Err: err}
		}
		request.Username = &update.Name
	}
	if update.Status != 0 {
		request.Status = &update.Status
	}
	return c.change(ctx, call, wire.CommandUpdateUser, request)
}

// DeleteUser removes a user with its access tokens, and ends its sessions.
func (c *Client) DeleteUser(ctx context.Context, user galgo.Identifier) error {
	call := describe("delete user", user)
	if err := checkTarget(call, user); err != nil {
		return err
	}
	return c.change(ctx, call, wire.CommandDeleteUser, wire.UserRequest{User: user})
}

// ChangePassword replaces a password. It takes the user's present one, whoever asks;
// another than that is CodeInvalidCredentials.
func (c *Client) ChangePassword(ctx context.Context, user galgo.Identifier, current, replacement string) error {
	call := describe("change password of user", user)
	if err := checkTarget(call, user); err != nil {
		return err
	}
	for _, password := range []string{current, replacement} {
		if err := wire.ValidatePassword(password); err != nil {
			return &Error{Call: call, Err: err}
		}
	}
	return c.change(ctx, call, wire.CommandChangePassword, wire.ChangePasswordRequest{User: user, Current: current, New: replacement})
}

// UpdatePermissions replaces what a user may do; nil takes everything away. The change
// holds from the next request of each of its sessions on.
func (c *Client) UpdatePermissions(ctx context.Context, user galgo.Identifier, permissions *galgo.Permissions) error {
	call := describe("update permissions of user", user)
	if err := checkTarget(call, user); err != nil {
		return err
	}
	return c.change(ctx, call, wire.CommandUpdatePermissions, wire.UpdatePermissionsRequest{User: user, Permissions: permissions})
}

// checkAccount refuses names and passwords that nobody could sign in with.
func checkAccount(call, name, password string) error {
	err := wire.ValidateUsername(name)
	if err == nil {
		err = wire.ValidatePassword(password)
	}
	if err != nil {
		return &Error{Call: call, Err: err}
	}
	return nil
}
