package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/cipher"
	"galgo/internal/config"
	"galgo/internal/disk"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/shard"
	"galgo/internal/wire"
)

// inlineLoop is a Loop without a thread: what it is given waits until the world
// runs it. The order between lanes is drawn from the world's generator.
type inlineLoop struct {
	posts []func()
	jobs  [shard.Lanes][]func()
}

func (l *inlineLoop) Post(f func()) bool { l.posts = append(l.posts, f); return true }

func (l *inlineLoop) Go(lane shard.Lane, job func() error, done func(error)) {
	l.jobs[lane] = append(l.jobs[lane], func() {
		err := job()
		l.posts = append(l.posts, func() { done(err) })
	})
}

// world runs the engine of one node on one goroutine, in virtual time.
type world struct {
	t      testing.TB
	disk   disk.Disk
	rng    *rand.Rand
	now    uint64
	loops  []*inlineLoop
	engine *Engine
	failed error // the node decided to stop
	// patience is how many ticks in a row without work end a wait.
	patience int
}

func (w *world) Now() uint64 { w.now += 7; return w.now }

// worldConfig keeps logs and segments small, so that a short run rolls them.
func worldConfig() config.Config {
	c := config.Default()
	c.WAL.FileSize = 64 << 10
	c.WAL.Limit = 1 << 40 // checkpoints when the script says so
	c.Metadata.JournalSlots = 1 << 20
	c.Metadata.CheckpointBytes = 1 << 40
	return c
}

// worldKeys seal the disks of all nodes while they are set: see sealed.
var worldKeys *cipher.Ring

// worldTails is what all partitions of a world keep in memory, in bytes.
const worldTails = 4 << 20

// worldApart has the larger ones of a world's writes synced apart.
const worldApart = 200

// open recovers a node from a disk and lets it come to rest. Errors are those of the
// start.
func open(t testing.TB, d disk.Disk, c config.Config, seed uint64, now uint64) (*world, error) {
	w, err := start(t, d, c, seed, now)
	if err == nil {
		w.settle()
	}
	return w, err
}

// start recovers a node; none of its loops has run yet.
func start(t testing.TB, d disk.Disk, c config.Config, seed uint64, now uint64) (*world, error) {
	w := &world{t: t, disk: d, rng: rand.New(rand.NewPCG(seed, 1)), now: now, patience: 4}
	e, err := Open(d, Options{
		Keys: worldKeys, Config: c, Clock: w, Random: w.rng.Uint64, Tails: worldTails, SegmentFiles: 64, UnsyncedGroups: 64, SyncApart: worldApart,
		Loop: func() Loop {
			l := &inlineLoop{}
			w.loops = append(w.loops, l)
			return l
		},
		Fail: func(err error) { w.failed = errors.Join(w.failed, err) },
		Note: func(string, ...any) {},
	})
	if err != nil {
		return nil, err
	}
	w.engine = e
	return w, nil
}

func (w *world) driver(i int) Driver { return w.engine.Drivers()[i] }

// settle runs the node until nothing is left to do, or it has failed.
func (w *world) settle() {
	for quiet := 0; quiet < w.patience && w.failed == nil; {
		if w.step() {
			quiet = 0
			continue
		}
		quiet++ // let ticks pass: marks, retries
		for i := range w.loops {
			w.driver(i).Tick()
			w.driver(i).Turn()
		}
	}
}

// step runs what waits on each loop and one job of a random lane.
func (w *world) step() (worked bool) {
	for i, l := range w.loops {
		posts := l.posts
		l.posts = nil
		for _, f := range posts {
			f()
		}
		worked = worked || len(posts) > 0
		w.driver(i).Turn()
		var busy []int
		for lane := range l.jobs {
			if len(l.jobs[lane]) > 0 {
				busy = append(busy, lane)
			}
		}
		if len(busy) == 0 {
			continue
		}
		lane := busy[w.rng.IntN(len(busy))]
		job := l.jobs[lane][0]
		l.jobs[lane] = l.jobs[lane][1:]
		job()
		worked = true
	}
	return worked
}

// run waits for an asynchronous call; false if the node failed first.
func (w *world) run(call func(done func())) bool {
	finished := false
	call(func() { finished = true })
	w.settle()
	return finished
}

func (w *world) metadata(req edge.MetadataRequest) (r edge.MetadataReply, ok bool) {
	ok = w.run(func(done func()) {
		w.engine.Metadata(req, func(got edge.MetadataReply) { r = got; done() })
	})
	return r, ok
}

func (w *world) send(group uint64, client galgo.ClientID, number uint64, payloads ...string) (r edge.SendReply, ok bool) {
	batch := batchOf(payloads...)
	ok = w.run(func(done func()) {
		w.engine.Send(edge.SendRequest{
			Group: group, Batch: batch, Count: uint32(len(payloads)), Client: client, Request: number, Numbered: number > 0,
		}, func(got edge.SendReply) { r = got; done() })
	})
	return r, ok
}

func (w *world) storeOffset(group uint64, key uint32, offset uint64) (r edge.OffsetReply, ok bool) {
	ok = w.run(func(done func()) {
		w.engine.StoreOffset(edge.OffsetRequest{Group: group, Kind: galgo.ConsumerSingle, Key: key, Offset: offset},
			func(got edge.OffsetReply) { r = got; done() })
	})
	return r, ok
}

// storeForGroup commits an offset as a member of a consumer group.
func (w *world) storeForGroup(group uint64, member galgo.ClientID, key uint32, offset uint64) (r edge.OffsetReply, ok bool) {
	ok = w.run(func(done func()) {
		w.engine.StoreOffset(edge.OffsetRequest{Group: group, Kind: galgo.ConsumerGroup, Key: key, Offset: offset, Member: member},
			func(got edge.OffsetReply) { r = got; done() })
	})
	return r, ok
}

// poll reads all messages of a group from an offset on.
func (w *world) poll(group uint64, from uint64) ([]string, error) {
	var plan partition.Plan
	var reply edge.PollReply
	if !w.run(func(done func()) {
		w.engine.Poll(edge.PollRequest{Group: group, Strategy: galgo.FromOffset(from), Count: 1 << 20, Plan: &plan},
			func(r edge.PollReply) { reply = r; done() })
	}) {
		return nil, fmt.Errorf("poll did not end: %w", w.failed)
	}
	if reply.Code != galgo.CodeOK {
		return nil, &galgo.Error{Code: reply.Code}
	}
	return payloadsOf(&plan, from)
}

func (w *world) checkpoint() (ok bool) {
	meta := w.run(func(done func()) {
		w.loops[0].Post(func() { w.engine.meta.Checkpoint(func(error) { done() }) })
	})
	data := w.run(func(done func()) {
		w.loops[1].Post(func() { w.engine.data[0].Checkpoint(func(error) { done() }) })
	})
	return meta && data && w.failed == nil
}

func (w *world) close() error { return w.engine.Close() }

// bootstrap makes the root user of a new node.
func (w *world) bootstrap() bool {
	if w.engine.View().Bootstrapped() {
		return true
	}
	body, err := metadata.Bootstrap{Username: "root", PasswordHash: "x", Settings: metadata.Settings{ClientsMax: 64}}.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	_, ok := w.metadata(edge.MetadataRequest{Operation: metadata.OperationBootstrap, Body: body})
	return ok
}

// rootPassword is what the edge hands over when root signs in: it has the password that
// the first operation set.
func rootPassword() []byte {
	return metadata.Credential{Kind: metadata.CredentialPassword, Op: 1}.Append(nil)
}

// session is a client as the edge would see it.
type session struct {
	id      galgo.ClientID
	epoch   uint64
	request uint64
}

func (w *world) login(id galgo.ClientID) (*session, bool) {
	r, ok := w.metadata(edge.MetadataRequest{Operation: wire.OperationRegister, Client: id, Body: rootPassword()})
	return &session{id: id, epoch: r.Op}, ok && r.Outcome == edge.OutcomeReply
}

// call runs a numbered metadata operation.
func (w *world) call(s *session, op wire.Operation, body []byte) (edge.MetadataReply, bool) {
	s.request++
	return w.metadata(edge.MetadataRequest{Operation: op, Client: s.id, Session: s.epoch, Request: s.request, Body: body})
}

// batchOf encodes a batch as a producer does; ids and times follow from nothing
// but the place, so that runs are alike.
func batchOf(payloads ...string) []byte {
	messages := make([]galgo.Message, len(payloads))
	for i, p := range payloads {
		messages[i] = galgo.Message{Payload: []byte(p), Timestamp: 1_000_000 + uint64(i)}
		messages[i].ID[0], messages[i].ID[1] = byte(i+1), 1
	}
	b, err := wire.AppendBatch(nil, messages)
	if err != nil {
		panic(err)
	}
	return b
}

// payloadsOf reads a plan to its end and checks that offsets are dense from the
// first one on.
func payloadsOf(plan *partition.Plan, from uint64) ([]string, error) {
	var reply partition.Reply
	if err := plan.Read(&reply); err != nil {
		return nil, err
	}
	var payloads []string
	for rest := slices.Concat(reply.Chunks...); len(rest) > 0; {
		batch, tail, err := wire.SplitBatch(rest)
		if err != nil {
			return nil, err
		}
		if err := batch.Validate(); err != nil {
			return nil, err
		}
		for _, m := range wire.AppendMessages(nil, batch) {
			if m.Offset != from+uint64(len(payloads)) {
				return nil, fmt.Errorf("offset %d where %d was due", m.Offset, from+uint64(len(payloads)))
			}
			payloads = append(payloads, string(m.Payload))
		}
		rest = tail
	}
	return payloads, nil
}

// observe describes all that a client can see, in a form that depends on neither
// time nor identifiers of this run.
func (w *world) observe() (string, error) {
	var b strings.Builder
	view := w.engine.View()
	for s := range view.Streams() {
		fmt.Fprintf(&b, "stream %d %q\n", s.ID, s.Name)
		for t := range view.Topics(s) {
			fmt.Fprintf(&b, "  topic %d %q\n", t.ID, t.Name)
			for g := range view.ConsumerGroups(t) {
				fmt.Fprintf(&b, "    group %d %q", g.ID, g.Name)
				for i := range g.Members {
					fmt.Fprintf(&b, " %x: %v", g.Members[i].Client[:1], g.Members[i].Partitions)
				}
				b.WriteString("\n")
			}
			for p := range view.Partitions(t) {
				f, _ := w.engine.Stats(p.Group)
				messages, err := w.poll(p.Group, f.FirstOffset)
				if err != nil {
					return "", fmt.Errorf("stream %d topic %d partition %d: %w", s.ID, t.ID, p.ID, err)
				}
				fmt.Fprintf(&b, "    partition %d from %d:", p.ID, f.FirstOffset)
				for _, m := range messages {
					fmt.Fprintf(&b, " %.12q/%d", m, len(m))
				}
				for key := range uint32(3) {
					if r, ok := w.offsetOf(p.Group, galgo.ConsumerSingle, key); ok {
						fmt.Fprintf(&b, " consumer %d at %d", key, r)
					}
				}
				for key := range uint32(3) {
					if r, ok := w.offsetOf(p.Group, galgo.ConsumerGroup, key); ok {
						fmt.Fprintf(&b, " group %d at %d", key, r)
					}
				}
				b.WriteString("\n")
			}
		}
	}
	return b.String(), nil
}

func (w *world) offsetOf(group uint64, kind galgo.ConsumerKind, key uint32) (stored uint64, found bool) {
	w.run(func(done func()) {
		w.engine.Offset(group, kind, key, func(r edge.OffsetReply) { stored, found = r.Stored, r.Found; done() })
	})
	return stored, found
}

// group finds the consensus group of a partition by its names.
func (w *world) group(stream, topic string, partition uint32) uint64 {
	t, err := w.engine.View().Topic(galgo.NamedID(stream), galgo.NamedID(topic))
	if err != nil {
		return 0
	}
	p, ok := w.engine.View().Partition(t, partition)
	if !ok {
		return 0
	}
	return p.Group
}
