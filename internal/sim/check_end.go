package sim

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"galgo/internal/partition"
	"galgo/internal/shard"
	"galgo/internal/vsr"
)

// settled says what the cluster still waits for; "" if nothing.
func (w *world) settled() string {
	for _, c := range w.crowd.clients {
		if c.open > 0 {
			return fmt.Sprintf("%v waits for %d answers", c, c.open)
		}
	}
	for _, n := range w.nodes {
		switch {
		case n.engine == nil:
			return fmt.Sprintf("%v is down", n)
		case n.replaced:
			return fmt.Sprintf("%v was replaced and is not whole: %s", n, n.lacks())
		}
	}
	first := w.statuses(w.nodes[0])
	for _, n := range w.nodes {
		if left := w.agrees(n, first); left != "" {
			return left
		}
	}
	return ""
}

func (w *world) statuses(n *node) (all []shard.Status) {
	for i := range n.loops {
		all = append(all, n.engine.Statuses(i)...)
	}
	slices.SortFunc(all, func(a, b shard.Status) int { return int(int64(a.Group) - int64(b.Group)) })
	return all
}

// agrees compares the groups of a node with those of the first, and with what anybody
// has ever applied.
func (w *world) agrees(n *node, first []shard.Status) string {
	all := w.statuses(n)
	if want := 1 + w.model.metadata.View().Counts().Partitions; len(all) != int(want) {
		return fmt.Sprintf("%v has %d groups, the metadata %d", n, len(all), want)
	}
	for i, s := range all {
		switch f := first[i]; {
		case s.CommitMin < w.model.group(s.Group).head():
			return fmt.Sprintf("%v group %d: %s; op %d was applied", n, s.Group, statusString(s), w.model.group(s.Group).head())
		case s.CommitMin != s.Head || s.Status != vsr.StatusNormal || s.State.LogView != s.State.View:
			return fmt.Sprintf("%v group %d: %s", n, s.Group, statusString(s))
		case s.Group != f.Group || s.Head != f.Head || s.HeadIdentity != f.HeadIdentity || s.State.View != f.State.View:
			return fmt.Sprintf("%v group %d: %s; n0: %s", n, s.Group, statusString(s), statusString(f))
		}
	}
	return ""
}

// finish checks what must be true when all is at rest.
func (w *world) finish() {
	w.history.close(w.model)
	if err := w.history.check(); err != nil {
		w.fail("linearizability", "%v", err)
		return
	}
	w.cover.Linearized += len(w.history.ops)
	w.checkpointAll()
	w.checkpointAll() // the first call may have met one that had begun before
	for until := w.now + second; w.now < until && w.step(); {
		continue // files that nobody needs any more go
	}
	if w.failure == nil {
		w.compareFiles()
	}
	if w.failure == nil {
		w.readAll()
	}
}

// checkpointAll has every node write down all it has.
func (w *world) checkpointAll() {
	left := map[string]bool{}
	for _, n := range w.nodes {
		for _, l := range n.loops {
			name := fmt.Sprintf("%v loop %d", n, l.index)
			left[name] = true
			l.Post(func() {
				l.driver.Checkpoint(func(err error) {
					delete(left, name)
					if err != nil {
						w.fail("checkpoint", "node %d loop %d: %v", n.id, l.index, err)
					}
				})
			})
		}
	}
	for until := w.now + calmMax; len(left) > 0 && w.now < until && w.step(); {
	}
	if len(left) > 0 && w.failure == nil {
		w.fail("checkpoint", "these do not end: %v", slices.Sorted(maps.Keys(left)))
	}
}

// compareFiles: equal logs give equal segments, byte for byte; equal batches, where they are sealed.
func (w *world) compareFiles() {
	first := w.segments(w.nodes[0])
	for _, n := range w.nodes[1:] {
		files := w.segments(n)
		for i := range max(len(first), len(files)) {
			w.cover.FilesCompared++
			switch {
			case i >= len(first) || i >= len(files) || first[i].name != files[i].name:
				w.fail("segments", "node 0 has %v, node %d has %v", namesOf(first), n.id, namesOf(files))
				return
			case !bytes.Equal(first[i].content, files[i].content):
				w.fail("segments", "%s of %d bytes at node 0, of %d bytes at node %d, differs at %d", first[i].name, len(first[i].content),
					len(files[i].content), n.id, differenceAt(first[i].content, files[i].content))
				return
			}
		}
	}
}

type segmentFile struct {
	name    string
	content []byte
}

// segments are the files of the groups that live.
func (w *world) segments(n *node) (files []segmentFile) {
	for _, name := range n.disk.Names() {
		var group uint64
		if _, err := fmt.Sscanf(name, "groups/%d/", &group); err != nil || !strings.HasSuffix(name, ".log") || !w.model.lives(vsr.GroupID(group)) {
			continue
		}
		content, err := partition.OpenLog(n.disk.Bytes(name), group, name, n.vault())
		if err != nil {
			w.fail("segments", "node %d: %v", n.id, err)
		}
		files = append(files, segmentFile{name, content})
	}
	return files
}

func namesOf(files []segmentFile) (names []string) {
	for _, f := range files {
		names = append(names, fmt.Sprintf("%s (%d)", f.name, len(f.content)))
	}
	return names
}

func differenceAt(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// readAll polls every partition of every node from its beginning. All that was ever
// acknowledged is in the model (see sendRecord.ack), and so has to be here.
func (w *world) readAll() {
	for _, n := range w.nodes {
		for p := range n.engine.View().AllPartitions() {
			c := w.crowd.clients[0]
			q := &pollCheck{c: c, n: n, life: n.life, group: vsr.GroupID(p.Group), partition: p.ID, count: 1 << 30}
			q.readNow(p.Group)
		}
	}
}
