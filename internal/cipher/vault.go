package cipher

import (
	"encoding/binary"
	"fmt"
)

// Vault seals what one data directory holds. It is a ring and the identity of the
// directory, so that what was sealed in another one does not open. The nil Vault is that
// of a directory in the clear.
type Vault struct {
	ring  *Ring
	owner [16]byte
}

// Vault returns that of the directory with an identity; nil for the nil ring.
func (r *Ring) Vault(owner [16]byte) *Vault {
	if r == nil {
		return nil
	}
	return &Vault{ring: r, owner: owner}
}

// Kind says what kind of piece of a directory sealed bytes are.
type Kind uint8

// The kinds. The numbers that tell one piece of a kind from another stand behind it.
const (
	KindRecord  Kind = 1 // of a log: kind of the record, group
	KindBatch   Kind = 2 // of a segment: group, incarnation, generation, then partition, base offset, both times, length and count
	KindSection Kind = 3 // of a checkpoint file: group, op, place, kind and version of the section
	KindOffer   Kind = 4 // of a checkpoint that is being taken: group
	KindPiece   Kind = 5 // of the checkpoint that is being taken: group, op, offset
)

// numbersMax bounds what About takes.
const numbersMax = 9

// about encodes what a piece is: kind, owner and numbers.
func (v *Vault) about(kind Kind, numbers []uint64) []byte {
	if len(numbers) > numbersMax {
		panic(fmt.Sprintf("cipher: %d numbers about a piece, at most %d", len(numbers), numbersMax))
	}
	b := make([]byte, 0, 1+len(v.owner)+8*numbersMax)
	b = append(append(b, byte(kind)), v.owner[:]...)
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

// Seal appends plain, sealed, to dst. They must not overlap.
func (v *Vault) Seal(dst, plain []byte, kind Kind, numbers ...uint64) []byte {
	return v.ring.Seal(dst, plain, v.about(kind, numbers))
}

// HeadSize is how many of the Overhead bytes stand before what is sealed.
const HeadSize = idSize + nonceSize

// SealInPlace seals what stands in b between HeadSize bytes of room and room for the rest
// of Overhead, where it is. The result is what Seal makes, without a copy.
func (v *Vault) SealInPlace(b []byte, kind Kind, numbers ...uint64) {
	k, nonce := v.ring.current, v.ring.nonce()
	copy(b, k.id[:])
	copy(b[idSize:], nonce[:])
	text := b[HeadSize:]
	k.mustUnder(&nonce).Seal(text[:0], nonce[12:], text[:len(text)-tagSize], v.about(kind, numbers))
}

// Open appends to dst what was sealed. After an error dst is as it was.
func (v *Vault) Open(dst, sealed []byte, kind Kind, numbers ...uint64) ([]byte, error) {
	if v == nil {
		return (*Ring)(nil).Open(dst, sealed, nil)
	}
	return v.ring.Open(dst, sealed, v.about(kind, numbers))
}

// OpenInPlace opens what Seal or SealInPlace made, where it is. After an error the bytes
// are spoilt.
func (v *Vault) OpenInPlace(sealed []byte, kind Kind, numbers ...uint64) ([]byte, error) {
	if len(sealed) < Overhead {
		return v.Open(nil, sealed, kind, numbers...)
	}
	return v.Open(sealed[HeadSize:HeadSize], sealed, kind, numbers...)
}

// TagSize is how much room the text of SealApart and OpenApart wants behind it.
const TagSize = tagSize

// SealApart seals text where it is, for a format that has room for the rest elsewhere:
//
//	off  size  field
//	  0     8  key id
//	  8    24  nonce
//	 32    16  tag
//
// TagSize bytes behind text, within its capacity, are overwritten.
func (v *Vault) SealApart(text []byte, kind Kind, numbers ...uint64) (rest [Overhead]byte) {
	mustHaveRoom(text)
	k, nonce := v.ring.current, v.ring.nonce()
	copy(rest[:], k.id[:])
	copy(rest[idSize:], nonce[:])
	sealed := k.mustUnder(&nonce).Seal(text[:0], nonce[12:], text, v.about(kind, numbers))
	copy(rest[HeadSize:], sealed[len(text):])
	return rest
}

// OpenApart opens text where it is. TagSize bytes behind it, within its capacity, are
// overwritten; after an error so is text.
func (v *Vault) OpenApart(text []byte, rest *[Overhead]byte, kind Kind, numbers ...uint64) error {
	mustHaveRoom(text)
	var ring *Ring
	if v != nil {
		ring = v.ring
	}
	k, err := ring.find(ID(rest[:idSize]))
	if err != nil {
		return err
	}
	sealed := append(text, rest[HeadSize:]...)
	_, err = k.open(sealed[:0], rest[idSize:HeadSize], sealed, v.about(kind, numbers))
	return err
}

func mustHaveRoom(text []byte) {
	if cap(text)-len(text) < TagSize {
		panic(fmt.Sprintf("cipher: %d bytes of room behind the text, want %d", cap(text)-len(text), TagSize))
	}
}
