package engine

import (
	"testing"

	"galgo"
	"galgo/internal/edge"
)

// gate admits so many writes, and no more.
type gate struct{ left int }

func (g *gate) Admit() bool {
	g.left--
	return g.left >= 0
}

// A write is asked for at its gate just before the log, and refused as not accepted where
// that is shut; one that is known is answered all the same.
func TestWritesPassTheirGate(t *testing.T) {
	c, _, g := topicOf(t)
	shut := &gate{left: 2}
	at := c.leader(g)
	send := func(number uint64) galgo.Code {
		reply := edge.SendReply{Code: unanswered}
		c.nodes[at].engine.Send(edge.SendRequest{
			Group: g, Batch: batchOf("m"), Count: 1, Client: galgo.ClientID{7}, Request: number, Numbered: true, Gate: shut,
		}, func(r edge.SendReply) { reply = r })
		c.until("the send is answered", func() bool { return reply.Code != unanswered })
		return reply.Code
	}
	store := func() galgo.Code {
		reply := edge.OffsetReply{Code: unanswered}
		c.nodes[at].engine.StoreOffset(edge.OffsetRequest{Group: g, Kind: galgo.ConsumerSingle, Key: 1, Client: galgo.ClientID{7}, Gate: shut},
			func(r edge.OffsetReply) { reply = r })
		c.until("the offset is answered", func() bool { return reply.Code != unanswered })
		return reply.Code
	}
	for i, want := range []galgo.Code{galgo.CodeOK, galgo.CodeOK} {
		if got := []func() galgo.Code{func() galgo.Code { return send(1) }, store}[i](); got != want {
			t.Errorf("write %d while the gate is open: code %v", i, got)
		}
	}
	if got := send(2); got != galgo.CodeTransientNotAccepted {
		t.Errorf("a send at a shut gate: code %v", got)
	}
	if got := store(); got != galgo.CodeTransientNotAccepted {
		t.Errorf("an offset at a shut gate: code %v", got)
	}
	if got := send(1); got != galgo.CodeOK {
		t.Errorf("a send that is known: code %v", got)
	}
	c.equal(g, []string{"m"})
}
