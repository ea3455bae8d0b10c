package peer

import (
	"net"
	"net/netip"
	"sync"
)

// Bounds of the connections that have not introduced themselves yet.
const (
	strangersMax = 64 // from sources that are of no node
	sourceMax    = 16 // from one source, also if it is of a node
)

// lobby holds the connections that have not introduced themselves. One that comes is
// always let in: where there is no room it takes the place of the oldest, as who speaks
// the protocol is through in no time and who is silent is not missed. The sources of
// nodes have places of their own, so that strangers cannot take them.
type lobby struct {
	mu      sync.Mutex
	waiting []*stranger // oldest first
	nodes   map[vantage]string
}

// vantage is one way to learn where a node is. Each knows one source, the latest.
type vantage struct {
	node   uint8
	dialed bool // it was reached there; else it came from there
}

type stranger struct {
	conn   net.Conn
	source string
	ofNode bool
}

// newLobby takes the addresses of the roster that need no look-up; the rest is learned
// from connections.
func newLobby(nodes []Node) *lobby {
	b := &lobby{nodes: map[vantage]string{}}
	for i, n := range nodes {
		host, _, err := net.SplitHostPort(n.Address)
		if ip, bad := netip.ParseAddr(host); err == nil && bad == nil {
			b.nodes[vantage{uint8(i), true}] = sourceOfIP(ip)
		}
	}
	return b
}

// learn notes where a node was met.
func (b *lobby) learn(at vantage, remote net.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes[at] = sourceOf(remote)
}

// enter lets a connection in, and closes the one whose place it takes.
func (b *lobby) enter(conn net.Conn) *stranger {
	s := &stranger{conn: conn, source: sourceOf(conn.RemoteAddr())}
	b.mu.Lock()
	for _, source := range b.nodes {
		s.ofNode = s.ofNode || source == s.source
	}
	out := b.crowded(s)
	if out != nil {
		b.remove(out)
	}
	b.waiting = append(b.waiting, s)
	b.mu.Unlock()
	if out != nil {
		out.conn.Close()
	}
	return s
}

// crowded returns who has to go for s; nil if there is room.
func (b *lobby) crowded(s *stranger) *stranger {
	var oldestOfSource, oldestGuest *stranger
	ofSource, guests := 0, 0
	for _, w := range b.waiting {
		if w.source == s.source {
			if ofSource++; ofSource == 1 {
				oldestOfSource = w
			}
		}
		if !w.ofNode {
			if guests++; guests == 1 {
				oldestGuest = w
			}
		}
	}
	switch {
	case ofSource >= sourceMax:
		return oldestOfSource
	case guests >= strangersMax:
		return oldestGuest
	}
	return nil
}

// leave gives the place back; false if another connection has taken it.
func (b *lobby) leave(s *stranger) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.remove(s)
}

// remove is called under the lock.
func (b *lobby) remove(s *stranger) bool {
	for i, w := range b.waiting {
		if w == s {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// sourceOf is what of an address tells strangers apart: of IPv6 the network, as whoever
// has one has all its addresses.
func sourceOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	return sourceOfIP(ip)
}

func sourceOfIP(ip netip.Addr) string {
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	network, err := ip.Prefix(64)
	if err != nil {
		return ip.String()
	}
	return network.String()
}
