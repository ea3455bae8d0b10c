package wire

import (
	"bytes"
	"errors"
	"testing"

	"galgo"
)

func dirty(n int) []byte { return bytes.Repeat([]byte{0xee}, n) }

// TestEncodersOverwriteOldBytes: buffers are used again, and what they held before
// must not reach the wire.
func TestEncodersOverwriteOldBytes(t *testing.T) {
	messages := sampleMessages(t)
	clean := sampleBatch(t)
	again, err := AppendBatch(dirty(len(clean))[:0], messages)
	must(t, err)
	diff(t, "batch", again, clean)

	request := RequestHeader{Size: HeaderSize, Operation: OperationCreateStream, Request: 1}
	reply := ReplyHeader{Size: HeaderSize, Operation: OperationCreateStream}
	eviction := Eviction(galgo.ClientID{1}, EvictionStaleClient)
	for name, c := range map[string]struct {
		put   func([]byte)
		clean []byte
	}{
		"request":  {request.Put, request.Append(nil)},
		"reply":    {reply.Put, reply.Append(nil)},
		"eviction": {eviction.Put, eviction.Append(nil)},
	} {
		b := dirty(HeaderSize)
		c.put(b)
		diff(t, name, b, c.clean)
	}
	diff(t, "appended", request.Append(dirty(HeaderSize)[:0]), request.Append(nil))
}

// TestRecordsOfNothing: a batch without messages is none, and records whose length
// would not get a reader forward are refused.
func TestRecordsOfNothing(t *testing.T) {
	record := func(length uint64, tail int) Batch {
		b := make(Batch, BatchHeaderSize+tail)
		le.PutUint64(b[offBatchLength:], length)
		return b
	}
	empty := record(BatchHeaderSize, 0)
	le.PutUint64(empty[offBatchChecksum:], empty.checksum())
	if err := empty.Validate(); !errors.Is(err, ErrBatch) {
		t.Errorf("batch of no message: %v", err)
	}
	for _, length := range []uint64{0, 1, BatchHeaderSize - 1, BatchHeaderSize + 11, 1 << 63} {
		if _, _, err := SplitBatch(record(length, 10)); !errors.Is(err, ErrBatch) {
			t.Errorf("record of length %d in %d bytes: %v", length, BatchHeaderSize+10, err)
		}
	}
	for tail := range FrameHeaderSize {
		b := record(uint64(BatchHeaderSize+tail), tail)
		le.PutUint32(b[offBatchCount:], 1)
		if err := b.Validate(); !errors.Is(err, ErrBatch) {
			t.Errorf("batch with %d bytes of a frame header: %v", tail, err)
		}
	}
}

// TestCursorStaysFailed: after the first failure nothing is read any more, however
// short it is, and the first reason is the one that is told.
func TestCursorStaysFailed(t *testing.T) {
	c := read("test", []byte{1, 2, 3})
	if c.u32("first") != 0 || c.u8("second") != 0 || c.u16("third") != 0 || c.string8("fourth") != "" || c.rest() != nil {
		t.Error("a cursor reads on after it failed")
	}
	var fault *DecodeError
	if err := c.end(); !errors.As(err, &fault) || fault.Field != "first" {
		t.Errorf("error %v, want one about the first field", err)
	}
}

func TestTopicOptionsStateRefuses(t *testing.T) {
	o, err := ParseTopicOptions(block(t, option("enforce_fsync", galgo.BoolValue(true)), option("max_topic_size", galgo.StringValue("2 GiB"))), 1)
	must(t, err)
	good := o.AppendState(nil)
	change := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] ^= v
		return b
	}
	explicit := func(b Options) []byte { return appendBytes32(bytes.Clone(good[:40]), []byte(b)) }
	for name, b := range map[string][]byte{
		"empty":              nil,
		"cut":                good[:len(good)-1],
		"version 2":          change(0, 3),
		"compression 3":      change(1, 2),
		"a third flag":       change(2, 4),
		"reserved byte":      change(3, 1),
		"keys out of order":  explicit(block(t, option("max_topic_size", galgo.Uint64Value(1)), option("enforce_fsync", galgo.BoolValue(true)))),
		"unknown key":        explicit(block(t, option("unknown", galgo.Uint64Value(1)))),
		"block not in order": explicit(Options{2}),
	} {
		if _, _, err := DecodeTopicOptionsState(b); !errors.Is(err, ErrUndecodable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, rest, err := DecodeTopicOptionsState(good); err != nil || got != o || len(rest) != 0 {
		t.Errorf("good state: %+v, %v", got, err)
	}
}

// TestTopicOptionsStateBytes pins the format: states of old snapshots must decode.
func TestTopicOptionsStateBytes(t *testing.T) {
	o, err := ParseTopicOptions(block(t, option("enforce_fsync", galgo.BoolValue(true)), option("message_expiry", galgo.Uint64Value(1000))), 1)
	must(t, err)
	diff(t, "state", o.AppendState(nil), unhex(t, `
		01 01 01 00 00040000 e803000000000000 ffffffffffffffff 0000004000000000 0000100000000000
		38000000
		020d000000 656e666f7263655f6673796e63 0301000000 01
		020e000000 6d6573736167655f657870697279 0c08000000 e803000000000000`))
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		CommandPing.String(): "ping", Command(7).String(): "command 7", OperationRegister.String(): "register",
		OperationNonReplicated.String(): "non_replicated", OperationLogout.String(): "logout",
		OperationCreateTopic.String(): "topic.create", Operation(99).String(): "operation 99",
		OperationSendMessages.String(): "message.send", EvictionNoSession.String(): "no session",
		EvictionReason(99).String(): "eviction reason 99", TransportWebSocket.String(): "websocket",
		VersionCurrent.String(): "0.11.0",
	} {
		if got != want {
			t.Errorf("shown as %q, want %q", got, want)
		}
	}
	if Semver(0, 9, 0) != 9000 || Semver(1, 2, 3) != 1002003 {
		t.Errorf("semver %d, %d", Semver(0, 9, 0), Semver(1, 2, 3))
	}
}
