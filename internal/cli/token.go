package cli

import (
	"context"
	"strings"
	"time"

	"galgo"
	"galgo/client"
	"galgo/internal/config"
)

func tokenCommand() *command {
	return &command{
		use: "pat", short: "Personal access tokens of the user who signs in", connects: true,
		subs: []*command{
			{
				use: "create NAME [EXPIRY...]", aliases: []string{"c"}, short: "Create a token and print it", args: atLeast(1), connects: true,
				long:    "Create a token and print it, this once: the server keeps a hash of it and cannot show\nit again. Without EXPIRY it holds until it is deleted.",
				example: "  galgo pat create ci 30 days > token\n  galgo --token \"$(cat token)\" stream list",
				run:     tokenCreate,
			},
			{use: "list", aliases: []string{"l"}, short: "List the tokens", args: exactly(0), connects: true, run: tokenList},
			{use: "delete NAME...", aliases: []string{"d"}, short: "Delete tokens", args: atLeast(1), connects: true, run: tokenDelete},
		},
	}
}

// parseLife reads how long a token holds; 0 is for ever.
func parseLife(words []string) (time.Duration, error) {
	if len(words) == 0 {
		return 0, nil
	}
	text := strings.Join(words, " ")
	life, err := config.ParseExpiry(text)
	switch {
	case err != nil:
		return 0, usagef("EXPIRY %q: %v", text, err)
	case life == galgo.Never:
		return 0, nil
	}
	return time.Duration(life) * time.Microsecond, nil
}

func tokenCreate(ctx context.Context, e *env, args []string) error {
	life, err := parseLife(args[1:])
	if err != nil {
		return err
	}
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		token, err := c.CreateToken(ctx, args[0], life)
		if err != nil {
			return err
		}
		e.say("Token %s is made. It is not shown again.", args[0])
		return e.print(struct {
			Name  string `json:"name"`
			Token string `json:"token"`
		}{args[0], token}, table{{token}})
	})
}

type tokenView struct {
	Name    string `json:"name"`
	Expires string `json:"expires_at"`
}

func tokenList(ctx context.Context, e *env, _ []string) error {
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		tokens, err := c.Tokens(ctx)
		if err != nil {
			return err
		}
		all, t := []tokenView{}, table{{"Name", "Token Expiry Time"}}
		for _, token := range tokens {
			v := tokenView{token.Name, "never"}
			if token.ExpiresAt != 0 {
				v.Expires = timeOf(token.ExpiresAt)
			}
			all = append(all, v)
			t.add(v.Name, v.Expires)
		}
		return e.print(all, t)
	})
}

func tokenDelete(ctx context.Context, e *env, args []string) error {
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		for _, name := range args {
			if err := c.DeleteToken(ctx, name); err != nil {
				return err
			}
			e.say("Token %s is deleted.", name)
		}
		return nil
	})
}
