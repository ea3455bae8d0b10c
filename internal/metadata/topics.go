package metadata

import (
	"galgo"
	"galgo/internal/wire"
)

// The handlers of operations on topics.

func (m *Machine) createTopic(c call, req newTopic) result {
	s := &m.s
	owner, ok := s.stream(req.Stream)
	if !ok {
		return rejected(galgo.CodeStreamIDNotFound)
	}
	switch {
	case !s.allows(c.user, RuleCreateTopic, owner.ID, 0):
		return rejected(galgo.CodeUnauthorized)
	case s.topicNames.has(topicName(owner.ID, req.Name)):
		return rejected(galgo.CodeTopicNameAlreadyExists)
	case owner.Topics >= TopicsMax:
		return rejected(galgo.CodeTooManyTopics)
	case req.Partitions > PartitionsPerRequestMax:
		return rejected(galgo.CodeTooManyPartitions)
	}
	t := &Topic{
		Stream: owner.ID, ID: s.lowestFreeTopic(owner), Name: req.Name,
		CreatedAt: c.timestamp, Options: req.Options,
	}
	stream := *owner
	stream.Topics++
	s.streams.set(stream.ID, &stream)
	s.revision++
	changes := s.addPartitions(t, req.Partitions, c.timestamp)
	s.topics.set(t.key(), t)
	s.topicNames.set(topicName(t.Stream, t.Name), t.ID)
	return result{payload: newTopicInfo(t).Append(nil), partitions: t.Partitions, changes: changes}
}

// lowestFreeTopic returns the smallest id that no topic of the stream has, which
// has room for one more.
func (s *state) lowestFreeTopic(stream *Stream) uint32 {
	from, to := topicsOf(stream.ID)
	last, _, _ := s.topics.before(to)
	if stream.Topics == 0 || last.topic()+1 == stream.Topics {
		return stream.Topics
	}
	free := uint32(0)
	s.topics.between(from, to, func(k topicKey, _ *Topic) bool {
		if k.topic() != free {
			return false
		}
		free++
		return true
	})
	return free
}

func (m *Machine) updateTopic(c call, req wire.UpdateTopicRequest) result {
	s := &m.s
	old, code := s.topic(req.Stream, req.Topic)
	if code != galgo.CodeOK {
		return rejected(code)
	}
	if !s.allows(c.user, RuleManageTopic, old.Stream, old.ID) {
		return rejected(galgo.CodeUnauthorized)
	}
	if owner, taken := s.topicNames.get(topicName(old.Stream, req.Name)); taken && owner != old.ID {
		return rejected(galgo.CodeTopicNameAlreadyExists)
	}
	options, err := old.Options.Update(req.Options)
	if err != nil {
		return rejected(codeOf(err))
	}
	t := *old
	t.Name, t.Options = req.Name, options
	s.topicNames.delete(topicName(old.Stream, old.Name))
	s.topicNames.set(topicName(t.Stream, t.Name), t.ID)
	s.topics.set(t.key(), &t)
	return result{changes: []Change{{Kind: TopicUpdated, Stream: t.Stream, Topic: t.ID}}}
}

func (m *Machine) deleteTopic(c call, req wire.TopicRequest) result {
	s := &m.s
	t, code := s.topic(req.Stream, req.Topic)
	if code != galgo.CodeOK {
		return rejected(code)
	}
	if !s.allows(c.user, RuleManageTopic, t.Stream, t.ID) {
		return rejected(galgo.CodeUnauthorized)
	}
	owner, _ := s.streams.get(t.Stream)
	stream := *owner
	stream.Topics--
	s.streams.set(stream.ID, &stream)
	changes := s.removeTopic(t, nil)
	s.revision++
	return result{changes: changes}
}

func (m *Machine) purgeTopic(c call, req wire.TopicRequest) result {
	s := &m.s
	t, code := s.topic(req.Stream, req.Topic)
	if code != galgo.CodeOK {
		return rejected(code)
	}
	if !s.allows(c.user, RuleManageTopic, t.Stream, t.ID) {
		return rejected(galgo.CodeUnauthorized)
	}
	changes := s.purge(t, nil)
	if len(changes) > 0 {
		s.revision++
	}
	return result{changes: changes}
}
