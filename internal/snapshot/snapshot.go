// Package snapshot keeps checkpoints: the state of a machine at an op, in one
// file that is written whole or not at all, and verified before a byte of it is
// decoded. Both planes use the same container; what is in its sections is the
// business of the machines.
//
// A checkpoint is complete only with its pairing. The order, never changed: the
// file is durable (Store.Write), then the superblock that names its checksum,
// then what it replaces is freed (the log's prefix, and Store.Prune). Equal
// states give equal bytes and so equal checksums on every replica, if the
// machine sorts what it encodes and leaves out what is local to a node.
package snapshot

import (
	"encoding/hex"
	"errors"
	"fmt"
)

const (
	// FormatVersion is the version of the container, SealedVersion that of one whose
	// sections are sealed.
	FormatVersion = 1
	SealedVersion = 2
	// SectionsMax bounds the sections of a file.
	SectionsMax = 1024
	// SizeMax bounds a whole file in bytes: it is read into memory.
	SizeMax = 1 << 30
)

// Sum is the checkpoint checksum: XXH3-128 over a whole file but its last 16
// bytes, which hold it (high half first, as Hash128.Bytes gives it). The
// superblock pairs with it.
type Sum [16]byte

// String shows the first four bytes.
func (s Sum) String() string { return hex.EncodeToString(s[:4]) }

// Header says what a file is a checkpoint of.
type Header struct {
	Cluster   [16]byte
	Group     uint64 // of the metadata plane the group, of the partition plane the shard
	Op        uint64 // the last op (or log position) whose effects are inside
	CreatedAt uint64 // µs since the Unix epoch, from the log and not from a clock
}

// Section is a part of the state that is encoded and versioned on its own.
type Section struct {
	Kind    uint32
	Version uint32
	// Data is written back to back. A section that was read has one element.
	Data [][]byte
}

// Size returns the length of the section's data in bytes.
func (s *Section) Size() uint64 {
	var n uint64
	for _, b := range s.Data {
		n += uint64(len(b))
	}
	return n
}

// Snapshot is a file that was read and verified.
type Snapshot struct {
	Name string // of the file
	Header
	Sections []Section // as written, in that order
	Sum      Sum
	closed   bool // the data of the sections are sealed
}

// Section returns the data of the first section of a kind. It fails with
// ErrNoSection if there is none, and with a *VersionError if it has another
// version than the one that the caller decodes.
func (s *Snapshot) Section(kind, version uint32) ([]byte, error) {
	if s.closed {
		panic(fmt.Sprintf("snapshot: %s: section of kind %d is asked for before the file is opened", s.Name, kind))
	}
	for i := range s.Sections {
		sec := &s.Sections[i]
		if sec.Kind != kind {
			continue
		}
		if sec.Version != version {
			return nil, &VersionError{Name: s.Name, Part: fmt.Sprintf("section %d (kind %d)", i, kind), Found: sec.Version, Expected: version}
		}
		return sec.Data[0], nil
	}
	return nil, fmt.Errorf("%w: %s: kind %d; %s", ErrNoSection, s.Name, kind, stepRestore)
}

// CheckOwner returns a *ForeignError when the file is a checkpoint of another
// cluster or group.
func (s *Snapshot) CheckOwner(cluster [16]byte, group uint64) error {
	switch {
	case s.Cluster != cluster:
		return &ForeignError{s.Name, "cluster", hex.EncodeToString(cluster[:]), hex.EncodeToString(s.Cluster[:])}
	case s.Group != group:
		return &ForeignError{s.Name, "group", fmt.Sprint(group), fmt.Sprint(s.Group)}
	}
	return nil
}

// Sentinel errors. The typed errors below match them.
var (
	// ErrNotASnapshot: the file does not begin with the magic.
	ErrNotASnapshot = errors.New("snapshot: not a snapshot file")
	// ErrVersion is matched by VersionError.
	ErrVersion = errors.New("snapshot: unsupported format version")
	// ErrTruncated is matched by TruncatedError.
	ErrTruncated = errors.New("snapshot: truncated")
	// ErrChecksum is matched by ChecksumError.
	ErrChecksum = errors.New("snapshot: checksum mismatch")
	// ErrMalformed: the checksums are right and the structure is not, or there
	// are bytes after the end: no galgo wrote this.
	ErrMalformed = errors.New("snapshot: malformed")
	// ErrLimit: above SectionsMax or SizeMax.
	ErrLimit = errors.New("snapshot: above the limit")
	// ErrNoSection: a section that the reader needs is missing.
	ErrNoSection = errors.New("snapshot: section is missing")
	// ErrForeign is matched by ForeignError.
	ErrForeign = errors.New("snapshot: belongs to another group")
)

const (
	stepRestore = "restore the file from a copy, or rebuild this replica from its peers"
	stepVersion = "start the version of galgo that wrote this data directory"
)

// VersionError: the container, or a section, has a version that this galgo does
// not read. It is found before anything is decoded.
type VersionError struct {
	Name            string // of the file
	Part            string // "container", or which section
	Found, Expected uint32
}

// Error names file, part, both versions and the next step.
func (e *VersionError) Error() string {
	return fmt.Sprintf("snapshot: %s: %s has format version %d, this galgo reads %d; %s", e.Name, e.Part, e.Found, e.Expected, stepVersion)
}

// Is matches ErrVersion.
func (e *VersionError) Is(target error) bool { return target == ErrVersion }

// TruncatedError: the file is shorter than its header says, or has no whole
// header.
type TruncatedError struct {
	Name       string
	Size, Want int64 // bytes
}

// Error names the file, both sizes and the next step.
func (e *TruncatedError) Error() string {
	return fmt.Sprintf("snapshot: %s: truncated: %d bytes of %d; %s", e.Name, e.Size, e.Want, stepRestore)
}

// Is matches ErrTruncated.
func (e *TruncatedError) Is(target error) bool { return target == ErrTruncated }

// ChecksumError: bytes of the file changed after they were written.
type ChecksumError struct {
	Name        string
	Part        string // "header", "file", or which section
	Found, Want string // hex: computed over the bytes, and stored
}

// Error names file, part, both checksums and the next step.
func (e *ChecksumError) Error() string {
	return fmt.Sprintf("snapshot: %s: %s has checksum %s, the file says %s; check the device, and %s", e.Name, e.Part, e.Found, e.Want, stepRestore)
}

// Is matches ErrChecksum.
func (e *ChecksumError) Is(target error) bool { return target == ErrChecksum }

// ForeignError names the field in which a file belongs to something else.
type ForeignError struct{ Name, Field, Expected, Found string }

// Error names file, field, both values and the next step.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("snapshot: %s: %s is %s, want %s; it was put there from another data directory: %s", e.Name, e.Field, e.Found, e.Expected, stepRestore)
}

// Is matches ErrForeign.
func (e *ForeignError) Is(target error) bool { return target == ErrForeign }
