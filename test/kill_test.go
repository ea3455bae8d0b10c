package test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"galgo"
	"galgo/client"
)

const kills = 20

// The process is killed under load, again and again. galgo's own clients ride
// over it: each of their messages is there exactly once, in order. Of clients
// that cannot be recognised everything acknowledged is there exactly once, at
// the offset they were told, and what was in doubt at most once.
func TestKilledAgainAndAgain(t *testing.T) {
	s := newServer(t)
	s.start()
	ctx := context.Background()
	admin := s.dial(client.WithRetryBudget(5 * time.Minute))
	if _, err := admin.CreateStream(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateTopic(ctx, loadStream, client.TopicSpec{Name: "t", Partitions: 2, Options: []galgo.Header{
		client.TopicOption(galgo.OptionSegmentSize, galgo.Uint64Value(1<<20)),
	}}); err != nil {
		t.Fatal(err)
	}
	l := newLoad(t, s)
	// Dialling is tried once, so it is done before the first kill.
	patient := client.WithRetryBudget(5 * time.Minute)
	for i := range 3 {
		c := s.dial(patient)
		l.wg.Go(func() { l.produce(c, i) })
		l.wg.Go(func() { l.produceRaw(i) })
	}
	creator := s.dial(patient)
	l.wg.Go(func() { l.createStreams(creator) })
	for range kills {
		l.awaitMore(150)
		s.kill()
		s.start()
	}
	l.awaitMore(150)
	l.end()
	if t.Failed() {
		t.Fatalf("%s", s.output)
	}
	l.verify(ctx, admin)
	l.verifyStreams(ctx, admin)
}

// load is what the producers have been told.
type load struct {
	t    *testing.T
	s    *server
	stop chan struct{}
	wg   sync.WaitGroup

	total atomic.Int64 // acknowledged messages, of both kinds

	mu      sync.Mutex
	numbers [3]int            // messages that each numbered producer was acknowledged
	streams int               // created one after the other
	acked   map[string]uint64 // raw: payload to offset
	doubted map[string]bool   // raw: no answer came
}

// loadStream and loadTopic are where the producers send to, two partitions at least.
var loadStream, loadTopic = galgo.NamedID("s"), galgo.NamedID("t")

// newLoad is what will be sent; raw producers send to the server.
func newLoad(t *testing.T, s *server) *load {
	return &load{t: t, s: s, stop: make(chan struct{})}
}

// end waits until all producers have had their last answers.
func (l *load) end() {
	close(l.stop)
	l.wg.Wait()
}

func (l *load) stopped() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// awaitMore waits for further acknowledgements: the kill shall come under load.
func (l *load) awaitMore(n int64) {
	for start := l.total.Load(); l.total.Load() < start+n && !l.t.Failed(); {
		time.Sleep(time.Millisecond)
	}
}

// produce sends batches with galgo's client, which numbers and repeats them.
func (l *load) produce(c *client.Client, producer int) {
	for next := 0; !l.stopped(); {
		batch := make([]galgo.Message, 1+next%7)
		for i := range batch {
			batch[i].Payload = fmt.Appendf(nil, "numbered %d %d", producer, next+i)
		}
		if _, err := c.SendMessages(context.Background(), loadStream, loadTopic, galgo.ToPartition(0), batch); err != nil {
			l.t.Errorf("numbered producer %d, message %d: %v", producer, next, err)
			return
		}
		next += len(batch)
		l.total.Add(int64(len(batch)))
		l.mu.Lock()
		l.numbers[producer] = next
		l.mu.Unlock()
	}
}

// createStreams makes one stream after the other. A request that ran and is
// repeated after the restart gets its first answer: were it run again, the name
// would be taken.
func (l *load) createStreams(c *client.Client) {
	for n := 0; !l.stopped(); n++ {
		if _, err := c.CreateStream(context.Background(), fmt.Sprint("created ", n)); err != nil {
			l.t.Errorf("stream %d: %v", n, err)
			return
		}
		l.mu.Lock()
		l.streams = n + 1
		l.mu.Unlock()
	}
}

// produceRaw sends single messages as a stock client does, and never repeats one.
func (l *load) produceRaw(producer int) {
	var c *rawClient
	for next := 0; !l.stopped(); {
		if c == nil {
			var err error
			if c, err = dialRaw(l.s.address); err != nil {
				time.Sleep(time.Millisecond)
				continue
			}
		}
		payload := fmt.Sprintf("raw %d %d", producer, next)
		next++
		offset, err := c.send("s", "t", 1, payload)
		l.mu.Lock()
		if l.acked == nil {
			l.acked, l.doubted = map[string]uint64{}, map[string]bool{}
		}
		if err == nil {
			l.acked[payload] = offset
			l.total.Add(1)
		} else {
			l.doubted[payload] = true
		}
		l.mu.Unlock()
		if err != nil && !errors.Is(err, &galgo.Error{Code: galgo.CodeTransientNotAccepted}) {
			c.conn.Close()
			c = nil
		}
	}
	if c != nil {
		c.conn.Close()
	}
}

func (l *load) verifyStreams(ctx context.Context, c *client.Client) {
	all, err := c.Streams(ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	found := map[string]int{}
	for _, s := range all {
		found[s.Name]++
	}
	for n := range l.streams {
		if found[fmt.Sprint("created ", n)] != 1 {
			l.t.Errorf("stream %d is there %d times", n, found[fmt.Sprint("created ", n)])
		}
	}
	l.t.Logf("%d streams created once each", l.streams)
}

func (l *load) verify(ctx context.Context, c *client.Client) {
	seen := [3]int{}
	readAll(ctx, l.t, c, loadStream, loadTopic, 0, func(offset uint64, payload string) {
		var producer, number int
		if _, err := fmt.Sscanf(payload, "numbered %d %d", &producer, &number); err != nil {
			l.t.Fatalf("offset %d holds %q, which nobody sent", offset, payload)
		}
		if number != seen[producer] {
			l.t.Fatalf("offset %d: message %d of producer %d where %d was due: lost, repeated or out of order", offset, number, producer, seen[producer])
		}
		seen[producer]++
	})
	for p, n := range l.numbers {
		if seen[p] < n {
			l.t.Errorf("producer %d: %d messages are there, %d were acknowledged", p, seen[p], n)
		}
	}
	found := map[string]uint64{}
	readAll(ctx, l.t, c, loadStream, loadTopic, 1, func(offset uint64, payload string) {
		if at, twice := found[payload]; twice {
			l.t.Fatalf("%q is at offset %d and again at %d", payload, at, offset)
		}
		if _, ok := l.acked[payload]; !ok && !l.doubted[payload] {
			l.t.Fatalf("offset %d holds %q, which nobody sent", offset, payload)
		}
		found[payload] = offset
	})
	for payload, offset := range l.acked {
		if at, ok := found[payload]; !ok || at != offset {
			l.t.Fatalf("%q was acknowledged at offset %d, found %v at %d", payload, offset, ok, at)
		}
	}
	l.t.Logf("%v numbered messages exactly once, %d of %d raw ones acknowledged, %d in doubt", l.numbers, len(l.acked), len(found), len(l.doubted))
}

// readAll polls a partition from its first offset to its end; offsets are dense.
func readAll(ctx context.Context, t *testing.T, c *client.Client, stream, topic galgo.Identifier, partition uint32, see func(uint64, string)) {
	t.Helper()
	for next := uint64(0); ; {
		b, err := c.Poll(ctx, client.PollRequest{
			Consumer: galgo.Consumer{Kind: galgo.ConsumerSingle, ID: galgo.NumericID(1)}, Stream: stream, Topic: topic,
			Partition: partition, Strategy: galgo.FromOffset(next), Count: 1000,
		})
		if err != nil {
			t.Fatal(err)
		}
		if b.Len() == 0 {
			return
		}
		if err := b.Verify(); err != nil {
			t.Fatal(err)
		}
		for m := range b.Messages() {
			if m.Offset != next {
				t.Fatalf("partition %d: offset %d where %d was due", partition, m.Offset, next)
			}
			see(m.Offset, string(m.Payload))
			next++
		}
	}
}
