package partition

import "sync/atomic"

// Stats is figures of a partition that any goroutine may read. Each is exact as
// of the last operation or job; together they are not one moment.
type Stats struct {
	size, messages, segments   atomic.Uint64
	current, first             atomic.Uint64
	resident, unwritten, trash atomic.Uint64
}

// Figures is what Stats showed.
type Figures struct {
	SizeBytes     uint64 // of retained records, written or not
	Messages      uint64 // retained
	Segments      uint64 // at least 1, as clients expect
	CurrentOffset uint64 // of the last message, 0 if there is none
	FirstOffset   uint64 // first retained
	Resident      uint64 // bytes of batches in memory
	Unwritten     uint64 // bytes of them that no file has yet
	Trash         uint64 // segments whose files wait to be removed
}

// Stats returns the machine's figures; the handle stays valid for ever.
func (m *Machine) Stats() *Stats { return &m.stats }

// Figures reads all.
func (s *Stats) Figures() Figures {
	return Figures{
		SizeBytes: s.size.Load(), Messages: s.messages.Load(), Segments: s.segments.Load(),
		CurrentOffset: s.current.Load(), FirstOffset: s.first.Load(),
		Resident: s.resident.Load(), Unwritten: s.unwritten.Load(), Trash: s.trash.Load(),
	}
}

func (m *Machine) publish() {
	s := &m.stats
	s.size.Store(m.bytes)
	s.messages.Store(m.messages)
	s.segments.Store(max(1, uint64(len(m.segments))))
	current, _ := m.CurrentOffset()
	s.current.Store(current)
	s.first.Store(m.low)
	s.resident.Store(uint64(m.tail.bytes))
	s.unwritten.Store(m.tail.unwrittenBytes)
	s.trash.Store(uint64(len(m.trash)))
}
