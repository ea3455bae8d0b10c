package node

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"galgo/internal/config"
	"galgo/internal/wire"
)

// Each section has what it is named for, and no secret is in any.
func TestDiagnosticsHoldNoSecret(t *testing.T) {
	const secret = "correct horse"
	c := runConfig()
	c.System.Path = t.TempDir()
	c.Root = config.Root{Username: "admin", Password: secret}
	logs := filepath.Join(c.System.Path, c.System.Logging.Path)
	if err := os.MkdirAll(logs, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a.log": "first\n" + `msg="` + generatedMark + ` iggy, password hunter2 (generated, shown only here)"` + "\n", "b.log": "second\n",
	} {
		if err := os.WriteFile(filepath.Join(logs, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := Run(ctx, Options{Config: c, Log: slog.New(slog.DiscardHandler), Version: "1.0.0", Ready: func(n *Node) {
		defer cancel()
		for section, want := range map[wire.SnapshotType]string{
			wire.SnapshotFilesystem: "metadata/", wire.SnapshotProcesses: "pid", wire.SnapshotResources: "goroutines",
			wire.SnapshotTest: "test\n", wire.SnapshotServerLogs: "second\n", wire.SnapshotServerConfig: "[tcp]",
		} {
			var b bytes.Buffer
			if err := n.Collect(section, &b); err != nil || !strings.Contains(b.String(), want) {
				t.Errorf("section %d: %v, has no %q in\n%.300s", section, err, want, &b)
			}
			if strings.Contains(b.String(), secret) || strings.Contains(b.String(), "hunter2") {
				t.Errorf("section %d holds a password", section)
			}
		}
		if n.Collect(99, new(bytes.Buffer)) == nil {
			t.Error("a section that does not exist")
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// Of long logs the newest is kept, from the beginning of a line.
func TestTailOfALog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(name, []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int64]string{100: "one\ntwo\nthree\n", 14: "one\ntwo\nthree\n", 9: "three\n", 3: ""} {
		if got, err := readTail(name, most); err != nil || string(got) != want {
			t.Errorf("at most %d: %q, %v; want %q", most, got, err, want)
		}
	}
}

// The well-known password is for a server that nobody else can reach, by whatever.
func TestReachable(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:1": false, "[::1]:1": false, "localhost:1": false, "0.0.0.0:1": true, "[::]:1": true, "10.0.0.1:1": true, "broker:1": true, "": false,
	} {
		for _, at := range []config.Bound{{TCP: address}, {QUIC: address}, {WebSocket: address}, {TCP: "127.0.0.1:2", QUIC: address}} {
			if got := reachable(at); got != want {
				t.Errorf("%+v: %v, want %v", at, got, want)
			}
		}
	}
}
