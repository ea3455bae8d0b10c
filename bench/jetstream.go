package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"galgo/internal/freeport"
)

// natsCluster is one NATS server with JetStream, or several.
type natsCluster struct {
	server, cli string
	dir         string
	ports       []int
	configs     []string // files
	all         []*process
	stored      int // messages in the stream of its tool
}

// natsNodes are as they come, which is an fsync every two minutes, or synced: an fsync
// before each acknowledgement.
func natsNodes(n int, synced bool) starter {
	return func(ctx context.Context, o *options, dir string) (system, error) {
		s := &natsCluster{server: filepath.Join(o.bin, "nats-server"), cli: filepath.Join(o.bin, "nats"), dir: dir}
		if err := s.plan(n, synced); err != nil {
			return nil, err
		}
		err := s.start(ctx)
		if err != nil {
			s.stop()
		}
		return s, err
	}
}

func (s *natsCluster) plan(n int, synced bool) error {
	ports, err := freeport.Take(2 * n)
	if err != nil {
		return err
	}
	s.ports = ports[:n]
	var routes []string
	for _, p := range ports[n:] {
		routes = append(routes, "nats-route://"+freeport.Loopback(p))
	}
	for i := range n {
		sync := ""
		if synced {
			sync = ", sync_interval: always"
		}
		text := fmt.Sprintf("server_name: n%d\nlisten: %s\njetstream { store_dir: %q, max_file_store: 20GB%s }\n", i, freeport.Loopback(ports[i]), filepath.Join(s.dir, fmt.Sprint("node", i)), sync)
		if n > 1 {
			text += fmt.Sprintf("cluster { name: c1, listen: %s, routes: [ %s ] }\n", freeport.Loopback(ports[n+i]), strings.Join(routes, ", "))
		}
		name := filepath.Join(s.dir, fmt.Sprintf("nats%d.conf", i))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
		s.configs = append(s.configs, name)
	}
	return nil
}

func (s *natsCluster) start(ctx context.Context) error {
	for i, c := range s.configs {
		p, err := launch(s.dir, fmt.Sprint("nats", i), nil, s.server, "-c", c)
		if err != nil {
			return err
		}
		s.all = append(s.all, p)
	}
	for i, p := range s.all {
		if err := p.awaitPort(ctx, freeport.Loopback(s.ports[i])); err != nil {
			return err
		}
	}
	js, done, err := s.connect(0)
	if err != nil {
		return err
	}
	defer done()
	// A stream can be made as soon as the cluster has agreed about who leads it.
	return until(ctx, func(ctx context.Context) error {
		_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "ready", Subjects: []string{"ready"}, Replicas: len(s.all)})
		return err
	})
}

// until tries until it works.
func until(ctx context.Context, try func(context.Context) error) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := try(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if e := pause(ctx, 20*time.Millisecond); e != nil {
			return errors.Join(e, err)
		}
	}
}

func (s *natsCluster) connect(first int) (js jetstream.JetStream, done func(), err error) {
	var urls []string
	for i := range s.ports {
		urls = append(urls, "nats://"+freeport.Loopback(s.ports[(first+i)%len(s.ports)]))
	}
	nc, err := nats.Connect(strings.Join(urls, ","), nats.DontRandomize(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond),
		nats.ReconnectJitter(0, 0), nats.RetryOnFailedConnect(true), nats.Timeout(250*time.Millisecond))
	if err != nil {
		return nil, nil, err
	}
	js, err = jetstream.New(nc)
	return js, nc.Close, err
}

func (s *natsCluster) servers() []*process { return s.all }

func (s *natsCluster) stop() {
	for _, p := range s.all {
		p.kill()
	}
}

func (s *natsCluster) run(ctx context.Context, j job) (load, error) {
	switch j.kind {
	case publish:
		return s.publish(ctx, j)
	case consume:
		return s.consume(ctx, j)
	case writers:
		return s.writers(ctx, j)
	case failover:
		return s.failover(ctx)
	case recovery:
		return s.recovery(ctx, j)
	}
	return load{}, fmt.Errorf("NATS has no job %s", j.kind)
}

// toolStream is the stream that the tool makes and uses.
const toolStream = "benchstream"

// publish sends into the stream of the tool, which is emptied before, through the
// server that leads it.
func (s *natsCluster) publish(ctx context.Context, j job) (load, error) {
	leader, err := s.makeToolStream(ctx)
	if err != nil {
		return load{}, err
	}
	args := []string{"js", "pub", j.tool, "--msgs", strconv.Itoa(j.count), "--clients", strconv.Itoa(j.clients)}
	switch j.tool {
	case "fast":
		args = append(args, "--batch", strconv.Itoa(j.batch), "--max-outstanding-acks", strconv.Itoa(j.inFlight))
	case "async", "atomic":
		args = append(args, "--batch", strconv.Itoa(j.batch))
	}
	args = append(args, "--size", strconv.Itoa(messageSize), "--purge", "--replicas", strconv.Itoa(len(s.all)), "--maxbytes", "8GB", "--storage", "file", "--create", "foo")
	l, err := s.bench(ctx, leader, args...)
	l.bytes = float64(j.count) * messageSize
	s.stored = j.count
	return l, err
}

// makeToolStream makes the stream as the tool would, and waits for its leader.
func (s *natsCluster) makeToolStream(ctx context.Context) (leader int, err error) {
	js, done, err := s.connect(0)
	if err != nil {
		return 0, err
	}
	defer done()
	c := jetstream.StreamConfig{
		Name: toolStream, Subjects: []string{"foo"}, Replicas: len(s.all), MaxBytes: 8 << 30, Discard: jetstream.DiscardNew,
		AllowDirect: true, AllowAtomicPublish: true, AllowBatchPublish: true,
	}
	err = until(ctx, func(ctx context.Context) error {
		if _, err := js.CreateOrUpdateStream(ctx, c); err != nil {
			return err
		}
		leader, err = s.leader(ctx, js, toolStream)
		return err
	})
	return leader, err
}

var errNoLeader = errors.New("the stream has no leader")

// leader is the index of the server that leads a stream.
func (s *natsCluster) leader(ctx context.Context, js jetstream.JetStream, name string) (int, error) {
	if len(s.all) == 1 {
		return 0, nil
	}
	st, err := js.Stream(ctx, name)
	if err != nil {
		return 0, err
	}
	cluster := st.CachedInfo().Cluster
	if cluster == nil || cluster.Leader == "" {
		return 0, errNoLeader
	}
	return strconv.Atoi(strings.TrimPrefix(cluster.Leader, "n"))
}

func (s *natsCluster) prepare(ctx context.Context, j job) error {
	if j.kind != consume {
		return nil
	}
	if s.stored < j.count {
		if _, err := s.publish(ctx, ways(sends(1, 4, 1000, j.count, true), "fast")[0]); err != nil {
			return err
		}
	}
	// The consumer of the tool remembers how far it was.
	js, done, err := s.connect(0)
	if err != nil {
		return err
	}
	defer done()
	err = js.DeleteConsumer(ctx, toolStream, "nats-bench")
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	return err
}

func (s *natsCluster) consume(ctx context.Context, j job) (load, error) {
	js, done, err := s.connect(0)
	if err != nil {
		return load{}, err
	}
	defer done()
	leader, err := s.leader(ctx, js, toolStream)
	if err != nil {
		return load{}, err
	}
	args := []string{"js", j.tool, "--batch", strconv.Itoa(j.batch), "--msgs", strconv.Itoa(j.count), "--size", strconv.Itoa(messageSize)}
	if j.tool != "ordered" {
		args = append(args, "--acks", "none")
	}
	l, err := s.bench(ctx, leader, args...)
	l.bytes = float64(j.count) * messageSize
	return l, err
}

func (s *natsCluster) bench(ctx context.Context, node int, args ...string) (load, error) {
	out, cpu, err := tool(ctx, nil, s.cli, append(append([]string{"-s", "nats://" + freeport.Loopback(s.ports[node]), "bench"}, args...), "--no-progress")...)
	if err != nil {
		return load{}, err
	}
	l, err := parseNATS(out)
	l.cpu = cpu
	return l, err
}

var (
	natsRate    = regexp.MustCompile(`stats: ([\d,]+) msgs/sec`)
	natsLatency = regexp.MustCompile(`(P50|P99):? ([\d,.]+)us`)
)

// parseNATS reads the last line of statistics: with several clients that is the one of
// all of them.
func parseNATS(out string) (l load, err error) {
	rates := natsRate.FindAllStringSubmatchIndex(out, -1)
	if len(rates) == 0 {
		return l, fmt.Errorf("nats bench printed no rate:\n%s", tail([]byte(out)))
	}
	last := rates[len(rates)-1]
	if l.rate, err = number(out[last[2]:last[3]]); err != nil {
		return l, err
	}
	for _, m := range natsLatency.FindAllStringSubmatch(out[last[0]:], -1) {
		us, err := number(m[2])
		if err != nil {
			return l, err
		}
		if m[1] == "P50" {
			l.p50 = us / 1000
		} else {
			l.p99 = us / 1000
		}
	}
	return l, nil
}

func number(s string) (float64, error) { return strconv.ParseFloat(strings.ReplaceAll(s, ",", ""), 64) }

// writers are clients with a stream each, connected to the server that leads it.
func (s *natsCluster) writers(ctx context.Context, j job) (load, error) {
	admin, done, err := s.connect(0)
	if err != nil {
		return load{}, err
	}
	defer done()
	var all []write
	for i := range j.clients {
		name := fmt.Sprint("s", i)
		leader := 0
		if err := until(ctx, func(ctx context.Context) (err error) {
			c := jetstream.StreamConfig{Name: name, Subjects: []string{name}, Replicas: len(s.all)}
			if _, err := admin.CreateOrUpdateStream(ctx, c); err != nil {
				return err
			}
			leader, err = s.leader(ctx, admin, name)
			return err
		}); err != nil {
			return load{}, err
		}
		js, done, err := s.connect(leader)
		if err != nil {
			return load{}, err
		}
		defer done()
		all = append(all, publisher(js, name))
	}
	return writeAll(ctx, all, j.count)
}

func publisher(js jetstream.JetStream, subject string) write {
	payload := make([]byte, messageSize)
	return func(ctx context.Context) error {
		_, err := js.Publish(ctx, subject, payload, jetstream.WithRetryAttempts(0))
		return err
	}
}

// failover kills the server that leads the stream which a client writes to.
func (s *natsCluster) failover(ctx context.Context) (load, error) {
	admin, done, err := s.connect(0)
	if err != nil {
		return load{}, err
	}
	defer done()
	leader := 0
	if err := until(ctx, func(ctx context.Context) (err error) {
		leader, err = s.leader(ctx, admin, "ready")
		return err
	}); err != nil {
		return load{}, err
	}
	js, done, err := s.connect(leader)
	if err != nil {
		return load{}, err
	}
	defer done()
	return longestGap(ctx, publisher(js, "ready"), func() error { s.all[leader].kill(); return nil })
}

func (s *natsCluster) recovery(ctx context.Context, j job) (load, error) {
	j.kind = publish
	if _, err := s.publish(ctx, j); err != nil {
		return load{}, err
	}
	s.all[0].kill()
	start := time.Now()
	p, err := launch(s.dir, "nats0", nil, s.server, "-c", s.configs[0])
	if err != nil {
		return load{}, err
	}
	s.all[0] = p
	if err := p.awaitPort(ctx, freeport.Loopback(s.ports[0])); err != nil {
		return load{}, err
	}
	js, done, err := s.connect(0)
	if err != nil {
		return load{}, err
	}
	defer done()
	for {
		attempt, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		st, err := js.Stream(attempt, toolStream)
		cancel()
		if err == nil && st.CachedInfo().State.Msgs == uint64(j.count) {
			return load{rate: time.Since(start).Seconds()}, nil
		}
		if err := pause(ctx, 2*time.Millisecond); err != nil {
			return load{}, err
		}
	}
}
