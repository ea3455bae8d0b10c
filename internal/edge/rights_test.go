package edge

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// The table of wire.md §7, word for word: which flags let a rule pass. g. is global, s. of
// the entry for the stream, t. of that for the topic.
var flagsOfRule = map[string]string{
	"server-info":   "g.manage_servers, g.read_servers",
	"manage-server": "g.manage_servers",
	"read-users":    "g.manage_users, g.read_users",
	"manage-users":  "g.manage_users",
	"get-streams":   "g.manage_streams, g.read_streams",
	"get-stream":    "g.manage_streams, g.read_streams, s.manage_stream, s.read_stream",
	"create-stream": "g.manage_streams",
	"manage-stream": "g.manage_streams, s.manage_stream",
	"get-topics":    "g.read_streams, g.manage_streams, g.manage_topics, g.read_topics, s.manage_stream, s.read_stream, s.manage_topics, s.read_topics",
	"get-topic":     "g.read_streams, g.manage_streams, g.manage_topics, g.read_topics, s.manage_stream, s.read_stream, s.manage_topics, s.read_topics, t.manage_topic, t.read_topic",
	"create-topic":  "g.manage_streams, g.manage_topics, s.manage_stream, s.manage_topics",
	"manage-topic":  "g.manage_streams, g.manage_topics, s.manage_stream, s.manage_topics, t.manage_topic",
	"poll":          "g.poll_messages, g.read_topics, g.manage_topics, g.read_streams, g.manage_streams, s.poll_messages, s.manage_stream, s.read_stream, s.manage_topics, s.read_topics, t.manage_topic, t.read_topic, t.poll_messages",
	"send":          "g.send_messages, g.manage_streams, g.manage_topics, s.send_messages, s.manage_stream, s.manage_topics, t.manage_topic, t.send_messages",
}

// allFlags names every flag, and says how to set it for a stream and a topic.
func allFlags() map[string]func(p *galgo.Permissions, stream, topic uint32) {
	all := map[string]func(*galgo.Permissions, uint32, uint32){}
	for name, set := range map[string]func(*galgo.GlobalPermissions){
		"manage_servers": func(g *galgo.GlobalPermissions) { g.ManageServers = true },
		"read_servers":   func(g *galgo.GlobalPermissions) { g.ReadServers = true },
		"manage_users":   func(g *galgo.GlobalPermissions) { g.ManageUsers = true },
		"read_users":     func(g *galgo.GlobalPermissions) { g.ReadUsers = true },
		"manage_streams": func(g *galgo.GlobalPermissions) { g.ManageStreams = true },
		"read_streams":   func(g *galgo.GlobalPermissions) { g.ReadStreams = true },
		"manage_topics":  func(g *galgo.GlobalPermissions) { g.ManageTopics = true },
		"read_topics":    func(g *galgo.GlobalPermissions) { g.ReadTopics = true },
		"poll_messages":  func(g *galgo.GlobalPermissions) { g.PollMessages = true },
		"send_messages":  func(g *galgo.GlobalPermissions) { g.SendMessages = true },
	} {
		all["g."+name] = func(p *galgo.Permissions, _, _ uint32) { set(&p.Global) }
	}
	for name, set := range map[string]func(*galgo.StreamPermissions){
		"manage_stream": func(s *galgo.StreamPermissions) { s.ManageStream = true },
		"read_stream":   func(s *galgo.StreamPermissions) { s.ReadStream = true },
		"manage_topics": func(s *galgo.StreamPermissions) { s.ManageTopics = true },
		"read_topics":   func(s *galgo.StreamPermissions) { s.ReadTopics = true },
		"poll_messages": func(s *galgo.StreamPermissions) { s.PollMessages = true },
		"send_messages": func(s *galgo.StreamPermissions) { s.SendMessages = true },
	} {
		all["s."+name] = func(p *galgo.Permissions, stream, _ uint32) {
			s := galgo.StreamPermissions{StreamID: stream}
			set(&s)
			p.Streams = append(p.Streams, s)
		}
	}
	for name, set := range map[string]func(*galgo.TopicPermissions){
		"manage_topic":  func(t *galgo.TopicPermissions) { t.ManageTopic = true },
		"read_topic":    func(t *galgo.TopicPermissions) { t.ReadTopic = true },
		"poll_messages": func(t *galgo.TopicPermissions) { t.PollMessages = true },
		"send_messages": func(t *galgo.TopicPermissions) { t.SendMessages = true },
	} {
		all["t."+name] = func(p *galgo.Permissions, stream, topic uint32) {
			t := galgo.TopicPermissions{TopicID: topic}
			set(&t)
			p.Streams = append(p.Streams, galgo.StreamPermissions{StreamID: stream, Topics: []galgo.TopicPermissions{t}})
		}
	}
	return all
}

// tried is a command as a user tries it. Where it could, it asks for something that a
// rule behind the right refuses, so that all goes on as it was; undo is for the others.
type tried struct {
	command wire.Command
	rule    string // "": whoever is signed in may
	body    wire.Body
	undo    func(root *peer)
	// own marks a second try of the command, on the user's own account.
	own bool
}

// raw is a body that has no type.
type raw []byte

func (b raw) Append(to []byte) []byte { return append(to, b...) }

func everyCommand(t *testing.T) []tried {
	g0, nothing := galgo.NamedID("g"), raw(nil)
	bob, root, none := galgo.NamedID("bob"), galgo.NumericID(0), galgo.NamedID("none")
	taken := "iggy"
	topic := wire.TopicRequest{Stream: s0, Topic: t0}
	group := wire.GroupRequest{Stream: s0, Topic: t0, Group: g0}
	one := wire.PartitionsRequest{Stream: s0, Topic: t0, Count: 1}
	single := wire.Partition(0)
	makeTopic := func(p *peer) {
		p.must(wire.OperationCreateTopic, wire.CreateTopicRequest{Stream: s0, Partitions: 2, Name: "t"}.Append(nil))
		p.must(wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: s0, Topic: t0, Name: "g"}.Append(nil))
		p.must(wire.OperationSendMessages, sendBody(t, s0, t0, galgo.ToPartition(0), "again"))
	}
	send := func(p *peer) {
		p.must(wire.OperationSendMessages, sendBody(t, s0, t0, galgo.ToPartition(0), "again"))
	}
	return []tried{
		{command: wire.CommandPing, body: nothing},
		{command: wire.CommandGetStats, rule: "server-info", body: nothing},
		{command: wire.CommandGetSnapshot, rule: "server-info", body: wire.GetSnapshotRequest{Compression: wire.SnapshotStored}},
		{command: wire.CommandGetClusterMetadata, body: nothing},
		{command: wire.CommandGetGroups, rule: "server-info", body: nothing},
		{command: wire.CommandStepDown, rule: "manage-server", body: wire.StepDownRequest{Group: 7}},
		{command: wire.CommandDescribeOptions, body: wire.DescribeOptionsRequest{Scope: galgo.ScopeTopic}},
		{command: wire.CommandGetMe, body: nothing},
		{command: wire.CommandGetClient, rule: "server-info", body: wire.GetClientRequest{ClientID: 1}},
		{command: wire.CommandGetClients, rule: "server-info", body: nothing},
		{command: wire.CommandGetUser, rule: "read-users", body: wire.UserRequest{User: bob}},
		{command: wire.CommandGetUser, body: wire.UserRequest{User: galgo.NamedID("ann")}, own: true},
		{command: wire.CommandGetUser, body: wire.UserRequest{User: galgo.NumericID(1)}, own: true},
		{command: wire.CommandGetUsers, rule: "read-users", body: nothing},
		{command: wire.CommandCreateUser, rule: "manage-users", body: wire.CreateUserRequest{Username: "bob", Password: "secret"}},
		{command: wire.CommandDeleteUser, rule: "manage-users", body: wire.UserRequest{User: root}},
		{command: wire.CommandUpdateUser, rule: "manage-users", body: wire.UpdateUserRequest{User: bob, Username: &taken}},
		{command: wire.CommandUpdatePermissions, rule: "manage-users", body: wire.UpdatePermissionsRequest{User: root}},
		{command: wire.CommandChangePassword, rule: "manage-users", body: wire.ChangePasswordRequest{User: bob, Current: "wrong", New: "new"}},
		{command: wire.CommandChangePassword, body: wire.ChangePasswordRequest{User: galgo.NamedID("ann"), Current: "wrong", New: "new"}, own: true},
		{command: wire.CommandGetTokens, body: nothing},
		{command: wire.CommandCreateToken, body: wire.CreateTokenRequest{Name: "x", Expiry: galgo.Never - 1}},
		{command: wire.CommandDeleteToken, body: wire.DeleteTokenRequest{Name: "none"}},

		{command: wire.CommandPollMessages, rule: "poll", body: raw(pollBody(0, galgo.FromFirst(), 1, false))},
		{command: wire.CommandSendMessages, rule: "send", body: raw(sendBody(t, s0, t0, galgo.ToPartition(0), "m"))},
		{command: wire.CommandGetConsumerOffset, rule: "poll", body: wire.GetOffsetRequest{Consumer: consumer7, Stream: s0, Topic: t0, Partition: single}},
		{command: wire.CommandStoreConsumerOffset, rule: "poll", body: wire.StoreOffsetRequest{Consumer: consumer7, Stream: s0, Topic: t0, Partition: single, Offset: 1 << 40}},
		{command: wire.CommandDeleteConsumerOffset, rule: "poll", body: wire.DeleteOffsetRequest{Consumer: consumer7, Stream: s0, Topic: t0, Partition: single}},

		{command: wire.CommandGetStream, rule: "get-stream", body: wire.StreamRequest{Stream: s0}},
		{command: wire.CommandGetStreams, rule: "get-streams", body: nothing},
		{command: wire.CommandCreateStream, rule: "create-stream", body: wire.CreateStreamRequest{Name: "s"}},
		{command: wire.CommandUpdateStream, rule: "manage-stream", body: wire.UpdateStreamRequest{Stream: s0, Name: "other"}},
		{command: wire.CommandGetTopic, rule: "get-topic", body: topic},
		{command: wire.CommandGetTopics, rule: "get-topics", body: wire.StreamRequest{Stream: s0}},
		{command: wire.CommandCreateTopic, rule: "create-topic", body: wire.CreateTopicRequest{Stream: s0, Name: "t"}},
		{command: wire.CommandUpdateTopic, rule: "manage-topic", body: wire.UpdateTopicRequest{Stream: s0, Topic: t0, Name: "t"}},
		{command: wire.CommandCreatePartitions, rule: "manage-topic", body: one, undo: func(p *peer) { p.must(wire.OperationDeletePartitions, one.Append(nil)) }},
		{command: wire.CommandDeletePartitions, rule: "manage-topic", body: wire.PartitionsRequest{Stream: s0, Topic: t0, Count: 1000}},
		{command: wire.CommandGetConsumerGroup, rule: "get-topic", body: group},
		{command: wire.CommandGetConsumerGroups, rule: "get-topic", body: topic},
		{command: wire.CommandCreateConsumerGroup, rule: "get-topic", body: wire.CreateGroupRequest{Stream: s0, Topic: t0, Name: "g"}},
		{command: wire.CommandDeleteConsumerGroup, rule: "get-topic", body: wire.GroupRequest{Stream: s0, Topic: t0, Group: none}},
		{command: wire.CommandSyncConsumerGroup, body: group},
		{command: wire.CommandPurgeTopic, rule: "manage-topic", body: topic, undo: send},
		{command: wire.CommandPurgeStream, rule: "manage-stream", body: wire.StreamRequest{Stream: s0}, undo: send},
		{command: wire.CommandDeleteTopic, rule: "manage-topic", body: topic, undo: makeTopic},
		{command: wire.CommandDeleteStream, rule: "manage-stream", body: wire.StreamRequest{Stream: s0}, undo: func(p *peer) {
			p.must(wire.OperationCreateStream, wire.CreateStreamRequest{Name: "s"}.Append(nil))
			makeTopic(p)
		}},
	}
}

// notOffered are refused to everybody in this release, or are no commands of a session.
var notOffered = []wire.Command{
	wire.CommandFlushUnsavedBuffer, wire.CommandDeleteSegments, wire.CommandJoinConsumerGroup, wire.CommandLeaveConsumerGroup,
	wire.CommandLegacyLogin, wire.CommandLogout, wire.CommandLoginRegister, wire.CommandLegacyTokenLogin, wire.CommandLoginRegisterWithToken,
}

func TestEveryCommandHasARight(t *testing.T) {
	commands := everyCommand(t)
	for c := range wire.Command(700) {
		known := slices.ContainsFunc(commands, func(e tried) bool { return e.command == c })
		if c.Known() && known == slices.Contains(notOffered, c) {
			t.Errorf("%v is tried: %t", c, known)
		}
	}
}

// Each flag alone, on the things that a command is about and on others, decides about
// each command as the table says (PF-auth-02).
func TestRightsTable(t *testing.T) {
	commands := everyCommand(t)
	flags := allFlags()
	flags["none"] = func(*galgo.Permissions, uint32, uint32) {}
	for flag, set := range flags {
		for _, place := range []struct{ stream, topic uint32 }{{0, 0}, {0, 1}, {1, 0}} {
			if flag[0] != 't' && place.topic != 0 || strings.HasPrefix(flag, "g.") && place.stream != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s of stream %d, topic %d", flag, place.stream, place.topic), func(t *testing.T) {
				var p galgo.Permissions
				set(&p, place.stream, place.topic)
				ann, root := withRights(t, &p)
				here := strings.HasPrefix(flag, "g.") || place.stream == 0 && place.topic == 0
				for _, c := range commands {
					want := c.rule == "" || here && slices.Contains(strings.Split(flagsOfRule[c.rule], ", "), flag)
					ann.mayOrNot(root, &c, want)
				}
			})
		}
	}
	t.Run("no record", func(t *testing.T) {
		ann, root := withRights(t, nil)
		for _, c := range commands {
			ann.mayOrNot(root, &c, c.rule == "")
		}
	})
	t.Run("root", func(t *testing.T) {
		_, root := withRights(t, nil)
		for _, c := range commands {
			root.mayOrNot(root, &c, true)
		}
	})
}

// withRights makes stream 0 with topic 0, another stream, and user 1, "ann", with the
// rights, who is signed in; user 2 is "bob".
func withRights(t *testing.T, p *galgo.Permissions) (ann, root *peer) {
	r := newRig(t)
	root = r.signedIn()
	root.makeTopic(2)
	root.must(wire.OperationCreateStream, wire.CreateStreamRequest{Name: "other"}.Append(nil))
	root.must(wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: s0, Topic: t0, Name: "g"}.Append(nil))
	r.node.addUser(t, "ann", "secret", true, p)
	r.node.addUser(t, "bob", "secret", true, nil)
	ann = r.connect()
	ann.login("ann", "secret")
	return ann, root
}

func (p *peer) mayOrNot(root *peer, c *tried, want bool) {
	p.t.Helper()
	h := p.header(c.command.Operation())
	if h.Operation == wire.OperationNonReplicated {
		h.Command = c.command
	}
	_, code := p.parsed(p.ask(h, c.body.Append(nil)))
	if got := code != galgo.CodeUnauthorized; got != want {
		p.t.Errorf("%v (own account: %t) is answered %v, want it allowed: %t", c.command, c.own, code, want)
	}
	if code == galgo.CodeOK && c.undo != nil {
		c.undo(root)
	}
	offered := c.command != wire.CommandGetSnapshot // the rig has no diagnostics to pack
	if code == galgo.CodeFeatureUnavailable && offered || code == galgo.CodeInvalidCommand {
		p.t.Errorf("%v is answered %v: not a try of it", c.command, code)
	}
}

// What is missing is told before what is not allowed (wire.md §6.3).
func TestMissingComesBeforeRights(t *testing.T) {
	ann, _ := withRights(t, nil)
	gone := galgo.NumericID(77)
	for _, c := range []struct {
		op   wire.Operation
		want galgo.Code
		body wire.Body
	}{
		{wire.OperationUpdateStream, galgo.CodeStreamIDNotFound, wire.UpdateStreamRequest{Stream: gone, Name: "x"}},
		{wire.OperationDeleteStream, galgo.CodeStreamIDNotFound, wire.StreamRequest{Stream: gone}},
		{wire.OperationCreateTopic, galgo.CodeStreamIDNotFound, wire.CreateTopicRequest{Stream: gone, Name: "x"}},
		{wire.OperationDeleteTopic, galgo.CodeTopicIDNotFound, wire.TopicRequest{Stream: s0, Topic: gone}},
		{wire.OperationCreatePartitions, galgo.CodeTooManyPartitions, wire.PartitionsRequest{Stream: gone, Topic: gone}},
		{wire.OperationCreatePartitions, galgo.CodeTopicIDNotFound, wire.PartitionsRequest{Stream: s0, Topic: gone, Count: 1}},
		{wire.OperationSendMessages, galgo.CodeResourceNotFound, raw(sendBody(t, s0, gone, galgo.ToPartition(0), "m"))},
		{wire.OperationStoreConsumerOffset, galgo.CodeResourceNotFound, wire.StoreOffsetRequest{Consumer: consumer7, Stream: s0, Topic: gone, Partition: wire.Partition(0)}},
		{wire.OperationDeleteUser, galgo.CodeResourceNotFound, wire.UserRequest{User: gone}},
		{wire.OperationUpdateUser, galgo.CodeResourceNotFound, wire.UpdateUserRequest{User: gone}},
		{wire.OperationUpdatePermissions, galgo.CodeResourceNotFound, wire.UpdatePermissionsRequest{User: gone}},
		{wire.OperationChangePassword, galgo.CodeResourceNotFound, wire.ChangePasswordRequest{User: gone, Current: "a", New: "b"}},
	} {
		if _, code := ann.do(c.op, c.body.Append(nil)); code != c.want {
			t.Errorf("%v is answered %v, want %v", c.op, code, c.want)
		}
	}
	offset := wire.GetOffsetRequest{Consumer: consumer7, Stream: s0, Topic: t0, Partition: wire.Partition(77)}
	if _, code := ann.read(wire.CommandGetConsumerOffset, offset.Append(nil)); code != galgo.CodePartitionNotFound {
		t.Errorf("the offset in a partition that is missing: %v", code)
	}
}

// A check of a right costs no memory: it runs for each send.
func TestRightsCostNoMemory(t *testing.T) {
	p := &galgo.Permissions{}
	for n := range uint32(50) {
		p.Streams = append(p.Streams, galgo.StreamPermissions{StreamID: n, Topics: []galgo.TopicPermissions{{TopicID: n, SendMessages: true}}})
	}
	ann, _ := withRights(t, p)
	view := ann.rig.node.View()
	u, _ := view.User(galgo.NamedID("ann"))
	who := u.Actor()
	if n := testing.AllocsPerRun(100, func() {
		if !view.Holds(who, 1<<40) || !view.Allows(who, metadata.RuleSend, 49, 49) || view.Allows(who, metadata.RuleSend, 49, 48) {
			t.Fatal("the rights are others")
		}
	}); n != 0 {
		t.Errorf("%v allocations a check, want none", n)
	}
}
