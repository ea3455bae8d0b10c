package sim

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"

	"galgo/internal/cipher"
	"galgo/internal/disk/memdisk"
	"galgo/internal/engine"
	"galgo/internal/shard"
	"galgo/internal/superblock"
	"galgo/internal/vsr"
)

// nodePlan is how fast nodes are.
type nodePlan struct {
	turnMax int64 // µs until a loop runs what was posted
	jobMax  int64 // µs that a job takes
	stall   int   // one job in so many takes a hundred times as long
	skewMax int64 // µs that a clock is off
	drift   int64 // µs of a tick of 10 ms
}

func drawNodes(rng *rand.Rand, faults map[fault]bool) nodePlan {
	p := nodePlan{turnMax: between(rng, 5, 200), jobMax: between(rng, 50, 8*millisecond), stall: pick(rng, 0, 50, 500)}
	skew, drift := between(rng, 0, 3*second), between(rng, 0, 3*millisecond)
	if faults[faultClock] {
		p.skewMax, p.drift = skew, drift
	}
	return p
}

// ending is how a life of a node ends.
type ending uint8

const (
	endKill  ending = iota // the process: the operating system has all that was written
	endPower               // the machine: what was not synced is lost, kept or torn
)

func (e ending) String() string {
	if e == endPower {
		return "loses power"
	}
	return "is killed"
}

// node is a replica over all its lives.
type node struct {
	w     *world
	id    uint8
	life  int
	boots uint64

	keys   *cipher.Ring // nil: its disk is in the clear
	disk   *memdisk.Disk
	tap    *tap
	engine *engine.Engine // nil while it is down
	loops  []*loop
	held   []func() // what waits for the end of a pause
	paused bool

	unseen  bool  // while it ends: nobody sees its connections break
	lags    bool  // its disk does nothing but the logs, for long
	failing error // why it decided to stop
	faulted bool  // its disk failed calls in this life
	// lossy: what was not synced may have been lost, with power or by a failed sync.
	lossy   bool
	doomed  ending
	doubted string // a name that no sync has made durable; see nemesis.doubt

	// What its disk may have lost: see world.mayLose.
	rotten   bool                   // a bit of it has flipped
	replaced bool                   // it is empty
	had      map[vsr.GroupID]vsr.Op // what its logs had before the bit flipped
	goals    []goal
	doubting map[vsr.GroupID]bool // groups that it was in doubt of since its disk was replaced
	// trusted is the end of the metadata's log when the node came out of its doubt about
	// it: about groups that were made up to there it has doubts of its own.
	trusted vsr.Op

	slow   int64 // factor of all that it does
	skew   int64 // µs, of its clock
	drift  int64 // µs longer than 10 ms a tick
	chance [nodeStreams]*rand.Rand

	served   map[vsr.GroupID]vsr.Op // the last op that a read was answered from
	hears    map[vsr.GroupID]bool   // others have spoken of the group in this life
	silences map[vsr.GroupID]silence
	attempts attempts
	applied  map[vsr.GroupID]vsr.Op
}

func (w *world) newNode(id uint8) *node {
	n := &node{w: w, id: id, slow: 1, disk: memdisk.New(memdisk.Options{}), served: map[vsr.GroupID]vsr.Op{}, hears: map[vsr.GroupID]bool{}, silences: map[vsr.GroupID]silence{}, doubting: map[vsr.GroupID]bool{}}
	for i := range n.chance {
		n.chance[i] = stream(w.seed, ofNode(id, i))
	}
	if int(id) < w.plan.sealed {
		n.keys = ringOf(w.seed, id)
	}
	r, p := n.chance[nodeClock], &w.plan.nodes
	n.skew = between(r, -p.skewMax, p.skewMax)
	n.drift = between(r, -p.drift, p.drift)
	return n
}

// ringOf are the keys of a node, with nonces that are the same in every run of a seed.
func ringOf(seed uint64, id uint8) *cipher.Ring {
	key, err := cipher.NewKey(bytes.Repeat([]byte{id + 1}, cipher.KeySize))
	if err != nil {
		panic(err) // of a constant size
	}
	rng := stream(seed, partKeys+1+part(id))
	return cipher.NewRing(key).WithNonces(func(b []byte) {
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
	})
}

// vault opens what is on the disk of a node; nil for one in the clear.
func (n *node) vault() *cipher.Vault {
	id, err := superblock.DecodeIdentity(n.disk.Bytes(superblock.IdentityName))
	if err != nil {
		return nil
	}
	return n.keys.Vault(id.Node)
}

// Now implements shard.Clock.
func (n *node) Now() uint64 { return uint64(epoch + n.w.now + n.skew) }

// after runs f later, unless this life has ended by then. While the node is paused
// it waits.
func (n *node) after(delay int64, f func()) {
	life := n.life
	var due func()
	due = func() {
		switch {
		case n.life != life:
		case n.paused:
			n.held = append(n.held, due)
		default:
			f()
		}
	}
	n.w.after(delay*n.slow, due)
}

func (n *node) turnDelay() int64 { return between(n.chance[nodeLoops], 1, n.w.plan.nodes.turnMax) }

func (n *node) tickDelay() int64 { return 10*millisecond + n.drift }

func (n *node) jobDelay(lane shard.Lane) int64 {
	r, p := n.chance[nodeDisk], &n.w.plan.nodes
	d := between(r, 1, p.jobMax)
	if oneIn(r, p.stall) {
		d *= 100
	}
	if n.lags && lane != shard.LaneLog && lane != shard.LaneSync {
		d += lagging
	}
	return d
}

// lagging is how much longer a job takes where the disk lags, in µs.
const lagging = 300 * millisecond

// start begins a life from what is on the disk.
func (n *node) start() {
	w := n.w
	n.life++
	n.boots++
	n.failing, n.faulted, n.paused, n.held = nil, false, false, nil
	n.loops, n.applied = nil, map[vsr.GroupID]vsr.Op{}
	fresh := n.disk.Bytes("FORMAT") == nil
	w.checks.torn(n.disk)
	n.tap = &tap{w: w, node: n.id, d: n.disk}
	w.nemesis.arm(n)
	w.mark(markNode, uint64(n.id), uint64(n.life))
	p := &w.plan
	e, err := engine.Open(n.tap, engine.Options{
		Keys: n.keys, Config: p.config, Replica: n.id, Replicas: p.replicas, Boot: n.boots, Replace: n.replaced && fresh, Network: n.networkSeam(), Timing: p.timing,
		Clock: n, Random: n.chance[nodeEngine].Uint64, Tails: p.tails, SegmentFiles: p.files, UnsyncedGroups: p.unsynced, SyncApart: p.apart,
		Loop: func() engine.Loop {
			l := &loop{node: n, index: len(n.loops)}
			n.loops = append(n.loops, l)
			return l
		},
		Observe: func(p *vsr.Prepare) { w.model.applies(n, p) },
		Fail:    func(err error) { n.failing = errors.Join(n.failing, err) },
		Note:    func(msg string, args ...any) { w.say("n%d notes: %s %v", n.id, msg, args) },
	})
	if err != nil {
		n.refused(err)
		return
	}
	w.cover.Starts++
	n.engine = e
	w.say("n%d starts, life %d", n.id, n.life)
	w.checks.started(n)
	if n.rotten {
		w.checks.rottenStart(n)
	}
	for i, d := range e.Drivers() {
		n.loops[i].begin(d)
	}
}

// status is what the node says of a group now, on the loop of the group.
func (n *node) status(group vsr.GroupID) (shard.Status, bool) {
	for _, s := range n.engine.Statuses(n.loopOf(group)) {
		if s.Group == group {
			return s, true
		}
	}
	return shard.Status{}, false
}

// loopOf is the number of the loop that serves a group.
func (n *node) loopOf(group vsr.GroupID) int {
	if group == vsr.MetadataGroup {
		return 0
	}
	return 1 + int(uint64(group)%uint64(len(n.loops)-1))
}

// commitMin is the last op of a group that the node has applied, or was given in a
// checkpoint.
func (n *node) commitMin(group vsr.GroupID) vsr.Op {
	s, _ := n.status(group)
	return s.CommitMin
}

// installed reports whether a node that applies op had a checkpoint up to the one
// before it.
func (n *node) installed(group vsr.GroupID, op vsr.Op) bool {
	if n.engine == nil || n.commitMin(group)+1 != op {
		return false
	}
	n.w.cover.Transfers++
	return true
}

// networkSeam is nil for a single node, as in production.
func (n *node) networkSeam() shard.Network {
	if n.w.plan.replicas == 1 {
		return nil
	}
	return port{n}
}

// refused takes note that the node did not start. It may refuse a disk that was
// damaged, and one that fails; nothing else.
func (n *node) refused(err error) {
	w := n.w
	w.say("n%d does not start: %v", n.id, err)
	switch {
	case n.tap.dead:
		w.cover.DiedAtStart++
		n.die(n.doomed)
		w.nemesis.revive(n)
	case n.faulted && n.disk.Fired() > 0:
		w.cover.StartsFailed++
		n.disk = n.disk.Kill()
		w.nemesis.revive(n)
	case n.rotten:
		w.cover.Refused++
		if w.plan.replicas < 3 {
			w.over = true // nobody can mend it, and it said so
			return
		}
		n.replace()
		w.nemesis.revive(n)
	default:
		w.fail("start", "node %d refuses a disk that is not damaged: %v", n.id, err)
	}
}

// giveUp ends a life that the node itself has found to be hopeless.
func (n *node) giveUp() {
	n.w.say("n%d gives up: %v", n.id, n.failing)
	if !n.faulted && !n.rotten {
		n.w.fail("give up", "node %d stops, but its disk did nothing wrong: %v", n.id, n.failing)
		return
	}
	n.w.cover.GaveUp++
	n.die(endKill)
	n.w.nemesis.revive(n)
}

// met ends the life of a node whose disk has died in the middle of a job.
func (n *node) met() bool {
	if !n.tap.dead {
		return false
	}
	n.w.say("n%d %v in %v", n.id, n.doomed, n.tap.doom.hit)
	n.w.cover.doomed(n.tap.doom)
	n.die(n.doomed)
	n.w.nemesis.revive(n)
	return true
}

// crash ends the life of a node at any moment: of the jobs that are under way some
// parts happen.
func (n *node) crash(how ending) {
	rng := n.chance[nodeCrash]
	for _, l := range n.loops {
		for _, j := range l.underWay() {
			if oneIn(rng, 2) {
				n.tap.dead, n.tap.doom = false, &doom{ops: ^memdisk.Op(0), left: 1 + rng.IntN(16), rng: rng}
				_ = j.run()
				if n.tap.dead {
					n.w.cover.doomed(n.tap.doom)
				}
			}
		}
	}
	n.w.say("n%d %v", n.id, how)
	n.die(how)
}

// blackout is a loss of power that takes all that was not synced, and finds no job of the
// disk half done.
func (n *node) blackout() {
	n.w.say("n%d loses power, and all that was not synced", n.id)
	n.tap.dead, n.lossy = true, true
	n.w.cover.PowerLosses++
	n.disk = n.disk.PowerLoss(nil)
	n.ended()
}

// die leaves the disk as the ending does.
func (n *node) die(how ending) {
	n.tap.dead = true
	if how == endPower {
		n.w.cover.PowerLosses++
		n.lossy = true
		n.disk = n.disk.PowerLoss(n.chance[nodeCrash])
	} else {
		n.w.cover.Kills++
		n.disk = n.disk.Kill()
	}
	n.ended()
	n.w.nemesis.misplace(n)
}

// ended forgets the process.
func (n *node) ended() {
	w := n.w
	n.life++
	for _, l := range n.loops {
		l.dead = true
	}
	n.engine, n.loops, n.held, n.paused, n.failing, n.lags = nil, nil, nil, false, nil, false
	w.mark(markNode, uint64(n.id), uint64(n.life))
	w.checks.ended(n)
	n.attempts.lose(w)
	w.net.down(n)
}

// stop ends a life as an operator does.
func (n *node) stop() {
	n.w.say("n%d is stopped", n.id)
	n.w.cover.Stops++
	err := n.engine.Close()
	if n.met() {
		return
	}
	if err != nil && !n.faulted {
		n.w.fail("stop", "node %d: %v", n.id, err)
	}
	n.tap.dead = true
	n.disk = n.disk.Kill()
	n.ended()
}

// idle reports that no loop has anything to do: a graceful stop waits for that.
func (n *node) idle() bool {
	for _, l := range n.loops {
		if len(l.posts) > 0 {
			return false
		}
		for i := range l.lanes {
			if l.lanes[i].busy || len(l.lanes[i].jobs) > 0 {
				return false
			}
		}
	}
	return true
}

// resume ends a pause.
func (n *node) resume() {
	held := n.held
	n.paused, n.held = false, nil
	n.w.say("n%d goes on", n.id)
	for _, f := range held {
		n.w.after(0, f)
	}
}

// lacks says what a replaced node still has not got; "" if it is whole.
func (n *node) lacks() string {
	meta, _ := n.status(vsr.MetadataGroup)
	if n.trusted == 0 && meta.State.Doubt == 0 {
		n.trusted = max(meta.Head, 1)
	}
	if meta.CommitMin < n.trusted {
		return fmt.Sprintf("the metadata has applied op %d of %d", meta.CommitMin, n.trusted)
	}
	for _, g := range n.goals {
		if s, ok := n.status(g.group); ok && s.CommitMin < g.op {
			return fmt.Sprintf("group %d has applied op %d of %d", g.group, s.CommitMin, g.op)
		}
	}
	// A group that is made here later may begin in doubt, also one that is younger than the disk.
	for id := vsr.GroupID(1); id <= vsr.GroupID(n.w.model.metadata.View().GroupsIssued()); id++ {
		if _, ok := n.status(id); !ok && n.w.model.lives(id) {
			return fmt.Sprintf("group %d is not there", id)
		}
	}
	for i := range n.loops {
		for _, s := range n.engine.Statuses(i) {
			if s.State.Doubt != 0 {
				return fmt.Sprintf("group %d is in doubt up to %d", s.Group, s.State.Doubt)
			}
		}
	}
	return ""
}

// replace takes the disk away: the node comes back with an empty one.
func (n *node) replace() {
	n.w.say("n%d gets an empty disk", n.id)
	n.w.cover.Replacements++
	n.disk = memdisk.New(memdisk.Options{})
	n.rotten, n.replaced, n.doubted = false, true, ""
	n.goals, n.trusted = n.w.model.goals(), 0
	clear(n.served)
	clear(n.doubting)
	n.w.checks.replaced(n)
}

func (n *node) String() string { return fmt.Sprintf("n%d", n.id) }
