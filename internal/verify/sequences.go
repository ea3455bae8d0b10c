package verify

import (
	"galgo"
	"galgo/internal/partition"
	"galgo/internal/vsr"
)

// sent is a numbered send that a log held above the checkpoint, or a purge.
type sent struct {
	op     vsr.Op
	client galgo.ClientID
	number uint64
	base   uint64
	purge  bool
}

// observe keeps what the numbers of the producers are checked by.
func (p *replica) observe(q *vsr.Prepare) {
	switch {
	case q.Group == vsr.MetadataGroup:
	case q.Operation == partition.OpPurge:
		p.sends[q.Group] = append(p.sends[q.Group], sent{op: q.Op, purge: true})
	case q.Operation == partition.OpSend && q.RequestSum != [16]byte{}:
		p.sends[q.Group] = append(p.sends[q.Group], sent{op: q.Op, client: q.Client, number: q.Request, base: q.Offset})
	}
}

// checkSequences: no numbered send that the partition could recognise was stored twice.
func (m *member) checkSequences() {
	s := m.Machine.Sequences(m.Checkpoint)
	for _, e := range m.sends[m.Group] {
		if e.purge {
			s.Purged()
		} else if err := s.Sent(uint64(e.op), e.client, e.number, e.base); err != nil {
			m.problem("group %d: %v", m.Group, err)
			return
		}
	}
}

// checkState: offsets of consumers lie within the log, producers are in order.
func (m *member) checkState() {
	if err := m.Machine.State().Check(); err != nil {
		m.problem("group %d: the state at op %d: %v", m.Group, m.Applied.Op, err)
	}
}
