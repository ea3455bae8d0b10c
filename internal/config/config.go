package config

import (
	"log/slog"
	"time"
)

// Config is everything a server can be told, after all layers were applied.
// Take it from [Load] or [Default]; a Config made by hand must pass [Config.Validate].
type Config struct {
	DisplayConfig   bool          // show the configuration at start
	ShutdownTimeout time.Duration // how long a graceful stop may take before it is cut short
	Fresh           bool          // remove the data directory before the start; a flag only, never a key
	Replace         bool          // an empty data directory takes the place of one that is lost; a flag only, never a key
	Root            Root
	Admin           Admin
	TCP             TCP
	HTTP            Transport
	QUIC            QUIC
	WebSocket       WebSocket
	System          System
	WAL             WAL
	Metadata        Metadata
	Tokens          Tokens
	Partition       Partition
	ConsumerGroup   ConsumerGroup
	Heartbeat       Heartbeat
	DataMaintenance DataMaintenance
	MessageBus      MessageBus
	Limits          Limits
	Cluster         Cluster
}

// Root holds the credentials of the first user, used only while there is no user
// at all. Both are set or both are empty; the server decides what empty means.
type Root struct {
	Username string // 3 to 50 bytes
	Password string // 3 to 100 bytes, secret
}

// Admin is where the machines around a node ask for its health.
type Admin struct {
	Address string // host:port that is bound for HTTP; empty: none
}

// TCP is the binary protocol for clients.
type TCP struct {
	Transport
	AdvertisedAddress string // host or host:port that clients are told; empty: the address bound
	TLS               TLS
}

// Transport is a listener for clients.
type Transport struct {
	Enabled bool
	Address string // host:port that is bound; port 0 takes a free one
}

// TLS protects a listener whose transport does not do so itself.
type TLS struct {
	Enabled bool
	Certificate
}

// Certificate is where a listener's certificate comes from.
type Certificate struct {
	SelfSigned bool
	CertFile   string // PEM, read again when it changes
	KeyFile    string
}

// QUIC is the binary protocol over QUIC.
type QUIC struct {
	Transport
	Streams             int           // requests of one connection under way
	InitialMTU          ByteSize      // of packets, until the path is known
	ReceiveWindow       ByteSize      // what a connection may have under way to the server
	StreamReceiveWindow ByteSize      // the same of one request
	KeepAliveInterval   time.Duration // 0: none
	MaxIdleTimeout      time.Duration // 0: none
	Certificate         Certificate
}

// WebSocket is the binary protocol in messages of WebSocket.
type WebSocket struct {
	Transport
	MaxMessageSize ByteSize // of a message to the server; MessageBus.MaxMessageSize bounds it, too
	TLS            TLS
}

// System is about the process as a whole.
type System struct {
	Path         string   // the data directory
	MemoryBudget ByteSize // requests and polled messages held for all connections
	CachedBehind ByteSize // of a segment, in the memory of the system behind its end; 0: all
	Shards       int      // loops that share the partitions
	Encryption   Encryption
	Runtime      Runtime
	Logging      Logging
}

// Encryption seals what is stored. Key and KeyFile exclude each other.
type Encryption struct {
	Enabled   bool
	Key       string // base64 of 32 bytes, secret
	KeyFile   string // of the key, and older ones behind it
	OlderKeys string // with commas between, secret
}

// Runtime is the directory of files that describe the running process.
type Runtime struct {
	Path string // below System.Path
}

// Logging says what is logged and where to.
type Logging struct {
	Path                  string // below System.Path
	Level                 string // off, error, warn, info, debug or trace
	FileEnabled           bool
	MaxFileSize           ByteSize // a file is rotated beyond this; 0: never
	MaxTotalSize          ByteSize // the oldest rotated files are removed beyond this; 0: never
	RotationCheckInterval time.Duration
	Retention             time.Duration // rotated files whose newest record is older are removed
}

// LevelTrace and LevelOff extend the levels of slog at both ends.
const (
	LevelTrace = slog.LevelDebug - 4
	LevelOff   = slog.LevelError + 4
)

// SlogLevel returns Level as a threshold for slog.
func (l Logging) SlogLevel() slog.Level {
	switch l.Level {
	case "trace":
		return LevelTrace
	case "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	case "off":
		return LevelOff
	default:
		return slog.LevelInfo
	}
}

// WAL shapes every write-ahead log of the node.
type WAL struct {
	FileSize ByteSize // size of one preallocated file
	Limit    ByteSize // live bytes of one log that make a checkpoint due
}

// Metadata is the group that orders streams, topics, users and sessions.
type Metadata struct {
	PrepareQueueDepth int      // operations in flight
	JournalSlots      int      // operations the log holds before it must be checkpointed
	CheckpointMargin  int      // a checkpoint is due this many operations before the slots run out
	CheckpointBytes   ByteSize // a checkpoint is due after this many bytes of operations, too
	ClientsTableMax   int      // sessions remembered
}

// Partition is the default and the limits of partition groups.
type Partition struct {
	PrepareQueueDepth int      // operations in flight in one partition
	Durability        string   // DurabilityFsync or DurabilityMemory, for topics that do not say
	TailBytes         ByteSize // newest batches of a partition kept in memory for readers
}

// The values of Partition.Durability.
const (
	// DurabilityFsync acknowledges what a quorum has synced.
	DurabilityFsync = "fsync"
	// DurabilityMemory acknowledges what a quorum has received: power loss may take it.
	DurabilityMemory = "memory"
)

// ConsumerGroup is about the members of consumer groups.
type ConsumerGroup struct {
	RebalancingTimeout time.Duration // a partition that another member is to have stays no longer with its owner
}

// Heartbeat is what becomes of connections that are silent.
type Heartbeat struct {
	Enabled  bool
	Interval time.Duration // members of consumer groups that are silent for 1.2 times as long lose their session
}

// DataMaintenance is what is done to stored messages in the background.
type DataMaintenance struct {
	Messages Messages
}

// Messages applies message_expiry and max_topic_size.
type Messages struct {
	Cleaner
	// Hold keeps what a consumer with a stored offset has not read yet.
	Hold bool
}

// MessageBus bounds frames, and what comes before the first one.
type MessageBus struct {
	MaxMessageSize ByteSize      // largest frame, requests and replies
	HandshakeGrace time.Duration // for TLS, the upgrade to WebSocket and the like
}

// Limits bounds what clients may make the server hold.
type Limits struct {
	Connections           int      // open client connections
	RequestsPerConnection int      // sends and offset writes of one connection in flight; beyond, its socket is not read
	BytesPerConnection    ByteSize // the same in bytes
	LoginConcurrency      int      // password hashes computed at a time
	LoginSlowdown         bool     // slow down addresses whose passwords keep being refused
}

// Cluster is the roster and this node's place in it.
type Cluster struct {
	Enabled   bool
	Name      string // goes into the identity of the data directory and cannot change
	ReplicaID int    // the roster entry this process is
	Nodes     []Node
	Timing    ClusterTiming
	Rebalance ClusterRebalance
	Auth      ClusterAuth
	TLS       ClusterTLS
}

// ClusterTiming is how long nodes wait for each other.
type ClusterTiming struct {
	HeartbeatTimeout     time.Duration // silence of a primary that starts an election
	CommitBroadcast      time.Duration // between heartbeats of an idle primary
	PrepareRetransmit    time.Duration
	ViewChangeRetransmit time.Duration
	ViewChangeStatus     time.Duration // of one election
	Probe                time.Duration // between questions of a restarted node
	ProbeAttempts        int
	Repair               time.Duration // before another source is asked
}

// ClusterRebalance brings primaries back to where they belong after failures.
type ClusterRebalance struct {
	Enabled        bool
	MovesPerMinute int           // of one node
	Settled        time.Duration // a view that has not lasted so long is not ended
}

// ClusterAuth is how nodes prove that they belong to the cluster.
type ClusterAuth struct {
	Enabled              bool
	SharedSecret         string // at least 32 bytes
	PreviousSharedSecret string // accepted beside it
}

// ClusterTLS secures the links between nodes.
type ClusterTLS struct {
	Enabled                   bool
	SelfSigned                bool
	CertFile, KeyFile, CAFile string
}

// TakeFreePorts has every listener take a free port of the loopback interface, for
// servers that run beside others.
func (c *Config) TakeFreePorts() {
	const free = "127.0.0.1:0"
	c.TCP.Address, c.QUIC.Address, c.WebSocket.Address, c.HTTP.Address = free, free, free, free
}

// Default returns the compiled-in configuration, which is valid.
func Default() Config {
	var c Config
	for i := range keys {
		k := &keys[i]
		if k.class != active {
			continue
		}
		if err := setText(k.at(&c), k.def); err != nil {
			panic("config: default of " + k.name + ": " + err.Error())
		}
	}
	return c
}
