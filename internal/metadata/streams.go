package metadata

import (
	"galgo"
	"galgo/internal/wire"
)

// The handlers of operations on streams. Each looks its objects up first, then
// checks the right, then the rules in the order of storage.md §7.4, and changes
// the state only when nothing can be refused any more.

func (m *Machine) createStream(c call, req wire.CreateStreamRequest) result {
	s := &m.s
	switch {
	case !s.allows(c.user, RuleCreateStream, 0, 0):
		return rejected(galgo.CodeUnauthorized)
	case s.streamNames.has(req.Name):
		return rejected(galgo.CodeStreamNameAlreadyExists)
	case s.streams.len() >= StreamsMax:
		return rejected(galgo.CodeTooManyStreams)
	}
	stream := &Stream{ID: lowestFree(s.streams.cow), Name: req.Name, CreatedAt: c.timestamp}
	s.streams.set(stream.ID, stream)
	s.streamNames.set(stream.Name, stream.ID)
	return result{payload: newStreamInfo(stream).Append(nil)}
}

func (m *Machine) updateStream(c call, req wire.UpdateStreamRequest) result {
	s := &m.s
	old, ok := s.stream(req.Stream)
	if !ok {
		return rejected(galgo.CodeStreamIDNotFound)
	}
	if !s.allows(c.user, RuleManageStream, old.ID, 0) {
		return rejected(galgo.CodeUnauthorized)
	}
	if owner, taken := s.streamNames.get(req.Name); taken && owner != old.ID {
		return rejected(galgo.CodeStreamNameAlreadyExists)
	}
	renamed := *old
	renamed.Name = req.Name
	s.streamNames.delete(old.Name)
	s.streamNames.set(renamed.Name, renamed.ID)
	s.streams.set(renamed.ID, &renamed)
	return result{}
}

func (m *Machine) deleteStream(c call, req wire.StreamRequest) result {
	s := &m.s
	stream, ok := s.stream(req.Stream)
	if !ok {
		return rejected(galgo.CodeStreamIDNotFound)
	}
	if !s.allows(c.user, RuleManageStream, stream.ID, 0) {
		return rejected(galgo.CodeUnauthorized)
	}
	var changes []Change
	for _, t := range s.topicList(stream.ID) {
		changes = s.removeTopic(t, changes)
	}
	s.streams.delete(stream.ID)
	s.streamNames.delete(stream.Name)
	s.revision++
	return result{changes: changes}
}

func (m *Machine) purgeStream(c call, req wire.StreamRequest) result {
	s := &m.s
	stream, ok := s.stream(req.Stream)
	if !ok {
		return rejected(galgo.CodeStreamIDNotFound)
	}
	if !s.allows(c.user, RuleManageStream, stream.ID, 0) {
		return rejected(galgo.CodeUnauthorized)
	}
	var changes []Change
	for _, t := range s.topicList(stream.ID) {
		changes = s.purge(t, changes)
	}
	if len(changes) > 0 {
		s.revision++
	}
	return result{changes: changes}
}

// topicList collects the topics of a stream before they are changed: a map must
// not be written while it is walked.
func (s *state) topicList(stream uint32) []*Topic {
	var list []*Topic
	s.topicsOf(stream, func(t *Topic) bool { list = append(list, t); return true })
	return list
}

func (s *state) partitionList(t *Topic) []*Partition {
	list := make([]*Partition, 0, t.Partitions)
	s.partitionsOf(t, func(p *Partition) bool { list = append(list, p); return true })
	return list
}

func (s *state) consumerGroupList(t *Topic) []*ConsumerGroup {
	var list []*ConsumerGroup
	s.consumerGroupsOf(t, func(g *ConsumerGroup) bool { list = append(list, g); return true })
	return list
}

// purge starts a new generation of each partition of the topic.
func (s *state) purge(t *Topic, changes []Change) []Change {
	for _, old := range s.partitionList(t) {
		p := *old
		p.PurgeGeneration++
		p.DeletedBelow, p.DeletedUntil = 0, 0
		s.partitions.set(p.key(), &p)
		changes = append(changes, p.change(GroupPurged))
	}
	return changes
}

// removeTopic removes a topic with all that is in it; the count of its stream is
// the caller's.
func (s *state) removeTopic(t *Topic, changes []Change) []Change {
	for _, g := range s.consumerGroupList(t) {
		s.removeConsumerGroup(t, g)
	}
	for _, p := range s.partitionList(t) {
		s.removePartition(p)
		changes = append(changes, p.change(GroupRemoved))
	}
	s.topics.delete(t.key())
	s.topicNames.delete(topicName(t.Stream, t.Name))
	return changes
}

func (s *state) removePartition(p *Partition) {
	s.partitions.delete(p.key())
	s.groupOwners.delete(p.Group)
}

func (s *state) removeConsumerGroup(t *Topic, g *ConsumerGroup) {
	for i := range g.Members {
		s.memberships.delete(membershipKey(g.Members[i].Client, g.key()))
	}
	s.groups.delete(g.key())
	s.revoking.delete(g.key())
	s.groupNames.delete(groupName(t.key(), g.Name))
}

func (p *Partition) change(kind ChangeKind) Change {
	return Change{
		Kind: kind, Stream: p.Stream, Topic: p.Topic, Partition: p.ID,
		Group: p.Group, Revision: p.CreatedRevision, Generation: p.PurgeGeneration, Below: p.DeletedBelow, Until: p.DeletedUntil,
	}
}
