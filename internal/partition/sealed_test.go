package partition

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"galgo"
	"galgo/internal/cipher"
	"galgo/internal/cipher/ciphertest"
	"galgo/internal/disk/memdisk"
	"galgo/internal/wire"
)

// sealed has all segments of the test sealed.
func sealed(t testing.TB) {
	testVault = ciphertest.Ring(1).Vault([16]byte{9})
	t.Cleanup(func() { testVault = nil })
}

// opened is a sealed log in the clear; all else as it is.
func opened(t tb, r *rig, name string, content []byte) []byte {
	n, _ := ParseSegmentName(path.Base(name))
	if r.cfg.Vault == nil || n.Index {
		return content
	}
	w := walker{
		seg: newSegment(&r.m.cfg, n.Generation, n.Base), file: bytes.NewReader(content), partition: testPartition, end: uint64(len(content)), next: n.Base,
		sealing: r.cfg.sealing(n.Generation), want: windowMin, buffer: func(n int) []byte { return make([]byte, n) },
	}
	var out []byte
	for {
		b, _, err := w.record()
		if b != nil && err == nil {
			b, err = w.open(b)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if b == nil {
			return out
		}
		out = append(out, b...)
	}
}

// What holds of segments holds of sealed ones.
func TestSealedSegments(t *testing.T) {
	sealed(t)
	for name, test := range map[string]func(*testing.T){
		"crash at every call": TestCrashAtEveryCall, "crash during recovery": TestCrashDuringRecovery, "faults": TestFaultsOfTheDisk,
		"remove": TestRemoveAtEveryCall, "garbage": TestGarbageBehindTheFilesIsCut, "torn": TestTornWriteBehindTheRecoveryPoint,
		"index": TestIndexIsRebuiltWhateverIsWrongWithIt, "flipped bits": TestFlippedBitsAreNeverServed, "wrong place": TestSoundRecordsInTheWrongPlace,
		"refusals": TestRefusals, "without log": TestOpenWithoutLog, "polls": TestPollsEveryStart, "histories": TestRandomHistories,
		"bytes of a reply": TestReplyKeepsToItsBytes, "plans": TestPlansOutliveWhatHappens, "write under way": TestReadWhileTheWriteIsUnderWay,
		"tiny batches": TestManyTinyBatchesInOneWrite, "readers": TestReadersBesideTheLoop, "few entries": TestSearchReadsFewEntries,
		"whole records": TestWholeRecordsAreServedAsStored, "purge": TestPurgeStartsAnew, "length": TestLengthOfARecordIsBounded,
	} {
		t.Run(name, test)
	}
}

// savedRig has segments on disk, none of it in memory.
func savedRig(t testing.TB) (*rig, *memdisk.Disk) {
	t.Helper()
	d := newDisk()
	cfg := smallConfig(d)
	cfg.TailBytes = -1
	r := newRig(t, cfg)
	for i := range 40 {
		r.send(1+i%3, 200)
	}
	r.must(r.save())
	return r, d
}

// A sealed batch has these bytes, and stays as long as it was.
func TestSealedBatchGolden(t *testing.T) {
	const golden = "03000000000000000900000000000000870000000000000000401e18240a06003801000000000000" + "SUM" + "01000000" + "7365616c" + "5a04d7392599e0b1"
	v := ciphertest.Ring(1).Vault([16]byte{9})
	s := &sealing{vault: v, group: testGroup, generation: 2}
	batch := makeBatch(t, 5, 1, 8)
	stampRecord(batch, testPartition, 9, 135)
	b := s.append(make([]byte, 0, len(batch)+cipher.TagSize), batch)
	sum := hex.EncodeToString(binary.LittleEndian.AppendUint64(nil, sealedSum(b)))
	if got := hex.EncodeToString(b[:64]); len(b) != len(batch) || got != strings.Replace(golden, "SUM", sum, 1) {
		t.Errorf("a batch of %d bytes is sealed as %d:\n%s", len(batch), len(b), got)
	}
	const whole = "7e16d0b67a512404da3443a62ad10d64"
	if got := hex.EncodeToString(checksumBytes(b)); got != whole {
		t.Errorf("the format changed: %s", got)
	}
	if err := checkSealed(b); err != nil {
		t.Error(err)
	}
	if err := s.open(b); err != nil || !bytes.Equal(b, batch) {
		t.Errorf("opened: %v", err)
	}
}

func checksumBytes(b []byte) []byte {
	sum := xxh3.Hash128(b).Bytes()
	return sum[:]
}

// Whatever bit of a sealed batch is changed: its checksum tells, and where that was made
// right it does not open.
func TestSealedBatchRefusesEveryFlippedBit(t *testing.T) {
	s := &sealing{vault: ciphertest.Ring(1).Vault([16]byte{9}), group: testGroup, generation: 2}
	batch := makeBatch(t, 5, 2, 8)
	stampRecord(batch, testPartition, 9, 135)
	good := s.append(make([]byte, 0, len(batch)+cipher.TagSize), batch)
	for bit := range 8 * len(good) {
		b := append(make([]byte, 0, len(good)+cipher.TagSize), good...)
		b[bit/8] ^= 1 << (bit % 8)
		if checkSealed(b) == nil {
			t.Fatalf("bit %d: the checksum holds", bit)
		}
		if at := bit / 8; at >= batchChecksum && at < batchCount {
			continue
		}
		binary.LittleEndian.PutUint64(b[batchChecksum:], sealedSum(b))
		if checkSealed(b) == nil && s.open(b) == nil {
			t.Fatalf("bit %d: it opens", bit)
		}
	}
	for name, other := range map[string]*sealing{
		"group": {s.vault, testGroup + 1, 2}, "generation": {s.vault, testGroup, 3}, "node": {ciphertest.Ring(1).Vault([16]byte{8}), testGroup, 2},
	} {
		if err := other.open(append(make([]byte, 0, len(good)+cipher.TagSize), good...)); !errors.Is(err, cipher.ErrSealed) {
			t.Errorf("of another %s: %v", name, err)
		}
	}
}

// No file holds any byte of a message, nor what tells messages apart.
func TestSealedSegmentsTellNothing(t *testing.T) {
	sealed(t)
	d := newDisk()
	r := newRig(t, smallConfig(d))
	secrets := [][]byte{[]byte("nobody else may read"), []byte("a header of users"), bytes.Repeat([]byte{0xa7}, 16)}
	for range 30 {
		b, err := wire.AppendBatch(nil, []galgo.Message{{ID: galgo.MessageID(secrets[2]), Payload: bytes.Repeat(secrets[0], 5), UserHeaders: secrets[1], Timestamp: startTime}})
		r.must(err)
		r.time += 10
		base := r.m.Stamp(b, r.time)
		secrets = append(secrets, b[batchChecksum:batchCount:batchCount], b[wire.BatchHeaderSize:wire.BatchHeaderSize+8:wire.BatchHeaderSize+8])
		r.apply(Entry{Timestamp: r.time, Operation: OpSend, Offset: base, Body: b})
		r.must(r.write(true))
	}
	r.must(r.save())
	for name, b := range d.Files() {
		for _, s := range secrets {
			if bytes.Contains(b, s) {
				t.Errorf("%s holds %q", name, s)
			}
		}
	}
}

// A batch that is sound and does not open is an error of its own, which names the file and
// the place, and what to do. What was sealed under an older key opens.
func TestSealedBatchThatDoesNotOpen(t *testing.T) {
	sealed(t)
	r, d := savedRig(t)
	poll := func(v *cipher.Vault) ([]polled, error) {
		cfg := r.cfg
		cfg.Vault, cfg.Disk, cfg.Files = v, d, nil
		c, _ := r.recovered()
		m, err := Open(cfg, c, 0)
		r.must(err)
		return pollMachine(m, PollRequest{Strategy: galgo.FromOffset(20), Count: 5})
	}
	want, err := poll(testVault)
	r.must(err)
	for _, c := range []struct {
		name string
		with *cipher.Vault
		want error
		says string
	}{
		{"another key", ciphertest.Ring(2).Vault([16]byte{9}), cipher.ErrKeyUnknown, "system.encryption.older_keys"},
		{"another node", ciphertest.Ring(1).Vault([16]byte{8}), cipher.ErrSealed, "restore"},
		{"no key", nil, ErrDamaged, "reserved"},
	} {
		_, err := poll(c.with)
		e, ok := errors.AsType[*DamageError](err)
		if !ok || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.HasSuffix(e.File, logSuffix) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if got, err := poll(ciphertest.Ring(2, 1).Vault([16]byte{9})); err != nil || !slices.Equal(got, want) {
		t.Errorf("with the older key: %v, %v", got, err)
	}
}

// A poll opens what it answers with, and nothing that lies before.
func TestPollOpensNoMoreThanItAnswersWith(t *testing.T) {
	sealed(t)
	r, d := savedRig(t)
	name := r.m.segments[0].logName
	b := d.Bytes(name)
	b[sealedRest+40] ^= 1 // the tag of the first batch
	n := wire.Batch(b).Length()
	binary.LittleEndian.PutUint64(b[batchChecksum:], sealedSum(b[:n]))
	d.Put(name, b)
	r.must(r.reopen(d))
	first := uint64(wire.Batch(b).MessageCount())
	if got := r.poll(galgo.FromOffset(first), 2); len(got) != 2 || got[0].offset != first {
		t.Errorf("behind it: %v", got)
	}
	if _, err := pollMachine(r.m, PollRequest{Strategy: galgo.FromOffset(0), Count: 2}); !errors.Is(err, cipher.ErrSealed) {
		t.Errorf("from it on: %v", err)
	}
}

// bytesOf are the files of a checkpoint, back to back, in the clear.
func bytesOf(t testing.TB, r *rig, d *memdisk.Disk) []byte {
	t.Helper()
	c, _ := r.recovered()
	var all []byte
	for _, f := range c.Files(r.m.cfg.Dir) {
		part := d.Bytes(f.Name)[:f.Size]
		view, err := c.Opened(r.cfg, f)
		if err != nil {
			t.Fatal(err)
		}
		if view != nil {
			part = make([]byte, f.Size)
			if _, err := view.ReadAt(part, 0); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, part...)
	}
	return all
}

// A checkpoint of a sealing replica is, opened, the one of a replica in the clear, from
// whatever byte on it is read and whatever its index is; either can be restored from
// either.
func TestCheckpointsOfSealedAndClearAreEqual(t *testing.T) {
	clear, clearDisk := savedRig(t)
	sealed(t)
	r, d := savedRig(t)
	want := bytesOf(t, clear, clearDisk)
	if got := bytesOf(t, r, d); !bytes.Equal(got, want) || !bytes.Equal(r.checkpoint, clear.checkpoint) {
		t.Fatal("opened, the files are not those of a replica in the clear")
	}
	c, _ := r.recovered()
	rng := seeded(7)
	for _, f := range c.Files(r.m.cfg.Dir) {
		view, err := c.Opened(r.cfg, f)
		r.must(err)
		whole := clearDisk.Bytes(f.Name)
		for i := 0; view != nil && i < 50; i++ {
			if i == 40 {
				d.FlipBit(strings.TrimSuffix(f.Name, logSuffix)+indexSuffix, indexHeaderSize+10, 1)
			}
			if i == 45 { // points at no batch
				name := strings.TrimSuffix(f.Name, logSuffix) + indexSuffix
				s := r.m.segments[f.log-1]
				wrong := indexEntry{offset: s.base, time: s.time, pos: 3}.append(nil, s.indexIdentity(r.cfg.IndexInterval).seed(), 0)
				d.Put(name, slices.Concat(d.Bytes(name)[:indexHeaderSize], wrong, d.Bytes(name)[indexHeaderSize+indexEntrySize:]))
			}
			off := rng.Int64N(f.Size)
			b := make([]byte, 1+rng.Int64N(f.Size-off))
			if n, err := view.ReadAt(b, off); err != nil || !bytes.Equal(b[:n], whole[off:off+int64(len(b))]) {
				t.Fatalf("%s: %d of %d bytes at %d: %v", f.Name, n, len(b), off, err)
			}
		}
	}
	for name, v := range map[string]*cipher.Vault{"in the clear": nil, "sealed": testVault, "sealed by another": ciphertest.Ring(2).Vault([16]byte{3})} {
		into := newDisk()
		cfg := r.cfg
		cfg.Vault, cfg.Disk, cfg.Files = v, into, nil
		r.must(Verify(cfg, c, bytes.NewReader(want)))
		r.must(Restore(cfg, c, bytes.NewReader(want)))
		m, err := Open(cfg, c, 0)
		r.must(err)
		all := PollRequest{Strategy: galgo.FromOffset(0), Count: 1000}
		got, err := pollMachine(m, all)
		wanted, _ := pollMachine(clear.m, all)
		if err != nil || !slices.Equal(got, wanted) {
			t.Errorf("%s: %d messages of %d, %v", name, len(got), len(wanted), err)
		}
	}
}

// Whatever write of a restore is cut short, and power fails, the checkpoint that was here before can
// still be read: batches that are here are not written over.
func TestRestoreOfASealedCheckpointHarmsNoOther(t *testing.T) {
	sealed(t)
	old, _ := savedRig(t)
	oldCheckpoint := old.checkpoint
	before := old.poll(galgo.FromOffset(0), 1000)
	disk := old.cfg.Disk.(*memdisk.Disk).PowerLoss(nil)
	young := old.twin()
	young.sent = old.sent
	young.time = old.time
	for i := range 30 {
		young.send(1+i%2, 300)
	}
	young.must(young.save())
	src := bytesOf(t, young, young.cfg.Disk.(*memdisk.Disk))
	c, _ := young.recovered()
	for k := 1; ; k++ {
		d := disk.Clone()
		d.Inject(memdisk.Fault{Class: memdisk.ShortWrite, Keep: 700, At: k, Ops: memdisk.OpWrite})
		cfg := young.cfg
		cfg.Disk, cfg.Files = d, nil
		err := Restore(cfg, c, bytes.NewReader(src))
		for seed := range uint64(8) {
			after := d.PowerLoss(seeded(0x9e3779b97f4a7c15 * (uint64(k)<<8 + seed + 1)))
			cfg.Disk, cfg.Files = after, nil
			from, polledFrom := oldCheckpoint, before
			if err == nil {
				from, polledFrom = young.checkpoint, young.poll(galgo.FromOffset(0), 1000)
			}
			ckpt, _ := DecodeCheckpoint(from)
			m, openErr := Open(cfg, ckpt, ckpt.Op+1)
			if openErr != nil {
				t.Fatalf("call %d, %v: %v", k, err, openErr)
			}
			if got, err := pollMachine(m, PollRequest{Strategy: galgo.FromOffset(0), Count: 1000}); err != nil || !slices.Equal(got, polledFrom) {
				t.Fatalf("call %d: %d messages of %d, %v", k, len(got), len(polledFrom), err)
			}
		}
		if err == nil {
			return
		}
	}
}

// InspectSegment verifies a sealed log without a key and opens it with one.
func TestInspectOfASealedSegment(t *testing.T) {
	sealed(t)
	r, d := savedRig(t)
	name, key := r.m.segments[0].logName, ciphertest.Ring(1).Current()
	for what, v := range map[string]*cipher.Vault{"none": nil, "its own": testVault, "another": ciphertest.Ring(2).Vault([16]byte{9})} {
		report, err := InspectSegment(d, name, v, nil)
		if err != nil || report.Sound != report.Size || report.Keys[key] != report.Records || report.IndexProblem != "" {
			t.Errorf("key %s: %+v, %v", what, report, err)
		}
		if another := what == "another"; errors.Is(report.Problem, cipher.ErrKeyUnknown) != another || report.Problem == nil == another {
			t.Errorf("key %s: %v", what, report.Problem)
		}
	}
	d.FlipBit(name, 400, 3)
	if report, err := InspectSegment(d, name, nil, nil); err != nil || !errors.Is(report.Problem, ErrDamaged) || report.Sound != 0 {
		t.Errorf("rotten: %+v, %v", report, err)
	}
}
