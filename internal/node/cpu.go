package node

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// cpuWindow is the shortest time over which CPU use is told. Within it the last
// figures are told again: over less they would be noise.
const cpuWindow = time.Second

// cpuTimes is how much processor time was used up to one moment.
type cpuTimes struct {
	at      time.Time
	process time.Duration // by this process, on all processors together
	busy    uint64        // by the machine, in ticks of all processors together
	idle    uint64
}

// cpuMeter tells how busy the process and the machine were since it was asked
// before. Any number of goroutines may ask.
type cpuMeter struct {
	read func() cpuTimes

	mu             sync.Mutex
	last           cpuTimes
	process, total float32
	told           bool
}

func newCPUMeter(read func() cpuTimes) *cpuMeter { return &cpuMeter{read: read, last: read()} }

// usage is the use of processors in percent: by the process, where 100 is one
// processor, and by everything on the machine, where 100 is all of them.
func (m *cpuMeter) usage() (process, total float32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.read()
	if !m.told || now.at.Sub(m.last.at) >= cpuWindow {
		m.process, m.total = usageBetween(m.last, now)
		m.last, m.told = now, true
	}
	return m.process, m.total
}

func usageBetween(a, b cpuTimes) (process, total float32) {
	if wall := b.at.Sub(a.at); wall > 0 {
		process = float32(100 * float64(b.process-a.process) / float64(wall))
	}
	// The kernel's idle time may step back a little.
	busy, idle := float64(b.busy)-float64(a.busy), max(0, float64(b.idle)-float64(a.idle))
	if busy > 0 {
		total = float32(100 * busy / (busy + idle))
	}
	return process, total
}

func readCPUTimes() cpuTimes {
	t := cpuTimes{at: time.Now()}
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &used) == nil {
		t.process = time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	stat, _ := os.ReadFile("/proc/stat")
	t.busy, t.idle = machineTicks(stat)
	return t
}

// machineTicks reads the line of /proc/stat that sums the processors up: user,
// nice, system, idle, iowait, irq, softirq, steal; the guests behind them are in
// user already. What is not such a line is all zero.
func machineTicks(stat []byte) (busy, idle uint64) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return 0, 0
	}
	for i, f := range fields[1:9] {
		n, err := strconv.ParseUint(string(f), 10, 64)
		switch {
		case err != nil:
			return 0, 0
		case i == 3 || i == 4:
			idle += n
		default:
			busy += n
		}
	}
	return busy, idle
}
