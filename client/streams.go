package client

import (
	"context"

	"galgo"
	"galgo/internal/wire"
)

// Stream is a stream and what it holds.
type Stream struct {
	ID            uint32
	Name          string
	CreatedAt     uint64 // µs
	TopicsCount   uint32
	Size          uint64 // bytes
	MessagesCount uint64
}

// StreamDetails is a stream with its topics.
type StreamDetails struct {
	Stream
	Topics []Topic
}

func streamOf(s wire.StreamInfo) Stream {
	return Stream{
		ID: s.ID, Name: s.Name, CreatedAt: s.CreatedAt, TopicsCount: s.TopicsCount,
		Size: s.Size, MessagesCount: s.MessagesCount,
	}
}

func decodeStream(payload []byte) (StreamDetails, error) {
	d, err := wire.DecodeStreamDetails(payload)
	if err != nil {
		return StreamDetails{}, err
	}
	return StreamDetails{Stream: streamOf(d.StreamInfo), Topics: topicsOf(d.Topics)}, nil
}

// Streams lists all streams by id.
func (c *Client) Streams(ctx context.Context) ([]Stream, error) {
	return query(ctx, c, "list streams", wire.CommandGetStreams, nil, func(payload []byte) ([]Stream, error) {
		infos, err := wire.DecodeStreams(payload)
		streams := make([]Stream, len(infos))
		for i := range infos {
			streams[i] = streamOf(infos[i])
		}
		return streams, err
	})
}

// Stream reads a stream and its topics. If there is none the error has
// CodeStreamIDNotFound.
func (c *Client) Stream(ctx context.Context, stream galgo.Identifier) (StreamDetails, error) {
	name := describe("get stream", stream)
	if err := checkTarget(name, stream); err != nil {
		return StreamDetails{}, err
	}
	return get(ctx, c, name, wire.CommandGetStream, wire.StreamRequest{Stream: stream}, galgo.CodeStreamIDNotFound, decodeStream)
}

// CreateStream makes a stream. A name that is taken is CodeStreamNameAlreadyExists.
func (c *Client) CreateStream(ctx context.Context, name string) (Stream, error) {
	call := describe("create stream", name)
	if err := checkName(call, name); err != nil {
		return Stream{}, err
	}
	d, err := query(ctx, c, call, wire.CommandCreateStream, wire.CreateStreamRequest{Name: name}, decodeStream)
	return d.Stream, err
}

// UpdateStream gives a stream another name.
func (c *Client) UpdateStream(ctx context.Context, stream galgo.Identifier, name string) error {
	call := describe("update stream", stream)
	if err := checkTarget(call, stream); err != nil {
		return err
	}
	if err := checkName(call, name); err != nil {
		return err
	}
	return c.change(ctx, call, wire.CommandUpdateStream, wire.UpdateStreamRequest{Stream: stream, Name: name})
}

// DeleteStream removes a stream and everything in it.
func (c *Client) DeleteStream(ctx context.Context, stream galgo.Identifier) error {
	return c.changeStream(ctx, "delete stream", wire.CommandDeleteStream, stream)
}

// PurgeStream removes all messages and offsets of a stream; its topics stay.
func (c *Client) PurgeStream(ctx context.Context, stream galgo.Identifier) error {
	return c.changeStream(ctx, "purge stream", wire.CommandPurgeStream, stream)
}

func (c *Client) changeStream(ctx context.Context, verb string, command wire.Command, stream galgo.Identifier) error {
	call := describe(verb, stream)
	if err := checkTarget(call, stream); err != nil {
		return err
	}
	return c.change(ctx, call, command, wire.StreamRequest{Stream: stream})
}
