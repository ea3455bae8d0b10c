package metadata

import (
	"slices"
	"strings"
	"testing"

	"galgo"
)

// rights is the table of wire.md §7, word for word.
var rights = map[Rule]string{
	RuleServerInfo:   "g.manage_servers, g.read_servers",
	RuleManageServer: "g.manage_servers",
	RuleReadUsers:    "g.manage_users, g.read_users",
	RuleManageUsers:  "g.manage_users",
	RuleGetStreams:   "g.manage_streams, g.read_streams",
	RuleGetStream:    "g.manage_streams, g.read_streams, s.manage_stream, s.read_stream",
	RuleCreateStream: "g.manage_streams",
	RuleManageStream: "g.manage_streams, s.manage_stream",
	RuleGetTopics:    "g.read_streams, g.manage_streams, g.manage_topics, g.read_topics, s.manage_stream, s.read_stream, s.manage_topics, s.read_topics",
	RuleGetTopic:     "g.read_streams, g.manage_streams, g.manage_topics, g.read_topics, s.manage_stream, s.read_stream, s.manage_topics, s.read_topics, t.manage_topic, t.read_topic",
	RuleCreateTopic:  "g.manage_streams, g.manage_topics, s.manage_stream, s.manage_topics",
	RuleManageTopic:  "g.manage_streams, g.manage_topics, s.manage_stream, s.manage_topics, t.manage_topic",
	RulePoll:         "g.poll_messages, g.read_topics, g.manage_topics, g.read_streams, g.manage_streams, s.poll_messages, s.manage_stream, s.read_stream, s.manage_topics, s.read_topics, t.manage_topic, t.read_topic, t.poll_messages",
	RuleSend:         "g.send_messages, g.manage_streams, g.manage_topics, s.send_messages, s.manage_stream, s.manage_topics, t.manage_topic, t.send_messages",
}

// flags names each right, and says how to give it for stream 7 and topic 3.
func flags(p *galgo.Permissions) map[string]*bool {
	s := &p.Streams[0]
	topic := &s.Topics[0]
	return map[string]*bool{
		"g.manage_servers": &p.Global.ManageServers, "g.read_servers": &p.Global.ReadServers,
		"g.manage_users": &p.Global.ManageUsers, "g.read_users": &p.Global.ReadUsers,
		"g.manage_streams": &p.Global.ManageStreams, "g.read_streams": &p.Global.ReadStreams,
		"g.manage_topics": &p.Global.ManageTopics, "g.read_topics": &p.Global.ReadTopics,
		"g.poll_messages": &p.Global.PollMessages, "g.send_messages": &p.Global.SendMessages,
		"s.manage_stream": &s.ManageStream, "s.read_stream": &s.ReadStream,
		"s.manage_topics": &s.ManageTopics, "s.read_topics": &s.ReadTopics,
		"s.poll_messages": &s.PollMessages, "s.send_messages": &s.SendMessages,
		"t.manage_topic": &topic.ManageTopic, "t.read_topic": &topic.ReadTopic,
		"t.poll_messages": &topic.PollMessages, "t.send_messages": &topic.SendMessages,
	}
}

func scoped() *galgo.Permissions {
	return &galgo.Permissions{Streams: []galgo.StreamPermissions{
		{StreamID: 7, Topics: []galgo.TopicPermissions{{TopicID: 3}}},
	}}
}

func TestEachRightAlone(t *testing.T) {
	for rule, list := range rights {
		want := strings.Split(list, ", ")
		for flag := range flags(scoped()) {
			p := scoped()
			*flags(p)[flag] = true
			if got := permits(p, rule, 7, 3); got != slices.Contains(want, flag) {
				t.Errorf("rule %d with %s alone is %t, want %t", rule, flag, got, !got)
			}
			if elsewhere := permits(p, rule, 3, 7); elsewhere != (slices.Contains(want, flag) && flag[0] == 'g') {
				t.Errorf("rule %d with %s alone is %t for another stream", rule, flag, elsewhere)
			}
			if flag[0] == 't' && permits(p, rule, 7, 4) {
				t.Errorf("rule %d with %s alone holds for another topic", rule, flag)
			}
		}
	}
}

func TestRootAndNobody(t *testing.T) {
	r := newRig(t)
	r.addUser(1, nil)
	v := r.m.View()
	for rule := range rights {
		if !v.Allows(Actor{}, rule, 0, 0) {
			t.Errorf("root does not pass rule %d", rule)
		}
		if v.Allows(Actor{User: 1, Born: r.op}, rule, 0, 0) || v.Allows(Actor{User: 2}, rule, 0, 0) {
			t.Errorf("rule %d passes a user without permissions, or none", rule)
		}
	}
}
