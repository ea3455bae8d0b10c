package partition

import (
	"errors"
	"fmt"
	"path"
	"sort"

	"galgo/internal/disk"
)

// WriteMax is how many bytes one write job takes at most, if a single batch does
// not have more.
const WriteMax = 1 << 20

// reserveFrom is the size in bytes of a write from which on it is worth asking for the
// room of those that will follow it.
const reserveFrom = 256 << 10

// ErrSync: a sync failed, so what it covered may be lost for good, and a second
// sync that succeeds would not tell. The host must stop the process.
var ErrSync = errors.New("partition: sync failed, stop and recover from the log")

// WriteJob writes committed batches to their segments, in few large writes, and
// begins segments. It makes nothing durable.
type WriteJob struct {
	cfg     *Config
	mkdir   bool // make the directory
	remkdir bool // an earlier attempt may have come half way
	chunks  []chunk
	bufs    [][]byte
	scratch []byte // encoded index entries
	end     uint64 // sequence behind the last batch taken

	triedDir, madeDir, madeFile bool // what Run has done, whether it failed later or not
}

// chunk is what goes to one segment.
type chunk struct {
	seg      *segment
	pos, end uint64 // bytes in the log
	bufs     [2]int // range of WriteJob.bufs
	number   uint32 // of the first index entry
	entries  []indexEntry
	done     int  // value of freshDone when this is written
	last     bool // the segment takes no more
}

// NextWrite returns the next write that is due, nil if there is none or a job is
// in flight. It is due when the unwritten messages or bytes have reached their
// thresholds, when they complete a segment, or when forced.
func (m *Machine) NextWrite(force bool) *WriteJob {
	if m.busy() || !m.writeDue(force) {
		return nil
	}
	m.write.collect(m, WriteMax)
	m.job = &m.write
	return &m.write
}

// busy reports whether no job may start.
func (m *Machine) busy() bool { return m.job != nil || m.failure != nil || m.closed }

func (m *Machine) writeDue(force bool) bool {
	unwritten := m.tail.unwritten()
	if len(unwritten) == 0 {
		return false
	}
	return force ||
		m.tail.unwrittenMessages >= uint64(m.cfg.MessagesToSave) ||
		m.tail.unwrittenBytes >= m.cfg.BytesToSave ||
		unwritten[0].seg.sealed
}

// collect takes unwritten batches up to limit bytes, at least one if there is one.
func (j *WriteJob) collect(m *Machine, limit int) {
	*j = WriteJob{cfg: &m.cfg, mkdir: !m.dirMade, remkdir: m.dirTried, chunks: j.chunks[:0], bufs: j.bufs[:0], scratch: j.scratch[:0], end: m.tail.written}
	size := 0
	for _, r := range m.tail.unwritten() {
		if size > 0 && size+len(r.body) > limit {
			break
		}
		size += len(r.body)
		j.add(r)
	}
	for i := range j.chunks {
		j.chunks[i].takeEntries()
	}
}

func (j *WriteJob) add(r resident) {
	if n := len(j.chunks); n == 0 || j.chunks[n-1].seg != r.seg {
		j.chunks = append(j.chunks, chunk{seg: r.seg, pos: r.pos, bufs: [2]int{len(j.bufs), len(j.bufs)}})
	}
	c := &j.chunks[len(j.chunks)-1]
	j.bufs = append(j.bufs, r.body)
	c.bufs[1] = len(j.bufs)
	c.end = r.pos + uint64(len(r.body))
	c.last = r.seg.sealed && c.end == r.seg.size
	j.end++
}

// takeEntries picks the index entries of what the chunk writes.
func (c *chunk) takeEntries() {
	s := c.seg
	c.done = sort.Search(len(s.fresh), func(i int) bool { return s.fresh[i].pos >= c.end })
	c.number = s.onDisk + uint32(s.freshDone)
	c.entries = s.fresh[s.freshDone:c.done:c.done]
}

// Run does the writing. It may be called again after it failed.
func (j *WriteJob) Run() error {
	if j.mkdir && !j.madeDir && len(j.chunks) > 0 {
		if err := j.makeDir(); err != nil {
			return err
		}
	}
	for i := range j.chunks {
		if err := j.writeChunk(&j.chunks[i]); err != nil {
			return fmt.Errorf("partition: group %d: write %s at byte %d: %w", j.cfg.Group, j.chunks[i].seg.logName, j.chunks[i].pos, err)
		}
	}
	return nil
}

// makeDir makes the group's directory. If it may be there already, left by an
// attempt that failed or by a process that was killed, nothing says that its
// name was synced, so it is synced here.
func (j *WriteJob) makeDir() error {
	again := j.remkdir || j.triedDir
	j.triedDir = true
	if err := j.cfg.Disk.MkdirAll(j.cfg.Dir); err != nil {
		return fmt.Errorf("partition: group %d: make %s: %w", j.cfg.Group, j.cfg.Dir, err)
	}
	if again {
		if err := j.cfg.Disk.SyncDir(path.Dir(j.cfg.Dir)); err != nil {
			return fmt.Errorf("%w: group %d: %s: %w", ErrSync, j.cfg.Group, path.Dir(j.cfg.Dir), err)
		}
	}
	j.madeDir = true
	return nil
}

func (j *WriteJob) writeChunk(c *chunk) error {
	if err := j.openLog(c.seg); err != nil {
		return err
	}
	if c.end-c.pos >= reserveFrom && !j.cfg.Preallocate {
		disk.Reserve(c.seg.log.File, int64(c.end))
	}
	if err := j.writeBatches(c); err != nil {
		return err
	}
	if c.last {
		disk.Unreserve(c.seg.log.File)
	}
	disk.WriteBack(c.seg.log.File, int64(c.pos), int64(c.end-c.pos))
	return j.writeIndex(c)
}

func (j *WriteJob) writeBatches(c *chunk) error {
	bodies := j.bufs[c.bufs[0]:c.bufs[1]]
	if s := j.cfg.sealing(c.seg.generation); s != nil {
		return s.write(c.seg.log, bodies, int64(c.pos))
	}
	return c.seg.log.WritevAt(bodies, int64(c.pos))
}

// openLog opens the log of a segment, making it if it was never made.
func (j *WriteJob) openLog(s *segment) (err error) {
	switch {
	case s.log != nil:
		return nil
	case s.made:
		s.log, err = j.cfg.Files.acquire(s.logName)
		return err
	}
	size := int64(0)
	if j.cfg.Preallocate {
		size = int64(j.cfg.SegmentSize)
	}
	again := s.tried
	s.tried = true
	s.log, err = j.cfg.Files.create(s.logName, size, again)
	if err == nil {
		s.made, j.madeFile = true, true
	}
	return err
}

// writeIndex appends entries. The file is made if it is not there: it may have
// been lost, and then readers will mend what is below.
func (j *WriteJob) writeIndex(c *chunk) error {
	s := c.seg
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	id := s.indexIdentity(j.cfg.IndexInterval)
	header := c.number == 0
	if s.index == nil {
		made, err := j.openIndex(s)
		if err != nil {
			return err
		}
		header = header || made
	}
	if header {
		var buf [indexHeaderSize]byte
		if err := s.index.WriteAt(id.appendHeader(buf[:0]), 0); err != nil {
			return err
		}
	}
	if len(c.entries) == 0 {
		return nil
	}
	j.scratch = appendEntries(j.scratch[:0], id.seed(), c.number, c.entries)
	return s.index.WriteAt(j.scratch, indexPos(c.number))
}

func (j *WriteJob) openIndex(s *segment) (made bool, err error) {
	s.index, err = j.cfg.Files.acquire(s.indexName)
	if !errors.Is(err, disk.ErrNotExist) {
		return false, err
	}
	s.index, err = j.cfg.Files.create(s.indexName, 0, false)
	j.madeFile = j.madeFile || err == nil
	return true, err
}

// appendEntries appends entries that start with number.
func appendEntries(b []byte, seed, number uint32, entries []indexEntry) []byte {
	for i, e := range entries {
		b = e.append(b, seed, number+uint32(i))
	}
	return b
}

// WriteDone takes the outcome of a WriteJob's Run. After an error the same bytes
// are due again; the host decides how often to try.
func (m *Machine) WriteDone(j *WriteJob, err error) {
	if m.job != job(j) {
		panic(fmt.Sprintf("partition: group %d: a write is done that is not in flight", m.cfg.Group))
	}
	m.job = nil
	m.written(j, err == nil)
	m.stopOn(err)
	m.publish()
}

// stopOn ends all writing after a failed sync.
func (m *Machine) stopOn(err error) {
	if m.failure == nil && errors.Is(err, ErrSync) {
		m.failure = err
	}
}

// written takes note of what a job wrote. After a failure that is nothing: what
// may have reached a file is written again, by the job that syncs it if by no other.
func (m *Machine) written(j *WriteJob, complete bool) {
	m.dirMade = m.dirMade || j.madeDir
	m.dirTried = m.dirTried || j.triedDir
	m.newNames = m.newNames || j.madeFile
	if complete {
		for i := range j.chunks {
			m.chunkWritten(&j.chunks[i])
		}
		m.tail.markWritten(j.end)
		m.tail.evict(m.cfg.TailBytes)
	}
	clear(j.bufs)
	clear(j.chunks)
}

func (m *Machine) chunkWritten(c *chunk) {
	c.seg.freshDone = c.done
	if !c.seg.dirty {
		c.seg.dirty = true
		m.unsynced = append(m.unsynced, c.seg)
	}
}

// Trim drops written batches from memory until at most keep bytes are left. It
// lets a host with a budget take memory back from idle partitions.
func (m *Machine) Trim(keep int) {
	m.tail.evict(max(keep, 0))
	m.publish()
}

// SyncJob writes what is unwritten, makes the segments durable, and has the
// checkpoint that rests on them.
type SyncJob struct {
	write      *WriteJob
	segments   []*segment // to sync, oldest first
	newNames   bool
	checkpoint *Checkpoint
}

// BeginCheckpoint starts a checkpoint at the last applied operation; nil if a
// job is in flight. Operations may be applied meanwhile.
func (m *Machine) BeginCheckpoint() *SyncJob {
	if m.busy() {
		return nil
	}
	m.write.collect(m, int(^uint(0)>>1))
	j := &SyncJob{write: &m.write, newNames: m.newNames, checkpoint: m.state()}
	for _, s := range m.unsynced {
		if !s.gone.Load() {
			j.segments = append(j.segments, s)
		}
	}
	for i := range m.write.chunks {
		if s := m.write.chunks[i].seg; !s.dirty {
			j.segments = append(j.segments, s)
		}
	}
	m.job = j
	return j
}

// Run writes, then syncs logs, indexes and the directory. An error that wraps
// ErrSync is the end of this process; after another it may be called again.
func (j *SyncJob) Run() error {
	if err := j.write.Run(); err != nil {
		return err
	}
	cfg := j.write.cfg
	for _, s := range j.segments {
		for _, f := range []*openFile{s.log, s.index} {
			if err := f.Sync(); err != nil {
				return j.fail(f.Name(), err)
			}
		}
	}
	if j.newNames || j.write.madeFile {
		if err := cfg.Disk.SyncDir(cfg.Dir); err != nil {
			return j.fail(cfg.Dir, err)
		}
	}
	return nil
}

func (j *SyncJob) fail(name string, err error) error {
	return fmt.Errorf("%w: group %d: %s: %w", ErrSync, j.write.cfg.Group, name, err)
}

// Checkpoint returns what to make durable after Run has succeeded.
func (j *SyncJob) Checkpoint() *Checkpoint { return j.checkpoint }

// SyncDone takes the outcome of a SyncJob's Run. After a failed sync the machine
// writes nothing any more.
func (m *Machine) SyncDone(j *SyncJob, err error) {
	if m.job != job(j) {
		panic(fmt.Sprintf("partition: group %d: a sync is done that is not in flight", m.cfg.Group))
	}
	m.job = nil
	m.written(j.write, err == nil)
	if err == nil {
		m.synced(j)
	}
	m.stopOn(err)
	m.publish()
}

func (m *Machine) synced(j *SyncJob) {
	for _, s := range j.segments {
		s.dirty = false
		s.release()
		s.forgetSynced()
	}
	m.newNames = false
	clear(m.unsynced) // nothing was written meanwhile, and the rest is gone
	m.unsynced = m.unsynced[:0]
}

// Err returns the failed sync that made the machine stop writing, if one did.
func (m *Machine) Err() error { return m.failure }
