package config

import (
	"net"
	"net/netip"
	"strconv"
)

// Bound holds an address of each listener. Of those that listeners really have, as
// net.Addr prints them, an empty one means that the configured address stands.
type Bound struct {
	TCP, HTTP, QUIC, WebSocket string
}

// Names of a node that has no roster. Stock clients expect these two.
const (
	AloneClusterName = "single-node"
	AloneNodeName    = "iggy-node"
)

// loopback is told to clients of a node that binds every interface and
// advertises nothing: the one host that is surely right for someone. Stock
// clients that see a roster of one node stay where they are.
const loopback = "127.0.0.1"

// Listen returns what to bind for clients: the configured addresses of the
// transports that are on, with the ports of this node's roster entry in a cluster.
func (c Config) Listen() Bound {
	self, clustered := c.Cluster.Self()
	at := func(t Transport, port int) string {
		switch {
		case !t.Enabled:
			return ""
		case !clustered:
			return t.Address
		}
		return net.JoinHostPort(hostOf(t.Address), strconv.Itoa(port))
	}
	return Bound{
		TCP: at(c.TCP.Transport, self.Ports.TCP), HTTP: at(c.HTTP, self.Ports.HTTP),
		QUIC: at(c.QUIC.Transport, self.Ports.QUIC), WebSocket: at(c.WebSocket.Transport, self.Ports.WebSocket),
	}
}

// ClusterName returns the name that clients are told.
func (c Config) ClusterName() string {
	if c.Cluster.Enabled {
		return c.Cluster.Name
	}
	return AloneClusterName
}

// Member is a node as a client is told about it.
type Member struct {
	ReplicaID int
	Name      string
	Host      string // without a port
	Ports     Ports  // 0 for a transport that is off; TCPReplica is left out
}

// Roster returns the nodes as a client with this address is told, given what
// this node has really bound. What is bound and what is told may differ:
//
//   - in a cluster the roster's entries decide;
//   - alone, tcp.advertised_address decides, else the address that was bound.
func (c Config) Roster(bound Bound, client netip.Addr) []Member {
	if !c.Cluster.Enabled {
		return []Member{c.alone(bound)}
	}
	members := make([]Member, 0, len(c.Cluster.Nodes))
	for _, n := range c.Cluster.Nodes {
		ports := n.Ports
		ports.TCPReplica = 0
		members = append(members, Member{n.ReplicaID, n.Name, n.HostFor(client), c.enabledPorts(ports)})
	}
	return members
}

func (c *Config) alone(bound Bound) Member {
	tcp := orElse(bound.TCP, c.TCP.Address)
	host, port := hostOf(c.reached(tcp)), portOf(tcp)
	if unspecified(c.reached(tcp)) {
		host = loopback
	}
	if a := c.TCP.AdvertisedAddress; a != "" {
		if _, _, err := net.SplitHostPort(a); err == nil {
			host, port = hostOf(a), portOf(a)
		} else {
			host = a
		}
	}
	return Member{Name: AloneNodeName, Host: host, Ports: c.enabledPorts(Ports{
		TCP:       port,
		HTTP:      portOf(orElse(bound.HTTP, c.HTTP.Address)),
		QUIC:      portOf(orElse(bound.QUIC, c.QUIC.Address)),
		WebSocket: portOf(orElse(bound.WebSocket, c.WebSocket.Address)),
	})}
}

// reached is the address whose host clients are told: that of TCP, or of the first
// transport that is on if it is off.
func (c *Config) reached(tcp string) string {
	switch {
	case c.TCP.Enabled:
		return tcp
	case c.QUIC.Enabled:
		return c.QUIC.Address
	}
	return c.WebSocket.Address
}

// enabledPorts drops the ports of transports that are off.
func (c *Config) enabledPorts(p Ports) Ports {
	if !c.TCP.Enabled {
		p.TCP = 0
	}
	if !c.HTTP.Enabled {
		p.HTTP = 0
	}
	if !c.QUIC.Enabled {
		p.QUIC = 0
	}
	if !c.WebSocket.Enabled {
		p.WebSocket = 0
	}
	return p
}

func orElse(text, other string) string {
	if text != "" {
		return text
	}
	return other
}

func hostOf(address string) string {
	host, _, _ := net.SplitHostPort(address)
	return host
}

func portOf(address string) int {
	_, text, _ := net.SplitHostPort(address)
	port, _ := strconv.ParseUint(text, 10, 16)
	return int(port)
}
