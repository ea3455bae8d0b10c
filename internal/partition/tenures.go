package partition

import (
	"cmp"
	"slices"

	"galgo"
)

// tenuresMax bounds the consumer groups whose claims are kept: more than a topic may have.
const tenuresMax = 1 << 16

// tenure is since when the member has the partition that was the last to claim it for a
// consumer group: the generation of the group then. Who had it before counts as gone, and
// its offsets are refused, however late they come and whichever replica leads.
type tenure struct {
	key   uint32 // of the group
	since uint64
}

// tenures are those of all groups, sorted by key.
type tenures struct{ sorted []tenure }

func (t *tenures) find(key uint32) (int, bool) {
	return slices.BinarySearchFunc(t.sorted, key, func(t tenure, key uint32) int { return cmp.Compare(t.key, key) })
}

func (t *tenures) since(key uint32) uint64 {
	i, ok := t.find(key)
	if !ok {
		return 0
	}
	return t.sorted[i].since
}

// take takes note of a claim that is newer than the last one. Where there is no room for
// another group, its members are not told apart.
func (t *tenures) take(key uint32, since uint64) {
	i, ok := t.find(key)
	switch {
	case ok:
		t.sorted[i].since = since
	case len(t.sorted) < tenuresMax:
		t.sorted = slices.Insert(t.sorted, i, tenure{key, since})
	}
}

// forget drops a group that is deleted.
func (t *tenures) forget(key uint32) (known bool) {
	i, known := t.find(key)
	if known {
		t.sorted = slices.Delete(t.sorted, i, i+1)
	}
	return known
}

// claim has the member that has the partition since a generation of its group be the last
// to claim it, whatever it writes: CodeResourceNotFound if another has claimed it since.
// Single consumers share a partition with nobody.
func (m *Machine) claim(kind galgo.ConsumerKind, key uint32, since uint64) galgo.Code {
	if kind != galgo.ConsumerGroup {
		return galgo.CodeOK
	}
	switch last := m.tenures.since(key); {
	case since < last:
		return galgo.CodeResourceNotFound
	case since > last:
		m.tenures.take(key, since)
	}
	return galgo.CodeOK
}

// KnownGroups lists the consumer groups of which anything is kept here, in order.
func (m *Machine) KnownGroups() (keys []uint32) {
	for _, s := range m.consumers.sorted {
		if s.kind == galgo.ConsumerGroup {
			keys = append(keys, s.key)
		}
	}
	for _, t := range m.tenures.sorted {
		keys = append(keys, t.key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// KnowsGroup reports whether anything of a consumer group is kept here.
func (m *Machine) KnowsGroup(key uint32) bool {
	_, stored := m.consumers.find(galgo.ConsumerGroup, key)
	_, claimed := m.tenures.find(key)
	return stored || claimed
}
