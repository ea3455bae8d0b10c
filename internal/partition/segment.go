package partition

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Suffixes of the files of a segment.
const (
	logSuffix   = ".log"
	indexSuffix = ".index"
)

// segment is a run of batches in a file. Which batch lies where follows from the
// committed operations alone, so the loop knows it before any byte is written,
// and it is the same on every replica: the batch that reaches or passes the
// segment size is the last one.
type segment struct {
	group      uint64
	generation uint64
	base       uint64 // offset of the first message
	logName    string
	indexName  string

	// The rest of this block belongs to the loop. Sizes and positions are bytes
	// of the log; size counts committed records, written or not.
	size    uint64
	last    uint64 // offset of the last message
	time    uint64 // µs, of the last batch: the highest
	sealed  bool   // takes no more batches
	indexed uint64 // position of the last indexed record
	// entries of the index: onDisk of them are in the file alone, those in fresh
	// follow, the first freshDone of them are in the file as well. The array
	// behind fresh is only appended to, so plans may keep a part of it.
	onDisk    uint32
	fresh     []indexEntry
	freshDone int
	dirty     bool   // in Machine.unsynced: written since the last sync
	removed   uint64 // op that made it gone

	// gone says that a purge, a truncation, a removal or a close has taken the
	// segment away: what readers then miss in its files is not damage.
	gone atomic.Bool

	// log and index are held open from the first write until a sync, so that the
	// sync sees the errors of the writes. tried and made say how far the making
	// of the log came. All belong to the one job in flight, else to the loop.
	log, index  *openFile
	tried, made bool

	// indexMu serialises writers of the index file: the write job appends,
	// readers mend what lies below.
	indexMu sync.Mutex
}

// newSegment names a segment and its files; what it holds is the caller's.
func newSegment(cfg *Config, generation, base uint64) *segment {
	return &segment{
		group: cfg.Group, generation: generation, base: base,
		logName:   path.Join(cfg.Dir, fileName(generation, base, logSuffix)),
		indexName: path.Join(cfg.Dir, fileName(generation, base, indexSuffix)),
	}
}

func (s *segment) entries() uint32 { return s.onDisk + uint32(len(s.fresh)) }

func (s *segment) messages() uint64 { return s.last - s.base + 1 }

// append gives a record its place and returns it.
func (s *segment) append(size, base uint64, count uint32, time uint64, interval uint32) (pos uint64) {
	pos = s.size
	if s.entries() == 0 || pos-s.indexed >= uint64(interval) {
		s.fresh = append(s.fresh, indexEntry{offset: base, time: time, pos: pos})
		s.indexed = pos
	}
	s.size += size
	s.last = base + uint64(count) - 1
	s.time = time
	return pos
}

// forgetSynced drops from memory the index entries that the file holds for good.
func (s *segment) forgetSynced() {
	s.onDisk += uint32(s.freshDone)
	s.fresh = append([]indexEntry(nil), s.fresh[s.freshDone:]...)
	s.freshDone = 0
}

// release lets go of the files held open for writing.
func (s *segment) release() {
	s.log.release()
	s.index.release()
	s.log, s.index = nil, nil
}

// awaitMending returns when no reader mends the index any more. Of a segment that
// is gone: one that comes later sees that, and makes no file.
func (s *segment) awaitMending() {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
}

// Dir is the directory of a group's files unless its Config names another.
func Dir(group uint64) string { return fmt.Sprintf("groups/%020d", group) }

// fileName is the name of a segment's file in the directory of its group.
func fileName(generation, base uint64, suffix string) string {
	if generation == 0 {
		return fmt.Sprintf("%020d%s", base, suffix)
	}
	return fmt.Sprintf("%020d-%020d%s", generation, base, suffix)
}

// SegmentName is what the name of a segment file tells.
type SegmentName struct {
	Generation uint64 // of the purge after which it was begun; 0 if none
	Base       uint64 // offset of its first message
	Index      bool   // the index, not the log
}

// ParseSegmentName reads the last element of a file's path; ok is false for
// every name that this package does not give.
func ParseSegmentName(name string) (n SegmentName, ok bool) {
	stem, suffix := strings.TrimSuffix(name, logSuffix), logSuffix
	if stem == name {
		stem, suffix = strings.TrimSuffix(name, indexSuffix), indexSuffix
	}
	n.Index = suffix == indexSuffix
	if generation, base, found := strings.Cut(stem, "-"); found {
		g, err := strconv.ParseUint(generation, 10, 64)
		if err != nil {
			return SegmentName{}, false
		}
		n.Generation, stem = g, base
	}
	base, err := strconv.ParseUint(stem, 10, 64)
	n.Base = base
	if err != nil || fileName(n.Generation, n.Base, suffix) != name {
		return SegmentName{}, false
	}
	return n, true
}
