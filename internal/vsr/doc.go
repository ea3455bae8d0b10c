// Package vsr is the consensus core of galgo: Viewstamped Replication of one
// group on one replica as a pure state machine. It does no I/O, reads no clock,
// starts no goroutine and iterates no map; its state depends on its inputs and
// nothing else.
//
// # The host
//
// A host (the shard in production, a script or the simulator in tests) owns a
// Core, feeds it inputs one at a time and after each batch of inputs takes
// Ready and performs it:
//
//  1. Append: hand the prepares to the log in this order. When one is on stable
//     storage, call AppendDone with its op and identity. Never earlier.
//  2. Truncate: drop the suffix above the op from the log before anything that
//     was appended after it.
//  3. Persist: make the state durable, then call StateDurable with the values
//     that were written, not with what the core holds by then.
//  4. Send: put the messages on the wire, in any order, or lose them. They are
//     already allowed to leave: the core releases nothing that depends on what
//     is not durable yet.
//  5. Commit: apply the prepares in this order, each checked by identity against
//     the log, and call Applied after each or after the last.
//
// A write that failed is no completion: the host retries or stops the process.
// It never calls AppendDone or StateDurable for it.
//
// # What is here
//
// This is the normal case (VR Revisited §4.1): proposals, prepares, their
// acknowledgements by identity, the quorum rule, commit and its heartbeat, for
// any number of replicas; with one replica an op commits when its own append is
// durable, by the same quorum rule and not around it. View change, repair, state
// transfer and recovery of a replica among others (§4.2, §4.3, §5) are not here
// yet, so a host must not run more than one replica with data to lose.
//
// # Files
//
//	prepare.go   the prepare: header, seal, identity
//	quorum.go    the quorum sizes
//	message.go   what replicas say to one another
//	core.go      state, inputs and the gate before sends
//	normal.go    the normal case
package vsr
