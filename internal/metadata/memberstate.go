package metadata

import "galgo"

// appendMember appends
//
//	size  field
//	   4  id
//	  16  client
//	   4  partitions  count; each u32, in the order in which it got them
//	   4  revoked     count; each, in the order of their marks:
//	   4    partition
//	   4    to        id of the member that is to have it
//	   8    since     µs
func appendMember(b []byte, m *Member) []byte {
	b = append(le.AppendUint32(b, m.ID), m.Client[:]...)
	b = le.AppendUint32(b, uint32(len(m.Partitions)))
	for _, p := range m.Partitions {
		b = le.AppendUint32(b, p)
	}
	b = le.AppendUint32(b, uint32(len(m.Revoked)))
	for _, r := range m.Revoked {
		b = le.AppendUint32(le.AppendUint32(b, r.Partition), r.To)
		b = le.AppendUint64(b, r.Since)
	}
	return b
}

const (
	memberSizeMin  = 4 + 16 + 4 + 4
	revocationSize = 4 + 4 + 8
)

// members takes what appendMember wrote of a group of the topic. No client is a member
// twice, no partition has two owners, and each is on its way from its owner to another
// member.
func (r *reader) members(t *Topic) (members []Member) {
	n := r.count(ClientsMax, memberSizeMin)
	clients := map[galgo.ClientID]bool{}
	owned := map[uint32]bool{}
	var before uint32
	for i := range n {
		m := Member{ID: r.u32()}
		r.ascending("member", i, m.ID, before)
		m.Client = r.array16()
		if clients[m.Client] {
			r.fail(ErrDuplicateClient, "%s is a member twice", m.Client)
		}
		m.Partitions = r.numbers(uint64(t.Partitions))
		for _, p := range m.Partitions {
			if p >= t.Partitions || owned[p] {
				r.fail(ErrCorrupt, "member %d has partition %d of %d, or another has it too", m.ID, p, t.Partitions)
			}
			owned[p] = true
		}
		m.Revoked = r.revocations(t, &m)
		if r.err != nil {
			return nil
		}
		clients[m.Client], before = true, m.ID
		members = append(members, m)
	}
	if n > 0 && len(owned) != int(t.Partitions) {
		r.fail(ErrCorrupt, "%d members have %d of %d partitions", n, len(owned), t.Partitions)
	}
	r.targets(members)
	return members
}

// revocations takes what of the member's partitions is on its way, each once.
func (r *reader) revocations(t *Topic, m *Member) (list []Revocation) {
	n := r.count(uint64(t.Partitions), revocationSize)
	if n == 0 {
		return nil
	}
	left := make(map[uint32]bool, len(m.Partitions))
	for _, p := range m.Partitions {
		left[p] = true
	}
	for range n {
		v := Revocation{Partition: r.u32(), To: r.u32(), Since: r.u64()}
		if !left[v.Partition] || v.To == m.ID {
			r.fail(ErrCorrupt, "partition %d is on its way from member %d to %d", v.Partition, m.ID, v.To)
		}
		delete(left, v.Partition)
		list = append(list, v)
	}
	return list
}

// targets checks that what is on its way is on its way to a member.
func (r *reader) targets(members []Member) {
	ids := map[uint32]bool{}
	for i := range members {
		ids[members[i].ID] = true
	}
	for i := range members {
		for _, v := range members[i].Revoked {
			if !ids[v.To] {
				r.fail(ErrCorrupt, "partition %d is on its way to %d, which is no member", v.Partition, v.To)
			}
		}
	}
}

// checkMembers checks that every member has a session and a connection: a group must not
// wait for anybody else. It fills the index of memberships.
func (s *state) checkMembers(r *reader) {
	s.groups.all(func(k groupKey, g *ConsumerGroup) bool {
		for i := range g.Members {
			id := g.Members[i].Client
			if c, ok := s.client(id); !ok || c.Detached {
				r.fail(ErrCorrupt, "client %s is a member of consumer group %q without a session", id, g.Name)
				return false
			}
			s.memberships.set(membershipKey(id, k), k)
		}
		return true
	})
	s.clients.all(func(_ uint32, c *Client) bool {
		if n := s.membershipsOf(c.ID); n > MembershipsMax {
			r.fail(ErrCorrupt, "client %s is a member of %d consumer groups, at most %d", c.ID, n, MembershipsMax)
		}
		return r.err == nil
	})
}
