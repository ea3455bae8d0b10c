package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"galgo/internal/config"
	"galgo/internal/disk/memdisk"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/shard"
	"galgo/internal/snapshot"
	"galgo/internal/superblock"
	"galgo/internal/vsr"
	"galgo/internal/wal"
)

// rested is the disk of a node that has lived the whole script and was stopped.
func rested(t *testing.T) *memdisk.Disk {
	t.Helper()
	d := healthy()
	w, err := open(t, d, worldConfig(), 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	if n := perform(w); n != len(script) {
		t.Fatalf("the script ended after step %d: %v", n, w.failed)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	return d.PowerLoss(nil)
}

// refusal is damage to a rested node and what the start must say of it.
type refusal struct {
	name string
	hurt func(t *testing.T, d *memdisk.Disk)
	want error    // the start's error wraps it
	says []string // what a person must find in the message
}

// Each way in which a node's own disk can contradict itself is refused by name,
// with the file and the next step, and nothing on the disk is changed
// (consensus.md §6.3 for one node, storage.md §8.4).
func TestRefusals(t *testing.T) {
	for _, r := range refusalTable() {
		t.Run(r.name, func(t *testing.T) {
			d := rested(t)
			r.hurt(t, d)
			refuses(t, d, r.want, r.says)
		})
	}
}

// refuses starts a node on a disk: it must not start, say why, and leave the disk alone.
func refuses(t *testing.T, d *memdisk.Disk, want error, says []string) {
	t.Helper()
	before := d.Clone()
	_, err := open(t, d, worldConfig(), 2, 2_000_000)
	if !errors.Is(err, want) {
		t.Fatalf("got %v\nwant an error that wraps: %v", err, want)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("the message does not say %q:\n%v", s, err)
		}
	}
	if diff := memdisk.Diff(before, d); diff != "" {
		t.Errorf("the refusal changed the disk: %s", diff)
	}
}

func refusalTable() []refusal {
	return slices.Concat(superblockRefusals(), snapshotRefusals(), logRefusals(), partitionRefusals())
}

func superblockRefusals() []refusal {
	return []refusal{
		{"superblock empty beside log and snapshot", removed("metadata/superblock.a", "metadata/superblock.b"),
			shard.ErrSuperblockLost, []string{"metadata/superblock", "restore"}},
		{"both superblock slots rotten", flipped("metadata/superblock.a", "metadata/superblock.b"),
			superblock.ErrUnreadable, []string{"superblock.a", "superblock.b", "check the device"}},
		{"one superblock slot rotten", flipped("metadata/superblock.a"),
			superblock.ErrUnreadable, []string{"superblock.a", "may be the newer"}},
		{"superblock of a newer version", func(t *testing.T, d *memdisk.Disk) {
			patch(d, "metadata/superblock.a", 4, 9)
		}, superblock.ErrUnreadable, []string{"version"}},
		{"superblock holds no state", func(t *testing.T, d *memdisk.Disk) {
			rewriteSuperblock(t, d, func(superblock.State) []byte { return []byte("nonsense") })
		}, superblock.ErrStateLength, []string{"metadata"}},
		{"superblock of another node", func(t *testing.T, d *memdisk.Disk) {
			rewriteSuperblock(t, d, func(s superblock.State) []byte { s.Cluster[0] ^= 1; return s.Append(nil) })
		}, superblock.ErrForeign, []string{"cluster", "metadata"}},
		{"data directory of another replica", func(t *testing.T, d *memdisk.Disk) {
			id, err := superblock.DecodeIdentity(d.Bytes("FORMAT"))
			if err != nil {
				t.Fatal(err)
			}
			id.Replica, id.ReplicaCount = 1, 3
			d.Put("FORMAT", id.Append(nil))
		}, superblock.ErrIdentityForeign, []string{"FORMAT", "replica"}},
		{"FORMAT rotten", flipped("FORMAT"), superblock.ErrIdentityCorrupt, []string{"FORMAT", "restore"}},
		{"FORMAT missing beside data", removed("FORMAT"), shard.ErrFormatLost, []string{"FORMAT", "restore"}},
	}
}

func snapshotRefusals() []refusal {
	newest := func(d *memdisk.Disk) string {
		names := filesOf(d, "metadata/snapshot", ".snap")
		return names[len(names)-1]
	}
	onNewest := func(hurt func(*testing.T, *memdisk.Disk, string)) func(*testing.T, *memdisk.Disk) {
		return func(t *testing.T, d *memdisk.Disk) { hurt(t, d, newest(d)) }
	}
	return []refusal{
		{"snapshot rotten", onNewest(func(t *testing.T, d *memdisk.Disk, name string) { d.FlipBit(name, int64(len(d.Bytes(name))/2), 3) }),
			snapshot.ErrChecksum, []string{".snap"}},
		{"snapshot cut", onNewest(func(t *testing.T, d *memdisk.Disk, name string) { d.Put(name, d.Bytes(name)[:len(d.Bytes(name))-9]) }),
			snapshot.ErrTruncated, []string{".snap"}},
		{"snapshot of a newer version", onNewest(func(t *testing.T, d *memdisk.Disk, name string) { patch(d, name, 8, 9) }),
			snapshot.ErrVersion, []string{".snap", "version"}},
		{"no snapshot file at all", onNewest(func(t *testing.T, d *memdisk.Disk, name string) {
			d.Put(name, []byte("nonsense, and more of it than a header has: "+strings.Repeat("x", 100)))
		}),
			snapshot.ErrNotASnapshot, []string{".snap"}},
		{"newest snapshot missing", onNewest(func(t *testing.T, d *memdisk.Disk, name string) { d.Delete(name) }),
			superblock.ErrCheckpointAhead, []string{"restore"}},
		{"another snapshot at the op of the checkpoint", onNewest(func(t *testing.T, d *memdisk.Disk, name string) {
			rewriteSnapshot(t, d, name, func(s []snapshot.Section) []snapshot.Section {
				return append(s, snapshot.Section{Kind: 99, Version: 1, Data: [][]byte{{1}}})
			})
		}), superblock.ErrCheckpointChecksum, []string{".snap", "checksum"}},
		{"snapshot without the client table", onNewest(func(t *testing.T, d *memdisk.Disk, name string) {
			rewriteSnapshot(t, d, name, func(s []snapshot.Section) []snapshot.Section { return s[:2] })
			pairWith(t, d, name)
		}), snapshot.ErrNoSection, []string{".snap"}},
		{"client table that does not decode", onNewest(func(t *testing.T, d *memdisk.Disk, name string) {
			rewriteSnapshot(t, d, name, func(s []snapshot.Section) []snapshot.Section {
				s[2].Data = [][]byte{append([]byte{1}, make([]byte, 40)...)}
				return s
			})
			pairWith(t, d, name)
		}), metadata.ErrCorrupt, []string{".snap"}},
	}
}

func logRefusals() []refusal {
	return []refusal{
		{"metadata log missing", removedAll("metadata/wal/"), shard.ErrLogLost, []string{"metadata/wal", "restore"}},
		{"partition log missing", removedAll("shards/0/wal/"), shard.ErrLogLost, []string{"shards/0/wal", "restore"}},
		{"partition log missing but for a file that was being made", func(t *testing.T, d *memdisk.Disk) {
			removedAll("shards/0/wal/")(t, d)
			d.Put("shards/0/wal/spare.new", make([]byte, 64<<10))
		}, shard.ErrLogLost, []string{"shards/0/wal", "restore"}},
		{"metadata log rotten where it was synced", func(t *testing.T, d *memdisk.Disk) { flipFirstRecord(t, d, "metadata/wal") },
			wal.ErrDamaged, []string{"metadata/wal/"}},
		{"partition log rotten where it was synced", func(t *testing.T, d *memdisk.Disk) { flipFirstRecord(t, d, "shards/0/wal") },
			wal.ErrDamaged, []string{"shards/0/wal/"}},
		{"file of the log missing in the middle", func(t *testing.T, d *memdisk.Disk) {
			names := filesOf(d, "shards/0/wal", ".wal")
			d.Put(strings.TrimSuffix(names[len(names)-1], ".wal")[:len("shards/0/wal/")]+fmt.Sprintf("%020d.wal", 9999), d.Bytes(names[len(names)-1]))
		}, wal.ErrMissing, []string{"shards/0/wal", "9999"}},
		{"operation of a newer version", func(t *testing.T, d *memdisk.Disk) {
			log, _, err := wal.Open(d, "metadata/wal", wal.Options{FileSize: 64 << 10, Cluster: ClusterID(worldConfig().Cluster.Name), Shard: ^uint32(0)})
			if err != nil {
				t.Fatal(err)
			}
			last, id := log.Last(vsr.MetadataGroup)
			p := vsr.Prepare{Header: vsr.Header{Cluster: ClusterID(worldConfig().Cluster.Name), Op: last + 1, Parent: id, Timestamp: 9_000_000, Operation: 127}}
			p.Seal()
			if err := log.Write([]wal.Record{{Kind: wal.KindPrepare, Header: &p.Header}}, true); err != nil {
				t.Fatal(err)
			}
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
		}, shard.ErrOperationUnknown, []string{"metadata/wal", "operation 127", "version"}},
		{"log file of another node", func(t *testing.T, d *memdisk.Disk) {
			other := healthy()
			c := worldConfig()
			c.Cluster.Name = "another"
			w, err := open(t, other, c, 3, 1)
			if err != nil || !w.bootstrap() {
				t.Fatal(err)
			}
			for _, name := range filesOf(d, "metadata/wal", ".wal") {
				d.Delete(name)
			}
			for _, name := range filesOf(other, "metadata/wal", ".wal") {
				d.Put(name, other.Bytes(name))
			}
		}, wal.ErrForeign, []string{"metadata/wal/"}},
	}
}

func partitionRefusals() []refusal {
	return []refusal{
		{"table of the partitions missing", removedAll("shards/0/checkpoint/"), shard.ErrCheckpointLost, []string{".ckpt", "restore"}},
		{"table of the partitions rotten", func(t *testing.T, d *memdisk.Disk) {
			names := filesOf(d, "shards/0/checkpoint", ".ckpt")
			d.FlipBit(names[len(names)-1], 100, 1)
		}, snapshot.ErrChecksum, []string{".ckpt"}},
		{"segment shorter than its checkpoint says", func(t *testing.T, d *memdisk.Disk) {
			name := filesOf(d, "groups", ".log")[0]
			d.Put(name, d.Bytes(name)[:100])
		}, partition.ErrMissing, []string{"groups/", ".log"}},
		{"segment missing", func(t *testing.T, d *memdisk.Disk) { d.Delete(filesOf(d, "groups", ".log")[0]) },
			partition.ErrMissing, []string{"groups/", ".log"}},
		{"group that the metadata never gave out", func(t *testing.T, d *memdisk.Disk) {
			d.Put("groups/00000000000000009999/00000000000000000000.log", []byte("x"))
		}, shard.ErrMetadataLost, []string{"groups/00000000000000009999", "metadata"}},
		{"metadata directory of an older time", func(t *testing.T, d *memdisk.Disk) {
			young := healthy()
			w, err := open(t, young, worldConfig(), 1, 1_000_000)
			if err != nil || !w.bootstrap() {
				t.Fatal(err)
			}
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			for _, name := range d.Names() {
				if strings.HasPrefix(name, "metadata/") && d.Bytes(name) != nil {
					d.Delete(name)
				}
			}
			for name, content := range young.Files() {
				if strings.HasPrefix(name, "metadata/") {
					d.Put(name, content)
				}
			}
		}, shard.ErrMetadataLost, []string{"metadata"}},
	}
}

func removed(names ...string) func(*testing.T, *memdisk.Disk) {
	return func(t *testing.T, d *memdisk.Disk) {
		for _, n := range names {
			d.Delete(n)
		}
	}
}

func removedAll(prefix string) func(*testing.T, *memdisk.Disk) {
	return func(t *testing.T, d *memdisk.Disk) {
		for name := range d.Files() {
			if strings.HasPrefix(name, prefix) {
				d.Delete(name)
			}
		}
	}
}

func flipped(names ...string) func(*testing.T, *memdisk.Disk) {
	return func(t *testing.T, d *memdisk.Disk) {
		for _, n := range names {
			d.FlipBit(n, int64(len(d.Bytes(n))-10), 2)
		}
	}
}

func patch(d *memdisk.Disk, name string, off int, value byte) {
	b := slices.Clone(d.Bytes(name))
	b[off] = value
	d.Put(name, b)
}

// flipFirstRecord damages the first record of the oldest file of a log: later
// records witness that it was synced.
func flipFirstRecord(t *testing.T, d *memdisk.Disk, dir string) {
	t.Helper()
	d.FlipBit(filesOf(d, dir, ".wal")[0], 4096+90, 4)
}

// rewriteSuperblock replaces the newest payload, sealed as it must be.
func rewriteSuperblock(t *testing.T, d *memdisk.Disk, change func(superblock.State) []byte) {
	t.Helper()
	store, err := superblock.Open(d, "metadata")
	if err != nil {
		t.Fatal(err)
	}
	state, err := superblock.DecodeState(store.Latest().Payload)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Write(change(state)); err != nil {
		t.Fatal(err)
	}
}

// rewriteSnapshot replaces the sections of a snapshot, sealed as it must be.
func rewriteSnapshot(t *testing.T, d *memdisk.Disk, name string, change func([]snapshot.Section) []snapshot.Section) {
	t.Helper()
	s, err := snapshot.Decode(name, d.Bytes(name))
	if err != nil {
		t.Fatal(err)
	}
	b, err := snapshot.Encode(s.Header, change(slices.Clone(s.Sections)))
	if err != nil {
		t.Fatal(err)
	}
	d.Put(name, b)
}

// pairWith makes the superblock name a snapshot as it is now.
func pairWith(t *testing.T, d *memdisk.Disk, name string) {
	t.Helper()
	s, err := snapshot.Decode(name, d.Bytes(name))
	if err != nil {
		t.Fatal(err)
	}
	rewriteSuperblock(t, d, func(state superblock.State) []byte {
		state.CheckpointSum = s.Sum
		return state.Append(nil)
	})
}

// What may be missing or beside the data without a refusal.
func TestStartsThatMustWork(t *testing.T) {
	want := expected(t, healthy)
	final := want[len(want)-1]
	for _, c := range []struct {
		name string
		hurt func(*testing.T, *memdisk.Disk)
	}{
		{"nothing wrong", func(*testing.T, *memdisk.Disk) {}},
		{"an older snapshot missing", func(t *testing.T, d *memdisk.Disk) { d.Delete(filesOf(d, "metadata/snapshot", ".snap")[0]) }},
		{"index missing", func(t *testing.T, d *memdisk.Disk) {
			for _, n := range filesOf(d, "groups", ".index") {
				d.Delete(n)
			}
		}},
		{"garbage behind the active segment", func(t *testing.T, d *memdisk.Disk) {
			for _, n := range filesOf(d, "groups", ".log") {
				d.Put(n, append(slices.Clone(d.Bytes(n)), "garbage"...))
			}
		}},
		{"garbage behind the index", func(t *testing.T, d *memdisk.Disk) {
			for _, n := range filesOf(d, "groups", ".index") {
				d.Put(n, append(slices.Clone(d.Bytes(n)), "garbage ab"...))
			}
		}},
		{"stray files", func(t *testing.T, d *memdisk.Disk) {
			for _, n := range []string{"metadata/.hidden", "metadata/snapshot/x.tmp", "metadata/wal/.swp", "groups/README", "shards/0/checkpoint/1.ckpt.tmp", "notes.txt"} {
				d.Put(n, []byte("stray"))
			}
		}},
		{"files of a deleted partition", func(t *testing.T, d *memdisk.Disk) {
			d.Put("groups/00000000000000000001/00000000000000000000.log", []byte("x"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := rested(t)
			c.hurt(t, d)
			w, err := open(t, d, worldConfig(), 2, 2_000_000)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := w.observe(); err != nil || got != final {
				t.Fatalf("recovered (%v)\n%s\nwant\n%s", err, got, final)
			}
			goesOn(t, w, 0)
		})
	}
}

// A configuration that does not fit the directory is refused before anything is
// touched.
func TestConfigurationMustFitTheDirectory(t *testing.T) {
	for name, change := range map[string]func(*config.Config){
		"another cluster name": func(c *config.Config) { c.Cluster.Name = "renamed" },
		"more shards":          func(c *config.Config) { c.System.Shards = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			d := rested(t)
			before := d.Clone()
			c := worldConfig()
			change(&c)
			_, err := open(t, d, c, 2, 2_000_000)
			if !errors.Is(err, superblock.ErrIdentityForeign) && !errors.Is(err, shard.ErrShardsChanged) {
				t.Fatalf("got %v", err)
			}
			if diff := memdisk.Diff(before, d); diff != "" {
				t.Errorf("the refusal changed the disk: %s", diff)
			}
		})
	}
}
