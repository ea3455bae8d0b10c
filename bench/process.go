package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a server under measurement.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it is gone
}

// launch starts a server, whose output goes to a file beside its data.
func launch(dir, name string, env []string, command string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.cmd = exec.Command(command, args...)
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = append(os.Environ(), env...), out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() { p.cmd.Wait(); close(p.done) }()
	return p, nil
}

// awaitPort waits until a server accepts connections.
func (p *process) awaitPort(ctx context.Context, address string) error {
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.done:
			text, _ := os.ReadFile(p.log)
			return fmt.Errorf("%s ended at its start, see %s:\n%s", p.name, p.log, tail(text))
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen at %s: %w", p.name, address, context.Cause(ctx))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// tail is the end of a text, for an error.
func tail(text []byte) string {
	const most = 2000
	return string(text[max(0, len(text)-most):])
}

// kill ends the process at once and waits until it is gone.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// ended reports whether the process is gone.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// cpu is the processor time that the process has used, in seconds.
func (p *process) cpu() float64 {
	s, err := statOf(p.cmd.Process.Pid)
	if err != nil {
		return 0 // gone: what it used is not of the run
	}
	return s.cpu
}

// resetPeak has the peak of the memory counted anew.
func (p *process) resetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0)
}

// peak is the most memory that the process has had resident since resetPeak, in bytes.
func (p *process) peak() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	return parsePeak(string(text))
}

func parsePeak(status string) int64 {
	_, rest, _ := strings.Cut(status, "VmHWM:")
	f := strings.Fields(rest)
	if len(f) < 2 || f[1] != "kB" {
		return 0
	}
	kib, _ := strconv.ParseInt(f[0], 10, 64)
	return kib << 10
}

// toolLimit bounds one run of a tool.
const toolLimit = 2 * time.Minute

// tool runs a client to its end and returns what it printed and the processor time
// that it used.
func tool(ctx context.Context, env []string, command string, args ...string) (out string, cpu float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, toolLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, command, args...)
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = cmd.Run()
	if s := cmd.ProcessState; s != nil {
		cpu = (s.UserTime() + s.SystemTime()).Seconds()
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(command), strings.Join(args, " "), errors.Join(err, context.Cause(ctx)), tail(stdout.Bytes()), tail(stderr.Bytes()))
	}
	return stdout.String(), cpu, err
}
