package shard

import "galgo/internal/vsr"

// Status is what a replica says of one of its groups.
type Status struct {
	Group        vsr.GroupID
	Incarnation  uint64
	Status       vsr.Status
	State        vsr.State // of memory: it may be ahead of the disk
	Head         vsr.Op
	HeadIdentity vsr.Identity
	CommitMin    vsr.Op
	CommitMax    vsr.Op
	Primary      bool // it may propose now
	Transferring bool // it takes a checkpoint from another replica
	Nacked       int  // see vsr.Core.Nacked
}

func statusOf(group vsr.GroupID, incarnation uint64, c *vsr.Core) Status {
	return Status{
		Group: group, Incarnation: incarnation, Status: c.Status(), State: c.View(), Head: c.Head(), HeadIdentity: c.HeadIdentity(),
		CommitMin: c.CommitMin(), CommitMax: c.CommitMax(), Primary: c.IsPrimary(), Transferring: c.Transferring(), Nacked: c.Nacked(),
	}
}

// Status describes the metadata group as it is now. Call it on the loop.
func (m *Metadata) Status() Status { return statusOf(vsr.MetadataGroup, 0, m.group.core) }

// Statuses describes the groups that are served, in order. Call it on the loop.
func (d *Data) Statuses() []Status {
	all := make([]Status, len(d.sorted))
	for i, g := range d.sorted {
		all[i] = statusOf(g.spec.ID, g.spec.Incarnation, g.group.core)
	}
	return all
}
