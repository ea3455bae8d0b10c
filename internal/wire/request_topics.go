package wire

import "galgo"

// StreamRequest names a stream: get, delete and purge stream, list topics.
// [ident stream]
type StreamRequest struct{ Stream galgo.Identifier }

// Append appends the body of the request.
func (r StreamRequest) Append(b []byte) []byte { return appendIdentifier(b, r.Stream) }

// DecodeStreamRequest reads the body.
func DecodeStreamRequest(body []byte) (StreamRequest, error) {
	c := read("stream", body)
	r := StreamRequest{Stream: c.identifier("stream")}
	if c.err != nil {
		return StreamRequest{}, c.err
	}
	return r, nil
}

// CreateStreamRequest makes a stream: [name][options].
type CreateStreamRequest struct {
	Name    string
	Options Options // streams know no key
}

// Append appends the body of the request.
func (r CreateStreamRequest) Append(b []byte) []byte {
	return append(appendBytes8(b, r.Name), r.Options...)
}

// DecodeCreateStreamRequest reads the body.
func DecodeCreateStreamRequest(body []byte) (CreateStreamRequest, error) {
	c := read("create stream", body)
	r := CreateStreamRequest{Name: c.name("name"), Options: c.options()}
	if c.err != nil {
		return CreateStreamRequest{}, c.err
	}
	return r, nil
}

// UpdateStreamRequest renames a stream: [ident stream][name][options].
type UpdateStreamRequest struct {
	Stream  galgo.Identifier
	Name    string
	Options Options // streams know no key
}

// Append appends the body of the request.
func (r UpdateStreamRequest) Append(b []byte) []byte {
	b = appendBytes8(appendIdentifier(b, r.Stream), r.Name)
	return append(b, r.Options...)
}

// DecodeUpdateStreamRequest reads the body.
func DecodeUpdateStreamRequest(body []byte) (UpdateStreamRequest, error) {
	c := read("update stream", body)
	r := UpdateStreamRequest{Stream: c.identifier("stream"), Name: c.name("name"), Options: c.options()}
	if c.err != nil {
		return UpdateStreamRequest{}, c.err
	}
	return r, nil
}

// TopicRequest names a topic: get, delete and purge topic, list groups.
// [ident stream][ident topic]
type TopicRequest struct {
	Stream galgo.Identifier
	Topic  galgo.Identifier
}

// Append appends the body of the request.
func (r TopicRequest) Append(b []byte) []byte {
	return appendIdentifier(appendIdentifier(b, r.Stream), r.Topic)
}

// DecodeTopicRequest reads the body.
func DecodeTopicRequest(body []byte) (TopicRequest, error) {
	c := read("topic", body)
	r := TopicRequest{Stream: c.identifier("stream"), Topic: c.identifier("topic")}
	if c.err != nil {
		return TopicRequest{}, c.err
	}
	return r, nil
}

// CreateTopicRequest makes a topic: [ident stream][u32 partitions][name][options].
type CreateTopicRequest struct {
	Stream     galgo.Identifier
	Partitions uint32
	Name       string
	Options    Options // see ParseTopicOptions
}

// Append appends the body of the request.
func (r CreateTopicRequest) Append(b []byte) []byte {
	b = le.AppendUint32(appendIdentifier(b, r.Stream), r.Partitions)
	return append(appendBytes8(b, r.Name), r.Options...)
}

// DecodeCreateTopicRequest reads the body.
func DecodeCreateTopicRequest(body []byte) (CreateTopicRequest, error) {
	c := read("create topic", body)
	r := CreateTopicRequest{
		Stream:     c.identifier("stream"),
		Partitions: c.u32("partitions"),
		Name:       c.name("name"),
		Options:    c.options(),
	}
	if c.err != nil {
		return CreateTopicRequest{}, c.err
	}
	return r, nil
}

// UpdateTopicRequest changes a topic: [ident stream][ident topic][name][options].
type UpdateTopicRequest struct {
	Stream  galgo.Identifier
	Topic   galgo.Identifier
	Name    string  // always replaces the present one
	Options Options // see TopicOptions.Update
}

// Append appends the body of the request.
func (r UpdateTopicRequest) Append(b []byte) []byte {
	b = appendIdentifier(appendIdentifier(b, r.Stream), r.Topic)
	return append(appendBytes8(b, r.Name), r.Options...)
}

// DecodeUpdateTopicRequest reads the body.
func DecodeUpdateTopicRequest(body []byte) (UpdateTopicRequest, error) {
	c := read("update topic", body)
	r := UpdateTopicRequest{
		Stream:  c.identifier("stream"),
		Topic:   c.identifier("topic"),
		Name:    c.name("name"),
		Options: c.options(),
	}
	if c.err != nil {
		return UpdateTopicRequest{}, c.err
	}
	return r, nil
}

// PartitionsRequest adds partitions to a topic or removes the last ones:
// [ident stream][ident topic][u32 count].
type PartitionsRequest struct {
	Stream galgo.Identifier
	Topic  galgo.Identifier
	Count  uint32
}

// Append appends the body of the request.
func (r PartitionsRequest) Append(b []byte) []byte {
	b = appendIdentifier(appendIdentifier(b, r.Stream), r.Topic)
	return le.AppendUint32(b, r.Count)
}

// DecodePartitionsRequest reads the body.
func DecodePartitionsRequest(body []byte) (PartitionsRequest, error) {
	c := read("partitions", body)
	r := PartitionsRequest{Stream: c.identifier("stream"), Topic: c.identifier("topic"), Count: c.u32("count")}
	if c.err != nil {
		return PartitionsRequest{}, c.err
	}
	return r, nil
}

// DeleteSegmentsRequest removes the oldest sealed segments of a partition:
// [ident stream][ident topic][u32 partition][u32 segments].
type DeleteSegmentsRequest struct {
	Stream      galgo.Identifier
	Topic       galgo.Identifier
	PartitionID uint32
	Segments    uint32
}

// Append appends the body of the request.
func (r DeleteSegmentsRequest) Append(b []byte) []byte {
	b = appendIdentifier(appendIdentifier(b, r.Stream), r.Topic)
	return le.AppendUint32(le.AppendUint32(b, r.PartitionID), r.Segments)
}

// DecodeDeleteSegmentsRequest reads the body.
func DecodeDeleteSegmentsRequest(body []byte) (DeleteSegmentsRequest, error) {
	c := read("delete segments", body)
	r := DeleteSegmentsRequest{
		Stream:      c.identifier("stream"),
		Topic:       c.identifier("topic"),
		PartitionID: c.u32("partition"),
		Segments:    c.u32("segments"),
	}
	if c.err != nil {
		return DeleteSegmentsRequest{}, c.err
	}
	return r, nil
}
