package cli

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"galgo/internal/cipher"
	"galgo/internal/config"
	"galgo/internal/disk"
	"galgo/internal/node"
)

// fill runs a node on a new data directory, does lines there with galgo, stops it and
// returns the directory.
func fill(t *testing.T, lines ...string) string {
	t.Helper()
	return fillWith(t, config.Encryption{}, lines...)
}

func fillWith(t *testing.T, keys config.Encryption, lines ...string) string {
	t.Helper()
	c := config.Default()
	c.System.Encryption = keys
	c.System.Path = t.TempDir()
	c.TakeFreePorts()
	c.WAL.FileSize = 1 << 20
	c.Root = config.Root{Username: "iggy", Password: "iggy"}
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- node.Run(ctx, node.Options{
			Config: c, Version: "0.0.0", Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
			Ready: func(n *node.Node) { ready <- n.Addr() },
		})
	}()
	var addr net.Addr
	select {
	case addr = <-ready:
	case err := <-ended:
		t.Fatalf("node: %v", err)
	}
	for _, line := range lines {
		if r := run(strings.Fields(line), []string{"GALGO_ADDRESS=" + addr.String()}, ""); r.status != 0 {
			t.Errorf("galgo %s: exit %d: %s", line, r.status, r.stderr)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatalf("node: %v", err)
	}
	return c.System.Path
}

var someWork = []string{
	"stream create orders", "topic create orders events 2", "message send orders events -p 0 hello world",
	"message poll orders events 0 -f -m 10", "offset set 1 orders events 0 1", "offset get 1 orders events 0",
	"stream list", "topic get orders events", "stats", "me", "client list", "cluster metadata", "options topic",
	"topic update orders events renamed", "stream update orders renamed", "partition create renamed renamed 1", "topic purge renamed renamed",
	"message send renamed renamed -p 0 again",
}

func TestInspect(t *testing.T) {
	dir := fill(t, someWork...)
	t.Run("sound", func(t *testing.T) { inspectSound(t, dir) })
	t.Run("damaged", func(t *testing.T) { inspectDamaged(t, dir) })
	t.Run("damaged messages", func(t *testing.T) { inspectDamagedMessages(t, dir) }) // last: it damages dir
}

func inspectSound(t *testing.T, dir string) {
	before := contents(t, dir)
	for _, kind := range []string{"superblock", "wal", "snapshot", "segment"} {
		for _, format := range []string{"table", "json"} {
			r := run([]string{"inspect", kind, dir, "-o", format}, nil, "")
			if r.status != 0 || r.stdout == "" || !strings.Contains(r.stderr, "Nothing is wrong") {
				t.Errorf("inspect %s: exit %d, %s%s", kind, r.status, r.stdout, r.stderr)
			}
		}
	}
	r := run([]string{"inspect", "wal", dir, "--records"}, nil, "")
	if r.status != 0 || strings.Count(r.stdout, "prepare") < 10 {
		t.Errorf("records: exit %d, %s%s", r.status, r.stdout, r.stderr)
	}
	if after := contents(t, dir); len(after) != len(before) {
		t.Errorf("%d files before inspecting, %d after", len(before), len(after))
	} else {
		for name, b := range before {
			if after[name] != b {
				t.Errorf("inspecting changed %s", name)
			}
		}
	}
}

func inspectDamaged(t *testing.T, dir string) {
	cases := []struct {
		kind, file string
		at         int
	}{
		{"superblock", "metadata/superblock.a", 30},
		{"superblock", "FORMAT", 20},
		{"wal", "metadata/wal/00000000000000000001.wal", 4096 + 300},
		{"wal", "shards/0/wal/00000000000000000001.wal", 4096 + 300},
	}
	for _, tc := range cases {
		t.Run(tc.kind+" "+tc.file, func(t *testing.T) {
			copied := t.TempDir()
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			flip(t, filepath.Join(copied, tc.file), tc.at)
			r := run([]string{"inspect", tc.kind, copied}, nil, "")
			if r.status != int(ExitError) || !strings.Contains(r.stderr, tc.file) && !strings.Contains(r.stderr, filepath.Dir(tc.file)) {
				t.Errorf("exit %d, %s%s, want %d and the name of the file", r.status, r.stdout, r.stderr, ExitError)
			}
		})
	}
}

func inspectDamagedMessages(t *testing.T, dir string) {
	logs, err := filepath.Glob(filepath.Join(dir, "groups/*/*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no segments in %s: %v", dir, err)
	}
	for _, name := range logs {
		info, err := os.Stat(name)
		if err != nil || info.Size() < 300 {
			continue
		}
		flip(t, name, 256+50)
		r := run([]string{"inspect", "segment", dir}, nil, "")
		if r.status != int(ExitError) || !strings.Contains(r.stderr, filepath.Base(name)) {
			t.Errorf("exit %d, %s%s, want %d and the name of the file", r.status, r.stdout, r.stderr, ExitError)
		}
		return
	}
	t.Fatalf("no segment with a message among %v", logs)
}

func TestInspectWhatIsNoDataDirectory(t *testing.T) {
	if r := run([]string{"inspect", "superblock", filepath.Join(t.TempDir(), "none")}, nil, ""); r.status != int(ExitError) {
		t.Errorf("missing directory: exit %d, %s", r.status, r.stderr)
	}
	if r := run([]string{"inspect", "wal", t.TempDir()}, nil, ""); r.status != int(ExitError) {
		t.Errorf("empty directory: exit %d, %s", r.status, r.stderr)
	}
}

func flip(t *testing.T, name string, at int) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 0x40
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		all[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A directory that a server holds is not judged; one that is stopped is, and stays as it
// is; damage is told with its place, and by the exit status.
func TestVerify(t *testing.T) {
	dir := fill(t, someWork...)
	before := contents(t, dir)
	for _, format := range []string{"table", "json"} {
		r := run([]string{"verify", dir, "-o", format}, nil, "")
		if r.status != 0 || !strings.Contains(r.stderr, "Nothing is wrong") || !strings.Contains(r.stdout, "alone") {
			t.Errorf("exit %d, %s%s", r.status, r.stdout, r.stderr)
		}
	}
	if got := contents(t, dir); !maps.Equal(got, before) {
		t.Error("the directory was changed")
	}
	held, err := disk.OpenOS(dir)
	if err != nil {
		t.Fatal(err)
	}
	if r := run([]string{"verify", dir}, nil, ""); r.status != 1 || !strings.Contains(r.stderr, "in use by another process") {
		t.Errorf("held: exit %d, %s", r.status, r.stderr)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	life := filepath.Join(dir, "metadata", "superblock.a")
	if err := os.WriteFile(life, []byte("no superblock"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run([]string{"verify", dir, "-o", "json"}, nil, ""); r.status != 1 || !strings.Contains(r.stdout, `"sound":false`) || !strings.Contains(r.stderr, "superblock.a") {
		t.Errorf("damaged: exit %d, %s%s", r.status, r.stdout, r.stderr)
	}
	if r := run([]string{"verify", filepath.Join(dir, "nothing")}, nil, ""); r.status != 1 {
		t.Errorf("no directory: exit %d, %s", r.status, r.stderr)
	}
}

// A sealed directory is inspected without a key and opened with it. It tells which keys are
// still needed. Another key is a problem of every part. To verify it takes the keys.
func TestInspectOfASealedDirectory(t *testing.T) {
	const key, other = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "HxECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	dir := fillWith(t, config.Encryption{Enabled: true, Key: key}, someWork...)
	file := filepath.Join(t.TempDir(), "disk.key")
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := cipher.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"wal", "snapshot", "segment"} {
		for name, c := range map[string]struct {
			args, environ []string
			status        int
			says          string
		}{
			"no key":  {nil, nil, 0, "not opened"},
			"a file":  {[]string{"--key-file", file}, []string{"GALGO_SYSTEM_ENCRYPTION_KEY=" + other}, 0, "Nothing is wrong"},
			"its key": {nil, []string{"GALGO_SYSTEM_ENCRYPTION_KEY=" + key}, 0, "Nothing is wrong"},
			"older":   {nil, []string{"GALGO_SYSTEM_ENCRYPTION_KEY=" + other, "GALGO_SYSTEM_ENCRYPTION_OLDER_KEYS=" + key}, 0, "Nothing is wrong"},
			"another": {nil, []string{"GALGO_SYSTEM_ENCRYPTION_KEY=" + other}, int(ExitError), "older_keys"},
		} {
			r := run(append([]string{"inspect", kind, dir}, c.args...), c.environ, "")
			if r.status != c.status || !strings.Contains(r.stderr, c.says) || !strings.Contains(r.stderr, "sealed under key "+k.ID().String()) {
				t.Errorf("%s, %s: exit %d, %s%s", kind, name, r.status, r.stdout, r.stderr)
			}
		}
	}
	for name, c := range map[string]struct {
		args, environ []string
		status        int
		says          string
	}{
		"no key":  {nil, nil, 1, "sealed"},
		"a file":  {[]string{"--key-file", file}, []string{"GALGO_SYSTEM_ENCRYPTION_KEY=" + other}, 0, "Nothing is wrong"},
		"older":   {nil, []string{"GALGO_SYSTEM_ENCRYPTION_KEY=" + other, "GALGO_SYSTEM_ENCRYPTION_OLDER_KEYS=" + key}, 0, "Nothing is wrong"},
		"another": {nil, []string{"GALGO_SYSTEM_ENCRYPTION_KEY=" + other}, 1, "older_keys"},
	} {
		if r := run(append([]string{"verify", dir}, c.args...), c.environ, ""); r.status != c.status || !strings.Contains(r.stderr, c.says) {
			t.Errorf("verify, %s: exit %d, %s%s", name, r.status, r.stdout, r.stderr)
		}
	}
	if r := run([]string{"inspect", "superblock", dir}, nil, ""); r.status != 0 || !strings.Contains(r.stdout, k.ID().String()) {
		t.Errorf("superblock: exit %d, %s%s", r.status, r.stdout, r.stderr)
	}
	if r := run([]string{"inspect", "wal", dir, "--records", "--key-file", file}, nil, ""); !strings.Contains(r.stdout, "prepare") {
		t.Errorf("records: %s%s", r.stdout, r.stderr)
	}
}
