package cipher

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func key(t testing.TB, fill byte) *Key {
	t.Helper()
	k, err := NewKey(bytes.Repeat([]byte{fill}, KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The construction is XAES-256-GCM: the vectors of c2sp.org/XAES-256-GCM.
func TestVectors(t *testing.T) {
	for _, v := range []struct {
		fill         byte
		about, wants string
	}{
		{1, "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"},
		{3, "c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"},
	} {
		k, err := newMaster(bytes.Repeat([]byte{v.fill}, KeySize))
		if err != nil {
			t.Fatal(err)
		}
		nonce := [nonceSize]byte([]byte("ABCDEFGHIJKLMNOPQRSTUVWX"))
		sealed := k.sealWith(&nonce, nil, []byte("XAES-256-GCM"), []byte(v.about))
		if got := hex.EncodeToString(sealed[idSize+nonceSize:]); got != v.wants {
			t.Errorf("key of %d: %s, want %s", v.fill, got, v.wants)
		}
	}
}

// The bytes of today are the bytes of later.
func TestGolden(t *testing.T) {
	const golden = "edd3310ad6c6aec44142434445464748494a4b4c4d4e4f505152535455565758b0c68b0f57a353c7f8a84b0f16415fa18811fae08e92b6"
	k := key(t, 7)
	nonce := [nonceSize]byte([]byte("ABCDEFGHIJKLMNOPQRSTUVWX"))
	if got := hex.EncodeToString(k.sealWith(&nonce, nil, []byte("payload"), []byte("wal 3"))); got != golden {
		t.Errorf("sealed as %s, want %s", got, golden)
	}
	b, err := hex.DecodeString(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := NewRing(k).Open(nil, b, []byte("wal 3")); err != nil || string(got) != "payload" {
		t.Errorf("opened as %q, %v", got, err)
	}
}

func TestRoundTrip(t *testing.T) {
	ring := NewRing(key(t, 1))
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.SliceOfN(rapid.Byte(), 0, 4096).Draw(t, "plain")
		about := rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(t, "about")
		before := rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "before")
		sealed := ring.Seal(bytes.Clone(before), plain, about)
		if len(sealed) != len(before)+len(plain)+Overhead || !bytes.HasPrefix(sealed, before) {
			t.Fatalf("%d bytes behind %d are sealed as %d", len(plain), len(before), len(sealed))
		}
		if len(plain) >= 16 && bytes.Contains(sealed, plain) {
			t.Fatal("sealed bytes hold what was sealed")
		}
		got, err := ring.Open(bytes.Clone(before), sealed[len(before):], about)
		if err != nil || !bytes.Equal(got, append(bytes.Clone(before), plain...)) {
			t.Fatalf("opened as %d bytes, %v", len(got), err)
		}
	})
}

// Whatever bit is changed, whatever is cut, and whatever it is said to be about: it
// does not open, and gives no byte away.
func TestNothingElseOpens(t *testing.T) {
	ring := NewRing(key(t, 1))
	about := []byte("group 3, op 17")
	sealed := ring.Seal(nil, []byte("a message that nobody else may read"), about)
	for bit := range 8 * len(sealed) {
		b := bytes.Clone(sealed)
		b[bit/8] ^= 1 << (bit % 8)
		got, err := ring.Open(nil, b, about)
		want := ErrSealed
		if bit < 8*idSize {
			want = ErrKeyUnknown
		}
		if !errors.Is(err, want) || len(got) > 0 {
			t.Fatalf("bit %d: %d bytes, %v; want %v", bit, len(got), err, want)
		}
	}
	for n := range sealed {
		if got, err := ring.Open(nil, sealed[:n], about); !errors.Is(err, ErrSealed) || len(got) > 0 {
			t.Fatalf("cut at %d: %d bytes, %v", n, len(got), err)
		}
	}
	for _, elsewhere := range []string{"", "group 3, op 18", "group 3, op 17 "} {
		if _, err := ring.Open(nil, sealed, []byte(elsewhere)); !errors.Is(err, ErrSealed) {
			t.Errorf("taken for %q: %v", elsewhere, err)
		}
	}
}

// No nonce is seen twice, also when the same is sealed again and again, at the same
// time, under keys of the same bytes: what a restart or a copy of a directory does.
func TestNoncesAreNotRepeated(t *testing.T) {
	const goroutines, each = 8, 2000
	var mu sync.Mutex
	seen := map[string]bool{}
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			k := key(t, 9) // a new one, as after a restart
			for range each {
				sealed := k.Seal(nil, []byte("the same place, the same bytes"), []byte("here"))
				mu.Lock()
				seen[string(sealed[idSize:idSize+nonceSize])] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(seen) != goroutines*each {
		t.Errorf("%d nonces of %d", len(seen), goroutines*each)
	}
}

func TestParseKey(t *testing.T) {
	secret := bytes.Repeat([]byte{5}, KeySize)
	good := base64.StdEncoding.EncodeToString(secret)
	k, err := ParseKey(" " + good + "\n")
	if err != nil || k.ID() != key(t, 5).ID() {
		t.Errorf("%v", err)
	}
	for name, text := range map[string]string{
		"nothing": "", "too short": base64.StdEncoding.EncodeToString(secret[:31]), "too long": base64.StdEncoding.EncodeToString(append(secret, 1)),
		"no base64": strings.Repeat("!", 44), "hexadecimal": hex.EncodeToString(secret), "another alphabet": strings.Repeat("_", 43) + "=",
	} {
		_, err := ParseKey(text)
		if !errors.Is(err, ErrKey) {
			t.Errorf("%s: %v", name, err)
		}
		if text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%s: the error tells the text", name)
		}
	}
}

// A directory opens under the key that it was sealed under, and else is refused by a
// reason that says what to do.
func TestAdmit(t *testing.T) {
	a, b := key(t, 1), key(t, 2)
	if a.ID() == b.ID() || a.ID() == (ID{}) {
		t.Fatalf("ids %v and %v", a.ID(), b.ID())
	}
	for _, c := range []struct {
		name   string
		sealed ID
		ring   *Ring
		want   error
	}{
		{"never sealed", ID{}, nil, nil},
		{"its key", a.ID(), NewRing(a), nil},
		{"an older key", a.ID(), NewRing(b, a), nil},
		{"no key", a.ID(), nil, ErrKeyMissing},
		{"another key", a.ID(), NewRing(b), ErrKeyUnknown},
		{"a key for what is clear", ID{}, NewRing(a), ErrClear},
	} {
		if err := c.ring.Admit(c.sealed); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// What older keys have sealed opens, and new bytes are sealed under the current one.
func TestRotation(t *testing.T) {
	old, young := key(t, 1), key(t, 2)
	before := NewRing(old).Seal(nil, []byte("before"), nil)
	ring := NewRing(young, old)
	if got, err := ring.Open(nil, before, nil); err != nil || string(got) != "before" {
		t.Errorf("%q, %v", got, err)
	}
	if id, ok := IDOf(ring.Seal(nil, nil, nil)); !ok || id != young.ID() || ring.Current() != id {
		t.Errorf("sealed under %v, want %v", id, young.ID())
	}
	if (*Ring)(nil).Current() != (ID{}) {
		t.Error("a node without a key has one")
	}
	if _, err := (*Ring)(nil).Open(nil, before, nil); !errors.Is(err, ErrKeyMissing) {
		t.Errorf("opened without a key: %v", err)
	}
}

// FuzzOpen: bytes that were not sealed do not open.
func FuzzOpen(f *testing.F) {
	ring := NewRing(key(f, 1))
	f.Add(ring.Seal(nil, []byte("sealed"), []byte("about")), []byte("about"))
	f.Add([]byte{}, []byte{})
	other := NewRing(key(f, 3))
	f.Fuzz(func(t *testing.T, sealed, about []byte) {
		if got, err := other.Open(nil, sealed, about); err == nil {
			t.Errorf("%d bytes opened as %d", len(sealed), len(got))
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	ring := NewRing(key(b, 1))
	for name, size := range map[string]int{"512B": 512, "64KiB": 64 << 10, "1MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			plain, sealed := make([]byte, size), make([]byte, 0, size+Overhead)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				sealed = ring.Seal(sealed[:0], plain, nil)
			}
		})
	}
}

func TestParseRing(t *testing.T) {
	text := func(fill byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, KeySize)) }
	for _, between := range []string{",", "\n", " ,\r\n "} {
		ring, err := ParseRing(text(1) + between + text(2) + "\n")
		if err != nil || ring.Current() != key(t, 1).ID() || !ring.Holds(key(t, 2).ID()) || ring.Holds(key(t, 3).ID()) {
			t.Errorf("between %q: %v", between, err)
		}
	}
	for name, c := range map[string]string{"nothing": " \n", "second is none": text(1) + "," + text(2)[1:], "too many": strings.Repeat(text(1)+"\n", KeysMax+1)} {
		if _, err := ParseRing(c); err == nil || strings.Contains(err.Error(), text(1)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The three ways to seal make the same bytes, and each piece opens as itself only: not
// under another kind, number or owner.
func TestVault(t *testing.T) {
	fixed := NewRing(key(t, 1)).WithNonces(func(b []byte) {
		for i := range b {
			b[i] = byte(i)
		}
	})
	v := fixed.Vault([16]byte{7})
	plain := []byte("a message that nobody else may read")
	sealed := v.Seal(nil, plain, KindBatch, 3, 17)
	inPlace := append(append(make([]byte, HeadSize), plain...), make([]byte, TagSize)...)
	if v.SealInPlace(inPlace, KindBatch, 3, 17); !bytes.Equal(inPlace, sealed) {
		t.Errorf("in place:\n%x, want\n%x", inPlace, sealed)
	}
	roomy := func(b []byte) []byte { return append(bytes.Clone(b), make([]byte, TagSize)...)[:len(b)] }
	if got, err := v.OpenInPlace(inPlace, KindBatch, 3, 17); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("opened in place as %q, %v", got, err)
	}
	if _, err := v.OpenInPlace(sealed[:Overhead-1], KindBatch, 3, 17); !errors.Is(err, ErrSealed) {
		t.Errorf("cut: %v", err)
	}
	apart := roomy(plain)
	rest := v.SealApart(apart, KindBatch, 3, 17)
	if got := slices.Concat(rest[:HeadSize], apart, rest[HeadSize:]); !bytes.Equal(got, sealed) {
		t.Errorf("apart:\n%x, want\n%x", got, sealed)
	}
	text := roomy(apart)
	if err := v.OpenApart(text, &rest, KindBatch, 3, 17); err != nil || !bytes.Equal(text, plain) {
		t.Errorf("opened as %q, %v", text, err)
	}
	for name, open := range map[string]func() error{
		"another kind":   func() error { _, err := v.Open(nil, sealed, KindRecord, 3, 17); return err },
		"another number": func() error { _, err := v.Open(nil, sealed, KindBatch, 3, 18); return err },
		"fewer numbers":  func() error { _, err := v.Open(nil, sealed, KindBatch, 3); return err },
		"another owner":  func() error { _, err := fixed.Vault([16]byte{8}).Open(nil, sealed, KindBatch, 3, 17); return err },
		"apart":          func() error { return v.OpenApart(roomy(apart), &rest, KindBatch, 4, 17) },
	} {
		if err := open(); !errors.Is(err, ErrSealed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var clear *Vault
	if _, err := clear.Open(nil, sealed, KindBatch, 3, 17); !errors.Is(err, ErrKeyMissing) {
		t.Errorf("without a key: %v", err)
	}
	if err := clear.OpenApart(roomy(apart), &rest, KindBatch, 3, 17); !errors.Is(err, ErrKeyMissing) {
		t.Errorf("apart, without a key: %v", err)
	}
	if (*Ring)(nil).Vault([16]byte{7}) != nil {
		t.Error("a vault without a ring")
	}
}
