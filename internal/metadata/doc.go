// Package metadata is the machine of the metadata group: streams, topics,
// partitions, consumer groups, users, access tokens and the table of client sessions, as a
// function of the group's log and of nothing else.
//
// # Contract with the host
//
//  1. [Machine.Apply] takes the committed operations in log order, each once. Its
//     result depends on the inputs alone: no clock, no randomness, no iteration
//     order of a Go map. Two machines fed the same inputs have equal bytes.
//  2. A business rejection (name taken, stream unknown, no permission) is a result:
//     it changes nothing but the session's watermark, and a retry gets the same
//     answer. A committed body that does not decode is corruption, and Apply
//     panics with the op: [Admit] refuses such a body before it enters the log.
//  3. A request of a client runs only if its session is the one in the client
//     table and its number is above the watermark. Apply checks this itself, so a
//     request that was proposed twice runs once whatever the proposer knew.
//  4. [Machine.View] is O(1) and immutable: any number of goroutines may read it
//     while the machine goes on. Reads of the client edge, Admit and the encoding
//     of a snapshot all work on a View.
//  5. [View.EncodeState] and [View.EncodeClients] are sorted, hold no number that
//     belongs to one node, and are the identity after [Decode].
//
// Values inside the maps (*Stream, *Topic, ...) are never changed once they are
// in: an update puts a new value in place of the old one.
package metadata
