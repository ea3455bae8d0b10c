package metadata

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"galgo/internal/wire"
)

// Views are read, and encoded, while the machine goes on. Run with -race: the maps
// are shared with the machine, and no shared node may be written.
func TestViewUnderRace(t *testing.T) {
	r := newRig(t)
	r.createStream("s")
	var wg sync.WaitGroup
	for round := range 60 {
		grow(r, round)
		v := r.m.View()
		state, clients := v.EncodeState(), v.EncodeClients()
		for range 2 {
			wg.Go(func() {
				for range 3 {
					if !bytes.Equal(v.EncodeState(), state) || !bytes.Equal(v.EncodeClients(), clients) {
						t.Errorf("the view of op %d changed after it was taken", v.Op())
					}
					lookAround(v)
				}
			})
		}
	}
	wg.Wait()
}

// grow makes and removes enough to split and to merge nodes of each map.
func grow(r *rig, round int) {
	for n := range 12 {
		label := fmt.Sprint(round, "-", n)
		r.createStream(label)
		r.createTopic(0, label, 9)
		r.createGroup(0, 0, label)
		r.login(clientID(uint64(round*12+n+10)), RootUser)
		if round > 3 && n%3 != 0 {
			old := fmt.Sprint(round-3, "-", n)
			r.must(wire.OperationDeleteStream, deleteStreamBody(name(old)))
			if old != "1-0" { // topic 0, which keeps the groups, was made first
				r.must(wire.OperationDeleteTopic, deleteTopicBody(id(0), name(old)))
			}
		}
	}
	r.must(wire.OperationPurgeStream, deleteStreamBody(id(0)))
}

func lookAround(v *View) {
	for s := range v.Streams() {
		for t := range v.Topics(s) {
			for range v.ConsumerGroups(t) {
			}
			for p := range v.Partitions(t) {
				v.PartitionOf(p.Group)
			}
		}
		v.Stream(name(s.Name))
	}
	for c := range v.Clients() {
		v.CheckRequest(c.ID, c.Epoch, 1, [16]byte{})
	}
}

// A copy of a map is what the map was, whatever happens to either afterwards.
func TestCowAgainstAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type version struct {
			m    cow[uint32, uint32]
			want map[uint32]uint32
		}
		now := version{newCow[uint32, uint32](), map[uint32]uint32{}}
		var kept []version
		for range rapid.IntRange(1, 40).Draw(t, "bursts") {
			first := rapid.Uint32Range(0, 300).Draw(t, "first")
			for k := first; k < first+50; k++ {
				if rapid.Bool().Draw(t, "set") {
					now.m.set(k, first)
					now.want[k] = first
				} else {
					now.m.delete(k)
					delete(now.want, k)
				}
			}
			want := map[uint32]uint32{}
			for k, v := range now.want {
				want[k] = v
			}
			kept = append(kept, version{now.m.copied(), want})
		}
		for i, v := range kept {
			checkCow(t, i, v.m, v.want)
		}
	})
}

func checkCow(t *rapid.T, i int, m cow[uint32, uint32], want map[uint32]uint32) {
	if m.len() != len(want) {
		t.Fatalf("copy %d has %d keys, want %d", i, m.len(), len(want))
	}
	before, n := uint32(0), 0
	m.all(func(k, v uint32) bool {
		if n > 0 && k <= before || want[k] != v {
			t.Fatalf("copy %d: key %d is %d after key %d, want %d", i, k, v, before, want[k])
		}
		before, n = k, n+1
		return true
	})
	free := uint32(0)
	for {
		if _, ok := want[free]; !ok {
			break
		}
		free++
	}
	if got := lowestFree(m); got != free {
		t.Fatalf("copy %d: lowest free key %d, want %d", i, got, free)
	}
	for _, bound := range []uint32{0, 1, 150, 400} {
		last, has := uint32(0), false
		for k := range want {
			if k < bound && (!has || k > last) {
				last, has = k, true
			}
		}
		if k, _, ok := m.before(bound); ok != has || k != last {
			t.Fatalf("copy %d: before %d is %d, %t, want %d, %t", i, bound, k, ok, last, has)
		}
	}
}
