package sim

import (
	"strings"

	"galgo/internal/disk/memdisk"
	"galgo/internal/vsr"
	"galgo/internal/wal"
)

// rot flips a bit of a file of a node that is down. From then on its disk counts as
// damaged, and is replaced sooner or later.
func (s *nemesis) rot() bool {
	n := s.any(false)
	if n == nil || n.replaced || !s.w.mayLose(n) || s.w.plan.replicas == 1 && oneIn(s.rng, 2) {
		return false
	}
	held := s.w.heldBy(n)
	name, off, ok := s.byteOf(n)
	if !ok {
		return false
	}
	bit := uint(s.rng.IntN(8))
	n.disk.FlipBit(name, off, bit)
	n.rotten, n.had = true, held
	s.w.say("bit %d of byte %d of %s of n%d flips", bit, off, name, n.id)
	return true
}

// byteOf draws a byte of a disk, in every second case of a log. There it is one that a
// later record vouches for: the last write before an end cannot be told from a torn one.
func (s *nemesis) byteOf(n *node) (name string, off int64, ok bool) {
	if oneIn(s.rng, 2) {
		dirs := logDirs(s.w.plan.config.System.Shards)
		if name, off, ok = s.vouched(n, dirs[s.rng.IntN(len(dirs))]); ok {
			s.w.cover.LogsRotten++
			return name, off, true
		}
	}
	var names []string
	for _, name := range n.disk.Names() {
		if len(n.disk.Bytes(name)) > 0 && !strings.Contains(name, "wal/") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", 0, false
	}
	name = names[s.rng.IntN(len(names))]
	return name, s.rng.Int64N(int64(len(n.disk.Bytes(name)))), true
}

// vouched draws a byte of a record of a log that a later record says was synced.
func (s *nemesis) vouched(n *node, dir string) (name string, off int64, ok bool) {
	records := vouchedRecords(n, dir)
	if len(records) == 0 {
		return "", 0, false
	}
	r := records[s.rng.IntN(len(records))]
	if oneIn(s.rng, 2) { // the newest are what nobody else may have
		r = records[len(records)-1-s.rng.IntN(min(len(records), 3))]
	}
	return r.File, r.At.Offset + s.rng.Int64N(r.Size), true
}

// vouchedRecords are the records of a log that a later one says were synced.
func vouchedRecords(n *node, dir string) []wal.Item {
	var records []wal.Item
	var synced wal.Position
	_ = wal.Inspect(n.disk, dir, nil, func(i wal.Item) error {
		if i.Record && i.Problem == nil {
			records = append(records, wal.Item{File: i.File, At: i.At, Size: i.Size})
			if synced.Less(i.Synced) {
				synced = i.Synced
			}
		}
		return nil
	})
	for len(records) > 0 {
		last := &records[len(records)-1]
		if end := (wal.Position{File: last.At.File, Offset: last.At.Offset + last.Size}); !synced.Less(end) {
			break
		}
		records = records[:len(records)-1]
	}
	return records
}

// heldBy is the last op of each group that the logs of a node's disk hold for good: a start
// that is cut short by a loss of power may lose what was never synced.
func (w *world) heldBy(n *node) map[vsr.GroupID]vsr.Op {
	held, durable := w.heads(n, n.disk), w.heads(n, n.disk.Clone().PowerLoss(nil))
	for id, op := range held { // order-free: each group by itself
		held[id] = min(op, durable[id])
	}
	return held
}

// heads reads the last op of each group from the logs of a disk.
func (w *world) heads(n *node, d *memdisk.Disk) map[vsr.GroupID]vsr.Op {
	held := map[vsr.GroupID]vsr.Op{}
	for _, dir := range logDirs(w.plan.config.System.Shards) {
		_ = wal.Inspect(d, dir, n.vault(), func(i wal.Item) error {
			if !i.Record || i.Problem != nil {
				return nil
			}
			switch i.Kind {
			case wal.KindPrepare, wal.KindReset, wal.KindFloor, wal.KindTruncate:
				held[i.Group] = i.Op
			case wal.KindForget:
				delete(held, i.Group)
			}
			return nil
		})
	}
	return held
}

// rottenStart: a damaged disk that is not refused has all that it had.
func (k *checks) rottenStart(n *node) {
	for i := range n.loops {
		for _, s := range n.engine.Statuses(i) {
			if had := n.had[s.Group]; s.Head < had {
				k.w.fail("rot", "node %d starts from a damaged disk with op %d of group %d; its log had op %d", n.id, s.Head, s.Group, had)
			}
		}
	}
	n.had = nil // what comes now may drop some of it
}

// stray has a piece of a checkpoint rot that was just gathered. What is gathered is a
// copy, so a good one is elsewhere.
func (s *nemesis) stray(t *tap, name string, off int64, size int) {
	if s.w.calm || size == 0 || !s.w.plan.faults[faultStray] || !strings.HasSuffix(name, ".part") || !oneIn(s.astray, 6) {
		return
	}
	at := off + s.astray.Int64N(int64(size))
	if at >= int64(len(t.d.Bytes(name))) {
		return
	}
	t.d.FlipBit(name, at, uint(s.astray.IntN(8)))
	s.w.cover.deed(faultStray)
	s.w.say("a bit of byte %d of %s of n%d flips", at, name, t.node)
}
