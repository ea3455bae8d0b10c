package wal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"galgo/internal/cipher"
	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
	"galgo/internal/vsr"
)

const testDir = "shards/0/wal"

var testCluster = [16]byte{0xc1, 2, 3}

// testVault seals the logs of all tests while it is set: see sealed.
var testVault *cipher.Vault

func testOptions() Options {
	return Options{FileSize: FileSizeMin, FilesSpare: 1, Salt: 7, Cluster: testCluster, Replica: 1, Shard: 2, Vault: testVault}
}

func mustOpen(t testing.TB, d disk.Disk) (*Log, *Recovered) {
	t.Helper()
	l, rec, err := Open(d, testDir, testOptions())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l, rec
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// prepares makes sealed prepares of each group, one after the other.
type prepares struct {
	last map[vsr.GroupID]vsr.Header
	seed byte
}

func newPrepares() *prepares { return &prepares{last: map[vsr.GroupID]vsr.Header{}} }

// next makes the op after the last one made for the group, with a body of size
// bytes.
func (p *prepares) next(g vsr.GroupID, size int) Record {
	last := p.last[g]
	p.seed++
	pr := vsr.Prepare{
		Header: vsr.Header{
			Cluster: testCluster, Group: g, Op: last.Op + 1, Parent: last.Identity,
			Timestamp: uint64(p.seed) + 1000*uint64(last.Op), Operation: 160,
		},
		Body: bytes.Repeat([]byte{p.seed}, size),
	}
	pr.Seal()
	p.last[g] = pr.Header
	return Record{Kind: KindPrepare, Group: g, Header: &pr.Header, Body: pr.Body}
}

// rewind makes h the header that next continues.
func (p *prepares) rewind(h vsr.Header) { p.last[h.Group] = h }

// model is what a log should hold, kept in the most naive way.
type model struct{ groups map[vsr.GroupID]*modelGroup }

type modelGroup struct {
	base  vsr.Header // the reset it began with; Op 0 if none
	ops   []Record
	state []byte
}

func newModel() *model { return &model{map[vsr.GroupID]*modelGroup{}} }

func (m *model) group(g vsr.GroupID) *modelGroup {
	if m.groups[g] == nil {
		m.groups[g] = &modelGroup{}
	}
	return m.groups[g]
}

func (m *model) apply(r Record) {
	g := m.group(r.Group)
	switch r.Kind {
	case KindPrepare:
		g.ops = append(g.ops, r)
	case KindTruncate:
		g.ops = g.ops[:r.Op-g.base.Op]
	case KindState:
		g.state = r.State
	case KindReset:
		g.base, g.ops = *r.Header, nil
	}
}

func (g *modelGroup) last() vsr.Header {
	if n := len(g.ops); n > 0 {
		return *g.ops[n-1].Header
	}
	return g.base
}

func (g *modelGroup) header(op vsr.Op) vsr.Header {
	if op == g.base.Op {
		return g.base
	}
	return *g.ops[op-g.base.Op-1].Header
}

// history is what was given to a log, in order, and how far that must survive.
type history struct {
	recs     []Record
	written  int // records whose Write returned without an error
	durable  int // records that were synced
	released map[vsr.GroupID]vsr.Op
	forgot   map[vsr.GroupID]bool
}

func newHistory() *history {
	return &history{released: map[vsr.GroupID]vsr.Op{}, forgot: map[vsr.GroupID]bool{}}
}

func (h *history) write(l *Log, sync bool, recs ...Record) error {
	h.recs = append(h.recs, recs...)
	err := l.Write(recs, sync)
	if err != nil {
		return err
	}
	h.written = len(h.recs)
	if sync {
		h.durable = h.written
	}
	return nil
}

func (h *history) release(l *Log, g vsr.GroupID, op vsr.Op) {
	l.Release(g, op)
	h.released[g] = max(h.released[g], op)
}

func (h *history) forget(l *Log, g vsr.GroupID) {
	l.Forget(g)
	h.forgot[g] = true
}

// check finds the prefix of the history that the log holds, which must have at
// least min records, and returns how long it is.
func (h *history) check(l *Log, rec *Recovered, min int) (int, error) {
	m := newModel()
	for _, r := range h.recs[:min] {
		m.apply(r)
	}
	var why error
	for n := min; ; n++ {
		err := h.compare(m, l, rec)
		if err == nil {
			return n, nil
		}
		if why = errors.Join(why, fmt.Errorf("not the first %d: %w", n, err)); n == len(h.recs) {
			return 0, why
		}
		m.apply(h.recs[n])
	}
}

func (h *history) compare(m *model, l *Log, rec *Recovered) error {
	for id, g := range m.groups {
		if h.forgot[id] {
			continue
		}
		if err := h.compareGroup(id, g, l); err != nil {
			return fmt.Errorf("group %d: %w", id, err)
		}
		i := slices.IndexFunc(rec.Groups, func(r RecoveredGroup) bool { return r.Group == id })
		if i < 0 {
			if len(g.ops) > 0 || g.base.Op > 0 || g.state != nil {
				return fmt.Errorf("group %d: not recovered", id)
			}
			continue
		}
		if r := rec.Groups[i]; !bytes.Equal(r.State, g.state) {
			return fmt.Errorf("group %d: state %q, want %q", id, r.State, g.state)
		}
	}
	for _, r := range rec.Groups {
		if m.groups[r.Group] == nil && !h.forgot[r.Group] {
			return fmt.Errorf("group %d: invented", r.Group)
		}
	}
	return nil
}

func (h *history) compareGroup(id vsr.GroupID, g *modelGroup, l *Log) error {
	op, identity := l.Last(id)
	if last := g.last(); op != last.Op || identity != last.Identity {
		return fmt.Errorf("last is op %d %v, want %d %v", op, identity, last.Op, last.Identity)
	}
	floor := max(h.released[id], g.base.Op)
	if floor > op {
		return fmt.Errorf("last is op %d, released up to %d", op, floor)
	}
	if floor > 0 {
		if got, err := l.Header(id, floor); err != nil || got != g.header(floor) {
			return fmt.Errorf("header of the commit point %d: %v %w", floor, got.Identity, err)
		}
	}
	for _, r := range g.ops[floor-g.base.Op:] {
		p, err := l.Read(id, r.Header.Op)
		if err != nil {
			return err
		}
		if p.Header != *r.Header || !bytes.Equal(p.Body, r.Body) {
			return fmt.Errorf("op %d is %v, want %v", r.Header.Op, p.Identity, r.Header.Identity)
		}
	}
	return nil
}

// recoverAndCheck opens a crashed disk, compares, and checks that a second
// recovery finds the same and changes nothing, also after a power loss.
func (h *history) recoverAndCheck(d *memdisk.Disk, min int, rng *rand.Rand) (*memdisk.Disk, error) {
	l, rec, err := Open(d, testDir, testOptions())
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	n, err := h.check(l, rec, min)
	if err != nil {
		return nil, err
	}
	killed := d.Kill()
	lost := killed.PowerLoss(rng)
	if diff := memdisk.Diff(killed, lost); diff != "" {
		return nil, fmt.Errorf("recovered, but not durable: %s", diff)
	}
	l, rec, err = Open(lost, testDir, testOptions())
	if err != nil {
		return nil, fmt.Errorf("second open: %w", err)
	}
	again, err := h.check(l, rec, min)
	if err != nil || again != n || rec.Cut != nil {
		return nil, fmt.Errorf("second recovery has %d records, the first %d, cut %v: %w", again, n, rec.Cut, err)
	}
	after := lost.Kill()
	if diff := memdisk.Diff(killed, after); diff != "" {
		return nil, fmt.Errorf("second recovery changed the disk: %s", diff)
	}
	return after, nil
}

// find returns the header of the newest prepare of an op.
func (h *history) find(g vsr.GroupID, op vsr.Op) *vsr.Header {
	for _, r := range slices.Backward(h.recs) {
		if r.Kind == KindPrepare && r.Group == g && r.Header.Op == op {
			return r.Header
		}
	}
	panic(fmt.Sprintf("group %d op %d was never written", g, op))
}

// resetTo makes a reset of the group to an op of elsewhere.
func (h *history) resetTo(p *prepares, g vsr.GroupID, op vsr.Op) Record {
	far := vsr.Prepare{Header: vsr.Header{Cluster: testCluster, Group: g, Op: op, Parent: vsr.Identity{byte(op)}}}
	far.Seal()
	p.rewind(far.Header)
	return Record{Kind: KindReset, Group: g, Header: &far.Header}
}

// continueFrom writes on after a recovery, and recovers again.
func (h *history) continueFrom(d *memdisk.Disk) error {
	l, rec, err := Open(d, testDir, testOptions())
	if err != nil {
		return err
	}
	n, err := h.check(l, rec, h.durable)
	if err != nil {
		return err
	}
	h.recs, h.written, h.durable = h.recs[:n], n, n
	m := newModel()
	for _, r := range h.recs {
		m.apply(r)
	}
	p := newPrepares()
	p.seed = 200
	for id, g := range m.groups {
		if !h.forgot[id] && g.last().Op > 0 {
			p.rewind(g.last())
		}
	}
	for round := range 4 {
		for _, id := range []vsr.GroupID{1, 2, 3, 5} {
			if err := h.write(l, round%2 == 0, p.next(id, 50+round)); err != nil {
				return err
			}
		}
	}
	if err := l.Reclaim(); err != nil {
		return err
	}
	_, err = h.recoverAndCheck(d.PowerLoss(nil), h.durable, nil)
	return err
}
