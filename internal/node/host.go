package node

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"galgo/internal/disk"
	"galgo/internal/wire"
)

var processStart = time.Now()

// host describes the process and the machine for the stats command. What the
// system does not tell is zero.
type host struct {
	version string
	data    *disk.OS // nil without a directory of its own
	fixed   wire.Stats
	cpu     *cpuMeter
}

func newHost(version string, data *disk.OS) *host {
	h := &host{version: version, data: data, cpu: newCPUMeter(readCPUTimes)}
	h.fixed = wire.Stats{
		ProcessID: uint32(os.Getpid()), StartTime: uint64(processStart.UnixMicro()),
		OSName: runtime.GOOS, ServerVersion: version, ServerSemver: semver(version),
	}
	h.fixed.Hostname, _ = os.Hostname()
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		h.fixed.KernelVersion = unix.ByteSliceToString(u.Release[:])
		h.fixed.OSVersion = unix.ByteSliceToString(u.Version[:])
	}
	return h
}

// semver reads the numbers at the front of a version; 0 if there are none.
func semver(version string) uint32 {
	core, _, _ := strings.Cut(version, "-")
	parts := strings.Split(core, ".")
	if len(parts) != 3 {
		return 0
	}
	var n [3]uint32
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return 0
		}
		n[i] = uint32(v)
	}
	return wire.Semver(n[0], n[1], n[2])
}

func (h *host) stats() wire.Stats {
	s := h.fixed
	up := time.Since(processStart).Truncate(time.Second)
	s.RunTime = uint64(up.Microseconds())
	process(&s)
	s.CPUUsage, s.TotalCPUUsage = h.cpu.usage()
	memory, _ := os.ReadFile("/proc/meminfo")
	s.TotalMemory, s.AvailableMemory = field(memory, "MemTotal:")*1024, field(memory, "MemAvailable:")*1024
	if h.data != nil {
		if free, total, err := h.data.Free(); err == nil {
			s.FreeDiskSpace, s.TotalDiskSpace = free, total
		}
	}
	return s
}

// process fills in what the kernel knows of this process.
func process(s *wire.Stats) {
	status, _ := os.ReadFile("/proc/self/status")
	s.MemoryUsage = field(status, "VmRSS:") * 1024
	s.ThreadsCount = uint32(field(status, "Threads:"))
	io, _ := os.ReadFile("/proc/self/io")
	s.ReadBytes, s.WrittenBytes = field(io, "read_bytes:"), field(io, "write_bytes:")
}

// field reads the number behind a name in a file of /proc.
func field(text []byte, name string) uint64 {
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			if f := bytes.Fields(rest); len(f) > 0 {
				n, _ := strconv.ParseUint(string(f[0]), 10, 64)
				return n
			}
		}
	}
	return 0
}
