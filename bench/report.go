package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// spread is the median of some figures, with the least and the most.
type spread struct{ median, least, most float64 }

func spreadOf(values []float64) spread {
	v := slices.Clone(values)
	slices.Sort(v)
	mid := len(v) / 2
	median := v[mid]
	if len(v)%2 == 0 {
		median = (v[mid-1] + v[mid]) / 2
	}
	return spread{median, v[0], v[len(v)-1]}
}

// worst is the end of the spread that speaks against galgo.
func (s spread) worst(less bool) float64 {
	if less {
		return s.most
	}
	return s.least
}

// worstShare is how much of its aim the worst pair must reach.
const worstShare = 0.75

// verdict says whether the median reaches the aim and the worst pair most of it, and if
// not, whether the median is as it must be.
func verdict(s spread, must, target float64, less bool) string {
	by := func(ratio, of float64) float64 {
		if less {
			return of / ratio
		}
		return ratio / of
	}
	switch {
	case by(s.median, target) >= 1 && by(s.worst(less), target) >= worstShare:
		return "reached"
	case by(s.median, target) >= 1:
		return "reached in the median only"
	case must > 0 && by(s.median, must) >= 1:
		return "as it must be"
	case must > 0:
		return "**below what it must be**"
	}
	return "not reached"
}

// line is a row of the table as it is printed.
type line struct {
	id, what, beside string
	must, target     float64
	less             bool
	ratio            spread
	bare             *spread // galgo by the bare program
	ours, theirs     side
	pairs, dropped   int
	unit             func(float64) string
}

// side is what one of the two reached: medians.
type side struct {
	tool                    string
	value, p50, p99         float64
	cpu, memory             float64
	perGigabyte, hasLatency bool
}

func sideOf(pairs []pair, of func(pair) sample, value func(sample) float64) side {
	median := func(f func(sample) float64) float64 {
		var all []float64
		for _, p := range pairs {
			all = append(all, f(of(p)))
		}
		return spreadOf(all).median
	}
	first := of(pairs[len(pairs)-1])
	return side{
		tool: first.tool, value: median(value), p50: median(func(s sample) float64 { return s.p50 }), p99: median(func(s sample) float64 { return s.p99 }),
		cpu: median(cost), memory: median(func(s sample) float64 { return float64(s.peak) }),
		perGigabyte: first.bytes > 0, hasLatency: first.p50 > 0,
	}
}

// cost is the servers' processor time: seconds a GB of payload, or µs an operation.
func cost(s sample) float64 {
	if s.bytes > 0 {
		return s.server / (s.bytes / 1e9)
	}
	return s.server / float64(max(s.count, 1)) * 1e6
}

func ours(p pair) sample   { return p.ours }
func theirs(p pair) sample { return p.theirs }

func lineOf(r row, res *result, value func(sample) float64, unit func(float64) string) line {
	l := line{id: r.id, what: r.what, beside: r.beside, must: r.must, target: r.target, less: r.less, pairs: len(res.pairs), dropped: res.dropped, unit: unit}
	if l.pairs == 0 {
		return l
	}
	var ratios, bare []float64
	for _, p := range res.pairs {
		ratios = append(ratios, value(p.ours)/value(p.theirs))
		if p.bare > 0 {
			bare = append(bare, p.ours.rate/p.bare)
		}
	}
	l.ratio = spreadOf(ratios)
	if len(bare) > 0 {
		s := spreadOf(bare)
		l.bare = &s
	}
	l.ours, l.theirs = sideOf(res.pairs, ours, value), sideOf(res.pairs, theirs, value)
	return l
}

// derived are figures of the resources that other rows have used.
var derived = []struct {
	id, of, what string
	must, target float64
	value        func(sample) float64
	unit         func(float64) string
}{
	{"U1", "P1", "processor seconds a GB of the servers in P1", 0, 0.2, cost, processor},
	{"U1", "P3", "processor seconds a GB of the servers in P3", 0, 0.2, cost, processor},
	{"U1", "P4", "processor seconds a GB of the servers in P4", 0, 0.2, cost, processor},
	{"U2", "C1", "processor seconds a GB of the server in C1", 0, 0.2, cost, processor},
	{"U3", "P1", "peak memory of the server in P1", 2, 1, peakOf, mebibytes},
	{"U3", "P3", "peak memory of a server in P3", 2, 1, peakOf, mebibytes},
}

func peakOf(s sample) float64 { return float64(s.peak) }

func (b *bench) lines(stages []stage) (lines []line) {
	rows := map[string]row{}
	for _, s := range stages {
		for _, r := range s.rows {
			res := b.results[r.id]
			if res == nil {
				continue
			}
			rows[r.id] = r
			lines = append(lines, lineOf(r, res, func(s sample) float64 { return s.rate }, func(v float64) string { return figure(r, v) }))
		}
	}
	for _, d := range derived {
		if r, ok := rows[d.of]; ok {
			r.id, r.what, r.must, r.target, r.less = d.id, d.what, d.must, d.target, true
			l := lineOf(r, b.results[d.of], d.value, d.unit)
			l.bare = nil
			lines = append(lines, l)
		}
	}
	return lines
}

func (b *bench) report(out io.Writer, stages []stage) {
	lines := b.lines(stages)
	if b.markdown {
		fmt.Fprint(out, markdown(lines))
		return
	}
	for _, l := range lines {
		fmt.Fprint(out, l.text())
	}
}

func (l line) text() string {
	if l.pairs == 0 {
		return fmt.Sprintf("%s %s: no pair counts, %d dropped: others used the machine\n", l.id, l.what, l.dropped)
	}
	var t strings.Builder
	fmt.Fprintf(&t, "%s %s\n  ratio %.2f [%.2f .. %.2f], aim %s: %s; %d pairs, %d dropped\n",
		l.id, l.what, l.ratio.median, l.ratio.least, l.ratio.most, l.aim(), strings.Trim(verdict(l.ratio, l.must, l.target, l.less), "*"), l.pairs, l.dropped)
	if l.bare != nil {
		fmt.Fprintf(&t, "  %.2f [%.2f .. %.2f] of the bare program\n", l.bare.median, l.bare.least, l.bare.most)
	}
	fmt.Fprintf(&t, "  galgo: %s\n  %s: %s\n", l.ours.text(l.unit), l.peer(), l.theirs.text(l.unit))
	return t.String()
}

// peer is what galgo is beside, and in which way of its tool.
func (l line) peer() string {
	if l.theirs.tool == "" {
		return l.beside
	}
	return l.beside + ", `" + l.theirs.tool + "`"
}

func (l line) ofBare() string {
	if l.bare == nil {
		return ""
	}
	return fmt.Sprintf("%.2f", l.bare.median)
}

func (l line) aim() string {
	aim := fmt.Sprintf("%.2g", l.target)
	if l.must > 0 {
		aim += fmt.Sprintf(", must %.2g", l.must)
	}
	if l.less {
		return "at most " + aim
	}
	return aim
}

func (s side) text(unit func(float64) string) string {
	return fmt.Sprintf("%s; %s; %s; %s", unit(s.value), s.latency(), s.processor(), mebibytes(s.memory))
}

func (s side) latency() string {
	if !s.hasLatency {
		return "–"
	}
	return fmt.Sprintf("%s, %s ms", millis(s.p50), millis(s.p99))
}

func millis(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func (s side) processor() string {
	switch {
	case s.cpu == 0:
		return "–"
	case s.perGigabyte:
		return processor(s.cpu)
	}
	return fmt.Sprintf("%.0f µs an operation", s.cpu)
}

func processor(v float64) string { return fmt.Sprintf("%.2f s/GB", v) }

func mebibytes(v float64) string { return fmt.Sprintf("%.0f MiB", v/(1<<20)) }

// figure is a rate, or a time where less is better.
func figure(r row, v float64) string {
	switch {
	case r.less:
		return fmt.Sprintf("%.2f s", v)
	case v >= 1e6:
		return fmt.Sprintf("%.2f M/s", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.0f k/s", v/1e3)
	case v >= 1e3:
		return fmt.Sprintf("%.2f k/s", v/1e3)
	}
	return fmt.Sprintf("%.0f /s", v)
}

// markdown is the table of docs/benchmarks.md.
func markdown(lines []line) string {
	var t strings.Builder
	t.WriteString("| | What | Beside | galgo | Peer | Ratio | Aim | | Of the bare program | p50, p99: galgo | Peer | Processor: galgo | Peer | Peak memory: galgo | Peer |\n")
	t.WriteString("|" + strings.Repeat(" --- |", 15) + "\n")
	for _, l := range lines {
		if l.pairs == 0 {
			fmt.Fprintf(&t, "| %s | %s | %s | | | no pair counts | %s | %d dropped | | | | | | | |\n", l.id, l.what, l.beside, l.aim(), l.dropped)
			continue
		}
		fmt.Fprintf(&t, "| %s | %s | %s | %s | %s | %.2f (%.2f to %.2f) | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n",
			l.id, l.what, l.peer(), l.unit(l.ours.value), l.unit(l.theirs.value), l.ratio.median, l.ratio.least, l.ratio.most, l.aim(), verdict(l.ratio, l.must, l.target, l.less),
			l.ofBare(), l.ours.latency(), l.theirs.latency(), l.ours.processor(), l.theirs.processor(), mebibytes(l.ours.memory), mebibytes(l.theirs.memory))
	}
	return t.String()
}
