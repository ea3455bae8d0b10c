package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"galgo/client"
	"galgo/internal/cli"
	"galgo/internal/disk"
)

// The environment says what TestChaos draws from, how long faults last, how many producers
// and as many members of a consumer group there are, and where the data directories stay for
// whoever looks at them afterwards.
const (
	chaosSeed     = "GALGO_CHAOS_SEED"
	chaosDuration = "GALGO_CHAOS_DURATION"
	chaosClients  = "GALGO_CHAOS_CLIENTS"
	chaosKeep     = "GALGO_CHAOS_KEEP"

	chaosDurationDefault = 10 * time.Second
	chaosClientsDefault  = 3
	// chaosMemoryMax is what a server may ever have in memory, in KiB: four times the
	// budget for its requests, for all that is beside that; and chaosMemoryFactor times its
	// files, as the disk of the tests keeps in the process what is not synced, which all
	// that comes from another node is until it is whole, and garbage comes on top.
	chaosMemoryMax    = 512 << 10
	chaosMemoryFactor = 4
)

// chaos is a cluster under load, and what is done to it.
type chaos struct {
	t        *testing.T
	rng      *rand.Rand // of the faults
	f        fleet
	began    time.Time
	said     []string
	active   []*fault
	replaced int // a node that may not have everything yet; -1: none
	before   [chaosPartitions]int
	unfit    [3]bool // its disk is full or fails: it could not start
	blamed   [3]bool // its disk was full or has failed in this life
	gaveUp   int
	peak     int // KiB
	logs     []*bytes.Buffer
}

// fault is something that went wrong and is to be mended.
type fault struct {
	what string
	node int // -1: all
	mend func()
}

// Nodes are killed, lose power, alone and all at once, are stopped for a while, cut off,
// cut apart and slow; their disks are full, slow, failing or lost. At the end all is
// mended, and the cluster has everything that it said it has.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	seed, duration, clients := chaosInput(t)
	t.Logf("%s=%d %s=%v %s=%d go test ./test -run TestChaos", chaosSeed, seed, chaosDuration, duration, chaosClients, clients)
	c := newChaos(t, seed)
	defer c.tell()
	c.f.start()
	admin := c.dial(0)
	l := newChaosLoad(t, seed)
	defer l.leave()
	l.prepare(admin)
	c.load(l, clients)
	for loaded := time.Now(); time.Since(loaded) < duration && !t.Failed(); {
		c.step()
	}
	c.mendAll()
	c.end(l)
}

func chaosInput(t *testing.T) (seed uint64, duration time.Duration, clients int) {
	t.Helper()
	seed, duration, clients = uint64(time.Now().UnixNano())%1_000_000, chaosDurationDefault, chaosClientsDefault
	var err error
	if text := os.Getenv(chaosSeed); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv(chaosDuration); text != "" {
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv(chaosClients); text != "" {
		if clients, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	return seed, duration, clients
}

func newChaos(t *testing.T, seed uint64) *chaos {
	c := &chaos{t: t, rng: rand.New(rand.NewPCG(seed, 1)), began: time.Now(), replaced: -1}
	env := []string{
		"GALGO_CLUSTER_HEARTBEAT_TIMEOUT=2s", "GALGO_CLUSTER_VIEW_CHANGE_STATUS_TIMEOUT=2s",
		"GALGO_CONSUMER_GROUP_REBALANCING_TIMEOUT=2s", "GALGO_HEARTBEAT_INTERVAL=3s",
		"GALGO_METADATA_JOURNAL_SLOTS=256", "GALGO_WAL_FILE_SIZE=1 MiB", "GALGO_WAL_LIMIT=" + []string{"2 MiB", "4 MiB", "16 MiB"}[c.rng.IntN(3)],
		"GALGO_SYSTEM_MEMORY_BUDGET=128 MiB", "GALGO_PARTITION_TAIL_BYTES=1 MiB", fmt.Sprintf("GALGO_SYSTEM_SHARDS=%d", 1+c.rng.IntN(2)),
	}
	c.f = newFleetOn(t, mustNetwork(t, 3), 3, env...)
	for i, s := range c.f {
		s.device = &device{seed: seed*8 + uint64(i)}
		c.logs = append(c.logs, new(bytes.Buffer))
		s.tee = c.logs[i]
		if keep := os.Getenv(chaosKeep); keep != "" {
			s.dir = filepath.Join(keep, fmt.Sprintf("seed-%d", seed), fmt.Sprint("n", i))
			c.must(errors.Join(os.RemoveAll(s.dir), os.MkdirAll(s.dir, 0o700)))
		}
	}
	return c
}

func (c *chaos) say(format string, args ...any) {
	c.said = append(c.said, fmt.Sprintf("%8.3f s  ", time.Since(c.began).Seconds())+fmt.Sprintf(format, args...))
}

// tell says what went wrong, and what the servers said of it, if the test fails.
func (c *chaos) tell() {
	c.t.Log("what was done:\n" + strings.Join(c.said, "\n"))
	const most = 6000
	for i, s := range c.f {
		if s.cmd != nil {
			s.kill()
		}
		said := c.logs[i].Bytes()
		c.t.Logf("node %d said at the end:\n%s", i, said[max(0, len(said)-most):])
		if keep := os.Getenv(chaosKeep); keep != "" {
			os.WriteFile(s.dir+".log", said, 0o600)
		}
	}
}

// dial connects to any of the nodes, first to one, as a client that gives nothing up.
func (c *chaos) dial(first int) *client.Client {
	c.t.Helper()
	return c.signIn(first, client.WithAddresses(c.f[(first+1)%3].address, c.f[(first+2)%3].address))
}

// pinned connects to one node alone.
func (c *chaos) pinned(i int) *client.Client {
	c.t.Helper()
	return c.signIn(i)
}

// signIn tries until it succeeds: the cluster may just be about to find a primary.
func (c *chaos) signIn(i int, opts ...client.Option) (k *client.Client) {
	c.t.Helper()
	s := c.f[i]
	opts = append(opts, client.WithPassword("iggy", "iggy"), client.WithDialer(s.connect), client.WithRetryBudget(20*time.Minute),
		client.WithAnswerTimeout(4*time.Second), client.WithConnectTimeout(10*time.Second), client.WithHeartbeat(time.Second))
	until(c.t, fmt.Sprintf("a client signs in at node %d", i), func() bool {
		var err error
		k, err = client.Dial(context.Background(), s.address, opts...)
		return err == nil
	})
	c.t.Cleanup(func() { k.Close() })
	return k
}

// load begins what clients do. All of them connect before anything goes wrong: dialling
// is tried once.
func (c *chaos) load(l *chaosLoad, clients int) {
	l.acked = make([][chaosPartitions]int, clients)
	for i := range clients {
		producer, member := c.dial(c.rng.IntN(3)), c.dial(c.rng.IntN(3))
		l.writers.Go(func() { l.produce(producer, i) })
		l.readers.Go(func() { l.consume(member, i) })
	}
	for i, s := range c.f {
		changer, watcher := c.dial(i), c.pinned(i)
		l.writers.Go(func() { l.produceRaw(s, i) })
		l.writers.Go(func() { l.change(changer, i) })
		l.readers.Go(func() { l.watch(watcher, i) })
	}
	single := c.dial(c.rng.IntN(3))
	l.writers.Go(func() { l.storeOffsets(single) })
}

// between draws a time.
func (c *chaos) between(least, most time.Duration) time.Duration {
	return least + time.Duration(c.rng.Int64N(int64(most-least)))
}

// step has something go wrong, or mends what did, and lets some time pass.
func (c *chaos) step() {
	if len(c.active) > c.rng.IntN(3) {
		c.mendOne(c.rng.IntN(len(c.active)))
	} else if f := c.trouble(); f != nil {
		c.say("%s", f.what)
		c.active = append(c.active, f)
	}
	longest := []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond, 4 * time.Second}[c.rng.IntN(3)]
	time.Sleep(c.between(20*time.Millisecond, longest)) // a fault lasts for a while: there is nothing to wait for
	c.alive()
	c.refilled()
}

func (c *chaos) mendOne(at int) {
	f := c.active[at]
	c.active = append(c.active[:at:at], c.active[at+1:]...)
	c.say("mended: %s", f.what)
	f.mend()
}

func (c *chaos) mendAll() {
	for len(c.active) > 0 {
		c.mendOne(c.rng.IntN(len(c.active)))
	}
	for i := range c.f {
		c.up(i)
	}
	c.say("all is well")
}

// spared reports whether nothing is wrong with a node by itself.
func (c *chaos) spared(i int) bool {
	for _, f := range c.active {
		if f.node == i || f.node < 0 {
			return false
		}
	}
	return true
}

// trouble begins a fault; nil if it cannot be now.
func (c *chaos) trouble() *fault {
	i := c.rng.IntN(3)
	j := (i + 1 + c.rng.IntN(2)) % 3
	if !c.spared(i) {
		return nil
	}
	if c.rng.IntN(4) == 0 {
		if f := c.replaces(i); f != nil {
			return f
		}
	}
	local := []func(i int) *fault{c.loses, c.loses, c.losesAll, c.freezes, c.fills, c.drags, c.breaks}
	if c.f[i].host == nil {
		return local[c.rng.IntN(len(local))](i)
	}
	switch n := c.rng.IntN(len(local) + 5); {
	case n < len(local):
		return local[n](i)
	case n < len(local)+3:
		return c.cuts(i, j, n-len(local))
	case n == len(local)+3:
		return c.unplugs(i)
	}
	return c.slows(i)
}

func (c *chaos) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// loses has a node lose power; where it can be, nobody is told by its system.
func (c *chaos) loses(i int) *fault {
	silent := c.f[i].host != nil && c.rng.IntN(2) == 0
	if silent {
		c.must(c.f[i].host.unplug())
	}
	c.down(i)
	return &fault{fmt.Sprintf("node %d loses power, silently: %v", i, silent), i, func() {
		if silent {
			c.must(c.f[i].host.replug())
		}
		c.up(i)
	}}
}

func (c *chaos) losesAll(int) *fault {
	for i := range c.f {
		if c.f[i].cmd != nil {
			c.f[i].cmd.Process.Signal(syscall.SIGKILL)
		}
	}
	for i := range c.f {
		c.down(i)
	}
	return &fault{"all nodes lose power", -1, func() {
		for _, i := range c.rng.Perm(3) {
			c.up(i)
		}
	}}
}

func (c *chaos) freezes(i int) *fault {
	cmd := c.f[i].cmd
	if cmd == nil {
		return nil
	}
	cmd.Process.Signal(syscall.SIGSTOP)
	return &fault{fmt.Sprintf("node %d stands still", i), i, func() { cmd.Process.Signal(syscall.SIGCONT) }}
}

func (c *chaos) fills(i int) *fault {
	c.unfit[i], c.blamed[i] = true, true
	return c.orders(i, "full")
}

func (c *chaos) drags(i int) *fault { return c.orders(i, "slow") }

// breaks has syncs fail. The first that matters must end the node: it cannot know what is
// lost but from its disk.
func (c *chaos) breaks(i int) *fault {
	c.unfit[i], c.blamed[i] = true, true
	return c.orders(i, "broken")
}

func (c *chaos) orders(i int, what string) *fault {
	c.f[i].command(what)
	return &fault{fmt.Sprintf("the disk of node %d is %s", i, what), i, func() {
		c.f[i].command("")
		c.unfit[i] = false
		c.up(i)
	}}
}

// replaces gives a node an empty disk. Another one may lose its disk only when this one
// has everything again.
func (c *chaos) replaces(i int) *fault {
	if c.replaced >= 0 || len(c.active) > 0 {
		return nil
	}
	c.before = [chaosPartitions]int{}
	for k := range c.f {
		has, ok := c.counts(k)
		if !ok {
			return nil
		}
		for p, n := range has {
			c.before[p] = max(c.before[p], n)
		}
	}
	c.replaced = i
	c.down(i)
	c.must(os.RemoveAll(c.f[i].dir))
	c.f[i].args = []string{"--replace"}
	return &fault{fmt.Sprintf("node %d has lost its disk", i), i, func() { c.up(i) }}
}

// refilled looks whether the replaced node has what was there when it lost its disk.
func (c *chaos) refilled() {
	if c.replaced < 0 || !c.spared(c.replaced) {
		return
	}
	has, ok := c.counts(c.replaced)
	for p, n := range c.before {
		ok = ok && has[p] >= n
	}
	if ok {
		c.say("node %d has everything again", c.replaced)
		c.f[c.replaced].args, c.replaced = nil, -1
	}
}

// counts is what a node has of the partitions, if it answers.
func (c *chaos) counts(i int) (has [chaosPartitions]int, ok bool) {
	const patience = 4 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// Who is signed in at a node knows that it has the metadata up to that.
	k, err := client.Dial(ctx, c.f[i].address, client.WithPassword("iggy", "iggy"), client.WithDialer(c.f[i].connect), client.WithRetryBudget(patience))
	if err != nil {
		return has, false
	}
	defer k.Close()
	for p := range has {
		has[p] = count(c.t, k, chaosStream, chaosTopic, uint32(p))
	}
	return has, true
}

func (c *chaos) cuts(i, j, ways int) *fault {
	a, b := c.f[i].host, c.f[j].host
	c.must(a.deaf(b))
	if ways > 0 {
		c.must(b.deaf(a))
	}
	return &fault{fmt.Sprintf("the link from node %d to %d is cut, back too: %v", i, j, ways > 0), i, func() {
		c.must(a.reach(b))
		if ways > 0 {
			c.must(b.reach(a))
		}
	}}
}

func (c *chaos) unplugs(i int) *fault {
	h := c.f[i].host
	c.must(h.unplug())
	return &fault{fmt.Sprintf("node %d is cut off", i), i, func() { c.must(h.replug()) }}
}

func (c *chaos) slows(i int) *fault {
	h := c.f[i].host
	c.must(h.slow(c.between(10*time.Millisecond, 300*time.Millisecond)))
	return &fault{fmt.Sprintf("what node %d says is slow", i), i, func() { c.must(h.quick()) }}
}

func (c *chaos) down(i int) {
	s := c.f[i]
	if s.cmd == nil {
		return
	}
	c.measure(s)
	s.kill()
}

// up starts a node, if it can: on a full disk it could not even number its life.
func (c *chaos) up(i int) {
	if c.f[i].cmd == nil && !c.unfit[i] {
		c.blamed[i] = false
		c.f[i].launch()
	}
}

// alive fails the test if a node has ended by itself and had no reason to. One whose disk
// has failed is started again when that is mended.
func (c *chaos) alive() {
	for i, s := range c.f {
		if s.cmd == nil {
			continue
		}
		c.measure(s)
		select {
		case err := <-s.exited:
			s.cmd = nil
			if !c.blamed[i] || !excused(err, s.output.String()) {
				c.t.Errorf("node %d ended by itself: %v\n%s", i, err, s.output)
				continue
			}
			c.gaveUp++
			c.say("node %d has ended, for its disk", i)
			c.up(i)
		default:
		}
	}
}

// excused reports whether a process that has ended by itself says that its disk is why. One
// that cannot start may end for want of room; one that runs must not.
func excused(err error, said string) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case !ok:
		return false
	case exit.ExitCode() == int(cli.ExitFailed):
		return strings.Contains(said, errRefused.Error())
	case strings.Contains(said, "msg=listening"):
		return false
	}
	return exit.ExitCode() == int(cli.ExitError) && (strings.Contains(said, errRefused.Error()) || strings.Contains(said, disk.ErrNoSpace.Error()))
}

// measure takes note of the most memory that a server has had.
func (c *chaos) measure(s *server) {
	c.peak = max(c.peak, peakMemory(s.cmd.Process.Pid)>>10)
}

// stored is how large the files of partitions are that a node has, in KiB.
func (c *chaos) stored() (size int) {
	c.must(fs.WalkDir(os.DirFS(c.f[0].dir), "groups", func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // the node runs
			return nil
		}
		if err == nil {
			size += int(info.Size() >> 10)
		}
		return err
	}))
	return size
}

// end waits until the cluster has settled, and holds it against what it said.
func (c *chaos) end(l *chaosLoad) {
	until(c.t, "all nodes answer", func() bool {
		c.alive()
		for _, s := range c.f {
			conn, err := s.connect(context.Background(), s.address)
			if err != nil {
				return c.t.Failed()
			}
			conn.Close()
		}
		return true
	})
	c.say("the load ends")
	l.finish(c.dial(0))
	if c.t.Failed() {
		c.t.FailNow()
	}
	for i, s := range c.f {
		l.verify(c.pinned(i), i)
		c.measure(s)
	}
	l.verifyHistory()
	c.t.Logf("%d steps, %d nodes gave up; %s; at most %d MiB in memory", len(c.said), c.gaveUp, l.summary(), c.peak>>10)
	if most := chaosMemoryMax + chaosMemoryFactor*c.stored(); c.peak > most {
		c.t.Errorf("a server had %d KiB in memory, which is more than %d", c.peak, most)
	}
	c.say("the nodes are stopped")
	for i, s := range c.f {
		if status := s.stop(); status != 0 {
			c.t.Errorf("node %d ends with status %d\n%s", i, status, s.output)
		}
	}
	var dirs []string
	for i, s := range c.f {
		dirs = append(dirs, s.dir)
		for _, what := range []string{"superblock", "wal", "snapshot", "segment"} {
			if out, status := run(c.t, os.Environ(), "inspect", what, s.dir); status != 0 {
				c.t.Errorf("node %d, inspect %s: status %d\n%s", i, what, status, out[max(0, len(out)-2000):])
			}
		}
	}
	compareSegments(c.t, dirs)
	if out, status := run(c.t, os.Environ(), append([]string{"verify"}, dirs...)...); status != 0 {
		c.t.Errorf("galgo verify: status %d\n%s", status, out[max(0, len(out)-2000):])
	}
}

// compareSegments fails unless all data directories have the same segments, byte by byte.
func compareSegments(t *testing.T, dirs []string) {
	t.Helper()
	files := func(dir string) map[string][]byte {
		found := map[string][]byte{}
		err := fs.WalkDir(os.DirFS(dir), "groups", func(name string, e fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".log") {
				return err
			}
			found[name], err = os.ReadFile(filepath.Join(dir, name))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	first := files(dirs[0])
	if len(first) == 0 {
		t.Errorf("%s has no segments", dirs[0])
	}
	for _, dir := range dirs[1:] {
		other := files(dir)
		for name, b := range first {
			if o, there := other[name]; !there || !bytes.Equal(b, o) {
				t.Errorf("%s: %d bytes in %s, %d in %s (there: %v), or others", name, len(b), dirs[0], len(o), dir, there)
			}
		}
		for name := range other {
			if _, there := first[name]; !there {
				t.Errorf("%s is in %s and not in %s", name, dir, dirs[0])
			}
		}
	}
}
