package vsr

import "fmt"

// ReplicasMax is the largest number of replicas of a group.
const ReplicasMax = 32

// quorumReplicationMax caps the replication quorum: more acknowledgements would
// cost latency and buy durability that nobody asked for. The view-change quorum
// grows in return.
const quorumReplicationMax = 3

// Quorums are the sizes that the protocol counts to. For every n from 1 to
// ReplicasMax: Replication + ViewChange > n, so each view change meets every
// committed op, and Nack + Replication > n, so a nack quorum proves that no
// replication quorum can exist.
type Quorums struct {
	Replicas    int
	Replication int // replicas that hold an op durably before it commits
	ViewChange  int // votes that start a view
	Nack        int // replicas that never had an op before it is discarded
}

// QuorumsOf returns the quorums of a group of n replicas, 1..ReplicasMax.
//
// Two replicas need both for either: a replication quorum of one would be safe,
// but an acknowledged op would then live on a single disk.
func QuorumsOf(n int) Quorums {
	if n < 1 || n > ReplicasMax {
		panic(fmt.Sprintf("vsr: %d replicas, want 1..%d", n, ReplicasMax))
	}
	q := Quorums{Replicas: n, Replication: min((n+1)/2, quorumReplicationMax)}
	if n == 2 {
		q.Replication = 2
	}
	q.Nack = n - q.Replication + 1
	q.ViewChange = q.Nack
	if n == 2 {
		q.ViewChange = 2
	}
	return q
}

// CommittedAtLeast says up to which op a recovered log is known to be committed:
// the lower bound from which a host replays before it starts the core.
//
// An op is committed when a replication quorum holds it. Where one replica is a
// quorum, every op in its log is. Among more, only what a prepare's commit field
// vouches for is known; the rest is for a view to decide (never apply it early).
func (q Quorums) CommittedAtLeast(head, commitSeen, checkpoint Op) Op {
	if q.Replication == 1 {
		return max(head, checkpoint)
	}
	return max(min(commitSeen, head), checkpoint)
}
