package partition

import (
	"fmt"

	"galgo"
)

// Machine is the state of one partition. See the package documentation for who
// may call what, and when.
type Machine struct {
	cfg Config

	op         uint64 // last applied
	next       uint64 // offset of the next message
	low        uint64 // first retained offset; next if nothing is retained
	time       uint64 // µs, of the last batch; grows for ever, across purges
	generation uint64 // of the last purge applied
	bytes      uint64 // of all retained records
	messages   uint64 // retained

	// segments are without gap, oldest first; only the last may be unsealed,
	// none is empty. A new one begins with the batch that needs it.
	segments  []*segment
	tail      tail
	consumers consumers
	tenures   tenures
	producers producers
	frontier  frontier

	job      job        // the one write or sync in flight; nil if none
	write    WriteJob   // reused
	unsynced []*segment // written since the last sync, oldest first
	dirMade  bool       // the directory is there for good
	dirTried bool       // it may be there, but its name may not be durable
	newNames bool       // files were made since the directory was synced
	trash    []*segment // gone, files still there, in the order of going
	settled  uint64     // op of the last settled checkpoint
	removing *RemoveJob
	failure  error // of a sync: nothing is written any more
	closed   bool

	stats Stats
}

// job is what may be in flight.
type job interface{ Run() error }

// Entry is a committed operation of the group's log.
type Entry struct {
	Op        uint64
	Timestamp uint64 // µs, of the prepare
	Operation uint8
	Client    galgo.ClientID
	Request   uint64 // the client's number of the request
	Numbered  bool   // the client vouches that the number means this request alone
	Offset    uint64 // of the prepare: base offset of a send; else 0
	Body      []byte // kept: must never change
}

// Result is what a client that waits for an operation is told.
type Result struct {
	Code galgo.Code
	Base uint64 // of OpSend: offset of the first message
}

// New makes the machine of a group that was never on this disk. It touches no
// file; the directory is made with the first segment.
func New(cfg Config) (*Machine, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Machine{
		cfg:       cfg,
		consumers: consumers{limit: cfg.Consumers},
		producers: newProducers(cfg.Producers, cfg.ProducerRing),
	}
	m.frontier.reset(m)
	m.publish()
	return m, nil
}

// Apply takes the next committed operation. Operations come in order, without a
// gap: anything else, and a body that this package did not make, is a fault of
// the host or of the log behind it, and panics.
func (m *Machine) Apply(e Entry) Result {
	if e.Op != m.op+1 {
		panic(fmt.Sprintf("partition: group %d: op %d applied after op %d", m.cfg.Group, e.Op, m.op))
	}
	m.op = e.Op
	result := m.dispatch(&e)
	m.frontier.applied(m, &e)
	m.publish()
	return result
}

func (m *Machine) dispatch(e *Entry) Result {
	switch e.Operation {
	case OpNone:
		return Result{}
	case OpSend:
		return m.applySend(e)
	case OpStoreOffset:
		return m.applyStoreOffset(e)
	case OpDeleteOffset:
		return m.applyDeleteOffset(e)
	case OpClaim:
		return m.applyClaim(e)
	case OpPurge:
		return m.applyPurge(e)
	case OpTruncate:
		return m.applyTruncate(e)
	}
	panic(fmt.Sprintf("partition: group %d: op %d has operation %d, which this version does not know", m.cfg.Group, e.Op, e.Operation))
}

// applySend places a batch. Its offsets were fixed in the prepare; that they go
// on where the last batch ended is what makes replicas equal.
func (m *Machine) applySend(e *Entry) Result {
	r := m.checkSend(e)
	seg := m.active(r.base)
	pos := seg.append(r.length, r.base, r.count, r.time, m.cfg.IndexInterval)
	seg.sealed = seg.size >= m.cfg.SegmentSize
	m.tail.push(resident{body: e.Body, base: r.base, count: r.count, time: r.time, seg: seg, pos: pos})
	m.next = r.base + uint64(r.count)
	m.time = r.time
	m.bytes += r.length
	m.messages += uint64(r.count)
	if e.Numbered {
		m.producers.record(e.Op, e.Client, e.Request, r.base)
	}
	m.tail.evict(m.cfg.TailBytes)
	return Result{Base: r.base}
}

func (m *Machine) checkSend(e *Entry) recordHead {
	r, err := peekRecord(e.Body)
	switch {
	case err != nil:
		panic(fmt.Sprintf("partition: group %d: op %d is no batch: %v", m.cfg.Group, e.Op, err))
	case r.length != uint64(len(e.Body)) || r.count == 0:
		panic(fmt.Sprintf("partition: group %d: op %d: batch of %d messages and %d bytes in a body of %d", m.cfg.Group, e.Op, r.count, r.length, len(e.Body)))
	case r.base != m.next || e.Offset != m.next:
		panic(fmt.Sprintf("partition: group %d: op %d: batch at offset %d, prepare at %d, partition at %d", m.cfg.Group, e.Op, r.base, e.Offset, m.next))
	case r.time != e.Timestamp || r.time <= m.time:
		panic(fmt.Sprintf("partition: group %d: op %d: batch stamped %d, prepare %d, batch before %d", m.cfg.Group, e.Op, r.time, e.Timestamp, m.time))
	case r.partition != uint64(m.cfg.Partition):
		panic(fmt.Sprintf("partition: group %d: op %d: batch of partition %d in partition %d", m.cfg.Group, e.Op, r.partition, m.cfg.Partition))
	}
	return r
}

// active returns the segment that takes the next batch, a new one if need be.
func (m *Machine) active(base uint64) *segment {
	if n := len(m.segments); n > 0 && !m.segments[n-1].sealed {
		return m.segments[n-1]
	}
	seg := newSegment(&m.cfg, m.generation, base)
	m.segments = append(m.segments, seg)
	return seg
}

// decoded reads the body of an operation. What is in the log was checked before it came
// there.
func decoded[T any](m *Machine, e *Entry, decode func([]byte) (T, error)) T {
	body, err := decode(e.Body)
	if err != nil {
		panic(fmt.Sprintf("partition: group %d: op %d: %v", m.cfg.Group, e.Op, err))
	}
	return body
}

func (m *Machine) applyStoreOffset(e *Entry) Result {
	s := decoded(m, e, DecodeStoreOffset)
	code := m.claim(s.Kind, s.Key, s.Tenure)
	if code == galgo.CodeOK {
		code = m.CheckStore(s.Kind, s.Key, s.Offset)
	}
	if code == galgo.CodeOK {
		m.consumers.store(s)
	}
	return Result{Code: code}
}

func (m *Machine) applyClaim(e *Entry) Result {
	c := decoded(m, e, DecodeClaim)
	return Result{Code: m.claim(galgo.ConsumerGroup, c.Key, c.Tenure)}
}

func (m *Machine) applyDeleteOffset(e *Entry) Result {
	d := decoded(m, e, DecodeDeleteOffset)
	claimed := false
	if d.Tenure == Forever {
		claimed = m.tenures.forget(d.Key)
	} else if code := m.claim(d.Kind, d.Key, d.Tenure); code != galgo.CodeOK {
		return Result{Code: code}
	}
	if stored := m.consumers.remove(d.Kind, d.Key); !stored && !claimed {
		return Result{Code: galgo.CodeConsumerOffsetNotFound}
	}
	return Result{}
}

// applyPurge empties the partition: offsets start at 0, stored offsets and
// producers are forgotten; who claimed the partition for a group still has it. The
// files of the old life stay until a checkpoint of the new one is settled; their
// names cannot meet the new ones.
func (m *Machine) applyPurge(e *Entry) Result {
	generation := decoded(m, e, DecodePurge)
	if generation <= m.generation {
		return Result{}
	}
	m.discard(m.segments)
	m.segments = nil
	m.tail.clear()
	m.consumers.clear()
	m.producers.clear()
	m.generation = generation
	m.next, m.low, m.bytes, m.messages = 0, 0, 0, 0
	return Result{}
}

// applyTruncate drops leading sealed segments that end at or below an offset.
func (m *Machine) applyTruncate(e *Entry) Result {
	upTo := decoded(m, e, DecodeTruncate)
	n := 0
	for n < len(m.segments) && m.segments[n].sealed && m.segments[n].last <= upTo {
		seg := m.segments[n]
		m.bytes -= seg.size
		m.messages -= seg.messages()
		m.low = seg.last + 1
		n++
	}
	if n == 0 {
		return Result{}
	}
	m.discard(m.segments[:n])
	m.segments = append([]*segment(nil), m.segments[n:]...)
	m.tail.dropBelow(m.low)
	return Result{}
}

// discard marks segments as gone as of the present op.
func (m *Machine) discard(segments []*segment) {
	for _, s := range segments {
		s.removed = m.op
		s.gone.Store(true)
		m.trash = append(m.trash, s)
	}
}

// Op returns the last applied operation.
func (m *Machine) Op() uint64 { return m.op }

// NextOffset returns the offset that the next committed batch will start with.
func (m *Machine) NextOffset() uint64 { return m.next }

// Generation returns the generation of the last purge that was applied.
func (m *Machine) Generation() uint64 { return m.generation }

// LastTimestamp returns the time of the last batch in µs, 0 if there was none
// since the group was made. It survives purges.
func (m *Machine) LastTimestamp() uint64 { return m.time }

// Config returns the settings with their defaults filled in.
func (m *Machine) Config() Config { return m.cfg }

// StoredOffset returns the offset of a consumer or group; ok is false if none is
// stored.
func (m *Machine) StoredOffset(kind galgo.ConsumerKind, key uint32) (offset uint64, ok bool) {
	return m.consumers.get(kind, key)
}

// Unwritten returns the bytes of committed batches that no file has yet.
func (m *Machine) Unwritten() uint64 { return m.tail.unwrittenBytes }

// CurrentOffset returns the offset of the last committed message; ok is false,
// and the offset what clients are shown, 0, if there is none since the last purge.
func (m *Machine) CurrentOffset() (offset uint64, ok bool) {
	if m.next == 0 {
		return 0, false
	}
	return m.next - 1, true
}

// SegmentInfo describes a segment for retention and for people.
type SegmentInfo struct {
	Base, Last uint64 // offsets of the first and last message
	Size       uint64 // bytes of its log
	Time       uint64 // µs, of the last batch
	Sealed     bool
}

// Segments returns the retained segments, oldest first.
func (m *Machine) Segments() []SegmentInfo {
	infos := make([]SegmentInfo, len(m.segments))
	for i, s := range m.segments {
		infos[i] = SegmentInfo{Base: s.base, Last: s.last, Size: s.size, Time: s.time, Sealed: s.sealed}
	}
	return infos
}
