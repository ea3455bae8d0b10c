package peer

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"galgo/internal/vsr"
)

const (
	readBuffer = 64 << 10
	// undoneMax bounds the bytes of a connection that were handed on and are not dealt
	// with; beyond, it is not read. One record may be longer.
	undoneMax = 32 << 20
	// askedMax bounds the bytes of questions between two nodes, either way, that are not
	// answered. Beyond, none is asked, and one that comes is answered with nothing: their
	// answers wait for frames of the same connection, so that it is read all the same.
	askedMax = 32 << 20
	// askedCost is what a question takes beside its bytes, so that short ones are bounded
	// too.
	askedCost = 512
	// growth is how much memory a long record gets before so much of it has come.
	growth = 1 << 20
)

// accept takes connections until the context ends, or the listener fails.
func (l *Links) accept(ctx context.Context, listener net.Listener) error {
	stop := ctx // it has ended before the listener is closed for that; what is made of it may end later
	ctx, cancel := context.WithCancel(ctx)
	var open sync.WaitGroup
	defer open.Wait()
	defer cancel() // those that are open end with the listener
	for {
		conn, err := listener.Accept()
		switch {
		case stop.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return nil
		case err != nil && !passing(err):
			return fmt.Errorf("peer: accept on %s: %w", listener.Addr(), err)
		case err != nil:
			l.log.Warn("a peer cannot connect", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(pauseMax):
			}
			continue
		}
		place := l.lobby.enter(conn)
		open.Go(func() { l.admit(ctx, conn, place) })
	}
}

// passing reports whether an accept may succeed later.
func passing(err error) bool {
	for _, e := range []error{syscall.ECONNABORTED, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// admit has a stranger introduce itself, and reads what it says until it goes.
func (l *Links) admit(ctx context.Context, conn net.Conn, place *stranger) {
	defer conn.Close()
	closed := context.AfterFunc(ctx, func() { conn.Close() })
	defer closed()
	conn.SetDeadline(time.Now().Add(handshakeTimeout))
	secured, h, err := l.identify(ctx, conn)
	if !l.lobby.leave(place) {
		err = ErrCrowded
	}
	if err != nil {
		if ctx.Err() == nil {
			l.refused(conn, &h, err)
		}
		return
	}
	conn.SetDeadline(time.Time{})
	l.lobby.learn(vantage{h.from, false}, conn.RemoteAddr())
	in := newIncoming(l.peers[h.from], h.lane, h.life, secured)
	ended := context.AfterFunc(ctx, in.close)
	defer ended()
	if !in.link.connected(in, h.phase) {
		return
	}
	err = in.read()
	in.link.disconnected(in)
	if ctx.Err() == nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		l.log.Warn("connection of a peer ended", "node", in.link.node().Name, "lane", in.lane.String(), "err", err)
	}
}

func (l *Links) identify(ctx context.Context, conn net.Conn) (net.Conn, hello, error) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		watch(tcp)
	}
	if l.o.TLS != nil {
		t := tls.Server(conn, l.o.TLS.server())
		if err := t.HandshakeContext(ctx); err != nil {
			return nil, hello{}, err
		}
		conn = t
	}
	h, err := l.receive(conn)
	return conn, h, err
}

// refused tells of a connection that was not taken: once for each reason and place, as
// it will be dialed again and again.
func (l *Links) refused(conn net.Conn, h *hello, err error) {
	if errors.Is(err, io.EOF) || !l.complaints.first(sourceOf(conn.RemoteAddr())+" "+reason(err)) {
		return
	}
	l.log.Warn("a connection between nodes is refused", "from", conn.RemoteAddr().String(), "says it is", h.name, "of cluster", h.clusterName, "replica", h.from, "err", err)
}

// reason names the kind of an error: its text may hold anything that a stranger sends.
func reason(err error) string {
	for _, kind := range []error{ErrHandshake, ErrVersion, ErrProof, ErrNoProof, ErrCluster, ErrRoster, ErrReplica, ErrLife, ErrPast, ErrCrowded} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return ""
}

// incoming is a connection that a peer has dialed. One goroutine reads it.
type incoming struct {
	link   *link
	lane   Lane
	life   uint64
	conn   net.Conn
	window *window // of all but questions
	asked  *window

	handing sync.Mutex // held while a record is handed on
	over    bool
}

func newIncoming(k *link, lane Lane, life uint64, conn net.Conn) *incoming {
	return &incoming{link: k, lane: lane, life: life, conn: conn, window: newWindow(undoneMax), asked: newWindow(askedMax)}
}

// close ends the connection, also while it is not read because too much is undone. When
// it returns nothing is handed on any more, also of what was read already: it may be of
// a life that is over.
func (in *incoming) close() {
	in.window.close()
	in.conn.Close()
	in.handing.Lock()
	in.over = true
	in.handing.Unlock()
}

// read hands on what comes until the connection ends.
func (in *incoming) read() error {
	r := bufio.NewReaderSize(in.conn, readBuffer)
	var head [recordHeadSize]byte
	for {
		in.patience(r, len(head))
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return err
		}
		h, err := decodeRecordHead(head[:])
		if err != nil {
			return err
		}
		if h.kind != recordCall && !in.window.acquire(h.size) {
			return net.ErrClosed
		}
		body, err := in.readBody(r, h.size)
		if err != nil {
			return err
		}
		if err := h.check(body); err != nil {
			return err
		}
		if err := in.take(h.kind, body); err != nil {
			return err
		}
	}
}

// patience bounds how long it is waited for so many bytes; not if they are here, as those of
// most records are when many come together.
func (in *incoming) patience(r *bufio.Reader, bytes int) {
	if r.Buffered() < bytes {
		in.conn.SetReadDeadline(time.Now().Add(silenceMax))
	}
}

// readBody reads a record into memory of its own, which grows as the record comes.
func (in *incoming) readBody(r *bufio.Reader, size int) ([]byte, error) {
	b := make([]byte, 0, min(size, growth))
	for len(b) < size {
		n := len(b)
		if n == cap(b) {
			b = append(make([]byte, 0, min(size, 4*n)), b...)
		}
		b = b[:cap(b)]
		least := min(len(b)-n, growth)
		in.patience(r, least)
		m, err := io.ReadAtLeast(r, b[n:], least)
		if err != nil {
			return nil, err
		}
		b = b[:n+m]
	}
	return b, nil
}

// take hands a record on. What it holds of the window is given back when it was dealt
// with.
func (in *incoming) take(kind recordKind, body []byte) error {
	in.handing.Lock()
	defer in.handing.Unlock()
	if in.over {
		return net.ErrClosed
	}
	done := func() { in.window.release(len(body)) }
	l := in.link.links
	switch kind {
	case recordFrame:
		m, err := vsr.DecodeFrame(body)
		switch {
		case err != nil:
			return err
		case m.From != in.link.id || m.To != l.o.Self || bulky(m.Kind) != (in.lane == Bulk):
			return fmt.Errorf("%w: %v of %d for %d on the %v lane of replica %d", ErrRecord, m.Kind, m.From, m.To, in.lane, in.link.id)
		}
		l.handler.Deliver(m, done)
		return nil
	case recordCall:
		in.ask(body)
		return nil
	case recordAnswer:
		l.calls.answered(in.link.id, binary.LittleEndian.Uint64(body), body[answerHeadSize:])
	case recordLost:
		l.calls.unanswered(in.link.id, binary.LittleEndian.Uint64(body))
	case recordState:
		in.link.heard(in, binary.LittleEndian.Uint64(body), Phase(body[8]))
	}
	done()
	return nil
}

// ask hands a question on, unless too many wait for their answers.
func (in *incoming) ask(body []byte) {
	id, subject := binary.LittleEndian.Uint64(body), body[8]
	if !in.asked.tryAcquire(askedCost + len(body)) {
		in.link.answer(id, nil)
		return
	}
	in.link.links.handler.Asked(in.link.id, subject, body[callHeadSize:], func(answer []byte) {
		// In this order: who asked may fill the room as soon as it has the answer.
		in.asked.release(askedCost + len(body))
		in.link.answer(id, answer)
	})
}

// window bounds what one goroutine hands on to others.
type window struct {
	mu     sync.Mutex
	used   int
	limit  int
	closed bool
	freed  chan struct{}
}

func newWindow(limit int) *window { return &window{limit: limit, freed: make(chan struct{}, 1)} }

// tryAcquire takes n if there is room for it, or nothing is under way.
func (w *window) tryAcquire(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.used > 0 && w.used+n > w.limit {
		return false
	}
	w.used += n
	return true
}

// acquire waits until there is room for n; false if the window was closed.
func (w *window) acquire(n int) bool {
	for !w.tryAcquire(n) {
		if w.isClosed() {
			return false
		}
		<-w.freed
	}
	return true
}

func (w *window) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

func (w *window) release(n int) {
	w.mu.Lock()
	w.used -= n
	w.mu.Unlock()
	w.wake()
}

// close has nobody wait.
func (w *window) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.wake()
}

func (w *window) wake() {
	select {
	case w.freed <- struct{}{}:
	default:
	}
}
