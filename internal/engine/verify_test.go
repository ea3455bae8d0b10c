package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/disk/memdisk"
	"galgo/internal/edge"
	"galgo/internal/partition"
	"galgo/internal/snapshot"
	"galgo/internal/superblock"
	"galgo/internal/verify"
	"galgo/internal/vsr"
	"galgo/internal/wal"
	"galgo/internal/wire"
)

// withLives gives the disks of a cluster what only a whole node writes.
func withLives(t *testing.T, disks []*memdisk.Disk) {
	t.Helper()
	for _, d := range disks {
		if err := superblock.WriteLife(d, superblock.Life{Number: 1}); err != nil {
			t.Fatal(err)
		}
	}
}

// verified looks at disks, which must stay as they are.
func verified(t *testing.T, disks []*memdisk.Disk) *verify.Report {
	t.Helper()
	var sources []verify.Source
	var before []*memdisk.Disk
	for i, d := range disks {
		sources = append(sources, verify.Source{Name: fmt.Sprint("d", i), Disk: d, Keys: keysOf(i)})
		before = append(before, d.Clone())
	}
	r, err := verify.Run(context.Background(), sources)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range disks {
		if diff := memdisk.Diff(before[i], d); diff != "" {
			t.Fatalf("disk %d was changed: %s", i, diff)
		}
	}
	return r
}

// verifiable is a cluster with all that can be verified, at rest.
func verifiable(t *testing.T) (c *cluster, g uint64) {
	cfg := worldConfig()
	c = newCluster(t, 3, cfg)
	admin, group := c.begin()
	c.createTopic(admin, "t")
	c.createTopic(admin, "purged")
	g = group("t", 0)
	want := c.sendMany(g, nil, 20)
	for n := range uint64(5) {
		c.sendNumbered(g, n+1)
		want = append(want, fmt.Sprint("n", n+1))
	}
	for w := range 3 {
		c.offset(g, uint32(w), uint64(w))
	}
	p := group("purged", 0)
	c.sendMany(p, nil, 3)
	c.checkpoints()
	want = c.sendMany(g, want, 10)
	c.sendNumbered(g, 6)
	c.call(admin, wire.OperationPurgeTopic, wire.TopicRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("purged")}.Append(nil))
	c.sendMany(p, nil, 2)
	c.all(g, len(want)+1)
	c.all(p, 2)
	return c, g
}

func (c *cluster) sendNumbered(g, number uint64) {
	c.t.Helper()
	c.until("a numbered send is answered", func() bool {
		reply := edge.SendReply{Code: unanswered}
		c.numbered(c.leader(g), g, number, &reply)
		for range 20 {
			c.round()
		}
		return reply.Code == galgo.CodeOK
	})
}

func (c *cluster) offset(g uint64, key uint32, offset uint64) {
	c.t.Helper()
	c.asking("an offset is stored", func(w *world, done func(bool)) {
		w.engine.StoreOffset(edge.OffsetRequest{Group: g, Kind: galgo.ConsumerSingle, Key: key, Offset: offset}, func(r edge.OffsetReply) { done(r.Code == galgo.CodeOK) })
	})
}

// A cluster that was stopped, or killed, is sound; each group is equal in all directories
// or a directory does not reach the last op yet.
func TestVerifyASoundCluster(t *testing.T) {
	c, g := verifiable(t)
	for i := range c.nodes {
		c.kill(i)
	}
	withLives(t, c.disks)
	r := verified(t, c.disks)
	if !r.Sound || len(r.Groups) != 3 {
		t.Fatalf("%v\n%+v", r.Problems, r.Groups)
	}
	for _, found := range r.Groups {
		if found.Verdict != verify.Equal || found.Held != 3 || found.Of != 3 {
			t.Errorf("%+v", found)
		}
		if found.Group == g && found.Messages != 36 {
			t.Errorf("group %d has %d messages, want 36", g, found.Messages)
		}
	}
	for _, d := range r.Directories {
		if d.Messages != 38 || d.Groups != 2 || d.Replicas != 3 {
			t.Errorf("%+v", d)
		}
	}
	if one := verified(t, c.disks[:1]); !one.Sound || one.Groups[0].Verdict != verify.Alone {
		t.Errorf("one directory: %v, %+v", one.Problems, one.Groups)
	}
}

// Directories that are sealed, each under a key of its own, are compared with each other and
// with one in the clear; and what has rotted in them is found.
func TestVerifySealedDirectories(t *testing.T) {
	sealed(t)
	t.Run("sound", TestVerifyASoundCluster)
	t.Run("after power loss", TestVerifyAfterPowerLossAnywhere)
	c, g := verifiable(t)
	c.checkpoints()
	for i := range c.nodes {
		c.kill(i)
	}
	withLives(t, c.disks)
	log := partition.Dir(g) + "/00000000000000000000.log"
	rotten := []*memdisk.Disk{c.disks[0].Clone(), c.disks[1], c.disks[2]}
	rotten[0].FlipBit(log, int64(len(rotten[0].Bytes(log)))/2, 3)
	if r := verified(t, rotten); r.Sound || len(r.Problems) != 1 || r.Problems[0].Directory != "d0" || !strings.Contains(r.Problems[0].What, log) {
		t.Errorf("a flipped bit: %v", r.Problems)
	}
	swapped := []*memdisk.Disk{c.disks[1], c.disks[0]} // so that the sealed one is given no key
	if r := verified(t, swapped); r.Sound || !strings.Contains(fmt.Sprint(r.Problems), "key") {
		t.Errorf("without its key: %v", r.Problems)
	}
}

// Whatever power loss leaves of a cluster under load is sound.
func TestVerifyAfterPowerLossAnywhere(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 8))
		c, admin, g := topicOf(t)
		c.sendMany(g, nil, rng.IntN(8))
		flying := edge.SendReply{}
		for round := range rng.IntN(6) {
			switch rng.IntN(4) {
			case 0:
				c.checkpoints()
			case 1:
				c.createTopic(admin, fmt.Sprint("t", round))
			case 2:
				if victim := rng.IntN(3); c.nodes[victim] != nil {
					c.kill(victim)
					c.send(g, "alone")
					c.start(victim, false)
				}
			}
			c.send(g, fmt.Sprint("m", round))
		}
		for n := range uint64(3) {
			if w := c.nodes[rng.IntN(3)]; w != nil {
				w.engine.Send(edge.SendRequest{Group: g, Batch: batchOf(fmt.Sprint("flying", n)), Count: 1, Client: galgo.ClientID{7}, Request: n + 1, Numbered: true}, func(r edge.SendReply) { flying = r })
			}
			for range rng.IntN(6) {
				c.pass()
			}
		}
		for i := range c.nodes {
			c.nodes[i] = nil
			if rng.IntN(2) == 0 {
				c.disks[i] = c.disks[i].PowerLoss(rng)
			} else {
				c.disks[i] = c.disks[i].Kill()
			}
		}
		withLives(t, c.disks)
		if r := verified(t, c.disks); !r.Sound {
			t.Fatalf("seed %d: %v (%v)", seed, r.Problems, flying.Code)
		}
	}
}

// Every bit that counts is noticed when it flips, and the file is named; so is every file
// that must be there and is not.
func TestVerifyNoticesDamage(t *testing.T) {
	c, g := verifiable(t)
	c.checkpoints()
	c.send(g, "above the checkpoint")
	c.send(g, "above it as well")
	for i, w := range c.nodes {
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		c.kill(i)
	}
	withLives(t, c.disks)
	rng := rand.New(rand.NewPCG(4, 4))
	covered := recordsOf(t, c.disks[1])
	with := func(change func(*memdisk.Disk)) *verify.Report {
		disks := []*memdisk.Disk{c.disks[0], c.disks[1].Clone(), c.disks[2]}
		change(disks[1])
		return verified(t, disks)
	}
	for name, content := range c.disks[1].Files() {
		if len(content) == 0 {
			continue
		}
		for range 12 {
			at, bit := rng.Int64N(int64(len(content))), uint(rng.IntN(8))
			if strings.HasSuffix(name, ".wal") {
				if at = rng.Int64N(4096); len(covered[name]) > 0 && bit > 0 {
					at = covered[name][rng.IntN(len(covered[name]))] + rng.Int64N(64+vsr.HeaderSize)
				}
			}
			if r := with(func(d *memdisk.Disk) { d.FlipBit(name, at, bit) }); r.Sound || !tellsOf(r, name) {
				t.Errorf("bit %d of byte %d of %s: sound %v, %v", bit, at, name, r.Sound, r.Problems)
			}
		}
		r := with(func(d *memdisk.Disk) { d.Delete(name) })
		if needed := needed(name, c.disks[1], covered); r.Sound == needed {
			t.Errorf("%s is missing: sound %v, %v", name, r.Sound, r.Problems)
		}
	}
}

// recordsOf is where the prepares lie in each file of a disk's logs.
func recordsOf(t *testing.T, d *memdisk.Disk) map[string][]int64 {
	t.Helper()
	found := map[string][]int64{}
	for _, dir := range []string{"metadata/wal", "shards/0/wal"} {
		if err := wal.Inspect(d, dir, nil, func(it wal.Item) error {
			if it.Record && it.Kind == wal.KindPrepare && it.Problem == nil {
				found[it.File] = append(found[it.File], it.At.Offset)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// tellsOf: the problem is found in the right directory, and says which file it is.
func tellsOf(r *verify.Report, file string) bool {
	file = strings.TrimSuffix(strings.TrimSuffix(file, ".a"), ".b")
	return slices.ContainsFunc(r.Problems, func(p verify.Problem) bool {
		return p.Directory == "d1" && (strings.Contains(p.What, file) || strings.Contains(p.What, "superblock.") && strings.HasPrefix(file, "metadata/superblock"))
	})
}

// needed: a directory without that file is not whole. One superblock of the two, the older
// of two generations and a log's file that nothing was written to since it was freed are
// not needed.
func needed(name string, d *memdisk.Disk, covered map[string][]int64) bool {
	switch {
	case strings.HasPrefix(name, "metadata/superblock"):
		return false
	case strings.HasSuffix(name, ".snap"), strings.HasSuffix(name, ".ckpt"):
		for other := range d.Files() {
			if path.Dir(other) == path.Dir(name) && other > name {
				return false
			}
		}
	case strings.HasSuffix(name, ".wal"):
		return len(covered[name]) > 0
	}
	return true
}

// A replica that holds other messages than the others, with every checksum right, is
// found: the first batch that differs is named.
func TestVerifyFindsAReplicaThatDiverges(t *testing.T) {
	c, g := verifiable(t)
	c.checkpoints()
	for i := range c.nodes {
		c.kill(i)
	}
	withLives(t, c.disks)
	name := partition.Dir(g) + "/00000000000000000000.log"
	content := c.disks[2].Bytes(name)
	first, _, err := wire.SplitBatch(content)
	if err != nil {
		t.Fatal(err)
	}
	other := batchOf("M0")
	wire.Batch(other).Stamp(first.PartitionID(), first.BaseOffset(), first.BaseTimestamp())
	if len(other) != len(first) {
		t.Fatalf("%d bytes, want %d", len(other), len(first))
	}
	copy(content, other)
	c.disks[2].Put(name, content)
	r := verified(t, c.disks)
	if r.Sound || !strings.Contains(fmt.Sprint(r.Problems), "the batches at offset 0 differ from their byte") {
		t.Errorf("%v", r.Problems)
	}
	for _, found := range r.Groups {
		if (found.Verdict == verify.Differs) != (found.Group == g) {
			t.Errorf("%+v", found)
		}
	}
}

// Two clusters of one name have other logs: the first op that differs is named.
func TestVerifyFindsLogsThatDiffer(t *testing.T) {
	a, _ := verifiable(t)
	b := newCluster(t, 3, worldConfig())
	admin, _ := b.begin()
	for _, name := range []string{"another", "and one", "and one more"} {
		b.createTopic(admin, name)
	}
	for i := range a.nodes {
		a.kill(i)
		b.kill(i)
	}
	disks := []*memdisk.Disk{a.disks[0], a.disks[1], b.disks[2]}
	withLives(t, disks)
	if r := verified(t, disks); r.Sound || !strings.Contains(fmt.Sprint(r.Problems), "group 0: op ") {
		t.Errorf("%v", r.Problems)
	}
	twice := []*memdisk.Disk{a.disks[0], a.disks[0].Clone()}
	if r := verified(t, twice); r.Sound || !strings.Contains(fmt.Sprint(r.Problems), "one directory for each replica") {
		t.Errorf("one replica twice: %v", r.Problems)
	}
}

// recast gives a disk another snapshot than the one that its superblock names, and has the
// superblock name that.
func recast(t *testing.T, d *memdisk.Disk, change func(*snapshot.Snapshot)) {
	t.Helper()
	store := snapshot.NewStore(d, "metadata/snapshot", snapshot.ExtMetadata, nil)
	found, err := store.List()
	if err != nil || len(found) == 0 {
		t.Fatalf("%d snapshots, %v", len(found), err)
	}
	s, err := store.Read(found[0].Number)
	if err != nil {
		t.Fatal(err)
	}
	change(s)
	sum, err := store.Write(found[0].Number, s.Header, s.Sections)
	if err != nil {
		t.Fatal(err)
	}
	super, err := superblock.Open(d, "metadata")
	if err != nil {
		t.Fatal(err)
	}
	state, err := superblock.DecodeState(super.Latest().Payload)
	if err != nil {
		t.Fatal(err)
	}
	state.CheckpointSum = sum
	if err := super.Write(state.Append(nil)); err != nil {
		t.Fatal(err)
	}
}

// Checkpoints whose checksums are right and whose content is not that of the others are
// found, also when all the logs agree.
func TestVerifyFindsStatesThatDiffer(t *testing.T) {
	c, _ := verifiable(t)
	c.checkpoints()
	for i := range c.nodes {
		c.kill(i)
	}
	withLives(t, c.disks)
	for want, change := range map[string]func(*snapshot.Snapshot){
		"the snapshots of op": func(s *snapshot.Snapshot) { s.CreatedAt++ },
		"the states at op": func(s *snapshot.Snapshot) {
			for i := range s.Sections {
				for j, b := range s.Sections[i].Data {
					s.Sections[i].Data[j] = bytes.ReplaceAll(b, []byte("purged"), []byte("Purged"))
				}
			}
		},
	} {
		disks := []*memdisk.Disk{c.disks[0], c.disks[1].Clone(), c.disks[2]}
		recast(t, disks[1], change)
		if r := verified(t, disks); r.Sound || !strings.Contains(fmt.Sprint(r.Problems), "group 0: "+want) {
			t.Errorf("want %q: %v", want, r.Problems)
		}
	}
}

// A numbered send that the log holds twice is found, although every checksum is right.
func TestVerifyFindsASendThatIsStoredTwice(t *testing.T) {
	w, err := open(t, memdisk.New(memdisk.Options{}), worldConfig(), 1, 1000)
	if err != nil {
		t.Fatal(err)
	}
	w.bootstrap()
	admin, _ := w.login(galgo.ClientID{9})
	w.call(admin, wire.OperationCreateStream, wire.CreateStreamRequest{Name: "s"}.Append(nil))
	w.call(admin, wire.OperationCreateTopic, wire.CreateTopicRequest{Stream: galgo.NamedID("s"), Name: "t", Partitions: 1}.Append(nil))
	g := w.group("s", "t", 0)
	if r, ok := w.send(g, galgo.ClientID{7}, 3, "once"); !ok || r.Code != galgo.CodeOK {
		t.Fatalf("%+v", r)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	d := w.disk.(*memdisk.Disk).Kill()
	if r := verified(t, []*memdisk.Disk{d}); !r.Sound {
		t.Fatal(r.Problems)
	}
	log, _, err := wal.Open(d, "shards/0/wal", wal.Options{Cluster: ClusterID(worldConfig().Cluster.Name), FileSize: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	last, parent := log.Last(vsr.GroupID(g))
	p, err := log.Read(vsr.GroupID(g), last)
	if err != nil {
		t.Fatal(err)
	}
	p.Body = bytes.Clone(p.Body)
	p.Op, p.Parent, p.Offset, p.Timestamp = last+1, parent, 1, p.Timestamp+1
	wire.Batch(p.Body).Stamp(0, p.Offset, p.Timestamp)
	p.Seal()
	if err := errors.Join(log.Write([]wal.Record{{Kind: wal.KindPrepare, Group: p.Group, Header: &p.Header, Body: p.Body}}, true), log.Close()); err != nil {
		t.Fatal(err)
	}
	if r := verified(t, []*memdisk.Disk{d}); r.Sound || !strings.Contains(fmt.Sprint(r.Problems), "at offset 0 already") {
		t.Errorf("%v", r.Problems)
	}
}
