package test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"galgo"
	"galgo/client"
)

// SIGTERM ends the server in order: exit status 0, and the next start has a
// checkpoint to start from and everything that was acknowledged.
func TestStopsInOrder(t *testing.T) {
	s := newServer(t)
	s.start()
	ctx := context.Background()
	c := s.dial()
	if _, err := c.CreateStream(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	stream, topic := galgo.NamedID("s"), galgo.NamedID("t")
	if _, err := c.CreateTopic(ctx, stream, client.TopicSpec{Name: "t", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if _, err := c.SendMessages(ctx, stream, topic, galgo.ToPartition(0), []galgo.Message{{Payload: fmt.Append(nil, "m", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	if status := s.stop(); status != 0 {
		t.Fatalf("exit status %d\n%s", status, s.output)
	}
	s.start()
	defer s.kill()
	next := 0
	readAll(ctx, t, s.dial(), stream, topic, 0, func(_ uint64, payload string) {
		if payload != fmt.Sprint("m", next) {
			t.Fatalf("message %d is %q", next, payload)
		}
		next++
	})
	if next != 100 {
		t.Fatalf("%d messages after the restart, want 100", next)
	}
}

// Two servers on one data directory: the second refuses, names the first and
// leaves with a status of its own accord.
func TestSecondServerOnADirectoryIsRefused(t *testing.T) {
	s := newServer(t)
	s.start()
	defer s.kill()
	out, status := run(t, append(s.environment(), "GALGO_TCP_ADDRESS="+freeAddress(t)), "server")
	if status == 0 || !strings.Contains(out, s.dir) || !strings.Contains(out, "in use") {
		t.Errorf("status %d, output:\n%s", status, out)
	}
}

// A taken port is a clear error, and a start that ends there harms nothing.
func TestTakenPortIsAClearError(t *testing.T) {
	s, other := newServer(t), newServer(t)
	s.start()
	defer s.kill()
	out, status := run(t, append(other.environment(), "GALGO_TCP_ADDRESS="+s.address), "server")
	if status == 0 || !strings.Contains(out, "tcp.address") || !strings.Contains(out, s.address) {
		t.Errorf("status %d, output:\n%s", status, out)
	}
	other.start()
	other.kill()
}
