package partition

import (
	"errors"
	"fmt"
	"io"
	"path"

	"galgo/internal/disk"
)

// CheckpointFile is a file that a checkpoint names, and how much of it the checkpoint
// covers. These bytes are the same on every replica and never change.
type CheckpointFile struct {
	Name string
	Size int64 // bytes
}

// Files lists the files of a checkpoint, in order: of each segment the log and then
// the index. dir is that of the group.
func (c *Checkpoint) Files(dir string) []CheckpointFile {
	files := make([]CheckpointFile, 0, 2*len(c.segments))
	for i := range c.segments {
		s := &c.segments[i]
		files = append(files,
			CheckpointFile{path.Join(dir, fileName(c.Generation, s.base, logSuffix)), int64(s.size)},
			CheckpointFile{path.Join(dir, fileName(c.Generation, s.base, indexSuffix)), indexPos(s.entries)})
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
// src has their bytes, back to back in the order of Files. What this replica has of
// them already are the same bytes, so a crash in the middle harms no checkpoint that
// is here. No machine of the group may have a job in flight; Open comes next.
func Restore(cfg Config, c *Checkpoint, src io.ReaderAt) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	if err := cfg.Disk.MkdirAll(cfg.Dir); err != nil {
		return fmt.Errorf("partition: group %d: %w", cfg.Group, err)
	}
	pos := int64(0)
	for _, f := range c.Files(cfg.Dir) {
		if err := restoreFile(cfg.Disk, f, io.NewSectionReader(src, pos, f.Size)); err != nil {
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

func restoreFile(d disk.Disk, f CheckpointFile, src io.Reader) error {
	file, err := d.Open(f.Name)
	if errors.Is(err, disk.ErrNotExist) {
		file, err = d.Create(f.Name, 0)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	buf := make([]byte, min(restoreChunk, f.Size))
	for pos := int64(0); pos < f.Size; {
		n, err := io.ReadFull(src, buf[:min(int64(len(buf)), f.Size-pos)])
		if err != nil {
			return err
		}
		if err := file.WriteAt(buf[:n], pos); err != nil {
			return err
		}
		pos += int64(n)
	}
	if err := file.Truncate(f.Size); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("%w: %w", ErrSync, err)
	}
	return nil
}
