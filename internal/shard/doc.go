// Package shard drives consensus groups: it owns a set of them, steps their
// cores, gathers what they want durable into one write and one sync of their
// shared log, applies what is committed and answers who asked.
//
// There are two drivers of one shape. Metadata runs the metadata group, alone on
// a log of its own so that it never waits behind bulk data. Data runs the
// partition groups of one shard on one shared log.
//
// Both are loops without a thread: every method runs on the loop of its owner,
// one at a time, does no I/O and never blocks. Work that touches a disk is given
// to an Executor, which runs it elsewhere and brings the completion back to the
// loop. The node supplies loops and executors of goroutines; tests and the
// simulator run the same code inline, call by call.
package shard
