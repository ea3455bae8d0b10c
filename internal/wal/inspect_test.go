package wal

import (
	"errors"
	"slices"
	"testing"

	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
)

func inspect(t *testing.T, d *memdisk.Disk) ([]Item, error) {
	t.Helper()
	before := d.Clone()
	var items []Item
	err := Inspect(d, testDir, nil, func(it Item) error {
		if it.Header != nil {
			h := *it.Header
			it.Header = &h
		}
		items = append(items, it)
		return nil
	})
	if diff := memdisk.Diff(before, d); diff != "" {
		t.Fatalf("inspecting changed the disk: %s", diff)
	}
	return items, err
}

func TestInspect(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	if _, err := inspect(t, d); !errors.Is(err, disk.ErrNotExist) {
		t.Fatalf("inspect where there is no log: %v, want ErrNotExist", err)
	}
	l, _ := mustOpen(t, d)
	p := newPrepares()
	must(t, l.EnsureSpare(l.o.FilesSpare))
	a, b := p.next(1, 100), p.next(2, 700)
	must(t, l.Write([]Record{a, {Kind: KindState, Group: 1, State: []byte("s")}}, true))
	must(t, l.Write([]Record{b, {Kind: KindTruncate, Group: 2, Op: 1}}, true))
	must(t, l.Mark())

	items, err := inspect(t, d)
	must(t, err)
	var kinds []Kind
	for _, it := range items {
		if it.Problem != nil {
			t.Errorf("%+v: a problem in a good log", it)
		}
		kinds = append(kinds, it.Kind)
	}
	if !slices.Equal(kinds, []Kind{0, 0, KindPrepare, KindState, KindPrepare, KindTruncate, KindMark}) {
		t.Fatalf("found %v, want two files, then the records in order", kinds)
	}
	if it := items[2]; it.Group != 1 || it.Op != 1 || *it.Header != *a.Header || it.At != (Position{1, blockSize}) {
		t.Errorf("first record is %+v", it)
	}

	d.FlipBit(fileNamed(1), items[4].At.Offset+400, 3)
	items, err = inspect(t, d)
	if !errors.Is(err, ErrDamaged) {
		t.Fatalf("a flipped bit: %v, want ErrDamaged", err)
	}
	if it := items[4]; it.Problem == nil || it.Torn || it.Group != 2 || it.Op != 1 {
		t.Errorf("the damaged record is shown as %+v", it)
	}
	if it := items[len(items)-1]; it.Kind != KindMark || it.Problem == nil {
		t.Errorf("the last record behind the damage is shown as %+v", it)
	}
	if _, _, open := Open(d, testDir, testOptions()); open == nil || err.Error() != open.Error() {
		t.Errorf("inspect says %v, open %v", err, open)
	}
}

func TestInspectTornTail(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	must(t, l.Write([]Record{p.next(1, 100)}, true))
	at := l.end
	must(t, l.Write([]Record{p.next(1, 600), p.next(1, 100)}, true))
	d.FlipBit(fileNamed(1), at+600, 0)
	items, err := inspect(t, d)
	must(t, err)
	torn := slices.IndexFunc(items, func(it Item) bool { return it.Problem != nil })
	if torn < 0 || !items[torn].Torn || items[torn].At != (Position{1, at}) {
		t.Fatalf("found %+v, want a torn tail at %d", items, at)
	}
}

func TestInspectGoesOnAfterABadFile(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	for l.Stats().Files < 3 {
		must(t, l.Write([]Record{p.next(1, 1000)}, true))
	}
	must(t, l.Close())
	items, err := inspect(t, damaged(d, fileNamed(2), func(b []byte) { clear(b[:blockSize]) }))
	if !errors.Is(err, ErrDamaged) || len(items) < 6 || items[1].Problem == nil || items[2].Problem != nil {
		t.Fatalf("%v; %+v", err, items)
	}
	stop := errors.New("enough")
	if err := Inspect(d, testDir, nil, func(Item) error { return stop }); !errors.Is(err, stop) {
		t.Fatalf("visit ended with %v, inspect with %v", stop, err)
	}
}
