// Package memnet is a network in memory, for tests that run whole nodes in one process
// and, in a bubble of testing/synctest, in virtual time. Hosts have names; connections
// between them are streams that take time, can be cut in either direction, and break
// when a host goes down.
//
// What a cut takes is not lost but late, as TCP sends it again: it arrives when the cut
// heals. Who is told nothing of a lost connection is told by its own deadlines.
package memnet
