package cli

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"time"

	"galgo/client"
)

// Where servers are by default, over each transport.
const (
	defaultAddress          = "127.0.0.1:8090"
	defaultQUICAddress      = "127.0.0.1:8080"
	defaultWebSocketAddress = "127.0.0.1:8092"
)

// The documented credentials of a fresh server for development. They are tried
// where nothing else was given and the server is on this machine.
const (
	defaultUsername = "iggy"
	defaultPassword = "iggy"
)

// globals are the flags that are the same for all commands.
type globals struct {
	output   string
	quiet    bool
	address  string
	username string
	password string
	token    string
	timeout  time.Duration
	carrier  carrier
}

func (g *globals) outputFlags(fs *flagSet) {
	fs.StringVarP(&g.output, "output", "o", orElse(g.output, outputTable), "how to print data: table or json")
	fs.BoolVarP(&g.quiet, "quiet", "q", g.quiet, "say nothing on stderr but errors")
}

func (g *globals) connectFlags(fs *flagSet) {
	fs.StringVarP(&g.address, "tcp-server-address", "a", g.address, "host:port of the server (GALGO_ADDRESS; default "+defaultAddress+", or the transport's)")
	g.carrier.flags(fs)
	fs.StringVarP(&g.username, "username", "u", g.username, "user name (GALGO_USERNAME, IGGY_USERNAME)")
	fs.StringVarP(&g.password, "password", "p", g.password, "password (GALGO_PASSWORD, IGGY_PASSWORD); asked for if missing")
	fs.StringVarP(&g.token, "token", "t", g.token, "personal access token, instead of user name and password (GALGO_TOKEN)")
	fs.DurationVar(&g.timeout, "timeout", max(g.timeout, 30*time.Second), "how long to try before giving up")
}

// otherEnv names the variables that this package reads, so that the configuration
// of the server does not take them for its own.
var otherEnv = []string{"GALGO_HOME", "GALGO_ADDRESS", "GALGO_TRANSPORT", "GALGO_TLS", "GALGO_TLS_CA_FILE", "GALGO_TLS_DOMAIN", "GALGO_USERNAME", "GALGO_PASSWORD", "GALGO_TOKEN"}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (g *globals) check() error {
	switch {
	case g.output != "" && g.output != outputTable && g.output != outputJSON:
		return usagef("--output %s: want table or json", g.output)
	case g.timeout <= 0:
		return usagef("--timeout %v: want more than 0", g.timeout)
	}
	return nil
}

// serverAddress is where the server is, over the transport that was chosen.
func (e *env) serverAddress() string {
	t, _ := e.transport() // who connects sees the error
	return e.addressOf(t)
}

// connect dials the server and signs in.
func (e *env) connect(ctx context.Context, opts ...client.Option) (*client.Client, error) {
	login, err := e.login()
	if err != nil {
		return nil, err
	}
	return e.dial(ctx, append(opts, login)...)
}

func (e *env) dial(ctx context.Context, opts ...client.Option) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, e.globals.timeout)
	defer cancel()
	carried, err := e.carrierOptions()
	if err != nil {
		return nil, err
	}
	opts = append([]client.Option{
		client.WithName("galgo-cli", Version),
		client.WithConnectTimeout(e.globals.timeout),
		client.WithRetryBudget(e.globals.timeout),
	}, append(carried, opts...)...)
	return client.Dial(ctx, e.serverAddress(), opts...)
}

// with runs a command against a server, within the timeout.
func (e *env) with(ctx context.Context, do func(context.Context, *client.Client) error) (err error) {
	login, err := e.login()
	if err != nil {
		return err
	}
	return e.withLogin(ctx, login, do)
}

func (e *env) withLogin(ctx context.Context, login client.Option, do func(context.Context, *client.Client) error) (err error) {
	c, err := e.dial(ctx, login)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, e.globals.timeout)
	defer cancel()
	return do(ctx, c)
}

// login finds out as whom to sign in: by the flags, the login that is remembered, the
// context in use, the environment; at last by the defaults, on this machine only. Each
// may have a token, or a user name and a password.
func (e *env) login() (client.Option, error) {
	g := &e.globals
	p, err := e.profile()
	if err != nil {
		return nil, err
	}
	username, password, token := g.username, g.password, g.token
	if username == "" && token == "" {
		if session := p.Sessions[e.serverAddress()]; !e.anew && session.holds(time.Now()) {
			return client.WithToken(session.Token), nil
		}
		c := p.context()
		if at := e.flagAddress(); at != "" && at != c.Address {
			c = profileContext{} // its secrets are for its server
		}
		username, token, password = c.Username, c.Token, orElse(password, c.Password)
	}
	if username == "" && token == "" {
		username, token = orElse(e.getenv("GALGO_USERNAME"), e.getenv("IGGY_USERNAME")), e.getenv("GALGO_TOKEN")
	}
	password = orElse(password, orElse(e.getenv("GALGO_PASSWORD"), e.getenv("IGGY_PASSWORD")))
	switch {
	case token != "" && g.username != "":
		return nil, usagef("--token and --username exclude each other")
	case token != "":
		return client.WithToken(token), nil
	case username == "" && password == "" && isLoopback(e.serverAddress()):
		return client.WithPassword(defaultUsername, defaultPassword), nil
	case username == "":
		return nil, usagef("no user name: give --username, or set GALGO_USERNAME")
	case password == "":
		if password, err = e.askPassword(username); err != nil {
			return nil, err
		}
	}
	return client.WithPassword(username, password), nil
}

func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// askPassword reads a password from the terminal.
func (e *env) askPassword(username string) (string, error) {
	if f, ok := e.program.Stdin.(*os.File); !ok || !isTerminal(f) {
		return "", usagef("no password for %s: give --password, or set GALGO_PASSWORD", username)
	}
	return e.ask("Password for " + username)
}

// ask reads a secret from the terminal, without showing it.
func (e *env) ask(prompt string) (string, error) {
	f, ok := e.program.Stdin.(*os.File)
	if !ok || !isTerminal(f) {
		return "", usagef("%s: give it as an argument, there is no terminal to ask at", prompt)
	}
	e.saySame("%s: ", prompt)
	restore, err := hideInput(f)
	if err != nil {
		return "", err
	}
	defer func() { restore(); e.say("") }()
	return readPassword(f)
}

const passwordInputMax = 1024

func readPassword(f *os.File) (string, error) {
	b := make([]byte, passwordInputMax)
	n, err := f.Read(b) // a terminal hands over whole lines
	if err != nil {
		return "", err
	}
	return strings.TrimRight(string(b[:n]), "\r\n"), nil
}
