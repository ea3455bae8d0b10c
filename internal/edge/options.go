package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// Defaults of Options.
const (
	DefaultConnections     = 4096
	DefaultByteBudget      = 512 << 20
	DefaultInflightSends   = 256
	DefaultInflightBytes   = 128 << 20
	DefaultReplyQueueBytes = 1 << 20
	DefaultReplyTimeout    = 25 * time.Second
	DefaultFrameTimeout    = 30 * time.Second
	DefaultWriteTimeout    = 30 * time.Second
	DefaultStopGrace       = 2 * time.Second

	DefaultHandshakeTimeout = 10 * time.Second
)

// Fixed bounds of the edge.
const (
	// readBufferSize holds a header and the body of most requests, so that they
	// take one read. Larger bodies are read straight into their own buffer.
	readBufferSize = 4 << 10
	// localBodyMax is more than the fields of any command that is not replicated.
	localBodyMax = 2 << 10
	// unboundFrameMax bounds the frames that a connection without a session can
	// make the server keep, and sign-ins and sign-outs of one that has. The body of a
	// longer one is read and thrown away: none needs more.
	unboundFrameMax = 16 << 10
	// metadataBodyMax is more than the fields of any request of the metadata group: the
	// permissions of a user, or the options of a topic.
	metadataBodyMax = wire.PermissionsMax + wire.OptionsBytesMax + 1<<10
	// slowestRate is the bytes per second that a peer must take or give while a
	// frame is under way; longer frames have that much longer than the timeout.
	slowestRate = 1 << 20
	// openSendsMax bounds the sends of a connection whose outcome a client was
	// told to be open, and which it may therefore send again.
	openSendsMax = 64
	// detachInflightMax and detachPendingMax bound the detaching of sessions whose
	// connection was lost.
	detachInflightMax = 16
	detachPendingMax  = 1 << 16
	detachRetry       = 50 * time.Millisecond
	// acceptRetryMin and acceptRetryMax bound the pause after a failed accept.
	acceptRetryMin = 5 * time.Millisecond
	acceptRetryMax = time.Second
)

// Passwords hashes and checks passwords in bounded number: *auth.Hasher. All functions
// cost the same, and fail only if there is no room or the context ends, but for
// auth.ErrFormat.
type Passwords interface {
	Hash(ctx context.Context, password []byte) (string, error)
	Verify(ctx context.Context, hash string, password []byte) (bool, error)
	VerifyNothing(ctx context.Context, password []byte) error
}

// Options bound and describe the client edge. Hasher is required, all else has a
// default.
type Options struct {
	// Hasher hashes and checks passwords.
	Hasher Passwords
	// Logger gets the events of the edge; nil: slog.Default.
	Logger *slog.Logger
	// Diagnostics answers the snapshot command; nil: it is refused.
	Diagnostics Diagnostics
	// Version is what clients are told of the server at sign-in, 1..255 bytes; empty: "galgo".
	Version string

	// Connections that may be open at a time; another one is closed at once. 0: 4096.
	Connections int
	// FrameMax is the largest frame in bytes, both ways, header included. 0: 64 MiB.
	FrameMax uint32
	// ByteBudget bounds the bytes of requests and of polled messages that the edge
	// holds over all connections. When it is spent the edge stops reading. At least
	// FrameMax. 0: 512 MiB.
	ByteBudget int64
	// InflightSends and InflightBytes bound the sends and offset writes of one
	// connection that wait for their answer. A single one may exceed
	// InflightBytes. 0: 256, 128 MiB.
	InflightSends int
	InflightBytes int64
	// ReplyQueueBytes of answers may wait for a slow reader before the edge stops
	// reading from its connection. 0: 1 MiB.
	ReplyQueueBytes int

	// LoginsUnslowed lets sources whose passwords keep being refused go on at full speed.
	LoginsUnslowed bool

	// ReplyTimeout is how long a request may wait for the node before the client is
	// told that its outcome is open. Below the 30 s that clients wait. 0: 25 s.
	ReplyTimeout time.Duration
	// FrameTimeout and WriteTimeout are how long a frame that has begun may take to
	// arrive, and answers to be taken, beyond what 1 MiB/s needs. 0: 30 s.
	FrameTimeout time.Duration
	WriteTimeout time.Duration
	// HandshakeTimeout is how long a peer may take for what its transport begins with,
	// as TLS or the upgrade to WebSocket. 0: 10 s.
	HandshakeTimeout time.Duration
	// Home is what the log knows of where sessions are whose connections are here.
	Home metadata.Home
	// HeartbeatInterval is how often it is looked whether members of consumer groups have
	// fallen silent, which is for 1.2 times as long. 0: never.
	HeartbeatInterval time.Duration
	// StopGrace is how long a stopping server waits until the node knows of the
	// sessions whose connections it closed. 0: 2 s.
	StopGrace time.Duration
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Version == "" {
		o.Version = "galgo"
	}
	setDefault(&o.Connections, DefaultConnections)
	setDefault(&o.FrameMax, wire.FrameSizeMax)
	setDefault(&o.ByteBudget, DefaultByteBudget)
	setDefault(&o.InflightSends, DefaultInflightSends)
	setDefault(&o.InflightBytes, DefaultInflightBytes)
	setDefault(&o.ReplyQueueBytes, DefaultReplyQueueBytes)
	setDefault(&o.ReplyTimeout, DefaultReplyTimeout)
	setDefault(&o.FrameTimeout, DefaultFrameTimeout)
	setDefault(&o.WriteTimeout, DefaultWriteTimeout)
	setDefault(&o.StopGrace, DefaultStopGrace)
	setDefault(&o.HandshakeTimeout, DefaultHandshakeTimeout)
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate returns all that is wrong with the options, each with its field.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("edge: "+format, args...))
		}
	}
	check(o.Hasher != nil, "Hasher is missing")
	check(len(o.Version) <= 255, "Version has %d bytes, want at most 255", len(o.Version))
	check(o.Connections > 0, "Connections is %d, want above 0", o.Connections)
	check(o.FrameMax >= 1<<12, "FrameMax is %d, want at least 4096", o.FrameMax)
	check(o.ByteBudget >= int64(o.FrameMax), "ByteBudget is %d, want at least FrameMax %d", o.ByteBudget, o.FrameMax)
	check(o.InflightSends > 0, "InflightSends is %d, want above 0", o.InflightSends)
	check(o.InflightBytes > 0, "InflightBytes is %d, want above 0", o.InflightBytes)
	check(o.ReplyQueueBytes > 0, "ReplyQueueBytes is %d, want above 0", o.ReplyQueueBytes)
	check(o.ReplyTimeout > 0, "ReplyTimeout is %v, want above 0", o.ReplyTimeout)
	check(o.FrameTimeout > 0, "FrameTimeout is %v, want above 0", o.FrameTimeout)
	check(o.WriteTimeout > 0, "WriteTimeout is %v, want above 0", o.WriteTimeout)
	check(o.HandshakeTimeout > 0, "HandshakeTimeout is %v, want above 0", o.HandshakeTimeout)
	check(o.HeartbeatInterval >= 0, "HeartbeatInterval is %v, want 0 or above", o.HeartbeatInterval)
	check(o.StopGrace > 0, "StopGrace is %v, want above 0", o.StopGrace)
	return errors.Join(errs...)
}

// allowance is how long n bytes may take.
func allowance(timeout time.Duration, n int64) time.Duration {
	return timeout + time.Duration(n)*time.Second/slowestRate
}
