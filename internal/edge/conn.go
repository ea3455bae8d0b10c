package edge

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"galgo"
	"galgo/internal/metadata"
	"galgo/internal/transport"
	"galgo/internal/wire"
)

// conn is a connection and the session that may be bound to it. Two goroutines
// belong to it: the reader, which takes one request after the other and does all
// that may wait, and the writer, which sends what the node hands over meanwhile.
type conn struct {
	server   *Server
	detacher *detacher
	id       uint32 // transport id: what lists of clients show
	socket   transport.Conn
	address  string // of the peer
	source   source
	in       *bufio.Reader
	out      *outbox
	sends    *sends
	freed    chan struct{} // holds a token when queues got shorter
	bound    atomic.Pointer[binding]
	spoke    atomic.Bool // a request has come
	life     life
	began    time.Time
	end      context.CancelFunc

	// Of the reader alone.
	header  [wire.HeaderSize]byte
	scratch []byte // bodies that nobody keeps
}

// binding is a session that is bound to a connection. It is never changed; a new
// one takes its place.
type binding struct {
	client galgo.ClientID
	epoch  uint64 // the session on the wire
	actor  metadata.Actor
	// tenures are for the reader of the connection alone.
	tenures Tenures
}

// request is a frame in the hands of the reader.
type request struct {
	wire.RequestHeader
	body []byte
	// whole is false if some of the body was thrown away, because nobody needs it.
	whole bool
	// session is what the connection was bound to when the request came; nil if
	// it was not.
	session *binding
	// charge is what the request holds of the byte budget.
	charge int64
	// deadline is when the client is told that the outcome is open.
	deadline time.Time
}

// What ends a connection.
var (
	errPeerTooSlow = errors.New("edge: frame took too long to arrive")
	errStopped     = errors.New("edge: server stops")
)

func newConn(s *Server, id uint32, socket transport.Conn, detacher *detacher, fail context.CancelFunc) *conn {
	c := &conn{
		server:   s,
		detacher: detacher,
		id:       id,
		socket:   socket,
		address:  addressOf(socket),
		freed:    make(chan struct{}, 1),
		began:    time.Now(),
		end:      fail,
	}
	c.life.began = c.began
	c.in = bufio.NewReaderSize(c.life.reader(socket), readBufferSize)
	c.source = sourceOf(c.address)
	c.sends = newSends(c)
	c.out = newOutbox(socket, s.options.WriteTimeout, fail, c.taken)
	return c
}

// run serves the connection until it ends, and closes the socket.
func (c *conn) run(ctx context.Context, cancel context.CancelFunc) {
	closed := context.AfterFunc(ctx, func() { c.socket.Close() })
	defer closed()
	var writer sync.WaitGroup
	writer.Go(func() { c.out.run(ctx) })
	err := c.read(ctx)
	if errors.Is(err, io.EOF) {
		// The peer has said all it had to say. It may still listen for what it asked.
		c.waitUntil(ctx, func() bool { return c.sends.idle() })
	}
	c.out.flush()
	if ctx.Err() == nil {
		c.server.events.closed(c, err)
	}
	cancel()
	c.out.close()
	c.socket.Close()
	writer.Wait()
}

// taken is called when the peer has taken answers.
func (c *conn) taken() {
	c.life.sign()
	c.notify()
}

// notify tells the reader that queues got shorter.
func (c *conn) notify() {
	select {
	case c.freed <- struct{}{}:
	default:
	}
}

// waitUntil blocks the reader until a condition that notify announces holds. It
// reports false if the connection ended first.
func (c *conn) waitUntil(ctx context.Context, holds func() bool) bool {
	for !holds() {
		c.out.flush()
		if holds() {
			return true
		}
		select {
		case <-c.freed:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// read serves frame after frame. The error is io.EOF when the peer ended the
// stream between two frames.
func (c *conn) read(ctx context.Context) error {
	for {
		err := c.readFrame(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil, err == io.EOF, !c.socket.Drop():
			return err
		default:
			c.server.events.dropped(c, err.Error())
			c.in.Reset(c.life.reader(c.socket))
		}
	}
}

func (c *conn) readFrame(ctx context.Context) error {
	if err := c.readHeader(); err != nil {
		return err
	}
	if err := wire.CheckFrame(c.header[:], c.server.options.FrameMax); err != nil {
		return err
	}
	return c.readRequest(ctx)
}

// readHeader waits for the next frame; a connection may be quiet for ever, but not
// within a header.
func (c *conn) readHeader() error {
	c.flushBeforeReading(wire.HeaderSize)
	if _, err := c.in.Peek(1); err != nil {
		return err
	}
	return c.fill(c.header[:], wire.HeaderSize)
}

// drop tells that a request gets no answer.
func (c *conn) drop(why string) {
	c.server.events.dropped(c, why)
	c.socket.Drop()
}

// flushBeforeReading lets answers leave before the reader waits for more. While
// more requests are at hand, their answers join in one write.
func (c *conn) flushBeforeReading(n int) {
	if c.in.Buffered() < n {
		c.out.flush()
	}
}

// readRequest reads the body behind a header and serves the request.
func (c *conn) readRequest(ctx context.Context) error {
	size := int64(wire.FrameSize(c.header[:])) - wire.HeaderSize
	r, why := c.triage()
	if why != "" {
		err := c.discard(size)
		c.drop(why)
		return err
	}
	c.spoke.Store(true)
	if size > r.bodyMax() || r.session == nil && r.Operation != wire.OperationRegister {
		if err := c.discard(size); err != nil {
			return err
		}
		return c.serve(ctx, r)
	}
	if !c.room(ctx, r, size) {
		return errStopped
	}
	if r.Operation == wire.OperationNonReplicated {
		return c.readLocal(ctx, r, int(size))
	}
	if err := c.readBody(r, int(size)); err != nil {
		c.server.budget.Release(r.charge)
		return err
	}
	return c.serve(ctx, r)
}

// bodyMax bounds the body that is read of a request: whatever is known to be longer than
// any of its kind can be is not worth the memory. Sends are bounded by the largest frame.
func (r *request) bodyMax() int64 {
	switch {
	case r.session == nil, r.Operation == wire.OperationRegister, r.Operation == wire.OperationLogout:
		return unboundFrameMax
	case r.Operation.IsMetadata():
		return metadataBodyMax
	}
	return math.MaxInt64
}

// triage looks at the header alone. Frames that get no answer are told with the
// reason (wire.md §1.7).
func (c *conn) triage() (r *request, why string) {
	if kind := wire.FrameCommandOf(c.header[:]); kind != wire.FrameRequest {
		return nil, "not a request"
	}
	h, err := wire.DecodeRequestHeader(c.header[:])
	switch {
	case err != nil:
		return nil, "header does not decode"
	case !h.Operation.Known():
		return nil, "unknown operation"
	case h.Client.IsZero():
		return nil, "client id is zero"
	case h.Operation == wire.OperationRegister && (h.Session != 0 || h.Request != 0):
		return nil, "register with a session or a number"
	case h.Operation.NeedsSession() && (h.Session == 0 || h.Request == 0):
		return nil, "no session or no number"
	}
	return &request{RequestHeader: h, session: c.bound.Load()}, ""
}

// room waits until the connection and the server may hold another body.
func (c *conn) room(ctx context.Context, r *request, size int64) bool {
	o := &c.server.options
	if !c.waitUntil(ctx, func() bool { return c.out.backlog() <= o.ReplyQueueBytes }) {
		return false
	}
	if r.Operation.IsPartition() && !c.waitUntil(ctx, func() bool { return c.sends.fits(size) }) {
		return false
	}
	if r.Operation == wire.OperationNonReplicated {
		return true // goes to the scratch, which is part of the connection
	}
	if !c.server.budget.TryAcquire(size) {
		c.out.flush()
		if c.server.budget.Acquire(ctx, size) != nil {
			return false
		}
	}
	r.charge = size
	return true
}

// readLocal reads the body of a command that is not replicated into the scratch,
// as nobody keeps it. No such command has fields beyond the scratch, and what is
// behind the last field is ignored.
func (c *conn) readLocal(ctx context.Context, r *request, size int) error {
	if c.scratch == nil {
		c.scratch = make([]byte, localBodyMax)
	}
	r.body = c.scratch[:min(size, localBodyMax)]
	r.whole = size <= localBodyMax
	if err := c.fill(r.body, size); err != nil {
		return err
	}
	if err := c.discard(int64(size - len(r.body))); err != nil {
		return err
	}
	return c.serve(ctx, r)
}

// readBody reads the body into memory of its own, which whoever takes the request
// may keep.
func (c *conn) readBody(r *request, size int) error {
	r.whole = true
	r.body = make([]byte, size)
	return c.fill(r.body, size)
}

// fill reads the first bytes of a body of size bytes.
func (c *conn) fill(b []byte, size int) error {
	if len(b) == 0 {
		return nil
	}
	return c.within(size, func() error {
		_, err := io.ReadFull(c.in, b)
		return err
	})
}

// discard reads past a body.
func (c *conn) discard(size int64) error {
	if size == 0 {
		return nil
	}
	return c.within(int(size), func() error {
		_, err := io.CopyN(io.Discard, c.in, size)
		return err
	})
}

// within runs a read of n bytes under the deadline of a frame that has begun. A
// peer that keeps one back would hold memory for ever.
func (c *conn) within(n int, read func() error) error {
	if c.in.Buffered() >= n {
		return read()
	}
	c.out.flush()
	deadline := time.Now().Add(allowance(c.server.options.FrameTimeout, int64(n)))
	if err := c.socket.SetReadDeadline(deadline); err != nil {
		return err
	}
	switch err := read(); {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case isTimeout(err):
		return errPeerTooSlow
	case err != nil:
		return err
	}
	return c.socket.SetReadDeadline(time.Time{})
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}
