// Command bench measures galgo beside NATS JetStream and etcd on one machine: in
// turn, in one run, on fresh directories, and prints ratios. docs/benchmarks.md
// says what is measured and how the peers are installed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	bin, galgo, dir string
	rows            string
	pairs           int
	scale           float64
	foreign         float64
	quiet           time.Duration
	markdown, list  bool
	bare            bool
}

func (o *options) register(fs *flag.FlagSet) {
	fs.StringVar(&o.bin, "bin", "", "directory of nats-server, nats, etcd and etcd-benchmark")
	fs.StringVar(&o.galgo, "galgo", "", "the galgo binary (default: galgo in -bin)")
	fs.StringVar(&o.dir, "dir", "", "directory for the data, emptied in the end; where it lies is the disk that is measured")
	fs.StringVar(&o.rows, "rows", "", "rows to run, separated by commas (default: all); a prefix stands for all that begin with it")
	fs.IntVar(&o.pairs, "pairs", 5, "pairs of runs")
	fs.Float64Var(&o.scale, "scale", 1, "multiple of the usual number of messages and operations")
	fs.Float64Var(&o.foreign, "foreign", 0.10, "share of the machine that others may use during a run before its pair is dropped")
	fs.DurationVar(&o.quiet, "quiet", 10*time.Second, "how long to wait before a run until others use less than 12 % of the machine")
	fs.BoolVar(&o.markdown, "markdown", false, "print the table of docs/benchmarks.md")
	fs.BoolVar(&o.bare, "bare", false, "run the bare program in each pair, too, and say how much of what it reaches galgo does")
	fs.BoolVar(&o.list, "list", false, "list the rows and end")
}

func (o *options) check() error {
	if o.bin == "" || o.dir == "" {
		return errors.New("-bin and -dir must be given; docs/benchmarks.md says how the peers get into -bin")
	}
	if o.pairs < 1 || o.scale <= 0 {
		return fmt.Errorf("-pairs %d and -scale %v: want at least 1, and above 0", o.pairs, o.scale)
	}
	return nil
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == bareCommand {
		exit(runBare(os.Args[2:]))
	}
	var o options
	o.register(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(run(ctx, o, os.Stdout, os.Stderr))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, o options, out, talk io.Writer) error {
	chosen, err := choose(stages(), o.rows)
	if err != nil {
		return err
	}
	if o.list {
		for _, s := range chosen {
			for _, r := range s.rows {
				fmt.Fprintf(out, "%-9s %s, beside %s\n", r.id, r.what, r.beside)
			}
		}
		return nil
	}
	if err := o.check(); err != nil {
		return err
	}
	b := &bench{options: o, talk: talk, results: map[string]*result{}}
	err = b.all(ctx, chosen)
	// What was measured before an error is worth as much as without it.
	b.report(out, chosen)
	return err
}

// choose keeps the rows that are named, and the stages that have any.
func choose(all []stage, names string) ([]stage, error) {
	if names == "" {
		return all, nil
	}
	wanted := strings.Split(names, ",")
	found := map[string]bool{}
	var kept []stage
	for _, s := range all {
		var rows []row
		for _, r := range s.rows {
			if name, ok := named(r.id, wanted); ok {
				found[name] = true
				rows = append(rows, r)
			}
		}
		if len(rows) > 0 {
			s.rows = rows
			kept = append(kept, s)
		}
	}
	for _, name := range wanted {
		if !found[name] {
			return nil, fmt.Errorf("-rows %s: no row begins with it; -list lists them", name)
		}
	}
	return kept, nil
}

func named(id string, wanted []string) (string, bool) {
	for _, name := range wanted {
		if strings.HasPrefix(id, name) {
			return name, true
		}
	}
	return "", false
}
