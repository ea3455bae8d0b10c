package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"galgo/internal/freeport"
)

// The bare program does the least that anybody must do for an acknowledged write:
// frames over TCP, a checksum at every receiver, one write and one sync for all that
// waits, acknowledged when a majority has it. No views, no recovery, no offsets, no
// index. What it reaches is what this machine has to give.

// bareCommand is the first argument of a process that is a node of it.
const bareCommand = "bare"

// Sizes of the bare program.
const (
	bareHead  = 8 // length and checksum of a frame, or the number of frames held
	bareLog   = 512 << 20
	bareBatch = 16 << 20 // bytes of a write
	bareQueue = 8192
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// bareFrame is a frame on its way to a log and to the peers.
type bareFrame struct {
	bytes []byte // with its head
	refs  atomic.Int32
	from  *bareConn
}

// bareConn is a client: it is told how many of its frames are held by a majority.
type bareConn struct {
	net.Conn
	held atomic.Uint64
	kick chan struct{} // of capacity 1: held has grown
}

// bareNode is a leader, with peers, or a follower, without: to it the leader is a client.
type bareNode struct {
	file   *os.File
	at     int64
	synced bool
	pool   sync.Pool
	queues []chan *bareFrame // its own log, then the peers

	mu      sync.Mutex
	held    []uint64     // frames in the log, here and at the peers
	pending []*bareFrame // not held by a majority
	done    uint64       // frames before pending
}

func runBare(args []string) error {
	fs := flag.NewFlagSet(bareCommand, flag.ContinueOnError)
	listen := fs.String("listen", "", "host:port")
	peers := fs.String("peers", "", "host:port,...")
	file := fs.String("file", "", "log, written before")
	synced := fs.Bool("sync", false, "sync before acknowledging")
	if err := fs.Parse(args); err != nil {
		return err
	}
	n := &bareNode{synced: *synced}
	var err error
	if n.file, err = writtenFile(*file); err != nil {
		return err
	}
	n.add()
	go n.keep(n.queues[0])
	for _, p := range strings.FieldsFunc(*peers, func(r rune) bool { return r == ',' }) {
		c, err := net.Dial("tcp", p)
		if err != nil {
			return err
		}
		at := n.add()
		go n.forward(n.queues[at], c)
		go n.listen(at, c)
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		conn := &bareConn{Conn: c, kick: make(chan struct{}, 1)}
		go n.read(conn)
		go conn.answer()
	}
}

// writtenFile makes a file whose blocks have all been written.
func writtenFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < bareLog; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros, at); err != nil {
			return nil, err
		}
	}
	return f, f.Sync()
}

func (n *bareNode) add() (at int) {
	n.queues = append(n.queues, make(chan *bareFrame, bareQueue))
	n.held = append(n.held, 0)
	return len(n.held) - 1
}

// must ends a node that cannot go on; whoever measures sees it gone.
func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
}

func (n *bareNode) read(c *bareConn) {
	in := bufio.NewReaderSize(c, 64<<10)
	for {
		f, err := n.next(in)
		if err != nil {
			return // the client has gone
		}
		f.from = c
		f.refs.Store(int32(len(n.queues)) + 1) // and pending
		n.mu.Lock()
		n.pending = append(n.pending, f)
		for _, q := range n.queues {
			q <- f
		}
		n.mu.Unlock()
	}
}

func (n *bareNode) next(in *bufio.Reader) (*bareFrame, error) {
	head, err := in.Peek(bareHead)
	if err != nil {
		return nil, err
	}
	f, _ := n.pool.Get().(*bareFrame)
	if f == nil {
		f = &bareFrame{}
	}
	size := bareHead + int(binary.LittleEndian.Uint32(head))
	f.bytes = slices.Grow(f.bytes[:0], size)[:size]
	if _, err := io.ReadFull(in, f.bytes); err != nil {
		return nil, err
	}
	if crc32.Checksum(f.bytes[bareHead:], castagnoli) != binary.LittleEndian.Uint32(f.bytes[4:]) {
		return nil, errors.New("checksum")
	}
	return f, nil
}

// gather takes what waits, one frame at least, and returns it with its bytes.
func gather(q chan *bareFrame, frames []*bareFrame, vector [][]byte) ([]*bareFrame, [][]byte) {
	f := <-q
	for size := 0; ; {
		frames, vector = append(frames, f), append(vector, f.bytes)
		if size += len(f.bytes); size >= bareBatch || len(vector) == 1024 {
			return frames, vector
		}
		select {
		case f = <-q:
		default:
			return frames, vector
		}
	}
}

func (n *bareNode) release(frames []*bareFrame) {
	for _, f := range frames {
		if f.refs.Add(-1) == 0 {
			n.pool.Put(f)
		}
	}
}

// keep writes to the log.
func (n *bareNode) keep(q chan *bareFrame) {
	var frames []*bareFrame
	var vector [][]byte
	for {
		frames, vector = gather(q, frames[:0], vector[:0])
		if n.at+2*bareBatch > bareLog {
			n.at = 0
		}
		written, err := unix.Pwritev(int(n.file.Fd()), vector, n.at)
		must(err)
		n.at += int64(written)
		if n.synced {
			must(unix.Fdatasync(int(n.file.Fd())))
		}
		count := uint64(len(frames))
		n.release(frames)
		n.mu.Lock()
		n.advance(0, n.held[0]+count)
		n.mu.Unlock()
	}
}

func (n *bareNode) forward(q chan *bareFrame, to net.Conn) {
	var frames []*bareFrame
	var vector [][]byte
	for {
		frames, vector = gather(q, frames[:0], vector[:0])
		buffers := net.Buffers(vector)
		_, err := buffers.WriteTo(to)
		must(err)
		n.release(frames)
	}
}

// listen takes what a peer says it holds.
func (n *bareNode) listen(at int, from net.Conn) {
	var b [bareHead]byte
	in := bufio.NewReader(from)
	for {
		_, err := io.ReadFull(in, b[:])
		must(err)
		n.mu.Lock()
		n.advance(at, binary.LittleEndian.Uint64(b[:]))
		n.mu.Unlock()
	}
}

// advance notes what a replica holds and tells the clients what a majority does.
func (n *bareNode) advance(at int, held uint64) {
	n.held[at] = held
	all := slices.Clone(n.held)
	slices.Sort(all)
	majority := all[(len(all)-1)/2]
	count := int(majority - n.done)
	defer n.release(n.pending[:count])
	for _, f := range n.pending[:count] {
		f.from.held.Add(1)
		select {
		case f.from.kick <- struct{}{}:
		default:
		}
	}
	n.pending = n.pending[count:]
	n.done = majority
}

func (c *bareConn) answer() {
	var b [bareHead]byte
	for range c.kick {
		binary.LittleEndian.PutUint64(b[:], c.held.Load())
		if _, err := c.Write(b[:]); err != nil {
			return // the client has gone
		}
	}
}

// bareCluster is the bare program as a system.
type bareCluster struct {
	all    []*process
	leader string
}

func bareNodes(n int, synced bool) starter {
	return func(ctx context.Context, _ *options, dir string) (system, error) {
		s := &bareCluster{}
		err := s.start(ctx, dir, n, synced)
		if err != nil {
			s.stop()
		}
		return s, err
	}
}

func (s *bareCluster) start(ctx context.Context, dir string, n int, synced bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ports, err := freeport.Take(n)
	if err != nil {
		return err
	}
	var peers []string
	for i, port := range ports { // the last one leads
		args := []string{bareCommand, "-listen", freeport.Loopback(port), "-file", filepath.Join(dir, fmt.Sprint("log", i)), "-sync=" + strconv.FormatBool(synced)}
		if i == n-1 {
			args = append(args, "-peers", strings.Join(peers, ","))
		}
		p, err := launch(dir, fmt.Sprint("bare", i), nil, self, args...)
		if err != nil {
			return err
		}
		s.all = append(s.all, p)
		if err := p.awaitPort(ctx, freeport.Loopback(port)); err != nil {
			return err
		}
		peers = append(peers, freeport.Loopback(port))
	}
	s.leader = peers[n-1]
	return nil
}

func (s *bareCluster) servers() []*process { return s.all }

func (s *bareCluster) stop() {
	for _, p := range s.all {
		p.kill()
	}
}

// smallFrame is what an operation on metadata has, head and all.
const smallFrame = 256

func (s *bareCluster) run(ctx context.Context, j job) (load, error) {
	size := j.batch * messageSize
	if size == 0 {
		size = smallFrame - bareHead
	}
	conns := j.connections
	if conns == 0 {
		conns = j.clients
	}
	frames := j.count / max(j.batch, 1)
	inFlight := max(j.inFlight*j.clients, j.clients) / conns
	l, err := bareLoad(ctx, s.leader, conns, inFlight, size, frames)
	l.rate *= float64(max(j.batch, 1))
	if j.batch > 0 {
		l.bytes = float64(j.count) * messageSize
	}
	return l, err
}

// bareLoad sends frames over connections, each with some in flight.
func bareLoad(ctx context.Context, address string, conns, inFlight, size, frames int) (load, error) {
	var wait sync.WaitGroup
	took := make([][]time.Duration, conns)
	errs := make([]error, conns)
	start := time.Now()
	for i := range conns {
		wait.Go(func() { took[i], errs[i] = bareClient(ctx, address, inFlight, size, (frames+conns-1)/conns) })
	}
	wait.Wait()
	total := time.Since(start)
	all := slices.Concat(took...)
	p50, p99 := quantiles(all)
	return load{rate: float64(len(all)) / total.Seconds(), p50: p50, p99: p99}, errors.Join(errs...)
}

func bareClient(ctx context.Context, address string, inFlight, size, frames int) (took []time.Duration, err error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	sent := make(chan time.Time, inFlight) // one place for each frame in flight
	failed := make(chan error, 1)
	go func() { failed <- bareSend(c, sent, size, frames) }()
	var b [bareHead]byte
	for len(took) < frames {
		if _, err := io.ReadFull(c, b[:]); err != nil {
			return took, errors.Join(err, c.Close(), <-failed)
		}
		now := time.Now()
		for held := binary.LittleEndian.Uint64(b[:]); uint64(len(took)) < held; {
			took = append(took, now.Sub(<-sent))
		}
	}
	return took, <-failed
}

func bareSend(c net.Conn, sent chan<- time.Time, size, frames int) error {
	frame := make([]byte, bareHead+size)
	for i := range frame {
		frame[i] = byte(i)
	}
	binary.LittleEndian.PutUint32(frame, uint32(size))
	out := bufio.NewWriterSize(c, 64<<10)
	for range frames {
		// A client hashes each batch that it sends.
		binary.LittleEndian.PutUint32(frame[4:], crc32.Checksum(frame[bareHead:], castagnoli))
		select {
		case sent <- time.Now():
		default: // as many as may be are in flight
			if err := out.Flush(); err != nil {
				return err
			}
			sent <- time.Now()
		}
		if _, err := out.Write(frame); err != nil {
			return err
		}
	}
	return out.Flush()
}
