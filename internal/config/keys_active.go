package config

import (
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

var generalKeys = []key{
	{name: "display_config", def: "true", at: func(c *Config) any { return &c.DisplayConfig },
		help: "show the configuration at start"},
	{name: "shutdown_timeout", def: "30s", min: "1s", max: "15m", at: func(c *Config) any { return &c.ShutdownTimeout },
		help: "how long a graceful stop may take before it is cut short"},
	{name: "replica_id", def: "0", max: "255", at: func(c *Config) any { return &c.Cluster.ReplicaID },
		help: "which entry of the roster this process is; must be given if cluster.enabled, else only 0"},
	{name: "root.username", def: "", env: true, at: func(c *Config) any { return &c.Root.Username },
		help: "name of the first user, 3 to 50 bytes; used only while there is no user"},
	{name: "root.password", def: "", env: true, secret: true, at: func(c *Config) any { return &c.Root.Password },
		help: "its password, 3 to 100 bytes"},
}

var transportKeys = []key{
	{name: "admin.address", def: "", check: optional(checkAddress), at: func(c *Config) any { return &c.Admin.Address },
		help: "host and port that are bound for /livez and /readyz, over HTTP without TLS; empty: none. For operators: whoever reaches it may ask"},
	{name: "tcp.enabled", def: "true", at: func(c *Config) any { return &c.TCP.Enabled },
		help: "accept clients over TCP"},
	{name: "tcp.address", def: "127.0.0.1:8090", check: checkAddress, at: func(c *Config) any { return &c.TCP.Address },
		help: "host and port that are bound for clients; port 0 takes a free one"},
	{name: "tcp.advertised_address", def: "", check: optional(checkAdvertised), at: func(c *Config) any { return &c.TCP.AdvertisedAddress },
		help: "host or host:port that clients are told to dial, where it differs from what is bound"},
	{name: "tcp.tls.enabled", def: "false", at: func(c *Config) any { return &c.TCP.TLS.Enabled },
		help: "take clients over TLS only, on the same port"},
	{name: "tcp.tls.self_signed", def: "true", at: func(c *Config) any { return &c.TCP.TLS.SelfSigned },
		help: "make a certificate for localhost at each start if cert_file is empty or does not exist; for development"},
	{name: "tcp.tls.cert_file", def: "", at: func(c *Config) any { return &c.TCP.TLS.CertFile },
		help: certHelp},
	{name: "tcp.tls.key_file", def: "", at: func(c *Config) any { return &c.TCP.TLS.KeyFile },
		help: keyHelp},
	{name: "http.enabled", def: "true", at: func(c *Config) any { return &c.HTTP.Enabled },
		help: "report an HTTP port in the roster; nothing listens on it yet"},
	{name: "http.address", def: "127.0.0.1:3000", check: checkAddress, at: func(c *Config) any { return &c.HTTP.Address },
		help: "host and port of HTTP"},
	{name: "quic.enabled", def: "true", at: func(c *Config) any { return &c.QUIC.Enabled },
		help: "accept clients over QUIC, which is always encrypted"},
	{name: "quic.address", def: "127.0.0.1:8080", check: checkAddress, at: func(c *Config) any { return &c.QUIC.Address },
		help: "host and UDP port that are bound for QUIC; port 0 takes a free one"},
	{name: "quic.max_concurrent_bidi_streams", def: "1", min: "1", max: "65536", at: func(c *Config) any { return &c.QUIC.Streams },
		help: "requests that one connection may have under way; they are taken one after the other"},
	{name: "quic.initial_mtu", def: "1200 B", min: "1200 B", max: "65535 B", at: func(c *Config) any { return &c.QUIC.InitialMTU },
		help: "size of the first packets; above 1452 B counts as that, and what the path carries is found out later"},
	{name: "quic.receive_window", def: "64 MiB", min: "1 B", max: "4294967295 B", at: func(c *Config) any { return &c.QUIC.ReceiveWindow },
		help: "bytes that a connection may have under way to the server; it begins with 64 KiB and grows as the server reads"},
	{name: "quic.stream_receive_window", def: "64 MiB", min: "1 B", at: func(c *Config) any { return &c.QUIC.StreamReceiveWindow },
		help: "the same for one request; at most quic.receive_window"},
	{name: "quic.keep_alive_interval", def: "10s", at: func(c *Config) any { return &c.QUIC.KeepAliveInterval },
		help: "after how much silence the server asks whether the client is there; 0: never"},
	{name: "quic.max_idle_timeout", def: "30s", at: func(c *Config) any { return &c.QUIC.MaxIdleTimeout },
		help: "after how much silence a connection has ended; 0: never"},
	{name: "quic.certificate.self_signed", def: "true", at: func(c *Config) any { return &c.QUIC.Certificate.SelfSigned },
		help: "make a certificate for localhost at each start, whatever cert_file says; for development"},
	{name: "quic.certificate.cert_file", def: "", at: func(c *Config) any { return &c.QUIC.Certificate.CertFile },
		help: certHelp},
	{name: "quic.certificate.key_file", def: "", at: func(c *Config) any { return &c.QUIC.Certificate.KeyFile },
		help: keyHelp},
	{name: "websocket.enabled", def: "true", at: func(c *Config) any { return &c.WebSocket.Enabled },
		help: "accept clients over WebSocket"},
	{name: "websocket.address", def: "127.0.0.1:8092", check: checkAddress, at: func(c *Config) any { return &c.WebSocket.Address },
		help: "host and port that are bound for WebSocket; port 0 takes a free one"},
	{name: "websocket.max_message_size", def: "64 MiB", min: "64 KiB", at: func(c *Config) any { return &c.WebSocket.MaxMessageSize },
		help: "largest message to the server; message_bus.max_message_size bounds it, too"},
	{name: "websocket.tls.enabled", def: "false", at: func(c *Config) any { return &c.WebSocket.TLS.Enabled },
		help: "take clients over TLS only (wss), on the same port"},
	{name: "websocket.tls.self_signed", def: "true", at: func(c *Config) any { return &c.WebSocket.TLS.SelfSigned },
		help: "make a certificate for localhost at each start if cert_file is empty or does not exist; for development"},
	{name: "websocket.tls.cert_file", def: "", at: func(c *Config) any { return &c.WebSocket.TLS.CertFile },
		help: certHelp},
	{name: "websocket.tls.key_file", def: "", at: func(c *Config) any { return &c.WebSocket.TLS.KeyFile },
		help: keyHelp},
	{name: "limits.connections", def: "8192", min: "1", max: "1000000", at: func(c *Config) any { return &c.Limits.Connections },
		help: "client connections open at a time; more are closed at once"},
	{name: "limits.requests_per_connection", def: "256", min: "1", max: "65536", at: func(c *Config) any { return &c.Limits.RequestsPerConnection },
		help: "sends and offset writes of one connection in flight; beyond, its socket is not read"},
	{name: "limits.bytes_per_connection", def: "128 MiB", min: "64 KiB", max: "16 GiB", at: func(c *Config) any { return &c.Limits.BytesPerConnection },
		help: "the same in bytes; at least the largest frame"},
	{name: "limits.login_concurrency", def: "2", min: "1", max: "256", at: func(c *Config) any { return &c.Limits.LoginConcurrency },
		help: "password hashes computed at a time; each takes memory and a core"},
	{name: "limits.login_slowdown", def: "true", at: func(c *Config) any { return &c.Limits.LoginSlowdown },
		help: "slow down addresses whose passwords keep being refused; false where many users share an address"},
	{name: "message_bus.max_message_size", def: "64 MiB", min: "64 KiB", max: "64 MiB", at: func(c *Config) any { return &c.MessageBus.MaxMessageSize },
		help: "largest frame, requests and replies"},
	{name: "message_bus.handshake_grace", def: "10s", min: "100ms", max: "5m", at: func(c *Config) any { return &c.MessageBus.HandshakeGrace },
		help: "how long a client may take for what comes before the first frame: TLS, the upgrade to WebSocket, QUIC"},
}

// What is said of the files of every certificate.
const (
	certHelp = "PEM file of the certificate and those that vouch for it; read again when it changes"
	keyHelp  = "PEM file of its key"
)

var systemKeys = []key{
	{name: "system.path", def: "local_data", check: checkPath, at: func(c *Config) any { return &c.System.Path },
		help: "the data directory"},
	{name: "system.memory_budget", def: "2 GiB", min: "64 MiB", max: "1 TiB", at: func(c *Config) any { return &c.System.MemoryBudget },
		help: "bytes of requests and of polled messages held for all connections together; when spent, no socket is read"},
	{name: "system.cached_behind", def: "64 MiB", max: "1 TiB", at: func(c *Config) any { return &c.System.CachedBehind },
		help: "bytes of a segment that stay in the memory of the system behind its end; who reads further behind reads from the disk; 0: all, as the system wants"},
	{name: "system.shards", def: "1", min: "1", max: "1024", at: func(c *Config) any { return &c.System.Shards },
		help: "loops that share the partitions, each with a log of its own"},
	{name: "system.encryption.enabled", def: "false", at: func(c *Config) any { return &c.System.Encryption.Enabled },
		help: "seal messages, names and all state in the data directory; from its first start on or never"},
	{name: "system.encryption.key", def: "", secret: true, at: func(c *Config) any { return &c.System.Encryption.Key },
		help: "base64 of 32 bytes, such as openssl rand -base64 32 prints; rather in GALGO_SYSTEM_ENCRYPTION_KEY than in a file"},
	{name: "system.encryption.key_file", def: "", at: func(c *Config) any { return &c.System.Encryption.KeyFile },
		help: "or a file that only the server may read: the key in its first line, older ones in those behind it"},
	{name: "system.encryption.older_keys", def: "", secret: true, at: func(c *Config) any { return &c.System.Encryption.OlderKeys },
		help: "keys that something may still be sealed under, with commas between; new data are sealed under the current one"},
	{name: "system.runtime.path", def: "runtime", check: checkBelow, at: func(c *Config) any { return &c.System.Runtime.Path },
		help: "directory for current_config.toml, below system.path"},
	{name: "system.logging.path", def: "logs", check: checkLogs, at: func(c *Config) any { return &c.System.Logging.Path },
		help: "directory of the log files, below system.path"},
	{name: "system.logging.level", def: "info", oneOf: levels, simplify: simpleLevel, at: func(c *Config) any { return &c.System.Logging.Level },
		help: "least severe level that is logged"},
	{name: "system.logging.file_enabled", def: "true", at: func(c *Config) any { return &c.System.Logging.FileEnabled },
		help: "log to files too, not only to standard error"},
	{name: "system.logging.max_file_size", def: "500 MB", at: func(c *Config) any { return &c.System.Logging.MaxFileSize },
		help: "a log file is rotated beyond this, or beyond half of max_total_size; 0: never"},
	{name: "system.logging.max_total_size", def: "4 GB", at: func(c *Config) any { return &c.System.Logging.MaxTotalSize },
		help: "the oldest rotated log files are removed beyond this; 0: never"},
	{name: "system.logging.rotation_check_interval", def: "1h", min: "1s", at: func(c *Config) any { return &c.System.Logging.RotationCheckInterval },
		help: "how often age and size of the log files are looked at"},
	{name: "system.logging.retention", def: "7 days", min: "1s", at: func(c *Config) any { return &c.System.Logging.Retention },
		help: "rotated log files whose newest record is older than this are removed"},
}

var storageKeys = []key{
	{name: "wal.file_size", def: "64 MiB", min: "1 MiB", max: "1 GiB", check: checkPages, at: func(c *Config) any { return &c.WAL.FileSize },
		help: "size of one preallocated file of a write-ahead log"},
	{name: "wal.limit", def: "512 MiB", min: "2 MiB", max: "1 TiB", at: func(c *Config) any { return &c.WAL.Limit },
		help: "live bytes of one write-ahead log that make a checkpoint due; at least two files"},
	{name: "metadata.prepare_queue_depth", def: "64", min: "1", max: "127", at: func(c *Config) any { return &c.Metadata.PrepareQueueDepth },
		help: "metadata operations in flight"},
	{name: "metadata.journal_slots", def: "16384", min: "256", max: "1048576", at: func(c *Config) any { return &c.Metadata.JournalSlots },
		help: "metadata operations the log holds before they must be in a checkpoint"},
	{name: "metadata.checkpoint_margin", def: "64", min: "1", at: func(c *Config) any { return &c.Metadata.CheckpointMargin },
		help: "a checkpoint is due this many operations before the slots run out"},
	{name: "metadata.checkpoint_bytes", def: "32 MiB", min: "64 KiB", max: "64 GiB", at: func(c *Config) any { return &c.Metadata.CheckpointBytes },
		help: "a checkpoint is due after this many bytes of metadata operations, too"},
	{name: "metadata.clients_table_max", def: "8192", min: "2", max: "65536", at: func(c *Config) any { return &c.Metadata.ClientsTableMax },
		help: "client sessions that are remembered, connected or not"},
	{name: "partition.prepare_queue_depth", def: "32", min: "1", max: "127", at: func(c *Config) any { return &c.Partition.PrepareQueueDepth },
		help: "operations in flight in one partition"},
	{name: "partition.durability", def: DurabilityFsync, oneOf: []string{DurabilityFsync, DurabilityMemory}, at: func(c *Config) any { return &c.Partition.Durability },
		help: "what an acknowledgement means for topics that do not say: fsync, synced by a quorum; memory, received by one"},
	{name: "partition.tail_bytes", def: "4 MiB", min: "64 KiB", max: "1 GiB", at: func(c *Config) any { return &c.Partition.TailBytes },
		help: "newest batches of each partition that are kept in memory for readers, beside system.memory_budget"},
}

var maintenanceKeys = []key{
	{name: "consumer_group.rebalancing_timeout", def: "30s", min: "1ms", at: func(c *Config) any { return &c.ConsumerGroup.RebalancingTimeout },
		help: "how long a partition that another member is to have may stay with its owner, which has not committed what it was given"},
	{name: "heartbeat.enabled", def: "true", at: func(c *Config) any { return &c.Heartbeat.Enabled },
		help: "end the sessions of members of consumer groups that fall silent"},
	{name: "heartbeat.interval", def: "30s", min: "100ms", at: func(c *Config) any { return &c.Heartbeat.Interval },
		help: "a member is silent when nothing came from it for 1.2 times as long; any request counts"},
	{name: "data_maintenance.messages.cleaner_enabled", def: "true", at: func(c *Config) any { return &c.DataMaintenance.Messages.Enabled },
		help: "apply message_expiry and max_topic_size of topics"},
	{name: "data_maintenance.messages.interval", def: "1m", min: "100ms", at: func(c *Config) any { return &c.DataMaintenance.Messages.Interval },
		help: "how often"},
	{name: "data_maintenance.messages.keep_unread", def: "true", at: func(c *Config) any { return &c.DataMaintenance.Messages.Hold },
		help: "keep what a consumer or group with a stored offset has not read yet, whatever its age and size"},
}

// levels are the values of system.logging.level, least output first.
var levels = []string{"off", "error", "warn", "info", "debug", "trace"}

// simpleLevel takes the level out of a filter such as "info,galgo.vsr=debug".
// galgo has one level for everything, so what names a target is left out.
func simpleLevel(text string) (level, dropped string) {
	var rest []string
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if strings.Contains(part, "=") {
			rest = append(rest, part)
		} else if part != "" {
			level = strings.ToLower(part)
		}
	}
	return level, strings.Join(rest, ",")
}

const addressWant = "want host:port, such as 127.0.0.1:8090, [::1]:8090 or 0.0.0.0:8090"

func checkAddress(text string) error {
	host, port, err := net.SplitHostPort(text)
	if err != nil || !validHost(host) || !validPort(port) {
		return errors.New(addressWant)
	}
	return nil
}

func checkAdvertised(text string) error {
	host := text
	if h, port, err := net.SplitHostPort(text); err == nil {
		if !validPort(port) || port == "0" {
			return errors.New("want a port of 1 to 65535")
		}
		host = h
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		return errors.New("want an address that clients can dial; " + host + " is none")
	}
	if !validHost(host) {
		return errors.New("want a host or host:port that clients can dial, such as broker-1.example.com:8090")
	}
	return nil
}

// validHost reports whether host is an IP address or may be a name.
func validHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	const nameMax = 253
	return host != "" && len(host) <= nameMax && !strings.ContainsFunc(host, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_')
	})
}

func validPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

func checkPath(text string) error {
	if text == "" || strings.ContainsRune(text, 0) {
		return errors.New("want a path")
	}
	return nil
}

func checkBelow(text string) error {
	if !filepath.IsLocal(text) || text == "." {
		return errors.New("want a path inside system.path, without .. and not absolute")
	}
	return nil
}

// stateNames are the node's own in the data directory. What lies there is taken for
// state, and a new node wants none of it.
var stateNames = []string{"FORMAT", "LOCK", "metadata", "shards", "groups"}

func checkLogs(text string) error {
	if err := checkBelow(text); err != nil {
		return err
	}
	first, _, _ := strings.Cut(filepath.ToSlash(filepath.Clean(text)), "/")
	if slices.Contains(stateNames, first) {
		return errors.New("want a directory other than " + orList(stateNames) + ", which are the server's own")
	}
	return nil
}

// walPage is the unit the log preallocates in; a file is a whole number of them.
const walPage = 4096

func checkPages(text string) error {
	if size, err := ParseSize(text); err != nil || size%walPage != 0 {
		return errors.New("want a multiple of 4 KiB")
	}
	return nil
}

// optional admits the empty text, too.
func optional(check func(string) error) func(string) error {
	return func(text string) error {
		if text == "" {
			return nil
		}
		return check(text)
	}
}
