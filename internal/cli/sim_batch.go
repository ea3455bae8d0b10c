package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"galgo/internal/sim"
)

// simChunk is how many seeds a process plays: enough that starting it costs nothing,
// few enough that all processes end at about the same time.
const simChunk = 10

// simLineMax bounds a line of a worker in bytes.
const simLineMax = 64 << 20

// many plays seeds in processes of their own: a failure that ends a process is that
// of one seed, and costs no other.
func (f *simFlags) many(ctx context.Context, p Program, from, to uint64) error {
	if _, err := os.Executable(); err != nil {
		return fmt.Errorf("%w: %w", errNoSelf, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &simBatch{flags: f, out: p.Stdout, progress: newProgressLine(p.Stderr), next: from, last: to, cancel: cancel, retried: map[uint64]bool{}}
	var wg sync.WaitGroup
	for range f.jobs {
		wg.Go(func() { b.run(ctx) })
	}
	wg.Wait()
	b.progress.end()
	b.total.coverage.Print(p.Stdout)
	fmt.Fprintln(p.Stdout, b.total.String())
	return errors.Join(b.broken, b.total.err())
}

// simBatch hands out seeds to processes and gathers what they tell.
type simBatch struct {
	flags    *simFlags
	out      io.Writer
	progress *progressLine
	cancel   context.CancelFunc

	mu      sync.Mutex
	next    uint64
	last    uint64
	total   simTotal
	broken  error // a process that could not be started, or the command line
	retried map[uint64]bool
}

// take hands out the next seeds; false if there are none.
func (b *simBatch) take() (from, to uint64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken != nil || b.flags.untilFailure && b.total.failed > 0 {
		return 0, 0, false
	}
	from, to = b.next, b.next+simChunk-1
	if !b.flags.untilFailure {
		if from > b.last {
			return 0, 0, false
		}
		to = min(to, b.last)
	}
	b.next = to + 1
	return from, to, true
}

func (b *simBatch) run(ctx context.Context) {
	for ctx.Err() == nil {
		from, to, ok := b.take()
		if !ok {
			return
		}
		for from <= to && ctx.Err() == nil {
			from = b.play(ctx, from, to)
		}
	}
}

// play runs one process over seeds and returns the seed to go on with, which is
// behind the one at which the process ended.
func (b *simBatch) play(ctx context.Context, from, to uint64) (next uint64) {
	self, _ := os.Executable()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, b.flags.workerArgs(from, to)...)
	cmd.Env = append([]string{fmt.Sprint("GOGC=", garbagePercent)}, os.Environ()...) // a run keeps little and allocates much
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.breakOff(err)
		return to + 1
	}
	var hung atomic.Bool
	alarm := time.AfterFunc(b.flags.limit, func() { hung.Store(true); cancel() })
	seed, done := from, false
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, simLineMax)
	for lines.Scan() {
		var line simLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			continue
		}
		if line.Result != nil {
			b.add(line.Result)
			done = true
			continue
		}
		alarm.Reset(b.flags.limit)
		seed, done = line.Begin, false
	}
	alarm.Stop()
	err = cmd.Wait()
	switch {
	case done && seed == to:
		return to + 1
	case hung.Load() && cmd.ProcessState.UserTime() < b.flags.limit/4 && b.again(seed):
		return seed // it was kept from running
	case hung.Load():
		b.lost(seed, "hang", fmt.Sprintf("no end after %v of real time", b.flags.limit))
	case ctx.Err() != nil: // somebody wanted it to end
		return to + 1
	case exitStatus(err) == ExitUsage:
		b.breakOff(errors.New(strings.TrimSpace(complaint.String())))
		return to + 1
	default:
		b.lost(seed, "process", fmt.Sprintf("%v\n%s", err, head(complaint.String(), 60)))
	}
	return seed + 1
}

func exitStatus(err error) Exit {
	var e *exec.ExitError
	if errors.As(err, &e) {
		return Exit(e.ExitCode())
	}
	return ExitOK
}

// workerArgs is the command line of a process that plays seeds.
func (f *simFlags) workerArgs(from, to uint64) []string {
	args := []string{"sim", "--worker", "--seeds", fmt.Sprintf("%d..%d", from, to)}
	if f.replicas > 0 {
		args = append(args, "--replicas", strconv.Itoa(f.replicas))
	}
	if f.steps > 0 {
		args = append(args, "--steps", strconv.Itoa(f.steps))
	}
	if f.faults != "" {
		args = append(args, "--faults", f.faults)
	}
	return args
}

// add takes the end of a seed.
func (b *simBatch) add(r *sim.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total.add(r)
	if r.Failure != nil {
		b.progress.end()
		b.flags.report(b.out, r)
		if b.flags.untilFailure {
			b.cancel()
		}
	}
	b.progress.show(b.total.String())
}

// again reports whether a seed may be played once more.
func (b *simBatch) again(seed uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.retried[seed]
	b.retried[seed] = true
	return !was
}

// lost is the failure of a seed that took its process with it.
func (b *simBatch) lost(seed uint64, check, detail string) {
	b.add(&sim.Result{Seed: seed, Plan: "?", Failure: &sim.Failure{Check: check, Detail: detail}})
}

func (b *simBatch) breakOff(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = errors.Join(b.broken, err)
}

// head returns the first lines of a text.
func head(text string, lines int) string {
	all := strings.Split(text, "\n")
	return strings.Join(all[:min(lines, len(all))], "\n")
}

// progressLine is one line that is written over and over.
type progressLine struct {
	out  io.Writer
	last time.Time
	open bool
}

func newProgressLine(out io.Writer) *progressLine { return &progressLine{out: out} }

// show writes the line, at most once a second.
func (p *progressLine) show(text string) {
	if time.Since(p.last) < time.Second {
		return
	}
	p.last, p.open = time.Now(), true
	fmt.Fprintf(p.out, "\r%s", text)
}

// end leaves the line as it is.
func (p *progressLine) end() {
	if p.open {
		fmt.Fprintln(p.out)
	}
	p.open = false
}
