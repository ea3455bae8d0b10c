package metadata

import (
	"galgo"
	"galgo/internal/wire"
)

// The handlers of operations on consumer groups. The right to see a topic is the
// right to have groups on it (wire.md §7), and is checked before a group is looked
// for: the rights are those on the topic.

func (m *Machine) createConsumerGroup(c call, req wire.CreateGroupRequest) result {
	s := &m.s
	old, code := s.topic(req.Stream, req.Topic)
	if code != galgo.CodeOK {
		return rejected(code)
	}
	switch {
	case !s.allows(c.user, RuleGetTopic, old.Stream, old.ID):
		return rejected(galgo.CodeUnauthorized)
	case s.groupNames.has(groupName(old.key(), req.Name)):
		return rejected(galgo.CodeConsumerGroupNameAlreadyExists)
	case old.ConsumerGroups >= ConsumerGroupsAtOnceMax:
		return rejected(fullCode(wire.OperationCreateConsumerGroup))
	case old.NextConsumerGroup >= ConsumerGroupsMax:
		return rejected(galgo.CodeError)
	}
	t := *old
	g := &ConsumerGroup{Stream: t.Stream, Topic: t.ID, ID: uint32(t.NextConsumerGroup), Name: req.Name}
	t.NextConsumerGroup++
	t.ConsumerGroups++
	s.topics.set(t.key(), &t)
	s.putConsumerGroup(g)
	s.groupNames.set(groupName(t.key(), g.Name), g.ID)
	return result{payload: wire.ConsumerGroupDetails{GroupInfo: GroupInfo(&t, g)}.Append(nil)}
}

func (m *Machine) deleteConsumerGroup(c call, req wire.GroupRequest) result {
	s := &m.s
	old, g, code := s.groupFor(c, req)
	if code != galgo.CodeOK {
		return rejected(code)
	}
	t := *old
	t.ConsumerGroups--
	s.topics.set(t.key(), &t)
	s.removeConsumerGroup(&t, g)
	s.revision++
	return result{changes: []Change{{
		Kind: ConsumerGroupRemoved, Stream: t.Stream, Topic: t.ID, ConsumerGroup: g.ID,
	}}}
}
