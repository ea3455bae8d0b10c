package cli

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"galgo"
)

func contextCommand() *command {
	return &command{
		use: "context", aliases: []string{"ctx"}, short: "Servers with a name",
		subs: []*command{
			{
				use: "create NAME", aliases: []string{"c"}, short: "Remember where a server is and as whom to sign in", args: exactly(1), connects: true, plain: true,
				long: `Remember where a server is and as whom to sign in there, under a name. It is what the
flags of this command say. Passwords and tokens are kept as they are, in a file in
GALGO_HOME or ~/.galgo that only its owner can read.`,
				example: "  galgo context create prod -a broker.example.com:8090 -u ann\n  galgo context use prod",
				run:     contextCreate,
			},
			{use: "list", aliases: []string{"l"}, short: "List the contexts", args: exactly(0), run: contextList},
			{use: "use NAME", aliases: []string{"u"}, short: "Use a context, or none with default", args: exactly(1), plain: true, run: contextUse},
			{use: "show NAME", aliases: []string{"s"}, short: "Show a context, without its secrets", args: exactly(1), run: contextShow},
			{use: "delete NAME", aliases: []string{"d"}, short: "Forget a context", args: exactly(1), plain: true, run: contextDelete},
		},
	}
}

// noContext is the name of using none.
const noContext = "default"

func checkContextName(name string) error {
	odd := strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	})
	if name == "" || name == noContext || odd || len(name) > galgo.NameMax {
		return usagef("context %q: want a name of letters, digits, - and _ that is not %s", name, noContext)
	}
	return nil
}

var errNoContext = errors.New("there is no context of this name; galgo context list shows those there are")

func contextCreate(_ context.Context, e *env, args []string) error {
	if err := checkContextName(args[0]); err != nil {
		return err
	}
	g := &e.globals
	if g.token != "" && g.username != "" {
		return usagef("--token and --username exclude each other")
	}
	return e.changeProfile(func(p *profile) error {
		if _, taken := p.Contexts[args[0]]; taken {
			return usagef("context %q is there already; delete it first", args[0])
		}
		if p.Contexts == nil {
			p.Contexts = map[string]profileContext{}
		}
		p.Contexts[args[0]] = profileContext{e.flagAddress(), g.username, g.password, g.token}
		e.say("Context %s is made.", args[0])
		return nil
	})
}

func contextUse(_ context.Context, e *env, args []string) error {
	return e.changeProfile(func(p *profile) error {
		name := args[0]
		if name == noContext {
			p.Active = ""
		} else if _, ok := p.Contexts[name]; !ok {
			return errNoContext
		} else {
			p.Active = name
		}
		e.say("Context %s is in use.", name)
		return nil
	})
}

func contextDelete(_ context.Context, e *env, args []string) error {
	return e.changeProfile(func(p *profile) error {
		if _, ok := p.Contexts[args[0]]; !ok {
			return errNoContext
		}
		delete(p.Contexts, args[0])
		if p.Active == args[0] {
			p.Active = ""
		}
		e.say("Context %s is forgotten.", args[0])
		return nil
	})
}

// contextView is a context as it prints: that there is a secret, not which.
type contextView struct {
	Name     string `json:"name"`
	Active   bool   `json:"active"`
	Address  string `json:"address,omitempty"`
	Username string `json:"username,omitempty"`
	Password bool   `json:"password"`
	Token    bool   `json:"token"`
}

func (p *profile) view(name string) contextView {
	c := p.Contexts[name]
	return contextView{name, name == p.Active, c.Address, c.Username, c.Password != "", c.Token != ""}
}

func printContexts(e *env, v any, list ...contextView) error {
	t := table{{"Name", "Active", "Address", "Username", "Password", "Token"}}
	yes := func(b bool) string { return map[bool]string{true: "yes", false: "-"}[b] }
	for _, c := range list {
		t.add(c.Name, yes(c.Active), orElse(c.Address, "-"), orElse(c.Username, "-"), yes(c.Password), yes(c.Token))
	}
	return e.print(v, t)
}

func contextList(_ context.Context, e *env, _ []string) error {
	p, err := e.profile()
	if err != nil {
		return err
	}
	list := []contextView{}
	for _, name := range slices.Sorted(maps.Keys(p.Contexts)) {
		list = append(list, p.view(name))
	}
	return printContexts(e, list, list...)
}

func contextShow(_ context.Context, e *env, args []string) error {
	p, err := e.profile()
	if err != nil {
		return err
	}
	if _, ok := p.Contexts[args[0]]; !ok {
		return errNoContext
	}
	v := p.view(args[0])
	return printContexts(e, v, v)
}
