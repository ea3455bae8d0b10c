package shard

import (
	"bytes"
	"encoding/hex"
	"testing"

	"galgo/internal/vsr"
)

func aPromise() promise {
	return promise{State: vsr.State{View: 7, LogView: 5, Doubt: 300}, replaced: 0x0102, revision: 0x0304}
}

// Golden bytes: old ones must be readable for ever.
func TestPromiseGolden(t *testing.T) {
	const want = "07000000" + "05000000" + "2c01000000000000" + "0201000000000000" + "0403000000000000"
	b := aPromise().append(nil)
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("encodes to %s, want %s", got, want)
	}
	if p, err := decodePromise(b); err != nil || p != aPromise() {
		t.Errorf("decodes to %+v, %v", p, err)
	}
}

func TestPromiseRefusals(t *testing.T) {
	good := aPromise().append(nil)
	for n := range len(good) {
		if _, err := decodePromise(good[:n]); err == nil {
			t.Errorf("%d of %d bytes decode", n, len(good))
		}
	}
	if _, err := decodePromise(append(bytes.Clone(good), 0)); err == nil {
		t.Error("a byte more decodes")
	}
	good[4] = 8
	if _, err := decodePromise(good); err == nil {
		t.Error("log_view above view decodes")
	}
}

func FuzzDecodePromise(f *testing.F) {
	f.Add(aPromise().append(nil))
	f.Add(promise{State: vsr.State{Doubt: vsr.DoubtAll}}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodePromise(b)
		if err == nil && !bytes.Equal(p.append(nil), b) {
			t.Fatalf("accepted %x, encodes to %x", b, p.append(nil))
		}
	})
}
