// Package verify looks at the data directories of nodes that do not run, one or all of a
// cluster, and says whether they hold what they must.
//
// Each directory is opened by the code of a start, on an overlay, so that no byte of it
// changes: what a start would refuse is found as it would be. Then the replicas are
// compared: the identities of the ops that each knows to be committed, the state at equal
// op, and all messages, record by record.
package verify
