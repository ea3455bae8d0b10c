package metadata

import (
	"iter"
	"math"

	"galgo"
	"galgo/internal/wire"
)

// View is the state as it was at one op. It never changes, and any number of
// goroutines may read it. What it returns is shared with the machine: callers must
// not change it.
type View struct {
	s state
}

// Op is the last op that the view includes; 0 if none.
func (v *View) Op() uint64 { return v.s.applied }

// Timestamp is that of the last op, µs since the Unix epoch.
func (v *View) Timestamp() uint64 { return v.s.timestamp }

// Revision grows whenever partitions or consumer groups come or go or are purged.
func (v *View) Revision() uint64 { return v.s.revision }

// GroupsIssued is the highest group id that was ever given to a partition, 0 if
// none was. Whatever carries a higher one was not made under this metadata.
func (v *View) GroupsIssued() uint64 { return v.s.nextGroup - 1 }

// Bootstrapped reports whether the root user and the settings exist.
func (v *View) Bootstrapped() bool { return v.s.rooted }

// Settings are the replicated settings; zero before Bootstrap.
func (v *View) Settings() Settings { return v.s.settings }

// Counts are numbers of things.
type Counts struct {
	Users, Streams, Topics, Partitions, ConsumerGroups, Clients uint32
}

// Counts returns how many of each there are, in O(1).
func (v *View) Counts() Counts {
	return Counts{
		Users:          uint32(v.s.users.len()),
		Streams:        uint32(v.s.streams.len()),
		Topics:         uint32(v.s.topics.len()),
		Partitions:     uint32(v.s.partitions.len()),
		ConsumerGroups: uint32(v.s.groups.len()),
		Clients:        uint32(v.s.clients.len()),
	}
}

// Stream finds a stream by number or name.
func (v *View) Stream(id galgo.Identifier) (*Stream, bool) { return v.s.stream(id) }

// Topic finds a topic by number or name. The error is a *galgo.Error with
// CodeStreamIDNotFound or CodeTopicIDNotFound.
func (v *View) Topic(stream, topic galgo.Identifier) (*Topic, error) {
	t, code := v.s.topic(stream, topic)
	switch code {
	case galgo.CodeOK:
		return t, nil
	case galgo.CodeStreamIDNotFound:
		return nil, galgo.Errorf(code, "there is no stream %s", stream)
	}
	return nil, galgo.Errorf(code, "there is no topic %s in stream %s", topic, stream)
}

// Partition finds a partition of a topic by its number.
func (v *View) Partition(t *Topic, id uint32) (*Partition, bool) { return v.s.partition(t, id) }

// PartitionAt finds a partition by the numbers of what it is in.
func (v *View) PartitionAt(stream, topic, id uint32) (*Partition, bool) {
	if topic >= TopicsMax || id >= PartitionsMax {
		return nil, false
	}
	return v.s.partitions.get(keyOfTopic(stream, topic).partition(id))
}

// PartitionOf finds the partition that a consensus group replicates.
func (v *View) PartitionOf(group uint64) (*Partition, bool) {
	key, ok := v.s.groupOwners.get(group)
	if !ok {
		return nil, false
	}
	return v.s.partitions.get(key)
}

// TopicOf finds the topic of a partition.
func (v *View) TopicOf(p *Partition) (*Topic, bool) {
	return v.s.topics.get(keyOfTopic(p.Stream, p.Topic))
}

// ConsumerGroup finds a consumer group of a topic by number or name.
func (v *View) ConsumerGroup(t *Topic, id galgo.Identifier) (*ConsumerGroup, bool) {
	return v.s.consumerGroup(t, id)
}

// Tokens yields the personal access tokens of a user, by name.
func (v *View) Tokens(u *User) iter.Seq[*Token] {
	return func(yield func(*Token) bool) { v.s.tokensOf(u.ID, yield) }
}

// TokenOwner finds a token by its hash, and whose it is. One that has expired is there
// until it is swept; false is also that of a token that has expired by the time of the
// last op.
func (v *View) TokenOwner(hash TokenHash) (*Token, *User, bool) {
	t, ok := v.s.token(hash)
	if !ok || t.expiredAt(v.s.timestamp) {
		return nil, nil, false
	}
	u, ok := v.s.users.get(t.User)
	return t, u, ok
}

// NextExpiry is when the first of the tokens expires, in µs since the Unix epoch; false
// if none does.
func (v *View) NextExpiry() (uint64, bool) {
	key, _, ok := v.s.expiries.at(0)
	if !ok {
		return 0, false
	}
	return expiryOf(key), true
}

// ConsumerGroupAt finds a consumer group by the numbers of what it is in.
func (v *View) ConsumerGroupAt(stream, topic, group uint32) (*ConsumerGroup, bool) {
	if topic >= TopicsMax {
		return nil, false
	}
	return v.s.groups.get(keyOfTopic(stream, topic).group(group))
}

// Joining finds the consumer group that a join would make a client a member of, which it
// may be and is not.
func (v *View) Joining(client galgo.ClientID, req wire.GroupRequest) (*ConsumerGroup, bool) {
	session, ok := v.s.client(client)
	if !ok {
		return nil, false
	}
	_, g, code := v.s.groupFor(call{user: session.User, client: client}, req)
	if code != galgo.CodeOK {
		return nil, false
	}
	return g, !v.s.isMember(client, g)
}

// Memberships yields the consumer groups that a client is a member of, by stream,
// topic and id.
func (v *View) Memberships(id galgo.ClientID) iter.Seq[*ConsumerGroup] {
	return func(yield func(*ConsumerGroup) bool) {
		v.s.groupsOf(id, yield)
	}
}

// IsRevoking reports whether Revoking yields any.
func (v *View) IsRevoking() bool { return v.s.revoking.len() > 0 }

// Revoking yields the consumer groups with a partition on its way to another member, by
// stream, topic and id, from one on.
func (v *View) Revoking(stream, topic, group uint32) iter.Seq[*ConsumerGroup] {
	return func(yield func(*ConsumerGroup) bool) {
		v.s.revoking.between(keyOfTopic(stream, topic).group(group), math.MaxUint64, func(k groupKey, _ struct{}) bool {
			g, _ := v.s.groups.get(k)
			return yield(g)
		})
	}
}

// User finds a user by number or name.
func (v *View) User(id galgo.Identifier) (*User, bool) { return v.s.user(id) }

// Streams yields all streams, by id.
func (v *View) Streams() iter.Seq[*Stream] {
	return func(yield func(*Stream) bool) {
		v.s.streams.all(func(_ uint32, s *Stream) bool { return yield(s) })
	}
}

// Topics yields the topics of a stream, by id.
func (v *View) Topics(s *Stream) iter.Seq[*Topic] {
	return func(yield func(*Topic) bool) { v.s.topicsOf(s.ID, yield) }
}

// Partitions yields the partitions of a topic, by id.
func (v *View) Partitions(t *Topic) iter.Seq[*Partition] {
	return func(yield func(*Partition) bool) { v.s.partitionsOf(t, yield) }
}

// AllPartitions yields every partition, by stream, topic and id.
func (v *View) AllPartitions() iter.Seq[*Partition] {
	return func(yield func(*Partition) bool) {
		v.s.partitions.all(func(_ partitionKey, p *Partition) bool { return yield(p) })
	}
}

// ConsumerGroups yields the consumer groups of a topic, by id.
func (v *View) ConsumerGroups(t *Topic) iter.Seq[*ConsumerGroup] {
	return func(yield func(*ConsumerGroup) bool) { v.s.consumerGroupsOf(t, yield) }
}

// Users yields all users, by id.
func (v *View) Users() iter.Seq[*User] {
	return func(yield func(*User) bool) {
		v.s.users.all(func(_ uint32, u *User) bool { return yield(u) })
	}
}

// Clients yields the client table, by slot.
func (v *View) Clients() iter.Seq[*Client] {
	return func(yield func(*Client) bool) {
		v.s.clients.all(func(_ uint32, c *Client) bool { return yield(c) })
	}
}

// Client finds the session of a client id.
func (v *View) Client(id galgo.ClientID) (*Client, bool) { return v.s.client(id) }

// CheckRequest tells what the client table says about a numbered request, which
// is how Apply would treat it if nothing else were committed before.
func (v *View) CheckRequest(client galgo.ClientID, session, request uint64, sum [16]byte) Verdict {
	return v.s.check(client, session, request, sum)
}

// CheckRegister tells how a Register of the user under the client id would end if it
// were the next operation, as far as that does not depend on the time.
func (v *View) CheckRegister(client galgo.ClientID, user uint32, by Credential) Login {
	return v.s.checkRegister(client, user, by, v.s.timestamp)
}

// Holds reports whether a session is still that of the user who opened it: the user is
// there and active, and the session was not ended by a change of the password.
func (v *View) Holds(who Actor, session uint64) bool { return v.s.holds(who, session) }

// Allows reports whether the user exists, is active, and passes the rule on the stream and topic,
// which are looked at only where the rule has them. Root passes every rule.
func (v *View) Allows(who Actor, rule Rule, stream, topic uint32) bool {
	return v.s.exists(who) && v.s.allows(who.User, rule, stream, topic)
}
