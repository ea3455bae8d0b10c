package partition

import (
	"fmt"
	"slices"

	"galgo"
)

// frontier is where the next batch of the pipeline goes: the applied state and,
// on top of it, what the primary has put into the log and is not committed yet.
type frontier struct {
	next       uint64
	time       uint64
	generation uint64
	inFlight   map[numbered]struct{}
	// stores are the offsets of consumers that are in the log and not applied, in order.
	stores []uint64
}

// numbered names a send that can be recognised.
type numbered struct {
	client galgo.ClientID
	number uint64
}

func (f *frontier) reset(m *Machine) {
	*f = frontier{next: m.next, time: m.time, generation: m.generation, inFlight: f.inFlight, stores: f.stores[:0]}
	clear(f.inFlight)
	if f.inFlight == nil {
		f.inFlight = make(map[numbered]struct{})
	}
}

// applied catches up with what was applied without having been stamped here, as
// on a backup and at start.
func (f *frontier) applied(m *Machine, e *Entry) {
	if e.Operation == OpSend && e.Numbered {
		delete(f.inFlight, numbered{e.Client, e.Request})
	}
	if e.Operation == OpStoreOffset && len(f.stores) > 0 {
		f.stores = slices.Delete(f.stores, 0, 1)
	}
	if m.time > f.time || m.generation > f.generation {
		f.next, f.time = m.next, max(f.time, m.time)
		f.generation = max(f.generation, m.generation)
	}
}

// Stamp fills partition, base offset, base timestamp and checksum of a verified
// batch, in place, and returns the base offset, which goes into the prepare as
// well. It is for the primary, in the order of the log, and counts what is in
// flight. ts is the timestamp of the prepare in µs; it must be above that of the
// batch before. The bytes are final after this.
func (m *Machine) Stamp(batch []byte, ts uint64) (base uint64) {
	r, err := peekRecord(batch)
	if err != nil {
		panic(fmt.Sprintf("partition: group %d: stamp of what is no batch: %v", m.cfg.Group, err))
	}
	if ts <= m.frontier.time {
		panic(fmt.Sprintf("partition: group %d: batch stamped %d after one stamped %d", m.cfg.Group, ts, m.frontier.time))
	}
	base = m.frontier.next
	stampRecord(batch, uint64(m.cfg.Partition), base, ts)
	m.frontier.next = base + uint64(r.count)
	m.frontier.time = ts
	return base
}

// NoteInFlight says that a numbered send was given a place in the log.
func (m *Machine) NoteInFlight(client galgo.ClientID, number uint64) {
	m.frontier.inFlight[numbered{client, number}] = struct{}{}
}

// NoteStore says that an offset of a consumer was given a place in the log.
func (m *Machine) NoteStore(offset uint64) { m.frontier.stores = append(m.frontier.stores, offset) }

// NotePurge says that a purge was given a place in the log: batches stamped
// after it start at offset 0.
func (m *Machine) NotePurge(generation uint64) {
	if generation > m.frontier.generation {
		m.frontier.generation, m.frontier.next = generation, 0
	}
}

// StampedGeneration returns the generation of the last purge that was applied or given
// a place in the log.
func (m *Machine) StampedGeneration() uint64 { return m.frontier.generation }

// Inherit takes over an uncommitted operation that an earlier primary has put
// into the log, so that Stamp goes on behind it. Its bytes are final. Op and
// order are the core's business.
func (m *Machine) Inherit(e Entry) {
	switch e.Operation {
	case OpSend:
		r, err := peekRecord(e.Body)
		if err != nil || r.base != m.frontier.next || r.time <= m.frontier.time {
			panic(fmt.Sprintf("partition: group %d: inherited op %d has batch at offset %d, time %d; expected offset %d, time above %d (%v)",
				m.cfg.Group, e.Op, r.base, r.time, m.frontier.next, m.frontier.time, err))
		}
		m.frontier.next, m.frontier.time = r.base+uint64(r.count), r.time
		if e.Numbered {
			m.NoteInFlight(e.Client, e.Request)
		}
	case OpStoreOffset:
		if s, err := DecodeStoreOffset(e.Body); err == nil {
			m.NoteStore(s.Offset)
		}
	case OpPurge:
		if generation, err := DecodePurge(e.Body); err == nil {
			m.NotePurge(generation)
		}
	}
}

// Abandon forgets everything in flight: the uncommitted suffix of the log is no
// longer this replica's to extend.
func (m *Machine) Abandon() { m.frontier.reset(m) }

// CheckNumbered says what is known about a numbered send; base is the offset of
// its first message if it is Stored.
func (m *Machine) CheckNumbered(client galgo.ClientID, number uint64) (v Verdict, base uint64) {
	if _, ok := m.frontier.inFlight[numbered{client, number}]; ok {
		return InFlight, 0
	}
	return m.producers.check(client, number)
}

// CheckStore tells whether an offset may be stored now: CodeInvalidOffset if it
// is above the last committed message or there is none, CodeCannotOpenConsumerOffsetsFile
// if the table of consumers is full: trying again is of no use before an offset is deleted.
func (m *Machine) CheckStore(kind galgo.ConsumerKind, key uint32, offset uint64) galgo.Code {
	if offset >= m.next {
		return galgo.CodeInvalidOffset
	}
	if len(m.consumers.sorted) >= m.consumers.limit {
		if _, known := m.consumers.find(kind, key); !known {
			return galgo.CodeCannotOpenConsumerOffsetsFile
		}
	}
	return galgo.CodeOK
}

// CheckDelete tells whether there is an offset to delete:
// CodeConsumerOffsetNotFound if not.
func (m *Machine) CheckDelete(kind galgo.ConsumerKind, key uint32) galgo.Code {
	if _, ok := m.consumers.find(kind, key); !ok {
		return galgo.CodeConsumerOffsetNotFound
	}
	return galgo.CodeOK
}
