package edge

import (
	"context"
	"net"
	"sync"
	"time"

	"galgo/internal/transport"
)

// arenaKept bounds the memory that an idle connection keeps for its next answers.
const arenaKept = 64 << 10

// outbox holds the frames that are to leave on a connection and writes them, many
// with one call. Any goroutine may push; the writes are done by whoever flushes,
// one at a time, in the order of the pushes.
//
// What the node hands over it pushes and leaves to the connection's writer; what
// the reader has an answer for it pushes and flushes itself, which saves waking
// the writer.
type outbox struct {
	conn    transport.Conn
	timeout time.Duration
	fail    context.CancelFunc // ends the connection
	changed func()             // called when queued bytes have left

	wake chan struct{} // holds a token when there is something for the writer

	mu      sync.Mutex
	pending batch
	spare   batch // memory for the next pending
	writing bool  // somebody is flushing
	closed  bool  // nothing is taken any more
	queued  int   // bytes pending and being written

	// Of the flusher alone.
	vector  [][]byte
	buffers net.Buffers
}

// batch is a sequence of frames. Headers and short bodies are copied into the
// arena; long ones are referred to.
type batch struct {
	arena    []byte
	pieces   []piece
	releases []func()
	bytes    int
}

// piece is arena[from:to], or outside if that is not nil.
type piece struct {
	from, to int
	outside  []byte
}

func newOutbox(conn transport.Conn, timeout time.Duration, fail context.CancelFunc, changed func()) *outbox {
	return &outbox{conn: conn, timeout: timeout, fail: fail, changed: changed, wake: make(chan struct{}, 1)}
}

// push queues a frame of a head and a body, which are copied, and a tail, which
// must not change until release is called: once, after the frame was written or
// dropped.
func (o *outbox) push(head, body []byte, tail [][]byte, release func()) {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		if release != nil {
			release()
		}
		return
	}
	before := o.pending.bytes
	o.pending.add(head, body)
	o.pending.refer(tail)
	if release != nil {
		o.pending.releases = append(o.pending.releases, release)
	}
	o.queued += o.pending.bytes - before
	o.mu.Unlock()
}

func (b *batch) add(head, body []byte) {
	from := len(b.arena)
	b.arena = append(append(b.arena, head...), body...)
	to := len(b.arena)
	b.bytes += to - from
	if last := len(b.pieces) - 1; last >= 0 && b.pieces[last].outside == nil && b.pieces[last].to == from {
		b.pieces[last].to = to
		return
	}
	b.pieces = append(b.pieces, piece{from: from, to: to})
}

func (b *batch) refer(tail [][]byte) {
	for _, t := range tail {
		if len(t) > 0 {
			b.pieces = append(b.pieces, piece{outside: t})
			b.bytes += len(t)
		}
	}
}

// signal has the writer flush.
func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// run is the writer: it flushes when it is woken, until the context ends.
func (o *outbox) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.wake:
			o.flush()
		}
	}
}

// flush writes what is pending, unless somebody is at it, who then writes it too.
// A failed write ends the connection.
func (o *outbox) flush() {
	o.mu.Lock()
	for !o.writing && !o.closed && len(o.pending.pieces) > 0 {
		b := o.pending
		o.pending, o.spare = o.spare, batch{}
		o.writing = true
		o.mu.Unlock()

		err := o.write(&b)
		freed := b.bytes
		b.done()

		o.mu.Lock()
		o.writing = false
		o.queued -= freed
		o.spare = b
		if err != nil {
			o.mu.Unlock()
			o.close()
			o.fail()
			return
		}
		o.mu.Unlock()
		o.changed()
		o.mu.Lock()
	}
	o.mu.Unlock()
}

func (o *outbox) write(b *batch) error {
	o.vector = o.vector[:0]
	for _, p := range b.pieces {
		if p.outside == nil {
			p.outside = b.arena[p.from:p.to]
		}
		o.vector = append(o.vector, p.outside)
	}
	if err := o.conn.SetWriteDeadline(time.Now().Add(allowance(o.timeout, int64(b.bytes)))); err != nil {
		return err
	}
	// The write consumes the slice header it is given, so the vector keeps its own.
	o.buffers = o.vector
	err := o.conn.WriteFrames(&o.buffers)
	clear(o.vector)
	return err
}

// done releases what the batch refers to and empties it for its next use.
func (b *batch) done() {
	for _, release := range b.releases {
		release()
	}
	clear(b.pieces)
	clear(b.releases)
	b.pieces, b.releases, b.bytes = b.pieces[:0], b.releases[:0], 0
	b.arena = b.arena[:0]
	if cap(b.arena) > arenaKept {
		b.arena = nil
	}
}

// busy reports whether the peer is being written to: at most for as long as the deadline of
// the write lets it take.
func (o *outbox) busy() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writing
}

// backlog is the number of bytes that wait to be taken by the peer.
func (o *outbox) backlog() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.queued
}

// close drops what was not written and takes nothing more.
func (o *outbox) close() {
	o.mu.Lock()
	b := o.pending
	o.pending, o.closed = batch{}, true
	o.queued -= b.bytes
	o.mu.Unlock()
	b.done()
}
