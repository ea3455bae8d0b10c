package cli

import (
	"context"

	"galgo"
	"galgo/client"
)

func partitionCommand() *command {
	return &command{
		use: "partition", aliases: []string{"p"}, short: "Partitions of a topic", connects: true,
		subs: []*command{
			{use: "create STREAM TOPIC COUNT", aliases: []string{"c"}, short: "Add partitions to a topic", args: exactly(3), connects: true, run: partitionCreate},
			{use: "delete STREAM TOPIC COUNT", aliases: []string{"d"}, short: "Delete the last partitions of a topic", args: exactly(3), connects: true, run: partitionDelete},
			{use: "list STREAM TOPIC", aliases: []string{"l"}, short: "List the partitions of a topic", args: exactly(2), connects: true, run: partitionList},
		},
	}
}

type partitionView struct {
	ID            uint32 `json:"id"`
	CreatedAt     string `json:"created_at"`
	Segments      uint32 `json:"segments"`
	CurrentOffset uint64 `json:"current_offset"`
	Size          uint64 `json:"size_bytes"`
	Messages      uint64 `json:"messages"`
}

func partitionsOf(partitions []client.Partition) []partitionView {
	all := make([]partitionView, len(partitions))
	for i, p := range partitions {
		all[i] = partitionView{p.ID, timeOf(p.CreatedAt), p.SegmentsCount, p.CurrentOffset, p.Size, p.MessagesCount}
	}
	return all
}

func partitionList(ctx context.Context, e *env, args []string) error {
	stream, topic, err := parseStreamTopic(args)
	if err != nil {
		return err
	}
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		d, err := c.Topic(ctx, stream, topic)
		if err != nil {
			return err
		}
		t := table{{"ID", "Created", "Segments", "Current Offset", "Size (B)", "Messages"}}
		for _, p := range d.Partitions {
			t.add(p.ID, timeOf(p.CreatedAt), p.SegmentsCount, p.CurrentOffset, p.Size, p.MessagesCount)
		}
		return e.print(partitionsOf(d.Partitions), t)
	})
}

func partitionCreate(ctx context.Context, e *env, args []string) error {
	count, err := parseUint32("COUNT", args[2])
	if err != nil {
		return err
	}
	return e.onTopic(ctx, args, "Topic %s of stream %s has "+args[2]+" more partitions.", func(ctx context.Context, c *client.Client, stream, topic galgo.Identifier) error {
		return c.CreatePartitions(ctx, stream, topic, count)
	})
}

func partitionDelete(ctx context.Context, e *env, args []string) error {
	count, err := parseUint32("COUNT", args[2])
	if err != nil {
		return err
	}
	return e.onTopic(ctx, args, "Topic %s of stream %s has "+args[2]+" fewer partitions.", func(ctx context.Context, c *client.Client, stream, topic galgo.Identifier) error {
		return c.DeletePartitions(ctx, stream, topic, count)
	})
}

func segmentCommand() *command {
	return &command{
		use: "segment", aliases: []string{"seg"}, short: "Segments of a partition", connects: true,
		subs: []*command{{
			use: "delete STREAM TOPIC PARTITION COUNT", aliases: []string{"d"}, short: "Delete the oldest sealed segments of a partition",
			args: exactly(4), connects: true, run: segmentDelete,
		}},
	}
}

func segmentDelete(ctx context.Context, e *env, args []string) error {
	partition, err := parseUint32("PARTITION", args[2])
	if err != nil {
		return err
	}
	count, err := parseUint32("COUNT", args[3])
	if err != nil {
		return err
	}
	return e.onTopic(ctx, args, "Up to "+args[3]+" segments of partition "+args[2]+" of topic %s of stream %s are deleted.",
		func(ctx context.Context, c *client.Client, stream, topic galgo.Identifier) error {
			return c.DeleteSegments(ctx, stream, topic, partition, count)
		})
}
