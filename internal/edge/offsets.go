package edge

import (
	"context"

	"galgo"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// getOffset tells the stored offset of a consumer, or of a group to anybody who
// may read the topic. Nothing stored, and most that is missing, is an empty body
// (wire.md §6.11).
func (c *conn) getOffset(ctx context.Context, r *request) {
	m, err := wire.DecodeGetOffsetRequest(r.body)
	if err != nil {
		c.answer(r, nil)
		return
	}
	view := c.server.backend.View()
	t, err := view.Topic(m.Stream, m.Topic)
	if err != nil {
		c.answer(r, nil)
		return
	}
	partition, ok := view.Partition(t, m.Partition.ID) // 0 if absent
	if !ok {
		c.deny(&r.RequestHeader, galgo.CodePartitionNotFound)
		return
	}
	key, _, ok := offsetKey(view, t, m.Consumer)
	if !ok {
		c.answer(r, nil)
		return
	}
	if !view.Allows(r.session.actor, metadata.RulePoll, t.Stream, t.ID) {
		c.deny(&r.RequestHeader, galgo.CodeUnauthorized)
		return
	}
	c.answerOffset(ctx, r, partition, m.Consumer.Kind, key)
}

func (c *conn) answerOffset(ctx context.Context, r *request, p *metadata.Partition, kind galgo.ConsumerKind, key uint32) {
	q := newCall[OffsetReply](nil)
	c.server.backend.Offset(p.Group, kind, key, q.done)
	reply, ok := await(ctx, c, r, q)
	switch {
	case !ok:
		c.deny(&r.RequestHeader, galgo.CodeTransientNotAccepted)
	case reply.Code == galgo.CodeTransientNotAccepted && c.tooEarly(p):
		c.answer(r, nil)
	case reply.Code != galgo.CodeOK:
		c.deny(&r.RequestHeader, reply.Code)
	case !reply.Found:
		c.answer(r, nil)
	default:
		c.answer(r, wire.ConsumerOffset{PartitionID: p.ID, CurrentOffset: reply.Current, StoredOffset: reply.Stored}.Append(nil))
	}
}

// tooEarly reports whether the node does not have the group of a partition yet.
// Readers see it as empty (wire.md §8.15).
func (c *conn) tooEarly(p *metadata.Partition) bool {
	_, here := c.server.backend.Stats(p.Group)
	return !here
}
