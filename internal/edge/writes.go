package edge

import (
	"galgo"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// serveWrite hands a send or an offset write to the node. It is answered when the
// node is done; meanwhile the connection goes on. Nobody is allowed anything by a view
// that may be of the past.
func (c *conn) serveWrite(r *request) {
	code := galgo.CodeTransientNotAccepted
	if c.server.backend.Current() {
		code = c.write(r)
	}
	if code != galgo.CodeOK {
		c.deny(&r.RequestHeader, code)
	}
}

func (c *conn) write(r *request) galgo.Code {
	switch r.Operation {
	case wire.OperationSendMessages:
		return c.send(r)
	case wire.OperationStoreConsumerOffset:
		return c.storeOffset(r)
	case wire.OperationDeleteConsumerOffset:
		return c.deleteOffset(r)
	}
	return galgo.CodeInvalidCommand
}

// send checks a batch and hands it on. The order of checks is that of wire.md
// §5.5: target, right, batch.
func (c *conn) send(r *request) galgo.Code {
	m, err := wire.DecodeSendMessagesRequest(r.body)
	if err != nil {
		return galgo.CodeResourceNotFound
	}
	view := c.server.backend.View()
	topic, err := view.Topic(m.Stream, m.Topic)
	if err != nil || topic.Partitions == 0 {
		return galgo.CodeResourceNotFound
	}
	if m.Partitioning.Kind == galgo.PartitioningPartition && m.Partitioning.PartitionID >= topic.Partitions {
		return galgo.CodeResourceNotFound
	}
	if !view.Allows(r.session.actor, metadata.RuleSend, topic.Stream, topic.ID) {
		return galgo.CodeUnauthorized
	}
	numbered := r.RequestChecksum != [16]byte{}
	if numbered && r.Client != r.session.client {
		// The number would be remembered under an id that is not this session's.
		return galgo.CodeInvalidCommand
	}
	if err := m.CheckBatch(); err != nil {
		return codeOf(err, galgo.CodeInvalidFormat)
	}
	return c.submit(r, &m, view, topic, numbered)
}

// submit hands a checked batch to the node, unless its bytes are those of a send
// whose outcome this connection was told to be open.
func (c *conn) submit(r *request, m *wire.SendMessagesRequest, view *metadata.View, topic *metadata.Topic, numbered bool) galgo.Code {
	var seen mark
	if !numbered {
		seen = markOf(r, m.Batch)
		if c.sends.repeated(r, seen) {
			return galgo.CodeOK
		}
	}
	partition, ok := view.Partition(topic, c.choose(topic, m.Partitioning))
	if !ok {
		return galgo.CodeResourceNotFound
	}
	w := c.sends.begin(r, placement{topic.Stream, topic.ID, partition.ID}, seen)
	c.server.backend.Send(SendRequest{
		Group:    partition.Group,
		Batch:    m.Batch,
		Count:    m.MessagesCount,
		Client:   r.session.client,
		Request:  r.Request,
		Numbered: numbered,
		User:     r.session.actor.User,
		Born:     r.session.actor.Born,
	}, w.sent)
	return galgo.CodeOK
}

// choose picks the partition of a topic that has at least one.
func (c *conn) choose(topic *metadata.Topic, p galgo.Partitioning) uint32 {
	switch p.Kind {
	case galgo.PartitioningPartition:
		return p.PartitionID
	case galgo.PartitioningKey:
		return galgo.KeyPartition(p.Key, topic.Partitions)
	}
	return c.server.turns.take(topic)
}

func codeOf(err error, otherwise galgo.Code) galgo.Code {
	if code, ok := galgo.CodeOf(err); ok {
		return code
	}
	return otherwise
}

// storeOffset and deleteOffset hand an offset write on (wire.md §6.11).
func (c *conn) storeOffset(r *request) galgo.Code {
	m, err := wire.DecodeStoreOffsetRequest(r.body)
	if err != nil {
		return galgo.CodeResourceNotFound
	}
	place, request, code := c.offsetTarget(r, m.Consumer, m.Stream, m.Topic, m.Partition)
	if code != galgo.CodeOK {
		return code
	}
	request.Offset = m.Offset
	request.NoAck = m.Ack == galgo.AckNone
	w := c.sends.begin(r, place, mark{})
	c.server.backend.StoreOffset(request, w.stored)
	return galgo.CodeOK
}

func (c *conn) deleteOffset(r *request) galgo.Code {
	m, err := wire.DecodeDeleteOffsetRequest(r.body)
	if err != nil {
		return galgo.CodeResourceNotFound
	}
	place, request, code := c.offsetTarget(r, m.Consumer, m.Stream, m.Topic, m.Partition)
	if code != galgo.CodeOK {
		return code
	}
	request.NoAck = m.Ack == galgo.AckNone
	w := c.sends.begin(r, place, mark{})
	c.server.backend.DeleteOffset(request, w.stored)
	return galgo.CodeOK
}

// offsetTarget resolves where an offset write goes: lookup and right. The fence of a
// group, whose offsets only the member that has the partition may write, is the node's.
func (c *conn) offsetTarget(r *request, consumer galgo.Consumer, stream, topic galgo.Identifier, p wire.OptionalPartition) (placement, OffsetRequest, galgo.Code) {
	view := c.server.backend.View()
	t, err := view.Topic(stream, topic)
	if err != nil || !p.Present {
		return placement{}, OffsetRequest{}, galgo.CodeResourceNotFound
	}
	partition, ok := view.Partition(t, p.ID)
	if !ok {
		return placement{}, OffsetRequest{}, galgo.CodeResourceNotFound
	}
	key, group, found := offsetKey(view, t, consumer)
	if !found {
		return placement{}, OffsetRequest{}, galgo.CodeResourceNotFound
	}
	if !view.Allows(r.session.actor, metadata.RulePoll, t.Stream, t.ID) {
		return placement{}, OffsetRequest{}, galgo.CodeUnauthorized
	}
	request := r.offsetRequest(partition.Group, consumer.Kind, key)
	request.Member = r.session.client
	if group != nil {
		if r.isFormer(view) {
			return placement{}, OffsetRequest{}, galgo.CodeResourceNotFound
		}
		request.Tenure = r.session.tenures.Since(group, r.session.client, partition)
	}
	return placement{t.Stream, t.ID, partition.ID}, request, galgo.CodeOK
}

// offsetRequest is a write of a consumer's offset by who has sent the request.
func (r *request) offsetRequest(group uint64, kind galgo.ConsumerKind, key uint32) OffsetRequest {
	return OffsetRequest{
		Group:   group,
		Kind:    kind,
		Key:     key,
		Client:  r.session.client,
		Request: r.Request,
		User:    r.session.actor.User,
		Born:    r.session.actor.Born,
	}
}

// offsetKey is the number under which a consumer's offsets are kept, and the group if it
// is one; false for a group that does not exist.
func offsetKey(view *metadata.View, t *metadata.Topic, consumer galgo.Consumer) (key uint32, g *metadata.ConsumerGroup, found bool) {
	if consumer.Kind == galgo.ConsumerGroup {
		if g, found = view.ConsumerGroup(t, consumer.ID); found {
			key = g.ID
		}
		return key, g, found
	}
	key, found = consumer.OffsetKey()
	return key, nil, found
}
