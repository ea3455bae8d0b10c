package wal

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"galgo/internal/disk"
	"galgo/internal/vsr"
)

// resume makes what was recovered durable and the log ready to be written. From
// here on a failure is one of the disk, and the next Open starts over.
func (l *Log) resume(s *scanner, v verdict) error {
	l.spares = l.files[v.index+1:]
	l.files = l.files[: v.index+1 : v.index+1]
	l.cur, l.end, l.chain = l.files[v.index], v.end, s.chain
	l.dataEnd = s.dataEnd
	witness := s.witness
	var err error
	if v.torn || s.witness.Less(s.dataEnd) || l.empty() || s.witnessedLow() < l.files[0].sequence {
		witness, err = l.replaceTail(s, v)
	} else {
		err = l.rewriteMarks(s)
	}
	if err == nil {
		err = l.renameSpares()
	}
	if err != nil {
		return err
	}
	l.reach.start(Position{l.cur.sequence, l.end}, witness)
	return nil
}

// empty: nothing was ever written. The only file may have a name that no sync of the
// directory makes durable any more, so another takes its place.
func (l *Log) empty() bool { return len(l.files) == 1 && l.end == blockSize }

// rewriteMarks writes those of the marks that end the log anew which nothing witnesses.
// Everything before them was synced, or they would not be there; they themselves may
// be in memory only, because the sync that was to follow them failed. A power loss may
// take what is written in place, so what the log needs must be known without them.
func (l *Log) rewriteMarks(s *scanner) error {
	from := int64(blockSize)
	for _, p := range []Position{s.dataEnd, s.witness} {
		if p.File == l.cur.sequence {
			from = max(from, p.Offset)
		}
	}
	if from >= l.end {
		return nil
	}
	b, err := (&window{}).bytes(l.cur, from, l.end-from)
	if err != nil {
		return err
	}
	if err := l.cur.f.WriteAt(b, from); err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	if err := l.cur.f.Sync(); err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	return nil
}

// replaceTail replaces the last file by one that has its valid prefix, a mark,
// and nothing behind. Bytes that may have been acknowledged stay where they are
// until their copies are durable and have been read back. It returns up to where the
// log is witnessed then.
func (l *Log) replaceTail(s *scanner, v verdict) (witness Position, err error) {
	old := l.cur
	temp := l.fileName(old.sequence, tempSuffix)
	f, err := l.takeTemp(temp, old.size)
	if err != nil {
		return witness, err
	}
	end := v.end
	witness = s.witness
	if err := l.copyPrefix(f, old, end); err != nil {
		return witness, errors.Join(err, f.Close())
	}
	copied := &file{f: f, name: temp, fileHeader: old.fileHeader}
	marked := end+markRoom <= old.size && !l.empty()
	if v.before.File > 0 { // the first record of a file says where the one before ended
		err = l.markCopy(copied, v.before)
	}
	if err == nil && marked {
		err = writeTrace(copied, l.end)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		start := s.starts[v.index]
		if end == blockSize {
			start = s.chain
		}
		err = l.verifyCopy(copied, start, v.index > 0)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return witness, fmt.Errorf("wal: replace the tail of %s: %w", old.name, err)
	}
	placed, err := l.place(temp, old.fileHeader)
	if err != nil {
		return witness, err
	}
	l.cur, l.files[v.index] = placed, placed
	if marked {
		witness = Position{placed.sequence, l.end}
		if err := l.markCopy(placed, witness); err != nil {
			return witness, err
		}
		if err := placed.f.Sync(); err != nil {
			return witness, fmt.Errorf("wal: %w", err)
		}
	}
	return witness, old.f.Close()
}

// writeTrace leaves, behind what was copied, what a torn write would. If the sync of the
// directory fails behind the rename, no later one makes the name of the copy durable, and
// the next start cannot know: it finds a torn tail, and replaces it once more.
func writeTrace(to *file, at int64) error {
	var b [frameSize]byte
	f := frame{kind: KindMark, file: to.sequence, at: at}
	f.put(b[:]) // and no checksum
	if err := to.f.WriteAt(b[:], at); err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	return nil
}

// takeTemp takes the last spare of that size, so that a full disk does not keep
// the node from starting, or creates a file.
func (l *Log) takeTemp(temp string, size int64) (disk.File, error) {
	n := len(l.spares) - 1
	if n < 0 || l.spares[n].size != size {
		f, err := l.createTemp(temp, size)
		if err != nil {
			return nil, fmt.Errorf("%w; the tail of %s has to be copied before the log can be used: make room for %d bytes and start again", err, l.cur.name, size)
		}
		return f, nil
	}
	spare := l.spares[n]
	l.spares = l.spares[:n]
	l.nextSequence = spare.sequence
	return l.demote(spare, temp)
}

// demote gives a file a temporary name. Only when its old name is durably gone
// may it be written: else it could be found there with a foreign content.
func (l *Log) demote(f *file, temp string) (disk.File, error) {
	if err := f.f.Close(); err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	if err := l.d.Rename(f.name, temp); err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	if err := l.d.SyncDir(l.dir); err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	opened, err := l.d.Open(temp)
	if err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	return opened, nil
}

// renameSpares gives the files that nothing was written to their names once more: a
// sync of the directory may have failed behind them, and no later one would make those
// names durable. They are set aside from the last to the first, so that a crash leaves
// no gap, and come back in order.
func (l *Log) renameSpares() error {
	temp := func(f *file) string { return l.fileName(f.sequence, tempSuffix) }
	for _, f := range slices.Backward(l.spares) {
		raw, err := l.demote(f, temp(f))
		if err == nil {
			err = raw.Close()
		}
		if err != nil {
			return err
		}
	}
	for i, f := range l.spares {
		placed, err := l.place(temp(f), f.fileHeader)
		if err != nil {
			return err
		}
		l.spares[i] = placed
	}
	return nil
}

func (l *Log) copyPrefix(to disk.File, from *file, size int64) error {
	var w window
	for off := int64(0); off < size; off += windowSize {
		b, err := w.bytes(from, off, min(windowSize, size-off))
		if err != nil {
			return err
		}
		if err := to.WriteAt(b, off); err != nil {
			return fmt.Errorf("wal: %w", err)
		}
	}
	return nil
}

// markCopy writes a mark behind what was copied, which says that the log was synced up to
// a place.
func (l *Log) markCopy(to *file, synced Position) error {
	l.batch.mark[0] = Record{Kind: KindMark, Op: vsr.Op(l.low)}
	at := l.end
	l.encode(l.batch.mark[:], synced)
	if err := to.f.WriteAt(bytes.Join(l.batch.bufs, nil), at); err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	return nil
}

// verifyCopy reads back what is about to replace the only other copy.
func (l *Log) verifyCopy(f *file, start uint64, chained bool) error {
	s := newScanner([]*file{f}, &l.o, func(*file, *record) error { return nil })
	s.chain, s.chained = start, s.chained || chained
	_, flt, err := s.walk()
	if err != nil {
		return err
	}
	if flt.at != l.end || s.chain != l.chain {
		return fmt.Errorf("the copy ends at %d with chain %016x, want %d with %016x: %w", flt.at, s.chain, l.end, l.chain, flt.err)
	}
	return nil
}
