package shard

import (
	"bytes"
	"strings"
	"testing"

	"galgo/internal/disk/memdisk"
	"galgo/internal/partition"
	"galgo/internal/superblock"
	"galgo/internal/vsr"
	"galgo/internal/wal"
)

// behindAReset is the disk of a replica whose log begins anew behind a checkpoint of a
// peer that was gathered, and whose files are not made yet. It holds two messages.
func behindAReset(t *testing.T) *memdisk.Disk {
	t.Helper()
	o, b := sourceOfOne(t)
	d, exec := newData(t, memdisk.New(memdisk.Options{}), nil)
	d.Create(spec(1))
	row, _, _, err := decodeTaken(bytes.NewReader(b), spec(1), o)
	if err != nil {
		t.Fatal(err)
	}
	gather(t, d.cfg.Disk, 1, o, b)
	d.feed.append(wal.Record{Kind: wal.KindReset, Group: 1, Header: &row.head}, true, nil)
	drive(d, exec)
	return d.cfg.Disk.(*memdisk.Disk).PowerLoss(nil)
}

// doubtfulRestore has a start fail at a sync of what it restores. The next one finishes, a
// table names the files, what the peer sent is discarded, and power is lost.
func doubtfulRestore(t *testing.T, f memdisk.Fault) {
	t.Helper()
	disk := behindAReset(t)
	f.Class, f.KeepCache = memdisk.SyncFailure, true
	disk.Inject(f)
	if _, err := OpenData(dataConfig(t, disk, &manual{}), []GroupSpec{spec(1)}, 1<<20); err == nil || disk.Fired() != 1 {
		t.Fatalf("the fault came %d times: %v", disk.Fired(), err)
	}
	disk = disk.Kill()
	d, exec := reopened(t, disk, spec(1))
	if err := checkpointed(t, d, exec); err != nil {
		t.Fatal(err)
	}
	if d.groups[1].taking.unsaved != 0 {
		t.Fatal("what the peer sent is kept")
	}
	again, _ := reopened(t, disk.PowerLoss(nil), spec(1))
	wantMessages(t, again, 1, 2)
	p := partsOf(again.config(spec(1)), again.groups[1])
	if _, err := sumOf(p.open(again.cfg.Disk), p.size()); err != nil {
		t.Error(err)
	}
}

// The sync of the directory of what is restored fails, and the node is started again: it
// does not rely on the names that it finds.
func TestRestoredFilesWhoseNamesAreInDoubt(t *testing.T) {
	doubtfulRestore(t, memdisk.Fault{Ops: memdisk.OpSyncDir, Match: memdisk.Named(partition.Dir(1))})
}

// The same, where a file itself was not synced.
func TestRestoredFilesWhoseBytesAreInDoubt(t *testing.T) {
	ofGroup := func(name string) bool { return strings.HasPrefix(name, partition.Dir(1)+"/") }
	for _, test := range []string{"clear", "sealed"} {
		t.Run(test, func(t *testing.T) {
			if test == "sealed" {
				sealed(t)
			}
			doubtfulRestore(t, memdisk.Fault{Ops: memdisk.OpSync, Match: ofGroup})
		})
	}
}

// The directory of what is gathered was not synced when its file was made: what is sealed
// all the same survives a power loss.
func TestStagingWhoseNameIsInDoubt(t *testing.T) {
	for at := 1; at <= 3; at++ {
		disk := memdisk.New(memdisk.Options{})
		content := []byte("a checkpoint")
		o := anOffer(content)
		place := stagingOf(disk, "transfer", 3, testVault)
		disk.Inject(memdisk.Fault{Class: memdisk.SyncFailure, Ops: memdisk.OpSyncDir, Match: memdisk.Named("transfer"), At: at})
		for range 4 { // the courier tries again
			if _, err := place.begin(o); err == nil {
				break
			}
		}
		if err := place.write(o, 0, content); err != nil {
			t.Fatal(err)
		}
		if err := place.seal(o); err != nil {
			continue // asked for anew
		}
		after := stagingOf(disk.PowerLoss(nil), "transfer", 3, testVault)
		if _, ok, err := after.sealed(); !ok || err != nil {
			t.Errorf("sync %d of the directory: it was sealed, and is gone: %v, %v", at, ok, err)
		}
	}
}

// The sync of what was gathered failed. What a later process takes for sealed survives a
// power loss.
func TestStagingWhoseBytesAreInDoubt(t *testing.T) {
	for _, how := range []string{"start", "transfer"} {
		disk := memdisk.New(memdisk.Options{})
		content := []byte("a checkpoint")
		o := anOffer(content)
		place := stagingOf(disk, "transfer", 3, testVault)
		if _, err := place.begin(o); err != nil {
			t.Fatal(err)
		}
		if err := place.write(o, 0, content); err != nil {
			t.Fatal(err)
		}
		disk.Inject(memdisk.Fault{Class: memdisk.SyncFailure, KeepCache: true, Match: memdisk.Named(place.partName())})
		if err := place.seal(o); err == nil {
			t.Fatal("no fault")
		}
		place.disk = disk.Kill() // before it is discarded
		if how == "transfer" {
			stored, err := place.begin(o)
			if err != nil {
				t.Fatal(err)
			}
			if err := place.write(o, stored, content[stored:]); err != nil {
				t.Fatal(err)
			}
		}
		if _, ok, err := place.sealed(); !ok || err != nil {
			continue // it is asked for anew
		}
		place.disk = place.disk.(*memdisk.Disk).PowerLoss(nil)
		if _, ok, err := place.sealed(); !ok || err != nil {
			t.Errorf("%s: it was sealed, and is gone: %v, %v", how, ok, err)
		}
	}
}

// A checkpoint of a peer that does not decode, all of which is here when power is lost,
// under a log that goes on without it: the start throws it away, as the transfer would.
func TestStartWithACheckpointThatDoesNotDecode(t *testing.T) {
	after := offeredWithinTheLog(t, func(b []byte, _ vsr.Offer) { b[4+4+rowHead+40] ^= 1 }) // of the checkpoint in the row
	again, _ := reopened(t, after, spec(1))
	wantMessages(t, again, 1, 2)
}

// A power loss leaves segments of a topic whose log is not synced that reach further than
// the log. A start cuts them and is killed at any call, what comes then is divided
// differently, and no file is made after it. A power loss brings none of the cut ones back.
func TestCutOfSegmentsThatWasNotSynced(t *testing.T) {
	memory := spec(1)
	memory.Sync, memory.SegmentSize, memory.MessagesToSave = false, 4<<10, 1
	ahead := memdisk.New(memdisk.Options{})
	d, exec := newData(t, ahead, nil)
	d.Create(memory)
	stored(t, d, exec, 1, 700)
	if err := checkpointed(t, d, exec); err != nil {
		t.Fatal(err)
	}
	stored(t, d, exec, 1, 700)
	files := ahead.Files()
	for range 5 {
		stored(t, d, exec, 1, 700)
	}
	if err := checkpointed(t, d, exec); err != nil {
		t.Fatal(err)
	}
	for name, b := range ahead.Files() {
		if strings.HasPrefix(name, partition.Dir(1)) && files[name] == nil {
			files[name] = b
		}
	}
	for k := 1; ; k++ {
		disk := memdisk.CrashAt(k, nil)
		for name, b := range files {
			disk.Put(name, b)
		}
		_, died := OpenData(dataConfig(t, disk, &manual{}), []GroupSpec{memory}, 1<<20)
		disk = disk.Kill()
		again, exec := reopened(t, disk, memory)
		for range 6 {
			stored(t, again, exec, 1, 10)
		}
		if err := checkpointed(t, again, exec); err != nil {
			t.Fatal(err)
		}
		if last, err := OpenData(dataConfig(t, disk.PowerLoss(nil), &manual{}), []GroupSpec{memory}, 1<<20); err != nil {
			t.Errorf("killed at call %d: %v", k, err)
		} else {
			wantMessages(t, last, 1, 8)
		}
		if died == nil {
			return
		}
	}
}

// The sync behind a name failed while a directory was formatted, and the next process went
// on: what a single node has acknowledged is not refused after a power loss.
func TestFormatOverNamesInDoubt(t *testing.T) {
	cfg := FormatConfig{Identity: superblock.Identity{ReplicaCount: 1, Node: [16]byte{7}}, Shards: 1, WALFileSize: 64 << 10}
	for at := 1; ; at++ {
		disk := memdisk.New(memdisk.Options{})
		disk.Inject(memdisk.Fault{Class: memdisk.SyncFailure, Ops: memdisk.OpSyncDir, At: at})
		err := Format(disk, cfg)
		disk = disk.Kill()
		if err := Format(disk, cfg); err != nil {
			t.Fatal(err)
		}
		d, exec := reopened(t, disk)
		d.Create(spec(1))
		stored(t, d, exec, 1, 10)
		after := disk.PowerLoss(nil)
		if err := Format(after, cfg); err != nil {
			t.Errorf("sync %d: %v", at, err)
		}
		if _, _, err := openSuperblock(MetadataConfig{Disk: after, Replication: Replication{Replicas: 1}}); err != nil {
			t.Errorf("sync %d: %v", at, err)
		}
		last, _ := reopened(t, after, spec(1))
		wantMessages(t, last, 1, 1)
		if err == nil {
			return
		}
	}
}
