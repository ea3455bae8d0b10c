package cli

import (
	"context"

	"galgo"
	"galgo/client"
)

func messageCommand() *command {
	return &command{
		use: "message", aliases: []string{"m"}, short: "Messages", connects: true,
		subs: []*command{messageSendCommand(), messagePollCommand(), messageFlushCommand()},
	}
}

func messageFlushCommand() *command {
	fsync := false
	return &command{
		use: "flush STREAM TOPIC PARTITION", aliases: []string{"f"}, short: "Have the server write what it holds of a partition",
		long:     "Have the server write what it holds of a partition. A server that writes before it answers refuses this with code 5.",
		args:     exactly(3),
		connects: true,
		flags:    func(fs *flagSet) { fs.BoolVarP(&fsync, "fsync", "f", false, "to stable storage") },
		run: func(ctx context.Context, e *env, args []string) error {
			partition, err := parseUint32("PARTITION", args[2])
			if err != nil {
				return err
			}
			return e.onTopic(ctx, args, "A partition of topic %s of stream %s is written.", func(ctx context.Context, c *client.Client, stream, topic galgo.Identifier) error {
				return c.Flush(ctx, stream, topic, partition, fsync)
			})
		},
	}
}
