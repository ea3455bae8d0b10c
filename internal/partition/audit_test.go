package partition

import (
	"strings"
	"testing"

	"galgo"
	"galgo/internal/disk/memdisk"
)

// A number that the machine knows, or cannot tell any more, is stored once; after a purge
// it means another send.
func TestSequences(t *testing.T) {
	m, err := New(Config{Group: 1, Disk: memdisk.New(memdisk.Options{}), Producers: 2, ProducerRing: 2})
	if err != nil {
		t.Fatal(err)
	}
	a, b := galgo.ClientID{1}, galgo.ClientID{2}
	s := m.Sequences(nil)
	for _, step := range []struct {
		op     uint64
		client galgo.ClientID
		number uint64
		want   string
	}{
		{1, a, 1, ""}, {2, b, 1, ""}, {3, a, 2, ""}, {4, a, 1, "is at offset 10 already"}, {5, a, 3, ""}, {6, a, 4, ""},
		{7, a, 1, "too old"}, {8, b, 2, ""},
	} {
		err := s.Sent(step.op, step.client, step.number, 10*step.op)
		if err == nil != (step.want == "") || err != nil && !strings.Contains(err.Error(), step.want) {
			t.Errorf("op %d: %v, want %q", step.op, err, step.want)
		}
	}
	s.Purged()
	if err := s.Sent(9, a, 1, 0); err != nil {
		t.Errorf("after a purge: %v", err)
	}
	m.producers.record(1, a, 7, 70)
	if err := m.Sequences(m.State()).Sent(2, a, 7, 90); err == nil {
		t.Error("a number of the checkpoint is forgotten")
	}
}

// States that differ are told apart, by what it is that differs.
func TestStatesDiffer(t *testing.T) {
	state := func(change func(*Machine)) *Checkpoint {
		m, err := New(Config{Group: 1, Disk: memdisk.New(memdisk.Options{})})
		if err != nil {
			t.Fatal(err)
		}
		m.next, m.low = 5, 5
		change(m)
		return m.State()
	}
	same := func(*Machine) {}
	if d := state(same).Difference(state(same)); d != "" {
		t.Errorf("equal states differ in %s", d)
	}
	for want, change := range map[string]func(*Machine){
		"purges":         func(m *Machine) { m.generation = 3 },
		"messages":       func(m *Machine) { m.next = 6 },
		"segments":       func(m *Machine) { m.segments = []*segment{{}} },
		"stored offsets": func(m *Machine) { m.consumers.store(StoreOffset{Kind: 1, Key: 1}) },
		"producers":      func(m *Machine) { m.producers.record(1, galgo.ClientID{1}, 1, 1) },
	} {
		if d := state(same).Difference(state(change)); !strings.Contains(d, want) {
			t.Errorf("got %q, want %q", d, want)
		}
	}
	if err := state(func(m *Machine) { m.consumers.store(StoreOffset{Kind: 1, Key: 1, Offset: 5}) }).Check(); err == nil {
		t.Error("an offset beyond the last message is sound")
	}
}
