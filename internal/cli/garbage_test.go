package cli

import (
	"math"
	"runtime/debug"
	"testing"

	"galgo/internal/config"
)

// A server lets garbage gather up to a limit that its settings give, and leaves alone
// what the environment decides.
func TestCollectGarbage(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(math.MaxInt64)
	defer func() { debug.SetGCPercent(percent); debug.SetMemoryLimit(limit) }()
	var c config.Config
	c.System.MemoryBudget = 1 << 30
	for _, tc := range []struct {
		environ []string
		percent int
		limit   int64
	}{
		{nil, garbagePercent, 1<<30 + 256<<20 + 512<<20},
		{[]string{"GOGC=off"}, 100, 1<<30 + 256<<20 + 512<<20},
		{[]string{"A=b", "GOMEMLIMIT=1GiB"}, garbagePercent, math.MaxInt64},
	} {
		debug.SetGCPercent(100)
		debug.SetMemoryLimit(math.MaxInt64)
		collectGarbage(c, tc.environ)
		if got := debug.SetMemoryLimit(-1); got != tc.limit {
			t.Errorf("%v: limit %d, want %d", tc.environ, got, tc.limit)
		}
		if got := debug.SetGCPercent(100); got != tc.percent {
			t.Errorf("%v: %d %%, want %d", tc.environ, got, tc.percent)
		}
	}
}
