package wire

import "galgo"

// appendTarget writes what polls and offset requests start with.
func appendTarget(b []byte, consumer galgo.Consumer, stream, topic galgo.Identifier, p OptionalPartition) []byte {
	b = appendConsumer(b, consumer)
	b = appendIdentifier(appendIdentifier(b, stream), topic)
	return appendOptionalPartition(b, p)
}

// GetOffsetRequest asks for the stored offset of a consumer: [consumer]
// [ident stream][ident topic][u8 flag, u32 partition].
type GetOffsetRequest struct {
	Consumer  galgo.Consumer
	Stream    galgo.Identifier
	Topic     galgo.Identifier
	Partition OptionalPartition
}

// Append appends the body of the request.
func (r GetOffsetRequest) Append(b []byte) []byte {
	return appendTarget(b, r.Consumer, r.Stream, r.Topic, r.Partition)
}

// DecodeGetOffsetRequest reads the body. Servers answer an error with an empty
// body.
func DecodeGetOffsetRequest(body []byte) (GetOffsetRequest, error) {
	c := read("get consumer offset", body)
	r := GetOffsetRequest{
		Consumer:  c.consumer(),
		Stream:    c.identifier("stream"),
		Topic:     c.identifier("topic"),
		Partition: c.optionalPartition(),
	}
	if c.err != nil {
		return GetOffsetRequest{}, c.err
	}
	return r, nil
}

// StoreOffsetRequest stores the offset of a consumer: as GetOffsetRequest, then
// [u64 offset][u8 ack].
type StoreOffsetRequest struct {
	Consumer  galgo.Consumer
	Stream    galgo.Identifier
	Topic     galgo.Identifier
	Partition OptionalPartition
	Offset    uint64
	Ack       galgo.Ack
}

// Append appends the body of the request.
func (r StoreOffsetRequest) Append(b []byte) []byte {
	b = appendTarget(b, r.Consumer, r.Stream, r.Topic, r.Partition)
	return append(le.AppendUint64(b, r.Offset), byte(r.Ack))
}

// DecodeStoreOffsetRequest reads the body. Servers answer an error with
// CodeResourceNotFound.
func DecodeStoreOffsetRequest(body []byte) (StoreOffsetRequest, error) {
	c := read("store consumer offset", body)
	r := StoreOffsetRequest{
		Consumer:  c.consumer(),
		Stream:    c.identifier("stream"),
		Topic:     c.identifier("topic"),
		Partition: c.optionalPartition(),
		Offset:    c.u64("offset"),
		Ack:       c.ack(),
	}
	if c.err != nil {
		return StoreOffsetRequest{}, c.err
	}
	return r, nil
}

// DeleteOffsetRequest forgets the offset of a consumer: as GetOffsetRequest, then
// [u8 ack].
type DeleteOffsetRequest struct {
	Consumer  galgo.Consumer
	Stream    galgo.Identifier
	Topic     galgo.Identifier
	Partition OptionalPartition
	Ack       galgo.Ack
}

// Append appends the body of the request.
func (r DeleteOffsetRequest) Append(b []byte) []byte {
	return append(appendTarget(b, r.Consumer, r.Stream, r.Topic, r.Partition), byte(r.Ack))
}

// DecodeDeleteOffsetRequest reads the body. Servers answer an error with
// CodeResourceNotFound.
func DecodeDeleteOffsetRequest(body []byte) (DeleteOffsetRequest, error) {
	c := read("delete consumer offset", body)
	r := DeleteOffsetRequest{
		Consumer:  c.consumer(),
		Stream:    c.identifier("stream"),
		Topic:     c.identifier("topic"),
		Partition: c.optionalPartition(),
		Ack:       c.ack(),
	}
	if c.err != nil {
		return DeleteOffsetRequest{}, c.err
	}
	return r, nil
}
