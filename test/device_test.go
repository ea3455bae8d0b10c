package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"galgo/internal/cli"
	"galgo/internal/config"
	"galgo/internal/node"
	"galgo/internal/telemetry"
)

// device has a server of the tests run by this program, on a forgetful disk: when it is
// killed its machine has lost power.
type device struct {
	seed  uint64
	lives uint64
}

// deviceSeed is the environment variable that makes this program a server.
const deviceSeed = "TEST_DEVICE_SEED"

func (v *device) environment(dir string) []string {
	v.lives++
	return []string{fmt.Sprintf("%s=%d", deviceSeed, v.seed<<16+v.lives), "TEST_DEVICE_ORDER=" + orderFile(dir)}
}

// orderFile is beside the data directory of a server; its words are for the device.
func orderFile(dir string) string { return dir + ".order" }

// command has the device of a server do as the words say: full, slow, broken, or
// refuse=PART-OF-A-NAME.
// Without a word it does as a device should.
func (s *server) command(words string) {
	s.t.Helper()
	if err := os.WriteFile(orderFile(s.dir)+".new", []byte(words), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(orderFile(s.dir)+".new", orderFile(s.dir)); err != nil {
		s.t.Fatal(err)
	}
}

func readOrder(name string) (o order) {
	words, _ := os.ReadFile(name) // there is none if nobody wants anything
	for word := range strings.FieldsSeq(string(words)) {
		o.full, o.slow, o.broken = o.full || word == "full", o.slow || word == "slow", o.broken || word == "broken"
		if part, ok := strings.CutPrefix(word, "refuse="); ok {
			o.refused = part
		}
	}
	return o
}

// serveAndExit runs a server, if this process is asked to.
func serveAndExit() {
	seed, err := strconv.ParseUint(os.Getenv(deviceSeed), 10, 64)
	if err != nil {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	status := cli.Run(ctx, cli.Program{
		Args: append([]string{"galgo"}, os.Args[1:]...), Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr,
		Server: func(ctx context.Context, in config.LoadInput, _, stderr io.Writer) error {
			return serveForgetful(ctx, in, stderr, seed)
		},
	})
	stop()
	os.Exit(status)
}

func serveForgetful(ctx context.Context, in config.LoadInput, stderr io.Writer, seed uint64) error {
	c, _, err := config.Load(in)
	if err != nil {
		return err
	}
	logs, err := telemetry.New(c.System.Logging, c.System.Path, stderr, nil)
	if err != nil {
		return err
	}
	orders := os.Getenv("TEST_DEVICE_ORDER")
	d, err := openForgetful(c.System.Path, seed, func() order { return readOrder(orders) })
	if err != nil {
		return err
	}
	return errors.Join(node.Run(ctx, node.Options{Config: c, Log: logs.Logger(), Version: cli.Version, Disk: d}), d.os.Close())
}
