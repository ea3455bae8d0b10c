package shard

import (
	"fmt"

	"galgo/internal/vsr"
)

// group runs the core of one consensus group: it feeds the log with what the
// core appends, applies what the core commits and answers who proposed it. R is
// what applying an operation yields.
type group[R any] struct {
	core  *vsr.Core
	feed  *feeder
	sync  bool   // an op counts as held when it is synced, not only written
	dirty bool   // the core has had input since the last turn
	wake  func() // asks the owner for a turn
	apply func(*vsr.Prepare) R

	// waiting holds the proposer of each op after the last applied one, in
	// order; nil where nobody waits.
	waiting []func(*vsr.Prepare, R)
	answers []answer[R] // of the present turn, reused
	writing int         // ops that the log was given and has not acknowledged
}

type answer[R any] struct {
	done    func(*vsr.Prepare, R)
	prepare *vsr.Prepare
	result  R
}

// propose puts the request into the log. done runs on the loop once it is
// committed and applied. The errors are those of Core.Propose.
func (g *group[R]) propose(r vsr.Request, done func(*vsr.Prepare, R)) error {
	if _, _, err := g.core.Propose(r); err != nil {
		return err
	}
	g.waiting = append(g.waiting, done)
	g.touch()
	return nil
}

func (g *group[R]) touch() {
	g.dirty = true
	g.wake()
}

// turn performs what the core wants done. It returns the answers that are due; the
// caller gives them after it has made the new state visible, and takes turns until
// there are none.
func (g *group[R]) turn() []answer[R] {
	clear(g.answers) // an idle group keeps nobody's batch alive
	g.answers = g.answers[:0]
	for g.dirty {
		g.dirty = false
		r := g.core.Ready()
		if len(r.Send) > 0 || r.Persist != nil || r.Truncate != nil {
			panic("shard: the core of a single replica wants to send, persist or truncate")
		}
		for _, p := range r.Append {
			g.writing++
			g.feed.prepare(p, g.sync, func() {
				g.writing--
				g.core.AppendDone(p.Op, p.Identity)
				g.touch()
			})
		}
		for _, c := range r.Commit {
			g.commit(c)
		}
	}
	return g.answers
}

func (g *group[R]) commit(c vsr.Committed) {
	if c.Prepare == nil || c.Prepare.Identity != c.Identity {
		panic(fmt.Sprintf("shard: commit of op %d names %v, which is not at hand", c.Op, c.Identity))
	}
	result := g.apply(c.Prepare)
	g.core.Applied(c.Op)
	done := g.waiting[0]
	g.waiting[0] = nil
	g.waiting = g.waiting[1:]
	if done != nil {
		g.answers = append(g.answers, answer[R]{done, c.Prepare, result})
	}
}

// abandon answers everybody who waits for an op: the group will apply none of
// them any more.
func (g *group[R]) abandon(result R) {
	waiting := g.waiting
	g.waiting = nil
	for _, done := range waiting {
		if done != nil {
			done(&vsr.Prepare{}, result)
		}
	}
}
