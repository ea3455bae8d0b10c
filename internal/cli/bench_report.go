package cli

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// progress shows on a terminal how far a benchmark is.
type progress struct {
	done  atomic.Uint64
	quit  chan struct{}
	ended sync.WaitGroup
}

const progressInterval = 500 * time.Millisecond

// startProgress starts the line; where nobody looks it only counts.
func startProgress(e *env) *progress {
	p := &progress{quit: make(chan struct{})}
	if e.globals.quiet || !isTerminal(e.program.Stderr) {
		return p
	}
	p.ended.Go(func() {
		tick := time.NewTicker(progressInterval)
		defer tick.Stop()
		start, last := time.Now(), uint64(0)
		for {
			select {
			case <-p.quit:
				e.saySame("\r\x1b[K")
				return
			case <-tick.C:
			}
			done := p.done.Load()
			rate := float64(done-last) / progressInterval.Seconds()
			last = done
			e.saySame("\r\x1b[K%d done, %.0f/s, %v", done, rate, time.Since(start).Round(time.Second))
		}
	})
	return p
}

func (p *progress) stop() {
	close(p.quit)
	p.ended.Wait()
}

// sideReport is what one side of a benchmark reached.
type sideReport struct {
	Name      string  `json:"name"`
	Messages  uint64  `json:"messages"`
	Batches   uint64  `json:"batches"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"messages_per_second"`
	MBps      float64 `json:"megabytes_per_second"`
	latencies
}

// latencies are of batches, in ms.
type latencies struct {
	Mean float64 `json:"mean_ms"`
	P50  float64 `json:"p50_ms"`
	P90  float64 `json:"p90_ms"`
	P99  float64 `json:"p99_ms"`
	P999 float64 `json:"p999_ms"`
	Max  float64 `json:"max_ms"`
}

func (s *side) summary(size int) sideReport {
	var h histogram
	r := sideReport{Name: s.name, Seconds: s.took.Seconds()}
	for i := range s.workers {
		h.merge(&s.workers[i].latency)
		r.Messages += s.workers[i].messages
	}
	r.Batches = h.count
	r.PerSecond = float64(r.Messages) / r.Seconds
	r.MBps = r.PerSecond * float64(size) / 1e6
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	r.latencies = latencies{
		ms(h.mean()), ms(h.quantile(0.5)), ms(h.quantile(0.9)), ms(h.quantile(0.99)), ms(h.quantile(0.999)), ms(h.max),
	}
	return r
}

func report(e *env, f *benchFlags, kind string, sides []*side) error {
	v := struct {
		Kind       string       `json:"kind"`
		Clients    int          `json:"clients"`
		InFlight   int          `json:"in_flight"`
		Partitions uint32       `json:"partitions"`
		Size       int          `json:"message_size_bytes"`
		Batch      int          `json:"messages_per_batch"`
		Sides      []sideReport `json:"results"`
	}{kind, f.clients, f.inFlight, f.partitions, f.size, f.batch, nil}
	t := table{{"", "Messages", "Seconds", "Messages/s", "MB/s", "Mean (ms)", "p50", "p90", "p99", "p99.9", "Max"}}
	for _, s := range sides {
		r := s.summary(f.size)
		v.Sides = append(v.Sides, r)
		t.add(r.Name, r.Messages, decimal(r.Seconds), fmt.Sprintf("%.0f", r.PerSecond), fmt.Sprintf("%.1f", r.MBps),
			decimal(r.Mean), decimal(r.P50), decimal(r.P90), decimal(r.P99), decimal(r.P999), decimal(r.Max))
	}
	return e.print(v, t)
}

func reportOperations(e *env, f *benchFlags, s *side) error {
	r := s.summary(0)
	v := struct {
		Kind       string  `json:"kind"`
		Clients    int     `json:"clients"`
		Operations uint64  `json:"operations"`
		Seconds    float64 `json:"seconds"`
		PerSecond  float64 `json:"operations_per_second"`
		latencies
	}{"metadata", f.clients, r.Messages, r.Seconds, r.PerSecond, r.latencies}
	t := table{{"Operations", "Seconds", "Operations/s", "Mean (ms)", "p50", "p90", "p99", "p99.9", "Max"}}
	t.add(v.Operations, decimal(v.Seconds), fmt.Sprintf("%.0f", v.PerSecond), decimal(v.Mean), decimal(v.P50), decimal(v.P90), decimal(v.P99), decimal(v.P999), decimal(v.Max))
	return e.print(v, t)
}

func decimal(v float64) string { return fmt.Sprintf("%.3f", v) }
