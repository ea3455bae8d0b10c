package vsrtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"galgo/internal/vsr"
)

// Script plays commands on a cluster and returns what is seen. A file of
// commands has blocks of lines, "----" and the expected output; blocks are
// separated by blank lines. Writes become durable at once unless they are held.
//
//	new n=3 [pipeline=8]      a cluster of fresh replicas, without jitter
//	propose 0 a b             replica 0 is given two requests
//	deliver [FILTER] [drop|dup]   hand over, lose or double what is on its way now
//	delay FILTER              keep such packets back; arrive gives them back
//	settle                    deliver until nothing is on its way
//	tick 5 [0 1]              time passes, at all replicas or at some
//	run 60                    so many times tick and settle; no messages are shown
//	hold 0, release 0         writes of a replica wait, or go on
//	append-done 0 [2]         the first writes of its log become durable
//	persist-done 0            its state record becomes durable
//	fail-state 0, mend 0      its state record cannot be written, or can again
//	crash 0 [keep=2] [state]  power fails: of the waiting writes the first two
//	                          survive, and the state record
//	restart 0, replace 0      from its disk; with an empty one
//	rot 0 from=3              while down: its log is unreadable from op 3 on
//	checkpoint 0 [keep=2]     and the log is freed but for two ops
//	cut 0>1, cut 0-1, heal    links, one way or both
//	link-down 0 1             replica 0 sees the connection to 1 break
//	step-down 0 to=2          replica 0 gives its place up
//	show [0], net             replicas; what is on its way
//
// FILTER is any of from=0 to=1 kind=prepare op=3.
type Script struct {
	cluster *Cluster
	delayed []packet
	silent  bool
}

// settleMax bounds the packets of one settle.
const settleMax = 5000

// timing of scripts: short, and with a whole number of each in the larger ones.
var timing = vsr.Timing{
	HeartbeatTicks: 5, RetransmitTicks: 3, ElectionTicks: 30, ViewChangeTicks: 40, RepeatTicks: 5,
	ProbeTicks: 10, ProbeAttempts: 3, RepairTicks: 10, TransferRounds: 3,
}

// Run plays one line and returns its output. It fails when the line is no
// command, or when the cluster did what must never happen.
func (s *Script) Run(line string) (string, error) {
	words := strings.Fields(line)
	if s.cluster == nil && words[0] != "new" {
		return "", fmt.Errorf("%s: the first command is new", line)
	}
	a := arguments{words: words[1:]}
	out, err := s.command(words[0], &a)
	if err == nil {
		err = a.err
	}
	if err == nil && s.cluster != nil {
		s.write()
		err = s.cluster.checks.err
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", line, err)
	}
	events := s.cluster.events
	s.cluster.events = nil
	if s.silent {
		events = slices.DeleteFunc(events, func(e string) bool { return len(e) > 1 && e[1] == '>' })
		s.silent = false
	}
	return strings.Join(append(events, out...), "\n"), nil
}

func (s *Script) command(name string, a *arguments) ([]string, error) {
	c := s.cluster
	switch name {
	case "new":
		s.cluster, s.delayed = New(a.number("n", 3), vsr.Config{Pipeline: a.number("pipeline", 8), Timing: timing}), nil
		s.cluster.frames = true
	case "propose":
		return s.propose(a), nil
	case "deliver":
		s.deliver(a)
	case "delay":
		f := a.filter()
		c.net, s.delayed = split(c.net, s.delayed, f)
	case "arrive":
		c.net, s.delayed = append(c.net, s.delayed...), nil
	case "settle":
		return nil, s.settle()
	case "tick", "run":
		return nil, s.pass(name == "run", a)
	case "show":
		return s.show(a), nil
	case "net":
		var out []string
		for _, p := range c.net {
			out = append(out, c.messageString(p.message))
		}
		return out, nil
	default:
		return nil, s.fault(name, a)
	}
	return nil, nil
}

// fault does what happens to one replica or to links.
func (s *Script) fault(name string, a *arguments) error {
	c := s.cluster
	switch name {
	case "cut":
		for _, w := range a.words {
			from, to := w[0]-'0', w[len(w)-1]-'0'
			c.cut[[2]uint8{from, to}] = true
			if strings.Contains(w, "-") {
				c.cut[[2]uint8{to, from}] = true
			}
		}
		a.words = nil
		return nil
	case "heal":
		clear(c.cut)
		return nil
	}
	i := a.replica()
	if a.err != nil || int(i) >= len(c.replicas) {
		return fmt.Errorf("%s: which replica?", name)
	}
	r := c.replicas[i]
	switch name {
	case "hold":
		r.held = true
	case "release":
		r.held = false
	case "fail-state":
		r.noState = true
	case "mend":
		r.noState = false
	case "append-done":
		s.complete(r, a.count(1), false)
	case "persist-done":
		s.complete(r, 1, true)
	case "crash":
		c.crash(i, a.number("keep", 0), a.flag("state"))
	case "restart":
		c.start(i)
	case "replace":
		c.replace(i)
		c.start(i)
	case "rot":
		from := vsr.Op(a.number("from", 1))
		if r.core != nil || r.disk.at(from) == nil {
			return fmt.Errorf("replica %d is up, or op %d is not in its log", i, from)
		}
		c.rot(r, from)
	case "checkpoint":
		c.takeCheckpoint(i, vsr.Op(a.number("keep", 0)))
	case "link-down":
		r.core.LinkDown(a.replica())
		c.perform(i)
	case "step-down":
		if err := r.core.StepDown(uint8(a.number("to", 0))); err != nil {
			c.events = append(c.events, fmt.Sprintf("%d: %v", i, err))
		}
		c.perform(i)
	default:
		return fmt.Errorf("no such command")
	}
	return nil
}

func (s *Script) propose(a *arguments) (out []string) {
	i := a.replica()
	for _, body := range a.words {
		if err := s.cluster.Propose(i, body); err != nil {
			out = append(out, fmt.Sprintf("%s: %v", body, err))
		}
		s.write()
	}
	a.words = nil
	return out
}

func (s *Script) deliver(a *arguments) {
	c := s.cluster
	drop, dup := a.flag("drop"), a.flag("dup")
	var now []packet
	c.net, now = split(c.net, nil, a.filter())
	if dup {
		c.net = append(c.net, now...)
	}
	for _, p := range now {
		if !drop {
			c.deliver(p)
			s.write()
		}
	}
}

func (s *Script) settle() error {
	c := s.cluster
	for n := 0; len(c.net) > 0; n++ {
		if n > settleMax {
			return fmt.Errorf("messages do not come to an end")
		}
		p := c.net[0]
		c.net = c.net[1:]
		c.deliver(p)
		s.write()
	}
	return nil
}

func (s *Script) pass(settle bool, a *arguments) error {
	n := a.count(1)
	some := len(a.words) > 0
	var who []uint8
	for len(a.words) > 0 {
		who = append(who, a.replica())
	}
	for i := range s.cluster.replicas {
		if !some {
			who = append(who, uint8(i))
		}
	}
	for range n {
		for _, i := range who {
			s.cluster.tick(i)
			s.write()
		}
		if settle {
			if err := s.settle(); err != nil {
				return err
			}
		}
	}
	s.silent = settle
	return nil
}

func (s *Script) show(a *arguments) (out []string) {
	if len(a.words) > 0 {
		return []string{s.cluster.show(a.replica())}
	}
	for i := range s.cluster.replicas {
		out = append(out, s.cluster.show(uint8(i)))
	}
	return out
}

// write makes all writes durable that are not held.
func (s *Script) write() {
	for again := true; again; {
		again = false
		for _, r := range s.cluster.replicas {
			for r.core != nil && !r.held && len(r.next()) > 0 {
				s.cluster.complete(r.id, r.next()[0])
				s.cluster.perform(r.id)
				again = true
			}
		}
	}
}

// complete makes held writes of one kind durable.
func (s *Script) complete(r *replica, n int, state bool) {
	for range n {
		for at, w := range r.writes {
			if (w.persist != nil) == state {
				s.cluster.complete(r.id, at)
				s.cluster.perform(r.id)
				break
			}
		}
	}
}

func split(from, to []packet, match func(vsr.Message) bool) (rest, taken []packet) {
	for _, p := range from {
		if match(p.message) {
			to = append(to, p)
		} else {
			rest = append(rest, p)
		}
	}
	return rest, to
}

// arguments are the words behind a command; err is the first that was wrong.
type arguments struct {
	words []string
	err   error
}

func (a *arguments) take(match func(string) bool) (string, bool) {
	for i, w := range a.words {
		if match(w) {
			a.words = slices.Delete(a.words, i, i+1)
			return w, true
		}
	}
	return "", false
}

func (a *arguments) number(key string, standard int) int {
	w, ok := a.take(func(w string) bool { return strings.HasPrefix(w, key+"=") })
	if !ok {
		return standard
	}
	n, err := strconv.Atoi(w[len(key)+1:])
	if err != nil && a.err == nil {
		a.err = err
	}
	return n
}

func (a *arguments) flag(name string) bool {
	_, ok := a.take(func(w string) bool { return w == name })
	return ok
}

// count is a bare number, if there is one.
func (a *arguments) count(standard int) int {
	if len(a.words) == 0 {
		return standard
	}
	n, err := strconv.Atoi(a.words[0])
	if err != nil {
		a.err = err
	}
	a.words = a.words[1:]
	return n
}

func (a *arguments) replica() uint8 { return uint8(a.count(255)) }

func (a *arguments) filter() func(vsr.Message) bool {
	from, to, op := a.number("from", -1), a.number("to", -1), a.number("op", -1)
	kind, _ := a.take(func(w string) bool { return strings.HasPrefix(w, "kind=") })
	kind = strings.TrimPrefix(kind, "kind=")
	if len(a.words) > 0 && a.err == nil {
		a.err = fmt.Errorf("unknown filter %q", a.words)
	}
	return func(m vsr.Message) bool {
		return (from < 0 || int(m.From) == from) && (to < 0 || int(m.To) == to) && (op < 0 || int(m.Op) == op) &&
			(kind == "" || kind == m.Kind.String())
	}
}
