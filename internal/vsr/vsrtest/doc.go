// Package vsrtest runs whole groups of the consensus core in memory: each
// replica with a log and a state record that crash as a disk would, and a network
// that does only what it is told. Scripts in testdata say what happens and what is
// then to be seen (script.go lists the commands); a new case needs no Go. The
// random checker in its tests plays schedules from seeds on the same cluster.
//
// The cluster checks at every step what must never happen, see check.go.
package vsrtest
