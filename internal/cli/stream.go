package cli

import (
	"context"

	"galgo"
	"galgo/client"
)

func streamCommand() *command {
	return &command{
		use: "stream", aliases: []string{"s"}, short: "Streams", connects: true,
		subs: []*command{
			{use: "create NAME", aliases: []string{"c"}, short: "Create a stream", args: exactly(1), connects: true, run: streamCreate},
			{use: "list", aliases: []string{"l"}, short: "List the streams", args: exactly(0), connects: true, run: streamList},
			{use: "get STREAM", aliases: []string{"g"}, short: "Show a stream", args: exactly(1), connects: true, run: streamGet},
			{use: "update STREAM NAME", aliases: []string{"u"}, short: "Rename a stream", args: exactly(2), connects: true, run: streamUpdate},
			{use: "delete STREAM", aliases: []string{"d"}, short: "Delete a stream and everything in it", args: exactly(1), connects: true, run: streamDelete},
			{use: "purge STREAM", aliases: []string{"p"}, short: "Delete all messages of a stream", args: exactly(1), connects: true, run: streamPurge},
		},
	}
}

type stream struct {
	ID        uint32 `json:"id"`
	CreatedAt string `json:"created_at"`
	Name      string `json:"name"`
	Size      uint64 `json:"size_bytes"`
	Messages  uint64 `json:"messages"`
	Topics    uint32 `json:"topics"`
}

func streamOf(s client.Stream) stream {
	return stream{s.ID, timeOf(s.CreatedAt), s.Name, s.Size, s.MessagesCount, s.TopicsCount}
}

func streamTable(streams ...client.Stream) table {
	t := table{{"ID", "Created", "Name", "Size (B)", "Messages", "Topics"}}
	for _, s := range streams {
		t.add(s.ID, timeOf(s.CreatedAt), s.Name, s.Size, s.MessagesCount, s.TopicsCount)
	}
	return t
}

func streamCreate(ctx context.Context, e *env, args []string) error {
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		s, err := c.CreateStream(ctx, args[0])
		if err != nil {
			return err
		}
		return e.print(streamOf(s), streamTable(s))
	})
}

func streamList(ctx context.Context, e *env, _ []string) error {
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		streams, err := c.Streams(ctx)
		if err != nil {
			return err
		}
		all := make([]stream, len(streams))
		for i := range streams {
			all[i] = streamOf(streams[i])
		}
		return e.print(all, streamTable(streams...))
	})
}

func streamGet(ctx context.Context, e *env, args []string) error {
	id, err := parseID("STREAM", args[0])
	if err != nil {
		return err
	}
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		d, err := c.Stream(ctx, id)
		if err != nil {
			return err
		}
		return e.print(streamOf(d.Stream), streamTable(d.Stream))
	})
}

func streamUpdate(ctx context.Context, e *env, args []string) error {
	return e.on(ctx, "STREAM", args[0], "Stream %s is renamed.", func(ctx context.Context, c *client.Client, id galgo.Identifier) error {
		return c.UpdateStream(ctx, id, args[1])
	})
}

func streamDelete(ctx context.Context, e *env, args []string) error {
	return e.on(ctx, "STREAM", args[0], "Stream %s is deleted.", func(ctx context.Context, c *client.Client, id galgo.Identifier) error {
		return c.DeleteStream(ctx, id)
	})
}

func streamPurge(ctx context.Context, e *env, args []string) error {
	return e.on(ctx, "STREAM", args[0], "Stream %s is empty.", func(ctx context.Context, c *client.Client, id galgo.Identifier) error {
		return c.PurgeStream(ctx, id)
	})
}

// on changes what an argument of a kind names, and says so.
func (e *env) on(ctx context.Context, kind, arg, done string, change func(context.Context, *client.Client, galgo.Identifier) error) error {
	id, err := parseID(kind, arg)
	if err != nil {
		return err
	}
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		if err := change(ctx, c, id); err != nil {
			return err
		}
		e.say(done, id)
		return nil
	})
}
