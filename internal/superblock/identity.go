package superblock

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/zeebo/xxh3"

	"galgo/internal/disk"
)

// IdentityName is the file at the root of the data directory that says whose it
// is.
const IdentityName = "FORMAT"

// IdentitySize is its exact length in bytes, IdentitySizeSealed that of a directory whose
// data are sealed.
const (
	IdentitySize       = 72
	IdentitySizeSealed = IdentitySize + 8
)

const (
	identityMagic   = "GALGOFMT"
	identityVersion = 1
	identitySealed  = 2 // of a sealed directory, so that who knows nothing of keys refuses it
)

// Errors of the identity file; all that are returned name the file.
var (
	// ErrIdentityAbsent: the directory was never formatted.
	ErrIdentityAbsent = errors.New("superblock: data directory is not formatted")
	// ErrIdentityExists: WriteIdentity found a directory that has an owner.
	ErrIdentityExists = errors.New("superblock: data directory is formatted already")
	// ErrIdentityCorrupt: the file does not verify.
	ErrIdentityCorrupt = errors.New("superblock: identity file is corrupt")
	// ErrIdentityVersion is matched by every IdentityVersionError.
	ErrIdentityVersion = errors.New("superblock: identity file has an unknown format version")
	// ErrIdentityForeign is matched by every IdentityForeignError.
	ErrIdentityForeign = errors.New("superblock: data directory of another node")
)

// Identity says to which node of which cluster a data directory belongs, and in
// which format it is. All little-endian:
//
//	off  size  field
//	  0     8  magic         "GALGOFMT"
//	  8     2  version       1, of the format of the whole directory; 2 if it is sealed
//	 10     1  replica       from 0
//	 11     1  replica count
//	 12     4  reserved      zero
//	 16    16  cluster
//	 32    16  node          random, drawn when the directory was formatted
//	 48     8  created at    µs since the Unix epoch
//	 56     8  member since  op from which on this replica votes; 0 = founder
//	 64     8  key           version 2 only: id of the key of the last start
//	  …     8  checksum      XXH3-64 over all before it
type Identity struct {
	Cluster      [16]byte
	Node         [16]byte
	Replica      uint8
	ReplicaCount uint8
	CreatedAt    uint64
	MemberSince  uint64
	Key          [8]byte // zero: the directory is in the clear
}

// IdentityVersionError: the directory has a format that this galgo does not
// know.
type IdentityVersionError struct{ Found, Expected uint16 }

// Error names both versions and the next step.
func (e *IdentityVersionError) Error() string {
	return fmt.Sprintf("superblock: %s: format version %d, this galgo knows them up to %d; start the version of galgo that wrote this directory",
		IdentityName, e.Found, e.Expected)
}

// Is matches ErrIdentityVersion.
func (e *IdentityVersionError) Is(target error) bool { return target == ErrIdentityVersion }

// IdentityForeignError names the first field in which the directory differs from
// what the node was told to be.
type IdentityForeignError struct{ Field, Expected, Found string }

// Error names the field, both values and the next step.
func (e *IdentityForeignError) Error() string {
	return fmt.Sprintf("superblock: %s: %s is %s, the configuration says %s; correct the configuration, or attach the data directory of this node",
		IdentityName, e.Field, e.Found, e.Expected)
}

// Is matches ErrIdentityForeign.
func (e *IdentityForeignError) Is(target error) bool { return target == ErrIdentityForeign }

func (id *Identity) version() uint16 {
	if id.Key != [8]byte{} {
		return identitySealed
	}
	return identityVersion
}

// Append appends the encoded identity to b.
func (id *Identity) Append(b []byte) []byte {
	start := len(b)
	le := binary.LittleEndian
	b = append(b, identityMagic...)
	b = le.AppendUint16(b, id.version())
	b = append(b, id.Replica, id.ReplicaCount, 0, 0, 0, 0)
	b = append(b, id.Cluster[:]...)
	b = append(b, id.Node[:]...)
	b = le.AppendUint64(b, id.CreatedAt)
	b = le.AppendUint64(b, id.MemberSince)
	if id.version() == identitySealed {
		b = append(b, id.Key[:]...)
	}
	return le.AppendUint64(b, xxh3.Hash(b[start:]))
}

// DecodeIdentity decodes the bytes of an identity file: magic, then version,
// then length and checksum, as another version may differ in both.
func DecodeIdentity(b []byte) (Identity, error) {
	le := binary.LittleEndian
	if len(b) < 10 || string(b[:8]) != identityMagic {
		return Identity{}, corruptIdentity("%d bytes that do not begin with %q", len(b), identityMagic)
	}
	version, size := le.Uint16(b[8:]), IdentitySize
	switch version {
	case identityVersion:
	case identitySealed:
		size = IdentitySizeSealed
	default:
		return Identity{}, &IdentityVersionError{Found: version, Expected: identitySealed}
	}
	if len(b) != size {
		return Identity{}, corruptIdentity("%d bytes, want %d", len(b), size)
	}
	if got, want := xxh3.Hash(b[:size-8]), le.Uint64(b[size-8:]); got != want {
		return Identity{}, corruptIdentity("checksum %016x, the file says %016x", got, want)
	}
	if le.Uint32(b[12:]) != 0 {
		return Identity{}, corruptIdentity("reserved bytes %x are not zero", b[12:16])
	}
	id := Identity{Replica: b[10], ReplicaCount: b[11], CreatedAt: le.Uint64(b[48:]), MemberSince: le.Uint64(b[56:])}
	copy(id.Cluster[:], b[16:])
	copy(id.Node[:], b[32:])
	if version == identitySealed {
		copy(id.Key[:], b[64:])
		if id.version() != identitySealed {
			return Identity{}, corruptIdentity("version %d without a key", version)
		}
	}
	return id, nil
}

func corruptIdentity(format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s; check the device and restore the file from a copy of this data directory",
		ErrIdentityCorrupt, IdentityName, fmt.Sprintf(format, args...))
}

// WriteIdentity gives the data directory its owner, durably. It is the last step
// of formatting. It refuses with ErrIdentityExists a directory that has one.
func WriteIdentity(d disk.Disk, id Identity) error {
	switch f, err := d.Open(IdentityName); {
	case err == nil:
		f.Close()
		return fmt.Errorf("%w: %s exists; use another directory, or empty this one if its data is not needed", ErrIdentityExists, IdentityName)
	case !errors.Is(err, disk.ErrNotExist):
		return fmt.Errorf("superblock: write %s: %w", IdentityName, err)
	}
	return ReplaceIdentity(d, id)
}

// ReplaceIdentity writes the identity anew, durably: the file holds the old one or the
// new one, whatever happens.
func ReplaceIdentity(d disk.Disk, id Identity) error {
	if err := disk.Replace(d, IdentityName, [][]byte{id.Append(nil)}); err != nil {
		return fmt.Errorf("superblock: write %s: %w", IdentityName, err)
	}
	return nil
}

// ReadIdentity reads whose the data directory is. As Open it syncs the directory
// first, so that what is read stays.
func ReadIdentity(d disk.Disk) (Identity, error) {
	if err := d.SyncDir("."); err != nil {
		return Identity{}, fmt.Errorf("superblock: read %s: %w", IdentityName, err)
	}
	f, err := d.Open(IdentityName)
	if errors.Is(err, disk.ErrNotExist) {
		return Identity{}, fmt.Errorf("%w: it has no file %s", ErrIdentityAbsent, IdentityName)
	}
	if err != nil {
		return Identity{}, fmt.Errorf("superblock: read %s: %w", IdentityName, err)
	}
	defer f.Close()
	var buf [IdentitySizeSealed + 1]byte // one more tells a longer file
	n, err := f.ReadAt(buf[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return Identity{}, fmt.Errorf("superblock: read %s: %w", IdentityName, err)
	}
	return DecodeIdentity(buf[:n])
}

// Check compares the identity with what the node was told to be, and returns an
// *IdentityForeignError for the first field that differs.
func (id *Identity) Check(cluster [16]byte, replica, replicaCount uint8) error {
	switch {
	case id.Cluster != cluster:
		return &IdentityForeignError{"cluster", hex.EncodeToString(cluster[:]), hex.EncodeToString(id.Cluster[:])}
	case id.Replica != replica:
		return &IdentityForeignError{"replica", fmt.Sprint(replica), fmt.Sprint(id.Replica)}
	case id.ReplicaCount != replicaCount:
		return &IdentityForeignError{"replica count", fmt.Sprint(replicaCount), fmt.Sprint(id.ReplicaCount)}
	}
	return nil
}
