package cli

import (
	"fmt"
	"strings"

	"galgo"
)

// A right on the command line: its long name, as the protocol has it, or a short one.
type right[T any] struct {
	short, long string
	flag        func(*T) *bool
}

var globalRights = []right[galgo.GlobalPermissions]{
	{"m_srv", "manage_servers", func(p *galgo.GlobalPermissions) *bool { return &p.ManageServers }},
	{"r_srv", "read_servers", func(p *galgo.GlobalPermissions) *bool { return &p.ReadServers }},
	{"m_usr", "manage_users", func(p *galgo.GlobalPermissions) *bool { return &p.ManageUsers }},
	{"r_usr", "read_users", func(p *galgo.GlobalPermissions) *bool { return &p.ReadUsers }},
	{"m_str", "manage_streams", func(p *galgo.GlobalPermissions) *bool { return &p.ManageStreams }},
	{"r_str", "read_streams", func(p *galgo.GlobalPermissions) *bool { return &p.ReadStreams }},
	{"m_top", "manage_topics", func(p *galgo.GlobalPermissions) *bool { return &p.ManageTopics }},
	{"r_top", "read_topics", func(p *galgo.GlobalPermissions) *bool { return &p.ReadTopics }},
	{"p_msg", "poll_messages", func(p *galgo.GlobalPermissions) *bool { return &p.PollMessages }},
	{"s_msg", "send_messages", func(p *galgo.GlobalPermissions) *bool { return &p.SendMessages }},
}

var streamRights = []right[galgo.StreamPermissions]{
	{"m_str", "manage_stream", func(p *galgo.StreamPermissions) *bool { return &p.ManageStream }},
	{"r_str", "read_stream", func(p *galgo.StreamPermissions) *bool { return &p.ReadStream }},
	{"m_top", "manage_topics", func(p *galgo.StreamPermissions) *bool { return &p.ManageTopics }},
	{"r_top", "read_topics", func(p *galgo.StreamPermissions) *bool { return &p.ReadTopics }},
	{"p_msg", "poll_messages", func(p *galgo.StreamPermissions) *bool { return &p.PollMessages }},
	{"s_msg", "send_messages", func(p *galgo.StreamPermissions) *bool { return &p.SendMessages }},
}

var topicRights = []right[galgo.TopicPermissions]{
	{"m_top", "manage_topic", func(p *galgo.TopicPermissions) *bool { return &p.ManageTopic }},
	{"r_top", "read_topic", func(p *galgo.TopicPermissions) *bool { return &p.ReadTopic }},
	{"p_msg", "poll_messages", func(p *galgo.TopicPermissions) *bool { return &p.PollMessages }},
	{"s_msg", "send_messages", func(p *galgo.TopicPermissions) *bool { return &p.SendMessages }},
}

// grant sets the rights of a list such as "m_str,poll_messages".
func grant[T any](to *T, rights []right[T], list string) error {
	for word := range strings.SplitSeq(list, ",") {
		found := false
		for _, r := range rights {
			if word == r.short || word == r.long {
				*r.flag(to), found = true, true
			}
		}
		if !found {
			var known []string
			for _, r := range rights {
				known = append(known, r.short+" ("+r.long+")")
			}
			return usagef("right %q: want %s", word, strings.Join(known, ", "))
		}
	}
	return nil
}

// granted lists the rights that are set, by their long names.
func granted[T any](p *T, rights []right[T]) []string {
	list := []string{}
	for _, r := range rights {
		if *r.flag(p) {
			list = append(list, r.long)
		}
	}
	return list
}

// rightsFlags are what a user may do, as flags of a command.
type rightsFlags struct {
	global  []string
	streams []string
}

func (f *rightsFlags) register(fs *flagSet) {
	fs.StringSliceVarP(&f.global, "global-permissions", "g", nil, "rights on everything, as m_str,r_top (repeat)")
	fs.StringArrayVarP(&f.streams, "stream-permissions", "s", nil, "rights on a stream and its topics by number, as 1:r_str,p_msg or 1#2:m_top#3:p_msg (repeat)")
}

const rightsHelp = `Rights on everything: manage_servers (m_srv), read_servers (r_srv), manage_users
(m_usr), read_users (r_usr), manage_streams (m_str), read_streams (r_str),
manage_topics (m_top), read_topics (r_top), poll_messages (p_msg) and
send_messages (s_msg). Those on a stream are manage_stream, read_stream and the
last four; those on a topic manage_topic, read_topic and the last two; with the
same short words. Streams and topics are given by number, and nobody checks
that they exist.`

// permissions are the rights that the flags give; nil if they give none.
func (f *rightsFlags) permissions() (*galgo.Permissions, error) {
	if len(f.global) == 0 && len(f.streams) == 0 {
		return nil, nil
	}
	p := &galgo.Permissions{}
	if len(f.global) > 0 {
		if err := grant(&p.Global, globalRights, strings.Join(f.global, ",")); err != nil {
			return nil, err
		}
	}
	for _, text := range f.streams {
		s, err := parseStreamRights(text)
		if err != nil {
			return nil, err
		}
		p.Streams = append(p.Streams, s)
	}
	return p, checkTwice(p)
}

// checkTwice refuses rights that contradict each other.
func checkTwice(p *galgo.Permissions) error {
	streams := map[uint32]bool{}
	for _, s := range p.Streams {
		if streams[s.StreamID] {
			return usagef("--stream-permissions: stream %d is given twice", s.StreamID)
		}
		streams[s.StreamID] = true
		topics := map[uint32]bool{}
		for _, t := range s.Topics {
			if topics[t.TopicID] {
				return usagef("--stream-permissions: topic %d of stream %d is given twice", t.TopicID, s.StreamID)
			}
			topics[t.TopicID] = true
		}
	}
	return nil
}

// parseStreamRights reads STREAM[:RIGHT,...][#TOPIC[:RIGHT,...]]...
func parseStreamRights(text string) (s galgo.StreamPermissions, err error) {
	head, topics, more := strings.Cut(text, "#")
	id, list, some := strings.Cut(head, ":")
	if s.StreamID, err = parseUint32("stream of --stream-permissions", id); err != nil {
		return s, err
	}
	if some {
		if err := grant(&s, streamRights, list); err != nil {
			return s, err
		}
	}
	if !more {
		return s, nil
	}
	for part := range strings.SplitSeq(topics, "#") {
		var t galgo.TopicPermissions
		id, list, some := strings.Cut(part, ":")
		if t.TopicID, err = parseUint32("topic of --stream-permissions", id); err != nil {
			return s, err
		}
		if some {
			if err := grant(&t, topicRights, list); err != nil {
				return s, err
			}
		}
		s.Topics = append(s.Topics, t)
	}
	return s, nil
}

// permissionsView is what a user may do as JSON has it.
type permissionsView struct {
	Global  []string             `json:"global"`
	Streams []streamPermissionsV `json:"streams"`
}

type streamPermissionsV struct {
	Stream uint32              `json:"stream_id"`
	Rights []string            `json:"rights"`
	Topics []topicPermissionsV `json:"topics"`
}

type topicPermissionsV struct {
	Topic  uint32   `json:"topic_id"`
	Rights []string `json:"rights"`
}

func permissionsOf(p *galgo.Permissions) *permissionsView {
	if p == nil {
		return nil
	}
	v := &permissionsView{Global: granted(&p.Global, globalRights), Streams: []streamPermissionsV{}}
	for i := range p.Streams {
		s := &p.Streams[i]
		sv := streamPermissionsV{s.StreamID, granted(s, streamRights), []topicPermissionsV{}}
		for j := range s.Topics {
			sv.Topics = append(sv.Topics, topicPermissionsV{s.Topics[j].TopicID, granted(&s.Topics[j], topicRights)})
		}
		v.Streams = append(v.Streams, sv)
	}
	return v
}

// addTo writes the rights into a table of properties.
func (v *permissionsView) addTo(t *table) {
	if v == nil {
		t.add("Permissions", "-")
		return
	}
	words := func(list []string) string { return orElse(strings.Join(list, " "), "-") }
	t.add("Global permissions", words(v.Global))
	for _, s := range v.Streams {
		t.add(fmt.Sprintf("Stream %d", s.Stream), words(s.Rights))
		for _, topic := range s.Topics {
			t.add(fmt.Sprintf("Stream %d, topic %d", s.Stream, topic.Topic), words(topic.Rights))
		}
	}
}
