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

// requestCase is a command with a body: how it is decoded, and the value that the
// words of a vector describe. Options in it are sorted by key.
type requestCase struct {
	decode func([]byte) (Body, error)
	want   func(*words) Body
}

func as[T Body](decode func([]byte) (T, error)) func([]byte) (Body, error) {
	return func(b []byte) (Body, error) { return decode(b) }
}

func streamWords(w *words) Body { return StreamRequest{w.ident("stream")} }
func topicWords(w *words) Body  { return TopicRequest{w.ident("stream"), w.ident("topic")} }
func groupWords(w *words) Body {
	return GroupRequest{w.ident("stream"), w.ident("topic"), w.ident("group")}
}
func partitionsWords(w *words) Body {
	return PartitionsRequest{w.ident("stream"), w.ident("topic"), w.u32("partitions_count")}
}

var requestCases = map[Command]requestCase{
	CommandLoginRegister:          {as(DecodeRegisterRequest), registerWords},
	CommandLoginRegisterWithToken: {as(DecodeRegisterRequest), registerWords},
	CommandGetSnapshot: {as(DecodeGetSnapshotRequest), func(w *words) Body {
		r := GetSnapshotRequest{Compression: SnapshotCompression(inParentheses(w.t, w.str("compression")))}
		for _, s := range w.get("types").([]any) {
			r.Types = append(r.Types, SnapshotType(inParentheses(w.t, s.(string))))
		}
		return r
	}},
	CommandDescribeOptions: {as(DecodeDescribeOptionsRequest), func(w *words) Body {
		scopes := map[string]galgo.OptionScope{"topic": galgo.ScopeTopic, "stream": galgo.ScopeStream, "user": galgo.ScopeUser}
		return DescribeOptionsRequest{scopes[w.str("scope")]}
	}},
	CommandGetClient: {as(DecodeGetClientRequest), func(w *words) Body { return GetClientRequest{w.u32("client_id")} }},

	CommandGetUser:           {as(DecodeUserRequest), func(w *words) Body { return UserRequest{w.ident("user")} }},
	CommandDeleteUser:        {as(DecodeUserRequest), func(w *words) Body { return UserRequest{w.ident("user")} }},
	CommandCreateUser:        {as(DecodeCreateUserRequest), createUserWords},
	CommandUpdateUser:        {as(DecodeUpdateUserRequest), updateUserWords},
	CommandUpdatePermissions: {as(DecodeUpdatePermissionsRequest), func(w *words) Body { return UpdatePermissionsRequest{w.ident("user"), permissionWords(w)} }},
	CommandChangePassword: {as(DecodeChangePasswordRequest), func(w *words) Body {
		return ChangePasswordRequest{w.ident("user"), w.str("current_password"), w.str("new_password")}
	}},
	CommandCreateToken: {as(DecodeCreateTokenRequest), func(w *words) Body { return CreateTokenRequest{w.str("name"), w.u64("expiry_field_u64")} }},
	CommandDeleteToken: {as(DecodeDeleteTokenRequest), func(w *words) Body { return DeleteTokenRequest{w.str("name")} }},

	CommandGetStream:    {as(DecodeStreamRequest), streamWords},
	CommandDeleteStream: {as(DecodeStreamRequest), streamWords},
	CommandPurgeStream:  {as(DecodeStreamRequest), streamWords},
	CommandCreateStream: {as(DecodeCreateStreamRequest), func(w *words) Body { return CreateStreamRequest{Name: w.str("name")} }},
	CommandUpdateStream: {as(DecodeUpdateStreamRequest), func(w *words) Body { return UpdateStreamRequest{Stream: w.ident("stream"), Name: w.str("name")} }},

	CommandGetTopics:   {as(DecodeStreamRequest), streamWords},
	CommandGetTopic:    {as(DecodeTopicRequest), topicWords},
	CommandDeleteTopic: {as(DecodeTopicRequest), topicWords},
	CommandPurgeTopic:  {as(DecodeTopicRequest), topicWords},
	CommandCreateTopic: {as(DecodeCreateTopicRequest), func(w *words) Body {
		return CreateTopicRequest{w.ident("stream"), w.u32("partitions_count"), w.str("name"), optionWords(w.t, w.get("options"))}
	}},
	CommandUpdateTopic: {as(DecodeUpdateTopicRequest), func(w *words) Body {
		return UpdateTopicRequest{w.ident("stream"), w.ident("topic"), w.str("name"), optionWords(w.t, w.get("options"))}
	}},
	CommandCreatePartitions: {as(DecodePartitionsRequest), partitionsWords},
	CommandDeletePartitions: {as(DecodePartitionsRequest), partitionsWords},
	CommandDeleteSegments: {as(DecodeDeleteSegmentsRequest), func(w *words) Body {
		return DeleteSegmentsRequest{w.ident("stream"), w.ident("topic"), w.u32("partition"), w.u32("segments_count")}
	}},

	CommandSendMessages: {as(DecodeSendMessagesRequest), nil}, // see checkSend
	CommandPollMessages: {as(DecodePollMessagesRequest), func(w *words) Body {
		return PollMessagesRequest{w.consumer(), w.ident("stream"), w.ident("topic"), w.partition(), w.strategy(), w.u32("count"), w.bool("auto_commit")}
	}},
	CommandFlushUnsavedBuffer: {as(DecodeFlushRequest), func(w *words) Body {
		return FlushRequest{w.ident("stream"), w.ident("topic"), w.u32("partition"), w.bool("fsync")}
	}},
	CommandGetConsumerOffset: {as(DecodeGetOffsetRequest), func(w *words) Body {
		return GetOffsetRequest{w.consumer(), w.ident("stream"), w.ident("topic"), w.partition()}
	}},
	CommandStoreConsumerOffset: {as(DecodeStoreOffsetRequest), func(w *words) Body {
		return StoreOffsetRequest{w.consumer(), w.ident("stream"), w.ident("topic"), w.partition(), w.u64("offset"), galgo.Ack(inParentheses(w.t, w.str("ack")))}
	}},
	CommandDeleteConsumerOffset: {as(DecodeDeleteOffsetRequest), func(w *words) Body {
		return DeleteOffsetRequest{w.consumer(), w.ident("stream"), w.ident("topic"), w.partition(), galgo.Ack(inParentheses(w.t, w.str("ack")))}
	}},

	CommandGetConsumerGroups:   {as(DecodeTopicRequest), topicWords},
	CommandGetConsumerGroup:    {as(DecodeGroupRequest), groupWords},
	CommandDeleteConsumerGroup: {as(DecodeGroupRequest), groupWords},
	CommandJoinConsumerGroup:   {as(DecodeGroupRequest), groupWords},
	CommandLeaveConsumerGroup:  {as(DecodeGroupRequest), groupWords},
	CommandSyncConsumerGroup:   {as(DecodeGroupRequest), groupWords},
	CommandCreateConsumerGroup: {as(DecodeCreateGroupRequest), func(w *words) Body {
		return CreateGroupRequest{w.ident("stream"), w.ident("topic"), w.str("name")}
	}},
}

// commandsWithoutBody are those whose requests are empty.
var commandsWithoutBody = []Command{
	CommandPing, CommandGetStats, CommandGetClusterMetadata, CommandGetMe, CommandGetClients, CommandGetUsers,
	CommandGetTokens, CommandGetStreams, CommandLogout, 60000, 60001, 60002,
}

// TestRequestVectors decodes every captured request to the fields it was made
// from, and encodes it back to the same bytes.
func TestRequestVectors(t *testing.T) {
	bodies, empty := 0, 0
	for _, v := range loadVectors(t, "requests.jsonl", 223) {
		t.Run(v.SDK+"/"+v.Name, func(t *testing.T) {
			frame := v.bytes(t)
			h := checkRequestHeader(t, &v, frame)
			c, ok := requestCases[v.Code]
			if !ok {
				checkEmptyRequest(t, &v, frame)
				empty++
				return
			}
			checkRequestBody(t, &v, h, c, frame)
			bodies++
		})
	}
	if bodies+empty != 223 || bodies < 190 {
		t.Errorf("compared %d requests with a body and %d without, want 223 in all, most with one", bodies, empty)
	}
}

func checkRequestHeader(t *testing.T, v *vector, frame []byte) RequestHeader {
	t.Helper()
	if err := CheckFrame(frame, 0); err != nil {
		t.Fatal(err)
	}
	h, err := DecodeRequestHeader(frame)
	if err != nil {
		t.Fatal(err)
	}
	w := newWords(t, v.Header)
	want := RequestHeader{
		Size: w.u32("size"), Request: w.u64("request"), Session: w.u64("session"), Operation: v.Operation,
	}
	if w.u32("command") != uint32(FrameRequest) {
		t.Errorf("frame kind %d", w.u32("command"))
	}
	if client, err := hex.DecodeString(w.str("client")); err != nil || copy(want.Client[:], client) != 16 {
		t.Fatalf("client %q: %v", w.str("client"), err)
	}
	want.Command = Command(w.u32("nonreplicated_code"))
	w.finish()
	if h != want {
		t.Errorf("header\ngot  %+v\nwant %+v", h, want)
	}
	if int(h.Size) != len(frame) {
		t.Errorf("size %d of a frame of %d bytes", h.Size, len(frame))
	}
	if !h.Operation.Known() || h.Operation.IsInternal() {
		t.Errorf("operation %d", h.Operation)
	}
	if got := v.Code.Operation(); got != v.Operation {
		t.Errorf("command %d travels as operation %d, want %d", v.Code, got, v.Operation)
	}
	if got := h.EffectiveCommand(); got != v.Code && v.Code != CommandLoginRegisterWithToken {
		t.Errorf("command %s, want %s", got, v.Code)
	}
	diff(t, "header", h.Append(nil), frame[:HeaderSize])
	return h
}

func checkEmptyRequest(t *testing.T, v *vector, frame []byte) {
	t.Helper()
	if !slices.Contains(commandsWithoutBody, v.Code) && v.Code < 60000 {
		t.Errorf("command %s has no decoder", v.Code)
	}
	w := newWords(t, v.Fields)
	want := ""
	if _, ok := v.Fields["payload"]; ok {
		if text := w.str("payload"); text != "empty" {
			want = strings.ReplaceAll(strings.TrimPrefix(text, "bytes "), " ", "")
		}
	}
	w.finish()
	if got := hex.EncodeToString(frame[HeaderSize:]); got != want {
		t.Errorf("body %s, want %s", got, want)
	}
}

func checkRequestBody(t *testing.T, v *vector, h RequestHeader, c requestCase, frame []byte) {
	t.Helper()
	body := frame[HeaderSize:]
	got, err := c.decode(body)
	if err != nil {
		t.Fatalf("decode %x: %v", body, err)
	}
	known := len(body)
	if v.SDK == "node" && v.Code == CommandDeleteTopic {
		known -= 4 // that client appends a number, which servers ignore
	}
	diff(t, "decoded and encoded", got.Append(nil), body[:known])
	diff(t, "frame", h.AppendFrame(nil, body), frame)
	w := newWords(t, v.Fields)
	if v.Code == CommandSendMessages {
		checkSend(t, v, w, got.(SendMessagesRequest))
		w.finish()
		return
	}
	want := c.want(w)
	w.finish()
	if got = sortOptions(t, got); !reflect.DeepEqual(got, want) {
		t.Errorf("decoded\ngot  %+v\nwant %+v", got, want)
	}
}

// sortOptions puts options in the order of keys, since the words have none.
func sortOptions(t *testing.T, b Body) Body {
	t.Helper()
	switch r := b.(type) {
	case CreateTopicRequest:
		r.Options = r.Options.sorted(t)
		return r
	case UpdateTopicRequest:
		r.Options = r.Options.sorted(t)
		return r
	}
	return b
}

func registerWords(w *words) Body {
	r := RegisterRequest{Client: ClientVersion{SDKName: w.str("sdk_name"), SDKVersion: w.str("sdk_version")}}
	var major, minor, patch uint32
	if _, err := fmt.Sscanf(w.str("protocol_version"), "%d.%d.%d", &major, &minor, &patch); err != nil {
		w.t.Fatal(err)
	}
	r.Client.Protocol = PackVersion(major, minor, patch)
	context := w.str("context")
	if _, ok := w.m["token"]; ok {
		r.Token = &TokenLogin{w.str("token"), context}
		return r
	}
	r.Password = &PasswordLogin{w.str("username"), w.str("password"), context}
	if r.Password.Password == "" {
		// These bytes are a token too, and servers refuse them as one.
		r.Token = &TokenLogin{r.Password.Username, context}
	}
	return r
}

func createUserWords(w *words) Body {
	return CreateUserRequest{
		Username: w.str("username"), Password: w.str("password"),
		Status: galgo.UserStatus(inParentheses(w.t, w.str("status"))), Permissions: permissionWords(w),
	}
}

func updateUserWords(w *words) Body {
	r := UpdateUserRequest{User: w.ident("user")}
	if name, ok := w.get("username").(string); ok {
		r.Username = &name
	}
	if text, ok := w.get("status").(string); ok {
		status := galgo.UserStatus(inParentheses(w.t, text))
		r.Status = &status
	}
	return r
}

func permissionWords(w *words) *galgo.Permissions {
	m, ok := w.get("permissions").(map[string]any)
	if !ok {
		return nil
	}
	p := galgo.Permissions{Global: galgo.AllPermissions().Global}
	if m["global"] != "all ten true" {
		p.Global = galgo.GlobalPermissions{}
		setFlags(w.t, &p.Global, m["global"].(map[string]any))
	}
	for id, v := range m["streams"].(map[string]any) {
		flags := v.(map[string]any)
		s := galgo.StreamPermissions{StreamID: uint32(number(w.t, id))}
		for id, v := range flags["topics"].(map[string]any) {
			topic := galgo.TopicPermissions{TopicID: uint32(number(w.t, id))}
			setFlags(w.t, &topic, v.(map[string]any))
			s.Topics = append(s.Topics, topic)
		}
		setFlags(w.t, &s, flags)
		p.Streams = append(p.Streams, s)
	}
	return &p
}

// setFlags sets the field of a struct for each flag such as read_topics.
func setFlags(t *testing.T, to any, flags map[string]any) {
	t.Helper()
	for name, v := range flags {
		if name == "topics" {
			continue
		}
		field := reflect.ValueOf(to).Elem().FieldByNameFunc(func(f string) bool {
			return strings.EqualFold(f, strings.ReplaceAll(name, "_", ""))
		})
		if !field.IsValid() {
			t.Fatalf("no permission %q", name)
		}
		field.SetBool(v.(bool))
	}
}

// checkSend compares the target of a send, and its batch both ways.
func checkSend(t *testing.T, v *vector, w *words, r SendMessagesRequest) {
	t.Helper()
	if err := r.CheckBatch(); err != nil {
		t.Fatalf("batch: %v", err)
	}
	want := SendMessagesRequest{
		Stream: w.ident("stream"), Topic: w.ident("topic"),
		Partitioning: partitioningWords(t, v, w.str("partitioning")), MessagesCount: r.Batch.MessageCount(), Batch: r.Batch,
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("decoded\ngot  %+v\nwant %+v", r, want)
	}
	messages := AppendMessages(nil, r.Batch)
	again, err := AppendBatch(nil, messages)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "batch built again", again, r.Batch)
	checkMessageWords(t, v, w, r.Batch, messages)
}

func partitioningWords(t *testing.T, v *vector, text string) galgo.Partitioning {
	t.Helper()
	text, _, _ = strings.Cut(text, " on the wire")
	switch {
	case strings.HasPrefix(text, "balanced"):
		return galgo.Balanced()
	case strings.HasPrefix(text, "message key (kind 3) utf8 "):
		return galgo.ByKey([]byte(strings.TrimPrefix(text, "message key (kind 3) utf8 ")))
	case text == "message key (kind 3) u32 little endian 42":
		return galgo.ByKey([]byte{42, 0, 0, 0})
	case strings.HasPrefix(text, "partition id = xxhash32"):
		key := []byte("vec-order-key-1")
		if strings.Contains(v.Name, "u64") {
			key = []byte{42, 0, 0, 0, 0, 0, 0, 0}
		}
		return galgo.ToPartition(galgo.KeyPartition(key, 3))
	}
	var id uint32
	if _, err := fmt.Sscanf(text, "partition id %d", &id); err != nil {
		t.Fatalf("partitioning %q: %v", text, err)
	}
	return galgo.ToPartition(id)
}

func checkMessageWords(t *testing.T, v *vector, w *words, b Batch, messages []galgo.Message) {
	t.Helper()
	switch v.Name {
	case "send_messages.random_id":
		w.get("messages")
		if len(messages) != 1 || string(messages[0].Payload) != "vec minted id" || messages[0].ID == (galgo.MessageID{}) {
			t.Errorf("messages %+v", messages)
		}
		return
	case "send_messages.uuid_id":
		w.get("id")
		if got := hex.EncodeToString(messages[0].ID[:]); got != "ffeeddccbbaa99887766554433221100" {
			t.Errorf("id %s", got)
		}
		return
	}
	wants := w.get("messages").([]any)
	if len(wants) != len(messages) {
		t.Fatalf("%d messages, want %d", len(messages), len(wants))
	}
	origin := galgo.Never
	for i, want := range wants {
		m := want.(map[string]any)
		origin = min(origin, number(t, m["origin_timestamp"]))
		checkMessage(t, i, messages[i], m)
	}
	if got := b.OriginTimestamp(); got != origin {
		t.Errorf("origin timestamp %d, want the smallest, %d", got, origin)
	}
}

// checkMessage compares what the words of a message mention.
func checkMessage(t *testing.T, i int, m galgo.Message, want map[string]any) {
	t.Helper()
	got := map[string]string{
		"id_hex":           hex.EncodeToString(m.ID[:]),
		"payload_utf8":     string(m.Payload),
		"origin_timestamp": fmt.Sprint(m.Timestamp),
		"offset":           fmt.Sprint(m.Offset),
		"timestamp":        fmt.Sprint(m.ServerTimestamp),
		"checksum":         fmt.Sprint(m.Checksum),
	}
	for key, v := range want {
		if key == "user_headers" {
			checkUserHeaders(t, m.UserHeaders, v.([]any))
			continue
		}
		if g, ok := got[key]; !ok || g != fmt.Sprint(v) {
			t.Errorf("message %d: %s is %q, want %q", i, key, g, v)
		}
	}
	if _, ok := want["user_headers"]; !ok && len(m.UserHeaders) > 0 {
		t.Errorf("message %d has user headers %x, want none", i, m.UserHeaders)
	}
}

func checkUserHeaders(t *testing.T, b []byte, want []any) {
	t.Helper()
	headers, err := DecodeUserHeaders(b)
	if err != nil {
		t.Fatal(err)
	}
	var wants []galgo.Header
	for _, v := range want {
		m := v.(map[string]any)
		wants = append(wants, galgo.Header{Key: value(t, m["key"].(string)), Value: value(t, m["value"].(string))})
	}
	if !reflect.DeepEqual(headers, wants) {
		t.Errorf("user headers\ngot  %v\nwant %v", headers, wants)
	}
	again, err := AppendUserHeaders(nil, wants)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "user headers", again, b)
}
