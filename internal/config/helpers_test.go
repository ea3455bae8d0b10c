package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// writeFile makes a configuration file and returns its path.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "galgo.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// problemsOf takes a joined error apart.
func problemsOf(t *testing.T, err error) []*Problem {
	t.Helper()
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%v (%T) is not a joined error", err, err)
	}
	var problems []*Problem
	for _, e := range joined.Unwrap() {
		var p *Problem
		if !errors.As(e, &p) {
			t.Fatalf("%v (%T) is no *Problem", e, e)
		}
		problems = append(problems, p)
	}
	return problems
}

// onlyProblem loads and wants exactly one problem.
func onlyProblem(t *testing.T, in LoadInput) *Problem {
	t.Helper()
	_, _, err := Load(in)
	problems := problemsOf(t, err)
	if len(problems) != 1 {
		t.Fatalf("got %d problems, want 1: %v", len(problems), err)
	}
	return problems[0]
}

func mustLoad(t *testing.T, in LoadInput) (Config, Sources) {
	t.Helper()
	c, sources, err := Load(in)
	if err != nil {
		t.Fatal(err)
	}
	return c, sources
}

// wantText fails unless the error's text holds every part.
func wantText(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got error %q, want one that says %q", err, part)
		}
	}
}

// others has for each active key a valid value that is not its default.
var others = map[string]string{
	"cluster.rebalance.enabled":                 "false",
	"cluster.rebalance.moves_per_minute":        "3",
	"cluster.rebalance.settled":                 "30s",
	"admin.address":                             "127.0.0.1:9600",
	"display_config":                            "false",
	"shutdown_timeout":                          "1m 30s",
	"root.username":                             "admin",
	"root.password":                             "correct horse",
	"tcp.enabled":                               "false",
	"tcp.tls.enabled":                           "true",
	"tcp.tls.self_signed":                       "false",
	"tcp.tls.cert_file":                         "/etc/galgo/tcp.pem",
	"tcp.tls.key_file":                          "/etc/galgo/tcp.key",
	"quic.max_concurrent_bidi_streams":          "10",
	"quic.initial_mtu":                          "1400 B",
	"quic.receive_window":                       "32 MiB",
	"quic.stream_receive_window":                "16 MiB",
	"quic.keep_alive_interval":                  "0s",
	"quic.max_idle_timeout":                     "1m",
	"quic.certificate.self_signed":              "false",
	"quic.certificate.cert_file":                "quic.pem",
	"quic.certificate.key_file":                 "quic.key",
	"websocket.max_message_size":                "1 MiB",
	"websocket.tls.enabled":                     "true",
	"websocket.tls.self_signed":                 "false",
	"websocket.tls.cert_file":                   "ws.pem",
	"websocket.tls.key_file":                    "ws.key",
	"message_bus.handshake_grace":               "5s",
	"tcp.address":                               "0.0.0.0:9999",
	"system.encryption.enabled":                 "true",
	"system.encryption.key":                     "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
	"system.encryption.key_file":                "/etc/galgo/disk.key",
	"system.encryption.older_keys":              "HxECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
	"tcp.advertised_address":                    "broker.example.com:9000",
	"http.enabled":                              "false",
	"http.address":                              "127.0.0.1:3001",
	"quic.enabled":                              "false",
	"quic.address":                              "[::1]:8081",
	"websocket.enabled":                         "false",
	"websocket.address":                         "127.0.0.1:0",
	"limits.connections":                        "7",
	"limits.requests_per_connection":            "9",
	"limits.bytes_per_connection":               "65 MiB",
	"limits.login_concurrency":                  "4",
	"limits.login_slowdown":                     "false",
	"message_bus.max_message_size":              "1 MiB",
	"system.path":                               "/var/lib/galgo",
	"system.memory_budget":                      "3 GB",
	"system.cached_behind":                      "1 GiB",
	"system.shards":                             "2",
	"system.runtime.path":                       "run",
	"system.logging.path":                       "log/files",
	"system.logging.level":                      "debug",
	"system.logging.file_enabled":               "false",
	"system.logging.max_file_size":              "1 MB",
	"system.logging.max_total_size":             "2 GB",
	"system.logging.rotation_check_interval":    "2h",
	"system.logging.retention":                  "1d",
	"wal.file_size":                             "4 MiB",
	"wal.limit":                                 "1 GiB",
	"metadata.prepare_queue_depth":              "16",
	"metadata.journal_slots":                    "2048",
	"metadata.checkpoint_margin":                "128",
	"metadata.checkpoint_bytes":                 "1 MiB",
	"metadata.clients_table_max":                "2",
	"partition.prepare_queue_depth":             "127",
	"partition.durability":                      "memory",
	"partition.tail_bytes":                      "1 MiB",
	"cluster.enabled":                           "true",
	"cluster.name":                              "orders",
	"replica_id":                                "2",
	"consumer_group.rebalancing_timeout":        "2s",
	"heartbeat.enabled":                         "false",
	"heartbeat.interval":                        "5s",
	"data_maintenance.messages.cleaner_enabled": "false",
	"data_maintenance.messages.interval":        "10s",
	"data_maintenance.messages.keep_unread":     "false",

	"personal_access_token.max_tokens_per_user":      "7",
	"personal_access_token.cleaner.enabled":          "false",
	"personal_access_token.cleaner.interval":         "5m",
	"cluster.heartbeat_timeout":                      "6s",
	"cluster.commit_broadcast_interval":              "400ms",
	"cluster.prepare_retransmit_interval":            "300ms",
	"cluster.view_change_retransmit_interval":        "300ms",
	"cluster.view_change_status_timeout":             "6s",
	"cluster.request_start_view_retransmit_interval": "2s",
	"cluster.view_probe_attempts_max":                "7",
	"cluster.repair_retry_interval":                  "3s",
	"cluster.auth.enabled":                           "true",
	"cluster.auth.shared_secret":                     "0123456789abcdef0123456789abcdef",
	"cluster.auth.previous_shared_secret":            "abcdef0123456789abcdef0123456789",
	"cluster.tls.enabled":                            "true",
	"cluster.tls.self_signed":                        "true",
	"cluster.tls.cert_file":                          "cert.pem",
	"cluster.tls.key_file":                           "key.pem",
	"cluster.tls.ca_file":                            "ca.pem",
}

// activeKeys returns the rows that must be in others.
func activeKeys() []*key {
	var active_ []*key
	for i := range keys {
		if keys[i].class == active {
			active_ = append(active_, &keys[i])
		}
	}
	return active_
}

// fileWith returns a file that sets one key.
func fileWith(t *testing.T, k *key, text string) string {
	t.Helper()
	var c Config
	p := k.at(&c)
	if err := setText(p, text); err != nil {
		t.Fatalf("%s = %q: %v", k.name, text, err)
	}
	line := leaf(k.name) + " = " + valueTOML(p) + "\n"
	if s := section(k.name); s != "" {
		line = "[" + s + "]\n" + line
	}
	return writeFile(t, line)
}

// differing returns a well-formed value for the place that is not the default.
func differing(k *key) string {
	var c Config
	for _, text := range []string{"true", "false", "77", "78 MiB", "79s", "[a, b]"} {
		if setText(k.at(&c), text) == nil {
			p := k.at(&c)
			if setText(p, text) == nil && valueText(p) != k.canonical() {
				return text
			}
		}
	}
	panic("no other value for " + k.name)
}

func hasWarning(s Sources, parts ...string) bool {
	return slices.ContainsFunc(s.Warnings, func(w string) bool {
		for _, part := range parts {
			if !strings.Contains(w, part) {
				return false
			}
		}
		return true
	})
}
