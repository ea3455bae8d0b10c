package node

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/config"
	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
	"galgo/internal/wire"
)

// runConfig is that of a whole node, on any free port.
func runConfig() config.Config {
	c := worldConfig()
	c.TCP.Address = "127.0.0.1:0"
	return c
}

// A node that waits for room on its disk before it can serve is stopped like any
// other.
func TestStopWhileTheStartWaitsForRoom(t *testing.T) {
	d := healthy()
	w, err := open(t, d, worldConfig(), 1, 1_000_000)
	if err != nil || !w.bootstrap() {
		t.Fatal(err)
	}
	s, _ := w.login(galgo.ClientID{1})
	full := memdisk.Fault{Class: memdisk.NoSpace, Ops: memdisk.OpCreate, Times: memdisk.Forever}
	d.Inject(full)
	for i := 0; ; i++ { // until the file of the metadata log is
		if _, ok := w.call(s, wire.OperationCreateStream, wire.CreateStreamRequest{Name: big("n", 100+i)}.Append(nil)); !ok {
			break
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	d = d.Kill()
	d.Inject(full)
	ctx, cancel := context.WithCancel(t.Context())
	log := slog.New(onMessage{slog.DiscardHandler, func(msg string) {
		if strings.Contains(msg, "next file") {
			cancel()
		}
	}})
	ready := func(*Node) { t.Error("the node serves, although it could not write its settings") }
	if err := Run(ctx, Options{Config: runConfig(), Log: log, Disk: d, Ready: ready}); err != nil {
		t.Errorf("the stop ends with %v", err)
	}
}

// A server whose disk has no room for a file that says how it is configured serves
// all the same.
func TestStartWithoutRoomForTheCurrentConfiguration(t *testing.T) {
	c := runConfig()
	c.System.Path = t.TempDir()
	if err := os.MkdirAll(filepath.Join(c.CurrentPath()+".partial", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.CurrentPath(), []byte("of another life"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := false
	err := Run(ctx, Options{Config: c, Log: slog.New(slog.DiscardHandler), Ready: func(*Node) { served = true; cancel() }})
	if err != nil || !served {
		t.Errorf("served %v, %v", served, err)
	}
	if _, err := os.Stat(c.CurrentPath()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the configuration of another life is still there: %v", err)
	}
}

// onMessage tells of every message that is logged.
type onMessage struct {
	slog.Handler
	tell func(string)
}

func (h onMessage) Enabled(context.Context, slog.Level) bool { return true }

func (h onMessage) Handle(_ context.Context, r slog.Record) error {
	h.tell(r.Message)
	return nil
}

// --fresh removes what is there, but nothing from under a server that runs on it.
func TestFresh(t *testing.T) {
	c := runConfig()
	c.Fresh = true
	c.System.Path = t.TempDir()
	kept := filepath.Join(c.System.Path, "FORMAT")
	if err := os.WriteFile(kept, []byte("of another life"), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := disk.OpenOS(c.System.Path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openDirectory(c); !errors.Is(err, disk.ErrLocked) {
		t.Errorf("got %v, want that the directory is in use", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("removed from under the other: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := openDirectory(c)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if entries, err := os.ReadDir(c.System.Path); err != nil || len(entries) != 1 || entries[0].Name() != disk.LockName {
		t.Errorf("left in the directory: %v, %v", entries, err)
	}
}

// Clients never get all files that the process may open.
func TestShareFiles(t *testing.T) {
	for _, c := range []struct {
		allowed, connections int
		want                 fileShares
	}{
		{1 << 20, 8192, fileShares{8192, filesOpen, 1 << 17}},
		{16384, 8192, fileShares{8192, filesOpen, 2048}},
		{4096, 8192, fileShares{2048, filesOpen, 512}},
		{1024, 8192, fileShares{512, 128, 128}},
		{1024, 10, fileShares{10, 128, 128}},
		{1, 8192, fileShares{1, 1, 1}},
	} {
		if got := shareFiles(c.allowed, c.connections); got != c.want {
			t.Errorf("%d files allowed, %d connections configured: %+v, want %+v", c.allowed, c.connections, got, c.want)
		}
	}
	if filesAllowed() < 1 {
		t.Errorf("%d files allowed", filesAllowed())
	}
}
