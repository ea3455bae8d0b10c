package partition

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"galgo/internal/cipher"
	"galgo/internal/disk"
	"galgo/internal/wire"
)

// With a vault each batch is sealed by itself, in its own bytes: the header of a batch has
// room for what sealing adds, so that places, sizes and the index are the same on every
// replica, whether it seals or not.
//
//	off  size  field
//	  0    40  as in the batch: partition, base offset, both times, length
//	 40     8  checksum     XXH3-64 over all other bytes of the record
//	 48     4  count        as in the batch
//	 52     4  mark         "seal"
//	 56     8  key id
//	 64    24  nonce
//	 88    16  tag          over the ciphertext, the node, the group, the generation
//	                        and the bytes 0..40 and 48..52
//	104   144  reserved     zero
//	248     n  ciphertext   of the checksum of the batch and its frames
//
// A walk, a search and the check of a log need no key.
const (
	sealedMark  = 0x6c616573 // "seal"
	sealedRest  = 56
	sealedEmpty = sealedRest + cipher.Overhead
	sealedText  = wire.BatchHeaderSize - 8
)

// Fields of a batch header; see wire.Batch.
const (
	batchChecksum = 40
	batchCount    = 48
	batchReserved = 52
)

// sealing is what the batches of a segment are sealed as; nil: they are in the clear.
type sealing struct {
	vault             *cipher.Vault
	group, generation uint64
}

func (c *Config) sealing(generation uint64) *sealing {
	if c.Vault == nil {
		return nil
	}
	return &sealing{vault: c.Vault, group: c.Group, generation: generation}
}

// about are the numbers that a batch is bound to: whose it is, and all of its header.
func (s *sealing) about(b []byte) []uint64 {
	batch := wire.Batch(b)
	return []uint64{s.group, s.generation, batch.PartitionID(), batch.BaseOffset(), batch.BaseTimestamp(),
		batch.OriginTimestamp(), batch.Length(), uint64(batch.MessageCount())}
}

// append appends a batch, sealed, to dst, which has room for it and TagSize bytes more.
func (s *sealing) append(dst, batch []byte) []byte {
	start := len(dst)
	dst = append(dst, batch...)
	b := dst[start:]
	copy(b[sealedText:], batch[batchChecksum:batchCount])
	rest := s.vault.SealApart(b[sealedText:], cipher.KindBatch, s.about(b)...)
	copy(b[sealedRest:], rest[:])
	binary.LittleEndian.PutUint32(b[batchReserved:], sealedMark)
	binary.LittleEndian.PutUint64(b[batchChecksum:], sealedSum(b))
	return dst
}

func sealedSum(b []byte) uint64 {
	var h xxh3.Hasher
	h.Write(b[:batchChecksum])
	h.Write(b[batchCount:])
	return h.Sum64()
}

// isSealed reports whether a whole header is that of a sealed batch.
func isSealed(b []byte) bool {
	return binary.LittleEndian.Uint32(b[batchReserved:]) == sealedMark
}

// sealedKey is the id of the key of a sealed batch.
func sealedKey(b []byte) cipher.ID { return cipher.ID(b[sealedRest : sealedRest+8]) }

// checkSealed verifies a record of a length that its header says, without a key.
func checkSealed(b []byte) error {
	switch got, want := wire.Batch(b).Checksum(), sealedSum(b); {
	case got != want:
		return fmt.Errorf("sealed batch: checksum %016x, want %016x", got, want)
	case !isSealed(b):
		return errors.New("a batch in the clear among sealed ones")
	case wire.Batch(b).MessageCount() == 0:
		return errors.New("sealed batch of no messages")
	}
	for _, c := range b[sealedEmpty:sealedText] {
		if c != 0 {
			return errors.New("sealed batch: reserved bytes are not zero")
		}
	}
	return nil
}

// open makes a verified record the batch that was sealed, where it is. TagSize bytes
// behind it, within its capacity, are overwritten. The error is one of the cipher's, or
// says that the batch is none; the record is spoilt then.
func (s *sealing) open(b []byte) error {
	rest := [cipher.Overhead]byte(b[sealedRest:])
	if err := s.vault.OpenApart(b[sealedText:], &rest, cipher.KindBatch, s.about(b)...); err != nil {
		return err
	}
	copy(b[batchChecksum:batchCount], b[sealedText:])
	clear(b[batchReserved:wire.BatchHeaderSize])
	return wire.Batch(b).ValidateLayout()
}

// write seals batches into a file from pos on, in writes of WriteMax bytes, if no batch has
// more. The copy is dropped: there are many partitions, and it is as large as what it is of.
func (s *sealing) write(f disk.File, batches [][]byte, pos int64) error {
	var out []byte
	for len(batches) > 0 {
		n, size := 1, len(batches[0])
		for n < len(batches) && size+len(batches[n]) <= WriteMax {
			size += len(batches[n])
			n++
		}
		out = slices.Grow(out[:0], size+cipher.TagSize)
		for _, b := range batches[:n] {
			out = s.append(out, b)
		}
		if err := f.WriteAt(out, pos); err != nil {
			return err
		}
		pos, batches = pos+int64(size), batches[n:]
	}
	return nil
}

// sealKind is which of the cipher's errors one is, else ErrDamaged.
func sealKind(err error) error {
	for _, kind := range []error{cipher.ErrKeyMissing, cipher.ErrKeyUnknown, cipher.ErrSealed} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return ErrDamaged
}
