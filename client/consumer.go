package client

import (
	"context"
	"time"

	"galgo"
)

// Defaults of a Consumer.
const (
	pollCountDefault    = 1000
	pollIntervalDefault = 100 * time.Millisecond
	pollDelayMin        = time.Millisecond
)

// ConsumerSpec says what a Consumer reads.
type ConsumerSpec struct {
	Consumer  galgo.Consumer
	Stream    galgo.Identifier
	Topic     galgo.Identifier
	Partition uint32
	// Start is where to begin; the zero value is galgo.FromNext: behind the stored
	// offset, or at the first message if none is stored.
	Start  galgo.PollingStrategy
	Commit CommitMode
	// CommitInterval is that of CommitAtIntervals; 0 is 1 s.
	CommitInterval time.Duration
	// Count bounds the messages of a batch; 0 is 1000.
	Count uint32
	// PollInterval is the longest pause between polls that find nothing; 0 is 100 ms.
	// Pauses start at 1 ms and double.
	PollInterval time.Duration
}

// Consumer reads the messages of one partition in order. It is for one goroutine.
type Consumer struct {
	client   *Client
	spec     ConsumerSpec
	clock    commitClock
	strategy galgo.PollingStrategy
	batch    Batch
	position position
	before   position // without the batch
}

// NewConsumer makes a consumer. It does nothing until its first Next.
func (c *Client) NewConsumer(spec ConsumerSpec) *Consumer {
	if spec.Start == (galgo.PollingStrategy{}) {
		spec.Start = galgo.FromNext()
	}
	pollDefaults(&spec.Count, &spec.PollInterval)
	return &Consumer{client: c, spec: spec, clock: newCommitClock(spec.Commit, spec.CommitInterval), strategy: spec.Start}
}

func pollDefaults(count *uint32, interval *time.Duration) {
	if *count == 0 {
		*count = pollCountDefault
	}
	if *interval <= 0 {
		*interval = pollIntervalDefault
	}
}

// Next returns the next batch, which has at least one message. It waits until there
// is one or ctx ends. The batch is good until the next call of Next, which takes it for
// processed.
func (k *Consumer) Next(ctx context.Context) (*Batch, error) {
	if k.clock.onNext() {
		if err := k.Commit(ctx); err != nil {
			return nil, err
		}
	}
	for delay := pollDelayMin; ; delay = min(2*delay, k.spec.PollInterval) {
		if err := k.poll(ctx); err != nil {
			return nil, err
		}
		if k.batch.Len() > 0 {
			k.advance()
			return &k.batch, nil
		}
		if err := sleep(ctx, min(delay, k.spec.PollInterval)); err != nil {
			return nil, err
		}
	}
}

func (k *Consumer) poll(ctx context.Context) error {
	return k.client.PollInto(ctx, PollRequest{
		Consumer: k.spec.Consumer, Stream: k.spec.Stream, Topic: k.spec.Topic, Partition: k.spec.Partition,
		Strategy: k.strategy, Count: k.spec.Count, AutoCommit: k.spec.Commit == CommitOnPoll,
	}, &k.batch)
}

// advance goes on by offset: what was delivered does not depend on what was stored.
func (k *Consumer) advance() {
	k.before = k.position
	k.position.last, k.position.dirty = k.batch.LastOffset(), k.spec.Commit != CommitOnPoll
	k.strategy = k.position.next()
}

// Commit stores the offset of the last message that was processed, unless it is stored
// already or there was none.
func (k *Consumer) Commit(ctx context.Context) error {
	if k.position.dirty {
		if err := k.CommitOffset(ctx, k.position.last); err != nil {
			return err
		}
		k.position.dirty = false
	}
	k.clock.done()
	return nil
}

// CommitOffset stores an offset, as when a batch was processed in part.
func (k *Consumer) CommitOffset(ctx context.Context, offset uint64) error {
	return k.client.StoreOffset(ctx, k.spec.Consumer, k.spec.Stream, k.spec.Topic, k.spec.Partition, offset)
}

// Run hands every message to handle until that returns an error, which Run returns,
// or ctx ends. Messages alias memory that is used again: handle copies what it keeps.
// What was handled is committed before Run returns, as the mode says, also a batch
// handled in part; that takes 2 s at most if ctx has ended.
func (k *Consumer) Run(ctx context.Context, handle func(context.Context, galgo.Message) error) error {
	for {
		b, err := k.Next(ctx)
		if err == nil {
			err = k.handle(ctx, b, handle)
		}
		if err != nil {
			return k.clock.finish(ctx, err, k.Commit)
		}
	}
}

func (k *Consumer) handle(ctx context.Context, b *Batch, handle func(context.Context, galgo.Message) error) error {
	keeps := k.spec.Commit != CommitOnPoll
	if keeps {
		k.position = k.before
	}
	for m := range b.Messages() {
		if err := handle(ctx, m); err != nil {
			k.strategy = galgo.FromOffset(m.Offset) // it was not handled: it comes again
			return err
		}
		if keeps {
			k.position.mark(m.Offset)
		}
		if k.clock.onMessage() {
			if err := k.Commit(ctx); err != nil {
				k.strategy = k.position.next()
				return err
			}
		}
	}
	return nil
}
