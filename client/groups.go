package client

import (
	"context"

	"galgo"
	"galgo/internal/wire"
)

type (
	// GroupInfo is a consumer group in lists.
	GroupInfo = wire.GroupInfo
	// GroupDetails is a consumer group with its members.
	GroupDetails = wire.ConsumerGroupDetails
	// GroupMember is a member and its partitions.
	GroupMember = wire.GroupMember
	// GroupAssignment is what a member may poll, and the generation that it is of.
	GroupAssignment = wire.GroupAssignment
)

// ConsumerGroups lists the consumer groups of a topic.
func (c *Client) ConsumerGroups(ctx context.Context, stream, topic galgo.Identifier) ([]GroupInfo, error) {
	call := describe("list groups of", stream, "/", topic)
	if err := checkTarget(call, stream, topic); err != nil {
		return nil, err
	}
	return query(ctx, c, call, wire.CommandGetConsumerGroups, wire.TopicRequest{Stream: stream, Topic: topic}, wire.DecodeGroups)
}

// ConsumerGroup reads a consumer group and who is in it. If there is none the error has
// CodeConsumerGroupIDNotFound.
func (c *Client) ConsumerGroup(ctx context.Context, stream, topic, group galgo.Identifier) (GroupDetails, error) {
	call := describe("get group", stream, "/", topic, "/", group)
	if err := checkTarget(call, stream, topic, group); err != nil {
		return GroupDetails{}, err
	}
	return get(ctx, c, call, wire.CommandGetConsumerGroup, groupRequest(stream, topic, group), galgo.CodeConsumerGroupIDNotFound, wire.DecodeConsumerGroupDetails)
}

// CreateConsumerGroup makes a consumer group without members. A name that is taken is
// CodeConsumerGroupNameAlreadyExists.
func (c *Client) CreateConsumerGroup(ctx context.Context, stream, topic galgo.Identifier, name string) (GroupDetails, error) {
	call := describe("create group", stream, "/", topic, "/", name)
	if err := checkTarget(call, stream, topic); err != nil {
		return GroupDetails{}, err
	}
	if err := checkName(call, name); err != nil {
		return GroupDetails{}, err
	}
	return query(ctx, c, call, wire.CommandCreateConsumerGroup, wire.CreateGroupRequest{Stream: stream, Topic: topic, Name: name}, wire.DecodeConsumerGroupDetails)
}

// DeleteConsumerGroup removes a consumer group, its members and its offsets.
func (c *Client) DeleteConsumerGroup(ctx context.Context, stream, topic, group galgo.Identifier) error {
	return c.changeGroup(ctx, "delete group", wire.CommandDeleteConsumerGroup, stream, topic, group)
}

// JoinConsumerGroup makes this client a member. It stays one until it leaves, signs out,
// loses its connection or falls silent; a GroupConsumer sees to all that by itself.
func (c *Client) JoinConsumerGroup(ctx context.Context, stream, topic, group galgo.Identifier) error {
	return c.changeGroup(ctx, "join group", wire.CommandJoinConsumerGroup, stream, topic, group)
}

// LeaveConsumerGroup gives this client's partitions to the other members.
func (c *Client) LeaveConsumerGroup(ctx context.Context, stream, topic, group galgo.Identifier) error {
	return c.changeGroup(ctx, "leave group", wire.CommandLeaveConsumerGroup, stream, topic, group)
}

// SyncConsumerGroup reads which partitions this client may poll as a member; member is
// false if it is none.
func (c *Client) SyncConsumerGroup(ctx context.Context, stream, topic, group galgo.Identifier) (a GroupAssignment, member bool, err error) {
	call := describe("sync group", stream, "/", topic, "/", group)
	if err := checkTarget(call, stream, topic, group); err != nil {
		return GroupAssignment{}, false, err
	}
	a, err = query(ctx, c, call, wire.CommandSyncConsumerGroup, groupRequest(stream, topic, group), func(payload []byte) (GroupAssignment, error) {
		if member = len(payload) > 0; !member {
			return GroupAssignment{}, nil
		}
		return wire.DecodeGroupAssignment(payload)
	})
	return a, member && err == nil, err
}

func (c *Client) changeGroup(ctx context.Context, verb string, command wire.Command, stream, topic, group galgo.Identifier) error {
	call := describe(verb, stream, "/", topic, "/", group)
	if err := checkTarget(call, stream, topic, group); err != nil {
		return err
	}
	return c.change(ctx, call, command, groupRequest(stream, topic, group))
}

func groupRequest(stream, topic, group galgo.Identifier) wire.GroupRequest {
	return wire.GroupRequest{Stream: stream, Topic: topic, Group: group}
}
