package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
	"galgo/internal/vsr"
)

func fileNamed(sequence uint64) string { return fmt.Sprintf("%s/%020d.wal", testDir, sequence) }

// damaged returns a copy of d with a file changed.
func damaged(d *memdisk.Disk, name string, change func([]byte)) *memdisk.Disk {
	c := d.Clone()
	b := c.Bytes(name)
	change(b)
	c.Put(name, b)
	return c
}

// refused opens a damaged log, which must be refused and not changed.
func refused(t *testing.T, what string, d *memdisk.Disk, kind error) *Error {
	t.Helper()
	before := d.Clone()
	_, _, err := Open(d, testDir, testOptions())
	if !errors.Is(err, kind) {
		t.Errorf("%s: open: %v, want %v", what, err, kind)
		return &Error{}
	}
	if diff := memdisk.Diff(before, d); diff != "" {
		t.Errorf("%s: the refusal changed the disk: %s", what, diff)
	}
	e, ok := errors.AsType[*Error](err)
	if !ok || e.File == "" || e.Next == "" || e.Reason == "" {
		t.Errorf("%s: %#v lacks file, reason or next step", what, err)
		return &Error{}
	}
	return e
}

// recycledLog is a log whose current file holds records of a former life behind
// its end. All that was written is witnessed by a mark.
func recycledLog(t *testing.T) (*memdisk.Disk, *Log, *history, *prepares) {
	t.Helper()
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	h, p := newHistory(), newPrepares()
	for l.Stats().Files < 3 {
		must(t, h.write(l, true, p.next(1, 60), p.next(2, 70)))
	}
	op1, _ := l.Last(1)
	op2, _ := l.Last(2)
	h.release(l, 1, op1)
	h.release(l, 2, op2)
	must(t, l.Reclaim())
	for l.Stats().Files == 1 {
		must(t, h.write(l, true, p.next(1, 60)))
	}
	must(t, l.Mark())
	behind := d.Bytes(l.cur.name)[l.end:]
	if l.end > blockSize+2*disk.Sector || bytes.Count(behind, []byte("grwl")) < 5 {
		t.Fatalf("the current file ends at %d, %d old records behind", l.end, bytes.Count(behind, []byte("grwl")))
	}
	return d, l, h, p
}

// PF-storage-18, W-05, W-06, W-07, W-20, W-22, W-23: a batch that was not
// acknowledged, torn at each sector, with a hole at each sector, and in random
// mixtures of new bytes, old ones and zeros.
func TestTornTail(t *testing.T) {
	d, l, h, p := recycledLog(t)
	old := d.Clone()
	batch := []Record{p.next(1, 500), p.next(2, 5), p.next(1, 600)}
	batch = append(batch, Record{Kind: KindTruncate, Group: 1, Op: p.last[1].Op - 1}, p.next(2, 100))
	durable := h.durable
	from := l.end
	must(t, h.write(l, true, batch...))
	name, to := l.cur.name, l.end
	after := d.Bytes(name)
	sectors := int((to - from) / disk.Sector)
	if sectors < 5 {
		t.Fatalf("the batch has only %d sectors", sectors)
	}
	const keepNew, zero = 1, 2 // 0 keeps what was there
	try := func(what string, state func(i int) int) {
		t.Helper()
		torn := damaged(old, name, func(b []byte) {
			for i := range sectors {
				part := b[from+int64(i)*disk.Sector:][:disk.Sector]
				switch state(i) {
				case keepNew:
					copy(part, after[from+int64(i)*disk.Sector:])
				case zero:
					clear(part)
				}
			}
		})
		if _, err := h.recoverAndCheck(torn, durable, rand.New(rand.NewPCG(1, 1))); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for i := range sectors + 1 {
		try(fmt.Sprintf("torn at sector %d", i), func(j int) int { return b2i(j < i) })
		try(fmt.Sprintf("zeros from sector %d", i), func(j int) int { return 2 - b2i(j < i) })
		try(fmt.Sprintf("hole of zeros at sector %d", i), func(j int) int { return 1 + b2i(j == i) })
		try(fmt.Sprintf("hole of old bytes at sector %d", i), func(j int) int { return 1 - b2i(j == i) })
		try(fmt.Sprintf("only sector %d", i), func(j int) int { return b2i(j == i) })
	}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		try(fmt.Sprintf("mixture %d", seed), func(int) int { return rng.IntN(3) })
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// What is behind a cut never comes back, even when exactly the record that was
// missing is written again, byte for byte.
func TestCutIsNeverUndone(t *testing.T) {
	d, l, h, p := recycledLog(t)
	old := d.Clone()
	durable := h.durable
	from := l.end
	a, b := p.next(1, 300), p.next(2, 300)
	must(t, h.write(l, true, a, b))
	name := l.cur.name
	whole := d.Bytes(name)
	torn := damaged(old, name, func(f []byte) { copy(f[from+disk.Sector:], whole[from+disk.Sector:l.end]) })
	h.recs, h.written, h.durable = h.recs[:durable], durable, durable

	l, rec := mustOpen(t, torn)
	if rec.Cut == nil || rec.Cut.Frames == 0 || rec.Cut.Bytes <= 0 || rec.Cut.At.Offset != from {
		t.Fatalf("cut %+v, want one at %d with a readable record behind", rec.Cut, from)
	}
	must(t, h.write(l, true, a))
	l, rec = mustOpen(t, torn.PowerLoss(nil))
	if n, err := h.check(l, rec, h.durable); err != nil || n != h.durable {
		t.Fatalf("%d records of %d, %v", n, h.durable, err)
	}
	if op, _ := l.Last(2); op != b.Header.Op-1 {
		t.Fatalf("group 2 is at op %d: op %d was cut and is back", op, b.Header.Op)
	}
}

// W-08, W-09, W-21, W-24, PF-recovery-18: each bit of a log that is witnessed,
// flipped. The log is refused, or nothing is lost.
func TestEveryBitFlip(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	h, p := newHistory(), newPrepares()
	must(t, h.write(l, true, p.next(1, 10), p.next(2, 20), Record{Kind: KindState, Group: 1, State: []byte("state")}))
	p.rewind(*h.find(2, 1))
	must(t, h.write(l, true, p.next(1, 1), Record{Kind: KindTruncate, Group: 2, Op: 1}, p.next(2, 2)))
	must(t, h.write(l, true, h.resetTo(p, 3, 9), p.next(3, 3)))
	end := l.end
	must(t, l.Close())
	name, harmless := fileNamed(1), 0
	for at := int64(0); at < end; at++ {
		for bit := range uint(8) {
			if at < blockSize && bit != uint(at%8) {
				continue // one checksum covers the block
			}
			c := d.Clone()
			c.FlipBit(name, at, bit)
			before := c.Clone()
			l, rec, err := Open(c, testDir, testOptions())
			if err == nil {
				harmless++
				if n, err := h.check(l, rec, h.durable); err != nil || n != h.durable {
					t.Fatalf("bit %d of byte %d: silently changed: %v", bit, at, err)
				}
				continue
			}
			e, ok := errors.AsType[*Error](err)
			if !ok || e.File != name {
				t.Fatalf("bit %d of byte %d: %v, want an *Error naming %s", bit, at, err, name)
			}
			if at >= blockSize && (e.Offset > at || !errors.Is(err, ErrDamaged)) {
				t.Fatalf("bit %d of byte %d: %v, want damage at or before it", bit, at, err)
			}
			if diff := memdisk.Diff(before, c); diff != "" {
				t.Fatalf("bit %d of byte %d: the refusal changed the disk: %s", bit, at, diff)
			}
		}
	}
	if limit := int((end-blockSize)*8) / 2; harmless > limit {
		t.Errorf("%d flips were harmless, more than the padding explains (%d)", harmless, limit)
	}
}

// Reads verify what they return each time.
func TestReadFindsDamage(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	r := p.next(1, 40)
	must(t, l.Write([]Record{r, p.next(1, 40)}, true))
	size := frameSize + vsr.HeaderSize + 40
	for at := int64(blockSize); at < blockSize+int64(size); at++ {
		d.FlipBit(fileNamed(1), at, uint(at)%8)
		_, err := l.Read(1, 1)
		e, ok := errors.AsType[*Error](err)
		if !ok || !errors.Is(err, ErrDamaged) || e.Group != 1 || e.Op != 1 || e.Offset != blockSize || e.File != fileNamed(1) {
			t.Fatalf("byte %d flipped: %v, want damage of group 1 op 1 at %d", at, err, blockSize)
		}
		_, err = l.Header(1, 1)
		if inBody := at >= blockSize+frameSize+vsr.HeaderSize; (err == nil) != inBody {
			t.Fatalf("byte %d flipped: header: %v", at, err)
		}
		d.FlipBit(fileNamed(1), at, uint(at)%8)
	}
	got, err := l.Read(1, 1)
	if err != nil || got.Header != *r.Header {
		t.Fatalf("after all was flipped back: %v", err)
	}
}

// A write that the device lost, or put elsewhere, is found once a later record
// witnesses it.
func TestLostAndMisdirectedWrites(t *testing.T) {
	for _, f := range []memdisk.Fault{
		{Class: memdisk.LostWrite},
		{Class: memdisk.MisdirectedWrite, ToOffset: blockSize},
		{Class: memdisk.MisdirectedWrite, ToOffset: FileSizeMin - 1024},
		{Class: memdisk.MisdirectedWrite, To: fileNamed(2), ToOffset: blockSize},
	} {
		d := memdisk.New(memdisk.Options{})
		l, _ := mustOpen(t, d)
		p := newPrepares()
		must(t, l.EnsureSpare(l.o.FilesSpare))
		must(t, l.Write([]Record{p.next(1, 100)}, true))
		at := l.end
		d.Inject(f)
		must(t, l.Write([]Record{p.next(1, 100)}, true))
		must(t, l.Mark())
		e := refused(t, fmt.Sprintf("%+v", f), d.PowerLoss(nil), ErrDamaged)
		if e.Offset != at && f.ToOffset != blockSize {
			t.Errorf("%+v: damage at %d, want %d", f, e.Offset, at)
		}
	}
}

func TestRefusals(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	for l.Stats().Files < 4 {
		must(t, l.Write([]Record{p.next(1, 1000)}, true))
	}
	must(t, l.Close())
	header := func(change func(*fileHeader)) *memdisk.Disk {
		return damaged(d, fileNamed(2), func(b []byte) {
			h, err := decodeFileHeader(b)
			must(t, err)
			change(&h)
			h.put(b)
		})
	}
	without := func(sequence uint64) *memdisk.Disk {
		c := d.Clone()
		c.Delete(fileNamed(sequence))
		return c
	}
	resized := func(size int) *memdisk.Disk {
		c := d.Clone()
		b := append(c.Bytes(fileNamed(2)), make([]byte, 512)...)
		c.Put(fileNamed(2), b[:size])
		return c
	}
	swapped := d.Clone()
	swapped.Put(fileNamed(2), d.Bytes(fileNamed(3)))
	swapped.Put(fileNamed(3), d.Bytes(fileNamed(2)))
	version := damaged(d, fileNamed(2), func(b []byte) { binary.LittleEndian.PutUint32(b[8:], Version+1) })
	for _, c := range []struct {
		name string
		disk *memdisk.Disk
		kind error
		says string
	}{
		{"cluster", header(func(h *fileHeader) { h.cluster[3]++ }), ErrForeign, "cluster c102"},
		{"replica", header(func(h *fileHeader) { h.replica++ }), ErrForeign, "replica 2"},
		{"shard", header(func(h *fileHeader) { h.shard++ }), ErrForeign, "shard 3"},
		{"swapped files", swapped, ErrForeign, "sequence 3"},
		{"version", version, ErrVersion, "2, this program knows 1"},
		{"size in header", header(func(h *fileHeader) { h.size *= 2 }), ErrDamaged, "header says 16384"},
		{"shorter", resized(FileSizeMin / 2), ErrDamaged, "4096 bytes"},
		{"shorter than a header", resized(100), ErrDamaged, "100 bytes"},
		{"longer", resized(FileSizeMin + 512), ErrDamaged, "8704 bytes"},
		{"not a log", damaged(d, fileNamed(2), func(b []byte) { clear(b[:blockSize]) }), ErrDamaged, "magic"},
		{"first file missing", without(1), ErrMissing, "00000000000000000001"},
		{"middle file missing", without(3), ErrMissing, "00000000000000000003"},
		{"emptied file", damaged(d, fileNamed(3), func(b []byte) { clear(b[blockSize:]) }), ErrDamaged, "witnesses"},
		{"emptied first file", damaged(d, fileNamed(1), func(b []byte) { clear(b[blockSize:]) }), ErrDamaged, "witnesses"},
	} {
		e := refused(t, c.name, c.disk, c.kind)
		if msg := e.Error(); !strings.Contains(msg, c.says) {
			t.Errorf("%s: %q does not say %q", c.name, msg, c.says)
		}
	}
}

// A record of a kind, or with a prepare header, that only a later version knows
// was not torn: to cut it would lose what that version acknowledged.
func TestRecordOfALaterVersionIsRefused(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	must(t, l.Write([]Record{p.next(1, 10)}, true))
	reseal := func(change func(record []byte)) *memdisk.Disk {
		return damaged(d, fileNamed(1), func(b []byte) {
			r := b[blockSize:]
			change(r)
			seal(r[:frameSize+vsr.HeaderSize], l.cur.salt)
		})
	}
	refused(t, "kind", reseal(func(r []byte) { r[12] = byte(KindMark + 1) }), ErrVersion)
	refused(t, "prepare header", reseal(func(r []byte) { r[frameSize+173]++ }), ErrVersion)
}

// A file that the log said is no longer needed may be gone; one that is needed
// may not.
func TestFrontAfterReclaim(t *testing.T) {
	d, l, h, p := recycledLog(t)
	h.release(l, 1, p.last[1].Op)
	must(t, l.Reclaim())
	first := l.oldest()
	if first == 1 {
		t.Fatal("nothing was freed")
	}
	if _, err := h.recoverAndCheck(d.Clone(), h.durable, nil); err != nil {
		t.Fatal(err)
	}
	for l.Stats().Files < 2 {
		must(t, h.write(l, true, p.next(1, 1000)))
	}
	must(t, l.Close())
	d.Delete(fileNamed(first))
	e := refused(t, "first file", d, ErrMissing)
	if !strings.Contains(e.Error(), fmt.Sprintf("%020d", first)) {
		t.Errorf("%q does not name file %d", e, first)
	}
}

// Where the beginning of the log was freed, the first record that is there
// follows nothing that can be checked. A first file whose records are gone is
// noticed all the same: the next file says where it ended.
func TestEmptiedFirstFileAfterReclaim(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	must(t, l.Write([]Record{{Kind: KindState, Group: 1, State: []byte("only here")}, p.next(2, 3000)}, true))
	must(t, l.Write([]Record{p.next(2, 1000)}, true))
	l.Release(2, 2)
	l.Forget(2)
	must(t, l.Reclaim())
	first := l.oldest()
	for l.Stats().Files < 2 {
		must(t, l.Write([]Record{p.next(3, 3000)}, true))
	}
	must(t, l.Close())
	if first == 1 {
		t.Fatal("nothing was freed")
	}
	emptied := damaged(d, fileNamed(first), func(b []byte) { clear(b[blockSize:]) })
	if e := refused(t, "emptied", emptied, ErrDamaged); e.File != fileNamed(first) {
		t.Errorf("%v, want it to name file %d", e, first)
	}
}
