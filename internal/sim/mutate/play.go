package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"galgo/internal/sim"
)

const (
	// chunk is how many seeds a process plays.
	chunk = 8
	// chunkLimit is of real time: seeds that do not end have failed.
	chunkLimit = 20 * time.Minute
	// garbagePercent has seeds played with few collections: a run keeps little and allocates much.
	garbagePercent = 400
)

// play makes the runs of some seeds, one after the other.
func play(out io.Writer, seeds string) error {
	var from, to uint64
	if _, err := fmt.Sscanf(seeds, "%d..%d", &from, &to); err != nil {
		return fmt.Errorf("-play %q: want A..B: %w", seeds, err)
	}
	debug.SetGCPercent(garbagePercent)
	for seed := from; seed <= to; seed++ {
		fmt.Fprintf(out, "begins %d\n", seed)
		r, err := sim.Run(sim.Options{Seed: seed})
		if err != nil {
			return err
		}
		if r.Failure != nil {
			fmt.Fprintf(out, "seed %d: %v\n", seed, r.Failure)
			return errors.New("a seed has failed")
		}
	}
	return nil
}

// search has processes play chunks of seeds, and keeps the first seed that fails.
func search(r *result, binary string, o options) error {
	var (
		mu   sync.Mutex
		next int
		bad  error
		wg   sync.WaitGroup
	)
	take := func() (from, to int, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		from, to = next, min(next+chunk, o.seeds)-1
		if from > to || r.seed >= 0 || bad != nil {
			return 0, 0, false
		}
		next = to + 1
		return from, to, true
	}
	found := func(seed int, check string, err error) {
		mu.Lock()
		defer mu.Unlock()
		bad = errors.Join(bad, err)
		if err == nil && (r.seed < 0 || seed < r.seed) {
			r.seed, r.check = seed, shorten(check)
		}
	}
	for range max(1, o.jobs) {
		wg.Go(func() {
			for {
				from, to, ok := take()
				if !ok {
					return
				}
				if seed, check, failed, err := playChunk(binary, from, to); failed || err != nil {
					found(seed, check, err)
				}
			}
		})
	}
	wg.Wait()
	return bad
}

// playChunk plays seeds in a process of their own, which may also die or not end.
func playChunk(binary string, from, to int) (seed int, check string, failed bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), chunkLimit)
	defer cancel()
	text, err := exec.CommandContext(ctx, binary, "-play", fmt.Sprintf("%d..%d", from, to)).CombinedOutput()
	if err == nil {
		return 0, "", false, nil
	}
	if _, ended := errors.AsType[*exec.ExitError](err); !ended {
		return 0, "", false, err
	}
	if found := failedSeed.FindSubmatch(text); found != nil {
		seed, err = strconv.Atoi(string(found[1]))
		return seed, string(found[2]), true, err
	}
	seed = from
	lines := strings.Split(string(text), "\n")
	for _, line := range lines {
		_, _ = fmt.Sscanf(line, "begins %d", &seed)
	}
	if ctx.Err() != nil {
		return seed, fmt.Sprintf("the run does not end within %v", chunkLimit), true, nil
	}
	if found := panicked.FindSubmatch(text); found != nil {
		return seed, string(found[1]), true, nil
	}
	return 0, "", false, fmt.Errorf("seeds %d..%d end without a word: %w\n%s", from, to, err, text)
}
