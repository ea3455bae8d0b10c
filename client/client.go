package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"galgo"
	"galgo/internal/wire"
)

// Client is a connection to a galgo server that is kept up, see the package
// comment. All its methods may be called at the same time.
type Client struct {
	opts   options
	id     galgo.ClientID
	ledger *ledger
	topics topicCache

	slots chan struct{} // one token per call that waits for an answer
	// metadataTurn holds one token: the server runs one operation on metadata of a
	// client at a time, and one may only be repeated while none was sent after it.
	metadataTurn chan struct{}
	window       *window
	suspect      chan uint64 // capacity 1: a session that the server denies to know
	frames       framePool

	stop      context.CancelFunc
	done      chan struct{} // closed when the connection's goroutines have ended
	closeOnce sync.Once
}

// Dial connects to the server at addr, host and port, and signs in if the options
// say with what. It tries once; the context bounds that. From then on the client
// connects again by itself. Close ends it.
func Dial(ctx context.Context, addr string, opts ...Option) (*Client, error) {
	o, err := newOptions(addr, opts)
	if err != nil {
		return nil, err
	}
	c := &Client{
		opts:         o,
		id:           newClientID(),
		topics:       newTopicCache(),
		slots:        make(chan struct{}, o.inFlight),
		metadataTurn: make(chan struct{}, 1),
		window:       newWindow(),
		suspect:      make(chan uint64, 1),
		done:         make(chan struct{}),
	}
	c.ledger = newLedger(c.released)
	l, err := c.connectAny(ctx)
	if err != nil {
		return nil, &Error{Call: "connect", Err: err}
	}
	// The connection outlives the context of Dial.
	lifetime, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	go func() {
		defer close(c.done)
		c.run(lifetime, l)
	}()
	return c, nil
}

// connectAny tries each address once and returns the first connection, or what was
// wrong with each.
func (c *Client) connectAny(ctx context.Context) (*link, error) {
	var all error
	for _, addr := range c.opts.addresses {
		l, err := c.connect(ctx, addr)
		if err == nil {
			return l, nil
		}
		all = errors.Join(all, err)
	}
	return nil, all
}

// ID is what the client calls itself towards servers, the same over reconnects.
func (c *Client) ID() galgo.ClientID { return c.id }

// Close signs out if the connection is up, for which it takes 2 s at most, and ends
// the client: calls that wait for an answer end with ErrClosed. It may be called
// more than once.
func (c *Client) Close() error {
	c.closeOnce.Do(func() {
		if c.opts.signsIn() {
			ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
			c.signOut(ctx)
			cancel()
		}
		c.ledger.fail(ErrClosed)
		c.stop()
	})
	<-c.done
	return nil
}

// signOut tells the server that it may forget the session. If that does not work
// the server finds out by itself.
func (c *Client) signOut(ctx context.Context) {
	if c.ledger.broken() != nil || c.ledger.trouble() != nil {
		return
	}
	k := c.newCall("sign out", wire.CommandLogout, nil)
	k.rule = replayNever
	_, _ = c.do(ctx, k)
}

func newClientID() (id galgo.ClientID) {
	for id.IsZero() {
		rand.Read(id[:]) // never fails
	}
	return id
}

// newCall makes the call of a command; body may be nil. What the command does is
// told by its plane, so that this is where the rules for repeating it are set.
func (c *Client) newCall(name string, command wire.Command, body wire.Body) *call {
	frame := c.frames.get()[:wire.HeaderSize]
	if body != nil {
		frame = body.Append(frame)
	}
	return c.newFramedCall(name, command, frame)
}

// newFramedCall makes a call of a frame: room for the header, then the body.
func (c *Client) newFramedCall(name string, command wire.Command, frame []byte) *call {
	k := &call{
		name:   name,
		header: wire.RequestHeader{Client: c.id, Operation: command.Operation()},
		frame:  frame,
		done:   make(chan answer, 1),
	}
	switch command.Plane() {
	case wire.PlaneMetadata:
		k.rule = replayInSession
	case wire.PlanePartition:
		if command == wire.CommandSendMessages {
			k.rule = replayNumbered
		}
	}
	if k.header.Operation == wire.OperationNonReplicated {
		k.header.Command = command
		return k
	}
	// What changes something is stamped: a frame damaged on the way is refused, and a
	// send that is stamped is one that the server may recognise.
	k.header.RequestChecksum = wire.RequestChecksum(frame[wire.HeaderSize:])
	return k
}

// released takes back what a call held when nobody waits for it any more. The
// ledger calls it with its mutex held.
func (c *Client) released(k *call) {
	if !k.writing {
		c.frames.put(k.frame)
	}
	if !k.unattended {
		<-c.slots
	}
}

// frameKeepMax is the largest frame, in bytes, that is kept for the next call.
const frameKeepMax = 4 << 20

// framePool keeps the memory of frames. The zero value is empty.
type framePool struct{ pool sync.Pool }

func (p *framePool) get() []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 2*wire.HeaderSize)
}

func (p *framePool) put(b []byte) {
	if cap(b) >= wire.HeaderSize && cap(b) <= frameKeepMax {
		p.pool.Put(&b)
	}
}

// checkSize refuses a call whose frame no server would take.
func (c *Client) checkSize(k *call) error {
	if uint64(len(k.frame)) > uint64(c.opts.frameMax) {
		return galgo.Errorf(galgo.CodeTooBigMessagePayload, "the request is %d bytes, a frame may have %d: send smaller batches", len(k.frame), c.opts.frameMax)
	}
	return nil
}

// now is the time of messages that have none, in µs.
func now() uint64 { return uint64(time.Now().UnixMicro()) }

// describe makes the name of a call for errors: a verb and what it is done to.
func describe(verb string, parts ...any) string {
	var b strings.Builder
	b.WriteString(verb + " ")
	for _, p := range parts {
		fmt.Fprint(&b, p)
	}
	return b.String()
}
