package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"galgo"
	"galgo/client"
	"galgo/internal/freeport"
)

// galgoCluster is one node or several, with what the jobs have made there.
type galgoCluster struct {
	binary    string
	dir       string
	addresses []string
	envs      [][]string // of each server
	all       []*process
	token     string
	groups    int // partitions made so far; their groups are numbered from 1
	topics    int
	stored    stored
}

// stored is the topic that was published last, for who reads.
type stored struct {
	topic string
	node  int
	count int
}

const stream = "bench"

func galgoNodes(n int) starter {
	return func(ctx context.Context, o *options, dir string) (system, error) {
		g := &galgoCluster{binary: o.galgo, dir: dir}
		if g.binary == "" {
			g.binary = filepath.Join(o.bin, "galgo")
		}
		if err := g.plan(n); err != nil {
			return nil, err
		}
		err := g.start(ctx)
		if err != nil {
			g.stop()
		}
		return g, err
	}
}

// plan decides about ports and settings. Everything that decides about speed or
// durability stays as it is by default.
func (g *galgoCluster) plan(n int) error {
	ports, err := freeport.Take(2 * n)
	if err != nil {
		return err
	}
	env := []string{
		"GALGO_DISPLAY_CONFIG=false", "GALGO_SYSTEM_LOGGING_FILE_ENABLED=false",
		"GALGO_HTTP_ENABLED=false", "GALGO_QUIC_ENABLED=false", "GALGO_WEBSOCKET_ENABLED=false",
	}
	for i := range n {
		g.addresses = append(g.addresses, freeport.Loopback(ports[2*i]))
		node := fmt.Sprintf("GALGO_CLUSTER_NODES_%d_", i)
		if n > 1 {
			env = append(env, "GALGO_CLUSTER_ENABLED=true", fmt.Sprintf("%sNAME=n%d", node, i), node+"IP=127.0.0.1", fmt.Sprintf("%sREPLICA_ID=%d", node, i),
				fmt.Sprintf("%sPORTS_TCP=%d", node, ports[2*i]), fmt.Sprintf("%sPORTS_TCP_REPLICA=%d", node, ports[2*i+1]))
		}
	}
	for i, address := range g.addresses {
		g.envs = append(g.envs, append(env[:len(env):len(env)], "GALGO_TCP_ADDRESS="+address, fmt.Sprint("GALGO_REPLICA_ID=", i),
			"GALGO_SYSTEM_PATH="+filepath.Join(g.dir, fmt.Sprint("node", i))))
	}
	return nil
}

func (g *galgoCluster) start(ctx context.Context) error {
	for i := range g.addresses {
		p, err := launch(g.dir, fmt.Sprint("galgo", i), g.envs[i], g.binary, "server")
		if err != nil {
			return err
		}
		g.all = append(g.all, p)
	}
	for i, p := range g.all {
		if err := p.awaitPort(ctx, g.addresses[i]); err != nil {
			return err
		}
	}
	c, err := g.dial(ctx, 0)
	if err != nil {
		return err
	}
	defer c.Close()
	// A token is looked up; a password takes a processor for a while, a thousand times.
	if g.token, err = c.CreateToken(ctx, "bench", 0); err != nil {
		return err
	}
	_, err = c.CreateStream(ctx, stream)
	return err
}

func (g *galgoCluster) dial(ctx context.Context, node int, opts ...client.Option) (*client.Client, error) {
	login := client.WithPassword("iggy", "iggy")
	if g.token != "" {
		login = client.WithToken(g.token)
	}
	return client.Dial(ctx, g.addresses[node], append([]client.Option{login, client.WithRetryBudget(time.Minute)}, opts...)...)
}

func (g *galgoCluster) servers() []*process { return g.all }

func (g *galgoCluster) stop() {
	for _, p := range g.all {
		p.kill()
	}
}

func (g *galgoCluster) run(ctx context.Context, j job) (load, error) {
	switch j.kind {
	case publish:
		return g.publish(ctx, j)
	case consume:
		return g.consume(ctx, j)
	case metadata:
		return g.bench(ctx, 0, "metadata", "--clients", strconv.Itoa(j.clients), "--count", strconv.Itoa(j.count))
	case offsets:
		return g.offsets(ctx, j)
	case writers:
		return g.writers(ctx, j)
	case failover:
		return g.failover(ctx)
	case recovery:
		return g.recovery(ctx, j)
	}
	return load{}, fmt.Errorf("galgo has no job %s", j.kind)
}

// publish sends into a new topic of one partition, through the node that leads it.
func (g *galgoCluster) publish(ctx context.Context, j job) (load, error) {
	g.topics++
	topic := fmt.Sprint("t", g.topics)
	node := g.newGroups(1)
	args := []string{
		"producer", "--reuse", "--keep", "--stream", stream, "--topic", topic, "--partitions", "1", "--clients", strconv.Itoa(j.clients), "--in-flight", strconv.Itoa(j.inFlight),
		"--message-size", strconv.Itoa(messageSize), "--messages-per-batch", strconv.Itoa(j.batch), "--count", strconv.Itoa(j.count),
	}
	if j.memory {
		args = append(args, "--set", "enforce_fsync=false")
	}
	l, err := g.bench(ctx, node, args...)
	if j.batch > 1 {
		g.stored = stored{topic, node, j.count}
	}
	return l, err
}

// newGroups counts partitions that are made, and says which node leads the first:
// the first primary of a group follows from its number.
func (g *galgoCluster) newGroups(n int) (node int) {
	first := g.groups + 1
	g.groups += n
	return first % len(g.addresses)
}

// consume reads what the last publish has stored, and stores that much before if it
// was less.
func (g *galgoCluster) consume(ctx context.Context, j job) (load, error) {
	return g.bench(ctx, g.stored.node, "consumer", "--stream", stream, "--topic", g.stored.topic, "--clients", "1",
		"--message-size", strconv.Itoa(messageSize), "--messages-per-batch", strconv.Itoa(j.batch), "--count", strconv.Itoa(j.count))
}

// prepare makes what a job needs and does not measure.
func (g *galgoCluster) prepare(ctx context.Context, j job) error {
	if j.kind != consume || g.stored.count >= j.count {
		return nil
	}
	_, err := g.publish(ctx, sends(1, 4, 1000, j.count, true))
	return err
}

// offsets stores offsets of consumers in one partition for each connection, each of
// which has its share of the clients in flight.
func (g *galgoCluster) offsets(ctx context.Context, j job) (load, error) {
	g.topics++
	g.newGroups(j.connections)
	l, err := g.bench(ctx, 0, "offsets", "--reuse", "--keep", "--stream", stream, "--topic", fmt.Sprint("t", g.topics), "--partitions", strconv.Itoa(j.connections),
		"--clients", strconv.Itoa(j.connections), "--in-flight", strconv.Itoa((j.clients+j.connections-1)/j.connections), "--count", strconv.Itoa(j.count))
	l.bytes = 0 // they are no messages
	return l, err
}

// galgoReport is what galgo bench prints.
type galgoReport struct {
	Results []struct {
		Messages  float64 `json:"messages"`
		PerSecond float64 `json:"messages_per_second"`
		P50       float64 `json:"p50_ms"`
		P99       float64 `json:"p99_ms"`
	} `json:"results"`
	Operations float64 `json:"operations"`
	PerSecond  float64 `json:"operations_per_second"`
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
}

func parseGalgo(out string) (load, error) {
	var r galgoReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return load{}, fmt.Errorf("what galgo bench printed: %w", err)
	}
	if len(r.Results) == 0 {
		return load{rate: r.PerSecond, p50: r.P50, p99: r.P99}, nil
	}
	s := r.Results[0]
	return load{rate: s.PerSecond, p50: s.P50, p99: s.P99, bytes: s.Messages * messageSize}, nil
}

func (g *galgoCluster) bench(ctx context.Context, node int, args ...string) (load, error) {
	env := []string{"GALGO_ADDRESS=" + g.addresses[node], "GALGO_TOKEN=" + g.token, "GALGO_HOME=" + g.dir}
	out, cpu, err := tool(ctx, env, g.binary, append(append([]string{"bench"}, args...), "--output", "json", "--quiet")...)
	if err != nil {
		return load{}, err
	}
	l, err := parseGalgo(out)
	l.cpu = cpu
	return l, err
}

// writers are clients with a partition each, connected to the node that leads it.
func (g *galgoCluster) writers(ctx context.Context, j job) (load, error) {
	admin, err := g.dial(ctx, 0)
	if err != nil {
		return load{}, err
	}
	defer admin.Close()
	g.topics++
	topic := galgo.NamedID(fmt.Sprint("t", g.topics))
	first := g.newGroups(j.clients)
	if _, err := admin.CreateTopic(ctx, galgo.NamedID(stream), client.TopicSpec{Name: topic.Name, Partitions: uint32(j.clients)}); err != nil {
		return load{}, err
	}
	var all []write
	for i := range j.clients {
		c, err := g.dial(ctx, (first+i)%len(g.addresses))
		if err != nil {
			return load{}, err
		}
		defer c.Close()
		all = append(all, g.writer(c, topic, uint32(i)))
	}
	return writeAll(ctx, all, j.count)
}

func (g *galgoCluster) writer(c *client.Client, topic galgo.Identifier, partition uint32) write {
	payload := make([]byte, messageSize)
	return func(ctx context.Context) error {
		_, err := c.SendMessages(ctx, galgo.NamedID(stream), topic, galgo.ToPartition(partition), []galgo.Message{{Payload: payload}})
		return err
	}
}

// failover kills the node that leads the partition which a client writes to.
func (g *galgoCluster) failover(ctx context.Context) (load, error) {
	leader := g.newGroups(1)
	g.topics++
	topic := galgo.NamedID(fmt.Sprint("t", g.topics))
	others := client.WithAddresses(g.addresses[(leader+1)%len(g.addresses)], g.addresses[(leader+2)%len(g.addresses)])
	c, err := g.dial(ctx, leader, others)
	if err != nil {
		return load{}, err
	}
	defer c.Close()
	if _, err := c.CreateTopic(ctx, galgo.NamedID(stream), client.TopicSpec{Name: topic.Name, Partitions: 1}); err != nil {
		return load{}, err
	}
	return longestGap(ctx, g.writer(c, topic, 0), func() error { g.all[leader].kill(); return nil })
}

// recovery fills a partition, kills the server and starts it again.
func (g *galgoCluster) recovery(ctx context.Context, j job) (load, error) {
	j.kind = publish
	if _, err := g.publish(ctx, j); err != nil {
		return load{}, err
	}
	g.all[0].kill()
	start := time.Now()
	p, err := launch(g.dir, "galgo0", g.envs[0], g.binary, "server")
	if err != nil {
		return load{}, err
	}
	g.all[0] = p
	if err := p.awaitPort(ctx, g.addresses[0]); err != nil {
		return load{}, err
	}
	c, err := g.dial(ctx, 0)
	if err != nil {
		return load{}, err
	}
	defer c.Close()
	for {
		n, err := g.lastOffset(ctx, c)
		if err == nil && n == uint64(j.count-1) {
			return load{rate: time.Since(start).Seconds()}, nil
		}
		if err := pause(ctx, 2*time.Millisecond); err != nil {
			return load{}, err
		}
	}
}

var errEmpty = errors.New("no message")

// lastOffset reads the last message, as a client that wants to know where it is.
func (g *galgoCluster) lastOffset(ctx context.Context, c *client.Client) (uint64, error) {
	b, err := c.Poll(ctx, client.PollRequest{
		Consumer: galgo.Consumer{Kind: galgo.ConsumerSingle, ID: galgo.NumericID(1)}, Stream: galgo.NamedID(stream), Topic: galgo.NamedID(g.stored.topic),
		Strategy: galgo.FromLast(), Count: 1,
	})
	if err != nil {
		return 0, err
	}
	if b.Len() == 0 {
		return 0, errEmpty
	}
	return b.LastOffset(), nil
}

// write is one durable write of a client.
type write func(ctx context.Context) error

// writeAll has all writers write, one at a time each, until count are done.
func writeAll(ctx context.Context, all []write, count int) (load, error) {
	var wait sync.WaitGroup
	took := make([][]time.Duration, len(all))
	errs := make([]error, len(all))
	start := time.Now()
	for i, w := range all {
		wait.Go(func() {
			for range (count + len(all) - 1) / len(all) {
				began := time.Now()
				if errs[i] = w(ctx); errs[i] != nil {
					return
				}
				took[i] = append(took[i], time.Since(began))
			}
		})
	}
	wait.Wait()
	total := time.Since(start)
	var every []time.Duration
	for _, t := range took {
		every = append(every, t...)
	}
	p50, p99 := quantiles(every)
	return load{rate: float64(len(every)) / total.Seconds(), p50: p50, p99: p99, bytes: float64(len(every)) * messageSize}, errors.Join(errs...)
}

// removeAll empties a directory of a run.
func removeAll(dir string) error {
	if !strings.Contains(filepath.Base(dir), "run-") {
		return fmt.Errorf("%s is no directory of a run", dir)
	}
	return os.RemoveAll(dir)
}
