package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"galgo"
	"galgo/internal/transport"
	"galgo/internal/wire"
)

const (
	readBufferSize = 64 << 10
	// loginRetryDelay is how long a sign-in that a server could not take yet waits
	// before it is sent again (wire.md §3.5).
	loginRetryDelay = 50 * time.Millisecond
)

// link is one connection, signed in. The reader and the writer work on it at the
// same time; nobody else does.
type link struct {
	conn    transport.Conn
	in      *bufio.Reader
	addr    string
	session uint64 // 0 without a sign-in
	// incarnation is the same for all sessions that a server continues, and differs
	// when it had to start a new entry for this client; 0 when it does not tell.
	incarnation uint64
	header      [wire.HeaderSize]byte // scratch of the reader
	arrival     arrival
}

// arrival is how reading a frame goes. Large ones take long on slow networks, which
// is no silence.
type arrival struct {
	inFrame atomic.Bool  // between a header and the end of its body
	last    atomic.Int64 // when bytes came last, ns since the epoch
}

// since reports whether bytes of a frame have come since then.
func (a *arrival) since(then time.Time) bool {
	return a.inFrame.Load() && a.last.Load() > then.UnixNano()
}

// arrivals notes when bytes come.
type arrivals struct {
	net.Conn
	note *arrival
}

func (r arrivals) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.note.last.Store(time.Now().UnixNano())
	return n, err
}

// refusal is a sign-in that the server refused for good, so that dialling again
// is of no use.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// eviction is a session that the server ended. The connection is given up with it.
type eviction struct{ header wire.EvictionHeader }

func (e *eviction) Error() string { return e.header.Err().Error() }
func (e *eviction) Unwrap() error { return e.header.Err() }

// terminal reports whether signing in again would end the same way: the server
// takes this client's frames for something that no client sends, or refuses it.
func (e *eviction) terminal() bool {
	switch e.header.Reason {
	case wire.EvictionNoSession, wire.EvictionSessionTooLow, wire.EvictionSessionReleaseMismatch,
		wire.EvictionSessionError, wire.EvictionStaleClient, wire.EvictionInvalidRequestBody:
		return false
	}
	return true
}

// connect dials addr and signs in, within the connect timeout.
func (c *Client) connect(ctx context.Context, addr string) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.connectTimeout)
	defer cancel()
	conn, err := c.opts.connect(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("%w: dial %s: %w", ErrDisconnected, addr, err)
	}
	l := &link{conn: conn, addr: addr}
	l.in = bufio.NewReaderSize(arrivals{conn, &l.arrival}, readBufferSize)
	if !c.opts.signsIn() {
		return l, nil
	}
	if err := c.signIn(ctx, l); err != nil {
		conn.Close()
		if ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return nil, fmt.Errorf("sign in at %s: %w", addr, err)
	}
	return l, nil
}

// signIn registers the client id on a new connection and repeats that while the
// server asks for it.
func (c *Client) signIn(ctx context.Context, l *link) error {
	stop := context.AfterFunc(ctx, func() { l.conn.Close() })
	defer stop()
	frame := c.registerFrame()
	for {
		if _, err := l.conn.Write(frame); err != nil {
			return fmt.Errorf("%w: %w", ErrDisconnected, err)
		}
		reply, err := wire.ReadFrame(l.in, l.header[:], wire.FrameLimits{SizeMax: c.opts.frameMax})
		if err != nil {
			return readError(err)
		}
		payload, err := parseRegister(reply)
		if code, _ := galgo.CodeOf(err); code.Retriable() {
			if err := sleep(ctx, loginRetryDelay); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		return l.welcome(reply, payload)
	}
}

func (c *Client) registerFrame() []byte {
	r := wire.RegisterRequest{Client: wire.ClientVersion{
		Protocol: wire.VersionCurrent, SDKName: c.opts.name, SDKVersion: c.opts.version,
	}}
	if c.opts.token != "" {
		r.Token = &wire.TokenLogin{Token: c.opts.token}
	} else {
		r.Password = &wire.PasswordLogin{Username: c.opts.username, Password: c.opts.password}
	}
	body := r.Append(nil)
	h := wire.RequestHeader{Client: c.id, Operation: wire.OperationRegister, RequestChecksum: wire.RequestChecksum(body)}
	return h.AppendFrame(nil, body)
}

// parseRegister sorts refusals: most evictions, and a status or a rejection unless
// its code asks to try again, are the server's last word.
func parseRegister(frame []byte) ([]byte, error) {
	if wire.FrameCommandOf(frame) == wire.FrameEviction {
		h, err := wire.DecodeEvictionHeader(frame)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		e := &eviction{h}
		if e.terminal() || h.Reason == wire.EvictionSessionError {
			return nil, &refusal{e}
		}
		return nil, e // as when an earlier sign-in of this client overtook this one
	}
	h, payload, err := wire.ParseReply(frame)
	switch code, _ := galgo.CodeOf(err); {
	case err == nil && h.Operation == wire.OperationRegister && len(payload) > 0:
		return payload, nil
	case err == nil:
		return nil, fmt.Errorf("%w: sign-in answered by operation %d with %d bytes", ErrProtocol, h.Operation, len(payload))
	case code.Retriable(), errors.Is(err, wire.ErrHeader), errors.Is(err, wire.ErrUndecodable):
		return nil, err
	}
	return nil, &refusal{err}
}

// welcome takes the session over. A galgo server tells in the context field of the
// header which entry of its client table the session continues.
func (l *link) welcome(frame, payload []byte) error {
	r, err := wire.DecodeRegisterReply(payload)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if r.Session == 0 {
		return &refusal{galgo.Errorf(galgo.CodeInvalidSession, "the server gave session 0")}
	}
	l.session = r.Session
	l.incarnation = binary.LittleEndian.Uint64(frame[offReplyContext:])
	return nil
}

// offReplyContext is where a reply header has its context, which stock servers
// leave zero.
const offReplyContext = 144

// slowest is what a connection must carry, in bytes a second, to be of any use.
const slowest = 64 << 10

// write sends the frames of the calls, in one system call where the connection can.
func (l *link) write(batch []*call, bufs net.Buffers, timeout time.Duration) error {
	bufs = bufs[:0]
	for _, k := range batch {
		bufs = append(bufs, k.frame)
		timeout += time.Duration(len(k.frame)) * time.Second / slowest
	}
	if err := l.conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return fmt.Errorf("%w: %w", ErrDisconnected, err)
	}
	if err := l.conn.WriteFrames(&bufs); err != nil {
		return fmt.Errorf("%w: %w", ErrDisconnected, err)
	}
	return nil
}

// read hands answers to the ledger until the connection ends. It never returns nil.
func (l *link) read(g *ledger, frameMax uint32) error {
	limits := wire.FrameLimits{SizeMax: frameMax, Allocate: func(n int) []byte { return l.allocate(g, n) }}
	for {
		frame, err := wire.ReadFrame(l.in, l.header[:], limits)
		l.arrival.inFrame.Store(false)
		if err != nil {
			return readError(err)
		}
		if err := l.dispatch(g, frame); err != nil {
			return err
		}
	}
}

// allocate is asked for room for the frame whose header was just read.
func (l *link) allocate(g *ledger, n int) []byte {
	l.arrival.inFrame.Store(true)
	h, err := wire.DecodeReplyHeader(l.header[:])
	if err != nil {
		return make([]byte, n)
	}
	return g.buffer(callKey{requestOperation(h.Operation), h.Request}, n)
}

func (l *link) dispatch(g *ledger, frame []byte) error {
	if wire.FrameCommandOf(frame) == wire.FrameEviction {
		h, err := wire.DecodeEvictionHeader(frame)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		return &eviction{h}
	}
	h, err := wire.DecodeReplyHeader(frame)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	a := answer{header: h, frame: frame}
	_, a.payload, a.err = wire.ParseReply(frame)
	if errors.Is(a.err, wire.ErrHeader) || errors.Is(a.err, wire.ErrUndecodable) {
		return fmt.Errorf("%w: %w", ErrProtocol, a.err)
	}
	if !g.answered(callKey{requestOperation(h.Operation), h.Request}, a) {
		return fmt.Errorf("%w: a reply to request %d of %s, which was not sent here", ErrProtocol, h.Request, h.Operation)
	}
	return nil
}

func readError(err error) error {
	if errors.Is(err, wire.ErrHeader) {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: closed by the server", ErrDisconnected)
	}
	return fmt.Errorf("%w: %w", ErrDisconnected, err)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
