package sim

import (
	"strings"

	"galgo/internal/disk/memdisk"
)

// ambushes are moments after which a node may die within a few calls of its disk: what
// was just done has made the next step possible, and nothing says yet that it was done.
var ambushes = []struct {
	name   string
	op     memdisk.Op
	part   string // of the name of what was done
	suffix string
	most   int // calls until it dies
}{
	{"gathered", memdisk.OpSync, "transfer/", ".part", 40},
	{"snapshot", memdisk.OpRename, "metadata/snapshot", "", 12},
	{"pairing", memdisk.OpRename, "superblock", "", 8},
	{"table", memdisk.OpRename, "checkpoint", "", 10},
	{"release", memdisk.OpRename | memdisk.OpRemove, ".wal", "", 6},
	{"birth", memdisk.OpMkdirAll, "groups/", "", 10},
}

// lurk is told of each call of a disk that was done.
func (s *nemesis) lurk(t *tap, op memdisk.Op, name string) {
	if s.w.calm || s.watches() || t.doom != nil || t.dead || !s.w.plan.faults[faultAmbush] {
		return
	}
	for i := range ambushes {
		a := &ambushes[i]
		if a.op&op == 0 || !strings.Contains(name, a.part) || !strings.HasSuffix(name, a.suffix) {
			continue
		}
		if oneIn(s.lurking, 4) {
			n := s.w.nodes[t.node]
			t.doom = &doom{ops: ^memdisk.Op(0), left: 1 + s.lurking.IntN(a.most), rng: s.lurking, ambush: a.name}
			n.doomed = pick(s.lurking, endKill, endPower, endPower)
		}
		return
	}
}

// keysOfAmbushes names them, for the coverage.
func keysOfAmbushes() (keys []string) {
	for i := range ambushes {
		keys = append(keys, ambushes[i].name)
	}
	return keys
}
