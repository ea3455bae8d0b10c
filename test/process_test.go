// Package test runs galgo as real processes, from the outside: started, loaded,
// killed and started again, as an operator's machine would.
package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"galgo/client"
	"galgo/internal/freeport"
)

var binary string

func TestMain(m *testing.M) {
	drainAndExit()
	serveAndExit()
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "galgo-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "galgo")
		build := exec.Command("go", "build", "-o", binary, "galgo/cmd/galgo")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build galgo: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// server is one galgo process after another on one data directory and address.
type server struct {
	t       testing.TB
	dir     string
	address string
	env     []string
	args    []string  // of the next start, behind "server"
	host    *host     // nil: this machine
	device  *device   // nil: the files of the machine
	tee     io.Writer // what all processes say, if it is not nil
	cmd     *exec.Cmd
	output  *bytes.Buffer
	exited  <-chan error // closed when the process is gone
}

func newServer(t testing.TB, env ...string) *server {
	t.Helper()
	s := &server{t: t, dir: filepath.Join(t.TempDir(), "data"), address: freeAddress(t), env: env}
	t.Cleanup(func() {
		if s.cmd != nil {
			s.kill()
		}
	})
	return s
}

// freeAddress finds a loopback address for a server of this process, which is the
// only one to use it.
func freeAddress(t testing.TB) string {
	t.Helper()
	ports, err := freeport.Take(1)
	if err != nil {
		t.Fatal(err)
	}
	return freeport.Loopback(ports[0])
}

// start runs the server and waits until it answers.
func (s *server) start() {
	s.t.Helper()
	s.launch()
	s.await()
}

// launch runs the server.
func (s *server) launch() {
	s.t.Helper()
	s.output = new(bytes.Buffer)
	s.cmd = exec.Command(s.program(), append([]string{"server"}, s.args...)...)
	s.cmd.Env = s.environment()
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	if s.tee != nil {
		both := io.MultiWriter(s.output, s.tee)
		s.cmd.Stdout, s.cmd.Stderr = both, both
	}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	start := s.cmd.Start
	if s.host != nil {
		start = func() error { return s.host.inside(s.cmd.Start) }
	}
	if err := start(); err != nil {
		s.t.Fatal(err)
	}
	exited := make(chan error, 1)
	s.exited = exited
	go func(cmd *exec.Cmd) { exited <- cmd.Wait(); close(exited) }(s.cmd)
}

// program is galgo, or this one, which has a device for it.
func (s *server) program() string {
	if s.device != nil {
		return os.Args[0]
	}
	return binary
}

// await waits until the server answers.
func (s *server) await() {
	s.t.Helper()
	for {
		conn, err := s.connect(context.Background(), s.address)
		if err == nil {
			conn.Close()
			return
		}
		select {
		case err := <-s.exited:
			s.t.Fatalf("server ended at start: %v\n%s", err, s.output)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// connect opens a connection as a client's machine does.
func (s *server) connect(ctx context.Context, address string) (net.Conn, error) {
	if s.host != nil {
		return s.host.net.dial(ctx, address)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

// environment is that of a server on this directory and address.
func (s *server) environment() []string {
	own := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "GALGO_CHAOS_")
	})
	if s.device != nil {
		own = append(own, s.device.environment(s.dir)...)
	}
	return append(own, append([]string{
		"GALGO_SYSTEM_PATH=" + s.dir, "GALGO_TCP_ADDRESS=" + s.address, "GALGO_DISPLAY_CONFIG=false",
		"GALGO_QUIC_ADDRESS=127.0.0.1:0", "GALGO_WEBSOCKET_ADDRESS=127.0.0.1:0",
		"GALGO_WAL_FILE_SIZE=4 MiB", "GALGO_WAL_LIMIT=8 MiB", "GALGO_SYSTEM_LOGGING_FILE_ENABLED=false",
	}, s.env...)...)
}

// run runs a galgo command to its end and returns what it printed and its status.
func run(t *testing.T, env []string, args ...string) (output string, status int) {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if _, exit := errors.AsType[*exec.ExitError](err); err != nil && !exit {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// kill ends the process at once, as a crash does, and waits until it is gone.
func (s *server) kill() {
	s.signal(syscall.SIGKILL)
	s.cmd = nil
}

// stop ends the process in order and returns its exit status.
func (s *server) stop() int {
	s.t.Helper()
	cmd := s.cmd
	s.signal(syscall.SIGTERM)
	s.cmd = nil
	return cmd.ProcessState.ExitCode()
}

// peakMemory is the most that a process has had in memory so far, in bytes; 0 once it has
// ended.
func peakMemory(pid int) (bytes int) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, field, found := strings.Cut(string(status), "VmHWM:"); found {
		fmt.Sscan(field, &bytes)
	}
	return bytes << 10
}

func (s *server) signal(sig syscall.Signal) {
	s.cmd.Process.Signal(sig)
	for range s.exited {
	}
}

func (s *server) dial(opts ...client.Option) *client.Client {
	s.t.Helper()
	c, err := client.Dial(context.Background(), s.address, append([]client.Option{client.WithPassword("iggy", "iggy"), client.WithDialer(s.connect)}, opts...)...)
	if err != nil {
		s.t.Fatalf("dial %s: %v\n%s", s.address, err, s.output)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}
