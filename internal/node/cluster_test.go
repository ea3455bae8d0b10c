package node

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"galgo/internal/config"
	"galgo/internal/disk/memdisk"
	"galgo/internal/engine"
	"galgo/internal/freeport"
	"galgo/internal/peer"
	"galgo/internal/superblock"
)

// roster is the configurations of nodes on this machine.
func roster(t *testing.T, size int) []config.Config {
	t.Helper()
	c := runConfig()
	c.Cluster.Enabled, c.HTTP.Enabled, c.QUIC.Enabled, c.WebSocket.Enabled = true, false, false, false
	c.Cluster.Timing = config.ClusterTiming{ // what matters is their order
		HeartbeatTimeout: 500 * time.Millisecond, CommitBroadcast: 50 * time.Millisecond, PrepareRetransmit: 25 * time.Millisecond,
		ViewChangeRetransmit: 50 * time.Millisecond, ViewChangeStatus: 500 * time.Millisecond, Probe: 100 * time.Millisecond, ProbeAttempts: 5, Repair: 100 * time.Millisecond,
	}
	ports, err := freeport.Take(2 * size)
	if err != nil {
		t.Fatal(err)
	}
	for i := range size {
		c.Cluster.Nodes = append(c.Cluster.Nodes, config.Node{
			Name: "n" + strconv.Itoa(i), IP: "127.0.0.1", ReplicaID: i, Ports: config.Ports{TCP: ports[2*i], TCPReplica: ports[2*i+1]},
		})
	}
	all := make([]config.Config, size)
	for i := range all {
		all[i] = c
		all[i].Cluster.ReplicaID = i
	}
	return all
}

// running is a node that runs in this process.
type running struct {
	disk  *memdisk.Disk
	stop  context.CancelFunc
	node  *Node // once it is ready
	ready chan struct{}
	ended chan error
}

func begin(t *testing.T, c config.Config, d *memdisk.Disk) *running {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	p := &running{disk: d, stop: stop, ready: make(chan struct{}), ended: make(chan error, 1)}
	go func() {
		p.ended <- Run(ctx, Options{Config: c, Log: slog.New(slog.DiscardHandler), Disk: d, Version: "1.0.0", Ready: func(n *Node) { p.node = n; close(p.ready) }})
	}()
	t.Cleanup(func() {
		stop()
		<-p.ended
	})
	return p
}

// serves waits until clients can connect.
func (p *running) serves(t *testing.T) {
	t.Helper()
	select {
	case <-p.ready:
	case err := <-p.ended:
		p.ended <- err
		t.Fatalf("the node ended: %v", err)
	}
}

// ends waits for the end and leaves a disk for the next life.
func (p *running) ends(t *testing.T) (*memdisk.Disk, error) {
	t.Helper()
	err := <-p.ended
	p.ended <- err
	return p.disk.Kill(), err
}

func empty() *memdisk.Disk { return memdisk.New(memdisk.Options{}) }

// together runs a new cluster until all serve, and stops it.
func together(t *testing.T, c []config.Config) (disks []*memdisk.Disk) {
	t.Helper()
	var all []*running
	for i := range c {
		all = append(all, begin(t, c[i], empty()))
	}
	for _, p := range all {
		p.serves(t)
	}
	for _, p := range all {
		p.stop()
		d, err := p.ends(t)
		if err != nil {
			t.Fatalf("stop: %v", err)
		}
		disks = append(disks, d)
	}
	return disks
}

// A new cluster begins when all its nodes are there, and not before.
func TestClusterBeginsWithAllItsNodes(t *testing.T) {
	c := roster(t, 3)
	a, b := begin(t, c[0], empty()), begin(t, c[1], empty())
	late := begin(t, c[2], empty())
	for _, p := range []*running{a, b, late} {
		p.serves(t)
	}
	for _, p := range []*running{a, b, late} {
		if p.disk.Bytes("FORMAT") == nil || p.disk.Bytes(superblock.LifeName) == nil {
			t.Error("a node serves without FORMAT and LIFE")
		}
	}
}

// A node that waits for the others is stopped like any other, and has promised nothing.
func TestStopWhileTheOthersAreAwaited(t *testing.T) {
	c := roster(t, 3)
	p := begin(t, c[0], empty())
	p.stop()
	d, err := p.ends(t)
	if err != nil || d.Bytes("FORMAT") != nil {
		t.Errorf("ended with %v, formatted %v", err, d.Bytes("FORMAT") != nil)
	}
}

// A cluster that was cut short while it formed goes on: whoever has formatted its disk
// has promised nothing.
func TestClusterThatWasCutShortWhileItFormed(t *testing.T) {
	c := roster(t, 3)
	disks := together(t, c)
	formed := disks[0]
	if err := formed.Remove(superblock.LifeName); err != nil {
		t.Fatal(err)
	}
	p := begin(t, c[0], formed)
	if _, err := p.ends(t); !errors.Is(err, ErrLifeLost) {
		t.Errorf("a node with a past and without its lives: %v", err)
	}
	n := &Node{cfg: c[0], log: slog.New(slog.DiscardHandler)}
	d := empty()
	if err := n.joins(d); err != nil {
		t.Fatal(err)
	}
	o := engine.Options{Config: c[0], Replicas: 3, Clock: wallClock{}, Random: randomUint64}
	if next, err := n.cluster.step(peer.Empty, o); next != peer.Empty || err != nil {
		t.Errorf("alone an empty node comes to be %v, %v", next, err)
	}
	if next, err := n.cluster.step(peer.Formed, o); next != peer.Formed || err != nil {
		t.Errorf("alone a formatted node comes to be %v, %v", next, err)
	}
	if err := engine.Format(d, o); err != nil {
		t.Fatal(err)
	}
	if phase, _, _, err := n.cluster.past(o); phase != peer.Formed || err != nil {
		t.Errorf("a disk that was formatted, and no more: %v, %v", phase, err)
	}
	a, b, e := begin(t, c[0], d), begin(t, c[1], empty()), begin(t, c[2], empty())
	for _, p := range []*running{a, b, e} {
		p.serves(t)
	}
}

// A copy of a disk that had not begun, under a cluster that knows a life of its replica,
// is no founder's.
func TestFormedDiskOfThePast(t *testing.T) {
	c := roster(t, 3)
	n := &Node{cfg: c[2], log: slog.New(slog.DiscardHandler)}
	d := empty()
	if err := n.joins(d); err != nil {
		t.Fatal(err)
	}
	if err := engine.Format(d, engine.Options{Config: c[2], Replica: 2, Replicas: 3, Clock: wallClock{}, Random: randomUint64}); err != nil {
		t.Fatal(err)
	}
	copied := d.Clone()
	a, b, p := begin(t, c[0], empty()), begin(t, c[1], empty()), begin(t, c[2], d)
	for _, p := range []*running{a, b, p} {
		p.serves(t)
	}
	for _, other := range []*running{a, b} {
		for other.node.cluster.links.Status(2).Life < p.node.cluster.life {
			time.Sleep(time.Millisecond)
		}
	}
	p.stop()
	if _, err := p.ends(t); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		again := begin(t, c[2], copied)
		var err error
		if copied, err = again.ends(t); !errors.Is(err, ErrPast) {
			t.Fatalf("ended with %v", err)
		}
	}
}

// An empty disk is not one that was forgotten: somebody has to say that it is lost.
func TestEmptyDiskAmongMembers(t *testing.T) {
	c := roster(t, 3)
	disks := together(t, c)
	a, b := begin(t, c[0], disks[0]), begin(t, c[1], disks[1])
	a.serves(t)
	b.serves(t)
	p := begin(t, c[2], empty())
	d, err := p.ends(t)
	if !errors.Is(err, ErrEmpty) || !strings.Contains(err.Error(), "--replace") || d.Bytes("FORMAT") != nil {
		t.Errorf("ended with %v, formatted %v", err, d.Bytes("FORMAT") != nil)
	}
	c[2].Replace = true
	begin(t, c[2], empty()).serves(t)
}

// Where nobody has begun there is nothing to replace: all would wait for the others.
func TestNothingToReplace(t *testing.T) {
	c := roster(t, 3)
	for i := range c {
		c[i].Replace = true
	}
	var all []*running
	for i := range c {
		all = append(all, begin(t, c[i], empty()))
	}
	var err error
	select { // whoever hears all others first; the rest wait for it
	case err = <-all[0].ended:
		all[0].ended <- err
	case err = <-all[1].ended:
		all[1].ended <- err
	case err = <-all[2].ended:
		all[2].ended <- err
	}
	if !errors.Is(err, ErrNothingToReplace) {
		t.Errorf("ended with %v", err)
	}
}

// A copy of a disk that is put back has forgotten what was promised since. Who has heard
// the lives that it does not know of says so.
func TestDiskOfThePast(t *testing.T) {
	c := roster(t, 3)
	disks := together(t, c)
	copied := disks[2].Clone()
	a, b, p := begin(t, c[0], disks[0]), begin(t, c[1], disks[1]), begin(t, c[2], disks[2])
	for _, p := range []*running{a, b, p} {
		p.serves(t)
	}
	for _, other := range []*running{a, b} {
		for other.node.cluster.links.Status(2).Life < p.node.cluster.life {
			time.Sleep(time.Millisecond)
		}
	}
	p.stop()
	later, err := p.ends(t)
	if err != nil {
		t.Fatal(err)
	}
	copied, err = begin(t, c[2], copied).ends(t)
	if !errors.Is(err, ErrPast) || !errors.Is(err, ErrFailed) {
		t.Errorf("a copy of the past ends with %v", err)
	}
	if _, err := begin(t, c[2], copied).ends(t); !errors.Is(err, ErrPast) || errors.Is(err, ErrFailed) {
		t.Errorf("the second time it ends with %v", err)
	}
	begin(t, c[2], later).serves(t)
}

// A life is numbered above the one before, also if the clock goes back.
func TestLivesGrow(t *testing.T) {
	c := roster(t, 3)
	disks := together(t, c)
	const future = 1 << 61
	if err := superblock.WriteLife(disks[0], superblock.Life{Number: future}); err != nil {
		t.Fatal(err)
	}
	var all []*running
	for i := range c {
		all = append(all, begin(t, c[i], disks[i]))
	}
	for _, p := range all {
		p.serves(t)
	}
	if l, _, err := superblock.ReadLife(all[0].disk); l.Number != future+1 || err != nil {
		t.Errorf("life %d, %v", l.Number, err)
	}
}
