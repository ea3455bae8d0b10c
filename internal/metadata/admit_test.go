package metadata

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"galgo"
	"galgo/internal/wire"
)

func wantAdmit(t *testing.T, v *View, want galgo.Code, op wire.Operation, body []byte) {
	t.Helper()
	_, logBody, err := Admit(v, op, body)
	got, _ := galgo.CodeOf(err)
	if got != want || (err != nil) != (want != galgo.CodeOK) {
		t.Errorf("%v with body %x is admitted with %v, want %v", op, body, err, want)
	}
	if err != nil && logBody != nil {
		t.Errorf("%v is refused with %v, and a body for the log comes with it", op, err)
	}
}

func TestAdmitRefusesWhatDoesNotDecode(t *testing.T) { // wire.md §6.3
	v := New().View()
	ops := []wire.Operation{wire.OperationJoinConsumerGroup, wire.OperationLeaveConsumerGroup}
	for op := wire.Operation(128); op <= 147; op++ {
		ops = append(ops, op)
	}
	for _, op := range ops {
		for _, body := range [][]byte{nil, {0}, {9, 9, 9}, {1, 4, 0, 0, 0}, bytes.Repeat([]byte{0xff}, 40)} {
			if op == wire.OperationDeleteToken && len(body) == 5 {
				continue // a name, and more behind it
			}
			wantAdmit(t, v, galgo.CodeInvalidCommand, op, body)
		}
	}
}

func TestAdmitKnowsWhatIsNotThereYet(t *testing.T) {
	v := New().View()
	for op := range 256 {
		op := wire.Operation(op)
		_, _, err := Admit(v, op, nil)
		code, _ := galgo.CodeOf(err)
		want := galgo.CodeInvalidCommand
		if op == wire.OperationLogout {
			want = galgo.CodeOK
		}
		if code != want {
			t.Errorf("operation %d is admitted with %v, want %v", op, err, want)
		}
	}
}

// A client may write bytes behind a body of fixed shape. They are no part of the
// request, so they are no part of the log.
func TestAdmitDropsWhatFollowsTheBody(t *testing.T) {
	v := New().View()
	for op, body := range map[wire.Operation][]byte{
		wire.OperationDeleteStream:        deleteStreamBody(id(7)),
		wire.OperationPurgeStream:         deleteStreamBody(name("s")),
		wire.OperationDeleteTopic:         deleteTopicBody(id(7), id(3)),
		wire.OperationPurgeTopic:          deleteTopicBody(id(7), id(3)),
		wire.OperationCreatePartitions:    partitionsBody(id(7), id(3), 2),
		wire.OperationDeletePartitions:    partitionsBody(id(7), id(3), 2),
		wire.OperationCreateConsumerGroup: createGroupBody(id(7), id(3), "g"),
		wire.OperationDeleteConsumerGroup: deleteGroupBody(id(7), id(3), name("g")),
	} {
		logOp, logBody, err := Admit(v, op, append(slices.Clone(body), 1, 2, 3, 4))
		if err != nil || logOp != wire.OperationInReply(op) || !bytes.Equal(logBody, body) {
			t.Errorf("%v enters the log as %v, %x, %v, want %x", op, logOp, logBody, err, body)
		}
	}
}

func TestAdmitBoundsAndOptions(t *testing.T) {
	r := newRig(t)
	r.createStream("s")
	r.createTopic(0, "small", 1, option(galgo.OptionSegmentSize, galgo.Uint64Value(1<<20)))
	r.createTopic(0, "big", 1)
	v := r.m.View()
	unknown := option("nonsense", galgo.StringValue("1"))
	expiry := option(galgo.OptionMessageExpiry, galgo.Uint64Value(5))
	size := func(n uint64) galgo.Header { return option(galgo.OptionMaxTopicSize, galgo.Uint64Value(n)) }
	withOptions := func(o ...galgo.Header) []byte {
		return wire.CreateStreamRequest{Name: "s", Options: block(o)}.Append(nil)
	}
	updateWith := func(o ...galgo.Header) []byte {
		return wire.UpdateStreamRequest{Stream: id(0), Name: "s", Options: block(o)}.Append(nil)
	}
	tests := []struct {
		name string
		op   wire.Operation
		body []byte
		want galgo.Code
	}{
		{"stream options", wire.OperationCreateStream, withOptions(expiry), galgo.CodeUnsupportedOptionKey},
		{"stream options", wire.OperationUpdateStream, updateWith(expiry), galgo.CodeUnsupportedOptionKey},
		{"1000 partitions", wire.OperationCreateTopic, createTopicBody(id(9), "t", 1000), galgo.CodeOK},
		{"1001 partitions", wire.OperationCreateTopic, createTopicBody(id(9), "t", 1001), galgo.CodeTooManyPartitions},
		{"no partitions", wire.OperationCreateTopic, createTopicBody(id(9), "t", 0), galgo.CodeOK},
		{"unknown key", wire.OperationCreateTopic, createTopicBody(id(9), "t", 1, unknown), galgo.CodeUnsupportedOptionKey},
		{"bad value", wire.OperationCreateTopic, createTopicBody(id(9), "t", 1, option(galgo.OptionEnforceFsync, galgo.Uint8Value(1))), galgo.CodeInvalidOptionValue},
		{"size below segment", wire.OperationCreateTopic, createTopicBody(id(9), "t", 1, size(1<<20)), galgo.CodeInvalidTopicSize},
		{"unknown key", wire.OperationUpdateTopic, updateTopicBody(id(9), id(9), "t", unknown), galgo.CodeUnsupportedOptionKey},
		{"key for creates", wire.OperationUpdateTopic, updateTopicBody(id(9), id(9), "t", option(galgo.OptionSegmentSize, galgo.Uint64Value(1<<20))), galgo.CodeUnsupportedOptionKey},
		{"bad value", wire.OperationUpdateTopic, updateTopicBody(id(0), id(0), "t", option(galgo.OptionMessageExpiry, galgo.StringValue("soon"))), galgo.CodeInvalidOptionValue},
		{"size below segment", wire.OperationUpdateTopic, updateTopicBody(id(0), name("big"), "big", size(1<<21)), galgo.CodeInvalidTopicSize},
		{"size of two segments", wire.OperationUpdateTopic, updateTopicBody(id(0), name("small"), "small", size(1<<21)), galgo.CodeOK},
		{"topic not there", wire.OperationUpdateTopic, updateTopicBody(id(0), id(9), "t", size(1<<21)), galgo.CodeOK},
		{"no count", wire.OperationCreatePartitions, partitionsBody(id(0), id(0), 0), galgo.CodeTooManyPartitions},
		{"count too high", wire.OperationDeletePartitions, partitionsBody(id(0), id(0), 1001), galgo.CodeTooManyPartitions},
		{"highest count", wire.OperationDeletePartitions, partitionsBody(id(0), id(0), 1000), galgo.CodeOK},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.op, " ", tt.name), func(t *testing.T) { wantAdmit(t, v, tt.want, tt.op, tt.body) })
	}
}

// What the primary believed of a topic's segments may be out of date when the
// update is applied.
func TestSizeIsCheckedAgainWhenApplied(t *testing.T) {
	r := newRig(t)
	r.createStream("s")
	body := updateTopicBody(id(0), id(0), "t", option(galgo.OptionMaxTopicSize, galgo.Uint64Value(1<<21)))
	if _, _, err := Admit(r.m.View(), wire.OperationUpdateTopic, body); err != nil {
		t.Fatal(err)
	}
	r.createTopic(0, "t", 1)
	s := r.sessions[clientID(1)]
	out := r.apply(Input{Operation: wire.OperationUpdateTopic, Client: clientID(1), Session: s.epoch, Request: s.next, Body: body})
	if want := wire.AppendResultError(nil, galgo.CodeInvalidTopicSize); !bytes.Equal(out.Body, want) {
		t.Errorf("answer %x, want %x", out.Body, want)
	}
	if got := r.topic(id(0), id(0)).Options.MaxTopicSize; got != galgo.Never {
		t.Errorf("the refused size is in force: %d", got)
	}
}

func TestTopicOptionsLive(t *testing.T) { // wire.md §8.3, §8.10
	r := newRig(t)
	r.createStream("s")
	r.createTopic(0, "t", 1,
		option(galgo.OptionMessageExpiry, galgo.StringValue("1 s")),
		option(galgo.OptionMaxTopicSize, galgo.Uint64Value(0)),
		option(galgo.OptionEnforceFsync, galgo.BoolValue(false)))
	o := r.topic(id(0), id(0)).Options
	if o.MessageExpiry != 1_000_000 || !o.Explicit(galgo.OptionMessageExpiry) {
		t.Errorf("expiry %d, explicit %t", o.MessageExpiry, o.Explicit(galgo.OptionMessageExpiry))
	}
	if o.MaxTopicSize != galgo.Never || o.Explicit(galgo.OptionMaxTopicSize) {
		t.Errorf("size %d, explicit %t: 0 counts as not sent", o.MaxTopicSize, o.Explicit(galgo.OptionMaxTopicSize))
	}
	if o.Durability() != wire.DurabilityMemory {
		t.Errorf("durability %v, want what was asked for", o.Durability())
	}
	_, out := r.must(wire.OperationUpdateTopic, updateTopicBody(id(0), id(0), "t",
		option(galgo.OptionMessageExpiry, galgo.Uint64Value(0)),
		option(galgo.OptionMaxTopicSize, galgo.StringValue("2 GiB"))))
	if want := []Change{{Kind: TopicUpdated}}; !slices.Equal(out.Changes, want) {
		t.Errorf("changes %v, want %v", out.Changes, want)
	}
	for _, m := range []*Machine{r.m, restored(t, r.m)} {
		topic, _ := m.View().Topic(id(0), id(0))
		info := newTopicInfo(topic)
		if info.MessageExpiry != 1_000_000 || info.MaxTopicSize != 2<<30 {
			t.Errorf("expiry %d and size %d, want an expiry that stayed and 2 GiB", info.MessageExpiry, info.MaxTopicSize)
		}
		want := block([]galgo.Header{
			option(galgo.OptionEnforceFsync, galgo.BoolValue(false)),
			option(galgo.OptionMaxTopicSize, galgo.StringValue("2 GiB")),
			option(galgo.OptionMessageExpiry, galgo.Uint64Value(0)),
		})
		if !bytes.Equal(info.Options, want) {
			t.Errorf("explicit options %x, want %x", info.Options, want)
		}
		derived, err := info.DerivedOptions.Entries()
		if err != nil || len(derived) != 5 {
			t.Errorf("%d derived options, %v, want 5", len(derived), err)
		}
	}
}

// Whatever bytes a client sends: Admit refuses them with a code, or Apply can run
// what Admit made of them.
func FuzzAdmitThenApply(f *testing.F) {
	for _, r := range []struct {
		op   wire.Operation
		body []byte
	}{
		{wire.OperationCreateStream, createStreamBody("s")},
		{wire.OperationUpdateStream, updateStreamBody(id(0), "t")},
		{wire.OperationDeleteStream, deleteStreamBody(id(0))},
		{wire.OperationCreateTopic, createTopicBody(id(0), "t", 2, option(galgo.OptionMessageExpiry, galgo.StringValue("7 days")))},
		{wire.OperationUpdateTopic, updateTopicBody(id(0), id(0), "t", option(galgo.OptionMaxTopicSize, galgo.Uint64Value(1<<40)))},
		{wire.OperationPurgeTopic, deleteTopicBody(id(0), name("t"))},
		{wire.OperationCreatePartitions, partitionsBody(id(0), id(0), 3)},
		{wire.OperationDeletePartitions, partitionsBody(id(0), id(0), 1)},
		{wire.OperationCreateConsumerGroup, createGroupBody(id(0), id(0), "g")},
		{wire.OperationDeleteConsumerGroup, deleteGroupBody(id(0), id(0), id(0))},
		{wire.OperationCreateUser, NewUser{Username: "ann", PasswordHash: "$h", Permissions: scoped()}.Append(nil)},
		{wire.OperationUpdateUser, wire.UpdateUserRequest{User: id(0)}.Append(nil)},
		{wire.OperationDeleteUser, wire.UserRequest{User: name("ann")}.Append(nil)},
		{wire.OperationChangePassword, NewPassword{Verified: 1, User: id(0), PasswordHash: "$h"}.Append(nil)},
		{wire.OperationUpdatePermissions, NewPermissions{User: id(0), Permissions: scoped()}.Append(nil)},
		{wire.OperationCreateToken, NewToken{Name: "ci", Expiry: 5}.Append(nil)},
		{wire.OperationDeleteToken, wire.DeleteTokenRequest{Name: "ci"}.Append(nil)},
	} {
		f.Add(uint8(r.op), r.body)
	}
	f.Fuzz(func(t *testing.T, op uint8, body []byte) {
		r := newRig(t)
		r.createStream("s")
		r.createTopic(0, "t", 2)
		r.createGroup(0, 0, "g")
		logOp, logBody, err := Admit(r.m.View(), wire.Operation(op), body)
		if err != nil {
			if code, ok := galgo.CodeOf(err); !ok || code == galgo.CodeOK {
				t.Fatalf("operation %d is refused without a code: %v", op, err)
			}
			return
		}
		if len(logBody) > 2*len(body)+1024 {
			t.Fatalf("a body of %d bytes enters the log with %d", len(body), len(logBody))
		}
		s := r.sessions[clientID(1)]
		in := Input{Operation: logOp, Client: clientID(1), Session: s.epoch, Request: s.next, Body: logBody}
		if logOp == wire.OperationRegister {
			in.Session, in.Request = 0, 0
		}
		r.apply(in)
		restored(t, r.m)
	})
}
