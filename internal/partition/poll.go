package partition

import (
	"sort"

	"galgo"
)

// PollRequest asks for messages.
type PollRequest struct {
	Strategy galgo.PollingStrategy
	Count    uint32 // messages, at most
	Bytes    int    // of batch records, at most, but for a first message that is larger; 0 is ReplyMax
	// Kind and Key name the consumer whose stored offset PollNext starts behind.
	Kind galgo.ConsumerKind
	Key  uint32
}

// Plan says where the messages of a poll are: the answer as of the moment it was
// made. It is reused by the next Poll it is given to. Until then, or until Reset,
// it keeps the batches it names in memory.
type Plan struct {
	Partition uint32
	Current   uint64 // offset of the last committed message, 0 if there is none

	cfg    *Config
	want   target
	count  uint32
	bytes  int
	spans  []span   // on disk, in order
	memory [][]byte // whole records that follow the spans without gap
}

// span is the part of a segment that may be read: records that are committed,
// written, and not in the memory part of the plan.
type span struct {
	seg    *segment
	end    uint64 // bytes
	onDisk uint32 // index entries that are only in the file
	fresh  []indexEntry
	size   uint64 // mean bytes of a message
}

// Poll plans the answer to a request, against committed data. It does no I/O:
// Plan.Read does, on another goroutine if Plan.OnDisk. The code is
// CodeInvalidCommand for an unknown strategy, else CodeOK; nothing to return is
// an empty plan.
func (m *Machine) Poll(req PollRequest, p *Plan) galgo.Code {
	p.Reset()
	p.cfg = &m.cfg
	p.Partition = m.cfg.Partition
	p.Current, _ = m.CurrentOffset()
	p.count = req.Count
	if p.bytes = req.Bytes; p.bytes <= 0 || p.bytes > ReplyMax {
		p.bytes = ReplyMax
	}
	want, any, code := m.resolve(req)
	if code != galgo.CodeOK || !any || req.Count == 0 {
		return code
	}
	p.want = want
	m.place(p)
	return galgo.CodeOK
}

// resolve turns a strategy into what is looked for; any is false if there is no
// such message.
func (m *Machine) resolve(req PollRequest) (t target, any bool, code galgo.Code) {
	start := m.low
	switch req.Strategy.Kind {
	case galgo.PollFromOffset:
		start = req.Strategy.Value
	case galgo.PollFromTimestamp:
		t = target{byTime: true, value: req.Strategy.Value}
		return t, m.low < m.next && t.value <= m.time, galgo.CodeOK
	case galgo.PollFirst:
	case galgo.PollLast:
		start = m.next - min(uint64(req.Count), m.next)
	case galgo.PollNext:
		if stored, ok := m.consumers.get(req.Kind, req.Key); ok {
			start = stored + 1
		}
	default:
		return t, false, galgo.CodeInvalidCommand
	}
	start = max(start, m.low)
	return target{value: start}, start < m.next, galgo.CodeOK
}

// place finds out which records may be needed.
func (m *Machine) place(p *Plan) {
	if i, ok := m.inMemory(p.want); ok {
		p.takeMemory(m.tail.live()[i:])
		return
	}
	if m.takeSpans(p) {
		p.takeMemory(m.tail.live())
	}
}

// inMemory returns where the target is in the tail; ok is false if it is, or may
// be, before it.
func (m *Machine) inMemory(t target) (i int, ok bool) {
	if m.tail.len() == 0 {
		return 0, false
	}
	front := m.tail.front()
	if t.byTime {
		return m.tail.findTime(t.value), front.base == m.low || t.value > m.tail.before
	}
	return m.tail.findOffset(t.value), t.value >= front.base
}

// takeMemory notes records until they are enough.
func (p *Plan) takeMemory(batches []resident) {
	messages, bytes := uint64(0), 0
	for i := range batches {
		r := &batches[i]
		p.memory = append(p.memory, r.body)
		bytes += len(r.body)
		messages += uint64(r.count)
		if i == 0 && !p.want.byTime && p.want.value > r.base {
			messages -= p.want.value - r.base
		}
		if messages >= uint64(p.count) || bytes >= p.bytes {
			return
		}
	}
}

// takeSpans notes segments from the target up to the tail; it returns false if
// they are enough without the tail.
func (m *Machine) takeSpans(p *Plan) bool {
	messages, bytes := uint64(0), uint64(0)
	for _, s := range m.segments[m.segmentOf(p.want):] {
		end := m.readable(s)
		if end == 0 {
			return true
		}
		p.spans = append(p.spans, span{
			seg: s, end: end, onDisk: s.onDisk, fresh: s.fresh[:len(s.fresh):len(s.fresh)], size: s.size / s.messages(),
		})
		if len(p.spans) > 1 { // the first may be needed for its last message only
			messages += s.messages()
			bytes += end
		}
		if end < s.size {
			return true
		}
		if messages >= uint64(p.count) || bytes >= uint64(p.bytes) {
			return false
		}
	}
	return true
}

// segmentOf returns the index of the segment that holds the target.
func (m *Machine) segmentOf(t target) int {
	return sort.Search(len(m.segments), func(i int) bool {
		if t.byTime {
			return m.segments[i].time >= t.value
		}
		return m.segments[i].last >= t.value
	})
}

// readable is how many bytes of a segment's log are read from its file: those
// before the tail, all of which are written.
func (m *Machine) readable(s *segment) uint64 {
	if m.tail.len() == 0 {
		return s.size
	}
	switch front := m.tail.front(); {
	case front.seg == s:
		return front.pos
	case s.base > front.base:
		return 0
	}
	return s.size
}

// Empty reports whether there is nothing to read.
func (p *Plan) Empty() bool { return len(p.spans) == 0 && len(p.memory) == 0 }

// OnDisk reports whether Read will wait for the disk.
func (p *Plan) OnDisk() bool { return len(p.spans) > 0 }

// Reset lets go of everything the plan names.
func (p *Plan) Reset() {
	clear(p.spans)
	clear(p.memory)
	*p = Plan{spans: p.spans[:0], memory: p.memory[:0]}
}
