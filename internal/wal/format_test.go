package wal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"galgo/internal/disk/memdisk"
	"galgo/internal/vsr"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGoldenBytes pins the format: a file with a record of each kind. If it has
// to change, so has Version, and the old golden file has to stay readable.
func TestGoldenBytes(t *testing.T) { wantGolden(t, "v1.hex") }

// wantGolden writes a log with a record of each kind, whose bytes are those of a file in
// testdata, and which is recovered.
func wantGolden(t *testing.T, name string) {
	t.Helper()
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	h, p := newHistory(), newPrepares()
	must(t, h.write(l, true, p.next(1, 3), Record{Kind: KindState, Group: 1, State: []byte("state")}, p.next(1, 8)))
	must(t, h.write(l, true, Record{Kind: KindTruncate, Group: 1, Op: 1}, h.resetTo(p, 2, 9)))
	floor := *h.find(1, 1)
	must(t, l.write([]Record{{Kind: KindFloor, Group: 1, Header: &floor}, {Kind: KindForget, Group: 77}}, true))
	must(t, l.Mark())
	h.released[1] = 1
	got := hex.Dump(d.Bytes(fileNamed(1)))
	golden := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if got != string(want) {
		t.Fatalf("the format changed; if that is meant, give it a new version (-update writes %s)", golden)
	}
	if _, err := h.recoverAndCheck(d.Kill(), h.durable, nil); err != nil {
		t.Fatal(err)
	}
}

// Each field of a frame is checked although its checksum is right.
func TestParseFrame(t *testing.T) {
	good := frame{kind: KindPrepare, pad: 6, file: 3, group: 9, synced: Position{3, 4096}, at: 4160, length: 202, head: 192, prev: 5}
	parse := func(f frame) error {
		var b [frameSize]byte
		f.put(b[:])
		_, err := parseFrame(b[:], 3, 4160, 8192)
		return err
	}
	if err := parse(good); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*frame)
		want   error
	}{
		"another file":    {func(f *frame) { f.file = 2 }, errStale},
		"another offset":  {func(f *frame) { f.at += 8 }, errBounds},
		"synced ahead":    {func(f *frame) { f.synced.Offset = 4168 }, errBounds},
		"synced in later": {func(f *frame) { f.synced = Position{4, 0} }, errBounds},
		"long payload":    {func(f *frame) { f.length = payloadMax + 6 }, errBounds},
		"past the end":    {func(f *frame) { f.length += 8192 }, errBounds},
		"not aligned":     {func(f *frame) { f.pad++ }, errBounds},
		"padding":         {func(f *frame) { f.pad += padMax }, errBounds},
		"head":            {func(f *frame) { f.head = 203 }, errBounds},
	} {
		f := good
		if c.change(&f); !errors.Is(parse(f), c.want) {
			t.Errorf("%s: %v, want %v", name, parse(f), c.want)
		}
	}
}

// Also in a file that has room for anything.
func TestParseFrameOfALargeFile(t *testing.T) {
	le := binary.LittleEndian
	for name, c := range map[string]struct {
		change func(b []byte)
		want   error
	}{
		"as it was":               {func([]byte) {}, nil},
		"magic":                   {func(b []byte) { b[8]++ }, errNoFrame},
		"reserved byte":           {func(b []byte) { b[13] = 1 }, errBounds},
		"payload above the limit": {func(b []byte) { le.PutUint32(b[48:], payloadMax+8); le.PutUint16(b[14:], 0) }, errBounds},
		"head above the limit":    {func(b []byte) { le.PutUint32(b[48:], headMax+10); le.PutUint32(b[52:], headMax+1) }, errBounds},
	} {
		var b [frameSize]byte
		(&frame{kind: KindPrepare, pad: 6, file: 3, group: 9, at: 4160, length: 202, head: 192}).put(b[:])
		c.change(b[:])
		if _, err := parseFrame(b[:], 3, 4160, 1<<40); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// A frame that verifies is still looked at: what its kind has, no more and no less.
func TestPayloadFitsItsKind(t *testing.T) {
	const header = vsr.HeaderSize
	for _, f := range []frame{
		{kind: KindPrepare, length: header - 1, head: header - 1}, {kind: KindPrepare, length: header + 8, head: header + 8},
		{kind: KindPrepare, length: header - 1, head: header},
		{kind: KindReset, length: header + 1, head: header + 1}, {kind: KindReset, length: header, head: 8},
		{kind: KindFloor, length: header - 1, head: header - 1}, {kind: KindFloor, length: header, head: 0},
		{kind: KindTruncate, length: 7, head: 7}, {kind: KindTruncate, length: 8, head: 0},
		{kind: KindMark, length: 9, head: 9}, {kind: KindMark, length: 8, head: 7},
		{kind: KindState, length: StateMax + 1, head: StateMax + 1}, {kind: KindState, length: 5, head: 4},
		{kind: KindForget, length: 1, head: 1}, {kind: KindForget, length: 1},
	} {
		if err := f.checkPayload(); !errors.Is(err, errPayload) {
			t.Errorf("%v of %d bytes, %d covered: %v, want %v", f.kind, f.length, f.head, err, errPayload)
		}
	}
	for _, f := range []frame{
		{kind: KindPrepare, length: header, head: header}, {kind: KindPrepare, length: payloadMax, head: header}, {kind: KindReset, length: header, head: header},
		{kind: KindFloor, length: header, head: header}, {kind: KindTruncate, length: 8, head: 8}, {kind: KindMark, length: 8, head: 8},
		{kind: KindState}, {kind: KindState, length: StateMax, head: StateMax}, {kind: KindForget},
	} {
		if err := f.checkPayload(); err != nil {
			t.Errorf("%v of %d bytes, %d covered: %v", f.kind, f.length, f.head, err)
		}
	}
}

func FuzzParseFrame(f *testing.F) {
	var b [frameSize]byte
	(&frame{kind: KindPrepare, pad: 6, file: 3, group: 9, at: 4160, length: 202, head: 192}).put(b[:])
	f.Add(b[:])
	f.Fuzz(func(t *testing.T, b []byte) {
		fr, err := parseFrame(b, 3, 4160, 1<<40)
		if err != nil {
			return
		}
		_ = fr.checkPayload()
		var again [frameSize]byte
		fr.put(again[:])
		if !bytes.Equal(again[8:], b[8:frameSize]) {
			t.Fatalf("accepted %x, encodes to %x", b[8:frameSize], again[8:])
		}
	})
}

func FuzzDecodeFileHeader(f *testing.F) {
	var b [blockSize]byte
	(&fileHeader{cluster: testCluster, replica: 1, shard: 2, sequence: 3, size: FileSizeMin, salt: 4}).put(b[:])
	f.Add(b[:])
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeFileHeader(b)
		if err != nil {
			return
		}
		var again [blockSize]byte
		if h.put(again[:]); !bytes.Equal(again[:], b[:blockSize]) {
			t.Fatal("accepted a header that encodes to other bytes")
		}
	})
}

// A batch of prepares costs no allocation that grows with its records.
func TestWriteDoesNotAllocatePerRecord(t *testing.T) {
	p := newPrepares()
	per := func(n int) float64 {
		d := nullDisk{}
		o := testOptions()
		o.FileSize = 1 << 30
		l, _, err := Open(d, testDir, o)
		must(t, err)
		p.last = map[vsr.GroupID]vsr.Header{}
		batches := make([][]Record, 60)
		for i := range batches {
			for range n {
				batches[i] = append(batches[i], p.next(1, 64))
			}
		}
		next := 0
		return testing.AllocsPerRun(50, func() {
			must(t, l.Write(batches[next], true))
			next++
		})
	}
	if one, many := per(1), per(200); many > one+4 {
		t.Errorf("%v allocations for a batch of 200, %v for one of 1", many, one)
	}
}
