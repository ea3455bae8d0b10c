package shard

import "galgo/internal/vsr"

// Network takes messages to other replicas. It may lose, delay, repeat and re-order
// them. Send does not block and is called on a loop; what the message refers to does
// not change any more.
type Network interface{ Send(m vsr.Message) }

// Replication is what the groups of a node know of the other replicas.
type Replication struct {
	Replica  uint8
	Replicas int
	// Boot numbers the lives of this replica; see vsr.Config.
	Boot    uint64
	Network Network // nil for a single replica
	Rand    vsr.Random
	Timing  vsr.Timing
}

func (r *Replication) config(cluster [16]byte, group vsr.GroupID, incarnation uint64, pipeline int) vsr.Config {
	return vsr.Config{
		Cluster: cluster, Group: group, Incarnation: incarnation, Replica: r.Replica, Replicas: r.Replicas,
		Pipeline: pipeline, Boot: r.Boot, Rand: r.Rand, Timing: r.Timing,
	}
}

// Deliver hands the metadata group a message from another replica.
func (m *Metadata) Deliver(msg vsr.Message) {
	m.absences.heard(msg.From, msg.Boot)
	m.group.step(msg)
}

// LinkDown says that the connection to a replica broke.
func (m *Metadata) LinkDown(replica uint8) {
	m.group.core().LinkDown(replica)
	m.group.touch()
}

// Deliver hands a partition group a message from another replica. One for a group
// that is not here, yet or any more, is dropped: the sender repeats what matters.
func (d *Data) Deliver(msg vsr.Message) {
	if g := d.groups[msg.Group]; g != nil {
		g.group.step(msg)
	}
}

// LinkDown says that the connection to a replica broke.
func (d *Data) LinkDown(replica uint8) {
	for _, g := range d.sorted {
		g.group.core().LinkDown(replica)
		g.group.touch()
	}
}
