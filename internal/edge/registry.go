package edge

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"galgo"
)

// registry knows the open connections and which of them each client id is bound
// to: at most one (wire.md §3.6).
type registry struct {
	mu     sync.Mutex
	last   uint32
	conns  map[uint32]*conn
	owners map[galgo.ClientID]*conn
}

func newRegistry() *registry {
	return &registry{conns: make(map[uint32]*conn), owners: make(map[galgo.ClientID]*conn)}
}

// nextID gives a connection its transport id: a sequence from 1. It skips ids in
// use, should the sequence ever come round.
func (r *registry) nextID() uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		r.last++
		if _, taken := r.conns[r.last]; !taken && r.last != 0 {
			return r.last
		}
	}
}

func (r *registry) add(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns[c.id] = c
}

// remove forgets a connection and returns the session that it was bound to.
func (r *registry) remove(c *conn) *binding {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c.id)
	return r.release(c)
}

// bind binds a session to a connection and takes its client id from any other. It
// reports false if the id has a newer session elsewhere: two logins raced, and
// this one came first in the log.
func (r *registry) bind(c *conn, b *binding) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if owner := r.owners[b.client]; owner != nil {
		if owner.bound.Load().epoch > b.epoch {
			return false
		}
		r.release(owner)
	}
	r.release(c)
	r.owners[b.client] = c
	c.bound.Store(b)
	return true
}

// unbind takes a session from a connection, and reports whether it had it still.
func (r *registry) unbind(c *conn, b *binding) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.bound.Load() != b {
		return false
	}
	r.release(c)
	return true
}

// release is called with the lock held.
func (r *registry) release(c *conn) *binding {
	b := c.bound.Load()
	if b != nil {
		c.bound.Store(nil)
		delete(r.owners, b.client)
	}
	return b
}

// spoken returns the connections that have sent a request, by id.
func (r *registry) spoken() []*conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	conns := make([]*conn, 0, len(r.conns))
	for _, c := range r.conns {
		if c.spoke.Load() {
			conns = append(conns, c)
		}
	}
	slices.SortFunc(conns, func(a, b *conn) int { return cmp.Compare(a.id, b.id) })
	return conns
}

func (r *registry) find(id uint32) (*conn, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.conns[id]
	return c, ok && c.spoke.Load()
}

// count is how many connections have sent a request.
func (r *registry) count() uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var n uint32
	for _, c := range r.conns {
		if c.spoke.Load() {
			n++
		}
	}
	return n
}

// endSilent ends the oldest connection that has not sent a request for as long as it is
// open, if it has been open for so long.
func (r *registry) endSilent(open time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var oldest *conn
	for _, c := range r.conns {
		if !c.spoke.Load() && (oldest == nil || c.began.Before(oldest.began)) {
			oldest = c
		}
	}
	if oldest != nil && time.Since(oldest.began) >= open {
		oldest.end()
	}
}
