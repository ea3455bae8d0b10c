package wire

import "galgo"

// StreamInfo is a stream in lists and of stream.create: [u32 id][u64 created at]
// [u32 topics][u64 size][u64 messages][name][options32].
type StreamInfo struct {
	ID            uint32
	CreatedAt     uint64 // µs
	TopicsCount   uint32
	Size          uint64 // bytes
	MessagesCount uint64
	Name          string
	Options       Options // aliases the body
}

// Append appends the stream: the payload of stream.create.
func (s StreamInfo) Append(b []byte) []byte {
	b = le.AppendUint64(le.AppendUint32(b, s.ID), s.CreatedAt)
	b = le.AppendUint32(b, s.TopicsCount)
	b = le.AppendUint64(le.AppendUint64(b, s.Size), s.MessagesCount)
	return appendBytes32(appendBytes8(b, s.Name), []byte(s.Options))
}

func (c *cursor) streamInfo() StreamInfo {
	return StreamInfo{
		ID: c.u32("stream id"), CreatedAt: c.u64("created at"), TopicsCount: c.u32("topics"),
		Size: c.u64("size"), MessagesCount: c.u64("messages"),
		Name: c.name("name"), Options: c.options32("stream options"),
	}
}

// AppendStreams appends the streams back to back, in the order of ids.
func AppendStreams(b []byte, streams []StreamInfo) []byte {
	for _, s := range streams {
		b = s.Append(b)
	}
	return b
}

// DecodeStreams reads streams to the end of the body.
func DecodeStreams(body []byte) ([]StreamInfo, error) {
	return decodeAll(body, "streams", (*cursor).streamInfo)
}

// TopicInfo is a topic in lists: [u32 id][u64 created at][u32 partitions]
// [u64 message expiry][u8 compression][u64 max size][u64 size][u64 messages][name]
// [options32 that the client set][options32 that the server filled in].
type TopicInfo struct {
	ID              uint32
	CreatedAt       uint64 // µs
	PartitionsCount uint32
	MessageExpiry   uint64 // µs
	Compression     galgo.CompressionAlgorithm
	MaxTopicSize    uint64 // bytes
	Size            uint64 // bytes
	MessagesCount   uint64
	Name            string
	Options         Options // aliases the body
	DerivedOptions  Options // aliases the body
}

const topicLeast = 4 + 8 + 4 + 8 + 1 + 8 + 8 + 8 + 2 + 4 + 4

// Append appends the topic.
func (t TopicInfo) Append(b []byte) []byte {
	b = le.AppendUint64(le.AppendUint32(b, t.ID), t.CreatedAt)
	b = le.AppendUint64(le.AppendUint32(b, t.PartitionsCount), t.MessageExpiry)
	b = le.AppendUint64(append(b, byte(t.Compression)), t.MaxTopicSize)
	b = le.AppendUint64(le.AppendUint64(b, t.Size), t.MessagesCount)
	b = appendBytes8(b, t.Name)
	return appendBytes32(appendBytes32(b, []byte(t.Options)), []byte(t.DerivedOptions))
}

func (c *cursor) topicInfo() TopicInfo {
	return TopicInfo{
		ID: c.u32("topic id"), CreatedAt: c.u64("created at"), PartitionsCount: c.u32("partitions"),
		MessageExpiry: c.u64("message expiry"), Compression: galgo.CompressionAlgorithm(c.u8("compression")),
		MaxTopicSize: c.u64("max topic size"), Size: c.u64("size"), MessagesCount: c.u64("messages"),
		Name: c.name("name"), Options: c.options32("topic options"), DerivedOptions: c.options32("derived options"),
	}
}

// AppendTopics appends [u32 count] and the topics, in the order of ids. It is the
// only list that has a count.
func AppendTopics(b []byte, topics []TopicInfo) []byte {
	b = le.AppendUint32(b, uint32(len(topics)))
	for _, t := range topics {
		b = t.Append(b)
	}
	return b
}

// DecodeTopics reads the body.
func DecodeTopics(body []byte) ([]TopicInfo, error) {
	c := read("topics", body)
	topics := c.topics(c.count("count", topicLeast))
	if err := c.end(); err != nil {
		return nil, err
	}
	return topics, nil
}

func (c *cursor) topics(n int) []TopicInfo {
	var topics []TopicInfo
	for i := 0; i < n && c.err == nil; i++ {
		topics = append(topics, c.topicInfo())
	}
	return topics
}

// StreamDetails answers stream.get: the stream, with TopicsCount set to their
// number, and its topics.
type StreamDetails struct {
	StreamInfo
	Topics []TopicInfo
}

// Append appends the body of the reply; TopicsCount is the length of Topics.
func (d StreamDetails) Append(b []byte) []byte {
	d.TopicsCount = uint32(len(d.Topics))
	b = d.StreamInfo.Append(b)
	for _, t := range d.Topics {
		b = t.Append(b)
	}
	return b
}

// DecodeStreamDetails reads the body of stream.get and stream.create. An empty one
// means that there is no such stream; callers look at that first.
func DecodeStreamDetails(body []byte) (StreamDetails, error) {
	c := read("stream", body)
	d := StreamDetails{StreamInfo: c.streamInfo()}
	if uint64(d.TopicsCount)*topicLeast > uint64(c.left()) {
		c.fail("topics", "more topics than bytes")
	}
	if c.err == nil {
		d.Topics = c.topics(int(d.TopicsCount))
	}
	if err := c.end(); err != nil {
		return StreamDetails{}, err
	}
	return d, nil
}

// PartitionInfo is a partition: [u32 id][u64 created at][u32 segments]
// [u64 current offset][u64 size][u64 messages].
type PartitionInfo struct {
	ID            uint32
	CreatedAt     uint64 // µs
	SegmentsCount uint32
	CurrentOffset uint64 // of the last committed message, 0 if there is none
	Size          uint64 // bytes
	MessagesCount uint64
}

const partitionSize = 40

// TopicDetails answers topic.get and topic.create: the topic, with
// PartitionsCount set to their number, and its partitions.
type TopicDetails struct {
	TopicInfo
	Partitions []PartitionInfo
}

// Append appends the body of the reply; PartitionsCount is the length of
// Partitions.
func (d TopicDetails) Append(b []byte) []byte {
	d.PartitionsCount = uint32(len(d.Partitions))
	b = d.TopicInfo.Append(b)
	for _, p := range d.Partitions {
		b = le.AppendUint64(le.AppendUint32(b, p.ID), p.CreatedAt)
		b = le.AppendUint64(le.AppendUint32(b, p.SegmentsCount), p.CurrentOffset)
		b = le.AppendUint64(le.AppendUint64(b, p.Size), p.MessagesCount)
	}
	return b
}

// DecodeTopicDetails reads the body. An empty one means that there is no such
// topic; callers look at that first.
func DecodeTopicDetails(body []byte) (TopicDetails, error) {
	c := read("topic", body)
	d := TopicDetails{TopicInfo: c.topicInfo()}
	if uint64(d.PartitionsCount)*partitionSize > uint64(c.left()) {
		c.fail("partitions", "more partitions than bytes")
	}
	for i := uint32(0); i < d.PartitionsCount && c.err == nil; i++ {
		d.Partitions = append(d.Partitions, PartitionInfo{
			ID: c.u32("partition id"), CreatedAt: c.u64("created at"), SegmentsCount: c.u32("segments"),
			CurrentOffset: c.u64("current offset"), Size: c.u64("size"), MessagesCount: c.u64("messages"),
		})
	}
	if err := c.end(); err != nil {
		return TopicDetails{}, err
	}
	return d, nil
}
