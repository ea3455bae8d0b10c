package wal

import "sync"

// reach is how far the log has been written, and how far it is known to be durable. It
// is what Write and a Sync beside it have in common.
type reach struct {
	mu      sync.Mutex
	last    written
	durable Position // everything below is on stable storage
	witness Position // what the last durable record says of that
}

// written is the end of a write.
type written struct {
	file    *file
	end     int64    // in file
	carries Position // up to where its records say that the log was known synced
}

func (w written) position() Position { return Position{w.file.sequence, w.end} }

// start says that what lies before end is durable, and witnessed up to witness.
func (r *reach) start(end, witness Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.durable, r.witness, r.last = end, witness, written{}
}

func (r *reach) wrote(w written) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = w
}

// begin returns what a sync that begins now will have made durable; no file, if there is
// nothing. The file stays open until release is called.
func (r *reach) begin() (to written, release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.file == nil || !r.durable.Less(r.last.position()) {
		return written{}, nil
	}
	r.last.file.readers.RLock() // it is the newest file: nobody frees it before this
	return r.last, r.last.file.readers.RUnlock
}

// synced takes note of the end of a sync.
func (r *reach) synced(to written) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.durable, r.witness = to.position(), to.carries
}

func (r *reach) known() Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.durable
}

func (r *reach) witnessed() Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.witness
}
