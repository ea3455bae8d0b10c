package engine

import "galgo/internal/shard"

// Statuses describes the groups of one loop, numbered as in Drivers. Call it on
// that loop.
func (e *Engine) Statuses(loop int) []shard.Status {
	if loop == 0 {
		return []shard.Status{e.meta.Status()}
	}
	return e.data[loop-1].Statuses()
}
