// Package node puts one server together: the data directory, the shards with
// their loops, the client edge and the listeners; and it says in which order they
// start and stop.
package node

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"galgo/internal/config"
	"galgo/internal/disk"
	"galgo/internal/edge"
	"galgo/internal/engine"
)

// Options is what a node is made of.
type Options struct {
	Config config.Config
	Log    *slog.Logger
	// Disk replaces the directory at Config.System.Path, for tests. The node
	// does not close it.
	Disk disk.Disk
	// Network replaces that of the machine, for tests.
	Network Network
	// Version is what clients are told of the server.
	Version string
	// Opened, if set, is called when the data directory is locked; what it returns
	// is called before the lock is given up.
	Opened func() (closing func())
	// Ready, if set, is called when clients can connect.
	Ready func(*Node)
}

// Network is where a node listens for streams and finds the others.
type Network interface {
	Listen(network, address string) (net.Listener, error)
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// Node is one running server.
type Node struct {
	cfg     config.Config
	network Network // nil: that of the machine
	log     *slog.Logger
	version string
	owned   *disk.OS // the directory, if the node opened it
	engine  *engine.Engine
	backend edge.Backend // the engine, or what stands before it in a cluster
	cluster *cluster     // nil for a node alone
	loops   []*loop      // of the metadata, then of each data shard
	edge    *edge.Server
	addr    net.Addr     // of the first listener
	bound   config.Bound // of all of them

	files fileShares

	root   *rootUser // that this node tries to make; nil: none
	health health

	stopping atomic.Bool
	fatal    context.CancelCauseFunc
}

// balanceInterval is how often primaries go back to where they belong.
const balanceInterval = time.Minute

// ErrFailed is the cause of a stop that the node decided itself: going on could
// serve or lose what it must not.
var ErrFailed = errors.New("node: stopped because it cannot go on safely")

func randomUint64() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails: the runtime ends the process instead
	return binary.LittleEndian.Uint64(b[:])
}

// Run recovers the node from its data directory, serves clients until ctx ends,
// and stops in order. It returns nil after a graceful stop, a refusal if the data
// must not be served, or an error that wraps ErrFailed if the node had to give up.
func Run(ctx context.Context, o Options) (err error) {
	n := &Node{cfg: o.Config, log: o.Log, version: o.Version, network: o.Network}
	work, fatal := context.WithCancelCause(context.Background())
	n.fatal = fatal
	closed, err := n.openAdmin(work)
	if err != nil {
		return err
	}
	defer closed()
	defer fatal(nil)
	d := o.Disk
	if d == nil {
		opened, err := openDirectory(o.Config)
		if err != nil {
			return err
		}
		n.owned, d = opened, opened
		defer opened.Close()
	}
	if o.Opened != nil {
		defer o.Opened()()
	}
	if err := n.recover(ctx, work, d); err != nil {
		fatal(nil)
		n.cluster.wait()
		if ctx.Err() != nil { // it may have waited for the other nodes
			return nil
		}
		n.log.Error("the node does not start", "err", err)
		return err
	}
	lanes, loops := n.start(work)
	err = n.serve(ctx, work, o.Ready)
	return errors.Join(err, n.stop(work, fatal, lanes, loops))
}

// start runs the shards' loops and lanes. A job that a lane has begun is finished;
// what it has not begun when the node stops is recovered at the next start.
func (n *Node) start(work context.Context) (lanes, loops *errgroup.Group) {
	lanes, loops = new(errgroup.Group), new(errgroup.Group)
	run := func(l *loop, d engine.Driver) {
		for lane := range l.lanes {
			lanes.Go(func() error { return l.runLane(work, lane) })
		}
		loops.Go(func() error { return l.run(work, d) })
	}
	for i, d := range n.engine.Drivers() {
		run(n.loops[i], d)
	}
	n.health.running.Store(&turning{n.engine, n.loops})
	loops.Go(func() error { n.clean(work, n.engine.Retain); return nil })
	loops.Go(func() error { n.balance(work, n.engine.Balance); return nil })
	loops.Go(func() error { n.handOver(work); return nil })
	return lanes, loops
}

// clean has message_expiry and max_topic_size applied from time to time.
func (n *Node) clean(work context.Context, retain func()) {
	c := n.cfg.DataMaintenance.Messages
	if !c.Enabled {
		return
	}
	every(work, c.Interval, retain)
}

// balance has primaries go back to where they belong, a few a minute.
func (n *Node) balance(work context.Context, give func(settled uint64, most int)) {
	c := n.cfg.Cluster.Rebalance
	if !c.Enabled || n.cluster == nil {
		return
	}
	every(work, balanceInterval, func() { give(uint64(c.Settled/engine.Tick), c.MovesPerMinute) })
}

// serve opens the listeners and serves until ctx ends or the node fails; which of
// them it was, stop finds out.
func (n *Node) serve(ctx, work context.Context, ready func(*Node)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(work, stop)()
	defer context.AfterFunc(ctx, n.leave)()
	if err := n.bootstrap(ctx); err != nil {
		if ctx.Err() != nil { // it may have waited for room on the disk
			return nil
		}
		return err
	}
	listeners, err := n.listen()
	if err != nil {
		return err
	}
	n.addr = listeners[0].Addr() // there is one: the configuration was checked
	n.announce()
	n.health.serves.Store(true)
	if ready != nil {
		ready(n)
	}
	var jobs sync.WaitGroup
	jobs.Go(func() { n.sweepTokens(ctx) })
	err = n.serveAll(ctx, listeners)
	stop()
	jobs.Wait()
	return err
}

// Addr is the address that clients connect to: over TCP, unless that is off.
func (n *Node) Addr() net.Addr { return n.addr }

// Bound are the addresses of all transports; those that are off have none.
func (n *Node) Bound() config.Bound { return n.bound }

// fail makes the node stop for good. The first reason counts.
func (n *Node) fail(err error) {
	n.log.Error("the node stops: it cannot go on safely", "err", err)
	reason := err.Error()
	n.health.failure.CompareAndSwap(nil, &reason)
	n.fatal(fmt.Errorf("%w: %w", ErrFailed, err))
}

func (n *Node) note(msg string, args ...any) { n.log.Warn(msg, args...) }

// stop ends what serve has left running: shards drain, take a checkpoint so that
// the next start is short, mark and close their logs. All of it within the
// configured time; what is cut short is recovered at the next start.
func (n *Node) stop(work context.Context, fatal context.CancelCauseFunc, lanes, loops *errgroup.Group) error {
	failed := context.Cause(work)
	if failed == nil {
		ctx, cancel := context.WithTimeout(work, n.cfg.ShutdownTimeout)
		n.drain(ctx)
		cancel()
	}
	fatal(nil)
	err := errors.Join(loops.Wait(), lanes.Wait())
	n.cluster.wait()
	if failed == nil {
		failed = notCanceled(context.Cause(work))
		err = errors.Join(err, n.engine.Close())
	}
	return errors.Join(failed, err)
}

func notCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// drain asks every shard for a last checkpoint and waits for it.
func (n *Node) drain(ctx context.Context) {
	for i, d := range n.engine.Drivers() {
		done := make(chan error, 1)
		n.loops[i].Post(func() { d.Checkpoint(func(err error) { done <- err }) })
		select {
		case err := <-done:
			if err != nil {
				n.log.Warn("no checkpoint at shutdown; the next start replays the log", "err", err)
			}
		case <-ctx.Done():
			n.log.Warn("shutdown ran out of time; the next start replays the log", "setting", "shutdown_timeout")
			return
		}
	}
}

// wallClock is the node's clock.
type wallClock struct{}

func (wallClock) Now() uint64 { return uint64(max(0, time.Now().UnixMicro())) }
