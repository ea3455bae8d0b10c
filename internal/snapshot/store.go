package snapshot

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"galgo/internal/cipher"
	"galgo/internal/disk"
)

// Extensions of the two planes' files.
const (
	ExtMetadata  = ".snap" // metadata/snapshot/<op>.snap
	ExtPartition = ".ckpt" // shards/<n>/checkpoint/<number>.ckpt

	// digits of a number in a name, enough for every uint64, so that names sort
	// as their numbers do.
	digits = 20
)

// Store is a directory of checkpoints, each under its number: the op on the
// metadata plane, a counter on the partition plane.
type Store struct {
	d     disk.Disk
	dir   string
	ext   string
	vault *cipher.Vault // nil: files are in the clear
}

// NewStore returns the store of the files with an extension in dir, which must
// exist by the first use. With a vault it writes and reads sealed files, and no others.
func NewStore(d disk.Disk, dir, ext string, vault *cipher.Vault) *Store {
	return &Store{d: d, dir: dir, ext: ext, vault: vault}
}

// Name returns the name of the file with a number.
func (s *Store) Name(number uint64) string {
	return path.Join(s.dir, fmt.Sprintf("%0*d%s", digits, number, s.ext))
}

// Write makes a checkpoint durable under a number and returns its checksum, for
// the superblock. A file of that number is replaced. The data of the sections is
// not copied and must not change until Write returns. Errors: ErrLimit, before
// anything is written, and *disk.ReplaceError, which has the stage; the
// checkpoints before it are untouched then, and nothing may be freed.
func (s *Store) Write(number uint64, h Header, sections []Section) (Sum, error) {
	name := s.Name(number)
	c, err := build(h, sections, s.vault)
	if err != nil {
		return Sum{}, fmt.Errorf("%w (%s)", err, name)
	}
	if err := disk.Replace(s.d, name, c.pieces); err != nil {
		return Sum{}, fmt.Errorf("snapshot: write checkpoint %d: %w", number, err)
	}
	return c.sum, nil
}

// Read returns the verified checkpoint with a number, open. Errors of the disk are
// wrapped (disk.ErrNotExist if there is no such file); else one of the typed
// errors of Decode or of Snapshot.Open.
func (s *Store) Read(number uint64) (*Snapshot, error) {
	found, err := s.ReadClosed(number)
	if err == nil {
		err = found.Open(s.vault)
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// ReadClosed is Read without a key: what is sealed is verified and stays closed.
func (s *Store) ReadClosed(number uint64) (*Snapshot, error) {
	name := s.Name(number)
	b, err := readFile(s.d, name)
	if err != nil {
		return nil, err
	}
	return Decode(name, b)
}

// readFile reads a file whole, after its head said that it is one of ours and
// how long it is: nothing is allocated for a length that was not checked.
func readFile(d disk.Disk, name string) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, fmt.Errorf("snapshot: read %s: %w", name, err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("snapshot: read %s: %w", name, err)
	}
	var head [headerSize]byte
	n, err := f.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("snapshot: read %s: %w", name, err)
	}
	if _, err := decodeHeader(name, head[:n], size); err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); err != nil {
		return nil, fmt.Errorf("snapshot: read %s: byte %d of %d: %w", name, n, size, err)
	}
	return b, nil
}

// Renew writes the checkpoint with a number, which has been verified, once more under its
// name, durably: the sync behind it may have failed.
func (s *Store) Renew(number uint64) error {
	b, err := readFile(s.d, s.Name(number))
	if err != nil {
		return err
	}
	if err := disk.Replace(s.d, s.Name(number), [][]byte{b}); err != nil {
		return fmt.Errorf("snapshot: renew checkpoint %d: %w", number, err)
	}
	return nil
}

// Generation is a checkpoint file that exists; whether it verifies, Read says.
type Generation struct {
	Number uint64
	Name   string
	Size   int64 // bytes
}

// List returns the checkpoints in the directory, the newest first. The directory
// is synced first: a process killed between the rename and the sync of the
// directory leaves a file that can be read but may vanish, and whoever reads it
// may pair the superblock with it.
func (s *Store) List() ([]Generation, error) {
	if err := s.d.SyncDir(s.dir); err != nil {
		return nil, fmt.Errorf("snapshot: list %s: %w", s.dir, err)
	}
	entries, err := s.d.List(s.dir)
	if err != nil {
		return nil, fmt.Errorf("snapshot: list %s: %w", s.dir, err)
	}
	var found []Generation
	for _, e := range slices.Backward(entries) {
		if number, ok := s.number(e.Name); ok && !e.Dir {
			found = append(found, Generation{Number: number, Name: path.Join(s.dir, e.Name), Size: e.Size})
		}
	}
	return found, nil
}

// number parses a name of this store: 20 digits and the extension.
func (s *Store) number(base string) (uint64, bool) {
	stem, ok := strings.CutSuffix(base, s.ext)
	if !ok || len(stem) != digits {
		return 0, false
	}
	var n uint64
	for _, c := range []byte(stem) {
		d := uint64(c - '0')
		if c < '0' || c > '9' || n > (1<<64-1-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// Prune removes all checkpoints but the newest keep, the oldest first, and what
// interrupted writes left. It is called after the superblock was paired with the
// newest, so that what it removes is needed by nobody, and fails without harm:
// the next one removes the rest. Files with other names are left alone.
func (s *Store) Prune(keep int) error {
	if keep < 1 {
		panic(fmt.Sprintf("snapshot: prune %s down to %d: the newest is needed", s.dir, keep))
	}
	entries, err := s.d.List(s.dir)
	if err != nil {
		return fmt.Errorf("snapshot: prune %s: %w", s.dir, err)
	}
	var doomed, generations []string
	for _, e := range entries {
		if stem, isTmp := strings.CutSuffix(e.Name, disk.TmpSuffix); e.Dir {
			continue
		} else if _, ok := s.number(stem); ok && isTmp {
			doomed = append(doomed, e.Name)
		} else if _, ok := s.number(e.Name); ok {
			generations = append(generations, e.Name)
		}
	}
	doomed = append(doomed, generations[:max(0, len(generations)-keep)]...)
	for _, base := range doomed {
		if err := s.d.Remove(path.Join(s.dir, base)); err != nil {
			return fmt.Errorf("snapshot: prune %s: %w", s.dir, err)
		}
	}
	if len(doomed) == 0 {
		return nil
	}
	return s.d.SyncDir(s.dir)
}
