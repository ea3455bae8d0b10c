package wire

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"galgo"
)

// TestUndecodableBodies goes through the rules of the primitives, each in a body
// that is right but for one thing.
func TestUndecodableBodies(t *testing.T) {
	const stream, topic = "010401000000", "010402000000"
	const consumer = "01" + "010403000000"
	const partition = "0100000000"
	poll := func(consumer, partition, strategy string) string {
		return consumer + stream + topic + partition + strategy + "0a000000" + "01"
	}
	send := func(partitioning string, count string) string {
		target := stream + topic + partitioning + count
		return hexU32(len(target)/2) + target
	}
	for _, c := range []struct {
		name   string
		decode func([]byte) (Body, error)
		body   string
		ok     bool
	}{
		{"numeric identifier", as(DecodeStreamRequest), stream, true},
		{"named identifier", as(DecodeStreamRequest), "020161", true},
		{"name of 255 bytes", as(DecodeStreamRequest), "02ff" + strings.Repeat("61", 255), true},
		{"bytes behind the last field", as(DecodeStreamRequest), stream + "ffffffff", true},
		{"empty body", as(DecodeStreamRequest), "", false},
		{"identifier of kind 0", as(DecodeStreamRequest), "000401000000", false},
		{"identifier of kind 3", as(DecodeStreamRequest), "030401000000", false},
		{"numeric identifier of 3 bytes", as(DecodeStreamRequest), "0103010000", false},
		{"numeric identifier of 8 bytes", as(DecodeStreamRequest), "01080100000000000000", false},
		{"named identifier of 0 bytes", as(DecodeStreamRequest), "0200", false},
		{"named identifier cut", as(DecodeStreamRequest), "020261", false},
		{"named identifier, not UTF-8", as(DecodeStreamRequest), "0201ff", false},

		{"poll", as(DecodePollMessagesRequest), poll(consumer, partition, "050000000000000000"), true},
		{"partition flag 0", as(DecodePollMessagesRequest), poll(consumer, "0007000000", "050000000000000000"), true},
		{"partition flag 2", as(DecodePollMessagesRequest), poll(consumer, "0207000000", "050000000000000000"), true},
		{"consumer of kind 0", as(DecodePollMessagesRequest), poll("00010403000000", partition, "050000000000000000"), false},
		{"consumer of kind 3", as(DecodePollMessagesRequest), poll("03010403000000", partition, "050000000000000000"), false},
		{"strategy of kind 0", as(DecodePollMessagesRequest), poll(consumer, partition, "000000000000000000"), false},
		{"strategy of kind 6", as(DecodePollMessagesRequest), poll(consumer, partition, "060000000000000000"), false},
		{"poll cut by a byte", as(DecodePollMessagesRequest), strings.TrimSuffix(poll(consumer, partition, "050000000000000000"), "01"), false},

		{"ack 0", as(DecodeDeleteOffsetRequest), consumer + stream + topic + partition + "00", true},
		{"ack 1", as(DecodeDeleteOffsetRequest), consumer + stream + topic + partition + "01", true},
		{"ack 2", as(DecodeDeleteOffsetRequest), consumer + stream + topic + partition + "02", false},
		{"ack 2 in a store", as(DecodeStoreOffsetRequest), consumer + stream + topic + partition + "0000000000000000" + "02", false},

		{"balanced", as(DecodeSendMessagesRequest), send("0100", "01000000"), true},
		{"partition", as(DecodeSendMessagesRequest), send("020401000000", "01000000"), true},
		{"key", as(DecodeSendMessagesRequest), send("0301ff", "01000000"), true},
		{"partitioning of kind 0", as(DecodeSendMessagesRequest), send("0000", "01000000"), false},
		{"partitioning of kind 4", as(DecodeSendMessagesRequest), send("0401ff", "01000000"), false},
		{"balanced with a value", as(DecodeSendMessagesRequest), send("0101ff", "01000000"), false},
		{"partition of 3 bytes", as(DecodeSendMessagesRequest), send("0203010000", "01000000"), false},
		{"partition of 5 bytes", as(DecodeSendMessagesRequest), send("02050100000000", "01000000"), false},
		{"empty key", as(DecodeSendMessagesRequest), send("0300", "01000000"), false},
		{"metadata one byte longer", as(DecodeSendMessagesRequest), send("0100", "01000000ff"), false},
		{"metadata one byte shorter", as(DecodeSendMessagesRequest), send("0100", "010000"), false},
		{"metadata past the end", as(DecodeSendMessagesRequest), "ffffffff" + stream, false},

		{"snapshot of nothing", as(DecodeGetSnapshotRequest), "0100", true},
		{"snapshot of all", as(DecodeGetSnapshotRequest), "060164", true},
		{"snapshot of all and more", as(DecodeGetSnapshotRequest), "06026401", false},
		{"snapshot of type 7", as(DecodeGetSnapshotRequest), "010107", false},
		{"snapshot of type 0", as(DecodeGetSnapshotRequest), "010100", false},
		{"compression 0", as(DecodeGetSnapshotRequest), "0000", false},
		{"compression 7", as(DecodeGetSnapshotRequest), "0700", false},
		{"scope 0", as(DecodeDescribeOptionsRequest), "00", false},
		{"scope 4", as(DecodeDescribeOptionsRequest), "04", false},

		{"user without permissions", as(DecodeCreateUserRequest), "0161" + "00" + "01" + "00", true},
		{"status 9", as(DecodeCreateUserRequest), "0161" + "00" + "09" + "00", true},
		{"permissions shorter than they say", as(DecodeUpdatePermissionsRequest), stream + "01" + "0c000000" + strings.Repeat("00", 12), false},
		{"permissions longer than they say", as(DecodeUpdatePermissionsRequest), stream + "01" + "0a000000" + strings.Repeat("00", 11), false},
		{"permissions flag 2", as(DecodeUpdatePermissionsRequest), stream + "02", true},
		{"empty name", as(DecodeCreateStreamRequest), "00", false},
	} {
		got, err := c.decode(unhex(t, c.body))
		if c.ok != (err == nil) || err != nil && !errors.Is(err, ErrUndecodable) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

func hexU32(n int) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[n>>4&15], digits[n&15]}) + "000000"
}

func TestOptionalPartition(t *testing.T) {
	for body, want := range map[string]OptionalPartition{
		"0107000000": Partition(7), "0007000000": {}, "0207000000": {}, "0100000000": Partition(0),
	} {
		c := read("test", unhex(t, body))
		if got := c.optionalPartition(); got != want || c.err != nil {
			t.Errorf("%s is %+v, %v, want %+v", body, got, c.err, want)
		}
	}
	diff(t, "absent", appendOptionalPartition(nil, OptionalPartition{ID: 7}), unhex(t, "0000000000"))
}

// TestLoginForms: an empty password reads as a token too, and what is in neither
// form is refused.
func TestLoginForms(t *testing.T) {
	const version = "002c0000 0161 0162"
	for _, c := range []struct {
		name, rest      string
		password, token bool
	}{
		{"password", "0469676779 0469676779 00000000", true, false},
		{"empty password", "0469676779 00 00000000", true, true},
		{"token", "03746f6b 00000000", false, true},
		{"empty token", "00 00000000", false, true},
		{"context", "03746f6b 02000000 6869", false, true},
		{"context cut", "03746f6b 03000000 6869", false, false},
		{"nothing", "", false, false},
		{"bytes behind", "0469676779 0469676779 00000000 ffff", true, false},
		{"not UTF-8", "02ffff 02ffff 00000000", false, false},
	} {
		r, err := DecodeRegisterRequest(unhex(t, version+c.rest))
		if (err == nil) != (c.password || c.token) || (r.Password != nil) != c.password || (r.Token != nil) != c.token {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
	}
	for name, body := range map[string]string{"empty": "", "version alone": "002c0000", "empty SDK name": "002c0000 00 0162 0469676779"} {
		if _, _, err := DecodeClientVersion(unhex(t, body)); !errors.Is(err, ErrUndecodable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPermissionsEncoding(t *testing.T) {
	diff(t, "no rights", AppendPermissions(nil, galgo.Permissions{}), make([]byte, 11))
	diff(t, "all rights", AppendPermissions(nil, galgo.AllPermissions()), unhex(t, strings.Repeat("01", 10)+"00"))
	p := galgo.Permissions{Streams: []galgo.StreamPermissions{
		{StreamID: 9, SendMessages: true},
		{StreamID: 7, Topics: []galgo.TopicPermissions{{TopicID: 4, ReadTopic: true}, {TopicID: 3, PollMessages: true}}},
	}}
	b := AppendPermissions(nil, p)
	if want := 11 + 12 + 12 + 2*9; len(b) != want {
		t.Errorf("%d bytes, want %d", len(b), want)
	}
	got, err := DecodePermissions(b)
	if err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("decoded %+v, %v, want %+v in the same order", got, err, p)
	}
	p.Streams[1].StreamID = 9
	if _, err := DecodePermissions(AppendPermissions(nil, p)); !errors.Is(err, ErrUndecodable) {
		t.Errorf("a stream twice: %v", err)
	}
	p.Streams[1].StreamID, p.Streams[1].Topics[1].TopicID = 7, 4
	if _, err := DecodePermissions(AppendPermissions(nil, p)); !errors.Is(err, ErrUndecodable) {
		t.Errorf("a topic twice: %v", err)
	}
	if _, err := DecodePermissions(append(b, 0)); !errors.Is(err, ErrUndecodable) {
		t.Errorf("a byte behind: %v", err)
	}
}

// TestUserDetailsWithoutPermissions: absence is four zero bytes, presence one byte
// and a length.
func TestUserDetailsWithoutPermissions(t *testing.T) {
	user := UserDetails{UserInfo: UserInfo{ID: 1, Status: galgo.UserActive, Username: "user"}}
	b := user.Append(nil)
	if !allZero(b[len(b)-4:]) {
		t.Errorf("user without permissions: %x", b)
	}
	b[len(b)-1] = 1
	if _, err := DecodeUserDetails(b); !errors.Is(err, ErrUndecodable) {
		t.Errorf("absence that is not zero: %v", err)
	}
	user.Permissions = &galgo.Permissions{}
	with := user.Append(nil)
	diff(t, "permissions", with[len(b)-4:], append([]byte{1, 11, 0, 0, 0}, make([]byte, 11)...))
}

func TestUsernamesAndPasswords(t *testing.T) {
	for n, want := range map[int]bool{0: false, 2: false, 3: true, 50: true, 51: false} {
		if err := ValidateUsername(strings.Repeat("u", n)); (err == nil) != want {
			t.Errorf("user name of %d bytes: %v", n, err)
		}
	}
	for n, want := range map[int]bool{2: false, 3: true, 100: true, 101: false} {
		if err := ValidatePassword(strings.Repeat("p", n)); (err == nil) != want {
			t.Errorf("password of %d bytes: %v", n, err)
		}
	}
}

// TestErrorsName: an error tells body, field and place, without the source.
func TestErrorsName(t *testing.T) {
	_, err := DecodePartitionsRequest(unhex(t, "010401000000 010402000000 0100"))
	if got, want := err.Error(), "wire: partitions: count at byte 12: needs 4 bytes, 2 are left"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
	_, err = DecodeTopicDetails(nil)
	if got, want := err.Error(), "wire: topic: topic id at byte 0: needs 4 bytes, 0 are left"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
	batch := sampleBatch(t)
	batch[BatchHeaderSize] ^= 1
	if got, want := batch.Validate().Error(), "wire: batch: frame 0: checksum: b9bfbddb9ea55c8f, want b9bfbddb9ea55c8e"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}

// TestReplyDecodersRefuse what a count promises and the bytes do not hold, and
// bytes behind the end.
func TestReplyDecodersRefuse(t *testing.T) {
	counts := map[string][]byte{
		"topics of a stream":      StreamInfo{Name: "s", TopicsCount: 1}.Append(nil),
		"partitions of a topic":   TopicInfo{Name: "t", PartitionsCount: 1 << 31}.Append(nil),
		"members of a group":      GroupInfo{Name: "g", MembersCount: 1}.append(nil),
		"memberships of a client": ClientInfo{GroupsCount: 1<<32 - 1}.append(nil),
		"session of 0":            RegisterReply{ServerVersion: "v"}.Append(nil),
		"role 2":                  ClusterMetadata{Nodes: []ClusterNode{{Role: 2}}}.Append(nil),
		"status 5":                ClusterMetadata{Nodes: []ClusterNode{{Status: 5}}}.Append(nil),
		"65 nodes":                ClusterMetadata{Nodes: make([]ClusterNode, 65)}.Append(nil),
	}
	decoders := map[string]func([]byte) error{
		"topics of a stream":      func(b []byte) error { _, err := DecodeStreamDetails(b); return err },
		"partitions of a topic":   func(b []byte) error { _, err := DecodeTopicDetails(b); return err },
		"members of a group":      func(b []byte) error { _, err := DecodeConsumerGroupDetails(b); return err },
		"memberships of a client": func(b []byte) error { _, err := DecodeClientDetails(b); return err },
		"session of 0":            func(b []byte) error { _, err := DecodeRegisterReply(b); return err },
		"role 2":                  func(b []byte) error { _, err := DecodeClusterMetadata(b); return err },
		"status 5":                func(b []byte) error { _, err := DecodeClusterMetadata(b); return err },
		"65 nodes":                func(b []byte) error { _, err := DecodeClusterMetadata(b); return err },
	}
	for name, body := range counts {
		if err := decoders[name](body); !errors.Is(err, ErrUndecodable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range replyCodecs {
		if c.name == "topic options state" {
			continue // a part of a snapshot, which goes on
		}
		v, err := c.decode(unhex(t, "00000000"))
		if err == nil {
			if _, err := c.decode(append(c.encode(v), 0xff)); err == nil {
				t.Errorf("%s: a byte behind the end is taken", c.name)
			}
		}
	}
}

func TestUserHeadersRefuse(t *testing.T) {
	good := galgo.StringValue("k")
	for name, c := range map[string]struct {
		header galgo.Header
		code   galgo.Code
	}{
		"key of kind 0":      {galgo.Header{Key: galgo.Value{Data: []byte{1}}, Value: good}, galgo.CodeInvalidHeaderKey},
		"empty key":          {galgo.Header{Key: galgo.StringValue(""), Value: good}, galgo.CodeInvalidHeaderKey},
		"value of 256 bytes": {galgo.Header{Key: good, Value: galgo.RawValue(make([]byte, 256))}, galgo.CodeInvalidHeaderValue},
		"bool of 2 bytes":    {galgo.Header{Key: good, Value: galgo.Value{Kind: galgo.KindBool, Data: []byte{0, 1}}}, galgo.CodeInvalidHeaderValue},
		"string, not UTF-8":  {galgo.Header{Key: good, Value: galgo.StringValue("\xff")}, galgo.CodeInvalidHeaderValue},
		"good":               {galgo.Header{Key: good, Value: good}, galgo.CodeOK},
	} {
		_, err := AppendUserHeaders(nil, []galgo.Header{c.header})
		if code, _ := galgo.CodeOf(err); code != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	many := make([]galgo.Header, 386) // of 260 bytes each
	for i := range many {
		many[i] = galgo.Header{Key: good, Value: galgo.RawValue(make([]byte, 249))}
	}
	if _, err := AppendUserHeaders(nil, many); !errors.Is(err, &galgo.Error{Code: galgo.CodeTooBigUserHeaders}) {
		t.Errorf("100 360 bytes: %v", err)
	}
	if _, err := AppendUserHeaders(nil, many[:384]); err != nil {
		t.Errorf("99 840 bytes: %v", err)
	}
}
