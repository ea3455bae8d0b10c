package metadata

import (
	"galgo"
	"galgo/internal/wire"
)

// Stream is a named set of topics. Names are unique among streams.
type Stream struct {
	ID        uint32
	Name      string
	CreatedAt uint64 // µs since the Unix epoch
	// Topics counts the topics in it.
	Topics uint32
}

// Topic is a named list of partitions with the options they are kept under.
// Names are unique in a stream.
type Topic struct {
	Stream, ID uint32
	Name       string
	CreatedAt  uint64 // µs since the Unix epoch
	// Partitions counts them: their ids are 0 .. Partitions-1.
	Partitions uint32
	// ConsumerGroups counts those that there are, ConsumerGroupsAtOnceMax at most.
	ConsumerGroups uint32
	// NextConsumerGroup is the id of the next one to be made. It only grows, up to
	// ConsumerGroupsMax.
	NextConsumerGroup uint64
	// Options are what holds, and what clients sent for it.
	Options wire.TopicOptions
}

func (t *Topic) key() topicKey { return keyOfTopic(t.Stream, t.ID) }

// Partition is one log of messages, replicated by a consensus group of its own.
type Partition struct {
	Stream, Topic, ID uint32
	// Group is the id of its consensus group, never used for another partition.
	Group     uint64
	CreatedAt uint64 // µs since the Unix epoch
	// CreatedRevision is the metadata revision that made it: the incarnation of
	// its group.
	CreatedRevision uint64
	// PurgeGeneration counts its purges.
	PurgeGeneration uint64
	// DeletedBelow is the offset below which whole segments were asked to go since the
	// last purge; 0 if none were. DeletedUntil is the time of the last batch among them,
	// in µs: offsets are given again where power loss took the end of a topic in memory.
	DeletedBelow, DeletedUntil uint64
}

func (p *Partition) key() partitionKey { return keyOfTopic(p.Stream, p.Topic).partition(p.ID) }

// ConsumerGroup is a named set of members that share the partitions of a topic.
// Names are unique in a topic; ids are never reused while the topic lives.
type ConsumerGroup struct {
	Stream, Topic, ID uint32
	Name              string
	// Generation grows with every new assignment of partitions to members.
	Generation uint64
	// Members are in the order of their ids.
	Members []Member

	owners  []owner  // by partition; of a group in the state, for as long as it has members
	tenures []uint64 // of the owners
}

func (g *ConsumerGroup) key() groupKey { return keyOfTopic(g.Stream, g.Topic).group(g.ID) }

// User may log in. User 0 is root: it always exists and passes every check.
type User struct {
	ID        uint32
	Name      string
	CreatedAt uint64 // µs since the Unix epoch; 1 for root
	// Born is the op that made the user: it tells one from another that had its id
	// before, since ids are given again.
	Born uint64
	// PasswordHash is an encoded argon2id hash, and PasswordOp the op that set it.
	PasswordHash string
	PasswordOp   uint64
	Active       bool
	// SessionsFrom is the op that ended the user's sessions, but for Kept: only those
	// that were opened later hold. An edge, which has no part in the client table, tells
	// from this what is over.
	SessionsFrom uint64
	Kept         uint64
	// Permissions is nil for a user without any right but to log in. Streams and
	// topics are sorted by id.
	Permissions *galgo.Permissions
	// Tokens counts the personal access tokens.
	Tokens uint32
}

// Actor is the user as whom somebody acts outside the log: Born tells whether the
// user is still the one who signed in.
type Actor struct {
	User uint32
	Born uint64
}

// Actor returns what identifies the user for as long as it exists.
func (u *User) Actor() Actor { return Actor{u.ID, u.Born} }

// holds reports whether a session, by its number, is one of the user as it is now.
func (u *User) holds(session uint64) bool {
	return u.Active && (session > u.SessionsFrom || session == u.Kept && session != 0)
}

// Token is a personal access token: who has it may log in as its user, until it
// expires. Names are unique for a user. The state knows a hash of it only.
type Token struct {
	User uint32
	Name string
	Hash TokenHash
	// Op is the op that made it: it tells the token from another of its name.
	Op        uint64
	ExpiresAt uint64 // µs since the Unix epoch; 0: never
}

// TokenHash is the SHA-256 of a token as its owner types it. A token has some 400
// random bits, so nothing slower is needed to keep it from being guessed.
type TokenHash [32]byte

func (t *Token) key() tokenKey { return keyOfToken(t.User, t.Name) }

// expiredAt reports whether the token does not hold any more at a time in µs.
func (t *Token) expiredAt(now uint64) bool { return t.ExpiresAt != 0 && t.ExpiresAt <= now }

// RootUser is the id of the user made by Bootstrap.
const RootUser = 0

// rootCreatedAt is when root was created, in µs: the same on every cluster.
const rootCreatedAt = 1
