// Package galgo holds the vocabulary of a message-streaming system: identifiers,
// consumers, messages, permissions, topic options and error codes. It is values
// alone: no I/O, clock, goroutine or dependency beyond the standard library.
// The bytes that carry these values are the business of internal/wire.
//
// Times are microseconds since the Unix epoch, durations microseconds, sizes
// bytes, unless a name says otherwise.
package galgo

import "encoding/hex"

// NameMax bounds names of streams, topics, groups and tokens in bytes; the least
// is 1. Names are UTF-8, case-sensitive, and kept as received.
const NameMax = 255

// Bounds of user names and passwords in bytes.
const (
	UsernameMin = 3
	UsernameMax = 50
	PasswordMin = 3
	PasswordMax = 100
)

// Never is the expiry that no time reaches and the size that nothing exceeds.
const Never = ^uint64(0)

// ServerDefault in an expiry or a size asks for what the server would choose.
const ServerDefault = 0

// ClientID is what a client calls itself in its frames: random, never zero. It is
// neither a secret nor the number shown in lists of clients.
type ClientID [16]byte

// IsZero reports whether id names no client.
func (id ClientID) IsZero() bool { return id == ClientID{} }

// String is the id in hexadecimal, in the order of the wire.
func (id ClientID) String() string { return hex.EncodeToString(id[:]) }

// CompressionAlgorithm says how a topic's producers compress; the server keeps
// the word and does nothing with it.
type CompressionAlgorithm uint8

// The compression algorithms of a topic.
const (
	CompressionNone CompressionAlgorithm = 1
	CompressionGzip CompressionAlgorithm = 2
)

// String is the word of the topic option.
func (a CompressionAlgorithm) String() string {
	switch a {
	case CompressionNone:
		return "none"
	case CompressionGzip:
		return "gzip"
	}
	return "unknown"
}

// UserStatus tells whether a user may sign in.
type UserStatus uint8

// The states of a user.
const (
	UserActive   UserStatus = 1
	UserInactive UserStatus = 2
)

// String is the status in a word.
func (s UserStatus) String() string {
	switch s {
	case UserActive:
		return "active"
	case UserInactive:
		return "inactive"
	}
	return "unknown"
}

// Ack says when a write of an offset is answered.
type Ack uint8

// The ways to acknowledge. AckNone asks the primary to apply at once and answer;
// AckQuorum to replicate first.
const (
	AckNone   Ack = 0
	AckQuorum Ack = 1
)
