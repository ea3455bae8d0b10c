package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"galgo/internal/wire"
)

// Delays between attempts to connect. The first comes at once.
const (
	reconnectDelayMin = 20 * time.Millisecond
	reconnectDelayMax = time.Second
)

// run serves one connection after the other until ctx ends or the server refuses
// the client for good.
func (c *Client) run(ctx context.Context, l *link) {
	var r redial
	incarnation := l.incarnation
	for {
		start := time.Now()
		err := c.serve(ctx, l)
		c.ledger.disconnected(err)
		if e, ok := errors.AsType[*eviction](err); ok && e.terminal() {
			c.ledger.fail(err)
			return
		}
		if time.Since(start) > reconnectDelayMax {
			r.delay = 0
		}
		if l, err = c.reconnect(ctx, &r); err != nil {
			c.ledger.fail(err)
			return
		}
		c.ledger.connected(incarnation != 0 && incarnation == l.incarnation)
		incarnation = l.incarnation
	}
}

// serve keeps a connection going until it breaks, and returns why it did.
func (c *Client) serve(ctx context.Context, l *link) error {
	stop := context.AfterFunc(ctx, func() { l.conn.Close() })
	defer stop()
	read := make(chan error, 1)
	go func() {
		err := l.read(c.ledger, c.opts.frameMax)
		l.conn.Close() // frees a writer whose peer no longer reads
		read <- err
	}()
	err, readErr := c.write(ctx, l, read)
	l.conn.Close()
	if readErr == nil {
		readErr = <-read
	}
	// The server's last words tell more than the write that failed after them.
	if _, ok := errors.AsType[*eviction](readErr); ok || err == nil {
		return readErr
	}
	return err
}

// write sends what is queued, and pings, until the connection breaks. It returns
// what the reader ended with if that came first.
func (c *Client) write(ctx context.Context, l *link, read <-chan error) (err, readErr error) {
	tick := time.NewTicker(c.tickInterval())
	defer tick.Stop()
	var batch []*call
	bufs := make(net.Buffers, 0, writeCallsMax)
	lastWrite := time.Now()
	for {
		now := time.Now()
		if batch = c.ledger.take(l.session, now, batch[:0]); len(batch) > 0 {
			err := l.write(batch, bufs, c.opts.answerTimeout)
			c.ledger.written(batch, time.Now())
			if err != nil {
				return err, nil
			}
			lastWrite = now
			continue
		}
		select {
		case <-c.ledger.kick:
		case err := <-read:
			return nil, err
		case session := <-c.suspect:
			if session == l.session {
				return fmt.Errorf("%w: the server does not know session %d", ErrDisconnected, session), nil
			}
		case <-tick.C:
			if err := c.checkLink(l, lastWrite); err != nil {
				return err, nil
			}
		case <-ctx.Done():
			return ErrClosed, nil
		}
	}
}

func (c *Client) tickInterval() time.Duration {
	d := c.opts.answerTimeout / 4
	if h := c.opts.heartbeat; h > 0 {
		d = min(d, h)
	}
	return max(d, time.Millisecond)
}

// checkLink gives a connection up that leaves requests unanswered, and pings one
// that is idle.
func (c *Client) checkLink(l *link, lastWrite time.Time) error {
	now := time.Now()
	then := now.Add(-c.opts.answerTimeout)
	if name, found := c.ledger.overdue(then); found && !l.arrival.since(then) {
		return fmt.Errorf("%w: %w: %s waited %v", ErrDisconnected, ErrAnswerTimeout, name, c.opts.answerTimeout)
	}
	if h := c.opts.heartbeat; h > 0 && now.Sub(lastWrite) >= h && c.ledger.idle() {
		ping := c.newCall("heartbeat", wire.CommandPing, nil)
		ping.unattended = true
		return c.ledger.submit(ping)
	}
	return nil
}

// redial is where attempts to connect stand. The delay outlives a connection that
// breaks at once, so that a server that takes a client and drops it is not hammered.
type redial struct {
	at    int           // index of the next address, modulo their number
	delay time.Duration // before the next attempt
}

// reconnect dials the addresses in turn until one takes the client. It gives up
// when ctx ends, with ErrClosed, or when the client is refused.
func (c *Client) reconnect(ctx context.Context, r *redial) (*link, error) {
	for {
		if sleep(ctx, jitter(r.delay)) != nil {
			return nil, ErrClosed
		}
		r.delay = min(max(2*r.delay, reconnectDelayMin), reconnectDelayMax)
		l, err := c.connect(ctx, c.opts.addresses[r.at%len(c.opts.addresses)])
		if err == nil {
			return l, nil
		}
		r.at++
		if ctx.Err() != nil {
			return nil, ErrClosed
		}
		if _, final := errors.AsType[*refusal](err); final {
			return nil, err
		}
		c.ledger.noteTrouble(err)
	}
}

// jitter spreads a delay over its upper half, so that clients that lost the same
// server do not come back in step.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
