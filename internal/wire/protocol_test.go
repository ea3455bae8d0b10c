package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"galgo"
)

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		major, minor, patch uint32
		packed              Version
		accepted            bool
	}{
		{0, 10, 1023, 11263, false},
		{0, 11, 0, 11264, true},
		{0, 11, 7, 11271, true},
		{0, 11, 1023, 12287, true},
		{0, 12, 0, 12288, false},
		{1, 0, 0, 1048576, false},
	} {
		v := PackVersion(c.major, c.minor, c.patch)
		if v != c.packed || v.Accepted() != c.accepted {
			t.Errorf("%s packs to %d, accepted %v, want %d, %v", v, v, v.Accepted(), c.packed, c.accepted)
		}
	}
	if VersionCurrent != 11264 || VersionMin != 11264 {
		t.Errorf("window %d..%d, want 11264..11264", VersionMin, VersionCurrent)
	}
}

// TestOperations holds the bytes against the table of the protocol: which exist,
// where they go, and which replies have a result section.
func TestOperations(t *testing.T) {
	known := map[int]bool{}
	for _, span := range [][2]int{{1, 3}, {64, 68}, {128, 149}, {160, 162}} {
		for o := span[0]; o <= span[1]; o++ {
			known[o] = true
		}
	}
	for i := range 256 {
		o := Operation(i)
		metadata := i >= 128 && i <= 149
		partition := i >= 160 && i <= 162
		framed := i == 1 || i >= 64 && i <= 68 || metadata && i != 138 || i == 161 || i == 162
		if o.Known() != known[i] {
			t.Errorf("operation %d known: %v", i, o.Known())
		}
		if !o.Known() {
			continue
		}
		if o.IsMetadata() != metadata || o.IsPartition() != partition || o.IsInternal() != (i >= 64 && i <= 127) {
			t.Errorf("operation %d: metadata %v, partition %v, internal %v", i, o.IsMetadata(), o.IsPartition(), o.IsInternal())
		}
		if o.ResultFramed() != framed {
			t.Errorf("operation %d result framed: %v", i, o.ResultFramed())
		}
		if o.NeedsSession() != (i > 2) {
			t.Errorf("operation %d needs a session: %v", i, o.NeedsSession())
		}
	}
	for request, reply := range map[Operation]Operation{132: 64, 136: 65, 138: 68, 128: 128, 2: 2, 160: 160} {
		if got := OperationInReply(request); got != reply {
			t.Errorf("operation %d is answered as %d, want %d", request, got, reply)
		}
	}
}

// TestCommands holds the table of commands against that of operations.
func TestCommands(t *testing.T) {
	if len(commandTable) != 51+2 { // two are galgo's own
		t.Errorf("%d commands", len(commandTable))
	}
	operations := map[Operation]int{}
	for i, c := range commandTable {
		if i > 0 && commandTable[i-1].command >= c.command {
			t.Errorf("command %d is out of order", c.command)
		}
		operations[c.operation]++
		if got, ok := c.operation.Command(); ok && got != c.command && c.command != CommandLoginRegisterWithToken {
			t.Errorf("operation %d means %s, want %s", c.operation, got, c.name)
		}
		wantPlane := PlaneLocal
		switch {
		case c.operation.IsMetadata():
			wantPlane = PlaneMetadata
		case c.operation.IsPartition():
			wantPlane = PlanePartition
		case c.operation != OperationNonReplicated:
			wantPlane = PlaneSession
		case c.command == CommandLegacyLogin || c.command == CommandLegacyTokenLogin:
			wantPlane = PlaneNone
		}
		if c.command.Plane() != wantPlane {
			t.Errorf("%s is of plane %d, want %d", c.name, c.command.Plane(), wantPlane)
		}
	}
	for i := range 256 {
		o := Operation(i)
		if (o.IsMetadata() || o.IsPartition()) && operations[o] != 1 {
			t.Errorf("operation %d has %d commands", i, operations[o])
		}
	}
	if Command(60000).Known() || Command(60000).Operation() != OperationNonReplicated || Command(60000).Plane() != PlaneNone {
		t.Error("an unknown command is sent as non-replicated, and nobody answers it")
	}
}

func TestHeadersIgnoreReservedBytes(t *testing.T) {
	b := bytes.Repeat([]byte{0xff}, HeaderSize)
	b[offCommand] = byte(FrameRequest)
	h, err := DecodeRequestHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	if h.Operation.Known() || h.Command != 0 {
		t.Errorf("operation %d with command %d", h.Operation, h.Command)
	}
	b[176] = byte(OperationNonReplicated)
	if h, err = DecodeRequestHeader(b); err != nil || h.Command != 0xffffffff {
		t.Errorf("command %d, %v", h.Command, err)
	}
	clean := h.Append(nil)
	if !allZero(clean[:offSize]) || !allZero(clean[offReplica:offKind]) || !allZero(clean[200:]) || !allZero(clean[177:184]) {
		t.Errorf("reserved bytes were kept: %x", clean)
	}
}

func TestHeadersRefuse(t *testing.T) {
	short := make([]byte, HeaderSize-1)
	request := (&RequestHeader{Size: HeaderSize}).Append(nil)
	small := (&RequestHeader{Size: HeaderSize - 1}).Append(nil)
	for name, decode := range map[string]func([]byte) error{
		"request":  func(b []byte) error { _, err := DecodeRequestHeader(b); return err },
		"reply":    func(b []byte) error { _, err := DecodeReplyHeader(b); return err },
		"eviction": func(b []byte) error { _, err := DecodeEvictionHeader(b); return err },
	} {
		if err := decode(short); !errors.Is(err, ErrHeader) {
			t.Errorf("%s header of 255 bytes: %v", name, err)
		}
		if err := decode(small); !errors.Is(err, ErrHeader) {
			t.Errorf("%s header with a size of 255: %v", name, err)
		}
		if err := decode(request); (err == nil) != (name == "request") {
			t.Errorf("%s header of a request: %v", name, err)
		}
	}
}

// TestHeaderBytes pins the frames of a sign-in, of a ping and of their replies.
func TestHeaderBytes(t *testing.T) {
	client := galgo.ClientID(unhex(t, "0102030405060708090a0b0c0d0e0f10"))
	register := RegisterRequest{
		Client:   ClientVersion{VersionCurrent, "go-sdk", "0.9.0-edge.4"},
		Password: &PasswordLogin{Username: "iggy", Password: "iggy"},
	}.Append(nil)
	diff(t, "sign-in body", register, unhex(t, `002c0000 06676f2d73646b 0c302e392e302d656467652e34 0469676779 0469676779 00000000`))
	h := RequestHeader{Client: client, Operation: OperationRegister, RequestChecksum: RequestChecksum(register)}
	frame := h.AppendFrame(nil, register)
	want := make([]byte, HeaderSize)
	copy(want[48:], unhex(t, "2601"))
	want[60] = 5
	copy(want[128:], client[:])
	copy(want[144:], unhex(t, "46feb62eb4fe3d1e"))
	want[176] = 1
	diff(t, "sign-in", frame, append(want, register...))
	if !h.ChecksumMatches(register) || h.ChecksumMatches(register[1:]) {
		t.Error("the checksum must match its body and no other")
	}
	if none := (RequestHeader{}); !none.ChecksumMatches(register) {
		t.Error("a checksum that was not stamped must match")
	}

	reply := ReplyTo(&RequestHeader{Operation: OperationRegister}, galgo.CodeOK)
	body := RegisterReply{0, 7, VersionCurrent, "0.9.0-edge.5"}.Append(AppendResultOK(nil))
	diff(t, "sign-in reply body", body, unhex(t, `00000000 00000000 0700000000000000 002c0000 0c302e392e302d656467652e35`))
	frame = reply.AppendFrame(nil, body)
	if len(frame) != 289 || frame[48] != 0x21 || frame[49] != 1 || frame[60] != 8 || frame[208] != 1 {
		t.Errorf("sign-in reply of %d bytes: %x", len(frame), frame[:HeaderSize])
	}

	ping := RequestHeader{Client: client, Operation: OperationNonReplicated, Command: CommandPing, Session: 7, Request: 1}
	frame = ping.AppendFrame(nil, nil)
	want = make([]byte, HeaderSize)
	want[49], want[60], want[168], want[176], want[184], want[196] = 1, 5, 1, 2, 7, 1
	copy(want[128:], client[:])
	diff(t, "ping", frame, want)
}

func TestReplyTo(t *testing.T) {
	request := RequestHeader{Client: galgo.ClientID{1}, Request: 9, Operation: OperationDeleteSegments, Timestamp: 3, RequestChecksum: [16]byte{4}}
	for status, operation := range map[galgo.Code]Operation{galgo.CodeOK: OperationTruncatePartition, galgo.CodeUnauthorized: OperationDeleteSegments} {
		got := ReplyTo(&request, status)
		want := ReplyHeader{Client: galgo.ClientID{1}, Request: 9, Operation: operation, Timestamp: 3, RequestChecksum: [16]byte{4}, Status: status}
		if got != want {
			t.Errorf("reply with status %d: %+v, want %+v", status, got, want)
		}
	}
}

// TestRefusalBytes pins rejections, denials and evictions.
func TestRefusalBytes(t *testing.T) {
	diff(t, "rejection", AppendResultError(nil, galgo.CodeTopicIDNotFound), unhex(t, "01000000 00000000 da070000"))
	denial := ReplyTo(&RequestHeader{Request: 3, Operation: OperationCreateTopic}, galgo.CodeUnauthorized)
	want := make([]byte, HeaderSize)
	want[49], want[60], want[200], want[208], want[216] = 1, 8, 3, 132, 0x29
	diff(t, "denial", denial.AppendFrame(nil, nil), want)

	e := Eviction(galgo.ClientID{7}, EvictionIncompatibleProtocol)
	want = make([]byte, HeaderSize)
	want[49], want[60], want[128], want[145], want[149], want[255] = 1, 0x0d, 7, 0x2c, 0x2c, 0x0e
	diff(t, "eviction", e.Append(nil), want)
	e = Eviction(galgo.ClientID{7}, EvictionNoSession)
	want[145], want[149], want[255] = 0, 0, 1
	diff(t, "eviction", e.Append(nil), want)

	diff(t, "empty poll", PollPrefix{3, 9, 0}.Append(nil), unhex(t, "03000000 0900000000000000 00000000"))
	diff(t, "fenced poll", PollPrefix{PartitionID: PollPartitionResync}.Append(nil), unhex(t, "ffffffff 000000000000000000000000"))
	diff(t, "sync", GroupAssignment{2, []uint32{0, 2}}.Append(nil), unhex(t, "0200000000000000 02000000 00000000 02000000"))
	var put [PollPrefixSize]byte
	PollPrefix{3, 9, 1}.Put(put[:])
	diff(t, "prefix", put[:], PollPrefix{3, 9, 1}.Append(nil))
}

func TestSplitResult(t *testing.T) {
	for _, c := range []struct {
		name, body string
		code       galgo.Code
		payload    string
		bad        bool
	}{
		{name: "success", body: "00000000"},
		{name: "success with payload", body: "00000000 0102", payload: "0102"},
		{name: "rejection", body: "01000000 00000000 f4030000", code: galgo.CodeStreamNameAlreadyExists},
		{name: "the first of two counts", body: "02000000 00000000 f4030000 01000000 da070000", code: galgo.CodeStreamNameAlreadyExists},
		{name: "empty", body: "", bad: true},
		{name: "cut in the count", body: "000000", bad: true},
		{name: "cut in the entry", body: "01000000 00000000", bad: true},
		{name: "count without entries", body: "ffffffff 00000000 f4030000", bad: true},
		{name: "rejection with success", body: "01000000 00000000 00000000", bad: true},
	} {
		code, payload, err := SplitResult(unhex(t, c.body))
		if c.bad {
			if !errors.Is(err, ErrUndecodable) {
				t.Errorf("%s: %v, want ErrUndecodable", c.name, err)
			}
			continue
		}
		if err != nil || code != c.code || hex.EncodeToString(payload) != c.payload {
			t.Errorf("%s: %s, %x, %v, want %s, %s", c.name, code, payload, err, c.code, c.payload)
		}
	}
}

func TestParseReplyRefuses(t *testing.T) {
	reply := func(h ReplyHeader, body string) []byte { return h.AppendFrame(nil, unhex(t, body)) }
	cut := reply(ReplyHeader{Operation: OperationNonReplicated}, "0102")
	request := (&RequestHeader{Operation: OperationNonReplicated}).AppendFrame(nil, nil)
	for name, c := range map[string]struct {
		frame []byte
		code  galgo.Code
	}{
		"too short":           {cut[:255], galgo.CodeEmptyResponse},
		"not a reply":         {request, galgo.CodeInvalidCommand},
		"longer than read":    {cut[:257], galgo.CodeInvalidCommand},
		"unknown operation":   {reply(ReplyHeader{Operation: 200}, ""), galgo.CodeInvalidCommand},
		"operation zero":      {reply(ReplyHeader{}, ""), galgo.CodeInvalidCommand},
		"status":              {reply(ReplyHeader{Operation: 200, Status: 41}, ""), galgo.CodeUnauthorized},
		"unknown status":      {reply(ReplyHeader{Operation: 2, Status: 999_999}, ""), galgo.CodeError},
		"no result section":   {reply(ReplyHeader{Operation: OperationCreateStream}, ""), galgo.CodeInvalidCommand},
		"rejection":           {reply(ReplyHeader{Operation: OperationCreateStream}, "01000000 00000000 f4030000"), galgo.CodeStreamNameAlreadyExists},
		"unknown rejection":   {reply(ReplyHeader{Operation: OperationCreateStream}, "01000000 00000000 ffffff00"), galgo.CodeError},
		"transient rejection": {reply(ReplyHeader{Operation: OperationStoreConsumerOffset}, "01000000 00000000 3a000000"), galgo.CodeTransientNotAccepted},
	} {
		_, _, err := ParseReply(c.frame)
		if code, ok := galgo.CodeOf(err); !ok || code != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	h, payload, err := ParseReply(append(cut, 0xff))
	if err != nil || h.Operation != OperationNonReplicated || !bytes.Equal(payload, []byte{1, 2}) {
		t.Errorf("bytes behind the frame: %v, payload %x", err, payload)
	}
	if _, payload, err := ParseReply(reply(ReplyHeader{Operation: OperationRegister}, "")); err != nil || len(payload) != 0 {
		t.Errorf("an empty sign-in reply is left to its decoder: %v", err)
	}
}
