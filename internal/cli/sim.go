package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"time"

	"galgo/internal/sim"
)

// simFlags say which runs of the simulator to make.
type simFlags struct {
	seed         uint64
	seeds        string
	replicas     int
	steps        int
	faults       string
	trace        bool
	untilFailure bool
	jobs         int
	limit        time.Duration
	worker       bool
}

func simCommand() *command {
	f := simFlags{}
	return &command{
		use: "sim", short: "Run whole clusters in virtual time, with everything that may go wrong", args: exactly(0), plain: true,
		long: `Run whole clusters in one goroutine and virtual time, with crashes, faulty disks and
networks, and clients that check every answer. All of a run follows from its seed.
Many seeds run in processes of their own. docs/simulator.md says what is checked.

Faults: all, none, or any of ` + strings.Join(sim.FaultNames(), ", ") + `.`,
		example: `  galgo sim --seed 7 --trace
  galgo sim --seeds 1..1000
  galgo sim --seeds 1.. --until-failure --replicas 3`,
		flags: f.register,
		run: func(ctx context.Context, e *env, _ []string) error {
			from, to, err := f.check()
			switch {
			case err != nil:
				return err
			case f.worker:
				return f.work(ctx, e.program.Stdout, from, to)
			case f.seeds == "":
				return f.one(e.program.Stdout)
			}
			return f.many(ctx, e.program, from, to)
		},
	}
}

func (f *simFlags) register(fs *flagSet) {
	fs.Uint64Var(&f.seed, "seed", 1, "the run to make")
	fs.StringVar(&f.seeds, "seeds", "", "A..B, many runs; A.. ends at the first failure")
	fs.IntVar(&f.replicas, "replicas", 0, "nodes of the cluster, 1 to 6 (default: drawn from the seed)")
	fs.IntVar(&f.steps, "steps", 0, "events until all faults end (default: drawn from the seed)")
	fs.StringVar(&f.faults, "faults", "", "what may go wrong, separated by commas (default: drawn from the seed)")
	fs.BoolVar(&f.trace, "trace", false, "print every event")
	fs.BoolVar(&f.untilFailure, "until-failure", false, "go on behind the last seed, until one fails")
	fs.IntVarP(&f.jobs, "jobs", "j", runtime.NumCPU(), "processes")
	fs.DurationVar(&f.limit, "limit", 5*time.Minute, "of real time for a seed: one that takes longer has failed")
	fs.BoolVar(&f.worker, "worker", false, "print results for the process that started this one")
	_ = fs.MarkHidden("worker")
}

// simReplicasMax is how many nodes a seed may draw.
const simReplicasMax = 6

func (f *simFlags) check() (from, to uint64, err error) {
	switch {
	case f.replicas < 0 || f.replicas > simReplicasMax:
		return 0, 0, usagef("--replicas %d: want 1..%d", f.replicas, simReplicasMax)
	case f.steps < 0:
		return 0, 0, usagef("--steps %d: must not be negative", f.steps)
	case f.jobs < 1:
		return 0, 0, usagef("--jobs %d: want at least 1", f.jobs)
	}
	if f.seeds == "" {
		if f.untilFailure {
			f.seeds = fmt.Sprintf("%d..", f.seed)
		} else {
			return f.seed, f.seed, nil
		}
	}
	a, b, ranged := strings.Cut(f.seeds, "..")
	from, err1 := strconv.ParseUint(a, 10, 64)
	if b == "" && ranged {
		f.untilFailure = true
		b = a
	}
	to, err2 := strconv.ParseUint(b, 10, 64)
	if !ranged || err1 != nil || err2 != nil || to < from {
		return 0, 0, usagef("--seeds %q: want A..B or A..", f.seeds)
	}
	return from, to, nil
}

func (f *simFlags) options(seed uint64) sim.Options {
	o := sim.Options{Seed: seed, Replicas: f.replicas, Steps: f.steps}
	if f.faults != "" {
		o.Faults = strings.Split(f.faults, ",")
	}
	return o
}

// command is what plays a seed again.
func (f *simFlags) command(seed uint64) string {
	words := fmt.Sprintf("galgo sim --seed %d", seed)
	if f.replicas > 0 {
		words += fmt.Sprintf(" --replicas %d", f.replicas)
	}
	if f.steps > 0 {
		words += fmt.Sprintf(" --steps %d", f.steps)
	}
	if f.faults != "" {
		words += " --faults " + f.faults
	}
	return words
}

// one makes a single run and tells all of it.
func (f *simFlags) one(out io.Writer) error {
	o := f.options(f.seed)
	if f.trace {
		o.Trace = out
	}
	r, err := sim.Run(o)
	if err != nil {
		return usagef("%v", err)
	}
	if r.Failure != nil {
		f.report(out, &r)
	} else {
		fmt.Fprintf(out, "seed %d: %s\n", r.Seed, r.Plan)
		r.Coverage.Print(out)
	}
	fmt.Fprintf(out, "trace hash %016x\n", r.Hash)
	total := simTotal{}
	total.add(&r)
	fmt.Fprintln(out, total.String())
	return total.err()
}

// report writes down a failure so that it can be worked on.
func (f *simFlags) report(out io.Writer, r *sim.Result) {
	fmt.Fprintf(out, "FAILED seed %d: %s\n", r.Seed, r.Plan)
	if len(r.Events) > 0 {
		fmt.Fprintln(out, "the last events (step, time in s, what):")
	}
	for _, line := range r.Events {
		fmt.Fprintln(out, line)
	}
	fmt.Fprintf(out, "seed %d: %v\nreplay: %s --trace\n", r.Seed, r.Failure, f.command(r.Seed))
}

// simTotal sums up runs.
type simTotal struct {
	seeds, failed int
	steps         uint64
	time          int64 // µs of virtual time
	coverage      sim.Coverage
}

func (t *simTotal) add(r *sim.Result) {
	t.seeds++
	t.steps += uint64(r.Steps)
	t.time += r.Time
	t.coverage.Add(&r.Coverage)
	if r.Failure != nil {
		t.failed++
	}
}

func (t *simTotal) String() string {
	return fmt.Sprintf("%d seeds, %d failed, %d steps, %.2f simulated hours", t.seeds, t.failed, t.steps, float64(t.time)/3.6e9)
}

func (t *simTotal) err() error {
	if t.failed == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d seeds failed", t.failed, t.seeds)
}

// simLine is what a worker tells: that it begins a seed, or how that ended.
type simLine struct {
	Begin  uint64      `json:"begin,omitempty"`
	Result *sim.Result `json:"result,omitempty"`
}

// work plays seeds one after the other for another process.
func (f *simFlags) work(ctx context.Context, out io.Writer, from, to uint64) error {
	enc := json.NewEncoder(out)
	for seed := from; seed <= to && ctx.Err() == nil; seed++ {
		if err := enc.Encode(simLine{Begin: seed}); err != nil {
			return err
		}
		r, err := sim.Run(f.options(seed))
		if err != nil {
			return usagef("%v", err)
		}
		if err := enc.Encode(simLine{Result: &r}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// errNoSelf: the program cannot start itself again.
var errNoSelf = errors.New("many seeds need the program as a file that can be started again")
