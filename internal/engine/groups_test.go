package engine

import (
	"slices"
	"testing"
	"time"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/wire"
)

// What nobody was given, or what is committed, moves at once. What was given and is not
// committed stays with its owner until it is, or until its time is over; meanwhile the
// owner may commit, and nobody may poll.
func TestPartitionsMoveWhenTheirOwnersAreDone(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after func(*grouped)
		atOnce        bool
	}{
		"never polled":         {func(*grouped) {}, nil, true},
		"polled and empty":     {func(g *grouped) { g.commit(0, 1, 2); g.pollAs(0, 1) }, nil, true},
		"polled and committed": {func(g *grouped) { g.pollAs(0, 1); g.commit(0, 1, 2) }, nil, true},
		"commits later":        {func(g *grouped) { g.pollAs(0, 1) }, func(g *grouped) { g.commit(0, 1, 2); g.settle() }, false},
		"commits a part":       {func(g *grouped) { g.pollAs(0, 1); g.commit(0, 1, 0) }, func(g *grouped) { g.commit(0, 1, 2); g.settle() }, false},
		"never commits":        {func(g *grouped) { g.pollAs(0, 1) }, func(g *grouped) { g.pass(31 * time.Second) }, false},
		"the owner leaves":     {func(g *grouped) { g.pollAs(0, 1) }, func(g *grouped) { g.must(0, wire.OperationLeaveConsumerGroup, namedGroup()) }, false},
		"the partition is empty": {func(g *grouped) { g.pollAs(0, 1) }, func(g *grouped) {
			g.must(0, wire.OperationPurgeTopic, wire.TopicRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t")}.Append(nil))
			g.settle()
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := openGrouped(t, healthy(), 2)
			sendBoth(g)
			g.join(0)
			g.wantHas(0, 0, 1)
			tt.before(g)
			g.join(1)
			g.wantHas(0, 0)
			if tt.atOnce {
				g.wantHas(1, 1)
				return
			}
			g.wantHas(1)
			if _, code := g.pollAs(0, 1); code != galgo.CodeConsumerGroupPartitionNotOwned {
				t.Errorf("the owner polls what is on its way: %v", code)
			}
			if _, code := g.pollAs(1, 1); code != galgo.CodeConsumerGroupPartitionNotOwned {
				t.Errorf("the next owner polls before it has come: %v", code)
			}
			g.pass(20 * time.Second)
			g.wantHas(1)
			tt.after(g)
			if got := g.has(1); !slices.Contains(got, 1) {
				t.Errorf("the second member may poll %v, want 1 in it", got)
			}
		})
	}
}

// A poll that began before a join counts as busy, one that comes while a join is being
// decided waits for it.
func TestJoinAndPollsAtOnce(t *testing.T) {
	g := openGrouped(t, healthy(), 2)
	sendBoth(g)
	g.join(0)
	var before, meanwhile partition.Plan
	req := g.request(0, 1, &before)
	g.engine.Poll(req, func(r edge.PollReply) { req.Ticket = r.Ticket })
	g.settle()
	g.members[1].request++
	joined := false
	g.engine.Metadata(edge.MetadataRequest{
		Operation: wire.OperationJoinConsumerGroup, Client: g.members[1].id, Session: g.members[1].epoch, Request: g.members[1].request, Body: namedGroup(),
	}, func(edge.MetadataReply) { joined = true })
	g.metadataAlone0() // the join is in the log, and not yet decided
	answer := galgo.CodeError
	g.engine.Poll(g.request(0, 0, &meanwhile), func(r edge.PollReply) {
		if !joined {
			t.Error("a poll is answered while a join is being decided")
		}
		answer = r.Code
	})
	g.settle()
	if !joined || answer != galgo.CodeOK {
		t.Fatalf("joined %t, poll answers %v", joined, answer)
	}
	g.wantHas(0, 0)
	g.wantHas(1) // the poll of partition 1 is still under way
	if g.engine.Polled(req, 2, true) {
		t.Error("messages are given out of a partition that is on its way")
	}
	g.settle()
	g.wantHas(1, 1)
}

// A member that lost its partition neither polls nor commits (PF-groups-03).
func TestFences(t *testing.T) {
	g := openGrouped(t, healthy(), 2)
	sendBoth(g)
	g.join(0)
	g.join(1)
	if _, code := g.pollAs(0, 1); code != galgo.CodeConsumerGroupPartitionNotOwned {
		t.Errorf("poll of another's partition: %v", code)
	}
	if code := g.commit(0, 1, 1); code != galgo.CodeResourceNotFound {
		t.Errorf("commit for another's partition: %v", code)
	}
	if code := g.commit(0, 0, 3); code != galgo.CodeInvalidOffset { // PF-groups-06
		t.Errorf("commit behind the end: %v", code)
	}
	if code := g.commit(0, 0, 1<<64-1); code != galgo.CodeInvalidOffset {
		t.Errorf("commit far behind the end: %v", code)
	}
	if code := g.commit(0, 0, 2); code != galgo.CodeOK {
		t.Errorf("commit: %v", code)
	}
}

// Only the join of who may join, and is no member yet, keeps polls waiting: nobody else's
// changes what they may yield.
func TestWhoseJoinsHoldPolls(t *testing.T) {
	g := openGrouped(t, healthy(), 3)
	g.join(0)
	c := &cast{admin: g.members[0]}
	if !c.call(g.world, wire.OperationCreateUser, metadata.NewUser{Username: "nobody", PasswordHash: "h", Active: true}.Append(nil)) {
		t.Fatal("no user")
	}
	u, _ := g.engine.View().User(galgo.NamedID("nobody"))
	r, _ := g.metadata(edge.MetadataRequest{Operation: wire.OperationRegister, Client: galgo.ClientID{90}, User: u.ID, Body: metadata.PasswordOf(u).Append(nil)})
	if r.Outcome != edge.OutcomeReply {
		t.Fatalf("login: %+v", r)
	}
	g.members[2] = &session{id: galgo.ClientID{90}, epoch: r.Op}
	for member, holds := range map[int]bool{0: false, 1: true, 2: false} {
		s := g.members[member]
		s.request++
		g.engine.Metadata(edge.MetadataRequest{
			Operation: wire.OperationJoinConsumerGroup, Client: s.id, Session: s.epoch, Request: s.request, Body: namedGroup(),
		}, func(edge.MetadataReply) {})
		g.metadataAlone0()
		if got := len(g.engine.deliveries.joining) == 1; got != holds {
			t.Errorf("the join of client %d holds polls: %t, want %t", member, got, holds)
		}
		g.settle()
	}
}

// Polls that wait for a join go before the joins that come after them.
func TestPollsAndJoinsTakeTurns(t *testing.T) {
	d := newDeliveries()
	var order []string
	note := func(what string) func() { return func() { order = append(order, what) } }
	first, ok := d.hold(groupKey{}, note("first"))
	second, ok2 := d.hold(groupKey{}, note("second"))
	if !ok || !ok2 {
		t.Fatal("a join waits for nothing")
	}
	if d.begin(groupKey{}, deliveryKey{}, galgo.ClientID{1}, note("poll")) != nil {
		t.Error("a poll begins while a join is being decided")
	}
	if _, ok := d.hold(groupKey{}, note("third")); ok {
		t.Error("a join goes before a poll that waits")
	}
	first()
	if len(order) != 0 {
		t.Errorf("%v go on while a join is being decided", order)
	}
	second()
	if !slices.Equal(order, []string{"poll", "third"}) {
		t.Errorf("%v go on, want the poll, then the third join", order)
	}
}

// A poll of a former membership that ends late leaves one alone that is under way.
func TestLatePollOfAFormerMembership(t *testing.T) {
	g := openGrouped(t, healthy(), 2)
	sendBoth(g)
	g.join(0)
	former, others, present := g.request(0, 1, new(partition.Plan)), g.request(1, 1, new(partition.Plan)), g.request(0, 1, new(partition.Plan))
	g.begin(&former) // it waits for the disk
	id, number := g.members[0].id, g.members[0].request
	s, ok := g.login(id) // the client comes back on another connection
	if !ok {
		t.Fatal("no login")
	}
	s.request = number
	g.members[0] = s
	g.join(1)
	g.begin(&others)
	g.engine.Polled(others, 0, false)
	g.join(0)
	g.must(1, wire.OperationLeaveConsumerGroup, namedGroup())
	g.begin(&present)
	g.engine.Polled(former, 2, true)
	if k := (deliveryKey{former.Group, 0}); !g.engine.deliveries.busy(k, id) {
		t.Error("the poll that is under way is not known any more")
	}
	g.engine.Polled(present, 0, false)
	if n := len(g.engine.deliveries.open); n != 0 {
		t.Errorf("%d deliveries are open", n)
	}
}

// Nothing is kept of what was given out for groups, and of partitions, that are gone.
func TestDeliveriesOfWhatIsGone(t *testing.T) {
	g := openGrouped(t, healthy(), 1)
	sendBoth(g)
	c := &cast{admin: g.members[0]}
	give := func(key uint32) {
		g.t.Helper()
		g.join(0)
		for p := range uint32(2) {
			req := g.request(0, p, new(partition.Plan))
			req.Key = key
			g.begin(&req)
			g.engine.Polled(req, 2, true)
		}
		if len(g.engine.deliveries.open) != 2 {
			t.Fatalf("deliveries of %d partitions are open, want 2", len(g.engine.deliveries.open))
		}
	}
	give(0)
	g.must(0, wire.OperationDeleteConsumerGroup, namedGroup())
	if n := len(g.engine.deliveries.open); n != 0 {
		t.Errorf("deliveries of %d partitions are kept of a group that is gone", n)
	}
	if !creatingGroup(g.world, c) {
		t.Fatal("no group")
	}
	give(1)
	g.must(0, wire.OperationDeleteTopic, wire.TopicRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t")}.Append(nil))
	if n := len(g.engine.deliveries.open); n != 0 {
		t.Errorf("deliveries of %d partitions are kept of a topic that is gone", n)
	}
}

// What is on its way in one group does not keep that of another from being looked at,
// however much it is: a tick looks at a bounded part, and the next one goes on.
func TestHandOversHaveTheirTurn(t *testing.T) {
	const groups, partitions = 12, 1000 // of which half are on their way
	m, op := metadata.New(), uint64(0)
	apply := func(in metadata.Input) {
		t.Helper()
		op++
		in.Op, in.Timestamp = op, op
		if out := m.Apply(in); out.Verdict.Kind != metadata.VerdictNew {
			t.Fatalf("op %d: %v", op, out.Verdict.Kind)
		}
	}
	body, err := metadata.Bootstrap{Username: "root", PasswordHash: "x", Settings: metadata.Settings{ClientsMax: 64}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	apply(metadata.Input{Operation: metadata.OperationBootstrap, Body: body})
	clients := []*session{{id: galgo.ClientID{1}}, {id: galgo.ClientID{2}}}
	for _, c := range clients {
		apply(metadata.Input{Operation: wire.OperationRegister, Client: c.id, Body: rootPassword()})
		c.epoch = op
	}
	call := func(c *session, kind wire.Operation, b wire.Body) {
		t.Helper()
		kind, body, err := metadata.Admit(m.View(), kind, b.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		c.request++ // of a join every partition may be busy
		apply(metadata.Input{Operation: kind, Client: c.id, Session: c.epoch, Request: c.request, Body: body})
	}
	call(clients[0], wire.OperationCreateStream, wire.CreateStreamRequest{Name: "s"})
	call(clients[0], wire.OperationCreateTopic, wire.CreateTopicRequest{Stream: galgo.NamedID("s"), Name: "t", Partitions: partitions})
	for n := range uint32(groups) {
		call(clients[0], wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t"), Name: string(rune('a' + n))})
		for _, c := range clients {
			call(c, wire.OperationJoinConsumerGroup, wire.GroupRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t"), Group: galgo.NumericID(n)})
		}
	}
	e := &Engine{deliveries: newDeliveries()}
	seen := map[uint32]bool{}
	for tick := 1; len(seen) < groups; tick++ {
		list := e.mayHandOver(m.View(), op)
		total := 0
		for _, c := range list {
			seen[c.Group] = true
			total += len(c.HandOvers)
		}
		if total == 0 || total >= handOversLookedAt+partitions || tick > 2*groups {
			t.Fatalf("tick %d hands over %d partitions of %d groups; %d groups had their turn", tick, total, len(list), len(seen))
		}
	}
	again := e.mayHandOver(m.View(), op)
	if len(again) == 0 || again[0].Group != 0 {
		t.Errorf("the turn does not come round: %d groups", len(again))
	}
}
