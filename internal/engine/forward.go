package engine

import (
	"sync/atomic"

	"galgo/internal/shard"
	"galgo/internal/vsr"
)

// Leader tells which replica decides for a group, as far as this one knows; done runs on
// the group's loop.
func (e *Engine) Leader(group uint64, done func(replica uint8, known bool)) {
	if vsr.GroupID(group) == vsr.MetadataGroup {
		done(e.MetadataLeader())
		return
	}
	e.onData(group, func(d *shard.Data) { done(d.Primary(vsr.GroupID(group))) }, func() { done(0, false) })
}

// MetadataLeader tells which replica leads the metadata group, from any goroutine.
func (e *Engine) MetadataLeader() (replica uint8, known bool) {
	l := e.leader.Load()
	return uint8(l), l >= 0
}

// Current implements edge.Backend. What a client of this node was told of is there.
func (e *Engine) Current() bool { return e.current.Load() && e.commit.Load() >= e.told.Load() }

// Fresh implements edge.Backend for a node by itself, which knows whatever was
// acknowledged. Among several the router finds it out.
func (e *Engine) Fresh(done func(ok bool)) { done(e.Current()) }

// leads takes what the metadata group knows of its primary.
func (e *Engine) leads(primary uint8, known, readable bool) {
	e.current.Store(readable)
	l := int32(-1)
	if known {
		l = int32(primary)
	}
	e.leader.Store(l)
}

// Reached runs done when this node has applied an op of the metadata, which another node
// decided: with false if it takes too long.
func (e *Engine) Reached(op uint64, done func(there bool)) {
	if !e.metaLoop.Post(func() { e.meta.When(vsr.Op(op), done) }) {
		done(false)
	}
}

// Told says that a client of this node is about to be told of an op of a group: what is
// read here afterwards has it.
func (e *Engine) Told(group, op uint64) {
	if vsr.GroupID(group) == vsr.MetadataGroup {
		raise(&e.told, op)
		return
	}
	e.onData(group, func(d *shard.Data) { d.Told(vsr.GroupID(group), vsr.Op(op)) }, func() {})
}

// raise sets a number that never goes back.
func raise(to *atomic.Uint64, n uint64) {
	for old := to.Load(); old < n && !to.CompareAndSwap(old, n); old = to.Load() {
	}
}
