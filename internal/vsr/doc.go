// Package vsr is the consensus core of galgo: Viewstamped Replication of one
// group on one replica as a pure state machine. It does no I/O, reads no clock,
// starts no goroutine and iterates no map; its state depends on its inputs and
// nothing else.
package vsr
