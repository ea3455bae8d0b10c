package peer

import (
	"sync"
	"time"
)

// Bounds of the refusals that are told of: so many different ones in each interval.
const (
	complaintsMax      = 64
	complaintsInterval = 10 * time.Minute
)

// complaints are the refusals that were told of, so that what is dialed again and again
// is told once, and who comes from many places cannot fill the log.
type complaints struct {
	mu    sync.Mutex
	told  map[string]bool
	since time.Time
}

// first reports whether what has this key is to be told.
func (c *complaints) first(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.told == nil || now.Sub(c.since) >= complaintsInterval && len(c.told) >= complaintsMax {
		c.told, c.since = map[string]bool{}, now
	}
	if c.told[key] || len(c.told) >= complaintsMax {
		return false
	}
	c.told[key] = true
	return true
}
