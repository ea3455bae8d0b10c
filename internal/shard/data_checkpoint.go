package shard

import (
	"fmt"

	"galgo/internal/snapshot"
	"galgo/internal/vsr"
	"galgo/internal/wal"
)

// tablesKept is the number of checkpoint generations left on disk.
const tablesKept = 2

// syncsAtOnce bounds the groups whose segments are being synced for one
// checkpoint: writes of other groups are to get their turn in between.
const syncsAtOnce = 2

// pairingGroup is the name under which the log keeps, as a state record, which
// checkpoint of the shard counts. No partition has it.
const pairingGroup = ^vsr.GroupID(0)

// dataCheckpoint is the checkpoint of all groups of a shard together. Its phases
// have one order: the segments are synced; the table of all groups is durable;
// the log names the table; the log below it is released. Until the log names the
// new table the old one counts, and the log still reaches back to it. Then files
// that the new one no longer names may go.
type dataCheckpoint struct {
	number  uint64 // of the table that counts; 0 if none
	bytes   int64  // of log since then
	running bool
	wanted  bool         // whether or not the log has grown
	began   int64        // bytes when the running one began
	todo    []*dataGroup // whose segments are still to be synced
	syncing int
	writing bool // past the syncs
	err     error
	done    []func(error)

	setbacks
}

// groupCheckpoint is what a table says of a group.
type groupCheckpoint struct {
	head vsr.Header // of the op it covers; zero op: none
	blob []byte     // partition.Checkpoint, encoded
}

// maybeCheckpoint starts a checkpoint when the log has grown enough, and drives
// the one under way.
func (d *Data) maybeCheckpoint() {
	due := d.ckpt.wanted || d.ckpt.bytes > d.cfg.WALLimit || d.feed.tight && d.ckpt.bytes > d.cfg.WALFileSize || d.feed.full() && d.ckpt.bytes > 0 ||
		d.cfg.UnsyncedMax > 0 && d.unsynced > d.cfg.UnsyncedMax
	if due && !d.ckpt.running && d.ckpt.pause == 0 {
		d.Checkpoint(func(error) {})
	}
	d.syncNext()
}

// Checkpoint takes one now; if one is under way, done is called when that ends.
func (d *Data) Checkpoint(done func(error)) {
	k := &d.ckpt
	k.done = append(k.done, done)
	if k.running {
		return
	}
	k.running, k.err, k.began, k.wanted = true, nil, k.bytes, false
	for _, g := range d.sorted {
		if g.synced.head.Op < g.head.Op && !g.taking.installing {
			k.todo = append(k.todo, g)
		}
	}
	if len(k.todo) == 0 && k.bytes == 0 && !d.unsaved() {
		d.checkpointDone(nil)
		return
	}
	// With nothing to sync the log may still hold what groups that were removed since
	// have left there.
	d.syncNext()
}

// syncNext starts the sync of further groups. A group that has a job under way
// comes later.
func (d *Data) syncNext() {
	k := &d.ckpt
	if !k.running {
		return
	}
	waiting := k.todo[:0]
	for i, g := range k.todo {
		if k.syncing >= syncsAtOnce || k.err != nil {
			waiting = append(waiting, k.todo[i:]...)
			break
		}
		if !g.gone && !d.syncGroup(g) {
			waiting = append(waiting, g)
		}
	}
	k.todo = waiting
	if k.syncing > 0 || k.writing {
		return
	}
	if k.err != nil {
		k.todo = nil
		d.checkpointDone(k.err)
	} else if len(k.todo) == 0 {
		d.writeTable()
	}
}

// unsaved: a group has a checkpoint that no table names yet.
func (d *Data) unsaved() bool {
	for _, g := range d.groups {
		if g.synced.head.Op > g.saved.head.Op {
			return true
		}
	}
	return false
}

func (d *Data) syncGroup(g *dataGroup) bool {
	j := g.machine.BeginCheckpoint()
	if j == nil {
		return false
	}
	head := g.head
	d.ckpt.syncing++
	d.runAnchored(g, j.Run, func(err error) {
		d.ckpt.syncing--
		g.machine.SyncDone(j, err)
		if err != nil {
			d.ckpt.err = fmt.Errorf("group %d: %w", g.spec.ID, err)
			return
		}
		d.countUnsynced(g, false)
		g.synced = groupCheckpoint{head: head, blob: j.Checkpoint().Append(nil)}
	})
	g.anchored = g.spec.Sync // what comes now is above this checkpoint
	return true
}

// writeTable is the second phase.
func (d *Data) writeTable() {
	k := &d.ckpt
	k.writing = true
	number := k.number + 1
	rows := make([]tableRow, 0, len(d.groups))
	for _, g := range d.sorted {
		if g.synced.head.Op == 0 {
			continue
		}
		rows = append(rows, tableRow{id: g.spec.ID, incarnation: g.spec.Incarnation, groupCheckpoint: g.synced})
	}
	var sum snapshot.Sum
	d.cfg.Executor.Go(LaneCheckpoint, func() (err error) {
		sum, err = writeTable(d.cfg, number, rows)
		return err
	}, func(err error) {
		if err != nil {
			d.checkpointDone(fmt.Errorf("checkpoint %d of the partitions: %w", number, err))
			return
		}
		d.pair(number, sum, rows)
	})
}

// pair is the third phase: from when this record is synced, the table counts.
func (d *Data) pair(number uint64, sum snapshot.Sum, rows []tableRow) {
	record := wal.Record{Kind: wal.KindState, Group: pairingGroup, State: pairing{number, sum}.append(nil)}
	d.feed.urgent(record, func() { d.settle(number, rows) })
}

// settle is the last phase: what the table made superfluous goes.
func (d *Data) settle(number uint64, rows []tableRow) {
	k := &d.ckpt
	k.number = number
	k.bytes -= k.began
	for _, row := range rows {
		d.log.Release(row.id, row.head.Op)
		if g := d.groups[row.id]; g != nil && g.saved.head.Op < row.head.Op {
			g.saved = row.groupCheckpoint
			g.machine.Settled(uint64(row.head.Op))
			g.group.core().CheckpointDone(row.head.Op, row.head.Identity)
			d.settleTaken(g)
			d.activate(g)
		}
	}
	d.feed.reclaim(func(err error) {
		if err != nil {
			d.checkpointDone(fmt.Errorf("checkpoint %d of the partitions: log: %w", number, err))
			return
		}
		d.cfg.Executor.Go(LaneCheckpoint, func() error { return tablesOf(d.cfg).Prune(tablesKept) }, d.checkpointDone)
	})
}

func (d *Data) checkpointDone(err error) {
	k := &d.ckpt
	k.running, k.writing = false, false
	if err != nil {
		wedged := k.failed(err)
		if rare(k.failures) {
			d.cfg.Note("checkpoint failed; the log grows until one succeeds", "shard", d.cfg.Shard, "attempt", k.failures, "err", err)
		}
		if wedged {
			d.cfg.Fail(fmt.Errorf("%w: %w", ErrCheckpointWedged, err))
		}
	} else {
		k.setbacks = setbacks{}
	}
	done := k.done
	k.done = nil
	for _, f := range done {
		f(err)
	}
	if d.cfg.Replicas > 1 {
		d.wakeTaking()
	}
}

// wakeTaking has those go on that waited for the checkpoint to end.
func (d *Data) wakeTaking() {
	for _, g := range d.sorted {
		if g.taking.ready {
			d.activate(g)
		}
	}
}
