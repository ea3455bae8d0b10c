package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"galgo"
	"galgo/client/clienttest"
	"galgo/internal/wire"
)

func (c *Client) sendOne(ctx context.Context, payload string) (Placement, error) {
	return c.SendMessages(ctx, orders, events, galgo.ToPartition(0), []galgo.Message{message(payload)})
}

func TestSendTellsWhere(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		want := Placement{StreamID: 1, TopicID: 2, PartitionID: 3, BaseOffset: 4}
		s.Script(wire.CommandSendMessages, clienttest.OK(wire.AppendSendConfirmations(nil, wire.SendConfirmation(want))))
		got, err := c.SendMessages(t.Context(), orders, events, galgo.ToPartition(3), []galgo.Message{{Payload: []byte("a")}, {Payload: []byte("b")}})
		if err != nil || got != want {
			t.Fatalf("placed at %+v, %v, want %+v", got, err, want)
		}
		r, err := wire.DecodeSendMessagesRequest(s.Requests(wire.CommandSendMessages)[0].Body)
		if err != nil || r.CheckBatch() != nil || r.MessagesCount != 2 || r.Partitioning.PartitionID != 3 {
			t.Fatalf("request %+v, %v", r, err)
		}
		ids := map[[16]byte]bool{}
		for it := r.Batch.Frames(); it.Next(); {
			ids[it.Frame().ID()] = true
		}
		if len(ids) != 2 || ids[[16]byte{}] || r.Batch.OriginTimestamp() != uint64(time.Now().UnixMicro()) {
			t.Fatalf("ids %v at %d, want two ids that are not zero and the present time", ids, r.Batch.OriginTimestamp())
		}
	})
}

func TestSendLeavesTheCallersMessagesAlone(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Handle(wire.CommandSendMessages, new(log).store)
		messages := []galgo.Message{{Payload: []byte("a")}}
		if _, err := c.SendMessages(t.Context(), orders, events, galgo.ToPartition(0), messages); err != nil {
			t.Fatal(err)
		}
		if messages[0].ID != (galgo.MessageID{}) || messages[0].Timestamp != 0 {
			t.Fatalf("message is now %+v", messages[0])
		}
	})
}

func TestSendWithoutAConfirmation(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		for name, payload := range map[string][]byte{"none": nil, "count 0": {0, 0, 0, 0}, "cut": {1, 0, 0, 0, 9}} {
			s.Script(wire.CommandSendMessages, clienttest.OK(payload))
			if _, err := c.sendOne(t.Context(), "a"); err == nil || OutcomeOf(err) != Applied {
				t.Errorf("%s: error %v with outcome %v, want one that says it was applied", name, err, OutcomeOf(err))
			}
		}
	})
}

func TestLostAnswersOfFiveSends(t *testing.T) {
	for _, committed := range []bool{true, false} {
		t.Run(fmt.Sprintf("committed=%v", committed), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
				var l log
				n := 0
				s.Handle(wire.CommandSendMessages, func(r *clienttest.Request) clienttest.Answer {
					answer := clienttest.Silence()
					if n++; n > 5 {
						return l.store(r)
					}
					if committed {
						l.store(r)
					}
					if n == 5 {
						answer = clienttest.HangUp()
					}
					return answer
				})
				got := make([]uint64, 5)
				errs := make(chan error)
				for i := range got {
					go func() {
						p, err := c.sendOne(background(), fmt.Sprint(i))
						got[i] = p.BaseOffset
						errs <- err
					}()
					synctest.Wait() // so that they go out in this order
				}
				for range got {
					if err := <-errs; err != nil {
						t.Fatal(err)
					}
				}
				if want := []string{"0", "1", "2", "3", "4"}; !slices.Equal(l.payloads, want) {
					t.Fatalf("stored %v, want %v: each once and in order", l.payloads, want)
				}
				if want := []uint64{0, 1, 2, 3, 4}; !slices.Equal(got, want) {
					t.Fatalf("told offsets %v, want those of the first storing, %v", got, want)
				}
			})
		})
	}
}

func TestSendAcrossALostSession(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		var l log
		n := 0
		s.Handle(wire.CommandSendMessages, func(r *clienttest.Request) clienttest.Answer {
			if n++; n == 1 {
				l.store(r)
				return clienttest.HangUp()
			}
			return l.store(r)
		})
		s.Forget()
		if p, err := c.sendOne(t.Context(), "a"); err != nil || p.BaseOffset != 0 || len(l.payloads) != 1 {
			t.Fatalf("offset %d, %v, stored %v: a send does not need the session to be recognised", p.BaseOffset, err, l.payloads)
		}
		sameBytes(t, s.Requests(wire.CommandSendMessages), 2)
	})
}

func TestSendRefusedForTheMoment(t *testing.T) {
	for _, code := range []galgo.Code{galgo.CodeTransientNotCommitted, galgo.CodeTransientNotAccepted} {
		bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
			var l log
			n := 0
			s.Handle(wire.CommandSendMessages, func(r *clienttest.Request) clienttest.Answer {
				if n++; n == 1 {
					return clienttest.Deny(code)
				}
				return l.store(r)
			})
			if _, err := c.sendOne(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			sameBytes(t, s.Requests(wire.CommandSendMessages), 2)
		})
	}
}

func TestSendThatFailsAfterDoubt(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Script(wire.CommandSendMessages, clienttest.HangUp(), clienttest.Deny(galgo.CodeResourceNotFound))
		_, err := c.sendOne(t.Context(), "a")
		wantCode(t, err, galgo.CodeResourceNotFound, Unknown)
	})
}

func TestSendTooLargeForAFrame(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		_, err := c.sendOne(t.Context(), string(make([]byte, 4000)))
		wantCode(t, err, galgo.CodeTooBigMessagePayload, NotApplied)
	}, WithFrameMax(4096))
}

func TestBalancedAndKeyedSends(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Handle(wire.CommandSendMessages, new(log).store)
		s.Script(wire.CommandGetTopic, clienttest.OK(topicReply(3)))
		var got []uint32
		for range 4 {
			p, err := c.SendMessages(t.Context(), orders, events, galgo.Balanced(), []galgo.Message{message("a")})
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, p.PartitionID)
		}
		if want := []uint32{0, 1, 2, 0}; !slices.Equal(got, want) {
			t.Fatalf("balanced over %v, want %v", got, want)
		}
		key := galgo.ByKey([]byte("vec-order-key-1"))
		if p, err := c.SendMessages(t.Context(), orders, events, key, []galgo.Message{message("a")}); err != nil || p.PartitionID != 2 {
			t.Fatalf("key went to partition %d, %v, want 2", p.PartitionID, err)
		}
		if n := len(s.Requests(wire.CommandGetTopic)); n != 1 {
			t.Fatalf("topic read %d times, want once", n)
		}
		time.Sleep(topicFresh + 1)
		s.Script(wire.CommandGetTopic, clienttest.OK(topicReply(0)))
		_, err := c.SendMessages(t.Context(), orders, events, galgo.Balanced(), []galgo.Message{message("a")})
		wantCode(t, err, galgo.CodeNoPartitions, NotApplied)
	})
}

func TestRemovedPartitionIsNoticed(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		var l log
		s.Handle(wire.CommandSendMessages, func(r *clienttest.Request) clienttest.Answer {
			if send, _ := wire.DecodeSendMessagesRequest(r.Body); send.Partitioning.PartitionID > 0 {
				return clienttest.Deny(galgo.CodeResourceNotFound)
			}
			return l.store(r)
		})
		s.Script(wire.CommandGetTopic, clienttest.OK(topicReply(2)), clienttest.OK(topicReply(1)))
		for range 3 {
			if _, err := c.SendMessages(t.Context(), orders, events, galgo.Balanced(), []galgo.Message{message("a")}); err != nil {
				t.Fatal(err)
			}
		}
		_, err := c.SendMessages(t.Context(), orders, events, galgo.ToPartition(1), []galgo.Message{message("a")})
		wantCode(t, err, galgo.CodeResourceNotFound, NotApplied)
	})
}

// TestWindowKeepsSendsRecognisable plays any order in which sends can be stored,
// refused, doubted and repeated, against a server that remembers 64 of them.
func TestWindowKeepsSendsRecognisable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, l := newWindow(), log{}
		var out []uint64 // numbers whose sends have no answer
		stored := map[uint64]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				if n, _ := w.try(); n != 0 {
					out = append(out, n)
				}
			},
			"arrive": func(t *rapid.T) {
				if len(out) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
				n := out[i]
				_, known := l.bases[n]
				switch {
				case known:
				case stored[n]:
					t.Fatalf("send %d was stored and is forgotten: it would be stored again or refused", n)
				case n <= l.floor:
					t.Fatalf("send %d is new and looks too old: forgotten up to %d", n, l.floor)
				default:
					l.remember(n, n)
					stored[n] = true
				}
				if rapid.Bool().Draw(t, "answered") {
					out = slices.Delete(out, i, i+1)
					w.release(n)
				}
			},
			"": func(t *rapid.T) {
				if len(out) > SendsInFlightMax {
					t.Fatalf("%d sends are out, limit %d", len(out), SendsInFlightMax)
				}
			},
		})
	})
}

func TestWindowWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindow()
		for n := range uint64(SendsInFlightMax) {
			if got := w.acquire(t.Context(), nil); got != n+1 {
				t.Fatalf("number %d, want %d", got, n+1)
			}
		}
		w.release(2) // not the lowest: no room
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := w.acquire(ctx, nil); got != 0 {
			t.Fatalf("number %d beyond the window", got)
		}
		got := make(chan uint64)
		go func() { got <- w.acquire(t.Context(), nil) }()
		synctest.Wait()
		w.release(1)
		if n := <-got; n != SendsInFlightMax+1 {
			t.Fatalf("number %d, want %d", n, SendsInFlightMax+1)
		}
	})
}

func TestProducerGathersWhileABatchIsInFlight(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		var l log
		ready := make(chan struct{})
		s.Handle(wire.CommandSendMessages, func(r *clienttest.Request) clienttest.Answer { return l.store(r).After(ready) })
		p, err := c.NewProducer(orders, events, galgo.ToPartition(0), WithBatchMessages(4))
		if err != nil {
			t.Fatal(err)
		}
		var receipts []Receipt
		send := func(payload string) {
			r, err := p.Send(t.Context(), galgo.Message{Payload: []byte(payload)})
			if err != nil {
				t.Fatal(err)
			}
			receipts = append(receipts, r)
		}
		send("0")
		synctest.Wait() // in flight
		for _, payload := range []string{"1", "2", "3", "4"} {
			send(payload)
		}
		full, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Send(full, galgo.Message{Payload: []byte("5")}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("send into a full batch: %v, want that it waits", err)
		}
		if n := len(s.Requests(wire.CommandSendMessages)); n != 1 {
			t.Fatalf("%d batches in flight, want 1", n)
		}
		close(ready)
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, r := range receipts {
			if placed, err := r.Wait(t.Context()); err != nil || placed.BaseOffset != uint64(i) {
				t.Errorf("message %d: offset %d, %v", i, placed.BaseOffset, err)
			}
		}
		if n := len(s.Requests(wire.CommandSendMessages)); n != 2 {
			t.Fatalf("%d batches, want 2", n)
		}
		if _, err := p.Send(t.Context(), galgo.Message{}); !errors.Is(err, ErrProducerClosed) {
			t.Fatalf("send after close: %v", err)
		}
	})
}

func TestProducerKeepsOrderWithSeveralInFlightOverAReconnect(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		var l log
		n := 0
		s.Handle(wire.CommandSendMessages, func(r *clienttest.Request) clienttest.Answer {
			if n++; n%23 == 0 {
				l.store(r)
				return clienttest.HangUp()
			}
			if n%31 == 0 {
				return clienttest.HangUp()
			}
			return l.store(r)
		})
		p, err := c.NewProducer(orders, events, galgo.ToPartition(0), WithBatchMessages(1), WithBatchesInFlight(8))
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for i := range 100 {
			payload := fmt.Sprint(i)
			if _, err := p.Send(t.Context(), galgo.Message{Payload: []byte(payload)}); err != nil {
				t.Fatal(err)
			}
			want = append(want, payload)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(l.payloads, want) {
			t.Fatalf("stored %v, want each once and in order", l.payloads)
		}
	})
}

func TestProducerReportsFailures(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Script(wire.CommandSendMessages, clienttest.Deny(galgo.CodeUnauthorized))
		p, err := c.NewProducer(orders, events, galgo.ToPartition(0))
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Send(t.Context(), message("a"))
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, p.Flush(t.Context()), galgo.CodeUnauthorized, NotApplied)
		_, err = r.Wait(t.Context())
		wantCode(t, err, galgo.CodeUnauthorized, NotApplied)
		if err := p.Close(t.Context()); err != nil {
			t.Fatalf("close reports the failure a second time: %v", err)
		}
	})
}

func TestProducerClosedInAHurry(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Script(wire.CommandSendMessages, clienttest.Silence())
		p, err := c.NewProducer(orders, events, galgo.ToPartition(0))
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Send(t.Context(), message("a"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("close: %v, want that its context ended", err)
		}
		_, err = r.Wait(t.Context())
		wantErr(t, err, context.Canceled, Unknown)
	})
}

// TestWindowAtItsWorst stores a send first and every other that may come between
// before it is repeated: those with lower numbers that were out with it, and all
// higher ones that the window lets out.
func TestWindowAtItsWorst(t *testing.T) {
	w, l := newWindow(), log{}
	take := func() uint64 {
		n, _ := w.try()
		if n == 0 {
			t.Fatal("the window is full too early")
		}
		return n
	}
	store := func(n uint64) { l.remember(n, n); w.release(n) }
	var lower []uint64
	for range SendsInFlightMax - 1 {
		lower = append(lower, take())
	}
	first := take()
	l.remember(first, first) // its answer is lost
	for _, n := range lower {
		store(n)
	}
	for range SendsInFlightMax - 1 {
		store(take())
	}
	if n, _ := w.try(); n != 0 {
		t.Fatalf("number %d is given out while %d waits", n, first)
	}
	if _, known := l.bases[first]; !known {
		t.Fatalf("send %d is forgotten by a server that remembers %d", first, ringSize)
	}
}

// TestFrameIsNotReusedWhileItIsWritten has a server that answers before it has read
// the whole request: the bytes that it reads later must still be those of the
// request, whatever is sent meanwhile.
func TestFrameIsNotReusedWhileItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs, ours := net.Pipe()
		defer ours.Close()
		c, err := Dial(t.Context(), "pipe", WithHeartbeat(0), WithDialer(func(context.Context, string) (net.Conn, error) { return theirs, nil }))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		done := make(chan error, 1)
		send := func(payload string) {
			_, err := c.sendOne(background(), payload)
			done <- err
		}
		go send(strings.Repeat("a", 4000))
		head := make([]byte, wire.HeaderSize)
		if _, err := io.ReadFull(ours, head); err != nil {
			t.Fatal(err)
		}
		h, err := wire.DecodeRequestHeader(head)
		if err != nil {
			t.Fatal(err)
		}
		reply := wire.ReplyTo(&h, galgo.CodeOK)
		if _, err := ours.Write(reply.AppendFrame(nil, wire.AppendSendConfirmations(nil, wire.SendConfirmation{}))); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		go send(strings.Repeat("b", 4000))
		synctest.Wait()
		body := make([]byte, h.Size-wire.HeaderSize)
		if _, err := io.ReadFull(ours, body); err != nil {
			t.Fatal(err)
		}
		if !h.ChecksumMatches(body) {
			t.Fatal("the body does not match the checksum: its memory was used for the next request")
		}
		ours.Close()
		go io.Copy(io.Discard, ours)
		c.ledger.fail(ErrClosed) // there is no server to answer the second
		<-done
	})
}
