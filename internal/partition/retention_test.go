package partition

import (
	"testing"

	"galgo"
)

// shelf is a partition of five segments of ten messages and 100 bytes, written at 100, 200
// and so on; the last one is open.
func shelf(stored ...uint64) *Machine {
	m := &Machine{consumers: consumers{limit: ConsumersMax}}
	for i := range uint64(5) {
		m.segments = append(m.segments, &segment{base: 10 * i, last: 10*i + 9, size: 100, time: 100 * (i + 1), sealed: i < 4})
	}
	for i, offset := range stored {
		m.consumers.store(StoreOffset{Kind: galgo.ConsumerKind(1 + i%2), Key: uint32(i), Offset: offset})
	}
	return m
}

func TestDisposable(t *testing.T) {
	for name, tt := range map[string]struct {
		stored []uint64
		rule   Retention
		below  uint64
	}{
		"no rule":                          {nil, Retention{Now: 1 << 40}, 0},
		"none old enough":                  {nil, Retention{Now: 199, Expiry: 100}, 0},
		"one just old enough":              {nil, Retention{Now: 200, Expiry: 100}, 10},
		"all but the open one":             {nil, Retention{Now: 1 << 40, Expiry: 1}, 40},
		"longer than there is time":        {nil, Retention{Now: 50, Expiry: 100}, 0},
		"as large as may be":               {nil, Retention{Bytes: 400}, 0},
		"a byte too large":                 {nil, Retention{Bytes: 399}, 10},
		"far too large":                    {nil, Retention{Bytes: 1}, 40},
		"the farther of age and size":      {nil, Retention{Now: 300, Expiry: 100, Bytes: 399}, 20},
		"a few at a time":                  {nil, Retention{Bytes: 1, Max: 2}, 20},
		"up to a consumer":                 {[]uint64{25, 30}, Retention{Bytes: 1, Hold: true}, 20},
		"up to the end of a segment":       {[]uint64{29}, Retention{Bytes: 1, Hold: true}, 30},
		"consumers do not hold":            {[]uint64{0}, Retention{Bytes: 1}, 40},
		"a consumer that has read nothing": {[]uint64{0, 35}, Retention{Bytes: 1, Hold: true}, 0},
	} {
		if got := shelf(tt.stored...).Disposable(tt.rule); got != tt.below {
			t.Errorf("%s: below %d, want %d", name, got, tt.below)
		}
	}
	for n, want := range []uint64{0, 10, 20, 30, 40, 40} {
		if got := shelf().Oldest(n); got.Below != want {
			t.Errorf("the %d oldest: below %+v, want %d", n, got, want)
		}
	}
	if got := shelf(12).Oldest(3); got != (Bound{10, 100}) {
		t.Errorf("the oldest, with a consumer at 12: %+v, want the first", got)
	}
	// Times that run backwards, which no log has, make no hole.
	m := shelf()
	m.segments[1].time = 1000
	if got := m.Disposable(Retention{Now: 900, Expiry: 1}); got != 10 {
		t.Errorf("below %d, want 10: what follows a segment that is too young stays", got)
	}
}

func TestBounded(t *testing.T) {
	for b, want := range map[Bound]uint64{
		{}: 0, {9, 1000}: 0, {10, 99}: 0, {10, 100}: 10, {29, 1000}: 20, {1000, 250}: 20, {1000, 1000}: 40,
	} {
		if got := shelf().Bounded(b); got != want {
			t.Errorf("%+v: below %d, want %d", b, got, want)
		}
	}
}

func TestDroppable(t *testing.T) {
	m := shelf(35)
	if got := m.Droppable(30, true); got != 30 {
		t.Errorf("below %d, want 30", got)
	}
	m.NoteStore(39)
	m.NoteStore(12)
	m.NoteStore(39)
	if held, free := m.Droppable(30, true), m.Droppable(30, false); held != 10 || free != 30 {
		t.Errorf("below %d with a store of 12 under way, want 10; %d where nothing holds, want 30", held, free)
	}
	for range 2 {
		m.frontier.applied(m, &Entry{Operation: OpStoreOffset})
	}
	if got := m.Droppable(30, true); got != 30 {
		t.Errorf("below %d when it is applied, want 30", got)
	}
	m.NoteStore(0)
	m.Abandon()
	if got := m.Droppable(30, true); got != 30 {
		t.Errorf("below %d when it is abandoned, want 30", got)
	}
	m.Inherit(Entry{Operation: OpStoreOffset, Body: StoreOffset{Kind: galgo.ConsumerSingle, Key: 1}.Append(nil)})
	if got := m.Droppable(30, true); got != 0 {
		t.Errorf("below %d with one of another primary under way, want 0", got)
	}
}
