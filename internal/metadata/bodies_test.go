package metadata

import (
	"testing"

	"galgo"
	"galgo/internal/wire"
)

func createStreamBody(name string) []byte { return wire.CreateStreamRequest{Name: name}.Append(nil) }

func updateStreamBody(id galgo.Identifier, name string) []byte {
	return wire.UpdateStreamRequest{Stream: id, Name: name}.Append(nil)
}

// deleteStreamBody is also that of a purge.
func deleteStreamBody(id galgo.Identifier) []byte { return wire.StreamRequest{Stream: id}.Append(nil) }

func createTopicBody(stream galgo.Identifier, name string, partitions uint32, options ...galgo.Header) []byte {
	return wire.CreateTopicRequest{Stream: stream, Partitions: partitions, Name: name, Options: block(options)}.Append(nil)
}

func updateTopicBody(stream, topic galgo.Identifier, name string, options ...galgo.Header) []byte {
	return wire.UpdateTopicRequest{Stream: stream, Topic: topic, Name: name, Options: block(options)}.Append(nil)
}

// deleteTopicBody is also that of a purge.
func deleteTopicBody(stream, topic galgo.Identifier) []byte {
	return wire.TopicRequest{Stream: stream, Topic: topic}.Append(nil)
}

// partitionsBody is that of a create and of a delete.
func partitionsBody(stream, topic galgo.Identifier, count uint32) []byte {
	return wire.PartitionsRequest{Stream: stream, Topic: topic, Count: count}.Append(nil)
}

func createGroupBody(stream, topic galgo.Identifier, name string) []byte {
	return wire.CreateGroupRequest{Stream: stream, Topic: topic, Name: name}.Append(nil)
}

func deleteGroupBody(stream, topic, group galgo.Identifier) []byte {
	return wire.GroupRequest{Stream: stream, Topic: topic, Group: group}.Append(nil)
}

// block encodes options without asking whether they make sense.
func block(options []galgo.Header) wire.Options {
	b, err := wire.NewOptions(options)
	if err != nil {
		panic(err)
	}
	return b
}

func option(key string, value galgo.Value) galgo.Header {
	return galgo.Header{Key: galgo.StringValue(key), Value: value}
}

// id and name are identifiers by number and by name.
func id(n uint32) galgo.Identifier   { return galgo.NumericID(n) }
func name(s string) galgo.Identifier { return galgo.NamedID(s) }

// change reaches into the state, for what no operation can bring about.
func (r *rig) change(f func(*state)) {
	f(&r.m.s)
	r.m.view = nil
}

// addUser puts a user into the state under an id that no operation would give.
func (r *rig) addUser(id uint32, p *galgo.Permissions) {
	r.change(func(s *state) {
		s.putUser(&User{ID: id, Name: "user" + string(rune('a'+id)), Born: r.op, PasswordHash: "x", PasswordOp: r.op, Active: true, Permissions: p})
	})
}

// addToken puts a token of a user into the state, as if an op had made it.
func (r *rig) addToken(user uint32, name string, hash TokenHash, op, expiresAt uint64) {
	r.change(func(s *state) {
		old, _ := s.users.get(user)
		u := *old
		u.Tokens++
		s.users.set(user, &u)
		s.putToken(&Token{User: user, Name: name, Hash: hash, Op: op, ExpiresAt: expiresAt})
	})
}

func (r *rig) createStream(name string) {
	r.t.Helper()
	r.must(wire.OperationCreateStream, createStreamBody(name))
}

func (r *rig) createTopic(stream uint32, name string, partitions uint32, options ...galgo.Header) {
	r.t.Helper()
	r.must(wire.OperationCreateTopic, createTopicBody(id(stream), name, partitions, options...))
}

func (r *rig) createGroup(stream, topic uint32, name string) {
	r.t.Helper()
	r.must(wire.OperationCreateConsumerGroup, createGroupBody(id(stream), id(topic), name))
}

// topic returns a topic that is there.
func (r *rig) topic(stream, topic galgo.Identifier) *Topic {
	r.t.Helper()
	t, err := r.m.View().Topic(stream, topic)
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

func TestNewPartitionRecordIsThatOfTheWire(t *testing.T) {
	d := wire.TopicDetails{TopicInfo: wire.TopicInfo{Name: "t"}}
	head := len(d.Append(nil))
	d.Partitions = []wire.PartitionInfo{{ID: 3, CreatedAt: 77}}
	if got, want := appendNewPartition(nil, 3, 77), d.Append(nil)[head:]; string(got) != string(want) {
		t.Errorf("record %x, want %x", got, want)
	}
}
