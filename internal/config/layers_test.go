package config

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLayers sets each key in ever stronger layers, so that each layer must
// beat the one before.
func TestLayers(t *testing.T) {
	for _, k := range activeKeys() {
		other, ok := others[k.name]
		if !ok {
			t.Errorf("%s: give it another valid value in the table others", k.name)
			continue
		}
		t.Run(k.name, func(t *testing.T) { testLayersOf(t, k, other) })
	}
}

func testLayersOf(t *testing.T, k *key, other string) {
	iggy, galgo := referencePrefix+envSuffix(k.name), ownPrefix+envSuffix(k.name)
	def := k.canonical()
	in := LoadInput{}
	check := func(want, where string) {
		t.Helper()
		l := applyLayers(in)
		if err := join(l.problems); err != nil {
			t.Fatalf("layers up to %s: %v", where, err)
		}
		if got := valueText(k.at(&l.cfg)); got != want {
			t.Errorf("%s with layers up to %s: got %q, want %q", k.name, where, got, want)
		}
		if got := l.sources.Of(k.name).Where; got != where {
			t.Errorf("source of %s: got %q, want %q", k.name, got, where)
		}
	}
	check(def, "default")
	if !k.env {
		in.File = fileWith(t, k, other)
		check(other, in.File+":"+map[bool]string{true: "1", false: "2"}[section(k.name) == ""])
	}
	if def != "" { // an empty variable is ignored
		in.Env = append(in.Env, iggy+"="+def)
		check(def, iggy)
	}
	in.Env = append(in.Env, galgo+"="+other)
	check(other, galgo)
	if !k.env {
		in.Set = []string{k.name + "=" + def}
		check(def, "--set")
	}
}

// TestEveryKeyByEnvironment wants each key to be settable under both prefixes.
func TestEveryKeyByEnvironment(t *testing.T) {
	for _, prefix := range []string{ownPrefix, referencePrefix} {
		for i := range keys {
			k := &keys[i]
			text := others[k.name]
			if k.class != active {
				text = differing(k)
			}
			name := prefix + envSuffix(k.name)
			l := applyLayers(LoadInput{Env: []string{name + "=" + text}})
			if err := join(l.problems); err != nil {
				t.Errorf("%s=%s: %v", name, text, err)
			}
			if got := l.sources.Of(k.name).Where; got != name {
				t.Errorf("source of %s after %s was set: %q", k.name, name, got)
			}
		}
	}
}

// TestOwnPrefixWins: a malformed value under the reference's prefix does not
// matter where the own one is set.
func TestOwnPrefixWins(t *testing.T) {
	c, _ := mustLoad(t, LoadInput{Env: []string{"GALGO_SYSTEM_SHARDS=3", "IGGY_SYSTEM_SHARDS=many"}})
	if c.System.Shards != 3 {
		t.Errorf("got %d shards, want 3", c.System.Shards)
	}
}

func TestEnvironmentNamesAreUnique(t *testing.T) {
	if len(byEnv) != len(keys) || len(byName) != len(keys) {
		t.Errorf("%d keys have %d names and %d variables", len(keys), len(byName), len(byEnv))
	}
	for i := range keys {
		if _, taken := rosterPath(envSuffix(keys[i].name)); taken {
			t.Errorf("%s looks like a field of the roster", keys[i].name)
		}
		for prefix := range siblings {
			if isSibling(prefix, envSuffix(keys[i].name)) {
				t.Errorf("%s%s would be taken for another program's", prefix, envSuffix(keys[i].name))
			}
		}
	}
}

func TestEmptyVariableIsIgnored(t *testing.T) {
	c, s := mustLoad(t, LoadInput{Env: []string{"GALGO_TCP_ADDRESS=", "GALGO_NO_SUCH_KEY="}})
	if c.TCP.Address != Default().TCP.Address || s.Of("tcp.address").Layer != LayerDefault {
		t.Errorf("an empty variable set tcp.address to %q", c.TCP.Address)
	}
}

func TestFileChoice(t *testing.T) {
	write := func(port string) string { return writeFile(t, "[tcp]\naddress = '127.0.0.1:"+port+"'\n") }
	t.Chdir(t.TempDir())
	load := func(in LoadInput) (string, string) {
		c, s := mustLoad(t, in)
		return c.TCP.Address, s.File
	}
	if address, file := load(LoadInput{}); address != "127.0.0.1:8090" || file != "" {
		t.Errorf("without any file: %s from %q", address, file)
	}
	if err := os.WriteFile(DefaultPath, []byte("[tcp]\naddress = '127.0.0.1:1001'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if address, file := load(LoadInput{}); address != "127.0.0.1:1001" || file != DefaultPath {
		t.Errorf("with the default file: %s from %q", address, file)
	}
	env := []string{"IGGY_CONFIG_PATH=" + write("1002")}
	if address, _ := load(LoadInput{Env: env}); address != "127.0.0.1:1002" {
		t.Errorf("with IGGY_CONFIG_PATH: %s", address)
	}
	env = append(env, "GALGO_CONFIG_PATH="+write("1003"))
	if address, _ := load(LoadInput{Env: env}); address != "127.0.0.1:1003" {
		t.Errorf("with GALGO_CONFIG_PATH: %s", address)
	}
	flags := map[string]string{"config": write("1004")}
	if address, _ := load(LoadInput{Env: env, Flags: flags}); address != "127.0.0.1:1004" {
		t.Errorf("with --config: %s", address)
	}
}

func TestNamedFileMustExist(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no.toml")
	for name, in := range map[string]LoadInput{
		"flag":      {File: missing},
		"variable":  {Env: []string{"GALGO_CONFIG_PATH=" + missing}},
		"reference": {Env: []string{"IGGY_CONFIG_PATH=" + missing}},
		"directory": {File: t.TempDir()},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Load(in)
			wantText(t, err, "configuration file")
		})
	}
}

func TestEnvFile(t *testing.T) {
	path := writeFile(t, "# comment\n\nexport GALGO_SYSTEM_SHARDS=4\nGALGO_TCP_ADDRESS=\"127.0.0.1:7\"\nOTHER=1\n")
	c, s := mustLoad(t, LoadInput{Env: []string{"GALGO_ENV_PATH=" + path, "GALGO_TCP_ADDRESS=127.0.0.1:8"}})
	if c.System.Shards != 4 || c.TCP.Address != "127.0.0.1:8" {
		t.Errorf("got %d shards and %s, want 4 and the process's own 127.0.0.1:8", c.System.Shards, c.TCP.Address)
	}
	if got := s.Of("system.shards").Where; got != "GALGO_SYSTEM_SHARDS" {
		t.Errorf("source: %q", got)
	}
	bad := writeFile(t, "GALGO_SYSTEM_SHARDS=4\nwhat\n")
	wantText(t, onlyProblem(t, LoadInput{Env: []string{"IGGY_ENV_PATH=" + bad}}), bad+":2", "NAME=value")
}

func TestFlags(t *testing.T) {
	c, s := mustLoad(t, LoadInput{Flags: map[string]string{
		"fresh": "true", "with-default-root-credentials": "true", "replica-id": "0", "tcp.address": "127.0.0.1:1",
	}})
	if !c.Fresh || c.Root != (Root{"iggy", "iggy"}) || c.TCP.Address != "127.0.0.1:1" {
		t.Errorf("got %+v", c)
	}
	if got := s.Of("replica_id").Where; got != "--replica-id" {
		t.Errorf("source of the replica id: %q", got)
	}
}

// TestDefaultCredentialsYield: the flag changes nothing where credentials are set.
func TestDefaultCredentialsYield(t *testing.T) {
	c, _ := mustLoad(t, LoadInput{
		Env:   []string{"IGGY_ROOT_USERNAME=admin", "IGGY_ROOT_PASSWORD=secret"},
		Flags: map[string]string{"with-default-root-credentials": "true"},
	})
	if c.Root != (Root{"admin", "secret"}) {
		t.Errorf("got %+v", c.Root)
	}
}

func TestLevelVariable(t *testing.T) {
	for _, tt := range []struct {
		name  string
		env   []string
		level string
		warns bool
	}{
		{"plain", []string{"RUST_LOG=WARN"}, "warn", false},
		{"over the reference's key", []string{"RUST_LOG=warn", "IGGY_SYSTEM_LOGGING_LEVEL=debug"}, "warn", false},
		{"under the own key", []string{"RUST_LOG=warn", "GALGO_SYSTEM_LOGGING_LEVEL=debug"}, "debug", false},
		{"filter with a level", []string{"RUST_LOG=debug,hyper=off"}, "debug", true},
		{"filter without", []string{"RUST_LOG=hyper=off"}, "info", true},
		{"another language", []string{"RUST_LOG=chatty"}, "info", true},
		{"filter in the key", []string{"IGGY_SYSTEM_LOGGING_LEVEL=trace,iggy.consensus.diag=debug"}, "trace", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, s := mustLoad(t, LoadInput{Env: tt.env})
			if c.System.Logging.Level != tt.level || (len(s.Warnings) > 0) != tt.warns {
				t.Errorf("got %q, warnings %q; want %q, warnings: %t", c.System.Logging.Level, s.Warnings, tt.level, tt.warns)
			}
		})
	}
}
