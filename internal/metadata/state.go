package metadata

import (
	"encoding/binary"

	"galgo"
)

// state is everything the log of the metadata group has decided. All maps are
// ordered, and all values in them are immutable, so a state is copied in O(1).
//
// The maps below the line are indexes: they follow from the others and are not
// part of a snapshot.
type state struct {
	applied   uint64 // op of the last input; 0 before the first
	timestamp uint64 // µs, of the last input
	settings  Settings
	// rooted is set by Bootstrap: before it there is no user and no session.
	rooted bool
	// revision grows with every change in the shape of partitions and groups
	// (storage.md §7.3): whoever derives something from that shape can skip its
	// work while it stands still.
	revision uint64
	// nextGroup is the id that the next partition's group gets; from 1, never
	// given out twice.
	nextGroup uint64

	users      table[uint32, *User]
	tokens     table[tokenKey, *Token]
	streams    table[uint32, *Stream]
	topics     table[topicKey, *Topic]
	partitions table[partitionKey, *Partition]
	groups     table[groupKey, *ConsumerGroup]
	clients    table[uint32, *Client] // by slot

	userNames   cow[string, uint32]
	tokenHashes cow[string, tokenKey]
	expiries    cow[string, tokenKey] // of tokens that expire, by expiryKey
	streamNames cow[string, uint32]
	topicNames  cow[string, uint32] // by topicName
	groupNames  cow[string, uint32] // by groupName
	groupOwners cow[uint64, partitionKey]
	clientIDs   cow[string, uint32] // client id to slot
	attached    cow[string, uint32] // slots of sessions that have a connection, by attachedKey
	memberships cow[string, groupKey]
	revoking    cow[groupKey, struct{}] // groups with a partition on its way to another member
}

// Settings are the settings that must agree on all nodes, because the outcome of
// an operation depends on them. They change by the operation Configure only.
type Settings struct {
	// ClientsMax bounds the client table: ClientsMin .. ClientsMax.
	ClientsMax uint32
	// TokensMax bounds the personal access tokens of a user, 0 .. TokensMax.
	TokensMax uint32
}

type (
	// topicKey is stream<<12 | topic: topics in the order (stream, id).
	topicKey uint64
	// partitionKey is topicKey<<20 | partition.
	partitionKey uint64
	// groupKey is topicKey<<32 | consumer group.
	groupKey uint64
	// tokenKey is the user, big endian, and the name: tokens in the order (user, name).
	tokenKey string
)

func keyOfTopic(stream, topic uint32) topicKey {
	return topicKey(stream)<<topicBits | topicKey(topic)
}

func (k topicKey) topic() uint32 { return uint32(k & (1<<topicBits - 1)) }

// topicsOf is the range of the keys of a stream's topics.
func topicsOf(stream uint32) (from, to topicKey) {
	return keyOfTopic(stream, 0), keyOfTopic(stream+1, 0)
}

func (k topicKey) partition(id uint32) partitionKey {
	return partitionKey(k)<<partitionBits | partitionKey(id)
}

// partitions is the range of the keys of a topic's partitions.
func (k topicKey) partitions() (from, to partitionKey) { return k.partition(0), (k + 1).partition(0) }

func (k topicKey) group(id uint32) groupKey { return groupKey(k)<<32 | groupKey(id) }

// groups is the range of the keys of a topic's consumer groups.
func (k topicKey) groups() (from, to groupKey) { return k.group(0), (k + 1).group(0) }

// topicName is the key of a topic's name, unique in its stream.
func topicName(stream uint32, name string) string {
	return string(binary.BigEndian.AppendUint32(nil, stream)) + name
}

// groupName is the key of a consumer group's name, unique in its topic.
func groupName(topic topicKey, name string) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(topic))) + name
}

func keyOfToken(user uint32, name string) tokenKey {
	return tokenKey(binary.BigEndian.AppendUint32(nil, user)) + tokenKey(name)
}

// tokensOf is the range of the keys of a user's tokens.
func tokensOf(user uint32) (from, to tokenKey) {
	return keyOfToken(user, ""), keyOfToken(user+1, "")
}

// expiryKey orders tokens by when they expire.
func expiryKey(t *Token) string {
	return string(binary.BigEndian.AppendUint64(nil, t.ExpiresAt)) + string(t.key())
}

func newState() state {
	return state{
		nextGroup:   1,
		users:       newTable[uint32, *User](),
		tokens:      newTable[tokenKey, *Token](),
		streams:     newTable[uint32, *Stream](),
		topics:      newTable[topicKey, *Topic](),
		partitions:  newTable[partitionKey, *Partition](),
		groups:      newTable[groupKey, *ConsumerGroup](),
		clients:     newTable[uint32, *Client](),
		userNames:   newCow[string, uint32](),
		tokenHashes: newCow[string, tokenKey](),
		expiries:    newCow[string, tokenKey](),
		streamNames: newCow[string, uint32](),
		topicNames:  newCow[string, uint32](),
		groupNames:  newCow[string, uint32](),
		groupOwners: newCow[uint64, partitionKey](),
		clientIDs:   newCow[string, uint32](),
		attached:    newCow[string, uint32](),
		memberships: newCow[string, groupKey](),
		revoking:    newCow[groupKey, struct{}](),
	}
}

func (s *state) copied() state {
	c := *s
	c.users = s.users.copied()
	c.tokens = s.tokens.copied()
	c.streams = s.streams.copied()
	c.topics = s.topics.copied()
	c.partitions = s.partitions.copied()
	c.groups = s.groups.copied()
	c.clients = s.clients.copied()
	c.userNames = s.userNames.copied()
	c.tokenHashes = s.tokenHashes.copied()
	c.expiries = s.expiries.copied()
	c.streamNames = s.streamNames.copied()
	c.topicNames = s.topicNames.copied()
	c.groupNames = s.groupNames.copied()
	c.groupOwners = s.groupOwners.copied()
	c.clientIDs = s.clientIDs.copied()
	c.attached = s.attached.copied()
	c.memberships = s.memberships.copied()
	c.revoking = s.revoking.copied()
	return c
}

func (s *state) client(id galgo.ClientID) (*Client, bool) {
	slot, ok := s.clientIDs.get(string(id[:]))
	if !ok {
		return nil, false
	}
	return s.clients.get(slot)
}
