package config

import (
	"net"
	"net/netip"
	"strconv"
)

// Bound holds the addresses that listeners really have, as net.Addr prints them;
// an empty one means that the configured address stands.
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

// ListenTCP returns what to bind for clients: tcp.address, with the port of this
// node's roster entry in a cluster.
func (c Config) ListenTCP() string {
	self, ok := c.Cluster.Self()
	if !ok {
		return c.TCP.Address
	}
	return net.JoinHostPort(hostOf(c.TCP.Address), strconv.Itoa(self.Ports.TCP))
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
	host, port := hostOf(tcp), portOf(tcp)
	if unspecified(tcp) {
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

// enabledPorts drops the ports of transports that are off.
func (c *Config) enabledPorts(p Ports) Ports {
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
