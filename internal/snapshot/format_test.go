package snapshot

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"
)

func sixteen(first byte) (b [16]byte) {
	for i := range b {
		b[i] = first + byte(i)
	}
	return b
}

var testHeader = Header{Cluster: sixteen(0x10), Group: 0x21, Op: 0x31, CreatedAt: 0x41}

// testSections has an empty section, one in pieces, and two of a kind.
func testSections() []Section {
	return []Section{
		{Kind: 1, Version: 1, Data: [][]byte{[]byte("stre"), nil, []byte("ams")}},
		{Kind: 2, Version: 7},
		{Kind: 3, Version: 1, Data: [][]byte{[]byte("clients")}},
		{Kind: 3, Version: 2, Data: [][]byte{[]byte("more")}},
	}
}

func encode(t testing.TB, h Header, sections []Section) []byte {
	t.Helper()
	b, err := Encode(h, sections)
	must(t, err)
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The bytes of a file never change: old directories must open.
func TestGolden(t *testing.T) {
	const (
		head     = "47414c474f534e50" + "01000000" + "02000000" + "101112131415161718191a1b1c1d1e1f" + "2100000000000000" + "3100000000000000" + "4100000000000000" + "8b00000000000000" + "0d7c7f9719f8252b"
		sectionA = "01000000" + "05000000" + "0300000000000000" + "50392f89945faf78" + "616263"
		sectionB = "02000000" + "01000000" + "0000000000000000" + "c294d3380580062d"
		trailer  = "9c5cf09b66376a2bb69bddb0d9ce4044"
	)
	want := head + sectionA + sectionB + trailer
	b := encode(t, testHeader, []Section{{Kind: 1, Version: 5, Data: [][]byte{[]byte("a"), []byte("bc")}}, {Kind: 2, Version: 1}})
	if got := hex.EncodeToString(b); got != want {
		t.Fatalf("file\n%s, want\n%s", got, want)
	}
	s, err := Decode("f", b)
	must(t, err)
	if got := hex.EncodeToString(s.Sum[:]); got != trailer {
		t.Fatalf("checkpoint checksum %s, want the trailer %s", got, trailer)
	}
}

// storage.md §10.4: decode and encode give equal bytes and an equal checksum,
// and other content another one.
func TestRoundTrip(t *testing.T) {
	b := encode(t, testHeader, testSections())
	s, err := Decode("f", b)
	must(t, err)
	if s.Header != testHeader || s.Name != "f" || len(s.Sections) != 4 {
		t.Fatalf("decoded %+v with %d sections", s.Header, len(s.Sections))
	}
	for i, want := range []string{"streams", "", "clients", "more"} {
		if got := string(s.Sections[i].Data[0]); got != want || len(s.Sections[i].Data) != 1 {
			t.Errorf("section %d is %q, want %q", i, got, want)
		}
	}
	if got := encode(t, s.Header, s.Sections); !bytes.Equal(got, b) {
		t.Fatal("what was decoded encodes to other bytes")
	}
	sums := map[Sum]string{s.Sum: "the same"}
	for what, change := range map[string]func(h *Header, s []Section){
		"cluster":    func(h *Header, _ []Section) { h.Cluster[3]++ },
		"group":      func(h *Header, _ []Section) { h.Group++ },
		"op":         func(h *Header, _ []Section) { h.Op++ },
		"created at": func(h *Header, _ []Section) { h.CreatedAt++ },
		"a section":  func(_ *Header, s []Section) { s[0].Data = [][]byte{[]byte("Streams")} },
		"a kind":     func(_ *Header, s []Section) { s[1].Kind++ },
		"a version":  func(_ *Header, s []Section) { s[1].Version++ },
		"order":      func(_ *Header, s []Section) { s[0], s[1] = s[1], s[0] },
		"section borders": func(_ *Header, s []Section) {
			s[2].Data, s[3].Data = [][]byte{[]byte("client")}, [][]byte{[]byte("smore")}
		},
	} {
		h, sections := testHeader, testSections()
		change(&h, sections)
		other, err := Decode("f", encode(t, h, sections))
		must(t, err)
		if same, ok := sums[other.Sum]; ok {
			t.Errorf("another %s gives the checksum of %s", what, same)
		}
		sums[other.Sum] = what
	}
}

// How the data is cut into pieces does not show.
func TestPiecesDoNotShow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data")
		cut := rapid.IntRange(0, len(data)).Draw(t, "cut")
		whole, err1 := Encode(testHeader, []Section{{Kind: 1, Data: [][]byte{data}}})
		pieces, err2 := Encode(testHeader, []Section{{Kind: 1, Data: [][]byte{data[:cut], nil, data[cut:]}}})
		if err1 != nil || err2 != nil || !bytes.Equal(whole, pieces) {
			t.Fatalf("cut at %d of %d: other bytes (%v, %v)", cut, len(data), err1, err2)
		}
	})
}

func with(b []byte, at int, v ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[at:], v)
	return b
}

// reseal puts right checksums on header and trailer of a file that was changed.
func reseal(b []byte) []byte {
	b = bytes.Clone(b)
	binary.LittleEndian.PutUint64(b[64:], xxh3.Hash(b[:64]))
	sum := xxh3.Hash128(b[:len(b)-16]).Bytes()
	copy(b[len(b)-16:], sum[:])
	return b
}

func TestDecodeErrors(t *testing.T) {
	good := encode(t, testHeader, testSections())
	n := len(good)
	le := binary.LittleEndian
	for _, c := range []struct {
		name string
		in   []byte
		want error
		say  string
	}{
		{"no bytes", nil, ErrTruncated, "0 bytes of 88"},
		{"half a magic", good[:4], ErrTruncated, "4 bytes of 88"},
		{"no version", good[:11], ErrTruncated, "11 bytes of 88"},
		{"half a header", good[:71], ErrTruncated, "71 bytes of 88"},
		{"no trailer", good[:87], ErrTruncated, "87 bytes of 88"},
		{"a byte short", good[:n-1], ErrTruncated, fmt.Sprintf("%d bytes of %d", n-1, n)},
		{"another file", []byte("something else"), ErrNotASnapshot, "736f6d657468696e"},
		{"zeros", make([]byte, n), ErrNotASnapshot, "0000000000000000"},
		{"a newer version of another shape", append(with(good[:12], 8, 9), "???"...), ErrVersion, "container has format version 9, this galgo reads 2; start the version"},
		{"version 0", with(good, 8, 0), ErrVersion, "format version 0"},
		{"version 257", with(good, 9, 1), ErrVersion, "format version 257"},
		{"a flipped op", with(good, 40, 0x30), ErrChecksum, "header has checksum"},
		{"a flipped section kind", with(good, headerSize, 9), ErrChecksum, "file has checksum"},
		{"a flipped section", with(good, headerSize+sectionHead, 'S'), ErrChecksum, "section 0 (kind 1) has checksum"},
		{"a flipped last section", with(good, n-17, 'M'), ErrChecksum, "section 3 (kind 3) has checksum"},
		{"a flipped trailer", with(good, n-1, good[n-1]^1), ErrChecksum, "file has checksum"},
		{"a byte too many", append(bytes.Clone(good), 0), ErrMalformed, "1 bytes after the end"},
		{"too many sections", reseal(with(good, 12, le.AppendUint32(nil, SectionsMax+1)...)), ErrLimit, "1025 sections of at most 1024"},
		{"a size above the limit", reseal(with(good, 56, le.AppendUint64(nil, 1<<63)...)), ErrLimit, "9223372036854775808 bytes of at most"},
		{"a section fewer than there are", reseal(with(good, 12, 3)), ErrMalformed, "28 bytes between the last section and the trailer"},
		{"a section more than there are", reseal(with(good, 12, 5)), ErrMalformed, "section 4 at byte"},
		{"a section that passes the end", reseal(with(good, headerSize+15, 0xff)), ErrMalformed, "section 0 at byte 72 passes the end"},
		{"a section sum that was never right", reseal(with(good, headerSize+16, 0xff)), ErrChecksum, "section 0 (kind 1) has checksum"},
	} {
		s, err := Decode("dir/file.snap", c.in)
		if s != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.say) || !strings.Contains(err.Error(), "dir/file.snap") {
			t.Errorf("%s: %v, want %v saying %q and the file", c.name, err, c.want, c.say)
		}
	}
}

// Every single bit of a file is covered.
func TestEveryBitFlipIsFound(t *testing.T) {
	good := encode(t, testHeader, testSections())
	for bit := range len(good) * 8 {
		if _, err := Decode("f", with(good, bit/8, good[bit/8]^1<<(bit%8))); err == nil {
			t.Errorf("a file with bit %d of byte %d flipped decodes", bit%8, bit/8)
		}
	}
}

func TestEveryCutIsTruncated(t *testing.T) {
	good := encode(t, testHeader, testSections())
	for n := range len(good) {
		if _, err := Decode("f", good[:n]); !errors.Is(err, ErrTruncated) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
}

func TestEncodeLimits(t *testing.T) {
	if _, err := Encode(testHeader, make([]Section, SectionsMax)); err != nil {
		t.Errorf("%d sections: %v", SectionsMax, err)
	}
	if _, err := Encode(testHeader, make([]Section, SectionsMax+1)); !errors.Is(err, ErrLimit) {
		t.Errorf("%d sections: %v", SectionsMax+1, err)
	}
	mib := make([]byte, 1<<20)
	big := Section{Kind: 1, Data: make([][]byte, 1024)}
	for i := range big.Data {
		big.Data[i] = mib // the same memory again and again: build does not copy
	}
	if _, err := build(testHeader, []Section{big}, nil); !errors.Is(err, ErrLimit) {
		t.Errorf("sections of 1 GiB: %v", err)
	}
}

func TestSectionLookup(t *testing.T) {
	s, err := Decode("f", encode(t, testHeader, testSections()))
	must(t, err)
	if b, err := s.Section(3, 1); string(b) != "clients" || err != nil {
		t.Fatalf("section of kind 3: %q, %v", b, err)
	}
	_, err = s.Section(2, 6)
	v, ok := errors.AsType[*VersionError](err)
	if !ok || *v != (VersionError{Name: "f", Part: "section 1 (kind 2)", Found: 7, Expected: 6}) {
		t.Fatalf("section of another version: %v", err)
	}
	if _, err = s.Section(9, 1); !errors.Is(err, ErrNoSection) || !strings.Contains(err.Error(), "f: kind 9") {
		t.Fatalf("missing section: %v", err)
	}
}

func TestCheckOwner(t *testing.T) {
	s, err := Decode("f", encode(t, testHeader, nil))
	must(t, err)
	must(t, s.CheckOwner(testHeader.Cluster, testHeader.Group))
	for _, c := range []struct {
		err  error
		want string
	}{
		{s.CheckOwner(sixteen(0), testHeader.Group), "f: cluster is 101112131415161718191a1b1c1d1e1f, want 000102030405060708090a0b0c0d0e0f"},
		{s.CheckOwner(testHeader.Cluster, 5), "f: group is 33, want 5"},
	} {
		if !errors.Is(c.err, ErrForeign) || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v, want %q", c.err, c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	good := encode(f, testHeader, testSections())
	f.Add(good)
	f.Add(encode(f, Header{}, nil))
	f.Add(reseal(with(good, 12, 5)))
	f.Fuzz(func(t *testing.T, b []byte) {
		// As found, and with checksums that let the structure be reached.
		tryDecode(t, b)
		if len(b) >= sizeMin {
			tryDecode(t, reseal(b))
		}
	})
}

func tryDecode(t *testing.T, b []byte) {
	s, err := Decode("f", b)
	if err != nil {
		return
	}
	if got := encode(t, s.Header, s.Sections); !bytes.Equal(got, b) {
		t.Fatalf("%x encodes to %x", b, got)
	}
}
