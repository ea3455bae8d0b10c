package partition

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"galgo"
)

// Checkpoint is the state of a partition at an operation, but for the messages,
// which are in the segments it names: up to the sizes it gives these are durable
// (the recovery point). Equal operations give equal bytes on every replica.
type Checkpoint struct {
	Group       uint64
	Incarnation uint64
	Op          uint64 // last operation that is in it
	Next        uint64 // offset of the next message
	Low         uint64 // first retained offset
	Time        uint64 // µs, of the last batch
	Generation  uint64 // of the last purge

	segments  []segmentState
	consumers []storedOffset
	producers []producerState
	tenures   []tenure
}

// segmentState is a segment in a checkpoint.
type segmentState struct {
	base, size, last, time uint64
	indexed                uint64 // position of the last indexed record
	entries                uint32 // of the index
	sealed                 bool
}

// Format of a checkpoint. Counts are bounded by the limits of Config, and what
// is behind them by the length.
//
//	off  size  field
//	  0     4  magic        "GPCK"
//	  4     4  version      1
//	  8     8  length       of the whole, bytes
//	 16     8  group
//	 24     8  incarnation
//	 32     8  op
//	 40     8  next         offset of the next message
//	 48     8  low          first retained offset
//	 56     8  time         of the last batch, µs
//	 64     8  generation   of the last purge
//	 72     4  segments     count
//	 76     4  consumers    count
//	 80     4  producers    count
//	 84     4  tenures      count
//	 88        segments, oldest first, 48 bytes each:
//	             base u64, size u64, last offset u64, time of last batch u64,
//	             indexed position u64, index entries u32, sealed u8, zero 3 bytes
//	           consumers, ascending, 16 bytes each:
//	             kind u8, zero 3 bytes, key u32, offset u64
//	           producers, by last op, 40 bytes each and their numbers:
//	             client 16 bytes, last op u64, floor u64, numbers u32,
//	             floor is known u8, zero 3 bytes, then oldest first
//	             { number u64, base offset u64 }
//	           tenures, ascending, 12 bytes each:
//	             key of a consumer group u32, generation since when its member has
//	             the partition u64
//	end-8   8  checksum     XXH3-64 of all before
const (
	checkpointMagic   = 0x4b435047 // "GPCK"
	checkpointVersion = 1
	checkpointHeader  = 88
	checkpointTrailer = 8
	segmentStateSize  = 48
	consumerStateSize = 16
	tenureStateSize   = 12
	producerStateSize = 40
	sentSize          = 16
)

// state copies the state at the last applied operation.
func (m *Machine) state() *Checkpoint {
	c := &Checkpoint{
		Group: m.cfg.Group, Incarnation: m.cfg.Incarnation, Op: m.op,
		Next: m.next, Low: m.low, Time: m.time, Generation: m.generation,
		segments:  make([]segmentState, len(m.segments)),
		consumers: slices.Clone(m.consumers.sorted),
		producers: m.producers.export(),
		tenures:   slices.Clone(m.tenures.sorted),
	}
	for i, s := range m.segments {
		c.segments[i] = segmentState{
			base: s.base, size: s.size, last: s.last, time: s.time,
			indexed: s.indexed, entries: s.entries(), sealed: s.sealed,
		}
	}
	return c
}

// Size returns the encoded length in bytes.
func (c *Checkpoint) Size() int {
	n := checkpointHeader + checkpointTrailer
	n += len(c.segments)*segmentStateSize + len(c.consumers)*consumerStateSize + len(c.tenures)*tenureStateSize
	for i := range c.producers {
		n += producerStateSize + len(c.producers[i].ring)*sentSize
	}
	return n
}

// Append appends the encoded checkpoint.
func (c *Checkpoint) Append(b []byte) []byte {
	le := binary.LittleEndian
	b = slices.Grow(b, c.Size())
	start := len(b)
	b = le.AppendUint32(b, checkpointMagic)
	b = le.AppendUint32(b, checkpointVersion)
	b = le.AppendUint64(b, uint64(c.Size()))
	for _, v := range []uint64{c.Group, c.Incarnation, c.Op, c.Next, c.Low, c.Time, c.Generation} {
		b = le.AppendUint64(b, v)
	}
	for _, n := range []int{len(c.segments), len(c.consumers), len(c.producers), len(c.tenures)} {
		b = le.AppendUint32(b, uint32(n))
	}
	for i := range c.segments {
		b = c.segments[i].append(b)
	}
	for _, s := range c.consumers {
		b = append(b, byte(s.kind), 0, 0, 0)
		b = le.AppendUint32(b, s.key)
		b = le.AppendUint64(b, s.offset)
	}
	for i := range c.producers {
		b = c.producers[i].append(b)
	}
	for _, t := range c.tenures {
		b = le.AppendUint64(le.AppendUint32(b, t.key), t.since)
	}
	return le.AppendUint64(b, xxh3.Hash(b[start:]))
}

func (s *segmentState) append(b []byte) []byte {
	for _, v := range []uint64{s.base, s.size, s.last, s.time, s.indexed} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.LittleEndian.AppendUint32(b, s.entries)
	return append(b, boolByte(s.sealed), 0, 0, 0)
}

func (p *producerState) append(b []byte) []byte {
	le := binary.LittleEndian
	b = append(b, p.client[:]...)
	b = le.AppendUint64(b, p.lastOp)
	b = le.AppendUint64(b, p.floor)
	b = le.AppendUint32(b, uint32(len(p.ring)))
	b = append(b, boolByte(p.anyForgotten), 0, 0, 0)
	for _, s := range p.ring {
		b = le.AppendUint64(b, s.number)
		b = le.AppendUint64(b, s.base)
	}
	return b
}

func boolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// DecodeCheckpoint reads and verifies a checkpoint; the error wraps
// ErrCheckpoint. What it accepts encodes to the same bytes.
func DecodeCheckpoint(b []byte) (*Checkpoint, error) {
	if err := checkFrame(b); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	c := &Checkpoint{
		Group: le.Uint64(b[16:]), Incarnation: le.Uint64(b[24:]), Op: le.Uint64(b[32:]),
		Next: le.Uint64(b[40:]), Low: le.Uint64(b[48:]), Time: le.Uint64(b[56:]), Generation: le.Uint64(b[64:]),
	}
	segments, consumers, producers, tenures := le.Uint32(b[72:]), le.Uint32(b[76:]), le.Uint32(b[80:]), le.Uint32(b[84:])
	if segments > SegmentsMax || consumers > ConsumersMax || producers > ProducersMax || tenures > tenuresMax {
		return nil, fmt.Errorf("%w: %d segments, %d consumers, %d producers, %d tenures are above the limits", ErrCheckpoint, segments, consumers, producers, tenures)
	}
	d := decoder{rest: b[checkpointHeader : len(b)-checkpointTrailer]}
	c.segments = d.segments(segments)
	c.consumers = d.consumers(consumers)
	c.producers = d.producers(producers)
	c.tenures = d.tenures(tenures)
	if d.bad || len(d.rest) > 0 {
		return nil, fmt.Errorf("%w: group %d op %d: sections do not fill it, or reserved bytes are not zero", ErrCheckpoint, c.Group, c.Op)
	}
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("%w: group %d op %d: %v", ErrCheckpoint, c.Group, c.Op, err)
	}
	return c, nil
}

// checkFrame verifies what is the same in every version, then version and
// checksum.
func checkFrame(b []byte) error {
	le := binary.LittleEndian
	if len(b) < checkpointHeader+checkpointTrailer {
		return fmt.Errorf("%w: %d bytes", ErrCheckpoint, len(b))
	}
	if got := le.Uint32(b); got != checkpointMagic {
		return fmt.Errorf("%w: magic %#x, want %#x", ErrCheckpoint, got, checkpointMagic)
	}
	if got := le.Uint32(b[4:]); got != checkpointVersion {
		return fmt.Errorf("%w: version %d, this program knows %d", ErrCheckpoint, got, checkpointVersion)
	}
	if got := le.Uint64(b[8:]); got != uint64(len(b)) {
		return fmt.Errorf("%w: %d bytes, want %d", ErrCheckpoint, len(b), got)
	}
	end := len(b) - checkpointTrailer
	if got, want := xxh3.Hash(b[:end]), le.Uint64(b[end:]); got != want {
		return fmt.Errorf("%w: checksum %x, want %x", ErrCheckpoint, got, want)
	}
	return nil
}

// decoder takes fixed pieces off a slice. bad is set by the first that is short
// or has reserved bytes that are not zero.
type decoder struct {
	rest []byte
	bad  bool
}

// fits reports whether n pieces of size bytes can be there; allocate only then.
func (d *decoder) fits(n uint32, size int) bool {
	if uint64(n)*uint64(size) > uint64(len(d.rest)) {
		d.bad = true
	}
	return !d.bad
}

func (d *decoder) take(n int) []byte {
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

// flag reads a byte that is 0 or 1 and three that are zero.
func (d *decoder) flag(b []byte) bool {
	if b[0] > 1 || b[1] != 0 || b[2] != 0 || b[3] != 0 {
		d.bad = true
	}
	return b[0] == 1
}

func (d *decoder) segments(n uint32) []segmentState {
	if !d.fits(n, segmentStateSize) {
		return nil
	}
	le := binary.LittleEndian
	out := make([]segmentState, n)
	for i := range out {
		b := d.take(segmentStateSize)
		out[i] = segmentState{
			base: le.Uint64(b), size: le.Uint64(b[8:]), last: le.Uint64(b[16:]), time: le.Uint64(b[24:]),
			indexed: le.Uint64(b[32:]), entries: le.Uint32(b[40:]), sealed: d.flag(b[44:]),
		}
	}
	return out
}

func (d *decoder) consumers(n uint32) []storedOffset {
	if !d.fits(n, consumerStateSize) {
		return nil
	}
	le := binary.LittleEndian
	out := make([]storedOffset, n)
	for i := range out {
		b := d.take(consumerStateSize)
		out[i] = storedOffset{galgo.ConsumerKind(b[0]), le.Uint32(b[4:]), le.Uint64(b[8:])}
		if checkKind(out[i].kind) != nil || b[1] != 0 || b[2] != 0 || b[3] != 0 {
			d.bad = true
		}
	}
	return out
}

func (d *decoder) tenures(n uint32) []tenure {
	if !d.fits(n, tenureStateSize) {
		return nil
	}
	out := make([]tenure, n)
	for i := range out {
		b := d.take(tenureStateSize)
		out[i] = tenure{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint64(b[4:])}
	}
	return out
}

func (d *decoder) producers(n uint32) []producerState {
	if !d.fits(n, producerStateSize) {
		return nil
	}
	out := make([]producerState, n)
	for i := range out {
		out[i] = d.producer()
	}
	return out
}

func (d *decoder) producer() producerState {
	le := binary.LittleEndian
	if !d.fits(1, producerStateSize) {
		return producerState{}
	}
	b := d.take(producerStateSize)
	p := producerState{client: galgo.ClientID(b[:16]), lastOp: le.Uint64(b[16:]), floor: le.Uint64(b[24:]), anyForgotten: d.flag(b[36:])}
	n := le.Uint32(b[32:])
	if n == 0 || n > ProducerRingMax || !d.fits(n, sentSize) {
		d.bad = true
		return p
	}
	p.ring = make([]sent, n)
	for i := range p.ring {
		s := d.take(sentSize)
		p.ring[i] = sent{le.Uint64(s), le.Uint64(s[8:])}
	}
	return p
}

// validate checks what every state of a machine keeps.
func (c *Checkpoint) validate() error {
	next := c.Low
	for i, s := range c.segments {
		switch {
		case s.base != next:
			return fmt.Errorf("segment %d starts at offset %d, want %d", i, s.base, next)
		case s.last < s.base || s.entries == 0 || s.indexed >= s.size:
			return fmt.Errorf("segment %d at offset %d: last %d, %d bytes, %d index entries up to byte %d", i, s.base, s.last, s.size, s.entries, s.indexed)
		case s.size >= SegmentSizeMax+RecordMax:
			return fmt.Errorf("segment %d at offset %d has %d bytes", i, s.base, s.size)
		case !s.sealed && i < len(c.segments)-1:
			return fmt.Errorf("segment %d at offset %d is not sealed and not the last", i, s.base)
		case s.time > c.Time || i > 0 && s.time <= c.segments[i-1].time:
			return fmt.Errorf("segment %d at offset %d: time %d is out of order", i, s.base, s.time)
		}
		next = s.last + 1
	}
	if next != c.Next {
		return fmt.Errorf("next offset %d, segments end before %d", c.Next, next)
	}
	return c.validateTables()
}

func (c *Checkpoint) validateTables() error {
	for i, s := range c.consumers {
		if i > 0 && compareConsumer(c.consumers[i-1], s) >= 0 {
			return fmt.Errorf("consumer %d is out of order", i)
		}
		if s.offset >= c.Next {
			return fmt.Errorf("consumer %v %d is at offset %d, the partition ends at %d", s.kind, s.key, s.offset, c.Next)
		}
	}
	for i, t := range c.tenures {
		if i > 0 && t.key <= c.tenures[i-1].key {
			return fmt.Errorf("tenure %d is out of order", i)
		}
	}
	clients := make(map[galgo.ClientID]struct{}, len(c.producers))
	for i, p := range c.producers {
		if p.lastOp > c.Op || i > 0 && p.lastOp <= c.producers[i-1].lastOp {
			return fmt.Errorf("producer %v: last op %d is out of order", p.client, p.lastOp)
		}
		if _, twice := clients[p.client]; twice {
			return fmt.Errorf("producer %v comes twice", p.client)
		}
		clients[p.client] = struct{}{}
		if !p.anyForgotten && p.floor != 0 {
			return fmt.Errorf("producer %v has a floor %d it does not know", p.client, p.floor)
		}
		for _, s := range p.ring {
			if s.base >= c.Next {
				return fmt.Errorf("producer %v: number %d is at offset %d, the partition ends at %d", p.client, s.number, s.base, c.Next)
			}
		}
	}
	return nil
}
