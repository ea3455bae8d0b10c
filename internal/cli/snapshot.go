package cli

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"galgo/client"
)

// Words of the command line for what a snapshot may hold, and how it is packed.
var (
	snapshotSections = map[string]client.SnapshotSection{
		"all": client.SnapshotAll, "filesystem_overview": client.SnapshotFilesystem, "process_list": client.SnapshotProcesses,
		"resource_usage": client.SnapshotResources, "test": client.SnapshotTest, "server_logs": client.SnapshotServerLogs,
		"server_config": client.SnapshotServerConfig,
	}
	snapshotMethods = map[string]client.SnapshotMethod{"stored": client.SnapshotStored, "deflated": client.SnapshotDeflated}
)

func snapshotCommand() *command {
	var method, dir string
	var sections []string
	return &command{
		use: "snapshot", short: "Save diagnostics of the server as a ZIP file", args: exactly(0), connects: true,
		long: `Save what somebody who looks for a fault wants to see: the files of the data
directory, processes by name, resources, the newest of the log, the configuration.
Passwords and keys are left out. The file is named for the time.`,
		example: "  galgo snapshot -s server_logs,server_config",
		flags: func(fs *flagSet) {
			fs.StringVarP(&method, "compression", "c", "deflated", "stored or deflated")
			fs.StringSliceVarP(&sections, "snapshot-types", "s", []string{"all"}, "filesystem_overview, process_list, resource_usage, test, server_logs, server_config; or all")
			fs.StringVarP(&dir, "out-dir", "o", ".", "directory of the file")
		},
		run: func(ctx context.Context, e *env, _ []string) error {
			return saveSnapshot(ctx, e, method, sections, dir)
		},
	}
}

func saveSnapshot(ctx context.Context, e *env, method string, sections []string, dir string) error {
	how, ok := snapshotMethods[strings.ToLower(method)]
	if !ok {
		return usagef("--compression %s: want stored or deflated", method)
	}
	var what []client.SnapshotSection
	for _, s := range sections {
		section, ok := snapshotSections[strings.ToLower(s)]
		switch {
		case !ok:
			return usagef("--snapshot-types %s: unknown; see --help", s)
		case section == client.SnapshotAll && len(sections) > 1:
			return usagef("--snapshot-types: all stands alone")
		}
		what = append(what, section)
	}
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		archive, err := c.Snapshot(ctx, how, what...)
		if err != nil {
			return err
		}
		name := filepath.Join(dir, "snapshot_"+time.Now().Format("20060102_150405")+".zip")
		if err := writeNew(name, archive); err != nil {
			return err
		}
		return e.print(map[string]any{"file": name, "bytes": len(archive)}, table{{"File", "Bytes"}, {name, strconv.Itoa(len(archive))}})
	})
}

// writeNew writes a file that must not be there, for its owner alone.
func writeNew(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
