package wire

import (
	"strconv"

	"galgo"
)

// Body is a request or reply that can be encoded.
type Body interface {
	// Append appends the bytes of the body to b.
	Append(b []byte) []byte
}

// SnapshotCompression is the method of a snapshot's ZIP entries.
type SnapshotCompression uint8

// The compression methods of snapshots.
const (
	SnapshotStored   SnapshotCompression = 1
	SnapshotDeflated SnapshotCompression = 2
	SnapshotBzip2    SnapshotCompression = 3
	SnapshotZstd     SnapshotCompression = 4
	SnapshotLzma     SnapshotCompression = 5
	SnapshotXz       SnapshotCompression = 6
)

// SnapshotType is an entry of a snapshot.
type SnapshotType uint8

// The entries of a snapshot. SnapshotAll stands alone.
const (
	SnapshotFilesystem   SnapshotType = 1
	SnapshotProcesses    SnapshotType = 2
	SnapshotResources    SnapshotType = 3
	SnapshotTest         SnapshotType = 4
	SnapshotServerLogs   SnapshotType = 5
	SnapshotServerConfig SnapshotType = 6
	SnapshotAll          SnapshotType = 100
)

// GetSnapshotRequest asks for a ZIP archive about the server: [u8 compression]
// [u8 count][u8 type]*.
type GetSnapshotRequest struct {
	Compression SnapshotCompression
	Types       []SnapshotType // at most 255
}

// Append appends the body of the request.
func (r GetSnapshotRequest) Append(b []byte) []byte {
	b = append(b, byte(r.Compression))
	types := make([]byte, len(r.Types))
	for i, t := range r.Types {
		types[i] = byte(t)
	}
	return appendBytes8(b, types)
}

// DecodeGetSnapshotRequest reads the body; unknown codes are refused, and
// SnapshotAll with others.
func DecodeGetSnapshotRequest(body []byte) (GetSnapshotRequest, error) {
	c := read("snapshot", body)
	r := GetSnapshotRequest{Compression: SnapshotCompression(c.u8("compression"))}
	if r.Compression < SnapshotStored || r.Compression > SnapshotXz {
		c.fail("compression", "unknown method "+strconv.Itoa(int(r.Compression)))
	}
	types := c.bytes8("types")
	for _, t := range types {
		kind := SnapshotType(t)
		known := kind >= SnapshotFilesystem && kind <= SnapshotServerConfig || kind == SnapshotAll && len(types) == 1
		if !known {
			c.fail("types", "unknown type "+strconv.Itoa(int(t))+", or all beside others")
		}
		r.Types = append(r.Types, kind)
	}
	if c.err != nil {
		return GetSnapshotRequest{}, c.err
	}
	return r, nil
}

// DescribeOptionsRequest asks for the options of a kind of thing: [u8 scope].
type DescribeOptionsRequest struct{ Scope galgo.OptionScope }

// Append appends the body of the request.
func (r DescribeOptionsRequest) Append(b []byte) []byte { return append(b, byte(r.Scope)) }

// DecodeDescribeOptionsRequest reads the body; an unknown scope is refused.
func DecodeDescribeOptionsRequest(body []byte) (DescribeOptionsRequest, error) {
	c := read("describe options", body)
	scope := galgo.OptionScope(c.u8("scope"))
	if scope < galgo.ScopeTopic || scope > galgo.ScopeUser {
		c.fail("scope", "unknown scope "+strconv.Itoa(int(scope)))
	}
	if c.err != nil {
		return DescribeOptionsRequest{}, c.err
	}
	return DescribeOptionsRequest{Scope: scope}, nil
}

// GetClientRequest asks for a connection: [u32 id], the number shown in lists.
type GetClientRequest struct{ ClientID uint32 }

// Append appends the body of the request.
func (r GetClientRequest) Append(b []byte) []byte { return le.AppendUint32(b, r.ClientID) }

// DecodeGetClientRequest reads the body.
func DecodeGetClientRequest(body []byte) (GetClientRequest, error) {
	c := read("get client", body)
	r := GetClientRequest{ClientID: c.u32("client id")}
	return r, c.err
}
