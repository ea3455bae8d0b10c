package edge

import (
	"sync"

	"galgo/internal/metadata"
)

// turnsMax bounds the topics whose turn is remembered. Beyond it all start anew,
// which costs nothing but evenness.
const turnsMax = 1 << 16

// turns spreads balanced batches over the partitions of a topic: one after the
// other, by a counter of this node.
type turns struct {
	mu   sync.Mutex
	next map[turnKey]uint32
}

// turnKey tells a topic from another one that had its ids before.
type turnKey struct {
	stream, topic uint32
	createdAt     uint64
}

func newTurns() *turns { return &turns{next: make(map[turnKey]uint32)} }

// take returns the partition whose turn it is in a topic that has at least one.
func (t *turns) take(topic *metadata.Topic) uint32 {
	key := turnKey{topic.Stream, topic.ID, topic.CreatedAt}
	t.mu.Lock()
	defer t.mu.Unlock()
	n, known := t.next[key]
	if !known && len(t.next) >= turnsMax {
		clear(t.next)
	}
	t.next[key] = n + 1
	return n % topic.Partitions
}
