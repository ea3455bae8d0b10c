package test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"galgo"
	"galgo/client"
	"galgo/internal/wire"
)

// The benchmarks here compare galgo with the bare work of the same machine, in
// turn, in one run, and report the ratio pair by pair as median, least and most.
// None of them passes or fails. Run: go test ./test -run '^$' -bench Ratio -benchtime 1x

const (
	pairs       = 5
	messageSize = 1024
	batchSize   = 1000
)

// report gives the ratios of the pairs as metrics.
func report(b *testing.B, ours, bare []float64, unit string) {
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = ours[i] / bare[i]
	}
	for _, l := range [][]float64{ours, bare, ratios} {
		slices.Sort(l)
	}
	mid := len(ratios) / 2
	b.ReportMetric(ratios[mid], "ratio")
	b.ReportMetric(ratios[0], "ratio-min")
	b.ReportMetric(ratios[len(ratios)-1], "ratio-max")
	b.ReportMetric(ours[mid], "galgo-"+unit)
	b.ReportMetric(bare[mid], "bare-"+unit)
	b.ReportMetric(0, "ns/op")
}

// Durable sends of 1 KiB messages in batches of 1000, some in flight, against a plain
// sequential write into a preallocated, written file with a sync per 1 MiB. The clients
// share the processors with the server. Those of the first kind encode their batches
// meanwhile; those of the second have them ready, so that it is the server that is
// measured.
func BenchmarkRatioDurableSend(b *testing.B) {
	for _, inFlight := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("client/in-flight=%d", inFlight), func(b *testing.B) { ratioDurableSend(b, inFlight, (*benchProcess).produce) })
	}
	for _, inFlight := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("ready/in-flight=%d", inFlight), func(b *testing.B) { ratioDurableSend(b, inFlight, (*benchProcess).produceReady) })
	}
}

type producer func(s *benchProcess, b *testing.B, name string, messages, inFlight int) float64

func ratioDurableSend(b *testing.B, inFlight int, produce producer) {
	for b.Loop() {
		s := benchServer(b)
		f := preallocated(b, filepath.Join(filepath.Dir(s.dir), "bare"), 512<<20)
		produce(s, b, "warm", 1_000_000, inFlight) // once around the log, as in a server that has run for a while
		var ours, bare []float64
		for i := range pairs {
			bare = append(bare, writeSynced(b, f, 512<<20, 1<<20))
			ours = append(ours, produce(s, b, fmt.Sprint("send", i), 1_000_000, inFlight))
		}
		s.kill()
		report(b, ours, bare, "MB/s")
	}
}

// Polls of 1000 messages of 1 KiB from memory against the bandwidth of loopback
// TCP between two programs.
func BenchmarkRatioPoll(b *testing.B) {
	for b.Loop() {
		s := benchServer(b, "GALGO_PARTITION_TAIL_BYTES=64 MiB")
		s.produce(b, "poll", 32_000, 1)
		var ours, bare []float64
		for range pairs {
			bare = append(bare, loopback(b))
			ours = append(ours, s.consume(b, "poll", 32_000, 2*time.Second))
		}
		s.kill()
		report(b, ours, bare, "MB/s")
	}
}

// What an idle server with 1,000 partitions takes of a core.
func BenchmarkIdleWithThousandPartitions(b *testing.B) {
	for b.Loop() {
		s := benchServer(b)
		fillThousandPartitions(b, s.connect(b))
		used := idle(b, s.cmd)
		s.kill()
		b.ReportMetric(used[0], "%core")
		b.ReportMetric(0, "ns/op")
	}
}

// The same of each of three nodes that replicate them all.
func BenchmarkIdleClusterWithThousandPartitions(b *testing.B) {
	for b.Loop() {
		f := newFleet(b, 3)
		f.start()
		fillThousandPartitions(b, f.dial(0))
		used := idle(b, f[0].cmd, f[1].cmd, f[2].cmd)
		for _, s := range f {
			s.kill()
		}
		slices.Sort(used)
		b.ReportMetric(used[0], "%core-least")
		b.ReportMetric(used[2], "%core-most")
		b.ReportMetric(0, "ns/op")
	}
}

// fillThousandPartitions stores a message in each of a thousand partitions, and goes.
func fillThousandPartitions(b *testing.B, c *client.Client) {
	b.Helper()
	const partitions = 1000
	stream, topic := createTopic(b, c, partitions)
	for p := range uint32(partitions) {
		if _, err := c.SendMessages(context.Background(), stream, topic, galgo.ToPartition(p), []galgo.Message{{Payload: []byte("x")}}); err != nil {
			b.Fatal(err)
		}
	}
	c.Close()
}

// idle is what processes take while nobody asks anything of them, in percent of a core.
func idle(b *testing.B, processes ...*exec.Cmd) []float64 {
	b.Helper()
	const settling, span = 3 * time.Second, 20 * time.Second
	time.Sleep(settling) // what the load left behind is done
	before, used := make([]time.Duration, len(processes)), make([]float64, len(processes))
	for i, p := range processes {
		before[i] = processorTime(b, p)
	}
	time.Sleep(span)
	for i, p := range processes {
		used[i] = (processorTime(b, p) - before[i]).Seconds() / span.Seconds() * 100
	}
	return used
}

// benchProcess is a server process for a benchmark, with the settings of a default
// installation.
type benchProcess struct {
	dir     string
	address string
	cmd     *exec.Cmd
	clients []*client.Client
}

func benchServer(b *testing.B, env ...string) *benchProcess {
	b.Helper()
	s := &benchProcess{dir: filepath.Join(b.TempDir(), "data"), address: freeAddress(b)}
	s.cmd = exec.Command(binary, "server")
	s.cmd.Env = append(os.Environ(), append([]string{"GALGO_SYSTEM_PATH=" + s.dir, "GALGO_TCP_ADDRESS=" + s.address, "GALGO_DISPLAY_CONFIG=false",
		"GALGO_QUIC_ENABLED=false", "GALGO_WEBSOCKET_ENABLED=false"}, env...)...)
	if err := s.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.kill)
	for {
		if conn, err := net.Dial("tcp", s.address); err == nil {
			conn.Close()
			return s
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (s *benchProcess) kill() {
	for _, c := range s.clients {
		c.Close()
	}
	s.clients = nil
	if s.cmd != nil {
		s.cmd.Process.Kill()
		s.cmd.Wait()
		s.cmd = nil
	}
}

func (s *benchProcess) connect(b *testing.B) *client.Client {
	b.Helper()
	c, err := client.Dial(context.Background(), s.address, client.WithPassword("iggy", "iggy"))
	if err != nil {
		b.Fatal(err)
	}
	s.clients = append(s.clients, c)
	return c
}

// processorTime is what a process has used, user and system.
func processorTime(b *testing.B, process *exec.Cmd) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:]))
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	const ticksPerSecond = 100 // USER_HZ, which Linux fixes for user space
	return time.Duration(ticks) * time.Second / ticksPerSecond
}

// produce sends messages to a topic of one partition and returns payload MB/s.
func (s *benchProcess) produce(b *testing.B, name string, messages, inFlight int) float64 {
	b.Helper()
	c := s.createTopic(b, name)
	return spread(b, messages, inFlight, func(int) func() error {
		batch := messagesOf(batchSize)
		return func() error {
			_, err := c.SendMessages(context.Background(), galgo.NamedID(name), galgo.NamedID(name), galgo.ToPartition(0), batch)
			return err
		}
	})
}

// produceReady does as produce, over a connection for each batch in flight, as stock
// clients do.
func (s *benchProcess) produceReady(b *testing.B, name string, messages, inFlight int) float64 {
	b.Helper()
	s.createTopic(b, name)
	batch, err := wire.AppendBatch(nil, messagesOf(batchSize))
	if err != nil {
		b.Fatal(err)
	}
	body := wire.SendMessagesRequest{
		Stream: galgo.NamedID(name), Topic: galgo.NamedID(name), Partitioning: galgo.ToPartition(0), MessagesCount: batchSize, Batch: batch,
	}.Append(nil)
	clients := make([]*rawClient, inFlight)
	for i := range clients {
		if clients[i], err = dialRaw(s.address); err != nil {
			b.Fatal(err)
		}
		defer clients[i].conn.Close()
	}
	return spread(b, messages, inFlight, func(i int) func() error {
		frame := clients[i].frame(wire.OperationSendMessages, 1, body)
		return func() error {
			_, err := clients[i].exchange(wire.OperationSendMessages, frame)
			return err
		}
	})
}

func messagesOf(n int) []galgo.Message {
	batch, payload := make([]galgo.Message, n), make([]byte, messageSize)
	for i := range batch {
		batch[i].Payload = payload
	}
	return batch
}

// createTopic makes a stream and in it a topic of one partition, both of a name.
func (s *benchProcess) createTopic(b *testing.B, name string) *client.Client {
	b.Helper()
	ctx, c := context.Background(), s.connect(b)
	if _, err := c.CreateStream(ctx, name); err != nil {
		b.Fatal(err)
	}
	if _, err := c.CreateTopic(ctx, galgo.NamedID(name), client.TopicSpec{Name: name, Partitions: 1}); err != nil {
		b.Fatal(err)
	}
	return c
}

// spread has so many senders, one after the other each, send messages in batches, and
// returns payload MB/s. sender makes the i-th.
func spread(b *testing.B, messages, senders int, sender func(i int) (send func() error)) float64 {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(messages / batchSize))
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	start := time.Now()
	for i := range senders {
		wg.Go(func() {
			send := sender(i)
			for left.Add(-1) >= 0 {
				if err := send(); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	if err := failed.Load(); err != nil {
		b.Fatal(*err)
	}
	return float64(messages) * messageSize / 1e6 / took.Seconds()
}

// consume polls the newest messages of a topic over and over, one poll in flight,
// and returns payload MB/s.
func (s *benchProcess) consume(b *testing.B, name string, messages int, span time.Duration) float64 {
	b.Helper()
	c := s.connect(b)
	var batch client.Batch
	total := 0
	start := time.Now()
	for offset := 0; time.Since(start) < span; offset = (offset + batchSize) % messages {
		if err := c.PollInto(context.Background(), client.PollRequest{
			Consumer: galgo.Consumer{Kind: galgo.ConsumerSingle, ID: galgo.NumericID(1)}, Stream: galgo.NamedID(name), Topic: galgo.NamedID(name),
			Strategy: galgo.FromOffset(uint64(offset)), Count: batchSize,
		}, &batch); err != nil {
			b.Fatal(err)
		}
		for m := range batch.Messages() {
			total += len(m.Payload)
		}
	}
	return float64(total) / 1e6 / time.Since(start).Seconds()
}

// preallocated makes a file whose bytes are all written once.
func preallocated(b *testing.B, name string, size int) *os.File {
	b.Helper()
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	zeros := make([]byte, 1<<20)
	for off := 0; off < size; off += len(zeros) {
		if _, err := f.Write(zeros); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	return f
}

// writeSynced writes a file over from its start, with a sync after each block, and
// returns MB/s.
func writeSynced(b *testing.B, f *os.File, size, block int) float64 {
	b.Helper()
	data := make([]byte, block)
	start := time.Now()
	for off := 0; off < size; off += block {
		if _, err := f.WriteAt(data, int64(off)); err != nil {
			b.Fatal(err)
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			b.Fatal(err)
		}
	}
	return float64(size) / 1e6 / time.Since(start).Seconds()
}

// drain is the environment variable that makes this program the receiver of
// loopback.
const drain = "GALGO_TEST_DRAIN"

// drainAndExit receives until the sender is done, if this process is asked to.
func drainAndExit() {
	address := os.Getenv(drain)
	if address == "" {
		return
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		os.Exit(1)
	}
	buf := make([]byte, 1<<20)
	for err == nil {
		_, err = conn.Read(buf)
	}
	if err != io.EOF {
		os.Exit(1)
	}
	os.Exit(0)
}

// loopback is the bandwidth of TCP between this program and another, in MB/s.
func loopback(b *testing.B) float64 {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), drain+"="+l.Addr().String())
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer cmd.Wait()
	conn, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	data := make([]byte, 1<<20)
	total := 0
	start := time.Now()
	for time.Since(start) < 2*time.Second {
		n, err := conn.Write(data)
		if err != nil {
			b.Fatal(err)
		}
		total += n
	}
	return float64(total) / 1e6 / time.Since(start).Seconds()
}
