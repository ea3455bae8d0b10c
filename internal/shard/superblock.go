package shard

import "galgo/internal/superblock"

// superblockWriter writes the node's superblock, one write at a time. What is asked
// for while a write is under way goes into the next one, together.
type superblockWriter struct {
	store   superblock.Store
	exec    Executor
	state   superblock.State // as last written
	waiting []superblockUpdate
	busy    bool
}

type superblockUpdate struct {
	change func(*superblock.State)
	done   func(error)
}

// update has change made durable; done is called on the loop. After an error the
// superblock is as it was, without any of what was written together.
func (w *superblockWriter) update(change func(*superblock.State), done func(error)) {
	w.waiting = append(w.waiting, superblockUpdate{change, done})
	w.flush()
}

func (w *superblockWriter) flush() {
	if w.busy || len(w.waiting) == 0 {
		return
	}
	w.busy = true
	batch, next := w.waiting, w.state
	w.waiting = nil
	for _, u := range batch {
		u.change(&next)
	}
	w.exec.Go(LaneCheckpoint, func() error { return w.store.Write(next.Append(nil)) }, func(err error) {
		w.busy = false
		if err == nil {
			w.state = next
		}
		for _, u := range batch {
			u.done(err)
		}
		w.flush()
	})
}
