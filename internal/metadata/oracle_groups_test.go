package metadata

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"galgo"
	"galgo/internal/wire"
)

// The oracle's consumer groups: for each partition its owner, and for those on their way
// whose they will be, in maps that are looked through from one end to the other.

type oMember struct {
	id     uint32
	client galgo.ClientID
	order  []uint32 // its partitions, in the order in which it got them
	away   []oAway
}

type oAway struct {
	partition, to uint32
	since         uint64
}

func (m *oMember) keeps() (kept []uint32) {
	for _, p := range m.order {
		if pick(m.awayList(), func(a *oAway) bool { return a.partition == p }) == nil {
			kept = append(kept, p)
		}
	}
	return kept
}

func (m *oMember) awayList() (list []*oAway) {
	for i := range m.away {
		list = append(list, &m.away[i])
	}
	return list
}

func (g *oGroup) byClient(id galgo.ClientID) *oMember {
	return pick(g.members, func(m *oMember) bool { return m.client == id })
}

// dealAll gives partition i to the member at place i mod n.
func (g *oGroup) dealAll(partitions int) {
	g.generation++
	for at, m := range g.members {
		m.order, m.away = nil, nil
		for p := at; p < partitions; p += len(g.members) {
			m.order = append(m.order, uint32(p))
		}
	}
}

// oJoin is a join and the partitions that are busy.
type oJoin struct {
	wire.GroupRequest
	busy []uint32
}

func (o *oracle) group(req wire.GroupRequest, user uint32) (*oTopic, *oGroup, galgo.Code) {
	s, t, code := o.find(req.Stream, req.Topic)
	if code != galgo.CodeOK {
		return nil, nil, code
	}
	if !o.may(user, RuleGetTopic, s.id, t.id) {
		return nil, nil, galgo.CodeUnauthorized
	}
	g := pick(t.groups, func(g *oGroup) bool { return matches(req.Group, g.id, g.name) })
	if g == nil {
		return nil, nil, galgo.CodeConsumerGroupIDNotFound
	}
	return t, g, galgo.CodeOK
}

func (o *oracle) joinGroup(req oJoin, client galgo.ClientID, user uint32, now uint64) galgo.Code {
	t, g, code := o.group(req.GroupRequest, user)
	if code != galgo.CodeOK || g.byClient(client) != nil {
		return code
	}
	if o.client(client).detached {
		return galgo.CodeConsumerGroupMemberNotFound
	}
	m := &oMember{id: lowestUnused(g.members, func(m *oMember) uint32 { return m.id }), client: client}
	g.members = append(g.members, m)
	slices.SortFunc(g.members, func(a, b *oMember) int { return cmp.Compare(a.id, b.id) })
	if len(g.members) == 1 {
		g.dealAll(len(t.partitions))
		return code
	}
	g.generation++
	expecting := map[uint32]bool{}
	for _, m := range g.members {
		for _, a := range m.away {
			expecting[a.to] = true
		}
	}
	var idle []*oMember
	for _, m := range g.members {
		if len(m.order) == 0 && !expecting[m.id] {
			idle = append(idle, m)
		}
	}
	turn := 0
	for _, give := range g.surplus(len(t.partitions)) {
		if len(idle) == 0 {
			break
		}
		to := idle[turn%len(idle)]
		turn++
		if slices.Contains(req.busy, give.partition) {
			give.from.away = append(give.from.away, oAway{give.partition, to.id, now})
			continue
		}
		give.from.lose(give.partition)
		to.order = append(to.order, give.partition)
	}
	return code
}

func (m *oMember) lose(p uint32) {
	m.order = slices.DeleteFunc(m.order, func(q uint32) bool { return q == p })
}

type oGive struct {
	from      *oMember
	partition uint32
}

// surplus is what members keep above their share.
func (g *oGroup) surplus(partitions int) (all []oGive) {
	fair, extra := partitions/len(g.members), partitions%len(g.members)
	for _, m := range g.members {
		kept := m.keeps()
		allowed := fair
		if len(kept) > fair && extra > 0 {
			extra--
			allowed++
		}
		for len(kept) > allowed {
			all = append(all, oGive{m, kept[len(kept)-1]})
			kept = kept[:len(kept)-1]
		}
	}
	return all
}

func (o *oracle) leaveGroup(req wire.GroupRequest, client galgo.ClientID, user uint32) galgo.Code {
	t, g, code := o.group(req, user)
	if code != galgo.CodeOK {
		return code
	}
	m := g.byClient(client)
	if m == nil {
		return galgo.CodeConsumerGroupMemberNotFound
	}
	g.members = without(g.members, m)
	g.dealAll(len(t.partitions))
	return code
}

// gone takes clients out of every group.
func (o *oracle) gone(clients ...galgo.ClientID) {
	any := false
	for _, s := range o.streams {
		for _, t := range s.topics {
			for _, g := range t.groups {
				stay := slices.DeleteFunc(slices.Clone(g.members), func(m *oMember) bool { return slices.Contains(clients, m.client) })
				if len(stay) < len(g.members) {
					g.members = stay
					g.dealAll(len(t.partitions))
					any = true
				}
			}
		}
	}
	if any {
		o.revision++
	}
}

// at finds a group by the numbers of what it is in.
func (o *oracle) at(stream, topic, group uint32) (*oTopic, *oGroup) {
	_, t, code := o.find(galgo.NumericID(stream), galgo.NumericID(topic))
	if code != galgo.CodeOK {
		return nil, nil
	}
	return t, pick(t.groups, func(g *oGroup) bool { return g.id == group })
}

func (o *oracle) complete(c Completion, now uint64) {
	t, g := o.at(c.Stream, c.Topic, c.Group)
	if g == nil {
		return
	}
	did := false
	for _, h := range c.HandOvers {
		from := g.byClient(h.Client)
		if from == nil {
			continue
		}
		a := pick(from.awayList(), func(a *oAway) bool { return a.partition == h.Partition && a.since == h.Since })
		if a == nil {
			continue
		}
		to := pick(g.members, func(m *oMember) bool { return m.id == a.to })
		from.away = slices.DeleteFunc(from.away, func(b oAway) bool { return b == *a })
		from.lose(h.Partition)
		to.order = append(to.order, h.Partition)
		g.generation++
		did = true
	}
	if !did {
		return
	}
	o.revision++
	for _, m := range g.members {
		if len(m.away) > 0 {
			return
		}
	}
	gives := g.surplus(len(t.partitions))
	if len(gives) == 0 {
		return
	}
	g.generation++
	promised := map[uint32]int{}
	for _, m := range g.members {
		promised[m.id] = len(m.order)
	}
	fair := len(t.partitions) / len(g.members)
	for _, give := range gives {
		var to *oMember
		for _, want := range []int{fair, fair + 1} {
			if to == nil {
				to = pick(g.members, func(m *oMember) bool { return promised[m.id] < want })
			}
		}
		promised[to.id]++
		give.from.away = append(give.from.away, oAway{give.partition, to.id, now})
	}
}

func (o *oracle) truncate(req Truncation, user uint32) galgo.Code {
	s, t, code := o.find(req.Stream, req.Topic)
	switch {
	case code != galgo.CodeOK:
		return code
	case !o.may(user, RuleManageTopic, s.id, t.id):
		return galgo.CodeUnauthorized
	case req.PartitionID >= uint32(len(t.partitions)):
		return galgo.CodePartitionNotFound
	}
	o.revision++
	p := t.partitions[req.PartitionID]
	if p.group == req.Group && p.purges == req.Generation {
		p.below, p.until = max(p.below, req.Below), max(p.until, req.Until)
	}
	return code
}

func (g *oGroup) dump(b *strings.Builder) {
	fmt.Fprintf(b, "  consumers %d %q generation %d\n", g.id, g.name, g.generation)
	for _, m := range g.members {
		fmt.Fprintf(b, "   member %d %x has %v", m.id, m.client[:1], m.order)
		for _, a := range m.away {
			fmt.Fprintf(b, " %d to %d since %d", a.partition, a.to, a.since)
		}
		fmt.Fprintln(b)
	}
}

func dumpGroup(b *strings.Builder, g *ConsumerGroup) {
	fmt.Fprintf(b, "  consumers %d %q generation %d\n", g.ID, g.Name, g.Generation)
	for _, m := range g.Members {
		fmt.Fprintf(b, "   member %d %x has %v", m.ID, m.Client[:1], m.Partitions)
		for _, r := range m.Revoked {
			fmt.Fprintf(b, " %d to %d since %d", r.Partition, r.To, r.Since)
		}
		fmt.Fprintln(b)
	}
}

// dumpIndexes prints what the view finds by its indexes, which have to agree with the
// members themselves.
func dumpIndexes(v *View) string {
	var b strings.Builder
	for c := range v.Clients() {
		for g := range v.Memberships(c.ID) {
			m, ok := g.Member(c.ID)
			fmt.Fprintf(&b, "%x in %d/%d/%d: %t %v\n", c.ID[:1], g.Stream, g.Topic, g.ID, ok, m != nil)
		}
	}
	for replica := range uint8(2) {
		for _, life := range []uint64{0, 2} {
			v.s.attachedAt(replica, life, func(c *Client) bool {
				fmt.Fprintf(&b, "%x attached at %v\n", c.ID[:1], c.Home)
				return true
			})
		}
	}
	for g := range v.Revoking(0, 0, 0) {
		fmt.Fprintf(&b, "revoking %d/%d/%d\n", g.Stream, g.Topic, g.ID)
	}
	return b.String()
}

func (o *oracle) dumpIndexes() string {
	var members, revoking, attached []string
	for replica := range uint8(2) {
		for life := range uint64(3) {
			for _, c := range o.clients {
				if c.home == (Home{replica, life}) && !c.detached {
					attached = append(attached, fmt.Sprintf("%x attached at %v\n", c.id[:1], c.home))
				}
			}
		}
	}
	for _, c := range o.clients {
		for _, s := range o.streams {
			for _, t := range s.topics {
				for _, g := range t.groups {
					if g.byClient(c.id) != nil {
						members = append(members, fmt.Sprintf("%x in %d/%d/%d: true true\n", c.id[:1], s.id, t.id, g.id))
					}
				}
			}
		}
	}
	seen := map[string]bool{}
	for _, s := range o.streams {
		for _, t := range s.topics {
			for _, g := range t.groups {
				for _, m := range g.members {
					if len(m.away) > 0 {
						seen[fmt.Sprintf("revoking %d/%d/%d\n", s.id, t.id, g.id)] = true
					}
				}
			}
		}
	}
	revoking = slices.Sorted(maps.Keys(seen))
	return strings.Join(slices.Concat(members, attached, revoking), "")
}
