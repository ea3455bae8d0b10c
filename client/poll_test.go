package client

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"galgo"
	"galgo/client/clienttest"
	"galgo/internal/wire"
)

var fromNext = PollRequest{Consumer: worker, Stream: orders, Topic: events, Strategy: galgo.FromNext(), Count: 10}

func TestPollYieldsMessages(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Script(wire.CommandPollMessages, clienttest.OK(poll(100, "a", "b")), clienttest.OK(poll(0)))
		b, err := c.Poll(t.Context(), fromNext)
		if err != nil || b.Len() != 2 || b.LastOffset() != 101 || b.CurrentOffset != 101 {
			t.Fatalf("batch %+v, %v", b, err)
		}
		var got []string
		var offsets []uint64
		for m := range b.Messages() {
			got, offsets = append(got, string(m.Payload)), append(offsets, m.Offset)
		}
		if !slices.Equal(got, []string{"a", "b"}) || !slices.Equal(offsets, []uint64{100, 101}) || b.Verify() != nil {
			t.Fatalf("messages %v at %v, %v", got, offsets, b.Verify())
		}
		for range b.Messages() {
			break // must not go on
		}
		if b, err := c.Poll(t.Context(), fromNext); err != nil || b.Len() != 0 {
			t.Fatalf("empty poll: %+v, %v", b, err)
		}
	})
}

func TestPollIntoUsesItsMemoryAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Script(wire.CommandPollMessages, clienttest.OK(poll(0, "aaaa")), clienttest.OK(poll(1, "b")))
		var b Batch
		if err := c.PollInto(t.Context(), fromNext, &b); err != nil {
			t.Fatal(err)
		}
		before := &b.buffer[0]
		if err := c.PollInto(t.Context(), fromNext, &b); err != nil || &b.buffer[0] != before {
			t.Fatalf("second poll: %v, in the same memory: %v", err, &b.buffer[0] == before)
		}
		for m := range b.Messages() {
			if string(m.Payload) != "b" {
				t.Fatalf("payload %q, want b", m.Payload)
			}
		}
	})
}

func TestAbandonedPollTakesTheMemoryAway(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		ready := make(chan struct{})
		s.Script(wire.CommandPollMessages, clienttest.OK(poll(0, "aaaa")), clienttest.OK(poll(4, "bbbb")).After(ready))
		var b Batch
		if err := c.PollInto(t.Context(), fromNext, &b); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.PollInto(ctx, fromNext, &b); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if b.Len() != 0 || b.buffer != nil {
			t.Fatalf("the batch still has %d messages in memory that the late answer will overwrite", b.Len())
		}
		close(ready)
	})
}

func TestPollThatIsNotWhatItSays(t *testing.T) {
	good := poll(0, "a", "b")
	count := slices.Clone(good)
	count[12] = 3
	cut := good[:len(good)-1]
	length := slices.Clone(good)
	length[wire.PollPrefixSize+wire.BatchHeaderSize+36] = 0xff
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		for name, payload := range map[string][]byte{"count": count, "cut": cut, "length": length, "empty": nil} {
			s.Script(wire.CommandPollMessages, clienttest.OK(payload))
			b, err := c.Poll(t.Context(), fromNext)
			if !errors.Is(err, ErrProtocol) || b.Len() != 0 {
				t.Errorf("%s: error %v with %d messages, want ErrProtocol", name, err, b.Len())
			}
		}
		flipped := slices.Clone(good)
		flipped[len(flipped)-1] ^= 1
		s.Script(wire.CommandPollMessages, clienttest.OK(flipped))
		b, err := c.Poll(t.Context(), fromNext)
		if err != nil || !errors.Is(b.Verify(), wire.ErrBatch) {
			t.Errorf("flipped payload: %v, verify: %v, want ErrBatch", err, b.Verify())
		}
	})
}

func FuzzBatch(f *testing.F) {
	f.Add(poll(0))
	f.Add(poll(7, "a", "bb"))
	f.Fuzz(func(t *testing.T, payload []byte) {
		var b Batch
		if b.decode(answer{payload: payload}) != nil {
			return
		}
		n, last := 0, uint64(0)
		for m := range b.Messages() {
			n, last = n+1, m.Offset
			_, _ = Headers(m)
		}
		if n != b.Len() || last != b.LastOffset() {
			t.Fatalf("%d messages up to %d, announced %d up to %d", n, last, b.Len(), b.LastOffset())
		}
		_ = b.Verify()
	})
}

func TestMessagesDoNotAllocate(t *testing.T) {
	var b Batch
	if err := b.decode(answer{payload: poll(0, "a", "b", "c")}); err != nil {
		t.Fatal(err)
	}
	sum := 0
	if n := testing.AllocsPerRun(100, func() {
		for m := range b.Messages() {
			sum += len(m.Payload)
		}
	}); n != 0 {
		t.Fatalf("%v allocations for three messages, want none", n)
	}
}

func TestHeadersRoundTrip(t *testing.T) {
	want := galgo.Header{Key: galgo.StringValue("k"), Value: galgo.Uint32Value(7)}
	encoded, err := EncodeHeaders(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Headers(galgo.Message{UserHeaders: encoded})
	if err != nil || len(got) != 1 || got[0].Key.String() != "k" || got[0].Value.String() != "7" {
		t.Fatalf("headers %v, %v", got, err)
	}
}

// shelf serves polls by offset and next from a list, and keeps the offset stored.
type shelf struct {
	payloads []string
	stored   []uint64
}

func (h *shelf) poll(r *clienttest.Request) clienttest.Answer {
	p, err := wire.DecodePollMessagesRequest(r.Body)
	if err != nil {
		return clienttest.Deny(galgo.CodeInvalidCommand)
	}
	from := p.Strategy.Value
	if p.Strategy.Kind == galgo.PollNext && len(h.stored) > 0 {
		from = h.stored[len(h.stored)-1] + 1
	}
	if from >= uint64(len(h.payloads)) {
		return clienttest.OK(poll(0))
	}
	return clienttest.OK(poll(from, h.payloads[from:min(from+uint64(p.Count), uint64(len(h.payloads)))]...))
}

func (h *shelf) store(r *clienttest.Request) clienttest.Answer {
	o, err := wire.DecodeStoreOffsetRequest(r.Body)
	if err != nil || o.Ack != galgo.AckQuorum {
		return clienttest.Deny(galgo.CodeInvalidCommand)
	}
	h.stored = append(h.stored, o.Offset)
	return clienttest.OK(nil)
}

func (h *shelf) install(s *clienttest.Server) {
	s.Handle(wire.CommandPollMessages, h.poll)
	s.Handle(wire.CommandStoreConsumerOffset, h.store)
}

var spec = ConsumerSpec{Consumer: worker, Stream: orders, Topic: events, Count: 2}

func TestConsumerCommitsABatchWhenTheNextIsAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		h := shelf{payloads: []string{"a", "b", "c"}, stored: nil}
		h.install(s)
		k := c.NewConsumer(spec)
		var got []string
		for range 2 {
			b, err := k.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for m := range b.Messages() {
				got = append(got, string(m.Payload))
			}
		}
		if !slices.Equal(got, h.payloads) || !slices.Equal(h.stored, []uint64{1}) {
			t.Fatalf("got %v with offsets %v stored, want all and [1]", got, h.stored)
		}
		if err := k.Commit(t.Context()); err != nil || !slices.Equal(h.stored, []uint64{1, 2}) {
			t.Fatalf("stored %v, %v, want [1 2]", h.stored, err)
		}
		if err := k.Commit(t.Context()); err != nil || len(h.stored) != 2 {
			t.Fatalf("stored %v, %v: nothing new to commit", h.stored, err)
		}
	})
}

func TestConsumerWaits(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		h := shelf{}
		h.install(s)
		k := c.NewConsumer(spec)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := k.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error %v, want that the context ended", err)
		}
		// 1, 2, 4 ... 64 ms, then every 100 ms.
		if n := len(s.Requests(wire.CommandPollMessages)); n < 100 || n > 110 {
			t.Fatalf("%d polls in 10 s, want 100..110", n)
		}
	})
}

func TestConsumerRunStopsAtTheFailedMessage(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		h := shelf{payloads: []string{"a", "b", "c", "d"}}
		h.install(s)
		k := c.NewConsumer(spec)
		bad := errors.New("bad")
		var got []string
		handle := func(_ context.Context, m galgo.Message) error {
			if string(m.Payload) == "d" && len(got) == 3 {
				got = append(got, "failed")
				return bad
			}
			got = append(got, string(m.Payload))
			return nil
		}
		if err := k.Run(t.Context(), handle); !errors.Is(err, bad) {
			t.Fatalf("error %v, want that of the handler", err)
		}
		if last := h.stored[len(h.stored)-1]; last != 2 {
			t.Fatalf("stored %v, want up to 2, the last message handled", h.stored)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { synctest.Wait(); cancel() }()
		if err := k.Run(ctx, handle); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v, want that the context ended", err)
		}
		if want := []string{"a", "b", "c", "failed", "d"}; !slices.Equal(got, want) || h.stored[len(h.stored)-1] != 3 {
			t.Fatalf("handled %v with %v stored, want %v and 3", got, h.stored, want)
		}
	})
}

func TestConsumerFirstMessageFails(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		h := shelf{payloads: []string{"a"}}
		h.install(s)
		bad := errors.New("bad")
		k := c.NewConsumer(spec)
		if err := k.Run(t.Context(), func(context.Context, galgo.Message) error { return bad }); !errors.Is(err, bad) || len(h.stored) != 0 {
			t.Fatalf("error %v, stored %v, want nothing stored", err, h.stored)
		}
	})
}

func TestConsumerCommitsManually(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		h := shelf{payloads: []string{"a", "b", "c"}}
		h.install(s)
		manual := spec
		manual.Commit = CommitManually
		manual.Start = galgo.FromOffset(1)
		k := c.NewConsumer(manual)
		b, err := k.Next(t.Context())
		if err != nil || b.LastOffset() != 2 {
			t.Fatalf("batch %+v, %v", b, err)
		}
		if err := k.CommitOffset(t.Context(), 1); err != nil || !slices.Equal(h.stored, []uint64{1}) {
			t.Fatalf("stored %v, %v", h.stored, err)
		}
	})
}
