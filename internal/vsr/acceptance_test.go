package vsr

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func wantPanic(t *testing.T, says string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := fmt.Sprint(recover()); !strings.Contains(got, says) {
			t.Errorf("panic %q, want one that says %q", got, says)
		}
	}()
	f()
}

// A header with the right identity is still looked at.
func TestDecodeHeaderRefuses(t *testing.T) {
	p := Prepare{Body: []byte("x")}
	p.Seal()
	good := p.AppendHeader(nil)
	resealed := func(change func(b []byte)) []byte {
		b := append([]byte(nil), good...)
		change(b)
		id := sum128(b[16:])
		copy(b, id[:])
		return b
	}
	for name, c := range map[string]struct {
		in   []byte
		want error
	}{
		"a byte short":         {good[:HeaderSize-1], ErrHeaderShort},
		"version 2":            {resealed(func(b []byte) { b[173] = 2 }), ErrHeaderVersion},
		"first reserved byte":  {resealed(func(b []byte) { b[174] = 1 }), ErrHeaderReserved},
		"last reserved byte":   {resealed(func(b []byte) { b[191] = 1 }), ErrHeaderReserved},
		"body above the limit": {resealed(func(b []byte) { binary.LittleEndian.PutUint32(b[164:], BodyMax+1) }), ErrHeaderSize},
		"a flipped operation":  {append(append([]byte(nil), good[:172]...), append([]byte{good[172] ^ 1}, good[173:]...)...), ErrHeaderChecksum},
	} {
		if _, err := DecodeHeader(c.in); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := DecodeHeader(resealed(func([]byte) {})); err != nil {
		t.Errorf("resealed as it was: %v", err)
	}
	h := p.Header
	h.Size = 2
	if err := h.CheckBody(p.Body); !errors.Is(err, ErrBodyChecksum) {
		t.Errorf("body of 1 byte, header says 2: %v", err)
	}
	wantPanic(t, "limit", func() { (&Prepare{Body: make([]byte, BodyMax+1)}).Seal() })
}

// What no disk can have held, and what no host may say.
func TestBrokenInvariantsPanic(t *testing.T) {
	with := func(change func(*Config)) Config {
		c := config(0, 3)
		change(&c)
		return c
	}
	for says, f := range map[string]func(){
		"pipeline of 0":              func() { New(with(func(c *Config) { c.Pipeline = 0 }), Recovered{}) },
		"pipeline of 128":            func() { New(with(func(c *Config) { c.Pipeline = PipelineCeiling + 1 }), Recovered{}) },
		"replica 3 of 3":             func() { New(with(func(c *Config) { c.Replica = 3 }), Recovered{}) },
		"commit 5 is above the head": func() { New(config(0, 3), Recovered{Head: 4, Commit: 5}) },
		"1 headers for ops 3..4":     func() { New(config(0, 3), Recovered{Head: 4, Commit: 2, Suffix: make([]Header, 1)}) },
		"no boot number":             func() { New(with(func(c *Config) { c.Boot = 0 }), Recovered{}) },
		"log_view 2 is above view 1": func() { New(config(0, 3), Recovered{State: State{View: 1, LogView: 2}}) },
		"are no chain":               func() { New(config(0, 3), Recovered{Head: 1, Suffix: make([]Header, 1)}) },
		"reported durable":           func() { fresh(0, 3).StateDurable(State{View: 1}) },
		"log_view 0":                 func() { fresh(0, 3).StateDurable(State{LogView: 1}) },
		"checkpoint of op 1":         func() { New(config(0, 1), Recovered{}).CheckpointDone(1, Identity{}) },
		"applied op 1":               func() { New(config(0, 1), Recovered{}).Applied(1) },
		"is not above":               func() { New(config(0, 1), Recovered{HeadTimestamp: 7}).Propose(Request{Timestamp: 7}) },
		"does not follow":            func() { New(config(0, 1), Recovered{}).log.push(&Prepare{Header: Header{Op: 2}}) },
		"with parent":                func() { New(config(0, 1), Recovered{}).log.push(&Prepare{Header: Header{Op: 1, Parent: Identity{1}}}) },
		"0 replicas":                 func() { QuorumsOf(0) },
		"33 replicas":                func() { QuorumsOf(ReplicasMax + 1) },
		"held 1, head 0":             func() { c := fresh(1, 3); c.log.held = 1; c.Ready() },
		"commit_max 1, verified 0":   func() { c := fresh(0, 3); c.commitMax = 1; c.Ready() },
	} {
		wantPanic(t, says, f)
	}
}

// The commit point up to which a host replays before it starts the core.
func TestCommittedAtLeast(t *testing.T) {
	for _, c := range []struct {
		replicas                           int
		head, commitSeen, checkpoint, want Op
	}{
		{1, 9, 4, 2, 9}, // one replica is its own quorum
		{1, 0, 0, 7, 7},
		{3, 9, 4, 2, 4}, // more are not: what is behind may never have been chosen
		{3, 9, 4, 6, 6},
		{3, 9, 12, 2, 9},
	} {
		if got := QuorumsOf(c.replicas).CommittedAtLeast(c.head, c.commitSeen, c.checkpoint); got != c.want {
			t.Errorf("%d replicas, head %d, commit seen %d, checkpoint %d: %d, want %d", c.replicas, c.head, c.commitSeen, c.checkpoint, got, c.want)
		}
	}
}

// Both view and log_view must be durable, as they are now, before anything that
// shows them leaves; and it leaves once.
func TestGateWaitsForLogView(t *testing.T) {
	c := fresh(0, 3)
	c.enterViewChange(3)
	c.StateDurable(State{View: 3})
	c.Ready()
	c.Step(Message{Kind: MessageStartViewChange, From: 2, Group: 7, Incarnation: 3, Boot: 1, View: 3})
	c.Ready()
	c.Step(Message{Kind: MessageDoViewChange, From: 1, Group: 7, Incarnation: 3, Boot: 1, View: 3})
	r := c.Ready()
	if len(r.Send) != 0 || r.Persist == nil || r.Persist.LogView != 3 {
		t.Fatalf("log_view 3 is not durable: sends %v, persist %v", r.Send, r.Persist)
	}
	if _, _, err := c.Propose(Request{Timestamp: c.NextTimestamp(0)}); !errors.Is(err, ErrNotPrimary) {
		t.Fatalf("an op was handed out in a view that is not durable: %v", err)
	}
	c.StateDurable(State{View: 3})
	if r = c.Ready(); len(r.Send) != 0 {
		t.Fatalf("view 3 without its log_view is durable: sends %v", r.Send)
	}
	c.StateDurable(State{View: 3, LogView: 3})
	if r = c.Ready(); len(r.Send) != 2 || r.Send[0].Kind != MessageStartView {
		t.Fatalf("view and log_view are durable: sends %v, want two start_views", r.Send)
	}
	if r = c.Ready(); len(r.Send) != 0 {
		t.Fatalf("sent a second time: %v", r.Send)
	}
}

func TestOnlyANormalPrimaryProposes(t *testing.T) {
	backup := fresh(1, 3)
	recovering := fresh(0, 3)
	recovering.status = StatusRecovering
	for name, c := range map[string]*Core{"backup": backup, "recovering": recovering} {
		if _, _, err := c.Propose(Request{Timestamp: c.NextTimestamp(0)}); !errors.Is(err, ErrNotPrimary) {
			t.Errorf("%s: %v, want ErrNotPrimary", name, err)
		}
		if r := c.Ready(); !r.Empty() || c.Head() != 0 {
			t.Errorf("%s: a refused proposal left work %+v", name, r)
		}
	}
}

// prepares returns the messages by which a primary of three sends n prepares to
// replica 1.
func prepares(t *testing.T, n int) []Message {
	t.Helper()
	primary := fresh(0, 3)
	var out []Message
	for i := range n {
		propose(t, primary, fmt.Sprint(i))
		for _, m := range primary.Ready().Send {
			if m.To == 1 {
				out = append(out, m)
			}
		}
		e := primary.log.entry(Op(i + 1))
		primary.AppendDone(e.header.Op, e.header.Identity)
		primary.Step(Message{Kind: MessagePrepareOk, From: 2, Group: 7, Incarnation: 3, Boot: 1, Op: e.header.Op, Identity: e.header.Identity})
		for _, c := range primary.Ready().Commit {
			primary.Applied(c.Op)
		}
	}
	return out
}

// A backup takes the next prepare of its primary and nothing else.
func TestBackupDropsWhatDoesNotFit(t *testing.T) {
	sealed := func(m *Message, change func(*Prepare)) {
		p := *m.Prepare
		change(&p)
		p.Seal()
		m.Prepare = &p
	}
	for name, change := range map[string]func(c *Core, m *Message){
		"another view":             func(_ *Core, m *Message) { m.View = 3 },
		"another group":            func(_ *Core, m *Message) { m.Group = 8 },
		"another backup":           func(_ *Core, m *Message) { m.From = 2 },
		"itself":                   func(_ *Core, m *Message) { m.From = 1 },
		"no replica of the group":  func(_ *Core, m *Message) { m.From = 3 },
		"no prepare":               func(_ *Core, m *Message) { m.Prepare = nil },
		"a recovering replica":     func(c *Core, _ *Message) { c.status = StatusRecovering },
		"prepare of another group": func(_ *Core, m *Message) { sealed(m, func(p *Prepare) { p.Group = 8 }) },
		"of another cluster":       func(_ *Core, m *Message) { sealed(m, func(p *Prepare) { p.Cluster[0] = 1 }) },
		"of another incarnation":   func(_ *Core, m *Message) { sealed(m, func(p *Prepare) { p.Incarnation++ }) },
		"a gap":                    func(_ *Core, m *Message) { sealed(m, func(p *Prepare) { p.Op = 2 }) },
		"another parent":           func(_ *Core, m *Message) { sealed(m, func(p *Prepare) { p.Parent[0] = 1 }) },
	} {
		c := fresh(1, 3)
		m := prepares(t, 1)[0]
		change(c, &m)
		c.Step(m)
		r := c.Ready()
		for _, m := range r.Send {
			if m.Kind.gated() { // it may ask, but not answer
				t.Errorf("%s: answered with %v", name, m.Kind)
			}
		}
		if c.Head() != 0 || len(r.Append) > 0 {
			t.Errorf("%s: taken: head %d, work %+v", name, c.Head(), r)
		}
	}
	// And of a primary that lets the log run away no more than a window.
	c := fresh(1, 3)
	for _, m := range prepares(t, windowMax+4) {
		m.Commit = 0
		c.Step(m)
	}
	if c.Head() != windowMax {
		t.Errorf("a backup took %d ops without a commit, want %d", c.Head(), windowMax)
	}
}

// A prepare that comes again is acknowledged if this disk holds it, that very one.
func TestRepeatedPrepareIsAcknowledgedIfHeld(t *testing.T) {
	c := fresh(1, 3)
	m := prepares(t, 1)[0]
	c.Step(m)
	c.Ready()
	c.Step(m)
	if r := c.Ready(); len(r.Send) != 0 {
		t.Fatalf("acknowledged before it is durable: %v", r.Send)
	}
	c.AppendDone(1, m.Identity)
	c.Ready()
	other := m
	p := *m.Prepare
	p.Timestamp++
	p.Seal()
	other.Prepare, other.Identity = &p, p.Identity
	c.Step(other)
	if r := c.Ready(); len(r.Send) != 0 {
		t.Fatalf("acknowledged a prepare that is not the one it holds: %v", r.Send)
	}
	c.Step(m)
	if r := c.Ready(); len(r.Send) != 1 || r.Send[0].Identity != m.Identity {
		t.Fatalf("acknowledged %v, want the one that is held", r.Send)
	}
}

// An acknowledgement vouches for everything below, so a hole holds it back.
func TestAcknowledgementsHaveNoHoles(t *testing.T) {
	c := fresh(1, 3)
	both := prepares(t, 2)
	for _, m := range both {
		m.Commit = 0
		c.Step(m)
	}
	c.Ready()
	c.AppendDone(2, both[1].Identity)
	if r := c.Ready(); len(r.Send) != 0 {
		t.Fatalf("op 2 is durable, op 1 is not: %v", r.Send)
	}
	c.AppendDone(1, both[0].Identity)
	if r := c.Ready(); len(r.Send) != 1 || r.Send[0].Op != 2 {
		t.Fatalf("both are durable: %v, want an acknowledgement of 2", r.Send)
	}
}

// The primary counts acknowledgements of what it has, for that op and those before.
func TestPrimaryCountsWhatIsAcknowledged(t *testing.T) {
	c := fresh(0, 3)
	op1, id1 := propose(t, c, "a")
	op2, id2 := propose(t, c, "b")
	c.AppendDone(op1, id1)
	c.AppendDone(op2, id2)
	ok := Message{Kind: MessagePrepareOk, From: 1, Group: 7, Incarnation: 3, Boot: 1, Op: op1, Identity: id2}
	c.Step(ok)
	if c.CommitMax() != 0 {
		t.Fatal("an acknowledgement of another prepare counts")
	}
	ok.Identity = id1
	for _, stranger := range []uint8{0, 3} { // itself, and no replica of the group
		ok.From = stranger
		if c.Step(ok); c.CommitMax() != 0 {
			t.Fatalf("an acknowledgement of replica %d counts", stranger)
		}
	}
	ok.From = 1
	c.Step(ok)
	if c.CommitMax() != op1 {
		t.Fatalf("commit %d on an acknowledgement of op 1", c.CommitMax())
	}
	propose(t, c, "c")
	ok.Op, ok.Identity = op2, id2
	c.Step(ok)
	if c.CommitMax() != op2 {
		t.Fatalf("commit %d on an acknowledgement of op 2", c.CommitMax())
	}
	// Its own disk speaks by AppendDone, never by a message in its name.
	c = fresh(0, 3)
	ok.Op, ok.Identity = propose(t, c, "d")
	for _, from := range []uint8{1, 0} {
		ok.From = from
		c.Step(ok)
	}
	if c.CommitMax() != 0 {
		t.Fatal("a message in its own name counts")
	}
}

// What is chosen is applied only from the log of this very disk: on a primary
// whose own write is slow, and on a backup that hears of the commit first.
func TestNothingIsAppliedBeforeItIsHeld(t *testing.T) {
	primary := fresh(0, 3)
	op, id := propose(t, primary, "a")
	for _, from := range []uint8{1, 2} {
		primary.Step(Message{Kind: MessagePrepareOk, From: from, Group: 7, Incarnation: 3, Boot: 1, Op: op, Identity: id})
	}
	if r := primary.Ready(); primary.CommitMax() != 1 || len(r.Commit) != 0 {
		t.Fatalf("commit %d, applied %v: two backups hold it, this disk does not", primary.CommitMax(), r.Commit)
	}
	primary.AppendDone(op, id)
	if r := primary.Ready(); len(r.Commit) != 1 {
		t.Fatalf("applied %v once it is held", r.Commit)
	}

	backup := fresh(1, 3)
	m := prepares(t, 1)[0]
	backup.Step(m)
	backup.Step(Message{Kind: MessageCommit, From: 0, Group: 7, Incarnation: 3, Boot: 1, Commit: 1})
	if r := backup.Ready(); len(r.Commit) != 0 {
		t.Fatalf("backup applied %v, which its disk does not hold", r.Commit)
	}
	backup.AppendDone(1, m.Identity)
	if r := backup.Ready(); len(r.Commit) != 1 {
		t.Fatalf("backup applied %v once it is held", r.Commit)
	}
}

// A commit point is heard from the primary, and never goes back.
func TestCommitPointIsHeardFromThePrimary(t *testing.T) {
	c := fresh(1, 3)
	commit := Message{Kind: MessageCommit, From: 2, Group: 7, Incarnation: 3, Boot: 1, Commit: 9}
	c.Step(commit)
	if c.CommitMax() != 0 {
		t.Fatalf("commit %d, heard from a backup", c.CommitMax())
	}
	commit.From = 0
	c.Step(commit)
	commit.Commit = 4
	c.Step(commit)
	if c.CommitMax() != 9 {
		t.Fatalf("commit %d after a late message, was 9", c.CommitMax())
	}
}

// Time does not go back when the log does: what is cut was stamped all the same.
func TestTimeOutlivesACut(t *testing.T) {
	c := New(config(0, 1), Recovered{})
	for _, ts := range []uint64{100, 50} { // the second as another primary stamped it
		p := &Prepare{Header: Header{Group: 7, Incarnation: 3, Op: 1, Timestamp: ts}}
		p.Seal()
		c.log.push(p)
		c.log.cut(0)
	}
	if got := c.NextTimestamp(0); got != 101 {
		t.Errorf("the next timestamp is %d, want 101", got)
	}
}

// Who is not normal takes no commit point and no sign of life from the normal case:
// its log may be another than the one that the primary speaks of.
func TestNormalCaseNeedsANormalReplica(t *testing.T) {
	recovering := New(config(1, 3), Recovered{})
	changing := fresh(1, 3)
	changing.enterViewChange(3)
	changing.StateDurable(State{View: 3})
	for name, c := range map[string]*Core{"recovering": recovering, "view change": changing} {
		beat := told(MessageCommit, 0, c.View().View)
		beat.Commit, beat.Op, beat.Beat = 4, 5, 1
		c.Step(beat)
		p := after(nil, c.View().View, "a")
		m := carrying(told(MessagePrepare, 0, c.View().View), p)
		m.Commit = 4
		c.Step(m)
		if r := c.Ready(); c.CommitMax() != 0 || c.heard || c.target != nil || len(r.Append) != 0 {
			t.Errorf("%s: commit %d, heard %v, target %+v, appends %v; want nothing taken", name, c.CommitMax(), c.heard, c.target, r.Append)
		}
	}
}

// A prepare of a view whose log is installed, but not durably: it waits for
// log_view, whether it was sent before or comes now.
func TestOwnOpsWaitForLogView(t *testing.T) {
	c := fresh(2, 3)
	a := after(nil, 1, "a")
	c.Step(startView(1, 1, 0))
	c.StateDurable(State{View: 1})
	if c.View().LogView != 1 {
		t.Fatalf("%+v, want the empty log installed", c.View())
	}
	c.Step(carrying(told(MessagePrepare, 1, 1), a))
	if r := c.Ready(); len(r.Append) != 0 || len(r.Send) != 0 {
		t.Fatalf("log_view 1 is not durable: appends %v, sends %v", r.Append, r.Send)
	}
	c.StateDurable(State{View: 1, LogView: 1})
	if r := c.Ready(); len(r.Append) != 1 || r.Append[0].Op != 1 {
		t.Fatalf("log_view 1 is durable: appends %v, want op 1", r.Append)
	}
}

// A replica that has lost sight of the log of its view is no part of it: it does not
// acknowledge, though it has acknowledged in an earlier view and is in no doubt.
func TestNoAcknowledgementWithoutTheLogOfTheView(t *testing.T) {
	log := []*Prepare{after(nil, 0, "a")}
	log = append(log, after(log[0], 0, "b"))
	c := New(config(2, 3), Recovered{Head: 2, HeadIdentity: log[1].Identity, Commit: 2})
	c.Step(startView(1, 1, 0, log[0])) // an old one: op 2 is applied here
	c.StateDurable(State{View: 1})
	if c.Status() != StatusNormal || c.target != nil || c.View().LogView != 0 {
		t.Fatalf("%v, target %+v, %+v; want a backup without a log to install", c.Status(), c.target, c.View())
	}
	beat := told(MessageCommit, 1, 1)
	beat.Beat = 1
	c.Step(beat)
	for _, m := range c.Ready().Send {
		if m.Kind == MessagePrepareOk {
			t.Fatalf("acknowledged op %d with log_view %d in view %d", m.Op, m.LogView, m.View)
		}
	}
}

// The question of a primary lets the others elect at once, if it has led the view
// that it asks in. One that it asked before it led comes late.
func TestQuestionOfThePrimary(t *testing.T) {
	for logView, suspects := range map[View]bool{0: false, 3: true} {
		c := fresh(1, 3)
		c.Step(startView(0, 3, 0))
		c.StateDurable(State{View: 3, LogView: 3})
		q := told(MessageRequestStartView, 0, 3)
		q.LogView = logView
		c.Step(q)
		if c.election.suspecting != suspects {
			t.Errorf("asked with log_view %d: suspects %t, want %t", logView, c.election.suspecting, suspects)
		}
	}
}

// A restarted replica votes anew; what its earlier life said is over.
func TestVoteOfALaterLifeCounts(t *testing.T) {
	a := after(nil, 0, "a")
	c := fresh(1, 5)
	c.enterViewChange(1)
	c.StateDurable(State{View: 1})
	vote := func(boot uint64, log ...*Prepare) {
		m := startView(2, 1, 0, log...)
		m.Kind, m.LogView, m.Boot = MessageDoViewChange, 0, boot
		c.Step(m)
	}
	vote(1)
	vote(2, a)
	vote(1)
	votes := c.election.votes
	for i := range votes {
		if v := &votes[i]; v.From == 2 && v.Boot == 2 && v.Op == 1 {
			return
		}
	}
	t.Errorf("votes %+v, want the one of the second life of replica 2", votes)
}

// An install has found its place in the log when a checkpoint below replaces the
// log: it looks for its place again.
func TestCheckpointBelowAnInstall(t *testing.T) {
	log := []*Prepare{after(nil, 0, "a")}
	log = append(log, after(log[0], 0, "b"))
	log = append(log, after(log[1], 0, "c"))
	c := New(config(2, 3), Recovered{Head: 2, HeadIdentity: log[1].Identity, Suffix: []Header{log[0].Header, log[1].Header}})
	c.Step(startView(1, 1, 0, log...))
	gone := told(MessageGone, 1, 1)
	gone.Op, gone.Low = 3, 3
	c.Step(gone)
	o := Offer{Op: 1, Identity: Identity{9}, Timestamp: 1, Size: 1}
	offer := offering(o)
	offer.From = 1
	c.Step(offer)
	c.TransferStored(o, 1)
	if r := c.Ready(); len(r.Transfer) != 2 || !r.Transfer[1].Reset {
		t.Fatalf("%+v, want an install with a new log", r.Transfer)
	}
	c.TransferDone(o, true)
	if c.target == nil || c.target.joined {
		t.Fatalf("target %+v, want one that looks for its place above op 1", c.target)
	}
	r := c.Ready()
	if n := len(r.Send); n == 0 || r.Send[n-1].Kind != MessageRequestHeaders {
		t.Errorf("sends %v, want a question for headers", r.Send)
	}
}

// A log that is long enough is not yet the log of the view: log_view waits until it
// is known where the two meet.
func TestInstallWaitsForItsPlace(t *testing.T) {
	chained := func(view View, names ...string) (log []*Prepare) {
		var last *Prepare
		for _, name := range names {
			last = after(last, view, name)
			log = append(log, last)
		}
		return log
	}
	own, log := chained(0, "x", "y", "z"), chained(1, "a", "b", "c")
	r := Recovered{Head: 3, HeadIdentity: own[2].Identity}
	for _, p := range own {
		r.Suffix = append(r.Suffix, p.Header)
	}
	c := New(config(1, 3), r)
	c.Step(startView(2, 2, 2, log...))
	m := told(MessageHeaders, 2, 2)
	m.Op, m.Identity, m.Headers = 2, log[1].Identity, []Header{log[1].Header}
	c.Step(m)
	if c.View().LogView != 0 || c.target == nil || c.target.joined {
		t.Fatalf("%+v, target %+v; want the log of view 2 not installed", c.View(), c.target)
	}
	m.Op, m.Identity, m.Headers = 1, log[0].Identity, []Header{log[0].Header}
	c.Step(m)
	if ready := c.Ready(); ready.Truncate == nil || *ready.Truncate != 0 || c.View().LogView != 0 {
		t.Fatalf("truncates to %v at %+v; want to 0, where the logs meet", ready.Truncate, c.View())
	}
}

// Of the newer views that are seen in use the highest is asked for.
func TestHighestViewIsAskedFor(t *testing.T) {
	c := fresh(2, 3)
	for _, step := range []struct {
		view View
		asks bool
	}{{4, true}, {3, false}, {4, false}, {7, true}, {6, false}} {
		c.Step(Message{Kind: MessageCommit, From: uint8(step.view % 3), To: 2, Group: 7, Incarnation: 3, Boot: 1, View: step.view, Beat: 1})
		if step.view%3 == 2 {
			t.Fatal("the replica itself would lead that view")
		}
		asked := false
		r := c.Ready()
		for _, m := range r.Send {
			asked = asked || m.Kind == MessageRequestStartView && m.To == uint8(step.view%3)
		}
		if asked != step.asks || c.View().View != 0 {
			t.Errorf("a heartbeat of view %d: asked %v, want %v; in view %d", step.view, asked, step.asks, c.View().View)
		}
	}
}

// A log that is longer above what is known to be committed than a vote can describe: the
// replica cannot tell, which is no nack.
func TestVoteOfALongLogCannotTell(t *testing.T) {
	words := strings.Repeat("x ", PipelineCeiling+1)
	for _, commit := range []Op{0, 1} {
		headers := logOf(words)
		head := headers[len(headers)-1]
		c := New(Config{Group: 7, Incarnation: 3, Replica: 1, Replicas: 3, Pipeline: 8, Boot: 1}, Recovered{
			Head: head.Op, HeadIdentity: head.Identity, HeadTimestamp: head.Timestamp, Commit: commit, Suffix: headers[commit:],
		})
		if m := c.vote(); m.Unknown != (commit == 0) || m.Unknown && len(m.Headers) > 0 || !m.Unknown && !m.chained() {
			t.Errorf("%d ops above the commit point: unknown %v with %d headers", head.Op-commit, m.Unknown, len(m.Headers))
		}
	}
}
