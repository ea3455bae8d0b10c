package edge

import (
	"bytes"
	"testing"
	"testing/synctest"

	"galgo"
	"galgo/internal/wire"
)

func createStream(name string) []byte { return wire.CreateStreamRequest{Name: name}.Append(nil) }

func TestCommittedReply(t *testing.T) {
	r := newRig(t)
	p := r.signedIn()
	h := p.header(wire.OperationCreateStream)
	h.Client, h.Session = galgo.ClientID{9, 9}, 12345 // the server puts its own in
	f := p.ask(h, createStream("s"))
	reply, payload, err := wire.ParseReply(f)
	if err != nil {
		t.Fatal(err)
	}
	s, err := wire.DecodeStreamDetails(payload)
	if err != nil || s.Name != "s" || s.ID != 0 {
		t.Errorf("stream %+v, %v", s, err)
	}
	if reply.Client != p.client || reply.Op == 0 || reply.Op != reply.Commit || reply.Request != h.Request || reply.Timestamp != s.CreatedAt {
		t.Errorf("header %+v", reply)
	}
	if got := r.node.lastProposed(); got.Client != p.client || got.Session != p.session || got.User != 0 {
		t.Errorf("proposed as %+v", got)
	}
}

// The operation in replies (wire.md §2.4).
func TestOperationInReplies(t *testing.T) {
	r := newRig(t)
	p := r.signedIn()
	p.must(wire.OperationCreateStream, createStream("s"))
	operation := func(f []byte) wire.Operation { return wire.Operation(f[208]) }
	create := wire.CreateTopicRequest{Stream: s0, Partitions: 1, Name: "t"}.Append(nil)
	if got := operation(p.ask(p.header(wire.OperationCreateTopic), create)); got != 64 {
		t.Errorf("created topic: operation %d, want 64", got)
	}
	if got := operation(p.ask(p.header(wire.OperationCreateTopic), create)); got != 64 {
		t.Errorf("topic name taken: operation %d, want 64", got)
	}
	more := wire.PartitionsRequest{Stream: s0, Topic: t0, Count: 1}.Append(nil)
	if got := operation(p.ask(p.header(wire.OperationCreatePartitions), more)); got != 65 {
		t.Errorf("created partitions: operation %d, want 65", got)
	}
	none := wire.PartitionsRequest{Stream: s0, Topic: t0}.Append(nil)
	f := p.ask(p.header(wire.OperationCreatePartitions), none)
	p.wantStatus(f, galgo.CodeTooManyPartitions)
	if got := operation(f); got != 136 {
		t.Errorf("denied: operation %d, want 136", got)
	}
	r.node.onMetadata = func(req MetadataRequest, done func(MetadataReply)) bool {
		done(MetadataReply{Outcome: OutcomeResult, Code: galgo.CodeTransientNotAccepted})
		return true
	}
	for sent, want := range map[wire.Operation]wire.Operation{132: 132, 136: 136, 138: 68, 128: 128, 149: 149} {
		body := more
		if sent == wire.OperationDeleteSegments {
			body = wire.DeleteSegmentsRequest{Stream: s0, Topic: t0}.Append(nil)
		}
		if h := p.wantResult(p.ask(p.header(sent), body), galgo.CodeTransientNotAccepted); h.Operation != want {
			t.Errorf("transient answer to %d: operation %d, want %d", sent, h.Operation, want)
		}
	}
}

// Rows of wire.md §3.8 as the node reports them.
func TestOutcomesOfMetadataRequests(t *testing.T) {
	p := newRig(t).signedIn()
	var reply MetadataReply
	p.rig.node.onMetadata = func(_ MetadataRequest, done func(MetadataReply)) bool { done(reply); return true }
	ask := func(r MetadataReply) []byte {
		reply = r
		return p.ask(p.header(wire.OperationCreateStream), createStream("s"))
	}
	for _, code := range []galgo.Code{galgo.CodeTransientNotAccepted, galgo.CodeTransientNotCommitted, galgo.CodeRequestAlreadyApplied, galgo.CodePersonalAccessTokenAlreadyExists} {
		h := p.wantResult(ask(MetadataReply{Outcome: OutcomeResult, Code: code}), code)
		if h.Client != p.client || h.Op != 0 {
			t.Errorf("%v: header %+v", code, h)
		}
	}
	p.wantStatus(ask(MetadataReply{Outcome: OutcomeStatus, Code: galgo.CodeInvalidTopicSize}), galgo.CodeInvalidTopicSize)
	first := wire.AppendResultOK(nil)
	f := ask(MetadataReply{Outcome: OutcomeReply, Body: first, Operation: wire.OperationCreateStream, Op: 77, Timestamp: 5})
	if h, _ := wire.DecodeReplyHeader(f); h.Op != 77 || !bytes.Equal(f[wire.HeaderSize:], first) {
		t.Errorf("cached reply: header %+v, body %x", h, f[wire.HeaderSize:])
	}
	reply = MetadataReply{Outcome: OutcomeDrop}
	p.send(p.header(wire.OperationCreateStream), createStream("s"))
	p.alive() // nothing came before the ping's answer
}

func TestEvictionByTheNode(t *testing.T) {
	for _, reason := range []wire.EvictionReason{wire.EvictionNoSession, wire.EvictionSessionTooLow, wire.EvictionInvalidRequestBody} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			p := r.signedIn()
			asked := 0
			r.node.onMetadata = func(_ MetadataRequest, done func(MetadataReply)) bool {
				asked++
				done(MetadataReply{Outcome: OutcomeEvict, Reason: reason})
				return true
			}
			e := p.wantEviction(p.ask(p.header(wire.OperationCreateStream), createStream("s")), reason)
			if e.Client != p.client {
				t.Errorf("eviction names client %v, want %v", e.Client, p.client)
			}
			p.wantStatus(p.ask(p.commandHeader(wire.CommandGetMe), nil), galgo.CodeUnauthenticated)
			synctest.Wait()
			if asked != 1 {
				t.Errorf("the node was asked %d times: a session that it ended needs no detaching", asked)
			}
		})
	}
}

// Requests on a session that the table lost, through the real table.
func TestSessionLostFromTheTable(t *testing.T) {
	r := newRig(t)
	p := r.signedIn()
	r.node.Metadata(MetadataRequest{Operation: wire.OperationLogout, Client: p.client, Session: p.session}, func(MetadataReply) {})
	p.wantEviction(p.ask(p.header(wire.OperationCreateStream), createStream("s")), wire.EvictionNoSession)
	p.login("iggy", "iggy")
	p.must(wire.OperationCreateStream, createStream("s"))
}

func TestRepeatedRequestGetsTheFirstAnswer(t *testing.T) {
	p := newRig(t).signedIn()
	h := p.header(wire.OperationCreateStream)
	first := p.ask(h, createStream("s"))
	if again := p.ask(h, createStream("s")); !bytes.Equal(first, again) {
		t.Errorf("second answer\n%x\nfirst\n%x", again, first)
	}
	h.RequestChecksum = wire.RequestChecksum(createStream("s"))
	if _, code := p.parsed(p.ask(h, createStream("s"))); code != galgo.CodeOK {
		t.Errorf("repeated with a checksum: %v", code)
	}
}

// Undecodable bodies and static bounds of metadata operations are denied before
// the log (wire.md §6.3, §12 row 11).
func TestDeniedMetadataBodies(t *testing.T) {
	p := newRig(t).signedIn()
	for o, body := range map[wire.Operation][]byte{
		128: {0}, 129: {1, 4, 0, 0, 0, 0, 0}, 130: {9}, 131: nil, 132: {1}, 133: nil, 134: {1, 4}, 135: nil,
		136: nil, 137: {1, 4, 0, 0, 0, 0}, 139: nil, 140: nil, 148: {1}, 149: nil,
		141: {0}, 142: {1, 4, 0, 0, 0, 0, 1}, 143: {9}, 144: {1, 4, 0, 0, 0, 0, 1, 'x'}, 145: {1, 4, 0, 0, 0, 0, 1}, 146: {1, 'x'}, 147: nil,
	} {
		p.wantStatus(p.ask(p.header(o), body), galgo.CodeInvalidCommand)
	}
	f := p.ask(p.header(wire.OperationDeleteSegments), []byte{1})
	if h := p.wantStatus(f, galgo.CodeOK); h.Operation != wire.OperationDeleteSegments {
		t.Errorf("delete segments that does not decode: operation %d, want 138, which has no result section", h.Operation)
	}
	withKey := wire.CreateStreamRequest{Name: "s", Options: mustOptions(t, "unknown", galgo.Uint64Value(1))}.Append(nil)
	p.wantStatus(p.ask(p.header(wire.OperationCreateStream), withKey), galgo.CodeUnsupportedOptionKey)
	for o, body := range map[wire.Operation]wire.Body{
		wire.OperationCreateUser: wire.CreateUserRequest{Username: "ann", Password: "secret", Options: mustOptions(t, "unknown", galgo.Uint64Value(1))},
		wire.OperationUpdateUser: wire.UpdateUserRequest{User: s0, Options: mustOptions(t, "unknown", galgo.Uint64Value(1))},
	} {
		p.wantStatus(p.ask(p.header(o), body.Append(nil)), galgo.CodeUnsupportedOptionKey)
	}
	p.alive()
}

func mustOptions(t *testing.T, key string, v galgo.Value) wire.Options {
	t.Helper()
	o, err := wire.NewOptions([]galgo.Header{{Key: galgo.StringValue(key), Value: v}})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestMetadataTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.signedIn()
		var held func()
		r.node.onMetadata = func(req MetadataRequest, done func(MetadataReply)) bool {
			if held != nil || req.Operation != wire.OperationCreateStream {
				return false
			}
			held = func() { done(r.node.metadata(req)) }
			return true
		}
		h := p.header(wire.OperationCreateStream)
		p.wantResult(p.ask(h, createStream("s")), galgo.CodeTransientNotCommitted)
		synctest.Wait()
		r.node.post(held)
		if _, code := p.parsed(p.ask(h, createStream("s"))); code != galgo.CodeOK {
			t.Errorf("replayed: %v", code)
		}
		if n := r.node.View().Counts().Streams; n != 1 {
			t.Errorf("%d streams, want 1", n)
		}
	})
}
