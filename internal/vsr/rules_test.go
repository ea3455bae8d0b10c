package vsr

import "testing"

// after seals an op of the test group behind another.
func after(before *Prepare, view View, name string) *Prepare {
	p := &Prepare{Header: Header{Group: 7, Incarnation: 3, Op: 1, Timestamp: 1, View: view, Operation: 160}, Body: []byte(name)}
	if before != nil {
		p.Op, p.Parent, p.Timestamp = before.Op+1, before.Identity, before.Timestamp+1
	}
	p.Seal()
	return p
}

// told is a message of another replica in its first life.
func told(kind MessageKind, from uint8, view View) Message {
	return Message{Kind: kind, From: from, Group: 7, Incarnation: 3, Boot: 1, View: view, LogView: view, Rest: &Rest{}}
}

// startView announces a log, of which the first commit ops are committed.
func startView(from uint8, view View, commit int, log ...*Prepare) Message {
	m := told(MessageStartView, from, view)
	m.Commit = Op(commit)
	for i, p := range log {
		if i < commit {
			m.CommitIdentity = p.Identity
		} else {
			m.Headers = append(m.Headers, p.Header)
		}
		m.Op, m.Identity = p.Op, p.Identity
	}
	return m
}

func carrying(m Message, p *Prepare) Message {
	m.Op, m.Identity, m.Prepare = p.Op, p.Identity, p
	return m
}

// The race of the same op twice: it is appended, cut, and appended again, and the
// completion of the first append comes after the cut. What the disk holds by then
// is nothing.
func TestCompletionOfAnAppendThatWasCut(t *testing.T) {
	c := fresh(1, 3)
	a := after(nil, 0, "a")
	x := after(a, 0, "x")
	for _, p := range []*Prepare{a, x} {
		c.Step(carrying(told(MessagePrepare, 0, 0), p))
	}
	c.Ready()
	c.AppendDone(1, a.Identity)
	c.truncate(1)
	c.append(x)
	c.verified = 2
	r := c.Ready()
	if r.Truncate == nil || *r.Truncate != 1 || len(r.Append) != 1 {
		t.Fatalf("truncate %v, %d appends; want 1 and x again", r.Truncate, len(r.Append))
	}
	c.AppendDone(2, x.Identity)
	if c.log.held != 1 {
		t.Fatalf("held %d after the completion of the append that was cut, want 1", c.log.held)
	}
	c.AppendDone(2, x.Identity)
	if c.log.held != 2 {
		t.Fatalf("held %d after the second completion, want 2", c.log.held)
	}
}

// A truncation before the host took the append: it never sees it.
func TestCutBeforeItWasHandedOut(t *testing.T) {
	c := fresh(1, 3)
	a := after(nil, 0, "a")
	x := after(a, 0, "x")
	c.append(a)
	c.append(x)
	c.truncate(1)
	b := after(a, 1, "b")
	c.append(b)
	r := c.Ready()
	if len(r.Append) != 2 || r.Append[0] != a || r.Append[1] != b || *r.Truncate != 1 {
		t.Fatalf("truncate %v, append %v; want 1, then a and b", r.Truncate, r.Append)
	}
	if !r.Fits() {
		t.Error("the host is to cut its log at op 1, which it never had")
	}
	c.AppendDone(2, b.Identity)
	c.AppendDone(1, a.Identity)
	if c.log.held != 2 {
		t.Fatalf("held %d, want 2", c.log.held)
	}
	c.truncate(1)
	c.append(after(a, 2, "c"))
	if r = c.Ready(); r.Fits() {
		t.Error("op 2 stays in the log of the host below the one that takes its place")
	}
}

// An op that the view sealed waits until log_view = view is durable.
func TestOwnOpsWaitForTheInstall(t *testing.T) {
	c := fresh(2, 3)
	a := after(nil, 0, "a")
	b := after(a, 1, "b")
	c.Step(startView(1, 1, 0, a))
	c.Step(carrying(told(MessagePrepare, 1, 1), b))
	c.StateDurable(State{View: 1})
	c.Step(carrying(told(MessageRepairPrepare, 1, 1), a))
	if r := c.Ready(); len(r.Append) != 1 || r.Append[0].Op != 1 || r.Persist != nil {
		t.Fatalf("appends %v, persists %v; want op 1 of the announced log alone", r.Append, r.Persist)
	}
	c.AppendDone(1, a.Identity)
	if r := c.Ready(); len(r.Append) != 0 || r.Persist == nil || r.Persist.LogView != 1 || len(r.Send) != 0 {
		t.Fatalf("installed: appends %v, persists %v, sends %v; want log_view 1 first", r.Append, r.Persist, r.Send)
	}
	c.StateDurable(State{View: 1, LogView: 1})
	if r := c.Ready(); len(r.Append) != 1 || r.Append[0].Op != 2 {
		t.Fatalf("log_view is durable: appends %v, want op 2", r.Append)
	}
}

// O-7: what a replica acknowledged in an earlier life counts as unsaid as soon as
// a later life is heard of.
func TestAcknowledgementsOfAnEarlierLifeAreUnsaid(t *testing.T) {
	c := fresh(0, 3)
	op, id := propose(t, c, "a")
	ok := told(MessagePrepareOk, 1, 0)
	ok.Op, ok.Identity = op, id
	c.Step(ok)
	question := told(MessageRequestStartView, 1, 0)
	question.Boot, question.Doubt = 2, DoubtAll
	c.Step(question)
	c.AppendDone(op, id)
	if c.CommitMax() != 0 {
		t.Fatal("committed on an acknowledgement whose disk is gone")
	}
	c.Step(ok)
	if c.CommitMax() != 0 {
		t.Fatal("committed on a late acknowledgement of an earlier life")
	}
	ok.Boot = 2
	c.Step(ok)
	if c.CommitMax() != 1 {
		t.Fatal("not committed on an acknowledgement of the present life")
	}
}

// The votes of a primary-elect, with one of a life that another voter knows to be
// over.
func TestPrimaryElectDropsVotesOfEarlierLives(t *testing.T) {
	c := fresh(0, 5)
	c.enterViewChange(5)
	c.StateDurable(State{View: 5})
	for i := uint8(1); i < 4; i++ {
		c.Step(told(MessageStartViewChange, i, 5))
	}
	old, voter := told(MessageDoViewChange, 1, 5), told(MessageDoViewChange, 2, 5)
	old.LogView, voter.LogView = 0, 0
	voter.Boots = []uint64{1, 2, 1, 1, 1}
	c.Step(old)
	c.Step(voter)
	if c.election.merged {
		t.Fatal("a view is decided with the vote of a life that is over")
	}
	third := told(MessageDoViewChange, 3, 5)
	third.LogView = 0
	c.Step(third)
	if !c.election.merged {
		t.Fatalf("no view with three good votes of five: outcome %d", c.election.outcome)
	}
}

func replacedOfFive() *Core {
	return New(config(4, 5), Recovered{State: State{Doubt: DoubtAll}})
}

// O-8: a replaced replica adopts a view when a view-change quorum of others told
// it theirs, in this life, and it is the latest.
func TestReplacedReplicaWaitsForAQuorumOfAnswers(t *testing.T) {
	answer := func(from uint8, view View) Message {
		m := told(MessagePresentView, from, view)
		m.Echo = 1
		return m
	}
	start := startView(0, 0, 0)
	start.Echo = 1
	old := answer(3, 0)
	old.Echo = 7

	c := replacedOfFive()
	for _, m := range []Message{start, answer(1, 0), old, answer(1, 0), start} {
		if c.Step(m); c.Status() != StatusRecovering {
			t.Fatalf("adopted a view with the answers of 0 and 1: three of others are needed")
		}
	}
	c.Step(answer(2, 0))
	if c.Step(start); c.Status() != StatusNormal {
		t.Fatalf("%v with three answers", c.Status())
	}

	c = replacedOfFive()
	for _, m := range []Message{answer(1, 3), answer(2, 0), start} {
		c.Step(m)
	}
	if c.Status() != StatusRecovering {
		t.Fatal("adopted view 0 though replica 1 told of view 3")
	}
	unasked := startView(3, 3, 0)
	if c.Step(unasked); c.Status() != StatusRecovering {
		t.Fatal("adopted a view that was no answer to this life")
	}
}

// A replica in doubt acknowledges nothing, even if it has lost sight of the log
// that it is to install.
func TestNoAcknowledgementInDoubt(t *testing.T) {
	c := replacedOfFive()
	start := startView(0, 0, 0, after(nil, 0, "a"))
	start.Echo = 1
	c.adopt(&start)
	c.target = nil
	beat := told(MessageCommit, 0, 0)
	beat.Beat = 1
	c.Step(beat)
	for _, m := range c.Ready().Send {
		if m.Kind == MessagePrepareOk {
			t.Fatalf("acknowledged op %d in doubt", m.Op)
		}
	}
	for range 300 {
		c.Tick()
	}
	asked := 0
	for _, m := range c.Ready().Send {
		if m.Kind != MessageRequestStartView {
			t.Fatalf("a replica in doubt sent %v", m.Kind)
		}
		asked++
	}
	if asked == 0 {
		t.Fatal("it has no log to install and does not ask for one")
	}
}

// A heartbeat that comes again is no sign of life (PF-consensus-11).
func TestRepeatedHeartbeatIsNoLife(t *testing.T) {
	for _, c := range []struct {
		second    uint64
		suspected bool
	}{{1, true}, {2, false}} {
		core := fresh(1, 3)
		beat := told(MessageCommit, 0, 0)
		beat.Beat = 1
		core.Step(beat)
		for range 30 {
			core.Tick()
		}
		beat.Beat = c.second
		core.Step(beat)
		for range 30 {
			core.Tick()
		}
		if core.election.suspecting != c.suspected {
			t.Errorf("beat 1, then %d: suspected %t, want %t", c.second, core.election.suspecting, c.suspected)
		}
	}
}

// O-1: a new primary counts its heartbeats from the start, and is heard.
func TestHeartbeatsOfANewViewAreHeard(t *testing.T) {
	c := fresh(2, 3)
	beat := told(MessageCommit, 0, 0)
	beat.Beat = 1000
	c.Step(beat)
	c.Step(startView(1, 1, 0))
	for range 30 {
		c.Tick()
	}
	beat = told(MessageCommit, 1, 1)
	beat.Beat = 1
	c.Step(beat)
	if c.clocks.silent != 0 {
		t.Fatalf("silent for %d ticks after the first heartbeat of view 1", c.clocks.silent)
	}
}

// What is asked at once is bounded, on both sides.
func TestRepairIsBounded(t *testing.T) {
	c := fresh(1, 3)
	log := []*Prepare{after(nil, 0, "0")}
	for len(log) < 100 {
		log = append(log, after(log[len(log)-1], 0, "x"))
	}
	c.Step(startView(0, 0, 0, log...))
	c.Tick()
	var asked *Message
	for _, m := range c.Ready().Send {
		if m.Kind == MessageRequestPrepares {
			asked = &m
		}
	}
	if asked == nil || len(asked.Refs) != RefsMax || asked.Refs[0].Op != 1 {
		t.Fatalf("asked %v, want the first %d ops", asked, RefsMax)
	}
	server := fresh(2, 3)
	many := told(MessageRequestPrepares, 1, 0)
	many.Refs = make([]Ref, RefsMax+1)
	server.Step(many)
	if r := server.Ready(); len(r.Send) != 0 {
		t.Fatalf("a request above the limit is answered: %v", r.Send)
	}
	for range 3 * readsMax {
		m := told(MessageRequestHeaders, 1, 0)
		m.Low = 0
		server.Step(m)
		server.read(Read{To: 1, Op: 1})
	}
	if r := server.Ready(); len(r.Read) != readsMax {
		t.Fatalf("%d reads at once, limit %d", len(r.Read), readsMax)
	}
}

// What differs from the log that is applied stops the replica.
func TestAppliedOpThatTheViewHasOtherwise(t *testing.T) {
	a, b := after(nil, 0, "a"), after(nil, 1, "b")
	c := New(config(2, 3), Recovered{Head: 1, HeadIdentity: a.Identity, Commit: 1})
	wantPanic(t, "op 1 is applied as", func() { c.Step(startView(1, 1, 1, b)) })
}

// Acknowledgements count in the view they were given in: in another one the same
// replica may have dropped the op meanwhile.
func TestAcknowledgementsDoNotOutliveTheirView(t *testing.T) {
	c := fresh(0, 5)
	op, id := propose(t, c, "a")
	c.AppendDone(op, id)
	ok := func(from uint8, view View) {
		m := told(MessagePrepareOk, from, view)
		m.Op, m.Identity = op, id
		c.Step(m)
	}
	ok(1, 0)
	c.enterViewChange(5)
	c.StateDurable(State{View: 5})
	for i := uint8(1); i < 4; i++ {
		c.Step(told(MessageStartViewChange, i, 5))
		vote := told(MessageDoViewChange, i, 5)
		vote.LogView = 0
		if i < 3 {
			c.Step(vote)
		}
	}
	c.StateDurable(State{View: 5, LogView: 5})
	if !c.IsPrimary() || c.Head() != 1 {
		t.Fatalf("%v of view %d, head %d; want the primary of view 5 with op 1", c.Status(), c.View().View, c.Head())
	}
	ok(2, 5)
	if c.CommitMax() != 0 {
		t.Fatal("committed with an acknowledgement that was counted in view 0")
	}
	ok(3, 0)
	if c.CommitMax() != 0 {
		t.Fatal("committed with a late acknowledgement of view 0")
	}
	ok(3, 5)
	if c.CommitMax() != 1 {
		t.Fatal("not committed with three acknowledgements in view 5")
	}
}

// A frame of a view that is over is of the past, though its sender leads again.
func TestPreparesOfAnOlderViewAreDropped(t *testing.T) {
	c := fresh(1, 3)
	c.Step(startView(0, 3, 0))
	c.StateDurable(State{View: 3})
	c.Ready()
	c.StateDurable(State{View: 3, LogView: 3})
	c.Step(carrying(told(MessagePrepare, 0, 0), after(nil, 0, "old")))
	if r := c.Ready(); c.Head() != 0 || len(r.Append) != 0 {
		t.Fatalf("head %d: took a prepare of view 0 in view 3", c.Head())
	}
	beat := told(MessageCommit, 0, 0)
	beat.Beat, beat.Commit = 9, 5
	if c.Step(beat); c.CommitMax() != 0 {
		t.Fatalf("commit %d from a heartbeat of view 0", c.CommitMax())
	}
	c.Step(carrying(told(MessagePrepare, 0, 3), after(nil, 3, "new")))
	if c.Head() != 1 {
		t.Fatal("did not take a prepare of view 3")
	}
}

// Repair takes what was asked for, by identity, and headers that prove one
// another.
func TestRepairTakesWhatIsProven(t *testing.T) {
	a := after(nil, 0, "a")
	b := after(a, 0, "b")
	d := after(b, 0, "d")
	x := after(a, 0, "x")
	y := after(nil, 0, "y")
	c := fresh(2, 3)
	c.Step(startView(1, 1, 3, a, b, d))
	c.StateDurable(State{View: 1})
	headers := func(log ...*Prepare) Message {
		m := told(MessageHeaders, 1, 1)
		for _, p := range log {
			m.Headers = append(m.Headers, p.Header)
			m.Op, m.Identity = p.Op, p.Identity
		}
		return m
	}
	for name, m := range map[string]Message{
		"of another log":      headers(a, x),
		"that leave a gap":    headers(a, d),
		"that do not chain":   headers(y, b, d),
		"of an earlier place": headers(a, b),
		"without any":         headers(),
	} {
		if c.Step(m); c.target.joined || c.target.below != 3 {
			t.Fatalf("took headers %s", name)
		}
	}
	c.Step(headers(a, b, d))
	if !c.target.joined {
		t.Fatal("did not take the right headers")
	}
	c.Ready()
	for _, p := range []*Prepare{x, y} {
		c.Step(carrying(told(MessageRepairPrepare, 1, 1), p))
	}
	if r := c.Ready(); len(r.Append) != 0 {
		t.Fatalf("appended %v, which is not in the log of the view", r.Append)
	}
	for _, p := range []*Prepare{d, a, b} {
		c.Step(carrying(told(MessageRepairPrepare, 0, 1), p))
	}
	if r := c.Ready(); len(r.Append) != 3 || r.Append[0] != a || r.Append[2] != d {
		t.Fatalf("appended %d, want a, b and d in order", len(r.Append))
	}
}

// What was handed out to be applied is never cut.
func TestAppliedOpsAreNotCut(t *testing.T) {
	a := after(nil, 0, "a")
	c := New(config(2, 3), Recovered{Head: 1, HeadIdentity: a.Identity, Commit: 1})
	wantPanic(t, "truncation to op 0 would drop op 1", func() { c.truncate(0) })
}

// checkpointed drives a replica up to the offer of a checkpoint at op 9, while
// its own log is at op 2 and op 1 is handed out and not applied yet.
func checkpointed(t *testing.T) (*Core, Offer) {
	t.Helper()
	a := after(nil, 0, "a")
	c := fresh(2, 3)
	c.Step(carrying(told(MessagePrepare, 0, 0), a))
	c.AppendDone(1, a.Identity)
	beat := told(MessageCommit, 0, 0)
	beat.Beat, beat.Commit, beat.Op, beat.Identity = 1, 9, 9, Identity{9}
	c.Step(beat)
	c.Tick()
	gone := told(MessageGone, 0, 0)
	gone.Op, gone.Low = 9, 9
	c.Step(gone)
	if r := c.Ready(); !c.Transferring() || len(r.Commit) != 1 {
		t.Fatalf("transferring %t with %d ops to apply, want true with 1", c.Transferring(), len(r.Commit))
	}
	return c, Offer{Op: 9, Identity: Identity{9}, Timestamp: 90, Size: 3}
}

func offering(o Offer) Message {
	m := told(MessageOffer, 0, 0)
	m.Offer = o
	return m
}

func transfers(c *Core) (actions []TransferAction) {
	for _, t := range c.Ready().Transfer {
		actions = append(actions, t.Action)
	}
	return actions
}

// A checkpoint replaces the state only when nothing is being applied to it.
func TestInstallWaitsForWhatIsBeingApplied(t *testing.T) {
	c, o := checkpointed(t)
	c.Step(offering(o))
	if got := transfers(c); len(got) != 1 || got[0] != TransferBegin {
		t.Fatalf("after the offer: %v, want begin", got)
	}
	c.TransferStored(o, 3)
	if got := transfers(c); len(got) != 0 {
		t.Fatalf("while op 1 is being applied: %v, want nothing", got)
	}
	c.Applied(1)
	r := c.Ready()
	if len(r.Transfer) != 1 || r.Transfer[0].Action != TransferInstall || !r.Transfer[0].Reset {
		t.Fatalf("after op 1: %+v, want install with a new log", r.Transfer)
	}
	c.TransferDone(o, true)
	if c.CommitMin() != 9 || c.Head() != 9 || c.Transferring() {
		t.Fatalf("installed: commit_min %d, head %d, transferring %t", c.CommitMin(), c.Head(), c.Transferring())
	}
}

// Nor before all of it is here.
func TestInstallWaitsForTheLastByte(t *testing.T) {
	c, o := checkpointed(t)
	c.Step(offering(o))
	c.TransferStored(o, 2)
	c.Applied(1)
	for _, a := range transfers(c) {
		if a == TransferInstall {
			t.Fatal("installs a checkpoint of which a byte is missing")
		}
	}
	c.TransferStored(o, 3)
	if got := transfers(c); len(got) != 1 || got[0] != TransferInstall {
		t.Fatalf("with all bytes: %v, want install", got)
	}
}

// A checkpoint that the wanted log has otherwise, or that brings nothing, is none.
func TestOffersThatAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Offer){
		"another identity at the head": func(o *Offer) { o.Identity = Identity{8} },
		"nothing new":                  func(o *Offer) { o.Op = 0 },
	} {
		c, o := checkpointed(t)
		change(&o)
		c.Step(offering(o))
		if got := transfers(c); len(got) != 0 || c.Transferring() {
			t.Errorf("%s: %v, transferring %t; want nothing", name, got, c.Transferring())
		}
	}
	c, o := checkpointed(t)
	stranger := offering(o)
	stranger.From = 1
	if c.Step(stranger); len(transfers(c)) != 0 {
		t.Error("took the offer of a replica that was not asked")
	}
}

// Chunks are taken in order, and no other.
func TestChunksComeInOrder(t *testing.T) {
	c, o := checkpointed(t)
	c.Step(offering(o))
	c.TransferStored(o, 1) // there from an earlier attempt
	r := c.Ready()
	if asked := r.Send[len(r.Send)-1]; asked.Kind != MessageRequestChunk || asked.Offset != 1 || asked.Length != 2 {
		t.Fatalf("asked for %v at %d, %d bytes; want a chunk at 1, 2 bytes", asked.Kind, asked.Offset, asked.Length)
	}
	chunk := func(offset uint64, data string) Message {
		m := told(MessageChunk, 0, 0)
		m.Offer, m.Offset, m.Data = o, offset, []byte(data)
		return m
	}
	other := chunk(1, "bc")
	other.Offer.Sum[0] = 1
	for name, m := range map[string]Message{"of another checkpoint": other, "before": chunk(0, "a"), "behind": chunk(2, "c"), "too long": chunk(1, "bcd")} {
		if c.Step(m); len(transfers(c)) != 0 {
			t.Errorf("took a chunk %s", name)
		}
	}
	c.Step(chunk(1, "b"))
	c.Step(chunk(1, "b"))
	if got := transfers(c); len(got) != 1 || got[0] != TransferWrite {
		t.Fatalf("after a chunk and its repetition: %v, want one write", got)
	}
	c.TransferStored(o, 2)
	if c.Step(chunk(2, "")); c.Transferring() {
		t.Fatal("goes on with a source whose checkpoint is gone")
	}
}

// A checkpoint inside the log keeps what is above it: this replica may have
// acknowledged that.
func TestCheckpointInsideTheLogKeepsTheRest(t *testing.T) {
	c := fresh(2, 3)
	log := []*Prepare{after(nil, 0, "a")}
	for len(log) < 4 {
		log = append(log, after(log[len(log)-1], 0, "x"))
	}
	for _, p := range log {
		c.Step(carrying(told(MessagePrepare, 0, 0), p))
		c.AppendDone(p.Op, p.Identity)
	}
	c.beginTransfer(0)
	o := Offer{Op: 2, Identity: log[1].Identity, Timestamp: 2, Size: 3}
	c.Step(offering(o))
	c.TransferStored(o, 3)
	r := c.Ready()
	if len(r.Transfer) != 2 || r.Transfer[1].Action != TransferInstall || r.Transfer[1].Reset {
		t.Fatalf("%+v, want an install that keeps the log", r.Transfer)
	}
	c.TransferDone(o, true)
	if c.CommitMin() != 2 || c.Head() != 4 || c.log.held != 4 {
		t.Fatalf("commit_min %d, held %d, head %d; want 2, 4, 4", c.CommitMin(), c.log.held, c.Head())
	}
}

// A start_view that is no log, or not from the primary of its view, is none.
func TestStartViewsThatAreRefused(t *testing.T) {
	a := after(nil, 0, "a")
	b := after(a, 0, "b")
	for name, change := range map[string]func(*Message){
		"without headers":          func(m *Message) { m.Headers = nil },
		"with a header too few":    func(m *Message) { m.Headers = m.Headers[1:] },
		"with another head":        func(m *Message) { m.Identity[0]++ },
		"with another anchor":      func(m *Message) { m.CommitIdentity[0]++ },
		"of another replica":       func(m *Message) { m.From = 0 },
		"of an older view":         func(m *Message) { m.View = 0; m.From = 0 },
		"of another group":         func(m *Message) { m.Group = 8 },
		"of another incarnation":   func(m *Message) { m.Incarnation = 4 },
		"commit point above head":  func(m *Message) { m.Commit = 3 },
		"of a replica that is not": func(m *Message) { m.From = 4; m.View = 4 },
	} {
		c := fresh(2, 3)
		if name == "of an older view" {
			c.enterViewChange(2)
		}
		before := c.View().View
		m := startView(1, 1, 0, a, b)
		change(&m)
		if c.Step(m); c.View().View != before || c.target != nil {
			t.Errorf("%s: adopted view %d", name, c.View().View)
		}
	}
	c := fresh(2, 3)
	if c.Step(startView(1, 1, 0, a, b)); c.View().View != 1 {
		t.Error("the good one is refused as well")
	}
}

// A vote names the commit point that its own log proves, though the replica has
// heard of a higher one (O-6): what it has there may be dead.
func TestVoteNamesWhatItsLogProves(t *testing.T) {
	a := after(nil, 0, "a")
	x := after(a, 0, "x")
	c := New(config(2, 3), Recovered{Head: 2, HeadIdentity: x.Identity, Commit: 1, Suffix: []Header{x.Header}})
	m := startView(1, 1, 4, a, after(a, 1, "b"), after(after(a, 1, "b"), 1, "d"), after(after(after(a, 1, "b"), 1, "d"), 1, "e"))
	c.Step(m)
	if c.CommitMax() != 4 {
		t.Fatalf("commit_max %d, want the announced 4", c.CommitMax())
	}
	c.enterViewChange(2)
	if v := c.vote(); v.Commit != 1 || len(v.Headers) != 1 || v.Headers[0].Identity != x.Identity {
		t.Fatalf("the vote names commit point %d with %d headers, want 1 with x above", v.Commit, len(v.Headers))
	}
}

// Repetitions come less and less often while nothing commits, and at the first
// rate again when something does.
func TestRetransmissionBacksOff(t *testing.T) {
	c := fresh(0, 3)
	op, id := propose(t, c, "a")
	propose(t, c, "b")
	c.Ready()
	repeats := func(ticks int) (n int) {
		for range ticks {
			for i := range c.peers {
				c.peers[i].heardAt = c.now // it is heard all the time
			}
			c.Tick()
			for _, m := range c.Ready().Send {
				if m.Kind == MessagePrepare && m.Op == 2 {
					n++
				}
			}
		}
		return n
	}
	early, late := repeats(30), repeats(300)
	if early < 6 || late > 2*300/20 {
		t.Errorf("%d repetitions in 30 ticks, %d in the next 300; want at least 6, and at most %d", early, late, 2*300/20)
	}
	c.AppendDone(op, id)
	ok := told(MessagePrepareOk, 1, 0)
	ok.Op, ok.Identity = op, id
	c.Step(ok)
	if again := repeats(10); again == 0 {
		t.Error("no repetition in 10 ticks after a commit")
	}
}

// At most so many prepares are repeated at once.
func TestRetransmissionIsBounded(t *testing.T) {
	cfg := config(0, 3)
	cfg.Pipeline = PipelineCeiling
	c := New(cfg, Recovered{Fresh: true})
	for range 100 {
		propose(t, c, "a")
	}
	c.Ready()
	most := 0
	for range 40 {
		c.Tick()
		most = max(most, len(c.Ready().Send))
	}
	if limit := 2*retransmitMax + 2; most > limit || most < 2*retransmitMax {
		t.Errorf("%d messages in one tick, want %d prepares and two heartbeats at most", most, 2*retransmitMax)
	}
}

// Jitter comes from the generator that is handed in, and from nothing else.
func TestJitterComesFromTheGenerator(t *testing.T) {
	for _, draw := range []uint64{0, 5, 12} {
		cfg := config(1, 3)
		cfg.Rand = fixed(draw)
		c := New(cfg, Recovered{Fresh: true})
		n := 0
		for !c.election.suspecting {
			c.Tick()
			n++
		}
		if n != 50+int(draw) {
			t.Errorf("draw %d: the primary is suspected after %d ticks, want %d", draw, n, 50+draw)
		}
	}
}

type fixed uint64

func (f fixed) Uint64N(n uint64) uint64 { return min(uint64(f), n-1) }

// A vote that could not tell gives way to one of the same replica that can, and
// to nothing else: the first that tells stays.
func TestVoteThatCannotTellGivesWay(t *testing.T) {
	a := after(nil, 0, "a")
	b := after(a, 0, "b")
	c := fresh(1, 3)
	c.enterViewChange(1)
	c.StateDurable(State{View: 1})
	c.Step(told(MessageStartViewChange, 2, 1))
	vote := func(unknown bool, log ...*Prepare) {
		m := startView(2, 1, 0, log...)
		m.Kind, m.LogView, m.Unknown = MessageDoViewChange, 0, unknown
		if unknown {
			m.Headers = nil
		}
		c.Step(m)
	}
	vote(true, a, b)
	if c.election.merged {
		t.Fatal("decided with a vote that cannot tell about two ops")
	}
	vote(false, a, b)
	if !c.election.merged || c.target == nil || c.target.op != 2 {
		t.Fatalf("merged %t, target %+v; want the two ops that the vote tells of now", c.election.merged, c.target)
	}
}

// Whoever has not what is asked for is left for the next at once; when nobody has
// it the next attempt waits.
func TestGoneTurnsToAnother(t *testing.T) {
	c := fresh(3, 4)
	c.Step(startView(1, 1, 0, after(nil, 0, "a")))
	asked := func() (to []uint8) {
		for _, m := range c.Ready().Send {
			if m.Kind == MessageRequestPrepares {
				to = append(to, m.To)
			}
		}
		return to
	}
	gone := func(from uint8) {
		m := told(MessageGone, from, 1)
		m.Op = 1
		c.Step(m)
	}
	for i, want := range []uint8{1, 2, 0} {
		if got := asked(); len(got) != 1 || got[0] != want {
			t.Fatalf("attempt %d: asked %v, want %d", i, got, want)
		}
		gone(want)
	}
	if got := asked(); len(got) != 0 {
		t.Fatalf("asked %v at once after all had nothing", got)
	}
	for range 10 {
		c.Tick()
	}
	if got := asked(); len(got) != 1 {
		t.Fatalf("asked %v after the time for repair, want one", got)
	}
}
