package cli

import (
	"context"
	"strings"

	"galgo"
	"galgo/client"
)

func topicCommand() *command {
	return &command{
		use: "topic", aliases: []string{"t"}, short: "Topics of a stream", connects: true,
		subs: []*command{
			topicCreateCommand(), topicUpdateCommand(),
			{use: "list STREAM", aliases: []string{"l"}, short: "List the topics of a stream", args: exactly(1), connects: true, run: topicList},
			{use: "get STREAM TOPIC", aliases: []string{"g"}, short: "Show a topic and its options", args: exactly(2), connects: true, run: topicGet},
			{use: "delete STREAM TOPIC", aliases: []string{"d"}, short: "Delete a topic and everything in it", args: exactly(2), connects: true, run: topicDelete},
			{use: "purge STREAM TOPIC", aliases: []string{"p"}, short: "Delete all messages of a topic", args: exactly(2), connects: true, run: topicPurge},
		},
	}
}

// topicSettings are the settings of a topic as words of a command line.
type topicSettings struct {
	maxSize string
	set     []string
}

func (s *topicSettings) register(fs *flagSet) {
	fs.StringVarP(&s.maxSize, "max-topic-size", "m", "", `size above which old segments are deleted, as "10 GiB" or unlimited`)
	fs.StringArrayVar(&s.set, "set", nil, "KEY=VALUE, any option that galgo options topic lists (repeat)")
}

// options are the settings as options; words are [COMPRESSION [EXPIRY...]].
func (s *topicSettings) options(words []string) ([]galgo.Header, error) {
	var all []galgo.Header
	add := func(key, value string) {
		if value != "" {
			all = append(all, galgo.Header{Key: galgo.StringValue(key), Value: galgo.StringValue(value)})
		}
	}
	if len(words) > 0 {
		add(galgo.OptionCompressionAlgorithm, words[0])
		add(galgo.OptionMessageExpiry, strings.Join(words[1:], " "))
	}
	add(galgo.OptionMaxTopicSize, s.maxSize)
	for _, assignment := range s.set {
		o, err := parseOption(assignment)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

func topicCreateCommand() *command {
	var s topicSettings
	return &command{
		use: "create STREAM NAME PARTITIONS [COMPRESSION [EXPIRY...]]", aliases: []string{"c"},
		short:    "Create a topic",
		example:  "  galgo topic create orders events 3\n  galgo topic create orders audit 1 none 7 days --set enforce_fsync=true",
		args:     atLeast(3),
		connects: true,
		flags:    s.register,
		run: func(ctx context.Context, e *env, args []string) error {
			id, err := parseID("STREAM", args[0])
			if err != nil {
				return err
			}
			partitions, err := parseUint32("PARTITIONS", args[2])
			if err != nil {
				return err
			}
			options, err := s.options(args[3:])
			if err != nil {
				return err
			}
			return topicCreate(ctx, e, id, client.TopicSpec{Name: args[1], Partitions: partitions, Options: options})
		},
	}
}

func topicCreate(ctx context.Context, e *env, stream galgo.Identifier, spec client.TopicSpec) error {
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		d, err := c.CreateTopic(ctx, stream, spec)
		if err != nil {
			return err
		}
		return e.print(topicOf(d.Topic), topicTable(d.Topic))
	})
}

func topicUpdateCommand() *command {
	var s topicSettings
	return &command{
		use: "update STREAM TOPIC NAME [COMPRESSION [EXPIRY...]]", aliases: []string{"u"},
		short:    "Rename a topic, or change its options",
		long:     "Give a topic a name, which may be the one it has, and new values for the options that are named. Others stay as they are.",
		args:     atLeast(3),
		connects: true,
		flags:    s.register,
		run: func(ctx context.Context, e *env, args []string) error {
			options, err := s.options(args[3:])
			if err != nil {
				return err
			}
			return e.onTopic(ctx, args, "Topic %s of stream %s is updated.", func(ctx context.Context, c *client.Client, stream, topic galgo.Identifier) error {
				return c.UpdateTopic(ctx, stream, topic, args[2], options...)
			})
		},
	}
}

type topic struct {
	ID          uint32            `json:"id"`
	CreatedAt   string            `json:"created_at"`
	Name        string            `json:"name"`
	Size        uint64            `json:"size_bytes"`
	MaxSize     string            `json:"max_topic_size_bytes"`
	Compression string            `json:"compression"`
	Expiry      string            `json:"message_expiry"`
	Messages    uint64            `json:"messages"`
	Count       uint32            `json:"partitions_count"`
	Options     map[string]string `json:"options"`
	Partitions  []partitionView   `json:"partitions,omitempty"`
}

func topicOf(t client.Topic) topic {
	v := topic{
		ID: t.ID, CreatedAt: timeOf(t.CreatedAt), Name: t.Name, Size: t.Size, MaxSize: limitOf(t.MaxSize),
		Compression: t.Compression.String(), Expiry: durationOf(t.MessageExpiry), Messages: t.MessagesCount, Count: t.PartitionsCount,
		Options: make(map[string]string),
	}
	for _, o := range append(t.DefaultOptions, t.Options...) {
		v.Options[o.Key.String()] = o.Value.String()
	}
	return v
}

func topicTable(topics ...client.Topic) table {
	t := table{{"ID", "Created", "Name", "Size (B)", "Max Topic Size (B)", "Compression", "Message Expiry", "Messages", "Partitions"}}
	for _, v := range topics {
		t.add(v.ID, timeOf(v.CreatedAt), v.Name, v.Size, limitOf(v.MaxSize), v.Compression, durationOf(v.MessageExpiry), v.MessagesCount, v.PartitionsCount)
	}
	return t
}

func topicList(ctx context.Context, e *env, args []string) error {
	id, err := parseID("STREAM", args[0])
	if err != nil {
		return err
	}
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		topics, err := c.Topics(ctx, id)
		if err != nil {
			return err
		}
		all := make([]topic, len(topics))
		for i := range topics {
			all[i] = topicOf(topics[i])
		}
		return e.print(all, topicTable(topics...))
	})
}

func topicGet(ctx context.Context, e *env, args []string) error {
	stream, name, err := parseStreamTopic(args)
	if err != nil {
		return err
	}
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		d, err := c.Topic(ctx, stream, name)
		if err != nil {
			return err
		}
		v := topicOf(d.Topic)
		v.Partitions = partitionsOf(d.Partitions)
		t := table{{"Property", "Value"}}
		t.add("ID", d.ID)
		t.add("Created", timeOf(d.CreatedAt))
		t.add("Name", d.Name)
		t.add("Size (B)", d.Size)
		t.add("Messages", d.MessagesCount)
		t.add("Partitions", d.PartitionsCount)
		for _, o := range d.Options {
			t.add(o.Key, o.Value)
		}
		for _, o := range d.DefaultOptions {
			t.add(o.Key, o.Value.String()+" (default)")
		}
		return e.print(v, t)
	})
}

func topicDelete(ctx context.Context, e *env, args []string) error {
	return e.onTopic(ctx, args, "Topic %s of stream %s is deleted.", func(ctx context.Context, c *client.Client, stream, topic galgo.Identifier) error {
		return c.DeleteTopic(ctx, stream, topic)
	})
}

func topicPurge(ctx context.Context, e *env, args []string) error {
	return e.onTopic(ctx, args, "Topic %s of stream %s is empty.", func(ctx context.Context, c *client.Client, stream, topic galgo.Identifier) error {
		return c.PurgeTopic(ctx, stream, topic)
	})
}

// onTopic changes the topic that the first two arguments name, and says so.
func (e *env) onTopic(ctx context.Context, args []string, done string, change func(ctx context.Context, c *client.Client, stream, topic galgo.Identifier) error) error {
	stream, topic, err := parseStreamTopic(args)
	if err != nil {
		return err
	}
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		if err := change(ctx, c, stream, topic); err != nil {
			return err
		}
		e.say(done, topic, stream)
		return nil
	})
}
