package metadata

import "testing"

// The size of the group that the benchmarks are about.
const (
	benchPartitions = 1000
	benchMembers    = 100
)

// benchGroup is a group of that size; every partition that a join takes from somebody is
// on its way if busy.
func benchGroup(members uint64, busy bool) *ConsumerGroup {
	g := &ConsumerGroup{}
	for n := range members {
		g = g.copied()
		g.add(clientID(n + 1))
		g.share(benchPartitions, n+1, func(uint32) bool { return busy })
	}
	return g
}

func BenchmarkGroupJoin(b *testing.B) {
	g := benchGroup(benchMembers-1, false)
	for b.Loop() {
		next := g.copied()
		next.add(clientID(benchMembers))
		next.share(benchPartitions, 1, func(uint32) bool { return false })
		_ = next.size()
	}
}

func BenchmarkGroupLeave(b *testing.B) {
	s := newState()
	s.topics.set(0, &Topic{Partitions: benchPartitions})
	g := benchGroup(benchMembers, false)
	for b.Loop() {
		s.leave(g, clientID(benchMembers))
	}
}

// Half of the partitions go from the first member to the second.
func BenchmarkGroupHandOver(b *testing.B) {
	g := benchGroup(2, true)
	m := &g.Members[0]
	for b.Loop() {
		next := g.copied()
		list := make([]HandOver, 0, len(m.Revoked))
		for _, r := range m.Revoked {
			list = append(list, HandOver{m.Client, r.Partition, r.Since})
		}
		next.handOver(list)
		next.index(nil)
	}
}

func BenchmarkGroupPoll(b *testing.B) {
	for name, members := range map[string]uint64{"members=2": 2, "members=100": benchMembers} {
		b.Run(name, func(b *testing.B) {
			g := benchGroup(members, true)
			g.index(nil)
			m, _ := g.Member(clientID(1))
			last := m.Partitions[len(m.Partitions)-1]
			for b.Loop() {
				if g.MayPoll(clientID(1), last) {
					b.Fatal("not on its way")
				}
			}
		})
	}
}
