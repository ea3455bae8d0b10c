package client

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"galgo"
	"galgo/client/clienttest"
	"galgo/internal/wire"
)

var ann = galgo.NamedID("ann")

func userReply(name string, p *galgo.Permissions) []byte {
	return wire.UserDetails{UserInfo: wire.UserInfo{ID: 3, CreatedAt: 7, Status: galgo.UserActive, Username: name}, Permissions: p}.Append(nil)
}

func TestUsers(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		ctx := t.Context()
		rights := &galgo.Permissions{Global: galgo.GlobalPermissions{ReadStreams: true}}
		for _, command := range []wire.Command{wire.CommandGetUser, wire.CommandCreateUser} {
			s.Script(command, clienttest.OK(userReply("ann", rights)))
		}
		want := User{ID: 3, Name: "ann", CreatedAt: 7, Status: galgo.UserActive}
		if u, err := c.User(ctx, ann); err != nil || u.User != want || !u.Permissions.Global.ReadStreams {
			t.Errorf("user %+v, %v", u, err)
		}
		if u, err := c.CreateUser(ctx, UserSpec{Name: "ann", Password: "secret", Inactive: true, Permissions: rights}); err != nil || u.User != want {
			t.Errorf("created %+v, %v", u, err)
		}
		sent, err := wire.DecodeCreateUserRequest(s.Requests(wire.CommandCreateUser)[0].Body)
		if err != nil || sent.Username != "ann" || sent.Password != "secret" || sent.Status != galgo.UserInactive || !sent.Permissions.Global.ReadStreams {
			t.Errorf("sent %+v, %v", sent, err)
		}
		s.Script(wire.CommandGetUsers, clienttest.OK(wire.AppendUsers(nil, []wire.UserInfo{{ID: 0, Username: "iggy"}, {ID: 3, Username: "ann"}})))
		if list, err := c.Users(ctx); err != nil || len(list) != 2 || list[1].Name != "ann" {
			t.Errorf("users %+v, %v", list, err)
		}
		s.Script(wire.CommandGetUser, clienttest.OK(nil))
		_, err = c.User(ctx, ann)
		wantCode(t, err, galgo.CodeResourceNotFound, NotApplied)
	})
}

func TestUserChanges(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		for command, call := range map[wire.Command]func(ctx context.Context) error{
			wire.CommandUpdateUser: func(ctx context.Context) error {
				return c.UpdateUser(ctx, ann, UserUpdate{Name: "eve", Status: galgo.UserInactive})
			},
			wire.CommandDeleteUser:        func(ctx context.Context) error { return c.DeleteUser(ctx, ann) },
			wire.CommandChangePassword:    func(ctx context.Context) error { return c.ChangePassword(ctx, ann, "secret", "better") },
			wire.CommandUpdatePermissions: func(ctx context.Context) error { return c.UpdatePermissions(ctx, ann, nil) },
			wire.CommandDeleteToken:       func(ctx context.Context) error { return c.DeleteToken(ctx, "ci") },
		} {
			s.Script(command, clienttest.OK(nil), clienttest.Reject(galgo.CodeUnauthorized))
			if err := call(t.Context()); err != nil {
				t.Errorf("%v: %v", command, err)
			}
			wantCode(t, call(t.Context()), galgo.CodeUnauthorized, NotApplied)
		}
		update, err := wire.DecodeUpdateUserRequest(s.Requests(wire.CommandUpdateUser)[0].Body)
		if err != nil || *update.Username != "eve" || *update.Status != galgo.UserInactive {
			t.Errorf("sent %+v, %v", update, err)
		}
	})
}

func TestAccountsThatCannotBe(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		ctx, long := t.Context(), strings.Repeat("x", 101)
		create := func(name, password string) error {
			_, err := c.CreateUser(ctx, UserSpec{Name: name, Password: password})
			return err
		}
		wantCode(t, create("ab", "secret"), galgo.CodeInvalidUsername, NotApplied)
		wantCode(t, create("ann", "pw"), galgo.CodeInvalidPassword, NotApplied)
		wantCode(t, create("ann", long), galgo.CodeInvalidPassword, NotApplied)
		wantCode(t, c.UpdateUser(ctx, ann, UserUpdate{Name: "ab"}), galgo.CodeInvalidUsername, NotApplied)
		wantCode(t, c.ChangePassword(ctx, ann, "secret", "pw"), galgo.CodeInvalidPassword, NotApplied)
		_, err := c.CreateToken(ctx, "ci", -1)
		wantCode(t, err, galgo.CodeInvalidPersonalAccessTokenExpiry, NotApplied)
	})
}

func TestTokens(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		ctx := t.Context()
		s.Script(wire.CommandCreateToken, clienttest.OK(wire.CreatedToken{Token: "raw"}.Append(nil)))
		for _, life := range []time.Duration{0, 1, time.Hour} {
			if token, err := c.CreateToken(ctx, "ci", life); err != nil || token != "raw" {
				t.Errorf("token %q, %v", token, err)
			}
		}
		var sent []uint64
		for _, r := range s.Requests(wire.CommandCreateToken) {
			m, err := wire.DecodeCreateTokenRequest(r.Body)
			if err != nil || m.Name != "ci" {
				t.Errorf("sent %+v, %v", m, err)
			}
			sent = append(sent, m.Expiry)
		}
		if want := []uint64{0, 1, 3_600_000_000}; !slices.Equal(sent, want) {
			t.Errorf("lives of %v µs, want %v", sent, want)
		}
		s.Script(wire.CommandGetTokens, clienttest.OK(wire.AppendTokens(nil, []wire.TokenInfo{{Name: "a"}, {Name: "ci", ExpiresAt: 9}})))
		if list, err := c.Tokens(ctx); err != nil || !slices.Equal(list, []Token{{Name: "a"}, {Name: "ci", ExpiresAt: 9}}) {
			t.Errorf("tokens %+v, %v", list, err)
		}
	})
}

// A token whose answer was lost is there, and nobody knows it.
func TestLostTokens(t *testing.T) {
	taken := clienttest.Reject(galgo.CodePersonalAccessTokenAlreadyExists)
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Script(wire.CommandCreateToken, clienttest.HangUp(), taken)
		_, err := c.CreateToken(t.Context(), "ci", 0)
		wantCode(t, err, galgo.CodePersonalAccessTokenAlreadyExists, Unknown)
		s.Script(wire.CommandCreateToken, taken)
		_, err = c.CreateToken(t.Context(), "ci", 0)
		wantCode(t, err, galgo.CodePersonalAccessTokenAlreadyExists, NotApplied)
	})
}
