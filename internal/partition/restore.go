package partition

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"

	"galgo/internal/disk"
)

// CheckpointFile is a file that a checkpoint names, and how much of it the checkpoint
// covers. In the clear these bytes are the same on every replica and never change.
type CheckpointFile struct {
	Name string
	Size int64 // bytes
	log  int   // which segment's log it is, counted from 1; 0: an index
}

// Files lists the files of a checkpoint, in order: of each segment the log and then
// the index. dir is that of the group.
func (c *Checkpoint) Files(dir string) []CheckpointFile {
	files := make([]CheckpointFile, 0, 2*len(c.segments))
	for i := range c.segments {
		s := &c.segments[i]
		files = append(files,
			CheckpointFile{path.Join(dir, fileName(c.Generation, s.base, logSuffix)), int64(s.size), i + 1},
			CheckpointFile{path.Join(dir, fileName(c.Generation, s.base, indexSuffix)), indexPos(s.entries), 0})
	}
	return files
}

// Verify reads the messages of a checkpoint that came from another replica, before
// anything here is changed: what has rotted there must not take the place of what other
// replicas have. src is as for Restore. The error is a *DamageError, or one of src.
func Verify(cfg Config, c *Checkpoint, src io.ReaderAt) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	buffer := oneWindow()
	pos, time := int64(0), uint64(0)
	for i := range c.segments {
		s := &c.segments[i]
		w := walker{
			seg: newSegment(&cfg, c.Generation, s.base), file: io.NewSectionReader(src, pos, int64(s.size)),
			partition: uint64(cfg.Partition), end: s.size, next: s.base, time: time, want: windowMax, buffer: buffer,
		}
		for b := []byte{}; b != nil; {
			if b, _, err = w.record(); err != nil {
				return err
			}
		}
		if w.next != s.last+1 {
			return w.damage(fmt.Sprintf("it ends at offset %d, the checkpoint says %d", w.next, s.last+1))
		}
		pos, time = pos+int64(s.size)+indexPos(s.entries), w.time
	}
	return nil
}

// Restore makes the files of a checkpoint that came from another replica, durably.
// src has their bytes in the clear, back to back in the order of Files. What this replica
// has of them already are the same bytes, or the same batches and then left as they are, so
// a crash in the middle harms no checkpoint that is here. No machine of the group may have a job in flight; Open comes next.
func Restore(cfg Config, c *Checkpoint, src io.ReaderAt) error {
	return restore(cfg, c, src, (*Checkpoint).restoreFile)
}

// RestoreAnew is Restore at a start, which cannot know of syncs that have failed in the
// process before: no file and no name that is there already is relied on, and each takes
// its place when it is durable. Nobody may have any of the files open.
func RestoreAnew(cfg Config, c *Checkpoint, src io.ReaderAt) error {
	return restore(cfg, c, src, (*Checkpoint).restoreAnew)
}

func restore(cfg Config, c *Checkpoint, src io.ReaderAt, file func(*Checkpoint, *Config, CheckpointFile, *io.SectionReader) error) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	if err := cfg.Disk.MkdirAll(cfg.Dir); err != nil {
		return fmt.Errorf("partition: group %d: %w", cfg.Group, err)
	}
	pos := int64(0)
	for _, f := range c.Files(cfg.Dir) {
		if err := file(c, &cfg, f, io.NewSectionReader(src, pos, f.Size)); err != nil {
			return fmt.Errorf("partition: group %d: restore %s: %w", cfg.Group, f.Name, err)
		}
		pos += f.Size
	}
	if err := cfg.Disk.SyncDir(cfg.Dir); err != nil {
		return fmt.Errorf("%w: group %d: %s: %w", ErrSync, cfg.Group, cfg.Dir, err)
	}
	return nil
}

// restoreChunk is how much is copied at a time, in bytes.
const restoreChunk = 1 << 20

// restoreName is the file in the directory of a group that a start restores.
const restoreName = "restore.tmp"

func (c *Checkpoint) restoreAnew(cfg *Config, f CheckpointFile, src *io.SectionReader) error {
	at := f
	at.Name = path.Join(cfg.Dir, restoreName)
	if err := cfg.Disk.Remove(at.Name); err != nil && !errors.Is(err, disk.ErrNotExist) {
		return err
	}
	if err := c.restoreFile(cfg, at, src); err != nil {
		return err
	}
	return cfg.Disk.Rename(at.Name, f.Name)
}

func (c *Checkpoint) restoreFile(cfg *Config, f CheckpointFile, src *io.SectionReader) error {
	file, err := cfg.Disk.Open(f.Name)
	if errors.Is(err, disk.ErrNotExist) {
		file, err = cfg.Disk.Create(f.Name, 0)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if sealing := cfg.sealing(c.Generation); sealing != nil && f.log > 0 {
		err = c.restoreSealed(cfg, sealing, file, f.log-1, src)
	} else {
		err = copyAll(file, src, f.Size)
	}
	if err != nil {
		return err
	}
	if err := file.Truncate(f.Size); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("%w: %w", ErrSync, err)
	}
	return nil
}

func copyAll(file disk.File, src io.Reader, size int64) error {
	buf := make([]byte, min(restoreChunk, size))
	for pos := int64(0); pos < size; {
		n, err := io.ReadFull(src, buf[:min(int64(len(buf)), size-pos)])
		if err != nil {
			return err
		}
		if err := file.WriteAt(buf[:n], pos); err != nil {
			return err
		}
		pos += int64(n)
	}
	return nil
}

// restoreSealed seals the batches of a segment, from the first on that the file does not
// have. Those before it stay: written once more they would be other bytes, and a crash
// could leave half of each.
func (c *Checkpoint) restoreSealed(cfg *Config, sealing *sealing, file disk.File, i int, src *io.SectionReader) error {
	w := c.walker(cfg, i, src, nil)
	same, err := c.sameBatches(cfg, sealing, i, file, src)
	if err != nil {
		return err
	}
	var batches [][]byte
	pos, size := int64(same), 0
	flush := func() error {
		err := sealing.write(file, batches, pos)
		pos, size, batches = pos+int64(size), 0, nil
		return err
	}
	w.buffer = func(n int) []byte { return make([]byte, n) } // batches are kept until they are written
	for {
		b, _, err := w.record()
		switch {
		case err != nil:
			return err
		case b == nil:
			return flush()
		case w.pos <= same:
			continue
		}
		batches, size = append(batches, b), size+len(b)
		if size >= restoreChunk {
			if err := flush(); err != nil {
				return err
			}
		}
	}
}

// sameBatches returns up to which byte a file has the batches of a segment.
func (c *Checkpoint) sameBatches(cfg *Config, sealing *sealing, i int, file disk.File, src *io.SectionReader) (same uint64, err error) {
	size, err := file.Size()
	if err != nil {
		return 0, err
	}
	want, have := c.walker(cfg, i, src, nil), c.walker(cfg, i, file, sealing)
	have.end = min(have.end, uint64(size))
	for have.pos < have.end {
		b, _, err := want.record()
		if err != nil || b == nil {
			return same, err
		}
		got, _, err := have.record()
		if err == nil && got != nil {
			got, err = have.open(got)
		}
		if _, damaged := errors.AsType[*DamageError](err); err != nil && !damaged {
			return same, err
		}
		if err != nil || !bytes.Equal(got, b) {
			return same, nil
		}
		same = want.pos
	}
	return same, nil
}

// walker walks the log of the i-th segment of a checkpoint, from its beginning.
func (c *Checkpoint) walker(cfg *Config, i int, file io.ReaderAt, sealing *sealing) *walker {
	s := &c.segments[i]
	return &walker{
		seg: newSegment(cfg, c.Generation, s.base), file: file, partition: uint64(cfg.Partition),
		end: s.size, next: s.base, sealing: sealing, want: restoreChunk, buffer: oneWindow(),
	}
}

// Opened reads a file of a checkpoint in the clear, as Restore wants it. It opens what it
// needs anew each time, may be used by one at a time, and reads from the batch on that the
// index names. It is nil for a file that is in the clear.
func (c *Checkpoint) Opened(cfg Config, f CheckpointFile) (io.ReaderAt, error) {
	cfg, err := cfg.withDefaults()
	sealing := cfg.sealing(c.Generation)
	if err != nil || sealing == nil || f.log == 0 {
		return nil, err
	}
	return &openedLog{cfg: &cfg, ckpt: c, at: f.log - 1, sealing: sealing}, nil
}

type openedLog struct {
	cfg     *Config
	ckpt    *Checkpoint
	at      int // which segment
	sealing *sealing
}

// ReadAt implements io.ReaderAt.
func (o *openedLog) ReadAt(b []byte, off int64) (int, error) {
	w := o.ckpt.walker(o.cfg, o.at, nil, o.sealing)
	file, err := o.cfg.Disk.Open(w.seg.logName)
	if err != nil {
		return 0, fmt.Errorf("partition: open %s: %w", w.seg.logName, err)
	}
	defer file.Close()
	w.file, w.want = file, min(max(len(b), windowMin), windowMax)
	if e, found := o.entry(w.seg, uint64(off)); found {
		near := *w
		near.pos, near.next, near.time = e.pos, e.offset, e.time-1
		n, err := near.copyFrom(b, off)
		if _, damaged := errors.AsType[*DamageError](err); !damaged {
			return n, err
		}
	}
	return w.copyFrom(b, off)
}

// copyFrom fills b with the batches in the clear, from byte off of the log on.
func (w *walker) copyFrom(b []byte, off int64) (n int, err error) {
	for n < len(b) {
		record, _, err := w.record()
		if err == nil && record == nil {
			err = io.EOF
		}
		if err != nil {
			return n, err
		}
		at := int64(w.pos) - int64(len(record))
		if off+int64(n) >= int64(w.pos) {
			continue // and stays closed
		}
		if record, err = w.open(record); err != nil {
			return n, err
		}
		n += copy(b[n:], record[off+int64(n)-at:])
	}
	return n, nil
}

// entry finds where to start for a byte of the log; the beginning, if the index does not
// say.
func (o *openedLog) entry(s *segment, off uint64) (indexEntry, bool) {
	f, err := o.cfg.Disk.Open(s.indexName)
	if err != nil {
		return indexEntry{}, false
	}
	defer f.Close()
	e, found, err := searchIndexFile(f, s.indexIdentity(o.cfg.IndexInterval).seed(), o.ckpt.segments[o.at].entries, target{byPlace: true, value: off})
	return e, found && err == nil
}
