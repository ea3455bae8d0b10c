package engine

import (
	"slices"
	"testing"
	"time"

	"galgo"
	"galgo/internal/disk/memdisk"
	"galgo/internal/edge"
	"galgo/internal/partition"
	"galgo/internal/wire"
)

// grouped is a node with the topic s/t of two partitions, a consumer group 0 of it, and
// clients that are signed in.
type grouped struct {
	*world
	t       *testing.T
	members []*session
}

func openGrouped(t *testing.T, d *memdisk.Disk, clients int) *grouped {
	t.Helper()
	w, err := open(t, d, worldConfig(), 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	g := &grouped{world: w, t: t}
	c := &cast{}
	for _, s := range script[:4] {
		if !s.run(w, c) {
			t.Fatalf("step %q", s.name)
		}
	}
	if !creatingGroup(w, c) {
		t.Fatal("no group")
	}
	g.members = append(g.members, c.admin)
	for len(g.members) < clients {
		s, ok := w.login(galgo.ClientID{byte(10 + len(g.members))})
		if !ok {
			t.Fatal("no login")
		}
		g.members = append(g.members, s)
	}
	return g
}

func (g *grouped) must(member int, op wire.Operation, body []byte) {
	g.t.Helper()
	c := &cast{admin: g.members[member]}
	if !c.call(g.world, op, body) {
		g.t.Fatalf("%v of client %d is refused", op, member)
	}
}

func namedGroup() []byte {
	return wire.GroupRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t"), Group: galgo.NamedID("g")}.Append(nil)
}

func (g *grouped) join(member int) {
	g.t.Helper()
	g.must(member, wire.OperationJoinConsumerGroup, namedGroup())
}

// has is what a member may poll now.
func (g *grouped) has(member int) []uint32 {
	group, ok := g.engine.View().ConsumerGroupAt(0, 0, 0)
	if !ok {
		return nil
	}
	m, ok := group.Member(g.members[member].id)
	if !ok {
		return nil
	}
	return group.Assignment(m).Partitions
}

func (g *grouped) wantHas(member int, want ...uint32) {
	g.t.Helper()
	if got := g.has(member); !slices.Equal(got, want) {
		g.t.Errorf("client %d may poll %v, want %v", member, got, want)
	}
}

func (g *grouped) request(member int, partition uint32, plan *partition.Plan) edge.PollRequest {
	return edge.PollRequest{
		Group: g.group("s", "t", partition), Kind: galgo.ConsumerGroup, Key: 0, Member: g.members[member].id,
		Strategy: galgo.FromNext(), Count: 100, Plan: plan,
	}
}

// pollAs polls a partition as a member does, to the end. The code is that of the start,
// or PartitionNotOwned if the member lost the partition over it.
func (g *grouped) pollAs(member int, p uint32) (got []string, code galgo.Code) {
	g.t.Helper()
	var plan partition.Plan
	var reply edge.PollReply
	req := g.request(member, p, &plan)
	if !g.run(func(done func()) { g.engine.Poll(req, func(r edge.PollReply) { reply = r; done() }) }) {
		g.t.Fatal("no answer to a poll")
	}
	if reply.Code != galgo.CodeOK {
		return nil, reply.Code
	}
	var into partition.Reply
	if err := plan.Read(&into); err != nil {
		g.t.Fatal(err)
	}
	req.Ticket = reply.Ticket
	if !g.engine.Polled(req, into.Last, into.Count > 0) {
		return nil, galgo.CodeConsumerGroupPartitionNotOwned
	}
	for range into.Count {
		got = append(got, "x")
	}
	return got, galgo.CodeOK
}

// begin plans a poll, which is under way from then on.
func (g *grouped) begin(req *edge.PollRequest) {
	g.t.Helper()
	code := galgo.CodeError
	g.run(func(done func()) {
		g.engine.Poll(*req, func(r edge.PollReply) { code, req.Ticket = r.Code, r.Ticket; done() })
	})
	if code != galgo.CodeOK {
		g.t.Fatalf("poll: %v", code)
	}
}

func (g *grouped) commit(member int, p uint32, offset uint64) galgo.Code {
	g.t.Helper()
	r, ok := g.storeForGroup(g.group("s", "t", p), g.members[member].id, 0, offset)
	if !ok {
		g.t.Fatal("no answer to a store")
	}
	return r.Code
}

// pass lets time go by for the machine's clock, and its ticks.
func (g *grouped) pass(d time.Duration) {
	g.now += uint64(d.Microseconds())
	g.settle()
}

func sendBoth(g *grouped) {
	g.t.Helper()
	for p := range uint32(2) {
		if !sending(p, "a", "b", "c")(g.world, nil) {
			g.t.Fatal("send")
		}
	}
}

// metadataAlone0 runs what was posted to the loop of the metadata, and none of its jobs.
func (w *world) metadataAlone0() {
	posts := w.loops[0].posts
	w.loops[0].posts = nil
	for _, f := range posts {
		f()
	}
	w.driver(0).Turn()
}
