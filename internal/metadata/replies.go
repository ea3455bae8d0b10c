package metadata

import (
	"galgo"
	"galgo/internal/wire"
)

// PartitionStats are what a node knows of its copy of a partition. They are no
// part of the state: nodes may differ in them.
type PartitionStats struct {
	Segments      uint32
	CurrentOffset uint64 // of the last committed message; 0 if there is none
	Size          uint64 // bytes
	Messages      uint64
}

// Stats looks a partition up by its group. A caller that has no numbers for a
// partition answers what a new one has.
type Stats interface {
	PartitionStats(group uint64) PartitionStats
}

// StreamInfo is a stream with the sums of its partitions' statistics.
func (v *View) StreamInfo(s *Stream, stats Stats) wire.StreamInfo {
	info := newStreamInfo(s)
	for t := range v.Topics(s) {
		for p := range v.Partitions(t) {
			part := stats.PartitionStats(p.Group)
			info.Size += part.Size
			info.MessagesCount += part.Messages
		}
	}
	return info
}

// newStreamInfo is a stream without messages.
func newStreamInfo(s *Stream) wire.StreamInfo {
	return wire.StreamInfo{ID: s.ID, CreatedAt: s.CreatedAt, TopicsCount: s.Topics, Name: s.Name}
}

// StreamInfos is the answer to stream.list.
func (v *View) StreamInfos(stats Stats) []wire.StreamInfo {
	list := make([]wire.StreamInfo, 0, v.s.streams.len())
	for s := range v.Streams() {
		list = append(list, v.StreamInfo(s, stats))
	}
	return list
}

// StreamDetails is the answer to stream.get.
func (v *View) StreamDetails(s *Stream, stats Stats) wire.StreamDetails {
	d := wire.StreamDetails{StreamInfo: newStreamInfo(s), Topics: v.TopicInfos(s, stats)}
	for i := range d.Topics {
		d.Size += d.Topics[i].Size
		d.MessagesCount += d.Topics[i].MessagesCount
	}
	return d
}

// TopicInfo is a topic with the sums of its partitions' statistics.
func (v *View) TopicInfo(t *Topic, stats Stats) wire.TopicInfo {
	info := newTopicInfo(t)
	for p := range v.Partitions(t) {
		part := stats.PartitionStats(p.Group)
		info.Size += part.Size
		info.MessagesCount += part.Messages
	}
	return info
}

// newTopicInfo is a topic without messages.
func newTopicInfo(t *Topic) wire.TopicInfo {
	return wire.TopicInfo{
		ID: t.ID, CreatedAt: t.CreatedAt, PartitionsCount: t.Partitions,
		MessageExpiry: t.Options.MessageExpiry, Compression: t.Options.Compression,
		MaxTopicSize: t.Options.MaxTopicSize, Name: t.Name,
		Options: t.Options.AppendExplicit(nil), DerivedOptions: t.Options.AppendDerived(nil),
	}
}

// TopicInfos is the answer to topic.list.
func (v *View) TopicInfos(s *Stream, stats Stats) []wire.TopicInfo {
	list := make([]wire.TopicInfo, 0, s.Topics)
	for t := range v.Topics(s) {
		list = append(list, v.TopicInfo(t, stats))
	}
	return list
}

// TopicDetails is the answer to topic.get.
func (v *View) TopicDetails(t *Topic, stats Stats) wire.TopicDetails {
	d := wire.TopicDetails{
		TopicInfo:  newTopicInfo(t),
		Partitions: make([]wire.PartitionInfo, 0, t.Partitions),
	}
	for p := range v.Partitions(t) {
		part := stats.PartitionStats(p.Group)
		d.Size += part.Size
		d.MessagesCount += part.Messages
		d.Partitions = append(d.Partitions, wire.PartitionInfo{
			ID: p.ID, CreatedAt: p.CreatedAt, SegmentsCount: part.Segments,
			CurrentOffset: part.CurrentOffset, Size: part.Size, MessagesCount: part.Messages,
		})
	}
	return d
}

// GroupInfos is the answer to consumer_group.list.
func (v *View) GroupInfos(t *Topic) []wire.GroupInfo {
	var list []wire.GroupInfo
	for g := range v.ConsumerGroups(t) {
		list = append(list, GroupInfo(t, g))
	}
	return list
}

// GroupDetails is the answer to consumer_group.get: a partition on its way to another
// member counts as its owner's.
func (v *View) GroupDetails(t *Topic, g *ConsumerGroup) wire.ConsumerGroupDetails {
	d := wire.ConsumerGroupDetails{GroupInfo: GroupInfo(t, g)}
	for i := range g.Members {
		m := &g.Members[i]
		d.Members = append(d.Members, wire.GroupMember{ID: m.ID, Partitions: m.Partitions})
	}
	return d
}

// GroupInfo is a consumer group as lists show it.
func GroupInfo(t *Topic, g *ConsumerGroup) wire.GroupInfo {
	return wire.GroupInfo{ID: g.ID, PartitionsCount: t.Partitions, MembersCount: uint32(len(g.Members)), Name: g.Name}
}

// UserInfos is the answer to user.list.
func (v *View) UserInfos() []wire.UserInfo {
	list := make([]wire.UserInfo, 0, v.s.users.len())
	for u := range v.Users() {
		list = append(list, v.UserInfo(u))
	}
	return list
}

// UserInfo is a user in the answer to user.list.
func (v *View) UserInfo(u *User) wire.UserInfo { return userInfo(u) }

// UserDetails is the answer to user.get.
func (v *View) UserDetails(u *User) wire.UserDetails { return userDetails(u) }

func userDetails(u *User) wire.UserDetails {
	return wire.UserDetails{UserInfo: userInfo(u), Permissions: u.Permissions}
}

func userInfo(u *User) wire.UserInfo {
	status := galgo.UserInactive
	if u.Active {
		status = galgo.UserActive
	}
	return wire.UserInfo{ID: u.ID, CreatedAt: u.CreatedAt, Status: status, Username: u.Name}
}

// appendNewPartition appends the record of a partition without messages, as
// wire.TopicDetails does.
func appendNewPartition(b []byte, id uint32, createdAt uint64) []byte {
	b = le.AppendUint64(le.AppendUint32(b, id), createdAt)
	return append(b, make([]byte, 4+3*8)...)
}
