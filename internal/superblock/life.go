package superblock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/zeebo/xxh3"

	"galgo/internal/disk"
)

// LifeName is the file at the root of the data directory that numbers the lives of a
// replica among others.
const LifeName = "LIFE"

// LifeSize is its exact length in bytes.
const LifeSize = 32

const (
	lifeMagic   = "GALGOLIF"
	lifeVersion = 1
)

// ErrLifeCorrupt: the file does not verify.
var ErrLifeCorrupt = errors.New("superblock: file of the replica's lives is corrupt")

// Life is what a replica must know of its lives before it speaks. It is there from the
// first life on that takes part in the cluster. All little-endian:
//
//	off  size  field
//	  0     8  magic     "GALGOLIF"
//	  8     2  version   1
//	 10     1  past      1: another node has heard a life that this disk does not know of
//	 11     5  reserved  zero
//	 16     8  number    of the latest life, growing
//	 24     8  checksum  XXH3-64 over all before it
type Life struct {
	Number uint64
	Past   bool
}

// Append appends the encoded life to b.
func (l Life) Append(b []byte) []byte {
	start := len(b)
	le := binary.LittleEndian
	b = append(b, lifeMagic...)
	b = le.AppendUint16(b, lifeVersion)
	var past byte
	if l.Past {
		past = 1
	}
	b = append(b, past, 0, 0, 0, 0, 0)
	b = le.AppendUint64(b, l.Number)
	return le.AppendUint64(b, xxh3.Hash(b[start:]))
}

// DecodeLife decodes the bytes of the file.
func DecodeLife(b []byte) (Life, error) {
	le := binary.LittleEndian
	switch {
	case len(b) != LifeSize || string(b[:8]) != lifeMagic || xxh3.Hash(b[:24]) != le.Uint64(b[24:]):
		return Life{}, fmt.Errorf("%w: %s does not verify; check the device, and replace this replica's disk", ErrLifeCorrupt, LifeName)
	case le.Uint16(b[8:]) != lifeVersion:
		return Life{}, fmt.Errorf("%w: %s has version %d, this galgo knows %d; start the version of galgo that wrote it", ErrLifeCorrupt, LifeName, le.Uint16(b[8:]), lifeVersion)
	}
	return Life{Number: le.Uint64(b[16:]), Past: b[10] == 1}, nil
}

// WriteLife makes the number of a life durable.
func WriteLife(d disk.Disk, l Life) error {
	if err := disk.Replace(d, LifeName, [][]byte{l.Append(nil)}); err != nil {
		return fmt.Errorf("superblock: write %s: %w", LifeName, err)
	}
	return nil
}

// ReadLife reads the number of the latest life; false if the replica has never taken
// part. It syncs the directory first, so that what is read stays.
func ReadLife(d disk.Disk) (Life, bool, error) {
	if err := d.SyncDir("."); err != nil {
		return Life{}, false, fmt.Errorf("superblock: read %s: %w", LifeName, err)
	}
	f, err := d.Open(LifeName)
	if errors.Is(err, disk.ErrNotExist) {
		return Life{}, false, nil
	}
	if err != nil {
		return Life{}, false, fmt.Errorf("superblock: read %s: %w", LifeName, err)
	}
	defer f.Close()
	var b [LifeSize + 1]byte // one more tells a longer file
	n, err := f.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return Life{}, false, fmt.Errorf("superblock: read %s: %w", LifeName, err)
	}
	l, err := DecodeLife(b[:n])
	return l, err == nil, err
}
