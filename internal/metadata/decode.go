package metadata

import (
	"bytes"
	"fmt"

	"galgo"
	"galgo/internal/wire"
)

// Decode makes the machine whose view encodes to exactly these bytes. Whatever no
// machine can have written is refused, with an error that wraps one of those of
// this package and names the part and the byte.
func Decode(state, clients []byte) (*Machine, error) {
	m := New()
	if err := m.s.decodeState(state); err != nil {
		return nil, err
	}
	if err := m.s.decodeClients(clients); err != nil {
		return nil, err
	}
	return m, nil
}

// Least sizes of records in bytes, with names of one byte: what bounds the count
// of them that a given number of bytes can hold.
const (
	userSizeMin   = 4 + 2 + 8 + 8 + 3 + 8 + 1 + 8 + 8 + 1 + 4
	tokenSizeMin  = 2 + 32 + 8 + 8
	streamSizeMin = 4 + 2 + 8 + 4
	topicSizeMin  = 4 + 2 + 8 + topicOptionsSizeMin + 4 + 8 + 4
	partitionSize = 6 * 8
	groupSizeMin  = 4 + 2 + 8 + 4
	clientSizeMin = 4 + 16 + 8 + 4 + 8 + 16 + 8 + 8 + 1 + 9 + 1
	replySizeMin  = 8 + 16 + 8 + 8 + 1 + 4 + 4

	topicOptionsSizeMin = 44
)

func (s *state) decodeState(b []byte) error {
	r := &reader{part: "state", b: b}
	r.version(stateVersion)
	s.applied = r.u64()
	s.timestamp = r.u64()
	s.revision = r.u64()
	s.nextGroup = r.u64()
	s.rooted = r.bool()
	if s.rooted {
		s.settings = r.settings()
	} else if n := r.u64(); n != 0 {
		r.fail(ErrCorrupt, "settings of %#x before bootstrap", n)
	}
	s.decodeUsers(r)
	s.decodeStreams(r)
	return r.end()
}

// ascending checks that ids of a list grow.
func (r *reader) ascending(what string, i, id, before uint32) {
	if i > 0 && id <= before {
		r.fail(ErrCorrupt, "%s %d follows %d", what, id, before)
	}
}

func (s *state) decodeUsers(r *reader) {
	n := r.count(UsersMax, userSizeMin)
	if n > 0 && !s.rooted {
		r.fail(ErrCorrupt, "%d users before bootstrap", n)
	}
	var before uint32
	for i := range n {
		u := r.user()
		r.ascending("user", i, u.ID, before)
		switch {
		case u.ID >= UsersMax:
			r.fail(ErrCorrupt, "user id %d, at most %d", u.ID, UsersMax-1)
		case u.Born < 1 || u.Born > u.PasswordOp || u.PasswordOp > s.applied:
			r.fail(ErrCorrupt, "user %d of op %d has a password of op %d, and the state ends at %d", u.ID, u.Born, u.PasswordOp, s.applied)
		}
		if u.SessionsFrom > s.applied || u.Kept > u.SessionsFrom {
			r.fail(ErrCorrupt, "sessions of user %d hold from op %d on, and that of op %d; the state ends at %d", u.ID, u.SessionsFrom, u.Kept, s.applied)
		}
		if u.ID == RootUser && !u.Active {
			r.fail(ErrCorrupt, "root is not active")
		}
		if !s.userNames.insert(u.Name, u.ID) {
			r.fail(ErrCorrupt, "user name %q occurs twice", u.Name)
		}
		if r.err != nil {
			return
		}
		s.users.set(u.ID, u)
		s.decodeTokens(r, u)
		before = u.ID
	}
	if r.err == nil && s.rooted != s.users.has(RootUser) {
		r.fail(ErrCorrupt, "bootstrapped is %t, and the root user's existence is not", s.rooted)
	}
}

func (r *reader) user() *User {
	u := &User{ID: r.u32()}
	u.Name = r.name(UsernameMin, UsernameMax)
	u.CreatedAt = r.u64()
	u.Born = r.u64()
	u.PasswordHash = r.passwordHash()
	u.PasswordOp = r.u64()
	u.Active = r.bool()
	u.SessionsFrom = r.u64()
	u.Kept = r.u64()
	u.Permissions = r.permissions()
	return u
}

func (s *state) decodeTokens(r *reader, u *User) {
	u.Tokens = r.count(TokensMax, tokenSizeMin)
	var before string
	for i := range u.Tokens {
		t := &Token{User: u.ID, Name: r.name(1, NameMax)}
		copy(t.Hash[:], r.bytes(uint64(len(t.Hash))))
		t.Op, t.ExpiresAt = r.u64(), r.u64()
		_, known := s.token(t.Hash)
		switch {
		case r.err != nil:
			return
		case i > 0 && t.Name <= before:
			r.fail(ErrCorrupt, "token %q follows %q", t.Name, before)
		case known:
			r.fail(ErrCorrupt, "token %q of user %d has the hash of another", t.Name, u.ID)
		case t.Op <= u.Born || t.Op > s.applied:
			r.fail(ErrCorrupt, "token %q of op %d, of a user of op %d, and the state ends at %d", t.Name, t.Op, u.Born, s.applied)
		}
		s.putToken(t)
		before = t.Name
	}
}

func (s *state) decodeStreams(r *reader) {
	n := r.count(StreamsMax, streamSizeMin)
	var before uint32
	for i := range n {
		stream := &Stream{ID: r.u32()}
		r.ascending("stream", i, stream.ID, before)
		if stream.ID >= StreamsMax {
			r.fail(ErrCorrupt, "stream id %d, at most %d", stream.ID, StreamsMax-1)
		}
		stream.Name = r.name(1, NameMax)
		stream.CreatedAt = r.u64()
		if !s.streamNames.insert(stream.Name, stream.ID) {
			r.fail(ErrCorrupt, "stream name %q occurs twice", stream.Name)
		}
		stream.Topics = r.count(TopicsMax, topicSizeMin)
		s.decodeTopics(r, stream)
		if r.err != nil {
			return
		}
		s.streams.set(stream.ID, stream)
		before = stream.ID
	}
}

func (s *state) decodeTopics(r *reader, stream *Stream) {
	var before uint32
	for i := range stream.Topics {
		t := r.topic(stream.ID)
		r.ascending("topic", i, t.ID, before)
		if !s.topicNames.insert(topicName(stream.ID, t.Name), t.ID) {
			r.fail(ErrCorrupt, "topic name %q occurs twice in stream %d", t.Name, stream.ID)
		}
		t.Partitions = r.count(PartitionsMax, partitionSize)
		s.decodePartitions(r, t)
		t.NextConsumerGroup = r.u64()
		if t.NextConsumerGroup > ConsumerGroupsMax {
			r.fail(ErrCorrupt, "next consumer group is %d, at most %d", t.NextConsumerGroup, uint64(ConsumerGroupsMax))
		}
		s.decodeConsumerGroups(r, t)
		if r.err != nil {
			return
		}
		s.topics.set(t.key(), t)
		before = t.ID
	}
}

func (r *reader) topic(stream uint32) *Topic {
	t := &Topic{Stream: stream, ID: r.u32()}
	if t.ID >= TopicsMax {
		r.fail(ErrCorrupt, "topic id %d, at most %d", t.ID, TopicsMax-1)
	}
	t.Name = r.name(1, NameMax)
	t.CreatedAt = r.u64()
	t.Options = r.topicOptions()
	return t
}

func (s *state) decodePartitions(r *reader, t *Topic) {
	for id := range t.Partitions {
		p := &Partition{Stream: t.Stream, Topic: t.ID, ID: id}
		p.Group = r.u64()
		p.CreatedAt = r.u64()
		p.CreatedRevision = r.u64()
		p.PurgeGeneration = r.u64()
		p.DeletedBelow = r.u64()
		p.DeletedUntil = r.u64()
		if p.Group < 1 || p.Group >= s.nextGroup {
			r.fail(ErrCorrupt, "partition has group %d, want 1..%d", p.Group, s.nextGroup-1)
		}
		if p.CreatedRevision > s.revision {
			r.fail(ErrCorrupt, "group %d is of revision %d, and the state of %d", p.Group, p.CreatedRevision, s.revision)
		}
		if !s.groupOwners.insert(p.Group, p.key()) {
			r.fail(ErrCorrupt, "group %d has two partitions", p.Group)
		}
		if r.err != nil {
			return
		}
		s.partitions.set(p.key(), p)
	}
}

func (s *state) decodeConsumerGroups(r *reader, t *Topic) {
	t.ConsumerGroups = r.count(ConsumerGroupsAtOnceMax, groupSizeMin)
	var before uint32
	for i := range t.ConsumerGroups {
		g := &ConsumerGroup{Stream: t.Stream, Topic: t.ID, ID: r.u32()}
		r.ascending("consumer group", i, g.ID, before)
		if uint64(g.ID) >= t.NextConsumerGroup {
			r.fail(ErrCorrupt, "consumer group id %d, and the next is %d", g.ID, t.NextConsumerGroup)
		}
		g.Name = r.name(1, NameMax)
		g.Generation = r.u64()
		g.Members = r.members(t)
		if !s.groupNames.insert(groupName(t.key(), g.Name), g.ID) {
			r.fail(ErrCorrupt, "consumer group name %q occurs twice", g.Name)
		}
		if r.err != nil {
			return
		}
		s.putConsumerGroup(g)
		before = g.ID
	}
}

func (s *state) decodeClients(b []byte) error {
	r := &reader{part: "clients", b: b}
	r.version(clientsVersion)
	n := r.count(uint64(s.settings.ClientsMax), clientSizeMin)
	var before uint32
	for i := range n {
		c := r.client()
		if i > 0 && c.Slot == before {
			r.fail(ErrDuplicateSlot, "%d", c.Slot)
		}
		r.ascending("slot", i, c.Slot, before)
		if s.clientIDs.has(string(c.ID[:])) {
			r.fail(ErrDuplicateClient, "%s", c.ID)
		}
		if c.LatestCommit > s.applied {
			r.fail(ErrCorrupt, "client %s committed op %d, and the state ends at %d", c.ID, c.LatestCommit, s.applied)
		}
		if u, ok := s.users.get(c.User); !ok || u.Born >= c.Born || !u.holds(c.Epoch) {
			r.fail(ErrCorrupt, "client %s has a session of user %d, op %d, who is not there or not its owner", c.ID, c.User, c.Epoch)
		}
		if r.err != nil {
			return r.err
		}
		s.putClient(c)
		before = c.Slot
	}
	s.checkMembers(r)
	return r.end()
}

func (r *reader) client() *Client {
	c := &Client{Slot: r.u32()}
	if c.Slot >= ClientsMax {
		r.fail(ErrSlotRange, "%d, at most %d", c.Slot, ClientsMax-1)
	}
	c.ID = r.array16()
	c.Epoch = r.u64()
	c.User = r.u32()
	c.Watermark = r.u64()
	c.WatermarkSum = r.array16()
	c.LatestCommit = r.u64()
	c.Born = r.u64()
	c.Detached = r.bool()
	c.Home = r.home()
	if c.ID.IsZero() || c.Born < 1 || c.Born > c.Epoch || c.Epoch > c.LatestCommit {
		r.fail(ErrCorrupt, "client %s born at %d, of epoch %d, last commit %d", c.ID, c.Born, c.Epoch, c.LatestCommit)
	}
	n := r.u8()
	if n > RepliesMax {
		r.fail(ErrReply, "client %s has %d, at most %d", c.ID, n, RepliesMax)
		return c
	}
	for range n {
		c.Replies = append(c.Replies, r.reply())
	}
	if err := c.checkReplies(); r.err == nil && err != nil {
		r.fail(ErrReply, "client %s: %v", c.ID, err)
	}
	return c
}

func (r *reader) reply() Reply {
	p := Reply{Request: r.u64()}
	p.RequestSum = r.array16()
	p.Op = r.u64()
	p.Timestamp = r.u64()
	p.Operation = wire.Operation(r.u8())
	p.partitions = r.u32()
	n := r.u32()
	if n > ReplyMax {
		r.fail(ErrReply, "body of %d bytes, limit %d", n, ReplyMax)
	}
	p.body = append([]byte(nil), r.bytes(uint64(n))...)
	return p
}

// checkReplies checks what holds of every list of kept replies: there is one, its
// ops and numbers grow, it ends with what was committed last, and the one reply to
// a Register is that to the newest.
func (c *Client) checkReplies() error {
	if len(c.Replies) == 0 {
		return fmt.Errorf("there is none")
	}
	var op, request uint64
	for i := range c.Replies {
		p := &c.Replies[i]
		if err := p.check(c); err != nil {
			return err
		}
		if p.Op <= op || p.Request != 0 && p.Request <= request {
			return fmt.Errorf("op %d, request %d follows op %d, request %d", p.Op, p.Request, op, request)
		}
		op, request = p.Op, max(request, p.Request)
	}
	switch {
	case op != c.LatestCommit:
		return fmt.Errorf("the last is of op %d, want %d", op, c.LatestCommit)
	case request > 0 && request != c.Watermark:
		return fmt.Errorf("the last is for request %d, want %d", request, c.Watermark)
	}
	return nil
}

func (r *Reply) check(c *Client) error {
	switch {
	case (r.Request == 0) != (r.Operation == wire.OperationRegister):
		return fmt.Errorf("request %d has operation %d", r.Request, r.Operation)
	case r.Request == 0 && (r.Op != c.Epoch || len(r.body) != 0):
		return fmt.Errorf("register of op %d, %d bytes, in epoch %d", r.Op, len(r.body), c.Epoch)
	case r.partitions > PartitionsPerRequestMax:
		return fmt.Errorf("%d partitions, at most %d", r.partitions, PartitionsPerRequestMax)
	case r.partitions > 0 && r.Operation != wire.OperationCreateTopicWithAssignments:
		return fmt.Errorf("operation %d with %d partitions", r.Operation, r.partitions)
	}
	return nil
}

// permissions takes what appendPermissions wrote: sorted, and flags of 0 and 1 only, so
// that equal rights have equal bytes.
func (r *reader) permissions() *galgo.Permissions {
	if !r.bool() {
		return nil
	}
	n := r.u32()
	if n > PermissionsMax {
		r.fail(ErrCorrupt, "permissions of %d bytes, limit %d", n, PermissionsMax)
	}
	b := r.bytes(uint64(n))
	if r.err != nil {
		return nil
	}
	p, err := wire.DecodePermissions(b)
	if err != nil {
		r.fail(ErrCorrupt, "%v", err)
		return nil
	}
	p.Sort()
	if !bytes.Equal(wire.AppendPermissions(nil, p), b) {
		r.fail(ErrCorrupt, "permissions are not sorted, or have flags other than 0 and 1")
	}
	return &p
}

func (r *reader) topicOptions() wire.TopicOptions {
	if r.err != nil {
		return wire.TopicOptions{}
	}
	o, rest, err := wire.DecodeTopicOptionsState(r.b[r.off:])
	if err != nil {
		r.fail(ErrCorrupt, "%v", err)
		return wire.TopicOptions{}
	}
	r.off = len(r.b) - len(rest)
	return o
}
