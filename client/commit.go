package client

import (
	"context"
	"time"

	"galgo"
)

// CommitMode says when a consumer stores its offset on the server.
type CommitMode uint8

// The modes. In all of them but CommitOnPoll a message may be delivered again after a
// crash, and none is skipped.
const (
	// CommitOnNext stores the offset of a batch when the next one is asked for,
	// and when Run or Close ends: by then the batch was processed.
	CommitOnNext CommitMode = iota
	// CommitManually leaves it to Commit.
	CommitManually
	// CommitEach stores the offset of each message that Run has handled, before it
	// hands on the next one. Without Run it is CommitOnNext.
	CommitEach
	// CommitAtIntervals stores what was processed when CommitInterval has passed since
	// the last time: between two messages of Run and two calls of Next.
	CommitAtIntervals
	// CommitOnPoll has the server store the offset of what it returns, before it is
	// here: whatever is not processed then is lost.
	CommitOnPoll
)

// commitIntervalDefault is that of CommitAtIntervals.
const commitIntervalDefault = time.Second

// commitClock says when a mode wants something stored.
type commitClock struct {
	mode     CommitMode
	interval time.Duration
	last     time.Time
}

func newCommitClock(mode CommitMode, interval time.Duration) commitClock {
	if interval <= 0 {
		interval = commitIntervalDefault
	}
	return commitClock{mode: mode, interval: interval, last: time.Now()}
}

// onNext: the batch before was processed.
func (c *commitClock) onNext() bool {
	return c.mode == CommitOnNext || c.mode == CommitEach || c.passed()
}

// onMessage: one message of a batch was processed.
func (c *commitClock) onMessage() bool { return c.mode == CommitEach || c.passed() }

// atEnd: no more is to come.
func (c *commitClock) atEnd() bool { return c.mode != CommitManually && c.mode != CommitOnPoll }

// finish has commit store what was processed, as the mode says, although ctx may have
// ended, and returns the cause of the end.
func (c *commitClock) finish(ctx context.Context, cause error, commit func(context.Context) error) error {
	if !c.atEnd() {
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = commit(ctx) // the cause matters more, and what is not committed comes again
	return cause
}

func (c *commitClock) passed() bool {
	return c.mode == CommitAtIntervals && time.Since(c.last) >= c.interval
}

func (c *commitClock) done() { c.last = time.Now() }

// position is how far a consumer has come in a partition.
type position struct {
	last  uint64 // offset of the last message that was processed
	dirty bool   // it is not stored
}

// mark: everything up to the offset was processed.
func (p *position) mark(offset uint64) { p.last, p.dirty = offset, true }

// next is where the next poll begins.
func (p *position) next() galgo.PollingStrategy { return galgo.FromOffset(p.last + 1) }
