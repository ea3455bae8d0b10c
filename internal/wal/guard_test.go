package wal

import (
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"

	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
	"galgo/internal/vsr"
)

// Parts of two logs of the same node, as a half-restored copy has them, do not
// pass for one: each record names the one before it.
func TestRecordsOfTwoLogsDoNotMix(t *testing.T) {
	make2 := func(first, second string) (*memdisk.Disk, int64) {
		d := memdisk.New(memdisk.Options{})
		l, _ := mustOpen(t, d)
		must(t, l.Write([]Record{{Kind: KindState, Group: 1, State: []byte(first)}}, true))
		at := l.end
		must(t, l.Write([]Record{{Kind: KindState, Group: 1, State: []byte(second)}}, true))
		must(t, l.Mark())
		return d, at
	}
	a, at := make2("a1", "a2")
	b, _ := make2("b1", "b2")
	mixed := damaged(a, fileNamed(1), func(f []byte) { copy(f[at:], b.Bytes(fileNamed(1))[at:]) })
	if e := refused(t, "mixed", mixed, ErrDamaged); e.Offset != at || !strings.Contains(e.Reason, errChain.Error()) {
		t.Errorf("%v, want a break of the chain at %d", e, at)
	}
}

// resealed returns d with the record at an offset of the first file changed and
// given the checksum that fits.
func resealed(d *memdisk.Disk, l *Log, at int64, change func(record []byte)) *memdisk.Disk {
	return damaged(d, fileNamed(1), func(b []byte) {
		r := b[at:]
		change(r)
		seal(r[:frameSize+binary.LittleEndian.Uint32(r[52:])], l.cur.salt)
	})
}

// W-22, and what the checksums cannot tell: an op that does not continue its
// group is no op, cut at the tail and refused when a later record vouches for it.
func TestReplayChecksWhatRecordsSay(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	must(t, l.Write([]Record{p.next(1, 0), p.next(2, 0)}, true))
	at := l.end
	must(t, l.Write([]Record{p.next(1, 0)}, true))
	good := p.last[1]
	put := func(change func(*vsr.Prepare)) func([]byte) {
		return func(r []byte) {
			pr := vsr.Prepare{Header: good}
			change(&pr)
			pr.Seal()
			pr.PutHeader(r[frameSize:])
		}
	}
	must(t, l.Mark())
	marked := d.Clone()
	for name, change := range map[string]func([]byte){
		"gap":              put(func(p *vsr.Prepare) { p.Op = 3 }),
		"repeated":         put(func(p *vsr.Prepare) { p.Op = 1 }),
		"parent":           put(func(p *vsr.Prepare) { p.Parent[0]++ }),
		"cluster":          put(func(p *vsr.Prepare) { p.Cluster[0]++ }),
		"group of header":  put(func(p *vsr.Prepare) { p.Group = 2 }),
		"group of frame":   func(r []byte) { r[24] = 2 },
		"truncate too far": func(r []byte) { asNumber(r, KindTruncate, 9) },
		"floor of nothing": func(r []byte) { put(func(p *vsr.Prepare) { p.Op = 9 })(r); r[12] = byte(KindFloor) },
	} {
		if e := refused(t, name, resealed(marked, l, at, change), ErrDamaged); e.Offset != at {
			t.Errorf("%s: %v, want damage at %d", name, e, at)
		}
		tail := resealed(marked, l, at, change)
		tail = damaged(tail, fileNamed(1), func(b []byte) { clear(b[at+disk.Sector:]) })
		l, rec := mustOpen(t, tail)
		op1, id1 := l.Last(1)
		op2, _ := l.Last(2)
		if rec.Cut == nil || rec.Cut.At.Offset != at || op1 != 1 || id1 != good.Parent || op2 != 1 {
			t.Errorf("%s at the tail: groups at op %d %v and %d, cut %+v; want it cut", name, op1, id1, op2, rec.Cut)
		}
	}
}

func asNumber(r []byte, kind Kind, n uint64) {
	size := frameSize + uint32(binary.LittleEndian.Uint32(r[48:])) + uint32(binary.LittleEndian.Uint16(r[14:]))
	r[12] = byte(kind)
	binary.LittleEndian.PutUint32(r[48:], 8)
	binary.LittleEndian.PutUint32(r[52:], 8)
	binary.LittleEndian.PutUint16(r[14:], uint16(size-frameSize-8))
	binary.LittleEndian.PutUint64(r[frameSize:], n)
}

// What is carried is witnessed before its only other copy goes.
func TestCarriedRecordsAreWitnessed(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	must(t, l.Write([]Record{p.next(1, 10), {Kind: KindState, Group: 1, State: []byte("s")}}, true))
	for l.Stats().Files < 2 {
		must(t, l.Write([]Record{p.next(2, 1000)}, true))
	}
	l.Release(1, 1)
	l.Release(2, p.last[2].Op)
	at, name := l.end, l.cur.name
	must(t, l.Reclaim())
	d = d.Kill()
	d.FlipBit(name, at+frameSize, 0)
	refused(t, "carried record", d, ErrDamaged)
}

// tampering changes what is written to files that are being made.
type tampering struct {
	disk.Disk
	on bool
}

type tamperedFile struct{ disk.File }

func (t *tampering) Create(name string, size int64) (disk.File, error) {
	f, err := t.Disk.Create(name, size)
	if t.on && err == nil {
		f = tamperedFile{f}
	}
	return f, err
}

func (f tamperedFile) WriteAt(p []byte, off int64) error {
	if p = append([]byte(nil), p...); off == 0 && len(p) > blockSize+100 {
		p[blockSize+100] ^= 1
	}
	return f.File.WriteAt(p, off)
}

// A copy that went wrong on its way never replaces what it was made from.
func TestCopyIsVerifiedBeforeItReplaces(t *testing.T) {
	m := memdisk.New(memdisk.Options{})
	d := &tampering{Disk: m}
	l, _ := mustOpen(t, d)
	h, p := newHistory(), newPrepares()
	must(t, h.write(l, true, p.next(1, 100)))
	d.on = true
	if _, _, err := Open(d, testDir, testOptions()); err == nil || !strings.Contains(err.Error(), "copy") {
		t.Fatalf("open with a copy that goes wrong: %v, want an error", err)
	}
	if _, err := h.recoverAndCheck(m.Kill(), h.durable, nil); err != nil {
		t.Fatal(err)
	}
}

// The index is believed for where, not for what.
func TestReadComparesIdentity(t *testing.T) {
	l, _ := mustOpen(t, memdisk.New(memdisk.Options{}))
	p := newPrepares()
	must(t, l.Write([]Record{p.next(1, 10), p.next(1, 10)}, true))
	e := l.groups[1].entries
	e[0].at, e[1].at = e[1].at, e[0].at
	if _, err := l.Read(1, 1); !errors.Is(err, ErrDamaged) {
		t.Errorf("read finds another op: %v, want ErrDamaged", err)
	}
	if _, err := l.Header(1, 2); !errors.Is(err, ErrDamaged) {
		t.Errorf("header finds another op: %v, want ErrDamaged", err)
	}
}

// A file is neither closed nor renamed while somebody reads from it.
func TestReadersHoldTheirFile(t *testing.T) {
	var l *Log
	var held, free int
	d := memdisk.New(memdisk.Options{OnCall: func(c memdisk.Call) {
		if l == nil || c.Name != fileNamed(1) {
			return
		}
		f := l.files[0]
		switch c.Op {
		case memdisk.OpRead:
			if f.name == c.Name && f.readers.TryLock() {
				f.readers.Unlock()
				t.Error("a file is read and not held")
			}
			held++
		case memdisk.OpRename:
			free++
		}
	}})
	l, _ = mustOpen(t, d)
	p := newPrepares()
	must(t, l.Write([]Record{p.next(1, 3000)}, true))
	must(t, l.Write([]Record{p.next(1, 3000)}, true))
	if _, err := l.Read(1, 1); err != nil {
		t.Fatal(err)
	}
	first := l.files[0]
	first.readers.RLock()
	done := make(chan error)
	l.Release(1, 1)
	go func() { done <- l.freeOldest() }()
	for l.oldest() == 1 { // it is taken out of the log first
		runtime.Gosched()
	}
	select {
	case err := <-done:
		t.Errorf("a file with a reader was freed: %v", err)
	default:
	}
	first.readers.RUnlock()
	if err := <-done; err != nil || held == 0 || free != 1 {
		t.Fatalf("freed with %v, %d reads, %d renames", err, held, free)
	}
}

// A client can put anything into a body, also what would be a record if only the
// salt were known, at just the right place. It does not turn a torn tail into rot.
func TestForgedFrameInABody(t *testing.T) {
	if a, b := (&Options{Salt: 1}).salt(1), (&Options{Salt: 2}).salt(1); a == b {
		t.Fatalf("salts of two logs are both %016x", a)
	}
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	must(t, l.Write([]Record{p.next(1, 10)}, true))
	must(t, l.Mark())
	at := l.end
	body := make([]byte, 1000)
	where := at + disk.Sector
	forged := body[where-at-frameSize-vsr.HeaderSize:]
	f := frame{kind: KindForget, file: 1, at: where, synced: Position{1, where}}
	f.put(forged)
	o := testOptions()
	seal(forged[:frameSize], (&Options{Cluster: o.Cluster, Replica: o.Replica, Shard: o.Shard}).salt(1))
	r := p.next(1, 0)
	pr := vsr.Prepare{Header: *r.Header, Body: body}
	pr.Seal()
	must(t, l.Write([]Record{{Kind: KindPrepare, Group: 1, Header: &pr.Header, Body: body}}, true))
	torn := damaged(d, fileNamed(1), func(b []byte) { clear(b[at:][:disk.Sector]) })
	l, _ = mustOpen(t, torn)
	if op, _ := l.Last(1); op != 1 {
		t.Fatalf("last is op %d, want 1", op)
	}
}
