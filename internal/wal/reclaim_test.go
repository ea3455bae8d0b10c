package wal

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
	"galgo/internal/vsr"
)

// W-13 to W-15: files are freed from the front, and only those that nobody needs.
func TestReclaimFreesWhatIsReleased(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	h, p := newHistory(), newPrepares()
	must(t, h.write(l, true, p.next(7, 10), p.next(8, 10)))
	for l.Stats().Files < 5 {
		must(t, h.write(l, true, p.next(8, 1000)))
	}
	live := l.Stats().Live
	h.release(l, 8, p.last[8].Op)
	if got := l.Stats().Live; got >= live || got <= 0 {
		t.Errorf("%d bytes live after a release, %d before", got, live)
	}
	before := d.Clone()
	must(t, l.Reclaim())
	if diff := memdisk.Diff(before, d); diff != "" {
		t.Fatalf("reclaim with the oldest file pinned: %s", diff)
	}
	if got := l.PinnedBy(); !slices.Equal(got, []vsr.GroupID{7}) {
		t.Fatalf("pinned by %v, want group 7", got)
	}
	h.release(l, 7, 1)
	if got := l.PinnedBy(); got != nil {
		t.Fatalf("pinned by %v, want nobody", got)
	}
	must(t, l.Reclaim())
	if s := l.Stats(); s.Files != 1 || s.Spares != 1 || s.Live != 0 || s.Bytes != 2*FileSizeMin || l.Size() != s.Bytes {
		t.Fatalf("%+v, want one file, one spare and nothing live", s)
	}
	if got := l.PinnedBy(); got != nil {
		t.Fatalf("pinned by %v, want nobody: there is one file", got)
	}
	if _, err := h.recoverAndCheck(d.Clone(), h.durable, nil); err != nil {
		t.Fatal(err)
	}
	must(t, h.write(l, true, p.next(7, 10), p.next(8, 10)))
	if _, err := h.recoverAndCheck(d, h.durable, nil); err != nil {
		t.Fatal(err)
	}
}

// What idle groups need is carried along, however often the log goes round.
func TestReclaimCarriesStateAndFloor(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, rec := mustOpen(t, d)
	h, p := newHistory(), newPrepares()
	must(t, h.write(l, true, p.next(1, 10), p.next(2, 20), p.next(2, 20), Record{Kind: KindState, Group: 3, State: []byte("three")},
		Record{Kind: KindState, Group: 2, State: []byte("old")}, Record{Kind: KindState, Group: 2, State: []byte("two")}))
	h.release(l, 1, 1)
	h.release(l, 2, 2)
	for round := range 12 {
		for files := l.Stats().Files; l.Stats().Files == files; {
			must(t, h.write(l, true, p.next(9, 900)))
		}
		h.release(l, 9, p.last[9].Op-vsr.Op(round%3))
		must(t, l.Reclaim())
		after, err := h.recoverAndCheck(d.Clone(), h.durable, nil)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if round%4 == 3 {
			d = after
			l, rec = mustOpen(t, d)
			h.release(l, 1, 1)
			h.release(l, 2, 2)
		}
	}
	_ = rec
	must(t, h.write(l, true, p.next(1, 10), p.next(2, 20)))
	if _, err := h.recoverAndCheck(d, h.durable, nil); err != nil {
		t.Fatal(err)
	}
}

func TestForgottenGroupsAreGone(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	h, p := newHistory(), newPrepares()
	must(t, h.write(l, true, p.next(1, 10), p.next(2, 3000), p.next(1, 10)))
	must(t, h.write(l, true, p.next(2, 3000), p.next(1, 10)))
	h.forget(l, 1)
	h.forget(l, 1)
	h.forget(l, 44)
	if op, _ := l.Last(1); op != 0 {
		t.Fatalf("a forgotten group is at op %d", op)
	}
	h.release(l, 2, 1)
	must(t, l.Reclaim())
	if l.oldest() == 1 {
		t.Fatal("nothing was freed")
	}
	// Its later ops are still in the log, without a beginning.
	l, rec := mustOpen(t, d.Kill())
	if slices.ContainsFunc(rec.Groups, func(g RecoveredGroup) bool { return g.Group == 1 }) {
		t.Fatalf("a forgotten group was recovered: %+v", rec.Groups)
	}
	if op, _ := l.Last(2); op != 2 {
		t.Fatalf("group 2 is at op %d, want 2", op)
	}
}

// A group must not begin in the middle unless a floor says why.
func TestGroupWithoutItsBeginningIsRefused(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	must(t, l.Write([]Record{p.next(1, 10), p.next(2, 3000)}, true))
	must(t, l.Write([]Record{p.next(2, 3000), p.next(1, 10)}, true))
	l.low = 2 // as if everything in the first file had been released and carried
	must(t, l.writeMark())
	must(t, l.Close())
	d.Delete(fileNamed(1))
	if e := refused(t, "no floor", d, ErrMissing); !e.HasOp || e.Group != 1 || e.Op != 2 {
		t.Errorf("%v, want group 1 op 2", e)
	}
}

func TestReclaimOnAFullDisk(t *testing.T) {
	d := memdisk.New(memdisk.Options{Capacity: 2 * FileSizeMin})
	l, _ := mustOpen(t, d)
	h, p := newHistory(), newPrepares()
	must(t, h.write(l, true, p.next(1, 10), Record{Kind: KindState, Group: 1, State: make([]byte, 3000)}))
	for l.Stats().Files < 2 {
		must(t, h.write(l, true, p.next(1, 600)))
	}
	h.release(l, 1, 1)
	for l.end+4096 < l.cur.size+markRoom+512 {
		must(t, h.write(l, true, p.next(1, 100)))
	}
	h.release(l, 1, p.last[1].Op)
	before := d.Clone()
	if err := l.Reclaim(); !errors.Is(err, disk.ErrNoSpace) || errors.Is(err, ErrPoisoned) {
		t.Fatalf("reclaim that has to carry more than fits: %v, want ErrNoSpace", err)
	}
	if diff := memdisk.Diff(before, d); diff != "" {
		t.Fatalf("a refused reclaim changed the disk: %s", diff)
	}
	must(t, h.write(l, true, Record{Kind: KindState, Group: 1, State: nil}))
	must(t, l.Reclaim())
	if l.Stats().Files != 1 {
		t.Fatalf("%+v, want one file", l.Stats())
	}
	if _, err := h.recoverAndCheck(d, h.durable, nil); err != nil {
		t.Fatal(err)
	}
}

// Readers, spares and releases go on beside the writer. Run with -race.
func TestReadersBesideTheWriter(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	must(t, l.Write([]Record{p.next(1, 500)}, true))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	beside := func(do func(rng *rand.Rand)) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, 2))
			for {
				select {
				case <-stop:
					return
				default:
					do(rng)
				}
			}
		})
	}
	for range 2 {
		beside(func(rng *rand.Rand) {
			last, _ := l.Last(1)
			op := last - vsr.Op(rng.IntN(4))
			if _, err := l.Read(1, op); err != nil && !errors.Is(err, ErrNotFound) {
				t.Errorf("read op %d: %v", op, err)
			}
			if _, err := l.Header(1, l.First(1)-1); err != nil && !errors.Is(err, ErrNotFound) {
				t.Errorf("header: %v", err)
			}
			l.Stats()
			l.PinnedBy()
		})
	}
	beside(func(*rand.Rand) {
		if err := l.EnsureSpare(l.o.FilesSpare); err != nil {
			t.Errorf("spare: %v", err)
		}
	})
	beside(func(*rand.Rand) {
		if last, _ := l.Last(1); last > 3 {
			l.Release(1, last-3)
		}
	})
	for range 300 {
		must(t, l.Write([]Record{p.next(1, 500), p.next(2, 5)}, true))
		l.Release(2, p.last[2].Op)
		must(t, l.Reclaim())
	}
	close(stop)
	wg.Wait()
	must(t, l.Close())
}

// The floors that reclaiming carries, met by truncations and by gaps where files
// were freed. Each of these once failed to open.
func TestFloorsMeetTruncations(t *testing.T) {
	big := 3000 // fills a file
	for name, run := range map[string]func(l *Log, h *history, p *prepares) []error{
		"all ops truncated": func(l *Log, h *history, p *prepares) []error {
			return []error{
				h.write(l, true, p.next(1, big)), h.write(l, true, p.next(1, 0)),
				h.write(l, true, Record{Kind: KindTruncate, Group: 1}), l.Reclaim(),
			}
		},
		"back to the floor before the first op seen": func(l *Log, h *history, p *prepares) []error {
			return []error{
				h.write(l, true, h.resetTo(p, 1, 1)), h.write(l, true, p.next(1, big)), l.Reclaim(),
				h.write(l, true, p.next(1, 0)), h.write(l, true, Record{Kind: KindTruncate, Group: 1, Op: 1}), l.Reclaim(),
			}
		},
		"back to the floor behind the first op seen": func(l *Log, h *history, p *prepares) []error {
			return []error{
				h.write(l, true, h.resetTo(p, 1, 1)), h.write(l, true, p.next(1, big)), h.write(l, true, p.next(1, 0)), l.Reclaim(),
				h.write(l, true, Record{Kind: KindTruncate, Group: 1, Op: 1}), l.Reclaim(),
			}
		},
		"released past the floor that was carried": func(l *Log, h *history, p *prepares) []error {
			errs := []error{
				h.write(l, true, p.next(1, 0)), h.write(l, true, p.next(1, big)),
				h.write(l, true, p.next(1, big)), h.write(l, true, p.next(1, big)),
			}
			h.release(l, 1, 1)
			errs = append(errs, l.Reclaim())
			h.release(l, 1, 3)
			return append(errs, l.Reclaim())
		},
		"twice, back to the floor": func(l *Log, h *history, p *prepares) []error {
			errs := []error{h.write(l, true, p.next(1, 0), p.next(1, 0)), h.write(l, true, p.next(1, big))}
			h.release(l, 1, 2)
			return append(errs, l.Reclaim(),
				h.write(l, true, Record{Kind: KindTruncate, Group: 1, Op: 3}),
				h.write(l, true, Record{Kind: KindTruncate, Group: 1, Op: 2}), l.Reclaim())
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := memdisk.New(memdisk.Options{})
			l, _ := mustOpen(t, d)
			h := newHistory()
			must(t, errors.Join(run(l, h, newPrepares())...))
			if l.oldest() == 1 {
				t.Fatal("nothing was freed")
			}
			if _, err := h.recoverAndCheck(d, h.durable, nil); err != nil {
				t.Fatal(err)
			}
		})
	}
}
