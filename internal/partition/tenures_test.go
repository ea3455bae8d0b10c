package partition

import (
	"slices"
	"testing"

	"galgo"
)

func (r *rig) claim(key uint32, since uint64) galgo.Code {
	return r.apply(Entry{Operation: OpClaim, Body: Claim{key, since}.Append(nil)}).Code
}

func (r *rig) storeAs(since, offset uint64) galgo.Code {
	return r.apply(Entry{Operation: OpStoreOffset, Body: StoreOffset{Kind: galgo.ConsumerGroup, Key: 1, Offset: offset, Tenure: since}.Append(nil)}).Code
}

func (r *rig) deleteAs(since uint64) galgo.Code {
	return r.apply(Entry{Operation: OpDeleteOffset, Body: DeleteOffset{Kind: galgo.ConsumerGroup, Key: 1, Tenure: since}.Append(nil)}).Code
}

// What comes from a member that had the partition before another one claimed it is refused,
// for as long as the group is there: through purges, deleted offsets and checkpoints.
func TestClaimsEndOlderTenures(t *testing.T) {
	r := newRig(t, smallConfig(newDisk()))
	r.send(10, 8)
	want := func(what string, code, wanted galgo.Code, offset int) {
		t.Helper()
		stored, ok := r.m.StoredOffset(galgo.ConsumerGroup, 1)
		if !ok {
			stored = ^uint64(0)
		}
		if code != wanted || int(stored) != offset {
			t.Fatalf("%s: code %v, stored %d; want %v, %d", what, code, int(stored), wanted, offset)
		}
	}
	want("stored without any claim", r.storeAs(3, 2), galgo.CodeOK, 2)
	want("claimed", r.claim(1, 5), galgo.CodeOK, 2)
	want("stored by who had it before", r.storeAs(4, 7), galgo.CodeResourceNotFound, 2)
	want("deleted by who had it before", r.deleteAs(4), galgo.CodeResourceNotFound, 2)
	want("stored by who claimed it", r.storeAs(5, 6), galgo.CodeOK, 6)
	want("claimed again", r.claim(1, 5), galgo.CodeOK, 6)
	want("claimed by who had it before", r.claim(1, 4), galgo.CodeResourceNotFound, 6)
	want("stored by who has it since then", r.storeAs(6, 5), galgo.CodeOK, 5)
	want("a single consumer's is another matter", r.store(galgo.ConsumerSingle, 1, 9, false), galgo.CodeOK, 5)
	want("stored by who claimed it, after another's store", r.storeAs(5, 9), galgo.CodeResourceNotFound, 5)
	want("deleted by who has it since later", r.deleteAs(7), galgo.CodeOK, -1)
	want("deleted again", r.deleteAs(7), galgo.CodeConsumerOffsetNotFound, -1)
	want("stored late, after the deletion", r.storeAs(6, 7), galgo.CodeResourceNotFound, -1)
	r.purge(1)
	r.send(10, 8)
	want("stored late, after a purge", r.storeAs(4, 7), galgo.CodeResourceNotFound, -1)
	c, err := DecodeCheckpoint(r.m.State().Append(nil))
	if err != nil || !slices.Equal(c.tenures, []tenure{{1, 7}}) {
		t.Fatalf("a checkpoint has %+v, %v", c.tenures, err)
	}
	mustEqual(t, "after a replay", r, r.twin())
	r.must(r.save())
	r.must(r.reopen(r.cfg.Disk))
	want("stored late, after a restart", r.storeAs(4, 7), galgo.CodeResourceNotFound, -1)
	if groups := r.m.KnownGroups(); !slices.Equal(groups, []uint32{1}) || !r.m.KnowsGroup(1) {
		t.Fatalf("known groups %v", groups)
	}
	want("the group is deleted", r.deleteAs(Forever), galgo.CodeOK, -1)
	if r.m.KnowsGroup(1) || len(r.m.KnownGroups()) > 0 {
		t.Error("something of a deleted group is left")
	}
	want("and again", r.deleteAs(Forever), galgo.CodeConsumerOffsetNotFound, -1)
}

func TestTenuresAreBounded(t *testing.T) {
	var all tenures
	for key := range uint32(tenuresMax) {
		all.take(key, 9)
	}
	all.take(tenuresMax, 9)
	all.take(7, 11)
	if len(all.sorted) != tenuresMax || all.since(tenuresMax) != 0 || all.since(7) != 11 {
		t.Errorf("%d tenures, of the one too many %d, of a known one %d", len(all.sorted), all.since(tenuresMax), all.since(7))
	}
}

func TestSingleConsumersHaveNoTenure(t *testing.T) {
	if _, err := DecodeStoreOffset(StoreOffset{Kind: galgo.ConsumerSingle, Tenure: 1}.Append(nil)); err == nil {
		t.Error("a store of a single consumer with a tenure")
	}
	if _, err := DecodeDeleteOffset(DeleteOffset{Kind: galgo.ConsumerSingle, Tenure: 1}.Append(nil)); err == nil {
		t.Error("a deletion of a single consumer with a tenure")
	}
}
