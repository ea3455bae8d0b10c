package shard

import (
	"errors"
	"fmt"

	"galgo/internal/disk"
	"galgo/internal/partition"
)

// segmentRetryTicks is how long a group whose segment could not be written waits
// before the next attempt: the log still has the batches.
const segmentRetryTicks = 50

// write starts the write of a group's segments that is due, if there is one.
func (d *Data) write(g *dataGroup) {
	if g.gone || g.pause > 0 || g.taking.installing {
		return
	}
	if d.writeSegments(g, d.crowded(g)) {
		return
	}
	if j := g.machine.NextRemove(); j != nil {
		d.run(g, j.Run, func(err error) { g.machine.RemoveDone(j, err) })
	}
}

// writeSegments starts the next write of a group, due or forced; false if there is
// none.
func (d *Data) writeSegments(g *dataGroup, force bool) bool {
	j := g.machine.NextWrite(force)
	if j == nil {
		return false
	}
	d.countUnsynced(g, true)
	d.runAnchored(g, j.Run, func(err error) { g.machine.WriteDone(j, err) })
	return true
}

// countUnsynced counts the groups whose segments are held open for a sync.
func (d *Data) countUnsynced(g *dataGroup, unsynced bool) {
	switch {
	case unsynced && !g.unsynced:
		d.unsynced++
	case !unsynced && g.unsynced:
		d.unsynced--
	}
	g.unsynced = unsynced
}

// runAnchored runs a job that writes segments. Segments may be ahead of what of the
// log is on stable storage, where a topic does not wait for that. But the first op
// after the checkpoint has to be there before its segment is: at start this op is
// what tells messages that power loss took out of the log from a checkpoint that is
// not the newest. No other write of the group begins meanwhile, as the machine has
// one at a time.
func (d *Data) runAnchored(g *dataGroup, job func() error, done func(error)) {
	if g.anchored {
		d.run(g, job, done)
		return
	}
	g.anchored = true
	d.feed.synced(func() { d.run(g, job, done) })
}

// run gives a job of a group to the lane of the segments. done takes its outcome
// on the loop, before anything else of the group is looked at.
func (d *Data) run(g *dataGroup, job func() error, done func(error)) {
	d.jobs++
	d.cfg.Executor.Go(LaneSegments, job, func(err error) {
		d.jobs--
		done(err)
		d.jobFailed(g, err)
		if g.gone {
			d.removeFiles(g)
			return
		}
		d.activate(g)
	})
}

func (d *Data) jobFailed(g *dataGroup, err error) {
	switch {
	case err == nil:
		g.failures = 0
	case errors.Is(err, partition.ErrSync):
		d.cfg.Fail(err)
	default:
		if g.pause == 0 {
			d.paused = append(d.paused, g)
		}
		g.pause = segmentRetryTicks
		if g.failures++; !rare(g.failures) {
			return
		}
		d.cfg.Note("segment not written; the log keeps the messages and it will be tried again", "group", g.spec.ID, "full", errors.Is(err, disk.ErrNoSpace), "err", err)
	}
}

// resume counts down the pauses of the groups that wait for another attempt.
func (d *Data) resume() {
	kept := d.paused[:0]
	for _, g := range d.paused {
		if g.pause--; g.pause > 0 {
			kept = append(kept, g)
			continue
		}
		d.activate(g)
	}
	d.paused = kept
}

// removeFiles removes the directory of a deleted group. While a job of the group
// is under way it waits: the completion comes back here.
func (d *Data) removeFiles(g *dataGroup) {
	j := g.machine.Remove()
	if j == nil {
		return
	}
	d.jobs++
	d.cfg.Executor.Go(LaneSegments, j.Run, func(err error) {
		d.jobs--
		g.machine.RemoveDone(j, err)
		if errors.Is(err, partition.ErrSync) {
			d.cfg.Fail(err)
		} else if err != nil {
			d.cfg.Note("files of a deleted partition were not removed; the next start removes them", "group", g.spec.ID, "err", err)
		}
	})
}

// config is the machine's part of a group's specification.
func (d *Data) config(s GroupSpec) partition.Config {
	return partition.Config{
		Group: uint64(s.ID), Incarnation: s.Incarnation, Stream: s.Stream, Topic: s.Topic, Partition: s.Partition,
		Disk: d.cfg.Disk, Files: d.cfg.Files, Vault: d.cfg.Vault, TailBytes: d.cfg.TailBytes,
		SegmentSize: s.SegmentSize, MessagesToSave: s.MessagesToSave, BytesToSave: s.BytesToSave, Preallocate: s.Preallocate,
	}
}

// Create makes the group of a new partition. A group that is there already is
// left alone: the metadata log may be applied again after a restart.
func (d *Data) Create(s GroupSpec) {
	if _, ok := d.groups[s.ID]; ok {
		return
	}
	machine, err := partition.New(d.config(s))
	if err != nil {
		panic(fmt.Sprintf("shard: the metadata let pass what makes no partition: group %d: %v", s.ID, err))
	}
	g := d.add(s, machine, groupCheckpoint{})
	d.core(g, &replay{}, nil)
}
