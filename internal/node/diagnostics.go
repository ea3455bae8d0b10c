package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"galgo/internal/config"
	"galgo/internal/wire"
)

const (
	// listedMax bounds the lines of lists of files and processes.
	listedMax = 20_000
	// logTail is how much of the log files a snapshot has: the newest of it.
	logTail = 8 << 20
)

// errNoSection is a section that this node does not have.
var errNoSection = errors.New("node: no such section of diagnostics")

// Collect writes a section of a snapshot. No program is run and nothing but the node's
// own directory and the kernel's files about processes is read. Command lines,
// environments and the configuration's secrets are left out.
func (n *Node) Collect(section wire.SnapshotType, w io.Writer) error {
	switch section {
	case wire.SnapshotFilesystem:
		return n.listFiles(w)
	case wire.SnapshotProcesses:
		return listProcesses(w)
	case wire.SnapshotResources:
		return writeResources(w)
	case wire.SnapshotTest:
		_, err := io.WriteString(w, "test\n")
		return err
	case wire.SnapshotServerLogs:
		return n.writeLogs(w)
	case wire.SnapshotServerConfig:
		_, err := io.WriteString(w, config.CurrentTOML(n.cfg, n.bound))
		return err
	}
	return errNoSection
}

// listFiles lists the data directory.
func (n *Node) listFiles(w io.Writer) error {
	if n.owned == nil {
		return errNoSection
	}
	if free, total, err := n.owned.Free(); err == nil {
		fmt.Fprintf(w, "%s: %d bytes free of %d\n\n", n.cfg.System.Path, free, total)
	}
	left := listedMax
	return filepath.WalkDir(n.owned.Dir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			_, err = fmt.Fprintf(w, "%s: %v\n", path, err)
			return err
		}
		info, err := d.Info()
		if err != nil {
			return nil // gone meanwhile
		}
		if left--; left < 0 {
			_, err = fmt.Fprintf(w, "more than %d entries: the rest is left out\n", listedMax)
			return errors.Join(err, fs.SkipAll)
		}
		_, err = fmt.Fprintf(w, "%s %14d %s %s\n", info.Mode(), info.Size(), info.ModTime().UTC().Format(time.RFC3339), path)
		return err
	})
}

// listProcesses lists what runs on the machine, by name.
func listProcesses(w io.Writer) error {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%10s %12s %8s  %s\n", "pid", "memory KiB", "threads", "name")
	for i, d := range dirs {
		if _, err := strconv.Atoi(d.Name()); err != nil || i > listedMax {
			continue
		}
		status, err := os.ReadFile(filepath.Join("/proc", d.Name(), "status"))
		if err != nil {
			continue // ended meanwhile, or of somebody else
		}
		name, _, _ := bytes.Cut(bytes.TrimPrefix(status, []byte("Name:\t")), []byte("\n"))
		if _, err := fmt.Fprintf(w, "%10s %12d %8d  %s\n", d.Name(), field(status, "VmRSS:"), field(status, "Threads:"), name); err != nil {
			return err
		}
	}
	return nil
}

// writeResources tells what the machine and this process use.
func writeResources(w io.Writer) error {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Fprintf(w, "goroutines %d, processors %d, heap %d bytes, from the system %d bytes, collections %d\n",
		runtime.NumGoroutine(), runtime.GOMAXPROCS(0), m.HeapAlloc, m.Sys, m.NumGC)
	for _, name := range []string{"/proc/loadavg", "/proc/meminfo", "/proc/pressure/cpu", "/proc/pressure/io", "/proc/pressure/memory", "/proc/self/status", "/proc/self/io", "/proc/self/limits"} {
		if text, err := os.ReadFile(name); err == nil {
			if _, err := fmt.Fprintf(w, "\n%s\n%s", name, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeLogs writes the newest of the log files, the oldest of it first.
func (n *Node) writeLogs(w io.Writer) error {
	if !n.cfg.System.Logging.FileEnabled {
		return errNoSection
	}
	dir := filepath.Join(n.cfg.System.Path, n.cfg.System.Logging.Path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	left := int64(logTail)
	var tails [][]byte // newest first
	for _, f := range files {
		if left <= 0 {
			break
		}
		tail, err := readTail(filepath.Join(dir, f.Name()), left)
		if err != nil {
			return err
		}
		left -= int64(len(tail))
		tails = append(tails, tail)
	}
	for _, tail := range slices.Backward(tails) {
		for line := range bytes.Lines(tail) {
			if bytes.Contains(line, []byte(generatedMark)) {
				continue // it has a password in it
			}
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
	}
	return nil
}

// readTail reads the last bytes of a file, from the beginning of a line on.
func readTail(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	skip := max(0, info.Size()-most)
	tail, err := io.ReadAll(io.NewSectionReader(f, skip, min(most, info.Size())))
	if skip > 0 {
		_, tail, _ = bytes.Cut(tail, []byte("\n"))
	}
	return tail, err
}
