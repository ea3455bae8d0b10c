package shard

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"galgo/internal/snapshot"
	"galgo/internal/vsr"
)

func row(id vsr.GroupID, op vsr.Op, blob string) tableRow {
	p := vsr.Prepare{Header: vsr.Header{Group: id, Incarnation: 5, Op: op}}
	p.Seal()
	return tableRow{id: id, incarnation: 5, groupCheckpoint: groupCheckpoint{head: p.Header, blob: []byte(blob)}}
}

func TestTableRoundTrip(t *testing.T) {
	rows := []tableRow{row(1, 7, "one"), row(3, 1, ""), row(1<<40, 9, "big")}
	b := appendTable(nil, rows)
	got, err := decodeTable(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(rows) || got[2].id != 1<<40 || string(got[0].blob) != "one" || got[1].head != rows[1].head {
		t.Errorf("decoded %+v", got)
	}
	if again := appendTable(nil, got); !bytes.Equal(again, b) {
		t.Error("decoded and encoded again, the table has other bytes")
	}
}

func TestTableRefusals(t *testing.T) {
	good := appendTable(nil, []tableRow{row(1, 7, "one"), row(3, 1, "three")})
	for n := range good {
		if _, err := decodeTable(good[:n]); !errors.Is(err, snapshot.ErrMalformed) {
			t.Fatalf("%d of %d bytes: %v", n, len(good), err)
		}
	}
	disordered := appendTable(nil, []tableRow{row(3, 1, ""), row(1, 1, "")})
	twice := appendTable(nil, []tableRow{row(3, 1, ""), row(3, 1, "")})
	foreign := appendTable(nil, []tableRow{row(3, 1, "")})
	foreign[4] = 9
	flipped := appendTable(nil, []tableRow{row(3, 1, "")})
	flipped[4+16+130] ^= 1 // in the header of the row
	for name, b := range map[string][]byte{
		"header with a flipped bit": flipped, "bytes behind": append(bytes.Clone(good), 0), "out of order": disordered, "a group twice": twice, "header of another group": foreign,
	} {
		if _, err := decodeTable(b); !errors.Is(err, snapshot.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := decodeTable(flipped); !errors.Is(err, vsr.ErrHeaderChecksum) {
		t.Errorf("header with a flipped bit: %v, want %v", err, vsr.ErrHeaderChecksum)
	}
}

func TestPairingGolden(t *testing.T) {
	p := pairing{number: 3, sum: snapshot.Sum{1, 2, 3}}
	const want = "0300000000000000" + "01020300000000000000000000000000"
	if got := hex.EncodeToString(p.append(nil)); got != want {
		t.Errorf("encodes to %s, want %s", got, want)
	}
	for _, n := range []int{0, pairingSize - 1, pairingSize + 1} {
		if _, err := decodePairing(make([]byte, n)); err == nil {
			t.Errorf("a pairing of %d bytes decodes", n)
		}
	}
}

func FuzzDecodeTable(f *testing.F) {
	f.Add(appendTable(nil, []tableRow{row(1, 7, "one"), row(3, 1, "three")}))
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		rows, err := decodeTable(b)
		if err == nil && !bytes.Equal(appendTable(nil, rows), b) {
			t.Fatalf("accepted %x, encodes to %x", b, appendTable(nil, rows))
		}
	})
}
