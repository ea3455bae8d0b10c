package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Bounds of the roster.
const (
	// NodesMax is how many replicas take part in consensus.
	NodesMax = 32
	// AdvertisedMax is how many addresses by network a node may have.
	AdvertisedMax = 16

	clusterNameMax = 255 // bytes, of names of cluster and nodes
)

// Node is an entry of the roster.
type Node struct {
	Name                string
	IP                  string // bound for other replicas, and the address clients are told unless one of the next two says otherwise
	AdvertisedAddress   string // host that clients are told
	AdvertisedAddresses []AdvertisedAddress
	ReplicaID           int // unique, less than the number of nodes
	Ports               Ports
}

// AdvertisedAddress is the host told to clients of one network. The longest
// prefix that holds the client's address wins.
type AdvertisedAddress struct {
	ClientCIDR string
	Address    string
}

// Ports of a node, 0 where it does not listen.
type Ports struct {
	TCP        int
	QUIC       int
	HTTP       int
	WebSocket  int
	TCPReplica int // for other replicas
}

// nodeField is a value of a roster entry, by its name below the entry.
type nodeField struct {
	name string
	at   func(*Node) any
	help string
}

var nodeFields = []nodeField{
	{"name", func(n *Node) any { return &n.Name }, "unique name"},
	{"ip", func(n *Node) any { return &n.IP }, "IP address that is bound for other replicas and told to clients"},
	{"advertised_address", func(n *Node) any { return &n.AdvertisedAddress }, "host told to clients instead of ip"},
	{"replica_id", func(n *Node) any { return &n.ReplicaID }, "number of the replica, counted from 0 without gaps"},
	{"ports.tcp", func(n *Node) any { return &n.Ports.TCP }, "port for clients over TCP"},
	{"ports.quic", func(n *Node) any { return &n.Ports.QUIC }, "port of QUIC, if enabled"},
	{"ports.http", func(n *Node) any { return &n.Ports.HTTP }, "port of HTTP, if enabled"},
	{"ports.websocket", func(n *Node) any { return &n.Ports.WebSocket }, "port of WebSocket, if enabled"},
	{"ports.tcp_replica", func(n *Node) any { return &n.Ports.TCPReplica }, "port for other replicas"},
}

var advertisedFields = []struct {
	name string
	at   func(*AdvertisedAddress) any
	help string
}{
	{"client_cidr", func(a *AdvertisedAddress) any { return &a.ClientCIDR }, "network of clients, such as 10.0.0.0/8"},
	{"address", func(a *AdvertisedAddress) any { return &a.Address }, "host told to them"},
}

// advertisedName is the array of tables within an entry.
const advertisedName = "advertised_addresses"

// setNode stores a value of the roster; path is what follows cluster.nodes, such
// as 0.ports.tcp. Entries up to the number are made as needed.
func (l *loader) setNode(path, shown string, source Source, assign func(p any) error) {
	name := rosterKey + "." + path
	p, err := l.cfg.Cluster.place(path)
	if err != nil {
		l.fail(ErrUnknown, "key "+name, "", source.Where, err.Error())
		return
	}
	if err := assign(p); err != nil {
		l.fail(ErrInvalid, name, shown, source.Where, err.Error())
		return
	}
	l.sources.of[name], l.sources.of[rosterKey] = source, source
}

// place returns where a value of the roster goes.
func (c *Cluster) place(path string) (any, error) {
	index, field, _ := strings.Cut(path, ".")
	i, err := parseIndex(index, NodesMax)
	if err != nil {
		return nil, err
	}
	if rest, ok := strings.CutPrefix(field, advertisedName+"."); ok {
		return c.placeAdvertised(i, rest)
	}
	for _, f := range nodeFields {
		if f.name == field {
			return f.at(c.node(i)), nil
		}
	}
	return nil, errors.New(hint(field, nodeFieldNames()))
}

func (c *Cluster) placeAdvertised(i int, path string) (any, error) {
	index, field, _ := strings.Cut(path, ".")
	j, err := parseIndex(index, AdvertisedMax)
	if err != nil {
		return nil, err
	}
	for _, f := range advertisedFields {
		if f.name == field {
			return f.at(c.node(i).advertised(j)), nil
		}
	}
	return nil, errors.New("want client_cidr or address")
}

// node returns entry i, made if there is none.
func (c *Cluster) node(i int) *Node {
	for len(c.Nodes) <= i {
		c.Nodes = append(c.Nodes, Node{})
	}
	return &c.Nodes[i]
}

func (n *Node) advertised(j int) *AdvertisedAddress {
	for len(n.AdvertisedAddresses) <= j {
		n.AdvertisedAddresses = append(n.AdvertisedAddresses, AdvertisedAddress{})
	}
	return &n.AdvertisedAddresses[j]
}

func parseIndex(text string, limit int) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || int(n) >= limit {
		return 0, fmt.Errorf("want a number of 0 to %d after the array's name", limit-1)
	}
	return int(n), nil
}

func nodeFieldNames() []string {
	names := []string{advertisedName}
	for _, f := range nodeFields {
		names = append(names, f.name)
	}
	return names
}

// rosterPath turns the part of a variable after its prefix into a path below
// cluster.nodes: CLUSTER_NODES_0_PORTS_TCP_REPLICA is 0.ports.tcp_replica.
func rosterPath(suffix string) (path string, ok bool) {
	rest, ok := strings.CutPrefix(suffix, envSuffix(rosterKey)+"_")
	if !ok {
		return "", false
	}
	index, field, _ := strings.Cut(rest, "_")
	if sub, ok := strings.CutPrefix(field, envSuffix(advertisedName)+"_"); ok {
		j, leaf, _ := strings.Cut(sub, "_")
		return index + "." + advertisedName + "." + j + "." + strings.ToLower(leaf), true
	}
	for _, f := range nodeFields {
		if envSuffix(f.name) == field {
			return index + "." + f.name, true
		}
	}
	return index + "." + strings.ToLower(field), true
}

// Self returns this node's entry of the roster, false if the node is alone or
// the roster has no such entry.
func (c Cluster) Self() (Node, bool) {
	if !c.Enabled {
		return Node{}, false
	}
	i := slices.IndexFunc(c.Nodes, func(n Node) bool { return n.ReplicaID == c.ReplicaID })
	if i < 0 {
		return Node{}, false
	}
	return c.Nodes[i], true
}

// PeerBind returns what this node binds for the others.
func (n Node) PeerBind() string { return net.JoinHostPort(n.IP, strconv.Itoa(n.Ports.TCPReplica)) }

// PeerAddress returns what the others dial.
func (n Node) PeerAddress() string {
	host := n.IP
	if ip, err := netip.ParseAddr(n.IP); err == nil && ip.IsUnspecified() {
		host = n.AdvertisedAddress
	}
	return net.JoinHostPort(host, strconv.Itoa(n.Ports.TCPReplica))
}

// HostFor returns the host that a client with this address is told.
func (n Node) HostFor(client netip.Addr) string {
	best, host := -1, n.IP
	if n.AdvertisedAddress != "" {
		host = n.AdvertisedAddress
	}
	for _, a := range n.AdvertisedAddresses {
		prefix, err := netip.ParsePrefix(a.ClientCIDR)
		if err == nil && prefix.Contains(client.Unmap()) && prefix.Bits() > best {
			best, host = prefix.Bits(), a.Address
		}
	}
	return host
}
