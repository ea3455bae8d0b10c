package edge

import (
	"context"

	"galgo"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// pollGroup answers the poll of a group member, under the client id that the header
// names. Whatever is missing, the member above all, is told as "sync again"
// (wire.md §6.10).
func (c *conn) pollGroup(ctx context.Context, r *request, m *wire.PollMessagesRequest) {
	view := c.server.backend.View()
	t, err := view.Topic(m.Stream, m.Topic)
	switch {
	case !m.Partition.Present:
		c.answerEmptyPoll(r, 0, 0)
		return
	case err != nil:
		c.answerEmptyPoll(r, wire.PollPartitionResync, 0)
		return
	case !view.Allows(r.session.actor, metadata.RulePoll, t.Stream, t.ID):
		c.deny(&r.RequestHeader, galgo.CodeUnauthorized)
		return
	}
	g, isGroup := view.ConsumerGroup(t, m.Consumer.ID)
	p, isPartition := view.Partition(t, m.Partition.ID)
	if !isGroup || !isPartition {
		c.answerEmptyPoll(r, wire.PollPartitionResync, 0)
		return
	}
	since, code := c.claim(ctx, r, view, g, p)
	if code != galgo.CodeOK {
		c.refusePoll(r, p, code)
		return
	}
	c.serveMessages(ctx, r, p, PollRequest{
		Group:    p.Group,
		Kind:     galgo.ConsumerGroup,
		Key:      g.ID,
		Member:   r.Client,
		Tenure:   since,
		Strategy: m.Strategy,
		Count:    m.Count,
		Bytes:    c.pollBytes(),
	}, m.AutoCommit)
}

// polled tells the node what the poll of a member has yielded. It reports whether the
// client may be given that: always, where the poll is that of no member.
func (c *conn) polled(request *PollRequest, last uint64, any bool) bool {
	return request.Kind != galgo.ConsumerGroup || c.server.backend.Polled(*request, last, any)
}

// syncGroup tells a member its partitions, under the client id that the header names.
// An empty body says that it is none, whatever is missing.
func (a *reader) syncGroup(body []byte) galgo.Code {
	req, err := wire.DecodeGroupRequest(body)
	if err != nil {
		return galgo.CodeOK
	}
	t, err := a.view.Topic(req.Stream, req.Topic)
	if err != nil {
		return galgo.CodeOK
	}
	g, ok := a.view.ConsumerGroup(t, req.Group)
	if !ok {
		return galgo.CodeOK
	}
	if m, ok := g.Member(a.request.Client); ok {
		if !a.reserve(assignmentSize + len(m.Partitions)*4) {
			return galgo.CodeTransientNotAccepted
		}
		a.body = g.Assignment(m).Append(nil)
	}
	return galgo.CodeOK
}

// shownTopic finds a topic that the session may read of.
func (a *reader) shownTopic(stream, topic galgo.Identifier) (*metadata.Topic, galgo.Code) {
	t, err := a.view.Topic(stream, topic)
	if err != nil {
		return nil, codeOf(err, galgo.CodeTopicIDNotFound)
	}
	if !a.allows(metadata.RuleGetTopic, t.Stream, t.ID) {
		return nil, galgo.CodeUnauthorized
	}
	return t, galgo.CodeOK
}

func (a *reader) group(body []byte) galgo.Code {
	m, err := wire.DecodeGroupRequest(body)
	if err != nil {
		return galgo.CodeInvalidCommand
	}
	t, code := a.shownTopic(m.Stream, m.Topic)
	if code != galgo.CodeOK {
		return code
	}
	g, ok := a.view.ConsumerGroup(t, m.Group)
	if !ok {
		return galgo.CodeOK
	}
	if !a.reserve(groupSize + len(g.Members)*memberSize + int(t.Partitions)*4) {
		return galgo.CodeTransientNotAccepted
	}
	a.body = a.view.GroupDetails(t, g).Append(nil)
	return galgo.CodeOK
}

func (a *reader) groups(body []byte) galgo.Code {
	m, err := wire.DecodeTopicRequest(body)
	if err != nil {
		return galgo.CodeInvalidCommand
	}
	t, code := a.shownTopic(m.Stream, m.Topic)
	if code != galgo.CodeOK {
		return code
	}
	if !a.reserve(int(min(t.NextConsumerGroup, 1<<20)) * groupSize) {
		return galgo.CodeTransientNotAccepted
	}
	for g := range a.view.ConsumerGroups(t) {
		if a.body = wire.AppendGroups(a.body, []wire.GroupInfo{metadata.GroupInfo(t, g)}); a.full() {
			break
		}
	}
	return galgo.CodeOK
}

// memberships are the groups that a session is a member of.
func memberships(view *metadata.View, b *binding) (list []wire.GroupMembership) {
	if b == nil {
		return nil
	}
	for g := range view.Memberships(b.client) {
		list = append(list, wire.GroupMembership{StreamID: g.Stream, TopicID: g.Topic, GroupID: g.ID})
	}
	return list
}

// isMember reports whether a session is a member of any group.
func isMember(view *metadata.View, b *binding) bool {
	for range view.Memberships(b.client) {
		return true
	}
	return false
}
