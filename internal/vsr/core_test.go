package vsr

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func config(replica uint8, replicas int) Config {
	return Config{
		Group: 7, Incarnation: 3, Boot: 1, Replica: replica, Replicas: replicas, Pipeline: 8,
		Timing: Timing{HeartbeatTicks: 5, RetransmitTicks: 3, ElectionTicks: 50, ViewChangeTicks: 60, RepeatTicks: 5, ProbeTicks: 10, RepairTicks: 10},
	}
}

// fresh is a replica of a group that begins.
func fresh(replica uint8, replicas int) *Core {
	return New(config(replica, replicas), Recovered{Fresh: true})
}

func propose(t *testing.T, c *Core, body string) (Op, Identity) {
	t.Helper()
	op, id, err := c.Propose(Request{Operation: 160, Timestamp: c.NextTimestamp(1000), Body: []byte(body)})
	if err != nil {
		t.Fatalf("propose %q: %v", body, err)
	}
	return op, id
}

func TestQuorumsIntersect(t *testing.T) {
	want := map[int][3]int{1: {1, 1, 1}, 2: {2, 2, 1}, 3: {2, 2, 2}, 4: {2, 3, 3}, 5: {3, 3, 3}, 6: {3, 4, 4}, 7: {3, 5, 5}, 8: {3, 6, 6}}
	for n := 1; n <= ReplicasMax; n++ {
		q := QuorumsOf(n)
		if q.Replication+q.ViewChange <= n {
			t.Errorf("n=%d: a view change of %d can miss a commit quorum of %d", n, q.ViewChange, q.Replication)
		}
		if q.Nack+q.Replication <= n {
			t.Errorf("n=%d: %d nacks do not exclude a quorum of %d", n, q.Nack, q.Replication)
		}
		if w, ok := want[n]; ok && w != [3]int{q.Replication, q.ViewChange, q.Nack} {
			t.Errorf("n=%d: got %+v, want %v", n, q, w)
		}
	}
}

// VR Revisited §4.1 with one replica: the quorum is the replica's own disk.
func TestSoloCommitsWhenItsAppendIsDurable(t *testing.T) {
	c := New(config(0, 1), Recovered{})
	op, id := propose(t, c, "a")
	r := c.Ready()
	if len(r.Append) != 1 || len(r.Commit) != 0 {
		t.Fatalf("after propose: %d appends, %d commits; want 1, 0", len(r.Append), len(r.Commit))
	}
	c.AppendDone(op, id)
	r = c.Ready()
	if len(r.Commit) != 1 || r.Commit[0].Identity != id || r.Commit[0].Prepare == nil {
		t.Fatalf("after append: commits %v, want op %d", r.Commit, op)
	}
	if len(r.Send) != 0 {
		t.Fatalf("a solo replica sends %v", r.Send)
	}
	c.Applied(op)
	if c.CommitMin() != op || c.Room() != 8 {
		t.Fatalf("commit_min %d, room %d", c.CommitMin(), c.Room())
	}
}

func TestAppendDoneOfAnotherIdentityIsNoCompletion(t *testing.T) {
	c := New(config(0, 1), Recovered{})
	op, id := propose(t, c, "a")
	other := id
	other[0] ^= 1
	c.AppendDone(op, other)
	c.AppendDone(op+1, id)
	c.AppendDone(0, id)
	if r := c.Ready(); len(r.Commit) != 0 {
		t.Fatalf("committed %v on a completion that names another prepare", r.Commit)
	}
}

func TestCompletionsOutOfOrderCommitInOrder(t *testing.T) {
	c := New(config(0, 1), Recovered{})
	op1, id1 := propose(t, c, "a")
	op2, id2 := propose(t, c, "b")
	c.AppendDone(op2, id2)
	if r := c.Ready(); len(r.Commit) != 0 {
		t.Fatalf("op 2 committed before op 1 is held: %v", r.Commit)
	}
	c.AppendDone(op1, id1)
	r := c.Ready()
	if len(r.Commit) != 2 || r.Commit[0].Op != op1 || r.Commit[1].Op != op2 {
		t.Fatalf("commits %v, want 1 then 2", r.Commit)
	}
}

func TestPipelineIsBounded(t *testing.T) {
	c := New(config(0, 1), Recovered{})
	for i := 0; i < 8; i++ {
		propose(t, c, "x")
	}
	if _, _, err := c.Propose(Request{Timestamp: c.NextTimestamp(0)}); !errors.Is(err, ErrPipelineFull) {
		t.Fatalf("got %v, want ErrPipelineFull", err)
	}
}

func TestTimestampsGrowWhenTheClockDoesNot(t *testing.T) {
	c := New(config(0, 1), Recovered{Head: 4, Commit: 4, HeadTimestamp: 5000})
	if ts := c.NextTimestamp(10); ts != 5001 {
		t.Fatalf("clock at 10 after a prepare at 5000: %d, want 5001", ts)
	}
}

func TestRecoveredHeadIsParentOfTheNext(t *testing.T) {
	head := Identity{9}
	c := New(config(0, 1), Recovered{Head: 4, HeadIdentity: head, Commit: 4})
	propose(t, c, "a")
	p := c.Ready().Append[0]
	if p.Op != 5 || p.Parent != head || p.Commit != 4 {
		t.Fatalf("op %d, parent %v, commit %d; want 5, %v, 4", p.Op, p.Parent, p.Commit, head)
	}
}

// group runs cores of one group with a network that delivers everything.
type group struct{ cores []*Core }

func newGroup(n int) *group {
	g := &group{}
	for i := range n {
		g.cores = append(g.cores, fresh(uint8(i), n))
	}
	return g
}

// perform does the work of a replica; drop says which messages are lost.
func (g *group) perform(i int, durable bool, drop func(Message) bool) (sent []Message, commits []Op) {
	r := g.cores[i].Ready()
	for _, p := range r.Append {
		if durable {
			g.cores[i].AppendDone(p.Op, p.Identity)
		}
	}
	for _, m := range r.Send {
		sent = append(sent, m)
		if drop == nil || !drop(m) {
			g.cores[m.To].Step(m)
		}
	}
	for _, cm := range r.Commit {
		commits = append(commits, cm.Op)
		g.cores[i].Applied(cm.Op)
	}
	return sent, commits
}

func TestThreeReplicasCommitOnTwo(t *testing.T) {
	g := newGroup(3)
	propose(t, g.cores[0], "a")
	sent, _ := g.perform(0, false, func(m Message) bool { return m.To == 2 })
	if len(sent) != 2 || sent[0].Kind != MessagePrepare {
		t.Fatalf("primary sent %v, want two prepares at once", sent)
	}
	g.perform(1, true, nil) // appends, then acknowledges
	g.perform(1, true, nil)
	if got := g.cores[0].CommitMax(); got != 0 {
		t.Fatalf("commit %d with one backup and no own disk", got)
	}
	e := g.cores[0].log.entry(1)
	g.cores[0].AppendDone(1, e.header.Identity)
	if got := g.cores[0].CommitMax(); got != 1 {
		t.Fatalf("commit %d after own append and one backup, want 1", got)
	}
	_, commits := g.perform(0, true, nil)
	if len(commits) != 1 {
		t.Fatalf("primary applied %v", commits)
	}
}

func TestBackupAcknowledgesOnlyWhatItHolds(t *testing.T) {
	g := newGroup(3)
	propose(t, g.cores[0], "a")
	g.perform(0, true, nil)
	sent, _ := g.perform(1, false, nil)
	if len(sent) != 0 {
		t.Fatalf("backup said %v before its append was durable", sent)
	}
	e := g.cores[1].log.entry(1)
	g.cores[1].AppendDone(1, e.header.Identity)
	sent, _ = g.perform(1, false, nil)
	if len(sent) != 1 || sent[0].Kind != MessagePrepareOk || sent[0].Identity != e.header.Identity {
		t.Fatalf("backup said %v, want one prepare_ok with the identity", sent)
	}
}

func TestBackupTakesNoGapAndNoStranger(t *testing.T) {
	g := newGroup(3)
	propose(t, g.cores[0], "a")
	propose(t, g.cores[0], "b")
	r := g.cores[0].Ready()
	second := r.Send[2]
	if second.Op != 2 {
		t.Fatalf("unexpected order of sends: %v", r.Send)
	}
	g.cores[1].Step(second)
	if g.cores[1].Head() != 0 {
		t.Fatal("backup took op 2 without op 1")
	}
	first := r.Send[0]
	first.From = 2
	g.cores[1].Step(first)
	if g.cores[1].Head() != 0 {
		t.Fatal("backup took a prepare from another backup")
	}
}

func TestHeartbeatTellsBackupsTheCommitPoint(t *testing.T) {
	g := newGroup(3)
	propose(t, g.cores[0], "a")
	for range 3 {
		for i := range 3 {
			g.perform(i, true, nil)
		}
	}
	if g.cores[1].CommitMin() != 0 {
		t.Fatal("backup applied before it heard of the commit")
	}
	for range 5 {
		g.cores[0].Tick()
	}
	g.perform(0, true, nil)
	if _, commits := g.perform(1, true, nil); len(commits) != 1 {
		t.Fatalf("backup applied %v after the heartbeat, want op 1", commits)
	}
}

// A commit point that no prepare carries on is told soon, once, if the host wants that.
func TestCommitPointIsToldSoon(t *testing.T) {
	g := newGroup(3)
	g.cores[0].timing.HeartbeatTicks, g.cores[0].timing.CommitTicks = 100, 2
	g.cores[0].heard = true // else it says first that it leads
	propose(t, g.cores[0], "a")
	for range 3 {
		for i := range 3 {
			g.perform(i, true, nil)
		}
	}
	for tick, want := range []int{0, 1, 0, 0, 0} {
		g.cores[0].Tick()
		sent, _ := g.perform(0, true, nil)
		if _, commits := g.perform(1, true, nil); len(commits) != want || len(sent) != 2*want {
			t.Fatalf("backup applied %v after tick %d and %d messages, want %d ops", commits, tick, len(sent), want)
		}
	}
	propose(t, g.cores[0], "b")
	if c := g.cores[0].clocks; c.told != 1 {
		t.Errorf("told op %d, and the prepare carries 1", c.told)
	}
}

// State is never ahead of the log on the same disk: a backup that hears of a commit
// applies the op when it holds it, not before.
func TestNothingIsAppliedBeforeThisDiskHoldsIt(t *testing.T) {
	g := newGroup(3)
	propose(t, g.cores[0], "a")
	g.perform(0, true, nil)
	g.perform(1, true, nil)
	g.perform(1, true, nil) // one backup is a quorum with the primary
	for range 5 {
		g.cores[0].Tick()
	}
	g.perform(0, true, nil) // the heartbeat names op 1 as committed
	if g.cores[2].CommitMax() != 1 {
		t.Fatalf("replica 2 knows commit %d, want 1", g.cores[2].CommitMax())
	}
	if _, commits := g.perform(2, false, nil); len(commits) != 0 {
		t.Fatalf("replica 2 applied %v, which its disk does not hold", commits)
	}
	g.cores[2].AppendDone(1, g.cores[2].log.entry(1).header.Identity)
	if _, commits := g.perform(2, false, nil); len(commits) != 1 {
		t.Fatalf("replica 2 applied %v after its append, want op 1", commits)
	}
}

func TestLostPrepareIsSentAgain(t *testing.T) {
	g := newGroup(3)
	propose(t, g.cores[0], "a")
	g.perform(0, true, func(Message) bool { return true })
	for range 3 {
		g.cores[0].Tick()
	}
	sent, _ := g.perform(0, true, nil)
	if len(sent) != 2 || sent[0].Kind != MessagePrepare {
		t.Fatalf("after the retransmit time: %v, want two prepares", sent)
	}
}

// Promise P2: a message that shows a view waits until the disk holds the view,
// and a newer view in memory is not taken for the one that was written.
func TestMessagesWaitForTheirViewToBeDurable(t *testing.T) {
	c := fresh(1, 3)
	c.enterViewChange(3)
	r := c.Ready()
	if len(r.Send) != 0 || r.Persist == nil || r.Persist.View != 3 {
		t.Fatalf("sends %v, persist %v; want none before view 3 is durable", r.Send, r.Persist)
	}
	if again := c.Ready(); again.Persist != nil {
		t.Fatal("the same state was handed out twice")
	}
	c.enterViewChange(6)
	c.StateDurable(State{View: 3})
	if r = c.Ready(); len(r.Send) != 0 || r.Persist == nil || r.Persist.View != 6 {
		t.Fatalf("view 3 became durable while the replica is in view 6: sends %v, persist %v", r.Send, r.Persist)
	}
	c.StateDurable(State{View: 6})
	if r = c.Ready(); len(r.Send) != 2 || r.Send[0].Kind != MessageStartViewChange || r.Send[0].View != 6 {
		t.Fatalf("view 6 is durable: sends %v, want start_view_change of view 6 to both", r.Send)
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Prepare{Body: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body")}
		p.Op, p.Commit = Op(rapid.Uint64().Draw(t, "op")), Op(rapid.Uint64().Draw(t, "commit"))
		p.View, p.User = View(rapid.Uint32().Draw(t, "view")), rapid.Uint32().Draw(t, "user")
		p.Timestamp, p.Session, p.Request, p.Offset = rapid.Uint64().Draw(t, "ts"), rapid.Uint64().Draw(t, "s"), rapid.Uint64().Draw(t, "r"), rapid.Uint64().Draw(t, "o")
		p.Operation = rapid.Byte().Draw(t, "operation")
		copy(p.Client[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "client"))
		p.Seal()
		b := p.AppendHeader(nil)
		got, err := DecodeHeader(b)
		if err != nil || got != p.Header {
			t.Fatalf("decode: %v\n got %+v\nwant %+v", err, got, p.Header)
		}
		if err := got.CheckBody(p.Body); err != nil {
			t.Fatal(err)
		}
		i := rapid.IntRange(0, HeaderSize*8-1).Draw(t, "bit")
		b[i/8] ^= 1 << (i % 8)
		if _, err := DecodeHeader(b); err == nil {
			t.Fatalf("a header with bit %d flipped decodes", i)
		}
	})
}

func FuzzDecodeHeader(f *testing.F) {
	p := Prepare{Body: []byte("x")}
	p.Seal()
	f.Add(p.AppendHeader(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := DecodeHeader(b)
		if err != nil {
			return
		}
		if got := h.AppendHeader(nil); !bytes.Equal(got, b[:HeaderSize]) {
			t.Fatalf("accepted %x, encodes to %x", b[:HeaderSize], got)
		}
	})
}

func TestBodyIsCovered(t *testing.T) {
	p := Prepare{Body: []byte("hello")}
	p.Seal()
	for _, body := range []string{"", "hellp", "hell", "hello!"} {
		if err := p.CheckBody([]byte(body)); !errors.Is(err, ErrBodyChecksum) {
			t.Errorf("body %q: %v, want ErrBodyChecksum", body, err)
		}
	}
}
