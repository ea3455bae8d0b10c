package metadata

import (
	"cmp"
	"slices"

	"galgo"
)

// Rule is a row of the table of rights (wire.md §7).
type Rule uint8

// The rules. Those on a stream look at the user's global rights and those for
// the stream, those on a topic at the rights for the topic too.
const (
	RuleServerInfo   Rule = iota // statistics, clients, snapshots of the server
	RuleReadUsers                // see users other than oneself
	RuleManageUsers              // change users
	RuleGetStreams               // list all streams
	RuleGetStream                // on a stream
	RuleCreateStream             //
	RuleManageStream             // on a stream: update, delete, purge
	RuleGetTopics                // on a stream: list its topics
	RuleGetTopic                 // on a topic: see it, and all about consumer groups
	RuleCreateTopic              // on a stream
	RuleManageTopic              // on a topic: update, delete, purge, partitions, segments
	RulePoll                     // on a topic: poll, and all about consumer offsets
	RuleSend                     // on a topic
	RuleManageServer             // have a node give up what it leads
)

// permits reports whether p passes the rule on the stream and topic, which are
// looked at only where the rule has them. Nil permits nothing. Streams and topics are
// sorted, as those of every user in the state: this runs for each send.
func permits(p *galgo.Permissions, rule Rule, stream, topic uint32) bool {
	if p == nil {
		return false
	}
	if permitsGlobally(&p.Global, rule) {
		return true
	}
	i, ok := slices.BinarySearchFunc(p.Streams, stream, func(s galgo.StreamPermissions, id uint32) int { return cmp.Compare(s.StreamID, id) })
	if !ok {
		return false
	}
	s := &p.Streams[i]
	if permitsInStream(s, rule) {
		return true
	}
	i, ok = slices.BinarySearchFunc(s.Topics, topic, func(t galgo.TopicPermissions, id uint32) int { return cmp.Compare(t.TopicID, id) })
	return ok && permitsInTopic(s.Topics[i], rule)
}

func permitsGlobally(g *galgo.GlobalPermissions, rule Rule) bool {
	switch rule {
	case RuleServerInfo:
		return g.ManageServers || g.ReadServers
	case RuleManageServer:
		return g.ManageServers
	case RuleReadUsers:
		return g.ManageUsers || g.ReadUsers
	case RuleManageUsers:
		return g.ManageUsers
	case RuleGetStreams, RuleGetStream:
		return g.ManageStreams || g.ReadStreams
	case RuleCreateStream, RuleManageStream:
		return g.ManageStreams
	case RuleGetTopics, RuleGetTopic:
		return g.ReadStreams || g.ManageStreams || g.ManageTopics || g.ReadTopics
	case RuleCreateTopic, RuleManageTopic:
		return g.ManageStreams || g.ManageTopics
	case RulePoll:
		return g.PollMessages || g.ReadTopics || g.ManageTopics || g.ReadStreams || g.ManageStreams
	case RuleSend:
		return g.SendMessages || g.ManageStreams || g.ManageTopics
	}
	return false
}

func permitsInStream(s *galgo.StreamPermissions, rule Rule) bool {
	switch rule {
	case RuleGetStream:
		return s.ManageStream || s.ReadStream
	case RuleManageStream:
		return s.ManageStream
	case RuleGetTopics, RuleGetTopic:
		return s.ManageStream || s.ReadStream || s.ManageTopics || s.ReadTopics
	case RuleCreateTopic, RuleManageTopic:
		return s.ManageStream || s.ManageTopics
	case RulePoll:
		return s.PollMessages || s.ManageStream || s.ReadStream || s.ManageTopics || s.ReadTopics
	case RuleSend:
		return s.SendMessages || s.ManageStream || s.ManageTopics
	}
	return false
}

func permitsInTopic(t galgo.TopicPermissions, rule Rule) bool {
	switch rule {
	case RuleGetTopic:
		return t.ManageTopic || t.ReadTopic
	case RuleManageTopic:
		return t.ManageTopic
	case RulePoll:
		return t.ManageTopic || t.ReadTopic || t.PollMessages
	case RuleSend:
		return t.ManageTopic || t.SendMessages
	}
	return false
}

// holds reports whether a session is still one of the user that opened it. Root is
// there before anybody signs in, and before this node knows.
func (s *state) holds(who Actor, session uint64) bool {
	u, ok := s.users.get(who.User)
	if !ok {
		return who.User == RootUser
	}
	return (u.Born == who.Born || u.ID == RootUser) && u.holds(session)
}

func (s *state) exists(who Actor) bool {
	if who.User == RootUser {
		return true
	}
	u, ok := s.users.get(who.User)
	return ok && u.Born == who.Born && u.Active
}

// allows reports whether the user passes the rule. Root passes every rule; a user
// that does not exist passes none.
func (s *state) allows(user uint32, rule Rule, stream, topic uint32) bool {
	if user == RootUser {
		return true
	}
	u, ok := s.users.get(user)
	return ok && permits(u.Permissions, rule, stream, topic)
}
