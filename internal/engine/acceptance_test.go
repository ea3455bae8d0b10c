package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/shard"
	"galgo/internal/wire"
)

// The scenarios of docs/acceptance.md that need a whole engine, and that no other
// test of this package goes through.

// begun is a world that has gone through the first steps of the script: a root
// user, a session, a stream and a topic of two partitions.
func begun(t *testing.T, d disk.Disk, seed uint64) (*world, *cast) {
	t.Helper()
	w, err := open(t, d, worldConfig(), seed, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	c := &cast{}
	for _, s := range script[:4] {
		if !s.run(w, c) {
			t.Fatalf("%s: %v", s.name, w.failed)
		}
	}
	return w, c
}

func topicBody(name string) []byte {
	return wire.TopicRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID(name)}.Append(nil)
}

// turn runs what was posted to a loop and one turn of its driver, and no job.
func (w *world) turn(i int) {
	posts := w.loops[i].posts
	w.loops[i].posts = nil
	for _, f := range posts {
		f()
	}
	w.driver(i).Turn()
}

// hold takes the jobs of a lane away; what it returns puts them back.
func (w *world) hold(i int, lane shard.Lane) (release func()) {
	l := w.loops[i]
	held := l.jobs[lane]
	l.jobs[lane] = nil
	return func() { l.jobs[lane] = append(held, l.jobs[lane]...) }
}

// work runs the jobs of a lane; their completions wait for the next turn.
func (w *world) work(i int, lane shard.Lane) {
	jobs := w.loops[i].jobs[lane]
	w.loops[i].jobs[lane] = nil
	for _, job := range jobs {
		job()
	}
}

// sender counts the sends that were begun and those that have ended.
type sender struct {
	w            *world
	begun, ended int
	acked        map[uint64][]string // by group
}

func (s *sender) send(group uint64) { s.sendAll(group, fmt.Sprintf("m%d", s.begun)) }

func (s *sender) sendAll(group uint64, payload string) {
	s.begun++
	s.w.engine.Send(edge.SendRequest{Group: group, Batch: batchOf(payload), Count: 1}, func(r edge.SendReply) {
		s.ended++
		if r.Code == galgo.CodeOK {
			s.acked[group] = append(s.acked[group], payload)
		}
	})
}

func newSender(w *world) *sender { return &sender{w: w, acked: map[uint64][]string{}} }

// submit begins a metadata operation; the result says when it has been answered.
func (w *world) submit(s *session, op wire.Operation, body []byte) (answered *bool) {
	answered = new(bool)
	s.request++
	w.engine.Metadata(edge.MetadataRequest{Operation: op, Client: s.id, Session: s.epoch, Request: s.request, Body: body},
		func(r edge.MetadataReply) { *answered = r.Outcome == edge.OutcomeReply })
	return answered
}

// A topic is deleted and made anew under its name while a producer goes on. Every
// send ends: stored in the topic that is there, or with an error. What the last
// topic acknowledged is there (PF-storage-03).
func TestDeleteAndCreateAnewUnderTraffic(t *testing.T) {
	for seed := range uint64(10) {
		w, c := begun(t, healthy(), seed)
		s := newSender(w)
		step := func() {
			if group := w.group("s", "t", 0); group != 0 && w.rng.IntN(2) == 0 {
				s.send(group)
			}
			w.step()
		}
		until := func(what string, answered *bool) {
			for i := 0; !*answered; i++ {
				if step(); i == 1000 {
					t.Fatalf("seed %d: %s is not answered (%v)", seed, what, w.failed)
				}
			}
		}
		for range 10 {
			for range 5 + w.rng.IntN(8) {
				step()
			}
			until("delete", w.submit(c.admin, wire.OperationDeleteTopic, topicBody("t")))
			until("create", w.submit(c.admin, wire.OperationCreateTopic,
				wire.CreateTopicRequest{Stream: galgo.NamedID("s"), Partitions: 1, Name: "t"}.Append(nil)))
		}
		for range 20 {
			step()
		}
		w.settle()
		if s.ended != s.begun || w.failed != nil {
			t.Fatalf("seed %d: %d of %d sends have ended (%v)", seed, s.ended, s.begun, w.failed)
		}
		group := w.group("s", "t", 0)
		if got, err := w.poll(group, 0); err != nil || len(got) == 0 || !slices.Equal(got, s.acked[group]) {
			t.Fatalf("seed %d: polled %q, %v; acknowledged %q", seed, got, err, s.acked[group])
		}
	}
}

// A topic is deleted while the log has been given a record of it and has not
// written it: whoever waits is answered, and the log goes on.
func TestDeleteWhileTheLogIsWriting(t *testing.T) {
	for name, begin := range map[string]func(w *world, c *cast, done func()){
		"send": func(w *world, _ *cast, done func()) {
			w.engine.Send(edge.SendRequest{Group: w.group("s", "t", 0), Batch: batchOf("x"), Count: 1}, func(r edge.SendReply) {
				if r.Code != galgo.CodeResourceNotFound {
					t.Errorf("send is answered with %v", r.Code)
				}
				done()
			})
		},
		"offset": func(w *world, _ *cast, done func()) {
			req := edge.OffsetRequest{Group: w.group("s", "t", 0), Kind: galgo.ConsumerSingle, Key: 1}
			w.engine.StoreOffset(req, func(edge.OffsetReply) { done() })
		},
		"purge": func(w *world, c *cast, done func()) {
			other, ok := w.login(galgo.ClientID{2})
			if !ok {
				t.Fatal(w.failed)
			}
			w.engine.Metadata(edge.MetadataRequest{
				Operation: wire.OperationPurgeTopic, Client: other.id, Session: other.epoch, Request: 1, Body: topicBody("t"),
			}, func(edge.MetadataReply) { done() })
			for len(w.loops[1].posts) == 0 { // until the metadata has decided it
				w.turn(0)
				w.work(0, shard.LaneLog)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := begun(t, healthy(), 1)
			if !script[4].run(w, c) { // the group has a log
				t.Fatal(w.failed)
			}
			ended := 0
			begin(w, c, func() { ended++ })
			w.turn(1)
			release := w.hold(1, shard.LaneLog)
			if !c.call(w, wire.OperationDeleteTopic, topicBody("t")) {
				t.Fatalf("delete: %v", w.failed)
			}
			release()
			w.settle()
			if ended != 1 || w.failed != nil {
				t.Fatalf("answered %d times (%v)", ended, w.failed)
			}
			if !c.createTopic(w, "t", 1) || !sending(0, "new")(w, c) {
				t.Fatalf("the next topic: %v", w.failed)
			}
			again, err := open(t, w.disk.(*memdisk.Disk).PowerLoss(nil), worldConfig(), 2, 2_000_000)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := again.poll(again.group("s", "t", 0), 0); err != nil || !slices.Equal(got, []string{"new"}) {
				t.Fatalf("after a restart: %q, %v", got, err)
			}
		})
	}
}

// Groups are made as often as somebody says so, before and after a restart in the
// middle: what is there is left alone (PF-storage-04).
func TestGroupsAreMadeOnce(t *testing.T) {
	d := healthy()
	w, c := begun(t, d, 1)
	const topics = 200
	again := func(w *world) {
		var changes []metadata.Change
		for p := range w.engine.View().AllPartitions() {
			changes = append(changes, metadata.Change{Kind: metadata.GroupCreated, Stream: p.Stream, Topic: p.Topic, Partition: p.ID, Group: p.Group})
		}
		if !w.run(func(done func()) { w.engine.changed(changes, done) }) {
			t.Fatal(w.failed)
		}
	}
	for i := range topics {
		name := fmt.Sprintf("topic %d", i)
		if !c.createTopic(w, name, 1) {
			t.Fatalf("%s: %v", name, w.failed)
		}
		if r, ok := w.send(w.group("s", name, 0), galgo.ClientID{}, 0, name); !ok || r.Base != 0 {
			t.Fatalf("%s: %+v", name, r)
		}
		if i == topics/2 {
			again(w)
			var err error
			if w, err = open(t, d.Kill(), worldConfig(), 2, 2_000_000); err != nil {
				t.Fatal(err)
			}
			d = w.disk.(*memdisk.Disk)
			again(w)
		}
	}
	if !w.checkpoint() {
		t.Fatal(w.failed)
	}
	again(w)
	for i := range topics {
		name := fmt.Sprintf("topic %d", i)
		group := w.group("s", name, 0)
		if r, ok := w.send(group, galgo.ClientID{}, 0, "second"); !ok || r.Base != 1 {
			t.Fatalf("%s: the second send is at %+v", name, r)
		}
		if got, err := w.poll(group, 0); err != nil || !slices.Equal(got, []string{name, "second"}) {
			t.Fatalf("%s: %q, %v", name, got, err)
		}
	}
}

// A purge, ten sends and a checkpoint are cut at each disk call, by a kill and by
// a loss of power. What was acknowledged since the purge survives it, the purge is
// not applied over it a second time, and a checkpoint later no file of the old
// life is left (PF-storage-05).
func TestPurgeCutAtEachDiskCall(t *testing.T) {
	life := func(d *memdisk.Disk) (purged bool, acked []string) {
		w, err := open(t, d, worldConfig(), 1, 1_000_000)
		if err != nil {
			return false, nil
		}
		c := &cast{}
		for _, s := range script[:4] {
			if !s.run(w, c) {
				return false, nil
			}
		}
		for range 3 {
			if !sending(0, big("old", 200<<10))(w, c) {
				return false, nil
			}
		}
		if !w.checkpoint() || !c.call(w, wire.OperationPurgeTopic, topicBody("t")) {
			return false, nil
		}
		for i := range 10 {
			if !sending(0, fmt.Sprint("new", i))(w, c) {
				return true, acked
			}
			acked = append(acked, fmt.Sprint("new", i))
		}
		w.checkpoint()
		return true, acked
	}
	for k := 60; ; k++ {
		d := memdisk.New(memdisk.Options{CrashAt: k, Rand: rand.New(rand.NewPCG(uint64(k), 4))})
		purged, acked := life(d)
		for what, after := range map[string]*memdisk.Disk{"kill": d.Kill(), "power loss": d.PowerLoss(rand.New(rand.NewPCG(uint64(k), 5)))} {
			w, err := open(t, after, worldConfig(), 2, 2_000_000)
			if err != nil {
				t.Fatalf("%s at call %d: %v", what, k, err)
			}
			group := w.group("s", "t", 0)
			if !purged || group == 0 {
				continue
			}
			got, err := w.poll(group, 0)
			if err != nil || len(got) < len(acked) || !slices.Equal(got[:len(acked)], acked) || len(got) > len(acked)+1 {
				t.Fatalf("%s at call %d: %q, %v; %d were acknowledged since the purge", what, k, got, err, len(acked))
			}
			if !sending(0, "last")(w, nil) || !w.checkpoint() {
				t.Fatalf("%s at call %d: %v", what, k, w.failed)
			}
			for _, name := range filesOf(after, partition.Dir(group), ".log") {
				if !strings.Contains(name, "/00000000000000000001-") {
					t.Fatalf("%s at call %d: %s of the old life is still there", what, k, name)
				}
			}
		}
		if d.Calls() < k {
			return
		}
	}
}

// Right after a restart somebody consumes "next" and commits while somebody else
// produces: no gap, nothing twice (PF-storage-08).
func TestConsumeAndProduceRightAfterARestart(t *testing.T) {
	d := healthy()
	w, _ := begun(t, d, 1)
	group := w.group("s", "t", 0)
	const before, after = 1000, 300
	for i := range before {
		if r, ok := w.send(group, galgo.ClientID{}, 0, fmt.Sprint(i)); !ok || r.Base != uint64(i) {
			t.Fatalf("send %d: %+v", i, r)
		}
		if i == before/2 && !w.checkpoint() {
			t.Fatal(w.failed)
		}
	}
	w, err := open(t, d.Kill(), worldConfig(), 2, 2_000_000)
	if err != nil {
		t.Fatal(err)
	}
	for next, sent := 0, 0; next < before+after; {
		if sent < after {
			if r, ok := w.send(group, galgo.ClientID{}, 0, fmt.Sprint(before+sent)); !ok || r.Base != uint64(before+sent) {
				t.Fatalf("send %d: %+v", before+sent, r)
			}
			sent++
		}
		got := w.next(t, group, 7)
		if len(got) == 0 {
			t.Fatalf("nothing behind message %d", next-1)
		}
		for _, m := range got {
			if m != fmt.Sprint(next) {
				t.Fatalf("message %s where %d was due", m, next)
			}
			next++
		}
		if r, ok := w.storeOffset(group, 1, uint64(next-1)); !ok || r.Code != galgo.CodeOK {
			t.Fatalf("commit of %d: %+v", next-1, r)
		}
	}
}

// next polls the messages behind the stored offset of consumer 1.
func (w *world) next(t *testing.T, group uint64, count uint32) []string {
	t.Helper()
	stored, found := w.offsetOf(group, galgo.ConsumerSingle, 1)
	if found {
		stored++
	}
	var plan partition.Plan
	req := edge.PollRequest{Group: group, Strategy: galgo.FromNext(), Kind: galgo.ConsumerSingle, Key: 1, Count: count, Plan: &plan}
	if !w.run(func(done func()) { w.engine.Poll(req, func(edge.PollReply) { done() }) }) {
		t.Fatal(w.failed)
	}
	got, err := payloadsOf(&plan, stored)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Topics are deleted while their segments roll and are written: that is never a
// failure of the disk, and their files go (PF-storage-16).
func TestDeleteWhileRolling(t *testing.T) {
	d := healthy()
	w, c := begun(t, d, 1)
	s := newSender(w)
	for round := range 100 {
		if !c.createTopic(w, "rolling", 1) {
			t.Fatalf("round %d: create: %v", round, w.failed)
		}
		group := w.group("s", "rolling", 0)
		for range 3 { // two of them end a segment
			w.engine.Send(edge.SendRequest{Group: group, Batch: batchOf(big("r", 600<<10)), Count: 1}, func(edge.SendReply) { s.ended++ })
			s.begun++
			for range w.rng.IntN(6) {
				w.step()
			}
		}
		if round%3 == 0 {
			w.loops[1].Post(func() { w.engine.data[0].Checkpoint(func(error) {}) })
		}
		for range w.rng.IntN(6) {
			w.step()
		}
		if !c.call(w, wire.OperationDeleteTopic, topicBody("rolling")) {
			t.Fatalf("round %d: delete: %v", round, w.failed)
		}
		if left := filesOf(d, partition.Dir(group), ""); len(left) > 0 {
			t.Fatalf("round %d: %v are left", round, left)
		}
	}
	if s.ended != s.begun {
		t.Errorf("%d of %d sends have ended", s.ended, s.begun)
	}
	again, err := open(t, d.PowerLoss(nil), worldConfig(), 2, 2_000_000)
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := again.send(again.group("s", "t", 0), galgo.ClientID{}, 0, "on"); !ok || r.Code != galgo.CodeOK {
		t.Errorf("send after the restart: %+v", r)
	}
}

// The times of clients, and a clock that goes back an hour, do not touch the
// times by which the server orders: they grow, also over a restart (PF-storage-17).
func TestClientTimesFarOff(t *testing.T) {
	const hour, year2100 = 3_600_000_000, 4_102_444_800_000_000
	d := healthy()
	w, _ := begun(t, d, 1)
	w.now = 100 * hour
	group := w.group("s", "t", 0)
	send := func(origin uint64) {
		t.Helper()
		batch, err := wire.AppendBatch(nil, []galgo.Message{{ID: galgo.MessageID{1}, Payload: []byte("m"), Timestamp: origin}})
		if err != nil {
			t.Fatal(err)
		}
		var reply edge.SendReply
		if !w.run(func(done func()) {
			w.engine.Send(edge.SendRequest{Group: group, Batch: batch, Count: 1}, func(r edge.SendReply) { reply = r; done() })
		}) || reply.Code != galgo.CodeOK {
			t.Fatalf("%+v (%v)", reply, w.failed)
		}
	}
	send(year2100)
	send(0)
	w.now -= hour
	send(year2100)
	w, err := open(t, d.PowerLoss(nil), worldConfig(), 2, 98*hour)
	if err != nil {
		t.Fatal(err)
	}
	send(0)
	var plan partition.Plan
	var reply partition.Reply
	w.run(func(done func()) {
		w.engine.Poll(edge.PollRequest{Group: group, Strategy: galgo.FromTimestamp(100 * hour), Count: 10, Plan: &plan}, func(edge.PollReply) { done() })
	})
	if err := plan.Read(&reply); err != nil || reply.Count != 4 {
		t.Fatalf("%d messages by time, %v; want all 4: each was appended after the first", reply.Count, err)
	}
	before := uint64(100 * hour)
	for i, chunk := range reply.Chunks {
		b, _, err := wire.SplitBatch(chunk)
		if err != nil {
			t.Fatal(err)
		}
		if b.BaseTimestamp() <= before || b.BaseTimestamp() > 101*hour {
			t.Errorf("message %d was appended at %d, the one before at %d", i, b.BaseTimestamp(), before)
		}
		before = b.BaseTimestamp()
	}
}

// Five numbered sends are in the log when the process dies before it has answered.
// Repeated, each gets the offset that it has (PF-client-04).
func TestFiveSendsRepeatedAfterACrash(t *testing.T) {
	d := healthy()
	w, _ := begun(t, d, 1)
	group, id := w.group("s", "t", 0), galgo.ClientID{9}
	answers := 0
	for n := range uint64(5) {
		w.engine.Send(edge.SendRequest{Group: group, Batch: batchOf(fmt.Sprint(n)), Count: 1, Client: id, Request: n + 1, Numbered: true},
			func(edge.SendReply) { answers++ })
	}
	w.turn(1)
	w.work(1, shard.LaneLog) // written, and nobody was told
	if answers != 0 {
		t.Fatalf("%d answers before the loop heard of the write", answers)
	}
	w, err := open(t, d.PowerLoss(nil), worldConfig(), 2, 2_000_000)
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(5) {
		if r, ok := w.send(group, id, n+1, fmt.Sprint(n)); !ok || r.Code != galgo.CodeOK || r.Base != n {
			t.Errorf("send %d again: %+v, want base %d", n+1, r, n)
		}
	}
	if got, err := w.poll(group, 0); err != nil || !slices.Equal(got, []string{"0", "1", "2", "3", "4"}) {
		t.Errorf("%q, %v: want one copy each, in order", got, err)
	}
}

// In a table of two a third login evicts. What the evicted client repeats under
// its session is not run, but answered by an eviction, also after a restart
// (PF-client-01).
func TestRepeatAfterEviction(t *testing.T) {
	c := worldConfig()
	d := healthy()
	w, err := open(t, d, c, 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	w.bootstrap()
	body, err := metadata.Configure{Settings: metadata.Settings{ClientsMax: 2}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := w.metadata(edge.MetadataRequest{Operation: metadata.OperationConfigure, Body: body}); !ok {
		t.Fatal(w.failed)
	}
	a, _ := w.login(galgo.ClientID{1})
	request := edge.MetadataRequest{
		Operation: wire.OperationCreateStream, Client: a.id, Session: a.epoch, Request: 1, Body: wire.CreateStreamRequest{Name: "once"}.Append(nil),
	}
	if r, ok := w.metadata(request); !ok || r.Outcome != edge.OutcomeReply {
		t.Fatalf("%+v", r)
	}
	for i := range 3 {
		if _, ok := w.login(galgo.ClientID{byte(10 + i)}); !ok {
			t.Fatal(w.failed)
		}
	}
	for _, when := range []string{"at once", "after a restart"} {
		r, ok := w.metadata(request)
		if !ok || r.Outcome != edge.OutcomeEvict || r.Reason != wire.EvictionNoSession {
			t.Errorf("%s: %+v, want an eviction", when, r)
		}
		if n := w.engine.View().Counts().Streams; n != 1 {
			t.Errorf("%s: %d streams: the request ran again", when, n)
		}
		if w, err = open(t, d.PowerLoss(nil), c, 2, 2_000_000); err != nil {
			t.Fatal(err)
		}
	}
	// Who comes back is told whether the table still knows its requests.
	born := func(id galgo.ClientID) uint64 {
		r, _ := w.metadata(edge.MetadataRequest{Operation: wire.OperationRegister, Client: id, Body: rootPassword()})
		return r.Born
	}
	kept, anew := galgo.ClientID{12}, a.id
	first := born(kept)
	if w, err = open(t, w.disk.(*memdisk.Disk).PowerLoss(nil), c, 3, 3_000_000); err != nil {
		t.Fatal(err)
	}
	if again := born(kept); first == 0 || again != first {
		t.Errorf("an entry that was kept is told as %d, before as %d", again, first)
	}
	if again := born(anew); again == a.epoch || again <= first {
		t.Errorf("an entry that was evicted is told as %d, before as %d", again, a.epoch)
	}
}

// Nothing is answered, and nothing can be read, before the log holds it: logins,
// operations, sends and offsets wait for the write, each of them.
func TestNothingShowsBeforeItIsDurable(t *testing.T) {
	w, c := begun(t, healthy(), 1)
	if !script[4].run(w, c) { // three messages
		t.Fatal(w.failed)
	}
	group := w.group("s", "t", 0)
	answers := map[string]int{}
	note := func(what string) { answers[what]++ }
	w.engine.Metadata(edge.MetadataRequest{Operation: wire.OperationRegister, Client: galgo.ClientID{7}, Body: rootPassword()}, func(edge.MetadataReply) { note("login") })
	created := w.submit(c.admin, wire.OperationCreateStream, wire.CreateStreamRequest{Name: "late"}.Append(nil))
	w.engine.Send(edge.SendRequest{Group: group, Batch: batchOf("late"), Count: 1}, func(edge.SendReply) { note("send") })
	w.engine.StoreOffset(edge.OffsetRequest{Group: group, Kind: galgo.ConsumerSingle, Key: 2, Offset: 1}, func(edge.OffsetReply) { note("offset") })
	var release []func()
	for i := range w.loops {
		w.turn(i)
		release = append(release, w.hold(i, shard.LaneLog))
	}
	w.patience = 1 // no tick may mark the log
	w.settle()
	if got, err := w.poll(group, 0); err != nil || len(got) != 3 {
		t.Errorf("polled %q, %v before the log holds the fourth", got, err)
	}
	if _, found := w.offsetOf(group, galgo.ConsumerSingle, 2); found {
		t.Error("an offset can be read that the log does not hold")
	}
	if _, ok := w.engine.View().Stream(galgo.NamedID("late")); ok || len(answers) != 0 || *created {
		t.Errorf("answers %v, stream visible %v, its creation answered %v", answers, ok, *created)
	}
	for _, r := range release {
		r()
	}
	w.settle()
	if got, err := w.poll(group, 0); err != nil || len(got) != 4 || answers["login"] != 1 || answers["send"] != 1 || answers["offset"] != 1 || !*created {
		t.Errorf("polled %q, %v; answers %v, creation %v", got, err, answers, *created)
	}
}

// A session that logged out is gone, also after a restart from the log and from a
// snapshot.
func TestLogoutOverARestart(t *testing.T) {
	for _, checkpoint := range []bool{false, true} {
		d := healthy()
		w, c := begun(t, d, 1)
		s, _ := w.login(galgo.ClientID{5})
		if r, ok := w.metadata(edge.MetadataRequest{Operation: wire.OperationLogout, Client: s.id, Session: s.epoch, Request: 1}); !ok || r.Outcome != edge.OutcomeReply {
			t.Fatalf("%+v", r)
		}
		if checkpoint && !w.checkpoint() {
			t.Fatal(w.failed)
		}
		w, err := open(t, d.PowerLoss(nil), worldConfig(), 2, 2_000_000)
		if err != nil {
			t.Fatal(err)
		}
		if r, _ := w.call(s, wire.OperationCreateStream, wire.CreateStreamRequest{Name: "x"}.Append(nil)); r.Outcome != edge.OutcomeEvict {
			t.Errorf("checkpoint %v: a session that logged out gets %+v", checkpoint, r)
		}
		if r, _ := w.call(c.admin, wire.OperationCreateStream, wire.CreateStreamRequest{Name: "x"}.Append(nil)); r.Outcome != edge.OutcomeReply {
			t.Errorf("checkpoint %v: the other session gets %+v", checkpoint, r)
		}
	}
}

// A thousand clients come and go: the table stays within its setting, nobody is
// refused, and who is still there is not evicted for those who left (PF-client-03).
func TestAThousandClientsComeAndGo(t *testing.T) {
	w, c := begun(t, healthy(), 1)
	for i := range 1000 {
		s, ok := w.login(galgo.ClientID{byte(i), byte(i >> 8), 1})
		if !ok {
			t.Fatalf("login %d: %v", i, w.failed)
		}
		if _, ok := w.metadata(edge.MetadataRequest{Operation: metadata.OperationDetach, Client: s.id, Session: s.epoch}); !ok {
			t.Fatalf("detach %d: %v", i, w.failed)
		}
	}
	if n := w.engine.View().Counts().Clients; n > 64 {
		t.Errorf("%d sessions in a table of 64", n)
	}
	if !c.call(w, wire.OperationCreateStream, wire.CreateStreamRequest{Name: "still here"}.Append(nil)) {
		t.Error("the session that stayed is gone")
	}
}
