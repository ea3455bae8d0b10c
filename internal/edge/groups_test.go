package edge

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"galgo"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

var groupG = galgo.Consumer{Kind: galgo.ConsumerGroup, ID: galgo.NamedID("g")}

// groupBody names the consumer group g.
func groupBody() []byte {
	return wire.GroupRequest{Stream: s0, Topic: t0, Group: galgo.NamedID("g")}.Append(nil)
}

// makeGroup makes a topic of so many partitions with the consumer group g.
func (p *peer) makeGroup(partitions uint32) {
	p.t.Helper()
	p.makeTopic(partitions)
	p.must(wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: s0, Topic: t0, Name: "g"}.Append(nil))
}

// join joins g; what is busy stays where it is, as the fake node knows of no more.
func (p *peer) join() {
	p.t.Helper()
	p.must(wire.OperationJoinConsumerGroup, groupBody())
}

// sync asks for the partitions that the peer may poll; nil if it is no member.
func (p *peer) sync() *wire.GroupAssignment {
	p.t.Helper()
	body := p.mustRead(wire.CommandSyncConsumerGroup, groupBody())
	if len(body) == 0 {
		return nil
	}
	a, err := wire.DecodeGroupAssignment(body)
	if err != nil {
		p.t.Fatal(err)
	}
	return &a
}

func (p *peer) members() []wire.GroupMember {
	p.t.Helper()
	d, err := wire.DecodeConsumerGroupDetails(p.mustRead(wire.CommandGetConsumerGroup, groupBody()))
	if err != nil {
		p.t.Fatal(err)
	}
	return d.Members
}

func groupPoll(partition uint32, commit bool) []byte {
	return wire.PollMessagesRequest{
		Consumer: groupG, Stream: s0, Topic: t0, Partition: wire.Partition(partition), Strategy: galgo.FromNext(), Count: 10, AutoCommit: commit,
	}.Append(nil)
}

func TestMembersShareATopic(t *testing.T) {
	r := newRig(t)
	a, b := r.signedIn(), r.signedIn()
	a.makeGroup(2)
	a.sendTo(0, "x", "y")
	a.sendTo(1, "z")
	if a.sync() != nil {
		t.Error("not a member, and has an assignment")
	}
	a.join()
	if got := a.sync(); got == nil || !slices.Equal(got.Partitions, []uint32{0, 1}) || got.Generation != 1 {
		t.Fatalf("the first member is assigned %+v", got)
	}
	if got := payloads(a.poll(groupPoll(1, true))); !slices.Equal(got, []string{"z"}) {
		t.Errorf("polled %v", got)
	}
	if got := a.poll(groupPoll(1, true)); got.PartitionID != 1 || len(got.Messages) != 0 {
		t.Errorf("polled %+v after a commit", got)
	}
	b.join()
	if got := a.members(); len(got) != 2 || len(got[0].Partitions) != 2 || len(got[1].Partitions) != 0 {
		t.Errorf("members %+v: a partition on its way is still its owner's", got)
	}
	if got := a.sync(); !slices.Equal(got.Partitions, []uint32{0}) {
		t.Errorf("assigned %+v, want no partition that is on its way to another", got)
	}
	if got := b.sync(); got == nil || len(got.Partitions) != 0 {
		t.Errorf("the second member is assigned %+v, want nothing yet", got)
	}
	if got := a.poll(groupPoll(1, false)); got.PartitionID != wire.PollPartitionResync {
		t.Errorf("poll of a partition on its way to another: %+v", got)
	}
	_, store, _ := offsetBodies(groupG, s0, t0, wire.Partition(1), 0)
	a.must(wire.OperationStoreConsumerOffset, store) // it may still be committed
	if _, code := b.do(wire.OperationStoreConsumerOffset, store); code != galgo.CodeResourceNotFound {
		t.Errorf("offset of a partition of another member: %v", code)
	}
	a.must(wire.OperationLeaveConsumerGroup, groupBody())
	if _, code := a.do(wire.OperationLeaveConsumerGroup, groupBody()); code != galgo.CodeConsumerGroupMemberNotFound {
		t.Errorf("second leave: %v", code)
	}
	if got := b.sync(); !slices.Equal(got.Partitions, []uint32{0, 1}) {
		t.Errorf("assigned %+v", got)
	}
	if got := payloads(b.poll(groupPoll(0, true))); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("polled %v", got)
	}
}

// The codes of group commands on what is not there (PF-groups-04).
func TestGroupCommandsOnWhatIsMissing(t *testing.T) {
	r := newRig(t)
	r.node.addUser(t, "nobody", "secret", true, nil)
	p := r.signedIn()
	p.makeGroup(1)
	nobody := r.connect()
	nobody.login("nobody", "secret")
	no := galgo.NamedID("no")
	for _, op := range []wire.Operation{wire.OperationJoinConsumerGroup, wire.OperationLeaveConsumerGroup, wire.OperationDeleteConsumerGroup} {
		for _, tt := range []struct {
			by   *peer
			body wire.GroupRequest
			want galgo.Code
		}{
			{p, wire.GroupRequest{Stream: no, Topic: no, Group: no}, galgo.CodeStreamIDNotFound},
			{p, wire.GroupRequest{Stream: s0, Topic: no, Group: no}, galgo.CodeTopicIDNotFound},
			{p, wire.GroupRequest{Stream: s0, Topic: t0, Group: no}, galgo.CodeConsumerGroupIDNotFound},
			{nobody, wire.GroupRequest{Stream: s0, Topic: t0, Group: no}, galgo.CodeUnauthorized},
		} {
			if _, code := tt.by.do(op, tt.body.Append(nil)); code != tt.want {
				t.Errorf("%v %+v: %v, want %v", op, tt.body, code, tt.want)
			}
		}
	}
	for _, body := range []wire.GroupRequest{{Stream: no, Topic: no, Group: no}, {Stream: s0, Topic: no, Group: no}, {Stream: s0, Topic: t0, Group: no}} {
		if got := p.mustRead(wire.CommandSyncConsumerGroup, body.Append(nil)); len(got) != 0 {
			t.Errorf("sync %+v: %x, want nothing", body, got)
		}
	}
}

// A member is the client id of the header where the command is not replicated.
func TestSyncAndPollGoByTheHeader(t *testing.T) {
	r := newRig(t)
	a, b := r.signedIn(), r.signedIn()
	a.makeGroup(1)
	a.join()
	h := b.commandHeader(wire.CommandSyncConsumerGroup)
	h.Client = a.client
	if body, code := b.parsed(b.ask(h, groupBody())); code != galgo.CodeOK || len(body) == 0 {
		t.Errorf("sync under the id of a member: %x, %v", body, code)
	}
}

// Memberships show in me, client.get and client.list.
func TestClientsShowMemberships(t *testing.T) {
	r := newRig(t)
	a, b := r.signedIn(), r.signedIn()
	a.makeGroup(1)
	a.join()
	me, err := wire.DecodeClientDetails(a.mustRead(wire.CommandGetMe, nil))
	want := []wire.GroupMembership{{StreamID: 0, TopicID: 0, GroupID: 0}}
	if err != nil || !slices.Equal(me.Groups, want) || me.GroupsCount != 1 {
		t.Errorf("me: %+v, %v", me, err)
	}
	other, err := wire.DecodeClientDetails(b.mustRead(wire.CommandGetClient, wire.GetClientRequest{ClientID: me.ClientID}.Append(nil)))
	if err != nil || !slices.Equal(other.Groups, want) {
		t.Errorf("client: %+v, %v", other, err)
	}
	list, err := wire.DecodeClients(b.mustRead(wire.CommandGetClients, nil))
	if err != nil || len(list) != 2 || list[0].GroupsCount != 1 || list[1].GroupsCount != 0 {
		t.Errorf("clients: %+v, %v", list, err)
	}
}

// A poll that the member lost its partition over is not answered with messages: another
// may have them by now.
func TestPollThatIsOvertakenByARebalance(t *testing.T) {
	r := newRig(t)
	a := r.signedIn()
	a.makeGroup(1)
	a.sendTo(0, "x")
	a.join()
	r.node.onPolled = func(PollRequest, bool) bool { return false }
	if got := a.poll(groupPoll(0, true)); got.PartitionID != wire.PollPartitionResync || len(got.Messages) != 0 {
		t.Errorf("polled %+v", got)
	}
	r.node.onPolled = nil
	get, _, _ := offsetBodies(groupG, s0, t0, wire.Partition(0), 0)
	if body := a.mustRead(wire.CommandGetConsumerOffset, get); len(body) != 0 {
		t.Errorf("an offset is stored of what was not given: %x", body)
	}
}

// Each poll of a member that the node took is ended once, whatever becomes of it.
func TestPollsOfMembersAreEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.ReplyTimeout = time.Second })
		defer r.stop()
		a := r.signedIn()
		a.makeGroup(1)
		a.sendTo(0, "x")
		a.join()
		var late func()
		r.node.onPoll = func(req PollRequest, done func(PollReply)) bool {
			late = func() { done(r.node.poll(req)) }
			return true
		}
		a.wantStatus(a.ask(a.commandHeader(wire.CommandPollMessages), groupPoll(0, false)), galgo.CodeTransientNotAccepted)
		synctest.Wait()
		if r.node.polled != 0 {
			t.Errorf("%d polls ended before the node answered", r.node.polled)
		}
		r.node.post(func() { late() })
		synctest.Wait()
		if r.node.polled != 1 {
			t.Errorf("%d polls ended, want 1", r.node.polled)
		}
	})
}

// Who falls silent loses its session if others wait for its partitions, and no one else
// does. It may sign in and join again on the same connection (PF-groups-03).
func TestSilentMembersLoseTheirSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.HeartbeatInterval = 30 * time.Second })
		defer r.stop()
		member, other, pinging := r.signedIn(), r.signedIn(), r.signedIn()
		member.makeGroup(3)
		member.join()
		pinging.join()
		told := make(chan []byte, 1)
		go func() { told <- member.receive() }()
		for range 5 {
			time.Sleep(20 * time.Second)
			pinging.alive()
		}
		member.wantEviction(<-told, wire.EvictionStaleClient)
		if got := pinging.members(); len(got) != 1 || len(got[0].Partitions) != 3 {
			t.Errorf("members %+v, want one with all partitions", got)
		}
		other.alive()
		if got := pinging.sync(); got == nil || len(got.Partitions) != 3 {
			t.Errorf("assigned %+v", got)
		}
		_, store, _ := offsetBodies(groupG, s0, t0, wire.Partition(0), 0)
		member.wantEviction(member.ask(member.header(wire.OperationStoreConsumerOffset), store), wire.EvictionNoSession)
		member.wantStatus(member.ask(member.commandHeader(wire.CommandPollMessages), groupPoll(0, false)), galgo.CodeUnauthenticated)
		member.client = clientID(77)
		member.number, member.session = 1, 0
		member.login("iggy", "iggy")
		member.join()
		if got := member.sync(); got == nil {
			t.Error("not a member after a new join")
		}
	})
}

func TestSilenceIsNothingWithoutTheSetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		p := r.signedIn()
		p.makeGroup(1)
		p.join()
		time.Sleep(time.Hour)
		if p.sync() == nil {
			t.Error("not a member any more")
		}
	})
}

// A lost connection, a sign-out and a sign-in on a signed-in connection end memberships.
func TestMembershipEndsWithTheConnection(t *testing.T) {
	for name, end := range map[string]func(*peer){
		"lost":     func(p *peer) { p.conn.Close() },
		"sign-out": func(p *peer) { p.ask(p.header(wire.OperationLogout), nil) },
		"sign-in":  func(p *peer) { p.login("iggy", "iggy") },
		"sign-in as another client": func(p *peer) {
			p.client = clientID(99)
			p.login("iggy", "iggy")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer r.stop()
				a, b := r.signedIn(), r.signedIn()
				a.makeGroup(2)
				a.join()
				b.join()
				end(a)
				synctest.Wait()
				if got := b.sync(); got == nil || !slices.Equal(got.Partitions, []uint32{0, 1}) {
					t.Errorf("assigned %+v, want all", got)
				}
			})
		})
	}
}

// A member claims a partition before it is given anything of it, once for as long as it has
// it, and what it stores goes by that.
func TestMembersClaimWhatTheyPoll(t *testing.T) {
	r := newRig(t)
	a, b := r.signedIn(), r.signedIn()
	a.makeGroup(1)
	a.sendTo(0, "x", "y", "z")
	var mu sync.Mutex // claims are taken on the node's goroutine
	var claims []OffsetRequest
	refusal := galgo.CodeOK
	r.node.onClaim = func(req OffsetRequest, done func(OffsetReply)) bool {
		mu.Lock()
		defer mu.Unlock()
		claims = append(claims, req)
		if refusal != galgo.CodeOK {
			done(OffsetReply{Code: refusal})
		}
		return refusal != galgo.CodeOK
	}
	refuse := func(code galgo.Code) {
		mu.Lock()
		defer mu.Unlock()
		refusal = code
	}
	wantClaims := func(n int) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if len(claims) != n {
			t.Fatalf("%d claims, want %d: %+v", len(claims), n, claims)
		}
	}
	a.join()
	a.poll(groupPoll(0, false))
	a.poll(groupPoll(0, true))
	wantClaims(1)
	a.must(wire.OperationLeaveConsumerGroup, groupBody())
	b.join()
	for code, want := range map[galgo.Code]galgo.Code{
		galgo.CodeTransientNotAccepted: galgo.CodeTransientNotAccepted, galgo.CodeTransientNotCommitted: galgo.CodeTransientNotAccepted,
		galgo.CodeUnauthorized: galgo.CodeUnauthorized,
	} {
		refuse(code)
		b.wantStatus(b.ask(b.commandHeader(wire.CommandPollMessages), groupPoll(0, false)), want)
	}
	refuse(galgo.CodeResourceNotFound)
	if got := b.poll(groupPoll(0, false)); got.PartitionID != wire.PollPartitionResync {
		t.Errorf("claimed by another meanwhile, and polled %+v", got)
	}
	refuse(galgo.CodeOK)
	if got := payloads(b.poll(groupPoll(0, false))); len(got) != 0 {
		t.Errorf("polled %v behind what is committed", got)
	}
	wantClaims(6)
	b.must(wire.OperationLeaveConsumerGroup, groupBody())
	a.join()
	_, store, remove := offsetBodies(groupG, s0, t0, wire.Partition(0), 1)
	a.must(wire.OperationStoreConsumerOffset, store) // it joined anew: what it had before is forgotten
	a.must(wire.OperationDeleteConsumerOffset, remove)
	mu.Lock()
	defer mu.Unlock()
	for i, c := range claims[1:] {
		if c.Tenure <= claims[0].Tenure || c.Member == claims[0].Member {
			t.Errorf("claim %d is %+v, the one of the member before %+v", i+1, c, claims[0])
		}
	}
}

// Who does not have a partition, as far as is known where it asks, is served nothing of it: it
// may have it by the time that the node looks, and has not claimed it.
func TestNothingIsServedUnclaimed(t *testing.T) {
	r := newRig(t)
	a, b := r.signedIn(), r.signedIn()
	a.makeGroup(1)
	a.sendTo(0, "x")
	a.join()
	b.join()
	r.node.onPoll = func(req PollRequest, done func(PollReply)) bool {
		t.Errorf("the node is asked for messages of partition group %d", req.Group)
		done(PollReply{Code: galgo.CodeConsumerGroupPartitionNotOwned})
		return true
	}
	if got := b.poll(groupPoll(0, false)); got.PartitionID != wire.PollPartitionResync {
		t.Errorf("polled %+v", got)
	}
}

// handOver completes what is on its way to other members of g.
func (r *edgeRig) handOver() {
	r.t.Helper()
	g, _ := r.node.View().ConsumerGroupAt(0, 0, 0)
	var c metadata.Completion
	for _, m := range g.Members {
		for _, v := range m.Revoked {
			c.HandOvers = append(c.HandOvers, metadata.HandOver{Client: m.Client, Partition: v.Partition, Since: v.Since})
		}
	}
	if len(c.HandOvers) == 0 {
		r.t.Fatalf("nothing of %+v is on its way", g)
	}
	r.node.apply(metadata.Input{Operation: wire.OperationCompleteGroupRevocation, Body: c.Encode()})
}

// A member that has lost a partition and has it again, without having noticed, does not
// take back what another has committed meanwhile.
func TestMemberThatMissedItsLoss(t *testing.T) {
	r := newRig(t)
	a, b := r.signedIn(), r.signedIn()
	a.makeGroup(2)
	a.sendTo(1, "x", "y", "z")
	a.join()
	a.poll(groupPoll(1, false))
	b.join()
	r.handOver()
	b.poll(groupPoll(1, true))
	b.must(wire.OperationLeaveConsumerGroup, groupBody())
	get, store, remove := offsetBodies(groupG, s0, t0, wire.Partition(1), 0)
	for op, body := range map[wire.Operation][]byte{wire.OperationStoreConsumerOffset: store, wire.OperationDeleteConsumerOffset: remove} {
		if _, code := a.do(op, body); code != galgo.CodeResourceNotFound {
			t.Errorf("%v of a member that had the partition before another: %v", op, code)
		}
	}
	if o, err := wire.DecodeConsumerOffset(a.mustRead(wire.CommandGetConsumerOffset, get)); err != nil || o.StoredOffset != 2 {
		t.Errorf("stored %+v, %v", o, err)
	}
	a.poll(groupPoll(1, false))
	a.must(wire.OperationStoreConsumerOffset, store) // now it knows what it does
}

// Messages whose offset could not be stored, because the partition or the client is
// another's by now, are not given out: another member has them.
func TestAutoCommitThatIsOvertaken(t *testing.T) {
	for name, tt := range map[string]struct {
		overtake func(*edgeRig)
		refusal  galgo.Code
		given    int
	}{
		"the partition is another's": {func(*edgeRig) {}, galgo.CodeResourceNotFound, 0},
		"the client is elsewhere": {func(r *edgeRig) {
			for _, c := range r.server.registry.spoken() {
				c.bound.Store(nil)
			}
		}, galgo.CodeOK, 0},
		"nothing is stored now": {func(*edgeRig) {}, galgo.CodeTransientNotAccepted, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			a := r.signedIn()
			a.makeGroup(1)
			a.sendTo(0, "x")
			a.join()
			r.node.onPolled = func(PollRequest, bool) bool { tt.overtake(r); return true }
			r.node.onStore = func(_ OffsetRequest, done func(OffsetReply)) bool {
				done(OffsetReply{Code: tt.refusal})
				return true
			}
			got := a.poll(groupPoll(0, true))
			if resync := got.PartitionID == wire.PollPartitionResync; len(got.Messages) != tt.given || resync != (tt.given == 0) {
				t.Errorf("polled %+v, want %d messages", got, tt.given)
			}
		})
	}
}

// elsewhere signs the client in at another node and makes it a member there: the connection here is as it was.
func (r *edgeRig) elsewhere(p *peer) {
	r.t.Helper()
	u, _ := r.node.View().User(galgo.NamedID("iggy"))
	r.node.between(func() {
		out := r.node.apply(metadata.Input{Operation: wire.OperationRegister, Client: p.client, User: u.ID, Body: metadata.PasswordOf(u).Append(nil)})
		_, body, err := metadata.Admit(r.node.View(), wire.OperationJoinConsumerGroup, groupBody())
		if err != nil {
			r.t.Error(err)
		}
		r.node.apply(metadata.Input{Operation: wire.OperationJoinConsumerGroup, Client: p.client, Session: out.Session, Request: p.number + 10, User: u.ID, Body: body})
	})
}

// What a client has said over a connection that it has left for one to another node, and comes late, is as of
// its session then: the member of the session that it has now has come further.
func TestLateRequestsOfAFormerSession(t *testing.T) {
	r := newRig(t)
	a := r.signedIn()
	a.makeGroup(1)
	a.sendTo(0, "x", "y", "z")
	a.join()
	r.elsewhere(a)
	// There it is given all and commits it: claimed as of now.
	view := r.node.View()
	g, _ := view.ConsumerGroupAt(0, 0, 0)
	p, _ := view.PartitionAt(0, 0, 0)
	since, owns := g.Tenure(a.client, 0)
	if !owns {
		t.Fatal("it is no member elsewhere")
	}
	stored := make(chan OffsetReply, 1)
	r.node.StoreOffset(OffsetRequest{Group: p.Group, Kind: galgo.ConsumerGroup, Member: a.client, Offset: 1, Tenure: since}, func(o OffsetReply) { stored <- o })
	if o := <-stored; o.Code != galgo.CodeOK {
		t.Fatal(o.Code)
	}
	if got := a.poll(groupPoll(0, true)); len(got.Messages) != 0 {
		t.Errorf("a late poll is given %d messages, and commits them", len(got.Messages))
	}
	get, store, remove := offsetBodies(groupG, s0, t0, wire.Partition(0), 0)
	for op, body := range map[wire.Operation][]byte{wire.OperationStoreConsumerOffset: store, wire.OperationDeleteConsumerOffset: remove} {
		if _, code := a.do(op, body); code != galgo.CodeResourceNotFound {
			t.Errorf("a late %v: %v", op, code)
		}
	}
	if o, err := wire.DecodeConsumerOffset(a.mustRead(wire.CommandGetConsumerOffset, get)); err != nil || o.StoredOffset != 1 {
		t.Errorf("stored %+v, %v, want 1", o, err)
	}
}
