package engine

import (
	"math"
	"slices"
	"testing"
	"time"

	"galgo"
	"galgo/internal/config"
	"galgo/internal/disk/memdisk"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/shard"
	"galgo/internal/vsr"
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

// metadataAlone0 runs what was posted to the loop of the metadata, and none of its jobs.
func (w *world) metadataAlone0() {
	posts := w.loops[0].posts
	w.loops[0].posts = nil
	for _, f := range posts {
		f()
	}
	w.driver(0).Turn()
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

// Offsets are the group's: they outlive its members, a restart and the loss of all of
// them, and end with the group (PF-groups-05, -09).
func TestGroupOffsetsOutliveMembersNotTheGroup(t *testing.T) {
	d := healthy()
	g := openGrouped(t, d, 3)
	sendBoth(g)
	g.join(0)
	g.join(1)
	g.commit(0, 0, 1)
	g.commit(1, 1, 0)
	g.must(0, wire.OperationLeaveConsumerGroup, namedGroup())
	g.run(func(done func()) {
		g.engine.Metadata(edge.MetadataRequest{Operation: metadata.OperationDetach, Client: g.members[1].id, Session: g.members[1].epoch}, func(edge.MetadataReply) { done() })
	})
	w, err := open(t, d.Kill(), worldConfig(), 2, 2_000_000)
	if err != nil {
		t.Fatal(err)
	}
	g.world = w
	g.join(2)
	for p, want := range []int{1, 2} {
		if got, code := g.pollAs(2, uint32(p)); len(got) != want || code != galgo.CodeOK {
			t.Errorf("partition %d: polled %d messages (%v), want those behind the committed offset, %d", p, len(got), code, want)
		}
	}
	g.must(2, wire.OperationDeleteConsumerGroup, namedGroup())
	c := &cast{admin: g.members[2]}
	if !creatingGroup(w, c) {
		t.Fatal("no group")
	}
	for p := range uint32(2) {
		for key := range uint32(2) {
			if offset, ok := g.offsetOf(g.group("s", "t", p), galgo.ConsumerGroup, key); ok {
				t.Errorf("partition %d: offset %d of group %d is still there", p, offset, key)
			}
		}
	}
}

// A store that is under way when its group is deleted leaves nothing behind.
func TestStoreMeetsTheDeletionOfItsGroup(t *testing.T) {
	g := openGrouped(t, healthy(), 1)
	sendBoth(g)
	g.join(0)
	group := g.group("s", "t", 0)
	answered := 0
	for range 3 {
		g.engine.StoreOffset(edge.OffsetRequest{Group: group, Kind: galgo.ConsumerGroup, Member: g.members[0].id, Offset: 1}, func(edge.OffsetReply) { answered++ })
	}
	g.members[0].request++
	g.engine.Metadata(edge.MetadataRequest{
		Operation: wire.OperationDeleteConsumerGroup, Client: g.members[0].id, Session: g.members[0].epoch, Request: g.members[0].request, Body: namedGroup(),
	}, func(edge.MetadataReply) { answered++ })
	g.metadataAlone() // deleted, while the stores wait for the partition's loop
	if _, ok := g.engine.View().ConsumerGroupAt(0, 0, 0); ok {
		t.Fatal("the group is still there")
	}
	g.settle()
	if _, ok := g.offsetOf(group, galgo.ConsumerGroup, 0); ok || answered != 4 {
		t.Errorf("the offset is there: %t, %d answers, want 4", ok, answered)
	}
}

// An offset of a group that another primary, which had not heard of its deletion, has
// let into the log goes again.
func TestOffsetOfADeletedGroupIsSwept(t *testing.T) {
	g := openGrouped(t, healthy(), 1)
	sendBoth(g)
	g.must(0, wire.OperationDeleteConsumerGroup, namedGroup())
	group := g.group("s", "t", 0)
	g.unfenced(group, 0, 1)
	g.settle()
	if _, ok := g.offsetOf(group, galgo.ConsumerGroup, 0); ok {
		t.Error("the offset of a deleted group is still there")
	}
	g.unfenced(group, 7, 1) // of a group that this node has not heard of yet
	g.settle()
	if _, ok := g.offsetOf(group, galgo.ConsumerGroup, 7); !ok {
		t.Error("the offset of a group that is to come is gone")
	}
}

// unfenced stores an offset of a consumer group without asking whose the partition is.
func (g *grouped) unfenced(group uint64, key uint32, offset uint64) {
	g.t.Helper()
	code := galgo.CodeError
	g.run(func(done func()) {
		g.loops[1].Post(func() {
			g.engine.data[0].StoreOffset(shard.OffsetRequest{Group: vsr.GroupID(group), Kind: galgo.ConsumerGroup, Key: key, Offset: offset},
				func(got galgo.Code, _ vsr.Op) { code = got; done() })
		})
	})
	if code != galgo.CodeOK {
		g.t.Fatalf("store: %v", code)
	}
}

// Retention takes sealed segments by age and by size, never the open one, holds what a
// consumer has not read, and follows a change of the options (PF-storage-07, -17).
func TestRetention(t *testing.T) {
	const hour = 3600 * 1_000_000
	for name, tt := range map[string]struct {
		options []galgo.Header
		prepare func(*grouped)
		pass    time.Duration
		first   uint64 // offset that is left after it
	}{
		"nothing asked":   {nil, nil, 100 * time.Hour, 0},
		"too young":       {expiry(10 * hour), nil, time.Hour, 0},
		"too old":         {expiry(10 * hour), nil, 11 * time.Hour, 4},
		"held":            {expiry(10 * hour), func(g *grouped) { g.storeOffset(g.group("s", "r", 0), 5, 1) }, 11 * time.Hour, 2},
		"held by a group": {expiry(10 * hour), func(g *grouped) { g.unfenced(g.group("s", "r", 0), 0, 3) }, 11 * time.Hour, 4},
		"too large":       {size(1 << 20), nil, 0, 2},
		"large enough":    {size(400 << 20), nil, 0, 0},
		"expiry updated": {expiry(10 * hour), func(g *grouped) {
			options, _ := wire.NewOptions(expiry(100 * hour))
			g.must(0, wire.OperationUpdateTopic, wire.UpdateTopicRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("r"), Name: "r", Options: options}.Append(nil))
		}, 11 * time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := healthy()
			g := openGrouped(t, d, 1)
			g.engine.retention.batch = 1 << 20
			options, err := wire.NewOptions(append([]galgo.Header{{Key: galgo.StringValue(galgo.OptionSegmentSize), Value: galgo.Uint64Value(1 << 20)}}, tt.options...))
			if err != nil {
				t.Fatal(err)
			}
			g.must(0, wire.OperationCreateTopic, wire.CreateTopicRequest{Stream: galgo.NamedID("s"), Partitions: 1, Name: "r", Options: options}.Append(nil))
			g.must(0, wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("r"), Name: "g"}.Append(nil))
			group := g.group("s", "r", 0)
			for range 5 { // two sealed segments of two messages, one open with one
				if r, ok := g.send(group, galgo.ClientID{}, 0, big("m", 600<<10)); !ok || r.Code != galgo.CodeOK {
					t.Fatalf("send: %+v", r)
				}
			}
			if tt.prepare != nil {
				tt.prepare(g)
			}
			g.pass(tt.pass)
			g.engine.Retain()
			g.settle()
			for _, when := range []string{"after it", "after a restart"} {
				f, _ := g.engine.Stats(group)
				if f.FirstOffset != tt.first || f.CurrentOffset != 4 || f.Messages != 5-tt.first {
					t.Errorf("%s: first offset %d, current %d, %d messages; want %d, 4, %d", when, f.FirstOffset, f.CurrentOffset, f.Messages, tt.first, 5-tt.first)
				}
				w, err := open(t, d.Kill(), worldConfig(), 2, g.now)
				if err != nil {
					t.Fatal(err)
				}
				g.world = w
			}
		})
	}
}

func expiry(us uint64) []galgo.Header {
	return []galgo.Header{{Key: galgo.StringValue(galgo.OptionMessageExpiry), Value: galgo.Uint64Value(us)}}
}

func size(bytes uint64) []galgo.Header {
	return []galgo.Header{{Key: galgo.StringValue(galgo.OptionMaxTopicSize), Value: galgo.Uint64Value(bytes)}}
}

// rolled is a node whose partition 0 of s/t has two sealed segments of two messages and
// an open one.
func rolled(t *testing.T, d *memdisk.Disk) (*grouped, uint64) {
	t.Helper()
	g := openGrouped(t, d, 1)
	group := g.group("s", "t", 0)
	for range 5 {
		if r, ok := g.send(group, galgo.ClientID{}, 0, big("m", 600<<10)); !ok || r.Code != galgo.CodeOK {
			t.Fatalf("send: %+v", r)
		}
	}
	return g, group
}

func (g *grouped) first(group uint64) uint64 {
	f, _ := g.engine.Stats(group)
	return f.FirstOffset
}

// A deletion of segments is answered when it has happened, and is done at start where a
// crash came between the logs of the metadata and of the partition.
func TestTruncationCutShortIsDoneAtStart(t *testing.T) {
	d := healthy()
	g, group := rolled(t, d)
	request := func(below uint64) edge.MetadataRequest {
		g.members[0].request++
		body := metadata.Truncation{
			DeleteSegmentsRequest: wire.DeleteSegmentsRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t"), Segments: 1},
			Group:                 group, Below: below, Until: math.MaxUint64,
		}.Append(nil)
		return edge.MetadataRequest{Operation: wire.OperationDeleteSegments, Client: g.members[0].id, Session: g.members[0].epoch, Request: g.members[0].request, Body: body}
	}
	answered := false
	g.engine.submit(request(2), func(edge.MetadataReply) {
		if answered = true; g.first(group) != 2 {
			t.Errorf("answered, and the first offset is %d, want 2", g.first(group))
		}
	})
	g.settle()
	if !answered {
		t.Fatal("no answer")
	}
	g.engine.submit(request(4), func(edge.MetadataReply) { t.Error("answered although the partition's loop stands still") })
	g.metadataAlone()
	if p, _ := g.engine.View().PartitionOf(group); p.DeletedBelow != 4 || g.first(group) != 2 {
		t.Fatalf("the metadata has %+v, the partition begins at %d", p, g.first(group))
	}
	w, err := open(t, d.Kill(), worldConfig(), 2, 2_000_000)
	if err != nil {
		t.Fatal(err)
	}
	g.world = w
	if got := g.first(group); got != 4 {
		t.Errorf("after a restart the partition begins at %d, want 4", got)
	}
}

// The same of the offsets of a deleted group.
func TestGroupOffsetsGoAtStartWhereACrashCameBetween(t *testing.T) {
	d := healthy()
	g := openGrouped(t, d, 1)
	sendBoth(g)
	g.join(0)
	g.commit(0, 0, 1)
	g.members[0].request++
	g.engine.Metadata(edge.MetadataRequest{
		Operation: wire.OperationDeleteConsumerGroup, Client: g.members[0].id, Session: g.members[0].epoch, Request: g.members[0].request, Body: namedGroup(),
	}, func(edge.MetadataReply) { t.Error("answered although the partition's loop stands still") })
	g.metadataAlone()
	group := g.group("s", "t", 0)
	w, err := open(t, d.Kill(), worldConfig(), 2, 2_000_000)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := w.offsetOf(group, galgo.ConsumerGroup, 0); ok {
		t.Error("the offset is still there")
	}
}

// What retention has decided about one life of a partition does not meet the next.
func TestRetentionMeetsAPurge(t *testing.T) {
	g, group := rolled(t, healthy())
	rule := func(vsr.GroupID) partition.Retention { return partition.Retention{Bytes: 1} }
	g.loops[1].Post(func() {
		data := g.engine.data[0]
		data.Purge(vsr.GroupID(group), 1, func() {})
		for range 3 { // a sealed segment and an open one, of the next life
			data.Send(shard.SendRequest{Group: vsr.GroupID(group), Batch: batchOf(big("n", 600<<10))}, func(galgo.Code, uint64, vsr.Op) {})
		}
		data.Retain(rule)
	})
	g.settle()
	if f, _ := g.engine.Stats(group); f.FirstOffset != 0 || f.Messages != 3 {
		t.Errorf("the new life begins at offset %d and has %d messages, want 0 and 3", f.FirstOffset, f.Messages)
	}
	g.loops[1].Post(func() { g.engine.data[0].Retain(rule) })
	g.settle()
	if got := g.first(group); got != 2 {
		t.Errorf("it begins at %d after the next pass, want 2", got)
	}
}

// Power loss takes what a topic in memory had, and not what the metadata know of it: the
// segments that were asked to go are not those that are written in their place, in this
// life of the node or in the next.
func TestTruncationIsNotOfWhatTookItsPlace(t *testing.T) {
	c := worldConfig()
	c.Partition.Durability = config.DurabilityMemory
	c.WAL.FileSize = 64 << 20
	d := healthy()
	w, err := open(t, d, c, 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	k := &cast{}
	for _, s := range script[:4] {
		if !s.run(w, k) {
			t.Fatalf("step %q", s.name)
		}
	}
	group := w.group("s", "t", 0)
	// No tick from here on: there is no time for a sync of the log.
	until := func(what string, there *bool) {
		t.Helper()
		for range 2000 {
			if *there {
				return
			}
			w.step()
		}
		t.Fatal(what)
	}
	for range 9 {
		sent := false
		w.engine.Send(edge.SendRequest{Group: group, Batch: batchOf(big("m", 600<<10)), Count: 1}, func(r edge.SendReply) { sent = r.Code == galgo.CodeOK })
		until("send", &sent)
	}
	deleted := false
	k.admin.request++
	w.engine.Metadata(edge.MetadataRequest{
		Operation: wire.OperationDeleteSegments, Client: k.admin.id, Session: k.admin.epoch, Request: k.admin.request,
		Body: wire.DeleteSegmentsRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t"), Segments: 9}.Append(nil),
	}, func(edge.MetadataReply) { deleted = true })
	until("delete segments", &deleted)
	if f, _ := w.engine.Stats(group); f.FirstOffset != 8 {
		t.Fatalf("the partition begins at %d, want 8", f.FirstOffset)
	}
	d = d.PowerLoss(nil)
	var acknowledged []uint64 // offsets
	for life := range uint64(2) {
		if w, err = open(t, d, c, 2+life, 9_000_000*(1+life)); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			r, ok := w.send(group, galgo.ClientID{}, 0, big("n", 600<<10))
			if !ok || r.Code != galgo.CodeOK {
				t.Fatalf("send: %+v", r)
			}
			acknowledged = append(acknowledged, r.Base)
		}
		f, _ := w.engine.Stats(group)
		if acknowledged[0] >= 6 || f.FirstOffset != acknowledged[0] || f.Messages != uint64(len(acknowledged)) {
			t.Errorf("life %d: the partition begins at %d and has %d messages, those of offsets %v are acknowledged", life, f.FirstOffset, f.Messages, acknowledged)
		}
		d = d.Kill()
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

// What a consumer goes back to is not dropped by what was decided before: neither by a
// deletion of segments, which goes on when the consumer has come to their end, nor by
// retention.
func TestRewindMeetsADeletion(t *testing.T) {
	back := func(g *grouped, group uint64) {
		code := galgo.CodeError
		g.engine.StoreOffset(edge.OffsetRequest{Group: group, Kind: galgo.ConsumerSingle, Key: 1}, func(r edge.OffsetReply) { code = r.Code })
		g.engine.Retain()
		g.settle()
		if code != galgo.CodeOK {
			g.t.Fatalf("store: %v", code)
		}
	}
	begins := func(g *grouped, group, want uint64) {
		g.t.Helper()
		if got := g.first(group); got != want {
			g.t.Errorf("the partition begins at %d, want %d", got, want)
		}
	}
	t.Run("delete segments", func(t *testing.T) {
		g, group := rolled(t, healthy())
		g.storeOffset(group, 1, 4)
		answered := false
		g.members[0].request++
		g.engine.Metadata(edge.MetadataRequest{
			Operation: wire.OperationDeleteSegments, Client: g.members[0].id, Session: g.members[0].epoch, Request: g.members[0].request,
			Body: wire.DeleteSegmentsRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t"), Segments: 9}.Append(nil),
		}, func(edge.MetadataReply) { answered = true })
		back(g, group)
		begins(g, group, 0)
		if !answered {
			t.Error("no answer, although nothing is left that may go")
		}
		g.storeOffset(group, 1, 3)
		begins(g, group, 4)
	})
	t.Run("retention", func(t *testing.T) {
		g, group := rolled(t, healthy())
		g.storeOffset(group, 1, 4)
		options, err := wire.NewOptions(expiry(1))
		if err != nil {
			t.Fatal(err)
		}
		g.must(0, wire.OperationUpdateTopic, wire.UpdateTopicRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t"), Name: "t", Options: options}.Append(nil))
		g.now += 1000
		back(g, group)
		begins(g, group, 0)
	})
}

// The deletion of an offset is no commit: of what was given out everything is open then.
func TestDeletedOffsetIsNoCommit(t *testing.T) {
	g := openGrouped(t, healthy(), 2)
	if !sending(1, "x")(g.world, nil) || !sending(0, "x")(g.world, nil) {
		t.Fatal("send")
	}
	g.join(0)
	g.commit(0, 1, 0)
	var plan partition.Plan
	req := g.request(0, 1, &plan)
	req.Strategy = galgo.FromOffset(0)
	g.begin(&req)
	g.engine.Polled(req, 0, true)
	code := galgo.CodeError
	g.engine.DeleteOffset(edge.OffsetRequest{Group: req.Group, Kind: galgo.ConsumerGroup, Member: g.members[0].id}, func(r edge.OffsetReply) { code = r.Code })
	g.settle()
	if code != galgo.CodeOK {
		t.Fatalf("delete: %v", code)
	}
	g.join(1)
	g.wantHas(1)
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
