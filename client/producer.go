package client

import (
	"context"
	"errors"
	"sync"

	"galgo"
	"galgo/internal/wire"
)

// Defaults and bounds of a Producer.
const (
	batchMessagesDefault = 1000
	batchBytesDefault    = 1 << 20
	batchesInFlight      = 1
)

// ErrProducerClosed: the producer was closed before the message was accepted.
var ErrProducerClosed = errors.New("client: producer closed")

// Producer gathers messages into batches for one topic. There is no timer: a batch
// leaves as soon as one may be in flight, with all that has gathered meanwhile, so
// batches grow by themselves while the server is busy.
//
// With one batch in flight, the default, messages of a partition are stored in the
// order of Send. With more, batches overtake each other when the server refuses one
// for the moment (code 58) and takes the next.
type Producer struct {
	client *Client
	key    topicKey
	to     galgo.Partitioning

	messagesMax int
	bytesMax    int
	flight      chan struct{} // a token per batch in flight
	wake        chan struct{} // capacity 1: there is an open batch
	cancel      context.CancelFunc
	ended       chan struct{} // loop has returned

	mu         sync.Mutex
	open       *outgoing     // nil if nothing has gathered
	room       chan struct{} // closed when open was taken
	unfinished map[*outgoing]struct{}
	firstErr   error // since the last Flush
	closed     bool
}

// outgoing is a batch and what became of it.
type outgoing struct {
	messages []galgo.Message
	bytes    int
	done     chan struct{} // closed when placed or err is set
	placed   Placement
	err      error
}

// ProducerOption changes how a Producer works.
type ProducerOption func(*Producer)

// WithBatchMessages bounds the messages of a batch; the default is 1000.
func WithBatchMessages(n int) ProducerOption { return func(p *Producer) { p.messagesMax = max(n, 1) } }

// WithBatchBytes bounds the bytes of a batch, headers included; the default is
// 1 MiB. A message that is larger makes a batch of its own.
func WithBatchBytes(n int) ProducerOption { return func(p *Producer) { p.bytesMax = max(n, 1) } }

// WithBatchesInFlight sets how many batches may wait for their answer at a time,
// 1..SendsInFlightMax; the default is 1. The calls of the client together are still
// bounded by WithMaxInFlight.
func WithBatchesInFlight(n int) ProducerOption {
	return func(p *Producer) { p.flight = make(chan struct{}, min(max(n, 1), SendsInFlightMax)) }
}

// NewProducer starts a producer for a topic. All messages go where p says; with
// galgo.Balanced each batch goes to the next partition. Close ends it.
func (c *Client) NewProducer(stream, topic galgo.Identifier, to galgo.Partitioning, opts ...ProducerOption) (*Producer, error) {
	if err := checkSend(stream, topic, to); err != nil {
		return nil, err
	}
	p := &Producer{
		client: c, key: topicKey{stream, topic}, to: to,
		messagesMax: batchMessagesDefault, bytesMax: batchBytesDefault,
		flight:     make(chan struct{}, batchesInFlight),
		wake:       make(chan struct{}, 1),
		ended:      make(chan struct{}),
		unfinished: make(map[*outgoing]struct{}),
	}
	for _, opt := range opts {
		opt(p)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() {
		defer close(p.ended)
		p.loop(ctx)
	}()
	return p, nil
}

// Receipt is what Send gives for a message.
type Receipt struct {
	batch *outgoing
	index int
}

// Done is closed when the message is stored or has failed for good.
func (r Receipt) Done() <-chan struct{} { return r.batch.done }

// Wait waits until the message is stored, and tells where: BaseOffset is its offset.
func (r Receipt) Wait(ctx context.Context) (Placement, error) {
	select {
	case <-r.batch.done:
	case <-ctx.Done():
		return Placement{}, context.Cause(ctx)
	}
	placed := r.batch.placed
	placed.BaseOffset += uint64(r.index)
	return placed, r.batch.err
}

// Send adds a message to the next batch. It waits while that is full. The message's
// slices must not be changed until its Receipt is done.
func (p *Producer) Send(ctx context.Context, m galgo.Message) (Receipt, error) {
	for {
		r, room, err := p.add(m)
		if room == nil {
			return r, err
		}
		select {
		case <-room:
		case <-ctx.Done():
			return Receipt{}, context.Cause(ctx)
		}
	}
}

// add puts the message into the open batch, or returns what is closed when there is
// room again.
func (p *Producer) add(m galgo.Message) (Receipt, <-chan struct{}, error) {
	size := wire.FrameHeaderSize + len(m.Payload) + len(m.UserHeaders)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return Receipt{}, nil, ErrProducerClosed
	}
	b := p.open
	if b == nil {
		b = &outgoing{done: make(chan struct{})}
		p.open, p.room = b, make(chan struct{})
		p.unfinished[b] = struct{}{}
		select {
		case p.wake <- struct{}{}:
		default:
		}
	} else if len(b.messages) >= p.messagesMax || b.bytes+size > p.bytesMax {
		return Receipt{}, p.room, nil
	}
	b.messages = append(b.messages, m)
	b.bytes += size
	return Receipt{b, len(b.messages) - 1}, nil, nil
}

// loop launches batches in the order in which they were opened.
func (p *Producer) loop(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for range p.wake {
		p.flight <- struct{}{}
		b := p.take()
		k, partition, err := p.launch(ctx, b)
		if err != nil {
			p.end(b, Placement{}, err)
			continue
		}
		wg.Go(func() {
			a, err := p.client.finish(ctx, k)
			placed, err := placement(p.key, partition, a, err)
			p.end(b, placed, err)
		})
	}
}

func (p *Producer) take() *outgoing {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.open
	p.open = nil
	close(p.room)
	return b
}

// launch submits the batch, so that the next one comes behind it.
func (p *Producer) launch(ctx context.Context, b *outgoing) (*call, uint32, error) {
	partition, err := p.client.resolve(ctx, p.key, p.to)
	if err != nil {
		return nil, 0, err
	}
	fill(b.messages, now())
	k, err := p.client.newSend(p.key, partition, b.messages)
	if err == nil {
		err = p.client.begin(ctx, k)
	}
	if err != nil {
		return nil, 0, sendError(p.key, partition, err)
	}
	return k, partition, nil
}

func (p *Producer) end(b *outgoing, placed Placement, err error) {
	<-p.flight
	if refused(err, galgo.CodeResourceNotFound) {
		p.client.topics.forget(p.key)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b.placed, b.err, b.messages = placed, err, nil
	if p.firstErr == nil {
		p.firstErr = err
	}
	delete(p.unfinished, b)
	close(b.done)
}

// Flush waits until every message that Send accepted is stored or has failed, and
// returns the first failure since the last Flush.
func (p *Producer) Flush(ctx context.Context) error {
	p.mu.Lock()
	waiting := make([]*outgoing, 0, len(p.unfinished))
	for b := range p.unfinished {
		waiting = append(waiting, b)
	}
	p.mu.Unlock()
	for _, b := range waiting {
		select {
		case <-b.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.firstErr
	p.firstErr = nil
	return err
}

// Close flushes and ends the producer. When ctx ends first, what is not stored by
// then fails, with an outcome that may be unknown.
func (p *Producer) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.wake) // a last batch that woke the loop is still received
	}
	p.mu.Unlock()
	err := p.Flush(ctx)
	p.cancel()
	<-p.ended
	return err
}
