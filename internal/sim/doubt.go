package sim

import (
	"path"
	"strings"

	"galgo/internal/disk/memdisk"
)

// doubt has the sync of the directory fail that follows when a file of a log gets its
// name, now and then. No later sync makes that name durable: what is promised in such a
// file is gone with the power, unless the file gets its name anew.
func (s *nemesis) doubt(t *tap, name string) {
	n := s.w.nodes[t.node]
	if s.w.calm || s.watches() || !s.w.plan.faults[faultDoubt] || !strings.HasSuffix(name, ".wal") || !oneIn(s.doubts, 8) || s.doubted(n) {
		return
	}
	n.doubted = name
	s.w.cover.deed(faultDoubt)
	s.w.say("the name %s of n%d will be in doubt", name, n.id)
	s.inject(n, memdisk.Fault{Class: memdisk.SyncFailure, Ops: memdisk.OpSyncDir, Match: memdisk.Named(path.Dir(name)), KeepCache: true})
}

// doubted reports whether a name is in doubt that is still there.
func (s *nemesis) doubted(n *node) bool {
	return n.doubted != "" && n.disk.Bytes(n.doubted) != nil
}

// deny takes the power, and with it all that was not synced, soon after something was
// written to a file whose name is in doubt, and synced.
func (s *nemesis) deny(t *tap, op memdisk.Op, name string) {
	n := s.w.nodes[t.node]
	if op != memdisk.OpSync || name != n.doubted || s.w.calm || s.watches() {
		return
	}
	n.doubted = ""
	life := n.life
	s.w.after(between(s.doubts, millisecond, 300*millisecond), func() {
		if n.life == life && n.engine != nil && !s.w.calm {
			n.blackout()
			s.revive(n)
		}
	})
}
