package partition

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"

	"galgo/internal/disk"
)

// RemoveJob removes files that nothing durable names any more.
type RemoveJob struct {
	cfg      *Config
	segments []*segment
	whole    bool // the directory as well
}

// Settled says that the checkpoint at op is durable and that no older one will
// ever be opened again.
func (m *Machine) Settled(op uint64) {
	if op > m.op {
		panic(fmt.Sprintf("partition: group %d: checkpoint at op %d settled, applied is %d", m.cfg.Group, op, m.op))
	}
	m.settled = max(m.settled, op)
}

// NextRemove returns the removal that is due, nil if there is none or a job is
// in flight. Segments that a purge or truncation has taken away are due when a
// checkpoint that no longer names them is settled: until then a crash would find
// a checkpoint that does.
func (m *Machine) NextRemove() *RemoveJob {
	if m.busy() || m.removing != nil {
		return nil
	}
	n := 0
	for n < len(m.trash) && m.trash[n].removed <= m.settled {
		n++
	}
	if n == 0 {
		return nil
	}
	for _, s := range m.trash[:n] {
		s.release()
	}
	m.removing = &RemoveJob{cfg: &m.cfg, segments: m.trash[:n:n]}
	return m.removing
}

// Trash returns how many segments wait to be removed: a checkpoint would free
// their space.
func (m *Machine) Trash() int { return len(m.trash) }

// Remove ends the machine of a deleted group and returns the job that removes
// its files; nil if a job is in flight, then call it again. Plans made before
// answer ErrStale.
func (m *Machine) Remove() *RemoveJob {
	if m.job != nil || m.removing != nil {
		return nil
	}
	m.end()
	m.removing = &RemoveJob{cfg: &m.cfg, segments: slices.Concat(m.trash, m.segments), whole: true}
	return m.removing
}

// Close ends the machine without removing anything or making anything durable.
// It fails while a job is in flight. Plans made before answer ErrStale.
func (m *Machine) Close() error {
	if m.job != nil || m.removing != nil {
		return fmt.Errorf("partition: group %d: closed with a job in flight, wait for it", m.cfg.Group)
	}
	m.end()
	return nil
}

func (m *Machine) end() {
	m.closed = true
	for _, s := range slices.Concat(m.segments, m.trash) {
		s.gone.Store(true)
		s.release()
		m.cfg.Files.drop(s.logName)
		m.cfg.Files.drop(s.indexName)
	}
}

// Run removes the files, oldest first, so that a crash leaves a suffix. It may be
// called again after it failed. The directory is not synced: a file that a power
// loss brings back is older than the checkpoint, and Open removes it.
func (j *RemoveJob) Run() error {
	for _, s := range j.segments {
		s.awaitMending()
	}
	if j.whole {
		return RemoveDir(j.cfg.Disk, j.cfg.Dir)
	}
	for _, s := range j.segments {
		for _, name := range []string{s.indexName, s.logName} {
			j.cfg.Files.drop(name)
			if err := j.cfg.Disk.Remove(name); err != nil && !errors.Is(err, disk.ErrNotExist) {
				return fmt.Errorf("partition: group %d: remove %s: %w", j.cfg.Group, name, err)
			}
		}
	}
	return nil
}

// RemoveDone takes the outcome of a RemoveJob's Run. After an error the removal
// is due again.
func (m *Machine) RemoveDone(j *RemoveJob, err error) {
	if m.removing != j {
		panic(fmt.Sprintf("partition: group %d: a removal is done that is not in flight", m.cfg.Group))
	}
	m.removing = nil
	if err == nil && !j.whole {
		m.trash = slices.Delete(m.trash, 0, len(j.segments))
	}
	m.publish()
}

// RemoveDir removes the segment files of a group, oldest first, and its
// directory. A directory that is not there is removed. Files that no partition
// makes are left, with their directory, and reported.
func RemoveDir(d disk.Disk, dir string) error {
	entries, err := d.List(dir)
	if errors.Is(err, disk.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("partition: list %s: %w", dir, err)
	}
	ours, foreign := sortNames(entries)
	if i := slices.Index(foreign, restoreName); i >= 0 { // of a start that was cut short
		foreign = slices.Delete(foreign, i, i+1)
		if err := d.Remove(path.Join(dir, restoreName)); err != nil && !errors.Is(err, disk.ErrNotExist) {
			return fmt.Errorf("partition: remove %s: %w", path.Join(dir, restoreName), err)
		}
	}
	for _, f := range ours {
		if err := d.Remove(path.Join(dir, f.file)); err != nil && !errors.Is(err, disk.ErrNotExist) {
			return fmt.Errorf("partition: remove %s: %w", path.Join(dir, f.file), err)
		}
	}
	if len(foreign) > 0 {
		return fmt.Errorf("partition: %s holds %s, which no partition makes: move it away to have the directory removed", dir, foreign[0])
	}
	if err := d.Remove(dir); err != nil && !errors.Is(err, disk.ErrNotExist) {
		return fmt.Errorf("partition: remove %s: %w", dir, err)
	}
	if err := d.SyncDir(path.Dir(dir)); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrSync, path.Dir(dir), err)
	}
	return nil
}

// namedFile is a segment file found in a directory.
type namedFile struct {
	SegmentName
	file string
	size uint64
}

// sortNames splits the entries of a directory into segment files, oldest first
// and each index before its log, and the names of all else.
func sortNames(entries []disk.Entry) (ours []namedFile, foreign []string) {
	for _, e := range entries {
		n, ok := ParseSegmentName(e.Name)
		if !ok || e.Dir {
			foreign = append(foreign, e.Name)
			continue
		}
		ours = append(ours, namedFile{n, e.Name, uint64(e.Size)})
	}
	slices.SortFunc(ours, func(a, b namedFile) int {
		c := cmp.Or(cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.Base, b.Base))
		if c == 0 && a.Index != b.Index {
			if a.Index {
				return -1
			}
			return 1
		}
		return c
	})
	return ours, foreign
}
