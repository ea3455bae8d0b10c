package cli

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"galgo"
	"galgo/client"
)

// demoPartition is one partition of the demonstration: who writes to it and who reads it.
type demoPartition struct {
	id    uint32
	acked atomic.Int64 // messages acknowledged
	read  atomic.Int64 // messages read, each checked
	pause atomic.Int64 // longest time between two acknowledgements, in ns
}

const demoBatch = 10

// produce sends numbered messages, one batch after the other, until ctx ends. What was
// asked for last is waited for, so that every message has its answer.
func (p *demoPartition) produce(ctx context.Context, c *client.Client, stream, topic galgo.Identifier) error {
	last := time.Now()
	for next := 0; ctx.Err() == nil; next += demoBatch {
		batch := make([]galgo.Message, demoBatch)
		for i := range batch {
			batch[i].Payload = fmt.Appendf(nil, "partition %d, message %d", p.id, next+i)
		}
		if _, err := c.SendMessages(context.WithoutCancel(ctx), stream, topic, galgo.ToPartition(p.id), batch); err != nil {
			return fmt.Errorf("message %d of partition %d: %w", next, p.id, err)
		}
		now := time.Now()
		if took := now.Sub(last); int64(took) > p.pause.Load() {
			p.pause.Store(int64(took))
		}
		last = now
		p.acked.Add(demoBatch)
	}
	return nil
}

// consume reads the partition from its beginning and compares every message with what
// was sent at its place. It ends with ctx when all that is acknowledged was read.
func (p *demoPartition) consume(ctx context.Context, c *client.Client, stream, topic galgo.Identifier) error {
	for next := int64(0); ; {
		if ctx.Err() != nil && next >= p.acked.Load() {
			return nil
		}
		n, err := p.poll(context.WithoutCancel(ctx), c, stream, topic, next)
		if err != nil {
			return err
		}
		next += n
		p.read.Store(next)
		if n == 0 {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// poll reads on from an offset and returns how many messages there were.
func (p *demoPartition) poll(ctx context.Context, c *client.Client, stream, topic galgo.Identifier, next int64) (n int64, err error) {
	b, err := c.Poll(ctx, client.PollRequest{
		Consumer: galgo.Consumer{Kind: galgo.ConsumerSingle, ID: galgo.NumericID(1)}, Stream: stream, Topic: topic,
		Partition: p.id, Strategy: galgo.FromOffset(uint64(next)), Count: 1000,
	})
	if err != nil {
		return 0, fmt.Errorf("poll of partition %d: %w", p.id, err)
	}
	for m := range b.Messages() {
		want := fmt.Sprintf("partition %d, message %d", p.id, next+n)
		if m.Offset != uint64(next+n) || string(m.Payload) != want {
			return 0, fmt.Errorf("lost, repeated or out of order: offset %d of partition %d holds %q, where %q was sent", m.Offset, p.id, m.Payload, want)
		}
		n++
	}
	return n, nil
}

// all reads everything that is acknowledged, from one node.
func (p *demoPartition) all(ctx context.Context, c *client.Client, stream, topic galgo.Identifier) error {
	for next := int64(0); next < p.acked.Load(); {
		n, err := p.poll(ctx, c, stream, topic, next)
		if err != nil {
			return err
		}
		if next += n; n == 0 {
			select {
			case <-ctx.Done():
				return fmt.Errorf("partition %d has %d messages of %d that were acknowledged", p.id, next, p.acked.Load())
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	return nil
}
