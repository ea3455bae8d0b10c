package shard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"galgo/internal/disk"
	"galgo/internal/partition"
	"galgo/internal/snapshot"
	"galgo/internal/vsr"
	"galgo/internal/wal"
)

func transferDir(shard uint32) string { return shardDir(shard) + "/transfer" }

// groupTaking is a checkpoint of a peer that is being installed. Its order: what was
// gathered is sealed; the log begins anew behind it, unless it holds what follows; the
// segment files are made and synced; the machine begins at it. From the second step on it
// can only go forward: files that the checkpoint before this one names may be gone. A
// start in between finds what was gathered, and finishes (finishTaking). So that stays
// until a table has the checkpoint.
type groupTaking struct {
	installing bool
	ready      bool // for the files, once the group has no job under way
	offer      vsr.Offer
	reset      bool
	row        tableRow
	ckpt       *partition.Checkpoint
	files      int64 // where they begin in what was gathered

	unsaved vsr.Op // the last one that was taken and is in no table; 0: none
}

func (d *Data) newCourier(g *dataGroup) courier {
	place := stagingOf(d.cfg.Disk, transferDir(d.cfg.Shard), g.spec.ID, d.cfg.Vault)
	c := d.courierAt(g, place)
	if d.cfg.Vault == nil { // sealed pieces have one size, and begin where the peer's do
		here := present{config: d.config(g.spec), spec: g.spec, place: place}
		c.present = here.add
	}
	return c
}

func (d *Data) courierAt(g *dataGroup, place staging) courier {
	return courier{
		core: func() *vsr.Core { return g.group.core() }, touch: func() { g.group.touch() }, gone: func() bool { return g.gone },
		exec: d.cfg.Executor, disk: d.cfg.Disk, place: place, note: d.cfg.Note,
		later: d.later.add, occupied: func() bool { return d.occupied(g) },
		newest:  func(above vsr.Op, done func(vsr.Header, parts)) { d.newestCheckpoint(g, above, done) },
		install: func(o vsr.Offer, reset bool) { d.take(g, o, reset) },
	}
}

// occupied: what was gathered last is still needed.
func (d *Data) occupied(g *dataGroup) bool {
	if g.taking.unsaved == 0 {
		return false
	}
	d.ckpt.wanted = true
	return true
}

// newestCheckpoint finds what a peer can be given, making one if there is none above op.
func (d *Data) newestCheckpoint(g *dataGroup, above vsr.Op, done func(vsr.Header, parts)) {
	found := func() {
		var p parts
		if g.synced.head.Op > above {
			p = partsOf(d.config(g.spec), g)
		}
		done(g.synced.head, p)
	}
	if g.synced.head.Op > above {
		found()
		return
	}
	d.Checkpoint(func(error) { found() })
}

// partsOf is the checkpoint of a group as it travels: in the clear, whatever it is on this
// disk.
func partsOf(cfg partition.Config, g *dataGroup) parts {
	c, err := partition.DecodeCheckpoint(g.synced.blob)
	if err != nil {
		panic(fmt.Sprintf("shard: group %d: its own checkpoint: %v", g.spec.ID, err))
	}
	table := appendTable(make([]byte, 4), []tableRow{{id: g.spec.ID, incarnation: g.spec.Incarnation, groupCheckpoint: g.synced}})
	binary.LittleEndian.PutUint32(table, uint32(len(table)-4))
	p := parts{{bytes: table, size: int64(len(table))}}
	for _, f := range c.Files(partition.Dir(uint64(g.spec.ID))) {
		opened, err := c.Opened(cfg, f)
		if err != nil {
			panic(fmt.Sprintf("shard: group %d: its own configuration: %v", g.spec.ID, err))
		}
		p = append(p, part{name: f.Name, size: f.Size, reader: opened})
	}
	return p
}

// decodeTaken reads what was gathered, up to the files. A checkpoint of a partition group
// travels as one sequence of bytes:
//
//	off  size  field
//	  0     4  length  n
//	  4     n  table   with the one row of the group
//	4+n        files   that its checkpoint names, each as long as that says: of each
//	                   segment, oldest first, the log and then the index
func decodeTaken(r io.ReaderAt, s GroupSpec, o vsr.Offer) (row tableRow, c *partition.Checkpoint, files int64, err error) {
	bad := func(format string, args ...any) (tableRow, *partition.Checkpoint, int64, error) {
		return tableRow{}, nil, 0, fmt.Errorf("%w: %s", errStaged, fmt.Sprintf(format, args...))
	}
	var head [4]byte
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return bad("it has no head: %v", err)
	}
	n := int64(binary.LittleEndian.Uint32(head[:]))
	if uint64(n)+4 > o.Size || n > snapshot.SizeMax {
		return bad("its head claims %d bytes of %d", n, o.Size)
	}
	table := make([]byte, n)
	if _, err := r.ReadAt(table, 4); err != nil {
		return tableRow{}, nil, 0, err
	}
	rows, err := decodeTable(table)
	switch {
	case err != nil:
		return bad("%v", err)
	case len(rows) != 1 || rows[0].id != s.ID || rows[0].incarnation != s.Incarnation:
		return bad("it is of another group")
	case !covers(&rows[0].head, o):
		return bad("it covers op %d, %v", rows[0].head.Op, rows[0].head.Identity)
	}
	if c, err = partition.DecodeCheckpoint(rows[0].blob); err != nil {
		return bad("%v", err)
	}
	total := 4 + n
	for _, f := range c.Files("") {
		total += f.Size
	}
	if uint64(total) != o.Size || c.Op != uint64(o.Op) {
		return bad("op %d and %d bytes, its checkpoint says op %d and %d", o.Op, o.Size, c.Op, total)
	}
	return rows[0], c, 4 + n, nil
}

// take installs what was gathered.
func (d *Data) take(g *dataGroup, o vsr.Offer, reset bool) {
	k := &g.taking
	*k = groupTaking{installing: true, offer: o, reset: reset, unsaved: k.unsaved}
	g.courier.run(func() (err error) {
		r := g.courier.place.open(o)
		defer r.Close()
		if k.row, k.ckpt, k.files, err = decodeTaken(r, g.spec, o); err != nil {
			return err
		}
		return partition.Verify(d.config(g.spec), k.ckpt, filesOf(r, k.files, o))
	}, func(err error) {
		switch {
		case err != nil:
			g.taking = groupTaking{unsaved: k.unsaved}
			g.courier.refuse(o, err)
		case reset:
			g.group.writing++
			d.feed.append(wal.Record{Kind: wal.KindReset, Group: g.spec.ID, Header: &k.row.head}, true, func() {
				g.group.writing--
				k.unsaved, k.ready = o.Op, true
				d.activate(g)
			})
		default:
			k.unsaved, k.ready = o.Op, true
		}
	})
}

// installTaken goes on with an installation when no job of the group is under way.
func (d *Data) installTaken(g *dataGroup) {
	if g.taking.ready && !g.gone && !d.ckpt.running && g.machine.Close() == nil {
		g.taking.ready = false
		d.restore(g)
	}
}

// restore makes the files of the checkpoint, and a machine that begins at it.
func (d *Data) restore(g *dataGroup) {
	k := &g.taking
	var machine *partition.Machine
	d.jobs++
	d.cfg.Executor.Go(LaneSegments, func() (err error) {
		r := g.courier.place.open(k.offer)
		defer r.Close()
		machine, err = restored(d.config(g.spec), k.ckpt, filesOf(r, k.files, k.offer))
		return err
	}, func(err error) {
		d.jobs--
		switch {
		case g.gone:
			d.removeFiles(g)
		case errors.Is(err, partition.ErrSync):
			d.cfg.Fail(err)
		case err != nil:
			g.courier.again("a checkpoint from a peer was not installed", err, func() { d.restore(g) })
		default:
			d.becomeTaken(g, machine)
		}
	})
}

// restored makes the files of a checkpoint that was gathered, and opens them.
func restored(cfg partition.Config, c *partition.Checkpoint, files io.ReaderAt) (*partition.Machine, error) {
	if err := partition.Restore(cfg, c, files); err != nil {
		return nil, err
	}
	return partition.Open(cfg, c, c.Op+1) // what there is beyond it, the log tells anew
}

// becomeTaken is the end: the state is that of the checkpoint.
func (d *Data) becomeTaken(g *dataGroup, machine *partition.Machine) {
	k := g.taking
	g.taking = groupTaking{unsaved: k.unsaved}
	g.machine, g.led = machine, noView
	g.head, g.synced = k.row.head, k.row.groupCheckpoint
	g.anchored = g.spec.Sync
	d.countUnsynced(g, false)
	d.account(g)
	if d.cfg.Moved != nil {
		d.cfg.Moved(g.spec.ID)
	}
	d.ckpt.wanted = true
	g.group.skip(k.offer.Op, k.reset)
	g.courier.installed(k.offer)
	g.settle(false)
}

// settleTaken lets go of what was gathered once a table has it.
func (d *Data) settleTaken(g *dataGroup) {
	if g.taking.unsaved == 0 || g.saved.head.Op < g.taking.unsaved {
		return
	}
	g.taking.unsaved = 0
	g.courier.run(g.courier.place.discard, func(err error) {
		if err != nil {
			d.cfg.Note("what a peer sent was not removed; the next transfer or start removes it", "group", g.spec.ID, "err", err)
		}
	})
}

// finishTaking completes, at start, the installation of a checkpoint from a peer that
// was cut short: it is all there, is newer than the one in the table, and the log has
// its op. row becomes that of the checkpoint. It reports whether there was one. What has
// rotted at the peer was not looked at before the crash, so nothing has begun, and it goes.
func (d *Data) finishTaking(s GroupSpec, row *tableRow) (bool, error) {
	place := stagingOf(d.cfg.Disk, transferDir(d.cfg.Shard), s.ID, d.cfg.Vault)
	o, ok, err := place.sealed()
	if err != nil || !ok || o.Op <= row.head.Op {
		return false, err
	}
	if id, known := d.log.Identity(s.ID, o.Op); !known || id != o.Identity {
		return false, nil
	}
	r := place.open(o)
	defer r.Close()
	cfg := d.config(s)
	taken, c, files, err := decodeTaken(r, s, o)
	if err == nil {
		err = partition.Verify(cfg, c, filesOf(r, files, o))
	}
	switch {
	case isDamage(err) || errors.Is(err, errStaged):
		if d.log.First(s.ID) > o.Op { // it was looked at, and is needed
			return false, fmt.Errorf("group %d: %w", s.ID, err)
		}
		d.cfg.Note("a checkpoint from a peer cannot be used; another will be asked for", "group", s.ID, "op", o.Op, "err", err)
		return false, place.discard()
	case err != nil:
		return false, fmt.Errorf("group %d: %w", s.ID, err)
	}
	*row = taken
	return true, partition.RestoreAnew(cfg, c, filesOf(r, files, o))
}

// filesOf is what was gathered of an offer, from the files on.
func filesOf(r io.ReaderAt, files int64, o vsr.Offer) *io.SectionReader {
	return io.NewSectionReader(r, files, int64(o.Size)-files)
}

func isDamage(err error) bool {
	_, damaged := errors.AsType[*partition.DamageError](err)
	return damaged
}

// sweepStaging removes what was gathered for groups that are not here any more, and
// tells for which ones something is left.
func (d *Data) sweepStaging(known map[vsr.GroupID]bool) (left map[vsr.GroupID]bool, err error) {
	names, err := namesIn(d.cfg.Disk, transferDir(d.cfg.Shard))
	left = make(map[vsr.GroupID]bool)
	for _, n := range names {
		stem, _, _ := strings.Cut(n, ".")
		id, bad := strconv.ParseUint(stem, 10, 64)
		if bad != nil {
			continue
		}
		if known[vsr.GroupID(id)] {
			left[vsr.GroupID(id)] = true
			continue
		}
		if err := d.cfg.Disk.Remove(transferDir(d.cfg.Shard) + "/" + n); err != nil && !errors.Is(err, disk.ErrNotExist) {
			return nil, err
		}
	}
	return left, err
}
