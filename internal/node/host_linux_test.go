package node

import "testing"

// What the system tells of itself has to be possible.
func TestHostStats(t *testing.T) {
	s := newHost("1.2.3-dev", nil).stats()
	if s.TotalMemory == 0 || s.AvailableMemory == 0 || s.AvailableMemory > s.TotalMemory || s.MemoryUsage > s.TotalMemory {
		t.Errorf("memory: process %d, available %d, total %d", s.MemoryUsage, s.AvailableMemory, s.TotalMemory)
	}
	if s.TotalCPUUsage < 0 || s.TotalCPUUsage > 100 || s.CPUUsage < 0 {
		t.Errorf("CPU: process %v %%, machine %v %%", s.CPUUsage, s.TotalCPUUsage)
	}
	if s.ServerSemver != 1002003 || s.ProcessID == 0 || s.ThreadsCount == 0 || s.StartTime == 0 {
		t.Errorf("process: semver %d, id %d, threads %d, start %d", s.ServerSemver, s.ProcessID, s.ThreadsCount, s.StartTime)
	}
}
