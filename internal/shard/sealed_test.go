package shard

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"galgo/internal/cipher"
	"galgo/internal/cipher/ciphertest"
	"galgo/internal/disk/memdisk"
	"galgo/internal/superblock"
	"galgo/internal/vsr"
)

// testVault seals the directories of all tests while it is set: see sealed.
var testVault *cipher.Vault

func sealed(t testing.TB) {
	testVault = ciphertest.Ring(1).Vault([16]byte{9})
	t.Cleanup(func() { testVault = nil })
}

// What holds of checkpoints and of what comes from peers holds of sealed ones.
func TestSealedShard(t *testing.T) {
	sealed(t)
	for name, test := range map[string]func(*testing.T){
		"inside the log": TestStartAfterACheckpointInsideTheLog, "without what the log begins behind": TestStartWithoutWhatTheLogBeginsBehind,
		"several segments": TestCheckpointOfSeveralSegments, "rot": TestRotInATransferIsFound, "unpaired table": TestTableThatWasNotPaired,
		"table named": TestTableMustBeTheOneNamed, "order": TestOrderOfADataCheckpoint, "idle groups": TestIdleGroupsStayInTheTable,
	} {
		t.Run(name, test)
	}
}

// bigOffer has pieces of full size and an end.
func bigOffer() (vsr.Offer, []byte) {
	content := make([]byte, 2*pieceSize+100)
	for i := range content {
		content[i] = byte(i % 251)
	}
	return anOffer(content), content
}

// What is gathered where all is sealed is in sealed pieces, resumes at the last whole one,
// and is read as it came.
func TestSealedStagingResumes(t *testing.T) {
	sealed(t)
	d := memdisk.New(memdisk.Options{})
	place := stagingOf(d, "transfer", 3, testVault)
	o, content := bigOffer()
	begin := func(want uint64) {
		t.Helper()
		if stored, err := place.begin(o); err != nil || stored != want {
			t.Fatalf("%d bytes are there, %v, want %d", stored, err, want)
		}
	}
	write := func(from int) {
		t.Helper()
		piece := content[from:min(from+pieceSize, len(content))]
		if err := place.write(o, uint64(from), piece); err != nil {
			t.Fatal(err)
		}
	}
	begin(0)
	write(0)
	begin(pieceSize)
	whole := d.Bytes(place.partName())
	d.Put(place.partName(), whole[:len(whole)-1]) // a write that was cut
	begin(0)
	write(0)
	write(pieceSize)
	begin(2 * pieceSize)
	if err := place.seal(o); !errors.Is(err, errStaged) {
		t.Errorf("a part is taken for the whole: %v", err)
	}
	write(2 * pieceSize)
	if err := place.seal(o); err != nil {
		t.Fatal(err)
	}
	begin(o.Size)
	if got, ok, err := place.sealed(); got != o || !ok || err != nil {
		t.Errorf("sealed is %+v, %v, %v", got, ok, err)
	}
	if got, err := place.bytes(o); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	for name, b := range d.Files() {
		for _, secret := range [][]byte{content[:32], o.Identity[:8], o.Sum[:8]} {
			if bytes.Contains(b, secret) {
				t.Errorf("%s holds %x", name, secret)
			}
		}
	}
	rng := rand.New(rand.NewPCG(4, 4))
	r := place.open(o)
	defer r.Close()
	for range 30 {
		off := rng.IntN(len(content))
		b := make([]byte, rng.IntN(len(content)-off)+1)
		if n, err := r.ReadAt(b, int64(off)); err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(b[:n], content[off:off+n]) {
			t.Fatalf("%d bytes at %d: %v", n, off, err)
		}
	}
}

// Only what was asked for is written: sealed pieces have one size.
func TestSealedStagingTakesWholePieces(t *testing.T) {
	sealed(t)
	o, content := bigOffer()
	place, clear := stagingOf(nil, "transfer", 3, testVault), stagingOf(nil, "transfer", 3, nil)
	for _, c := range []struct {
		off, n uint64
		fits   bool
	}{
		{0, pieceSize, true}, {pieceSize, pieceSize, true}, {2 * pieceSize, 100, true},
		{0, 100, false}, {pieceSize, pieceSize - 1, false}, {100, pieceSize, false}, {2 * pieceSize, 99, false}, {2*pieceSize + 50, 50, false},
	} {
		if got := place.fits(o, c.off, content[c.off:c.off+c.n]); got != c.fits {
			t.Errorf("%d bytes at %d: %v", c.n, c.off, got)
		}
		if !clear.fits(o, c.off, content[c.off:c.off+c.n]) {
			t.Errorf("%d bytes at %d, in the clear, are not taken", c.n, c.off)
		}
	}
}

// Pieces that are not what was offered, or of another place, are never a checkpoint, and
// no reason not to start.
func TestSealedStagingDamage(t *testing.T) {
	sealed(t)
	o, content := bigOffer()
	swap := func(b []byte) {
		first := bytes.Clone(b[:sealedPiece])
		copy(b, b[sealedPiece:2*sealedPiece])
		copy(b[sealedPiece:], first)
	}
	for name, change := range map[string]func(d *memdisk.Disk, p *staging){
		"key of a piece":      func(d *memdisk.Disk, p *staging) { d.FlipBit(p.partName(), sealedPiece+3, 0) },
		"text of a piece":     func(d *memdisk.Disk, p *staging) { d.FlipBit(p.partName(), 500, 0) },
		"zeros":               func(d *memdisk.Disk, p *staging) { d.Put(p.partName(), make([]byte, len(d.Bytes(p.partName())))) },
		"pieces swapped":      func(d *memdisk.Disk, p *staging) { b := d.Bytes(p.partName()); swap(b); d.Put(p.partName(), b) },
		"key of the offer":    func(d *memdisk.Disk, p *staging) { d.FlipBit(p.offerName(), 3, 0) },
		"text of the offer":   func(d *memdisk.Disk, p *staging) { d.FlipBit(p.offerName(), 40, 0) },
		"offer in the clear":  func(d *memdisk.Disk, p *staging) { d.Put(p.offerName(), appendOffer(nil, o)) },
		"of another group":    func(d *memdisk.Disk, p *staging) { p.group++ },
		"under a key of past": func(d *memdisk.Disk, p *staging) { p.vault = ciphertest.Ring(2).Vault([16]byte{9}) },
		"no key":              func(d *memdisk.Disk, p *staging) { p.vault = nil },
	} {
		d := memdisk.New(memdisk.Options{})
		place := gather(t, d, 3, o, content)
		change(d, &place)
		if _, ok, err := place.sealed(); ok || err != nil {
			t.Errorf("%s: sealed: %v, %v", name, ok, err)
		}
		if stored, err := place.begin(o); err != nil || stored > o.Size {
			t.Errorf("%s: begin: %d, %v", name, stored, err)
		}
	}
}

// What a peer is sent is the same whether the disk is sealed or not.
func TestOfferIsInTheClear(t *testing.T) {
	o, b := sourceOfOne(t)
	sealed(t)
	so, sb := sourceOfOne(t)
	if o != so || !bytes.Equal(b, sb) {
		t.Errorf("offered are %+v, want %+v", so, o)
	}
}

// FORMAT refuses before anything is changed: without the key, with another one, and with a
// key for a directory in the clear. It says which setting is to be changed.
func TestFormatRefusesKeys(t *testing.T) {
	format := func(d *memdisk.Disk, ring *cipher.Ring) error {
		return Format(d, FormatConfig{
			Identity: superblock.Identity{Cluster: [16]byte{1}, Node: [16]byte{7}, ReplicaCount: 1}, Shards: 1, WALFileSize: 64 << 10, Ring: ring,
		})
	}
	for _, c := range []struct {
		name       string
		made, with *cipher.Ring
		want       error
		says       string
	}{
		{"no key", ciphertest.Ring(1), nil, cipher.ErrKeyMissing, "set system.encryption.enabled to true"},
		{"another key", ciphertest.Ring(1), ciphertest.Ring(2), cipher.ErrKeyUnknown, "add it to system.encryption.older_keys"},
		{"a key for what is clear", nil, ciphertest.Ring(1), cipher.ErrClear, "set system.encryption.enabled to false"},
		{"the same", ciphertest.Ring(1), ciphertest.Ring(1), nil, ""},
		{"never a key", nil, nil, nil, ""},
	} {
		d := memdisk.New(memdisk.Options{})
		if err := format(d, c.made); err != nil {
			t.Fatal(err)
		}
		before := d.Clone()
		err := format(d, c.with)
		if !errors.Is(err, c.want) || err != nil && (!strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), superblock.IdentityName)) {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := memdisk.Diff(before, d); diff != "" {
			t.Errorf("%s: the disk changed: %s", c.name, diff)
		}
	}
}

// FORMAT follows the current key, so that the older one can go when nothing is sealed under
// it any more. On a full disk the next start does it.
func TestFormatFollowsTheKey(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	format := func(fills ...byte) error {
		return Format(d, FormatConfig{Identity: superblock.Identity{Cluster: [16]byte{1}, ReplicaCount: 1}, Shards: 1, WALFileSize: 64 << 10, Ring: ciphertest.Ring(fills...)})
	}
	if err := format(1); err != nil {
		t.Fatal(err)
	}
	d.Inject(memdisk.Fault{Class: memdisk.NoSpace, Ops: memdisk.OpCreate | memdisk.OpWrite, Times: memdisk.Forever})
	if err := format(2, 1); err != nil {
		t.Fatalf("on a full disk: %v", err)
	}
	if err := format(2); !errors.Is(err, cipher.ErrKeyUnknown) {
		t.Errorf("FORMAT was not written, and opens without the key it names: %v", err)
	}
	d.ClearFaults()
	if err := format(2, 1); err != nil {
		t.Fatal(err)
	}
	d = d.PowerLoss(nil)
	if err := format(2); err != nil {
		t.Errorf("after the change: %v", err)
	}
	v, err := VaultOf(d, ciphertest.Ring(2))
	if err != nil || v == nil {
		t.Error(err)
	}
	if v, err := VaultOf(d, nil); v != nil || err != nil {
		t.Errorf("without a ring: %v, %v", v, err)
	}
}
