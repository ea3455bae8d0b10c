package cli

import (
	"context"

	"galgo"
	"galgo/client"
)

func offsetCommand() *command {
	return &command{
		use: "offset", aliases: []string{"consumer-offset", "o"}, short: "Offsets of consumers", connects: true,
		subs: []*command{
			offsetSubcommand("get CONSUMER STREAM TOPIC PARTITION", "g", "Show the stored offset of a consumer", 4, offsetGet),
			offsetSubcommand("set CONSUMER STREAM TOPIC PARTITION OFFSET", "s", "Store the offset of a consumer", 5, offsetSet),
			offsetSubcommand("delete CONSUMER STREAM TOPIC PARTITION", "d", "Forget the offset of a consumer", 4, offsetDelete),
		},
	}
}

// place is whose offset it is, and where.
type place struct {
	consumer      galgo.Consumer
	stream, topic galgo.Identifier
	partition     uint32
}

func offsetSubcommand(use, alias, short string, args int, run func(context.Context, *env, place, []string) error) *command {
	kind := "consumer"
	return &command{
		use: use, aliases: []string{alias}, short: short, args: exactly(args), connects: true,
		flags: func(fs *flagSet) { fs.StringVarP(&kind, "kind", "k", kind, "consumer or consumer-group") },
		run: func(ctx context.Context, e *env, args []string) error {
			p, err := parsePlace(kind, args)
			if err != nil {
				return err
			}
			return run(ctx, e, p, args)
		},
	}
}

func parsePlace(kind string, args []string) (p place, err error) {
	switch kind {
	case "consumer":
		p.consumer.Kind = galgo.ConsumerSingle
	case "consumer-group", "consumer_group", "group":
		p.consumer.Kind = galgo.ConsumerGroup
	default:
		return p, usagef("--kind %q: want consumer or consumer-group", kind)
	}
	if p.consumer.ID, err = parseID("CONSUMER", args[0]); err != nil {
		return p, err
	}
	if p.stream, p.topic, err = parseStreamTopic(args[1:]); err != nil {
		return p, err
	}
	p.partition, err = parseUint32("PARTITION", args[3])
	return p, err
}

func offsetGet(ctx context.Context, e *env, p place, _ []string) error {
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		o, found, err := c.Offset(ctx, p.consumer, p.stream, p.topic, p.partition)
		if err != nil {
			return err
		}
		if !found {
			return galgo.Errorf(galgo.CodeConsumerOffsetNotFound, "%v has no offset stored in partition %d of topic %v of stream %v", p.consumer, p.partition, p.topic, p.stream)
		}
		v := struct {
			Consumer  string `json:"consumer"`
			Partition uint32 `json:"partition_id"`
			Current   uint64 `json:"current_offset"`
			Stored    uint64 `json:"stored_offset"`
			Lag       uint64 `json:"lag"`
		}{p.consumer.ID.String(), o.PartitionID, o.Current, o.Stored, o.Current - min(o.Stored, o.Current)}
		t := table{{"Consumer", "Partition", "Current Offset", "Stored Offset", "Lag"}}
		t.add(v.Consumer, v.Partition, v.Current, v.Stored, v.Lag)
		return e.print(v, t)
	})
}

func offsetSet(ctx context.Context, e *env, p place, args []string) error {
	offset, err := parseUint64("OFFSET", args[4])
	if err != nil {
		return err
	}
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		if err := c.StoreOffset(ctx, p.consumer, p.stream, p.topic, p.partition, offset); err != nil {
			return err
		}
		e.say("The offset of %v is %d.", p.consumer, offset)
		return nil
	})
}

func offsetDelete(ctx context.Context, e *env, p place, _ []string) error {
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		if err := c.DeleteOffset(ctx, p.consumer, p.stream, p.topic, p.partition); err != nil {
			return err
		}
		e.say("The offset of %v is deleted.", p.consumer)
		return nil
	})
}
