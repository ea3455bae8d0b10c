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

func streamReply(name string) []byte {
	return wire.StreamInfo{ID: 3, CreatedAt: 7, Name: name}.Append(nil)
}

func topicReply(partitions uint32) []byte {
	options, err := wire.NewOptions([]galgo.Header{TopicOption(galgo.OptionSegmentSize, galgo.Uint64Value(1<<20))})
	if err != nil {
		panic(err)
	}
	d := wire.TopicDetails{TopicInfo: wire.TopicInfo{
		ID: 5, Name: "events", Compression: galgo.CompressionNone, MessageExpiry: galgo.Never, MaxTopicSize: galgo.Never, Options: options,
	}}
	for id := range partitions {
		d.Partitions = append(d.Partitions, wire.PartitionInfo{ID: id, SegmentsCount: 1})
	}
	return d.Append(nil)
}

func TestCallsRoundTrip(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		ctx := t.Context()
		s.Script(wire.CommandGetStats, clienttest.OK(wire.Stats{MessagesCount: 9, ServerVersion: "v"}.Append(nil)))
		if v, err := c.Stats(ctx); err != nil || v.MessagesCount != 9 || v.ServerVersion != "v" {
			t.Errorf("stats %+v, %v", v, err)
		}
		s.Script(wire.CommandGetClusterMetadata, clienttest.OK(wire.ClusterMetadata{Name: "x", Nodes: []wire.ClusterNode{{Name: "n", TCP: 8090}}}.Append(nil)))
		if v, err := c.ClusterMetadata(ctx); err != nil || v.Name != "x" || len(v.Nodes) != 1 || v.Nodes[0].TCP != 8090 {
			t.Errorf("cluster %+v, %v", v, err)
		}
		s.Script(wire.CommandDescribeOptions, clienttest.OK(wire.AppendOptionDescriptions(nil, wire.DescribeOptions(galgo.ScopeTopic))))
		if v, err := c.DescribeOptions(ctx, galgo.ScopeTopic); err != nil || len(v) != 8 {
			t.Errorf("options %+v, %v", v, err)
		}
		s.Script(wire.CommandGetMe, clienttest.OK(wire.ClientDetails{ClientInfo: wire.ClientInfo{ClientID: 4, Transport: wire.TransportTCP}}.Append(nil)))
		if v, err := c.Me(ctx); err != nil || v.ClientID != 4 {
			t.Errorf("me %+v, %v", v, err)
		}
		s.Script(wire.CommandGetClients, clienttest.OK(wire.AppendClients(nil, []wire.ClientInfo{{ClientID: 1}, {ClientID: 2}})))
		if v, err := c.Clients(ctx); err != nil || len(v) != 2 || v[1].ClientID != 2 {
			t.Errorf("clients %+v, %v", v, err)
		}
		s.Script(wire.CommandGetStreams, clienttest.OK(append(streamReply("a"), streamReply("b")...)))
		if v, err := c.Streams(ctx); err != nil || len(v) != 2 || v[1].Name != "b" {
			t.Errorf("streams %+v, %v", v, err)
		}
		s.Script(wire.CommandGetStream, clienttest.OK(streamReply("a")))
		if v, err := c.Stream(ctx, orders); err != nil || v.ID != 3 || v.CreatedAt != 7 {
			t.Errorf("stream %+v, %v", v, err)
		}
		s.Script(wire.CommandCreateStream, clienttest.OK(streamReply("orders")))
		if v, err := c.CreateStream(ctx, "orders"); err != nil || v.Name != "orders" {
			t.Errorf("create stream %+v, %v", v, err)
		}
		s.Script(wire.CommandGetTopics, clienttest.OK(wire.AppendTopics(nil, []wire.TopicInfo{{ID: 1, Name: "t"}})))
		if v, err := c.Topics(ctx, orders); err != nil || len(v) != 1 || v[0].Name != "t" {
			t.Errorf("topics %+v, %v", v, err)
		}
		for _, command := range []wire.Command{wire.CommandGetTopic, wire.CommandCreateTopic} {
			s.Script(command, clienttest.OK(topicReply(3)))
		}
		if v, err := c.Topic(ctx, orders, events); err != nil || len(v.Partitions) != 3 || v.Partitions[2].ID != 2 {
			t.Errorf("topic %+v, %v", v, err)
		}
		v, err := c.CreateTopic(ctx, orders, TopicSpec{Name: "events", Partitions: 3, Options: []galgo.Header{TopicOption(galgo.OptionSegmentSize, galgo.StringValue("1 MiB"))}})
		if err != nil || v.Name != "events" || len(v.Options) != 1 || v.Options[0].Value.String() != "1048576" {
			t.Errorf("create topic %+v, %v", v, err)
		}
		s.Script(wire.CommandGetConsumerOffset, clienttest.OK(wire.ConsumerOffset{PartitionID: 1, CurrentOffset: 9, StoredOffset: 4}.Append(nil)), clienttest.OK(nil))
		if o, found, err := c.Offset(ctx, worker, orders, events, 1); err != nil || !found || o != (Offset{1, 9, 4}) {
			t.Errorf("offset %+v, %v, %v", o, found, err)
		}
		if _, found, err := c.Offset(ctx, worker, orders, events, 1); err != nil || found {
			t.Errorf("missing offset: found %v, %v", found, err)
		}
	})
}

func TestCommandsWithoutAnAnswer(t *testing.T) {
	calls := map[wire.Command]func(*Client, context.Context) error{
		wire.CommandUpdateStream:     func(c *Client, ctx context.Context) error { return c.UpdateStream(ctx, orders, "x") },
		wire.CommandDeleteStream:     func(c *Client, ctx context.Context) error { return c.DeleteStream(ctx, orders) },
		wire.CommandPurgeStream:      func(c *Client, ctx context.Context) error { return c.PurgeStream(ctx, orders) },
		wire.CommandUpdateTopic:      func(c *Client, ctx context.Context) error { return c.UpdateTopic(ctx, orders, events, "x") },
		wire.CommandDeleteTopic:      func(c *Client, ctx context.Context) error { return c.DeleteTopic(ctx, orders, events) },
		wire.CommandPurgeTopic:       func(c *Client, ctx context.Context) error { return c.PurgeTopic(ctx, orders, events) },
		wire.CommandCreatePartitions: func(c *Client, ctx context.Context) error { return c.CreatePartitions(ctx, orders, events, 2) },
		wire.CommandDeletePartitions: func(c *Client, ctx context.Context) error { return c.DeletePartitions(ctx, orders, events, 2) },
		wire.CommandDeleteSegments:   func(c *Client, ctx context.Context) error { return c.DeleteSegments(ctx, orders, events, 0, 1) },
		wire.CommandStoreConsumerOffset: func(c *Client, ctx context.Context) error {
			return c.StoreOffset(ctx, worker, orders, events, 0, 4)
		},
		wire.CommandDeleteConsumerOffset: func(c *Client, ctx context.Context) error { return c.DeleteOffset(ctx, worker, orders, events, 0) },
		wire.CommandFlushUnsavedBuffer:   func(c *Client, ctx context.Context) error { return c.Flush(ctx, orders, events, 0, true) },
	}
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		for command, call := range calls {
			s.Script(command, clienttest.OK(nil), clienttest.Deny(galgo.CodeUnauthorized))
			if err := call(c, t.Context()); err != nil {
				t.Errorf("%v: %v", command, err)
			}
			if err := call(c, t.Context()); !refused(err, galgo.CodeUnauthorized) {
				t.Errorf("%v: error %v, want CodeUnauthorized", command, err)
			}
			for _, r := range s.Requests(command) {
				if stamped := r.RequestChecksum != [16]byte{}; stamped != (command.Plane() != wire.PlaneLocal) || !r.ChecksumMatches(r.Body) {
					t.Errorf("%v: checksum %x of a body with %x", command, r.RequestChecksum, wire.RequestChecksum(r.Body))
				}
			}
		}
	})
}

func TestMissingThingsHaveTheirCode(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		for _, command := range []wire.Command{wire.CommandGetStream, wire.CommandGetTopic, wire.CommandGetClient} {
			s.Script(command, clienttest.OK(nil))
		}
		_, err := c.Stream(t.Context(), orders)
		wantCode(t, err, galgo.CodeStreamIDNotFound, NotApplied)
		_, err = c.Topic(t.Context(), orders, events)
		wantCode(t, err, galgo.CodeTopicIDNotFound, NotApplied)
		_, err = c.ClientByID(t.Context(), 4)
		wantCode(t, err, galgo.CodeClientNotFound, NotApplied)
	})
}

func TestWhatCannotTravelIsNotSent(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		ctx, none := t.Context(), galgo.Identifier{}
		_, send := c.SendMessages(ctx, none, events, galgo.Balanced(), []galgo.Message{message("a")})
		_, key := c.SendMessages(ctx, orders, events, galgo.ByKey(nil), []galgo.Message{message("a")})
		_, empty := c.SendMessages(ctx, orders, events, galgo.ToPartition(0), nil)
		_, create := c.CreateStream(ctx, "")
		_, polled := c.Poll(ctx, PollRequest{Consumer: worker, Stream: orders, Topic: events})
		for name, err := range map[string]error{"stream": send, "key": key, "no messages": empty, "name": create, "strategy": polled} {
			if _, ok := galgo.CodeOf(err); !ok || OutcomeOf(err) != NotApplied {
				t.Errorf("%s: error %v, want one with a code, not applied", name, err)
			}
		}
	})
}

func TestMetadataOperationsHaveTheirOwnNumbers(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Script(wire.CommandCreateStream, clienttest.OK(streamReply("x")))
		var l log
		s.Handle(wire.CommandSendMessages, l.store)
		for range 3 {
			if _, err := c.CreateStream(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			if err := c.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := c.SendMessages(t.Context(), orders, events, galgo.ToPartition(0), []galgo.Message{message("a")}); err != nil {
				t.Fatal(err)
			}
		}
		for _, command := range []wire.Command{wire.CommandCreateStream, wire.CommandSendMessages} {
			for i, r := range s.Requests(command) {
				if r.Request != uint64(i+1) || r.Session != 1 {
					t.Errorf("%v %d carries number %d and session %d, want %d and 1", command, i, r.Request, r.Session, i+1)
				}
			}
		}
	})
}

func TestOneMetadataOperationAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		ready := make(chan struct{})
		s.Script(wire.CommandCreateStream, clienttest.OK(streamReply("x")).After(ready), clienttest.OK(streamReply("x")))
		done := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := c.CreateStream(background(), "x")
				done <- err
			}()
		}
		synctest.Wait()
		if n := len(s.Requests(wire.CommandCreateStream)); n != 1 {
			t.Fatalf("%d operations sent before the first was answered, want 1", n)
		}
		close(ready)
		for range 2 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestRefusalsThatAskForIt(t *testing.T) {
	open, never := galgo.CodeTransientNotCommitted, galgo.CodeTransientNotAccepted
	for _, code := range []galgo.Code{open, never} {
		for name, refusal := range map[string]clienttest.Answer{"result": clienttest.Reject(code), "status": clienttest.Deny(code)} {
			t.Run(code.String()+" by "+name, func(t *testing.T) {
				bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
					s.Script(wire.CommandCreateStream, refusal, refusal, clienttest.OK(streamReply("x")))
					if _, err := c.CreateStream(t.Context(), "x"); err != nil {
						t.Fatal(err)
					}
					sameBytes(t, s.Requests(wire.CommandCreateStream), 3)
				})
			})
		}
	}
}

func TestRetryBudget(t *testing.T) {
	cases := []struct {
		code    galgo.Code
		outcome Outcome
	}{
		{galgo.CodeTransientNotCommitted, Unknown},
		{galgo.CodeTransientNotAccepted, NotApplied},
	}
	for _, tc := range cases {
		t.Run(tc.code.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
				s.Script(wire.CommandCreateStream, clienttest.Reject(tc.code))
				start := time.Now()
				_, err := c.CreateStream(t.Context(), "x")
				wantErr(t, err, ErrRetryBudget, tc.outcome)
				wantCode(t, err, tc.code, tc.outcome)
				if took := time.Since(start); took != 5*time.Second {
					t.Fatalf("gave up after %v, want 5s", took)
				}
			}, WithRetryBudget(5*time.Second))
		})
	}
}

func TestDoubtOutlivesARefusal(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Script(wire.CommandCreateStream, clienttest.HangUp(), clienttest.Reject(galgo.CodeTransientNotAccepted))
		_, err := c.CreateStream(t.Context(), "x")
		wantCode(t, err, galgo.CodeTransientNotAccepted, Unknown)
	})
}

func TestAbandonedOperationLetsTheNextGo(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Script(wire.CommandCreateStream, clienttest.Silence(), clienttest.OK(streamReply("x")))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.CreateStream(ctx, "x")
		wantErr(t, err, context.DeadlineExceeded, Unknown)
		if _, err := c.CreateStream(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if r := s.Requests(wire.CommandCreateStream); r[1].Request != r[0].Request+1 {
			t.Fatalf("number %d after the abandoned %d, want the next", r[1].Request, r[0].Request)
		}
	})
}

func TestContextEndsRetries(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Script(wire.CommandCreateStream, clienttest.Reject(galgo.CodeTransientNotAccepted))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := c.CreateStream(ctx, "x")
		wantErr(t, err, context.DeadlineExceeded, NotApplied)
	})
}

func TestAlreadyApplied(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Script(wire.CommandCreateStream, clienttest.Reject(galgo.CodeRequestAlreadyApplied))
		_, err := c.CreateStream(t.Context(), "x")
		wantCode(t, err, galgo.CodeRequestAlreadyApplied, Applied)
		s.Script(wire.CommandSendMessages, clienttest.Deny(galgo.CodeRequestAlreadyApplied))
		_, err = c.SendMessages(t.Context(), orders, events, galgo.ToPartition(0), []galgo.Message{message("a")})
		wantCode(t, err, galgo.CodeRequestAlreadyApplied, Unknown)
	})
}

func TestLostAnswerOfAMetadataOperation(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Script(wire.CommandCreateStream, clienttest.HangUp(), clienttest.OK(streamReply("x")))
		if _, err := c.CreateStream(t.Context(), "x"); err != nil {
			t.Fatalf("repeated in the session that the server still knows: %v", err)
		}
		sameBytes(t, s.Requests(wire.CommandCreateStream), 2)
	})
}

func TestLostAnswerAndLostSession(t *testing.T) {
	firsts := map[string]clienttest.Answer{
		"connection lost":     clienttest.HangUp(),
		"outcome open (57)":   clienttest.Reject(galgo.CodeTransientNotCommitted),
		"evicted (NoSession)": clienttest.Evict(wire.EvictionNoSession),
	}
	for name, first := range firsts {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
				s.Script(wire.CommandCreateStream, first, clienttest.HangUp(), clienttest.OK(streamReply("x")))
				s.Forget()
				_, err := c.CreateStream(t.Context(), "x")
				wantErr(t, err, ErrSessionLost, Unknown)
				for _, r := range s.Requests(wire.CommandCreateStream) {
					if r.Session != 1 {
						t.Fatalf("repeated under session %d, where it may run a second time", r.Session)
					}
				}
				s.Script(wire.CommandCreateStream, clienttest.OK(streamReply("x")))
				if _, err := c.CreateStream(t.Context(), "x"); err != nil {
					t.Fatalf("a new operation: %v", err)
				}
			})
		})
	}
}

func TestServerThatDoesNotTellOfSessions(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.TellNothing()
		s.HangUp()
		eventually(t, "a new session", func() bool { return s.Links() == 2 && c.ledger.trouble() == nil })
		s.Script(wire.CommandCreateStream, clienttest.HangUp())
		_, err := c.CreateStream(t.Context(), "x")
		wantErr(t, err, ErrSessionLost, Unknown)
	})
}

func TestNeverAcceptedIsRepeatedUnderANewSession(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		n := 0
		s.Handle(wire.CommandCreateStream, func(r *clienttest.Request) clienttest.Answer {
			if n++; n < 3 {
				return clienttest.Reject(galgo.CodeTransientNotAccepted)
			}
			return clienttest.OK(streamReply("x"))
		})
		done := make(chan error)
		go func() {
			_, err := c.CreateStream(background(), "x")
			done <- err
		}()
		synctest.Wait() // between two rounds
		s.Forget()
		s.HangUp()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestReadsAreRepeatedAndCommittingPollsAreNot(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Script(wire.CommandPollMessages, clienttest.HangUp(), clienttest.OK(poll(0, "a")))
		request := PollRequest{Consumer: worker, Stream: orders, Topic: events, Strategy: galgo.FromNext(), Count: 10}
		if b, err := c.Poll(t.Context(), request); err != nil || b.Len() != 1 {
			t.Fatalf("poll repeated: %v", err)
		}
		s.Script(wire.CommandPollMessages, clienttest.HangUp(), clienttest.OK(poll(0, "a")))
		request.AutoCommit = true
		_, err := c.Poll(t.Context(), request)
		wantErr(t, err, ErrDisconnected, Unknown)
	})
}

func TestRepeatedDeleteOfAnOffset(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Script(wire.CommandDeleteConsumerOffset, clienttest.HangUp(), clienttest.Deny(galgo.CodeConsumerOffsetNotFound))
		if err := c.DeleteOffset(t.Context(), worker, orders, events, 0); err != nil {
			t.Fatalf("deleted by the round whose answer was lost: %v", err)
		}
		err := c.DeleteOffset(t.Context(), worker, orders, events, 0)
		wantCode(t, err, galgo.CodeConsumerOffsetNotFound, NotApplied)
	})
}

func TestAbandonedCallDoesNotDisturbOthers(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		ready := make(chan struct{})
		s.Script(wire.CommandSendMessages, clienttest.OK(wire.AppendSendConfirmations(nil, wire.SendConfirmation{})).After(ready))
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("why")
		done := make(chan error)
		go func() {
			_, err := c.SendMessages(ctx, orders, events, galgo.ToPartition(0), []galgo.Message{message("a")})
			done <- err
		}()
		synctest.Wait()
		cancel(why)
		wantErr(t, <-done, why, Unknown)
		if err := c.Ping(t.Context()); err != nil {
			t.Fatalf("ping beside the abandoned send: %v", err)
		}
		if got := len(c.slots); got != 1 {
			t.Fatalf("%d slots taken, want 1 until the answer comes", got)
		}
		close(ready)
		eventually(t, "the late answer", func() bool { return len(c.slots) == 0 })
		if err := c.Ping(t.Context()); err != nil || s.Links() != 1 {
			t.Fatalf("ping after the late answer: %v over %d connections, want 1", err, s.Links())
		}
	})
}

func TestAbandonedBeforeItWasSent(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Refuse(errors.New("down"))
		s.HangUp()
		eventually(t, "the loss of the connection", func() bool { return c.ledger.trouble() != nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.SendMessages(ctx, orders, events, galgo.ToPartition(0), []galgo.Message{message("a")})
		wantErr(t, err, context.DeadlineExceeded, NotApplied)
		wantErr(t, err, ErrDisconnected, NotApplied)
		s.Refuse(nil)
		if err := c.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(s.Requests(wire.CommandSendMessages)); n != 0 {
			t.Fatalf("the abandoned send went out %d times, want never", n)
		}
	})
}

func TestSlotsBoundCallsInFlight(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		ready := make(chan struct{})
		s.Script(wire.CommandGetStreams, clienttest.OK(nil).After(ready))
		done := make(chan error)
		for range 5 {
			go func() {
				_, err := c.Streams(background())
				done <- err
			}()
		}
		synctest.Wait()
		if n := len(s.Requests(wire.CommandGetStreams)); n != 2 {
			t.Fatalf("%d calls sent, want 2", n)
		}
		close(ready)
		for range 5 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
	}, WithMaxInFlight(2))
}
