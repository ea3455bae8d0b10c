package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"galgo/internal/config"
	"galgo/internal/node"
)

// ExitFailed is the status of a server that gave up, rather than lose or serve what
// it must not.
const ExitFailed Exit = 8

// RunNode is the RunServer of this program: it loads the configuration and runs a
// node. The log goes to stderr.
func RunNode(ctx context.Context, in config.LoadInput, _, stderr io.Writer) error {
	c, sources, err := config.Load(in)
	level := slog.LevelInfo
	if err == nil {
		level = c.System.Logging.SlogLevel()
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	for _, w := range sources.Warnings {
		log.Warn(w)
	}
	if err != nil {
		return err
	}
	if c.DisplayConfig {
		for _, r := range config.Rows(c, sources) {
			log.Info("configuration", "key", r.Key, "value", r.Value, "source", r.Source)
		}
	}
	return node.Run(ctx, node.Options{Config: c, Log: log, Version: Version})
}

func isNodeFailure(err error) bool { return errors.Is(err, node.ErrFailed) }
