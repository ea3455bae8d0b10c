package edge

import (
	"galgo"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/wire"
)

// About how long an entity is in a reply, in bytes, with a name of full length:
// what is reserved of the byte budget before a list is built.
const (
	userSize       = 320
	tokenSize      = 264
	streamSize     = 300
	topicSize      = 1024
	partitionSize  = 40
	groupSize      = 270
	memberSize     = 8
	assignmentSize = 12
)

func (a *reader) user(body []byte) galgo.Code {
	m, err := wire.DecodeUserRequest(body)
	if err != nil {
		return galgo.CodeInvalidCommand
	}
	u, ok := a.view.User(m.User)
	if (!ok || u.Actor() != a.session.actor) && !a.allows(metadata.RuleReadUsers, 0, 0) {
		return galgo.CodeUnauthorized
	}
	if ok {
		if !a.reserve(userSize + u.PermissionsSize()) {
			return galgo.CodeTransientNotAccepted
		}
		a.body = a.view.UserDetails(u).Append(nil)
	}
	return galgo.CodeOK
}

func (a *reader) users([]byte) galgo.Code {
	if !a.allows(metadata.RuleReadUsers, 0, 0) {
		return galgo.CodeUnauthorized
	}
	if !a.reserve(int(a.view.Counts().Users) * userSize) {
		return galgo.CodeTransientNotAccepted
	}
	for u := range a.view.Users() {
		if a.body = wire.AppendUsers(a.body, []wire.UserInfo{a.view.UserInfo(u)}); a.full() {
			break
		}
	}
	return galgo.CodeOK
}

// tokens lists those of the caller; there is no way to see another's.
func (a *reader) tokens([]byte) galgo.Code {
	u, ok := a.view.User(galgo.NumericID(a.session.actor.User))
	switch {
	case !ok, u.Actor() != a.session.actor:
		return galgo.CodeUnauthorized
	case !a.reserve(int(u.Tokens) * tokenSize):
		return galgo.CodeTransientNotAccepted
	}
	for t := range a.view.Tokens(u) {
		a.body = wire.AppendTokens(a.body, []wire.TokenInfo{{Name: t.Name, ExpiresAt: t.ExpiresAt}})
	}
	return galgo.CodeOK
}

func (a *reader) stream(body []byte) galgo.Code {
	m, err := wire.DecodeStreamRequest(body)
	if err != nil {
		return galgo.CodeInvalidCommand
	}
	s, ok := a.view.Stream(m.Stream)
	switch {
	case !ok:
		return galgo.CodeOK
	case !a.allows(metadata.RuleGetStream, s.ID, 0):
		return galgo.CodeUnauthorized
	case !a.reserve(int(s.Topics)*topicSize + streamSize):
		return galgo.CodeTransientNotAccepted
	}
	details := wire.StreamDetails{}
	for t := range a.view.Topics(s) {
		details.Topics = append(details.Topics, a.topicInfo(t))
	}
	details.StreamInfo = streamInfo(s, details.Topics)
	a.body = details.Append(nil)
	return galgo.CodeOK
}

func (a *reader) streams([]byte) galgo.Code {
	if !a.allows(metadata.RuleGetStreams, 0, 0) {
		return galgo.CodeUnauthorized
	}
	if !a.reserve(int(a.view.Counts().Streams) * streamSize) {
		return galgo.CodeTransientNotAccepted
	}
	for s := range a.view.Streams() {
		if a.body = a.sumOfStream(s).Append(a.body); a.full() {
			break
		}
	}
	return galgo.CodeOK
}

// streamInfo is a stream with the sums of its topics.
func streamInfo(s *metadata.Stream, topics []wire.TopicInfo) wire.StreamInfo {
	i := wire.StreamInfo{ID: s.ID, CreatedAt: s.CreatedAt, TopicsCount: s.Topics, Name: s.Name}
	for _, t := range topics {
		i.Size += t.Size
		i.MessagesCount += t.MessagesCount
	}
	return i
}

// sumOfStream is streamInfo without a list of the topics.
func (a *reader) sumOfStream(s *metadata.Stream) wire.StreamInfo {
	i := streamInfo(s, nil)
	for t := range a.view.Topics(s) {
		size, messages := a.sumOfTopic(t)
		i.Size += size
		i.MessagesCount += messages
	}
	return i
}

func (a *reader) sumOfTopic(t *metadata.Topic) (size, messages uint64) {
	for p := range a.view.Partitions(t) {
		f := a.figures(p)
		size += f.SizeBytes
		messages += f.Messages
	}
	return size, messages
}

// figures are the node's numbers of a partition; those of an empty one while the
// node does not have its group yet.
func (a *reader) figures(p *metadata.Partition) partition.Figures {
	f, ok := a.server.backend.Stats(p.Group)
	if !ok {
		f = partition.Figures{}
	}
	f.Segments = max(f.Segments, 1)
	return f
}

func (a *reader) topic(body []byte) galgo.Code {
	m, err := wire.DecodeTopicRequest(body)
	if err != nil {
		return galgo.CodeInvalidCommand
	}
	t, err := a.view.Topic(m.Stream, m.Topic)
	switch {
	case err != nil:
		return galgo.CodeOK
	case !a.allows(metadata.RuleGetTopic, t.Stream, t.ID):
		return galgo.CodeUnauthorized
	case !a.reserve(int(t.Partitions)*partitionSize + topicSize):
		return galgo.CodeTransientNotAccepted
	}
	details := wire.TopicDetails{TopicInfo: a.topicInfo(t), Partitions: make([]wire.PartitionInfo, 0, t.Partitions)}
	for p := range a.view.Partitions(t) {
		f := a.figures(p)
		details.Partitions = append(details.Partitions, wire.PartitionInfo{
			ID: p.ID, CreatedAt: p.CreatedAt, SegmentsCount: uint32(f.Segments),
			CurrentOffset: f.CurrentOffset, Size: f.SizeBytes, MessagesCount: f.Messages,
		})
	}
	a.body = details.Append(nil)
	return galgo.CodeOK
}

func (a *reader) topics(body []byte) galgo.Code {
	m, err := wire.DecodeStreamRequest(body)
	if err != nil {
		return galgo.CodeInvalidCommand
	}
	s, ok := a.view.Stream(m.Stream)
	switch {
	case !ok:
		a.body = wire.AppendTopics(nil, nil)
		return galgo.CodeOK
	case !a.allows(metadata.RuleGetTopics, s.ID, 0):
		return galgo.CodeUnauthorized
	case !a.reserve(int(s.Topics) * topicSize):
		return galgo.CodeTransientNotAccepted
	}
	list := make([]wire.TopicInfo, 0, s.Topics)
	for t := range a.view.Topics(s) {
		list = append(list, a.topicInfo(t))
	}
	a.body = wire.AppendTopics(nil, list)
	return galgo.CodeOK
}

func (a *reader) topicInfo(t *metadata.Topic) wire.TopicInfo {
	size, messages := a.sumOfTopic(t)
	options := t.Options
	return wire.TopicInfo{
		ID: t.ID, CreatedAt: t.CreatedAt, PartitionsCount: t.Partitions,
		MessageExpiry: options.MessageExpiry, Compression: options.Compression, MaxTopicSize: options.MaxTopicSize,
		Size: size, MessagesCount: messages, Name: t.Name,
		Options:        options.AppendExplicit(nil),
		DerivedOptions: options.AppendDerived(nil),
	}
}
