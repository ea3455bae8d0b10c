package test

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"galgo"
	"galgo/client"
	"galgo/internal/wire"
)

// promise is what a superblock holds of views.
type promise struct {
	View    uint32 `json:"view"`
	LogView uint32 `json:"log_view"`
}

// durable reads the superblock of a node, which may be running; false: it is just being
// written.
func durable(s *server) (promise, bool) {
	out, err := exec.Command(binary, "inspect", "superblock", s.dir, "--output", "json", "--quiet").Output()
	var report struct{ State promise }
	return report.State, err == nil && json.Unmarshal(out, &report) == nil
}

// mustDurable is the same of a node that is not running.
func mustDurable(t *testing.T, s *server) promise {
	t.Helper()
	view, logView := promised(t, s)
	return promise{view, logView}
}

// leaders are the nodes that lead the metadata, as a client's node says.
func leaders(t *testing.T, c *client.Client) (found []int) {
	t.Helper()
	m, err := c.ClusterMetadata(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range m.Nodes {
		if n.Role == wire.RoleLeader {
			found = append(found, i)
		}
	}
	return found
}

// agree waits until every node says that one and the same node leads.
func (f fleet) agree(t *testing.T) {
	t.Helper()
	var clients []*client.Client
	for _, s := range f {
		clients = append(clients, s.dial())
	}
	until(t, "all nodes see one leader, the same", func() bool {
		first := leaders(t, clients[0])
		for _, c := range clients {
			if got := leaders(t, c); len(got) != 1 || len(first) != 1 || got[0] != first[0] {
				return false
			}
		}
		return true
	})
	for _, c := range clients {
		c.Close()
	}
}

// The primary of the first view is killed. What the others promise in its place is on
// their disks; it comes back into their view; and who is restarted then has forgotten
// nothing of it. Each step is looked at in the files, as nobody can do who only asks.
func TestViewsAreOnTheDisks(t *testing.T) {
	f := newFleet(t, 3)
	f.start()
	ctx := context.Background()
	admin := f.dial(1)
	stream, topic := createTopic(t, admin, 1)
	message := []galgo.Message{{Payload: []byte("from before")}}
	if _, err := admin.SendMessages(ctx, stream, topic, galgo.ToPartition(0), message); err != nil {
		t.Fatal(err)
	}
	old := -1
	until(t, "somebody leads", func() bool { old = leader(t, admin); return old >= 0 })
	f[old].kill()
	before := mustDurable(t, f[old])
	survivors := []int{(old + 1) % 3, (old + 2) % 3}
	for _, i := range survivors {
		until(t, fmt.Sprintf("node %d has a later view and its log on the disk", i), func() bool {
			p, ok := durable(f[i])
			return ok && p.View >= 1 && p.View > before.View && p.LogView == p.View
		})
	}
	f[old].start()
	until(t, "the killed node is in a later view", func() bool {
		p, ok := durable(f[old])
		return ok && p.LogView > before.LogView
	})
	for _, i := range survivors {
		f[i].kill()
		held := mustDurable(t, f[i])
		if held.LogView <= before.LogView {
			t.Errorf("node %d: %+v on its disk, and %+v was before", i, held, before)
		}
		f[i].start()
		f.agree(t)
		f[i].kill()
		if after := mustDurable(t, f[i]); after.View < held.View || after.LogView < held.LogView {
			t.Errorf("node %d: %+v on its disk, and it had %+v", i, after, held)
		}
		f[i].start()
	}
	f.agree(t)
	for i, s := range f {
		c := s.dial()
		if _, err := c.Stream(ctx, stream); err != nil {
			t.Errorf("node %d: %v", i, err)
		}
		readAll(ctx, t, c, stream, topic, 0, func(_ uint64, payload string) {
			if payload != "from before" {
				t.Errorf("node %d has %q", i, payload)
			}
		})
		if n := count(t, c, stream, topic, 0); n != 1 {
			t.Errorf("node %d has %d messages", i, n)
		}
	}
}

// heard is what a process has said so far.
type heard struct {
	mu   sync.Mutex
	text strings.Builder
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(b)
}

func (h *heard) says(words string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Contains(h.text.String(), words)
}

// A node whose superblock cannot be written has no vote: the other survivor comes to no
// view that has a primary, however often both try, until the disk takes the promise.
func TestNoVoteWithoutADurableSuperblock(t *testing.T) {
	f := newFleet(t, 3, "GALGO_CLUSTER_HEARTBEAT_TIMEOUT=2s", "GALGO_CLUSTER_VIEW_CHANGE_STATUS_TIMEOUT=2s")
	said := make([]heard, len(f))
	for i, s := range f {
		s.device, s.tee = &device{seed: uint64(i)}, &said[i]
	}
	f.start()
	ctx := context.Background()
	admin := f.dial(0)
	stream, topic := createTopic(t, admin, 1)
	old := -1
	until(t, "somebody leads", func() bool { old = leader(t, admin); return old >= 0 })
	mute, other := f[(old+1)%3], f[(old+2)%3]
	f.agree(t)
	mute.command("refuse=superblock")
	var held, wants promise
	until(t, "the superblocks can be read", func() bool {
		var ok, too bool
		held, ok = durable(mute)
		wants, too = durable(other)
		return ok && too
	})
	f[old].kill()
	const attempts = "attempt=8 "
	until(t, "the superblock was refused some times, and the other has promised a view", func() bool {
		if p, ok := durable(mute); ok && p != held {
			t.Fatalf("%+v was written to a superblock that takes nothing", p)
		}
		p, ok := durable(other)
		if ok && p.LogView != wants.LogView {
			t.Fatalf("view %d has begun with the vote of a node that can forget it", p.LogView)
		}
		for _, s := range []*server{mute, other} {
			select {
			case err := <-s.exited:
				t.Fatalf("a survivor has ended: %v\n%s", err, s.output)
			default:
			}
		}
		return ok && p.View > wants.View && said[(old+1)%3].says(attempts)
	})
	mute.command("")
	if _, err := admin.SendMessages(ctx, stream, topic, galgo.ToPartition(0), []galgo.Message{{Payload: []byte("again")}}); err != nil {
		t.Fatal(err)
	}
	until(t, "the vote is on the disk", func() bool {
		p, ok := durable(mute)
		return ok && p.LogView > held.LogView
	})
	f[old].start()
	f.agree(t)
}
