// Package galgotest runs a galgo node inside a test's process, for tests of
// programs that use galgo: the real server, on a free port of the loopback
// interface, with data that goes away with the test.
package galgotest

import (
	"context"
	"log/slog"
	"testing"

	"galgo/client"
	"galgo/internal/config"
	"galgo/internal/node"
)

// The name and the password of the root user of every Node.
const (
	Username = "iggy"
	Password = "iggy"
)

// Node is a running server.
type Node struct {
	addr string
	t    testing.TB
}

// Start runs a node until the test ends. It fails the test if the node does not
// start, or does not stop in order.
func Start(t testing.TB) *Node {
	t.Helper()
	c := config.Default()
	c.System.Path = t.TempDir()
	c.TakeFreePorts()
	c.QUIC.Enabled, c.WebSocket.Enabled = false, false
	c.Root.Username, c.Root.Password = Username, Password
	// Small files: most tests write little, and each starts a node of its own.
	c.WAL.FileSize, c.WAL.Limit = 4<<20, 32<<20
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- node.Run(ctx, node.Options{
			Config: c, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})), Version: "0.0.0-test",
			Ready: func(n *node.Node) { ready <- n.Addr().String() },
		})
	}()
	select {
	case addr := <-ready:
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Errorf("galgotest: the node did not stop in order: %v", err)
			}
		})
		return &Node{addr: addr, t: t}
	case err := <-ended:
		stop()
		t.Fatalf("galgotest: the node did not start: %v", err)
		return nil
	}
}

// Addr is the host:port that clients connect to.
func (n *Node) Addr() string { return n.addr }

// Client returns a client that is signed in as root, closed when the test ends.
func (n *Node) Client(opts ...client.Option) *client.Client {
	n.t.Helper()
	c, err := client.Dial(context.Background(), n.addr, append([]client.Option{client.WithPassword(Username, Password)}, opts...)...)
	if err != nil {
		n.t.Fatalf("galgotest: %v", err)
	}
	n.t.Cleanup(func() { c.Close() })
	return c
}
