package main

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"galgo/internal/freeport"
)

// etcdCluster is one etcd member, or several.
type etcdCluster struct {
	tool      string
	endpoints []string
	all       []*process
}

func etcdNodes(n int) starter {
	return func(ctx context.Context, o *options, dir string) (system, error) {
		s := &etcdCluster{tool: filepath.Join(o.bin, "etcd-benchmark")}
		err := s.start(ctx, filepath.Join(o.bin, "etcd"), dir, n)
		if err != nil {
			s.stop()
		}
		return s, err
	}
}

func (s *etcdCluster) start(ctx context.Context, binary, dir string, n int) error {
	ports, err := freeport.Take(2 * n)
	if err != nil {
		return err
	}
	var members []string
	for i := range n {
		members = append(members, fmt.Sprintf("e%d=http://%s", i, freeport.Loopback(ports[n+i])))
	}
	for i := range n {
		listen, peer := "http://"+freeport.Loopback(ports[i]), "http://"+freeport.Loopback(ports[n+i])
		p, err := launch(dir, fmt.Sprint("etcd", i), nil, binary, "--name", fmt.Sprint("e", i), "--data-dir", filepath.Join(dir, fmt.Sprint("node", i)),
			"--listen-client-urls", listen, "--advertise-client-urls", listen, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--initial-cluster", strings.Join(members, ","), "--log-level", "error")
		if err != nil {
			return err
		}
		s.all, s.endpoints = append(s.all, p), append(s.endpoints, freeport.Loopback(ports[i]))
	}
	for i, p := range s.all {
		if err := p.awaitPort(ctx, s.endpoints[i]); err != nil {
			return err
		}
	}
	c, err := s.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	return until(ctx, putter(c))
}

func (s *etcdCluster) connect() (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: s.endpoints, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

// putter writes as many bytes as the tool of the peer does.
func putter(c *clientv3.Client) write {
	value := strings.Repeat("x", 128)
	return func(ctx context.Context) error {
		_, err := c.Put(ctx, "bench-of-a-write", value)
		return err
	}
}

func (s *etcdCluster) servers() []*process { return s.all }

func (s *etcdCluster) stop() {
	for _, p := range s.all {
		p.kill()
	}
}

func (s *etcdCluster) prepare(context.Context, job) error { return nil }

func (s *etcdCluster) run(ctx context.Context, j job) (load, error) {
	switch j.kind {
	case metadata:
		return s.put(ctx, j)
	case failover:
		return s.failover(ctx)
	}
	return load{}, fmt.Errorf("etcd has no job %s", j.kind)
}

func (s *etcdCluster) put(ctx context.Context, j job) (load, error) {
	out, cpu, err := tool(ctx, nil, s.tool, "--endpoints", strings.Join(s.endpoints, ","), "--target-leader",
		"--conns", strconv.Itoa(j.connections), "--clients", strconv.Itoa(j.clients), "put",
		"--key-size", "16", "--val-size", "128", "--total", strconv.Itoa(j.count), "--key-space-size", "100000", "--sequential-keys")
	if err != nil {
		return load{}, err
	}
	l, err := parseEtcd(out)
	l.cpu = cpu
	return l, err
}

var (
	etcdRate    = regexp.MustCompile(`Requests/sec:\s*([\d.]+)`)
	etcdLatency = regexp.MustCompile(`(50|99)% in ([\d.]+) secs`)
)

func parseEtcd(out string) (l load, err error) {
	m := etcdRate.FindStringSubmatch(out)
	if m == nil {
		return l, fmt.Errorf("etcd-benchmark printed no rate:\n%s", tail([]byte(out)))
	}
	if l.rate, err = strconv.ParseFloat(m[1], 64); err != nil {
		return l, err
	}
	for _, m := range etcdLatency.FindAllStringSubmatch(out, -1) {
		s, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return l, err
		}
		if m[1] == "50" {
			l.p50 = 1000 * s
		} else {
			l.p99 = 1000 * s
		}
	}
	return l, nil
}

// failover kills the leader.
func (s *etcdCluster) failover(ctx context.Context) (load, error) {
	c, err := s.connect()
	if err != nil {
		return load{}, err
	}
	defer c.Close()
	leader := -1
	for i, e := range s.endpoints {
		st, err := c.Status(ctx, e)
		if err != nil {
			return load{}, err
		}
		if st.Leader == st.Header.MemberId {
			leader = i
		}
	}
	if leader < 0 {
		return load{}, fmt.Errorf("none of the members of etcd leads")
	}
	return longestGap(ctx, putter(c), func() error { s.all[leader].kill(); return nil })
}
