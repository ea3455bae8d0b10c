package sim

import (
	"io"
)

// Options of a run.
type Options struct {
	Seed     uint64
	Replicas int      // 0: drawn
	Steps    int      // until all faults end; 0: drawn
	Faults   []string // see FaultNames; none: drawn
	Trace    io.Writer
}

// Result is how a run ended.
type Result struct {
	Seed     uint64   `json:"seed"`
	Replicas int      `json:"replicas"`
	Plan     string   `json:"plan"`
	Steps    int      `json:"steps"`
	Time     int64    `json:"time"` // µs of virtual time
	Hash     uint64   `json:"hash"`
	Coverage Coverage `json:"coverage"`
	Failure  *Failure `json:"failure,omitempty"`
	Events   []string `json:"events,omitempty"` // the last before the failure
}

// Run plays a seed. One that fails is played again, to write down its last events.
// The error is that of the options.
func Run(o Options) (Result, error) {
	w, err := play(o, o.Trace != nil)
	if err != nil {
		return Result{}, err
	}
	r := w.result(o)
	if r.Failure == nil || o.Trace != nil {
		return r, nil
	}
	again, err := play(o, true)
	if err != nil {
		return r, err
	}
	r.Events = again.trace.events()
	if again.trace.hash != w.trace.hash {
		r.Events = append(r.Events, "this is another run: the same seed did not give the same events, which is a failure in itself")
	}
	return r, nil
}

func (w *world) result(o Options) Result {
	return Result{
		Seed: o.Seed, Replicas: w.plan.replicas, Plan: w.plan.String(), Steps: w.steps, Time: w.now, Hash: w.trace.hash,
		Coverage: w.cover, Failure: w.failure, Events: nil,
	}
}

// play runs a seed from beginning to end.
func play(o Options, traced bool) (*world, error) {
	p, err := draw(o)
	if err != nil {
		return nil, err
	}
	w := &world{seed: o.Seed, plan: p}
	w.trace.on, w.trace.out = traced, o.Trace
	w.say("seed %d: %v", o.Seed, &w.plan)
	w.net, w.nemesis, w.echoes, w.model, w.checks = newNetwork(w), newNemesis(w), newEchoes(w), newModel(w), newChecks(w)
	for i := range p.replicas {
		w.nodes = append(w.nodes, w.newNode(uint8(i)))
	}
	w.crowd = newCrowd(w)
	w.guard(func() {
		for _, n := range w.nodes {
			n.start()
		}
		w.crowd.begin()
		w.nemesis.begin()
	})
	for w.steps < p.steps && w.step() {
	}
	if w.failure == nil && !w.over {
		w.converge()
	}
	return w, nil
}

// calmMax bounds how long a healed cluster may need until all replicas agree and
// nobody waits for anything.
const calmMax = 120 * second

// converge ends all faults, and wants an end of all that was begun.
func (w *world) converge() {
	w.guard(w.nemesis.end)
	until := w.now + calmMax
	for w.step() && w.now < until {
		if w.steps%64 == 0 && w.settled() == "" {
			break
		}
	}
	if w.failure != nil || w.over {
		return
	}
	if left := w.settled(); left != "" {
		w.fail("liveness", "%d s after all faults have ended: %s", calmMax/second, left)
		return
	}
	w.say("all agree")
	w.guard(w.finish)
}
