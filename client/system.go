package client

import (
	"context"

	"galgo"
	"galgo/internal/wire"
)

// What servers tell of themselves. The fields are those of the protocol: times in
// µs since the epoch, durations in µs, sizes in bytes.
type (
	// Stats are the numbers of a server.
	Stats = wire.Stats
	// ClusterMetadata is the roster of a cluster.
	ClusterMetadata = wire.ClusterMetadata
	// ClusterNode is one node of it.
	ClusterNode = wire.ClusterNode
	// ClientInfo is a connection to a server.
	ClientInfo = wire.ClientInfo
	// ClientDetails is a connection and its groups.
	ClientDetails = wire.ClientDetails
	// SnapshotSection is a part of a snapshot, SnapshotMethod how it is packed.
	SnapshotSection = wire.SnapshotType
	SnapshotMethod  = wire.SnapshotCompression
	// OptionDescription describes an option that things of a scope can have.
	OptionDescription = wire.OptionDescription
)

// The sections of snapshots, and the methods that galgo's server has.
const (
	SnapshotFilesystem   = wire.SnapshotFilesystem
	SnapshotProcesses    = wire.SnapshotProcesses
	SnapshotResources    = wire.SnapshotResources
	SnapshotTest         = wire.SnapshotTest
	SnapshotServerLogs   = wire.SnapshotServerLogs
	SnapshotServerConfig = wire.SnapshotServerConfig
	SnapshotAll          = wire.SnapshotAll

	SnapshotStored   = wire.SnapshotStored
	SnapshotDeflated = wire.SnapshotDeflated
)

// UserIDNone is the user of a connection that has not signed in.
const UserIDNone = wire.UserIDNone

// Ping asks the server for a sign of life. It works without a sign-in.
func (c *Client) Ping(ctx context.Context) error {
	return c.change(ctx, "ping", wire.CommandPing, nil)
}

// Stats reads the server's numbers.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	return query(ctx, c, "stats", wire.CommandGetStats, nil, wire.DecodeStats)
}

// ClusterMetadata reads the roster.
func (c *Client) ClusterMetadata(ctx context.Context) (ClusterMetadata, error) {
	return query(ctx, c, "cluster metadata", wire.CommandGetClusterMetadata, nil, wire.DecodeClusterMetadata)
}

// Snapshot has the server pack diagnostics of itself into a ZIP archive. It makes one at
// a time, and leaves out what it cannot collect.
func (c *Client) Snapshot(ctx context.Context, method SnapshotMethod, sections ...SnapshotSection) ([]byte, error) {
	body := wire.GetSnapshotRequest{Compression: method, Types: sections}
	return query(ctx, c, "snapshot", wire.CommandGetSnapshot, body, func(b []byte) ([]byte, error) { return b, nil })
}

// DescribeOptions lists the options that things of a scope can have.
func (c *Client) DescribeOptions(ctx context.Context, scope galgo.OptionScope) ([]OptionDescription, error) {
	return query(ctx, c, "describe options", wire.CommandDescribeOptions, wire.DescribeOptionsRequest{Scope: scope}, wire.DecodeOptionDescriptions)
}

// Me reads how the server sees this client.
func (c *Client) Me(ctx context.Context) (ClientDetails, error) {
	return query(ctx, c, "me", wire.CommandGetMe, nil, wire.DecodeClientDetails)
}

// Clients lists the connections of the server that this client is connected to.
func (c *Client) Clients(ctx context.Context) ([]ClientInfo, error) {
	return query(ctx, c, "list clients", wire.CommandGetClients, nil, wire.DecodeClients)
}

// ClientByID reads one of them by its number. If there is none the error has
// CodeClientNotFound.
func (c *Client) ClientByID(ctx context.Context, id uint32) (ClientDetails, error) {
	return get(ctx, c, describe("get client", id), wire.CommandGetClient, wire.GetClientRequest{ClientID: id},
		galgo.CodeClientNotFound, wire.DecodeClientDetails)
}
