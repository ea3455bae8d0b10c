package client

import (
	"context"

	"galgo"
	"galgo/internal/wire"
)

// Topic is a topic and what it holds.
type Topic struct {
	ID              uint32
	Name            string
	CreatedAt       uint64 // µs
	PartitionsCount uint32
	MessageExpiry   uint64 // µs, or galgo.Never
	Compression     galgo.CompressionAlgorithm
	MaxSize         uint64 // bytes, or galgo.Never
	Size            uint64 // bytes
	MessagesCount   uint64
	// Options are those that its makers set, DefaultOptions all others.
	Options        []galgo.Header
	DefaultOptions []galgo.Header
}

// Partition is a partition of a topic.
type Partition struct {
	ID            uint32
	CreatedAt     uint64 // µs
	SegmentsCount uint32
	CurrentOffset uint64 // of the last message; 0 also if there is none
	Size          uint64 // bytes
	MessagesCount uint64
}

// TopicDetails is a topic with its partitions.
type TopicDetails struct {
	Topic
	Partitions []Partition
}

// TopicSpec says what a new topic should be.
type TopicSpec struct {
	Name       string
	Partitions uint32 // at most 1000
	// Options as TopicOption makes them; see DescribeOptions.
	Options []galgo.Header
}

// TopicOption is an option of a topic. Every option also takes text: "10 GiB" for a
// size, "7 days" for a time, "true", a number in digits.
func TopicOption(key string, value galgo.Value) galgo.Header {
	return galgo.Header{Key: galgo.StringValue(key), Value: value}
}

func topicOf(t wire.TopicInfo) Topic {
	explicit, _ := t.Options.Entries() // well formed, as it comes from a decoder
	derived, _ := t.DerivedOptions.Entries()
	return Topic{
		ID: t.ID, Name: t.Name, CreatedAt: t.CreatedAt, PartitionsCount: t.PartitionsCount,
		MessageExpiry: t.MessageExpiry, Compression: t.Compression, MaxSize: t.MaxTopicSize,
		Size: t.Size, MessagesCount: t.MessagesCount, Options: explicit, DefaultOptions: derived,
	}
}

func topicsOf(infos []wire.TopicInfo) []Topic {
	topics := make([]Topic, len(infos))
	for i := range infos {
		topics[i] = topicOf(infos[i])
	}
	return topics
}

func decodeTopic(payload []byte) (TopicDetails, error) {
	d, err := wire.DecodeTopicDetails(payload)
	if err != nil {
		return TopicDetails{}, err
	}
	t := TopicDetails{Topic: topicOf(d.TopicInfo), Partitions: make([]Partition, len(d.Partitions))}
	for i, p := range d.Partitions {
		t.Partitions[i] = Partition(p)
	}
	return t, nil
}

// Topics lists the topics of a stream by id. A stream that does not exist has none.
func (c *Client) Topics(ctx context.Context, stream galgo.Identifier) ([]Topic, error) {
	call := describe("list topics of stream", stream)
	if err := checkTarget(call, stream); err != nil {
		return nil, err
	}
	return query(ctx, c, call, wire.CommandGetTopics, wire.StreamRequest{Stream: stream}, func(payload []byte) ([]Topic, error) {
		infos, err := wire.DecodeTopics(payload)
		return topicsOf(infos), err
	})
}

// Topic reads a topic and its partitions. If there is no such topic or stream the
// error has CodeTopicIDNotFound.
func (c *Client) Topic(ctx context.Context, stream, topic galgo.Identifier) (TopicDetails, error) {
	call := describe("get topic", stream, "/", topic)
	if err := checkTarget(call, stream, topic); err != nil {
		return TopicDetails{}, err
	}
	return get(ctx, c, call, wire.CommandGetTopic, wire.TopicRequest{Stream: stream, Topic: topic}, galgo.CodeTopicIDNotFound, decodeTopic)
}

// CreateTopic makes a topic in a stream. A name that is taken is
// CodeTopicNameAlreadyExists.
func (c *Client) CreateTopic(ctx context.Context, stream galgo.Identifier, spec TopicSpec) (TopicDetails, error) {
	call := describe("create topic", stream, "/", spec.Name)
	if err := checkTarget(call, stream); err != nil {
		return TopicDetails{}, err
	}
	options, err := newTopicOptions(call, spec.Name, spec.Options)
	if err != nil {
		return TopicDetails{}, err
	}
	body := wire.CreateTopicRequest{Stream: stream, Partitions: spec.Partitions, Name: spec.Name, Options: options}
	return query(ctx, c, call, wire.CommandCreateTopic, body, decodeTopic)
}

// UpdateTopic gives a topic a name, which may be the one it has, and new values for
// those of its options that can change.
func (c *Client) UpdateTopic(ctx context.Context, stream, topic galgo.Identifier, name string, options ...galgo.Header) error {
	call := describe("update topic", stream, "/", topic)
	if err := checkTarget(call, stream, topic); err != nil {
		return err
	}
	encoded, err := newTopicOptions(call, name, options)
	if err != nil {
		return err
	}
	return c.change(ctx, call, wire.CommandUpdateTopic, wire.UpdateTopicRequest{Stream: stream, Topic: topic, Name: name, Options: encoded})
}

func newTopicOptions(call, name string, options []galgo.Header) (wire.Options, error) {
	if err := checkName(call, name); err != nil {
		return nil, err
	}
	encoded, err := wire.NewOptions(options)
	if err != nil {
		return nil, &Error{Call: call, Err: err}
	}
	return encoded, nil
}

// DeleteTopic removes a topic and everything in it.
func (c *Client) DeleteTopic(ctx context.Context, stream, topic galgo.Identifier) error {
	return c.changeTopic(ctx, "delete topic", wire.CommandDeleteTopic, stream, topic)
}

// PurgeTopic removes all messages and offsets of a topic; offsets start at 0 again.
func (c *Client) PurgeTopic(ctx context.Context, stream, topic galgo.Identifier) error {
	return c.changeTopic(ctx, "purge topic", wire.CommandPurgeTopic, stream, topic)
}

func (c *Client) changeTopic(ctx context.Context, verb string, command wire.Command, stream, topic galgo.Identifier) error {
	call := describe(verb, stream, "/", topic)
	if err := checkTarget(call, stream, topic); err != nil {
		return err
	}
	return c.changePartitions(ctx, call, command, wire.TopicRequest{Stream: stream, Topic: topic}, stream, topic)
}

// CreatePartitions adds partitions, 1..1000 at a time, at the end of a topic.
func (c *Client) CreatePartitions(ctx context.Context, stream, topic galgo.Identifier, count uint32) error {
	call := describe("create partitions of", stream, "/", topic)
	if err := checkTarget(call, stream, topic); err != nil {
		return err
	}
	body := wire.PartitionsRequest{Stream: stream, Topic: topic, Count: count}
	return c.changePartitions(ctx, call, wire.CommandCreatePartitions, body, stream, topic)
}

// DeletePartitions removes the last partitions of a topic, 1..1000 at a time, with
// all that is in them.
func (c *Client) DeletePartitions(ctx context.Context, stream, topic galgo.Identifier, count uint32) error {
	call := describe("delete partitions of", stream, "/", topic)
	if err := checkTarget(call, stream, topic); err != nil {
		return err
	}
	body := wire.PartitionsRequest{Stream: stream, Topic: topic, Count: count}
	return c.changePartitions(ctx, call, wire.CommandDeletePartitions, body, stream, topic)
}

// changePartitions runs a command after which a topic may have another number of
// partitions.
func (c *Client) changePartitions(ctx context.Context, call string, command wire.Command, body wire.Body, stream, topic galgo.Identifier) error {
	err := c.change(ctx, call, command, body)
	c.topics.forget(topicKey{stream, topic})
	return err
}

// DeleteSegments removes up to count of the oldest sealed segments of a partition.
func (c *Client) DeleteSegments(ctx context.Context, stream, topic galgo.Identifier, partition, count uint32) error {
	call := describe("delete segments of", stream, "/", topic, "/", partition)
	if err := checkTarget(call, stream, topic); err != nil {
		return err
	}
	return c.change(ctx, call, wire.CommandDeleteSegments,
		wire.DeleteSegmentsRequest{Stream: stream, Topic: topic, PartitionID: partition, Segments: count})
}
