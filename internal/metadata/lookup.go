package metadata

import "galgo"

// stream resolves an identifier. A number is one only while a stream has it.
func (s *state) stream(id galgo.Identifier) (*Stream, bool) {
	n, ok := resolve(id, func() (uint32, bool) { return s.streamNames.get(id.Name) })
	if !ok {
		return nil, false
	}
	return s.streams.get(n)
}

// topic resolves a topic of a stream. The error is CodeStreamIDNotFound or
// CodeTopicIDNotFound, CodeOK if there is none.
func (s *state) topic(stream, id galgo.Identifier) (*Topic, galgo.Code) {
	owner, ok := s.stream(stream)
	if !ok {
		return nil, galgo.CodeStreamIDNotFound
	}
	if t, ok := s.topicIn(owner.ID, id); ok {
		return t, galgo.CodeOK
	}
	return nil, galgo.CodeTopicIDNotFound
}

func (s *state) topicIn(stream uint32, id galgo.Identifier) (*Topic, bool) {
	n, ok := resolve(id, func() (uint32, bool) { return s.topicNames.get(topicName(stream, id.Name)) })
	if !ok || n >= TopicsMax {
		return nil, false
	}
	return s.topics.get(keyOfTopic(stream, n))
}

func (s *state) consumerGroup(t *Topic, id galgo.Identifier) (*ConsumerGroup, bool) {
	n, ok := resolve(id, func() (uint32, bool) { return s.groupNames.get(groupName(t.key(), id.Name)) })
	if !ok {
		return nil, false
	}
	return s.groups.get(t.key().group(n))
}

func (s *state) user(id galgo.Identifier) (*User, bool) {
	n, ok := resolve(id, func() (uint32, bool) { return s.userNames.get(id.Name) })
	if !ok {
		return nil, false
	}
	return s.users.get(n)
}

// token finds a token by its hash.
func (s *state) token(hash TokenHash) (*Token, bool) {
	key, ok := s.tokenHashes.get(string(hash[:]))
	if !ok {
		return nil, false
	}
	return s.tokens.get(key)
}

func (s *state) tokensOf(user uint32, f func(*Token) bool) {
	from, to := tokensOf(user)
	s.tokens.between(from, to, func(_ tokenKey, t *Token) bool { return f(t) })
}

// resolve returns the number that an identifier stands for.
func resolve(id galgo.Identifier, byName func() (uint32, bool)) (uint32, bool) {
	if id.Kind == galgo.IdentifierNamed {
		return byName()
	}
	return id.ID, id.Kind == galgo.IdentifierNumeric
}

func (s *state) partition(t *Topic, id uint32) (*Partition, bool) {
	if id >= t.Partitions {
		return nil, false
	}
	return s.partitions.get(t.key().partition(id))
}

func (s *state) topicsOf(stream uint32, f func(*Topic) bool) {
	from, to := topicsOf(stream)
	s.topics.between(from, to, func(_ topicKey, t *Topic) bool { return f(t) })
}

func (s *state) partitionsOf(t *Topic, f func(*Partition) bool) {
	from, to := t.key().partitions()
	s.partitions.between(from, to, func(_ partitionKey, p *Partition) bool { return f(p) })
}

func (s *state) consumerGroupsOf(t *Topic, f func(*ConsumerGroup) bool) {
	from, to := t.key().groups()
	s.groups.between(from, to, func(_ groupKey, g *ConsumerGroup) bool { return f(g) })
}
