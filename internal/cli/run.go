package cli

import (
	"context"
	"io"
	"path/filepath"
	"strings"

	"galgo/internal/config"
)

// Version is what galgo says it is. It is set when a release is built.
var Version = "0.1.0-dev"

// RunServer runs a server until ctx ends, which is a graceful stop and no error.
// What it has to say goes to stderr.
type RunServer func(ctx context.Context, in config.LoadInput, stdout, stderr io.Writer) error

// Program is what the command line needs of the process around it. Nothing in the
// package reads the process's own.
type Program struct {
	Args    []string // with the name of the program first, as os.Args
	Environ []string // as os.Environ
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Server  RunServer // nil in a program without a server
}

// referenceServer is the name of the program that galgo's server takes the place
// of: called by it, galgo is that server.
const referenceServer = "iggy-server"

// Run runs one command and returns the exit status.
func Run(ctx context.Context, p Program) int {
	name, args := "galgo", []string(nil)
	if len(p.Args) > 0 {
		name, args = filepath.Base(p.Args[0]), p.Args[1:]
	}
	switch {
	case len(args) == 1 && (args[0] == "--version" || args[0] == "-V"):
		args = []string{"version"}
	case strings.TrimSuffix(name, ".exe") == referenceServer:
		args = append([]string{"server"}, args...)
	}
	e := &env{program: p}
	err := execute(ctx, e, args)
	if err != nil {
		e.complain(err)
	}
	return int(exitOf(err))
}

// env is the environment of a command.
type env struct {
	program Program
	globals globals
	// anew has the command sign in as somebody says, and not by a login that is
	// remembered.
	anew bool
}

// getenv is the value of a variable, the last one if it is there twice.
func (e *env) getenv(name string) (value string) {
	for _, v := range e.program.Environ {
		if rest, ok := strings.CutPrefix(v, name+"="); ok {
			value = rest
		}
	}
	return value
}
