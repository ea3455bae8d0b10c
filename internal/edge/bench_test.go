package edge

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"

	"galgo"
	"galgo/internal/transport"
	"galgo/internal/wire"
)

// overTCP serves the rig on a loopback socket and signs a client in.
func overTCP(b *testing.B, r *edgeRig) *peer {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() { r.server.Serve(ctx, transport.ListenTCP(listener, nil)) })
	b.Cleanup(served.Wait)
	b.Cleanup(cancel)
	socket, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { socket.Close() })
	p := r.peerOver(socket)
	p.login("iggy", "iggy")
	return p
}

func thousand(size int) []string {
	payloads := make([]string, 1000)
	for i := range payloads {
		payloads[i] = string(make([]byte, size))
	}
	return payloads
}

// BenchmarkPoll serves 1000 messages of 1 KiB from memory over loopback TCP.
func BenchmarkPoll(b *testing.B) {
	r := newRig(b)
	p := overTCP(b, r)
	p.makeTopic(1)
	p.sendTo(0, thousand(1024)...)
	h := p.commandHeader(wire.CommandPollMessages)
	frame := h.AppendFrame(nil, pollBody(0, galgo.FromFirst(), 1000, false))
	answer := p.ask(h, frame[wire.HeaderSize:])
	b.SetBytes(int64(len(answer)))
	b.ReportAllocs()
	for b.Loop() {
		p.write(frame)
		if _, err := io.ReadFull(p.conn, answer); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSend sends 1000 messages of 1 KiB over loopback TCP to a node that
// answers at once.
func BenchmarkSend(b *testing.B) {
	r := newRig(b)
	r.node.onSend = func(_ SendRequest, done func(SendReply)) bool {
		done(SendReply{})
		return true
	}
	p := overTCP(b, r)
	p.makeTopic(1)
	h := p.header(wire.OperationSendMessages)
	frame := h.AppendFrame(nil, sendBody(b, s0, t0, galgo.ToPartition(0), thousand(1024)...))
	answer := make([]byte, wire.HeaderSize+24)
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		p.write(frame)
		if _, err := io.ReadFull(p.conn, answer); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPing is the round trip of the edge alone.
func BenchmarkPing(b *testing.B) {
	p := overTCP(b, newRig(b))
	h := p.commandHeader(wire.CommandPing)
	frame := h.AppendFrame(nil, nil)
	answer := make([]byte, wire.HeaderSize)
	b.ReportAllocs()
	for b.Loop() {
		p.write(frame)
		if _, err := io.ReadFull(p.conn, answer); err != nil {
			b.Fatal(err)
		}
	}
}
