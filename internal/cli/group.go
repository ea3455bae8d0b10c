package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"galgo"
	"galgo/client"
)

func groupCommand() *command {
	return &command{
		use: "group", aliases: []string{"consumer-group", "g"}, short: "Consumer groups of a topic", connects: true,
		subs: []*command{
			{use: "create STREAM TOPIC NAME", aliases: []string{"c"}, short: "Create a consumer group", args: exactly(3), connects: true, run: groupCreate},
			{use: "list STREAM TOPIC", aliases: []string{"l"}, short: "List the consumer groups of a topic", args: exactly(2), connects: true, run: groupList},
			{use: "get STREAM TOPIC GROUP", aliases: []string{"g"}, short: "Show a consumer group, its members and their partitions", args: exactly(3), connects: true, run: groupGet},
			{use: "delete STREAM TOPIC GROUP", aliases: []string{"d"}, short: "Delete a consumer group and its offsets", args: exactly(3), connects: true, run: groupDelete},
		},
	}
}

type groupView struct {
	ID         uint32       `json:"id"`
	Name       string       `json:"name"`
	Partitions uint32       `json:"partitions_count"`
	Members    uint32       `json:"members_count"`
	All        []memberView `json:"members,omitempty"`
}

type memberView struct {
	ID         uint32   `json:"id"`
	Partitions []uint32 `json:"partitions"`
}

func groupOf(i client.GroupInfo) groupView {
	return groupView{ID: i.ID, Name: i.Name, Partitions: i.PartitionsCount, Members: i.MembersCount}
}

func groupTable(all ...client.GroupInfo) table {
	t := table{{"ID", "Name", "Partitions Count", "Members Count"}}
	for _, g := range all {
		t.add(g.ID, g.Name, g.PartitionsCount, g.MembersCount)
	}
	return t
}

func groupCreate(ctx context.Context, e *env, args []string) error {
	return e.inTopic(ctx, args, func(ctx context.Context, c *client.Client, stream, topic galgo.Identifier) error {
		d, err := c.CreateConsumerGroup(ctx, stream, topic, args[2])
		if err != nil {
			return err
		}
		return e.print(groupOf(d.GroupInfo), groupTable(d.GroupInfo))
	})
}

func groupList(ctx context.Context, e *env, args []string) error {
	return e.inTopic(ctx, args, func(ctx context.Context, c *client.Client, stream, topic galgo.Identifier) error {
		all, err := c.ConsumerGroups(ctx, stream, topic)
		if err != nil {
			return err
		}
		views := make([]groupView, len(all))
		for i, g := range all {
			views[i] = groupOf(g)
		}
		return e.print(views, groupTable(all...))
	})
}

func groupGet(ctx context.Context, e *env, args []string) error {
	return e.onGroup(ctx, args, func(ctx context.Context, c *client.Client, stream, topic, group galgo.Identifier) error {
		d, err := c.ConsumerGroup(ctx, stream, topic, group)
		if err != nil {
			return err
		}
		v := groupOf(d.GroupInfo)
		t := table{{"ID", "Name", "Member", "Partitions"}}
		for _, m := range d.Members {
			v.All = append(v.All, memberView{m.ID, append([]uint32{}, m.Partitions...)})
			t.add(d.ID, d.Name, m.ID, strings.Trim(fmt.Sprint(m.Partitions), "[]"))
		}
		if len(d.Members) == 0 {
			t.add(d.ID, d.Name, "-", "")
		}
		return e.print(v, t)
	})
}

func groupDelete(ctx context.Context, e *env, args []string) error {
	return e.onGroup(ctx, args, func(ctx context.Context, c *client.Client, stream, topic, group galgo.Identifier) error {
		if err := c.DeleteConsumerGroup(ctx, stream, topic, group); err != nil {
			return err
		}
		e.say("Consumer group %v of topic %v of stream %v is deleted.", group, topic, stream)
		return nil
	})
}

// inTopic connects and does something in the topic that args begins with.
func (e *env) inTopic(ctx context.Context, args []string, do func(ctx context.Context, c *client.Client, stream, topic galgo.Identifier) error) error {
	stream, topic, err := parseStreamTopic(args)
	if err != nil {
		return err
	}
	return e.with(ctx, func(ctx context.Context, c *client.Client) error { return do(ctx, c, stream, topic) })
}

// onGroup connects and does something to the consumer group that args names.
func (e *env) onGroup(ctx context.Context, args []string, do func(ctx context.Context, c *client.Client, stream, topic, group galgo.Identifier) error) error {
	group, err := parseID("GROUP", args[2])
	if err != nil {
		return err
	}
	return e.inTopic(ctx, args, func(ctx context.Context, c *client.Client, stream, topic galgo.Identifier) error {
		return do(ctx, c, stream, topic, group)
	})
}

// pollAsMember joins a consumer group, polls its share, or one partition of that, and
// leaves again.
func pollAsMember(ctx context.Context, c *client.Client, r client.PollRequest, only []uint32) (batches []*client.Batch, err error) {
	group := r.Consumer.ID
	if err := c.JoinConsumerGroup(ctx, r.Stream, r.Topic, group); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.LeaveConsumerGroup(ctx, r.Stream, r.Topic, group)) }()
	share, _, err := c.SyncConsumerGroup(ctx, r.Stream, r.Topic, group)
	if err != nil {
		return nil, err
	}
	polled, err := shareOf(share.Partitions, only)
	if err != nil {
		return nil, err
	}
	left := r.Count
	for _, r.Partition = range polled {
		if left == 0 {
			break
		}
		r.Count = left
		b, err := c.Poll(ctx, r)
		if err != nil {
			return nil, err
		}
		if b.PartitionID != r.Partition {
			continue // taken away meanwhile
		}
		left -= min(left, uint32(b.Len()))
		batches = append(batches, b)
	}
	return batches, nil
}

// shareOf lists what to poll of a member's share: all of it, or only what is asked for,
// which has to be in it.
func shareOf(share, only []uint32) ([]uint32, error) {
	if len(only) == 0 {
		return share, nil
	}
	for _, p := range only {
		if !slices.Contains(share, p) {
			return nil, fmt.Errorf("partition %d is another member's, or on its way to this one: its share is %v; leave PARTITION away to poll that", p, share)
		}
	}
	return only, nil
}
