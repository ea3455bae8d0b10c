package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// conn is one end of a connection.
type conn struct {
	host          string
	in, out       *pipe
	local, remote addr
	read, write   deadline
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) Read(b []byte) (int, error)  { return c.in.read(b, &c.read) }
func (c *conn) Write(b []byte) (int, error) { return c.out.write(b, &c.write) }

// Close ends both directions: the other end reads what was written, and then EOF.
func (c *conn) Close() error {
	c.out.end(io.EOF)
	c.in.abandon()
	c.out.net.forget(c)
	return nil
}

func (c *conn) reset() {
	c.out.end(ErrReset)
	c.in.abandon()
	c.out.net.forget(c)
}

func (c *conn) SetDeadline(t time.Time) error {
	c.read.set(t)
	c.write.set(t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.read.set(t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.write.set(t)
	return nil
}

// deadline is a channel that is closed when its time has come.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	over  chan struct{}
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() || d.over == nil {
		d.over = make(chan struct{})
	}
	d.timer = nil
	if t.IsZero() {
		d.renew()
		return
	}
	d.renew()
	over := d.over
	if wait := time.Until(t); wait > 0 {
		d.timer = time.AfterFunc(wait, func() { close(over) })
		return
	}
	close(over)
}

// renew has those who wait for a deadline that is set anew look again.
func (d *deadline) renew() {
	select {
	case <-d.over:
		d.over = make(chan struct{})
	default:
	}
}

func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over == nil {
		d.over = make(chan struct{})
	}
	return d.over
}

// pipe is one direction of a connection.
type pipe struct {
	net      *Network
	from, to string

	mu      sync.Mutex
	chunks  []chunk
	size    int
	ended   error         // what the reader gets after the last chunk; nil: more may come
	gone    bool          // nobody reads any more
	changed chan struct{} // closed and replaced at each change
}

// chunk is what was written at once, and when it has arrived.
type chunk struct {
	bytes []byte
	at    time.Time
}

func newPipe(n *Network, from, to string) *pipe {
	return &pipe{net: n, from: from, to: to, changed: make(chan struct{})}
}

func (p *pipe) touch() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *pipe) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended == nil {
		p.ended = err
		if err == ErrReset {
			p.chunks, p.size = nil, 0
		}
	}
	p.touch()
}

func (p *pipe) abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	p.touch()
}

func (p *pipe) write(b []byte, d *deadline) (n int, err error) {
	for len(b) > 0 {
		over := d.wait()
		p.mu.Lock()
		switch {
		case p.ended != nil:
			p.mu.Unlock()
			return n, net.ErrClosed
		case p.gone:
			p.mu.Unlock()
			return n, ErrReset
		case p.size < bufferMax:
			part := append([]byte(nil), b[:min(len(b), bufferMax-p.size)]...)
			p.chunks = append(p.chunks, chunk{part, time.Now().Add(p.net.latency)})
			p.size += len(part)
			n, b = n+len(part), b[len(part):]
			p.touch()
			p.mu.Unlock()
			continue
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-over:
			return n, os.ErrDeadlineExceeded
		}
	}
	return n, nil
}

func (p *pipe) read(b []byte, d *deadline) (int, error) {
	for {
		over := d.wait()
		select {
		case <-over:
			return 0, os.ErrDeadlineExceeded
		default:
		}
		n, wait, err := p.take(b)
		if n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
		if !wait.until(over) {
			return 0, os.ErrDeadlineExceeded
		}
	}
}

// pause is what a reader waits for: a change of the pipe or of the network, or a time.
type pause struct {
	pipe, network <-chan struct{}
	at            time.Time // zero: no time
}

// until waits; it reports false if over came first.
func (w pause) until(over <-chan struct{}) bool {
	var arrived <-chan time.Time
	if !w.at.IsZero() {
		timer := time.NewTimer(time.Until(w.at))
		defer timer.Stop()
		arrived = timer.C
	}
	select {
	case <-w.pipe:
	case <-w.network:
	case <-arrived:
	case <-over:
		return false
	}
	return true
}

// take reads what has arrived, or says what to wait for.
func (p *pipe) take(b []byte) (int, pause, error) {
	flows, network := p.net.flows(p.from, p.to)
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := pause{pipe: p.changed, network: network}
	switch {
	case p.gone:
		return 0, wait, net.ErrClosed
	case !flows:
		return 0, wait, nil
	case len(p.chunks) == 0:
		return 0, wait, p.ended
	}
	c := &p.chunks[0]
	if time.Now().Before(c.at) {
		wait.at = c.at
		return 0, wait, nil
	}
	n := copy(b, c.bytes)
	p.size -= n
	if c.bytes = c.bytes[n:]; len(c.bytes) == 0 {
		p.chunks = p.chunks[1:]
	}
	p.touch()
	return n, wait, nil
}
