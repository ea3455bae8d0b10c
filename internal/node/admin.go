package node

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"galgo/internal/engine"
	"galgo/internal/httpapi"
	"galgo/internal/shard"
	"galgo/internal/vsr"
)

// turnMax is how long a loop may take for the turn in which it answers.
const turnMax = 3 * time.Second

// health is what a node knows of itself, for any goroutine.
type health struct {
	running atomic.Pointer[turning]
	waits   atomic.Pointer[string] // what the start waits for
	failure atomic.Pointer[string]
	serves  atomic.Bool // clients can connect
}

// turning is the part of a node that turns.
type turning struct {
	engine *engine.Engine
	loops  []*loop
}

// openAdmin answers at admin.address, from before the recovery on, until work ends; wait
// returns when it does so no more.
func (n *Node) openAdmin(work context.Context) (wait func(), err error) {
	if n.cfg.Admin.Address == "" {
		return func() {}, nil
	}
	l, err := n.listenStream(n.cfg.Admin.Address)
	if err != nil {
		return nil, fmt.Errorf("admin.address: %w; is another server running?", err)
	}
	n.log.Info("health is told", "address", l.Addr().String(), "paths", "/livez /readyz")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := httpapi.Serve(work, l, n, n.log); err != nil {
			n.log.Error("health is told no more; the node goes on", "err", err)
		}
	}()
	return func() { <-ended }, nil
}

// waitsFor says what the start waits for; "" if for nothing.
func (h *health) waitsFor(what string) { h.waits.Store(&what) }

func (n *Node) phase() string {
	switch {
	case n.health.failure.Load() != nil:
		return "failed"
	case n.stopping.Load():
		return "stopping"
	case n.health.serves.Load():
		return "serving"
	}
	return "starting"
}

// Live implements httpapi.Health. A node that recovers or waits for others lives.
func (n *Node) Live(ctx context.Context) httpapi.Status {
	s := httpapi.Status{Phase: n.phase()}
	if failure := n.health.failure.Load(); failure != nil {
		s.WaitsFor = append(s.WaitsFor, "the end of the process: "+*failure)
	} else if r := n.health.running.Load(); r != nil {
		_, s.WaitsFor = r.ask(ctx)
	}
	s.OK = len(s.WaitsFor) == 0
	return s
}

// Ready implements httpapi.Health.
func (n *Node) Ready(ctx context.Context) httpapi.Status {
	s := n.Live(ctx)
	r := n.health.running.Load()
	switch what := n.health.waits.Load(); {
	case !s.OK:
	case s.Phase == "stopping":
		s.WaitsFor = append(s.WaitsFor, "the end of the process, which was asked to stop")
	case r == nil && what != nil && *what != "":
		s.WaitsFor = append(s.WaitsFor, *what)
	case r == nil:
		s.WaitsFor = append(s.WaitsFor, "the recovery of the data directory")
	default:
		s.WaitsFor = append(s.WaitsFor, r.lacks(ctx)...)
		if len(s.WaitsFor) == 0 && s.Phase == "starting" {
			s.WaitsFor = append(s.WaitsFor, "the first user and the settings of the cluster, and the listeners")
		}
	}
	s.OK = len(s.WaitsFor) == 0
	return s
}

// ask has every loop describe its groups in a turn. silent names those that do not turn; a
// loop that has ended says nothing.
func (r *turning) ask(ctx context.Context) (groups []shard.Status, silent []string) {
	ctx, cancel := context.WithTimeout(ctx, turnMax)
	defer cancel()
	answers := make([]chan []shard.Status, len(r.loops))
	for i, l := range r.loops {
		answers[i] = make(chan []shard.Status, 1)
		if !l.Post(func() { answers[i] <- r.engine.Statuses(i) }) {
			answers[i] <- nil
		}
	}
	for i, answer := range answers {
		select {
		case found := <-answer:
			groups = append(groups, found...)
		case <-ctx.Done():
			silent = append(silent, fmt.Sprintf("a turn of the loop of %s, for %v", loopName(i), turnMax))
		}
	}
	return groups, silent
}

func loopName(i int) string {
	if i == 0 {
		return "the metadata"
	}
	return fmt.Sprintf("shard %d", i-1)
}

// lacks says what the groups wait for before nothing here is of the past.
func (r *turning) lacks(ctx context.Context) []string {
	groups, lacks := r.ask(ctx)
	var behind []string
	for _, g := range groups {
		what := lack(&g)
		switch {
		case what == "":
		case g.Group == vsr.MetadataGroup:
			lacks = append(lacks, "the metadata group: "+what)
		default:
			behind = append(behind, fmt.Sprintf("%d (%s)", g.Group, what))
		}
	}
	if n := len(behind); n > 0 {
		lacks = append(lacks, fmt.Sprintf("%d partition groups, such as %s", n, strings.Join(behind[:min(n, 3)], ", ")))
	}
	return lacks
}

// lack says why what is applied of a group may be of the past; "" if it is not.
func lack(g *shard.Status) string {
	switch {
	case g.Transferring:
		return "it takes a checkpoint from another node"
	case !g.Led:
		return fmt.Sprintf("no primary is heard in view %d", g.State.View)
	case g.Barrier > 0:
		return fmt.Sprintf("op %d of %d, which was there at the start, is applied", g.CommitMin, g.Barrier)
	case !g.Readable:
		return fmt.Sprintf("op %d of %d is applied", g.CommitMin, g.CommitMax)
	}
	return ""
}
