package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"galgo/internal/cipher"
	"galgo/internal/cipher/ciphertest"
	"galgo/internal/disk/memdisk"
	"galgo/internal/vsr"
)

var testNode = [16]byte{9}

// sealed has all logs of the test sealed.
func sealed(t testing.TB) {
	testVault = ciphertest.Ring(1).Vault(testNode)
	t.Cleanup(func() { testVault = nil })
}

// What holds of a log holds of a sealed one.
func TestSealedLog(t *testing.T) {
	sealed(t)
	for name, test := range map[string]func(*testing.T){
		"crash at each call": TestCrashAtEachCall, "crash in recovery": TestCrashInRecovery, "cut is never undone": TestCutIsNeverUndone,
		"every bit flip": TestEveryBitFlip, "lost and misdirected": TestLostAndMisdirectedWrites, "model": TestAgainstModel,
		"refusals": TestRefusals, "truncate": TestTruncate, "reset": TestReset, "large record": TestLargeRecord,
		"write without sync": TestWriteWithoutSync, "syncs beside writes": TestSyncsBesideWrites, "readers beside the writer": TestReadersBesideTheWriter,
		"rot at the front": TestRotAtTheFrontOfAFile, "rot before its witness": TestRotFarBeforeItsWitness, "torn": TestInspectTornTail,
		"reclaim": TestReclaimCarriesStateAndFloor, "front after reclaim": TestFrontAfterReclaim, "carried": TestCarriedRecordsAreWitnessed,
		"carried is compared": TestCarriedIsCompared, "identity": TestReadComparesIdentity, "two logs": TestRecordsOfTwoLogsDoNotMix,
		"failed sync": TestFailedSyncPoisons, "no space": TestNoSpaceIsACleanRefusal,
	} {
		t.Run(name, test)
	}
}

// TestSealedGoldenBytes pins the format of a sealed log, as TestGoldenBytes does of one in
// the clear.
func TestSealedGoldenBytes(t *testing.T) {
	sealed(t)
	wantGolden(t, "sealed1.hex")
}

// secrets are records whose content can be told in any file.
func secrets(p *prepares) (recs []Record, told [][]byte) {
	for g := range vsr.GroupID(3) {
		r := p.next(g+1, 500)
		pr := vsr.Prepare{Header: *r.Header, Body: bytes.Repeat([]byte("a message that nobody else may read. "), 40)}
		copy(pr.Header.Client[:], "whose client it is")
		pr.Seal()
		p.rewind(pr.Header)
		recs = append(recs, Record{Kind: KindPrepare, Group: g + 1, Header: &pr.Header, Body: pr.Body})
		told = append(told, pr.Body[:8], pr.Header.Client[:8], pr.Header.Identity[:8], pr.Header.BodySum[:8])
	}
	return recs, told
}

// No byte of a body or of the header before it is in any file of a sealed log: not after a
// write, not in what is carried or copied.
func TestSealedLogTellsNothing(t *testing.T) {
	sealed(t)
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	recs, told := secrets(p)
	must(t, l.Write(recs, true))
	reset := *recs[0].Header
	reset.Op = 70
	pr := vsr.Prepare{Header: reset}
	pr.Seal()
	told = append(told, pr.Identity[:8])
	must(t, l.Write([]Record{{Kind: KindReset, Group: 1, Header: &pr.Header}}, true))
	for range 6 { // files are left, so that the headers are carried
		must(t, l.Write([]Record{p.next(9, 3000)}, true))
	}
	l.Release(2, 1)
	l.Release(3, 1)
	l.Release(9, 6)
	must(t, l.Reclaim())
	must(t, l.Write([]Record{p.next(9, 10)}, false))
	mustOpen(t, d.Kill()) // copies the tail
	for _, disk := range []*memdisk.Disk{d, d.Kill()} {
		for name, b := range disk.Files() {
			for _, secret := range told {
				if bytes.Contains(b, secret) {
					t.Errorf("%s holds %q", name, secret)
				}
			}
		}
	}
}

// A log opens under its keys, on its node, and else is refused by a reason that says what
// to do. Nothing is changed, whatever the end of the log is.
func TestSealedLogRefusals(t *testing.T) {
	node := ciphertest.Ring(1).Vault(testNode)
	write := func(v *cipher.Vault, mark bool) *memdisk.Disk {
		testVault = v
		defer func() { testVault = nil }()
		d := memdisk.New(memdisk.Options{})
		l, _ := mustOpen(t, d)
		p := newPrepares()
		must(t, l.Write([]Record{p.next(1, 40)}, true))
		if mark {
			must(t, l.Mark())
		}
		return d
	}
	for _, mark := range []bool{true, false} {
		for _, c := range []struct {
			name       string
			made, with *cipher.Vault
			want       error
			says       string
		}{
			{"no key", node, nil, cipher.ErrKeyMissing, "system.encryption.enabled"},
			{"another key", node, ciphertest.Ring(2).Vault(testNode), cipher.ErrKeyUnknown, "system.encryption.older_keys"},
			{"another node", node, ciphertest.Ring(1).Vault([16]byte{8}), cipher.ErrSealed, "restore"},
			{"a key for a log in the clear", nil, node, cipher.ErrClear, "restore"},
		} {
			d := write(c.made, mark)
			before := d.Clone()
			o := testOptions()
			o.Vault = c.with
			_, _, err := Open(d, testDir, o)
			e, ok := errors.AsType[*Error](err)
			if !ok || !errors.Is(err, c.want) || e.File != fileNamed(1) || e.Offset != blockSize || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s, marked %v: %v", c.name, mark, err)
			}
			if diff := memdisk.Diff(before, d); diff != "" {
				t.Errorf("%s, marked %v: the refusal changed the disk: %s", c.name, mark, diff)
			}
		}
	}
}

// Sealed bytes that were put elsewhere, with all checksums made right, do not open; nor
// are they cut where nothing witnesses them.
func TestSealedRecordIsBoundToItsPlace(t *testing.T) {
	sealed(t)
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	must(t, l.Write([]Record{p.next(1, 40)}, true))
	for name, change := range map[string]func(r []byte){
		"another group": func(r []byte) { r[24] = 2 },
		"another kind":  func(r []byte) { r[12] = byte(KindReset) | sealedFlag },
		"a changed bit": func(r []byte) {
			payload := r[frameSize : frameSize+binary.LittleEndian.Uint32(r[48:])]
			payload[len(payload)-1] ^= 1
			sum := xxh3.Hash128(payload[sealedHead:]).Bytes()
			copy(payload, sum[:])
		},
	} {
		if name == "another kind" { // of which the length is right
			d = memdisk.New(memdisk.Options{})
			l, _ = mustOpen(t, d)
			must(t, l.Write([]Record{newPrepares().next(1, 0)}, true))
		}
		c := resealed(d, l, blockSize, change)
		before := c.Clone()
		if _, _, err := Open(c, testDir, testOptions()); !errors.Is(err, cipher.ErrSealed) {
			t.Errorf("%s: %v", name, err)
		}
		if diff := memdisk.Diff(before, c); diff != "" {
			t.Errorf("%s: the refusal changed the disk: %s", name, diff)
		}
	}
}

// Reads of a sealed log verify what they return each time, and name the op.
func TestSealedReadFindsDamage(t *testing.T) {
	sealed(t)
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	r := p.next(1, 40)
	must(t, l.Write([]Record{r, p.next(1, 40)}, true))
	size := frameSize + sealedOverhead + vsr.HeaderSize + 40
	for at := int64(blockSize); at < blockSize+int64(size); at++ {
		d.FlipBit(fileNamed(1), at, uint(at)%8)
		_, err := l.Read(1, 1)
		e, ok := errors.AsType[*Error](err)
		if !ok || !errors.Is(err, ErrDamaged) || e.Group != 1 || e.Op != 1 || e.Offset != blockSize || e.File != fileNamed(1) {
			t.Fatalf("byte %d flipped: %v, want damage of group 1 op 1 at %d", at, err, blockSize)
		}
		if _, err := l.Header(1, 1); !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d flipped: header: %v", at, err)
		}
		d.FlipBit(fileNamed(1), at, uint(at)%8)
	}
	if got, err := l.Read(1, 1); err != nil || got.Header != *r.Header || !bytes.Equal(got.Body, r.Body) {
		t.Fatalf("after all was flipped back: %v", err)
	}
}

// A log that was sealed under an older key goes on under the current one, and opens as
// long as both are there.
func TestSealedLogUnderTwoKeys(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	h, p := newHistory(), newPrepares()
	defer func() { testVault = nil }()
	for i, fills := range [][]byte{{1}, {2, 1}, {3, 2, 1}} {
		testVault = ciphertest.Ring(fills...).Vault(testNode)
		l, rec := mustOpen(t, d)
		if n, err := h.check(l, rec, h.durable); err != nil || n != h.durable {
			t.Fatalf("start %d: %d records, %v", i, n, err)
		}
		must(t, h.write(l, true, p.next(1, 100), p.next(2, 200)))
		must(t, l.Close())
	}
	testVault = ciphertest.Ring(3, 1).Vault(testNode)
	if _, _, err := Open(d, testDir, testOptions()); !errors.Is(err, cipher.ErrKeyUnknown) {
		t.Errorf("without the second key: %v", err)
	}
}

// Inspect verifies a sealed log without a key, and says of what it cannot open under which
// key it is; with the key it shows what it shows of a log in the clear.
func TestInspectOfASealedLog(t *testing.T) {
	sealed(t)
	vault := testVault
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	a := p.next(1, 100)
	must(t, l.Write([]Record{a, {Kind: KindState, Group: 1, State: []byte("s")}}, true))
	must(t, l.Write([]Record{p.next(1, 700), {Kind: KindTruncate, Group: 1, Op: 1}}, true))
	must(t, l.Mark())
	look := func(v *cipher.Vault) (items []Item, err error) {
		err = Inspect(d, testDir, v, func(it Item) error {
			if it.Header != nil {
				h := *it.Header
				it.Header = &h
			}
			items = append(items, it)
			return nil
		})
		return items, err
	}
	for _, v := range []*cipher.Vault{nil, vault, ciphertest.Ring(2).Vault(testNode)} {
		items, err := look(v)
		if len(items) != 6 || items[1].Kind != KindPrepare || items[1].Group != 1 || items[1].Key != ciphertest.Ring(1).Current() || items[4].Kind != KindTruncate {
			t.Fatalf("%+v", items)
		}
		switch shown := items[1].Header != nil; {
		case v == vault && (err != nil || !shown || *items[1].Header != *a.Header || items[1].Op != 1):
			t.Errorf("with the key: %+v, %v", items[1], err)
		case v == nil && (err != nil || shown || items[1].Problem != nil):
			t.Errorf("without a key: %+v, %v", items[1], err)
		case v != vault && v != nil && (!errors.Is(err, cipher.ErrKeyUnknown) || items[1].Problem == nil):
			t.Errorf("with another key: %+v, %v", items[1], err)
		}
	}
	d.FlipBit(fileNamed(1), blockSize+frameSize+100, 1)
	for _, v := range []*cipher.Vault{nil, vault} {
		if items, err := look(v); !errors.Is(err, ErrDamaged) || items[1].Problem == nil || items[1].Torn {
			t.Errorf("rotten: %+v, %v", items[1], err)
		}
	}
}

// What is torn and what is rotten is the same without a key as with it.
func TestTornOrRottenNeedsNoKey(t *testing.T) {
	sealed(t)
	vault := testVault
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 3))
		h := newHistory()
		d := memdisk.CrashAt(30+rng.IntN(60), rng)
		if err := script(d, h); err != nil && !errors.Is(err, memdisk.ErrCrashed) {
			t.Fatal(err)
		}
		d = d.PowerLoss(rng)
		names := slices.DeleteFunc(d.Names(), func(n string) bool { return len(d.Bytes(n)) < blockSize+2048 })
		if seed%3 == 0 && len(names) > 0 {
			name := names[rng.IntN(len(names))]
			d.FlipBit(name, blockSize+rng.Int64N(2048), uint(rng.IntN(8)))
		}
		verdict := func(v *cipher.Vault) (torn int, refused bool) {
			err := Inspect(d, testDir, v, func(it Item) error {
				if it.Torn {
					torn++
				}
				return nil
			})
			return torn, err != nil
		}
		torn, refused := verdict(nil)
		if tornOpen, refusedOpen := verdict(vault); torn != tornOpen || refused != refusedOpen {
			t.Errorf("seed %d: without a key %d torn and refused %v, with it %d and %v", seed, torn, refused, tornOpen, refusedOpen)
		}
	}
}
