package wire

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"galgo"
)

// codec is a decoder and the encoder that undoes it.
type codec struct {
	name   string
	decode func([]byte) (any, error)
	encode func(any) []byte
	rule   rule
}

// rule says how what is encoded again relates to what was decoded.
type rule int

const (
	exact   rule = iota // the same bytes
	prefix              // the same bytes, but for what was behind the last field
	lenient             // flags and booleans of any value mean the same as 0 or 1
)

func bodyCodec[T Body](name string, decode func([]byte) (T, error), r rule) codec {
	return codec{name, func(b []byte) (any, error) { return decode(b) }, func(v any) []byte { return v.(T).Append(nil) }, r}
}

func listCodec[T any](name string, decode func([]byte) ([]T, error), appendTo func([]byte, []T) []byte) codec {
	return codec{name, func(b []byte) (any, error) { return decode(b) }, func(v any) []byte { return appendTo(nil, v.([]T)) }, exact}
}

var requestCodecs = []codec{
	bodyCodec("register", DecodeRegisterRequest, prefix),
	bodyCodec("snapshot", DecodeGetSnapshotRequest, prefix),
	bodyCodec("step down", DecodeStepDownRequest, exact),
	bodyCodec("describe", DecodeDescribeOptionsRequest, prefix),
	bodyCodec("client", DecodeGetClientRequest, prefix),
	bodyCodec("user", DecodeUserRequest, prefix),
	bodyCodec("create user", DecodeCreateUserRequest, lenient),
	bodyCodec("update user", DecodeUpdateUserRequest, lenient),
	bodyCodec("permissions", DecodeUpdatePermissionsRequest, lenient),
	bodyCodec("password", DecodeChangePasswordRequest, prefix),
	bodyCodec("create token", DecodeCreateTokenRequest, prefix),
	bodyCodec("delete token", DecodeDeleteTokenRequest, prefix),
	bodyCodec("stream", DecodeStreamRequest, prefix),
	bodyCodec("create stream", DecodeCreateStreamRequest, exact),
	bodyCodec("update stream", DecodeUpdateStreamRequest, exact),
	bodyCodec("topic", DecodeTopicRequest, prefix),
	bodyCodec("create topic", DecodeCreateTopicRequest, exact),
	bodyCodec("update topic", DecodeUpdateTopicRequest, exact),
	bodyCodec("partitions", DecodePartitionsRequest, prefix),
	bodyCodec("segments", DecodeDeleteSegmentsRequest, prefix),
	bodyCodec("send", DecodeSendMessagesRequest, exact),
	bodyCodec("poll", DecodePollMessagesRequest, lenient),
	bodyCodec("flush", DecodeFlushRequest, lenient),
	bodyCodec("get offset", DecodeGetOffsetRequest, lenient),
	bodyCodec("store offset", DecodeStoreOffsetRequest, lenient),
	bodyCodec("delete offset", DecodeDeleteOffsetRequest, lenient),
	bodyCodec("group", DecodeGroupRequest, prefix),
	bodyCodec("create group", DecodeCreateGroupRequest, prefix),
}

var replyCodecs = []codec{
	bodyCodec("register", DecodeRegisterReply, exact),
	bodyCodec("stats", DecodeStats, exact),
	bodyCodec("cluster", DecodeClusterMetadata, exact),
	bodyCodec("groups", DecodeNodeGroups, exact),
	bodyCodec("stepped down", DecodeStepDownReply, exact),
	bodyCodec("client", DecodeClientDetails, exact),
	bodyCodec("user", DecodeUserDetails, lenient),
	bodyCodec("token", DecodeCreatedToken, exact),
	bodyCodec("stream", DecodeStreamDetails, exact),
	bodyCodec("topic", DecodeTopicDetails, exact),
	bodyCodec("offset", DecodeConsumerOffset, exact),
	bodyCodec("group", DecodeConsumerGroupDetails, exact),
	bodyCodec("assignment", DecodeGroupAssignment, exact),
	listCodec("options", DecodeOptionDescriptions, AppendOptionDescriptions),
	listCodec("clients", DecodeClients, AppendClients),
	listCodec("users", DecodeUsers, AppendUsers),
	listCodec("tokens", DecodeTokens, AppendTokens),
	listCodec("streams", DecodeStreams, AppendStreams),
	listCodec("topics", DecodeTopics, AppendTopics),
	listCodec("groups", DecodeGroups, AppendGroups),
	listCodec("confirmations", DecodeSendConfirmations, func(b []byte, c []SendConfirmation) []byte { return AppendSendConfirmations(b, c...) }),
	{"permissions", func(b []byte) (any, error) { return DecodePermissions(b) },
		func(v any) []byte { return AppendPermissions(nil, v.(galgo.Permissions)) }, lenient},
	{"user headers", func(b []byte) (any, error) { return DecodeUserHeaders(b) }, encodeHeaders, exact},
	{"options block", func(b []byte) (any, error) { return Options(b).Entries() }, encodeHeaders, exact},
	{"topic options state", decodeState, encodeState, exact},
}

func encodeHeaders(v any) []byte {
	var b []byte
	for _, e := range v.([]galgo.Header) {
		b = appendField(appendField(b, e.Key), e.Value)
	}
	return b
}

type stateAndRest struct {
	options TopicOptions
	rest    []byte
}

func decodeState(b []byte) (any, error) {
	o, rest, err := DecodeTopicOptionsState(b)
	return stateAndRest{o, rest}, err
}

func encodeState(v any) []byte {
	s := v.(stateAndRest)
	return append(s.options.AppendState(nil), s.rest...)
}

// check decodes and, if that succeeds, encodes and decodes again.
func (c *codec) check(t *testing.T, data []byte) {
	v, err := c.decode(data)
	if err != nil {
		if code, ok := galgo.CodeOf(err); !errors.Is(err, ErrUndecodable) || !ok || code != galgo.CodeInvalidCommand {
			t.Fatalf("%s: %x: error of the wrong kind: %v", c.name, data, err)
		}
		return
	}
	again := c.encode(v)
	switch {
	case c.rule == exact && !bytes.Equal(again, data),
		c.rule == prefix && !bytes.HasPrefix(data, again):
		t.Fatalf("%s:\ndecoded %x\nencoded %x\nvalue %+v", c.name, data, again, v)
	}
	v2, err := c.decode(again)
	if err != nil {
		t.Fatalf("%s: encoded %x does not decode: %v", c.name, again, err)
	}
	// A sign-in may also read as a token with the help of bytes behind its end; not
	// every float equals itself. Their bytes are compared above.
	if c.name == "register" || c.name == "stats" {
		return
	}
	if !reflect.DeepEqual(v, v2) {
		t.Fatalf("%s: %x decodes to\n%+v\nand, encoded again, to\n%+v", c.name, data, v, v2)
	}
}

// addBodies seeds a fuzz target with the bodies of all vectors, for every codec.
func addBodies(f *testing.F, file string, codecs []codec) {
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		f.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			f.Fatal(err)
		}
		frame, err := hex.DecodeString(v.Hex)
		if err != nil {
			f.Fatal(err)
		}
		body := frame[HeaderSize:]
		for i := range codecs {
			addIfDecodes(f, codecs, i, body)
			if len(body) > 4 {
				addIfDecodes(f, codecs, i, body[4:]) // without a result section
			}
		}
	}
	o := DefaultTopicOptions()
	f.Add(uint8(len(codecs)-1), o.AppendState(nil))
}

func addIfDecodes(f *testing.F, codecs []codec, i int, body []byte) {
	if _, err := codecs[i].decode(body); err == nil {
		f.Add(uint8(i), body)
	}
}

func FuzzRequests(f *testing.F) {
	addBodies(f, "requests.jsonl", requestCodecs)
	f.Fuzz(func(t *testing.T, index uint8, data []byte) {
		requestCodecs[int(index)%len(requestCodecs)].check(t, data)
	})
}

func FuzzReplies(f *testing.F) {
	addBodies(f, "responses.jsonl", replyCodecs)
	f.Fuzz(func(t *testing.T, index uint8, data []byte) {
		replyCodecs[int(index)%len(replyCodecs)].check(t, data)
	})
}

// FuzzHeaders feeds one header to all decoders of frames. What decodes says the
// same after it was encoded.
func FuzzHeaders(f *testing.F) {
	for _, h := range [][]byte{
		(&RequestHeader{Size: HeaderSize, Operation: OperationNonReplicated, Command: 1}).Append(nil),
		(&ReplyHeader{Size: HeaderSize, Operation: OperationRegister}).Append(nil),
		(&EvictionHeader{Reason: EvictionIncompatibleProtocol}).Append(nil),
	} {
		f.Add(h)
		f.Add(append(h, 0, 0, 0, 0))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := DecodeRequestHeader(b); err == nil {
			if h2, err := DecodeRequestHeader(h.Append(nil)); err != nil || h2 != h {
				t.Fatalf("request %+v becomes %+v, %v", h, h2, err)
			}
		}
		if h, err := DecodeReplyHeader(b); err == nil {
			if h2, err := DecodeReplyHeader(h.Append(nil)); err != nil || h2 != h {
				t.Fatalf("reply %+v becomes %+v, %v", h, h2, err)
			}
		}
		if h, err := DecodeEvictionHeader(b); err == nil {
			if h2, err := DecodeEvictionHeader(h.Append(nil)); err != nil || h2 != h {
				t.Fatalf("eviction %+v becomes %+v, %v", h, h2, err)
			}
		}
		if _, _, err := ParseReply(b); err != nil {
			if _, ok := galgo.CodeOf(err); !ok {
				t.Fatalf("error without a code: %v", err)
			}
		}
		limits := FrameLimits{SizeMax: 1 << 12, Allocate: func(n int) []byte {
			if n > 1<<12 {
				t.Fatalf("allocates %d bytes", n)
			}
			return make([]byte, n)
		}}
		frame, err := ReadFrame(bytes.NewReader(b), make([]byte, HeaderSize), limits)
		if err == nil && !bytes.HasPrefix(b, frame) || err != nil && !errors.Is(err, ErrHeader) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("frame %x, %v", frame, err)
		}
	})
}

// FuzzBatch validates any bytes as a batch and as a poll, and takes apart what is
// valid.
func FuzzBatch(f *testing.F) {
	batch := sampleBatch(f)
	f.Add([]byte(batch), uint16(0), uint16(1))
	f.Add([]byte(batch[:len(batch)-1]), uint16(1), uint16(1))
	poll := PollPrefix{1, 2, 2}.Append(nil)
	f.Add(append(poll, batch...), uint16(0), uint16(2))
	f.Fuzz(func(t *testing.T, data []byte, from, to uint16) {
		if _, err := DecodePolledMessages(data); err != nil && !errors.Is(err, ErrBatch) && !errors.Is(err, ErrUndecodable) {
			t.Fatalf("poll: error of the wrong kind: %v", err)
		}
		if _, _, err := DecodePollPrefix(data); err != nil && !errors.Is(err, ErrUndecodable) {
			t.Fatalf("prefix: error of the wrong kind: %v", err)
		}
		b := Batch(bytes.Clone(data))
		if len(b) >= BatchHeaderSize {
			b.repair()
		}
		checkAnyBatch(t, b, uint32(from), uint32(to))
	})
}

// repair sets length and checksums, so that the fuzzer gets past them.
func (b Batch) repair() {
	le.PutUint64(b[offBatchLength:], uint64(len(b)))
	if b.ValidateLayout() != nil {
		return
	}
	for it := b.Frames(); it.Next(); {
		le.PutUint64(it.Frame(), frameSum(it.Frame()))
	}
	le.PutUint64(b[offBatchChecksum:], b.checksum())
}

func checkAnyBatch(t *testing.T, b Batch, from, to uint32) {
	if err := b.Validate(); err != nil {
		if !errors.Is(err, ErrBatch) || err.Error() == "" {
			t.Fatalf("error of the wrong kind: %v", err)
		}
		return
	}
	messages := AppendMessages(nil, b)
	if uint64(len(messages)) != uint64(b.MessageCount()) {
		t.Fatalf("%d messages, want %d", len(messages), b.MessageCount())
	}
	if first, rest, err := SplitBatch(b); err != nil || len(rest) != 0 || !bytes.Equal(first, b) {
		t.Fatalf("split: %v", err)
	}
	b.Stamp(1, 2, 3)
	if err := b.Validate(); err != nil {
		t.Fatalf("stamped: %v", err)
	}
	from %= b.MessageCount()
	to = from + 1 + to%(b.MessageCount()-from)
	header := make([]byte, BatchHeaderSize)
	sliced := Batch(append(header, b.Slice(from, to, header)...))
	if err := sliced.Validate(); err != nil {
		t.Fatalf("slice %d..%d: %v", from, to, err)
	}
}

// FuzzTopicOptions parses any block as the options of a topic. What is accepted is
// shown in blocks that resolve to the same again.
func FuzzTopicOptions(f *testing.F) {
	o := DefaultTopicOptions()
	f.Add(o.AppendDerived(nil), uint32(1))
	for _, text := range []string{"7 days", "1.5 GiB", "unlimited", "0", "none", "true"} {
		for _, s := range optionSpecs {
			f.Add([]byte(rawBlock(s.key, galgo.StringValue(text))), uint32(3))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, partitions uint32) {
		o, err := ParseTopicOptions(data, partitions)
		if err != nil {
			if _, ok := galgo.CodeOf(err); !ok {
				t.Fatalf("error without a code: %v", err)
			}
			return
		}
		if o.MaxTopicSize < o.SegmentSize || o.SegmentSize%galgo.SegmentSizeUnit != 0 || o.MessageExpiry == 0 {
			t.Fatalf("accepted %+v", o)
		}
		again, err := ParseTopicOptions(o.AppendExplicit(nil), partitions)
		if err != nil || again != o {
			t.Fatalf("shown as %x, resolves to %+v, %v, want %+v", o.AppendExplicit(nil), again, err, o)
		}
		if updated, err := o.Update(data); err == nil {
			state, rest, err := DecodeTopicOptionsState(updated.AppendState(nil))
			if err != nil || len(rest) != 0 || state != updated {
				t.Fatalf("state of %+v is %+v, %v", updated, state, err)
			}
		}
	})
}

// FuzzLogin reads any bytes as credentials.
func FuzzLogin(f *testing.F) {
	f.Add(unhex(f, "002c0000 0161 0162 0469676779 0469676779 00000000"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, rest, err := DecodeClientVersion(data)
		if err != nil {
			return
		}
		password, token := DecodeLogin(rest)
		_, err = DecodeRegisterRequest(data)
		if (err == nil) != (password != nil || token != nil) {
			t.Fatalf("password %v, token %v, %v", password, token, err)
		}
	})
}

// FuzzResult splits any body.
func FuzzResult(f *testing.F) {
	f.Add(AppendResultError(nil, 41))
	f.Add(append(AppendResultOK(nil), 1, 2))
	f.Fuzz(func(t *testing.T, data []byte) {
		code, payload, err := SplitResult(data)
		if err != nil {
			return
		}
		if code == galgo.CodeOK && !bytes.Equal(append(AppendResultOK(nil), payload...), data) {
			t.Fatalf("%x splits into %x", data, payload)
		}
	})
}

// TestFuzzTargetsReachEveryDecoder finds decoders by their names in the sources.
func TestFuzzTargetsReachEveryDecoder(t *testing.T) {
	fuzz, err := os.ReadFile("fuzz_test.go")
	must(t, err)
	files, err := os.ReadDir(".")
	must(t, err)
	found := 0
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		source, err := os.ReadFile(file.Name())
		must(t, err)
		for _, m := range regexp.MustCompile(`(?m)^func (Decode\w+|Split\w+|Parse\w*Reply|ParseTopicOptions|ReadFrame)\(`).FindAllSubmatch(source, -1) {
			found++
			if !bytes.Contains(fuzz, m[1]) {
				t.Errorf("no fuzz target reaches %s of %s", m[1], file.Name())
			}
		}
	}
	if found < 55 {
		t.Errorf("found %d decoders, want at least 55", found)
	}
}

// TestDecodersRefuseHugeCounts: no decoder allocates by a count that the bytes
// behind it cannot hold.
func TestDecodersRefuseHugeCounts(t *testing.T) {
	for _, codecs := range [][]codec{requestCodecs, replyCodecs} {
		for _, c := range codecs {
			huge := bytes.Repeat([]byte{0xff}, 64)
			if n := testing.AllocsPerRun(5, func() { _, _ = c.decode(huge) }); n > 40 {
				t.Errorf("%s allocates %v times for 64 bytes", c.name, n)
			}
		}
	}
	body := le.AppendUint32(nil, math.MaxUint32)
	for _, decode := range []func([]byte) error{
		func(b []byte) error { _, err := DecodeTopics(b); return err },
		func(b []byte) error { _, err := DecodeSendConfirmations(b); return err },
		func(b []byte) error { _, err := DecodeOptionDescriptions(b); return err },
	} {
		if err := decode(body); !errors.Is(err, ErrUndecodable) {
			t.Errorf("a count of 2^32-1: %v", err)
		}
	}
}
