package client

import (
	"context"
	"time"

	"galgo"
	"galgo/internal/wire"
)

// Token is a personal access token of the user of this client, as it is listed: what
// signs in was told once, when it was made.
type Token struct {
	Name      string
	ExpiresAt uint64 // µs; 0: never
}

// Tokens lists the access tokens of the user of this client by name. Those that have
// expired are among them until the server has removed them.
func (c *Client) Tokens(ctx context.Context) ([]Token, error) {
	return query(ctx, c, "list tokens", wire.CommandGetTokens, nil, func(payload []byte) ([]Token, error) {
		infos, err := wire.DecodeTokens(payload)
		tokens := make([]Token, len(infos))
		for i, t := range infos {
			tokens[i] = Token{Name: t.Name, ExpiresAt: t.ExpiresAt}
		}
		return tokens, err
	})
}

// CreateToken makes an access token that holds for so long, for ever if that is 0, and
// returns it: nobody can show it again. A name that is taken is
// CodePersonalAccessTokenAlreadyExists; so is a token whose answer was lost with a
// connection, with an outcome that is not NotApplied: delete it and make another.
func (c *Client) CreateToken(ctx context.Context, name string, life time.Duration) (token string, err error) {
	call := describe("create token", name)
	if err := checkName(call, name); err != nil {
		return "", err
	}
	if life < 0 {
		return "", &Error{Call: call, Err: galgo.Errorf(galgo.CodeInvalidPersonalAccessTokenExpiry, "a token cannot hold for %v", life)}
	}
	k := c.newCall(call, wire.CommandCreateToken, wire.CreateTokenRequest{Name: name, Expiry: lifeOf(life)})
	a, err := c.do(ctx, k)
	if refused(err, galgo.CodePersonalAccessTokenAlreadyExists) && k.doubtful {
		return "", &Error{Call: call, Outcome: Unknown, Err: err}
	}
	if err != nil {
		return "", err
	}
	created, err := wire.DecodeCreatedToken(a.payload)
	if err != nil {
		return "", undecodable(call, wire.CommandCreateToken, err)
	}
	return created.Token, nil
}

// lifeOf is a duration in µs, rounded up: 0 is for ever.
func lifeOf(d time.Duration) uint64 {
	return uint64((d + time.Microsecond - 1) / time.Microsecond)
}

// DeleteToken removes an access token of the user of this client. If there is none the
// error has CodeResourceNotFound.
func (c *Client) DeleteToken(ctx context.Context, name string) error {
	call := describe("delete token", name)
	if err := checkName(call, name); err != nil {
		return err
	}
	return c.change(ctx, call, wire.CommandDeleteToken, wire.DeleteTokenRequest{Name: name})
}
