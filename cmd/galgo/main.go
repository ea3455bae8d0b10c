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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	status := cli.Run(ctx, cli.Program{
		Args: os.Args, Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Server: cli.RunNode,
	})
	stop()
	os.Exit(status)
}
