package partition

import (
	"errors"
	"fmt"

	"galgo/internal/disk"
	"galgo/internal/wire"
)

// replyKeep bounds the read buffers that a Reply keeps for its next use.
const replyKeep = 8 << 20

// Reply is what a plan yields. Chunks, in order, are the batch records of the
// answer; they alias shared batches and the reply's own buffers, so they must
// not be changed, and are valid until the reply is used again.
type Reply struct {
	Chunks [][]byte
	Bytes  int    // sum of their lengths
	Count  uint32 // messages
	First  uint64 // offsets of the first and the last message, if Count > 0
	Last   uint64

	// headers are those of sliced records: the first and the last.
	headers [2][wire.BatchHeaderSize]byte
	slices  int
	buffers [][]byte // reused for reading; used of them hold this reply
	used    int
}

// Read fills the reply. It may run on any goroutine, once per plan at a time,
// whatever the machine does meanwhile. What comes from disk is verified. It
// returns ErrStale if files have gone since the plan was made: poll again; a
// *DamageError if what must be there is not; or the error of the disk. After an
// error the reply holds nothing: a fault never looks like the end of the data.
func (p *Plan) Read(r *Reply) error {
	r.reset()
	for i := range p.spans {
		full, err := p.readSpan(i, r)
		if err != nil {
			r.reset()
			return err
		}
		if full {
			return nil
		}
	}
	for _, b := range p.memory {
		head, err := peekRecord(b)
		if err != nil {
			panic(fmt.Sprintf("partition: batch in memory: %v", err))
		}
		if r.add(p, b, &head) {
			return nil
		}
	}
	return nil
}

func (r *Reply) reset() {
	clear(r.Chunks)
	kept, total := r.buffers[:0], 0
	for _, b := range r.buffers {
		if total += cap(b); total <= replyKeep {
			kept = append(kept, b)
		}
	}
	clear(r.buffers[len(kept):])
	r.Chunks, r.buffers = r.Chunks[:0], kept
	r.Bytes, r.Count, r.First, r.Last, r.slices, r.used = 0, 0, 0, 0, 0, 0
}

// buffer returns n bytes that stay untouched until the reply is used again.
func (r *Reply) buffer(n int) []byte {
	for i := r.used; i < len(r.buffers); i++ {
		if cap(r.buffers[i]) >= n {
			r.buffers[i], r.buffers[r.used] = r.buffers[r.used], r.buffers[i]
			r.used++
			return r.buffers[r.used-1][:n]
		}
	}
	b := make([]byte, n)
	r.buffers = append(r.buffers, b)
	last := len(r.buffers) - 1
	r.buffers[last], r.buffers[r.used] = r.buffers[r.used], r.buffers[last]
	r.used++
	return b
}

// add takes what the plan wants of a record, and reports whether the reply is
// full. Whole records are taken as they are.
func (r *Reply) add(p *Plan, b []byte, h *recordHead) (full bool) {
	if !p.wants(h) {
		return false
	}
	from := uint32(0)
	if !p.want.byTime && p.want.value > h.base {
		from = uint32(p.want.value - h.base)
	}
	to := h.count
	if left := p.count - r.Count; to-from > left {
		to = from + left
	}
	if len(b) > p.bytes-r.Bytes { // else a part of it fits as well
		if to = r.fit(p, b, from, to); to == from {
			return true
		}
	}
	if from == 0 && to == h.count {
		r.Chunks = append(r.Chunks, b)
		r.Bytes += len(b)
	} else {
		r.slice(b, from, to)
	}
	switch first := h.base + uint64(from); {
	case r.Count == 0:
		r.First = first
	case first != r.Last+1:
		panic(fmt.Sprintf("partition: reply goes from offset %d to offset %d", r.Last, first))
	}
	r.Count += to - from
	r.Last = h.base + uint64(to) - 1
	return to < h.count || r.Count == p.count
}

// wants reports whether anything of a record is looked for.
func (p *Plan) wants(h *recordHead) bool {
	if p.want.byTime {
		return h.time >= p.want.value
	}
	return h.end() > p.want.value
}

// fit returns up to which frame below to there is room: at least one of an
// empty reply, so that every poll gets on.
func (r *Reply) fit(p *Plan, b []byte, from, to uint32) uint32 {
	room := p.bytes - r.Bytes - wire.BatchHeaderSize
	n := uint32(0)
	for it := wire.Batch(b).Frames(); n < to && it.Next(); n++ {
		if n < from {
			continue
		}
		if room -= len(it.Frame()); room < 0 && (n > from || r.Count > 0) {
			break
		}
	}
	return max(n, from)
}

func (r *Reply) slice(b []byte, from, to uint32) {
	header := r.headers[r.slices][:]
	r.slices++
	frames := wire.Batch(b).Slice(from, to, header)
	r.Chunks = append(r.Chunks, header, frames)
	r.Bytes += len(header) + len(frames)
}

// readSpan adds what is wanted of span i.
func (p *Plan) readSpan(i int, r *Reply) (full bool, err error) {
	s := &p.spans[i]
	log, err := p.open(s.seg, s.seg.logName)
	if err != nil {
		return false, err
	}
	defer log.release()
	w := walker{
		seg: s.seg, file: log, partition: uint64(p.cfg.Partition), end: s.end, next: s.seg.base,
		sealing: p.cfg.sealing(s.seg.generation), want: p.window(s), buffer: r.buffer,
	}
	if i == 0 {
		e, found, err := p.locate(s, log)
		if err != nil {
			return false, err
		}
		if found {
			w.pos, w.next, w.time = e.pos, e.offset, e.time-1
		}
	}
	for {
		b, head, err := w.record()
		if err != nil || b == nil {
			return false, err
		}
		if !p.wants(&head) {
			continue // and stays closed
		}
		if b, err = w.open(b); err != nil {
			return false, err
		}
		if r.add(p, b, &head) {
			return true, nil
		}
	}
}

// window guesses how many bytes to read at once: what is wanted, and the way
// there from the index entry before it.
func (p *Plan) window(s *span) int {
	guess := s.size*uint64(p.count) + uint64(p.cfg.IndexInterval)
	guess = min(guess, uint64(p.bytes)+uint64(p.cfg.IndexInterval))
	return int(min(max(guess, windowMin), windowMax))
}

func (p *Plan) open(s *segment, name string) (*openFile, error) {
	f, err := p.cfg.Files.acquire(name)
	switch {
	case err == nil:
		return f, nil
	case s.gone.Load():
		return nil, ErrStale
	case errors.Is(err, disk.ErrNotExist):
		return nil, &DamageError{Kind: ErrMissing, Group: s.group, File: name, Reason: "the file is not there"}
	}
	return nil, err
}

// locate finds the index entry to start at. An index that does not verify is
// built anew from the log.
func (p *Plan) locate(s *span, log disk.File) (indexEntry, bool, error) {
	if len(s.fresh) > 0 && (s.onDisk == 0 || !p.want.after(s.fresh[0])) {
		e, found := searchEntries(s.fresh, p.want)
		return e, found, nil
	}
	e, found, err := p.searchFile(s, log)
	if errors.Is(err, errIndex) {
		return p.mend(s, log)
	}
	return e, found, err
}

// searchFile searches the index file and makes sure that the entry it finds
// points at the record it names.
func (p *Plan) searchFile(s *span, log disk.File) (indexEntry, bool, error) {
	f, err := p.open(s.seg, s.seg.indexName)
	if errors.Is(err, ErrStale) {
		return indexEntry{}, false, err
	}
	if err != nil {
		return indexEntry{}, false, errIndex
	}
	defer f.release()
	seed := s.seg.indexIdentity(p.cfg.IndexInterval).seed()
	e, found, err := searchIndexFile(f, seed, s.onDisk, p.want)
	if err != nil || !found {
		return e, false, err
	}
	var buf [wire.BatchHeaderSize]byte
	if e.pos >= s.end {
		return e, false, errIndex
	}
	if _, err := log.ReadAt(buf[:], int64(e.pos)); err != nil {
		return e, false, errIndex
	}
	if head, err := peekRecord(buf[:]); err != nil || head.base != e.offset || head.time != e.time {
		return e, false, errIndex
	}
	return e, true, nil
}

// mend builds the entries of a span from its log, writes those that must be in
// the file, and searches them. One reader does it, others wait and use it.
func (p *Plan) mend(s *span, log disk.File) (indexEntry, bool, error) {
	s.seg.indexMu.Lock()
	defer s.seg.indexMu.Unlock()
	if e, found, err := p.searchFile(s, log); !errors.Is(err, errIndex) {
		return e, found, err
	}
	entries, err := buildIndex(s, log, p.cfg)
	if err != nil {
		return indexEntry{}, false, err
	}
	if s.seg.gone.Load() { // its files may be removed at any time: make none
		return indexEntry{}, false, ErrStale
	}
	// Only speed is lost if this fails: the next reader tries again.
	p.writeIndex(s.seg, entries[:min(len(entries), int(s.onDisk))])
	e, found := searchEntries(entries, p.want)
	return e, found, nil
}

// writeIndex writes the front of an index file. Write jobs append behind it.
func (p *Plan) writeIndex(s *segment, entries []indexEntry) {
	f, err := p.cfg.Files.acquire(s.indexName)
	if errors.Is(err, disk.ErrNotExist) {
		f, err = p.cfg.Files.create(s.indexName, 0, false)
	}
	if err != nil {
		return
	}
	defer f.release()
	id := s.indexIdentity(p.cfg.IndexInterval)
	b := id.appendHeader(make([]byte, 0, indexHeaderSize+len(entries)*indexEntrySize))
	_ = f.WriteAt(appendEntries(b, id.seed(), 0, entries), 0)
}

// buildIndex reads the log of a span from its start, by the rule of
// segment.append.
func buildIndex(s *span, log disk.File, cfg *Config) ([]indexEntry, error) {
	w := walker{
		seg: s.seg, file: log, partition: uint64(cfg.Partition), end: s.end, next: s.seg.base,
		sealing: cfg.sealing(s.seg.generation), want: windowMax, buffer: oneWindow(),
	}
	var entries []indexEntry
	for {
		pos := w.pos
		b, head, err := w.record()
		if err != nil || b == nil {
			return entries, err
		}
		entries = indexed(entries, indexEntry{offset: head.base, time: head.time, pos: pos}, cfg.IndexInterval)
	}
}
