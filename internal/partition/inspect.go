package partition

import (
	"bytes"
	"errors"
	"fmt"
	"path"

	"galgo/internal/cipher"
	"galgo/internal/disk"
	"galgo/internal/wire"
)

// inspectIndexMax bounds what is read of an index: an entry for each 64 bytes of
// the largest segment.
const inspectIndexMax = indexHeaderSize + indexEntrySize*((SegmentSizeMax+RecordMax)/indexIntervalMin)

// RecordInfo describes a batch record of a segment.
type RecordInfo struct {
	Pos    uint64 // byte position in the log
	Length uint64 // bytes
	Base   uint64 // offset of the first message
	Count  uint32 // messages
	Time   uint64 // µs, base timestamp
}

// SegmentReport is what a look at a segment's files without a server tells.
// Only a checkpoint knows up to where a log must be sound: what follows may be a
// write that a crash cut short.
type SegmentReport struct {
	SegmentName
	File      string
	Size      uint64 // bytes of the log
	Sound     uint64 // bytes of verified records from the start on
	Zeros     bool   // all that follows is zeros: preallocated, not written yet
	Partition uint64
	Records   uint64
	Messages  uint64
	Last      uint64 // offset of the last message, if there are any
	FirstTime uint64 // µs
	LastTime  uint64
	// Keys counts the records by the key that they are sealed under; the zero key has those
	// in the clear.
	Keys map[cipher.ID]uint64
	// Problem says what is wrong at Sound, or which record does not open; nil if the log is
	// sound to its end or zeros follow.
	Problem error
	// IndexEntries are verified ones; IndexProblem says what is wrong with the
	// index, if anything. The server builds a damaged one anew.
	IndexEntries int
	IndexProblem string
}

// InspectSegment reads the log of that name, which must be one this package
// gives, verifies every record and compares the index. each, if not nil, is told
// of every sound record. What is sealed is opened if there is a vault, and verified in any
// case. It changes nothing. The error is of the disk or of the
// name; what is wrong inside the files is in the report.
func InspectSegment(d disk.Disk, name string, vault *cipher.Vault, each func(RecordInfo)) (SegmentReport, error) {
	n, ok := ParseSegmentName(path.Base(name))
	if !ok || n.Index {
		return SegmentReport{}, fmt.Errorf("partition: %s is not the name of a segment's log", name)
	}
	r := SegmentReport{SegmentName: n, File: name, Keys: map[cipher.ID]uint64{}}
	file, err := d.Open(name)
	if err != nil {
		return r, fmt.Errorf("partition: open %s: %w", name, err)
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return r, fmt.Errorf("partition: size of %s: %w", name, err)
	}
	r.Size = uint64(size)
	entries, err := r.walk(file, vault, each)
	if err != nil {
		return r, err
	}
	return r, r.compareIndex(d, entries)
}

// OpenLog returns the bytes of a segment's log in the clear, for who compares replicas:
// what each of them seals has equal batches. Without a vault they are returned as they are.
func OpenLog(log []byte, group uint64, name string, vault *cipher.Vault) ([]byte, error) {
	n, ok := ParseSegmentName(path.Base(name))
	if !ok || n.Index || len(log) < wire.BatchHeaderSize || vault == nil {
		return log, nil
	}
	head, _ := peekRecord(log)
	w := walker{
		seg: &segment{group: group, base: n.Base, logName: name}, file: bytes.NewReader(log), partition: head.partition, end: uint64(len(log)), next: n.Base,
		sealing: &sealing{vault: vault, group: group, generation: n.Generation}, want: windowMin, buffer: oneWindow(),
	}
	opened := make([]byte, len(log))
	_, err := w.copyFrom(opened, 0)
	return opened, err
}

// walk verifies the log and returns an entry for every record.
func (r *SegmentReport) walk(file disk.File, vault *cipher.Vault, each func(RecordInfo)) ([]indexEntry, error) {
	w := walker{
		seg: &segment{base: r.Base, logName: r.File}, file: file, end: r.Size, next: r.Base, want: windowMax, buffer: oneWindow(),
	}
	fmt.Sscanf(path.Base(path.Dir(r.File)), "%d", &w.seg.group)
	sealed, err := r.learnPartition(file)
	if err != nil {
		return nil, err
	}
	if sealed {
		w.sealing = &sealing{vault: vault, group: w.seg.group, generation: r.Generation}
	}
	w.partition = r.Partition
	var entries []indexEntry
	for {
		pos := w.pos
		b, head, err := w.record()
		if err != nil {
			return entries, r.stopped(file, err)
		}
		if b == nil {
			return entries, nil
		}
		r.count(&head, w.pos)
		r.look(&w, b, vault != nil)
		entries = append(entries, indexEntry{offset: head.base, time: head.time, pos: pos})
		if each != nil {
			each(RecordInfo{Pos: pos, Length: head.length, Base: head.base, Count: head.count, Time: head.time})
		}
	}
}

// look notes the key of a record, and opens it if there is one to try.
func (r *SegmentReport) look(w *walker, b []byte, open bool) {
	if w.sealing == nil {
		r.Keys[cipher.ID{}]++
		return
	}
	r.Keys[sealedKey(b)]++
	if !open || r.Problem != nil {
		return
	}
	_, r.Problem = w.open(b)
}

// learnPartition takes the first record's word for whose log it is, and whether it is
// sealed.
func (r *SegmentReport) learnPartition(file disk.File) (sealed bool, err error) {
	var buf [wire.BatchHeaderSize]byte
	if r.Size < uint64(len(buf)) {
		return false, nil
	}
	if _, err := file.ReadAt(buf[:], 0); err != nil {
		return false, fmt.Errorf("partition: read %s: %w", r.File, err)
	}
	head, _ := peekRecord(buf[:])
	r.Partition = head.partition
	return isSealed(buf[:]), nil
}

func (r *SegmentReport) count(h *recordHead, end uint64) {
	if r.Records == 0 {
		r.FirstTime = h.time
	}
	r.Records++
	r.Messages += uint64(h.count)
	r.Last, r.LastTime, r.Sound = h.end()-1, h.time, end
}

// stopped looks at what follows the sound records.
func (r *SegmentReport) stopped(file disk.File, err error) error {
	if _, damaged := errors.AsType[*DamageError](err); !damaged {
		return err
	}
	buf := make([]byte, 64<<10)
	for pos := r.Sound; pos < r.Size; pos += uint64(len(buf)) {
		buf = buf[:min(uint64(len(buf)), r.Size-pos)]
		if _, err := file.ReadAt(buf, int64(pos)); err != nil {
			return fmt.Errorf("partition: read %s at byte %d: %w", r.File, pos, err)
		}
		if len(bytes.Trim(buf, "\x00")) > 0 {
			r.Problem = errors.Join(r.Problem, err)
			return nil
		}
	}
	r.Zeros = true
	return nil
}

// compareIndex counts the entries that point at the records they name.
func (r *SegmentReport) compareIndex(d disk.Disk, records []indexEntry) error {
	name := path.Join(path.Dir(r.File), fileName(r.Generation, r.Base, indexSuffix))
	b, err := readAll(d, name)
	if errors.Is(err, disk.ErrNotExist) {
		r.IndexProblem = "there is no index"
		return nil
	}
	if err != nil {
		return err
	}
	id, err := decodeIndexHeader(b)
	if err != nil || id.base != r.Base || id.generation != r.Generation {
		r.IndexProblem = "the header is damaged or of another segment"
		return nil
	}
	rest := b[indexHeaderSize:]
	for len(rest) >= indexEntrySize {
		e, err := decodeIndexEntry(rest[:indexEntrySize], id.seed(), uint32(r.IndexEntries))
		for len(records) > 0 && records[0].pos < e.pos {
			records = records[1:]
		}
		if err != nil || len(records) == 0 || records[0] != e {
			r.IndexProblem = fmt.Sprintf("entry %d does not verify or points at no sound record", r.IndexEntries)
			return nil
		}
		r.IndexEntries++
		rest = rest[indexEntrySize:]
	}
	if len(rest) > 0 {
		r.IndexProblem = fmt.Sprintf("%d bytes behind the last entry", len(rest))
	}
	return nil
}

func readAll(d disk.Disk, name string) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, fmt.Errorf("partition: open %s: %w", name, err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("partition: size of %s: %w", name, err)
	}
	if size > inspectIndexMax {
		return nil, fmt.Errorf("partition: %s has %d bytes, an index has at most %d", name, size, inspectIndexMax)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && size > 0 {
		return nil, fmt.Errorf("partition: read %s: %w", name, err)
	}
	return b, nil
}
