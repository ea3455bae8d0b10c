package edge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"
)

// Server serves clients of one node, over any number of listeners.
type Server struct {
	options  Options
	backend  Backend
	registry *registry
	budget   *semaphore.Weighted // bytes of requests and polled messages
	slots    *semaphore.Weighted // connections
	turns    *turns
	throttle *throttle
	events   *events
}

// New returns a server that answers from a backend. It panics if the options do
// not validate: they come from configuration that was checked.
func New(options Options, backend Backend) *Server {
	if err := options.Validate(); err != nil {
		panic(fmt.Sprintf("edge: new server: %v", err))
	}
	options = options.withDefaults()
	return &Server{
		options:  options,
		backend:  backend,
		registry: newRegistry(),
		budget:   semaphore.NewWeighted(options.ByteBudget),
		slots:    semaphore.NewWeighted(int64(options.Connections)),
		turns:    newTurns(),
		throttle: newThrottle(),
		events:   newEvents(options.Logger),
	}
}

// Serve accepts connections until the context ends or the listener fails, and
// returns when all that it started has stopped: connections are closed, and their
// sessions reported to the node as detached. It closes the listener. The error is
// nil when the context ended.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	closed := context.AfterFunc(ctx, func() { listener.Close() })
	defer closed()

	detacher := newDetacher(s.backend, s.events)
	var detaching, connections sync.WaitGroup
	detaching.Go(detacher.run)
	err := s.accept(ctx, listener, func(socket net.Conn) {
		id := s.registry.nextID() // here, so that ids follow the order of arrival
		connections.Go(func() { s.serveConn(ctx, detacher, socket, id) })
	})
	cancel()
	listener.Close()
	connections.Wait()
	detacher.stop(s.options.StopGrace)
	detaching.Wait()
	return err
}

// accept hands connections on until the context ends.
func (s *Server) accept(ctx context.Context, listener net.Listener, serve func(net.Conn)) error {
	pause := acceptRetryMin
	for {
		socket, err := listener.Accept()
		switch {
		case err == nil:
			pause = acceptRetryMin
			s.admit(socket, serve)
		case ctx.Err() != nil:
			return nil
		case !passing(err):
			return fmt.Errorf("edge: accept on %s: %w", listener.Addr(), err)
		default:
			s.events.acceptFailed(err, pause)
			if !sleep(ctx, pause) {
				return nil
			}
			pause = min(2*pause, acceptRetryMax)
		}
	}
}

// passing reports whether an accept may succeed later: the peer went away, or the
// machine is short of something.
func passing(err error) bool {
	for _, e := range []error{syscall.ECONNABORTED, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// admit serves a connection if there is a slot for it, else closes it.
func (s *Server) admit(socket net.Conn, serve func(net.Conn)) {
	if !s.slots.TryAcquire(1) {
		s.events.refused(socket, s.options.Connections)
		socket.Close()
		return
	}
	if tcp, ok := socket.(*net.TCPConn); ok {
		tcp.SetNoDelay(true) // an error shows again at the first read
	}
	serve(socket)
}

func (s *Server) serveConn(ctx context.Context, detacher *detacher, socket net.Conn, id uint32) {
	defer s.slots.Release(1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := newConn(s, id, socket, detacher, cancel)
	s.registry.add(c)
	c.run(ctx, cancel)
	if lost := s.registry.remove(c); lost != nil {
		detacher.detach(lost)
	}
}
