package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"galgo"
	"galgo/client"
)

// benchFlags say what load to make.
type benchFlags struct {
	stream, topic string
	clients       int
	partitions    uint32
	inFlight      int
	size          int
	batch         int
	count         uint64
	set           []string
	reuse, keep   bool
}

func benchCommand() *command {
	return &command{
		use: "bench", short: "Measure a server", connects: true,
		long: `Measure a server with clients that keep it busy: each sends or polls batches,
or makes operations on metadata, one after the other. Reports messages and bytes a
second and how long a batch took. MB are 10^6 bytes of payload.`,
		subs: []*command{
			benchSubcommand("producer", "Send batches", benchProduce),
			benchSubcommand("consumer", "Poll batches that a producer left with --keep", benchConsume),
			benchSubcommand("both", "Send and poll at the same time", benchBoth),
			benchSubcommand("offsets", "Store offsets of consumers", benchOffsets),
			benchMetadataCommand(),
		},
	}
}

type benchRun func(ctx context.Context, b *bench) ([]*side, error)

func benchSubcommand(use, short string, run benchRun) *command {
	f := benchFlags{}
	return &command{
		use: use, short: short, args: exactly(0), connects: true,
		flags: f.register,
		run: func(ctx context.Context, e *env, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return runBench(ctx, e, &f, use, run)
		},
	}
}

func (f *benchFlags) register(fs *flagSet) {
	fs.StringVar(&f.stream, "stream", "bench", "stream to use")
	fs.StringVar(&f.topic, "topic", "bench", "topic to use")
	fs.IntVarP(&f.clients, "clients", "c", 4, "connections, of producers and of consumers each")
	fs.Uint32Var(&f.partitions, "partitions", 0, "partitions of the topic (default: as many as clients)")
	fs.IntVar(&f.inFlight, "in-flight", 1, "batches that a client has in flight")
	fs.IntVarP(&f.size, "message-size", "m", 1000, "bytes of a payload")
	fs.IntVarP(&f.batch, "messages-per-batch", "b", 1000, "messages of a batch")
	fs.Uint64VarP(&f.count, "count", "n", 1_000_000, "messages in total")
	fs.StringArrayVar(&f.set, "set", nil, "KEY=VALUE, an option of the topic (repeat)")
	fs.BoolVar(&f.reuse, "reuse", false, "use the stream and the topic if they exist")
	fs.BoolVar(&f.keep, "keep", false, "do not delete the stream in the end")
}

func (f *benchFlags) check() error {
	if f.partitions == 0 {
		f.partitions = uint32(min(max(f.clients, 1), 1000))
	}
	switch {
	case f.clients < 1 || f.clients > benchClientsMax:
		return usagef("--clients %d: want 1..%d", f.clients, benchClientsMax)
	case f.inFlight < 1 || f.inFlight > client.SendsInFlightMax:
		return usagef("--in-flight %d: want 1..%d", f.inFlight, client.SendsInFlightMax)
	case f.size < 1 || f.batch < 1 || f.count < 1:
		return usagef("--message-size, --messages-per-batch and --count must be above 0")
	case f.size > benchBatchBytes || f.batch > benchBatchBytes/f.size:
		return usagef("%d messages of %d bytes do not fit into a frame: want at most %d bytes a batch", f.batch, f.size, benchBatchBytes)
	}
	return nil
}

// Bounds of what a benchmark does.
const (
	benchClientsMax = 4096
	benchBatchBytes = 60 << 20
)

// bench is a running benchmark.
type bench struct {
	e             *env
	f             *benchFlags
	stream, topic galgo.Identifier
	admin         *client.Client
	progress      *progress
}

func runBench(ctx context.Context, e *env, f *benchFlags, kind string, run benchRun) (err error) {
	b := &bench{e: e, f: f, stream: galgo.NamedID(f.stream), topic: galgo.NamedID(f.topic)}
	if b.admin, err = e.connect(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.admin.Close()) }()
	made := false
	if kind != "consumer" {
		if made, err = b.prepare(ctx); err != nil {
			return err
		}
	}
	if made && !f.keep {
		defer func() { err = errors.Join(err, b.cleanUp(ctx)) }()
	}
	b.progress = startProgress(e)
	sides, err := run(ctx, b)
	b.progress.stop()
	if err != nil {
		return err
	}
	return report(e, f, kind, sides)
}

// prepare makes the stream and the topic. made tells whether the stream is new.
func (b *bench) prepare(ctx context.Context) (made bool, err error) {
	var options []galgo.Header
	for _, s := range b.f.set {
		o, err := parseOption(s)
		if err != nil {
			return false, err
		}
		options = append(options, o)
	}
	_, err = b.admin.CreateStream(ctx, b.f.stream)
	if made = err == nil; !made && !b.tolerates(err, galgo.CodeStreamNameAlreadyExists) {
		return false, err
	}
	spec := client.TopicSpec{Name: b.f.topic, Partitions: b.f.partitions, Options: options}
	_, err = b.admin.CreateTopic(ctx, b.stream, spec)
	if err != nil && !b.tolerates(err, galgo.CodeTopicNameAlreadyExists) {
		return made, err
	}
	return made, nil
}

func (b *bench) tolerates(err error, code galgo.Code) bool {
	got, ok := galgo.CodeOf(err)
	return ok && got == code && b.f.reuse
}

func (b *bench) cleanUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.e.globals.timeout)
	defer cancel()
	return b.admin.DeleteStream(ctx, b.stream)
}

// each runs work for clients, numbered from 0, each over a connection of its own,
// until all are done or one fails.
func (b *bench) each(ctx context.Context, clients, perClient int, work func(ctx context.Context, c *client.Client, number int, w *worker) error) (*side, error) {
	s := &side{workers: make([]worker, clients*perClient)}
	connections, err := b.connections(ctx, clients)
	defer func() {
		for _, c := range connections {
			c.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	g, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	for i := range s.workers {
		w := &s.workers[i]
		w.progress = b.progress
		g.Go(func() error { return work(ctx, connections[i/perClient], i/perClient, w) })
	}
	err = g.Wait()
	s.took = time.Since(start)
	return s, err
}

func (b *bench) connections(ctx context.Context, n int) (all []*client.Client, err error) {
	for range n {
		c, err := b.e.connect(ctx)
		if err != nil {
			return all, err
		}
		all = append(all, c)
	}
	return all, nil
}

// partitionsOf are the partitions that a client works on: every clients-th, or one
// that it shares if there are fewer partitions than clients.
func (b *bench) partitionsOf(number int) []uint32 {
	if uint32(number) >= b.f.partitions {
		return []uint32{uint32(number) % b.f.partitions}
	}
	var own []uint32
	for p := uint32(number); p < b.f.partitions; p += uint32(b.f.clients) {
		own = append(own, p)
	}
	return own
}

func benchMetadataCommand() *command {
	f := benchFlags{}
	return &command{
		use: "metadata", short: "Make operations on metadata: create streams and delete them", args: exactly(0), connects: true,
		flags: func(fs *flagSet) {
			fs.IntVarP(&f.clients, "clients", "c", 64, "connections, each with one operation at a time")
			fs.Uint64VarP(&f.count, "count", "n", 1000, "operations in total")
			fs.StringVar(&f.stream, "stream", "bench", "start of the names of the streams: no more exist at a time than there are clients")
		},
		run: func(ctx context.Context, e *env, _ []string) error {
			if f.clients < 1 || f.clients > benchClientsMax || f.count < 1 {
				return usagef("want --clients of 1..%d and --count above 0", benchClientsMax)
			}
			return benchMetadata(ctx, e, &f)
		},
	}
}

// benchMetadata has each client create a stream, delete it, and so on.
func benchMetadata(ctx context.Context, e *env, f *benchFlags) error {
	b := &bench{e: e, f: f, progress: startProgress(e)}
	quota := newQuota(f.count)
	s, err := b.each(ctx, f.clients, 1, func(ctx context.Context, c *client.Client, number int, w *worker) error {
		name := fmt.Sprintf("%s-%d", f.stream, number)
		for quota.take(1) > 0 {
			start := time.Now()
			if _, err := c.CreateStream(ctx, name); err != nil {
				return err
			}
			w.note(start, 1)
			start = time.Now()
			if err := c.DeleteStream(ctx, galgo.NamedID(name)); err != nil {
				return err
			}
			if quota.take(1) > 0 {
				w.note(start, 1)
			}
		}
		return nil
	})
	b.progress.stop()
	if err != nil {
		return err
	}
	return reportOperations(e, f, s)
}
