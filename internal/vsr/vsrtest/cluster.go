package vsrtest

import (
	"fmt"
	"slices"

	"galgo/internal/vsr"
)

// Group of every cluster here.
const (
	group       = vsr.GroupID(7)
	incarnation = 3
)

// chunkBytes is what a replica reads of a checkpoint at once, so that small ones
// take several chunks.
const chunkBytes = 64

// replica is a core with its host.
type replica struct {
	id      uint8
	core    *vsr.Core // nil while it is down
	boot    uint64
	disk    disk
	writes  []write // handed out and not durable yet, in order
	jobs    []job   // other work that was handed out, if it waits
	history []vsr.Identity
	handed  vsr.Op // last op that was handed out to be applied
	skew    uint64 // of its clock
	seen    sight
	held    bool // its writes wait for the script
	// noState makes each write of the state record fail.
	noState bool
}

// job is work of a host that is no write. Ops are applied in order; reads and
// steps of transfers are answered in any.
type job struct {
	apply    *vsr.Committed
	read     *vsr.Read
	transfer *vsr.Transfer
}

// packet is a message on its way.
type packet struct {
	message vsr.Message
	sent    int // number, in order of sending
}

// Cluster is a group of replicas in memory.
type Cluster struct {
	config   vsr.Config
	replicas []*replica
	net      []packet
	cut      map[[2]uint8]bool // from, to
	sent     int
	clock    uint64
	proposed int
	stepped  int                     // primaries that gave their place up
	names    map[vsr.Identity]string // of prepares, for people
	checks   checks
	events   []string // since the last command
	quiet    bool     // keep no events
	frames   bool     // messages go through their bytes
	async    bool     // jobs wait for work
	wakeful  bool     // no core dozes
}

// New returns a cluster of n fresh replicas.
func New(n int, config vsr.Config) *Cluster {
	config.Group, config.Incarnation, config.Replicas = group, incarnation, n
	c := &Cluster{config: config, cut: map[[2]uint8]bool{}, names: map[vsr.Identity]string{}, checks: newChecks()}
	for i := range n {
		c.replicas = append(c.replicas, &replica{id: uint8(i)})
		c.start(uint8(i))
	}
	return c
}

func (c *Cluster) eventf(format string, args ...any) {
	if !c.quiet {
		c.events = append(c.events, fmt.Sprintf(format, args...))
	}
}

// start boots a replica from its disk. Formatting is durable from then on.
func (c *Cluster) start(i uint8) {
	r := c.replicas[i]
	recovered, history := r.disk.recovered(len(c.replicas))
	c.checks.restarted(c, r, recovered)
	r.boot++
	config := c.config
	config.Replica, config.Boot = i, r.boot
	r.core, r.history, r.writes, r.jobs = vsr.New(config, recovered), history, nil, nil
	r.handed, r.seen = recovered.Commit, sight{}
	r.disk.formatted = true
	c.perform(i)
}

// crash stops a replica: of the writes that were not durable the first kept
// survive. The state record may be another device, so it survives if stateKept
// and no truncation before it was lost.
func (c *Cluster) crash(i uint8, kept int, stateKept bool) {
	r := c.replicas[i]
	lostTruncation := false
	for n, w := range r.writes {
		switch {
		case w.persist != nil:
			if stateKept && !lostTruncation {
				c.must(i, r.disk.perform(w))
			}
		case n < kept:
			c.must(i, r.disk.perform(w))
		default:
			lostTruncation = lostTruncation || w.truncate != nil
		}
	}
	r.core, r.writes, r.jobs, r.history = nil, nil, nil, nil
	c.eventf("%d crashes: head %d, %s", i, r.disk.head(), stateString(r.disk.state))
}

// replace gives a replica an empty disk, and tells it so.
func (c *Cluster) replace(i uint8) {
	r := c.replicas[i]
	r.core, r.writes, r.jobs, r.history = nil, nil, nil, nil
	r.disk = disk{formatted: true, state: vsr.State{Doubt: vsr.DoubtAll}}
	c.checks.replaced(r)
}

// rot makes the log of a replica that is down unreadable from an op on. The host
// knows that it was whole once, so it says what it cannot tell about.
func (c *Cluster) rot(r *replica, from vsr.Op) {
	c.checks.lost(r)
	r.disk.state.Doubt = max(r.disk.state.Doubt, r.disk.head())
	r.disk.log = r.disk.log[: from-r.disk.first() : from-r.disk.first()]
}

func (c *Cluster) must(i uint8, err error) {
	if err != nil {
		c.checks.failf("replica %d: %v", i, err)
	}
}

// perform does what the core of a replica wants, as a host would.
func (c *Cluster) perform(i uint8) {
	r := c.replicas[i]
	for r.core != nil {
		due := r.core.Due()
		ready := r.core.Ready()
		if !due && !ready.Empty() {
			panic(fmt.Sprintf("replica %d has work that it does not say is due", r.id))
		}
		c.checks.sees(c, r)
		if ready.Empty() {
			return
		}
		if ready.Truncate != nil && !ready.Fits() {
			r.writes = append(r.writes, write{truncate: ready.Truncate})
			c.eventf("%d truncates to %d", i, *ready.Truncate)
		}
		for _, p := range ready.Append {
			c.name(p)
			r.writes = append(r.writes, write{append: p})
			c.eventf("%d appends %s", i, c.of(p.Op, p.Identity))
		}
		if ready.Persist != nil {
			r.writes = append(r.writes, write{persist: ready.Persist})
			c.eventf("%d persists %s", i, stateString(*ready.Persist))
		}
		for _, m := range ready.Send {
			c.post(r, m)
		}
		for _, committed := range ready.Commit {
			c.checks.applies(c, r, committed)
			r.jobs = append(r.jobs, job{apply: &committed})
		}
		for _, read := range ready.Read {
			r.jobs = append(r.jobs, job{read: &read})
		}
		for _, t := range ready.Transfer {
			r.jobs = append(r.jobs, job{transfer: &t})
		}
		for !c.async && len(r.jobs) > 0 {
			c.work(r, 0)
		}
	}
}

// work does one of the jobs of a replica.
func (c *Cluster) work(r *replica, n int) {
	j := r.jobs[n]
	r.jobs = slices.Delete(r.jobs, n, n+1)
	switch {
	case j.apply != nil:
		c.apply(r, *j.apply)
	case j.read != nil:
		r.core.Fetched(*j.read, r.fetch(*j.read))
	default:
		c.serve(r, *j.transfer)
	}
}

// workable returns the jobs that may be done now: the first to apply, and all
// others. The state is replaced when nothing is being applied to it.
func (r *replica) workable() []int {
	var ready []int
	applying := false
	for n, j := range r.jobs {
		if j.apply == nil || !applying {
			ready = append(ready, n)
		}
		applying = applying || j.apply != nil
	}
	return ready
}

func (c *Cluster) name(p *vsr.Prepare) { c.names[p.Identity] = string(p.Body) }

// post puts a message on the network, or loses it on a cut link.
func (c *Cluster) post(r *replica, m vsr.Message) {
	c.checks.leaves(c, r, m)
	if c.cut[[2]uint8{m.From, m.To}] {
		return
	}
	c.sent++
	if c.frames {
		m = c.framed(m)
	}
	c.net = append(c.net, packet{m, c.sent})
	c.eventf("%s", c.messageString(m))
}

// framed sends a message through its bytes. Whatever a core can say must be
// readable (PF-consensus-02).
func (c *Cluster) framed(m vsr.Message) vsr.Message {
	head, body := vsr.AppendFrame(nil, &m)
	got, err := vsr.DecodeFrame(append(head, body...))
	if err != nil {
		c.checks.failf("%s: %v", c.messageString(m), err)
		return m
	}
	return got
}

func (c *Cluster) apply(r *replica, committed vsr.Committed) {
	r.history = append(r.history, committed.Identity)
	r.core.Applied(committed.Op)
	c.eventf("%d applies %s", r.id, c.of(committed.Op, committed.Identity))
}

// fetch reads the log of a replica as it is: what is not durable yet is not read.
func (r *replica) fetch(read vsr.Read) []*vsr.Prepare {
	if read.Low == 0 {
		if p := r.disk.at(read.Op); p != nil {
			return []*vsr.Prepare{p}
		}
		return nil
	}
	var found []*vsr.Prepare
	for op := max(read.Low, r.disk.first()); op <= read.Op; op++ {
		if p := r.disk.at(op); p != nil {
			found = append(found, p)
		}
	}
	return found
}

// takeCheckpoint makes a checkpoint of what is applied and frees the log up to
// keep ops below it.
func (c *Cluster) takeCheckpoint(i uint8, keep vsr.Op) {
	r := c.replicas[i]
	op := min(r.core.CommitMin(), r.disk.head())
	if op <= r.disk.checkpoint.op {
		return
	}
	r.disk.checkpoint = checkpoint{op: op, timestamp: r.disk.at(op).Timestamp, history: slices.Clone(r.history[:op])}
	if op > keep && op-keep > r.disk.freed {
		r.disk.log = slices.Clone(r.disk.log[op-keep-r.disk.freed:])
		r.disk.freed = op - keep
	}
	if freed := r.disk.freed; freed > 0 {
		r.core.CheckpointDone(freed, r.history[freed-1])
	}
	c.eventf("%d checkpoints %d, log from %d", i, op, r.disk.first())
}

// serve does one step of a transfer.
func (c *Cluster) serve(r *replica, t vsr.Transfer) {
	switch t.Action {
	case vsr.TransferOffer:
		if r.disk.checkpoint.op <= t.Offer.Op {
			c.takeCheckpoint(r.id, 0)
		}
		offer := vsr.Offer{}
		if r.disk.checkpoint.op > t.Offer.Op {
			offer = r.disk.checkpoint.offer()
		}
		r.core.Offered(t.To, offer)
	case vsr.TransferRead:
		var data []byte
		if r.disk.checkpoint.offer() == t.Offer {
			b := r.disk.checkpoint.bytes()
			data = b[t.Offset:min(t.Offset+chunkBytes, t.Offset+uint64(t.Length), uint64(len(b)))]
		}
		r.core.ChunkRead(t, data)
	case vsr.TransferBegin:
		if r.disk.stagedOf != t.Offer {
			r.disk.staged, r.disk.stagedOf = nil, t.Offer
		}
		r.core.TransferStored(t.Offer, uint64(len(r.disk.staged)))
	case vsr.TransferWrite:
		r.disk.staged = append(r.disk.staged, t.Data...)
		r.core.TransferStored(t.Offer, uint64(len(r.disk.staged)))
	case vsr.TransferInstall:
		c.install(r, t)
	}
}

// install makes a taken checkpoint the state. Writes that are under way are done
// first, as a host with one log would.
func (c *Cluster) install(r *replica, t vsr.Transfer) {
	for len(r.writes) > 0 {
		c.complete(r.id, 0)
	}
	cp, ok := parse(t.Offer, r.disk.staged)
	r.disk.staged, r.disk.stagedOf = nil, vsr.Offer{}
	if !ok {
		r.core.TransferDone(t.Offer, false)
		return
	}
	r.disk.checkpoint = cp
	if t.Reset {
		r.disk.log = nil
	} else {
		r.disk.log = slices.Clone(r.disk.log[cp.op-r.disk.freed:])
	}
	r.disk.freed = cp.op
	r.history, r.handed = slices.Clone(cp.history), cp.op
	c.eventf("%d installs checkpoint %d", r.id, cp.op)
	c.checks.installs(c, r, cp)
	r.core.TransferDone(t.Offer, true)
}

// complete makes a write durable and tells the core.
func (c *Cluster) complete(i uint8, n int) {
	r := c.replicas[i]
	w := r.writes[n]
	r.writes = slices.Delete(r.writes, n, n+1)
	c.must(i, r.disk.perform(w))
	switch {
	case w.append != nil:
		c.checks.holds(c, r, w.append)
		r.core.AppendDone(w.append.Op, w.append.Identity)
	case w.persist != nil:
		r.core.StateDurable(*w.persist)
	}
}

// next returns the writes that may become durable now: the log is written in
// order; the state record may overtake appends, but no truncation.
func (r *replica) next() []int {
	var ready []int
	logged := false
	for n, w := range r.writes {
		switch {
		case w.persist != nil:
			if !r.noState {
				ready = append(ready, n)
			}
		case !logged:
			ready = append(ready, n)
			logged = true
			if w.truncate != nil {
				return ready
			}
		case w.truncate != nil:
			return ready
		}
	}
	return ready
}

// deliver hands a packet to its receiver.
func (c *Cluster) deliver(p packet) {
	r := c.replicas[p.message.To]
	if r.core == nil || c.cut[[2]uint8{p.message.From, p.message.To}] {
		return
	}
	r.core.Step(p.message)
	c.perform(p.message.To)
}

// Propose gives the replica a request with this body.
func (c *Cluster) Propose(i uint8, body string) error {
	r := c.replicas[i]
	if r.core == nil {
		return fmt.Errorf("replica %d is down", i)
	}
	c.clock++
	_, _, err := r.core.Propose(vsr.Request{Operation: 160, Timestamp: r.core.NextTimestamp(c.clock + r.skew), Body: []byte(body)})
	c.perform(i)
	return err
}

// tick passes time at a replica.
func (c *Cluster) tick(i uint8) {
	if r := c.replicas[i]; r.core != nil {
		if c.wakeful {
			r.core.Wake()
		}
		r.core.Tick()
		c.perform(i)
	}
}
