// Package vsr is the consensus core of galgo: Viewstamped Replication of one
// group on one replica as a pure state machine. It does no I/O, reads no clock,
// starts no goroutine and iterates no map; its state depends on its inputs and
// nothing else. docs/protocol.md explains the protocol and has the table of its
// rules.
//
// # The host
//
// A host (the shard in production, a script or the simulator in tests) owns a
// Core, feeds it inputs one at a time and after each batch of inputs takes
// Ready and performs it, in this order:
//
//  1. Truncate: drop the suffix above the op from the log, if it reaches there (Fits).
//     It must be durable before a Persist of this or a later Ready is.
//  2. Append: hand the prepares to the log in this order, behind the truncation.
//     When one is on stable storage, call AppendDone with its op and identity:
//     never earlier, and once for each prepare that was handed out, also if it was
//     cut since.
//  3. Persist: make the state durable, then call StateDurable with the values
//     that were written, not with what the core holds by then. It may overtake
//     appends, which the core does not count before they are done.
//  4. Send: put the messages on the wire, in any order, or lose them. They are
//     already allowed to leave: the core releases nothing that depends on what
//     is not durable yet.
//  5. Commit: apply the prepares in this order, each checked by identity against
//     the log, and call Applied after each or after the last. One without a
//     Prepare was in the log at the start, and is read from there.
//  6. Read: answer with Fetched what the log has, for another replica.
//  7. Transfer: do one step of serving or taking a checkpoint (see
//     TransferAction), after the writes that were handed out before. Install
//     replaces state and log in one durable step.
//
// It steps only messages that name its replica as their receiver, and bounds what an
// Offer makes it store: the core believes the size.
//
// A write that failed is no completion: the host retries or stops the process.
// It never calls AppendDone or StateDurable for it, and the core waits. A failed
// sync of the log is fatal at once.
//
// The host tells the truth about the past in Recovered: what it has applied, the
// chain of what it has not, and with State.Doubt what it may have acknowledged
// and lost. It calls CheckpointDone when the log below an op may be freed, and
// LinkDown when the connection to a replica breaks. Ticks come at a steady pace;
// a group of one needs none. Those that Dozes counts may be passed late, with Pass,
// before the next input or question.
//
// # Files
//
//	prepare.go     the prepare: header, seal, identity
//	quorum.go      the quorum sizes
//	message.go     what replicas say to one another
//	frame.go       its bytes on the wire
//	core.go        state, inputs and the gate before sends
//	log.go         the part of the log that is not applied yet
//	normal.go      the normal case
//	timers.go      what happens when time passes
//	doze.go        when nothing does
//	viewchange.go  suspicion, leaving a view, votes
//	merge.go       the log of a new view from its votes
//	startview.go   a view begins: install and adoption
//	probe.go       restart, replacement, lives
//	repair.go      headers and bodies that are missing
//	transfer.go    checkpoints
package vsr
