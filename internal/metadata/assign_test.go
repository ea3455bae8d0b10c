package metadata

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"galgo"
	"galgo/internal/wire"
)

// checkGroup checks what holds of every group at every op: as long as there are members
// each partition has one owner, and what is on its way goes from its owner to another.
func checkGroup(g *ConsumerGroup, partitions uint32) error {
	owner := map[uint32]uint32{}
	ids := map[uint32]bool{}
	for _, m := range g.Members {
		ids[m.ID] = true
		for _, p := range m.Partitions {
			if other, taken := owner[p]; taken {
				return fmt.Errorf("partition %d is that of member %d and of member %d", p, other, m.ID)
			}
			owner[p] = m.ID
		}
	}
	if len(g.Members) > 0 && len(owner) != int(partitions) {
		return fmt.Errorf("%d of %d partitions have an owner", len(owner), partitions)
	}
	for _, m := range g.Members {
		for _, r := range m.Revoked {
			if o, owned := owner[r.Partition]; !owned || o != m.ID || !ids[r.To] || r.To == m.ID {
				return fmt.Errorf("partition %d is on its way from member %d to %d", r.Partition, m.ID, r.To)
			}
		}
	}
	return nil
}

// spread is by how much the shares of members differ.
func spread(g *ConsumerGroup) int {
	if len(g.Members) == 0 {
		return 0
	}
	least, most := len(g.Members[0].Partitions), 0
	for _, m := range g.Members {
		least, most = min(least, len(m.Partitions)), max(most, len(m.Partitions))
	}
	return most - least
}

// groupRun is a consumer group under all that can happen to it.
type groupRun struct {
	partitions uint32
	clients    uint64
	g          *ConsumerGroup
	now        uint64
}

func (r *groupRun) join(t *rapid.T) {
	r.clients++
	r.now++
	next := r.g.copied()
	next.add(clientID(r.clients))
	busy := drawBusySet(t, r.partitions)
	next.share(r.partitions, r.now, func(p uint32) bool { return busy[p] })
	r.g = next
}

func drawBusySet(t *rapid.T, partitions uint32) map[uint32]bool {
	busy := map[uint32]bool{}
	all := rapid.IntRange(0, 3).Draw(t, "busy")
	for p := range partitions {
		busy[p] = all == 1 || all > 1 && rapid.Bool().Draw(t, "is busy")
	}
	return busy
}

func (r *groupRun) leave(t *rapid.T) {
	if len(r.g.Members) == 0 {
		t.Skip("nobody")
	}
	at := rapid.IntRange(0, len(r.g.Members)-1).Draw(t, "leaves")
	next := r.g.copied()
	next.Members = slices.Delete(next.Members, at, at+1)
	next.deal(r.partitions)
	r.g = next
}

func (r *groupRun) resize(t *rapid.T) {
	r.partitions = rapid.Uint32Range(0, 24).Draw(t, "partitions")
	next := r.g.copied()
	next.deal(r.partitions)
	r.g = next
}

// complete hands over what is on its way, or a part of it.
func (r *groupRun) complete(which func() bool) {
	r.now++
	next := r.g.copied()
	var list []HandOver
	for _, m := range r.g.Members {
		for _, v := range m.Revoked {
			if which() {
				list = append(list, HandOver{m.Client, v.Partition, v.Since})
			}
		}
	}
	next.handOver(list)
	if next.Generation != r.g.Generation {
		next.even(r.partitions, r.now)
	}
	r.g = next
}

// Whatever members come and go, however slow they are to let go of what is taken from
// them: no partition has two owners, and once all that is on its way has arrived, at
// most twice, shares differ by one at most.
func TestGroupsSettleEvenly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &groupRun{partitions: rapid.Uint32Range(0, 24).Draw(t, "partitions"), g: &ConsumerGroup{}}
		generation := uint64(0)
		check := func(t *rapid.T) {
			if err := checkGroup(r.g, r.partitions); err != nil {
				t.Fatal(err)
			}
			if r.g.Generation < generation {
				t.Fatalf("generation %d after %d", r.g.Generation, generation)
			}
			generation = r.g.Generation
			settled := &groupRun{r.partitions, r.clients, r.g, r.now}
			for rounds := 0; settled.g.revoking(); rounds++ {
				if rounds == 2 {
					t.Fatalf("not settled after two rounds: %+v", r.g)
				}
				settled.complete(func() bool { return true })
			}
			if err := checkGroup(settled.g, r.partitions); err != nil {
				t.Fatalf("settled: %v", err)
			}
			if spread(settled.g) > 1 {
				t.Fatalf("shares differ by %d: %+v of %+v", spread(settled.g), settled.g, r.g)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": check, "join": r.join, "another": r.join, "leave": r.leave, "resize": r.resize,
			"some arrive": func(t *rapid.T) {
				r.complete(func() bool { return rapid.Bool().Draw(t, "arrives") })
			},
			"all arrive": func(*rapid.T) { r.complete(func() bool { return true }) },
		})
	})
}

// A member that is told of a new assignment finds a new generation: what may be polled
// never changes under the same one.
func TestAssignmentsAreNamedByTheirGeneration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &groupRun{partitions: 7, g: &ConsumerGroup{}}
		seen := map[uint64]string{}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				var now string
				for i := range r.g.Members {
					now += fmt.Sprint(r.g.Members[i].Client[:1], r.g.Assignment(&r.g.Members[i]))
				}
				if was, ok := seen[r.g.Generation]; ok && was != now {
					t.Fatalf("generation %d is\n%s and\n%s", r.g.Generation, was, now)
				}
				seen[r.g.Generation] = now
			},
			"join": r.join, "leave": r.leave,
			"arrive": func(t *rapid.T) { r.complete(func() bool { return rapid.Bool().Draw(t, "arrives") }) },
		})
	})
}

// Whoever has a partition after another member has it since a later generation, also in the
// eyes of who was not there from the beginning; and who keeps it has it since the same one.
func TestTenuresGrowWithOwners(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type holding struct {
			client galgo.ClientID
			since  uint64 // the latest that anybody knows
		}
		r := &groupRun{partitions: 7, g: &ConsumerGroup{}}
		witnesses := make([]*ConsumerGroup, 2)
		holders := map[uint32]holding{}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				for at, before := range witnesses {
					if at == 1 && rapid.IntRange(0, 4).Draw(t, "a snapshot is taken over") == 0 {
						before = nil
					}
					g := r.g.copied()
					g.index(before)
					witnesses[at] = g
				}
				for p := range r.partitions {
					now := holding{}
					was := holders[p]
					for at, g := range witnesses {
						for i := range g.Members {
							client := g.Members[i].Client
							since, owns := g.Tenure(client, p)
							if !owns {
								continue
							}
							if client != was.client && since <= was.since {
								t.Fatalf("witness %d: %v has partition %d since %d, %v had it since %d", at, client, p, since, was.client, was.since)
							}
							if since > g.Generation || at == 0 && client == was.client && since > was.since {
								t.Fatalf("witness %d: %v keeps partition %d, since %d and now since %d of %d", at, client, p, was.since, since, g.Generation)
							}
							now = holding{client, max(now.since, since)}
						}
					}
					if now.client == was.client {
						now.since = max(now.since, was.since)
					}
					holders[p] = now
				}
			},
			"join": r.join, "leave": r.leave,
			"arrive": func(t *rapid.T) { r.complete(func() bool { return rapid.Bool().Draw(t, "arrives") }) },
		})
	})
}

func groupBody(group uint32) []byte {
	return wire.GroupRequest{Stream: id(0), Topic: id(0), Group: id(group)}.Append(nil)
}

// joinAs joins with nothing busy, as a primary that knows of no uncommitted messages.
func (r *rig) joinAs(client galgo.ClientID, group uint32, busy ...uint32) error {
	s := r.sessions[client]
	_, body, err := Admit(r.m.View(), wire.OperationJoinConsumerGroup, groupBody(group))
	if err != nil {
		return err
	}
	body = JoinWithBusy(r.m.View(), client, body, func(*ConsumerGroup) []uint32 { return busy })
	out := r.apply(Input{Operation: wire.OperationJoinConsumerGroup, Client: client, Session: s.epoch, Request: s.next, Body: body})
	s.next++
	code, _, err := wire.SplitResult(out.Body)
	if err != nil || out.Verdict.Kind != VerdictNew {
		return fmt.Errorf("verdict %v: %v", out.Verdict.Kind, err)
	}
	if code != galgo.CodeOK {
		return galgo.Errorf(code, "rejected")
	}
	return nil
}

// groupsRig has a topic of so many partitions, a group 0 of it, and clients 1 to n.
func groupsRig(t testing.TB, partitions uint32, clients uint64) *rig {
	r := newRig(t)
	r.createStream("s")
	r.createTopic(0, "t", partitions)
	r.createGroup(0, 0, "g")
	for n := range clients {
		if n > 0 {
			r.login(clientID(n+1), RootUser)
		}
	}
	return r
}

func (r *rig) group() *ConsumerGroup {
	g, ok := r.m.View().ConsumerGroupAt(0, 0, 0)
	if !ok {
		r.t.Fatal("no group")
	}
	return g
}

func (r *rig) wantMembers(want string) {
	r.t.Helper()
	var got string
	for _, m := range r.group().Members {
		got += fmt.Sprintf("%d:%v", m.Client[0], m.Partitions)
		for _, v := range m.Revoked {
			got += fmt.Sprintf("-%d>%d", v.Partition, v.To)
		}
		got += " "
	}
	if got != want {
		r.t.Errorf("members are %q, want %q", got, want)
	}
}

func (r *rig) mustJoin(n uint64, busy ...uint32) {
	r.t.Helper()
	if err := r.joinAs(clientID(n), 0, busy...); err != nil {
		r.t.Fatal(err)
	}
}

func TestMembersComeAndGo(t *testing.T) { // PF-groups-02
	r := groupsRig(t, 4, 5)
	r.mustJoin(1)
	r.wantMembers("1:[0 1 2 3] ")
	r.mustJoin(2)
	r.wantMembers("1:[0 1] 2:[3 2] ")
	r.mustJoin(3)
	r.wantMembers("1:[0 1] 2:[3] 3:[2] ")
	r.mustJoin(4)
	r.mustJoin(5)
	r.wantMembers("1:[0] 2:[3] 3:[2] 4:[1] 5:[] ")
	if got := r.group().Generation; got != 5 {
		t.Errorf("generation %d after five joins", got)
	}
	r.mustJoin(5)
	if got := r.group().Generation; got != 5 {
		t.Errorf("generation %d after a repeated join", got)
	}
	for n := uint64(5); n > 1; n-- {
		if _, _, err := r.as(clientID(n), wire.OperationLeaveConsumerGroup, groupBody(0)); err != nil {
			t.Fatal(err)
		}
		if s := spread(r.group()); s > 1 {
			t.Errorf("shares differ by %d", s)
		}
	}
	r.wantMembers("1:[0 1 2 3] ")
	r.wantCodeAs(clientID(2), galgo.CodeConsumerGroupMemberNotFound, wire.OperationLeaveConsumerGroup, groupBody(0))
	r.wantCodeAs(clientID(2), galgo.CodeConsumerGroupIDNotFound, wire.OperationJoinConsumerGroup, groupBody(7))
}

func TestBusyPartitionsStayUntilTheyAreLetGo(t *testing.T) {
	r := groupsRig(t, 3, 2)
	r.mustJoin(1)
	r.mustJoin(2, 2)
	r.wantMembers("1:[0 1 2]-2>1 2:[] ")
	m, _ := r.group().Member(clientID(1))
	if g := r.group(); !slices.Equal(g.Assignment(m).Partitions, []uint32{0, 1}) || g.MayPoll(m.Client, 2) || !g.Owns(m.Client, 2) {
		t.Errorf("assignment %v, may poll %t, owns %t", g.Assignment(m), g.MayPoll(m.Client, 2), g.Owns(m.Client, 2))
	}
	generation, revision := r.group().Generation, r.m.View().Revision()
	c := Completion{HandOvers: []HandOver{{clientID(1), 2, m.Revoked[0].Since + 1}, {clientID(2), 2, m.Revoked[0].Since}, {clientID(1), 1, m.Revoked[0].Since}}}
	r.apply(Input{Operation: wire.OperationCompleteGroupRevocation, Body: c.Encode()})
	if g := r.group(); g.Generation != generation || r.m.View().Revision() != revision {
		t.Errorf("hand-overs of something else change the group: %+v", g)
	}
	c.HandOvers = append(c.HandOvers, HandOver{clientID(1), 2, m.Revoked[0].Since})
	r.apply(Input{Operation: wire.OperationCompleteGroupRevocation, Body: c.Encode()})
	r.wantMembers("1:[0 1] 2:[2] ")
	if g := r.group(); g.Generation != generation+1 || r.m.View().Revision() != revision+1 {
		t.Errorf("generation %d after %d, revision %d after %d", g.Generation, generation, r.m.View().Revision(), revision)
	}
}

// A join that was admitted for one group and meets another of its name takes nothing
// from anybody at once.
func TestJoinOfAnotherGroupThanLookedAt(t *testing.T) {
	r := groupsRig(t, 2, 2)
	r.mustJoin(1)
	body := appendBusy(groupBody(0), Busy{Stream: 0, Topic: 0, Group: 1})
	s := r.sessions[clientID(2)]
	r.apply(Input{Operation: wire.OperationJoinConsumerGroup, Client: clientID(2), Session: s.epoch, Request: 1, Body: body})
	r.wantMembers("1:[0 1]-1>1 2:[] ")
}

// The end of a session is the end of its memberships, whatever ends it.
func TestMembershipEndsWithTheSession(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"logout": func(r *rig) {
			r.apply(Input{Operation: wire.OperationLogout, Client: clientID(2), Session: r.sessions[clientID(2)].epoch, Request: 9})
		},
		"lost connection": func(r *rig) {
			r.apply(Input{Operation: OperationDetach, Client: clientID(2), Session: r.sessions[clientID(2)].epoch})
		},
		"new login": func(r *rig) { r.login(clientID(2), RootUser) },
		"eviction": func(r *rig) {
			body, _ := Configure{Settings{ClientsMax: ClientsMin, TokensMax: TokensDefault}}.Encode()
			r.root(wire.OperationCreateStream, createStreamBody("later"))
			r.as(clientID(3), wire.OperationCreateStream, createStreamBody("later"))
			r.apply(Input{Operation: OperationConfigure, Body: body})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := groupsRig(t, 2, 3)
			r.mustJoin(1)
			r.mustJoin(2, 1)
			r.wantMembers("1:[0 1]-1>1 2:[] ")
			revision := r.m.View().Revision()
			end(r)
			r.wantMembers("1:[0 1] ")
			if got := r.m.View().Revision(); got != revision+1 {
				t.Errorf("revision %d after %d", got, revision)
			}
			if left := slices.Collect(r.m.View().Memberships(clientID(2))); len(left) != 0 {
				t.Errorf("still in %v", left)
			}
			restored(t, r.m)
		})
	}
}

// A session whose connection is lost already cannot become a member: nothing would end it.
func TestDetachedSessionsDoNotJoin(t *testing.T) {
	r := groupsRig(t, 2, 2)
	r.apply(Input{Operation: OperationDetach, Client: clientID(2), Session: r.sessions[clientID(2)].epoch})
	err := r.joinAs(clientID(2), 0)
	if code, _ := galgo.CodeOf(err); code != galgo.CodeConsumerGroupMemberNotFound {
		t.Errorf("join answers %v", err)
	}
}

func TestPartitionCountDealsAnew(t *testing.T) {
	r := groupsRig(t, 3, 2)
	r.mustJoin(1)
	r.mustJoin(2, 2)
	r.must(wire.OperationCreatePartitions, partitionsBody(id(0), id(0), 2))
	r.wantMembers("1:[0 2 4] 2:[1 3] ")
	r.must(wire.OperationDeletePartitions, partitionsBody(id(0), id(0), 4))
	r.wantMembers("1:[0] 2:[] ")
}

// A topic of the same number is another one: its groups count from zero and have no
// members.
func TestMembersDoNotOutliveTheTopic(t *testing.T) {
	r := groupsRig(t, 2, 2)
	r.mustJoin(1)
	r.mustJoin(2, 1)
	since := r.group().Members[0].Revoked[0].Since
	r.must(wire.OperationDeleteTopic, deleteTopicBody(id(0), id(0)))
	if left := slices.Collect(r.m.View().Memberships(clientID(1))); len(left) != 0 {
		t.Fatalf("still in %v", left)
	}
	r.createTopic(0, "t", 2)
	r.createGroup(0, 0, "g")
	r.wantMembers("")
	r.mustJoin(2)
	r.mustJoin(1, 1)
	r.apply(Input{Operation: wire.OperationCompleteGroupRevocation, Body: Completion{HandOvers: []HandOver{{clientID(1), 1, since}}}.Encode()})
	r.wantMembers("2:[0 1]-1>1 1:[] ")
}

func TestMemberRefusals(t *testing.T) {
	member := func(s *state, i int) *Member {
		g, _ := s.groups.get(0)
		return &g.Members[i]
	}
	for name, change := range map[string]func(*state){
		"members not sorted":       func(s *state) { member(s, 1).ID = 0 },
		"client is a member twice": func(s *state) { member(s, 1).Client = clientID(1) },
		"client without session":   func(s *state) { member(s, 1).Client = clientID(77) },
		"partition out of range":   func(s *state) { member(s, 0).Partitions[0] = 2 },
		"partition of two":         func(s *state) { member(s, 1).Partitions = []uint32{0} },
		"partition of nobody":      func(s *state) { member(s, 0).Partitions = member(s, 0).Partitions[1:] },
		"on its way to its owner":  func(s *state) { member(s, 0).Revoked[0].To = 0 },
		"on its way to nobody":     func(s *state) { member(s, 0).Revoked[0].To = 5 },
		"on its way twice":         func(s *state) { m := member(s, 0); m.Revoked = append(m.Revoked, m.Revoked[0]) },
		"on its way from another":  func(s *state) { member(s, 0).Revoked[0].Partition = 9 },
		"detached": func(s *state) {
			c, _ := s.client(clientID(2))
			c.Detached = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := groupsRig(t, 2, 2)
			r.mustJoin(1)
			r.mustJoin(2, 1)
			restored(t, r.m)
			r.change(change)
			v := r.m.View()
			if _, err := Decode(v.EncodeState(), v.EncodeClients()); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrDuplicateClient) {
				t.Errorf("decodes with %v", err)
			}
		})
	}
}

func TestTruncationIsForThePartitionThatWasLookedAt(t *testing.T) {
	r := groupsRig(t, 2, 1)
	truncation := func(group, generation, below, until uint64) []byte {
		return Truncation{wire.DeleteSegmentsRequest{Stream: id(0), Topic: id(0), PartitionID: 1, Segments: 3}, group, generation, below, until}.Append(nil)
	}
	below := func() uint64 {
		p, _ := r.m.View().PartitionOf(2)
		return p.DeletedBelow
	}
	if _, out := r.must(wire.OperationDeleteSegments, truncation(2, 0, 50, 7)); len(out.Changes) != 1 || out.Changes[0].Below != 50 || below() != 50 {
		t.Fatalf("changes %+v, below %d", out.Changes, below())
	}
	for _, other := range [][]byte{truncation(2, 0, 40, 6), truncation(1, 0, 60, 8), truncation(2, 1, 60, 8), truncation(0, 0, 0, 0)} {
		if _, out := r.must(wire.OperationDeleteSegments, other); len(out.Changes) != 0 || below() != 50 {
			t.Errorf("changes %+v, below %d", out.Changes, below())
		}
	}
	// What was written in the place of what power loss took has lower offsets and is younger.
	if _, out := r.must(wire.OperationDeleteSegments, truncation(2, 0, 40, 9)); len(out.Changes) != 1 || out.Changes[0].Below != 50 || out.Changes[0].Until != 9 {
		t.Errorf("changes %+v, want those below 50 until 9", out.Changes)
	}
	r.must(wire.OperationPurgeTopic, deleteTopicBody(id(0), id(0)))
	if below() != 0 {
		t.Errorf("below %d after a purge", below())
	}
	r.wantCode(galgo.CodePartitionNotFound, wire.OperationDeleteSegments,
		Truncation{DeleteSegmentsRequest: wire.DeleteSegmentsRequest{Stream: id(0), Topic: id(0), PartitionID: 2}}.Append(nil))
}

func TestViewYieldsMembersOnce(t *testing.T) {
	r := groupsRig(t, 2, 2)
	r.createGroup(0, 0, "h")
	r.mustJoin(1)
	if err := r.joinAs(clientID(1), 1); err != nil {
		t.Fatal(err)
	}
	ids := map[uint32]bool{}
	for g := range r.m.View().Memberships(clientID(1)) {
		ids[g.ID] = true
	}
	if got := slices.Sorted(maps.Keys(ids)); !slices.Equal(got, []uint32{0, 1}) {
		t.Errorf("member of %v", got)
	}
}

// What is busy is looked for only if the join may change something.
func TestBusyIsLookedForOnlyForWhoMayJoin(t *testing.T) {
	r := groupsRig(t, 2, 2)
	r.mustJoin(1)
	r.addUser(3, nil)
	r.login(clientID(3), 3)
	_, body, err := Admit(r.m.View(), wire.OperationJoinConsumerGroup, groupBody(0))
	if err != nil {
		t.Fatal(err)
	}
	for client, want := range map[uint64]bool{1: false, 2: true, 3: false, 4: false} {
		asked := false
		got := JoinWithBusy(r.m.View(), clientID(client), body, func(*ConsumerGroup) []uint32 { asked = true; return []uint32{1} })
		if asked != want || bytes.Equal(got, body) == want {
			t.Errorf("client %d: asked %t, want %t; the body is %x", client, asked, want, got)
		}
	}
}

// What a join costs grows with the partitions, not with their square: 100,000 would take a
// minute of every replica's time.
func TestJoinOfManyPartitions(t *testing.T) {
	for _, busy := range []bool{false, true} {
		g := &ConsumerGroup{}
		g.add(clientID(1))
		g.share(PartitionsMax, 1, func(uint32) bool { return false })
		g.add(clientID(2))
		g.share(PartitionsMax, 2, func(uint32) bool { return busy })
		if got := len(g.Assignment(&g.Members[0]).Partitions); got != PartitionsMax/2 {
			t.Errorf("busy %t: the first member may poll %d partitions, want %d", busy, got, PartitionsMax/2)
		}
	}
}
