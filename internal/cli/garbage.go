package cli

import (
	"runtime/debug"
	"slices"
	"strings"

	"galgo/internal/config"
	"galgo/internal/node"
)

// garbagePercent is how much garbage may gather, in percent of what is in use,
// before it is collected. Most of it are received batches of about a megabyte: to
// collect and to clear them anew takes more than the memory is worth while little
// is in use, and once much is, the limit counts.
// Measured: docs/performance.md.
const garbagePercent = 300

// collectGarbage sets how the process uses memory, unless the environment does.
func collectGarbage(c config.Config, environ []string) {
	given := func(name string) bool {
		return slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	}
	if !given("GOGC") {
		debug.SetGCPercent(garbagePercent)
	}
	if !given("GOMEMLIMIT") {
		debug.SetMemoryLimit(memoryLimit(c))
	}
}

// otherBytes is what a server may hold beside what its settings bound: tables of the
// metadata, indexes, buffers of connections and of the log.
const otherBytes = 512 << 20

// memoryLimit is where garbage is collected whenever there is some, in bytes.
func memoryLimit(c config.Config) int64 {
	return int64(c.System.MemoryBudget) + node.TailsBytes + otherBytes
}
