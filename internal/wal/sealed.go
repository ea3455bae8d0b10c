package wal

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zeebo/xxh3"

	"galgo/internal/cipher"
	"galgo/internal/vsr"
)

// With a vault the payload of a prepare, a reset and a floor is sealed, header and body
// together. All other kinds hold views, ops and numbers of files, and stay in the clear.
//
//	off  size  field
//	  0    16  checksum    XXH3-128 over all that follows
//	 16     8  key id
//	 24    24  nonce
//	 48     n  ciphertext  of prepare header and body
//	  …    16  tag         over the ciphertext, the node, the kind and the group
//
// The frame's checksum covers the first 16 bytes. So whether a record is torn or rotten is
// found out as without a key, by the same code; and one that is neither and does not open
// is refused, never cut.
const (
	sealedFlag     = 0x80 // in the kind of a frame
	sealedHead     = 16
	sealedOverhead = sealedHead + cipher.Overhead
)

var errSealedSum = errors.New("sealed payload does not match its checksum")

// secret reports whether records of the kind hold what a vault seals.
func (k Kind) secret() bool { return k == KindPrepare || k == KindReset || k == KindFloor }

// seals reports whether the log seals a record that it writes.
func (l *Log) seals(r *Record) bool { return l.o.Vault != nil && r.Kind.secret() }

// sealPayload fills payload with header and body, sealed. What stood there is of no account.
func (l *Log) sealPayload(payload []byte, r *Record) {
	text := payload[sealedHead+cipher.HeadSize:]
	r.Header.PutHeader(text)
	copy(text[vsr.HeaderSize:], r.Body)
	l.o.Vault.SealInPlace(payload[sealedHead:], cipher.KindRecord, uint64(r.Kind), uint64(r.Group))
	sum := xxh3.Hash128(payload[sealedHead:]).Bytes()
	copy(payload, sum[:])
}

// checkSealed compares the checksum of a sealed payload.
func checkSealed(payload []byte) error {
	if got := xxh3.Hash128(payload[sealedHead:]).Bytes(); string(got[:]) != string(payload[:sealedHead]) {
		return fmt.Errorf("%w: %x, want %x", errSealedSum, got, payload[:sealedHead])
	}
	return nil
}

// open appends to dst the payload of a record whose checksums hold. The error is one of
// the cipher's; that a record is in the clear where all are sealed is one, too.
func (f *frame) open(v *cipher.Vault, dst, payload []byte) ([]byte, error) {
	if f.sealed {
		return v.Open(dst, payload[sealedHead:], cipher.KindRecord, uint64(f.kind), uint64(f.group))
	}
	if v != nil {
		return nil, fmt.Errorf("%w: a %v of group %d", cipher.ErrClear, f.kind, f.group)
	}
	return payload, nil
}

// keyOf is the id of the key of a sealed payload.
func keyOf(payload []byte) cipher.ID {
	id, _ := cipher.IDOf(payload[sealedHead:])
	return id
}

// sealError makes the refusal of a record that is whole and does not open.
func sealError(file string, at int64, err error) *Error {
	next, kind := sealKind(err)
	if kind == nil {
		kind, next = cipher.ErrSealed, nextRestore
	}
	reason := strings.TrimLeft(strings.TrimPrefix(err.Error(), kind.Error()), ": ")
	return &Error{Kind: kind, File: file, Offset: at, Reason: reason, Next: next}
}

// sealKind is which of the cipher's errors one is, and what to do about it; nil if it is none.
func sealKind(err error) (next string, kind error) {
	switch {
	case errors.Is(err, cipher.ErrKeyMissing):
		return "nothing was changed; set system.encryption.enabled to true, and the key", cipher.ErrKeyMissing
	case errors.Is(err, cipher.ErrKeyUnknown):
		return "nothing was changed; add that key to system.encryption.older_keys", cipher.ErrKeyUnknown
	case errors.Is(err, cipher.ErrClear):
		return nextRestore, cipher.ErrClear
	case errors.Is(err, cipher.ErrSealed):
		return nextRestore, cipher.ErrSealed
	}
	return "", nil
}
