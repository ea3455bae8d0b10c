package metadata

import "galgo/internal/wire"

// Limits of the state (wire.md §8.2, storage.md §7.2). Every replica applies the
// same log, so a limit that Apply tests is part of the log's meaning and must not
// change without a version of it.
const (
	// StreamsMax is the number of stream ids: 0 .. StreamsMax-1.
	StreamsMax = 1 << 20
	// TopicsMax is the number of topic ids of one stream.
	TopicsMax = 1 << 12
	// PartitionsMax is the number of partition ids of one topic.
	PartitionsMax = 1_000_000
	// PartitionsPerRequestMax bounds one create or delete of partitions.
	PartitionsPerRequestMax = 1000
	// ConsumerGroupsMax is the number of consumer group ids of one topic over its
	// life: they are never reused, and are u32 on the wire.
	ConsumerGroupsMax = 1 << 32
	// ConsumerGroupsAtOnceMax is the number of consumer groups that one topic has at a time:
	// a change of its partitions deals them anew to the members of each.
	ConsumerGroupsAtOnceMax = 1 << 14
	// MembershipsMax is the number of consumer groups that one client is a member of at a
	// time: the end of its session deals the partitions of each anew.
	MembershipsMax = 1024
	// NameMax is the longest name of a stream, topic or group in bytes.
	NameMax = 255
	// UsersMax is the number of user ids: 0 .. UsersMax-1.
	UsersMax = 1 << 20
	// UsernameMin and UsernameMax bound a user name in bytes.
	UsernameMin = 3
	UsernameMax = 50
	// PasswordHashMax bounds an encoded password hash in bytes.
	PasswordHashMax = 512
	// PermissionsMax bounds the encoded permissions of a user in bytes: some seven
	// thousand topics.
	PermissionsMax = wire.PermissionsMax
	// TokensMax bounds the setting max_tokens_per_user, TokensDefault is its value when
	// nobody sets it.
	TokensMax     = 1 << 16
	TokensDefault = 100
	// TokensPerSweep is how many expired tokens one OperationSweepTokens removes.
	TokensPerSweep = 256
	// SessionsPerDeparture is how many sessions one OperationDepart detaches, and also about how
	// many memberships it ends.
	SessionsPerDeparture = 1024
	// ClientsMin and ClientsMax bound the setting clients_table_max,
	// ClientsDefault is its value when nobody sets it.
	ClientsMin     = 2
	ClientsMax     = 1 << 16
	ClientsDefault = 8192
	// RepliesMax is how many of its newest replies a session keeps; the reply to
	// its Register counts as one.
	RepliesMax = 5
	// ReplyMax bounds a kept reply in bytes, without the partition records that
	// Reply.Body makes up from their count.
	ReplyMax = 4096
	// resultErrorSize is the length of a reply that is a refusal.
	resultErrorSize = 12
	// StateMax bounds the encoded state in bytes, but for the client table: what would
	// make it larger is refused, whatever it is. ClientTableMax bounds the encoded client
	// table: replies beyond it are not kept. Together they fit into a snapshot file with
	// room to spare, or every replica would stop at its next checkpoint.
	StateMax       = 512 << 20
	ClientTableMax = 256 << 20
	// clientTableRest is what the largest table takes whose replies are all short.
	clientTableRest = ClientsMax * (clientSizeMin + RepliesMax*(replySizeMin+resultErrorSize))
	// growthMax is more than any one request adds to the state, but for those of which
	// growsWith is true.
	growthMax = 1 << 20
	// SnapshotMax is more than the two parts of a snapshot ever take.
	SnapshotMax = StateMax + growthMax + ClientTableMax + clientTableRest
)

// Ids of a partition are packed into one key, 20 bits for the stream, 12 for the
// topic and 20 for the partition.
const (
	topicBits     = 12
	partitionBits = 20
)

// These do not compile if the ids outgrow the key.
const (
	_ = uint(1<<topicBits - TopicsMax)
	_ = uint(1<<partitionBits - PartitionsMax)
	_ = uint(1<<(64-topicBits-partitionBits) - StreamsMax)
)
