package cli

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"galgo/internal/config"
)

// serverInput collects the flags of a server for its configuration.
type serverInput struct {
	fs  *flagSet
	set []string
}

// register declares the flags that the configuration describes.
func (s *serverInput) register(fs *flagSet) {
	s.fs = fs
	for _, f := range config.ServerFlags() {
		switch {
		case f.Many:
			fs.StringArrayVarP(&s.set, f.Name, f.Short, nil, f.Usage)
		case f.Switch:
			fs.BoolP(f.Name, f.Short, false, f.Usage)
		default:
			fs.StringP(f.Name, f.Short, "", f.Usage)
		}
	}
}

func (s *serverInput) load(e *env) config.LoadInput {
	in := config.LoadInput{Env: e.program.Environ, Flags: make(map[string]string), Set: s.set, OtherEnv: otherEnv}
	described := make(map[string]config.Flag)
	for _, f := range config.ServerFlags() {
		described[f.Name] = f
	}
	s.fs.Visit(func(f *pflag.Flag) {
		d, ok := described[f.Name]
		switch {
		case !ok || d.Many:
		case f.Name == "config":
			in.File = f.Value.String()
		default:
			in.Flags[f.Name] = f.Value.String()
		}
	})
	return in
}

func serverCommand() *command {
	var s serverInput
	return &command{
		use: "server", short: "Run a server", args: exactly(0), plain: true,
		long: `Run a server until it is interrupted. Without a configuration it listens on
127.0.0.1:8090 and keeps its data in local_data below the working directory.
galgo config prints what is in effect; SIGINT and SIGTERM stop the server gracefully.`,
		example: "  galgo server --with-default-root-credentials\n  galgo server --config galgo.toml --set tcp.address=0.0.0.0:8090",
		flags:   s.register,
		run: func(ctx context.Context, e *env, _ []string) error {
			if e.program.Server == nil {
				return errors.New("this program has no server in it")
			}
			return asUsage(e.program.Server(ctx, s.load(e), e.program.Stdout, e.program.Stderr))
		},
	}
}

// asUsage makes problems of the configuration errors of usage.
func asUsage(err error) error {
	if _, ok := errors.AsType[*config.Problem](err); ok {
		return usagef("%v", err)
	}
	return err
}

func configCommand() *command {
	var s serverInput
	sample := false
	return &command{
		use: "config", short: "Print the configuration that a server would have", args: exactly(0),
		long: `Print every setting with its value and where that comes from: the default, the
file, a variable or a flag. It takes the flags of galgo server and reads the same
environment. Secrets are not shown.`,
		flags: func(fs *flagSet) {
			s.register(fs)
			fs.BoolVar(&sample, "sample", false, "print a file with every key explained, instead")
		},
		run: func(_ context.Context, e *env, _ []string) error {
			if sample {
				_, err := e.program.Stdout.Write([]byte(config.Sample()))
				return err
			}
			return printConfig(e, s.load(e))
		},
	}
}

type setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

func printConfig(e *env, in config.LoadInput) error {
	c, sources, err := config.Load(in)
	for _, w := range sources.Warnings {
		e.say("warning: %s", w)
	}
	if err != nil {
		return asUsage(err)
	}
	all, t := []setting{}, table{{"Key", "Value", "Source"}}
	for _, r := range config.Rows(c, sources) {
		all = append(all, setting{r.Key, r.Value, r.Source})
		t.add(r.Key, r.Value, r.Source)
	}
	return e.print(all, t)
}
