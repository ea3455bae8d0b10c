package edge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"

	"galgo/internal/transport"
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
	snapshot sync.Mutex // held while diagnostics are packed
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
		throttle: newThrottle(options.LoginsUnslowed),
		events:   newEvents(options.Logger),
	}
}

// Serve accepts connections until the context ends or the listener fails, and
// returns when all that it started has stopped: connections are closed, and their
// sessions reported to the node as detached. It closes the listener. The error is
// nil when the context ended.
func (s *Server) Serve(ctx context.Context, listener transport.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopped := context.AfterFunc(ctx, func() { listener.Stop() })
	defer stopped()

	detacher := newDetacher(s.backend, s.events)
	var detaching, connections sync.WaitGroup
	detaching.Go(detacher.run)
	connections.Go(func() { s.watch(ctx, detacher) })
	err := s.accept(ctx, listener, func(peer transport.Incoming) {
		id := s.registry.nextID() // here, so that ids follow the order of arrival
		connections.Go(func() { s.serveConn(ctx, detacher, peer, id) })
	})
	cancel()
	listener.Stop()
	connections.Wait()
	listener.Close()
	detacher.stop(s.options.StopGrace)
	detaching.Wait()
	return err
}

// accept hands connections on until the context ends.
func (s *Server) accept(ctx context.Context, listener transport.Listener, serve func(transport.Incoming)) error {
	pause := acceptRetryMin
	for {
		peer, err := listener.Accept()
		switch {
		case err == nil:
			pause = acceptRetryMin
			s.admit(peer, serve)
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

// admit serves a peer if there is a slot for it, else closes its connection. What
// its transport begins with holds a slot, too. Peers that say nothing may stay for as
// long as nobody else wants their place: then one of them goes, for whoever tries next.
func (s *Server) admit(peer transport.Incoming, serve func(transport.Incoming)) {
	if !s.slots.TryAcquire(1) {
		s.events.refused(peer, s.options.Connections)
		peer.Close()
		s.registry.endSilent(s.options.HandshakeTimeout)
		return
	}
	serve(peer)
}

func (s *Server) serveConn(ctx context.Context, detacher *detacher, peer transport.Incoming, id uint32) {
	defer s.slots.Release(1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	socket, err := s.open(ctx, peer)
	if err != nil {
		if ctx.Err() == nil {
			s.events.notOpened(peer, err)
		}
		return
	}
	c := newConn(s, id, socket, detacher, cancel)
	s.registry.add(c)
	c.run(ctx, cancel)
	if lost := s.registry.remove(c); lost != nil {
		detacher.detach(lost)
	}
}

func (s *Server) open(ctx context.Context, peer transport.Incoming) (transport.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.HandshakeTimeout)
	defer cancel()
	return peer.Open(ctx)
}
