package shard

import (
	"testing"

	"galgo"
	"galgo/internal/partition"
	"galgo/internal/vsr"
)

// Whatever an operation may leave of a consumer group is looked for when the group is
// deleted, also if the operation was refused: a claim may have been taken.
func TestWhatMayLeaveSomethingOfADeletedGroup(t *testing.T) {
	const deleted, kept = 1, 2
	d := &Data{cfg: DataConfig{GroupDeleted: func(_ vsr.GroupID, key uint32) bool { return key == deleted }}}
	store := func(kind galgo.ConsumerKind, key uint32) []byte {
		return partition.StoreOffset{Kind: kind, Key: key}.Append(nil)
	}
	remove := func(kind galgo.ConsumerKind, key uint32) []byte {
		return partition.DeleteOffset{Kind: kind, Key: key}.Append(nil)
	}
	for _, c := range []struct {
		what      string
		operation uint8
		body      []byte
		sweeps    bool
	}{
		{"a store", partition.OpStoreOffset, store(galgo.ConsumerGroup, deleted), true},
		{"a store of another group", partition.OpStoreOffset, store(galgo.ConsumerGroup, kept), false},
		{"a store of a single consumer", partition.OpStoreOffset, store(galgo.ConsumerSingle, deleted), false},
		{"a deletion", partition.OpDeleteOffset, remove(galgo.ConsumerGroup, deleted), true},
		{"a deletion of another group", partition.OpDeleteOffset, remove(galgo.ConsumerGroup, kept), false},
		{"a deletion of a single consumer", partition.OpDeleteOffset, remove(galgo.ConsumerSingle, deleted), false},
		{"a claim", partition.OpClaim, partition.Claim{Key: deleted}.Append(nil), true},
		{"a claim of another group", partition.OpClaim, partition.Claim{Key: kept}.Append(nil), false},
		{"a send", partition.OpSend, nil, false},
	} {
		g := &dataGroup{}
		d.noteWritten(g, &vsr.Prepare{Header: vsr.Header{Operation: c.operation}, Body: c.body})
		if g.sweeping != c.sweeps {
			t.Errorf("%s: the group is swept %v", c.what, g.sweeping)
		}
	}
}
