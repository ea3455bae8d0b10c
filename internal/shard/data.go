package shard

import (
	"container/list"
	"fmt"
	"slices"

	"galgo"
	"galgo/internal/cipher"
	"galgo/internal/disk"
	"galgo/internal/partition"
	"galgo/internal/vsr"
	"galgo/internal/wal"
)

// GroupSpec is what the metadata says of a partition group.
type GroupSpec struct {
	ID          vsr.GroupID
	Incarnation uint64
	Stream      uint32
	Topic       uint32
	Partition   uint32

	SegmentSize    uint64
	MessagesToSave uint32
	BytesToSave    uint64
	Preallocate    bool
	// Sync: an op counts as held when it is on stable storage. Without it an
	// acknowledged message survives a crash of the process, not of the machine.
	Sync bool
	// PurgeGeneration counts the purges that the metadata has decided.
	PurgeGeneration uint64
	// Deleted names the segments that, since the last purge, were asked to go.
	Deleted partition.Bound
	// Doubtful: a disk that this node had before may have promised something in the
	// group. Unless this one knows it, the replica has to be told everything.
	Doubtful bool
}

// DataConfig is what the driver of a shard's partition groups needs to know.
type DataConfig struct {
	Disk     disk.Disk
	Clock    Clock
	Executor Executor
	Cluster  [16]byte
	Shard    uint32
	Replication
	Pipeline int // ops of a group that wait for their quorum; twice as many may wait for those

	WALFileSize int64
	WALSpare    int
	Salt        uint64        // unguessable; see wal.Options
	SyncApart   int           // bytes of a write of the log whose sync is apart; 0: 256 KiB
	Vault       *cipher.Vault // seals log, table and segments; nil: all is in the clear
	// WALLimit is the size of the live log in bytes at which a checkpoint is due.
	WALLimit int64
	// TailBytes is how much each partition keeps in memory for polls, TailsBytes
	// how much all of the shard together.
	TailBytes  int
	TailsBytes int64
	Files      *partition.Files
	// UnsyncedMax is how many groups may have segments written and not synced, which
	// keeps their files open, before a checkpoint is due; 0: any number.
	UnsyncedMax int

	// GroupDeleted reports whether the consumer group of that number, of the topic that a
	// partition is of, is known to have been deleted; nil: none ever is.
	GroupDeleted func(partition vsr.GroupID, group uint32) bool
	// Moved tells that the figures of a group are in another place now; see Stats.
	Moved   func(vsr.GroupID)
	Observe func(*vsr.Prepare) // see MetadataConfig
	Fail    func(error)
	Note    func(msg string, args ...any)
}

// Data drives the partition groups of one shard.
type Data struct {
	cfg    DataConfig
	log    *wal.Log
	feed   feeder
	groups map[vsr.GroupID]*dataGroup
	sorted []*dataGroup // the same, by number
	rests               // of the same, in the same order
	ticks  uint64
	// active are the groups with input since the last turn: an idle group costs
	// nothing, however many there are.
	active  []*dataGroup
	paused  []*dataGroup // whose segments could not be written lately
	stalled []*dataGroup // whose calls are held, see held
	ckpt    dataCheckpoint
	jobs    int // segment jobs under way
	later   later
	told    telling

	unsynced int // groups with segments written since their last sync

	resident int64     // bytes of batches that the groups hold in memory
	holding  list.List // *dataGroup that hold any, the one written to longest ago first
}

// dataGroup is one partition on this node.
type dataGroup struct {
	spec     GroupSpec
	machine  *partition.Machine
	group    group[partition.Result]
	queue    []dataCall
	active   bool
	dozes    bool // it is not looked at with each tick: see rests
	stalled  bool // it is in Data.stalled
	gone     bool // removed: completions that are still under way find this
	pause    int  // ticks until its segments are written again
	failures int  // in a row, of jobs on its segments
	unsynced bool // counted in Data.unsynced
	// anchored: the log durably holds the op that follows the newest checkpoint, or
	// will before the write of segments that is under way begins. See writeSegments.
	anchored bool

	resident int64         // bytes, as last accounted
	holds    *list.Element // its place in Data.holding

	told    vsr.Op // see Told
	readers readers

	head   vsr.Header      // of the last applied op
	synced groupCheckpoint // newest; goes into the next table
	saved  groupCheckpoint // in the table that counts

	led     vsr.View // view in which the machine took over what its log holds
	purged  uint64   // generation of the last purge that was queued or taken over
	waiting []waitingCall
	deleting
	courier courier
	taking  groupTaking
}

// noView is none in which a group has been led.
const noView = ^vsr.View(0)

// dataCall is a request that waits for room in its group's pipeline.
type dataCall struct {
	// admit checks the request against the present state and, if it may run,
	// fills in what only the primary may decide.
	admit func(ts uint64) (vsr.Request, bool)
	done  func(*vsr.Prepare, partition.Result)
	// refuse answers when the group goes away first.
	refuse func(galgo.Code)
}

// SendRequest stores a batch; see edge.SendRequest.
type SendRequest struct {
	Group    vsr.GroupID
	Batch    []byte
	Client   galgo.ClientID
	Request  uint64
	Numbered bool
	User     uint32
	Gate     Gate // nil: nothing is asked
}

// Gate keeps the order of a client's writes; see edge.Gate.
type Gate interface{ Admit() bool }

// numberedSum marks the header of a numbered send, so that a replay of the log
// treats it as the primary did.
var numberedSum = [16]byte{1}

// Send stores a batch in a group. done is called once, on the loop: with the
// offset of the first message and the op, or with a code.
func (d *Data) Send(req SendRequest, done func(code galgo.Code, base uint64, op vsr.Op)) {
	refuse := func(code galgo.Code) { done(code, 0, 0) }
	g, ok := d.ready(req.Group, refuse)
	if !ok {
		return
	}
	if req.Numbered && d.recognised(g, req, done) {
		return
	}
	d.enqueue(g, dataCall{
		admit: func(ts uint64) (vsr.Request, bool) {
			if req.Numbered && d.recognised(g, req, done) {
				return vsr.Request{}, false
			}
			if req.Gate != nil && !req.Gate.Admit() {
				refuse(galgo.CodeTransientNotAccepted)
				return vsr.Request{}, false
			}
			r := vsr.Request{Client: req.Client, Request: req.Request, User: req.User, Operation: partition.OpSend, Timestamp: ts, Body: req.Batch}
			r.Offset = g.machine.Stamp(req.Batch, ts)
			if req.Numbered {
				r.RequestSum = numberedSum
				g.machine.NoteInFlight(req.Client, req.Request)
			}
			return r, true
		},
		done:   func(p *vsr.Prepare, r partition.Result) { done(r.Code, r.Base, p.Op) },
		refuse: refuse,
	})
}

// recognised answers a numbered send that is known already (design.md §3.5).
func (d *Data) recognised(g *dataGroup, req SendRequest, done func(galgo.Code, uint64, vsr.Op)) bool {
	switch verdict, base := g.machine.CheckNumbered(req.Client, req.Request); verdict {
	case partition.Stored:
		done(galgo.CodeOK, base, g.group.core().CommitMin())
	case partition.InFlight:
		done(galgo.CodeTransientNotCommitted, 0, 0)
	case partition.TooOld:
		done(galgo.CodeRequestAlreadyApplied, 0, 0)
	default:
		return false
	}
	return true
}

// unwrittenMax bounds the bytes of a group that wait to be written to its
// segments, as they do while the disk is slow or refuses: beyond it nothing new is
// taken. So it is when all groups together hold as much above what they may keep for
// readers.
const unwrittenMax = 8 << 20

// ready finds a group that serves; otherwise it refuses with a retriable code.
func (d *Data) ready(id vsr.GroupID, refuse func(galgo.Code)) (*dataGroup, bool) {
	g := d.groups[id]
	if g == nil || g.gone || d.feed.full() || d.crowded(g) && d.failing() || !g.group.core().Serving() {
		refuse(galgo.CodeTransientNotAccepted)
		return nil, false
	}
	g.lead()
	return g, true
}

// lead has the machine of a new primary take over what earlier ones put into the log,
// so that it stamps behind that and knows what is in flight.
func (g *dataGroup) lead() {
	view := g.group.core().View().View
	if g.led == view {
		return
	}
	g.led, g.purged, g.truncated, g.dropping = view, 0, 0, 0
	g.machine.Abandon()
	g.group.uncommitted(func(p *vsr.Prepare) { g.machine.Inherit(entryOf(p)) })
}

// logLimitFactor bounds the log, in multiples of the size at which a checkpoint is
// due: one that is slow or fails must not let the log fill the disk.
const logLimitFactor = 4

// crowded: the segments of a group, or the checkpoints, are too far behind the log. What
// is asked of the group waits for them, so that clients go at the pace of the disk.
func (d *Data) crowded(g *dataGroup) bool {
	return d.ckpt.bytes > logLimitFactor*d.cfg.WALLimit || g.machine.Unwritten() > unwrittenMax || d.resident > d.cfg.TailsBytes+unwrittenMax
}

// failing: segments or checkpoints cannot be written now, and nobody knows until when.
func (d *Data) failing() bool { return len(d.paused) > 0 || d.ckpt.failures > 0 }

// queueFactor bounds the calls of a group that wait for room in its pipeline, as a
// multiple of its depth.
const queueFactor = 2

// enqueue puts a call behind those that wait; a full queue refuses it.
func (d *Data) enqueue(g *dataGroup, call dataCall) {
	if len(g.queue) >= queueFactor*d.cfg.Pipeline {
		call.refuse(galgo.CodeTransientNotAccepted)
		return
	}
	g.queue = append(g.queue, call)
	d.activate(g)
}

func (d *Data) activate(g *dataGroup) {
	d.wake(g)
	if !g.active {
		g.active = true
		d.active = append(d.active, g)
	}
}

// OffsetRequest writes a consumer offset.
type OffsetRequest struct {
	Group    vsr.GroupID
	Kind     galgo.ConsumerKind
	Key      uint32
	Offset   uint64
	Monotone bool
	Tenure   uint64 // of a group: since when its member has the partition
	Client   galgo.ClientID
	Request  uint64
	User     uint32
	// Allowed is asked on the loop, just before the log: may whoever asks still write
	// it? Nil is CodeOK.
	Allowed func() galgo.Code
	Gate    Gate // nil: nothing is asked
}

// StoreOffset writes a consumer's offset through the group's log.
func (d *Data) StoreOffset(req OffsetRequest, done func(galgo.Code, vsr.Op)) {
	check := func(g *dataGroup) galgo.Code { return g.machine.CheckStore(req.Kind, req.Key, req.Offset) }
	body := partition.StoreOffset{Kind: req.Kind, Monotone: req.Monotone, Key: req.Key, Offset: req.Offset, Tenure: req.Tenure}.Append(nil)
	d.offset(req, partition.OpStoreOffset, body, check, done)
}

// DeleteOffset removes a consumer's offset through the group's log.
func (d *Data) DeleteOffset(req OffsetRequest, done func(galgo.Code, vsr.Op)) {
	check := func(g *dataGroup) galgo.Code { return g.machine.CheckDelete(req.Kind, req.Key) }
	d.offset(req, partition.OpDeleteOffset, partition.DeleteOffset{Kind: req.Kind, Key: req.Key, Tenure: req.Tenure}.Append(nil), check, done)
}

// Claim has offsets of who had the partition before refused from here on, for a member of
// a consumer group that has it now. What is stored after that op is the member's alone.
func (d *Data) Claim(req OffsetRequest, done func(galgo.Code, vsr.Op)) {
	check := func(*dataGroup) galgo.Code { return galgo.CodeOK }
	d.offset(req, partition.OpClaim, partition.Claim{Key: req.Key, Tenure: req.Tenure}.Append(nil), check, done)
}

func (d *Data) offset(req OffsetRequest, op uint8, body []byte, check func(*dataGroup) galgo.Code, done func(galgo.Code, vsr.Op)) {
	refuse := func(code galgo.Code) { done(code, 0) }
	g, ok := d.ready(req.Group, refuse)
	if !ok {
		return
	}
	d.enqueue(g, dataCall{
		admit: func(ts uint64) (vsr.Request, bool) {
			if req.Allowed != nil {
				if code := req.Allowed(); code != galgo.CodeOK {
					refuse(code)
					return vsr.Request{}, false
				}
			}
			if req.Gate != nil && !req.Gate.Admit() {
				refuse(galgo.CodeTransientNotAccepted)
				return vsr.Request{}, false
			}
			if code := check(g); code != galgo.CodeOK {
				if g.group.behind() {
					code = galgo.CodeTransientNotAccepted
				}
				refuse(code)
				return vsr.Request{}, false
			}
			if op == partition.OpStoreOffset {
				g.machine.NoteStore(req.Offset)
			}
			return vsr.Request{Client: req.Client, Request: req.Request, User: req.User, Operation: op, Timestamp: ts, Body: body}, true
		},
		done:   func(p *vsr.Prepare, r partition.Result) { done(r.Code, p.Op) },
		refuse: refuse,
	})
}

// Purge empties a partition; done runs when that is applied here. A generation that
// was applied already is done at once. The primary of the group puts it into the log,
// whichever node that is or becomes: the metadata has decided it for all of them.
func (d *Data) Purge(id vsr.GroupID, generation uint64, done func()) {
	g := d.groups[id]
	if g == nil || g.gone || g.machine.Generation() >= generation {
		done()
		return
	}
	if generation > g.spec.PurgeGeneration {
		g.spec.PurgeGeneration, g.spec.Deleted = generation, partition.Bound{}
	}
	d.await(g, func() bool { return g.machine.Generation() >= generation }, done)
	d.purge(g)
}

// purge queues the purge that the metadata has decided last, behind what was asked for
// before it, if this node leads the group. No queue may refuse it.
func (d *Data) purge(g *dataGroup) {
	generation := g.spec.PurgeGeneration
	if generation <= g.machine.Generation() || generation <= g.purged || !g.group.core().Serving() {
		return
	}
	g.lead()
	if g.purged = generation; generation <= g.machine.StampedGeneration() {
		return
	}
	undone := func(galgo.Code) { g.purged = 0 }
	g.queue = append(g.queue, dataCall{
		admit: func(ts uint64) (vsr.Request, bool) {
			g.machine.NotePurge(generation)
			return vsr.Request{Operation: partition.OpPurge, Timestamp: ts, Body: partition.AppendPurge(nil, generation)}, true
		},
		refuse: undone,
	})
}

// waitingCall waits for what another part of the node has decided to happen here.
type waitingCall struct {
	settled func() bool
	done    func()
}

// await has done run when the condition holds.
func (d *Data) await(g *dataGroup, settled func() bool, done func()) {
	if settled() {
		done()
		return
	}
	g.waiting = append(g.waiting, waitingCall{settled, done})
	d.activate(g)
}

// settle tells who waits for what has happened.
func (g *dataGroup) settle(all bool) {
	if len(g.waiting) == 0 {
		return
	}
	var done []func()
	kept := g.waiting[:0]
	for _, w := range g.waiting {
		if all || w.settled() {
			done = append(done, w.done)
		} else {
			kept = append(kept, w)
		}
	}
	clear(g.waiting[len(kept):])
	g.waiting = kept
	for _, f := range done {
		f()
	}
}

// readable: what is applied here is not of the past, as far as the core can know.
func (g *dataGroup) readable() bool {
	return !g.gone && !g.taking.installing && g.group.core().Current()
}

// Poll plans a poll against what is committed; the plan is read off the loop.
func (d *Data) Poll(id vsr.GroupID, req partition.PollRequest, plan *partition.Plan) galgo.Code {
	g := d.groups[id]
	if g == nil || !g.readable() {
		return galgo.CodeTransientNotAccepted
	}
	return g.machine.Poll(req, plan)
}

// Offset reads a committed consumer offset and the partition's current one.
func (d *Data) Offset(id vsr.GroupID, kind galgo.ConsumerKind, key uint32) (stored, current uint64, found bool, code galgo.Code) {
	g := d.groups[id]
	if g == nil || !g.readable() {
		return 0, 0, false, galgo.CodeTransientNotAccepted
	}
	stored, found = g.machine.StoredOffset(kind, key)
	current, _ = g.machine.CurrentOffset()
	return stored, current, found, galgo.CodeOK
}

// Turn does what the inputs since the last turn made due.
func (d *Data) Turn() {
	d.unstall()
	for len(d.active) > 0 {
		batch := d.active
		d.active = nil
		for _, g := range batch {
			g.active = false
			if g.gone {
				d.forget(g)
			} else {
				d.turn(g)
			}
		}
	}
	d.relieve()
	d.maybeCheckpoint()
	d.feed.flush()
}

func (d *Data) turn(g *dataGroup) {
	for {
		d.propose(g)
		answers := g.group.turn()
		if len(answers) == 0 {
			break
		}
		for _, a := range answers {
			if a.done != nil {
				a.done(a.prepare, a.result)
			}
		}
		g.settle(false)
	}
	d.installTaken(g)
	g.settle(false)
	g.readers.settle(g.group.core().CommitMin())
	d.write(g)
	d.account(g)
}

// propose moves waiting calls into the pipeline while there is room.
func (d *Data) propose(g *dataGroup) {
	d.purge(g)
	d.truncate(g)
	d.sweep(g)
	if len(g.queue) > 0 && !g.group.core().Serving() {
		d.refuseQueue(g, galgo.CodeTransientNotAccepted)
	}
	now := uint64(0)
	for len(g.queue) > 0 && g.group.core().Room() > 0 && !d.held(g) {
		if now == 0 {
			now = d.cfg.Clock.Now() // once a turn: a clock read costs as much as a small message
		}
		call := g.queue[0]
		g.queue[0] = dataCall{}
		g.queue = g.queue[1:]
		req, ok := call.admit(g.group.core().NextTimestamp(now))
		if !ok {
			continue
		}
		d.mustPropose(g, req, call.done, call.refuse)
	}
	if len(g.queue) > 0 && !g.stalled && d.held(g) {
		g.stalled = true
		d.stalled = append(d.stalled, g)
	}
}

func (d *Data) mustPropose(g *dataGroup, req vsr.Request, done func(*vsr.Prepare, partition.Result), lost func(galgo.Code)) {
	if err := g.group.propose(req, done, lost); err != nil {
		panic(fmt.Sprintf("shard: group %d has room but refuses: %v", g.spec.ID, err))
	}
}

// refuseQueue answers the calls that wait for room: they will get none here.
func (d *Data) refuseQueue(g *dataGroup, code galgo.Code) {
	queue := g.queue
	g.queue = nil
	for _, call := range queue {
		call.refuse(code)
	}
}

// held: nothing of the group may go into the log now.
func (d *Data) held(g *dataGroup) bool { return d.feed.full() || d.crowded(g) }

// unstall has the calls go on that were held: nothing else may ever happen to their
// groups. Those that wait for what fails are refused; they may find another node.
func (d *Data) unstall() {
	kept := d.stalled[:0]
	for _, g := range d.stalled {
		switch {
		case g.gone || !d.held(g):
			g.stalled = false
			d.activate(g)
			continue
		case d.crowded(g) && d.failing():
			d.refuseQueue(g, galgo.CodeTransientNotAccepted)
		}
		kept = append(kept, g)
	}
	clear(d.stalled[len(kept):])
	d.stalled = kept
}

// apply runs a committed operation, live and when the log is replayed.
func (d *Data) apply(g *dataGroup, p *vsr.Prepare) partition.Result {
	if d.cfg.Observe != nil {
		d.cfg.Observe(p)
	}
	g.head = p.Header
	d.ckpt.bytes += int64(len(p.Body)) + vsr.HeaderSize
	result := g.machine.Apply(entryOf(p))
	d.noteWritten(g, p)
	return result
}

// entryOf is a prepare as the machine sees it.
func entryOf(p *vsr.Prepare) partition.Entry {
	return partition.Entry{
		Op: uint64(p.Op), Operation: p.Operation, Timestamp: p.Timestamp, Offset: p.Offset,
		Client: p.Client, Request: p.Request, Numbered: p.RequestSum != [16]byte{}, Body: p.Body,
	}
}

// Remove stops serving a group whose partition was deleted and removes its
// files. What waits, in the queue or for the log, is told that the partition is
// not there: one of the same name is another group. done runs when the group no
// longer serves.
func (d *Data) Remove(id vsr.GroupID, done func()) {
	g := d.groups[id]
	if g == nil {
		done()
		return
	}
	g.gone, g.dozes = true, false
	delete(d.groups, id)
	at := d.place(id)
	d.sorted = slices.Delete(d.sorted, at, at+1)
	d.rests.delete(at)
	d.refuseQueue(g, galgo.CodeResourceNotFound)
	g.group.abandon(galgo.CodeResourceNotFound)
	g.settle(true)
	g.readers.settle(g.told)
	d.release(g)
	d.countUnsynced(g, false)
	d.forget(g)
	d.removeFiles(g)
	g.courier.forget()
	done()
}

// forget lets the log drop a removed group, once it has written what it was given
// of it: a record of a group that it does not know would not continue anything.
// The completion of the last one comes back here.
func (d *Data) forget(g *dataGroup) {
	if g.group.writing == 0 {
		d.log.Forget(g.spec.ID)
	}
}

// add puts a group among those that are served; its core is made by the caller.
func (d *Data) add(s GroupSpec, machine *partition.Machine, c groupCheckpoint) *dataGroup {
	g := &dataGroup{spec: s, machine: machine, head: c.head, synced: c, saved: c, anchored: s.Sync, led: noView, deleting: deleting{sweeping: true}}
	g.group = group[partition.Result]{
		id: s.ID, ticks: &d.ticks, passed: d.ticks, log: d.log, feed: &d.feed, exec: d.cfg.Executor, net: d.cfg.Network, note: d.cfg.Note,
		sync: s.Sync || d.cfg.Replicas > 1, wake: func() { d.activate(g) },
		apply:   func(p *vsr.Prepare) partition.Result { return d.apply(g, p) },
		news:    news{note: d.cfg.Note, rate: &d.told},
		persist: func(s vsr.State, done func()) { d.feed.append(promise{State: s}.record(g.spec.ID), true, done) },
	}
	g.courier = d.newCourier(g)
	g.group.transfer = g.courier.do
	d.groups[s.ID] = g
	at := d.place(s.ID)
	d.sorted = slices.Insert(d.sorted, at, g)
	d.rests.insert(at, s.ID)
	return g
}

// core makes the consensus of a group from what its log held; nil for a group that this
// disk has never heard of.
func (d *Data) core(g *dataGroup, log *replay, promised *promise) {
	r := vsr.Recovered{State: d.firstState(g.spec.ID), Fresh: promised == nil, Checkpoint: g.saved.head.Op}
	switch {
	case promised != nil:
		r.State = promised.State
	case g.spec.Doubtful: // also with ops in its log: the end of the doubt is written down
		r.Fresh, r.State.Doubt = false, vsr.DoubtAll
	case log.head.Op > 0:
		r.Fresh = false // it took part in the first view, which needs no record
	}
	g.group.recovered = log.rest
	g.group.news.from(r.State)
	g.group.late = vsr.New(d.cfg.config(d.cfg.Cluster, g.spec.ID, g.spec.Incarnation, d.cfg.Pipeline), log.recovered(r))
	if r.Fresh {
		g.group.begin(d.cfg.Replica)
	}
	g.group.touch()
}

// firstState is where a group begins. Its first primary follows from its number, so
// that primaries are spread over the nodes.
func (d *Data) firstState(id vsr.GroupID) vsr.State {
	v := vsr.View(home(id, d.cfg.Replicas))
	return vsr.State{View: v, LogView: v}
}

// Stats returns a group's figures, readable from any goroutine; nil if the group
// is not here.
func (d *Data) Stats(id vsr.GroupID) *partition.Stats {
	if g := d.groups[id]; g != nil {
		return g.machine.Stats()
	}
	return nil
}

// Groups lists the groups of the shard in order.
func (d *Data) Groups() []vsr.GroupID {
	ids := make([]vsr.GroupID, len(d.sorted))
	for i, g := range d.sorted {
		ids[i] = g.spec.ID
	}
	return ids
}

// Tick passes one unit of time, some 10 ms.
func (d *Data) Tick() {
	d.feed.tick()
	d.ckpt.tick()
	d.resume()
	if d.cfg.Replicas == 1 {
		return
	}
	d.later.tick()
	d.told.tick(d.cfg.Note)
	d.ticks++
	for at := 0; at < len(d.due); at++ {
		if d.due[at] <= d.ticks {
			d.tick(d.sorted[at])
		}
	}
}

func (d *Data) tick(g *dataGroup) {
	if g.group.tick(); g.waits() {
		d.activate(g)
	}
	g.readers.tick()
	d.doze(g)
}

// waits: there is something to do as soon as the group has a primary, or has one no more.
func (g *dataGroup) waits() bool {
	return len(g.queue) > 0 || g.spec.PurgeGeneration > g.machine.Generation()
}

// Ticking reports whether the driver waits for time to pass.
func (d *Data) Ticking() bool {
	return d.cfg.Replicas > 1 || d.feed.ticking() || d.ckpt.pause > 0 || len(d.paused) > 0
}

// Close marks and closes the log. Nothing may be under way; segments need no
// closing, the log has what they lack.
func (d *Data) Close() error { return d.log.Close() }
