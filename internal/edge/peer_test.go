package edge

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"galgo"
	"galgo/internal/auth"
	"galgo/internal/transport"
	"galgo/internal/wire"
)

// pipeListener hands out in-memory connections.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// edgeRig is a server over a fake node.
type edgeRig struct {
	t        testing.TB
	node     *fakeNode
	server   *Server
	listener *pipeListener
	stop     func() // ends Serve and waits for it
	nextID   *atomic.Uint32
}

func newRig(t testing.TB, change ...func(*Options)) *edgeRig {
	t.Helper()
	hasher, err := auth.NewHasher(auth.HasherOptions{Params: cheapParams})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Hasher: hasher, Version: "1.2.3", Logger: slog.New(slog.DiscardHandler), StopGrace: 100 * time.Millisecond}
	for _, f := range change {
		f(&o)
	}
	r := &edgeRig{nextID: new(atomic.Uint32), t: t, node: newFakeNode(t), listener: newPipeListener()}
	r.server = New(o, r.node)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- r.server.Serve(ctx, transport.ListenTCP(r.listener, nil)) }()
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-served; err != nil {
				t.Errorf("serve: %v", err)
			}
		})
	}
	t.Cleanup(r.stop)
	return r
}

// peer is a client that speaks frames.
type peer struct {
	rig     *edgeRig
	t       testing.TB
	conn    net.Conn
	client  galgo.ClientID
	session uint64
	number  uint64
}

// connect opens a connection that is not signed in.
func (r *edgeRig) connect() *peer {
	r.t.Helper()
	server, client := net.Pipe()
	select {
	case r.listener.conns <- server:
	case <-r.listener.closed:
		r.t.Fatal("server is closed")
	}
	r.t.Cleanup(func() { client.Close() })
	return r.peerOver(client)
}

func (r *edgeRig) peerOver(conn net.Conn) *peer {
	return &peer{rig: r, t: r.t, conn: conn, client: clientID(r.nextID.Add(1)), number: 1}
}

func clientID(n uint32) (id galgo.ClientID) {
	binary.LittleEndian.PutUint32(id[:], n)
	id[15] = 0xC1
	return id
}

// signedIn opens a connection and signs in as root.
func (r *edgeRig) signedIn() *peer {
	r.t.Helper()
	p := r.connect()
	p.login("iggy", "iggy")
	return p
}

func (p *peer) login(user, password string) {
	p.t.Helper()
	f := p.ask(registerHeader(p.client), loginBody(user, password))
	_, payload, err := wire.ParseReply(f)
	if err != nil {
		p.t.Fatalf("login of %s: %v", user, err)
	}
	reply, err := wire.DecodeRegisterReply(payload)
	if err != nil {
		p.t.Fatal(err)
	}
	p.session, p.number = reply.Session, 1
}

func registerHeader(client galgo.ClientID) wire.RequestHeader {
	return wire.RequestHeader{Client: client, Operation: wire.OperationRegister}
}

func loginBody(user, password string) []byte {
	return wire.RegisterRequest{
		Client:   wire.ClientVersion{Protocol: wire.VersionCurrent, SDKName: "test-sdk", SDKVersion: "1"},
		Password: &wire.PasswordLogin{Username: user, Password: password},
	}.Append(nil)
}

// write sends raw bytes.
func (p *peer) write(b []byte) {
	p.t.Helper()
	if _, err := p.conn.Write(b); err != nil {
		p.t.Fatalf("write of %d bytes: %v", len(b), err)
	}
}

func (p *peer) send(h wire.RequestHeader, body []byte) {
	p.t.Helper()
	p.write(h.AppendFrame(nil, body))
}

// receive reads one frame.
func (p *peer) receive() []byte {
	p.t.Helper()
	f, err := p.tryReceive()
	if err != nil {
		p.t.Fatalf("receive: %v", err)
	}
	return f
}

func (p *peer) tryReceive() ([]byte, error) {
	head := make([]byte, wire.HeaderSize)
	if _, err := io.ReadFull(p.conn, head); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head[48:])
	if size < wire.HeaderSize {
		return nil, errors.New("frame size below that of a header")
	}
	f := append(head, make([]byte, size-wire.HeaderSize)...)
	_, err := io.ReadFull(p.conn, f[wire.HeaderSize:])
	return f, err
}

func (p *peer) ask(h wire.RequestHeader, body []byte) []byte {
	p.t.Helper()
	p.send(h, body)
	return p.receive()
}

// header is that of an operation as an SDK sends it; metadata operations take a
// number.
func (p *peer) header(o wire.Operation) wire.RequestHeader {
	h := wire.RequestHeader{Client: p.client, Operation: o, Session: p.session, Request: p.number}
	if o.IsMetadata() || o == wire.OperationLogout {
		p.number++
	}
	return h
}

func (p *peer) commandHeader(c wire.Command) wire.RequestHeader {
	h := p.header(wire.OperationNonReplicated)
	h.Command = c
	return h
}

// do runs an operation and returns the payload of a success or the code.
func (p *peer) do(o wire.Operation, body []byte) ([]byte, galgo.Code) {
	p.t.Helper()
	return p.parsed(p.ask(p.header(o), body))
}

func (p *peer) read(c wire.Command, body []byte) ([]byte, galgo.Code) {
	p.t.Helper()
	return p.parsed(p.ask(p.commandHeader(c), body))
}

func (p *peer) parsed(frame []byte) ([]byte, galgo.Code) {
	p.t.Helper()
	_, payload, err := wire.ParseReply(frame)
	if err == nil {
		return payload, galgo.CodeOK
	}
	code, ok := galgo.CodeOf(err)
	if !ok {
		p.t.Fatalf("reply: %v", err)
	}
	return nil, code
}

// must runs an operation that succeeds.
func (p *peer) must(o wire.Operation, body []byte) []byte {
	p.t.Helper()
	payload, code := p.do(o, body)
	if code != galgo.CodeOK {
		p.t.Fatalf("%v: %v", o, code)
	}
	return payload
}

func (p *peer) mustRead(c wire.Command, body []byte) []byte {
	p.t.Helper()
	payload, code := p.read(c, body)
	if code != galgo.CodeOK {
		p.t.Fatalf("%v: %v", c, code)
	}
	return payload
}

// alive checks that the connection answers a ping, and nothing else before.
func (p *peer) alive() {
	p.t.Helper()
	h := p.commandHeader(wire.CommandPing)
	h.Request = 777777
	f := p.ask(h, nil)
	reply, err := wire.DecodeReplyHeader(f)
	if err != nil || reply.Request != h.Request || reply.Status != 0 || len(f) != wire.HeaderSize {
		p.t.Fatalf("ping answered by %+v, %v, %d bytes", reply, err, len(f))
	}
}

// wantClosed checks that the server ends the connection without another word.
func (p *peer) wantClosed() {
	p.t.Helper()
	if f, err := p.tryReceive(); err == nil {
		p.t.Fatalf("got a frame of %d bytes, want the end of the connection", len(f))
	}
}

func (p *peer) wantEviction(f []byte, reason wire.EvictionReason) wire.EvictionHeader {
	p.t.Helper()
	e, err := wire.DecodeEvictionHeader(f)
	if err != nil {
		h, _ := wire.DecodeReplyHeader(f)
		p.t.Fatalf("got reply %+v, want eviction %v", h, reason)
	}
	if e.Reason != reason || len(f) != wire.HeaderSize {
		p.t.Fatalf("got eviction %v in %d bytes, want %v", e.Reason, len(f), reason)
	}
	return e
}

// wantStatus checks a denial: the code in the status, no body.
func (p *peer) wantStatus(f []byte, code galgo.Code) wire.ReplyHeader {
	p.t.Helper()
	h, err := wire.DecodeReplyHeader(f)
	if err != nil {
		p.t.Fatalf("got %v, want a reply with status %v", err, code)
	}
	if h.Status != code || len(f) != wire.HeaderSize {
		p.t.Fatalf("got status %v and %d bytes, want %v and 256", h.Status, len(f), code)
	}
	return h
}

// wantResult checks a rejection in a result section.
func (p *peer) wantResult(f []byte, code galgo.Code) wire.ReplyHeader {
	p.t.Helper()
	h, err := wire.DecodeReplyHeader(f)
	if err != nil {
		p.t.Fatalf("got %v, want a reply with result %v", err, code)
	}
	got, _, err := wire.SplitResult(f[wire.HeaderSize:])
	if h.Status != 0 || err != nil || got != code || len(f) != wire.HeaderSize+12 {
		p.t.Fatalf("got status %v, result %v (%v) and %d bytes, want result %v and 268", h.Status, got, err, len(f), code)
	}
	return h
}

// topicOf makes stream "s" with topic "t" of so many partitions: stream 0, topic 0
// on an empty node.
func (p *peer) makeTopic(partitions uint32) {
	p.t.Helper()
	p.must(wire.OperationCreateStream, wire.CreateStreamRequest{Name: "s"}.Append(nil))
	p.must(wire.OperationCreateTopic, wire.CreateTopicRequest{Stream: galgo.NumericID(0), Partitions: partitions, Name: "t"}.Append(nil))
}

func message(payload string) galgo.Message {
	return galgo.Message{ID: galgo.MessageID{1}, Payload: []byte(payload), Timestamp: 1_600_000_000_000_000}
}

func sendBody(t testing.TB, stream, topic galgo.Identifier, to galgo.Partitioning, payloads ...string) []byte {
	t.Helper()
	var messages []galgo.Message
	for _, p := range payloads {
		messages = append(messages, message(p))
	}
	body, err := wire.AppendBatch(wire.AppendSendTarget(nil, stream, topic, to, uint32(len(messages))), messages)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

var s0, t0 = galgo.NumericID(0), galgo.NumericID(0)

// sendTo sends one batch to a partition of the topic that makeTopic made.
func (p *peer) sendTo(partition uint32, payloads ...string) wire.SendConfirmation {
	p.t.Helper()
	body := p.must(wire.OperationSendMessages, sendBody(p.t, s0, t0, galgo.ToPartition(partition), payloads...))
	c, err := wire.DecodeSendConfirmations(body)
	if err != nil || len(c) != 1 {
		p.t.Fatalf("confirmation: %v, %d entries", err, len(c))
	}
	return c[0]
}

var consumer7 = galgo.Consumer{Kind: galgo.ConsumerSingle, ID: galgo.NumericID(7)}

func pollBody(partition uint32, strategy galgo.PollingStrategy, count uint32, commit bool) []byte {
	return wire.PollMessagesRequest{
		Consumer: consumer7, Stream: s0, Topic: t0, Partition: wire.Partition(partition),
		Strategy: strategy, Count: count, AutoCommit: commit,
	}.Append(nil)
}

func (p *peer) poll(body []byte) wire.PolledMessages {
	p.t.Helper()
	polled, err := wire.DecodePolledMessages(p.mustRead(wire.CommandPollMessages, body))
	if err != nil {
		p.t.Fatal(err)
	}
	return polled
}

func payloads(polled wire.PolledMessages) []string {
	var all []string
	for _, m := range polled.Messages {
		all = append(all, string(m.Payload))
	}
	return all
}
