package cli

import (
	"context"
	"fmt"
	"runtime"
)

const rootUse = "galgo"

func rootCommand() *command {
	return &command{
		use:   rootUse,
		short: "A message-streaming server and its tools",
		long: `galgo is a message-streaming server: streams, topics, partitions, consumer
groups. This program is the server and everything to work with it.

Exit status: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 denied,
5 no connection, 6 outcome unknown, 7 exists already, 130 interrupted.`,
		subs: []*command{
			serverCommand(), configCommand(),
			pingCommand(), meCommand(), statsCommand(), clientCommand(), clusterCommand(), optionsCommand(), snapshotCommand(),
			streamCommand(), topicCommand(), partitionCommand(), segmentCommand(), groupCommand(), messageCommand(), offsetCommand(),
			userCommand(), tokenCommand(), loginCommand(), logoutCommand(), sessionCommand(), contextCommand(),
			benchCommand(), demoCommand(), simCommand(), inspectCommand(), verifyCommand(), versionCommand(),
		},
	}
}

func versionCommand() *command {
	return &command{
		use: "version", short: "Print the version", args: exactly(0),
		run: func(_ context.Context, e *env, _ []string) error {
			v := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
			}{Version, runtime.Version()}
			if e.globals.output == outputJSON {
				return e.printJSON(v)
			}
			_, err := fmt.Fprintf(e.program.Stdout, "galgo %s (%s)\n", v.Version, v.Go)
			return err
		},
	}
}
