package node

import (
	"testing"
	"time"
)

func TestMachineTicks(t *testing.T) {
	for _, c := range []struct {
		name, stat string
		busy, idle uint64
	}{
		{"usual", "cpu  10 2 30 400 50 6 7 8 99 99\ncpu0 1 1 1 1 1 1 1 1 1 1\n", 63, 450},
		{"without guests", "cpu 1 1 1 1 1 1 1 1", 6, 2},
		{"too short", "cpu 1 1 1 1\n", 0, 0},
		{"one processor only", "cpu0 1 1 1 1 1 1 1 1 1 1\n", 0, 0},
		{"not numbers", "cpu 1 1 1 x 1 1 1 1\n", 0, 0},
		{"empty", "", 0, 0},
	} {
		if busy, idle := machineTicks([]byte(c.stat)); busy != c.busy || idle != c.idle {
			t.Errorf("%s: busy %d, idle %d; want %d, %d", c.name, busy, idle, c.busy, c.idle)
		}
	}
}

// The use of the process may pass 100 percent; that of the machine counts what
// other processes do, and never does.
func TestCPUUsage(t *testing.T) {
	start := time.Unix(1000, 0)
	now := cpuTimes{at: start, process: time.Second, busy: 500, idle: 9000}
	m := newCPUMeter(func() cpuTimes { return now })
	for _, step := range []struct {
		name           string
		later          cpuTimes
		process, total float32
	}{
		{"soon after the start", cpuTimes{start.Add(500 * time.Millisecond), 1500 * time.Millisecond, 550, 9050}, 100, 50},
		{"too soon again", cpuTimes{start.Add(600 * time.Millisecond), 9 * time.Second, 950, 9050}, 100, 50},
		{"two processors", cpuTimes{start.Add(2500 * time.Millisecond), 5500 * time.Millisecond, 950, 9050}, 200, 100},
		{"only others at work", cpuTimes{start.Add(4500 * time.Millisecond), 5500 * time.Millisecond, 1050, 9350}, 0, 25},
		{"idle time steps back", cpuTimes{start.Add(6500 * time.Millisecond), 5500 * time.Millisecond, 1150, 9340}, 0, 100},
		{"nothing told by the system", cpuTimes{start.Add(8500 * time.Millisecond), 5500 * time.Millisecond, 0, 0}, 0, 0},
	} {
		now = step.later
		if process, total := m.usage(); process != step.process || total != step.total {
			t.Errorf("%s: process %v %%, machine %v %%; want %v, %v", step.name, process, total, step.process, step.total)
		}
	}
}
