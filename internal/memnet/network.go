package memnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Errors of connections.
var (
	ErrRefused = errors.New("memnet: connection refused")
	ErrReset   = errors.New("memnet: connection reset")
	ErrInUse   = errors.New("memnet: address in use")
)

// bufferMax is how many bytes a direction of a connection holds before writers wait.
const bufferMax = 256 << 10

// Network connects hosts.
type Network struct {
	mu        sync.Mutex
	latency   time.Duration
	cuts      map[[2]string]bool // from, to
	changed   chan struct{}      // closed and replaced when a cut begins or heals
	listeners map[string]*listener
	conns     map[*conn]struct{} // one end of each
	dialed    int
}

// New makes a network whose bytes take latency from one host to another.
func New(latency time.Duration) *Network {
	return &Network{
		latency: latency, cuts: map[[2]string]bool{}, changed: make(chan struct{}),
		listeners: map[string]*listener{}, conns: map[*conn]struct{}{},
	}
}

// Cut stops what flows from one host to another, until Heal.
func (n *Network) Cut(from, to string) { n.setCut(from, to, true) }

// Heal lets it flow again.
func (n *Network) Heal(from, to string) { n.setCut(from, to, false) }

func (n *Network) setCut(from, to string, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[[2]string{from, to}] = cut
	close(n.changed)
	n.changed = make(chan struct{})
}

// flows reports whether bytes get from one host to another now, and otherwise what to
// wait for.
func (n *Network) flows(from, to string) (bool, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.cuts[[2]string{from, to}], n.changed
}

// Host is the network as seen by one host.
type Host struct {
	net  *Network
	name string
}

// Host returns the host of a name. Its addresses are name:port.
func (n *Network) Host(name string) *Host { return &Host{n, name} }

// Listen takes connections to an address. The host part is ignored: a host has its own.
func (h *Host) Listen(_, address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	at := addr(net.JoinHostPort(h.name, port))
	if n.listeners[string(at)] != nil {
		return nil, fmt.Errorf("%w: %s", ErrInUse, at)
	}
	l := &listener{host: h, at: at, arrived: make(chan *conn, 64), closed: make(chan struct{})}
	n.listeners[string(at)] = l
	return l, nil
}

// Dial connects to an address of another host. Across a cut it waits.
func (h *Host) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	to, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	for _, way := range [][2]string{{h.name, to}, {to, h.name}} {
		if err := h.net.await(ctx, way); err != nil {
			return nil, fmt.Errorf("memnet: dial %s: %w", address, err)
		}
	}
	return h.net.connect(h.name, address)
}

// await returns when bytes flow, which takes their latency.
func (n *Network) await(ctx context.Context, way [2]string) error {
	for {
		flows, changed := n.flows(way[0], way[1])
		if flows {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	timer := time.NewTimer(n.latency)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *Network) connect(from, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.listeners[address]
	if l == nil {
		return nil, fmt.Errorf("%w: %s", ErrRefused, address)
	}
	n.dialed++
	here, there := addr(fmt.Sprintf("%s:%d", from, 40000+n.dialed)), l.at
	up, down := newPipe(n, from, l.host.name), newPipe(n, l.host.name, from)
	client := &conn{host: from, in: down, out: up, local: here, remote: there}
	server := &conn{host: l.host.name, in: up, out: down, local: there, remote: here}
	select {
	case l.arrived <- server:
	default:
		return nil, fmt.Errorf("%w: %s: too many wait", ErrRefused, address)
	}
	n.conns[client], n.conns[server] = struct{}{}, struct{}{}
	return client, nil
}

// Down ends all that a host has on the network, as when its process is killed: others
// are told as far as anything flows to them.
func (h *Host) Down() {
	n := h.net
	n.mu.Lock()
	var conns []*conn
	for c := range n.conns {
		if c.host == h.name {
			conns = append(conns, c)
		}
	}
	var listeners []*listener
	for _, l := range n.listeners {
		if l.host.name == h.name {
			listeners = append(listeners, l)
		}
	}
	n.mu.Unlock()
	for _, l := range listeners {
		l.Close()
	}
	for _, c := range conns {
		c.reset()
	}
}

func (n *Network) forget(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

type listener struct {
	host    *Host
	at      addr
	arrived chan *conn
	closing sync.Once
	closed  chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.arrived:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.closing.Do(func() {
		n := l.host.net
		n.mu.Lock()
		delete(n.listeners, string(l.at))
		n.mu.Unlock()
		close(l.closed)
		for {
			select {
			case c := <-l.arrived:
				c.reset()
			default:
				return
			}
		}
	})
	return nil
}

func (l *listener) Addr() net.Addr { return l.at }
