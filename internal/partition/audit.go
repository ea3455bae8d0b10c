package partition

import (
	"errors"
	"fmt"
	"slices"

	"galgo"
	"galgo/internal/disk"
	"galgo/internal/wire"
)

// What follows is for who looks at the partitions of a node that does not run.

// State is the machine's state at its last operation, as a checkpoint has it: equal
// operations give equal bytes on every replica.
func (m *Machine) State() *Checkpoint { return m.state() }

// Check refuses a state that no machine reaches: segments with a gap between them, offsets
// of consumers beyond the last message, producers out of order.
func (c *Checkpoint) Check() error { return c.validate() }

// Difference says in what two states differ, in words; "" if they are equal.
func (c *Checkpoint) Difference(o *Checkpoint) string {
	switch {
	case c.Generation != o.Generation:
		return fmt.Sprintf("purges: generation %d and %d", c.Generation, o.Generation)
	case c.Low != o.Low || c.Next != o.Next:
		return fmt.Sprintf("messages: offsets %d to %d and %d to %d", c.Low, c.Next, o.Low, o.Next)
	case !slices.Equal(c.segments, o.segments):
		return "the bounds of segments"
	case !slices.Equal(c.consumers, o.consumers):
		return "stored offsets"
	case !slices.Equal(c.tenures, o.tenures):
		return "claims of consumer groups' members"
	case string(c.Append(nil)) != string(o.Append(nil)):
		return "producers"
	}
	return ""
}

// Place is where a record lies.
type Place struct {
	File string
	Pos  uint64 // bytes
}

// String names file and byte.
func (p Place) String() string { return fmt.Sprintf("%s at byte %d", p.File, p.Pos) }

// Reader reads all messages of a machine to which nothing is applied any more, from the
// first retained one on: batch records, each verified, and the indexes beside them.
type Reader struct {
	m       *Machine
	next    int // segment
	w       *walker
	file    *openFile
	buffer  func(n int) []byte
	entries []indexEntry // of the segment that is being read
	memory  []resident   // that no file has yet
	// Problem is told of an index that does not fit its log. The server makes such a
	// one anew.
	problem func(error)
}

// Reader begins to read. problem is told of every index that does not fit its log.
func (m *Machine) Reader(problem func(error)) *Reader {
	return &Reader{m: m, buffer: oneWindow(), memory: m.tail.live(), problem: problem}
}

// Next returns the next record, opened, and where it lies; nil at the end. The record is valid
// until the next call. The error is a *DamageError or one of the disk.
func (r *Reader) Next() ([]byte, Place, error) {
	for {
		if r.w == nil {
			if more, err := r.open(); err != nil {
				return nil, Place{}, err
			} else if !more {
				return r.resident()
			}
		}
		at := Place{r.w.seg.logName, r.w.pos}
		b, head, err := r.w.record()
		if err != nil {
			r.Close()
			return nil, at, err
		}
		if b != nil {
			if b, err = r.w.open(b); err != nil {
				r.Close()
				return nil, at, err
			}
			r.entries = indexed(r.entries, indexEntry{offset: head.base, time: head.time, pos: at.Pos}, r.m.cfg.IndexInterval)
			return b, at, nil
		}
		if err := r.leave(); err != nil {
			return nil, at, err
		}
	}
}

// Close lets go of the file that is being read.
func (r *Reader) Close() {
	r.file.release()
	r.file, r.w = nil, nil
}

// open begins the next segment of which a file has something.
func (r *Reader) open() (more bool, err error) {
	if r.next == len(r.m.segments) {
		return false, nil
	}
	s := r.m.segments[r.next]
	end := r.m.readable(s)
	if end == 0 {
		return false, nil
	}
	r.next++
	if r.file, err = r.m.cfg.Files.acquire(s.logName); err != nil {
		return false, err
	}
	r.entries = r.entries[:0]
	r.w = &walker{
		seg: s, file: r.file, partition: uint64(r.m.cfg.Partition), end: end, next: s.base,
		sealing: r.m.cfg.sealing(s.generation), want: windowMax, buffer: r.buffer,
	}
	return true, nil
}

// leave ends a segment: with what its log says the index is compared.
func (r *Reader) leave() error {
	s, end := r.w.seg, r.w.next
	err := r.compareIndex(s)
	r.Close()
	if err == nil && r.m.readable(s) == s.size && end != s.last+1 {
		err = &DamageError{Kind: ErrDamaged, Group: s.group, File: s.logName, Pos: s.size,
			Reason: fmt.Sprintf("the log ends at offset %d, the checkpoint says %d", end, s.last+1)}
	}
	return err
}

func (r *Reader) compareIndex(s *segment) error {
	b, err := readAll(r.m.cfg.Disk, s.indexName)
	if errors.Is(err, disk.ErrNotExist) {
		r.problem(fmt.Errorf("%s: the index is not there; the server makes it anew", s.indexName))
		return nil
	}
	if err != nil {
		return err
	}
	want := s.indexIdentity(r.m.cfg.IndexInterval)
	if id, err := decodeIndexHeader(b); err != nil || id != want {
		r.problem(fmt.Errorf("%s: the header is damaged or of another segment; the server makes the index anew", s.indexName))
		return nil
	}
	for i := range min(s.onDisk, uint32(len(r.entries))) {
		from := indexPos(i)
		if int64(len(b)) < from+indexEntrySize {
			r.problem(fmt.Errorf("%s: it has %d entries of %d; the server makes it anew", s.indexName, i, s.onDisk))
			return nil
		}
		if e, err := decodeIndexEntry(b[from:from+indexEntrySize], want.seed(), i); err != nil || e != r.entries[i] {
			r.problem(fmt.Errorf("%s at byte %d: entry %d does not point at the record at byte %d; the server makes the index anew", s.indexName, from, i, r.entries[i].pos))
			return nil
		}
	}
	return nil
}

// resident returns the next of the records that only the log has yet.
func (r *Reader) resident() ([]byte, Place, error) {
	if len(r.memory) == 0 {
		return nil, Place{}, nil
	}
	item := &r.memory[0]
	r.memory = r.memory[1:]
	at := Place{item.seg.logName, item.pos}
	if err := wire.Batch(item.body).Validate(); err != nil {
		return nil, at, &DamageError{Kind: ErrDamaged, Group: item.seg.group, File: item.seg.logName, Pos: item.pos, Reason: "in the write-ahead log: " + err.Error()}
	}
	return item.body, at, nil
}

// Sequences follows the numbered sends of a partition, as its machine does, and tells of
// one that was stored although the machine knew it.
type Sequences struct{ table producers }

// Sequences begins with the producers of a checkpoint; nil stands for none.
func (m *Machine) Sequences(c *Checkpoint) *Sequences {
	s := &Sequences{newProducers(m.cfg.Producers, m.cfg.ProducerRing)}
	if c != nil {
		s.table.load(c.producers)
	}
	return s
}

// Sent takes the next numbered send. The error says that it is there twice.
func (s *Sequences) Sent(op uint64, client galgo.ClientID, number, base uint64) error {
	verdict, first := s.table.check(client, number)
	s.table.record(op, client, number, base)
	switch verdict {
	case Stored:
		return fmt.Errorf("op %d stores number %d of client %v at offset %d, which is at offset %d already", op, number, client, base, first)
	case TooOld:
		return fmt.Errorf("op %d stores number %d of client %v at offset %d, which is too old to be told from one that is stored", op, number, client, base)
	}
	return nil
}

// Purged forgets all: a purge does.
func (s *Sequences) Purged() { s.table.clear() }
