package node

import (
	"math"

	"golang.org/x/sys/unix"
)

// filesOpen bounds the segment files that stay open between uses.
const filesOpen = 512

// fileShares divides the files that the process may have open. Clients must not be
// able to use them up: a log that cannot open its next file ends the node.
type fileShares struct {
	connections int // of clients
	segments    int // that stay open between uses
	unsynced    int // partitions that hold theirs open, two each, until a checkpoint
}

// shareFiles gives clients at most half of the allowed files, segments that wait for
// their sync a quarter, and those between uses an eighth. The rest is for logs,
// segments that are read and what else a process opens.
func shareFiles(allowed, connections int) fileShares {
	return fileShares{
		connections: max(1, min(connections, allowed/2)),
		segments:    max(1, min(filesOpen, allowed/8)),
		unsynced:    max(1, allowed/8),
	}
}

// filesAllowed is how many files the system lets this process have open.
func filesAllowed() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}
