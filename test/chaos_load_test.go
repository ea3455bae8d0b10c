package test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"galgo"
	"galgo/client"
)

const (
	// chaosPartitions have what numbered producers send; one more has what others do.
	chaosPartitions = 7
	chaosRaw        = chaosPartitions
)

// chaosLoad is what clients do, and what they were told.
type chaosLoad struct {
	t       *testing.T
	seed    uint64
	start   time.Time
	writers sync.WaitGroup
	readers sync.WaitGroup // they go on until all was read
	stop    chan struct{}
	done    context.Context // of the readers
	end     context.CancelFunc
	sent    atomic.Int64
	over    atomic.Bool // whatever still fails does so because the test ends

	mu        sync.Mutex
	acked     [][chaosPartitions]int // numbered messages of each producer
	raw       map[string]uint64      // payload to offset
	doubted   map[string]bool
	seen      [chaosPartitions + 1]map[uint64]uint64 // offset to a sum of the payload, whoever has read it
	delivered [chaosPartitions + 1]map[uint64]bool   // to the group
	ends      [chaosPartitions + 1]int               // messages, when all writers have ended
	stored    [chaosPartitions + 1]int64             // by the single consumer; -1: nothing
	history   map[string][]porcupine.Operation       // by stream
	own       map[string]bool                        // streams of one client alone: whether it is there
	unknown   int
}

func newChaosLoad(t *testing.T, seed uint64) *chaosLoad {
	l := &chaosLoad{
		t: t, seed: seed, start: time.Now(), stop: make(chan struct{}), raw: map[string]uint64{}, doubted: map[string]bool{},
		history: map[string][]porcupine.Operation{}, own: map[string]bool{},
	}
	l.done, l.end = context.WithCancel(context.Background())
	t.Cleanup(func() { // when the clients are closed
		l.writers.Wait()
		l.readers.Wait()
	})
	for p := range l.seen {
		l.seen[p], l.delivered[p], l.stored[p] = map[uint64]uint64{}, map[uint64]bool{}, -1
	}
	return l
}

func (l *chaosLoad) stopped() bool {
	select {
	case <-l.stop:
		return true
	default:
		return l.t.Failed()
	}
}

// rest keeps the load to what a small machine can verify afterwards.
func (l *chaosLoad) rest(d time.Duration) {
	select {
	case <-l.stop:
	case <-time.After(d):
	}
}

var chaosStream, chaosTopic, chaosGroup = galgo.NamedID("s"), galgo.NamedID("t"), galgo.NamedID("g")

func (l *chaosLoad) prepare(c *client.Client) {
	ctx := context.Background()
	if _, err := c.CreateStream(ctx, "s"); err != nil {
		l.t.Fatal(err)
	}
	spec := client.TopicSpec{Name: "t", Partitions: chaosPartitions + 1, Options: []galgo.Header{client.TopicOption(galgo.OptionSegmentSize, galgo.Uint64Value(1<<20))}}
	if _, err := c.CreateTopic(ctx, chaosStream, spec); err != nil {
		l.t.Fatal(err)
	}
	if _, err := c.CreateConsumerGroup(ctx, chaosStream, chaosTopic, "g"); err != nil {
		l.t.Fatal(err)
	}
}

// payload is a word and what makes it long.
func payload(rng *rand.Rand, word string) []byte {
	size := rng.IntN(1500)
	if rng.IntN(300) == 0 {
		size = 200_000 + rng.IntN(200_000)
	}
	return append([]byte(word), strings.Repeat(".", size)...)
}

// produce sends numbered batches to partitions as they come, one after the other.
func (l *chaosLoad) produce(c *client.Client, producer int) {
	rng := rand.New(rand.NewPCG(l.seed, 100+uint64(producer)))
	var next [chaosPartitions]int
	for !l.stopped() {
		p := rng.IntN(chaosPartitions)
		batch := make([]galgo.Message, 1+rng.IntN(8))
		for i := range batch {
			batch[i].Payload = payload(rng, fmt.Sprintf("numbered %d %d %d ", producer, p, next[p]+i))
		}
		if _, err := c.SendMessages(context.Background(), chaosStream, chaosTopic, galgo.ToPartition(uint32(p)), batch); err != nil {
			l.failed(context.Background(), "producer %d, partition %d, message %d: %v", producer, p, next[p], err)
			return
		}
		next[p] += len(batch)
		l.sent.Add(int64(len(batch)))
		l.mu.Lock()
		l.acked[producer] = next
		l.mu.Unlock()
		l.rest(time.Duration(rng.IntN(10)) * time.Millisecond)
	}
}

// produceRaw sends as a client does whose messages cannot be recognised, to one node, and
// never sends anything twice.
func (l *chaosLoad) produceRaw(s *server, producer int) {
	var c *rawClient
	for n := 0; !l.stopped(); n++ {
		if c == nil {
			if c = l.dialRaw(s); c == nil {
				l.rest(20 * time.Millisecond)
				continue
			}
		}
		word := fmt.Sprintf("raw %d %d", producer, n)
		c.conn.SetDeadline(time.Now().Add(4 * time.Second))
		offset, err := c.send("s", "t", chaosRaw, word)
		l.mu.Lock()
		if err == nil {
			l.raw[word] = offset
		} else {
			l.doubted[word] = true
		}
		l.mu.Unlock()
		if err != nil && !errors.Is(err, &galgo.Error{Code: galgo.CodeTransientNotAccepted}) {
			c.conn.Close()
			c = nil
		}
		l.rest(10 * time.Millisecond)
	}
	if c != nil {
		c.conn.Close()
	}
}

func (l *chaosLoad) dialRaw(s *server) *rawClient {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := s.connect(ctx, s.address)
	if err != nil {
		return nil
	}
	conn.SetDeadline(time.Now().Add(4 * time.Second))
	c, err := loginRaw(conn)
	if err != nil {
		conn.Close()
		return nil
	}
	return c
}

// note holds a message against what others have read at its offset.
func (l *chaosLoad) note(who string, partition uint32, offset uint64, payload []byte) {
	h := fnv.New64a()
	h.Write(payload)
	sum := h.Sum64()
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, read := l.seen[partition][offset]; read && before != sum {
		l.t.Errorf("%s: offset %d of partition %d has %.40q, and had something else", who, offset, partition, payload)
	}
	l.seen[partition][offset] = sum
}

// consume is a member of the group, and now and then leaves it.
func (l *chaosLoad) consume(c *client.Client, member int) {
	rng := rand.New(rand.NewPCG(l.seed, 200+uint64(member)))
	modes := []client.CommitMode{client.CommitOnNext, client.CommitEach, client.CommitManually, client.CommitAtIntervals}
	for l.done.Err() == nil && !l.t.Failed() {
		mode := modes[rng.IntN(len(modes))]
		k := c.NewGroupConsumer(client.GroupConsumerSpec{
			Stream: chaosStream, Topic: chaosTopic, Group: chaosGroup, Commit: mode, CommitInterval: 200 * time.Millisecond, Count: 1 + uint32(rng.IntN(200)),
		})
		if err := l.consumeSome(k, mode, member, 1+rng.IntN(400)); err != nil {
			l.failed(l.done, "member %d of the group: %v", member, err)
			return
		}
	}
}

func (l *chaosLoad) consumeSome(k *client.GroupConsumer, mode client.CommitMode, member, batches int) error {
	for range batches {
		b, err := k.Next(l.done)
		if err != nil {
			return err
		}
		for m := range b.Messages() {
			l.note(fmt.Sprint("member ", member), b.PartitionID, m.Offset, m.Payload)
			l.mu.Lock()
			l.delivered[b.PartitionID][m.Offset] = true
			l.mu.Unlock()
		}
		if mode == client.CommitManually || mode == client.CommitAtIntervals {
			if err := k.Commit(l.done); err != nil {
				return err
			}
		}
	}
	return k.Close(l.done)
}

// watch reads from one node: what it has shown it has the next time, too.
func (l *chaosLoad) watch(c *client.Client, at int) {
	var newest, stored [chaosPartitions + 1]int64
	group := galgo.Consumer{Kind: galgo.ConsumerGroup, ID: chaosGroup}
	for ctx := l.done; ctx.Err() == nil && !l.t.Failed(); {
		for p := range uint32(len(newest)) {
			b, err := c.Poll(ctx, client.PollRequest{
				Consumer: galgo.Consumer{Kind: galgo.ConsumerSingle, ID: galgo.NumericID(1)}, Stream: chaosStream, Topic: chaosTopic, Partition: p, Strategy: galgo.FromLast(), Count: 3,
			})
			if err != nil {
				l.failed(ctx, "node %d, poll of partition %d: %v", at, p, err)
				return
			}
			end := int64(0)
			for m := range b.Messages() {
				l.note(fmt.Sprint("node ", at), p, m.Offset, m.Payload)
				end = int64(m.Offset) + 1
			}
			if end < newest[p] {
				l.failed(ctx, "node %d, partition %d: %d messages, and there were %d", at, p, end, newest[p])
			}
			newest[p] = end
			o, found, err := c.Offset(ctx, group, chaosStream, chaosTopic, p)
			if err != nil {
				l.failed(ctx, "node %d, offset in partition %d: %v", at, p, err)
				return
			}
			now := int64(0)
			if found {
				now = int64(o.Stored) + 1
			}
			if now < stored[p] {
				l.failed(ctx, "node %d, partition %d: the group has committed %d messages, and had %d", at, p, now, stored[p])
			}
			stored[p] = now
		}
		time.Sleep(5 * time.Millisecond) // the machine is small
	}
}

// failed fails the test, unless all was to end.
func (l *chaosLoad) failed(ctx context.Context, format string, args ...any) {
	if ctx.Err() == nil && !l.over.Load() {
		l.t.Errorf(format, args...)
	}
}

// leave ends all clients, whatever they do.
func (l *chaosLoad) leave() {
	l.over.Store(true)
	l.end()
}

// storeOffsets is one consumer that stores how far it is, and is shown that at once.
func (l *chaosLoad) storeOffsets(c *client.Client) {
	ctx, consumer := context.Background(), galgo.Consumer{Kind: galgo.ConsumerSingle, ID: galgo.NumericID(7)}
	for p := uint32(0); !l.stopped(); p = (p + 1) % chaosPartitions {
		l.mu.Lock()
		next := uint64(l.stored[p] + 1)
		l.mu.Unlock()
		b, err := c.Poll(ctx, client.PollRequest{Consumer: consumer, Stream: chaosStream, Topic: chaosTopic, Partition: p, Strategy: galgo.FromOffset(next), Count: 20})
		if err != nil {
			l.failed(ctx, "single consumer: %v", err)
			return
		}
		if b.Len() == 0 {
			l.rest(time.Millisecond)
			continue
		}
		for m := range b.Messages() {
			l.note("single consumer", p, m.Offset, m.Payload)
		}
		if err := c.StoreOffset(ctx, consumer, chaosStream, chaosTopic, p, b.LastOffset()); err != nil {
			l.failed(ctx, "single consumer: %v", err)
			return
		}
		l.mu.Lock()
		l.stored[p] = int64(b.LastOffset())
		l.mu.Unlock()
		l.rest(5 * time.Millisecond)
	}
}

// change makes and removes streams and topics, some of which others do the same to.
func (l *chaosLoad) change(c *client.Client, who int) {
	rng := rand.New(rand.NewPCG(l.seed, 300+uint64(who)))
	ctx := context.Background()
	for n := 0; !l.stopped(); n++ {
		if rng.IntN(6) == 0 {
			l.changeOwn(ctx, c, fmt.Sprintf("own %d %d", who, n), rng.IntN(2) == 0)
			continue
		}
		in := metaInput{what: metaKind(rng.IntN(int(metaLook))), stream: fmt.Sprint("shared ", rng.IntN(3)), topic: []string{"a", "b"}[rng.IntN(2)], count: 1 + uint32(rng.IntN(3))}
		call := time.Since(l.start)
		out, keep := l.outcome(in.ask(ctx, c))
		if keep {
			l.took(who, in, call, out)
		}
		l.rest(time.Duration(rng.IntN(60)) * time.Millisecond)
	}
}

// changeOwn makes a stream that is nobody else's, and sees it; or removes it again.
func (l *chaosLoad) changeOwn(ctx context.Context, c *client.Client, name string, remove bool) {
	if _, err := c.CreateStream(ctx, name); err != nil {
		l.failed(ctx, "stream %q: %v", name, err)
		return
	}
	if _, err := c.Stream(ctx, galgo.NamedID(name)); err != nil {
		l.failed(ctx, "stream %q was made, and is not there: %v", name, err)
	}
	if remove {
		if err := c.DeleteStream(ctx, galgo.NamedID(name)); err != nil {
			l.failed(ctx, "stream %q: %v", name, err)
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own[name] = !remove
}

// outcome is what is known of a change; one that is known to have done nothing without
// being refused is not kept.
func (l *chaosLoad) outcome(err error) (out metaOutput, keep bool) {
	code, refused := galgo.CodeOf(err)
	switch {
	case err == nil:
		return metaOutput{ok: true}, true
	case refused && (code == galgo.CodeStreamNameAlreadyExists || code == galgo.CodeTopicNameAlreadyExists || code == galgo.CodeStreamIDNotFound || code == galgo.CodeTopicIDNotFound):
		return metaOutput{}, true
	case client.OutcomeOf(err) == client.Unknown:
		l.mu.Lock()
		l.unknown++
		l.mu.Unlock()
		return metaOutput{unknown: true}, true
	case client.OutcomeOf(err) == client.NotApplied && !refused:
		return metaOutput{}, false
	}
	l.failed(context.Background(), "a change: %v", err)
	return metaOutput{unknown: true}, true
}

func (l *chaosLoad) took(who int, in metaInput, call time.Duration, out metaOutput) {
	back := time.Since(l.start)
	if out.unknown {
		back = 1 << 62 // it may still happen
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.history[in.stream] = append(l.history[in.stream], porcupine.Operation{ClientId: who, Input: in, Call: int64(call), Output: out, Return: int64(back)})
}

// finish ends the load: first who changes something, then, when the group has had all, who
// reads.
func (l *chaosLoad) finish(c *client.Client) {
	l.t.Helper()
	close(l.stop)
	l.await("the clients have their answers", &l.writers)
	group := galgo.Consumer{Kind: galgo.ConsumerGroup, ID: chaosGroup}
	for p := range l.ends {
		l.ends[p] = l.acknowledged(p)
		until(l.t, fmt.Sprintf("the group has committed all %d messages of partition %d", l.ends[p], p), func() bool {
			o, found, err := c.Offset(context.Background(), group, chaosStream, chaosTopic, uint32(p))
			return l.t.Failed() || err == nil && (found && int(o.Stored)+1 >= l.ends[p] || l.ends[p] == 0)
		})
	}
	l.end()
	l.await("the readers have ended", &l.readers)
}

// acknowledged is how many messages a partition must have: of what cannot be recognised
// there may be more.
func (l *chaosLoad) acknowledged(p int) (n int) {
	if p == chaosRaw {
		for _, offset := range l.raw {
			n = max(n, int(offset)+1)
		}
	}
	if p < chaosPartitions {
		for _, numbered := range l.acked {
			n += numbered[p]
		}
	}
	return n
}

func (l *chaosLoad) await(what string, wg *sync.WaitGroup) {
	l.t.Helper()
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	until(l.t, what, func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
}

// verify holds a node against all that anybody was told.
func (l *chaosLoad) verify(c *client.Client, at int) {
	l.t.Helper()
	ctx := context.Background()
	for p := range l.seen {
		until(l.t, fmt.Sprintf("node %d has all of partition %d", at, p), func() bool { return count(l.t, c, chaosStream, chaosTopic, uint32(p)) >= l.ends[p] })
	}
	l.verifyNumbered(ctx, c, at)
	l.verifyRaw(ctx, c)
	group := galgo.Consumer{Kind: galgo.ConsumerGroup, ID: chaosGroup}
	single := galgo.Consumer{Kind: galgo.ConsumerSingle, ID: galgo.NumericID(7)}
	for p := range uint32(len(l.seen)) {
		for offset := range l.ends[p] {
			if !l.delivered[p][uint64(offset)] {
				l.t.Fatalf("partition %d: the group was not given message %d", p, offset)
			}
		}
		l.shows(ctx, c, at, p, "the group", group, l.ends[p]-1)
		l.shows(ctx, c, at, p, "the single consumer", single, int(l.stored[p]))
	}
	l.verifyStreams(ctx, c, at)
}

// shows waits until a node has what was stored; it may be behind others.
func (l *chaosLoad) shows(ctx context.Context, c *client.Client, at int, partition uint32, who string, consumer galgo.Consumer, stored int) {
	l.t.Helper()
	var last int
	began, tries := time.Now(), 0
	until(l.t, fmt.Sprintf("node %d shows that %s has stored %d in partition %d", at, who, stored, partition), func() bool {
		o, found, err := c.Offset(ctx, consumer, chaosStream, chaosTopic, partition)
		if last = int(o.Stored); err != nil {
			l.t.Fatal(err)
		}
		if !found {
			last = -1
		}
		tries++
		return last >= stored
	})
	if tries > 1 {
		l.t.Logf("node %d was behind by %v", at, time.Since(began))
	}
	if last > stored && partition != chaosRaw { // a message in doubt may come when all is over
		l.t.Errorf("node %d, partition %d: %s is at %d, and stored %d", at, partition, who, last, stored)
	}
}

func (l *chaosLoad) verifyNumbered(ctx context.Context, c *client.Client, at int) {
	l.t.Helper()
	for p := range uint32(chaosPartitions) {
		due := make([]int, len(l.acked))
		readAll(ctx, l.t, c, chaosStream, chaosTopic, p, func(offset uint64, payload string) {
			l.note(fmt.Sprint("node ", at), p, offset, []byte(payload))
			var producer, partition, number int
			if _, err := fmt.Sscanf(payload, "numbered %d %d %d ", &producer, &partition, &number); err != nil || partition != int(p) {
				l.t.Fatalf("node %d, partition %d, offset %d: %.40q, which nobody sent there", at, p, offset, payload)
			}
			if number != due[producer] {
				l.t.Fatalf("node %d, partition %d, offset %d: message %d of producer %d where %d was due: lost, repeated or out of order", at, p, offset, number, producer, due[producer])
			}
			due[producer]++
		})
		for producer, n := range due {
			if n != l.acked[producer][p] {
				l.t.Errorf("node %d, partition %d: %d messages of producer %d, and %d were acknowledged", at, p, n, producer, l.acked[producer][p])
			}
		}
	}
}

func (l *chaosLoad) verifyRaw(ctx context.Context, c *client.Client) {
	l.t.Helper()
	found := map[string]uint64{}
	readAll(ctx, l.t, c, chaosStream, chaosTopic, chaosRaw, func(offset uint64, payload string) {
		l.note("the end", chaosRaw, offset, []byte(payload))
		if first, twice := found[payload]; twice {
			l.t.Errorf("%q is at offset %d and at %d", payload, first, offset)
		}
		if _, ok := l.raw[payload]; !ok && !l.doubted[payload] {
			l.t.Errorf("offset %d: %.40q, which nobody sent", offset, payload)
		}
		found[payload] = offset
	})
	for word, offset := range l.raw {
		if at, there := found[word]; !there || at != offset {
			l.t.Errorf("%q was acknowledged at offset %d, and is there: %v, at %d", word, offset, there, at)
		}
	}
}

// verifyStreams looks at the streams; what is there belongs to the history, too.
func (l *chaosLoad) verifyStreams(ctx context.Context, c *client.Client, at int) {
	l.t.Helper()
	until(l.t, fmt.Sprintf("node %d has the streams", at), func() bool {
		all, err := c.Streams(ctx)
		if err != nil {
			l.t.Fatal(err)
		}
		found := map[string]bool{}
		for _, s := range all {
			found[s.Name] = true
		}
		for name, there := range l.own {
			if found[name] != there {
				return false
			}
		}
		return true
	})
	for i := range 3 {
		in := metaInput{what: metaLook, stream: fmt.Sprint("shared ", i)}
		call := time.Since(l.start)
		state, err := look(ctx, c, in.stream)
		if err != nil {
			l.t.Fatal(err)
		}
		l.took(10+at, in, call, metaOutput{state: state})
	}
}

func (l *chaosLoad) summary() string {
	kept := 0
	for _, h := range l.history {
		kept += len(h)
	}
	return fmt.Sprintf("%d numbered messages, %d acknowledged and %d in doubt that nobody can recognise, %d changes of metadata (outcome of %d unknown), %d streams of one client",
		l.sent.Load(), len(l.raw), len(l.doubted), kept, l.unknown, len(l.own))
}
