// Package superblock keeps the small record that names what this node is and
// what it has promised: the view it may not forget, and the checkpoint it starts
// from. A replica that forgets its view can vote twice and let a quorum elect a
// shorter log, so the record is durable before any message that reveals a view.
//
// The record is opaque bytes to a Store; for galgo it is an encoded State. What
// is found at start has three outcomes and no fourth: Empty (never written),
// Present, Unreadable (bytes exist that cannot be trusted: do not start).
//
// The store of this package is two files, superblock.a and superblock.b, each of
// one record, written in turn by replacing the one that does not hold the newest
// record. A rename is atomic, so a crash never leaves half a record in a slot:
// bytes that do not verify have rotted, and may have been the newer record.
// Therefore a damaged slot beside a good one is Unreadable too, and such a store
// refuses to write, so that both slots stay as evidence.
//
// The file FORMAT at the root of the data directory (Identity) says whose
// directory it is, before anything else in it is read. Format writes it last:
// where it exists the first superblock was written, so an empty superblock
// beside it is a lost one.
package superblock

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// PayloadMax is the largest payload of a record, in bytes.
const PayloadMax = 4096

// Sentinel errors of a Store.
var (
	// ErrPayload: a payload above PayloadMax was to be written.
	ErrPayload = errors.New("superblock: payload is above the limit")
	// ErrDegraded: the store opened as Unreadable and takes no writes.
	ErrDegraded = errors.New("superblock: store is unreadable and keeps its files as they are")
	// ErrUnreadable is matched by every UnreadableError.
	ErrUnreadable = errors.New("superblock: unreadable")
	// ErrSequence: the sequence number is at its end, which no writing can
	// reach: the record was made by something else.
	ErrSequence = errors.New("superblock: sequence number exhausted")
)

// Store holds the newest record. It has one owner, who makes one call at a time:
// two overlapping writes would fork the sequence, so the second panics.
type Store interface {
	// Latest returns what was found when the store was opened or, after the
	// first successful Write, what was last written.
	Latest() Outcome
	// Write makes payload durable as the newest record, at most PayloadMax
	// bytes. After an error the former record is still the newest that counts,
	// and Write may be called again, with the same payload or another.
	Write(payload []byte) error
}

// Kind is one of the three outcomes of reading.
type Kind uint8

const (
	// Empty: nothing was ever written.
	Empty Kind = iota
	// Present: Payload is the newest record.
	Present
	// Unreadable: there are bytes that cannot be trusted.
	Unreadable
)

// String returns the lower-case name of the kind.
func (k Kind) String() string {
	switch k {
	case Empty:
		return "empty"
	case Present:
		return "present"
	case Unreadable:
		return "unreadable"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Outcome is what the slots of a store amount to.
type Outcome struct {
	Kind     Kind
	Payload  []byte // Present: the newest record's; else nil
	Sequence uint64 // Present: its number, from 1; else 0
	// Version is the format of an unreadable slot when that is the reason, the
	// highest if there are two; only if VersionKnown.
	Version      uint16
	VersionKnown bool
	// Slots describes superblock.a and superblock.b, for people and tools.
	Slots [2]Slot
}

// Err returns nil unless the outcome is Unreadable, and then an
// *UnreadableError for the store in dir.
func (o Outcome) Err(dir string) error {
	if o.Kind != Unreadable {
		return nil
	}
	return &UnreadableError{Dir: dir, Version: o.Version, VersionKnown: o.VersionKnown, Slots: o.Slots}
}

// UnreadableError refuses to start from a superblock. It matches ErrUnreadable.
type UnreadableError struct {
	Dir          string
	Version      uint16 // the unknown format version, if VersionKnown
	VersionKnown bool
	Slots        [2]Slot
}

// Error names both files with what is wrong in each, and the next step.
func (e *UnreadableError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "superblock: unreadable: ")
	for i, s := range e.Slots {
		fmt.Fprintf(&b, "%s: %s; ", path.Join(e.Dir, slotNames[i]), s)
	}
	if e.VersionKnown {
		fmt.Fprintf(&b, "it was written by a version of galgo that is not this one: start with that one")
	} else {
		fmt.Fprintf(&b, "the damaged one may be the newer, so nothing was changed: "+
			"check the device, keep a copy of both files, and rebuild this replica from its peers or restore a backup")
	}
	return b.String()
}

// Is matches ErrUnreadable.
func (e *UnreadableError) Is(target error) bool { return target == ErrUnreadable }
