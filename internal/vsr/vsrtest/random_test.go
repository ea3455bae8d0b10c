package vsrtest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"galgo/internal/vsr"
)

var (
	seeds = flag.Int("seeds", 0, "how many random schedules to play; 0 for the usual number")
	first = flag.Int("first", 1, "the seed to begin with")
	seed  = flag.Uint64("seed", 0, "play this schedule alone, and print it")
	lines = flag.Int("lines", 400, "lines of a schedule to print when it fails")
	steps = flag.Int("steps", 1500, "steps of a schedule while everything may fail")
)

// seedsUsual keeps the test to a few seconds.
const seedsUsual = 150

// TestRandomSchedules plays schedules with every fault that a group must survive,
// then heals everything and wants all replicas to agree within a bounded time.
func TestRandomSchedules(t *testing.T) {
	if *seed != 0 {
		s := newSchedule(*seed)
		s.cluster.quiet = false
		if err := s.play(*steps); err != nil {
			t.Fatalf("seed %d: %v\n%s", *seed, err, s.tail(*lines))
		}
		return
	}
	n := *seeds
	if n == 0 {
		n = seedsUsual
	}
	seen := map[vsr.MessageKind]int{}
	ops, views, installed, rotten, stepped := 0, 0, 0, 0, 0
	for i := *first; i < *first+n; i++ {
		s := newSchedule(uint64(i))
		if err := s.play(*steps); err != nil {
			t.Fatalf("seed %d: %v\nreplay: go test ./internal/vsr/vsrtest -run TestRandomSchedules -seed %d", i, err, i)
		}
		for k, v := range s.cluster.checks.kinds {
			seen[k] += v
		}
		ops += int(s.cluster.checks.highest)
		views += int(s.cluster.replicas[0].disk.state.View)
		installed += s.cluster.checks.installed
		rotten += s.rotten
		stepped += s.cluster.stepped
	}
	t.Logf("%d schedules: %d ops chosen, %d views, %d checkpoints installed, %d logs damaged, %d primaries gave up", n, ops, views, installed, rotten, stepped)
	if stepped == 0 && n >= seedsUsual {
		t.Error("no primary gave its place up: the checker does not reach that part")
	}
	for k := vsr.MessageSuspect; k <= vsr.MessageHeaders; k++ {
		if k.String() != "unknown" {
			t.Logf("%-20v %d", k, seen[k])
			if seen[k] == 0 && n >= seedsUsual {
				t.Errorf("no schedule sent a %v: the checker does not reach that part", k)
			}
		}
	}
}

// schedule is a random run. Which faults it has, and how many, is drawn too.
type schedule struct {
	rng     *rand.Rand
	cluster *Cluster
	weights [actions]int
	total   int
	lost    int      // the last replica that lost a part of its disk, or -1
	stash   []packet // held back for long
	rotten  int
	trace   []string
}

type action int

const (
	actDeliver action = iota
	actWrite
	actTick
	actPropose
	actDrop
	actDuplicate
	actWork
	actTickOne
	actStash
	actArrive
	actNoState
	actSuspect
	actCrash
	actRestart
	actCut
	actHeal
	actCheckpoint
	actReplace
	actRot
	actLinkDown
	actPower
	actIsolate
	actStepDown
	actions
)

func newSchedule(seed uint64) *schedule {
	rng := rand.New(rand.NewPCG(seed, 0x6761_6c67_6f))
	n := []int{3, 3, 3, 5, 5, 2, 4, 6}[rng.IntN(8)]
	c := New(n, vsr.Config{
		Pipeline: 1 + rng.IntN(8), Rand: rng,
		Timing: vsr.Timing{
			HeartbeatTicks: 5, RetransmitTicks: 4, ElectionTicks: 15 + rng.IntN(20), ViewChangeTicks: 40, RepeatTicks: 6,
			ProbeTicks: 8, ProbeAttempts: 3, RepairTicks: 8, TransferRounds: 4,
		},
	})
	c.quiet, c.frames, c.async = true, seed%4 == 0, true
	for _, r := range c.replicas {
		r.skew = rng.Uint64N(1000)
	}
	s := &schedule{rng: rng, cluster: c, lost: -1}
	s.weights = [actions]int{
		actDeliver: 300, actWrite: 100, actTick: 40 + rng.IntN(160), actPropose: 20 + rng.IntN(60), actDrop: s.some(40),
		actDuplicate: s.some(20), actCrash: s.some(6), actRestart: 8, actCut: s.some(8), actHeal: 4, actCheckpoint: s.some(8),
		actReplace: s.some(3), actRot: s.some(4), actLinkDown: s.some(3), actPower: s.some(2),
		actWork: 60 + rng.IntN(200), actTickOne: s.some(60), actStash: s.some(10), actArrive: 1 + s.some(6), actNoState: s.some(3),
		actSuspect: s.some(4),
	}
	if seed%2 == 1 { // more work and less trouble
		s.weights[actDeliver], s.weights[actWrite] = 1500, 400
		s.weights[actPropose] *= 6
	}
	switch seed % 8 {
	case 0, 1: // primaries give their place up
		s.weights[actStepDown] = 6
	case 2, 3: // logs are freed, and who comes back takes checkpoints
		s.weights[actCheckpoint], s.weights[actReplace] = 40, 3
		s.weights[actCrash], s.weights[actRestart] = 6, 4
	case 4, 5: // logs are damaged, and views come and go
		s.weights[actRot], s.weights[actCrash], s.weights[actRestart] = 60, 8, 10
		s.weights[actSuspect] = 6
	case 6, 7: // one after the other is cut off, with what it has told nobody
		s.weights[actIsolate], s.weights[actSuspect], s.weights[actCut] = 4+rng.IntN(16), 2, 0
		s.weights[actReplace] = rng.IntN(4)
	}
	for _, w := range s.weights {
		s.total += w
	}
	return s
}

// some is 0 in a part of the runs, so that faults also come alone.
func (s *schedule) some(limit int) int {
	if s.rng.IntN(3) == 0 {
		return 0
	}
	return s.rng.IntN(limit + 1)
}

func (s *schedule) play(steps int) error {
	for range steps {
		s.step(s.draw())
		if err := s.cluster.checks.err; err != nil {
			return err
		}
	}
	return s.converge()
}

func (s *schedule) draw() action {
	n := s.rng.IntN(s.total)
	for a := range actions {
		if n -= s.weights[a]; n < 0 {
			return a
		}
	}
	panic("unreachable")
}

func (s *schedule) step(a action) {
	c := s.cluster
	i := uint8(s.rng.IntN(len(c.replicas)))
	r := c.replicas[i]
	switch a {
	case actDeliver, actDrop, actDuplicate:
		s.packet(a)
	case actWrite:
		s.write(r)
	case actWork:
		s.work(r)
	case actStash, actArrive:
		s.delay(a)
	case actNoState:
		r.noState = s.rng.IntN(2) == 0
	case actSuspect: // all at once lose sight of their primary
		for _, r := range c.replicas {
			if r.core != nil {
				r.core.LinkDown(r.core.Primary())
				c.perform(r.id)
			}
		}
	case actTickOne:
		c.tick(i)
	case actTick:
		for j := range c.replicas {
			c.tick(uint8(j))
		}
	case actPropose:
		for j := range c.replicas {
			if r := c.replicas[j]; r.core != nil && r.core.IsPrimary() && s.rng.IntN(2) == 0 {
				c.proposed++
				_ = c.Propose(uint8(j), fmt.Sprint("p", c.proposed))
			}
		}
	case actCrash:
		if r.core != nil {
			s.crash(r)
		}
	case actRestart:
		if r.core == nil {
			c.start(i)
		}
	case actCut:
		if j := uint8(s.rng.IntN(len(c.replicas))); j != i {
			c.cut[[2]uint8{i, j}] = true
			if s.rng.IntN(2) == 0 {
				c.cut[[2]uint8{j, i}] = true
			}
		}
	case actHeal:
		clear(c.cut)
	case actCheckpoint:
		if r.core != nil {
			c.takeCheckpoint(i, vsr.Op(s.rng.IntN(6)))
		}
	case actReplace:
		s.replace(i)
	case actRot:
		s.rot(r)
	case actLinkDown:
		if r.core != nil {
			r.core.LinkDown(uint8(s.rng.IntN(len(c.replicas))))
			c.perform(i)
		}
	case actIsolate:
		s.isolate()
	case actStepDown:
		for _, r := range c.replicas {
			if r.core != nil && r.core.StepDown(i) == nil {
				c.stepped++
				c.perform(r.id)
			}
		}
	case actPower:
		for _, r := range c.replicas {
			if r.core != nil {
				s.crash(r)
			}
		}
	}
	s.keep()
}

// isolate cuts off one replica, more often than not a primary, and lets in whoever was cut
// off before.
func (s *schedule) isolate() {
	c := s.cluster
	i := uint8(s.rng.IntN(len(c.replicas)))
	for _, r := range c.replicas {
		if r.core != nil && r.core.IsPrimary() && s.rng.IntN(2) == 0 {
			i = r.id
		}
	}
	clear(c.cut)
	for _, r := range c.replicas {
		if r.id == i {
			continue
		}
		c.cut[[2]uint8{i, r.id}], c.cut[[2]uint8{r.id, i}] = true, true
		if r.core != nil && s.rng.IntN(2) == 0 {
			r.core.LinkDown(i)
			c.perform(r.id)
		}
	}
}

func (s *schedule) packet(a action) {
	c := s.cluster
	if len(c.net) == 0 {
		return
	}
	n := s.rng.IntN(min(len(c.net), 40)) // some stay for long
	p := c.net[n]
	if a != actDuplicate {
		c.net = append(c.net[:n:n], c.net[n+1:]...)
	}
	if a != actDrop {
		c.deliver(p)
	}
	if len(c.net) > 3000 {
		c.net = c.net[1500:]
	}
}

// delay holds packets back, or gives back what was held, once or for good. They may
// come after crashes and views.
func (s *schedule) delay(a action) {
	from, to := &s.cluster.net, &s.stash
	if a == actArrive {
		from, to = to, from
	}
	for range 1 + s.rng.IntN(6) {
		if len(*from) == 0 {
			return
		}
		n := s.rng.IntN(len(*from))
		*to = append(*to, (*from)[n])
		if a == actStash || s.rng.IntN(2) == 0 {
			*from = slices.Delete(*from, n, n+1)
		}
	}
	if len(s.stash) > 400 {
		s.stash = s.stash[200:]
	}
}

// work does a few of the jobs of a host.
func (s *schedule) work(r *replica) {
	for range 1 + s.rng.IntN(4) {
		if r.core == nil || len(r.jobs) == 0 {
			return
		}
		ready := r.workable()
		s.cluster.work(r, ready[s.rng.IntN(len(ready))])
		s.cluster.perform(r.id)
	}
}

func (s *schedule) write(r *replica) {
	if r.core == nil {
		return
	}
	for range 1 + s.rng.IntN(4) {
		if ready := r.next(); len(ready) > 0 {
			s.cluster.complete(r.id, ready[s.rng.IntN(len(ready))])
			s.cluster.perform(r.id)
		}
	}
}

func (s *schedule) crash(r *replica) {
	s.cluster.crash(r.id, s.rng.IntN(len(r.writes)+1), s.rng.IntN(2) == 0)
}

// replace takes a disk away.
func (s *schedule) replace(i uint8) {
	if s.mayLose(i) {
		s.lost = int(i)
		s.cluster.replace(i)
	}
}

// rot makes the end of a log unreadable while its replica is down.
func (s *schedule) rot(r *replica) {
	low, high := max(r.disk.checkpoint.op, r.disk.freed), r.disk.head()
	if r.core != nil || high <= low || !s.mayLose(r.id) {
		return
	}
	s.lost = int(r.id)
	s.rotten++
	s.cluster.rot(r, low+1+vsr.Op(s.rng.IntN(int(high-low))))
}

// mayLose: a group survives the loss of one copy at a time, so the last replica
// that lost something must have all of it again, or lose more.
func (s *schedule) mayLose(i uint8) bool {
	return len(s.cluster.replicas) >= 3 && (s.lost < 0 || s.lost == int(i) || s.cluster.replicas[s.lost].disk.state.Doubt == 0)
}

func (s *schedule) keep() {
	s.trace = append(s.trace, s.cluster.events...)
	s.cluster.events = s.cluster.events[:0]
}

func (s *schedule) tail(n int) string {
	s.keep()
	return strings.Join(s.trace[max(0, len(s.trace)-n):], "\n")
}

// calmTicks bounds how long a healed group may need to agree.
const calmTicks = 3000

// heal ends all faults. As many replicas as a group must do without stay down, if
// the others have all that they ever had.
func (s *schedule) heal() {
	c := s.cluster
	clear(c.cut)
	c.net, s.stash = append(c.net, s.stash...), nil
	spare := vsr.QuorumsOf(len(c.replicas)).Replication - 1
	if s.lost >= 0 && c.replicas[s.lost].disk.state.Doubt != 0 || len(c.replicas) < 3 || s.rng.IntN(2) == 0 {
		spare = 0
	}
	for _, n := range s.rng.Perm(len(c.replicas)) {
		r := c.replicas[n]
		r.noState = false
		switch {
		case spare > 0:
			spare--
			if r.core != nil {
				s.crash(r)
			}
		case r.core == nil:
			c.start(r.id)
		}
	}
}

// converge ends all faults. Within calmTicks all replicas that are up must have the
// same log, applied to its end, with what was ever chosen and what was proposed since.
func (s *schedule) converge() error {
	c := s.cluster
	s.heal()
	proposed := 0
	for tick := range calmTicks {
		for i := range c.replicas {
			c.tick(uint8(i))
		}
		s.calm()
		if err := c.checks.err; err != nil {
			return err
		}
		if proposed < 5 {
			for i, r := range c.replicas {
				if r.core != nil && r.core.IsPrimary() && c.Propose(uint8(i), fmt.Sprint("calm", tick)) == nil {
					proposed++
					s.calm()
					break
				}
			}
			continue
		}
		if s.agree() {
			return nil
		}
	}
	var b strings.Builder
	for i := range c.replicas {
		fmt.Fprintln(&b, c.show(uint8(i)))
	}
	return fmt.Errorf("%d ticks after all faults ended the replicas do not agree (%d proposed):\n%s", calmTicks, proposed, b.String())
}

// calm delivers and writes everything that is due, in random order.
func (s *schedule) calm() {
	c := s.cluster
	for budget := 20000; budget > 0; budget-- {
		busy := false
		if len(c.net) > 0 {
			s.packet(actDeliver)
			busy = true
		}
		for _, r := range c.replicas {
			if r.core != nil && len(r.next()) > 0 {
				s.write(r)
				busy = true
			}
			if len(r.jobs) > 0 {
				s.work(r)
				busy = true
			}
		}
		s.keep()
		if !busy || c.checks.err != nil {
			return
		}
	}
	c.checks.failf("messages do not come to an end")
}

func (s *schedule) agree() bool {
	var first *replica
	for _, r := range s.cluster.replicas {
		if r.core == nil {
			continue
		}
		if first == nil {
			first = r
		}
		if r.core.CommitMin() < s.cluster.checks.highest || r.core.Head() != first.core.Head() || r.core.HeadIdentity() != first.core.HeadIdentity() ||
			r.core.CommitMin() != r.core.Head() || r.core.Barrier() != 0 || r.core.View() != first.core.View() || r.core.View().LogView != r.core.View().View {
			return false
		}
	}
	return true
}

// A schedule is its seed: the same one gives the same trace.
func TestSchedulesRepeat(t *testing.T) {
	for _, seed := range []uint64{3, 8, 15} {
		var traces [2]string
		for i := range traces {
			s := newSchedule(seed)
			s.cluster.quiet = false
			if err := s.play(400); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			traces[i] = s.tail(1 << 30)
		}
		if traces[0] != traces[1] || len(traces[0]) < 1000 {
			t.Errorf("seed %d: %s", seed, difference(traces[0], traces[1]))
		}
	}
}
