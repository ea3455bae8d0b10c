package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"galgo"
	"galgo/client"
	"galgo/internal/wire"
)

// fleet is the processes of a cluster on this machine, by replica id.
type fleet []*server

func newFleet(t testing.TB, size int, env ...string) fleet {
	t.Helper()
	return newFleetOn(t, nil, size, env...)
}

// newFleetOn is a fleet on machines of a network, if that is not nil.
func newFleetOn(t testing.TB, n *network, size int, env ...string) fleet {
	t.Helper()
	env = append(env, "GALGO_CLUSTER_ENABLED=true", "GALGO_HTTP_ENABLED=false", "GALGO_QUIC_ENABLED=false", "GALGO_WEBSOCKET_ENABLED=false",
		"GALGO_ROOT_USERNAME=iggy", "GALGO_ROOT_PASSWORD=iggy", "GALGO_CLUSTER_AUTH_ENABLED=true", "GALGO_CLUSTER_AUTH_SHARED_SECRET=a secret of the tests, which is long enough")
	var f fleet
	for i := range size {
		s := newServer(t)
		_, replicaPort, _ := strings.Cut(freeAddress(t), ":")
		if n != nil {
			s.host, replicaPort = n.hosts[i], "9090"
			s.address = s.host.ip + ":8090"
		}
		ip, port, _ := strings.Cut(s.address, ":")
		node := fmt.Sprintf("GALGO_CLUSTER_NODES_%d_", i)
		env = append(env, node+"NAME=n"+fmt.Sprint(i), node+"IP="+ip, fmt.Sprintf("%sREPLICA_ID=%d", node, i), node+"PORTS_TCP="+port, node+"PORTS_TCP_REPLICA="+replicaPort)
		f = append(f, s)
	}
	for i, s := range f {
		s.env = append(env[:len(env):len(env)], fmt.Sprint("GALGO_REPLICA_ID=", i))
	}
	return f
}

// start runs all nodes, which form a cluster together.
func (f fleet) start() {
	for _, s := range f {
		s.launch()
	}
	for _, s := range f {
		s.await()
	}
}

// dial connects to a node, and to the others when that is gone.
func (f fleet) dial(first int) *client.Client {
	var others []string
	for i := range len(f) - 1 {
		others = append(others, f[(first+1+i)%len(f)].address)
	}
	return f[first].dial(client.WithAddresses(others...), client.WithRetryBudget(5*time.Minute))
}

// producers sends through each of three nodes until the load is stopped.
func (f fleet) producers(t *testing.T) *load {
	l := newLoad(t, f[0])
	for i := range 3 {
		c := f.dial(i)
		l.wg.Go(func() { l.produce(c, i) })
	}
	return l
}

// underLoad starts a cluster, and producers at three of its nodes.
func underLoad(t *testing.T, size int) (f fleet, admin *client.Client, l *load) {
	t.Helper()
	f = newFleet(t, size)
	f.start()
	admin = f.dial(0)
	createTopic(t, admin, 2)
	return f, admin, f.producers(t)
}

// leader is the node that leads the metadata, as the client's node knows it; -1: none.
func leader(t *testing.T, c *client.Client) int {
	t.Helper()
	m, err := c.ClusterMetadata(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range m.Nodes {
		if n.Role == wire.RoleLeader {
			return i
		}
	}
	return -1
}

// until tries until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for start := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > 2*time.Minute {
			t.Fatalf("it never came to this: %s", what)
		}
	}
}

func createTopic(t testing.TB, c *client.Client, partitions uint32) (stream, topic galgo.Identifier) {
	t.Helper()
	if _, err := c.CreateStream(context.Background(), "s"); err != nil {
		t.Fatal(err)
	}
	stream = galgo.NamedID("s")
	if _, err := c.CreateTopic(context.Background(), stream, client.TopicSpec{Name: "t", Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	return stream, galgo.NamedID("t")
}

// Whoever leads is killed under load, again and again, and comes back. What was
// acknowledged is there exactly once, in order, on every node, and what a node has
// promised is on its disk.
func TestPrimaryKilledAgainAndAgain(t *testing.T) {
	f, admin, l := underLoad(t, 3)
	creator := f.dial(1)
	l.wg.Go(func() { l.createStreams(creator) })
	const primaries = 8
	for range primaries {
		l.awaitMore(100)
		at := -1
		until(t, "somebody leads", func() bool { at = leader(t, admin); return at >= 0 })
		f[at].kill()
		l.awaitMore(100)
		f[at].start()
	}
	l.end()
	if t.Failed() {
		t.FailNow()
	}
	f.verify(l)
	l.verifyStreams(context.Background(), admin)
	for i, s := range f {
		if status := s.stop(); status != 0 {
			t.Errorf("node %d ends with status %d\n%s", i, status, s.output)
		}
		view, logView := promised(t, s)
		if view < 1 || logView < 1 {
			t.Errorf("node %d: view %d, log_view %d on its disk", i, view, logView)
		}
	}
	f.endSound(t)
}

// verify holds every node against what was acknowledged; one that has just come back may
// take a while to know it all.
func (f fleet) verify(l *load) {
	l.t.Helper()
	for i, s := range f {
		c := s.dial()
		until(l.t, fmt.Sprintf("node %d has everything", i), func() bool { return count(l.t, c, loadStream, loadTopic, 0) >= total(l) })
		l.verify(context.Background(), c)
	}
}

// endSound kills all nodes that run, and holds their files against each other.
func (f fleet) endSound(t *testing.T) {
	t.Helper()
	args := []string{"verify", "--output", "json"}
	for _, s := range f {
		if s.cmd != nil {
			s.kill()
		}
		args = append(args, s.dir)
	}
	out, status := run(t, os.Environ(), args...)
	if status != 0 || !strings.Contains(out, `"sound":true`) {
		t.Errorf("galgo verify: status %d\n%s", status, out)
	}
}

func total(l *load) (n int) {
	for _, acked := range l.numbers {
		n += acked
	}
	return n
}

// count is how many messages a node has of a partition; it may still be on its way to
// serve them.
func count(t *testing.T, c *client.Client, stream, topic galgo.Identifier, partition uint32) (n int) {
	t.Helper()
	b, err := c.Poll(context.Background(), client.PollRequest{
		Consumer: galgo.Consumer{Kind: galgo.ConsumerSingle, ID: galgo.NumericID(1)}, Stream: stream, Topic: topic,
		Partition: partition, Strategy: galgo.FromLast(), Count: 1,
	})
	if err != nil || b.Len() == 0 {
		return 0
	}
	for m := range b.Messages() {
		n = int(m.Offset) + 1
	}
	return n
}

// promised reads a node's superblock, as an operator would.
func promised(t *testing.T, s *server) (view, logView uint32) {
	t.Helper()
	out, status := run(t, os.Environ(), "inspect", "superblock", s.dir, "--output", "json", "--quiet")
	var report struct {
		State struct {
			View    uint32 `json:"view"`
			LogView uint32 `json:"log_view"`
		} `json:"state"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || status != 0 {
		t.Fatalf("inspect superblock: %v, status %d\n%s", err, status, out)
	}
	return report.State.View, report.State.LogView
}

// Any node takes any request, and what it has told a client it shows the client.
func TestAnyNodeTakesAnyRequest(t *testing.T) {
	f := newFleet(t, 3)
	f.start()
	ctx := context.Background()
	for i, s := range f {
		c := s.dial()
		name := fmt.Sprint("of node ", i)
		made, err := c.CreateStream(ctx, name)
		if err != nil {
			t.Fatalf("node %d: %v\n%s", i, err, s.output)
		}
		stream, topic := galgo.NumericID(made.ID), galgo.NamedID("t")
		if _, err := c.CreateTopic(ctx, stream, client.TopicSpec{Name: "t", Partitions: 3}); err != nil {
			t.Fatalf("node %d: %v", i, err)
		}
		for n := range 30 {
			partition := uint32(n % 3)
			payload := fmt.Sprintf("%d of node %d", n, i)
			if _, err := c.SendMessages(ctx, stream, topic, galgo.ToPartition(partition), []galgo.Message{{Payload: []byte(payload)}}); err != nil {
				t.Fatalf("node %d, message %d: %v", i, n, err)
			}
			consumer := galgo.Consumer{Kind: galgo.ConsumerSingle, ID: galgo.NumericID(7)}
			b, err := c.Poll(ctx, client.PollRequest{
				Consumer: consumer, Stream: stream, Topic: topic, Partition: partition, Strategy: galgo.FromNext(), Count: 10, AutoCommit: true,
			})
			if err != nil || b.Len() != 1 {
				t.Fatalf("node %d, message %d: %d messages, %v", i, n, b.Len(), err)
			}
			for m := range b.Messages() {
				if string(m.Payload) != payload {
					t.Fatalf("node %d: got %q, want %q", i, m.Payload, payload)
				}
			}
			if o, ok, err := c.Offset(ctx, consumer, stream, topic, partition); err != nil || !ok || o.Stored != uint64(n/3) {
				t.Fatalf("node %d, message %d: stored offset %+v, %v, %v", i, n, o, ok, err)
			}
		}
		if err := c.DeleteStream(ctx, stream); err != nil {
			t.Errorf("node %d: %v", i, err)
		}
	}
	f.endSound(t)
}

// An account signs in at any node as soon as it is made, by its new password as soon as
// that is changed, and not by the old one.
func TestAccountsHoldAtOnceAtAnyNode(t *testing.T) {
	f := newFleet(t, 3, "GALGO_LIMITS_LOGIN_SLOWDOWN=false")
	f.start()
	ctx := context.Background()
	admin := f[0].dial()
	for i := range 10 {
		name, id := fmt.Sprint("user", i), galgo.NamedID(fmt.Sprint("user", i))
		if _, err := admin.CreateUser(ctx, client.UserSpec{Name: name, Password: "first"}); err != nil {
			t.Fatal(err)
		}
		f[1+i%2].dial(client.WithPassword(name, "first"))
		if err := admin.ChangePassword(ctx, id, "first", "second"); err != nil {
			t.Fatal(err)
		}
		other := f[1+(i+1)%2]
		if c, err := client.Dial(ctx, other.address, client.WithPassword(name, "first")); !errors.Is(err, &galgo.Error{Code: galgo.CodeInvalidCredentials}) {
			t.Errorf("%s signs in by its old password: %v", name, err)
			if err == nil {
				c.Close()
			}
		}
		other.dial(client.WithPassword(name, "second"))
	}
}

// Every node is asked how it sees the cluster, and one that is missing is named.
func TestClusterStatus(t *testing.T) {
	f := newFleet(t, 3)
	f.start()
	status := func() (string, int) {
		return run(t, append(os.Environ(), "GALGO_ADDRESS="+f[1].address), "cluster", "status", "--quiet")
	}
	until(t, "all is well", func() bool { _, code := status(); return code == 0 })
	f[2].kill()
	var out string
	until(t, "a node is missing", func() bool {
		var code int
		out, code = status()
		return code == 1
	})
	if !strings.Contains(out, "n2") || !strings.Contains(out, "no") {
		t.Errorf("printed\n%s", out)
	}
	f[2].start()
	until(t, "all is well again", func() bool { _, code := status(); return code == 0 })
}

// Whoever leads gives its place up, again and again, under load, and clients see no error;
// any node is asked to have it done.
func TestStepDownUnderLoad(t *testing.T) {
	f, admin, l := underLoad(t, 3)
	for i := range 6 {
		l.awaitMore(50)
		at := -1
		until(t, "somebody leads", func() bool { at = leader(t, admin); return at >= 0 })
		env := append(os.Environ(), "GALGO_ADDRESS="+f[(at+i)%3].address)
		until(t, "the metadata are given up", func() bool {
			out, status := run(t, env, "cluster", "step-down", fmt.Sprint("n", at), "--output", "json")
			return status == 0 && strings.Contains(out, `"group":0`) || leader(t, admin) != at
		})
		until(t, "another leads", func() bool { now := leader(t, admin); return now >= 0 && now != at })
	}
	l.awaitMore(50)
	l.end()
	f.verify(l)
	out, status := run(t, append(os.Environ(), "GALGO_ADDRESS="+f[1].address), "cluster", "status", "--groups", "--output", "json", "--quiet")
	if !strings.Contains(out, `"role":"primary"`) || !strings.Contains(out, `"log_view"`) {
		t.Errorf("status %d\n%s", status, out)
	}
	if out, status := run(t, append(os.Environ(), "GALGO_ADDRESS="+f[0].address), "cluster", "step-down", "nobody"); status != 2 {
		t.Errorf("status %d\n%s", status, out)
	}
	f.endSound(t)
}

// An empty directory is no node that has forgotten: it waits for somebody to say that
// the disk is lost, and is filled by the others then. Its vote counts again.
func TestLostDiskIsReplaced(t *testing.T) {
	f := newFleet(t, 3)
	f.start()
	admin := f.dial(0)
	stream, topic := createTopic(t, admin, 2)
	l := newLoad(t, f[0])
	c := f.dial(1)
	l.wg.Go(func() { l.produce(c, 0) })
	l.awaitMore(500)
	f[2].kill()
	l.awaitMore(100)
	if err := os.RemoveAll(f[2].dir); err != nil {
		t.Fatal(err)
	}
	out, status := run(t, f[2].environment(), "server")
	if status != 1 || !strings.Contains(out, "--replace") || !strings.Contains(out, "the cluster has begun") {
		t.Fatalf("an empty directory: status %d\n%s", status, out)
	}
	f[2].args = []string{"--replace"}
	f[2].start()
	f[2].args = nil
	until(t, "the replaced node serves", func() bool { return count(t, f[2].dial(), stream, topic, 0) > 0 })
	f[0].kill()
	l.awaitMore(500)
	l.end()
	f[0].start()
	f.verify(l)
	f.endSound(t)
}

// Of five nodes two may be gone, a backup and then the primary: the others go on, and who
// signs in at one of them is let in.
func TestTwoOfFiveAreGone(t *testing.T) {
	f, admin, l := underLoad(t, 5)
	l.awaitMore(100)
	at := leader(t, admin)
	gone := []int{(at + 1) % len(f), at}
	for _, i := range gone {
		f[i].kill()
		l.awaitMore(100)
	}
	for i, s := range f {
		if slices.Contains(gone, i) {
			continue
		}
		c := s.dial()
		if _, err := c.CreateStream(t.Context(), fmt.Sprint("by node ", i)); err != nil {
			t.Errorf("node %d: %v", i, err)
		}
		c.Close()
	}
	for _, i := range gone {
		f[i].start()
	}
	l.awaitMore(100)
	l.end()
	f.verify(l)
	f.endSound(t)
}

// All nodes are killed at once, and have everything when they come back.
func TestAllNodesKilledAtOnce(t *testing.T) {
	f, _, l := underLoad(t, 3)
	for range 3 {
		l.awaitMore(200)
		for _, s := range f {
			s.kill()
		}
		f.start()
	}
	l.awaitMore(200)
	l.end()
	f.verify(l)
	f.endSound(t)
}

// The demonstration proves what it says, and nothing of it is left.
func TestDemo(t *testing.T) {
	dir := t.TempDir()
	env := append(os.Environ(), "TMPDIR="+dir, "GALGO_ROOT_USERNAME=somebody else")
	out, status := run(t, env, "demo", "--duration", "4s", "--every", "1s", "--output", "json")
	if status != 0 || !strings.Contains(out, `"primary_killed":`) || strings.Contains(out, `"primary_killed":0`) {
		t.Errorf("status %d\n%s", status, out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
