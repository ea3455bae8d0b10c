package test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"galgo"
	"galgo/client"
	"galgo/internal/config"
	"galgo/internal/disk/memdisk"
	"galgo/internal/memnet"
	"galgo/internal/node"
)

// The tests of this file run whole nodes, links, sessions and clients, all that a
// process is but its sockets and files, in virtual time on a network and on disks in
// memory. What goes wrong is drawn from a seed; how goroutines take turns is not, so a
// seed says what was tried and not what happened. What follows from a seed alone is
// galgo sim.

// virtualSeeds is how many seeds a test tries, from virtualSeed on.
var virtualSeeds, virtualSeed = fromEnv("GALGO_VIRTUAL_SEEDS", 3), fromEnv("GALGO_VIRTUAL_SEED", 1)

func fromEnv(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// virtual is a cluster in a bubble.
type virtual struct {
	t     *testing.T
	rng   *rand.Rand
	net   *memnet.Network
	nodes []*virtualNode
	log   []string // what went wrong, and when
	began time.Time
	// doomed is the node whose disk may be lost. Of two there might be no copy left.
	doomed int
}

type virtualNode struct {
	cfg   config.Config
	host  *memnet.Host
	name  string
	disk  *memdisk.Disk
	stop  context.CancelFunc
	ready chan struct{}
	ended chan error // nil while it is down
}

func newVirtual(t *testing.T, seed uint64, size int) *virtual {
	v := &virtual{t: t, rng: rand.New(rand.NewPCG(seed, 7)), net: memnet.New(time.Duration(4+seed%7) * time.Millisecond), began: time.Now()}
	c := config.Default()
	c.WAL.FileSize, c.WAL.Limit = 256<<10, 1<<20
	c.Metadata.JournalSlots, c.Metadata.CheckpointMargin = 64, 8
	c.Root = config.Root{Username: "iggy", Password: "iggy"}
	c.Cluster.Enabled = size > 1
	c.HTTP.Enabled, c.QUIC.Enabled, c.WebSocket.Enabled = false, false, false
	v.doomed = v.rng.IntN(size)
	for i := range size {
		name := fmt.Sprint("n", i)
		c.Cluster.Nodes = append(c.Cluster.Nodes, config.Node{Name: name, IP: name, ReplicaID: i, Ports: config.Ports{TCP: 8090, TCPReplica: 9090}})
	}
	for i := range size {
		n := &virtualNode{cfg: c, name: fmt.Sprint("n", i), disk: memdisk.New(memdisk.Options{})}
		n.cfg.Cluster.ReplicaID = i
		n.cfg.TCP.Address = n.name + ":8090"
		n.host = v.net.Host(n.name)
		v.nodes = append(v.nodes, n)
	}
	return v
}

func (v *virtual) say(format string, args ...any) {
	v.log = append(v.log, fmt.Sprintf("%8.3f s  ", time.Since(v.began).Seconds())+fmt.Sprintf(format, args...))
}

func (v *virtual) start(i int) {
	n := v.nodes[i]
	ctx, stop := context.WithCancel(context.Background())
	ended, ready := make(chan error, 1), make(chan struct{})
	n.stop, n.ended, n.ready = stop, ended, ready
	o := node.Options{
		Config: n.cfg, Log: slog.New(slog.DiscardHandler), Disk: n.disk, Network: n.host, Version: "1.0.0", Ready: func(*node.Node) { close(ready) },
	}
	go func() { ended <- node.Run(ctx, o) }()
}

// serves waits until clients can connect to a node.
func (v *virtual) serves(i int) {
	v.t.Helper()
	select {
	case <-v.nodes[i].ready:
	case err := <-v.nodes[i].ended:
		v.t.Fatalf("%s does not start: %v", v.nodes[i].name, err)
	}
}

// down ends a process at once: what its disk holds at this moment is what the next
// life finds.
func (v *virtual) down(i int, next func(*memdisk.Disk) *memdisk.Disk) {
	n := v.nodes[i]
	n.host.Down()
	n.disk = next(n.disk)
	v.end(n)
}

// end waits until nothing of a life is left, whatever it says: its disk is gone.
func (v *virtual) end(n *virtualNode) error {
	n.stop()
	err := <-n.ended
	n.host.Down() // what it has begun meanwhile
	n.ended = nil
	return err
}

func (v *virtual) leave(i int) {
	if err := v.end(v.nodes[i]); err != nil {
		v.t.Errorf("%s was to stop: %v", v.nodes[i].name, err)
	}
	v.nodes[i].disk = v.nodes[i].disk.Kill()
}

// dial connects a client that knows all nodes, to one of them first.
func (v *virtual) dial(first int) *client.Client { return v.dialFrom("client", first) }

// dialFrom is dial from a machine of a name.
func (v *virtual) dialFrom(machine string, first int) *client.Client {
	v.t.Helper()
	address := func(i int) string { return v.nodes[i%len(v.nodes)].name + ":8090" }
	var others []string
	for i := range len(v.nodes) - 1 {
		others = append(others, address(first+1+i))
	}
	host := v.net.Host(machine)
	c, err := client.Dial(context.Background(), address(first), client.WithPassword("iggy", "iggy"), client.WithAddresses(others...),
		client.WithRetryBudget(10*time.Minute), client.WithDialer(func(ctx context.Context, to string) (net.Conn, error) { return host.Dial(ctx, "tcp", to) }))
	if err != nil {
		v.t.Fatal(err)
	}
	return c
}

// between draws a time.
func (v *virtual) between(least, most time.Duration) time.Duration {
	return least + time.Duration(v.rng.Int64N(int64(most-least)))
}

// trouble does one thing that goes wrong, and mends it.
func (v *virtual) trouble() {
	i := v.rng.IntN(len(v.nodes))
	j := (i + 1 + v.rng.IntN(max(1, len(v.nodes)-1))) % len(v.nodes)
	power := func(d *memdisk.Disk) *memdisk.Disk { return d.PowerLoss(v.rng) }
	for what := v.rng.IntN(8); ; what = 0 {
		switch what {
		case 0, 1:
			v.say("n%d is killed", i)
			v.down(i, (*memdisk.Disk).Kill)
		case 2:
			v.say("n%d loses power", i)
			v.down(i, power)
		case 3:
			v.say("all lose power")
			for k := range v.nodes {
				v.nodes[k].host.Down()
				v.nodes[k].disk = power(v.nodes[k].disk)
			}
			for k, n := range v.nodes {
				v.end(n)
				if k != i {
					v.start(k)
				}
			}
		case 4:
			v.say("n%d is stopped", i)
			v.leave(i)
		case 5:
			if len(v.nodes) == 1 {
				continue
			}
			v.replace(v.doomed)
			return
		case 6:
			v.fill(i)
			return
		case 7:
			if i == j {
				continue
			}
			both := v.rng.IntN(2) == 0
			v.say("n%d to n%d is cut, both ways: %v", i, j, both)
			v.net.Cut(v.nodes[i].name, v.nodes[j].name)
			if both {
				v.net.Cut(v.nodes[j].name, v.nodes[i].name)
			}
			time.Sleep(v.between(10*time.Millisecond, 5*time.Second))
			v.net.Heal(v.nodes[i].name, v.nodes[j].name)
			v.net.Heal(v.nodes[j].name, v.nodes[i].name)
			return
		}
		time.Sleep(v.between(time.Millisecond, 4*time.Second))
		v.start(i)
		return
	}
}

// replace gives a node an empty disk in the place of its own.
func (v *virtual) replace(i int) {
	v.say("n%d loses its disk", i)
	v.down(i, func(*memdisk.Disk) *memdisk.Disk { return memdisk.New(memdisk.Options{}) })
	time.Sleep(v.between(time.Millisecond, 2*time.Second))
	n := v.nodes[i]
	n.cfg.Replace = true
	v.start(i)
	n.cfg.Replace = false
	v.serves(i) // before that it would have to be told again
}

// fill has a disk without room for a while.
func (v *virtual) fill(i int) {
	v.say("the disk of n%d is full", i)
	d := v.nodes[i].disk
	d.Inject(memdisk.Fault{Class: memdisk.NoSpace, Ops: memdisk.OpCreate | memdisk.OpMkdirAll, Times: memdisk.Forever})
	time.Sleep(v.between(time.Second, 10*time.Second))
	d.ClearFaults()
}

// group is consumers that share a topic, and what they were given.
type group struct {
	wg   sync.WaitGroup
	stop []context.CancelFunc

	mu   sync.Mutex
	seen map[string]int
}

// join adds a consumer, which no trouble may end.
func (g *group) join(t *testing.T, c *client.Client, stream, topic galgo.Identifier) {
	ctx, stop := context.WithCancel(context.Background())
	g.stop = append(g.stop, stop)
	k := c.NewGroupConsumer(client.GroupConsumerSpec{Stream: stream, Topic: topic, Group: galgo.NamedID("g"), Create: true})
	g.wg.Go(func() {
		err := k.Run(ctx, func(_ context.Context, _ uint32, m galgo.Message) error {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.seen == nil {
				g.seen = map[string]int{}
			}
			g.seen[string(m.Payload)]++
			return nil
		})
		if ctx.Err() == nil {
			t.Errorf("a consumer of the group ended: %v", err)
		}
	})
}

// awaits waits until all that was acknowledged was given to somebody.
func (g *group) awaits(t *testing.T, l *load) {
	t.Helper()
	missing := ""
	for range 120 {
		g.mu.Lock()
		missing = ""
		for producer, n := range l.numbers {
			for i := range n {
				if payload := fmt.Sprintf("numbered %d %d", producer, i); g.seen[payload] == 0 {
					missing = payload
				}
			}
		}
		g.mu.Unlock()
		if missing == "" || t.Failed() {
			return
		}
		time.Sleep(time.Second)
	}
	t.Errorf("%q was acknowledged, and no consumer of the group was given it", missing)
}

func (g *group) leave() {
	for _, stop := range g.stop {
		stop()
	}
	g.wg.Wait()
}

// Whatever happens to its nodes and links, a client of a cluster sees a pause and no
// error; and what it was told is there once and in order, whichever node it asks.
func TestTroubleInVirtualTime(t *testing.T) {
	for seed := virtualSeed; seed < virtualSeed+virtualSeeds; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { trouble(t, uint64(seed), []int{3, 3, 5, 1}[seed%4]) })
		})
	}
}

func trouble(t *testing.T, seed uint64, size int) {
	v := newVirtual(t, seed, size)
	defer func() {
		for _, n := range v.nodes {
			if n.ended != nil {
				v.end(n)
			}
		}
		if t.Failed() {
			for _, line := range v.log {
				t.Log(line)
			}
		}
	}()
	for i := range v.nodes {
		v.start(i)
	}
	for i := range v.nodes {
		v.serves(i)
	}
	ctx := context.Background()
	admin := v.dial(0)
	defer admin.Close()
	stream, topic := createTopic(t, admin, 2)
	l := newLoad(t, nil)
	for i := range 3 {
		c := v.dial(i % size)
		defer c.Close()
		l.wg.Go(func() { l.produce(c, i) })
	}
	creator := v.dial(1 % size)
	defer creator.Close()
	l.wg.Go(func() { l.createStreams(creator) })
	var readers group
	for i := range 2 {
		c := v.dial((i + 2) % size)
		defer c.Close()
		readers.join(t, c, stream, topic)
	}
	defer readers.leave()
	for range 12 {
		time.Sleep(v.between(time.Millisecond, 3*time.Second))
		v.trouble()
	}
	l.awaitMore(50)
	l.end()
	v.say("the load ends")
	readers.awaits(t, l)
	time.Sleep(2 * time.Second) // reads may be of the past by less
	for i := range v.nodes {
		v.serves(i)
		c := v.dial(i)
		l.verify(ctx, c)
		l.verifyStreams(ctx, c)
		c.Close()
	}
	t.Logf("%d nodes, %.0f s of virtual time", size, time.Since(v.began).Seconds())
}

// A token holds on every node as soon as its creation is answered, and on none when its
// deletion is, however far a node is behind (PF-auth-03). The same of a password.
func TestCredentialsOnEveryNodeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVirtual(t, 1, 3)
		for i := range v.nodes {
			v.start(i)
			defer v.end(v.nodes[i])
		}
		for i := range v.nodes {
			v.serves(i)
		}
		ctx := context.Background()
		admin := v.dial(0)
		defer admin.Close()
		host := v.net.Host("client")
		signIn := func(node int, how client.Option) error {
			c, err := client.Dial(ctx, v.nodes[node].name+":8090", how, client.WithRetryBudget(time.Minute),
				client.WithDialer(func(ctx context.Context, to string) (net.Conn, error) { return host.Dial(ctx, "tcp", to) }))
			if err == nil {
				c.Close()
			}
			return err
		}
		everywhere := func(what string, how client.Option, holds bool) {
			t.Helper()
			for node := range v.nodes {
				if err := signIn(node, how); (err == nil) != holds {
					t.Errorf("%s at n%d: %v", what, node, err)
				}
			}
		}
		if _, err := admin.CreateUser(ctx, client.UserSpec{Name: "ann", Password: "pass 0"}); err != nil {
			t.Fatal(err)
		}
		everywhere("a new user", client.WithPassword("ann", "pass 0"), true)
		for round := range 5 {
			token, err := admin.CreateToken(ctx, "t", 0)
			if err != nil {
				t.Fatal(err)
			}
			everywhere("a new token", client.WithToken(token), true)
			if err := admin.DeleteToken(ctx, "t"); err != nil {
				t.Fatal(err)
			}
			everywhere("a deleted token", client.WithToken(token), false)
			old, replacement := fmt.Sprint("pass ", round), fmt.Sprint("pass ", round+1)
			if err := admin.ChangePassword(ctx, galgo.NamedID("ann"), old, replacement); err != nil {
				t.Fatal(err)
			}
			everywhere("a new password", client.WithPassword("ann", replacement), true)
			everywhere("a former password", client.WithPassword("ann", old), false)
		}
	})
}

// A node that dies takes along those members of a group that do not come back: within the time
// that a member may be silent the others have their partitions, and who has come back over
// another node keeps its own. When it is there again in another life, nobody waits.
func TestMembersOfADeadNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVirtual(t, 2, 3)
		for i := range v.nodes {
			v.start(i)
			defer func() {
				if v.nodes[i].ended != nil {
					v.end(v.nodes[i])
				}
			}()
		}
		for i := range v.nodes {
			v.serves(i)
		}
		ctx := context.Background()
		admin := v.dial(0)
		defer admin.Close()
		stream, topic := createTopic(t, admin, 6)
		g := galgo.NamedID("g")
		members := func() int {
			d, err := admin.ConsumerGroup(ctx, stream, topic, g)
			if err != nil {
				t.Fatal(err)
			}
			owned := 0
			for _, m := range d.Members {
				owned += len(m.Partitions)
			}
			if len(d.Members) > 0 && owned != 6 {
				t.Errorf("%d of 6 partitions have an owner", owned)
			}
			return len(d.Members)
		}
		within := func(limit time.Duration, what string, want int) {
			t.Helper()
			for began := time.Now(); members() != want; time.Sleep(time.Second) {
				if time.Since(began) > limit {
					t.Fatalf("%s: %d members after %v, want %d", what, members(), limit, want)
				}
			}
		}
		var readers group
		for machine, node := range map[string]int{"stays": 0, "comes back": 1, "is lost": 1} {
			c := v.dialFrom(machine, node)
			defer c.Close()
			readers.join(t, c, stream, topic)
		}
		defer readers.leave()
		within(time.Minute, "all have joined", 3)
		for _, n := range v.nodes {
			v.net.Cut("is lost", n.name)
			defer v.net.Heal("is lost", n.name)
		}
		v.down(1, (*memdisk.Disk).Kill)
		time.Sleep(10 * time.Second)
		if n := members(); n != 3 {
			t.Errorf("%d members after 10 s, want 3", n)
		}
		within(time.Minute, "one is lost", 2)
		time.Sleep(2 * time.Minute)
		if n := members(); n != 2 {
			t.Errorf("%d members later, want 2", n)
		}
		v.start(1)
		v.serves(1)
	})
}
