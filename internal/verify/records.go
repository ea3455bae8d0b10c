package verify

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"galgo/internal/disk"
	"galgo/internal/partition"
	"galgo/internal/wire"
)

// cursor reads the messages of a partition in one directory.
type cursor struct {
	*member
	reader  *partition.Reader
	record  []byte // the one that is next; nil at the end
	at      partition.Place
	started bool
}

func (c *cursor) base() uint64 { return wire.Batch(c.record).BaseOffset() }

// step reads the next record; at the end, and at damage, there is none.
func (c *cursor) step() {
	if c.record != nil {
		c.started = true
		n := count{uint64(wire.Batch(c.record).MessageCount()), uint64(len(c.record))}
		c.counted.messages += n.messages
		c.counted.bytes += n.bytes
	}
	var err error
	if c.record, c.at, err = c.reader.Next(); err != nil {
		if errors.Is(err, disk.ErrNotExist) {
			err = fmt.Errorf("%w; the checkpoint names it: replace this replica's disk", err)
		}
		c.problem("%v", err)
	}
}

// compareRecords reads all messages of a partition from every directory, side by side.
// Those of another generation of purges are another's. It counts those of the directory
// that is furthest on.
func (r *run) compareRecords(all []*member) (counted count) {
	generations := map[uint64]bool{}
	for _, m := range all {
		generations[m.Machine.Generation()] = true
	}
	for _, generation := range slices.Sorted(maps.Keys(generations)) {
		var cursors []*cursor
		for _, m := range all {
			if m.Machine.Generation() == generation {
				c := &cursor{member: m, reader: m.Machine.Reader(func(err error) { m.problem("%v", err) })}
				defer c.reader.Close()
				c.step()
				cursors = append(cursors, c)
			}
		}
		counted = r.walk(cursors)
	}
	return counted
}

func (r *run) walk(cursors []*cursor) (counted count) {
	for r.ctx.Err() == nil {
		live := slices.DeleteFunc(slices.Clone(cursors), func(c *cursor) bool { return c.record == nil })
		if len(live) == 0 {
			break
		}
		lowest := slices.MinFunc(live, func(a, b *cursor) int { return cmp.Compare(a.base(), b.base()) })
		here := slices.DeleteFunc(slices.Clone(live), func(c *cursor) bool { return c.base() != lowest.base() })
		if !r.agree(lowest, live) {
			break
		}
		counted.messages += uint64(wire.Batch(lowest.record).MessageCount())
		counted.bytes += uint64(len(lowest.record))
		for _, c := range here {
			c.step()
		}
	}
	return counted
}

// agree compares the record at the lowest offset with what the others have there.
func (r *run) agree(a *cursor, live []*cursor) bool {
	for _, b := range live {
		switch {
		case a == b:
		case b.base() != a.base() && b.started:
			r.problem(a.Group, "at offset %d batches differ: %s has one in %v, %s goes on at offset %d in %v", a.base(), a.name, a.at, b.name, b.base(), b.at)
			return false
		case b.base() != a.base(): // its first messages were deleted
		case !bytes.Equal(a.record, b.record):
			n := firstDifference(a.record, b.record)
			r.problem(a.Group, "the batches at offset %d differ from their byte %d on: %s in %v, %s in %v", a.base(), n, a.name, a.at, b.name, b.at)
			return false
		case path.Base(a.at.File) != path.Base(b.at.File) || a.at.Pos != b.at.Pos:
			r.problem(a.Group, "the batch at offset %d lies in another place: %s has it in %v, %s in %v", a.base(), a.name, a.at, b.name, b.at)
			return false
		}
	}
	return true
}

// firstDifference is the first byte at which two slices differ.
func firstDifference(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
