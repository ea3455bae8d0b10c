package engine

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/config"
	"galgo/internal/disk/memdisk"
	"galgo/internal/edge"
	"galgo/internal/wire"
)

var (
	seedsFlag = flag.Int("seeds", 20, "how many random lives of a node to run")
	seedFlag  = flag.Uint64("seed", 0, "the only random life to run, if not 0")
)

// Random operations on a node of two shards, many of them under way at once, with
// checkpoints, a disk that fills up, kills, losses of power in the middle of a job
// and graceful stops. After each start and in between, what can be read is compared
// with what was answered, and every operation of a life that was not cut short has
// exactly one answer. go test -run TestRandomLives -seeds 5000 runs many.
func TestRandomLives(t *testing.T) {
	from, to := uint64(1), uint64(*seedsFlag)
	if *seedFlag != 0 {
		from, to = *seedFlag, *seedFlag
	}
	for seed := from; seed <= to; seed++ {
		l := &lives{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 77)), disk: healthy(), topics: map[string]*lifeTopic{}}
		for l.life = range 6 {
			l.live()
		}
		if t.Failed() {
			return
		}
	}
}

// lives is a node over several starts, and what it has promised so far.
type lives struct {
	t    *testing.T
	seed uint64
	life int
	rng  *rand.Rand
	disk *memdisk.Disk
	w    *world

	clock   int // counts submissions and answers
	admin   *session
	topics  map[string]*lifeTopic
	pending *lifeChange // of the metadata
	open    int         // operations without an answer
	serial  int         // of payloads, names and numbers
	full    bool
	mortal  *mortal
}

func (l *lives) failf(format string, args ...any) {
	l.t.Helper()
	l.t.Fatalf("-seed %d, life %d: %s", l.seed, l.life, fmt.Sprintf(format, args...))
}

func (l *lives) now() int { l.clock++; return l.clock }

type lifeTopic struct {
	memory bool
	groups []*lifeGroup
}

// lifeGroup is what is known of a partition. What happened before the last start is
// settled: sends are there (stored) or not and then never will be.
type lifeGroup struct {
	id     uint64
	sends  map[string]*lifeSend
	purges []*lifeChange
	stores map[uint32]*lifeStore
	memory bool
}

type lifeSend struct {
	submitted, answered int
	stored, refused     bool
	base                uint64
	number              uint64 // 0: cannot be recognised
}

type lifeStore struct {
	value               uint64
	submitted, answered int
	found               bool
	doubt               []uint64 // values whose outcome is open
	busy                bool
}

// lifeChange is an operation of the metadata under way, or a purge that was.
type lifeChange struct {
	kind, topic         string
	memory              bool
	submitted, answered int
	ok                  bool
}

// live starts the node, checks what it shows, goes on for a while and ends it.
func (l *lives) live() {
	c := worldConfig()
	c.System.Shards = 2
	c.WAL.FileSize = config.ByteSize(16<<10 + l.rng.IntN(3)<<15)
	c.Metadata.JournalSlots = 40
	c.WAL.Limit = config.ByteSize([]int{64 << 10, 1 << 40}[l.rng.IntN(2)])
	l.mortal = &mortal{Disk: l.disk}
	w, err := open(l.t, l.mortal, c, l.rng.Uint64(), uint64(1_000_000*(l.life+1)))
	if err != nil {
		l.failf("the start refuses: %v", err)
	}
	l.w, l.open, l.full = w, 0, false
	l.login()
	l.settleTopics()
	l.checkAll(true)
	for range 20 + l.rng.IntN(120) {
		l.act()
		for range l.rng.IntN(7) {
			w.step()
		}
		if w.failed != nil {
			l.failf("the node gave up: %v", w.failed)
		}
	}
	l.end()
}

func (l *lives) login() {
	if !l.w.bootstrap() {
		l.failf("bootstrap: %v", l.w.failed)
	}
	s, ok := l.w.login(galgo.ClientID{1})
	if !ok {
		l.failf("login: %v", l.w.failed)
	}
	if l.admin != nil {
		s.request = l.admin.request
	}
	l.admin = s
	if l.w.group("s", "", 0); len(l.topics) == 0 && l.life == 0 {
		if !(&cast{admin: s}).call(l.w, wire.OperationCreateStream, wire.CreateStreamRequest{Name: "s"}.Append(nil)) {
			l.failf("create stream: %v", l.w.failed)
		}
	}
}

// settleTopics compares the topics with those that were answered for.
func (l *lives) settleTopics() {
	p := l.pending
	l.pending = nil
	if p != nil {
		there := l.w.group("s", p.topic, 0) != 0
		switch {
		case p.kind == "create" && there:
			l.adopt(p)
		case p.kind == "delete" && !there:
			delete(l.topics, p.topic)
		}
	}
	count := 0
	for name, t := range l.topics {
		for i, g := range t.groups {
			if id := l.w.group("s", name, uint32(i)); id != g.id {
				l.failf("partition %d of %s is group %d, was %d", i, name, id, g.id)
			}
			count++
		}
	}
	if n := len(slices.Collect(l.w.engine.View().AllPartitions())); n != count {
		l.failf("%d partitions, want %d", n, count)
	}
}

func (l *lives) adopt(p *lifeChange) {
	t := &lifeTopic{memory: p.memory}
	for i := uint32(0); ; i++ {
		id := l.w.group("s", p.topic, i)
		if id == 0 {
			break
		}
		t.groups = append(t.groups, &lifeGroup{id: id, memory: p.memory, sends: map[string]*lifeSend{}, stores: map[uint32]*lifeStore{}})
	}
	l.topics[p.topic] = t
}

// act does something at random.
func (l *lives) act() {
	switch n := l.rng.IntN(100); {
	case n < 45:
		l.send(0)
	case n < 55:
		l.send(uint64(l.serial + 1))
	case n < 65:
		l.store()
	case n < 73:
		l.change([]string{"create", "create", "delete", "purge", "purge"}[l.rng.IntN(5)])
	case n < 78:
		l.checkpoint()
	case n < 88:
		for i := range l.w.loops {
			l.w.driver(i).Tick()
			l.w.driver(i).Turn()
		}
	case n < 90:
		l.fill()
	default:
		if g := l.anyGroup(); g != nil {
			l.check(g, false)
		}
	}
}

// fill makes the disk full or gives it room again. What is there can be written.
func (l *lives) fill() {
	if l.full = !l.full; !l.full {
		l.disk.ClearFaults()
		return
	}
	l.disk.Inject(memdisk.Fault{Class: memdisk.NoSpace, Ops: memdisk.OpCreate | memdisk.OpMkdirAll, Times: memdisk.Forever})
	l.disk.Inject(memdisk.Fault{
		Class: memdisk.NoSpace, Ops: memdisk.OpWrite, Times: memdisk.Forever, Keep: 700,
		Match: func(name string) bool { return strings.HasPrefix(name, "groups/") },
	})
}

func (l *lives) checkpoint() {
	i := l.rng.IntN(len(l.w.loops))
	l.open++
	done := l.once("checkpoint")
	l.w.loops[i].Post(func() {
		if i == 0 {
			l.w.engine.meta.Checkpoint(func(error) { done() })
		} else {
			l.w.engine.data[i-1].Checkpoint(func(error) { done() })
		}
	})
}

// once returns what an answer calls: a second one fails the test.
func (l *lives) once(what string) func() {
	answered, life := false, l.life
	return func() {
		if answered || life != l.life {
			l.failf("%s is answered twice", what)
		}
		answered = true
		l.open--
	}
}

func (l *lives) anyGroup() *lifeGroup {
	var all []*lifeGroup
	for _, t := range l.topics {
		all = append(all, t.groups...)
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b *lifeGroup) int { return int(a.id) - int(b.id) })
	return all[l.rng.IntN(len(all))]
}

func (l *lives) send(number uint64) {
	g := l.anyGroup()
	if g == nil {
		return
	}
	l.serial++
	payload := fmt.Sprintf("%d.%s", l.serial, big("x", l.rng.IntN(1<<l.rng.IntN(15))))
	g.sends[payload] = &lifeSend{number: number}
	l.submit(g, payload)
}

// submit sends a payload, perhaps again.
func (l *lives) submit(g *lifeGroup, payload string) {
	s := g.sends[payload]
	if s.submitted == 0 {
		s.submitted = l.now()
	}
	l.open++
	done := l.once("send")
	l.w.engine.Send(edge.SendRequest{
		Group: g.id, Batch: batchOf(payload), Count: 1, Client: galgo.ClientID{5, byte(s.number)}, Request: s.number, Numbered: s.number > 0,
	}, func(r edge.SendReply) {
		done()
		s.answered = l.now()
		switch r.Code {
		case galgo.CodeOK:
			if s.stored && s.base != r.Base {
				l.failf("group %d: number %d was at offset %d, is told to be at %d", g.id, s.number, s.base, r.Base)
			}
			s.stored, s.base = true, r.Base
		case galgo.CodeTransientNotAccepted, galgo.CodeResourceNotFound:
			s.refused = true
		default:
			l.failf("send is answered with %v", r.Code)
		}
	})
}

func (l *lives) store() {
	g := l.anyGroup()
	if g == nil {
		return
	}
	key := uint32(l.rng.IntN(3))
	s := g.stores[key]
	if s == nil {
		s = &lifeStore{}
		g.stores[key] = s
	}
	if s.busy {
		return
	}
	value, submitted := uint64(l.rng.IntN(len(g.sends)+2)), l.now()
	l.open++
	s.busy, s.doubt = true, append(s.doubt, value)
	done := l.once("store")
	l.w.engine.StoreOffset(edge.OffsetRequest{Group: g.id, Kind: galgo.ConsumerSingle, Key: key, Offset: value}, func(r edge.OffsetReply) {
		done()
		s.busy = false
		switch r.Code {
		case galgo.CodeOK:
			*s = lifeStore{value: value, submitted: submitted, answered: l.now(), found: true}
		case galgo.CodeInvalidOffset, galgo.CodeTransientNotAccepted, galgo.CodeResourceNotFound:
			s.doubt = nil
		default:
			l.failf("store is answered with %v", r.Code)
		}
	})
}

// change asks for a change of the metadata, one at a time as clients must.
func (l *lives) change(kind string) {
	if l.pending != nil {
		return
	}
	p := &lifeChange{kind: kind, memory: l.rng.IntN(2) == 0}
	var op wire.Operation
	var body []byte
	if kind == "create" {
		if len(l.topics) >= 5 {
			return
		}
		l.serial++
		p.topic = fmt.Sprint("t", l.serial)
		op, body = wire.OperationCreateTopic, l.topicBody(p)
	} else {
		names := make([]string, 0, len(l.topics))
		for name := range l.topics {
			names = append(names, name)
		}
		if len(names) == 0 {
			return
		}
		slices.Sort(names)
		p.topic = names[l.rng.IntN(len(names))]
		if op, body = wire.OperationDeleteTopic, topicBody(p.topic); kind == "purge" {
			op = wire.OperationPurgeTopic
		}
	}
	p.submitted = l.now()
	if kind == "purge" {
		for _, g := range l.topics[p.topic].groups {
			g.purges = append(g.purges, p)
		}
	}
	l.pending = p
	l.open++
	done := l.once(kind)
	l.admin.request++
	l.w.engine.Metadata(edge.MetadataRequest{Operation: op, Client: l.admin.id, Session: l.admin.epoch, Request: l.admin.request, Body: body},
		func(r edge.MetadataReply) { done(); l.changed(p, r) })
}

func (l *lives) topicBody(p *lifeChange) []byte {
	options, err := wire.NewOptions([]galgo.Header{
		{Key: galgo.StringValue(galgo.OptionEnforceFsync), Value: galgo.BoolValue(!p.memory)},
		{Key: galgo.StringValue(galgo.OptionSegmentSize), Value: galgo.Uint64Value(1 << 20)},
		{Key: galgo.StringValue(galgo.OptionMessagesRequiredToSave), Value: galgo.Uint32Value(1 + uint32(l.rng.IntN(20)))},
	})
	if err != nil {
		l.failf("%v", err)
	}
	return wire.CreateTopicRequest{Stream: galgo.NamedID("s"), Partitions: 1 + uint32(l.rng.IntN(3)), Name: p.topic, Options: options}.Append(nil)
}

func (l *lives) changed(p *lifeChange, r edge.MetadataReply) {
	l.pending, p.answered = nil, l.now()
	if r.Outcome == edge.OutcomeResult && r.Code == galgo.CodeTransientNotAccepted {
		for _, t := range l.topics {
			for _, g := range t.groups {
				g.purges = slices.DeleteFunc(g.purges, func(q *lifeChange) bool { return q == p })
			}
		}
		return
	}
	code, _, err := wire.SplitResult(r.Body)
	if err != nil || code != galgo.CodeOK || r.Outcome != edge.OutcomeReply {
		l.failf("%s of %s is answered with %+v", p.kind, p.topic, r)
	}
	p.ok = true
	switch p.kind {
	case "create":
		l.adopt(p)
	case "delete":
		delete(l.topics, p.topic)
	}
}

// end stops the node in one of the ways in which nodes end.
func (l *lives) end() {
	how := l.rng.IntN(6)
	if how >= 4 { // in the middle of a job
		l.mortal.left = 1 + l.rng.IntN(20)
		for range 200 {
			if l.w.step(); l.w.failed != nil {
				break
			}
		}
	}
	switch how {
	case 0, 1:
		l.rest(how == 0)
		fallthrough
	case 2, 4:
		l.disk = l.disk.Kill()
	default:
		l.forgive()
		l.disk = l.disk.PowerLoss(l.rng)
	}
}

// rest lets everything end, and stops the node as an operator would.
func (l *lives) rest(stop bool) {
	l.disk.ClearFaults()
	l.w.patience = 300
	l.w.settle()
	if l.open != 0 || l.w.failed != nil {
		l.failf("%d operations are not answered (%v)", l.open, l.w.failed)
	}
	l.checkAll(false)
	if !stop {
		return
	}
	for i := range l.w.loops {
		l.w.loops[i].Post(func() {
			if i == 0 {
				l.w.engine.meta.Checkpoint(func(error) {})
			} else {
				l.w.engine.data[i-1].Checkpoint(func(error) {})
			}
		})
	}
	l.w.settle()
	for _, name := range l.disk.Names() {
		id := strings.TrimPrefix(name, "groups/")
		if id == name || strings.Contains(id, "/") {
			continue
		}
		if _, ok := l.w.engine.View().PartitionOf(groupOf(id)); !ok {
			l.failf("%s is left of a deleted partition", name)
		}
	}
	if err := l.w.close(); err != nil {
		l.failf("close: %v", err)
	}
	l.disk = l.disk.PowerLoss(nil)
}

func groupOf(digits string) (id uint64) {
	fmt.Sscanf(digits, "%d", &id)
	return id
}

// forgive: power is lost, and topics in memory may lose what they stored.
func (l *lives) forgive() {
	for _, t := range l.topics {
		for _, g := range t.groups {
			if !g.memory {
				continue
			}
			for _, s := range g.sends {
				if s.stored {
					s.stored, s.answered = false, 0
				}
			}
			for _, s := range g.stores {
				s.doubt = nil
				s.answered = -1 // anything goes
			}
		}
	}
}
