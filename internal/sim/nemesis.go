package sim

import (
	"math/rand/v2"
	"strings"

	"galgo/internal/disk/memdisk"
	"galgo/internal/engine"
)

// nemesis decides what goes wrong, one thing after the other.
type nemesis struct {
	w        *world
	rng      *rand.Rand
	recovery *rand.Rand
	deeds    []deed

	dancing *rand.Rand
	dance   *dance // nil while there is none
	lurking *rand.Rand
	astray  *rand.Rand
	damage  *rand.Rand
	doubts  *rand.Rand
}

// deed is something that the nemesis can do; it reports whether it did.
type deed struct {
	fault fault
	do    func() bool
}

func newNemesis(w *world) *nemesis {
	s := &nemesis{
		w: w, rng: stream(w.seed, partNemesis), recovery: stream(w.seed, partRecovery),
		dancing: stream(w.seed, partDance), lurking: stream(w.seed, partAmbush), astray: stream(w.seed, partStray),
		damage: stream(w.seed, partDecay), doubts: stream(w.seed, partDoubt),
	}
	all := []deed{
		{faultCrash, func() bool { return s.crash(endKill) }},
		{faultPower, func() bool { return s.crash(endPower) }},
		{faultPowerAll, s.powerAll},
		{faultDoom, s.doom},
		{faultStop, s.stop},
		{faultPause, s.pause},
		{faultClock, s.stepClock},
		{faultIO, s.failCalls},
		{faultSync, func() bool { return s.failSync(memdisk.OpSync) }},
		{faultSyncDir, func() bool { return s.failSync(memdisk.OpSyncDir) }},
		{faultSpace, s.fill},
		{faultRot, s.rot},
		{faultForeign, s.foreign},
		{faultReplace, s.replace},
		{faultCut, s.cut},
		{faultPartition, s.partition},
		{faultSlow, s.slow},
		{faultCheck, s.checkpoint},
	}
	for _, d := range all {
		if w.plan.faults[d.fault] {
			s.deeds = append(s.deeds, d)
		}
	}
	return s
}

// begin starts the trouble.
func (s *nemesis) begin() {
	if len(s.deeds) > 0 {
		s.next()
	}
	if s.w.plan.faults[faultFork] {
		s.beginDance()
	}
	if s.w.plan.faults[faultDecay] {
		s.beginDecay()
	}
}

func (s *nemesis) next() {
	s.w.after(between(s.rng, 1, 2*s.w.plan.every), func() {
		if s.w.calm {
			return
		}
		d := s.deeds[s.rng.IntN(len(s.deeds))]
		if !s.watches() && d.do() {
			s.w.cover.deed(d.fault)
		}
		s.next()
	})
}

// watches: a dance goes on that must not be disturbed.
func (s *nemesis) watches() bool { return s.dance != nil && s.dance.alone }

// relent ends what goes wrong at present.
func (s *nemesis) relent() {
	s.w.net.heal()
	for _, n := range s.w.nodes {
		n.disk.ClearFaults()
		if n.tap != nil && !n.tap.dead {
			n.tap.doom = nil
		}
		if n.paused {
			n.resume()
		}
	}
}

// any draws a node that is up, or one that is down; nil if there is none.
func (s *nemesis) any(up bool) *node {
	var of []*node
	for _, n := range s.w.nodes {
		if (n.engine != nil) == up {
			of = append(of, n)
		}
	}
	if len(of) == 0 {
		return nil
	}
	return of[s.rng.IntN(len(of))]
}

func (s *nemesis) ending() ending {
	if s.w.plan.faults[faultPower] && oneIn(s.rng, 2) {
		return endPower
	}
	return endKill
}

func (s *nemesis) crash(how ending) bool {
	n := s.any(true)
	if n == nil {
		return false
	}
	n.crash(how)
	s.revive(n)
	return true
}

func (s *nemesis) powerAll() bool {
	for _, n := range s.w.nodes {
		if n.engine != nil {
			n.crash(endPower)
			s.revive(n)
		}
	}
	return true
}

// revive has a node started again after a while.
func (s *nemesis) revive(n *node) {
	down := between(s.recovery, millisecond, 300*millisecond)
	if oneIn(s.recovery, 4) {
		down = between(s.recovery, second, 8*second)
	}
	if s.w.calm {
		down = 10 * millisecond
	}
	life := n.life
	s.w.after(down, func() {
		if n.engine == nil && n.life == life {
			n.start()
		}
	})
}

// dooms are where nodes die: anywhere, and where it matters most.
var dooms = []struct {
	ops  memdisk.Op
	part string
	most int
}{
	{^memdisk.Op(0), "", 300},
	{^memdisk.Op(0), "", 30},
	{^memdisk.Op(0), "superblock", 6},
	{^memdisk.Op(0), "metadata/snapshot", 8},
	{^memdisk.Op(0), "metadata/wal", 20},
	{^memdisk.Op(0), "checkpoint", 8},
	{^memdisk.Op(0), "groups/", 30},
	{memdisk.OpRename | memdisk.OpSyncDir, "", 10},
	{memdisk.OpRemove, "", 5},
	{memdisk.OpRemove, "metadata/snapshot", 2},
	{memdisk.OpCreate, "", 5},
	{memdisk.OpSync, "/wal", 40},
	{memdisk.OpWrite | memdisk.OpSync, ".wal", 40},
	{memdisk.OpWrite | memdisk.OpSync, ".wal", 10},
	{memdisk.OpRename | memdisk.OpCreate | memdisk.OpRemove, "/wal", 6},
}

// doom makes a node die at a call of its disk. One that is down dies while it starts.
func (s *nemesis) doom() bool {
	n := s.any(true)
	if n == nil || n.tap.doom != nil {
		return false
	}
	s.condemn(n)
	return true
}

func (s *nemesis) condemn(n *node) {
	at := dooms[s.rng.IntN(len(dooms))]
	n.tap.doom = &doom{ops: at.ops, part: at.part, left: 1 + s.rng.IntN(at.most), rng: s.rng}
	n.doomed = s.ending()
	s.w.say("n%d will die: call %d with %q", n.id, n.tap.doom.left, at.part)
}

// arm prepares what happens while a node starts.
func (s *nemesis) arm(n *node) {
	if s.w.calm || s.watches() {
		return
	}
	if s.w.plan.faults[faultDoom] && oneIn(s.rng, 8) {
		s.condemn(n)
		n.tap.doom.left = 1 + s.rng.IntN(40)
	}
	if s.w.plan.faults[faultIO] && oneIn(s.rng, 8) {
		s.inject(n, memdisk.Fault{Class: memdisk.Fail, Ops: ^memdisk.OpSyncDir, At: 1 + s.rng.IntN(60)})
	}
}

func (s *nemesis) pause() bool {
	n := s.any(true)
	if n == nil || n.paused {
		return false
	}
	n.paused = true
	s.w.say("n%d stands still", n.id)
	life := n.life
	s.w.after(between(s.rng, 10*millisecond, 5*second), func() {
		if n.life == life && n.paused {
			n.resume()
		}
	})
	return true
}

func (s *nemesis) stepClock() bool {
	n := s.w.nodes[s.rng.IntN(len(s.w.nodes))]
	n.skew += between(s.rng, -5*second, 5*second)
	s.w.say("the clock of n%d is off by %d µs", n.id, n.skew)
	return true
}

// failCalls makes calls of a disk fail without an effect, or with a part of it.
func (s *nemesis) failCalls() bool {
	n := s.any(true)
	if n == nil {
		return false
	}
	f := memdisk.Fault{Class: memdisk.Fail, Ops: ^memdisk.OpSyncDir, At: 1 + s.rng.IntN(20)}
	switch s.rng.IntN(4) {
	case 0:
		f.Class, f.Ops, f.Keep = memdisk.ShortWrite, 0, s.rng.Int64N(5000)
	case 1:
		f.Ops = memdisk.OpRead
	case 2:
		f.Ops = pick(s.rng, memdisk.OpCreate, memdisk.OpRename, memdisk.OpRemove, memdisk.OpOpen, memdisk.OpList, memdisk.OpMkdirAll)
	}
	s.inject(n, f)
	return true
}

func (s *nemesis) failSync(op memdisk.Op) bool {
	n := s.any(true)
	if n == nil {
		return false
	}
	s.inject(n, memdisk.Fault{Class: memdisk.SyncFailure, Ops: op, At: 1 + s.rng.IntN(20), KeepCache: oneIn(s.rng, 2)})
	return true
}

func (s *nemesis) inject(n *node, f memdisk.Fault) {
	n.faulted, n.lossy = true, true
	n.disk.Inject(f)
	s.w.say("the disk of n%d will fail: class %d, %v, call %d", n.id, f.Class, f.Ops, f.At)
}

// fill makes a disk full for a while. What is there can be written.
func (s *nemesis) fill() bool {
	n := s.any(true)
	if n == nil {
		return false
	}
	s.inject(n, memdisk.Fault{Class: memdisk.NoSpace, Ops: memdisk.OpCreate | memdisk.OpMkdirAll, Times: memdisk.Forever})
	s.inject(n, memdisk.Fault{
		Class: memdisk.NoSpace, Ops: memdisk.OpWrite, Times: memdisk.Forever, Keep: s.rng.Int64N(2000),
		Match: func(name string) bool { return strings.HasPrefix(name, "groups/") },
	})
	d := n.disk
	s.w.after(between(s.rng, 100*millisecond, 10*second), func() {
		d.ClearFaults()
		s.w.say("the disk of n%d has room again", n.id)
	})
	return true
}

// replace loses the disk of a node, up or down.
func (s *nemesis) replace() bool {
	n := s.w.nodes[s.rng.IntN(len(s.w.nodes))]
	if !s.w.mayLose(n) {
		return false
	}
	if n.engine != nil {
		n.crash(endKill)
	}
	n.replace()
	s.revive(n)
	return true
}

// mayLose: a cluster survives the loss of one disk at a time. The last node that lost
// something must have all of it again.
func (w *world) mayLose(n *node) bool {
	if w.plan.replicas == 2 || w.plan.replicas == 1 && !w.checks.anything() {
		return false
	}
	for _, other := range w.nodes {
		if other != n && (other.rotten || other.replaced) {
			return false
		}
	}
	return w.plan.replicas == 1 || !n.replaced
}

// foreign starts the disk of a node that is down as that of another node, or of another
// cluster. It must be refused, and nothing on it changed.
func (s *nemesis) foreign() bool {
	n := s.any(false)
	if n == nil || n.rotten || n.disk.Bytes("FORMAT") == nil {
		return false
	}
	p := &s.w.plan
	replica, replicas, c := n.id, p.replicas, p.config
	switch s.rng.IntN(3) {
	case 0:
		replicas += 1 + s.rng.IntN(3)
	case 1:
		replicas = max(replicas, 2)
		replica = uint8((int(n.id) + 1) % replicas)
	case 2:
		c.Cluster.Name = "another"
	}
	before := n.disk.Clone()
	image := n.disk.Clone()
	e, err := engine.Open(image, engine.Options{
		Keys: n.keys, Config: c, Replica: replica, Replicas: replicas, Boot: n.boots + 1, Network: port{n}, Timing: p.timing, Clock: n,
		Random: rand.New(rand.NewPCG(s.rng.Uint64(), 1)).Uint64, Tails: p.tails, SegmentFiles: p.files, UnsyncedGroups: p.unsynced,
		Loop: func() engine.Loop { return &loop{node: n, dead: true} },
		Fail: func(error) {}, Note: func(string, ...any) {},
	})
	switch {
	case err == nil:
		_ = e.Close()
		s.w.fail("foreign", "the disk of n%d of %d starts as that of n%d of %d, cluster %s", n.id, p.replicas, replica, replicas, c.Cluster.Name)
	case memdisk.Diff(before, image) != "":
		s.w.fail("foreign", "the disk of n%d is refused as that of n%d of %d, and changed: %s", n.id, replica, replicas, memdisk.Diff(before, image))
	}
	return true
}

func (s *nemesis) cut() bool {
	a, b := s.two()
	s.w.net.sever(a, b)
	both := oneIn(s.rng, 2)
	if both {
		s.w.net.sever(b, a)
	}
	s.w.say("cut: n%d to n%d, both ways %v", a, b, both)
	s.healLater()
	return true
}

func (s *nemesis) two() (a, b uint8) {
	n := len(s.w.nodes)
	x := s.rng.IntN(n)
	y := (x + 1 + s.rng.IntN(n-1)) % n
	return uint8(x), uint8(y)
}

func (s *nemesis) partition() bool {
	side := s.rng.IntN(1 << len(s.w.nodes))
	s.w.say("partition %b", side)
	for i := range s.w.nodes {
		for j := range s.w.nodes {
			if side>>i&1 != side>>j&1 {
				s.w.net.sever(uint8(i), uint8(j))
			}
		}
	}
	s.healLater()
	return true
}

func (s *nemesis) healLater() {
	s.w.after(between(s.rng, 50*millisecond, 6*second), func() {
		s.w.say("the network is whole")
		s.w.net.heal()
	})
}

func (s *nemesis) slow() bool {
	n := s.any(true)
	if n == nil {
		return false
	}
	n.slow = pick(s.rng, int64(1), 3, 10, 40)
	s.w.say("n%d is slow by %d", n.id, n.slow)
	return true
}

func (s *nemesis) checkpoint() bool {
	n := s.any(true)
	if n == nil {
		return false
	}
	l := n.loops[s.rng.IntN(len(n.loops))]
	l.Post(func() { l.driver.Checkpoint(func(error) {}) })
	return true
}

// stop ends a node as an operator does: with a checkpoint, when nothing is under way.
func (s *nemesis) stop() bool {
	n := s.any(true)
	if n == nil || n.paused {
		return false
	}
	for _, l := range n.loops {
		l.Post(func() { l.driver.Checkpoint(func(error) {}) })
	}
	s.waitToStop(n, n.life, 400)
	return true
}

func (s *nemesis) waitToStop(n *node, life, patience int) {
	s.w.after(millisecond, func() {
		switch {
		case n.life != life || n.engine == nil:
		case n.idle() && !n.paused:
			n.stop()
			s.revive(n)
		case patience == 0:
			n.crash(endKill)
			s.revive(n)
		default:
			s.waitToStop(n, life, patience-1)
		}
	})
}

// end stops all trouble: the network is whole, the disks work, everybody runs.
func (s *nemesis) end() {
	s.w.calm = true
	s.w.say("all faults end")
	s.w.net.heal()
	s.dance = nil
	for _, n := range s.w.nodes {
		n.slow, n.lags = 1, false
		n.disk.ClearFaults()
		if n.tap != nil {
			n.tap.doom = nil
		}
		if n.paused {
			n.resume()
		}
		if n.rotten && s.w.plan.replicas >= 3 {
			if n.engine != nil {
				n.crash(endKill)
			}
			n.replace()
		}
		if n.engine == nil {
			s.revive(n)
		}
	}
}
