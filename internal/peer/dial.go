package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"galgo/internal/vsr"
)

const (
	dialTimeout      = 3 * time.Second
	handshakeTimeout = 10 * time.Second
	writeTimeout     = 15 * time.Second // for a batch, beyond what 1 MiB/s needs
	pingInterval     = time.Second
	// silenceMax is how long there may be nothing to read, or what was written may stay
	// unacknowledged, before a connection counts as dead.
	silenceMax = 6 * time.Second
	pauseMin   = 50 * time.Millisecond
	pauseMax   = 3 * time.Second
)

var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}

// outgoing is a lane to a peer. One goroutine dials and writes.
type outgoing struct {
	link  *link
	lane  Lane
	queue *queue
	retry chan struct{} // a token says that the peer is there: no need to wait
	told  string        // last complaint, so that it is not repeated all the time

	batch   []entry
	scratch []byte
}

func newOutgoing(k *link, lane Lane) *outgoing {
	return &outgoing{link: k, lane: lane, queue: newQueue(), retry: make(chan struct{}, 1)}
}

// run keeps the lane connected until ctx ends.
func (o *outgoing) run(ctx context.Context) {
	pause := pauseMin
	for ctx.Err() == nil {
		conn, process, err := o.connect(ctx)
		if err == nil {
			began := time.Now()
			err = o.serve(ctx, conn, process)
			if time.Since(began) > pauseMax {
				pause, o.told = pauseMin, ""
			}
		}
		o.complain(err)
		if !o.rest(ctx, pause) {
			return
		}
		pause = min(2*pause, pauseMax)
	}
}

// rest waits before the next attempt. The time is jittered, so that nodes that were
// started together do not stay in step.
func (o *outgoing) rest(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause/2 + rand.N(pause))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-o.retry:
	}
	return true
}

// nudge has the next attempt made at once.
func (o *outgoing) nudge() {
	select {
	case o.retry <- struct{}{}:
	default:
	}
}

// complain tells an operator why there is no connection, once for each reason.
func (o *outgoing) complain(err error) {
	if err.Error() == o.told || errors.Is(err, context.Canceled) {
		return
	}
	o.told = err.Error()
	n := o.link.node()
	o.link.links.log.Warn("no connection to a node; it is dialed again and again", "node", n.Name, "address", n.Address, "lane", o.lane.String(), "err", err)
}

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	watch(conn.(*net.TCPConn))
	return conn, nil
}

// connect dials the peer and introduces this node. It returns the life of the process
// that has taken the connection.
func (o *outgoing) connect(ctx context.Context) (_ net.Conn, process uint64, err error) {
	l := o.link.links
	waiting, cancel := context.WithTimeout(ctx, dialTimeout)
	conn, err := l.o.Dial(waiting, o.link.node().Address)
	cancel()
	if err != nil {
		return nil, 0, err
	}
	conn.SetDeadline(time.Now().Add(handshakeTimeout))
	closed := context.AfterFunc(ctx, func() { conn.Close() })
	defer closed()
	if l.o.TLS != nil {
		t := tls.Client(conn, l.o.TLS.client(o.link.node()))
		if err := t.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, 0, err
		}
		conn = t
	}
	v, err := l.greet(conn, o.link.id, o.lane)
	if own, phase := l.state(); v.life > own || phase != Begun && v.life > 0 || errors.Is(err, ErrPast) {
		l.handler.Outlived(v.life, err)
	}
	if err != nil {
		conn.Close()
		return nil, 0, err
	}
	conn.SetDeadline(time.Time{})
	l.lobby.learn(vantage{o.link.id, true}, conn.RemoteAddr())
	o.link.greeted(o.lane)
	return conn, v.own, nil
}

// serve writes until the connection ends, and closes it.
func (o *outgoing) serve(ctx context.Context, conn net.Conn, process uint64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	closed := context.AfterFunc(ctx, func() { conn.Close() })
	defer closed()
	gone := make(chan struct{})
	go func() { // the peer says nothing here: a read ends when the connection does
		defer close(gone)
		_, err := io.ReadFull(conn, make([]byte, 1))
		cancel(err)
	}()
	o.queue.reopen(true)
	o.link.serves(o.lane, process, cancel)
	if o.lane == Control {
		o.queue.put(o.link.links.stateEntry(), rankNow)
	}
	err := o.write(ctx, conn)
	o.queue.reopen(false)
	conn.Close()
	<-gone
	o.link.unreachable(o.lane)
	return err
}

// write writes what comes, and a ping when nothing does.
func (o *outgoing) write(ctx context.Context, conn net.Conn) error {
	idle := time.NewTicker(pingInterval)
	defer idle.Stop()
	for {
		o.batch = o.queue.take(o.batch[:0])
		if len(o.batch) == 0 {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-o.queue.wake:
				continue
			case <-idle.C:
				o.batch = append(o.batch, dataEntry(recordPing, nil, nil))
			}
		}
		err := o.writeBatch(conn)
		clear(o.batch)
		if err != nil {
			return err
		}
	}
}

// bodyCopied is the length up to which a body is copied behind its head, where a
// buffer of its own would cost more.
const bodyCopied = 4 << 10

// writeBatch writes the batch with one call, if the system lets it. So the heartbeats of
// all groups that come due together leave together.
func (o *outgoing) writeBatch(conn net.Conn) error {
	type piece struct {
		end  int // in scratch
		body []byte
	}
	var pieces []piece
	b, total := o.scratch[:0], 0
	for i := range o.batch {
		var body []byte
		b, body = appendRecord(b, &o.batch[i])
		if len(body) <= bodyCopied {
			b = append(b, body...)
			continue
		}
		pieces = append(pieces, piece{len(b), body})
		total += len(body)
	}
	o.scratch = b
	conn.SetWriteDeadline(time.Now().Add(writeTimeout + time.Duration(total+len(b))*time.Second>>20))
	if len(pieces) == 0 {
		_, err := conn.Write(b)
		return err
	}
	var buffers net.Buffers
	at := 0
	for _, p := range pieces {
		buffers = append(buffers, b[at:p.end], p.body)
		at = p.end
	}
	if at < len(b) {
		buffers = append(buffers, b[at:])
	}
	_, err := buffers.WriteTo(conn)
	return err
}

// appendRecord encodes an entry but for its body, which goes behind.
func appendRecord(b []byte, e *entry) (head, body []byte) {
	start := len(b)
	b = append(b, make([]byte, recordHeadSize)...)
	h := recordHead{kind: e.kind}
	if e.kind == recordFrame {
		b, body = vsr.AppendFrame(b, &e.message)
	} else {
		b, body = append(b, e.head...), e.body
		h.checksum = sumOf(e.head, e.body)
	}
	h.size = len(b) - start - recordHeadSize + len(body)
	h.put(b[start:])
	return b, body
}
