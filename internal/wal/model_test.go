package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"galgo/internal/disk/memdisk"
	"galgo/internal/vsr"
)

// TestAgainstModel does random things to a log and to a naive model, with
// crashes in between, and compares.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &modelRun{t: t, d: memdisk.New(memdisk.Options{}), h: newHistory(), p: newPrepares()}
		s.open()
		t.Repeat(map[string]func(*rapid.T){
			"write":    s.write,
			"write ":   s.write,
			"truncate": s.truncate,
			"reset":    s.reset,
			"release":  s.release,
			"reclaim":  func(*rapid.T) { s.must(s.l.Reclaim()) },
			"mark":     func(*rapid.T) { s.must(s.l.Mark()); s.h.durable = len(s.h.recs) },
			"spare":    func(*rapid.T) { s.must(s.l.EnsureSpare(s.l.o.FilesSpare)) },
			"close":    func(*rapid.T) { s.must(s.l.Close()); s.h.durable = len(s.h.recs); s.open() },
			"kill":     func(*rapid.T) { s.d = s.d.Kill(); s.h.durable = len(s.h.recs); s.open() },
			"power": func(t *rapid.T) {
				seed := rapid.Uint64().Draw(t, "seed")
				s.d = s.d.PowerLoss(rand.New(rand.NewPCG(seed, 3)))
				s.open()
			},
		})
	})
}

type modelRun struct {
	t *rapid.T
	d *memdisk.Disk
	l *Log
	h *history
	p *prepares
	m *model
}

func (s *modelRun) must(err error) {
	if err != nil {
		s.t.Fatal(err)
	}
}

// open recovers, finds the prefix that survived, and goes on from there.
func (s *modelRun) open() {
	l, rec, err := Open(s.d, testDir, testOptions())
	s.must(err)
	n, err := s.h.check(l, rec, s.h.durable)
	s.must(err)
	s.l = l
	s.h.recs, s.h.durable = s.h.recs[:n], n
	s.m = newModel()
	for _, r := range s.h.recs {
		s.m.apply(r)
	}
	s.p.last = map[vsr.GroupID]vsr.Header{}
	for _, g := range s.m.groups {
		if g.last().Op > 0 {
			s.p.rewind(g.last())
		}
	}
}

func (s *modelRun) group(t *rapid.T) vsr.GroupID {
	return vsr.GroupID(rapid.IntRange(0, 3).Draw(t, "group"))
}

func (s *modelRun) commit(sync bool, recs ...Record) {
	s.must(s.h.write(s.l, sync, recs...))
	for _, r := range recs {
		s.m.apply(r)
	}
}

func (s *modelRun) write(t *rapid.T) {
	var recs []Record
	for range rapid.IntRange(1, 6).Draw(t, "records") {
		g := s.group(t)
		if rapid.IntRange(0, 5).Draw(t, "kind") == 0 {
			recs = append(recs, Record{Kind: KindState, Group: g, State: []byte(fmt.Sprint(len(s.h.recs)))})
			continue
		}
		size := rapid.SampledFrom([]int{0, 1, 7, 8, 200, 248, 256, 1000, 3400, FileSizeMin}).Draw(t, "size")
		recs = append(recs, s.p.next(g, size))
	}
	s.commit(rapid.Bool().Draw(t, "sync"), recs...)
}

// truncate goes back to an op that is not released, and at times rewrites the
// next one in the same batch.
func (s *modelRun) truncate(t *rapid.T) {
	id := s.group(t)
	g := s.m.group(id)
	low := max(s.h.released[id], g.base.Op)
	op := vsr.Op(rapid.Uint64Range(uint64(low), uint64(g.last().Op)).Draw(t, "op"))
	delete(s.p.last, id)
	if op > 0 {
		s.p.rewind(g.header(op))
	}
	recs := []Record{{Kind: KindTruncate, Group: id, Op: op}}
	if rapid.Bool().Draw(t, "rewrite") {
		recs = append(recs, s.p.next(id, 50))
	}
	s.commit(rapid.Bool().Draw(t, "sync"), recs...)
}

func (s *modelRun) reset(t *rapid.T) {
	id := s.group(t)
	last := s.m.group(id).last().Op
	s.commit(true, s.h.resetTo(s.p, id, last+vsr.Op(rapid.IntRange(1, 5).Draw(t, "ahead"))))
}

// release only what is durable: it is what a checkpoint holds.
func (s *modelRun) release(t *rapid.T) {
	s.must(s.l.Sync())
	s.h.durable = len(s.h.recs)
	id := s.group(t)
	g := s.m.group(id)
	low := max(s.h.released[id], g.base.Op)
	op := vsr.Op(rapid.Uint64Range(uint64(low), uint64(g.last().Op)).Draw(t, "op"))
	s.h.release(s.l, id, op)
}

// FuzzOpen gives Open a file with any content behind a valid header. It refuses
// or recovers, never panics, and recovers the same the second time.
func FuzzOpen(f *testing.F) {
	d := memdisk.New(memdisk.Options{})
	l, _, err := Open(d, testDir, testOptions())
	if err != nil {
		f.Fatal(err)
	}
	p := newPrepares()
	for range 3 {
		if err := l.Write([]Record{p.next(1, 30), {Kind: KindState, Group: 1, State: []byte("x")}, p.next(2, 300), {Kind: KindTruncate, Group: 2}}, true); err != nil {
			f.Fatal(err)
		}
		p.last[2] = vsr.Header{}
	}
	if err := l.Close(); err != nil {
		f.Fatal(err)
	}
	whole := d.Bytes(fileNamed(1))
	f.Add(whole[blockSize:], uint16(0), uint16(0))
	f.Add(whole[blockSize:], uint16(20), uint16(1))
	f.Add(whole[blockSize:], uint16(600), uint16(0))
	f.Fuzz(func(t *testing.T, body []byte, at, reseal uint16) {
		c := d.Clone()
		b := c.Bytes(fileNamed(1))
		clear(b[blockSize:])
		copy(b[blockSize:], body)
		fuzzSeal(b, int64(at)*alignment, reseal, l.o.salt(1))
		c.Put(fileNamed(1), b)
		first, rec, err := Open(c, testDir, testOptions())
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatalf("refused with %v, want an *Error", err)
			}
			return
		}
		_ = first
		again, rec2, err := Open(c.PowerLoss(nil), testDir, testOptions())
		if err != nil || len(rec2.Groups) != len(rec.Groups) {
			t.Fatalf("second recovery: %v, %d groups, %d before", err, len(rec2.Groups), len(rec.Groups))
		}
		for _, g := range rec.Groups {
			if op, id := again.Last(g.Group); op != g.Last || id != g.LastID {
				t.Fatalf("second recovery has group %d at op %d, the first at %d", g.Group, op, g.Last)
			}
		}
	})
}

// fuzzSeal gives a mutated frame a valid checksum, so that the fuzzer gets past
// it, and a chain if asked.
func fuzzSeal(b []byte, at int64, mode uint16, salt uint64) {
	at += blockSize
	if mode%2 == 0 || at+frameSize > int64(len(b)) {
		return
	}
	f, err := parseFrame(b[at:], 1, at, int64(len(b)))
	if err == nil {
		seal(b[at:at+frameSize+int64(f.head)], salt)
	}
}
