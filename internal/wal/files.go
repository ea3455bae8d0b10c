package wal

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/zeebo/xxh3"

	"galgo/internal/disk"
)

const (
	fileSuffix = ".wal"
	tempSuffix = ".new"
	nameDigits = 20
)

// file is an open file of the log.
type file struct {
	f    disk.File
	name string
	fileHeader
	// readers is held by whoever reads from f, so that it is not recycled under
	// them. Order: Log.mu before readers.
	readers sync.RWMutex
}

func (l *Log) fileName(sequence uint64, suffix string) string {
	return path.Join(l.dir, fmt.Sprintf("%0*d%s", nameDigits, sequence, suffix))
}

// parseName returns the sequence in a name of the log's own making.
func parseName(name, suffix string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != nameDigits {
		return 0, false
	}
	sequence, err := strconv.ParseUint(digits, 10, 64)
	return sequence, err == nil && sequence > 0
}

// salt makes the checksums of a file differ from those of any other, so that no
// client can put bytes into a message that pass for a record.
func (o *Options) salt(sequence uint64) uint64 {
	h := fileHeader{cluster: o.Cluster, replica: o.Replica, shard: o.Shard, sequence: sequence, salt: o.Salt}
	var b [blockSize]byte
	h.put(b[:])
	return xxh3.Hash(b[:64])
}

// makeFile creates a file with zeros and gives it a place in the sequence.
func (l *Log) makeFile(sequence uint64, size int64) (*file, error) {
	temp := l.fileName(sequence, tempSuffix)
	f, err := l.createTemp(temp, size)
	if err != nil {
		return nil, err
	}
	return l.adopt(f, temp, sequence, size)
}

// createTemp creates a file that does not belong to the log yet. If that fails,
// nothing has changed.
func (l *Log) createTemp(temp string, size int64) (disk.File, error) {
	f, err := l.d.Create(temp, size)
	if errors.Is(err, disk.ErrExist) { // of an attempt that failed
		if err = l.d.Remove(temp); err == nil {
			f, err = l.d.Create(temp, size)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("wal: create a file of %d bytes: %w", size, err)
	}
	return f, nil
}

// adopt writes the header of a temporary file and, once that is durable, renames
// it to its place. Only then may it be used. Any failure poisons the log.
func (l *Log) adopt(f disk.File, temp string, sequence uint64, size int64) (*file, error) {
	h := fileHeader{
		cluster: l.o.Cluster, replica: l.o.Replica, shard: l.o.Shard,
		sequence: sequence, size: size, salt: l.o.salt(sequence),
	}
	var block [blockSize]byte
	h.put(block[:])
	err := f.WriteAt(block[:], 0)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		return nil, l.poison(fmt.Errorf("write the header of %s: %w", temp, err))
	}
	return l.place(temp, h)
}

// place renames a temporary file, which is durable, to its place in the log.
func (l *Log) place(temp string, h fileHeader) (*file, error) {
	name := l.fileName(h.sequence, fileSuffix)
	if err := l.d.Rename(temp, name); err != nil {
		return nil, l.poison(err)
	}
	if err := l.d.SyncDir(l.dir); err != nil {
		return nil, l.poison(err)
	}
	f, err := l.d.Open(name)
	if err != nil {
		return nil, l.poison(err)
	}
	return &file{f: f, name: name, fileHeader: h}, nil
}

// EnsureSpare makes files until n of them wait to be written, so that a Write need
// not. It may run at the same time as anything but Close. Errors are
// as those of Write.
func (l *Log) EnsureSpare(n int) error {
	l.making.Lock()
	defer l.making.Unlock()
	for l.spareCount() < n {
		if err := l.poisoned(); err != nil {
			return err
		}
		if err := l.makeSpare(); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) spareCount() int {
	l.spareMu.Lock()
	defer l.spareMu.Unlock()
	return len(l.spares)
}

// makeSpare does the slow part, writing zeros, without keeping a Write from the
// spares that are there.
func (l *Log) makeSpare() error {
	temp := path.Join(l.dir, "spare"+tempSuffix)
	f, err := l.createTemp(temp, l.o.FileSize)
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return l.poison(errors.Join(err, f.Close()))
	}
	l.spareMu.Lock()
	defer l.spareMu.Unlock()
	s, err := l.adopt(f, temp, l.nextSequence, l.o.FileSize)
	if err != nil {
		return err
	}
	l.spares = append(l.spares, s)
	l.nextSequence++
	return nil
}

// reserve makes sure that the n-th file after the current one exists and holds
// size bytes.
func (l *Log) reserve(n int, size int64) error {
	l.spareMu.Lock()
	defer l.spareMu.Unlock()
	if n < len(l.spares) && l.spares[n].size >= size {
		return nil
	}
	size = max(size, l.o.FileSize)
	if n < len(l.spares) { // too small for one large record: put a larger one in its place
		s, err := l.makeFile(l.spares[n].sequence, size)
		if err != nil {
			return err
		}
		l.spares[n].f.Close()
		l.spares[n] = s
		return nil
	}
	s, err := l.makeFile(l.nextSequence, size)
	if err != nil {
		return err
	}
	l.spares = append(l.spares, s)
	l.nextSequence++
	return nil
}

// takeSpare returns the next file.
func (l *Log) takeSpare() *file {
	l.spareMu.Lock()
	defer l.spareMu.Unlock()
	s := l.spares[0]
	l.spares = l.spares[1:]
	return s
}
