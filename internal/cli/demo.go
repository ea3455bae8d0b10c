package cli

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"galgo"
	"galgo/client"
	"galgo/internal/wire"
)

// demo is a cluster of processes that is made to lose its primary again and again.
type demo struct {
	duration time.Duration
	every    time.Duration
	nodes    int
	dir      string

	e          *env
	fleet      demoFleet
	partitions []*demoPartition
	began      time.Time
	kills      atomic.Int32
}

const (
	demoPartitions = 3
	demoDown       = 1500 * time.Millisecond // that a killed node stays away
	demoSettle     = 30 * time.Second        // for all nodes to have everything in the end
)

func demoCommand() *command {
	d := &demo{}
	return &command{
		use: "demo", short: "Run a cluster on this machine and kill its primary again and again", args: exactly(0),
		long: `Run a cluster of processes on this machine, with producers and consumers, and kill
its primary again and again. Every message is numbered and read back, and in the end the
files of all nodes are verified and compared. The exit status is 0 only if nothing
acknowledged was lost, repeated or out of order, on any node or disk.`,
		example: "  galgo demo\n  galgo demo --duration 5m --nodes 5 --every 3s",
		flags: func(fs *flagSet) {
			fs.DurationVar(&d.duration, "duration", time.Minute, "how long to run")
			fs.DurationVar(&d.every, "every", 5*time.Second, "how often the primary is killed")
			fs.IntVar(&d.nodes, "nodes", 3, "nodes of the cluster: 3, 5 or 7")
			fs.StringVar(&d.dir, "dir", "", "where the data and logs go; kept (default: a temporary directory, removed if all is well)")
		},
		run: func(ctx context.Context, e *env, _ []string) error {
			if d.nodes < 3 || d.nodes > 7 || d.nodes%2 == 0 {
				return usagef("--nodes %d: want 3, 5 or 7", d.nodes)
			}
			if d.duration < time.Second || d.every < 100*time.Millisecond {
				return usagef("--duration %v, --every %v: want at least 1s and 100ms", d.duration, d.every)
			}
			d.e = e
			return d.run(ctx)
		},
	}
}

func (d *demo) run(ctx context.Context) (err error) {
	dir := d.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "galgo-demo-"); err != nil {
			return err
		}
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	defer func() {
		if err == nil && d.dir == "" {
			err = os.RemoveAll(dir)
		} else {
			d.e.say("Data and logs are in %s.", dir)
		}
	}()
	if d.fleet, err = newDemoFleet(dir, d.nodes, d.e.program.Environ); err != nil {
		return err
	}
	defer d.fleet.end()
	d.began = time.Now()
	if err := d.fleet.begin(ctx); err != nil {
		return err
	}
	d.event("%d nodes have formed a cluster, after %v", d.nodes, time.Since(d.began).Round(time.Millisecond))
	return d.play(ctx)
}

// event tells what happens, and when.
func (d *demo) event(format string, args ...any) {
	d.e.say("%6.1fs  %s", time.Since(d.began).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) dial(ctx context.Context, first int) (*client.Client, error) {
	a := d.fleet.addresses(first)
	return client.Dial(ctx, a[0], client.WithAddresses(a[1:]...), client.WithPassword("iggy", "iggy"), client.WithRetryBudget(time.Minute))
}

// play runs load and killer until the time is over, then the last checks.
func (d *demo) play(ctx context.Context) error {
	admin, err := d.dial(ctx, 0)
	if err != nil {
		return err
	}
	defer admin.Close()
	stream, topic := galgo.NamedID("demo"), galgo.NamedID("events")
	if _, err := admin.CreateStream(ctx, "demo"); err != nil {
		return err
	}
	if _, err := admin.CreateTopic(ctx, stream, client.TopicSpec{Name: "events", Partitions: demoPartitions}); err != nil {
		return err
	}
	failing, fail := context.WithCancel(ctx)
	defer fail()
	play, stop := context.WithTimeout(failing, d.duration)
	defer stop()
	if err := d.load(play, stream, topic, func(ctx context.Context) error { return d.torment(ctx, admin) }); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return d.judge(ctx, stream, topic)
}

// load runs producers and consumers of all partitions, and what torments them. The
// consumers end when the producers have and all is read.
func (d *demo) load(ctx context.Context, stream, topic galgo.Identifier, torment func(context.Context) error) error {
	all, whole := errgroup.WithContext(ctx)
	produced, done := context.WithCancel(context.WithoutCancel(ctx))
	defer done()
	producers := new(errgroup.Group)
	for i := range demoPartitions {
		p := &demoPartition{id: uint32(i)}
		d.partitions = append(d.partitions, p)
		writer, err := d.dial(ctx, i)
		if err != nil {
			return err
		}
		defer writer.Close()
		reader, err := d.dial(ctx, i+1)
		if err != nil {
			return err
		}
		defer reader.Close()
		producers.Go(func() error { return p.produce(whole, writer, stream, topic) })
		all.Go(func() error { return p.consume(produced, reader, stream, topic) })
	}
	all.Go(func() error {
		defer done()
		return producers.Wait()
	})
	all.Go(func() error { return torment(whole) })
	all.Go(func() error { d.report(whole); return nil })
	return all.Wait()
}

// report tells the counts, once a second.
func (d *demo) report(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			acked, read, _ := d.counts()
			d.event("acknowledged %d, read %d, primary killed %d times", acked, read, d.kills.Load())
		}
	}
}

func (d *demo) counts() (acked, read int64, pause time.Duration) {
	for _, p := range d.partitions {
		acked += p.acked.Load()
		read += p.read.Load()
		pause = max(pause, time.Duration(p.pause.Load()))
	}
	return acked, read, pause
}

// torment kills whoever leads, and starts it again.
func (d *demo) torment(ctx context.Context, c *client.Client) error {
	for {
		if !rest(ctx, d.every) {
			return nil
		}
		n, err := d.leader(ctx, c)
		if err != nil || n == nil {
			return err
		}
		n.kill()
		d.kills.Add(1)
		d.event("%s, the primary, is killed", n.name)
		rest(ctx, demoDown)
		if err := n.start(); err != nil {
			return err
		}
		if err := n.serves(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		d.event("%s is back", n.name)
	}
}

// leader finds the node that leads the metadata group; nil if the time is over.
func (d *demo) leader(ctx context.Context, c *client.Client) (*demoNode, error) {
	for {
		m, err := c.ClusterMetadata(context.WithoutCancel(ctx))
		if err != nil {
			return nil, err
		}
		for i, n := range m.Nodes {
			if n.Role == wire.RoleLeader {
				return d.fleet[i], nil
			}
		}
		if !rest(ctx, 10*time.Millisecond) {
			return nil, nil
		}
	}
}

func rest(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// judge reads everything once more, from each node, and sums up.
func (d *demo) judge(ctx context.Context, stream, topic galgo.Identifier) error {
	ctx, cancel := context.WithTimeout(ctx, demoSettle)
	defer cancel()
	for _, n := range d.fleet {
		c, err := client.Dial(ctx, n.address, client.WithPassword("iggy", "iggy"))
		if err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
		for _, p := range d.partitions {
			if err := p.all(ctx, c, stream, topic); err != nil {
				c.Close()
				return fmt.Errorf("%s: %w", n.name, err)
			}
		}
		if err := c.Close(); err != nil {
			return err
		}
		d.event("%s has everything, in order", n.name)
	}
	if err := d.verify(ctx); err != nil {
		return err
	}
	acked, read, pause := d.counts()
	v := struct {
		Nodes        int     `json:"nodes"`
		Acknowledged int64   `json:"acknowledged"`
		Read         int64   `json:"read"`
		Kills        int32   `json:"primary_killed"`
		Pause        float64 `json:"longest_pause_seconds"`
	}{d.nodes, acked, read, d.kills.Load(), pause.Seconds()}
	return d.e.print(v, table{
		{"Nodes", "Acknowledged", "Read", "Lost, repeated, out of order", "Primary killed", "Longest pause"},
		{fmt.Sprint(d.nodes), fmt.Sprint(acked), fmt.Sprint(read), "0", fmt.Sprint(d.kills.Load()), pause.Round(time.Millisecond).String()},
	})
}

// verify ends all nodes, as a crash of the machine does, and compares what is on disk.
func (d *demo) verify(ctx context.Context) error {
	d.fleet.end()
	var dirs []string
	for _, n := range d.fleet {
		dirs = append(dirs, n.dir)
	}
	r, err := verifyDirectories(ctx, dirs, nil)
	if err != nil {
		return err
	}
	if !r.Sound {
		return fmt.Errorf("the files of the nodes are not as they must be: %s; galgo verify tells more", printable(r.Problems[0].String()))
	}
	d.event("all nodes are killed, and their files are sound and equal: %d messages on %s", r.Directories[0].Messages, d.fleet[0].name)
	return nil
}
