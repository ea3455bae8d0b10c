package superblock

import (
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"testing"

	"galgo/internal/disk/memdisk"
)

func TestLifeGolden(t *testing.T) {
	const want = "47414c474f4c494601000100000000000807060504030201"
	b := Life{0x0102030405060708, true}.Append(nil)
	if got := hex.EncodeToString(b[:24]); got != want || len(b) != LifeSize {
		t.Errorf("got %s, %d bytes", got, len(b))
	}
	if l, err := DecodeLife(b); err != nil || l != (Life{0x0102030405060708, true}) {
		t.Errorf("got %+v, %v", l, err)
	}
	for i := range b {
		bad := append([]byte(nil), b...)
		bad[i] ^= 0x40
		if _, err := DecodeLife(bad); !errors.Is(err, ErrLifeCorrupt) {
			t.Errorf("byte %d flipped: %v", i, err)
		}
	}
	if _, err := DecodeLife(append(b, 0)); !errors.Is(err, ErrLifeCorrupt) {
		t.Errorf("a longer file: %v", err)
	}
}

// The number survives a loss of power as soon as it was written.
func TestLifeIsDurable(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	if _, there, err := ReadLife(d); there || err != nil {
		t.Errorf("an empty disk: %v, %v", there, err)
	}
	for n := range uint64(3) {
		if err := WriteLife(d, Life{Number: n}); err != nil {
			t.Fatal(err)
		}
		d = d.PowerLoss(rand.New(rand.NewPCG(n, 0)))
		if l, there, err := ReadLife(d); l.Number != n || !there || err != nil {
			t.Errorf("life %d: %+v, %v, %v", n, l, there, err)
		}
	}
}
