package node

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"galgo/internal/shard"
	"galgo/internal/vsr"
)

// A node that serves is live and ready; one that has begun to stop is not ready; one that
// cannot go on is not live.
func TestHealthOfANode(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var served *Node
	c := runConfig()
	c.System.Path = t.TempDir()
	c.Admin.Address = "127.0.0.1:0"
	err := Run(ctx, Options{Config: c, Log: slog.New(slog.DiscardHandler), Ready: func(n *Node) {
		served = n
		if s := n.Ready(ctx); !s.OK || s.Phase != "serving" || len(s.WaitsFor) > 0 {
			t.Errorf("it serves, ready: %+v", s)
		}
		if s := n.Live(ctx); !s.OK {
			t.Errorf("it serves, live: %+v", s)
		}
		n.stopping.Store(true)
		if s := n.Ready(ctx); s.OK || s.Phase != "stopping" {
			t.Errorf("it stops, ready: %+v", s)
		}
		cancel()
	}})
	if err != nil || served == nil {
		t.Fatalf("%v", err)
	}
	served.fail(errors.New("the log is poisoned"))
	if s := served.Live(t.Context()); s.OK || s.Phase != "failed" || !strings.Contains(s.WaitsFor[0], "poisoned") {
		t.Errorf("it failed, live: %+v", s)
	}
}

// Before the recovery a node lives and says what it waits for.
func TestHealthBeforeTheStart(t *testing.T) {
	n := &Node{}
	if s := n.Live(t.Context()); !s.OK || s.Phase != "starting" {
		t.Errorf("live: %+v", s)
	}
	if s := n.Ready(t.Context()); s.OK || !strings.Contains(s.WaitsFor[0], "recovery") {
		t.Errorf("ready: %+v", s)
	}
	n.health.waitsFor("the other nodes: [b]")
	if s := n.Ready(t.Context()); s.OK || s.WaitsFor[0] != "the other nodes: [b]" {
		t.Errorf("ready: %+v", s)
	}
}

// A loop that does not turn is named, after a bounded time or that of who asks.
func TestHealthOfALoopThatHangs(t *testing.T) {
	n := &Node{}
	n.health.running.Store(&turning{loops: []*loop{newLoop()}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s := n.Live(ctx); s.OK || !strings.Contains(s.WaitsFor[0], "loop of the metadata") {
		t.Errorf("%+v", s)
	}
}

// Each reason why a group may show the past is told.
func TestWhatAGroupLacks(t *testing.T) {
	sound := shard.Status{Led: true, Readable: true, CommitMin: 3, CommitMax: 5}
	for want, change := range map[string]func(*shard.Status){
		"":                   func(*shard.Status) {},
		"takes a checkpoint": func(s *shard.Status) { s.Transferring = true },
		"no primary":         func(s *shard.Status) { s.Led = false },
		"op 3 of 9":          func(s *shard.Status) { s.Barrier = 9 },
		"op 3 of 5":          func(s *shard.Status) { s.Readable = false },
	} {
		s := sound
		s.Group = vsr.GroupID(1)
		change(&s)
		if got := lack(&s); got != want && (want == "" || !strings.Contains(got, want)) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
