package shard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"galgo"
	"galgo/internal/disk/memdisk"
	"galgo/internal/partition"
	"galgo/internal/vsr"
)

// trio is three replicas of a shard, on links that lose messages and are cut for a while.
type trio struct {
	rng     *rand.Rand
	shards  [3]*Data
	execs   [3]*manual
	nets    [3]*sent
	cut     int // the replica that hears nothing, or 3
	created vsr.GroupID
	events  []string
}

func newTrio(t *testing.T, seed uint64) *trio {
	w := &trio{rng: rand.New(rand.NewPCG(seed, 0)), cut: 3}
	for i := range w.shards {
		w.nets[i] = &sent{}
		w.shards[i], w.execs[i] = newData(t, memdisk.New(memdisk.Options{}), func(c *DataConfig) {
			c.Replication = Replication{
				Replicas: 3, Replica: uint8(i), Boot: 1, Network: w.nets[i], Rand: rand.New(rand.NewPCG(seed, uint64(i))),
				Timing: vsr.Timing{HeartbeatTicks: 8, RetransmitTicks: 4, ElectionTicks: 30, ViewChangeTicks: 30, RepeatTicks: 6, ProbeTicks: 8, RepairTicks: 8, CommitTicks: 1},
			}
		})
	}
	w.create()
	return w
}

func (w *trio) create() {
	for range 4 {
		w.created++
		for _, d := range w.shards {
			d.Create(spec(w.created))
		}
	}
}

func (w *trio) say(format string, args ...any) {
	w.events = append(w.events, fmt.Sprintf(format, args...))
}

// step has something happen, or not, and then a tick pass.
func (w *trio) step() {
	i, id := w.rng.IntN(3), 1+vsr.GroupID(w.rng.IntN(int(w.created)))
	d := w.shards[i]
	switch w.rng.IntN(150) {
	case 0, 1, 2:
		d.Send(SendRequest{Group: id, Batch: record(10)}, func(code galgo.Code, base uint64, _ vsr.Op) {
			w.say("%d: a batch of group %d: %v, %d", i, id, code, base)
		})
	case 3, 4:
		d.Told(id, 1+vsr.Op(w.rng.IntN(10)))
		d.WhenReadable(id, func(there bool) { w.say("%d: a read of group %d: %v", i, id, there) })
	case 5:
		w.cut = w.rng.IntN(6)
	case 6:
		d.LinkDown(uint8(w.rng.IntN(3)))
	case 7:
		to, err := d.StepDown(id)
		w.say("%d: a step down: %d, %v", i, to, err)
	case 8:
		w.say("%d: go home: %d", i, d.GoHome(20, func() bool { return true }))
	case 9:
		if w.rng.IntN(6) == 0 {
			for _, d := range w.shards {
				d.Remove(id, func() {})
			}
			w.create()
		}
	}
	for i, d := range w.shards {
		d.Tick()
		drive(d, w.execs[i])
	}
	for i := range w.shards {
		w.carry(i)
	}
}

// carry brings what a replica has sent to the others.
func (w *trio) carry(from int) {
	messages := w.nets[from].messages
	w.nets[from].messages = nil
	for _, m := range messages {
		w.say("%d to %d: %v of group %d, view %d, op %d, beat %d", m.From, m.To, m.Kind, m.Group, m.View, m.Op, m.Beat)
		if int(m.To) != w.cut && from != w.cut && w.rng.IntN(20) > 0 {
			w.shards[m.To].Deliver(m)
			drive(w.shards[m.To], w.execs[m.To])
		}
	}
}

// Groups that are left alone while they doze do the same as groups that are looked at with
// each tick.
func TestGroupsAreLookedAtInTime(t *testing.T) {
	alone, looked := 0, 0
	for seed := range uint64(4) {
		dozing, awake := newTrio(t, seed), newTrio(t, seed)
		for tick := range 1500 {
			for _, d := range awake.shards {
				for _, g := range d.sorted {
					d.wake(g)
				}
			}
			for _, d := range dozing.shards {
				for at, g := range d.sorted {
					switch {
					case !g.dozes:
						looked++
					case g.group.passed+uint64(g.group.late.Dozes())+1 < d.due[at]:
						t.Fatalf("group %d is left alone until tick %d; since tick %d it dozes for %d", g.spec.ID, d.due[at], g.group.passed, g.group.late.Dozes())
					default:
						alone++
					}
				}
			}
			dozing.step()
			awake.step()
			if !slices.Equal(dozing.events, awake.events) {
				t.Fatalf("seed %d, tick %d:\n%v\nlooked at with each tick:\n%v", seed, tick, dozing.events, awake.events)
			}
			dozing.events, awake.events = nil, nil
		}
	}
	t.Logf("%d left alone, %d looked at", alone, looked)
	if alone < looked/10 {
		t.Errorf("groups were left alone %d times and looked at %d times", alone, looked)
	}
}

// atRest is a replica with so many groups that doze.
func atRest(t *testing.T, groups vsr.GroupID) (*Data, *manual) {
	t.Helper()
	d, exec := newData(t, memdisk.New(memdisk.Options{}), func(c *DataConfig) {
		c.Replication = Replication{Replicas: 3, Replica: 2, Boot: 1, Network: &sent{}}
	})
	for id := range groups {
		d.Create(spec(3*id + 3)) // led by another replica
	}
	drive(d, exec)
	for range 3 {
		d.Tick()
		drive(d, exec)
	}
	for _, g := range d.sorted {
		if !g.dozes {
			t.Fatalf("group %d is awake", g.spec.ID)
		}
	}
	return d, exec
}

// A group that was removed is looked for no more, also when what it had given the log is
// written at last.
func TestRemovedGroupIsNotWoken(t *testing.T) {
	d, exec := atRest(t, 2)
	p := &vsr.Prepare{Header: vsr.Header{Group: 6, Op: 1, Timestamp: 1, Operation: partition.OpPurge}, Body: partition.AppendPurge(nil, 1)}
	p.Seal()
	d.Deliver(vsr.Message{Kind: vsr.MessagePrepare, To: 2, Group: 6, Boot: 1, Op: 1, Identity: p.Identity, Prepare: p})
	d.Turn()
	d.Tick()
	d.Turn()
	d.Tick()
	if g := d.groups[6]; !g.dozes || g.group.writing == 0 {
		t.Fatalf("dozes %v, with %d records for the log", g.dozes, g.group.writing)
	}
	d.Remove(6, func() {})
	drive(d, exec)
}

// A reader that gives up may have its group removed: the others are looked at as before.
func TestGroupsBehindARemovedOneStayInTime(t *testing.T) {
	d, _ := atRest(t, 2)
	d.Told(3, 1)
	gone := false
	d.WhenReadable(3, func(bool) { gone = true; d.Remove(3, func() {}) })
	for range waitTicks {
		d.wake(d.groups[6])
		d.Tick()
	}
	if !gone || !slices.Equal(d.ids, []vsr.GroupID{6}) || len(d.due) != 1 {
		t.Fatalf("gone %v, left are %v, due %v", gone, d.ids, d.due)
	}
	if g := d.groups[6]; !g.dozes && d.due[0] > d.ticks {
		t.Errorf("group 6 is awake and not looked at before tick %d, now is %d", d.due[0], d.ticks)
	}
}

// A group has not lived through what passed before it was made.
func TestGroupIsAsOldAsItIs(t *testing.T) {
	d, exec := atRest(t, 1)
	for range 1000 {
		d.Tick()
		drive(d, exec)
	}
	d.Create(spec(6))
	drive(d, exec)
	if age := d.groups[6].group.core().ViewAge(); age > 1 {
		t.Errorf("a new group is in its view for %d ticks", age)
	}
}
