package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"galgo/internal/config"
	"galgo/internal/vsr"
)

// plan is what a seed draws before anything happens. Each seed has some of the
// faults and not others, weak or strong, and settings that make other things rare
// or common (swarm testing): a run with everything at once hides more than it shows.
type plan struct {
	replicas int
	clients  int
	steps    int // events until all faults end
	config   config.Config
	timing   vsr.Timing
	tails    int64
	files    int // segment files held open
	unsynced int
	apart    int // bytes of a write of the log whose sync is apart
	sealed   int // nodes from the first on whose disks are sealed

	faults map[fault]bool
	// every is the mean time between two things that go wrong, in µs.
	every int64

	network networkPlan
	nodes   nodePlan
	work    workPlan
}

// fault is a class of what may go wrong.
type fault string

// The classes. Some change how all goes on (the network's), others are done by the
// nemesis, one at a time.
const (
	faultCrash     fault = "crash"      // a process is killed
	faultPower     fault = "power"      // a machine loses power
	faultPowerAll  fault = "power-all"  // all do at once
	faultDoom      fault = "doom"       // either, at a chosen call of the disk
	faultStop      fault = "stop"       // a graceful stop
	faultPause     fault = "pause"      // a process does not run for a while
	faultClock     fault = "clock"      // skew, drift and steps
	faultIO        fault = "io"         // a call of the disk fails once, a write is short
	faultSync      fault = "sync"       // a sync fails and loses what it should have kept
	faultSyncDir   fault = "sync-dir"   // the same of a directory: its names are lost
	faultSpace     fault = "space"      // the disk is full for a while
	faultRot       fault = "rot"        // a bit of a file of a stopped node flips
	faultReplace   fault = "replace"    // a disk is lost, and the node comes back with an empty one
	faultLoss      fault = "loss"       // frames are lost
	faultRepeat    fault = "repeat"     // and come twice
	faultDelay     fault = "delay"      // and late, some by many seconds
	faultCut       fault = "cut"        // links are cut, also one way
	faultPartition fault = "partition"  // the nodes fall into two parts
	faultSlow      fault = "slow"       // all that a node does takes long
	faultClient    fault = "client"     // clients lose connections and answers
	faultCheck     fault = "checkpoint" // checkpoints at any time: no fault, but a strain
	faultFork      fault = "fork"       // primaries cut off or killed in the middle of what they say: see dance
	faultEcho      fault = "echo"       // old answers come again with the next question
	faultAmbush    fault = "ambush"     // deaths between two steps of checkpoints and transfers
	faultStray     fault = "stray"      // pieces of checkpoints from peers rot before they are installed
	faultForeign   fault = "foreign"    // a disk is started as that of another node
	faultAstray    fault = "astray"     // writes that never reached the disk, or reached another place of it
	faultDecay     fault = "decay"      // a bit of a segment flips under a node that runs
	faultDoubt     fault = "doubt"      // names of the log's files that no sync makes durable
)

// allFaults in the order in which they are drawn and shown.
var allFaults = []fault{
	faultCrash, faultPower, faultPowerAll, faultDoom, faultStop, faultPause, faultClock, faultIO, faultSync, faultSpace, faultRot,
	faultReplace, faultLoss, faultRepeat, faultDelay, faultCut, faultPartition, faultSlow, faultClient, faultCheck, faultSyncDir,
	faultFork, faultEcho, faultAmbush, faultStray, faultForeign, faultAstray, faultDecay, faultDoubt,
}

// damages are drawn from a stream of their own: one run of three has each.
var damages = []fault{faultAstray, faultDecay}

// targeted are the faults that wait for their moment. They are drawn apart from the
// others: two runs of three have each.
var targeted = []fault{faultFork, faultEcho, faultAmbush, faultStray, faultForeign}

// betweenNodes are the faults that need more than one.
var betweenNodes = []fault{
	faultReplace, faultLoss, faultRepeat, faultDelay, faultCut, faultPartition, faultFork, faultEcho, faultStray, faultAstray, faultDecay,
}

// FaultNames lists what Options.Faults takes.
func FaultNames() []string {
	names := make([]string, len(allFaults))
	for i, f := range allFaults {
		names[i] = string(f)
	}
	return names
}

// draw makes the plan of a seed. What the options fix is drawn all the same, so
// that the rest stays what it was.
func draw(o Options) (plan, error) {
	rng := stream(o.Seed, partPlan)
	p := plan{
		replicas: pick(rng, 1, 1, 1, 3, 3, 3, 3, 3, 5, 5, 2, 4, 6),
		clients:  2 + rng.IntN(6),
		steps:    8_000 + rng.IntN(16_000),
		every:    between(rng, 30*millisecond, 2*second),
		tails:    int64(1) << (12 + rng.IntN(11)),
		files:    2 + rng.IntN(30),
		unsynced: 1 + rng.IntN(30),
		faults:   map[fault]bool{},
	}
	share := pick(rng, 0, 2, 5, 5, 8) // of the faults, in tenths
	for _, f := range allFaults {
		if !slices.Contains(targeted, f) && !slices.Contains(damages, f) && f != faultDoubt {
			p.faults[f] = rng.IntN(10) < share
		}
	}
	aim := stream(o.Seed, partTargets)
	for _, f := range targeted {
		p.faults[f] = !oneIn(aim, 3)
	}
	damage := stream(o.Seed, partDamage)
	for _, f := range damages {
		p.faults[f] = oneIn(damage, 3)
	}
	p.faults[faultDoubt] = !oneIn(stream(o.Seed, partDoubt), 3)
	if o.Replicas > 0 {
		p.replicas = o.Replicas
	}
	if p.replicas > 1 {
		p.steps *= 3 // most of what happens is said between nodes
	}
	if o.Steps > 0 {
		p.steps = o.Steps
	}
	if err := p.only(o.Faults); err != nil {
		return p, err
	}
	if p.replicas == 1 {
		for _, f := range betweenNodes {
			p.faults[f] = false
		}
	}
	settings := stream(o.Seed, partSettings)
	p.config = drawConfig(settings)
	p.apart = pick(settings, 0, 1, 300)
	p.timing = drawTiming(rng)
	if keys := stream(o.Seed, partKeys); oneIn(keys, 3) {
		p.sealed = 1 + keys.IntN(p.replicas)
	}
	steps := p.steps
	p.network = drawNetwork(rng, p.faults)
	p.nodes = drawNodes(rng, p.faults)
	p.work = drawWork(rng)
	p.work.memory = pick(aim, 0, 2, 4)
	p.work.twins = pick(stream(o.Seed, partTwins), 0, 0, 30)
	if p.faults[faultFork] && p.replicas > 1 && !oneIn(aim, 4) {
		p.crowdLess(aim)
		if o.Steps > 0 {
			p.steps = steps
		}
	}
	return p, nil
}

// crowdLess leaves few groups, and elections that come soon: of what happens more is
// then a matter of the group that the dance is around.
func (p *plan) crowdLess(rng *rand.Rand) {
	p.work.streams, p.work.topics, p.work.partitions = 1, 1+rng.IntN(2), 1+rng.IntN(2)
	t := &p.timing
	t.HeartbeatTicks = min(t.HeartbeatTicks, 4)
	t.ElectionTicks = min(t.ElectionTicks, 4*t.HeartbeatTicks+rng.IntN(8))
	t.ViewChangeTicks = min(t.ViewChangeTicks, t.ElectionTicks+rng.IntN(8))
	t.RepeatTicks, t.ProbeTicks, t.ProbeAttempts = min(t.RepeatTicks, 5), min(t.ProbeTicks, 6), 2
	p.work.timeout = max(between(rng, 100*millisecond, 600*millisecond), 16*p.nodes.jobMax, 16*p.network.delayMax)
	p.steps += p.steps / 2
}

// only leaves the faults that are named; no names leave what was drawn, "none"
// leaves none and "all" has them all.
func (p *plan) only(names []string) error {
	if len(names) == 0 {
		return nil
	}
	clear(p.faults)
	for _, name := range names {
		switch {
		case name == "none":
		case name == "all":
			for _, f := range allFaults {
				p.faults[f] = true
			}
		case slices.Contains(allFaults, fault(name)):
			p.faults[fault(name)] = true
		default:
			return fmt.Errorf("unknown fault %q: known are all, none, %s", name, strings.Join(FaultNames(), ", "))
		}
	}
	return nil
}

func drawConfig(rng *rand.Rand) config.Config {
	c := config.Default()
	c.Cluster.Name = "sim"
	c.System.Shards = pick(rng, 1, 1, 2, 3)
	c.WAL.FileSize = config.ByteSize(16<<10) << rng.IntN(5)
	c.WAL.Limit = c.WAL.FileSize * config.ByteSize(2+rng.IntN(12))
	if oneIn(rng, 4) {
		c.WAL.Limit = 1 << 40 // checkpoints only for other reasons
	}
	c.Metadata.PrepareQueueDepth = pick(rng, 1, 2, 8, 32)
	c.Metadata.JournalSlots = pick(rng, 12, 40, 200, 1<<20)
	c.Metadata.CheckpointMargin = 4
	c.Metadata.CheckpointBytes = config.ByteSize(pick(rng, 4<<10, 64<<10, 1<<40))
	c.Metadata.ClientsTableMax = pick(rng, 3, 6, 64, 64)
	c.Partition.PrepareQueueDepth = pick(rng, 1, 2, 8, 32, 127)
	c.Partition.TailBytes = config.ByteSize(1) << (9 + rng.IntN(12))
	c.ConsumerGroup.RebalancingTimeout = time.Duration(between(rng, 100*millisecond, 10*second)) * time.Microsecond
	c.DataMaintenance.Messages.Hold = oneIn(rng, 2)
	return c
}

// drawTiming keeps elections short: what matters is the order of the times.
func drawTiming(rng *rand.Rand) vsr.Timing {
	beat := 2 + rng.IntN(8)
	election := beat*4 + rng.IntN(60)
	return vsr.Timing{
		HeartbeatTicks: beat, RetransmitTicks: 2 + rng.IntN(10), ElectionTicks: election, ViewChangeTicks: election + rng.IntN(60),
		RepeatTicks: 3 + rng.IntN(10), ProbeTicks: 4 + rng.IntN(20), ProbeAttempts: 2 + rng.IntN(4), RepairTicks: 4 + rng.IntN(20),
		TransferRounds: 3 + rng.IntN(4), CommitTicks: 1,
	}
}

// String says in one line what the plan is.
func (p *plan) String() string {
	var on []string
	for _, f := range allFaults {
		if p.faults[f] {
			on = append(on, string(f))
		}
	}
	if len(on) == 0 {
		on = []string{"none"}
	}
	c := &p.config
	return fmt.Sprintf("%d replicas, %d of them sealed, %d clients, %d shards, %d steps; log files %v, limit %v; slots %d, pipelines %d and %d, sessions %d; tails %v of %d bytes; faults every %s s: %s",
		p.replicas, p.sealed, p.clients, c.System.Shards, p.steps, c.WAL.FileSize, c.WAL.Limit, c.Metadata.JournalSlots, c.Metadata.PrepareQueueDepth,
		c.Partition.PrepareQueueDepth, c.Metadata.ClientsTableMax, c.Partition.TailBytes, p.tails, clock(p.every), strings.Join(on, " "))
}
