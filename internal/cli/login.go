package cli

import (
	"context"
	"time"

	"galgo"
	"galgo/client"
)

const (
	// sessionToken is the name of the token that a login makes.
	sessionToken = "galgo-cli-session"
	sessionLife  = 15 * time.Minute
)

func loginCommand() *command {
	return &command{
		use: "login [EXPIRY...]", aliases: []string{"li"}, short: "Stay signed in at a server for a while", args: atLeast(0), connects: true, plain: true,
		long: `Sign in, have the server make an access token, and remember it for the commands that
follow at this address: for 15 minutes, or EXPIRY. It is kept in GALGO_HOME or
~/.galgo, in a file that only its owner can read. Flags that say as whom to sign in
go before it.`,
		example: "  galgo login -u ann 8h\n  galgo stream list\n  galgo logout",
		run:     login,
	}
}

func logoutCommand() *command {
	return &command{
		use: "logout", aliases: []string{"lo"}, short: "Forget the login at a server, and delete its token", args: exactly(0), connects: true, plain: true,
		run: logout,
	}
}

func sessionCommand() *command {
	return &command{
		use: "session", aliases: []string{"sess"}, short: "The login that is remembered", connects: true,
		subs: []*command{{
			use: "status", aliases: []string{"s"}, short: "Say whether a login at the server is remembered", args: exactly(0), connects: true, run: sessionStatus,
		}},
	}
}

func login(ctx context.Context, e *env, args []string) error {
	life := sessionLife
	if len(args) > 0 {
		var err error
		if life, err = parseLife(args); err != nil {
			return err
		}
	}
	e.anew = true
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		var session profileSession
		if life > 0 {
			session.Expires = time.Now().Add(life).UTC()
		}
		var err error
		session.Token, err = c.CreateToken(ctx, sessionToken, life)
		if code, _ := galgo.CodeOf(err); code == galgo.CodePersonalAccessTokenAlreadyExists { // of another login
			if err = c.DeleteToken(ctx, sessionToken); err == nil {
				session.Token, err = c.CreateToken(ctx, sessionToken, life)
			}
		}
		if err != nil {
			return err
		}
		err = e.changeProfile(func(p *profile) error {
			if p.Sessions == nil {
				p.Sessions = map[string]profileSession{}
			}
			p.Sessions[e.serverAddress()] = session
			return nil
		})
		if err == nil {
			e.say("Signed in at %s%s.", e.serverAddress(), session.until())
		}
		return err
	})
}

func (s *profileSession) until() string {
	if s.Expires.IsZero() {
		return ""
	}
	return " until " + s.Expires.Format(time.RFC3339)
}

func logout(ctx context.Context, e *env, _ []string) error {
	p, err := e.profile()
	if err != nil {
		return err
	}
	session, ok := p.Sessions[e.serverAddress()]
	if !ok {
		e.say("No login at %s is remembered.", e.serverAddress())
		return nil
	}
	if session.holds(time.Now()) {
		err = e.withLogin(ctx, client.WithToken(session.Token), func(ctx context.Context, c *client.Client) error {
			return c.DeleteToken(ctx, sessionToken)
		})
		switch code, _ := galgo.CodeOf(err); code {
		case galgo.CodeInvalidPersonalAccessToken, galgo.CodeResourceNotFound, galgo.CodeUserInactive: // it is gone already
			err = nil
		}
	}
	if err != nil {
		return err
	}
	err = e.changeProfile(func(p *profile) error { delete(p.Sessions, e.serverAddress()); return nil })
	if err == nil {
		e.say("Signed out at %s.", e.serverAddress())
	}
	return err
}

func sessionStatus(_ context.Context, e *env, _ []string) error {
	p, err := e.profile()
	if err != nil {
		return err
	}
	session := p.Sessions[e.serverAddress()]
	v := struct {
		Server  string `json:"server"`
		Active  bool   `json:"active"`
		Expires string `json:"expires_at,omitempty"`
	}{Server: e.serverAddress(), Active: session.holds(time.Now())}
	state := "none"
	if v.Active {
		state = "active"
		if !session.Expires.IsZero() {
			v.Expires = session.Expires.Format(time.RFC3339)
		}
	}
	t := table{{"Server", "Session", "Expires"}}
	t.add(v.Server, state, orElse(v.Expires, "-"))
	return e.print(v, t)
}
