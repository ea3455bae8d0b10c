package wire

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"galgo"
)

// reply is the payload of a reply, behind the result section: as an encoder makes
// it of the vector's words, and as a decoder must return it.
type reply struct {
	payload []byte
	value   any
	decode  func([]byte) (any, error)
}

func decodes[T any](decode func([]byte) (T, error)) func([]byte) (any, error) {
	return func(b []byte) (any, error) { return decode(b) }
}

// body is a reply that is one value.
func body[T Body](v T, decode func([]byte) (T, error)) reply {
	return reply{v.Append(nil), v, decodes(decode)}
}

// list is a reply that is a list of values.
func list[T any](v []T, appendTo func([]byte, []T) []byte, decode func([]byte) ([]T, error)) reply {
	return reply{appendTo(nil, v), v, decodes(decode)}
}

func (w *words) items(key string) []*words {
	w.t.Helper()
	var items []*words
	for _, v := range w.get(key).([]any) {
		items = append(items, newWords(w.t, v.(map[string]any)))
	}
	return items
}

// each reads a list of values; all their words must be used.
func each[T any](w *words, key string, one func(*words) T) []T {
	var all []T
	for _, item := range w.items(key) {
		all = append(all, one(item))
		item.finish()
	}
	return all
}

func (w *words) options(key string) Options { return optionWords(w.t, w.get(key)) }

func (w *words) status() galgo.UserStatus {
	if w.str("status") == "inactive" {
		return galgo.UserInactive
	}
	return galgo.UserActive
}

func (w *words) f32(key string) float32 {
	var f float32
	if _, err := fmt.Sscan(w.str(key), &f); err != nil {
		w.t.Fatal(err)
	}
	return f
}

var replyCases = map[string]func(*words) reply{
	// The clients do not show the session, so the words do not tell it.
	"register":          func(w *words) reply { return registerReplyWords(w, 4242) },
	"register_with_pat": func(w *words) reply { return registerReplyWords(w, 4243) },
	"get_cluster_metadata": func(w *words) reply {
		return body(ClusterMetadata{w.str("name"), each(w, "nodes", nodeWords)}, DecodeClusterMetadata)
	},
	"get_stats": func(w *words) reply { return body(statsWords(w), DecodeStats) },
	"describe_options": func(w *words) reply {
		return list(each(w, "items", func(w *words) OptionDescription {
			d := OptionDescription{w.str("key"), value(w.t, w.str("default")), w.str("description")}
			if uint64(d.Default.Kind) != w.u64("kind") {
				w.t.Errorf("kind %d of %s", d.Default.Kind, d.Key)
			}
			return d
		}), AppendOptionDescriptions, DecodeOptionDescriptions)
	},
	"get_client": func(w *words) reply {
		d := ClientDetails{clientWords(w), each(w, "consumer_groups", func(w *words) GroupMembership {
			return GroupMembership{w.u32("stream_id"), w.u32("topic_id"), w.u32("group_id")}
		})}
		return body(d, DecodeClientDetails)
	},
	"get_clients": func(w *words) reply {
		return list(each(w, "items", clientWords), AppendClients, DecodeClients)
	},
	"get_streams": func(w *words) reply {
		return list(each(w, "items", streamInfoWords), AppendStreams, DecodeStreams)
	},
	"get_stream":    func(w *words) reply { return body(streamDetailsWords(w), DecodeStreamDetails) },
	"create_stream": func(w *words) reply { return body(streamDetailsWords(w), DecodeStreamDetails) },
	"get_topic":     func(w *words) reply { return body(topicDetailsWords(w), DecodeTopicDetails) },
	"create_topic":  func(w *words) reply { return body(topicDetailsWords(w), DecodeTopicDetails) },
	"get_topics": func(w *words) reply {
		return list(each(w, "items", topicInfoWords), AppendTopics, DecodeTopics)
	},
	"get_consumer_group":    func(w *words) reply { return body(groupDetailsWords(w), DecodeConsumerGroupDetails) },
	"create_consumer_group": func(w *words) reply { return body(groupDetailsWords(w), DecodeConsumerGroupDetails) },
	"get_consumer_groups": func(w *words) reply {
		return list(each(w, "items", groupInfoWords), AppendGroups, DecodeGroups)
	},
	"sync_consumer_group": func(w *words) reply {
		return body(GroupAssignment{w.u64("generation"), w.numbers("partitions")}, DecodeGroupAssignment)
	},
	"get_user":    func(w *words) reply { return body(userDetailsWords(w), DecodeUserDetails) },
	"create_user": func(w *words) reply { return body(userDetailsWords(w), DecodeUserDetails) },
	"get_users": func(w *words) reply {
		return list(each(w, "items", userInfoWords), AppendUsers, DecodeUsers)
	},
	"get_personal_access_tokens": func(w *words) reply {
		return list(each(w, "items", func(w *words) TokenInfo { return TokenInfo{w.str("name"), w.u64("expiry_at_field")} }), AppendTokens, DecodeTokens)
	},
	"create_personal_access_token": func(w *words) reply { return body(CreatedToken{w.str("token")}, DecodeCreatedToken) },
	"get_consumer_offset": func(w *words) reply {
		if _, ok := w.m["result"]; ok {
			return nothing(w)
		}
		return body(ConsumerOffset{w.u32("partition_id"), w.u64("current_offset"), w.u64("stored_offset")}, DecodeConsumerOffset)
	},
	"send_messages": func(w *words) reply {
		confirmations := each(w, "confirmations", func(w *words) SendConfirmation {
			return SendConfirmation{w.u32("stream_id"), w.u32("topic_id"), w.u32("partition_id"), w.u64("base_offset")}
		})
		appendTo := func(b []byte, c []SendConfirmation) []byte { return AppendSendConfirmations(b, c...) }
		return list(confirmations, appendTo, DecodeSendConfirmations)
	},
	"poll_messages":        nil, // see checkPoll
	"get_snapshot":         rawReply,
	"flush_unsaved_buffer": rawReply,
}

func registerReplyWords(w *words, session uint64) reply {
	return body(RegisterReply{w.u32("user_id"), session, VersionCurrent, "0.11.0-vec"}, DecodeRegisterReply)
}

// nothing is the reply that has no payload.
func nothing(w *words) reply {
	if _, ok := w.m["result"]; ok && w.str("result") != "none" {
		w.t.Errorf("result %q", w.str("result"))
	}
	return reply{}
}

func rawReply(w *words) reply {
	b, err := hex.DecodeString(w.str("raw_hex"))
	if err != nil {
		w.t.Fatal(err)
	}
	return reply{payload: b}
}

func (w *words) numbers(key string) []uint32 {
	var all []uint32
	for _, v := range w.get(key).([]any) {
		all = append(all, uint32(number(w.t, v)))
	}
	return all
}

func nodeWords(w *words) ClusterNode {
	n := ClusterNode{
		Name: w.str("name"), Address: w.str("ip"), TCP: uint16(w.u64("tcp")), QUIC: uint16(w.u64("quic")),
		HTTP: uint16(w.u64("http")), WebSocket: uint16(w.u64("websocket")),
	}
	for n.Role.String() != w.str("role") {
		n.Role++
	}
	for n.Status.String() != w.str("status") {
		n.Status++
	}
	return n
}

func statsWords(w *words) Stats {
	return Stats{
		ProcessID: w.u32("process_id"), CPUUsage: w.f32("cpu_usage_f32"), TotalCPUUsage: w.f32("total_cpu_usage_f32"),
		MemoryUsage: w.u64("memory_usage"), TotalMemory: w.u64("total_memory"), AvailableMemory: w.u64("available_memory"),
		RunTime: w.u64("run_time"), StartTime: w.u64("start_time"), ReadBytes: w.u64("read_bytes"),
		WrittenBytes: w.u64("written_bytes"), MessagesSize: w.u64("messages_size_bytes"),
		StreamsCount: w.u32("streams_count"), TopicsCount: w.u32("topics_count"), PartitionsCount: w.u32("partitions_count"),
		SegmentsCount: w.u32("segments_count"), MessagesCount: w.u64("messages_count"), ClientsCount: w.u32("clients_count"),
		ConsumerGroupsCount: w.u32("consumer_groups_count"), Hostname: w.str("hostname"), OSName: w.str("os_name"),
		OSVersion: w.str("os_version"), KernelVersion: w.str("kernel_version"), ServerVersion: w.str("iggy_server_version"),
		ServerSemver: w.u32("iggy_server_semver"), ThreadsCount: w.u32("threads_count"),
		FreeDiskSpace: w.u64("free_disk_space"), TotalDiskSpace: w.u64("total_disk_space"),
		CacheMetrics: each(w, "cache_metrics", func(w *words) CacheMetric {
			return CacheMetric{w.u32("stream_id"), w.u32("topic_id"), w.u32("partition_id"), w.u64("hits"), w.u64("misses"), w.f32("hit_ratio_f32")}
		}),
	}
}

func clientWords(w *words) ClientInfo {
	i := ClientInfo{ClientID: w.u32("client_id"), UserID: w.u32("user_id"), Address: w.str("address"), GroupsCount: w.u32("consumer_groups_count")}
	for i.Transport.String() != w.str("transport") {
		i.Transport++
	}
	return i
}

func streamInfoWords(w *words) StreamInfo {
	return StreamInfo{
		w.u32("id"), w.u64("created_at"), w.u32("topics_count"), w.u64("size_bytes"), w.u64("messages_count"),
		w.str("name"), w.options("options"),
	}
}

func streamDetailsWords(w *words) StreamDetails {
	return StreamDetails{streamInfoWords(w), each(w, "topics", topicInfoWords)}
}

func topicInfoWords(w *words) TopicInfo {
	return TopicInfo{
		w.u32("id"), w.u64("created_at"), w.u32("partitions_count"), w.u64("message_expiry"),
		galgo.CompressionAlgorithm(w.u64("compression_algorithm")), w.u64("max_topic_size"), w.u64("size_bytes"),
		w.u64("messages_count"), w.str("name"), w.options("options"), w.options("derived_options"),
	}
}

func topicDetailsWords(w *words) TopicDetails {
	return TopicDetails{topicInfoWords(w), each(w, "partitions", func(w *words) PartitionInfo {
		return PartitionInfo{w.u32("id"), w.u64("created_at"), w.u32("segments_count"), w.u64("current_offset"), w.u64("size_bytes"), w.u64("messages_count")}
	})}
}

func groupInfoWords(w *words) GroupInfo {
	return GroupInfo{w.u32("id"), w.u32("partitions_count"), w.u32("members_count"), w.str("name")}
}

func groupDetailsWords(w *words) ConsumerGroupDetails {
	return ConsumerGroupDetails{groupInfoWords(w), each(w, "members", func(w *words) GroupMember {
		m := GroupMember{w.u32("id"), w.numbers("partitions")}
		if uint64(len(m.Partitions)) != w.u64("partitions_count") {
			w.t.Errorf("member of %d partitions", w.u64("partitions_count"))
		}
		return m
	})}
}

func userInfoWords(w *words) UserInfo {
	return UserInfo{w.u32("id"), w.u64("created_at"), w.status(), w.str("username"), w.options("options")}
}

func userDetailsWords(w *words) UserDetails {
	d := UserDetails{UserInfo: userInfoWords(w)}
	m, ok := w.get("permissions").(map[string]any)
	if !ok {
		return d
	}
	p := newWords(w.t, m)
	d.Permissions = &galgo.Permissions{Streams: each(p, "streams", func(w *words) galgo.StreamPermissions {
		s := galgo.StreamPermissions{StreamID: w.u32("stream_id"), Topics: each(w, "topics", func(w *words) galgo.TopicPermissions {
			t := galgo.TopicPermissions{TopicID: w.u32("topic_id")}
			setFlags(w.t, &t, w.trueFlags("true"))
			return t
		})}
		setFlags(w.t, &s, w.trueFlags("true"))
		return s
	})}
	setFlags(w.t, &d.Permissions.Global, p.trueFlags("global_true"))
	p.finish()
	return d
}

func (w *words) trueFlags(key string) map[string]any {
	flags := map[string]any{}
	for _, name := range w.get(key).([]any) {
		flags[name.(string)] = true
	}
	return flags
}

// TestReplyVectors builds every reply that stock clients were proved with, byte
// for byte, and reads it back as a client.
func TestReplyVectors(t *testing.T) {
	compared := 0
	for _, v := range loadVectors(t, "responses.jsonl", 104) {
		t.Run(v.Name, func(t *testing.T) {
			if v.Frame == "eviction" {
				checkEviction(t, &v)
			} else {
				checkReply(t, &v)
			}
			compared++
		})
	}
	if compared != 104 {
		t.Errorf("compared %d replies, want 104", compared)
	}
}

func (w *words) client() (id galgo.ClientID) {
	b, err := hex.DecodeString(w.str("client"))
	if err != nil || copy(id[:], b) != len(id) {
		w.t.Fatalf("client %q: %v", w.str("client"), err)
	}
	return id
}

// outcome is the code that the client was seen to report; 0 is success and
// CodeError a failure without a code.
func (v *vector) outcome(t *testing.T) galgo.Code {
	kind, digits, _ := strings.Cut(v.Outcome, " ")
	switch {
	case kind == "ok":
		return galgo.CodeOK
	case digits == "(no code)":
		return galgo.CodeError
	}
	return galgo.Code(number(t, digits))
}

func checkEviction(t *testing.T, v *vector) {
	t.Helper()
	w := newWords(t, v.Header)
	w.get("command")
	want := EvictionHeader{
		Client: w.client(), Reason: EvictionReason(w.u64("reason")),
		VersionMax: Version(w.u64("server_protocol_version")), VersionMin: Version(w.u64("server_protocol_version_min")),
	}
	if w.u64("size") != HeaderSize {
		t.Errorf("size %d", w.u64("size"))
	}
	w.finish()
	frame := v.bytes(t)
	diff(t, "eviction", want.Append(nil), frame)
	got, err := DecodeEvictionHeader(frame)
	if err != nil || got != want {
		t.Errorf("decoded %+v, %v, want %+v", got, err, want)
	}
	_, _, err = ParseReply(frame)
	if code, _ := galgo.CodeOf(err); code != v.outcome(t) {
		t.Errorf("client reports %v, want %s", err, v.outcome(t))
	}
}

func checkReply(t *testing.T, v *vector) {
	t.Helper()
	frame := v.bytes(t)
	want := replyHeaderWords(t, v)
	encoded := encodeReply(t, v, want, frame)
	diff(t, "encoded", encoded, frame)

	h, payload, err := ParseReply(frame)
	code := v.outcome(t)
	if err != nil {
		if got, _ := galgo.CodeOf(err); got != code {
			t.Errorf("client reports %v, want %s", err, code)
		}
		return
	}
	if h != want {
		t.Errorf("header\ngot  %+v\nwant %+v", h, want)
	}
	if code != galgo.CodeOK {
		checkEmptyPayload(t, v, payload, code)
	}
}

func replyHeaderWords(t *testing.T, v *vector) ReplyHeader {
	t.Helper()
	w := newWords(t, v.Header)
	if w.u64("command") != uint64(FrameReply) {
		t.Errorf("frame kind %d", w.u64("command"))
	}
	h := ReplyHeader{
		Client: w.client(), Size: w.u32("size"), View: w.u32("view"), Replica: uint8(w.u64("replica")),
		Op: w.u64("op"), Commit: w.u64("commit"), Timestamp: w.u64("timestamp"), Request: w.u64("request"),
		Operation: v.Operation, Status: galgo.Code(w.u64("status")),
	}
	w.finish()
	return h
}

// checkEmptyPayload: what is missing is told by an empty body, which every SDK
// turns into an error of its own.
func checkEmptyPayload(t *testing.T, v *vector, payload []byte, code galgo.Code) {
	t.Helper()
	if len(payload) != 0 {
		t.Errorf("client reports success with %x, want %s", payload, code)
	}
	missing := []galgo.Code{galgo.CodeStreamIDNotFound, galgo.CodeTopicIDNotFound, galgo.CodeConsumerGroupIDNotFound, galgo.CodeResourceNotFound, galgo.CodeConsumerGroupMemberNotFound}
	if slices.Contains(missing, code) {
		return
	}
	decoders := map[Command]func([]byte) (any, error){
		CommandSendMessages: decodes(DecodeSendConfirmations), CommandLoginRegister: decodes(DecodeRegisterReply),
	}
	if _, err := decoders[v.Code](payload); err == nil {
		t.Errorf("empty payload decodes, want %s", code)
	}
}

// encodeReply makes the frame of the vector's words with our encoders.
func encodeReply(t *testing.T, v *vector, h ReplyHeader, frame []byte) []byte {
	t.Helper()
	if v.Name == "bad.result_section_truncated" {
		return h.AppendFrame(nil, le.AppendUint32(nil, 1))
	}
	code := v.outcome(t)
	if code != galgo.CodeOK {
		if len(v.Fields) != 0 {
			t.Errorf("fields %v of a failure", v.Fields)
		}
		var b []byte
		if len(frame) > HeaderSize {
			b = AppendResultError(nil, code)
		}
		return h.AppendFrame(nil, b)
	}
	var b []byte
	if h.Operation.ResultFramed() {
		b = AppendResultOK(b)
	}
	return h.AppendFrame(nil, append(b, encodePayload(t, v, frame)...))
}

func encodePayload(t *testing.T, v *vector, frame []byte) []byte {
	t.Helper()
	w := newWords(t, v.Fields)
	defer w.finish()
	name, _, _ := strings.Cut(v.Name, ".")
	if name == "poll_messages" {
		return checkPoll(t, w, frame[HeaderSize:])
	}
	make, ok := replyCases[name]
	if !ok {
		if len(v.Fields) != 0 {
			t.Fatalf("no encoder for %s", name)
		}
		make = nothing
	}
	r := make(w)
	if r.decode != nil {
		got, err := r.decode(r.payload)
		if err != nil || !reflect.DeepEqual(got, r.value) {
			t.Errorf("decoded\ngot  %+v, %v\nwant %+v", got, err, r.value)
		}
	}
	return r.payload
}

// checkPoll reads a poll, compares its messages, and builds it again: the batches
// that their producer must have made, stamped, and sliced where the vector is.
func checkPoll(t *testing.T, w *words, body []byte) []byte {
	t.Helper()
	polled, err := DecodePolledMessages(body)
	if err != nil {
		t.Fatal(err)
	}
	want := PollPrefix{w.u32("partition_id"), w.u64("current_offset"), w.u32("count")}
	if polled.PollPrefix != want {
		t.Errorf("prefix %+v, want %+v", polled.PollPrefix, want)
	}
	wants := w.get("messages").([]any)
	if len(wants) != len(polled.Messages) {
		t.Fatalf("%d messages, want %d", len(polled.Messages), len(wants))
	}
	for i, m := range wants {
		checkMessage(t, i, polled.Messages[i], m.(map[string]any))
	}
	again := want.Append(nil)
	_, records, _ := DecodePollPrefix(body)
	for len(records) > 0 {
		var b Batch
		if b, records, err = SplitBatch(records); err != nil {
			t.Fatal(err)
		}
		again = append(again, rebuild(t, b)...)
	}
	return again
}

// rebuild makes the record of b anew from its messages. If b is a slice, messages
// that the reply does not show are put in front, so that it is cut out again.
func rebuild(t *testing.T, b Batch) []byte {
	t.Helper()
	messages := AppendMessages(nil, b)
	hidden := int(messages[0].Offset - b.BaseOffset())
	filler := galgo.Message{ID: galgo.MessageID{1}, Payload: []byte("hidden"), Timestamp: b.OriginTimestamp()}
	whole, err := AppendBatch(nil, append(slices.Repeat([]galgo.Message{filler}, hidden), messages...))
	if err != nil {
		t.Fatal(err)
	}
	stamped := Batch(whole)
	stamped.Stamp(b.PartitionID(), b.BaseOffset(), b.BaseTimestamp())
	header := make([]byte, BatchHeaderSize)
	frames := stamped.Slice(uint32(hidden), uint32(hidden+len(messages)), header)
	return append(header, frames...)
}
