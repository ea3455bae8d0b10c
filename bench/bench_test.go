package main

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestParseTools(t *testing.T) {
	for name, c := range map[string]struct {
		parse func(string) (load, error)
		out   string
		want  load
	}{
		"galgo sends": {parseGalgo, `{"results":[{"messages":2000,"messages_per_second":900.5,"p50_ms":1.5,"p99_ms":2.5}]}`,
			load{rate: 900.5, p50: 1.5, p99: 2.5, bytes: 2000 * messageSize}},
		"galgo operations": {parseGalgo, `{"operations":10,"operations_per_second":7,"p50_ms":1,"p99_ms":2}`, load{rate: 7, p50: 1, p99: 2}},
		"one client": {parseNATS, "NATS JetStream fast batch publisher stats: 18,426 msgs/sec ~ 18 MiB/sec ~ min: 3,640.28us ~ avg: 53,197.66us ~ max: 282,918.70us ~ P50: 33,972.03us ~ P90: 105,073.72us ~ P99: 282,918.70us ~ P99.9: 282,918.70us\n",
			load{rate: 18426, p50: 33.97203, p99: 282.9187}},
		"several clients": {parseNATS, `
  [1] 107 msgs/sec ~ 107 KiB/sec ~ P50: 3,487.90us ~ P99: 75,060.17us ~ P99.9: 233,400.56us (313 msgs)
 NATS JetStream synchronous publisher aggregated stats: 3,121 msgs/sec ~ 3.0 MiB/sec
 message rates min 97 | avg 98 | max 107 | stddev 2 msgs
 latencies per operation min 77.64us | avg 10,092.50us | P50 3,677.21us | P90 27,834.90us | P99 85,028.32us | P99.9: 232,738.08us
`, load{rate: 3121, p50: 3.67721, p99: 85.02832}},
		"a consumer": {parseNATS, "NATS JetStream durable consumer (callback) stats: 38,294 msgs/sec ~ 37 MiB/sec\n", load{rate: 38294}},
		"etcd": {parseEtcd, "Summary:\n  Total:\t1.0 secs.\n  Requests/sec:\t9316.02\n\nLatency distribution:\n  50% in 0.0061 secs.\n  99% in 0.0175 secs.\n  99.9% in 0.02 secs.\n",
			load{rate: 9316.02, p50: 6.1, p99: 17.5}},
	} {
		got, err := c.parse(c.out)
		if err != nil || !near(got.rate, c.want.rate) || !near(got.p50, c.want.p50) || !near(got.p99, c.want.p99) || got.bytes != c.want.bytes {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

func TestToolsThatPrintNothingAreErrors(t *testing.T) {
	for _, parse := range []func(string) (load, error){parseGalgo, parseNATS, parseEtcd} {
		if l, err := parse("nothing"); err == nil {
			t.Errorf("got %+v, want an error", l)
		}
	}
}

func TestForeignShare(t *testing.T) {
	busy, total, err := parseMachine("cpu  100 0 200 600 50 10 20 20 0 0\ncpu0 1 1 1 1\n")
	if err != nil || !near(busy, 3.5) || !near(total, 10) {
		t.Fatalf("busy %v of %v, %v; want 3.5 of 10", busy, total, err)
	}
	from := clock{busy: 10, total: 100, kernel: 1, self: 2}
	to := clock{busy: 20, total: 120, kernel: 2, self: 3}
	if got := foreignShare(from, to, 6); !near(got, 0.1) {
		t.Errorf("share %v, want 0.1: 10 s were busy, 6 of the servers, 1 of the kernel, 1 of this program, of 20", got)
	}
	if got := foreignShare(from, to, 9); got != 0 {
		t.Errorf("share %v, want 0: the clocks are not that exact", got)
	}
}

func TestParseStat(t *testing.T) {
	line := "17 (a (b) c) S 2 0 0 0 -1 2129984 0 0 0 0 150 50 0 0 20 0 1 0 5 0 0"
	s, err := parseStat([]byte(line))
	if err != nil || s.cpu != 2 || s.flags&kernelThread == 0 {
		t.Errorf("%+v, %v; want 2 s and a thread of the kernel", s, err)
	}
	for cut := range len("17 (a (b) c) S 2 0 0 0 -1 2129984 0 0") {
		if _, err := parseStat([]byte(line[:cut])); err == nil {
			t.Errorf("%q is taken for a whole line", line[:cut])
		}
	}
	if got := parsePeak("Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t 1 kB\n"); got != 2<<20 {
		t.Errorf("peak %d, want 2 MiB", got)
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		s      spread
		target float64
		less   bool
		want   string
	}{
		{spread{8, 6, 9}, 8, false, "reached"},
		{spread{8, 5.9, 9}, 8, false, "median only"},
		{spread{7.9, 7, 9}, 8, false, "not reached"},
		{spread{0.3, 0.1, 0.4}, 0.35, true, "reached"},
		{spread{0.3, 0.1, 0.5}, 0.35, true, "median only"},
		{spread{0.4, 0.1, 0.5}, 0.35, true, "not reached"},
	} {
		if got := verdict(c.s, 0, c.target, c.less); !strings.Contains(got, c.want) || c.want == "reached" && got != c.want {
			t.Errorf("%+v against %v: %s, want %s", c.s, c.target, got, c.want)
		}
	}
	for less, want := range map[bool]string{false: "as it must be", true: "**below what it must be**"} {
		if got := verdict(spread{3, 2, 4}, 2, map[bool]float64{false: 4, true: 1}[less], less); got != want {
			t.Errorf("3, must 2, less is better %v: %s, want %s", less, got, want)
		}
	}
}

func TestSpread(t *testing.T) {
	if s := spreadOf([]float64{3, 1, 2}); s != (spread{2, 1, 3}) {
		t.Errorf("%+v", s)
	}
	if s := spreadOf([]float64{4, 1, 2, 3}); s != (spread{2.5, 1, 4}) {
		t.Errorf("%+v", s)
	}
}

func TestChoose(t *testing.T) {
	all, err := choose(stages(), "")
	if err != nil || len(all) != len(stages()) {
		t.Fatalf("%d stages, %v", len(all), err)
	}
	some, err := choose(stages(), "P9,F2")
	var ids []string
	for _, s := range some {
		for _, r := range s.rows {
			ids = append(ids, r.id)
		}
	}
	if got := strings.Join(ids, " "); err != nil || got != "P9A P9B P9C P9D F2" {
		t.Errorf("chose %s, %v", got, err)
	}
	if _, err := choose(stages(), "P1,X"); err == nil || !strings.Contains(err.Error(), "X") {
		t.Errorf("an unknown row: %v", err)
	}
}

func TestRowsAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range stages() {
		if s.ours == nil || s.theirs == nil {
			t.Errorf("%s: no systems", s.name)
		}
		for _, r := range s.rows {
			if seen[r.id] || r.target <= 0 || len(r.theirs) == 0 || r.ours.clients < 1 {
				t.Errorf("%s: %+v", s.name, r)
			}
			seen[r.id] = true
		}
	}
}

// The first pair decides which ways of the peer are run again; a pair that others
// disturbed does not count.
func TestResultsKeepTheBestWays(t *testing.T) {
	r, row := &result{}, row{target: 2}
	at := func(tool string, rate float64) sample { return sample{load: load{rate: rate}, tool: tool} }
	jobs := ways(sends(1, 1, 1, 1, false), "a", "b", "c")
	if got := r.kept(jobs); len(got) != 3 {
		t.Fatalf("%d ways in the first pair, want 3", len(got))
	}
	r.add(row, at("", 30), []sample{at("a", 10), at("b", 9), at("c", 5)}, 0, 0.1)
	if got := r.kept(jobs); len(got) != 2 || got[0].tool != "a" || got[1].tool != "b" {
		t.Errorf("kept %+v, want a and b", got)
	}
	disturbed := at("", 30)
	disturbed.foreign = 0.11
	r.add(row, disturbed, []sample{at("a", 1)}, 0, 0.1)
	if len(r.pairs) != 1 || r.dropped != 1 || r.pairs[0].theirs.tool != "a" {
		t.Errorf("%+v", r)
	}
}

func TestMarkdownRowsHaveEqualCells(t *testing.T) {
	row := row{id: "P1", what: "x", beside: "NATS", target: 8}
	unit := func(v float64) string { return figure(row, v) }
	full := &result{}
	full.add(row, sample{load: load{rate: 2e6, p50: 1, p99: 20, bytes: 1e9}, server: 2, peak: 1 << 20}, []sample{{load: load{rate: 1e5, bytes: 1e9}, tool: "fast"}}, 4e6, 0.1)
	text := markdown([]line{lineOf(row, full, func(s sample) float64 { return s.rate }, unit), lineOf(row, &result{dropped: 1}, nil, unit)})
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, l := range lines {
		if got, want := strings.Count(l, "|"), strings.Count(lines[1], "|"); got != want {
			t.Errorf("%d bars, the head has %d: %s", got, want, l)
		}
	}
	if !strings.Contains(text, "20.00 (20.00 to 20.00)") || !strings.Contains(text, "0.50") {
		t.Errorf("no ratio in\n%s", text)
	}
}

// The gap is over when a write works again; attempts that fail meanwhile are not writes.
func TestLongestGap(t *testing.T) {
	down := false
	attempts := 0
	w := func(context.Context) error {
		if down {
			if attempts++; attempts > 10 {
				down = false
			}
			return errors.New("nobody leads")
		}
		return nil
	}
	l, err := longestGap(context.Background(), w, func() error { down = true; return nil })
	if err != nil || attempts != 11 || l.rate < (10*writePause).Seconds() {
		t.Errorf("%+v after %d attempts, %v", l, attempts, err)
	}
	g := gap{}
	start := time.Now()
	for _, at := range []time.Duration{0, 5, 6, 20, 21} {
		g.acknowledged(start.Add(at * time.Second))
	}
	if g.longest != 14*time.Second {
		t.Errorf("longest %v, want 14 s", g.longest)
	}
}

// A majority is what the client is told, and its frames come one after the other.
func TestBareMajority(t *testing.T) {
	c := &bareConn{kick: make(chan struct{}, 1)}
	n := &bareNode{}
	for range 3 {
		n.add()
	}
	for range 4 {
		n.pending = append(n.pending, &bareFrame{from: c})
	}
	for _, step := range []struct {
		at         int
		held, want uint64
	}{{0, 3, 0}, {1, 2, 2}, {2, 4, 3}, {0, 4, 4}} {
		if n.advance(step.at, step.held); c.held.Load() != step.want {
			t.Errorf("replica %d holds %d: the client is told %d, want %d", step.at, step.held, c.held.Load(), step.want)
		}
	}
}
