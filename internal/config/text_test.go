package config

import (
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the files that tests compare with")

// golden compares text with a file, or writes the file.
func golden(t *testing.T, path, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s differs from what the key table makes; write it anew with `go test ./internal/config -update`", path)
	}
}

func TestDefaultIsValid(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	c, s := mustLoad(t, LoadInput{})
	if !reflect.DeepEqual(c, Default()) || len(s.Warnings) > 0 {
		t.Errorf("loading nothing gives %+v with warnings %q", c, s.Warnings)
	}
}

func TestDocs(t *testing.T)   { golden(t, "../../docs/configuration.md", Markdown()) }
func TestSample(t *testing.T) { golden(t, "testdata/sample.toml", Sample()) }
func TestCurrentIsAsBefore(t *testing.T) {
	golden(t, "testdata/current_config.toml", CurrentTOML(rosterOf(1), Bound{TCP: "127.0.0.1:41234"}))
}

// TestSampleLoads with and without its keys commented out.
func TestSampleLoads(t *testing.T) {
	c, s := mustLoad(t, LoadInput{File: writeFile(t, Sample())})
	if !reflect.DeepEqual(c, Default()) || len(s.Warnings) > 0 {
		t.Errorf("the sample changes something: %+v, warnings %q", c, s.Warnings)
	}
	var plain strings.Builder
	for line := range strings.Lines(Sample()) {
		if strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "# ") {
			line = line[1:]
		}
		plain.WriteString(line)
	}
	c, _ = mustLoad(t, LoadInput{File: writeFile(t, plain.String())})
	if len(c.Cluster.Nodes) != 1 {
		t.Errorf("got %d nodes from the sample's roster, want 1", len(c.Cluster.Nodes))
	}
	c.Cluster.Nodes = nil
	if !reflect.DeepEqual(c, Default()) {
		t.Errorf("the sample with its keys enabled is not the default: %+v", c)
	}
}

// TestEveryActiveKeyIsExplained: the sample and the docs need a text.
func TestEveryActiveKeyIsExplained(t *testing.T) {
	for i := range keys {
		k := &keys[i]
		switch {
		case k.class == active && k.help == "":
			t.Errorf("%s has no help", k.name)
		case k.class != active && k.part == "":
			t.Errorf("%s does not say what it belongs to", k.name)
		case strings.HasSuffix(k.help, "."):
			t.Errorf("the help of %s ends in a full stop", k.name)
		}
	}
}

// TestCurrentReads: the written file loads to the same configuration, secrets
// and what was for one start apart.
func TestCurrentReads(t *testing.T) {
	text := rapid.StringMatching(`[a-z"\\ é]{1,12}`)
	port := rapid.IntRange(1, 65535)
	rapid.Check(t, func(r *rapid.T) {
		c := rosterOf(1)
		c.Cluster.Enabled = rapid.Bool().Draw(r, "enabled")
		c.Cluster.Name, c.Cluster.Nodes[0].Name = text.Draw(r, "cluster"), text.Draw(r, "node")
		c.Cluster.Nodes[0].Ports = Ports{TCP: 10, QUIC: port.Draw(r, "quic"), HTTP: 11, WebSocket: 12, TCPReplica: 13}
		for range rapid.IntRange(0, 3).Draw(r, "networks") {
			c.Cluster.Nodes[0].AdvertisedAddresses = append(c.Cluster.Nodes[0].AdvertisedAddresses, AdvertisedAddress{"10.0.0.0/8", "host"})
		}
		c.System.Path = text.Draw(r, "path")
		c.WAL.Limit = ByteSize(rapid.Uint64Range(uint64(128*MiB), uint64(GiB)).Draw(r, "limit"))
		c.HTTP.Enabled = rapid.Bool().Draw(r, "http")
		if err := c.Validate(); err != nil {
			r.Fatalf("the drawn configuration is invalid: %v", err)
		}
		got, s, err := Load(LoadInput{File: writeFile(t, CurrentTOML(c, Bound{}))})
		if err != nil {
			r.Fatal(err)
		}
		if !reflect.DeepEqual(got, c) {
			r.Errorf("wrote %+v, read %+v", c, got)
		}
		if len(s.Warnings) > 0 {
			r.Errorf("warnings %q", s.Warnings)
		}
	})
}

func TestCurrentHasBoundPortsAndNoSecrets(t *testing.T) {
	c := Default()
	c.Root = Root{"admin", "letmein"}
	bound := Bound{TCP: "127.0.0.1:1", HTTP: "127.0.0.1:2", QUIC: "127.0.0.1:3", WebSocket: "127.0.0.1:4"}
	text := CurrentTOML(c, bound)
	if strings.Contains(text, "letmein") || strings.Contains(text, "_secret = \"") {
		t.Errorf("the file tells a secret:\n%s", text)
	}
	got, _ := mustLoad(t, LoadInput{File: writeFile(t, text)})
	if now := (Bound{got.TCP.Address, got.HTTP.Address, got.QUIC.Address, got.WebSocket.Address}); now != bound {
		t.Errorf("got %+v, want %+v", now, bound)
	}
}

func TestWriteCurrent(t *testing.T) {
	c := Default()
	c.System.Path = filepath.Join(t.TempDir(), "data")
	for _, text := range []string{"a = 1\n", "b = 2\n"} { // makes the directory, then replaces
		if err := WriteCurrent(c.CurrentPath(), text); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(c.CurrentPath()); err != nil || string(got) != text {
			t.Errorf("read %q, %v; want %q", got, err, text)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(c.CurrentPath()))
	if err != nil || len(entries) != 1 || entries[0].Name() != "current_config.toml" {
		t.Errorf("the directory holds %v, %v; want current_config.toml alone", entries, err)
	}
}

func TestRows(t *testing.T) {
	c, s := mustLoad(t, LoadInput{Env: []string{"GALGO_ROOT_USERNAME=admin", "GALGO_ROOT_PASSWORD=letmein"}, Set: []string{"system.shards=2"}})
	rows := map[string]Row{}
	for _, row := range Rows(c, s) {
		rows[row.Key] = row
	}
	for _, want := range []Row{
		{"root.username", "admin", "GALGO_ROOT_USERNAME"},
		{"root.password", "******", "GALGO_ROOT_PASSWORD"},
		{"system.shards", "2", "--set"},
		{"wal.file_size", "64 MiB", "default"},
		{"system.logging.retention", "7d", "default"},
	} {
		if rows[want.Key] != want {
			t.Errorf("got %+v, want %+v", rows[want.Key], want)
		}
	}
	if len(rows) != len(activeKeys()) {
		t.Errorf("got %d rows, want one for each of %d keys", len(rows), len(activeKeys()))
	}
}

func TestSlogLevel(t *testing.T) {
	for i, level := range levels {
		got := Logging{Level: level}.SlogLevel()
		want := []slog.Level{LevelOff, slog.LevelError, slog.LevelWarn, slog.LevelInfo, slog.LevelDebug, LevelTrace}[i]
		if got != want {
			t.Errorf("%s is %v, want %v", level, got, want)
		}
	}
}

// TestLinesOfKeys: errors name the line even where a file is written oddly.
func TestLinesOfKeys(t *testing.T) {
	text := "a = 1 # [x]\n" + // 1
		"b.c = [ # one\n 1,\n 2 ]\n" + // 2
		"[t]\n" + // 5
		"d = \"\"\"\n[no]\nx = 1\n\"\"\"\n" + // 6
		"'e f' = 'it''s'\n" + // 10
		"[[u.v]]\n" + // 11
		"g = { h = 1 }\n" + // 12
		"[u.v.w]\n" + // 13
		"i = \"a \\\" # [\"\n" + // 14
		"[[u.v]]\n" + // 15
		"g = 2\n" // 16
	want := map[string]int{"a": 1, "b.c": 2, "t": 5, "t.d": 6, "t.e f": 10, "u.v": 11, "u.v.0": 11, "u.v.0.g": 12,
		"u.v.0.w": 13, "u.v.0.w.i": 14, "u.v.1": 15, "u.v.1.g": 16}
	if got := indexLines(text); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
