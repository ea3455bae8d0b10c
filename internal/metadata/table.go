package metadata

import (
	"cmp"

	"galgo"
	"galgo/internal/wire"
)

// record is a value of the state that a snapshot holds.
type record interface {
	// size is how many bytes it takes there.
	size() int
}

// table is a cow of records that knows how many bytes they take in a snapshot.
type table[K cmp.Ordered, V record] struct {
	cow[K, V]
	bytes int
}

func newTable[K cmp.Ordered, V record]() table[K, V] { return table[K, V]{cow: newCow[K, V]()} }

func (t *table[K, V]) copied() table[K, V] { return table[K, V]{t.cow.copied(), t.bytes} }

func (t *table[K, V]) set(key K, value V) {
	old, replaced := t.m.Set(key, value)
	t.bytes += value.size()
	if replaced {
		t.bytes -= old.size()
	}
}

func (t *table[K, V]) delete(key K) {
	if old, ok := t.m.Delete(key); ok {
		t.bytes -= old.size()
	}
}

// stateSize is what EncodeState takes when there is nothing.
const stateSize = 1 + 4*8 + 1 + 4 + 4 + 4 + 4

// size is how many bytes EncodeState takes.
func (s *state) size() int {
	return stateSize + s.users.bytes + s.tokens.bytes + s.streams.bytes + s.topics.bytes + s.partitions.bytes + s.groups.bytes
}

func (u *User) size() int {
	return userSizeMin - 1 + len(u.Name) - 1 + len(u.PasswordHash) + u.PermissionsSize()
}

// PermissionsSize is about how many bytes the user's permissions take.
func (u *User) PermissionsSize() int {
	if u.Permissions == nil {
		return 0
	}
	return 4 + wire.PermissionsSize(u.Permissions)
}

func (t *Token) size() int     { return tokenSizeMin - 1 + len(t.Name) }
func (s *Stream) size() int    { return streamSizeMin - 1 + len(s.Name) }
func (p *Partition) size() int { return partitionSize }
func (g *ConsumerGroup) size() int {
	n := groupSizeMin - 1 + len(g.Name)
	for i := range g.Members {
		m := &g.Members[i]
		n += memberSizeMin + 4*len(m.Partitions) + revocationSize*len(m.Revoked)
	}
	return n
}
func (t *Topic) size() int {
	return topicSizeMin - topicOptionsSizeMin - 1 + len(t.Name) + len(t.Options.AppendState(nil))
}

func (c *Client) size() int {
	n := clientSizeMin
	for i := range c.Replies {
		n += replySizeMin + len(c.Replies[i].body)
	}
	return n
}

// within runs a request unless the state would outgrow what a checkpoint holds: it is
// taken back then. One that makes the state smaller is always run.
func (m *Machine) within(op wire.Operation, run func(call) result, c call) result {
	if m.s.size() < StateMax-growthMax && !growsWith(op) {
		return run(c)
	}
	before := m.s.copied()
	res := run(c)
	if n := m.s.size(); n <= StateMax || n <= before.size() {
		return res
	}
	m.s = before
	return rejected(fullCode(op))
}

// growsWith reports whether what a request adds to the state grows with what is there: a
// partition takes room in every consumer group that has members.
func growsWith(op wire.Operation) bool {
	return op == wire.OperationJoinConsumerGroup || op == wire.OperationCreatePartitionsWithAssignments
}

// fullCode is what a client is told when there is no room for what it asks.
func fullCode(op wire.Operation) galgo.Code {
	switch op {
	case wire.OperationCreateUser:
		return galgo.CodeUsersLimitReached
	case wire.OperationCreateToken:
		return galgo.CodePersonalAccessTokensLimitReached
	case wire.OperationCreateStream:
		return galgo.CodeTooManyStreams
	case wire.OperationCreateTopicWithAssignments:
		return galgo.CodeTooManyTopics
	case wire.OperationCreatePartitionsWithAssignments:
		return galgo.CodeTooManyPartitions
	}
	return galgo.CodeInvalidOptionValue
}
