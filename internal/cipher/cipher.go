// Package cipher seals what a node keeps on its disk: AES-256-GCM under a key that the
// operator holds. It knows bytes, keys and their ids, and no file.
//
// # Sealed bytes
//
//	off  size  field
//	  0     8  key id      which key opens it
//	  8    24  nonce       random
//	 32     n  ciphertext  as long as what was sealed
//	  …    16  tag         over the ciphertext and what it is about
//
// The first half of the nonce makes a key of its own from the master key, the second
// is the nonce of GCM under it: XAES-256-GCM (c2sp.org/XAES-256-GCM). So nonces may
// be random: after 2^80 of them under one key the chance that two were equal is still
// 2^-32. They depend on no counter, place or file, and therefore on nothing that a
// crash, a recycled file, a rewritten place or a restored copy could set back.
//
// What sealed bytes are about is named when they are sealed and when they are opened,
// and kept in neither: bytes that were moved elsewhere do not open.
package cipher

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

const (
	// KeySize is the length of a key in bytes.
	KeySize = 32
	// Overhead is how many bytes longer sealed bytes are.
	Overhead = idSize + nonceSize + tagSize

	idSize    = 8
	nonceSize = 24
	tagSize   = 16
	blockSize = aes.BlockSize
)

// What keys are derived for. A change of the format changes them, and with them every
// key's id.
const (
	infoID   = "galgo at rest 1: key id"
	infoSeal = "galgo at rest 1: seal"
)

var (
	// ErrKey is a text that holds no key.
	ErrKey = errors.New("cipher: not a key: want the base64 of 32 bytes, as openssl rand -base64 32 prints it")
	// ErrKeyMissing is a directory that is sealed, and no key for it.
	ErrKeyMissing = errors.New("cipher: the data are sealed and no key is configured")
	// ErrKeyUnknown is what was sealed under a key that is not among those configured.
	ErrKeyUnknown = errors.New("cipher: sealed under another key")
	// ErrClear is a key for a directory that is not sealed.
	ErrClear = errors.New("cipher: the data are not sealed, and a key is configured")
	// ErrSealed is what does not open under its key: it is damaged, or was moved.
	ErrSealed = errors.New("cipher: sealed bytes do not open")
)

// ID tells keys apart, and nothing about them. Zero stands for no key.
type ID [idSize]byte

// String is the id in hexadecimal.
func (i ID) String() string { return hex.EncodeToString(i[:]) }

// Key seals and opens. It may be used by many goroutines.
type Key struct {
	id     ID
	master cipher.Block
	k1     [blockSize]byte // of CMAC under the master key
}

// NewKey is the key of 32 bytes.
func NewKey(secret []byte) (*Key, error) {
	if len(secret) != KeySize {
		return nil, ErrKey
	}
	id, err := hkdf.Key(sha256.New, secret, nil, infoID, idSize)
	if err != nil {
		return nil, err
	}
	seal, err := hkdf.Key(sha256.New, secret, nil, infoSeal, KeySize)
	if err != nil {
		return nil, err
	}
	k, err := newMaster(seal)
	if err != nil {
		return nil, err
	}
	copy(k.id[:], id)
	return k, nil
}

// ParseKey reads a key as an operator writes it: base64 of 32 bytes. The error says
// nothing of the text.
func ParseKey(text string) (*Key, error) {
	secret, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil, ErrKey
	}
	return NewKey(secret)
}

func newMaster(secret []byte) (*Key, error) {
	master, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	k := &Key{master: master}
	master.Encrypt(k.k1[:], k.k1[:])
	var carry byte
	for i := len(k.k1) - 1; i >= 0; i-- {
		carry, k.k1[i] = k.k1[i]>>7, k.k1[i]<<1|carry
	}
	k.k1[len(k.k1)-1] ^= carry * 0x87
	return k, nil
}

// ID is the key's id.
func (k *Key) ID() ID { return k.id }

// under is the AEAD for nonces that begin with these 12 bytes.
func (k *Key) under(prefix []byte) (cipher.AEAD, error) {
	var derived [KeySize]byte
	for i := range 2 {
		m := [blockSize]byte{0, byte(i + 1), 'X', 0}
		copy(m[4:], prefix[:12])
		for j := range m {
			m[j] ^= k.k1[j]
		}
		k.master.Encrypt(derived[i*blockSize:], m[:])
	}
	block, err := aes.NewCipher(derived[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Seal appends plain, sealed, to dst. They must not overlap.
func (k *Key) Seal(dst, plain, about []byte) []byte {
	var nonce [nonceSize]byte
	rand.Read(nonce[:]) // never fails: the runtime ends the process instead
	return k.sealWith(&nonce, dst, plain, about)
}

func (k *Key) sealWith(nonce *[nonceSize]byte, dst, plain, about []byte) []byte {
	dst = append(append(dst, k.id[:]...), nonce[:]...)
	return k.mustUnder(nonce).Seal(dst, nonce[12:], plain, about)
}

func (k *Key) mustUnder(nonce *[nonceSize]byte) cipher.AEAD {
	aead, err := k.under(nonce[:])
	if err != nil {
		panic(fmt.Sprintf("cipher: AES-256-GCM: %v", err)) // of sizes that are constant
	}
	return aead
}

// open appends to dst what was sealed under a nonce; text ends with the tag.
func (k *Key) open(dst, nonce, text, about []byte) ([]byte, error) {
	aead, err := k.under(nonce)
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(dst, nonce[12:], text, about)
	if err != nil {
		return nil, fmt.Errorf("%w under key %v: damaged, or not what it is taken for", ErrSealed, k.id)
	}
	return plain, nil
}

// IDOf is the id of the key that sealed bytes were sealed under; false if they are too
// short to be any.
func IDOf(sealed []byte) (id ID, ok bool) {
	if len(sealed) < Overhead {
		return id, false
	}
	copy(id[:], sealed)
	return id, true
}
