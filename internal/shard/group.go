package shard

import (
	"fmt"

	"galgo"
	"galgo/internal/vsr"
	"galgo/internal/wal"
)

// group runs the core of one consensus group: it feeds the log with what the core
// appends, applies what it commits, answers who proposed it, and does for other
// replicas what the core asks for. R is what applying an operation yields.
type group[R any] struct {
	late   *vsr.Core // as of the last tick that it was told of: see core
	passed uint64    // that tick
	ticks  *uint64   // of the loop

	id    vsr.GroupID
	log   *wal.Log
	feed  *feeder
	exec  Executor
	net   Network
	note  func(msg string, args ...any)
	sync  bool   // an op counts as held when it is synced, not only written
	dirty bool   // the core has had input since the last turn
	wake  func() // asks the owner for a turn
	apply func(*vsr.Prepare) R
	// persist makes what the replica promised durable and calls done then.
	persist func(s vsr.State, done func())
	// transfer does a step of serving or taking a checkpoint.
	transfer func(vsr.Transfer)

	// waiting holds who proposed an op that is not applied yet, by ascending op.
	waiting []waiter[R]
	answers []answer[R] // of the present turn, reused
	// recovered are the prepares that were in the log at start and are not applied
	// yet, in order: the core has their headers only.
	recovered []*vsr.Prepare
	writing   int  // records that the log was given and has not acknowledged
	unborn    bool // nothing may leave yet, see begin
	news      news // what was told of views, repairs and transfers
	gone      bool // nothing is handed to the core any more
}

// waiter is told the outcome of an op: done if it was applied, else lost, with the
// code for the client.
type waiter[R any] struct {
	op       vsr.Op
	identity vsr.Identity
	done     func(*vsr.Prepare, R)
	lost     func(galgo.Code)
}

// answer is an applied op; done is nil where nobody here waits for it.
type answer[R any] struct {
	done    func(*vsr.Prepare, R)
	prepare *vsr.Prepare
	result  R
}

// propose puts the request into the log. done runs on the loop once it is committed
// and applied; lost, if that will not be seen here. The errors are those of
// Core.Propose.
func (g *group[R]) propose(r vsr.Request, done func(*vsr.Prepare, R), lost func(galgo.Code)) error {
	op, identity, err := g.core().Propose(r)
	if err != nil {
		return err
	}
	g.waiting = append(g.waiting, waiter[R]{op, identity, done, lost})
	g.touch()
	return nil
}

// behind: others may know what this primary has not applied yet, because its own disk
// is slower than theirs. It must not refuse for good what they have seen.
func (g *group[R]) behind() bool { return g.net != nil && g.core().CommitMin() < g.core().CommitMax() }

// begin starts a group that this disk has never heard of. The primary of its first view
// must be known to have begun before others hear of it: an op that it sends need not be
// on its own disk, so after a crash it would begin again, and give another op the same
// place in the same view. A backup leaves a trace with the first op that it holds.
func (g *group[R]) begin(replica uint8) {
	if g.net == nil || g.core().Primary() != replica {
		return
	}
	g.unborn = true
	g.writing++
	g.persist(g.core().View(), func() {
		g.writing--
		g.unborn = false
		g.touch()
	})
}

// step takes a message. Before the group has begun it would only gather answers that
// may not leave, for as long as the disk is full.
func (g *group[R]) step(m vsr.Message) {
	if !g.unborn {
		g.core().Step(m)
		g.touch()
	}
}

// core is the consensus of the group as of now. Nobody looks at one that dozes, so what time
// has passed meanwhile it is told when something is wanted of it.
func (g *group[R]) core() *vsr.Core {
	if now := *g.ticks; now != g.passed {
		if !g.unborn {
			g.late.Pass(now - g.passed)
		}
		g.passed = now
	}
	return g.late
}

// tick is called when time has passed, but not for each tick that the core dozes through.
// Most often nothing comes of it.
func (g *group[R]) tick() {
	if g.core().Due() {
		g.touch()
	}
}

func (g *group[R]) touch() {
	g.dirty = true
	g.wake()
}

// turn performs what the core wants done. It returns the ops that were applied; the
// caller answers them after it has made the new state visible, and takes turns until
// there are none.
func (g *group[R]) turn() []answer[R] {
	clear(g.answers) // an idle group keeps nobody's batch alive
	g.answers = g.answers[:0]
	for g.dirty && !g.gone && !g.unborn {
		g.dirty = false
		r := g.core().Ready()
		g.store(&r)
		for i := range r.Send {
			g.net.Send(r.Send[i])
		}
		for i := range r.Commit {
			g.commit(&r.Commit[i])
		}
		for _, read := range r.Read {
			g.read(read)
		}
		for _, t := range r.Transfer {
			g.transfer(t)
		}
		g.core().Reuse(&r)
		g.news.tell(g.id, g.core())
	}
	return g.answers
}

// store gives the log what has to be durable, in the order that the core asks for:
// the log keeps it.
func (g *group[R]) store(r *vsr.Ready) {
	if r.Truncate != nil {
		if !r.Fits() {
			g.cut(*r.Truncate)
		}
		g.loseAbove(*r.Truncate)
	}
	for _, p := range r.Append {
		g.writing++
		g.feed.prepare(p, g.sync, func() {
			g.writing--
			if !g.gone {
				g.core().AppendDone(p.Op, p.Identity)
			}
			g.touch()
		})
	}
	if r.Persist != nil {
		s := *r.Persist
		g.writing++
		g.persist(s, func() {
			g.writing--
			if !g.gone {
				g.core().StateDurable(s)
			}
			g.touch()
		})
	}
}

// cut drops what the log of a new view does not hold.
func (g *group[R]) cut(op vsr.Op) {
	g.writing++
	g.feed.append(wal.Record{Kind: wal.KindTruncate, Group: g.id, Op: op}, true, func() {
		g.writing--
		g.touch()
	})
}

// loseAbove answers those who wait for what is above op. Who proposed it cannot be told
// that it never will be: a later view may still find it elsewhere.
func (g *group[R]) loseAbove(op vsr.Op) {
	for len(g.recovered) > 0 && g.recovered[len(g.recovered)-1].Op > op {
		g.recovered = g.recovered[:len(g.recovered)-1]
	}
	kept := len(g.waiting)
	for kept > 0 && g.waiting[kept-1].op > op {
		kept--
	}
	g.lose(kept, len(g.waiting), galgo.CodeTransientNotCommitted)
}

// lose takes the waiters from..to away and tells them code.
func (g *group[R]) lose(from, to int, code galgo.Code) {
	lost := append([]waiter[R](nil), g.waiting[from:to]...)
	rest := append(g.waiting[:from], g.waiting[to:]...)
	clear(g.waiting[len(rest):])
	g.waiting = rest
	for i := range lost {
		if lost[i].lost != nil {
			lost[i].lost(code)
		}
	}
}

func (g *group[R]) commit(c *vsr.Committed) {
	p := c.Prepare
	if p == nil && len(g.recovered) > 0 {
		p = g.recovered[0]
	}
	if p == nil || p.Op != c.Op || p.Identity != c.Identity {
		panic(fmt.Sprintf("shard: group %d: commit of op %d names %v, which is not at hand", g.id, c.Op, c.Identity))
	}
	if len(g.recovered) > 0 && g.recovered[0].Op == c.Op {
		g.recovered = g.recovered[1:]
	}
	result := g.apply(p)
	g.core().Applied(c.Op)
	g.dirty = g.dirty || g.net != nil // applying makes room for what is to be repaired
	g.answers = append(g.answers, answer[R]{g.waiterOf(p), p, result})
}

// waiterOf takes out who waits for the op. Somebody who waits for another prepare in
// its place was told so when that was cut.
func (g *group[R]) waiterOf(p *vsr.Prepare) func(*vsr.Prepare, R) {
	if len(g.waiting) == 0 || g.waiting[0].op > p.Op {
		return nil
	}
	w := g.waiting[0]
	if w.op != p.Op || w.identity != p.Identity {
		panic(fmt.Sprintf("shard: group %d: op %d is applied as %v, somebody waits for op %d, %v", g.id, p.Op, p.Identity, w.op, w.identity))
	}
	g.waiting[0] = waiter[R]{}
	g.waiting = g.waiting[1:]
	return w.done
}

// skip forgets what lies up to op: a checkpoint that came from elsewhere has it, so
// nobody here learns how it ended. With all, what lies above is gone as well.
func (g *group[R]) skip(op vsr.Op, all bool) {
	for len(g.recovered) > 0 && (all || g.recovered[0].Op <= op) {
		g.recovered = g.recovered[1:]
	}
	n := 0
	for n < len(g.waiting) && (all || g.waiting[n].op <= op) {
		n++
	}
	g.lose(0, n, galgo.CodeTransientNotCommitted)
}

// uncommitted shows the prepares that the log holds above the last applied op.
func (g *group[R]) uncommitted(visit func(*vsr.Prepare)) {
	g.core().Uncommitted(func(h *vsr.Header, p *vsr.Prepare) {
		if p == nil {
			p = g.recovered[h.Op-g.recovered[0].Op]
		}
		visit(p)
	})
}

// abandon ends the group: it will apply nothing any more, and who waits is told.
func (g *group[R]) abandon(code galgo.Code) {
	g.gone = true
	g.lose(0, len(g.waiting), code)
}

// read answers another replica from the log. What does not verify is not there.
func (g *group[R]) read(r vsr.Read) {
	var found []*vsr.Prepare
	g.exec.Go(LaneTransfer, func() (err error) {
		found, err = readFor(g.log, g.id, r)
		return err
	}, func(err error) {
		if err != nil {
			g.note("a peer asked for an op that cannot be read", "group", g.id, "op", r.Op, "err", err)
		}
		if g.gone {
			return
		}
		g.core().Fetched(r, found)
		g.touch()
	})
}

// readFor finds the prepare, or as many headers below it as there are, for a peer.
func readFor(log *wal.Log, group vsr.GroupID, r vsr.Read) ([]*vsr.Prepare, error) {
	first := log.First(group) // before the next: the loop may free ops meanwhile
	if id, ok := log.Identity(group, r.Op); !ok || id != r.Identity {
		return nil, nil
	}
	if r.Low == 0 {
		if r.Op < first {
			return nil, nil // its header is there, as the commit point
		}
		p, err := log.Read(group, r.Op)
		if err != nil || p.Identity != r.Identity {
			return nil, gone(err)
		}
		return []*vsr.Prepare{&p}, nil
	}
	low := max(r.Low, first)
	found := make([]*vsr.Prepare, 0, r.Op+1-low)
	for op := low; op <= r.Op; op++ {
		h, err := log.Header(group, op)
		if err != nil {
			return nil, gone(err)
		}
		found = append(found, &vsr.Prepare{Header: h})
	}
	return found, nil
}
