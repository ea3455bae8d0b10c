package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"galgo"
	"galgo/internal/transport"
	"galgo/internal/wire"
)

// Bounds of what the options take.
const (
	// InFlightMax bounds WithMaxInFlight.
	InFlightMax = 1024

	connectTimeoutDefault = 10 * time.Second
	answerTimeoutDefault  = 30 * time.Second
	retryBudgetDefault    = 30 * time.Second
	heartbeatDefault      = 5 * time.Second
	inFlightDefault       = 64
	closeTimeout          = 2 * time.Second
)

// Dialer opens a connection to an address: a stream of bytes, both ways.
type Dialer func(ctx context.Context, addr string) (net.Conn, error)

// Transport is what a client connects over.
type Transport uint8

// The transports.
const (
	TCP Transport = iota
	QUIC
	WebSocket
)

type options struct {
	addresses      []string
	username       string
	password       string
	token          string
	dial           Dialer // nil: over transport
	transport      Transport
	secure         *tls.Config // nil: without TLS, which QUIC never is
	connectTimeout time.Duration
	answerTimeout  time.Duration
	retryBudget    time.Duration
	heartbeat      time.Duration
	inFlight       int
	frameMax       uint32
	name, version  string
}

// Option changes how a Client works. Of options that set the same thing the last
// one counts.
type Option func(*options)

// WithPassword signs in with a user name (3..50 bytes) and a password (3..100
// bytes). It replaces WithToken. Without either the client does not sign in, and
// Ping is all that a server answers.
func WithPassword(username, password string) Option {
	return func(o *options) { o.username, o.password, o.token = username, password, "" }
}

// WithToken signs in with a personal access token. It replaces WithPassword.
func WithToken(token string) Option {
	return func(o *options) { o.token, o.username, o.password = token, "", "" }
}

// WithAddresses adds servers of the same cluster. A connection that breaks is
// dialled again at the next address of the list, in turn.
func WithAddresses(addrs ...string) Option {
	return func(o *options) { o.addresses = append(o.addresses, addrs...) }
}

// WithDialer connects by a function of the caller's. It replaces WithTransport and
// WithTLS.
func WithDialer(dial Dialer) Option { return func(o *options) { o.dial = dial } }

// WithTransport sets what to connect over; the default is TCP. Each transport has an
// address of its own at the server. It replaces WithDialer.
func WithTransport(t Transport) Option {
	return func(o *options) { o.transport, o.dial = t, nil }
}

// WithTLS connects under TLS, and checks the server's certificate as the configuration
// says; QUIC does so also without this option. A configuration without a ServerName
// takes the host of the address. It replaces WithDialer.
func WithTLS(config *tls.Config) Option {
	return func(o *options) {
		o.secure, o.dial = config.Clone(), nil
		if config == nil {
			o.secure = new(tls.Config)
		}
	}
}

// WithConnectTimeout bounds one attempt to connect and sign in; the default is 10 s.
func WithConnectTimeout(d time.Duration) Option { return func(o *options) { o.connectTimeout = d } }

// WithAnswerTimeout sets how long a connection may leave a request without an
// answer before it counts as dead and is replaced; the default is 30 s.
func WithAnswerTimeout(d time.Duration) Option { return func(o *options) { o.answerTimeout = d } }

// WithRetryBudget bounds the time a call spends from its start until it gives up
// repeating itself; the default is 30 s. The context of the call may end it sooner.
func WithRetryBudget(d time.Duration) Option { return func(o *options) { o.retryBudget = d } }

// WithHeartbeat sets after how much silence a ping is sent; the default is 5 s,
// and 0 sends none.
func WithHeartbeat(d time.Duration) Option { return func(o *options) { o.heartbeat = d } }

// WithMaxInFlight bounds the calls that wait for an answer, 1..InFlightMax; the
// default is 64. Calls beyond it wait for their turn. Of sends at most
// SendsInFlightMax wait.
func WithMaxInFlight(n int) Option { return func(o *options) { o.inFlight = n } }

// WithFrameMax bounds a frame in bytes, in both directions; the default is 64 MiB,
// which is what servers take.
func WithFrameMax(n uint32) Option { return func(o *options) { o.frameMax = n } }

// WithName sets what the client calls itself and its version when it signs in;
// each has 1..255 bytes. The default is galgo-go.
func WithName(name, version string) Option {
	return func(o *options) { o.name, o.version = name, version }
}

func newOptions(addr string, opts []Option) (options, error) {
	o := options{
		addresses:      []string{addr},
		connectTimeout: connectTimeoutDefault,
		answerTimeout:  answerTimeoutDefault,
		retryBudget:    retryBudgetDefault,
		heartbeat:      heartbeatDefault,
		inFlight:       inFlightDefault,
		frameMax:       wire.FrameSizeMax,
		name:           "galgo-go",
		version:        "0.1.0",
	}
	for _, opt := range opts {
		opt(&o)
	}
	return o, o.validate()
}

func (o *options) validate() error {
	switch {
	case o.inFlight < 1 || o.inFlight > InFlightMax:
		return badOption("max in flight is %d, want 1..%d", o.inFlight, InFlightMax)
	case o.connectTimeout <= 0 || o.answerTimeout <= 0 || o.retryBudget <= 0:
		return badOption("timeouts and the retry budget must be above 0")
	case o.heartbeat < 0:
		return badOption("heartbeat is %v, want 0 (none) or more", o.heartbeat)
	case o.transport > WebSocket:
		return badOption("transport %d is none", o.transport)
	case o.frameMax < wire.HeaderSize:
		return badOption("frame limit is %d bytes, want at least %d", o.frameMax, wire.HeaderSize)
	}
	return o.validateLogin()
}

func (o *options) validateLogin() error {
	for _, s := range []string{o.name, o.version} {
		if err := galgo.ValidateName(s); err != nil {
			return badOption("client name or version: %v", err)
		}
	}
	switch {
	case o.token != "":
		if err := galgo.ValidateName(o.token); err != nil {
			return badOption("token: %v", err)
		}
	case o.username != "" || o.password != "":
		if n := len(o.username); n < galgo.UsernameMin || n > galgo.UsernameMax {
			return badOption("user name has %d bytes, want %d..%d", n, galgo.UsernameMin, galgo.UsernameMax)
		}
		if n := len(o.password); n < galgo.PasswordMin || n > galgo.PasswordMax {
			return badOption("password has %d bytes, want %d..%d", n, galgo.PasswordMin, galgo.PasswordMax)
		}
	}
	return nil
}

// signsIn reports whether there is anything to sign in with.
func (o *options) signsIn() bool { return o.username != "" || o.token != "" }

func badOption(format string, args ...any) error {
	return &galgo.Error{Code: galgo.CodeInvalidConfiguration, Detail: "client: " + fmt.Sprintf(format, args...)}
}

// connect opens a connection to an address.
func (o *options) connect(ctx context.Context, addr string) (transport.Conn, error) {
	switch {
	case o.dial != nil:
		conn, err := o.dial(ctx, addr)
		if err != nil {
			return nil, err
		}
		return transport.OverStream(conn), nil
	case o.transport == QUIC:
		return transport.DialQUIC(ctx, addr, o.secure)
	case o.transport == WebSocket:
		return transport.DialWebSocket(ctx, addr, o.secure, int64(o.frameMax))
	}
	return transport.DialTCP(ctx, addr, o.secure)
}
