package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ticksPerSecond is the unit of processor time in /proc: USER_HZ, which is 100 on
// every Linux that Go runs on.
const ticksPerSecond = 100

// kernelThread is PF_KTHREAD, in the flags of /proc/PID/stat.
const kernelThread = 0x00200000

// processStat are the fields of /proc/PID/stat that matter here.
type processStat struct {
	flags  uint64
	cpu    float64 // processor seconds, user and system
	zombie bool
}

// parseStat reads a line of /proc/PID/stat. The name, in parentheses, may hold
// anything.
func parseStat(line []byte) (s processStat, err error) {
	end := bytes.LastIndexByte(line, ')')
	f := strings.Fields(string(line[end+1:]))
	if end < 0 || len(f) < 13 {
		return s, fmt.Errorf("a line of stat with %d fields behind the name", len(f))
	}
	flags, err1 := strconv.ParseUint(f[6], 10, 64)
	user, err2 := strconv.ParseFloat(f[11], 64)
	system, err3 := strconv.ParseFloat(f[12], 64)
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			return s, err
		}
	}
	return processStat{flags, (user + system) / ticksPerSecond, f[0] == "Z"}, nil
}

func statOf(pid int) (processStat, error) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return processStat{}, err
	}
	return parseStat(line)
}

// clock is a moment of the machine's processors, in seconds of one of them.
type clock struct {
	busy, total float64
	kernel      float64 // of the kernel's own threads
	self        float64 // of this program
}

// parseMachine reads the first line of /proc/stat: user nice system idle iowait irq
// softirq steal. What others on the same hardware stole counts as busy.
func parseMachine(text string) (busy, total float64, err error) {
	line, _, _ := strings.Cut(text, "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return 0, 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	for i, v := range f[1:9] {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return 0, 0, err
		}
		total += n / ticksPerSecond
		if i != 3 && i != 4 {
			busy += n / ticksPerSecond
		}
	}
	return busy, total, nil
}

func now() (c clock, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return c, err
	}
	if c.busy, c.total, err = parseMachine(string(text)); err != nil {
		return c, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return c, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, err := statOf(pid); err == nil && s.flags&kernelThread != 0 {
			c.kernel += s.cpu
		}
	}
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return c, err
	}
	c.self = seconds(u.Utime) + seconds(u.Stime)
	return c, nil
}

func seconds(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

// foreignShare is the part of the machine that was used between two moments by
// nobody who took part: not the servers and tools (known, in seconds), not the
// kernel's threads, not this program.
func foreignShare(from, to clock, known float64) float64 {
	total := to.total - from.total
	if total <= 0 {
		return 0
	}
	foreign := to.busy - from.busy - known - (to.kernel - from.kernel) - (to.self - from.self)
	return max(0, foreign/total)
}

// Waiting for a quiet machine.
const (
	quietShare  = 0.12
	quietWindow = 300 * time.Millisecond
)

// awaitQuiet waits until the machine does little, but not longer than limit.
func awaitQuiet(ctx context.Context, limit time.Duration) error {
	for end := time.Now().Add(limit); time.Now().Before(end); {
		from, err := now()
		if err != nil {
			return err
		}
		if err := pause(ctx, quietWindow); err != nil {
			return err
		}
		to, err := now()
		if err != nil {
			return err
		}
		if (to.busy-from.busy)/(to.total-from.total) < quietShare {
			return nil
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
