package client

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"galgo"
	"galgo/client/clienttest"
	"galgo/internal/wire"
)

func TestSignInCarriesTheCredentials(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		r := s.Requests(wire.CommandLoginRegister)[0]
		login, err := wire.DecodeRegisterRequest(r.Body)
		if err != nil || login.Password == nil || login.Password.Username != "iggy" || login.Password.Password != "iggy" {
			t.Fatalf("sign-in %+v, %v, want the password of iggy", login, err)
		}
		if login.Client.Protocol != wire.VersionCurrent || r.Client != c.ID() || r.Client.IsZero() || r.Session != 0 || r.Request != 0 || !r.ChecksumMatches(r.Body) {
			t.Fatalf("header %+v with protocol %v", r.RequestHeader, login.Client.Protocol)
		}
	})
}

func TestSignInWithToken(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		login, err := wire.DecodeRegisterRequest(s.Requests(wire.CommandLoginRegister)[0].Body)
		if err != nil || login.Token == nil || login.Token.Token != "secret" {
			t.Fatalf("sign-in %+v, %v, want the token", login, err)
		}
	}, WithToken("secret"))
}

func TestSignInRefused(t *testing.T) {
	cases := []struct {
		name   string
		answer clienttest.Answer
		code   galgo.Code
	}{
		{"wrong password", clienttest.Evict(wire.EvictionInvalidCredentials), galgo.CodeInvalidCredentials},
		{"wrong token", clienttest.Evict(wire.EvictionInvalidToken), galgo.CodeInvalidPersonalAccessToken},
		{"other protocol", clienttest.Evict(wire.EvictionIncompatibleProtocol), galgo.CodeIncompatibleProtocolVersion},
		{"client id of another user", clienttest.Evict(wire.EvictionSessionError), galgo.CodeUnauthenticated},
		{"damaged", clienttest.Deny(galgo.CodeInvalidFormat), galgo.CodeInvalidFormat},
		{"rejected", clienttest.Reject(galgo.CodeUnauthorized), galgo.CodeUnauthorized},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := clienttest.New()
				defer s.Close()
				s.Script(wire.CommandLoginRegister, tc.answer)
				_, err := Dial(t.Context(), "server", WithDialer(s.Dial), WithPassword("iggy", "wrong"))
				wantCode(t, err, tc.code, NotApplied)
				if n := s.Links(); n != 1 {
					t.Fatalf("%d connections, want 1: it is of no use to try again", n)
				}
			})
		})
	}
}

func TestSignInIsRepeatedWhileTheServerAsksForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := clienttest.New()
		defer s.Close()
		s.Script(wire.CommandLoginRegister, clienttest.Reject(galgo.CodeTransientNotAccepted), clienttest.Reject(galgo.CodeTransientNotCommitted), clienttest.OK(nil))
		start := time.Now()
		c := dial(t, s)
		defer c.Close()
		sameBytes(t, s.Requests(wire.CommandLoginRegister), 3)
		if took := time.Since(start); took != 2*loginRetryDelay || s.Links() != 1 {
			t.Fatalf("signed in after %v over %d connections, want %v over 1", took, s.Links(), 2*loginRetryDelay)
		}
	})
}

func TestSignInIsBoundedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := clienttest.New()
		defer s.Close()
		s.Script(wire.CommandLoginRegister, clienttest.Silence())
		start := time.Now()
		_, err := Dial(t.Context(), "server", WithDialer(s.Dial), WithPassword("iggy", "iggy"), WithConnectTimeout(3*time.Second))
		wantErr(t, err, context.DeadlineExceeded, NotApplied)
		if took := time.Since(start); took != 3*time.Second {
			t.Fatalf("gave up after %v, want 3s", took)
		}
	})
}

func TestDialTriesEveryAddressOnce(t *testing.T) {
	var tried []string
	down := errors.New("down")
	_, err := Dial(background(), "a", WithAddresses("b", "c"), WithDialer(func(_ context.Context, addr string) (net.Conn, error) {
		tried = append(tried, addr)
		return nil, down
	}))
	if !errors.Is(err, down) || !errors.Is(err, ErrDisconnected) || len(tried) != 3 {
		t.Fatalf("tried %v, error %v, want a, b and c, and that they are down", tried, err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	cases := map[string]Option{
		"no slot":        WithMaxInFlight(0),
		"too many slots": WithMaxInFlight(InFlightMax + 1),
		"no budget":      WithRetryBudget(0),
		"short user":     WithPassword("ab", "secret"),
		"no password":    WithPassword("iggy", ""),
		"tiny frame":     WithFrameMax(255),
		"negative pings": WithHeartbeat(-1),
		"no name":        WithName("", "1"),
	}
	for name, opt := range cases {
		if _, err := Dial(background(), "x", opt, WithDialer(nil)); !refused(err, galgo.CodeInvalidConfiguration) {
			t.Errorf("%s: error %v, want CodeInvalidConfiguration", name, err)
		}
	}
}

func TestReconnectKeepsTheClientID(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.HangUp()
		if err := c.Ping(t.Context()); err != nil {
			t.Fatalf("ping over a new connection: %v", err)
		}
		logins := s.Requests(wire.CommandLoginRegister)
		if len(logins) != 2 || logins[0].Client != logins[1].Client {
			t.Fatalf("%d sign-ins, want 2 under one client id", len(logins))
		}
		if p := s.Requests(wire.CommandPing); p[len(p)-1].Session != 2 {
			t.Fatalf("ping carries session %d, want that of the new sign-in, 2", p[len(p)-1].Session)
		}
	})
}

func TestReconnectBacksOff(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		attempts := 0
		c.opts.dial = nil // replaced below, before the first reconnect
		c.opts.dial = func(ctx context.Context, addr string) (net.Conn, error) {
			attempts++
			return nil, errors.New("down")
		}
		s.HangUp()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		// 0, 20 ms, 40 ms ... 640 ms, then 1 s each; jitter takes half at most.
		if attempts < 12 || attempts > 25 {
			t.Fatalf("%d attempts in 10 s, want 12..25", attempts)
		}
	})
}

func TestAServerThatDropsEverybodyIsNotHammered(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Script(wire.CommandPing, clienttest.HangUp())
		err := c.Ping(t.Context())
		wantErr(t, err, ErrRetryBudget, NotApplied)
		if n := s.Links(); n > 80 {
			t.Fatalf("%d connections in the 30 s of the budget, want at most 80", n)
		}
	})
}

func TestEvictionEndsTheSessionNotTheClient(t *testing.T) {
	for _, reason := range []wire.EvictionReason{wire.EvictionNoSession, wire.EvictionSessionTooLow, wire.EvictionStaleClient} {
		t.Run(reason.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
				s.Script(wire.CommandCreateStream, clienttest.Evict(reason), clienttest.OK(streamReply("orders")))
				if _, err := c.CreateStream(t.Context(), "orders"); err != nil {
					t.Fatalf("create over a new session: %v", err)
				}
				sameBytes(t, s.Requests(wire.CommandCreateStream), 2)
			})
		})
	}
}

func TestEvictionForWhatNoClientSendsIsFinal(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Script(wire.CommandCreateStream, clienttest.Evict(wire.EvictionInvalidRequestOperation))
		_, err := c.CreateStream(t.Context(), "orders")
		wantCode(t, err, galgo.CodeInvalidCommand, Unknown)
		wantCode(t, c.Ping(t.Context()), galgo.CodeInvalidCommand, NotApplied)
		if s.Links() != 1 {
			t.Fatalf("%d connections, want 1", s.Links())
		}
	})
}

func TestRefusedReconnectIsFinal(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Script(wire.CommandLoginRegister, clienttest.Evict(wire.EvictionInvalidCredentials))
		s.HangUp()
		start := time.Now()
		for range 2 {
			err := c.Ping(t.Context())
			wantCode(t, err, galgo.CodeInvalidCredentials, NotApplied)
			if took := time.Since(start); errors.Is(err, ErrRetryBudget) || took > time.Second {
				t.Fatalf("gave up after %v with %v, want at once", took, err)
			}
		}
	})
}

func TestStatusUnauthenticatedSignsInAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Script(wire.CommandGetStreams, clienttest.Deny(galgo.CodeUnauthenticated), clienttest.OK(nil))
		if _, err := c.Streams(t.Context()); err != nil {
			t.Fatalf("list over a new session: %v", err)
		}
		if s.Links() != 2 {
			t.Fatalf("%d connections, want 2", s.Links())
		}
	})
}

func TestWithoutCredentialsOnlyPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := clienttest.New()
		defer s.Close()
		s.Script(wire.CommandGetStreams, clienttest.Deny(galgo.CodeUnauthenticated))
		c, err := Dial(t.Context(), "server", WithDialer(s.Dial))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.Ping(t.Context()); err != nil {
			t.Fatalf("ping: %v", err)
		}
		_, err = c.Streams(t.Context())
		wantCode(t, err, galgo.CodeUnauthenticated, NotApplied)
		if n := len(s.Requests(wire.CommandLoginRegister)); n != 0 {
			t.Fatalf("%d sign-ins, want none", n)
		}
	})
}

func TestHeartbeatWhenIdle(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		time.Sleep(21 * time.Second)
		synctest.Wait()
		if n := len(s.Requests(wire.CommandPing)); n != 4 {
			t.Fatalf("%d pings in 21 s, want 4", n)
		}
	}, WithHeartbeat(5*time.Second))
}

func TestSilentConnectionIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		s.Script(wire.CommandGetStreams, clienttest.Silence(), clienttest.OK(nil))
		start := time.Now()
		if _, err := c.Streams(t.Context()); err != nil {
			t.Fatalf("list over a new connection: %v", err)
		}
		if took := time.Since(start); took < 4*time.Second || took > 6*time.Second || s.Links() != 2 {
			t.Fatalf("took %v over %d connections, want about 4 s over 2", took, s.Links())
		}
	}, WithAnswerTimeout(4*time.Second))
}

func TestUnsolicitedReplyBreaksTheConnection(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		h := wire.ReplyHeader{Request: 4711, Operation: wire.OperationSendMessages}
		s.Push(h.AppendFrame(nil, nil))
		if err := c.Ping(t.Context()); err != nil {
			t.Fatalf("ping over a new connection: %v", err)
		}
		eventually(t, "a second connection", func() bool { return s.Links() == 2 })
	})
}

func TestCloseSignsOutAndEndsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := clienttest.New()
		defer s.Close()
		s.Script(wire.CommandSendMessages, clienttest.Silence())
		c := dial(t, s)
		failed := make(chan error)
		go func() {
			_, err := c.SendMessages(background(), orders, events, galgo.ToPartition(0), []galgo.Message{message("a")})
			failed <- err
		}()
		synctest.Wait()
		go c.Close()
		wantErr(t, <-failed, ErrClosed, Unknown)
		c.Close()
		if n := len(s.Requests(wire.CommandLogout)); n != 1 {
			t.Fatalf("%d sign-outs, want 1", n)
		}
		wantErr(t, c.Ping(background()), ErrClosed, NotApplied)
	})
}

func TestCloseDoesNotWaitForADeadServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := clienttest.New()
		defer s.Close()
		c := dial(t, s)
		s.Refuse(errors.New("down"))
		s.HangUp()
		eventually(t, "the loss of the connection", func() bool { return c.ledger.trouble() != nil })
		start := time.Now()
		c.Close()
		if took := time.Since(start); took != 0 {
			t.Fatalf("close took %v, want no time", took)
		}
	})
}

func TestLargeFramesOnASlowConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs, ours := net.Pipe()
		c, err := Dial(t.Context(), "pipe", WithHeartbeat(0), WithAnswerTimeout(4*time.Second),
			WithDialer(func(context.Context, string) (net.Conn, error) { return theirs, nil }))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		done := make(chan error, 1)
		go func() { _, err := c.sendOne(background(), string(make([]byte, 1<<20))); done <- err }()
		frame := slowRead(t, ours, 1<<20+wire.HeaderSize+wire.BatchHeaderSize, 100<<10)
		h, err := wire.DecodeRequestHeader(frame)
		if err != nil {
			t.Fatal(err)
		}
		rest := make([]byte, int(h.Size)-len(frame))
		if _, err := io.ReadFull(ours, rest); err != nil {
			t.Fatal(err)
		}
		reply := wire.ReplyTo(&h, galgo.CodeOK)
		answer := reply.AppendFrame(nil, wire.AppendSendConfirmations(nil, make([]wire.SendConfirmation, 10)...))
		for n := wire.HeaderSize; len(answer) > 0; n = min(20, len(answer)) {
			if _, err := ours.Write(answer[:n]); err != nil {
				t.Fatalf("the client gave up %d bytes before the end: %v", len(answer), err)
			}
			answer = answer[n:]
			time.Sleep(time.Second)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		ours.Close()
	})
}

// slowRead reads n bytes, so many a second.
func slowRead(t *testing.T, r io.Reader, n, rate int) []byte {
	t.Helper()
	b := make([]byte, n)
	for at := 0; at < n; at += rate {
		if _, err := io.ReadFull(r, b[at:min(at+rate, n)]); err != nil {
			t.Fatalf("the client gave up after %d of %d bytes: %v", at, n, err)
		}
		time.Sleep(time.Second)
	}
	return b
}
