package shard

import (
	"errors"

	"galgo/internal/vsr"
)

// ErrNoGroup: the node does not have the group.
var ErrNoGroup = errors.New("shard: no such group on this node")

// home is the replica that leads a group's first view, so that primaries are spread over
// the nodes; after failures they are brought back to it.
func home(id vsr.GroupID, replicas int) uint8 { return uint8(uint64(id) % uint64(replicas)) }

// successor is who is to lead a group after this replica: the home of the group, or else
// one that follows from its number, of those that are caught up.
func (r *Replication) successor(id vsr.GroupID, c *vsr.Core) (uint8, bool) {
	if h := home(id, r.Replicas); h != r.Replica && c.CaughtUp(h) {
		return h, true
	}
	others := uint64(r.Replicas - 1)
	for i := range others {
		step := 1 + (uint64(id)/uint64(r.Replicas)+i)%others
		if to := uint8((uint64(r.Replica) + step) % uint64(r.Replicas)); c.CaughtUp(to) {
			return to, true
		}
	}
	return 0, false
}

// stepDown has a group's primary give its place up, and says to whom.
func (r *Replication) stepDown(id vsr.GroupID, c *vsr.Core) (uint8, error) {
	if !c.IsPrimary() {
		return 0, vsr.ErrNotPrimary
	}
	to, ok := r.successor(id, c)
	if !ok {
		return 0, vsr.ErrNoSuccessor
	}
	return to, c.StepDown(to)
}

// StepDown gives up the primaryship of the metadata group, to the replica that is
// returned. Call it on the loop. The errors are vsr.ErrNotPrimary and vsr.ErrNoSuccessor.
func (m *Metadata) StepDown() (uint8, error) {
	to, err := m.cfg.stepDown(vsr.MetadataGroup, m.group.core())
	if err == nil {
		m.cfg.Note("this node gives up the metadata group, as it was asked to", "to replica", to, "view", m.group.core().View().View)
	}
	m.group.touch()
	return to, err
}

// StepDown is the same for a group of partitions; also ErrNoGroup.
func (d *Data) StepDown(id vsr.GroupID) (uint8, error) {
	g := d.groups[id]
	if g == nil || g.gone {
		return 0, ErrNoGroup
	}
	to, err := d.cfg.stepDown(id, g.group.core())
	if err == nil {
		d.cfg.Note("this node gives up a partition group, as it was asked to", "group", id, "to replica", to, "view", g.group.core().View().View)
	}
	g.group.touch()
	return to, err
}

// Led lists the groups that this node leads.
func (d *Data) Led() (ids []vsr.GroupID) {
	for _, g := range d.sorted {
		if g.group.core().IsPrimary() {
			ids = append(ids, g.spec.ID)
		}
	}
	return ids
}

// GoHome gives groups that this node leads back to their homes, as long as take allows one
// more: those whose view has lasted for some ticks while every replica is caught up, so
// that nothing waits for the move. It returns how many. Call it on the loop.
func (d *Data) GoHome(settled uint64, take func() bool) (moved int) {
	for _, g := range d.sorted {
		c := g.group.core()
		to := home(g.spec.ID, d.cfg.Replicas)
		if to == d.cfg.Replica || !c.IsPrimary() || c.ViewAge() < settled || !d.whole(c) {
			continue
		}
		if !take() {
			return moved
		}
		if c.StepDown(to) == nil {
			moved++
			d.cfg.Note("a partition group goes back to where it belongs", "group", g.spec.ID, "to replica", to, "view", c.View().View)
			g.group.touch()
		}
	}
	return moved
}

// whole: every replica of the group is heard and caught up.
func (d *Data) whole(c *vsr.Core) bool {
	for r := range d.cfg.Replicas {
		if !c.CaughtUp(uint8(r)) {
			return false
		}
	}
	return true
}
