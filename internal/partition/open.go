package partition

import (
	"errors"
	"fmt"
	"path"

	"galgo/internal/disk"
	"galgo/internal/wire"
)

// Open makes the machine of a group whose files may be on this disk, at the
// operation of its checkpoint; nil stands for none, and operation 0. The host
// then applies what the log holds above.
//
// logFrom is the lowest operation of the group that the log still holds, 0 if it
// holds none. What the files have beyond the checkpoint is cut: bytes behind the
// recovery point, segments begun after it, segments that were to be removed. It
// is written again as the log is applied. If the log does not reach down to the
// checkpoint, Open first makes sure that no sound record would be cut, which
// would mean that the checkpoint is not the newest one, and refuses if so.
//
// The error is a *DamageError for files, wraps ErrForeign for a checkpoint of
// another group; then nothing was changed. It reads the directory, and no file
// unless there is something to cut.
func Open(cfg Config, c *Checkpoint, logFrom uint64) (*Machine, error) {
	m, err := New(cfg)
	if err != nil {
		return nil, err
	}
	if c != nil {
		if err := m.load(c); err != nil {
			return nil, err
		}
	}
	entries, err := m.cfg.Disk.List(m.cfg.Dir)
	if err != nil && !errors.Is(err, disk.ErrNotExist) {
		return nil, fmt.Errorf("partition: group %d: list %s: %w", m.cfg.Group, m.cfg.Dir, err)
	}
	m.dirTried = err == nil
	m.dirMade = len(m.segments) > 0 // the checkpoint came after its sync
	m.newNames = m.dirTried         // a start before this one may have cut and not synced
	r := recovery{m: m, explained: logFrom != 0 && logFrom <= m.op+1}
	if err := r.inspect(entries); err != nil {
		return nil, err
	}
	if err := r.cut(); err != nil {
		return nil, err
	}
	return m, nil
}

// load takes over the state of a checkpoint.
func (m *Machine) load(c *Checkpoint) error {
	if c.Group != m.cfg.Group || c.Incarnation != m.cfg.Incarnation {
		return fmt.Errorf("%w: it is of group %d incarnation %d, wanted is group %d incarnation %d",
			ErrForeign, c.Group, c.Incarnation, m.cfg.Group, m.cfg.Incarnation)
	}
	if len(c.consumers) > m.cfg.Consumers || len(c.producers) > m.cfg.Producers {
		return fmt.Errorf("partition: group %d: checkpoint has %d consumers and %d producers, settings allow %d and %d: they must not shrink",
			m.cfg.Group, len(c.consumers), len(c.producers), m.cfg.Consumers, m.cfg.Producers)
	}
	m.op = c.Op
	m.next, m.low, m.time, m.generation = c.Next, c.Low, c.Time, c.Generation
	for i := range c.segments {
		s := &c.segments[i]
		seg := newSegment(&m.cfg, c.Generation, s.base)
		seg.size, seg.last, seg.time, seg.sealed = s.size, s.last, s.time, s.sealed
		seg.indexed, seg.onDisk = s.indexed, s.entries
		seg.made = true
		m.segments = append(m.segments, seg)
		m.bytes += s.size
		m.messages += s.last - s.base + 1
	}
	m.tail.before = c.Time
	m.consumers.sorted = append([]storedOffset(nil), c.consumers...)
	m.tenures.sorted = append([]tenure(nil), c.tenures...)
	for i := range c.producers {
		if n := len(c.producers[i].ring); n > m.cfg.ProducerRing {
			return fmt.Errorf("partition: group %d: checkpoint has %d numbers of a producer, settings allow %d: they must not shrink", m.cfg.Group, n, m.cfg.ProducerRing)
		}
	}
	m.producers.load(c.producers)
	m.frontier.reset(m)
	m.publish()
	return nil
}

// recovery compares a directory with a checkpoint.
type recovery struct {
	m         *Machine
	explained bool // the log redoes all that is beyond the checkpoint
	logs      map[uint64]uint64
	trims     []trim
	removals  []namedFile
}

// trim is a file to be cut to a length.
type trim struct {
	name string
	size uint64
}

// inspect decides what to do and refuses what it cannot explain. It changes
// nothing.
func (r *recovery) inspect(entries []disk.Entry) error {
	files, _ := sortNames(entries) // what is not ours is left alone
	r.logs = make(map[uint64]uint64, len(r.m.segments))
	for _, f := range files {
		if err := r.inspectFile(f); err != nil {
			return err
		}
	}
	for _, s := range r.m.segments {
		size, ok := r.logs[s.base]
		if !ok {
			return r.damage(ErrMissing, s.logName, 0, "the file is not there, the checkpoint names it")
		}
		if size < s.size {
			return r.damage(ErrMissing, s.logName, size, fmt.Sprintf("the file ends here, the checkpoint has %d bytes", s.size))
		}
	}
	return nil
}

func (r *recovery) inspectFile(f namedFile) error {
	s := r.segmentOf(f)
	switch {
	case s != nil && f.Index:
		r.trimTo(f, uint64(indexPos(s.onDisk)))
		return nil
	case s != nil:
		r.logs[s.base] = f.size
		if f.size > s.size && !r.explained {
			if err := r.checkBeyond(f, s.size, s.last+1, s.time); err != nil {
				return err
			}
		}
		r.trimTo(f, s.size)
		return nil
	case r.before(f):
	case r.beyond(f):
		if !f.Index && !r.explained {
			if err := r.checkBeyond(f, 0, f.Base, 0); err != nil {
				return err
			}
		}
	default:
		return r.damage(ErrUnexplained, path.Join(r.m.cfg.Dir, f.file), 0,
			fmt.Sprintf("the checkpoint has offsets %d to %d and no segment at %d", r.m.low, r.m.next, f.Base))
	}
	r.removals = append(r.removals, f)
	return nil
}

func (r *recovery) segmentOf(f namedFile) *segment {
	if f.Generation != r.m.generation {
		return nil
	}
	i := r.m.segmentOf(target{value: f.Base})
	if i == len(r.m.segments) || r.m.segments[i].base != f.Base {
		return nil
	}
	return r.m.segments[i]
}

// before: the file was to go when the checkpoint was made.
func (r *recovery) before(f namedFile) bool {
	return f.Generation < r.m.generation || f.Generation == r.m.generation && f.Base < r.m.low
}

// beyond: the file was begun after the checkpoint.
func (r *recovery) beyond(f namedFile) bool {
	return f.Generation > r.m.generation || f.Base >= r.m.next
}

func (r *recovery) trimTo(f namedFile, size uint64) {
	if f.size > size {
		r.trims = append(r.trims, trim{path.Join(r.m.cfg.Dir, f.file), size})
	}
}

// checkBeyond refuses a file that goes on with a sound record where the
// checkpoint ends: somebody committed it, and the log does not have it.
func (r *recovery) checkBeyond(f namedFile, pos, next, time uint64) error {
	name := path.Join(r.m.cfg.Dir, f.file)
	file, err := r.m.cfg.Disk.Open(name)
	if err != nil {
		return fmt.Errorf("partition: group %d: open %s: %w", r.m.cfg.Group, name, err)
	}
	defer file.Close()
	w := walker{
		seg: newSegment(&r.m.cfg, f.Generation, f.Base), file: file, partition: uint64(r.m.cfg.Partition), pos: pos, end: f.size, next: next, time: time,
		sealing: r.m.cfg.sealing(f.Generation), want: wire.BatchHeaderSize, buffer: func(n int) []byte { return make([]byte, n) },
	}
	b, _, err := w.record()
	if _, damaged := errors.AsType[*DamageError](err); err != nil && !damaged {
		return err
	}
	if b == nil {
		return nil
	}
	return r.damage(ErrUnexplained, name, pos, fmt.Sprintf("a sound record at offset %d lies beyond the checkpoint at op %d, and the log cannot redo it", next, r.m.op))
}

func (r *recovery) damage(kind error, file string, pos uint64, reason string) error {
	return &DamageError{Kind: kind, Group: r.m.cfg.Group, File: file, Pos: pos, Reason: reason}
}

// cut does what inspect decided, and makes it durable.
func (r *recovery) cut() error {
	cfg := &r.m.cfg
	for _, t := range r.trims {
		if err := cutFile(cfg.Disk, t); err != nil {
			return fmt.Errorf("partition: group %d: cut %s to %d bytes: %w", cfg.Group, t.name, t.size, err)
		}
	}
	for _, f := range r.removals {
		name := path.Join(cfg.Dir, f.file)
		if err := cfg.Disk.Remove(name); err != nil {
			return fmt.Errorf("partition: group %d: remove %s: %w", cfg.Group, name, err)
		}
	}
	if len(r.removals) == 0 {
		return nil
	}
	if err := cfg.Disk.SyncDir(cfg.Dir); err != nil {
		return fmt.Errorf("%w: group %d: %s: %w", ErrSync, cfg.Group, cfg.Dir, err)
	}
	return nil
}

func cutFile(d disk.Disk, t trim) error {
	f, err := d.Open(t.name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(int64(t.size)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("%w: %w", ErrSync, err)
	}
	return nil
}
