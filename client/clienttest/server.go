// Package clienttest is a scripted server for tests of what speaks the client
// protocol: it answers each command as it is told to, loses answers, breaks
// connections and ends sessions. It keeps no streams and stores nothing.
package clienttest

import (
	"context"
	"io"
	"net"
	"slices"
	"sync"

	"galgo"
	"galgo/internal/wire"
)

// Version is what the server says it is.
const Version = "0.9.0-test"

// Request is a frame that the server got.
type Request struct {
	wire.RequestHeader
	Body []byte
	// Link counts connections from 1.
	Link int
}

// Answer is what the server does about a request. The zero value is an empty success.
type Answer struct {
	payload []byte
	code    galgo.Code
	result  bool
	reason  wire.EvictionReason
	silent  bool
	hangUp  bool
	late    <-chan struct{}
}

// OK answers with a payload; the result section is added where the operation has one.
func OK(payload []byte) Answer { return Answer{payload: payload} }

// Deny answers with a code in the status field.
func Deny(code galgo.Code) Answer { return Answer{code: code} }

// Reject answers with a code in a result section.
func Reject(code galgo.Code) Answer { return Answer{code: code, result: true} }

// Evict ends the session.
func Evict(reason wire.EvictionReason) Answer { return Answer{reason: reason} }

// Silence answers nothing.
func Silence() Answer { return Answer{silent: true} }

// HangUp closes the connection instead of answering.
func HangUp() Answer { return Answer{hangUp: true} }

// Edit changes the payload.
func (a Answer) Edit(f func(payload []byte)) Answer { f(a.payload); return a }

// After answers when ready is closed; requests that come later are answered meanwhile.
func (a Answer) After(ready <-chan struct{}) Answer { a.late = ready; return a }

// Handler decides about a request. It is called for one request at a time, and must
// not call the Server.
type Handler func(r *Request) Answer

// Server is the scripted server. Make it with New and connect with Dial, or Serve a
// listener; in the end Close it.
type Server struct {
	mu       sync.Mutex
	handlers map[wire.Command]Handler
	requests []Request
	conns    map[net.Conn]bool
	listen   []io.Closer
	links    int
	session  uint64
	// incarnations has what the server tells of each client's entry in its table.
	incarnations map[galgo.ClientID]uint64
	refuse       error
	closed       bool
	wg           sync.WaitGroup
}

// New makes a server that signs everybody in, answers pings, and denies all else
// with CodeFeatureUnavailable until Handle says otherwise.
func New() *Server {
	return &Server{
		handlers:     make(map[wire.Command]Handler),
		conns:        make(map[net.Conn]bool),
		incarnations: make(map[galgo.ClientID]uint64),
	}
}

// Handle sets what happens to requests of a command. CommandLoginRegister stands
// for sign-ins; OK(nil) is the usual answer to one.
func (s *Server) Handle(c wire.Command, h Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers[c] = h
}

// Script answers the requests of a command one after the other, and all further
// ones like the last.
func (s *Server) Script(c wire.Command, answers ...Answer) {
	n := -1
	s.Handle(c, func(*Request) Answer {
		n = min(n+1, len(answers)-1)
		return answers[n]
	})
}

// Refuse makes Dial fail with err from now on; nil lets it work again.
func (s *Server) Refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = err
}

// Forget drops the sessions from the client table: the next sign-in of each client
// gets a new entry.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.incarnations)
}

// HangUp closes all connections.
func (s *Server) HangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

// Push sends a frame to all connections unasked.
func (s *Server) Push(frame []byte) {
	s.mu.Lock()
	var conns []net.Conn
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		c.Write(frame)
	}
}

// Requests returns the requests of a command so far, oldest first.
func (s *Server) Requests(c wire.Command) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r Request) bool { return r.EffectiveCommand() != c })
}

// Links is the number of connections that were made so far.
func (s *Server) Links() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links
}

// Dial connects through a pipe, whatever the address.
func (s *Server) Dial(context.Context, string) (net.Conn, error) {
	s.mu.Lock()
	err := s.refuse
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	theirs, ours := net.Pipe()
	s.serve(ours)
	return theirs, nil
}

// Listen serves TCP connections to a free port of the loopback device until Close,
// and returns its address.
func (s *Server) Listen() (addr string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.serve(c)
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listen = append(s.listen, l)
	return l.Addr().String(), nil
}

// Close ends all connections and waits for everything the server started.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for _, l := range s.listen {
		l.Close()
	}
	s.mu.Unlock()
	s.HangUp()
	s.wg.Wait()
}

func (s *Server) serve(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Close()
		return
	}
	s.links++
	s.conns[c] = true
	l := &serverLink{server: s, conn: c, number: s.links}
	s.wg.Go(l.run)
}

// serverLink is one connection. Answers are queued without a bound: a pipe has no
// room of its own, so a server that waited for its client to read could not read.
type serverLink struct {
	server *Server
	conn   net.Conn
	number int

	mu    sync.Mutex
	queue [][]byte
	wake  chan struct{}
}

func (l *serverLink) run() {
	defer l.conn.Close()
	l.wake = make(chan struct{}, 1)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { l.write(done) })
	l.read(&wg, done)
	close(done)
	l.conn.Close()
	wg.Wait()
	l.server.mu.Lock()
	delete(l.server.conns, l.conn)
	l.server.mu.Unlock()
}

func (l *serverLink) read(wg *sync.WaitGroup, done <-chan struct{}) {
	header := make([]byte, wire.HeaderSize)
	for {
		frame, err := wire.ReadFrame(l.conn, header, wire.FrameLimits{})
		if err != nil {
			return
		}
		h, err := wire.DecodeRequestHeader(frame)
		if err != nil {
			return
		}
		r := &Request{RequestHeader: h, Body: frame[wire.HeaderSize:], Link: l.number}
		a := l.server.decide(r)
		switch {
		case a.hangUp:
			return
		case a.silent:
		case a.late != nil:
			wg.Go(func() {
				select {
				case <-a.late:
					l.send(l.server.frame(r, a))
				case <-done:
				}
			})
		default:
			l.send(l.server.frame(r, a))
		}
	}
}

func (l *serverLink) send(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, frame)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *serverLink) write(done <-chan struct{}) {
	for {
		select {
		case <-l.wake:
		case <-done:
			return
		}
		l.mu.Lock()
		frames := l.queue
		l.queue = nil
		l.mu.Unlock()
		for _, f := range frames {
			if _, err := l.conn.Write(f); err != nil {
				return
			}
		}
	}
}

func (s *Server) decide(r *Request) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, *r)
	c := r.EffectiveCommand()
	if h := s.handlers[c]; h != nil {
		return h(r)
	}
	switch c {
	case wire.CommandPing, wire.CommandLoginRegister, wire.CommandLogout:
		return OK(nil)
	}
	return Deny(galgo.CodeFeatureUnavailable)
}

// frame makes the frame that answers a request.
func (s *Server) frame(r *Request, a Answer) []byte {
	if a.reason != 0 {
		e := wire.Eviction(r.Client, a.reason)
		return e.Append(nil)
	}
	if a.code != galgo.CodeOK && !a.result {
		h := wire.ReplyTo(&r.RequestHeader, a.code)
		return h.AppendFrame(nil, nil)
	}
	h := wire.ReplyTo(&r.RequestHeader, galgo.CodeOK)
	if a.code != galgo.CodeOK {
		return h.AppendFrame(nil, wire.AppendResultError(nil, a.code))
	}
	if r.Operation == wire.OperationRegister {
		return s.signIn(r, h)
	}
	var body []byte
	if h.Operation.ResultFramed() {
		body = wire.AppendResultOK(nil)
	}
	return h.AppendFrame(nil, append(body, a.payload...))
}

// offContext is where a reply header tells which entry of the client table a
// sign-in continues.
const offContext = 144

func (s *Server) signIn(r *Request, h wire.ReplyHeader) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session++
	if s.incarnations != nil && s.incarnations[r.Client] == 0 {
		s.incarnations[r.Client] = s.session
	}
	body := wire.RegisterReply{Session: s.session, Protocol: wire.VersionCurrent, ServerVersion: Version}.
		Append(wire.AppendResultOK(nil))
	frame := h.AppendFrame(nil, body)
	for i := range 8 {
		frame[offContext+i] = byte(s.incarnations[r.Client] >> (8 * i))
	}
	return frame
}

// TellNothing makes sign-ins look like those of a stock server, which does not tell
// whether a session continues another.
func (s *Server) TellNothing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.incarnations = nil
}
