package config

import (
	"errors"
	"strings"
	"testing"
)

func TestUnknownNames(t *testing.T) {
	file := func(text string) LoadInput { return LoadInput{File: writeFile(t, text)} }
	env := func(line string) LoadInput { return LoadInput{Env: []string{line}} }
	for _, tt := range []struct {
		name string
		in   LoadInput
		want []string
	}{
		{"key in a file", file("\n[tcp]\n# note\nadress = 'x'\n"), []string{".toml:4", "unknown key tcp.adress", "did you mean tcp.address?"}},
		{"section in a file", file("[tpc]\naddress = 'x'\n"), []string{".toml:2", "unknown key tpc.address", "tcp.address"}},
		{"empty section", file("[nonsense]\n"), []string{".toml:1", "unknown key nonsense."}},
		{"key with a dot in it", file("'tcp.address' = 'x'\n"), []string{".toml:1", "unknown key \"tcp.address\""}},
		{"field of the roster", file("[[cluster.nodes]]\nname = 'a'\nport.tcp = 1\n"), []string{".toml:3", "cluster.nodes.0.port.tcp", "ports.tcp"}},
		{"own variable", env("GALGO_TCP_ADRESS=x"), []string{"unknown variable GALGO_TCP_ADRESS", "did you mean GALGO_TCP_ADDRESS?"}},
		{"own variable of the roster", env("GALGO_CLUSTER_NODES_0_PORT_TCP=1"), []string{"cluster.nodes.0.port_tcp", "ports.tcp"}},
		{"entry beyond the roster", env("GALGO_CLUSTER_NODES_32_NAME=a"), []string{"cluster.nodes.32.name", "0 to 31"}},
		{"own variable like nothing", env("GALGO_XYZZY_PLUGH_ZORK=x"), []string{"unknown variable GALGO_XYZZY_PLUGH_ZORK"}},
		{"--set", LoadInput{Set: []string{"wal.limits=1 GiB"}}, []string{"--set", "unknown key wal.limits", "wal.limit?"}},
		{"flag", LoadInput{Flags: map[string]string{"frseh": "true"}}, []string{"--frseh", "unknown key frseh"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := onlyProblem(t, tt.in)
			if !errors.Is(p, ErrUnknown) {
				t.Errorf("got %v, want ErrUnknown", p)
			}
			wantText(t, p, tt.want...)
		})
	}
}

// TestSiblingVariables: what belongs to programs beside the server is left
// alone, what nobody knows under the reference's prefix is mentioned.
func TestSiblingVariables(t *testing.T) {
	silent := []string{"IGGY_CONNECTORS_CONFIG_PATH=x", "IGGY_MCP_HTTP_ADDRESS=x", "IGGY_USERNAME=u", "IGGY_SHARD_EVENT_INTERVAL=1",
		"GALGO_PASSWORD=p", "GALGO_CLIENT_RETRIES=3", "GALGO_SHELL=1", "PATH=/bin", "TCP_ADDRESS=x"}
	_, s := mustLoad(t, LoadInput{Env: silent, OtherEnv: []string{"GALGO_SHELL"}})
	if len(s.Warnings) > 0 {
		t.Errorf("got warnings %q, want none", s.Warnings)
	}
	_, s = mustLoad(t, LoadInput{Env: []string{"IGGY_TCP_ADRESS=x"}})
	if !hasWarning(s, "IGGY_TCP_ADRESS", "IGGY_TCP_ADDRESS") {
		t.Errorf("got warnings %q, want one that names IGGY_TCP_ADRESS and the nearest key", s.Warnings)
	}
}

func TestBadValues(t *testing.T) {
	file := func(text string) LoadInput { return LoadInput{File: writeFile(t, text)} }
	env := func(line string) LoadInput { return LoadInput{Env: []string{line}} }
	for _, tt := range []struct {
		name string
		in   LoadInput
		want []string
	}{
		{"syntax", file("[tcp]\naddress = \n"), []string{".toml:2", "syntax"}},
		{"text for a bool", file("[heartbeat]\nenabled = 'true'\n"), []string{".toml:2", "heartbeat.enabled", "true or false"}},
		{"text for a count", file("[system]\nshards = '2'\n"), []string{".toml:2", "system.shards", "whole number"}},
		{"bool for a size", file("[wal]\nlimit = true\n"), []string{"wal.limit", "MiB"}},
		{"fraction for a size", file("[wal]\nlimit = 1.5\n"), []string{"wal.limit", "MiB"}},
		{"negative size", file("[wal]\nlimit = -1\n"), []string{"wal.limit", "MiB"}},
		{"number for a duration", file("shutdown_timeout = 30\n"), []string{"shutdown_timeout", "units"}},
		{"table for a key", file("[tcp.address]\nhost = 'x'\n"), []string{"tcp.address", "text"}},
		{"key for a table", file("tcp = 1\n"), []string{"unknown key tcp"}},
		{"roster as a table", file("[cluster.nodes]\nname = 'x'\n"), []string{"cluster.nodes", "[[cluster.nodes]]"}},
		{"bool", env("GALGO_HEARTBEAT_ENABLED=yes"), []string{"GALGO_HEARTBEAT_ENABLED", "heartbeat.enabled = \"yes\"", "true or false"}},
		{"reference's bool", env("IGGY_HEARTBEAT_ENABLED=yes"), []string{"IGGY_HEARTBEAT_ENABLED", "heartbeat.enabled"}},
		{"count", env("GALGO_SYSTEM_SHARDS=-1"), []string{"system.shards", "whole number"}},
		{"count too large", env("GALGO_LIMITS_CONNECTIONS=2147483648"), []string{"limits.connections", "at most 2147483647"}},
		{"count too small", env("GALGO_SYSTEM_SHARDS=0"), []string{"GALGO_SYSTEM_SHARDS", "system.shards = \"0\"", "1 to 1024"}},
		{"size", env("GALGO_WAL_LIMIT=1 parsec"), []string{"wal.limit", "MiB"}},
		{"duration", env("GALGO_HEARTBEAT_INTERVAL=30"), []string{"heartbeat.interval", "units"}},
		{"duration too short", env("GALGO_SYSTEM_LOGGING_RETENTION=1ms"), []string{"system.logging.retention", "1s"}},
		{"one of", env("GALGO_PARTITION_DURABILITY=maybe"), []string{"partition.durability", "fsync or memory"}},
		{"level", env("GALGO_SYSTEM_LOGGING_LEVEL=loud"), []string{"system.logging.level", "trace"}},
		{"address", env("GALGO_TCP_ADDRESS=8090"), []string{"tcp.address", "host:port"}},
		{"address without a host", env("GALGO_TCP_ADDRESS=:8090"), []string{"tcp.address", "host:port"}},
		{"port", env("GALGO_TCP_ADDRESS=localhost:65536"), []string{"tcp.address", "host:port"}},
		{"advertised wildcard", env("GALGO_TCP_ADVERTISED_ADDRESS=0.0.0.0:8090"), []string{"tcp.advertised_address", "dial"}},
		{"advertised port", env("GALGO_TCP_ADVERTISED_ADDRESS=host:0"), []string{"tcp.advertised_address", "65535"}},
		{"runtime outside", env("GALGO_SYSTEM_RUNTIME_PATH=../x"), []string{"system.runtime.path", "inside system.path"}},
		{"runtime is the root", env("GALGO_SYSTEM_RUNTIME_PATH=."), []string{"system.runtime.path", "inside system.path"}},
		{"logs outside", env("GALGO_SYSTEM_LOGGING_PATH=/var/log"), []string{"system.logging.path", "inside system.path"}},
		{"logs among the state", env("GALGO_SYSTEM_LOGGING_PATH=./groups/logs"), []string{"system.logging.path", "metadata, shards or groups"}},
		{"logs in a file's place", env("GALGO_SYSTEM_LOGGING_PATH=FORMAT"), []string{"system.logging.path", "FORMAT, LOCK"}},
		{"wal pages", env("GALGO_WAL_FILE_SIZE=1048577"), []string{"wal.file_size", "multiple of 4 KiB"}},
		{"no budget", env("GALGO_SYSTEM_MEMORY_BUDGET=2 TiB"), []string{"system.memory_budget", "64 MiB to 1 TiB"}},
		{"replica id", LoadInput{Flags: map[string]string{"replica-id": "1"}}, []string{"--replica-id", "want 0 unless cluster.enabled"}},
		{"switch", LoadInput{Flags: map[string]string{"fresh": "maybe"}}, []string{"--fresh", "true or false"}},
		{"--set without =", LoadInput{Set: []string{"tcp.address"}}, []string{"--set", "key=value"}},
		{"root in a file", file("[root]\npassword = 'letmein'\n"), []string{".toml:2", "root.password", "GALGO_ROOT_PASSWORD"}},
		{"root by a flag", LoadInput{Set: []string{"root.password=letmein"}}, []string{"--set", "root.password", "GALGO_ROOT_PASSWORD"}},
		{"name without password", env("GALGO_ROOT_USERNAME=admin"), []string{"root.password", "GALGO_ROOT_USERNAME and GALGO_ROOT_PASSWORD"}},
		{"password without name", env("IGGY_ROOT_PASSWORD=secret"), []string{"root.username", "both"}},
		{"short name", LoadInput{Env: []string{"GALGO_ROOT_USERNAME=ab", "GALGO_ROOT_PASSWORD=abc"}}, []string{"root.username = \"ab\"", "3 to 50"}},
		{"short password", LoadInput{Env: []string{"GALGO_ROOT_USERNAME=abc", "GALGO_ROOT_PASSWORD=ab"}}, []string{"root.password = \"******\"", "3 to 100"}},
		{"slots", env("GALGO_METADATA_JOURNAL_SLOTS=256"), nil},
		{"slots for the depth", LoadInput{Env: []string{"GALGO_METADATA_JOURNAL_SLOTS=400", "GALGO_METADATA_PREPARE_QUEUE_DEPTH=127", "GALGO_METADATA_CHECKPOINT_MARGIN=127"}},
			[]string{"metadata.journal_slots = \"400\"", "508"}},
		{"margin below the depth", env("GALGO_METADATA_CHECKPOINT_MARGIN=63"), []string{"metadata.checkpoint_margin", "64 to 8192"}},
		{"margin above half", env("GALGO_METADATA_CHECKPOINT_MARGIN=8193"), []string{"metadata.checkpoint_margin", "64 to 8192"}},
		{"wal limit", env("GALGO_WAL_LIMIT=100 MiB"), []string{"wal.limit", "128 MiB"}},
		{"connection below a frame", env("GALGO_LIMITS_BYTES_PER_CONNECTION=1 MiB"), []string{"limits.bytes_per_connection", "64 MiB"}},
		{"budget below a connection", env("GALGO_SYSTEM_MEMORY_BUDGET=100 MiB"), []string{"system.memory_budget", "128 MiB"}},
		{"one port twice", env("GALGO_HTTP_ADDRESS=0.0.0.0:8090"), []string{"http.address", "another port than tcp.address"}},
		{"nobody can reach it", LoadInput{Env: []string{"GALGO_TCP_ENABLED=false", "GALGO_QUIC_ENABLED=false", "GALGO_WEBSOCKET_ENABLED=false"}}, []string{"tcp.enabled", "quic.enabled", "websocket.enabled"}},
		{"TLS without a certificate", LoadInput{Env: []string{"GALGO_TCP_TLS_ENABLED=true", "GALGO_TCP_TLS_SELF_SIGNED=false"}}, []string{"tcp.tls.cert_file", "tcp.tls.self_signed"}},
		{"certificate without a key", LoadInput{Env: []string{"IGGY_WEBSOCKET_TLS_ENABLED=true", "IGGY_WEBSOCKET_TLS_CERT_FILE=a.pem"}}, []string{"websocket.tls.key_file", "websocket.tls.cert_file"}},
		{"key without a certificate", LoadInput{Env: []string{"GALGO_TCP_TLS_ENABLED=true", "GALGO_TCP_TLS_KEY_FILE=a.key"}}, []string{"tcp.tls.cert_file", "tcp.tls.key_file"}},
		{"QUIC without a certificate", env("GALGO_QUIC_CERTIFICATE_SELF_SIGNED=false"), []string{"quic.certificate.cert_file"}},
		{"files of what is off", LoadInput{Env: []string{"GALGO_TCP_TLS_CERT_FILE=a.pem", "GALGO_WEBSOCKET_TLS_KEY_FILE=a.key"}}, nil},
		{"window of a request", env("GALGO_QUIC_RECEIVE_WINDOW=1 MiB"), []string{"quic.stream_receive_window", "quic.receive_window", "1 MiB"}},
		{"no window", env("GALGO_QUIC_STREAM_RECEIVE_WINDOW=0"), []string{"quic.stream_receive_window", "at least 1 B"}},
		{"no stream", env("GALGO_QUIC_MAX_CONCURRENT_BIDI_STREAMS=0"), []string{"quic.max_concurrent_bidi_streams", "1 to 65536"}},
		{"packets too small", env("GALGO_QUIC_INITIAL_MTU=1199"), []string{"quic.initial_mtu", "1200 B"}},
		{"no time for a handshake", env("GALGO_MESSAGE_BUS_HANDSHAKE_GRACE=1ms"), []string{"message_bus.handshake_grace", "100ms"}},
		{"unmasked frames", env("GALGO_WEBSOCKET_ACCEPT_UNMASKED_FRAMES=true"), []string{"websocket.accept_unmasked_frames", "rules of WebSocket"}},
		{"one port twice, for health", env("GALGO_ADMIN_ADDRESS=127.0.0.1:8092"), []string{"admin.address", "another port than websocket.address"}},
		{"one port twice, not tcp", env("GALGO_WEBSOCKET_ADDRESS=127.0.0.1:3000"), []string{"websocket.address", "another port than http.address"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == nil {
				mustLoad(t, tt.in)
				return
			}
			p := onlyProblem(t, tt.in)
			wantText(t, p, tt.want...)
		})
	}
}

// TestLargeFileIsRefused: nothing is read without a bound.
func TestLargeFileIsRefused(t *testing.T) {
	wantText(t, onlyProblem(t, LoadInput{File: writeFile(t, strings.Repeat("#\n", fileMax))}), "at most 1048576")
}

// TestAllProblemsAtOnce: one run tells everything that is wrong.
func TestAllProblemsAtOnce(t *testing.T) {
	_, _, err := Load(LoadInput{
		File: writeFile(t, "nonsense = 1\n[system.segment]\nsize = '1 GiB'\n[wal]\nlimit = 'big'\n"),
		Env:  []string{"GALGO_SYSTEM_SHARDS=0", "GALGO_HTTP_TLS_ENABLED=true", "GALGO_TYPO=1"},
		Set:  []string{"partition.durability=never"},
	})
	wantText(t, err, "nonsense", "segment_size", "wal.limit", "system.shards", "http.tls.enabled", "GALGO_TYPO", "partition.durability")
	if n := len(problemsOf(t, err)); n != 7 {
		t.Errorf("got %d problems, want 7: %v", n, err)
	}
}

func TestMovedKeys(t *testing.T) {
	for _, m := range moved {
		name := m.name
		if strings.HasSuffix(name, ".") {
			name += "enabled"
		}
		for where, in := range map[string]LoadInput{
			"file":          {File: writeFile(t, "["+section(name)+"]\n"+leaf(name)+" = true\n")},
			"variable":      {Env: []string{"GALGO_" + envSuffix(name) + "=1"}},
			"reference's":   {Env: []string{"IGGY_" + envSuffix(name) + "=1"}},
			"set":           {Set: []string{name + "=1"}},
			"dotted a line": {File: writeFile(t, name+" = true\n")},
		} {
			t.Run(name+" by "+where, func(t *testing.T) {
				p := onlyProblem(t, in)
				if !errors.Is(p, ErrMoved) {
					t.Errorf("got %v, want ErrMoved", p)
				}
				wantText(t, p, strings.TrimSuffix(m.name, "."), m.successor)
			})
		}
	}
}

// TestKeysWithoutEffect: defaults pass in silence, anything else is refused or
// at least mentioned, by key and in every layer.
func TestKeysWithoutEffect(t *testing.T) {
	for i := range keys {
		k := &keys[i]
		if k.class == active {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			layers := func(text string) map[string]LoadInput {
				in := map[string]LoadInput{
					"file": {File: fileWith(t, k, text)},
					"set":  {Set: []string{k.name + "=" + text}},
				}
				for _, prefix := range []string{ownPrefix, referencePrefix} {
					in[prefix] = LoadInput{Env: []string{prefix + envSuffix(k.name) + "=" + text}}
				}
				return in
			}
			for where, in := range layers(k.def) {
				if _, s := mustLoad(t, in); len(s.Warnings) > 0 {
					t.Errorf("default by %s: warnings %q", where, s.Warnings)
				}
			}
			other := differing(k)
			for where, in := range layers(other) {
				if k.class == idle {
					if _, s := mustLoad(t, in); !hasWarning(s, k.name, "no effect") {
						t.Errorf("%s by %s: warnings %q", other, where, s.Warnings)
					}
					continue
				}
				p := onlyProblem(t, in)
				if !errors.Is(p, ErrUnavailable) {
					t.Errorf("got %v, want ErrUnavailable", p)
				}
				wantText(t, p, "not available yet: "+k.name, k.part)
			}
		})
	}
}

// TestStrongerLayerHealsUnavailable: only what is in effect counts.
func TestStrongerLayerHealsUnavailable(t *testing.T) {
	mustLoad(t, LoadInput{
		File: writeFile(t, "[http.tls]\nenabled = true\n"),
		Env:  []string{"GALGO_HTTP_TLS_ENABLED=false"},
	})
}

func TestTrustedIssuersAreRefused(t *testing.T) {
	for name, in := range map[string]LoadInput{
		"file":     {File: writeFile(t, "[[http.jwt.trusted_issuers]]\nissuer = 'x'\n")},
		"variable": {Env: []string{"IGGY_HTTP_JWT_TRUSTED_ISSUERS_0_ISSUER=x"}},
	} {
		t.Run(name, func(t *testing.T) {
			wantText(t, onlyProblem(t, in), "not available yet: http.jwt.trusted_issuers")
		})
	}
}

// TestSecretsStayHidden puts a secret wherever one can be and looks for it in
// all that the package makes.
func TestSecretsStayHidden(t *testing.T) {
	const secret = "xyzzy-0815"
	for i := range keys {
		k := &keys[i]
		if !k.secret {
			continue
		}
		in := LoadInput{Env: []string{ownPrefix + envSuffix(k.name) + "=" + secret}, Set: []string{k.name + "=" + secret}}
		in.File = writeFile(t, "["+section(k.name)+"]\n"+leaf(k.name)+" = ['"+secret+"']\n") // a wrong type
		l := applyLayers(in)
		l.finish()
		var seen strings.Builder
		seen.WriteString(CurrentTOML(l.cfg, Bound{}))
		seen.WriteString(Display(l.cfg, l.sources))
		for _, row := range Rows(l.cfg, l.sources) {
			seen.WriteString(row.Key + row.Value + row.Source)
		}
		seen.WriteString(strings.Join(l.sources.Warnings, "\n"))
		for _, p := range l.problems {
			seen.WriteString(p.Error())
		}
		if strings.Contains(seen.String(), secret) {
			t.Errorf("the value of %s is shown:\n%s", k.name, seen.String())
		}
	}
}
