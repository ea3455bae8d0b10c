package metadata

import (
	"encoding/binary"
	"slices"

	"galgo"
	"galgo/internal/wire"
)

// Member is a client's place in a consumer group. It lasts as long as the session: a
// logout, a lost connection, a new login and eviction from the client table end it.
type Member struct {
	// ID is the lowest number that was free in the group.
	ID     uint32
	Client galgo.ClientID
	// Partitions are its own: it may store offsets for them. No other member has them.
	Partitions []uint32
	// Revoked are those of its partitions that it may not poll any more, because
	// another member is to have them.
	Revoked []Revocation
}

// Revocation is a partition on its way to another member. It is there when the owner
// has committed what it was given of the partition, or had time enough to.
type Revocation struct {
	Partition uint32
	To        uint32 // the member
	Since     uint64 // µs, of the prepare that decided it; with the owner its name
}

// owner is who has a partition: the index of the member, twice, and 1 if the partition is
// on its way to another.
type owner uint32

// index works out the owners, so that a poll looks at one number however large its group,
// and since when they are: for who was one before, as old knows, it was no later.
func (g *ConsumerGroup) index(old *ConsumerGroup) {
	partitions := 0
	for i := range g.Members {
		partitions += len(g.Members[i].Partitions)
	}
	g.owners = make([]owner, partitions)
	for i := range g.Members {
		m := &g.Members[i]
		for _, p := range m.Partitions {
			g.owners[p] = owner(i) << 1
		}
		for _, r := range m.Revoked {
			g.owners[r.Partition] |= 1
		}
	}
	g.tenures = make([]uint64, partitions)
	for p := range g.tenures {
		client := g.Members[g.owners[p]>>1].Client
		if g.tenures[p] = g.Generation; old != nil {
			if since, owned := old.Tenure(client, uint32(p)); owned {
				g.tenures[p] = since
			}
		}
	}
}

// Tenure is a generation since which the client has a partition, without a break; false if
// it does not have it. Whoever has the partition later has it since a later one. It need
// not be the first such generation, nor the same on all replicas: a snapshot does not tell.
func (g *ConsumerGroup) Tenure(id galgo.ClientID, partition uint32) (since uint64, owns bool) {
	if !g.Owns(id, partition) {
		return 0, false
	}
	return g.tenures[partition], true
}

// Owns reports whether a partition is that of the client: it may store offsets for it.
func (g *ConsumerGroup) Owns(id galgo.ClientID, partition uint32) bool {
	return int(partition) < len(g.owners) && g.Members[g.owners[partition]>>1].Client == id
}

// MayPoll reports whether the client may poll a partition: those that it owns, but for
// those on their way to another.
func (g *ConsumerGroup) MayPoll(id galgo.ClientID, partition uint32) bool {
	return g.Owns(id, partition) && g.owners[partition]&1 == 0
}

// Member finds the member that a client is.
func (g *ConsumerGroup) Member(id galgo.ClientID) (*Member, bool) {
	for i := range g.Members {
		if g.Members[i].Client == id {
			return &g.Members[i], true
		}
	}
	return nil, false
}

// revoked is the set of what is on its way to others; nil if that is nothing.
func (m *Member) revoked() map[uint32]bool {
	if len(m.Revoked) == 0 {
		return nil
	}
	set := make(map[uint32]bool, len(m.Revoked))
	for _, r := range m.Revoked {
		set[r.Partition] = true
	}
	return set
}

// Assignment is the answer to consumer_group.sync: what the member may poll now.
func (g *ConsumerGroup) Assignment(m *Member) wire.GroupAssignment {
	a := wire.GroupAssignment{Generation: g.Generation}
	revoked := m.revoked()
	for _, p := range m.Partitions {
		if !revoked[p] {
			a.Partitions = append(a.Partitions, p)
		}
	}
	return a
}

// joinConsumerGroup makes a client a member. One that is a member stays what it is.
func (m *Machine) joinConsumerGroup(c call, req join) result {
	s := &m.s
	t, old, code := s.groupFor(c, req.GroupRequest)
	if code != galgo.CodeOK {
		return rejected(code)
	}
	if s.isMember(c.client, old) {
		return result{}
	}
	if session, ok := s.client(c.client); !ok || session.Detached {
		return rejected(galgo.CodeConsumerGroupMemberNotFound) // nothing would ever take it out again
	}
	if s.membershipsOf(c.client) >= MembershipsMax {
		return rejected(fullCode(wire.OperationJoinConsumerGroup))
	}
	g := old.copied()
	g.add(c.client)
	g.share(t.Partitions, c.timestamp, req.busyIn(g))
	s.putConsumerGroup(g)
	s.memberships.set(membershipKey(c.client, g.key()), g.key())
	return result{}
}

func (m *Machine) leaveConsumerGroup(c call, req wire.GroupRequest) result {
	s := &m.s
	_, g, code := s.groupFor(c, req)
	if code != galgo.CodeOK {
		return rejected(code)
	}
	if !s.isMember(c.client, g) {
		return rejected(galgo.CodeConsumerGroupMemberNotFound)
	}
	s.leave(g, c.client)
	return result{}
}

// groupFor finds the group that a request is about, for a user who may see its topic.
func (s *state) groupFor(c call, req wire.GroupRequest) (*Topic, *ConsumerGroup, galgo.Code) {
	t, code := s.topic(req.Stream, req.Topic)
	if code != galgo.CodeOK {
		return nil, nil, code
	}
	if !s.allows(c.user, RuleGetTopic, t.Stream, t.ID) {
		return nil, nil, galgo.CodeUnauthorized
	}
	g, ok := s.consumerGroup(t, req.Group)
	if !ok {
		return nil, nil, galgo.CodeConsumerGroupIDNotFound
	}
	return t, g, galgo.CodeOK
}

// leave takes members out of a group and deals their partitions to the others.
func (s *state) leave(old *ConsumerGroup, gone ...galgo.ClientID) {
	g := old.copied()
	left := make(map[galgo.ClientID]bool, len(gone))
	for _, id := range gone {
		left[id] = true
	}
	g.Members = slices.DeleteFunc(g.Members, func(m Member) bool { return left[m.Client] })
	t, _ := s.topics.get(keyOfTopic(g.Stream, g.Topic))
	g.deal(t.Partitions)
	s.putConsumerGroup(g)
	for _, id := range gone {
		s.memberships.delete(membershipKey(id, g.key()))
	}
}

// leaveAll takes clients whose sessions end out of all groups. The partitions of a group
// are dealt once, however many of its members they are.
func (s *state) leaveAll(gone ...galgo.ClientID) {
	var keys []groupKey
	from := map[groupKey][]galgo.ClientID{}
	for _, id := range gone {
		s.groupsOf(id, func(g *ConsumerGroup) bool {
			if from[g.key()] == nil {
				keys = append(keys, g.key())
			}
			from[g.key()] = append(from[g.key()], id)
			return true
		})
	}
	for _, k := range keys {
		g, _ := s.groups.get(k)
		s.leave(g, from[k]...)
	}
	if len(keys) > 0 {
		s.revision++
	}
}

// onCompleteRevocations hands partitions over whose owners are done with them, or were
// given time enough. What is not there any more, because the group was dealt anew
// meanwhile, needs no completing.
func (m *Machine) onCompleteRevocations(in *Input) Output {
	c := decoded(in, DecodeCompletion)
	old, ok := m.s.groups.get(keyOfTopic(c.Stream, c.Topic).group(c.Group))
	if !ok {
		return Output{Body: wire.AppendResultOK(nil)}
	}
	g := old.copied()
	g.handOver(c.HandOvers)
	if g.Generation == old.Generation {
		return Output{Body: wire.AppendResultOK(nil)}
	}
	t, _ := m.s.topics.get(keyOfTopic(c.Stream, c.Topic))
	g.even(t.Partitions, in.Timestamp)
	m.s.putConsumerGroup(g)
	m.s.revision++
	return Output{Body: wire.AppendResultOK(nil)}
}

// putConsumerGroup stores a group and what the indexes know of its members, but for
// those that left.
func (s *state) putConsumerGroup(g *ConsumerGroup) {
	old, _ := s.groups.get(g.key())
	g.index(old)
	s.groups.set(g.key(), g)
	if g.revoking() {
		s.revoking.set(g.key(), struct{}{})
	} else {
		s.revoking.delete(g.key())
	}
}

// membershipKey is the key of a client in a group: by client, then group.
func membershipKey(id galgo.ClientID, g groupKey) string {
	return string(binary.BigEndian.AppendUint64(id[:], uint64(g)))
}

func (s *state) isMember(id galgo.ClientID, g *ConsumerGroup) bool {
	return s.memberships.has(membershipKey(id, g.key()))
}

// membershipsOf counts the consumer groups that a client is a member of.
func (s *state) membershipsOf(id galgo.ClientID) (n int) {
	s.groupsOf(id, func(*ConsumerGroup) bool { n++; return true })
	return n
}

func (s *state) groupsOf(id galgo.ClientID, f func(*ConsumerGroup) bool) {
	from := string(id[:])
	s.memberships.between(from, from+"\xff\xff\xff\xff\xff\xff\xff\xff\xff", func(_ string, k groupKey) bool {
		g, _ := s.groups.get(k)
		return f(g)
	})
}
