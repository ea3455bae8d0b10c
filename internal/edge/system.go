package edge

import (
	"net/netip"

	"galgo"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// clientSize is about the length of a client in lists, in bytes.
const clientSize = 64

func (a *reader) stats([]byte) galgo.Code {
	if !a.allows(metadata.RuleServerInfo, 0, 0) {
		return galgo.CodeUnauthorized
	}
	counts := a.view.Counts()
	s := a.server.backend.Host()
	s.StreamsCount = counts.Streams
	s.TopicsCount = counts.Topics
	s.PartitionsCount = counts.Partitions
	s.ConsumerGroupsCount = counts.ConsumerGroups
	s.ClientsCount = a.server.registry.count()
	for p := range a.view.AllPartitions() {
		f := a.figures(p)
		s.MessagesSize += f.SizeBytes
		s.MessagesCount += f.Messages
		s.SegmentsCount += uint32(f.Segments)
	}
	a.body = s.Append(nil)
	return galgo.CodeOK
}

func (a *reader) cluster([]byte) galgo.Code {
	client, _ := netip.ParseAddrPort(a.address) // the zero address is in no network
	a.body = a.server.backend.Cluster(client.Addr()).Append(nil)
	return galgo.CodeOK
}

func (a *reader) describeOptions(body []byte) galgo.Code {
	m, err := wire.DecodeDescribeOptionsRequest(body)
	if err != nil {
		return galgo.CodeInvalidCommand
	}
	a.body = wire.AppendOptionDescriptions(nil, wire.DescribeOptions(m.Scope))
	return galgo.CodeOK
}

func (a *reader) me([]byte) galgo.Code {
	a.body = wire.ClientDetails{ClientInfo: a.conn.info(a.view), Groups: memberships(a.view, a.session)}.Append(nil)
	return galgo.CodeOK
}

func (a *reader) client(body []byte) galgo.Code {
	m, err := wire.DecodeGetClientRequest(body)
	if err != nil {
		return galgo.CodeOK
	}
	if !a.allows(metadata.RuleServerInfo, 0, 0) {
		return galgo.CodeUnauthorized
	}
	if c, ok := a.server.registry.find(m.ClientID); ok {
		a.body = wire.ClientDetails{ClientInfo: c.info(a.view), Groups: memberships(a.view, c.bound.Load())}.Append(nil)
	}
	return galgo.CodeOK
}

func (a *reader) clients([]byte) galgo.Code {
	if !a.allows(metadata.RuleServerInfo, 0, 0) {
		return galgo.CodeUnauthorized
	}
	conns := a.server.registry.spoken()
	if !a.reserve(len(conns) * clientSize) {
		return galgo.CodeTransientNotAccepted
	}
	list := make([]wire.ClientInfo, 0, len(conns))
	for _, c := range conns {
		list = append(list, c.info(a.view))
	}
	a.body = wire.AppendClients(nil, list)
	return galgo.CodeOK
}

// info is the connection as lists of clients show it.
func (c *conn) info(view *metadata.View) wire.ClientInfo {
	i := wire.ClientInfo{ClientID: c.id, UserID: wire.UserIDNone, Transport: c.socket.Transport(), Address: c.address}
	if b := c.bound.Load(); b != nil {
		i.UserID = b.actor.User
		i.GroupsCount = uint32(len(memberships(view, b)))
	}
	return i
}
