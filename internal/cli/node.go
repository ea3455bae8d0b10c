package cli

import (
	"context"
	"errors"
	"io"
	"os/signal"
	"sync"
	"syscall"

	"galgo/internal/config"
	"galgo/internal/node"
	"galgo/internal/telemetry"
)

// ExitFailed is the status of a server that gave up, rather than lose or serve what
// it must not.
const ExitFailed Exit = 8

// RunNode is the RunServer of this program: it loads the configuration and runs a
// node. The log goes to stderr and, once the data directory is ours, to its file.
func RunNode(ctx context.Context, in config.LoadInput, _, stderr io.Writer) error {
	// A server outlives whoever read its output.
	signal.Ignore(syscall.SIGPIPE)
	c, sources, err := config.Load(in)
	logs, logErr := telemetry.New(c.System.Logging, c.System.Path, stderr, nil)
	if logErr != nil {
		return logErr
	}
	for _, w := range sources.Warnings {
		logs.Logger().Warn(w)
	}
	if err != nil {
		return err
	}
	collectGarbage(c, in.Env)
	if c.DisplayConfig {
		io.WriteString(stderr, config.Display(c, sources))
	}
	return node.Run(ctx, node.Options{Config: c, Log: logs.Logger(), Version: Version, Opened: func() func() { return keep(logs) }})
}

// keep has the log written to its file until the function returned is called.
func keep(logs *telemetry.Logs) (closing func()) {
	logs.Open()
	ctx, stop := context.WithCancel(context.Background())
	var checks sync.WaitGroup
	checks.Go(func() { logs.Run(ctx) })
	return func() {
		stop()
		checks.Wait()
		logs.Close()
	}
}

func isNodeFailure(err error) bool { return errors.Is(err, node.ErrFailed) }
