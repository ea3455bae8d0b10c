package shard

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	"galgo/internal/disk/memdisk"
	"galgo/internal/vsr"
)

func anOffer(content []byte) vsr.Offer {
	o := vsr.Offer{Op: 9, Identity: vsr.Identity{1, 2}, Timestamp: 1000, Size: uint64(len(content))}
	o.Sum, _ = sumOf(bytes.NewReader(content), o.Size)
	return o
}

// Golden bytes: what one version has begun to gather the next may finish.
func TestOfferGolden(t *testing.T) {
	o := vsr.Offer{Op: 9, Identity: vsr.Identity{1, 2}, Timestamp: 1000, Sum: [16]byte{3, 4}, Size: 5}
	const want = "47504f4646455231" + "0900000000000000" + "01020000000000000000000000000000" + "e803000000000000" +
		"03040000000000000000000000000000" + "0500000000000000" + "b57c6d8033db43f6"
	b := appendOffer(nil, o)
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("encodes to %s, want %s", got, want)
	}
	if got, ok := decodeOffer(b); !ok || got != o {
		t.Errorf("decodes to %+v, %v", got, ok)
	}
}

func TestOfferRefusals(t *testing.T) {
	good := appendOffer(nil, anOffer([]byte("content")))
	for n := range len(good) {
		if _, ok := decodeOffer(good[:n]); ok {
			t.Errorf("%d of %d bytes decode", n, len(good))
		}
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[n] ^= 1 << bit
			if _, ok := decodeOffer(bad); ok {
				t.Errorf("byte %d with bit %d flipped decodes", n, bit)
			}
		}
	}
	if _, ok := decodeOffer(append(good, 0)); ok {
		t.Error("a byte more decodes")
	}
}

func FuzzDecodeOffer(f *testing.F) {
	f.Add(appendOffer(nil, anOffer([]byte("content"))))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, ok := decodeOffer(b)
		if ok && !bytes.Equal(appendOffer(nil, o), b) {
			t.Fatalf("accepted %x, encodes to %x", b, appendOffer(nil, o))
		}
	})
}

// What was gathered of an offer serves the next attempt at the same one, and no other.
func TestStagingResumes(t *testing.T) {
	content := []byte("0123456789")
	o := anOffer(content)
	place := stagingOf(memdisk.New(memdisk.Options{}), "transfer", 3, testVault)
	begin := func(o vsr.Offer, want uint64) {
		t.Helper()
		if stored, err := place.begin(o); err != nil || stored != want {
			t.Fatalf("%d bytes are there, %v, want %d", stored, err, want)
		}
	}
	begin(o, 0)
	if err := place.write(o, 0, content[:4]); err != nil {
		t.Fatal(err)
	}
	begin(o, 4)
	if err := place.seal(o); !errors.Is(err, errStaged) {
		t.Errorf("a part is taken for the whole: %v", err)
	}
	if err := errors.Join(place.write(o, 4, content[4:]), place.seal(o)); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := place.sealed(); got != o || !ok || err != nil {
		t.Errorf("sealed is %+v, %v, %v", got, ok, err)
	}
	begin(o, 10)
	other := o
	other.Op++
	begin(other, 0)
	if _, ok, err := place.sealed(); ok || err != nil {
		t.Errorf("an offer without bytes is sealed: %v", err)
	}
}

// Files in the staging place that are not what was offered are never a checkpoint.
func TestStagingDamage(t *testing.T) {
	content := []byte("0123456789")
	o := anOffer(content)
	for name, damage := range map[string]func(d *memdisk.Disk, place staging){
		"part with a flipped bit":  func(d *memdisk.Disk, p staging) { d.FlipBit(p.partName(), 5, 0) },
		"part cut short":           func(d *memdisk.Disk, p staging) { d.Put(p.partName(), content[:9]) },
		"part too long":            func(d *memdisk.Disk, p staging) { d.Put(p.partName(), append(bytes.Clone(content), 'x')) },
		"no part":                  func(d *memdisk.Disk, p staging) { _ = d.Remove(p.partName()) },
		"offer with a flipped bit": func(d *memdisk.Disk, p staging) { d.FlipBit(p.offerName(), 12, 3) },
		"offer cut short":          func(d *memdisk.Disk, p staging) { d.Put(p.offerName(), appendOffer(nil, o)[:71]) },
		"offer too long":           func(d *memdisk.Disk, p staging) { d.Put(p.offerName(), append(appendOffer(nil, o), 0)) },
		"offer of a larger size": func(d *memdisk.Disk, p staging) {
			huge := o
			huge.Size = 1 << 63
			d.Put(p.offerName(), appendOffer(nil, huge))
		},
		"no offer": func(d *memdisk.Disk, p staging) { _ = d.Remove(p.offerName()) },
	} {
		t.Run(name, func(t *testing.T) {
			d := memdisk.New(memdisk.Options{})
			place := gather(t, d, 3, o, content)
			damage(d, place)
			if _, ok, err := place.sealed(); ok || err != nil {
				t.Errorf("sealed: %v, %v", ok, err)
			}
			stored, err := place.begin(o)
			if err != nil {
				t.Fatal(err)
			}
			if err := place.write(o, stored, content[stored:]); err != nil {
				t.Fatal(err)
			}
			if err := place.seal(o); err != nil && !errors.Is(err, errStaged) {
				t.Error(err)
			}
		})
	}
}

func TestPartsReadAcrossTheirBorders(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	d.Put("a", []byte("bcdXX"))
	d.Put("b", nil)
	d.Put("c", []byte("ef"))
	p := parts{{bytes: []byte("a"), size: 1}, {name: "a", size: 3}, {name: "b"}, {name: "c", size: 2}}
	r := p.open(d)
	defer r.Close()
	const whole = "abcdef"
	if p.size() != uint64(len(whole)) {
		t.Fatalf("size %d", p.size())
	}
	for from := range len(whole) + 1 {
		for n := range len(whole) + 3 {
			b := make([]byte, n)
			got, err := r.ReadAt(b, int64(from))
			want := whole[from:min(len(whole), from+n)]
			if string(b[:got]) != want || (err != nil) != (got < n) || err != nil && !errors.Is(err, io.EOF) {
				t.Errorf("%d bytes at %d: %q, %v", n, from, b[:got], err)
			}
		}
	}
	d.Put("c", []byte("e"))
	if _, err := r.ReadAt(make([]byte, 6), 0); err == nil || !strings.Contains(err.Error(), "c: ") {
		t.Errorf("a file that is too short: %v", err)
	}
}
