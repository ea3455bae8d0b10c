package superblock

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"galgo/internal/disk/memdisk"
)

var testIdentity = Identity{
	Cluster: sixteen(0x10), Node: sixteen(0x30), Replica: 1, ReplicaCount: 3,
	CreatedAt: 0x5857565554535251, MemberSince: 0x6867666564636261,
}

func TestIdentityGolden(t *testing.T) {
	const want = "47414c474f464d54" + "0100" + "01" + "03" + "00000000" + "101112131415161718191a1b1c1d1e1f" +
		"303132333435363738393a3b3c3d3e3f" + "5152535455565758" + "6162636465666768" + "SUM"
	b := testIdentity.Append(nil)
	sum := hex.EncodeToString(binary.LittleEndian.AppendUint64(nil, xxh3.Hash(b[:64])))
	if got := hex.EncodeToString(b); got != strings.Replace(want, "SUM", sum, 1) || len(b) != IdentitySize {
		t.Fatalf("identity of %d bytes\n%s, want\n%s", len(b), got, want)
	}
}

func sealedIdentity() *Identity {
	id := testIdentity
	id.Key = [8]byte{0x71, 2, 3, 4, 5, 6, 7, 8}
	return &id
}

// A sealed directory has another version and the id of its key; one in the clear has the
// bytes that it always had.
func TestIdentityOfASealedDirectory(t *testing.T) {
	id := sealedIdentity()
	b, clear := id.Append(nil), testIdentity.Append(nil)
	want := append(with(clear[:64], 8, 2), id.Key[:]...)
	want = binary.LittleEndian.AppendUint64(want, xxh3.Hash(want))
	if !bytes.Equal(b, want) || len(b) != IdentitySizeSealed {
		t.Fatalf("%x, want %x", b, want)
	}
	d := memdisk.New(memdisk.Options{})
	must(t, WriteIdentity(d, *id))
	if got, err := ReadIdentity(d); err != nil || got != *id {
		t.Fatalf("%+v, %v", got, err)
	}
}

// The identity is replaced at a change of the key: whatever call power fails at, the file
// holds the old one or the new one.
func TestReplacedIdentityAtEveryCall(t *testing.T) {
	young := *sealedIdentity()
	young.Key[0] ^= 1
	for k := 1; ; k++ {
		made := memdisk.New(memdisk.Options{})
		must(t, WriteIdentity(made, *sealedIdentity()))
		d := memdisk.CrashAt(k, rng(uint64(k)))
		d.Put(IdentityName, made.Bytes(IdentityName))
		err := ReplaceIdentity(d, young)
		for seed := range uint64(mixtures) {
			got, readErr := ReadIdentity(d.PowerLoss(rng(seed)))
			if readErr != nil || got != young && (got != *sealedIdentity() || err == nil) {
				t.Fatalf("call %d, %v: %+v, %v", k, err, got, readErr)
			}
		}
		if err == nil {
			return
		}
	}
}

func TestIdentityErrors(t *testing.T) {
	good, sealed := testIdentity.Append(nil), sealedIdentity().Append(nil)
	resum := func(b []byte) []byte { return reseal(b) }
	for _, c := range []struct {
		name string
		in   []byte
		want error
		say  string
	}{
		{"no bytes", nil, ErrIdentityCorrupt, "0 bytes"},
		{"another file", []byte("something else entirely"), ErrIdentityCorrupt, `do not begin with "GALGOFMT"`},
		{"the magic alone", good[:8], ErrIdentityCorrupt, "8 bytes"},
		{"cut", good[:71], ErrIdentityCorrupt, "71 bytes, want 72"},
		{"longer", append(bytes.Clone(good), 0), ErrIdentityCorrupt, "73 bytes, want 72"},
		{"flipped", with(good, 20, 1), ErrIdentityCorrupt, "checksum"},
		{"reserved bytes", resum(with(good, 13, 1)), ErrIdentityCorrupt, "reserved"},
		{"version 3, checksum elsewhere", with(good, 8, 3), ErrIdentityVersion, "format version 3, this galgo knows them up to 2"},
		{"version 3, another length", with(good, 8, 3)[:20], ErrIdentityVersion, "start the version of galgo that wrote"},
		{"sealed, cut", sealed[:79], ErrIdentityCorrupt, "79 bytes, want 80"},
		{"sealed, flipped key", with(sealed, 66, 0x77), ErrIdentityCorrupt, "checksum"},
		{"sealed, without a key", resum(append(append(bytes.Clone(sealed[:64]), make([]byte, 8)...), sealed[72:]...)), ErrIdentityCorrupt, "version 2 without a key"},
	} {
		_, err := DecodeIdentity(c.in)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.say) || !strings.Contains(err.Error(), IdentityName) {
			t.Errorf("%s: %v, want %v saying %q and the file", c.name, err, c.want, c.say)
		}
		d := memdisk.New(memdisk.Options{})
		d.Put(IdentityName, c.in)
		before := d.Clone()
		if _, err := ReadIdentity(d); !errors.Is(err, c.want) {
			t.Errorf("%s, from a file: %v, want %v", c.name, err, c.want)
		}
		wantErr(t, "write over "+c.name, WriteIdentity(d, testIdentity), ErrIdentityExists)
		if diff := memdisk.Diff(before, d); diff != "" {
			t.Errorf("%s: the refusal changed %s", c.name, diff)
		}
	}
}

func TestIdentityAbsent(t *testing.T) {
	_, err := ReadIdentity(memdisk.New(memdisk.Options{}))
	wantErr(t, "read", err, ErrIdentityAbsent)
}

func TestIdentityDiskErrors(t *testing.T) {
	for _, op := range []memdisk.Op{memdisk.OpOpen, memdisk.OpRead, memdisk.OpSyncDir} {
		d := memdisk.New(memdisk.Options{})
		must(t, WriteIdentity(d, testIdentity))
		d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: op})
		_, err := ReadIdentity(d)
		wantErr(t, "read with a failing "+op.String(), err, memdisk.ErrIO)
	}
	d := memdisk.New(memdisk.Options{})
	d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpOpen})
	wantErr(t, "write", WriteIdentity(d, testIdentity), memdisk.ErrIO)
}

func TestIdentityCheck(t *testing.T) {
	id := testIdentity
	if err := id.Check(id.Cluster, 1, 3); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err  error
		want IdentityForeignError
	}{
		{id.Check(sixteen(0), 1, 3), IdentityForeignError{"cluster", "000102030405060708090a0b0c0d0e0f", "101112131415161718191a1b1c1d1e1f"}},
		{id.Check(id.Cluster, 2, 3), IdentityForeignError{"replica", "2", "1"}},
		{id.Check(id.Cluster, 1, 5), IdentityForeignError{"replica count", "5", "3"}},
	} {
		got, ok := errors.AsType[*IdentityForeignError](c.err)
		if !ok || *got != c.want || !errors.Is(c.err, ErrIdentityForeign) {
			t.Errorf("%v, want %v", c.err, &c.want)
		}
	}
}

func FuzzDecodeIdentity(f *testing.F) {
	f.Add(testIdentity.Append(nil))
	f.Add(sealedIdentity().Append(nil))
	f.Add([]byte(identityMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, err := DecodeIdentity(b)
		if err == nil && !bytes.Equal(id.Append(nil), b) {
			t.Fatalf("%x encodes to %x", b, id.Append(nil))
		}
	})
}
