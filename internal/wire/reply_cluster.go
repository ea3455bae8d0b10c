package wire

import "strconv"

// NodeRole is what a node is in its cluster.
type NodeRole uint8

// The roles of nodes.
const (
	RoleLeader   NodeRole = 0
	RoleFollower NodeRole = 1
)

// String is the role in a word.
func (r NodeRole) String() string {
	switch r {
	case RoleLeader:
		return "leader"
	case RoleFollower:
		return "follower"
	}
	return "role " + strconv.Itoa(int(r))
}

// NodeStatus is how a node is.
type NodeStatus uint8

// The states of nodes. Clients refuse others.
const (
	NodeHealthy     NodeStatus = 0
	NodeStarting    NodeStatus = 1
	NodeStopping    NodeStatus = 2
	NodeUnreachable NodeStatus = 3
	NodeMaintenance NodeStatus = 4
)

// String is the status in a word.
func (s NodeStatus) String() string {
	names := [...]string{"healthy", "starting", "stopping", "unreachable", "maintenance"}
	if int(s) < len(names) {
		return names[s]
	}
	return "status " + strconv.Itoa(int(s))
}

// ClusterNodesMax bounds a roster; clients refuse longer ones.
const ClusterNodesMax = 64

// ClusterNode is a node of the roster: [str32 name][str32 address][u16 port]*4
// [u8 role][u8 status]. A port of 0 is not offered.
type ClusterNode struct {
	Name      string
	Address   string // IP address or host name that clients can dial
	TCP       uint16
	QUIC      uint16
	HTTP      uint16
	WebSocket uint16
	Role      NodeRole
	Status    NodeStatus
}

// ClusterMetadata answers cluster.metadata: [str32 name][u32 count] and nodes.
type ClusterMetadata struct {
	Name  string
	Nodes []ClusterNode // at most ClusterNodesMax
}

// Append appends the body of the reply.
func (m ClusterMetadata) Append(b []byte) []byte {
	b = le.AppendUint32(appendBytes32(b, m.Name), uint32(len(m.Nodes)))
	for _, n := range m.Nodes {
		b = appendBytes32(appendBytes32(b, n.Name), n.Address)
		for _, port := range [...]uint16{n.TCP, n.QUIC, n.HTTP, n.WebSocket} {
			b = le.AppendUint16(b, port)
		}
		b = append(b, byte(n.Role), byte(n.Status))
	}
	return b
}

// DecodeClusterMetadata reads the body; unknown roles and states are refused.
func DecodeClusterMetadata(body []byte) (ClusterMetadata, error) {
	c := read("cluster metadata", body)
	const least = 4 + 4 + 4*2 + 2
	m := ClusterMetadata{Name: c.string32("name")}
	n := c.count("nodes", least)
	if n > ClusterNodesMax {
		c.fail("nodes", strconv.Itoa(n)+" nodes, limit "+strconv.Itoa(ClusterNodesMax))
	}
	for i := 0; i < n && c.err == nil; i++ {
		m.Nodes = append(m.Nodes, c.clusterNode())
	}
	if err := c.end(); err != nil {
		return ClusterMetadata{}, err
	}
	return m, nil
}

func (c *cursor) clusterNode() ClusterNode {
	n := ClusterNode{
		Name: c.string32("node name"), Address: c.string32("node address"),
		TCP: c.u16("tcp port"), QUIC: c.u16("quic port"), HTTP: c.u16("http port"), WebSocket: c.u16("websocket port"),
		Role: NodeRole(c.u8("role")), Status: NodeStatus(c.u8("status")),
	}
	if n.Role > RoleFollower {
		c.fail("role", n.Role.String())
	}
	if n.Status > NodeMaintenance {
		c.fail("status", n.Status.String())
	}
	return n
}

// Transport is how a client is connected.
type Transport uint8

// The transports. TLS is told as the transport beneath it.
const (
	TransportTCP       Transport = 1
	TransportQUIC      Transport = 2
	TransportHTTP      Transport = 3
	TransportWebSocket Transport = 4
)

// String is the transport in a word.
func (t Transport) String() string {
	switch t {
	case TransportTCP:
		return "tcp"
	case TransportQUIC:
		return "quic"
	case TransportHTTP:
		return "http"
	case TransportWebSocket:
		return "websocket"
	}
	return "transport " + strconv.Itoa(int(t))
}

// UserIDNone is the user of a connection that is not signed in.
const UserIDNone = 0xFFFFFFFF

// ClientInfo is a connection: [u32 id][u32 user][u8 transport][str32 address]
// [u32 memberships].
type ClientInfo struct {
	ClientID    uint32 // number of the connection on its node, from 1
	UserID      uint32 // UserIDNone before the sign-in
	Transport   Transport
	Address     string // of the peer, ip:port
	GroupsCount uint32 // groups that the client is a member of
}

// GroupMembership is a group a client is a member of: [u32 stream][u32 topic]
// [u32 group].
type GroupMembership struct {
	StreamID uint32
	TopicID  uint32
	GroupID  uint32
}

// ClientDetails answers me and client.get: the client, with GroupsCount set to
// their number, and its memberships.
type ClientDetails struct {
	ClientInfo
	Groups []GroupMembership
}

func (i ClientInfo) append(b []byte) []byte {
	b = append(le.AppendUint32(le.AppendUint32(b, i.ClientID), i.UserID), byte(i.Transport))
	return le.AppendUint32(appendBytes32(b, i.Address), i.GroupsCount)
}

func (c *cursor) clientInfo() ClientInfo {
	return ClientInfo{
		ClientID: c.u32("client id"), UserID: c.u32("user id"), Transport: Transport(c.u8("transport")),
		Address: c.string32("address"), GroupsCount: c.u32("groups"),
	}
}

// Append appends the body of the reply; GroupsCount is the length of Groups.
func (d ClientDetails) Append(b []byte) []byte {
	d.GroupsCount = uint32(len(d.Groups))
	b = d.ClientInfo.append(b)
	for _, g := range d.Groups {
		b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, g.StreamID), g.TopicID), g.GroupID)
	}
	return b
}

// DecodeClientDetails reads the body. An empty one means that there is no such
// client; callers look at that first.
func DecodeClientDetails(body []byte) (ClientDetails, error) {
	c := read("client", body)
	const size = 12
	d := ClientDetails{ClientInfo: c.clientInfo()}
	if uint64(d.GroupsCount)*size > uint64(c.left()) {
		c.fail("groups", "more memberships than bytes")
	}
	for i := uint32(0); i < d.GroupsCount && c.err == nil; i++ {
		d.Groups = append(d.Groups, GroupMembership{StreamID: c.u32("stream"), TopicID: c.u32("topic"), GroupID: c.u32("group")})
	}
	if err := c.end(); err != nil {
		return ClientDetails{}, err
	}
	return d, nil
}

// AppendClients appends the clients back to back, without memberships.
func AppendClients(b []byte, clients []ClientInfo) []byte {
	for _, i := range clients {
		b = i.append(b)
	}
	return b
}

// DecodeClients reads clients to the end of the body.
func DecodeClients(body []byte) ([]ClientInfo, error) {
	return decodeAll(body, "clients", (*cursor).clientInfo)
}

// decodeAll reads elements until the body ends.
func decodeAll[T any](body []byte, name string, element func(*cursor) T) ([]T, error) {
	c := read(name, body)
	var all []T
	for c.err == nil && c.left() > 0 {
		all = append(all, element(&c))
	}
	if c.err != nil {
		return nil, c.err
	}
	return all, nil
}
