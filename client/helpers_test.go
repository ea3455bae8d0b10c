package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"galgo"
	"galgo/client/clienttest"
	"galgo/internal/wire"
)

var (
	orders = galgo.NamedID("orders")
	events = galgo.NamedID("events")
	worker = galgo.Consumer{Kind: galgo.ConsumerSingle, ID: galgo.NumericID(1)}
)

// bubble runs a test in virtual time with a scripted server and a client of it. A
// goroutine that either leaves behind fails the test.
func bubble(t *testing.T, test func(t *testing.T, s *clienttest.Server, c *Client), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := clienttest.New()
		defer s.Close()
		c := dial(t, s, opts...)
		defer c.Close()
		test(t, s, c)
	})
}

func dial(t *testing.T, s *clienttest.Server, opts ...Option) *Client {
	t.Helper()
	opts = append([]Option{WithDialer(s.Dial), WithPassword("iggy", "iggy"), WithHeartbeat(0)}, opts...)
	c, err := Dial(t.Context(), "server:8090", opts...)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	return c
}

func wantCode(t *testing.T, err error, code galgo.Code, outcome Outcome) {
	t.Helper()
	if !errors.Is(err, &galgo.Error{Code: code}) || OutcomeOf(err) != outcome {
		t.Fatalf("error %v with outcome %v, want code %v with outcome %v", err, OutcomeOf(err), code, outcome)
	}
}

func wantErr(t *testing.T, err, target error, outcome Outcome) {
	t.Helper()
	if !errors.Is(err, target) || OutcomeOf(err) != outcome {
		t.Fatalf("error %v with outcome %v, want %v with outcome %v", err, OutcomeOf(err), target, outcome)
	}
}

// sameBytes checks that requests repeat each other but for the session.
func sameBytes(t *testing.T, requests []clienttest.Request, times int) {
	t.Helper()
	if len(requests) != times {
		t.Fatalf("sent %d times, want %d", len(requests), times)
	}
	for _, r := range requests[1:] {
		first := requests[0]
		if r.Request != first.Request || r.RequestChecksum != first.RequestChecksum || string(r.Body) != string(first.Body) || r.Client != first.Client {
			t.Fatalf("repeated as %+v, want number %d, checksum, client and body of the first", r.RequestHeader, first.Request)
		}
	}
}

func message(payload string) galgo.Message {
	return galgo.Message{ID: galgo.MessageID{1}, Timestamp: 1, Payload: []byte(payload)}
}

// log is a partition as a galgo server keeps it: a numbered send is stored once,
// and the last 64 of a client are remembered.
type log struct {
	payloads []string
	ring     []uint64
	bases    map[uint64]uint64
	floor    uint64
}

const ringSize = 64 // of the server's producer table

func (l *log) store(r *clienttest.Request) clienttest.Answer {
	send, err := wire.DecodeSendMessagesRequest(r.Body)
	if err != nil || send.CheckBatch() != nil {
		return clienttest.Deny(galgo.CodeInvalidFormat)
	}
	if r.RequestChecksum == [16]byte{} {
		return clienttest.Deny(galgo.CodeInvalidCommand) // not numbered: galgo's client must
	}
	base, known := l.bases[r.Request]
	switch {
	case known:
	case r.Request <= l.floor:
		return clienttest.Deny(galgo.CodeRequestAlreadyApplied)
	default:
		base = uint64(len(l.payloads))
		l.remember(r.Request, base)
		for it := send.Batch.Frames(); it.Next(); {
			l.payloads = append(l.payloads, string(it.Frame().Payload()))
		}
	}
	return clienttest.OK(wire.AppendSendConfirmations(nil, wire.SendConfirmation{PartitionID: send.Partitioning.PartitionID, BaseOffset: base}))
}

func (l *log) remember(number, base uint64) {
	if l.bases == nil {
		l.bases = make(map[uint64]uint64)
	}
	if len(l.ring) == ringSize {
		l.floor = max(l.floor, l.ring[0])
		delete(l.bases, l.ring[0])
		l.ring = l.ring[1:]
	}
	l.ring = append(l.ring, number)
	l.bases[number] = base
}

// poll makes the reply to a poll that returns payloads from base on.
func poll(base uint64, payloads ...string) []byte {
	body := wire.PollPrefix{PartitionID: 0, CurrentOffset: base + uint64(max(len(payloads), 1)) - 1, Count: uint32(len(payloads))}.Append(nil)
	if len(payloads) == 0 {
		return body
	}
	messages := make([]galgo.Message, len(payloads))
	for i, p := range payloads {
		messages[i] = message(p)
	}
	start := len(body)
	body, err := wire.AppendBatch(body, messages)
	if err != nil {
		panic(err)
	}
	wire.Batch(body[start:]).Stamp(0, base, 1)
	return body
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 1000 {
		synctest.Wait()
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond) // virtual: the bubble's clock
	}
	t.Fatalf("%s did not come about within 10 s", what)
}

func background() context.Context { return context.Background() }
