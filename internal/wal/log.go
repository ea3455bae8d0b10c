package wal

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"galgo/internal/cipher"
	"galgo/internal/disk"
	"galgo/internal/vsr"
)

// Sizes of files in bytes.
const (
	FileSizeDefault = 64 << 20
	FileSizeMin     = 8 << 10
	FileSizeMax     = 16 << 30
	// fileSizeCeiling is what a file that was made for one large record may have.
	fileSizeCeiling = FileSizeMax + payloadMax + 2*blockSize
)

// Offsets travel as 32 bits in units of alignment.
const _ = uint64((1<<32)*alignment - fileSizeCeiling)

// Options of a log.
type Options struct {
	// FileSize in bytes, FileSizeMin..FileSizeMax, rounded up to sectors; 0 means
	// FileSizeDefault. A record that is larger gets a file of its own. May differ
	// from that of files that exist.
	FileSize int64
	// FilesSpare is how many files Reclaim keeps behind the current one to be written
	// again; more are removed. A Write that needs the next file and finds none makes
	// it: see EnsureSpare.
	FilesSpare int
	// Salt is a number that clients cannot guess. It may differ at each Open.
	Salt uint64
	// Vault seals prepares and what their headers are in; nil: the log is in the clear. It
	// is nil at each Open or at none.
	Vault *cipher.Vault

	// Whose log this is. All must be equal at each Open.
	Cluster [16]byte
	Replica uint8
	Shard   uint32
}

func (o Options) complete() (Options, error) {
	if o.FileSize == 0 {
		o.FileSize = FileSizeDefault
	}
	if o.FileSize < FileSizeMin || o.FileSize > FileSizeMax {
		return o, fmt.Errorf("wal: file size of %d bytes, must be %d to %d", o.FileSize, FileSizeMin, int64(FileSizeMax))
	}
	if o.FilesSpare < 0 {
		return o, fmt.Errorf("wal: %d spare files, must not be negative", o.FilesSpare)
	}
	o.FileSize = roundUp(o.FileSize, disk.Sector)
	return o, nil
}

// Record is what Write takes. Which fields count depends on the kind.
type Record struct {
	Kind   Kind
	Group  vsr.GroupID
	Header *vsr.Header // KindPrepare, KindReset: sealed
	Body   []byte      // KindPrepare; not changed, and not kept after Write
	Op     vsr.Op      // KindTruncate: the last op that stays
	State  []byte      // KindState: not changed, and not kept after Write
}

// Log is an open log. One caller at a time may use Write, Mark, Reclaim and Close. All
// other methods may run at the same time as these and each other, but none as Close.
type Log struct {
	d   disk.Disk
	dir string
	o   Options

	// mu guards what readers see.
	mu     sync.RWMutex
	groups map[vsr.GroupID]*group
	forgot []vsr.GroupID // deleted, and the log does not say so yet
	files  []*file       // in order; the last is being written
	stats  Stats         // counters only

	// making is held while a spare is made. spareMu guards the two below, which
	// follow the current file in order. Order: making before spareMu.
	making       sync.Mutex
	spareMu      sync.Mutex
	spares       []*file
	nextSequence uint64

	failure atomic.Pointer[poisonError]

	// The rest belongs to the writer.
	cur     *file
	end     int64    // where the next record goes in cur
	chain   uint64   // checksum of the last record
	dataEnd Position // end of the last record that is no mark
	low     uint64   // lowest file that is needed, as the last mark said
	batch   batch

	syncing sync.Mutex // held by a sync; order: before all others
	reach   reach
}

type poisonError struct{ cause error }

// poison makes the log refuse all further writes and returns the error to give.
func (l *Log) poison(cause error) error {
	l.failure.CompareAndSwap(nil, &poisonError{cause})
	return l.poisoned()
}

// poisoned returns nil while the log may be written.
func (l *Log) poisoned() error {
	if p := l.failure.Load(); p != nil {
		return fmt.Errorf("%w: %s: %w; restart to recover what is durable", ErrPoisoned, l.dir, p.cause)
	}
	return nil
}

// Close marks the log, so that the next Open has a witness for all of it, and
// closes its files. A poisoned log is closed as it is.
func (l *Log) Close() error {
	var err error
	if l.poisoned() == nil {
		err = l.Mark()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spareMu.Lock()
	defer l.spareMu.Unlock()
	for _, f := range append(l.files, l.spares...) {
		f.readers.Lock()
		err = errors.Join(err, f.f.Close())
		f.readers.Unlock()
	}
	l.failure.CompareAndSwap(nil, &poisonError{errClosed})
	return err
}

var errClosed = errors.New("the log is closed")

// Last returns the last op of a group and its identity: the commit-point op if
// the log holds none above it, and 0 if the log knows nothing of the group.
func (l *Log) Last(g vsr.GroupID) (vsr.Op, vsr.Identity) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if gr := l.groups[g]; gr != nil {
		return gr.last(), gr.lastID()
	}
	return 0, vsr.Identity{}
}

// First returns the lowest op of a group that Read finds, which is Last+1 when
// there is none.
func (l *Log) First(g vsr.GroupID) vsr.Op {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if gr := l.groups[g]; gr != nil {
		return gr.base + 1
	}
	return 1
}

// Identity returns that of an op from the commit point on.
func (l *Log) Identity(g vsr.GroupID, op vsr.Op) (vsr.Identity, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if gr := l.groups[g]; gr != nil {
		return gr.identity(op)
	}
	return vsr.Identity{}, false
}

// Release says that the ops up to op are in a checkpoint. They need not be kept;
// the header of op itself stays readable. An op that was released already, or a
// group that the log does not know, is fine; one above Last is a bug.
func (l *Log) Release(g vsr.GroupID, op vsr.Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gr := l.groups[g]
	if gr == nil {
		return
	}
	if op > gr.last() {
		panic(fmt.Sprintf("wal: release group %d up to op %d, last is %d", g, op, gr.last()))
	}
	gr.release(op)
}

// Forget says that the group was deleted for ever. After a crash before the next
// Reclaim, Open may find it again.
func (l *Log) Forget(g vsr.GroupID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.groups[g] != nil {
		delete(l.groups, g)
		l.forgot = append(l.forgot, g)
	}
}

// Stats of a log.
type Stats struct {
	Records uint64 // written since Open
	Writes  uint64 // vectored writes since Open
	Syncs   uint64 // of records, since Open
	Files   int    // in use, the current one included
	Spares  int    // ready behind them
	Bytes   int64  // size of both
	Live    int64  // bytes of prepares that are neither released nor truncated
	Groups  int
}

// Stats returns the present ones. It looks at each group.
func (l *Log) Stats() Stats {
	l.mu.RLock()
	defer l.mu.RUnlock()
	s := l.stats
	s.Files, s.Groups = len(l.files), len(l.groups)
	for _, f := range l.files {
		s.Bytes += f.size
	}
	for _, g := range l.groups {
		s.Live += g.live
	}
	l.spareMu.Lock()
	defer l.spareMu.Unlock()
	s.Spares = len(l.spares)
	for _, f := range l.spares {
		s.Bytes += f.size
	}
	return s
}

// Size returns the bytes of all files, in use and spare.
func (l *Log) Size() int64 { return l.Stats().Bytes }
