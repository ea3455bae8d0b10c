package metadata

import (
	"slices"

	"galgo"
)

// Who has which partition of a consumer group (storage.md §7.7). These functions change
// a group that nobody else has yet. What they do follows from the group and from what
// they are given, so it is the same on every replica.

// copied is a group that may be changed.
func (g *ConsumerGroup) copied() *ConsumerGroup {
	c := *g
	c.owners, c.tenures = nil, nil
	c.Members = slices.Clone(g.Members)
	for i := range c.Members {
		m := &c.Members[i]
		m.Partitions, m.Revoked = slices.Clone(m.Partitions), slices.Clone(m.Revoked)
	}
	return &c
}

// add puts a member without partitions at the lowest free id.
func (g *ConsumerGroup) add(id galgo.ClientID) {
	at := 0
	for at < len(g.Members) && g.Members[at].ID == uint32(at) {
		at++
	}
	g.Members = slices.Insert(g.Members, at, Member{ID: uint32(at), Client: id})
}

// revoking reports whether a partition is on its way to another member.
func (g *ConsumerGroup) revoking() bool {
	return slices.ContainsFunc(g.Members, func(m Member) bool { return len(m.Revoked) > 0 })
}

// deal gives the partitions to the members from scratch, in turn. Partitions on their
// way to others, or with messages that were not committed, are no exception: who left
// cannot commit any more.
func (g *ConsumerGroup) deal(partitions uint32) {
	g.Generation++
	for i := range g.Members {
		g.Members[i].Partitions, g.Members[i].Revoked = nil, nil
	}
	if len(g.Members) == 0 {
		return
	}
	for p := range partitions {
		m := &g.Members[int(p)%len(g.Members)]
		m.Partitions = append(m.Partitions, p)
	}
}

// share gives members that have nothing, as new ones do, what others have above their
// fair share (storage.md §7.7.2). A partition that is busy stays with its owner for the
// time being.
func (g *ConsumerGroup) share(partitions uint32, now uint64, busy func(uint32) bool) {
	g.Generation++
	g.dealUnowned(partitions)
	idle := g.idle()
	if len(idle) == 0 {
		return
	}
	excess := g.excess(partitions)
	g.release(excess, busy)
	for i, e := range excess {
		g.give(e, idle[i%len(idle)], now, busy(e.partition))
	}
}

// release takes from members what of the excess is not busy, in one pass: a group may have
// very many partitions.
func (g *ConsumerGroup) release(excess []piece, busy func(uint32) bool) {
	free := make(map[uint32]bool, len(excess))
	for _, e := range excess {
		if !busy(e.partition) {
			free[e.partition] = true
		}
	}
	if len(free) == 0 {
		return
	}
	for i := range g.Members {
		m := &g.Members[i]
		m.Partitions = slices.DeleteFunc(m.Partitions, func(p uint32) bool { return free[p] })
	}
}

// dealUnowned gives partitions that nobody has to members that have none.
func (g *ConsumerGroup) dealUnowned(partitions uint32) {
	owned := make([]bool, partitions)
	var empty []int
	for i := range g.Members {
		if len(g.Members[i].Partitions) == 0 {
			empty = append(empty, i)
		}
		for _, p := range g.Members[i].Partitions {
			owned[p] = true
		}
	}
	if len(empty) == 0 {
		return
	}
	dealt := 0
	for p, taken := range owned {
		if !taken {
			m := &g.Members[empty[dealt%len(empty)]]
			m.Partitions = append(m.Partitions, uint32(p))
			dealt++
		}
	}
}

// idle are the members that have nothing and are to get nothing.
func (g *ConsumerGroup) idle() (idle []int) {
	expects := map[uint32]bool{}
	for i := range g.Members {
		for _, r := range g.Members[i].Revoked {
			expects[r.To] = true
		}
	}
	for i := range g.Members {
		if m := &g.Members[i]; len(m.Partitions) == 0 && !expects[m.ID] {
			idle = append(idle, i)
		}
	}
	return idle
}

// piece is a partition and the index of the member that has it.
type piece struct {
	member    int
	partition uint32
}

// excess is what members keep above their fair share, the last ones first. What does not
// come out even stays with the first who have more.
func (g *ConsumerGroup) excess(partitions uint32) (excess []piece) {
	fair, spare := int(partitions)/len(g.Members), int(partitions)%len(g.Members)
	for i := range g.Members {
		m := &g.Members[i]
		keeps := len(m.Partitions) - len(m.Revoked)
		if keeps <= fair {
			continue
		}
		allowed := fair
		if spare > 0 {
			spare--
			allowed++
		}
		revoked := m.revoked()
		for at := len(m.Partitions) - 1; keeps > allowed; at-- {
			if p := m.Partitions[at]; !revoked[p] {
				excess = append(excess, piece{i, p})
				keeps--
			}
		}
	}
	return excess
}

// give gives a partition that nobody has any more to another member, or marks one that is
// busy for that.
func (g *ConsumerGroup) give(e piece, to int, now uint64, busy bool) {
	from, target := &g.Members[e.member], &g.Members[to]
	if busy {
		from.Revoked = append(from.Revoked, Revocation{Partition: e.partition, To: target.ID, Since: now})
		return
	}
	target.Partitions = append(target.Partitions, e.partition)
}

// handOver gives partitions that were on their way to the members they were for. Each is a
// new generation. What is not on its way any more is passed over. However many they are,
// members are looked through once.
func (g *ConsumerGroup) handOver(list []HandOver) {
	away := g.away()
	arrived := map[uint32][]uint32{} // by the id of the member
	for _, h := range list {
		a, ok := away[h.Partition]
		if !ok || a.moved || a.client != h.Client || a.since != h.Since {
			continue
		}
		a.moved = true
		away[h.Partition] = a
		arrived[a.to] = append(arrived[a.to], h.Partition)
		g.Generation++
	}
	if len(arrived) == 0 {
		return
	}
	for i := range g.Members {
		m := &g.Members[i]
		if len(m.Revoked) > 0 {
			m.Revoked = slices.DeleteFunc(m.Revoked, func(r Revocation) bool { return away[r.Partition].moved })
			m.Partitions = slices.DeleteFunc(m.Partitions, func(p uint32) bool { return away[p].moved })
		}
		m.Partitions = append(m.Partitions, arrived[m.ID]...)
	}
}

// journey is a revocation as handOver sees it.
type journey struct {
	client galgo.ClientID // that has the partition
	since  uint64
	to     uint32
	moved  bool
}

// away are the partitions on their way.
func (g *ConsumerGroup) away() map[uint32]journey {
	away := map[uint32]journey{}
	for i := range g.Members {
		m := &g.Members[i]
		for _, r := range m.Revoked {
			away[r.Partition] = journey{client: m.Client, since: r.Since, to: r.To}
		}
	}
	return away
}

// even sees to it that shares differ by one at most once nothing is on its way any more.
// A join looks at what members have then, and passes over those who are to get
// something: of several at a time, one may have come away with too much or too little.
func (g *ConsumerGroup) even(partitions uint32, now uint64) {
	if g.revoking() {
		return
	}
	excess := g.excess(partitions)
	if len(excess) == 0 {
		return
	}
	g.Generation++
	for _, to := range g.wanting(partitions, len(excess)) {
		g.give(excess[0], to, now, true)
		excess = excess[1:]
	}
}

// wanting lists the members below their fair share, each as often as it lacks
// partitions, then those who get of what does not come out even, for n that there are
// to give.
func (g *ConsumerGroup) wanting(partitions uint32, n int) (list []int) {
	fair := int(partitions) / len(g.Members)
	for i := range g.Members {
		for range fair - len(g.Members[i].Partitions) {
			list = append(list, i)
		}
	}
	for i := range g.Members {
		if len(list) < n && len(g.Members[i].Partitions) <= fair {
			list = append(list, i)
		}
	}
	return list
}
