package edge

import (
	"reflect"
	"slices"
	"testing"

	"galgo"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// Codes sent as operation 2 (wire.md §6.1).
func TestCodesWithoutAnAnswerOfTheirOwn(t *testing.T) {
	p := newRig(t).signedIn()
	for _, c := range []wire.Command{wire.CommandLogout, wire.CommandLoginRegister, wire.CommandLoginRegisterWithToken} {
		if f := p.ask(p.commandHeader(c), []byte("x")); len(f) != wire.HeaderSize || le.Uint32(f[216:]) != 0 {
			t.Errorf("%v: not an empty success", c)
		}
	}
	for _, c := range []wire.Command{
		33, 34, 35, 36, 37, 42, 43, 101, 121, 122, 202, 203, 204, 205, 302, 303, 304, 305, 402, 403, 503, 602, 603, 604, 605,
		wire.CommandFlushUnsavedBuffer,
	} {
		p.wantStatus(p.ask(p.commandHeader(c), nil), galgo.CodeFeatureUnavailable)
	}
	for _, c := range []wire.Command{0, 2, 9, 60000, 60001, 1<<32 - 1} {
		p.wantStatus(p.ask(p.commandHeader(c), nil), galgo.CodeInvalidCommand)
	}
	for _, c := range []wire.Command{wire.CommandLegacyLogin, wire.CommandLegacyTokenLogin} {
		p.wantEviction(p.ask(p.commandHeader(c), nil), wire.EvictionMalformedLogin)
		p.login("iggy", "iggy")
	}
}

func TestClusterIsTheLiteralRoster(t *testing.T) {
	p := newRig(t).signedIn()
	got, err := wire.DecodeClusterMetadata(p.mustRead(wire.CommandGetClusterMetadata, nil))
	want := wire.ClusterMetadata{Name: "single-node", Nodes: []wire.ClusterNode{{
		Name: "iggy-node", Address: "127.0.0.1", TCP: 8090, QUIC: 8080, HTTP: 3000, WebSocket: 8092, Role: wire.RoleLeader, Status: wire.NodeHealthy,
	}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("roster %+v, %v, want %+v", got, err, want)
	}
}

// A node that cannot know whether its state is of the past does not answer from it. It
// does say who else there is.
func TestReadsOfThePastAreRefused(t *testing.T) {
	rig := newRig(t)
	p := rig.signedIn()
	rig.node.stale.Store(true)
	for _, c := range []wire.Command{wire.CommandGetStreams, wire.CommandGetUsers} {
		p.wantStatus(p.ask(p.commandHeader(c), nil), galgo.CodeTransientNotAccepted)
	}
	for _, c := range []wire.Command{wire.CommandPing, wire.CommandGetClusterMetadata, wire.CommandGetStats, wire.CommandGetMe} {
		p.mustRead(c, nil)
	}
	rig.node.stale.Store(false)
	p.mustRead(wire.CommandGetStreams, nil)
}

func TestDescribeOptions(t *testing.T) {
	p := newRig(t).signedIn()
	for scope, want := range map[byte]int{1: 8, 2: 0, 3: 0} {
		got, err := wire.DecodeOptionDescriptions(p.mustRead(wire.CommandDescribeOptions, []byte{scope}))
		if err != nil || len(got) != want {
			t.Errorf("scope %d: %d options, %v, want %d", scope, len(got), err, want)
		}
	}
	for _, scope := range []byte{0, 4, 255} {
		p.wantStatus(p.ask(p.commandHeader(wire.CommandDescribeOptions), []byte{scope}), galgo.CodeInvalidCommand)
	}
}

func TestClients(t *testing.T) {
	r := newRig(t)
	first := r.signedIn()
	silent := r.connect() // has sent nothing: not shown
	unbound := r.connect()
	unbound.alive()
	me, err := wire.DecodeClientDetails(first.mustRead(wire.CommandGetMe, nil))
	want := wire.ClientInfo{ClientID: 1, UserID: 0, Transport: wire.TransportTCP, Address: "pipe"}
	if err != nil || me.ClientInfo != want || len(me.Groups) != 0 {
		t.Errorf("me %+v, %v, want %+v", me, err, want)
	}
	list, err := wire.DecodeClients(first.mustRead(wire.CommandGetClients, nil))
	third := wire.ClientInfo{ClientID: 3, UserID: wire.UserIDNone, Transport: wire.TransportTCP, Address: "pipe"}
	if err != nil || !slices.Equal(list, []wire.ClientInfo{want, third}) {
		t.Errorf("clients %+v, %v, want %+v", list, err, []wire.ClientInfo{want, third})
	}
	for id, there := range map[uint32]bool{1: true, 2: false, 3: true, 4: false, 0: false} {
		body := first.mustRead(wire.CommandGetClient, wire.GetClientRequest{ClientID: id}.Append(nil))
		if (len(body) > 0) != there {
			t.Errorf("client %d: %d bytes, want it to be there: %v", id, len(body), there)
		}
	}
	got, err := wire.DecodeClientDetails(first.mustRead(wire.CommandGetClient, wire.GetClientRequest{ClientID: 1}.Append(nil)))
	if err != nil || !reflect.DeepEqual(got, me) {
		t.Errorf("client 1 is %+v, me is %+v", got, me)
	}
	_ = silent
}

func TestStats(t *testing.T) {
	r := newRig(t)
	p := r.signedIn()
	p.makeTopic(3)
	p.must(wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: s0, Topic: t0, Name: "g"}.Append(nil))
	p.sendTo(0, "a", "bb")
	p.sendTo(2, "c")
	s, err := wire.DecodeStats(p.mustRead(wire.CommandGetStats, nil))
	if err != nil {
		t.Fatal(err)
	}
	if s.ProcessID != 42 || s.Hostname != "host" {
		t.Errorf("host's part: %+v", s)
	}
	size := uint64(256 + 48 + 1 + 48 + 2 + 256 + 48 + 1)
	if s.StreamsCount != 1 || s.TopicsCount != 1 || s.PartitionsCount != 3 || s.SegmentsCount != 3 || s.MessagesCount != 3 ||
		s.MessagesSize != size || s.ClientsCount != 1 || s.ConsumerGroupsCount != 1 {
		t.Errorf("counts: %+v, want 1 stream, 1 topic, 3 partitions, 3 segments, 3 messages of %d bytes, 1 client, 1 group", s, size)
	}
}

func TestUsers(t *testing.T) {
	r := newRig(t)
	permissions := galgo.Permissions{Global: galgo.GlobalPermissions{ReadTopics: true}}
	r.node.addUser(t, "second", "secret", true, &permissions)
	r.node.addUser(t, "third", "secret", false, nil)
	p := r.signedIn()
	users, err := wire.DecodeUsers(p.mustRead(wire.CommandGetUsers, nil))
	if err != nil || len(users) != 3 || users[0].ID != 0 || users[0].Username != "iggy" || users[0].CreatedAt != 1 || users[2].Status != galgo.UserInactive {
		t.Errorf("users %+v, %v", users, err)
	}
	get := func(p *peer, id galgo.Identifier) ([]byte, galgo.Code) {
		return p.read(wire.CommandGetUser, wire.UserRequest{User: id}.Append(nil))
	}
	root, _ := get(p, galgo.NamedID("iggy"))
	d, err := wire.DecodeUserDetails(root)
	if err != nil || d.Permissions == nil || d.Permissions.Global != galgo.AllPermissions().Global {
		t.Errorf("root %+v, %v", d, err)
	}
	third, _ := get(p, galgo.NumericID(2))
	if d, err := wire.DecodeUserDetails(third); err != nil || d.Permissions != nil || d.Status != galgo.UserInactive {
		t.Errorf("third %+v, %v", d, err)
	}
	if body, code := get(p, galgo.NumericID(9)); code != 0 || len(body) != 0 {
		t.Errorf("missing user: %x, %v", body, code)
	}
	q := r.connect()
	q.login("second", "secret")
	if body, code := get(q, galgo.NumericID(1)); code != 0 || len(body) == 0 {
		t.Errorf("own account: %x, %v", body, code)
	}
	if body, code := get(q, galgo.NamedID("second")); code != 0 || len(body) == 0 {
		t.Errorf("own account by name: %x, %v", body, code)
	}
	for _, id := range []galgo.Identifier{galgo.NumericID(0), galgo.NumericID(77)} {
		if _, code := get(q, id); code != galgo.CodeUnauthorized {
			t.Errorf("account %v of another: %v", id, code)
		}
	}
}

func TestStreamsAndTopics(t *testing.T) {
	p := newRig(t).signedIn()
	if body := p.mustRead(wire.CommandGetStreams, nil); len(body) != 0 {
		t.Errorf("no streams: %x", body)
	}
	p.makeTopic(2)
	p.must(wire.OperationCreateStream, createStream("empty"))
	p.sendTo(1, "abc")
	streams, err := wire.DecodeStreams(p.mustRead(wire.CommandGetStreams, nil))
	if err != nil || len(streams) != 2 || streams[0].TopicsCount != 1 || streams[0].MessagesCount != 1 || streams[0].Size != 256+48+3 || streams[1].Name != "empty" {
		t.Errorf("streams %+v, %v", streams, err)
	}
	stream, err := wire.DecodeStreamDetails(p.mustRead(wire.CommandGetStream, wire.StreamRequest{Stream: galgo.NamedID("s")}.Append(nil)))
	if err != nil || stream.ID != 0 || len(stream.Topics) != 1 || stream.Size != streams[0].Size || stream.MessagesCount != 1 {
		t.Errorf("stream %+v, %v", stream, err)
	}
	topic, err := wire.DecodeTopicDetails(p.mustRead(wire.CommandGetTopic, wire.TopicRequest{Stream: s0, Topic: galgo.NamedID("t")}.Append(nil)))
	if err != nil || len(topic.Partitions) != 2 {
		t.Fatalf("topic %+v, %v", topic, err)
	}
	if one := topic.Partitions[1]; one.ID != 1 || one.SegmentsCount != 1 || one.MessagesCount != 1 || one.Size != 256+48+3 || one.CurrentOffset != 0 {
		t.Errorf("partition 1 %+v", one)
	}
	if topic.MessageExpiry != galgo.Never || topic.MaxTopicSize != galgo.Never || topic.Compression != galgo.CompressionNone ||
		len(topic.Options) != 0 || len(topic.DerivedOptions) != 274 {
		t.Errorf("options of %+v", topic.TopicInfo)
	}
	topics, err := wire.DecodeTopics(p.mustRead(wire.CommandGetTopics, wire.StreamRequest{Stream: s0}.Append(nil)))
	if err != nil || len(topics) != 1 || !reflect.DeepEqual(topics[0], stream.Topics[0]) || !reflect.DeepEqual(topics[0], topic.TopicInfo) {
		t.Errorf("topics %+v, %v", topics, err)
	}
}

// Rows of wire.md §8.4.
func TestMissingEntities(t *testing.T) {
	p := newRig(t).signedIn()
	p.makeTopic(1)
	no := galgo.NamedID("no")
	for name, tc := range map[string]struct {
		command wire.Command
		body    []byte
		code    galgo.Code
		want    string
	}{
		"stream":                   {wire.CommandGetStream, wire.StreamRequest{Stream: no}.Append(nil), 0, ""},
		"topic":                    {wire.CommandGetTopic, wire.TopicRequest{Stream: s0, Topic: no}.Append(nil), 0, ""},
		"topic of no stream":       {wire.CommandGetTopic, wire.TopicRequest{Stream: no, Topic: t0}.Append(nil), 0, ""},
		"topics of no stream":      {wire.CommandGetTopics, wire.StreamRequest{Stream: no}.Append(nil), 0, "\x00\x00\x00\x00"},
		"group":                    {wire.CommandGetConsumerGroup, wire.GroupRequest{Stream: s0, Topic: t0, Group: no}.Append(nil), 0, ""},
		"group of no topic":        {wire.CommandGetConsumerGroup, wire.GroupRequest{Stream: s0, Topic: no, Group: no}.Append(nil), galgo.CodeTopicIDNotFound, ""},
		"group of no stream":       {wire.CommandGetConsumerGroup, wire.GroupRequest{Stream: no, Topic: no, Group: no}.Append(nil), galgo.CodeStreamIDNotFound, ""},
		"groups of no topic":       {wire.CommandGetConsumerGroups, wire.TopicRequest{Stream: s0, Topic: no}.Append(nil), galgo.CodeTopicIDNotFound, ""},
		"groups of no stream":      {wire.CommandGetConsumerGroups, wire.TopicRequest{Stream: no, Topic: no}.Append(nil), galgo.CodeStreamIDNotFound, ""},
		"groups of a bare topic":   {wire.CommandGetConsumerGroups, wire.TopicRequest{Stream: s0, Topic: t0}.Append(nil), 0, ""},
		"sync of no group":         {wire.CommandSyncConsumerGroup, wire.GroupRequest{Stream: s0, Topic: t0, Group: no}.Append(nil), 0, ""},
		"a name that is a number":  {wire.CommandGetStream, wire.StreamRequest{Stream: galgo.NamedID("0")}.Append(nil), 0, ""},
		"a name in the other case": {wire.CommandGetStream, wire.StreamRequest{Stream: galgo.NamedID("S")}.Append(nil), 0, ""},
	} {
		body, code := p.read(tc.command, tc.body)
		if code != tc.code || string(body) != tc.want {
			t.Errorf("%s: %q, %v, want %q, %v", name, body, code, tc.want, tc.code)
		}
	}
}

func TestGroups(t *testing.T) {
	p := newRig(t).signedIn()
	p.makeTopic(3)
	create := wire.CreateGroupRequest{Stream: s0, Topic: t0, Name: "g"}.Append(nil)
	created, err := wire.DecodeConsumerGroupDetails(p.must(wire.OperationCreateConsumerGroup, create))
	want := wire.GroupInfo{PartitionsCount: 3, Name: "g"}
	if err != nil || created.GroupInfo != want {
		t.Errorf("created %+v, %v, want %+v", created, err, want)
	}
	got, err := wire.DecodeConsumerGroupDetails(p.mustRead(wire.CommandGetConsumerGroup, wire.GroupRequest{Stream: s0, Topic: t0, Group: galgo.NumericID(0)}.Append(nil)))
	if err != nil || got.GroupInfo != want || len(got.Members) != 0 {
		t.Errorf("group %+v, %v", got, err)
	}
	list, err := wire.DecodeGroups(p.mustRead(wire.CommandGetConsumerGroups, wire.TopicRequest{Stream: s0, Topic: t0}.Append(nil)))
	if err != nil || !slices.Equal(list, []wire.GroupInfo{want}) {
		t.Errorf("groups %+v, %v", list, err)
	}
	if _, code := p.do(wire.OperationCreateConsumerGroup, create); code != galgo.CodeConsumerGroupNameAlreadyExists {
		t.Errorf("created again: %v", code)
	}
}

// Each read needs its right (wire.md §7): a user without any is refused, one with
// the least that helps is not.
func TestRightsOfReads(t *testing.T) {
	r := newRig(t)
	admin := r.signedIn()
	admin.makeTopic(1)
	r.node.addUser(t, "nobody", "secret", true, nil)
	r.node.addUser(t, "empty", "secret", true, &galgo.Permissions{})
	global := func(g galgo.GlobalPermissions) *galgo.Permissions { return &galgo.Permissions{Global: g} }
	stream := func(s galgo.StreamPermissions) *galgo.Permissions {
		s.StreamID = 0
		return &galgo.Permissions{Streams: []galgo.StreamPermissions{s}}
	}
	topic := func(tp galgo.TopicPermissions) *galgo.Permissions {
		return stream(galgo.StreamPermissions{Topics: []galgo.TopicPermissions{tp}})
	}
	streamBody := wire.StreamRequest{Stream: s0}.Append(nil)
	topicBody := wire.TopicRequest{Stream: s0, Topic: t0}.Append(nil)
	groupBody := wire.GroupRequest{Stream: s0, Topic: t0, Group: galgo.NamedID("g")}.Append(nil)
	offset, _, _ := offsetBodies(consumer7, s0, t0, wire.Partition(0), 0)
	for i, tc := range []struct {
		command wire.Command
		body    []byte
		least   *galgo.Permissions
	}{
		{wire.CommandGetStats, nil, global(galgo.GlobalPermissions{ReadServers: true})},
		{wire.CommandGetClients, nil, global(galgo.GlobalPermissions{ManageServers: true})},
		{wire.CommandGetClient, wire.GetClientRequest{ClientID: 1}.Append(nil), global(galgo.GlobalPermissions{ReadServers: true})},
		{wire.CommandGetUsers, nil, global(galgo.GlobalPermissions{ReadUsers: true})},
		{wire.CommandGetUser, wire.UserRequest{User: galgo.NumericID(0)}.Append(nil), global(galgo.GlobalPermissions{ManageUsers: true})},
		{wire.CommandGetStreams, nil, global(galgo.GlobalPermissions{ReadStreams: true})},
		{wire.CommandGetStream, streamBody, stream(galgo.StreamPermissions{ReadStream: true})},
		{wire.CommandGetTopics, streamBody, stream(galgo.StreamPermissions{ReadTopics: true})},
		{wire.CommandGetTopic, topicBody, topic(galgo.TopicPermissions{ReadTopic: true})},
		{wire.CommandGetConsumerGroup, groupBody, topic(galgo.TopicPermissions{ManageTopic: true})},
		{wire.CommandGetConsumerGroups, topicBody, topic(galgo.TopicPermissions{ReadTopic: true})},
		{wire.CommandPollMessages, pollBody(0, galgo.FromFirst(), 1, false), topic(galgo.TopicPermissions{PollMessages: true})},
		{wire.CommandGetConsumerOffset, offset, topic(galgo.TopicPermissions{PollMessages: true})},
	} {
		name := "reader" + string(rune('a'+i))
		r.node.addUser(t, name, "secret", true, tc.least)
		for user, want := range map[string]galgo.Code{"nobody": galgo.CodeUnauthorized, "empty": galgo.CodeUnauthorized, name: 0} {
			p := r.connect()
			p.login(user, "secret")
			if _, code := p.read(tc.command, tc.body); code != want {
				t.Errorf("%v by %s: %v, want %v", tc.command, user, code, want)
			}
			p.conn.Close()
		}
	}
	p := r.connect()
	p.login("nobody", "secret")
	for _, c := range []wire.Command{wire.CommandGetMe, wire.CommandGetClusterMetadata, wire.CommandPing} {
		p.mustRead(c, nil)
	}
	p.mustRead(wire.CommandDescribeOptions, []byte{1})
	p.mustRead(wire.CommandSyncConsumerGroup, groupBody)
}

func TestListsAboveTheFrameLimit(t *testing.T) {
	r := newRig(t, func(o *Options) { o.FrameMax = 8 << 10; o.ByteBudget = 64 << 10 })
	p := r.signedIn()
	name := string(make([]byte, 200))
	for i := range 60 {
		p.must(wire.OperationCreateStream, createStream(name+string(rune('a'+i))))
	}
	p.wantStatus(p.ask(p.commandHeader(wire.CommandGetStreams), nil), codeReplyTooLong)
	p.alive()
	if !r.server.budget.TryAcquire(64 << 10) {
		t.Error("the refused list still holds bytes of the budget")
	}
}

// PF-wire-02: a list of 2000 streams with long names comes whole.
func TestLongList(t *testing.T) {
	r := newRig(t)
	p := r.signedIn()
	name := string(make([]byte, 240))
	for i := range 2000 {
		r.node.apply(metadata.Input{
			Operation: wire.OperationCreateStream, Client: p.client, Session: p.session, Request: uint64(i + 1),
			Body: createStream(name + string(rune('a'+i%26)) + string(rune('A'+i/26))),
		})
	}
	streams, err := wire.DecodeStreams(p.mustRead(wire.CommandGetStreams, nil))
	if err != nil || len(streams) != 2000 {
		t.Fatalf("%d streams, %v, want 2000", len(streams), err)
	}
	p.alive()
	if !r.server.budget.TryAcquire(DefaultByteBudget) {
		t.Error("the list still holds bytes of the budget")
	}
}
