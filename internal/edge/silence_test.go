package edge

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"galgo"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// patientRig is a server that lets frames take an hour, and looks for members that are silent.
func patientRig(t *testing.T, interval time.Duration) *edgeRig {
	return newRig(t, func(o *Options) {
		o.HeartbeatInterval, o.WriteTimeout, o.FrameTimeout = interval, time.Hour, time.Hour
		o.Home = metadata.Home{Replica: 1, Life: 7}
	})
}

// wantMember checks that the session is still there, and a member.
func (p *peer) wantMember(when string) {
	p.t.Helper()
	if p.sync() == nil {
		p.t.Errorf("%s: not a member any more", when)
	}
}

// falls waits until the peer is told that it was silent for too long.
func (p *peer) falls(when string, interval time.Duration) {
	p.t.Helper()
	began := time.Now()
	p.wantEviction(p.receive(), wire.EvictionStaleClient)
	if took := time.Since(began); took < interval || took > Silence(interval)+interval {
		p.t.Errorf("%s: told after %v, want some %v", when, took, Silence(interval))
	}
}

// Who takes a long answer slowly is there for as long as it takes; and falls silent after that.
func TestSlowReaderIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 30 * time.Second
		r := patientRig(t, interval)
		defer r.stop()
		p := r.signedIn()
		p.makeGroup(1)
		p.join()
		p.sendTo(0, strings.Repeat("x", 40<<10))
		p.send(p.commandHeader(wire.CommandPollMessages), groupPoll(0, false))
		head := make([]byte, wire.HeaderSize)
		io.ReadFull(p.conn, head)
		for left := int(le.Uint32(head[48:])) - wire.HeaderSize; left > 0; {
			time.Sleep(20 * time.Second)
			n, err := io.ReadFull(p.conn, make([]byte, min(left, 1<<10)))
			if err != nil {
				t.Fatalf("%d bytes before the end: %v", left, err)
			}
			left -= n
		}
		time.Sleep(interval + time.Second) // it is looked at once at least
		p.wantMember("the answer is taken")
		p.falls("nothing more", interval)
	})
}

// Who sends a long frame slowly is there.
func TestSlowSenderIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 30 * time.Second
		r := patientRig(t, interval)
		defer r.stop()
		p := r.signedIn()
		p.makeGroup(1)
		p.join()
		h := p.header(wire.OperationSendMessages)
		frame := h.AppendFrame(nil, sendBody(t, s0, t0, galgo.ToPartition(0), strings.Repeat("x", 40<<10)))
		for len(frame) > 0 {
			time.Sleep(20 * time.Second)
			n := min(len(frame), 1<<10)
			p.write(frame[:n])
			frame = frame[n:]
		}
		p.parsed(p.receive())
		p.wantMember("the frame is sent")
		p.falls("nothing more", interval)
	})
}

// Who waits for this node is there, and falls silent only after it was answered.
func TestWhoIsServedIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = time.Second
		r := patientRig(t, interval)
		defer r.stop()
		p := r.signedIn()
		p.makeGroup(1)
		p.join()
		r.node.onPoll = func(_ PollRequest, done func(PollReply)) bool {
			time.AfterFunc(20*time.Second, func() { done(PollReply{Code: galgo.CodeTransientNotAccepted}) })
			return true
		}
		p.send(p.commandHeader(wire.CommandPollMessages), groupPoll(0, false))
		p.parsed(p.receive())
		p.wantMember("it was answered")
		p.falls("nothing more", interval)
	})
}

// The log knows where the connection of a session is. A session that it counts as gone with
// its node, which is there, is ended: its client signs in again, and is a member again.
func TestSessionsThatTheLogCountsAsGone(t *testing.T) {
	for name, tt := range map[string]struct {
		interval time.Duration
		next     func(p *peer) []byte
	}{
		"it asks for something": {0, func(p *peer) []byte { return p.ask(p.header(wire.OperationJoinConsumerGroup), groupBody()) }},
		"it says nothing":       {30 * time.Second, (*peer).receive},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := patientRig(t, tt.interval)
				defer r.stop()
				p := r.signedIn()
				p.makeGroup(1)
				p.join()
				d, any := r.node.View().DepartureOf(1, 7)
				if !any {
					t.Fatal("the log does not know that a session is here")
				}
				r.node.between(func() { r.node.apply(metadata.Input{Operation: metadata.OperationDepart, Body: d.Encode()}) })
				p.wantEviction(tt.next(p), wire.EvictionStaleClient)
				number := p.number // of which the log knows the ones before
				p.login("iggy", "iggy")
				p.number = number
				p.join()
				p.wantMember("a new login")
			})
		})
	}
}
