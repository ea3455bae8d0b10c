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
	Leader       uint8
	Led          bool   // Leader leads, as far as is known here
	Readable     bool   // what is applied here is not of the past
	Barrier      vsr.Op // that reads wait for after a start; 0: none
}

func statusOf(group vsr.GroupID, incarnation uint64, c *vsr.Core) Status {
	return Status{
		Group: group, Incarnation: incarnation, Status: c.Status(), State: c.View(), Head: c.Head(), HeadIdentity: c.HeadIdentity(),
		CommitMin: c.CommitMin(), CommitMax: c.CommitMax(), Primary: c.IsPrimary(), Transferring: c.Transferring(), Nacked: c.Nacked(),
		Barrier: c.Barrier(),
	}
}

// Status describes the metadata group as it is now. Call it on the loop.
func (m *Metadata) Status() Status {
	s := statusOf(vsr.MetadataGroup, 0, m.group.core())
	s.Leader, s.Led = m.Primary()
	s.Readable = m.Readable()
	return s
}

// Statuses describes the groups that are served, in order. Call it on the loop.
func (d *Data) Statuses() []Status {
	all := make([]Status, len(d.sorted))
	for i, g := range d.sorted {
		all[i] = statusOf(g.spec.ID, g.spec.Incarnation, g.group.core())
		all[i].Leader, all[i].Led = d.Primary(g.spec.ID)
		all[i].Readable = g.readable()
	}
	return all
}
