package metadata

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/wire"
)

func streamIDs(v *View) (ids []uint32) {
	for s := range v.Streams() {
		ids = append(ids, s.ID)
	}
	return ids
}

func topicIDs(v *View, stream uint32) (ids []uint32) {
	s, _ := v.Stream(id(stream))
	for t := range v.Topics(s) {
		ids = append(ids, t.ID)
	}
	return ids
}

func kinds(changes []Change) (kinds []ChangeKind) {
	for _, c := range changes {
		kinds = append(kinds, c.Kind)
	}
	return kinds
}

func TestCreateStreamAnswersWithIt(t *testing.T) {
	r := newRig(t)
	payload, out := r.must(wire.OperationCreateStream, createStreamBody("s"))
	got, err := wire.DecodeStreamDetails(payload)
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != 0 || got.Name != "s" || got.CreatedAt != r.now() || got.TopicsCount != 0 || len(got.Options) != 0 {
		t.Errorf("created %+v", got)
	}
	if len(out.Changes) != 0 || r.m.View().Revision() != 0 {
		t.Errorf("changes %v and revision %d, want none", out.Changes, r.m.View().Revision())
	}
}

func TestStreamRules(t *testing.T) { // storage.md §7.4
	r := newRig(t)
	r.createStream("a")
	r.createStream("b")
	r.wantCode(galgo.CodeStreamNameAlreadyExists, wire.OperationCreateStream, createStreamBody("a"))
	r.wantCode(galgo.CodeStreamIDNotFound, wire.OperationUpdateStream, updateStreamBody(id(2), "a"))
	r.wantCode(galgo.CodeStreamIDNotFound, wire.OperationUpdateStream, updateStreamBody(name("0"), "c"))
	r.wantCode(galgo.CodeStreamNameAlreadyExists, wire.OperationUpdateStream, updateStreamBody(id(0), "b"))
	r.wantCode(galgo.CodeStreamIDNotFound, wire.OperationDeleteStream, deleteStreamBody(name("c")))
	r.wantCode(galgo.CodeStreamIDNotFound, wire.OperationPurgeStream, deleteStreamBody(id(1<<31)))
	r.must(wire.OperationUpdateStream, updateStreamBody(name("a"), "a"))
	r.must(wire.OperationUpdateStream, updateStreamBody(id(0), "c"))
	r.createStream("a")
	if got := streamIDs(r.m.View()); !slices.Equal(got, []uint32{0, 1, 2}) {
		t.Errorf("streams %v, want 0, 1, 2", got)
	}
	if s, ok := r.m.View().Stream(name("c")); !ok || s.ID != 0 {
		t.Errorf("the renamed stream is not found under its new name")
	}
}

func TestLowestFreeIDsAlsoAfterARestart(t *testing.T) { // storage.md §10.4, last
	r := newRig(t)
	for n := range 6 {
		r.createStream(fmt.Sprint("s", n))
	}
	for n := range 6 {
		r.createTopic(1, fmt.Sprint("t", n), 1)
	}
	for _, n := range []uint32{4, 0, 2} {
		r.must(wire.OperationDeleteStream, deleteStreamBody(id(n)))
		r.must(wire.OperationDeleteTopic, deleteTopicBody(id(1), id(n)))
	}
	r.createGroup(1, 1, "g")
	r.must(wire.OperationDeleteConsumerGroup, deleteGroupBody(id(1), id(1), name("g")))
	again := *r
	again.m = restored(t, r.m)
	again.sessions = map[galgo.ClientID]*testSession{clientID(1): {r.sessions[clientID(1)].epoch, r.sessions[clientID(1)].next}}
	for _, r := range []*rig{r, &again} {
		for n := range 4 {
			r.createStream(fmt.Sprint("new", n))
			r.createTopic(1, fmt.Sprint("new", n), 1)
		}
		r.createGroup(1, 1, "g")
		v := r.m.View()
		for n, want := range []uint32{0, 2, 4, 6} {
			s, _ := v.Stream(name(fmt.Sprint("new", n)))
			topic, _ := v.Topic(id(1), name(fmt.Sprint("new", n)))
			if s.ID != want || topic.ID != want {
				t.Errorf("new %d is stream %d and topic %d, want %d", n, s.ID, topic.ID, want)
			}
		}
		g, _ := v.ConsumerGroup(r.topic(id(1), id(1)), name("g"))
		if g.ID != 1 {
			t.Errorf("the second group of the topic has id %d, want 1: ids are not used again", g.ID)
		}
	}
	if string(r.m.View().EncodeState()) != string(again.m.View().EncodeState()) {
		t.Errorf("the restarted machine has another state")
	}
}

func TestCreateTopicAnswersWithIt(t *testing.T) {
	r := newRig(t)
	r.createStream("s")
	payload, out := r.must(wire.OperationCreateTopic, createTopicBody(name("s"), "t", 2))
	got, err := wire.DecodeTopicDetails(payload)
	if err != nil {
		t.Fatal(err)
	}
	want := r.m.View().TopicDetails(r.topic(id(0), id(0)), noStats{})
	if string(got.Append(nil)) != string(want.Append(nil)) {
		t.Errorf("answer\n%+v, want what a get shows\n%+v", got, want)
	}
	if got.PartitionsCount != 2 || got.CreatedAt != r.now() || got.MessageExpiry != galgo.Never || got.MaxTopicSize != galgo.Never {
		t.Errorf("created %+v", got)
	}
	wantChanges := []Change{
		{Kind: GroupCreated, Partition: 0, Group: 1, Revision: 1},
		{Kind: GroupCreated, Partition: 1, Group: 2, Revision: 1},
	}
	if !slices.Equal(out.Changes, wantChanges) {
		t.Errorf("changes %+v, want %+v", out.Changes, wantChanges)
	}
	s := r.sessions[clientID(1)]
	reply := r.m.View().CheckRequest(clientID(1), s.epoch, s.next-1, [16]byte{}).Reply
	if reply.Operation != wire.OperationCreateTopicWithAssignments || string(reply.Body()) != string(out.Body) {
		t.Errorf("kept reply of operation %d\n%x, sent\n%x", reply.Operation, reply.Body(), out.Body)
	}
}

type noStats struct{}

func (noStats) PartitionStats(uint64) PartitionStats { return PartitionStats{} }

func TestTopicRules(t *testing.T) { // storage.md §7.5
	r := newRig(t)
	r.createStream("s")
	r.createTopic(0, "a", 1)
	r.createTopic(0, "b", 0)
	r.wantCode(galgo.CodeStreamIDNotFound, wire.OperationCreateTopic, createTopicBody(id(1), "a", 1))
	r.wantCode(galgo.CodeTopicNameAlreadyExists, wire.OperationCreateTopic, createTopicBody(id(0), "a", 1))
	r.wantCode(galgo.CodeStreamIDNotFound, wire.OperationUpdateTopic, updateTopicBody(id(1), id(9), "b"))
	r.wantCode(galgo.CodeTopicIDNotFound, wire.OperationUpdateTopic, updateTopicBody(id(0), id(9), "b"))
	r.wantCode(galgo.CodeTopicNameAlreadyExists, wire.OperationUpdateTopic, updateTopicBody(id(0), id(0), "b"))
	r.wantCode(galgo.CodeTopicIDNotFound, wire.OperationDeleteTopic, deleteTopicBody(id(0), id(4096)))
	r.wantCode(galgo.CodeTopicIDNotFound, wire.OperationPurgeTopic, deleteTopicBody(id(0), name("c")))
	r.must(wire.OperationUpdateTopic, updateTopicBody(id(0), name("a"), "a"))
	r.must(wire.OperationUpdateTopic, updateTopicBody(id(0), name("a"), "c"))
	r.createTopic(0, "a", 1)
	if got := r.topic(id(0), name("c")).ID; got != 0 {
		t.Errorf("the renamed topic has id %d, want 0", got)
	}
	r.must(wire.OperationDeleteTopic, deleteTopicBody(id(0), name("a")))
	r.createStream("other")
	r.createTopic(1, "a", 1)
	if got := topicIDs(r.m.View(), 0); !slices.Equal(got, []uint32{0, 1}) {
		t.Errorf("topics %v, want 0 and 1", got)
	}
	// 4096 has the bits of topic 0 of the next stream.
	if _, err := r.m.View().Topic(id(0), id(4096)); !errors.Is(err, galgo.Errorf(galgo.CodeTopicIDNotFound, "")) {
		t.Errorf("topic 4096 of stream 0 is looked up as %v", err)
	}
}

func TestPartitionRules(t *testing.T) { // storage.md §7.7
	r := newRig(t)
	r.createStream("s")
	r.createTopic(0, "t", 2)
	for _, op := range []wire.Operation{wire.OperationCreatePartitions, wire.OperationDeletePartitions} {
		r.wantCode(galgo.CodeTooManyPartitions, op, partitionsBody(id(0), id(0), 0))
		r.wantCode(galgo.CodeTooManyPartitions, op, partitionsBody(id(0), id(0), 1001))
		r.wantCode(galgo.CodeStreamIDNotFound, op, partitionsBody(id(1), id(0), 1))
		r.wantCode(galgo.CodeTopicIDNotFound, op, partitionsBody(id(0), id(1), 1))
	}
	r.wantCode(galgo.CodeInvalidPartitionsCount, wire.OperationDeletePartitions, partitionsBody(id(0), id(0), 3))
	r.createGroup(0, 0, "g")
	before := r.m.View().Revision()
	_, out := r.must(wire.OperationCreatePartitions, partitionsBody(id(0), id(0), 2))
	want := []Change{
		{Kind: GroupCreated, Partition: 2, Group: 3, Revision: before + 1},
		{Kind: GroupCreated, Partition: 3, Group: 4, Revision: before + 1},
	}
	if !slices.Equal(out.Changes, want) {
		t.Errorf("create asks for %+v, want %+v", out.Changes, want)
	}
	_, out = r.must(wire.OperationDeletePartitions, partitionsBody(id(0), id(0), 3))
	want = []Change{
		{Kind: GroupRemoved, Partition: 3, Group: 4, Revision: before + 1},
		{Kind: GroupRemoved, Partition: 2, Group: 3, Revision: before + 1},
		{Kind: GroupRemoved, Partition: 1, Group: 2, Revision: 1},
	}
	if !slices.Equal(out.Changes, want) {
		t.Errorf("delete asks for %+v, want %+v", out.Changes, want)
	}
	_, out = r.must(wire.OperationCreatePartitions, partitionsBody(id(0), id(0), 1))
	if out.Changes[0].Group != 5 || out.Changes[0].Partition != 1 {
		t.Errorf("the partition made anew is %+v, want partition 1 with group 5", out.Changes[0])
	}
	g, _ := r.m.View().ConsumerGroup(r.topic(id(0), id(0)), id(0))
	if g.Generation != 3 {
		t.Errorf("generation %d after the partitions changed three times, want 3", g.Generation)
	}
	if p, ok := r.m.View().PartitionOf(5); !ok || p.ID != 1 {
		t.Errorf("group 5 is found as %+v", p)
	}
	r.must(wire.OperationCreatePartitions, partitionsBody(id(0), id(0), 2))
	if p, ok := r.m.View().PartitionOf(4); ok {
		t.Errorf("group 4 is still found, as partition %d with group %d", p.ID, p.Group)
	}
}

func TestPartitionIDsRunOut(t *testing.T) {
	r := newRig(t)
	r.createStream("s")
	r.createTopic(0, "t", 1)
	full := *r.topic(id(0), id(0))
	full.Partitions = PartitionsMax - 1 // their records are not needed here
	r.change(func(s *state) { s.topics.set(full.key(), &full) })
	for _, count := range []uint32{2, 1000} {
		_, out, err := r.root(wire.OperationCreatePartitions, partitionsBody(id(0), id(0), count))
		if got, _ := galgo.CodeOf(err); got != galgo.CodePartitionIDSpaceExhausted || len(out.Changes) != 0 {
			t.Errorf("%d more answers %v", count, err)
		}
	}
	if _, _, err := r.root(wire.OperationCreatePartitions, partitionsBody(id(0), id(0), 1)); err != nil {
		t.Errorf("the last id: %v", err)
	}
}

// What Admit bounds is bounded in Apply too: a log may be older than the bounds of
// the node that admitted it, and an answer is a kept reply.
func TestApplyBoundsNewPartitions(t *testing.T) {
	r := newRig(t)
	r.createStream("s")
	s := r.sessions[clientID(1)]
	for _, in := range []Input{
		{Operation: wire.OperationCreateTopicWithAssignments,
			Body: newTopic{Stream: id(0), Partitions: 1001, Name: "t", Options: wire.DefaultTopicOptions()}.encode()},
		{Operation: wire.OperationCreatePartitionsWithAssignments, Body: partitionsBody(id(0), id(0), 1001)},
		{Operation: wire.OperationCreatePartitionsWithAssignments, Body: partitionsBody(id(0), id(0), 0)},
	} {
		in.Client, in.Session, in.Request = clientID(1), s.epoch, s.next
		s.next++
		if code, _, _ := wire.SplitResult(r.apply(in).Body); code != galgo.CodeTooManyPartitions {
			t.Errorf("operation %d answers %v, want %v", in.Operation, code, galgo.CodeTooManyPartitions)
		}
		r.createTopicOnce("t")
	}
}

func (r *rig) createTopicOnce(name string) {
	if r.m.View().Counts().Topics == 0 {
		r.createTopic(0, name, 0)
	}
}

// The revision moves with the shape of partitions and groups, and with nothing
// else (storage.md §7.3).
func TestRevision(t *testing.T) {
	r := newRig(t)
	r.createStream("s")
	r.createStream("t")
	for _, tt := range []struct {
		op   wire.Operation
		body []byte
		by   uint64
	}{
		{wire.OperationCreateStream, createStreamBody("u"), 0},
		{wire.OperationUpdateStream, updateStreamBody(name("u"), "v"), 0},
		{wire.OperationPurgeStream, deleteStreamBody(id(0)), 0},
		{wire.OperationCreateTopic, createTopicBody(id(0), "a", 0), 1},
		{wire.OperationCreateTopic, createTopicBody(id(0), "b", 2), 1},
		{wire.OperationUpdateTopic, updateTopicBody(id(0), id(0), "c"), 0},
		{wire.OperationPurgeTopic, deleteTopicBody(id(0), id(0)), 0},
		{wire.OperationPurgeTopic, deleteTopicBody(id(0), id(1)), 1},
		{wire.OperationPurgeStream, deleteStreamBody(id(0)), 1},
		{wire.OperationCreatePartitions, partitionsBody(id(0), id(0), 3), 1},
		{wire.OperationDeletePartitions, partitionsBody(id(0), id(0), 1), 1},
		{wire.OperationCreateConsumerGroup, createGroupBody(id(0), id(0), "g"), 0},
		{wire.OperationDeleteConsumerGroup, deleteGroupBody(id(0), id(0), id(0)), 1},
		{wire.OperationDeleteTopic, deleteTopicBody(id(0), id(0)), 1},
		{wire.OperationDeleteStream, deleteStreamBody(id(1)), 1},
	} {
		before := r.m.View().Revision()
		r.must(tt.op, tt.body)
		if got := r.m.View().Revision() - before; got != tt.by {
			t.Errorf("%v %x moves the revision by %d, want %d", tt.op, tt.body, got, tt.by)
		}
	}
}

func TestPurge(t *testing.T) {
	r := newRig(t)
	r.createStream("s")
	r.createTopic(0, "a", 2)
	r.createTopic(0, "b", 1)
	r.createTopic(0, "none", 0)
	before := r.m.View().Revision()
	_, out := r.must(wire.OperationPurgeTopic, deleteTopicBody(id(0), name("none")))
	if len(out.Changes) != 0 || r.m.View().Revision() != before {
		t.Errorf("purging a topic without partitions: changes %v, revision %d", out.Changes, r.m.View().Revision())
	}
	_, out = r.must(wire.OperationPurgeTopic, deleteTopicBody(id(0), name("a")))
	want := []Change{
		{Kind: GroupPurged, Topic: 0, Partition: 0, Group: 1, Revision: 1, Generation: 1},
		{Kind: GroupPurged, Topic: 0, Partition: 1, Group: 2, Revision: 1, Generation: 1},
	}
	if !slices.Equal(out.Changes, want) || r.m.View().Revision() != before+1 {
		t.Errorf("purge of a topic asks for %+v, want %+v", out.Changes, want)
	}
	_, out = r.must(wire.OperationPurgeStream, deleteStreamBody(id(0)))
	want = []Change{
		{Kind: GroupPurged, Topic: 0, Partition: 0, Group: 1, Revision: 1, Generation: 2},
		{Kind: GroupPurged, Topic: 0, Partition: 1, Group: 2, Revision: 1, Generation: 2},
		{Kind: GroupPurged, Topic: 1, Partition: 0, Group: 3, Revision: 2, Generation: 1},
	}
	if !slices.Equal(out.Changes, want) || r.m.View().Revision() != before+2 {
		t.Errorf("purge of a stream asks for %+v, want %+v", out.Changes, want)
	}
}

func TestDeleteStreamTakesAllWithIt(t *testing.T) {
	r := newRig(t)
	r.createStream("s")
	r.createStream("next")
	r.createTopic(0, "a", 2)
	r.createTopic(1, "a", 1)
	r.createTopic(0, "b", 1)
	r.createGroup(0, 0, "g")
	r.createGroup(1, 0, "g")
	_, out := r.must(wire.OperationDeleteStream, deleteStreamBody(id(0)))
	if got, want := kinds(out.Changes), []ChangeKind{GroupRemoved, GroupRemoved, GroupRemoved}; !slices.Equal(got, want) {
		t.Errorf("changes %v, want %v", got, want)
	}
	want := Counts{Users: 1, Streams: 1, Topics: 1, Partitions: 1, ConsumerGroups: 1, Clients: 1}
	if got := r.m.View().Counts(); got != want {
		t.Errorf("left are %+v, want %+v", got, want)
	}
	r.createStream("s")
	if got := topicIDs(r.m.View(), 0); len(got) != 0 {
		t.Errorf("the new stream 0 has topics %v", got)
	}
	restored(t, r.m)
}

func TestConsumerGroupRules(t *testing.T) { // storage.md §7.7
	r := newRig(t)
	r.createStream("s")
	r.createTopic(0, "t", 3)
	r.wantCode(galgo.CodeStreamIDNotFound, wire.OperationCreateConsumerGroup, createGroupBody(id(1), id(0), "g"))
	r.wantCode(galgo.CodeTopicIDNotFound, wire.OperationCreateConsumerGroup, createGroupBody(id(0), id(1), "g"))
	payload, _ := r.must(wire.OperationCreateConsumerGroup, createGroupBody(id(0), id(0), "g"))
	got, err := wire.DecodeConsumerGroupDetails(payload)
	if err != nil || got.ID != 0 || got.PartitionsCount != 3 || got.Name != "g" || len(got.Members) != 0 {
		t.Errorf("created %+v, %v", got, err)
	}
	r.wantCode(galgo.CodeConsumerGroupNameAlreadyExists, wire.OperationCreateConsumerGroup, createGroupBody(id(0), id(0), "g"))
	r.wantCode(galgo.CodeStreamIDNotFound, wire.OperationDeleteConsumerGroup, deleteGroupBody(id(1), id(0), id(0)))
	r.wantCode(galgo.CodeTopicIDNotFound, wire.OperationDeleteConsumerGroup, deleteGroupBody(id(0), id(1), id(0)))
	r.wantCode(galgo.CodeConsumerGroupIDNotFound, wire.OperationDeleteConsumerGroup, deleteGroupBody(id(0), id(0), id(1)))
	before := r.m.View().Revision()
	_, out := r.must(wire.OperationDeleteConsumerGroup, deleteGroupBody(id(0), id(0), name("g")))
	if want := []Change{{Kind: ConsumerGroupRemoved}}; !slices.Equal(out.Changes, want) {
		t.Errorf("changes %+v, want %+v", out.Changes, want)
	}
	if got := r.m.View().Revision(); got != before+1 {
		t.Errorf("revision %d after a delete, want %d", got, before+1)
	}
}

func TestConsumerGroupIDsRunOut(t *testing.T) {
	r := newRig(t)
	r.createStream("s")
	r.createTopic(0, "t", 1)
	full := *r.topic(id(0), id(0))
	full.NextConsumerGroup = ConsumerGroupsMax - 1
	r.change(func(s *state) { s.topics.set(full.key(), &full) })
	r.createGroup(0, 0, "last")
	restored(t, r.m)
	r.wantCode(galgo.CodeError, wire.OperationCreateConsumerGroup, createGroupBody(id(0), id(0), "g"))
}

// Looking up comes before the right, and the right before the rules of business
// (wire.md §6.3).
func TestOrderOfChecks(t *testing.T) {
	r := newRig(t)
	r.createStream("s")
	r.createTopic(0, "t", 1)
	r.createGroup(0, 0, "g")
	r.addUser(1, nil)
	guest := clientID(2)
	r.login(guest, 1)
	for _, tt := range []struct {
		name string
		op   wire.Operation
		body []byte
		want galgo.Code
	}{
		{"taken name", wire.OperationCreateStream, createStreamBody("s"), galgo.CodeUnauthorized},
		{"unknown stream", wire.OperationUpdateStream, updateStreamBody(id(1), "s"), galgo.CodeStreamIDNotFound},
		{"taken name", wire.OperationUpdateStream, updateStreamBody(id(0), "s"), galgo.CodeUnauthorized},
		{"unknown stream", wire.OperationDeleteStream, deleteStreamBody(id(1)), galgo.CodeStreamIDNotFound},
		{"known stream", wire.OperationDeleteStream, deleteStreamBody(id(0)), galgo.CodeUnauthorized},
		{"known stream", wire.OperationPurgeStream, deleteStreamBody(id(0)), galgo.CodeUnauthorized},
		{"unknown stream", wire.OperationCreateTopic, createTopicBody(id(1), "t", 1), galgo.CodeStreamIDNotFound},
		{"static bound first", wire.OperationCreateTopic, createTopicBody(id(1), "t", 1001), galgo.CodeTooManyPartitions},
		{"taken name", wire.OperationCreateTopic, createTopicBody(id(0), "t", 1), galgo.CodeUnauthorized},
		{"unknown topic", wire.OperationUpdateTopic, updateTopicBody(id(0), id(1), "t"), galgo.CodeTopicIDNotFound},
		{"known topic", wire.OperationUpdateTopic, updateTopicBody(id(0), id(0), "t"), galgo.CodeUnauthorized},
		{"known topic", wire.OperationDeleteTopic, deleteTopicBody(id(0), id(0)), galgo.CodeUnauthorized},
		{"known topic", wire.OperationPurgeTopic, deleteTopicBody(id(0), id(0)), galgo.CodeUnauthorized},
		{"known topic", wire.OperationCreatePartitions, partitionsBody(id(0), id(0), 1), galgo.CodeUnauthorized},
		{"too many", wire.OperationDeletePartitions, partitionsBody(id(0), id(0), 9), galgo.CodeUnauthorized},
		{"taken name", wire.OperationCreateConsumerGroup, createGroupBody(id(0), id(0), "g"), galgo.CodeUnauthorized},
		{"unknown group", wire.OperationDeleteConsumerGroup, deleteGroupBody(id(0), id(0), id(7)), galgo.CodeUnauthorized},
	} {
		t.Run(fmt.Sprint(tt.op, " ", tt.name), func(t *testing.T) {
			r := *r
			r.t = t
			r.wantCodeAs(guest, tt.want, tt.op, tt.body)
			if v := r.m.View(); v.Counts().Streams != 1 {
				t.Errorf("streams: %v", streamIDs(v))
			}
		})
		r.op += 2 // the copy above applied ops
	}
}

func TestPermittedUserMayAct(t *testing.T) {
	r := newRig(t)
	r.createStream("s")
	r.createStream("other")
	r.addUser(1, &galgo.Permissions{Streams: []galgo.StreamPermissions{{StreamID: 0, ManageTopics: true}}})
	user := clientID(2)
	r.login(user, 1)
	if _, _, err := r.as(user, wire.OperationCreateTopic, createTopicBody(id(0), "t", 1)); err != nil {
		t.Errorf("create in a stream with the right: %v", err)
	}
	r.wantCodeAs(user, galgo.CodeUnauthorized, wire.OperationCreateTopic, createTopicBody(id(1), "t", 1))
	r.wantCodeAs(user, galgo.CodeUnauthorized, wire.OperationDeleteStream, deleteStreamBody(id(0)))
	r.change(func(s *state) { s.users.delete(1) })
	r.wantCodeAs(user, galgo.CodeUnauthorized, wire.OperationCreateTopic, createTopicBody(id(0), "u", 1))
}

func TestBootstrapOnce(t *testing.T) {
	r := &rig{t: t, m: New(), sessions: map[galgo.ClientID]*testSession{}}
	if got := r.login(clientID(1), RootUser).Login; got != LoginNoUser {
		t.Errorf("login before bootstrap ends as %v", got)
	}
	if code, _, _ := wire.SplitResult(r.configure(5).Body); code != galgo.CodeInvalidCommand {
		t.Errorf("configure before bootstrap answers %v", code)
	}
	restored(t, r.m)
	r.bootstrap(5)
	u, ok := r.m.View().User(name("iggy"))
	if !ok || u.ID != RootUser || u.CreatedAt != 1 || !u.Active || u.PasswordHash == "" {
		t.Errorf("root is %+v", u)
	}
	d := r.m.View().UserDetails(u)
	if d.Permissions.Global != galgo.AllPermissions().Global || len(d.Permissions.Streams) != 0 {
		t.Errorf("root may %+v", d.Permissions)
	}
	before := stateBytes(r.m)
	body, _ := Bootstrap{Username: "other", PasswordHash: "y", Settings: Settings{ClientsMax: 9}}.Encode()
	out := r.apply(Input{Operation: OperationBootstrap, Body: body})
	if code, _, _ := wire.SplitResult(out.Body); code != galgo.CodeInvalidCommand {
		t.Errorf("the second bootstrap answers %v", code)
	}
	if got := stateBytes(r.m); string(got) != string(before) {
		t.Errorf("the second bootstrap changed the state")
	}
}

func TestInternalBodiesAreBounded(t *testing.T) {
	ok := Bootstrap{Username: "iggy", PasswordHash: "x", Settings: Settings{ClientsMax: 2}}
	for _, change := range []func(*Bootstrap){
		func(o *Bootstrap) { o.Username = "ab" },
		func(o *Bootstrap) { o.Username = strings.Repeat("a", 51) },
		func(o *Bootstrap) { o.Username = "ab\xff" },
		func(o *Bootstrap) { o.PasswordHash = "" },
		func(o *Bootstrap) { o.PasswordHash = strings.Repeat("a", PasswordHashMax+1) },
		func(o *Bootstrap) { o.Settings.ClientsMax = 1 },
		func(o *Bootstrap) { o.Settings.ClientsMax = 65537 },
	} {
		o := ok
		change(&o)
		if body, err := o.Encode(); err == nil {
			t.Errorf("%+v encodes to %x", o, body)
		}
	}
	body, err := ok.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeBootstrap(body); err != nil || got != ok {
		t.Errorf("decoded %+v, %v, want %+v", got, err, ok)
	}
	if _, err := DecodeBootstrap(append(body, 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte too many: %v", err)
	}
	if _, err := DecodeBootstrap(append([]byte{2}, body[1:]...)); !errors.Is(err, ErrVersion) {
		t.Errorf("version 2: %v", err)
	}
	if _, err := (Configure{Settings{ClientsMax: 1}}).Encode(); err == nil {
		t.Errorf("a client table of 1 is accepted")
	}
}

func wantPanic(t *testing.T, with string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := fmt.Sprint(recover()); !strings.Contains(got, with) {
			t.Errorf("panic %q, want one that says %q", got, with)
		}
	}()
	f()
}

func TestCorruptionPanicsWithTheOp(t *testing.T) {
	r := newRig(t)
	s := r.sessions[clientID(1)]
	in := Input{Operation: wire.OperationDeleteStream, Client: clientID(1), Session: s.epoch, Request: 1, Body: []byte{9}}
	wantPanic(t, "op 3", func() { r.apply(in) })
	in.Operation, in.Request = wire.OperationRemoveConsumerGroupMember, 2
	wantPanic(t, "op 4 has operation 66", func() { r.apply(in) })
	// Without a session too: to pass over what a newer release wrote would fork the state.
	in.Client = clientID(9)
	wantPanic(t, "op 5 has operation 66", func() { r.apply(in) })
	wantPanic(t, "op 6: committed body of operation 96", func() { r.apply(Input{Operation: OperationBootstrap}) })
	wantPanic(t, "op 6 applied after op 6", func() { r.m.Apply(Input{Op: 6, Operation: OperationDetach}) })
	wantPanic(t, "registers client id zero", func() { r.apply(Input{Operation: wire.OperationRegister}) })
	wantPanic(t, "op 8: committed body of operation 1", func() { r.apply(Input{Operation: wire.OperationRegister, Client: clientID(1)}) })
}

func TestTopicIDsRunOut(t *testing.T) {
	r := newRig(t)
	r.createStream("s")
	r.createStream("next")
	for n := range TopicsMax {
		r.createTopic(0, fmt.Sprint("t", n), 0)
	}
	r.wantCode(galgo.CodeTooManyTopics, wire.OperationCreateTopic, createTopicBody(id(0), "t", 1))
	if got := r.topic(id(0), id(TopicsMax-1)).Name; got != fmt.Sprint("t", TopicsMax-1) {
		t.Errorf("the last topic is called %q", got)
	}
	if got := topicIDs(r.m.View(), 1); len(got) != 0 {
		t.Errorf("the next stream has topics %v", got)
	}
	r.must(wire.OperationDeleteTopic, deleteTopicBody(id(0), id(77)))
	r.createTopic(0, "t", 0)
	if got := r.topic(id(0), name("t")).ID; got != 77 {
		t.Errorf("the new topic has id %d, want 77", got)
	}
	r.createTopic(1, "t", 0)
}

func TestStreamIDsRunOut(t *testing.T) {
	r := newRig(t)
	r.change(func(s *state) {
		one := &Stream{} // names and records are not needed here
		for n := range uint32(StreamsMax) {
			s.streams.set(n, one)
		}
	})
	s := r.sessions[clientID(1)]
	create := func(name string) Output {
		s.next++
		return r.apply(Input{Operation: wire.OperationCreateStream, Client: clientID(1), Session: s.epoch, Request: s.next, Body: createStreamBody(name)})
	}
	if code, _, _ := wire.SplitResult(create("s").Body); code != galgo.CodeTooManyStreams {
		t.Errorf("stream %d answers %v, want %v", StreamsMax+1, code, galgo.CodeTooManyStreams)
	}
	r.change(func(s *state) { s.streams.delete(1<<19 + 1) })
	if code, payload, _ := wire.SplitResult(create("s").Body); code != galgo.CodeOK || le.Uint32(payload) != 1<<19+1 {
		t.Errorf("the stream in the gap answers %v, %x", code, payload)
	}
}

func BenchmarkCreateStreamWithView(b *testing.B) {
	r := newRig(b)
	for n := 0; b.Loop(); n++ {
		r.must(wire.OperationCreateStream, createStreamBody(fmt.Sprint("s", n%StreamsMax)))
		r.m.View()
	}
}
