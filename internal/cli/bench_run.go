package cli

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"galgo"
	"galgo/client"
)

// side is the producers, or the consumers, of a benchmark.
type side struct {
	name    string
	workers []worker
	took    time.Duration
}

// worker is what one goroutine has measured. Nobody else writes it.
type worker struct {
	latency  histogram
	messages uint64
	progress *progress
	_        [64]byte // keeps the next worker's counts off this cache line
}

func (w *worker) note(start time.Time, messages uint64) {
	w.latency.add(time.Since(start))
	w.messages += messages
	if w.progress != nil {
		w.progress.done.Add(messages)
	}
}

// quota hands out a number of things to whoever asks first.
type quota struct{ left atomic.Int64 }

func newQuota(n uint64) *quota {
	q := &quota{}
	q.left.Store(int64(min(n, 1<<62)))
	return q
}

// take returns up to n of what is left.
func (q *quota) take(n int) int {
	left := q.left.Add(-int64(n))
	return int(max(0, int64(n)+min(left, 0)))
}

func benchProduce(ctx context.Context, b *bench) ([]*side, error) {
	s, err := b.produce(ctx)
	return []*side{s}, err
}

// produce sends all messages. Every batch has the same bytes but for its number:
// making others would measure the benchmark.
func (b *bench) produce(ctx context.Context) (*side, error) {
	quota := newQuota(b.f.count)
	messages := b.messages()
	s, err := b.each(ctx, b.f.clients, b.f.inFlight, func(ctx context.Context, c *client.Client, number int, w *worker) error {
		own := b.partitionsOf(number)
		for i := 0; ; i++ {
			n := quota.take(len(messages))
			if n == 0 {
				return nil
			}
			start := time.Now()
			if _, err := c.SendMessages(ctx, b.stream, b.topic, galgo.ToPartition(own[i%len(own)]), messages[:n]); err != nil {
				return err
			}
			w.note(start, uint64(n))
		}
	})
	if s != nil {
		s.name = "producers"
	}
	return s, err
}

func (b *bench) messages() []galgo.Message {
	payload := make([]byte, b.f.size)
	rand.Read(payload) // never fails; random, so that nothing compresses it
	messages := make([]galgo.Message, b.f.batch)
	for i := range messages {
		messages[i] = galgo.Message{Payload: payload, Timestamp: uint64(time.Now().UnixMicro())}
		rand.Read(messages[i].ID[:])
	}
	return messages
}

func benchConsume(ctx context.Context, b *bench) ([]*side, error) {
	topic, err := b.admin.Topic(ctx, b.stream, b.topic)
	if err != nil {
		return nil, fmt.Errorf("nothing to consume: run galgo bench producer --keep first: %w", err)
	}
	b.f.partitions = topic.PartitionsCount
	b.f.count = min(b.f.count, topic.MessagesCount)
	s, err := b.consume(ctx, false)
	return []*side{s}, err
}

// consume polls until all messages have come. A partition that has no more is left,
// unless they are still being sent.
func (b *bench) consume(ctx context.Context, wait bool) (*side, error) {
	if b.f.partitions == 0 || b.f.count == 0 {
		return nil, fmt.Errorf("topic %s of stream %s is empty: run galgo bench producer --keep first", b.f.topic, b.f.stream)
	}
	var got atomic.Uint64
	clients := min(b.f.clients, int(b.f.partitions))
	s, err := b.each(ctx, clients, 1, func(ctx context.Context, c *client.Client, number int, w *worker) error {
		return b.pollAll(ctx, c, w, newPollers(b, number), &got, wait)
	})
	if s != nil {
		s.name = "consumers"
	}
	return s, err
}

// poller is a partition and how far it was read.
type poller struct {
	request client.PollRequest
	batch   client.Batch
}

func newPollers(b *bench, number int) []*poller {
	var all []*poller
	for _, p := range b.partitionsOf(number) {
		all = append(all, &poller{request: client.PollRequest{
			Consumer: galgo.Consumer{Kind: galgo.ConsumerSingle, ID: galgo.NumericID(1)},
			Stream:   b.stream, Topic: b.topic, Partition: p, Strategy: galgo.FromFirst(), Count: uint32(b.f.batch),
		}})
	}
	return all
}

// pollPause is how long a consumer waits when it has caught up with the producers.
const pollPause = 100 * time.Microsecond

func (b *bench) pollAll(ctx context.Context, c *client.Client, w *worker, open []*poller, got *atomic.Uint64, wait bool) error {
	for i := 0; len(open) > 0 && got.Load() < b.f.count; i++ {
		at := i % len(open)
		p := open[at]
		start := time.Now()
		if err := c.PollInto(ctx, p.request, &p.batch); err != nil {
			return err
		}
		n := uint64(p.batch.Len())
		switch {
		case n > 0:
			w.note(start, n)
			got.Add(n)
			p.request.Strategy = galgo.FromOffset(p.batch.LastOffset() + 1)
		case wait:
			time.Sleep(pollPause)
		default:
			open = append(open[:at:at], open[at+1:]...)
		}
	}
	return nil
}

func benchBoth(ctx context.Context, b *bench) ([]*side, error) {
	var produced, consumed *side
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { produced, err = b.produce(ctx); return err })
	g.Go(func() (err error) { consumed, err = b.consume(ctx, true); return err })
	err := g.Wait()
	return []*side{produced, consumed}, err
}

// benchOffsets stores offsets of consumers that work on the same partitions, each one
// after the other.
func benchOffsets(ctx context.Context, b *bench) ([]*side, error) {
	b.f.size, b.f.batch = 1, 1
	for p := range b.f.partitions { // an offset must be that of a message
		if _, err := b.admin.SendMessages(ctx, b.stream, b.topic, galgo.ToPartition(p), b.messages()); err != nil {
			return nil, err
		}
	}
	quota := newQuota(b.f.count)
	var consumers atomic.Uint32
	s, err := b.each(ctx, b.f.clients, b.f.inFlight, func(ctx context.Context, c *client.Client, number int, w *worker) error {
		own := b.partitionsOf(number)
		consumer := galgo.Consumer{Kind: galgo.ConsumerSingle, ID: galgo.NumericID(consumers.Add(1))}
		for i := 0; quota.take(1) > 0; i++ {
			start := time.Now()
			if err := c.StoreOffset(ctx, consumer, b.stream, b.topic, own[i%len(own)], 0); err != nil {
				return err
			}
			w.note(start, 1)
		}
		return nil
	})
	if s != nil {
		s.name = "consumers"
	}
	return []*side{s}, err
}
