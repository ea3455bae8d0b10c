package client

import (
	"context"

	"galgo"
	"galgo/internal/wire"
)

// Offset is how far a consumer has come in a partition.
type Offset struct {
	PartitionID uint32
	Current     uint64 // of the last message of the partition
	Stored      uint64 // of the last message that the consumer is done with
}

// Offset reads the offset of a consumer; found is false when none is stored.
func (c *Client) Offset(ctx context.Context, consumer galgo.Consumer, stream, topic galgo.Identifier, partition uint32) (offset Offset, found bool, err error) {
	call := describe("get offset of", consumer, " in ", stream, "/", topic, "/", partition)
	if err := checkTarget(call, consumer.ID, stream, topic); err != nil {
		return Offset{}, false, err
	}
	body := wire.GetOffsetRequest{Consumer: consumer, Stream: stream, Topic: topic, Partition: wire.Partition(partition)}
	offset, err = query(ctx, c, call, wire.CommandGetConsumerOffset, body, func(payload []byte) (Offset, error) {
		if found = len(payload) > 0; !found {
			return Offset{}, nil
		}
		o, err := wire.DecodeConsumerOffset(payload)
		return Offset{PartitionID: o.PartitionID, Current: o.CurrentOffset, Stored: o.StoredOffset}, err
	})
	return offset, found && err == nil, err
}

// StoreOffset notes that a consumer is done with all messages up to offset, which
// may also be an earlier one than is stored. An offset that no message has yet is
// CodeInvalidOffset.
func (c *Client) StoreOffset(ctx context.Context, consumer galgo.Consumer, stream, topic galgo.Identifier, partition uint32, offset uint64) error {
	call := describe("store offset of", consumer, " in ", stream, "/", topic, "/", partition)
	if err := checkTarget(call, consumer.ID, stream, topic); err != nil {
		return err
	}
	return c.change(ctx, call, wire.CommandStoreConsumerOffset, wire.StoreOffsetRequest{
		Consumer: consumer, Stream: stream, Topic: topic, Partition: wire.Partition(partition), Offset: offset, Ack: galgo.AckQuorum,
	})
}

// DeleteOffset forgets the offset of a consumer. If none is stored the error has
// CodeConsumerOffsetNotFound.
func (c *Client) DeleteOffset(ctx context.Context, consumer galgo.Consumer, stream, topic galgo.Identifier, partition uint32) error {
	call := describe("delete offset of", consumer, " in ", stream, "/", topic, "/", partition)
	if err := checkTarget(call, consumer.ID, stream, topic); err != nil {
		return err
	}
	k := c.newCall(call, wire.CommandDeleteConsumerOffset, wire.DeleteOffsetRequest{
		Consumer: consumer, Stream: stream, Topic: topic, Partition: wire.Partition(partition), Ack: galgo.AckQuorum,
	})
	_, err := c.do(ctx, k)
	if refused(err, galgo.CodeConsumerOffsetNotFound) && k.doubtful {
		return nil // an earlier round of this very call has deleted it
	}
	return err
}
