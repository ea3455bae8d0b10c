package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// How a failover is measured.
const (
	gapWarm    = time.Second             // of writes before the kill
	gapAfter   = 1500 * time.Millisecond // of writes behind the first that worked again
	gapLimit   = 30 * time.Second        // without any that works
	writeLimit = 250 * time.Millisecond  // for one attempt
	writePause = 2 * time.Millisecond    // before another
)

// longestGap has one writer write, kills who leads, and returns the longest time
// between two writes that were acknowledged.
func longestGap(ctx context.Context, w write, kill func() error) (load, error) {
	g := &gap{write: w}
	if err := g.writeFor(ctx, gapWarm, gapLimit); err != nil {
		return load{}, err
	}
	if err := kill(); err != nil {
		return load{}, err
	}
	killed := time.Now()
	for g.last.Before(killed) {
		if time.Since(killed) > gapLimit {
			return load{}, fmt.Errorf("no write worked within %v of the kill", gapLimit)
		}
		if err := g.attempt(ctx); err != nil {
			return load{}, err
		}
	}
	if err := g.writeFor(ctx, gapAfter, gapLimit); err != nil {
		return load{}, err
	}
	return load{rate: g.longest.Seconds()}, nil
}

// gap is a writer and the longest time between two of its writes.
type gap struct {
	write   write
	last    time.Time // of the newest acknowledgement; zero: none yet
	longest time.Duration
}

func (g *gap) writeFor(ctx context.Context, d, limit time.Duration) error {
	for start := time.Now(); g.last.IsZero() || time.Since(start) < d; {
		if time.Since(start) > limit {
			return fmt.Errorf("no write worked within %v", limit)
		}
		if err := g.attempt(ctx); err != nil {
			return err
		}
	}
	return nil
}

// attempt is one write, which may fail. The error is that of ctx.
func (g *gap) attempt(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, writeLimit)
	err := g.write(limited)
	cancel()
	if err != nil {
		return pause(ctx, writePause)
	}
	g.acknowledged(time.Now())
	return nil
}

func (g *gap) acknowledged(at time.Time) {
	if !g.last.IsZero() {
		g.longest = max(g.longest, at.Sub(g.last))
	}
	g.last = at
}

// quantiles of durations, in ms.
func quantiles(all []time.Duration) (p50, p99 float64) {
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	at := func(q float64) float64 { return all[int(q*float64(len(all)-1))].Seconds() * 1000 }
	return at(0.5), at(0.99)
}
