package metadata

import (
	"galgo"
	"galgo/internal/wire"
)

// The handlers of operations on the partitions of a topic.

func (m *Machine) createPartitions(c call, req wire.PartitionsRequest) result {
	s := &m.s
	old, code := s.topic(req.Stream, req.Topic)
	if code != galgo.CodeOK {
		return rejected(code)
	}
	switch count := req.Count; {
	case !s.allows(c.user, RuleManageTopic, old.Stream, old.ID):
		return rejected(galgo.CodeUnauthorized)
	case count < 1 || count > PartitionsPerRequestMax:
		return rejected(galgo.CodeTooManyPartitions)
	case count > PartitionsMax-old.Partitions:
		return rejected(galgo.CodePartitionIDSpaceExhausted)
	}
	t := *old
	s.revision++
	changes := s.addPartitions(&t, req.Count, c.timestamp)
	s.topics.set(t.key(), &t)
	s.reassign(&t)
	return result{changes: changes}
}

func (m *Machine) deletePartitions(c call, req wire.PartitionsRequest) result {
	s := &m.s
	old, code := s.topic(req.Stream, req.Topic)
	if code != galgo.CodeOK {
		return rejected(code)
	}
	switch count := req.Count; {
	case !s.allows(c.user, RuleManageTopic, old.Stream, old.ID):
		return rejected(galgo.CodeUnauthorized)
	case count > old.Partitions:
		return rejected(galgo.CodeInvalidPartitionsCount)
	case count == 0:
		return result{}
	}
	t := *old
	changes := s.dropPartitions(&t, req.Count)
	s.topics.set(t.key(), &t)
	s.revision++
	s.reassign(&t)
	return result{changes: changes}
}

// addPartitions puts count partitions at the end of the topic, each with a group
// that no partition ever had, and the revision as their incarnation: the caller
// has bumped it. The caller stores t.
func (s *state) addPartitions(t *Topic, count uint32, timestamp uint64) []Change {
	changes := make([]Change, 0, count)
	for range count {
		p := &Partition{
			Stream: t.Stream, Topic: t.ID, ID: t.Partitions,
			Group: s.nextGroup, CreatedAt: timestamp, CreatedRevision: s.revision,
		}
		s.nextGroup++
		t.Partitions++
		s.partitions.set(p.key(), p)
		s.groupOwners.set(p.Group, p.key())
		changes = append(changes, p.change(GroupCreated))
	}
	return changes
}

// dropPartitions removes the last count partitions of the topic, which has as
// many. The caller stores t.
func (s *state) dropPartitions(t *Topic, count uint32) []Change {
	changes := make([]Change, 0, count)
	for range count {
		t.Partitions--
		p, _ := s.partitions.get(t.key().partition(t.Partitions))
		s.removePartition(p)
		changes = append(changes, p.change(GroupRemoved))
	}
	return changes
}

// reassign deals the partitions of a topic to the members of its groups anew, as
// their number has changed (storage.md §7.7.1).
func (s *state) reassign(t *Topic) {
	for _, old := range s.consumerGroupList(t) {
		g := old.copied()
		g.deal(t.Partitions)
		s.putConsumerGroup(g)
	}
}
