package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// sample is one run of a job, and what it cost.
type sample struct {
	load
	tool    string
	count   int
	server  float64 // processor seconds of the servers
	peak    int64   // bytes of the server with the most memory
	foreign float64 // share of the machine that others had
}

// pair is what one turn of both systems gave for a row.
type pair struct {
	ours, theirs sample
	bare         float64 // rate of the bare program; 0 if it was not run
}

// result is what was measured of a row.
type result struct {
	pairs   []pair
	dropped int
	tools   map[string]bool // ways of the peer that are still run; nil: all
}

// bench is a run of the program.
type bench struct {
	options
	talk    io.Writer
	results map[string]*result
	runs    int
}

// preparer is a system that has to do something before a job that is not measured.
type preparer interface {
	prepare(ctx context.Context, j job) error
}

// stageLimit bounds one system's turn of a stage.
const stageLimit = 10 * time.Minute

func (b *bench) all(ctx context.Context, stages []stage) error {
	for _, s := range stages {
		for n := range b.pairs {
			if err := b.pair(ctx, s, n); err != nil {
				return fmt.Errorf("%s, pair %d: %w", s.name, n+1, err)
			}
		}
	}
	return nil
}

// pair runs galgo and then the peer, each on a fresh directory.
func (b *bench) pair(ctx context.Context, s stage, n int) error {
	start := time.Now()
	ours, err := b.turn(ctx, s.ours, s.warm, s.rows, func(r row) []job { return []job{r.ours} })
	if err != nil {
		return fmt.Errorf("galgo: %w", err)
	}
	theirs, err := b.turn(ctx, s.theirs, s.warmed, s.rows, func(r row) []job { return b.result(r).kept(r.theirs) })
	if err != nil {
		return fmt.Errorf("the peer: %w", err)
	}
	bare, err := b.bareTurn(ctx, s)
	if err != nil {
		return fmt.Errorf("the bare program: %w", err)
	}
	for i, r := range s.rows {
		b.result(r).add(r, ours[i][0], theirs[i], bare[r.id], b.foreign)
		best := b.result(r).best(r, theirs[i])
		fmt.Fprintf(b.talk, "%-4s pair %d: galgo %s, %s %s, ratio %.2f, others %.0f and %.0f %%\n",
			r.id, n+1, figure(r, ours[i][0].rate), r.beside, figure(r, best.rate), ours[i][0].rate/best.rate, 100*ours[i][0].foreign, 100*best.foreign)
	}
	fmt.Fprintf(b.talk, "%s: pair %d took %v\n", s.name, n+1, time.Since(start).Round(100*time.Millisecond))
	return nil
}

// bareTurn runs the bare program on the rows that it can do, and gives its rates.
func (b *bench) bareTurn(ctx context.Context, s stage) (rates map[string]float64, err error) {
	var rows []row
	for _, r := range s.rows {
		if r.bare != nil {
			rows = append(rows, r)
		}
	}
	rates = map[string]float64{}
	if !b.bare || s.bare == nil || len(rows) == 0 {
		return rates, nil
	}
	samples, err := b.turn(ctx, s.bare, job{}, rows, func(r row) []job { return []job{*r.bare} })
	for i := range samples {
		rates[rows[i].id] = samples[i][0].rate
	}
	return rates, err
}

func (b *bench) result(r row) *result {
	if b.results[r.id] == nil {
		b.results[r.id] = &result{}
	}
	return b.results[r.id]
}

// turn runs the jobs of all rows on one system.
func (b *bench) turn(ctx context.Context, start starter, warm job, rows []row, jobs func(row) []job) (samples [][]sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, stageLimit)
	defer cancel()
	b.runs++
	dir := filepath.Join(b.dir, fmt.Sprint("run-", b.runs))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	s, err := start(ctx, &b.options, dir)
	if err != nil {
		return nil, err // the directory stays: its logs tell why
	}
	defer func() {
		s.stop()
		if err == nil {
			err = removeAll(dir)
		}
	}()
	if warm.kind != "" {
		if _, err := s.run(ctx, warm.scaled(b.scale)); err != nil {
			return nil, err
		}
	}
	done := map[job]sample{} // two rows may be compared with the same job
	for _, r := range rows {
		var all []sample
		for _, j := range jobs(r) {
			one, ok := done[j]
			if !ok {
				if one, err = b.measure(ctx, s, j.scaled(b.scale)); err != nil {
					return nil, fmt.Errorf("%s: %w", r.id, err)
				}
				done[j] = one
			}
			all = append(all, one)
		}
		samples = append(samples, all)
	}
	return samples, nil
}

// measure runs a job and notes what it cost, on a machine as quiet as it gets.
func (b *bench) measure(ctx context.Context, s system, j job) (sample, error) {
	if p, ok := s.(preparer); ok {
		if err := p.prepare(ctx, j); err != nil {
			return sample{}, err
		}
	}
	if err := awaitQuiet(ctx, b.quiet); err != nil {
		return sample{}, err
	}
	var before float64
	for _, p := range s.servers() {
		if err := p.resetPeak(); err != nil {
			return sample{}, err
		}
		before += p.cpu()
	}
	from, err := now()
	if err != nil {
		return sample{}, err
	}
	l, err := s.run(ctx, j)
	if err != nil {
		return sample{}, err
	}
	to, err := now()
	if err != nil {
		return sample{}, err
	}
	out := sample{load: l, tool: j.tool, count: j.count}
	for _, p := range s.servers() {
		out.server += p.cpu()
		out.peak = max(out.peak, p.peak())
	}
	out.server = max(0, out.server-before)
	out.foreign = foreignShare(from, to, out.server+l.cpu)
	if j.kind == failover || j.kind == recovery {
		out.server, out.foreign = 0, 0 // a server that was killed took its processor time with it
	}
	if l.rate <= 0 {
		return out, errors.New("the tool reports nothing done")
	}
	return out, nil
}

// keepWay is how much of the best of its ways one must reach in the first pair to be
// run in those that follow.
const keepWay = 0.85

// kept are the ways of the peer that are worth a run.
func (r *result) kept(all []job) (jobs []job) {
	for _, j := range all {
		if r.tools == nil || r.tools[j.tool] {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// add takes a pair; it is dropped when others used too much of the machine.
func (r *result) add(row row, ours sample, theirs []sample, bare, foreign float64) {
	best := r.best(row, theirs)
	if r.tools == nil {
		r.tools = map[string]bool{}
		for _, t := range theirs {
			r.tools[t.tool] = better(row, t.rate, best.rate*keepWay) || t.tool == best.tool
		}
	}
	if ours.foreign > foreign || best.foreign > foreign {
		r.dropped++
		return
	}
	r.pairs = append(r.pairs, pair{ours, best, bare})
}

func better(r row, a, b float64) bool { return a > b != r.less }

func (r *result) best(row row, all []sample) sample {
	best := all[0]
	for _, s := range all[1:] {
		if better(row, s.rate, best.rate) {
			best = s
		}
	}
	return best
}
