package galgo

import (
	"cmp"
	"slices"
)

// Permissions is what a user may do. Ids are those of streams and topics as
// numbers; nothing checks that they exist.
type Permissions struct {
	Global  GlobalPermissions
	Streams []StreamPermissions // each id once
}

// GlobalPermissions hold for everything.
type GlobalPermissions struct {
	ManageServers bool
	ReadServers   bool
	ManageUsers   bool
	ReadUsers     bool
	ManageStreams bool
	ReadStreams   bool
	ManageTopics  bool
	ReadTopics    bool
	PollMessages  bool
	SendMessages  bool
}

// StreamPermissions hold for one stream and its topics.
type StreamPermissions struct {
	StreamID     uint32
	ManageStream bool
	ReadStream   bool
	ManageTopics bool
	ReadTopics   bool
	PollMessages bool
	SendMessages bool
	Topics       []TopicPermissions // each id once
}

// TopicPermissions hold for one topic.
type TopicPermissions struct {
	TopicID      uint32
	ManageTopic  bool
	ReadTopic    bool
	PollMessages bool
	SendMessages bool
}

// AllPermissions is what the root user may do.
func AllPermissions() Permissions {
	return Permissions{Global: GlobalPermissions{
		ManageServers: true, ReadServers: true, ManageUsers: true, ReadUsers: true,
		ManageStreams: true, ReadStreams: true, ManageTopics: true, ReadTopics: true,
		PollMessages: true, SendMessages: true,
	}}
}

// Clone returns a copy that shares nothing with p.
func (p Permissions) Clone() Permissions {
	p.Streams = slices.Clone(p.Streams)
	for i := range p.Streams {
		p.Streams[i].Topics = slices.Clone(p.Streams[i].Topics)
	}
	return p
}

// Sort orders streams and topics by id, so that equal permissions have equal bytes.
func (p Permissions) Sort() {
	slices.SortFunc(p.Streams, func(a, b StreamPermissions) int { return cmp.Compare(a.StreamID, b.StreamID) })
	for _, s := range p.Streams {
		slices.SortFunc(s.Topics, func(a, b TopicPermissions) int { return cmp.Compare(a.TopicID, b.TopicID) })
	}
}

// Stream finds what is allowed in a stream; without an entry it is nothing.
func (p Permissions) Stream(id uint32) StreamPermissions {
	for i := range p.Streams {
		if p.Streams[i].StreamID == id {
			return p.Streams[i]
		}
	}
	return StreamPermissions{StreamID: id}
}

// Topic finds what is allowed in a topic; without an entry it is nothing.
func (s StreamPermissions) Topic(id uint32) TopicPermissions {
	for _, t := range s.Topics {
		if t.TopicID == id {
			return t
		}
	}
	return TopicPermissions{TopicID: id}
}
