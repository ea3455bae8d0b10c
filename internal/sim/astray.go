package sim

import (
	"bytes"
	"strings"
)

// sector is what a disk writes in one piece, in bytes.
const sector = 512

// misplace finds, when a node has ended, that one of the writes that were synced is not
// where it should be: the disk lost it, or put it elsewhere. Of a log that is one that a
// later record vouches for; the last before an end cannot be told from a torn one. A node
// that is refused for it gets an empty disk.
func (s *nemesis) misplace(n *node) {
	if s.w.calm || !s.w.plan.faults[faultAstray] || !oneIn(s.damage, 6) || s.w.plan.replicas < 3 || n.rotten || n.replaced || !s.w.mayLose(n) {
		return
	}
	held := s.w.heldBy(n)
	to, ok := s.written(n)
	if !ok {
		return
	}
	content := bytes.Clone(n.disk.Bytes(to.name))
	was := content[to.off : to.off+to.size]
	put := make([]byte, to.size) // nothing ever came here
	what := "was lost"
	if from, ok := s.written(n); ok && oneIn(s.damage, 2) { // or what was meant for another place
		put, what = make([]byte, to.size), "has what was written to "+from.name
		copy(put, n.disk.Bytes(from.name)[from.off:from.off+from.size])
	}
	if bytes.Equal(was, put) {
		return
	}
	copy(was, put)
	n.disk.Put(to.name, content)
	n.rotten, n.had = true, held
	s.w.cover.deed(faultAstray)
	s.w.say("n%d: the write of %d bytes at %d of %s %s", n.id, to.size, to.off, to.name, what)
}

// extent is a part of a file.
type extent struct {
	name      string
	off, size int64
}

// written draws what was written with one call, as far as a disk tells: a record of a
// log that is vouched for, or some sectors of another file.
func (s *nemesis) written(n *node) (extent, bool) {
	if oneIn(s.damage, 2) {
		dirs := logDirs(s.w.plan.config.System.Shards)
		if records := vouchedRecords(n, dirs[s.damage.IntN(len(dirs))]); len(records) > 0 {
			r := records[s.damage.IntN(len(records))]
			s.w.cover.LogsRotten++
			return extent{r.File, r.At.Offset, r.Size}, true
		}
	}
	var names []string
	for _, name := range n.disk.Names() {
		if len(n.disk.Bytes(name)) > 0 && !strings.Contains(name, "wal/") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return extent{}, false
	}
	name := names[s.damage.IntN(len(names))]
	size := int64(len(n.disk.Bytes(name)))
	off := s.damage.Int64N((size+sector-1)/sector) * sector
	return extent{name, off, min(sector<<s.damage.IntN(4), size-off)}, true
}

// beginDecay has bits of segments flip under nodes that run, now and then. Who reads them
// is told so; what is damaged is replaced after a while, as somebody would who reads the
// log of the node.
func (s *nemesis) beginDecay() {
	s.w.after(between(s.damage, 100*millisecond, 4*second), func() {
		if s.w.calm {
			return
		}
		s.decay()
		s.beginDecay()
	})
}

func (s *nemesis) decay() {
	n := s.w.nodes[s.damage.IntN(len(s.w.nodes))]
	if n.engine == nil || s.w.plan.replicas < 3 || n.rotten || n.replaced || !s.w.mayLose(n) {
		return
	}
	var names []string
	for _, name := range n.disk.Names() {
		if strings.HasPrefix(name, "groups/") && strings.HasSuffix(name, ".log") && len(n.disk.Bytes(name)) > 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	name := names[s.damage.IntN(len(names))]
	off, bit := s.damage.Int64N(int64(len(n.disk.Bytes(name)))), uint(s.damage.IntN(8))
	n.disk.FlipBit(name, off, bit)
	n.rotten, n.had = true, nil
	s.w.cover.deed(faultDecay)
	s.w.say("bit %d of byte %d of %s of n%d flips while it runs", bit, off, name, n.id)
	s.w.after(between(s.damage, second, 10*second), func() { s.mend(n) })
}

// mend replaces the disk of a node that is known to be damaged.
func (s *nemesis) mend(n *node) {
	if s.w.calm || !n.rotten {
		return
	}
	if n.engine != nil {
		n.crash(endKill)
	}
	n.replace()
	s.revive(n)
}
