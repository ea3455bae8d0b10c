package snapshot

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"galgo/internal/cipher"
	"galgo/internal/cipher/ciphertest"
)

// testVault seals the files of all stores while it is set: see sealed.
var testVault *cipher.Vault

func sealed(t testing.TB) {
	testVault = ciphertest.Ring(1).Vault(sixteen(9))
	t.Cleanup(func() { testVault = nil })
}

// What holds of a store holds of one that seals.
func TestSealedStore(t *testing.T) {
	sealed(t)
	for name, test := range map[string]func(*testing.T){
		"write and read": TestWriteAndRead, "power loss": TestPowerLossAtEveryCall, "kill": TestKillAtEveryCall, "lying device": TestLyingDevice,
		"each stage": TestWriteFailsAtEachStage, "prune": TestPruneCrashes,
	} {
		t.Run(name, test)
	}
}

// The bytes of a sealed file never change.
func TestSealedGolden(t *testing.T) {
	const head = "47414c474f534e50" + "02000000" + "02000000" + "101112131415161718191a1b1c1d1e1f" + "2100000000000000" + "3100000000000000" + "4100000000000000" + "eb00000000000000"
	const sum = "3adc38b38481e9f32a3a96c0bbfdcbdd"
	sections := []Section{{Kind: 1, Version: 5, Data: [][]byte{[]byte("a"), []byte("bc")}}, {Kind: 2, Version: 1}}
	c, err := build(testHeader, sections, ciphertest.Ring(1).Vault(sixteen(9)))
	must(t, err)
	b := bytes.Join(c.pieces, nil)
	if got := hex.EncodeToString(b[:64]); got != head || len(b) != headerSize+2*(sectionHead+cipher.Overhead)+3+trailerSize {
		t.Errorf("%d bytes that begin with\n%s, want\n%s", len(b), got, head)
	}
	if got := hex.EncodeToString(c.sum[:]); got != sum {
		t.Errorf("checksum %s, want %s", got, sum)
	}
}

// A sealed file verifies without a key, tells under which it is sealed, and opens with it.
func TestSealedFileNeedsItsKey(t *testing.T) {
	sealed(t)
	d := newDisk()
	h := testHeader
	_, err := newStore(t, d).Write(h.Op, h, testSections())
	must(t, err)
	for _, c := range []struct {
		name string
		with *cipher.Vault
		want error
		says string
	}{
		{"its key", ciphertest.Ring(1).Vault(sixteen(9)), nil, ""},
		{"as an older one", ciphertest.Ring(2, 1).Vault(sixteen(9)), nil, ""},
		{"none", nil, cipher.ErrKeyMissing, "system.encryption.enabled"},
		{"another", ciphertest.Ring(2).Vault(sixteen(9)), cipher.ErrKeyUnknown, "system.encryption.older_keys"},
		{"another node", ciphertest.Ring(1).Vault(sixteen(8)), cipher.ErrSealed, "restore"},
	} {
		s := NewStore(d, testDir, ExtMetadata, c.with)
		closed, err := s.ReadClosed(h.Op)
		if err != nil || closed.Key() != ciphertest.Ring(1).Current() {
			t.Errorf("%s: %v", c.name, err)
		}
		got, err := s.Read(h.Op)
		if c.want == nil {
			if err != nil || !slices.Equal(got.Sections[0].Data[0], []byte("streams")) || len(got.Sections) != len(testSections()) {
				t.Errorf("%s: %+v, %v", c.name, got, err)
			}
			continue
		}
		if _, typed := errors.AsType[*SealError](err); !typed || !errors.Is(err, c.want) || !strings.Contains(err.Error(), s.Name(h.Op)) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	clear := newDisk()
	must(t, clear.MkdirAll(testDir))
	_, err = NewStore(clear, testDir, ExtMetadata, nil).Write(h.Op, h, testSections())
	must(t, err)
	if _, err := NewStore(clear, testDir, ExtMetadata, testVault).Read(h.Op); !errors.Is(err, cipher.ErrClear) {
		t.Errorf("a key for a file in the clear: %v", err)
	}
}

// Sections are bound to their place, and the file to its op and group: none of them opens
// elsewhere, whatever the checksums say. Nothing of them can be read in the file.
func TestSealedSectionsAreBoundToTheirPlace(t *testing.T) {
	vault := ciphertest.Ring(1).Vault(sixteen(9))
	c, err := build(testHeader, testSections(), vault)
	must(t, err)
	good := bytes.Join(c.pieces, nil)
	for _, secret := range []string{"stre", "ams", "clients", "more"} {
		if bytes.Contains(good, []byte(secret)) {
			t.Errorf("the file holds %q", secret)
		}
	}
	first := headerSize
	for name, change := range map[string]func(b []byte){
		"op":      func(b []byte) { b[40]++ },
		"group":   func(b []byte) { b[32]++ },
		"kind":    func(b []byte) { b[first]++ },
		"version": func(b []byte) { b[first+4]++ },
		"a bit":   func(b []byte) { b[first+sectionHead+40] ^= 4 },
	} {
		b := bytes.Clone(good)
		change(b)
		n := binary.LittleEndian.Uint64(b[first+8:])
		binary.LittleEndian.PutUint64(b[first+16:], xxh3.Hash(b[first+sectionHead:][:n]))
		binary.LittleEndian.PutUint64(b[64:], xxh3.Hash(b[:64]))
		end := len(b) - trailerSize
		sum := xxh3.Hash128(b[:end]).Bytes()
		copy(b[end:], sum[:])
		s, err := Decode(name, b)
		must(t, err)
		if err := s.Open(vault); !errors.Is(err, cipher.ErrSealed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every bit of a sealed file is vouched for without a key.
func TestEveryBitFlipOfASealedFileIsFound(t *testing.T) {
	c, err := build(testHeader, testSections(), ciphertest.Ring(1).Vault(sixteen(9)))
	must(t, err)
	good := bytes.Join(c.pieces, nil)
	for bit := range 8 * len(good) {
		b := bytes.Clone(good)
		b[bit/8] ^= 1 << (bit % 8)
		if _, err := Decode("x", b); err == nil {
			t.Fatalf("bit %d", bit)
		}
	}
}
