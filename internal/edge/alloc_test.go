package edge

import (
	"io"
	"testing"

	"galgo"
	"galgo/internal/wire"
)

// exchange writes a frame and reads the answer without allocating.
func exchange(t *testing.T, p *peer, frame, answer []byte) {
	if _, err := p.conn.Write(frame); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(p.conn, answer); err != nil {
		t.Fatal(err)
	}
	if code := le.Uint32(answer[216:]); answer[60] != 8 || code != 0 {
		t.Fatalf("answer of kind %d, status %d", answer[60], code)
	}
}

// A send costs a number of allocations that does not depend on its messages, and
// so does a poll.
func TestAllocationsDoNotGrowWithMessages(t *testing.T) {
	r := newRig(t)
	p := r.signedIn()
	p.makeTopic(1)
	r.node.onSend = func(_ SendRequest, done func(SendReply)) bool {
		done(SendReply{})
		return true
	}
	sends := func(messages int) float64 {
		h := p.header(wire.OperationSendMessages)
		frame := h.AppendFrame(nil, sendBody(t, s0, t0, galgo.ToPartition(0), make([]string, messages)...))
		answer := make([]byte, wire.HeaderSize+24)
		return testing.AllocsPerRun(50, func() { exchange(t, p, frame, answer) })
	}
	one, many := sends(1), sends(1000)
	t.Logf("allocations of a send: %v with 1 message, %v with 1000", one, many)
	// Not quite the same: a body that the read buffer does not hold is read under a
	// deadline, for which a pipe (not a socket) allocates, and the race detector
	// makes pools forget.
	if many > one+8 || one > 20 {
		t.Errorf("a send allocates %v times with 1 message and %v times with 1000, want about the same and at most 20", one, many)
	}
	r.node.onSend = nil
	for range 10 {
		p.sendTo(0, make([]string, 100)...)
	}
	polls := func(messages uint32) float64 {
		h := p.commandHeader(wire.CommandPollMessages)
		frame := h.AppendFrame(nil, pollBody(0, galgo.FromFirst(), messages, false))
		answer := p.ask(h, frame[wire.HeaderSize:])
		return testing.AllocsPerRun(50, func() { exchange(t, p, frame, answer) })
	}
	one, many = polls(1), polls(1000)
	t.Logf("allocations of a poll: %v of 1 message, %v of 1000 in 10 batches", one, many)
	if many > one+8 || one > 20 {
		t.Errorf("a poll allocates %v times for 1 message and %v times for 1000, want about the same and at most 20", one, many)
	}
}
