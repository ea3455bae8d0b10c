package vsrtest

import (
	"fmt"
	"strings"

	"galgo/internal/vsr"
)

func stateString(s vsr.State) string {
	out := fmt.Sprintf("view=%d log_view=%d", s.View, s.LogView)
	switch {
	case s.Doubt == vsr.DoubtAll:
		out += " doubt=all"
	case s.Doubt > 0:
		out += fmt.Sprintf(" doubt=%d", s.Doubt)
	}
	return out
}

// of names a prepare by its op and body.
func (c *Cluster) of(op vsr.Op, id vsr.Identity) string {
	if name, ok := c.names[id]; ok {
		return fmt.Sprintf("%d:%s", op, name)
	}
	if id.IsZero() {
		return fmt.Sprint(op)
	}
	return fmt.Sprintf("%d:%v", op, id)
}

func (c *Cluster) log(m vsr.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "log=%s|", c.of(m.Commit, m.CommitIdentity))
	for i := range m.Headers {
		fmt.Fprintf(&b, " %s", c.of(m.Headers[i].Op, m.Headers[i].Identity))
	}
	return b.String()
}

// messageString is a line of the trace for a message.
func (c *Cluster) messageString(m vsr.Message) string {
	head := fmt.Sprintf("%d>%d %v v=%d", m.From, m.To, m.Kind, m.View)
	op := c.of(m.Op, m.Identity)
	switch m.Kind {
	case vsr.MessagePrepare, vsr.MessageCommit:
		return fmt.Sprintf("%s %s commit=%d", head, op, m.Commit)
	case vsr.MessagePrepareOk, vsr.MessageRepairPrepare, vsr.MessageGone:
		return fmt.Sprintf("%s %s", head, op)
	case vsr.MessageDoViewChange:
		if m.Unknown {
			return fmt.Sprintf("%s log_view=%d cannot tell, head %d", head, m.LogView, m.Op)
		}
		out := fmt.Sprintf("%s log_view=%d %s", head, m.LogView, c.log(m))
		if m.Doubt > 0 {
			out += fmt.Sprintf(" doubt=%d", m.Doubt)
		}
		return out
	case vsr.MessageStartView:
		out := fmt.Sprintf("%s %s", head, c.log(m))
		if m.Echo > 0 {
			out += fmt.Sprintf(" echo=%d", m.Echo)
		}
		return out
	case vsr.MessageRequestStartView:
		return fmt.Sprintf("%s boot=%d", head, m.Boot)
	case vsr.MessageRequestPrepares:
		for _, r := range m.Refs {
			head += " " + c.of(r.Op, r.Identity)
		}
		return head
	case vsr.MessageRequestHeaders:
		return fmt.Sprintf("%s %d..%s", head, m.Low, op)
	case vsr.MessageHeaders:
		return fmt.Sprintf("%s %d..%s", head, m.Headers[0].Op, op)
	case vsr.MessageOffer, vsr.MessageRequestChunk, vsr.MessageChunk:
		return fmt.Sprintf("%s checkpoint=%d at=%d", head, m.Offer.Op, m.Offset)
	default:
		return head
	}
}

// show describes a replica in one line.
func (c *Cluster) show(i uint8) string {
	r := c.replicas[i]
	var b strings.Builder
	if r.core == nil {
		fmt.Fprintf(&b, "%d down", i)
	} else {
		role := r.core.Status().String()
		switch {
		case r.core.IsPrimary():
			role = "primary"
		case r.core.Transferring():
			role = "transferring"
		}
		fmt.Fprintf(&b, "%d %s %s commit=%d/%d head=%d", i, role, stateString(r.core.View()), r.core.CommitMin(), r.core.CommitMax(), r.core.Head())
	}
	fmt.Fprintf(&b, " disk: %s log=%d|", stateString(r.disk.state), r.disk.freed)
	for _, p := range r.disk.log {
		fmt.Fprintf(&b, " %s", c.of(p.Op, p.Identity))
	}
	for _, w := range r.writes {
		fmt.Fprintf(&b, " (%v)", w)
	}
	return b.String()
}
