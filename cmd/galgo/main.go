// Command galgo is the server and its tools; see galgo --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"galgo/internal/cli"
)

func main() {
	// quic-go would write to standard error, past the log. What it has to say of the
	// system's UDP buffers is in docs/operations.md.
	os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	status := cli.Run(ctx, cli.Program{
		Args: os.Args, Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Server: cli.RunNode,
	})
	stop()
	os.Exit(status)
}
