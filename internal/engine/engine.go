// Package engine is the storage and consensus half of a node: its shards, with the
// groups that they drive, and the answers to the edge. It knows no socket and no
// goroutine: production gives it loops of goroutines, tests and the simulator loops
// that run everything inline, in virtual time.
package engine

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/shard"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// Loop is the thread of control that owns a shard: what is posted runs on it in
// order, and jobs that touch the disk run on its lanes.
type Loop interface {
	shard.Executor
	// Post runs f on the loop, soon. It reports false after the loop has ended.
	Post(f func()) bool
}

// Driver is what a loop drives: after each batch of what was posted a Turn, and a
// Tick for each unit of time (some 10 ms) while Ticking says that time has to pass.
type Driver interface {
	Turn()
	Tick()
	Ticking() bool
	// Checkpoint takes one now; done runs on the loop.
	Checkpoint(done func(error))
}

// Engine is the shards of one node and what they share.
type Engine struct {
	meta      *shard.Metadata
	metaLoop  Loop
	data      []*shard.Data
	dataLoops []Loop

	view   atomic.Pointer[metadata.View]
	commit atomic.Uint64
	stats  sync.Map // group id -> *partition.Stats
	files  *partition.Files

	deliveries *deliveries
	retention  retention
	patience   uint64 // µs that a partition may stay with a member that another is to have it from

	handOversFrom groupKey // where the next look for what may be handed over begins; of the metadata loop

	replica uint8
	home    metadata.Home
	durable bool          // partition.durability: what a topic gets that does not say
	leader  atomic.Int32  // of the metadata; -1 while none is known
	current atomic.Bool   // the metadata is not of the past
	told    atomic.Uint64 // op of the metadata that a client was told of: see Current
	cluster func(client netip.Addr) wire.ClusterMetadata
	host    func() wire.Stats
}

// Drivers lists what the loops drive, in the order in which the loops were asked
// for: the metadata, then each shard of partitions.
func (e *Engine) Drivers() []Driver {
	drivers := []Driver{e.meta}
	for _, d := range e.data {
		drivers = append(drivers, d)
	}
	return drivers
}

// Announce sets what clients are told of the cluster, each by its address, and of this
// process. It is called before the edge serves.
func (e *Engine) Announce(cluster func(client netip.Addr) wire.ClusterMetadata, host func() wire.Stats) {
	e.cluster, e.host = cluster, host
}

// shardOf says which data shard owns a group.
func (e *Engine) shardOf(group uint64) int { return int(group % uint64(len(e.data))) }

// onData runs f on the loop of the shard that owns the group; lost is called if
// that loop has ended.
func (e *Engine) onData(group uint64, f func(*shard.Data), lost func()) {
	i := e.shardOf(group)
	if !e.dataLoops[i].Post(func() { f(e.data[i]) }) {
		lost()
	}
}

// publish makes a view visible to the edge.
func (e *Engine) publish(v *metadata.View, op vsr.Op) {
	e.view.Store(v)
	e.commit.Store(uint64(op))
}

// changed makes, removes and purges groups as the metadata says, on the loops
// that own them, and calls done on the metadata loop when all of it has happened.
func (e *Engine) changed(changes []metadata.Change, done func()) {
	finish := countdown(len(changes), func() { e.metaLoop.Post(done) })
	for _, c := range changes {
		switch c.Kind {
		case metadata.GroupCreated:
			spec, ok := e.spec(e.View(), c.Group)
			e.onData(c.Group, func(d *shard.Data) {
				if ok { // else it was removed since
					e.create(d, spec)
				}
				finish()
			}, func() {})
		case metadata.GroupRemoved:
			e.onData(c.Group, func(d *shard.Data) { e.remove(d, vsr.GroupID(c.Group), finish) }, func() {})
		case metadata.GroupPurged:
			e.deliveries.forget(c.Group)
			e.onData(c.Group, func(d *shard.Data) { d.Purge(vsr.GroupID(c.Group), c.Generation, finish) }, func() {})
		case metadata.GroupTruncated:
			e.onData(c.Group, func(d *shard.Data) {
				d.Truncate(vsr.GroupID(c.Group), c.Generation, partition.Bound{Below: c.Below, Until: c.Until}, finish)
			}, func() {})
		case metadata.ConsumerGroupRemoved:
			e.forgetGroup(c, finish)
		default:
			finish()
		}
	}
}

// countdown returns a function that calls done when it is called for the n-th time, on
// whatever goroutine that is.
func countdown(n int, done func()) func() {
	left := new(atomic.Int64)
	left.Store(int64(n))
	return func() {
		if left.Add(-1) == 0 {
			done()
		}
	}
}

func (e *Engine) create(d *shard.Data, spec shard.GroupSpec) {
	d.Create(spec)
	e.moved(d, spec.ID)
}

func (e *Engine) remove(d *shard.Data, id vsr.GroupID, done func()) {
	e.stats.Delete(uint64(id))
	e.deliveries.forget(uint64(id))
	d.Remove(id, done)
}

// moved remembers where the figures of a group are.
func (e *Engine) moved(d *shard.Data, id vsr.GroupID) {
	if s := d.Stats(id); s != nil {
		e.stats.Store(uint64(id), s)
	}
}

// installed makes the groups fit metadata that came from a peer, whole, and calls done on
// the metadata loop when they do.
func (e *Engine) installed(done func()) {
	view := e.View()
	done = countdown(len(e.data), done)
	for i, d := range e.data {
		specs := e.specs(view, i, len(e.data))
		release := e.meta.Hold(0)
		settled := func() { release(); done() }
		e.dataLoops[i].Post(func() {
			known := make(map[vsr.GroupID]bool, len(specs))
			for _, s := range specs {
				known[s.ID] = true
				e.create(d, s)
			}
			for _, id := range d.Groups() {
				if !known[id] {
					e.remove(d, id, func() {})
				}
			}
			d.Sweep()
			e.purge(d, specs, settled)
		})
	}
}

// purge sees to it that groups are purged as often as the metadata says, and truncated as
// far, whichever of that had not come to their logs. settled is called on the metadata
// loop when it has.
func (e *Engine) purge(d *shard.Data, specs []shard.GroupSpec, settled func()) {
	done := countdown(2*len(specs)+1, func() { e.metaLoop.Post(settled) })
	for _, s := range specs {
		d.Purge(s.ID, s.PurgeGeneration, done)
		d.Truncate(s.ID, s.PurgeGeneration, s.Deleted, done)
	}
	done()
}

// View implements edge.Backend.
func (e *Engine) View() *metadata.View { return e.view.Load() }

// CommitOp implements edge.Backend.
func (e *Engine) CommitOp() uint64 { return e.commit.Load() }

// Cluster implements edge.Backend.
func (e *Engine) Cluster(client netip.Addr) wire.ClusterMetadata { return e.cluster(client) }

// Host implements edge.Backend.
func (e *Engine) Host() wire.Stats { return e.host() }

// Stats implements edge.Backend.
func (e *Engine) Stats(group uint64) (partition.Figures, bool) {
	s, ok := e.stats.Load(group)
	if !ok {
		return partition.Figures{}, false
	}
	return s.(*partition.Stats).Figures(), true
}

// Metadata implements edge.Backend.
func (e *Engine) Metadata(req edge.MetadataRequest, done func(edge.MetadataReply)) {
	if req.Operation == wire.OperationDeleteSegments {
		e.resolveSegments(req, func(req edge.MetadataRequest) { e.submit(req, done) }, done)
		return
	}
	e.submit(req, done)
}

func (e *Engine) submit(req edge.MetadataRequest, done func(edge.MetadataReply)) {
	lost := edge.MetadataReply{Outcome: edge.OutcomeResult, Operation: req.Operation, Code: galgo.CodeTransientNotCommitted}
	var run func()
	post := func() {
		if !e.metaLoop.Post(run) {
			done(lost)
		}
	}
	run = func() {
		release, ok := e.holdFor(&req, post)
		if !ok {
			return
		}
		e.meta.Submit(shard.MetadataRequest(req), func(r shard.MetadataReply) {
			release()
			done(edge.MetadataReply{
				Outcome: edge.MetadataOutcome(r.Outcome), Body: r.Body, Operation: r.Operation, Op: r.Op, Born: r.Born,
				Timestamp: r.Timestamp, Code: r.Code, Reason: r.Reason,
			})
		})
	}
	post()
}

// Send implements edge.Backend.
func (e *Engine) Send(req edge.SendRequest, done func(edge.SendReply)) {
	r := shard.SendRequest{
		Group: vsr.GroupID(req.Group), Batch: req.Batch, Client: req.Client,
		Request: req.Request, Numbered: req.Numbered, User: req.User, Gate: req.Gate,
	}
	e.onData(req.Group, func(d *shard.Data) {
		d.Send(r, func(code galgo.Code, base uint64, op vsr.Op) {
			done(edge.SendReply{Code: code, Base: base, Op: uint64(op)})
		})
	}, func() { done(edge.SendReply{Code: galgo.CodeTransientNotAccepted}) })
}

// StoreOffset implements edge.Backend.
func (e *Engine) StoreOffset(req edge.OffsetRequest, done func(edge.OffsetReply)) {
	e.writeOffset(req, (*shard.Data).StoreOffset, func(r edge.OffsetReply) {
		if r.Code == galgo.CodeOK {
			e.Stored(req)
		}
		done(r)
	})
}

// Stored takes note of an offset that was stored, here or at the node that decides for the
// partition: a member whose connection is here may be done with what it was given.
func (e *Engine) Stored(req edge.OffsetRequest) {
	if req.Kind == galgo.ConsumerGroup {
		e.deliveries.commit(deliveryKey{req.Group, req.Key}, req.Offset)
	}
}

// Claim implements edge.Backend.
func (e *Engine) Claim(req edge.OffsetRequest, done func(edge.OffsetReply)) {
	e.writeOffset(req, (*shard.Data).Claim, done)
}

// DeleteOffset implements edge.Backend.
func (e *Engine) DeleteOffset(req edge.OffsetRequest, done func(edge.OffsetReply)) {
	e.writeOffset(req, (*shard.Data).DeleteOffset, done)
}

type offsetWrite func(*shard.Data, shard.OffsetRequest, func(galgo.Code, vsr.Op))

func (e *Engine) writeOffset(req edge.OffsetRequest, write offsetWrite, done func(edge.OffsetReply)) {
	r := shard.OffsetRequest{
		Group: vsr.GroupID(req.Group), Kind: req.Kind, Key: req.Key, Offset: req.Offset,
		Monotone: req.Monotone, Tenure: req.Tenure, Client: req.Client, Request: req.Request, User: req.User, Allowed: e.allowed(&req), Gate: req.Gate,
	}
	e.onData(req.Group, func(d *shard.Data) {
		write(d, r, func(code galgo.Code, op vsr.Op) {
			done(edge.OffsetReply{Code: code, Op: uint64(op)})
		})
	}, func() { done(edge.OffsetReply{Code: galgo.CodeTransientNotAccepted}) })
}

// Poll implements edge.Backend.
func (e *Engine) Poll(req edge.PollRequest, done func(edge.PollReply)) {
	if req.Kind == galgo.ConsumerGroup {
		e.pollAsMember(req, done)
		return
	}
	e.poll(req, done)
}

func (e *Engine) poll(req edge.PollRequest, done func(edge.PollReply)) {
	r := partition.PollRequest{Kind: req.Kind, Key: req.Key, Strategy: req.Strategy, Count: req.Count, Bytes: req.Bytes}
	refuse := func() { done(edge.PollReply{Code: galgo.CodeTransientNotAccepted}) }
	e.read(req.Group, func(d *shard.Data) { done(edge.PollReply{Code: d.Poll(vsr.GroupID(req.Group), r, req.Plan)}) }, refuse)
}

// Offset implements edge.Backend.
func (e *Engine) Offset(group uint64, kind galgo.ConsumerKind, key uint32, done func(edge.OffsetReply)) {
	e.read(group, func(d *shard.Data) {
		stored, current, found, code := d.Offset(vsr.GroupID(group), kind, key)
		done(edge.OffsetReply{Code: code, Found: found, Stored: stored, Current: current})
	}, func() { done(edge.OffsetReply{Code: galgo.CodeTransientNotAccepted}) })
}

// read runs f on the loop of a group once what clients of this node were told of can be
// read there.
func (e *Engine) read(group uint64, f func(*shard.Data), refuse func()) {
	e.onData(group, func(d *shard.Data) {
		d.WhenReadable(vsr.GroupID(group), func(there bool) {
			if there {
				f(d)
			} else {
				refuse()
			}
		})
	}, refuse)
}

// Deliver hands a message of another replica to the group that it is for, on the
// loop that owns it. One that is for another replica is dropped.
func (e *Engine) Deliver(m vsr.Message) { e.DeliverThen(m, func() {}) }

// DeliverThen is Deliver for who bounds what is under way: done is called when the
// message was dealt with.
func (e *Engine) DeliverThen(m vsr.Message, done func()) {
	if m.To != e.replica {
		done()
		return
	}
	if m.Group == vsr.MetadataGroup {
		e.metaLoop.Post(func() { e.meta.Deliver(m); done() })
		return
	}
	e.onData(uint64(m.Group), func(d *shard.Data) { d.Deliver(m); done() }, func() {})
}

// LinkDown says that the connection to a replica broke: evidence against it.
func (e *Engine) LinkDown(replica uint8) {
	e.metaLoop.Post(func() { e.meta.LinkDown(replica) })
	for i, d := range e.data {
		e.dataLoops[i].Post(func() { d.LinkDown(replica) })
	}
}
