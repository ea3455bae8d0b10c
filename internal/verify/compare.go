package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"galgo/internal/shard"
	"galgo/internal/snapshot"
	"galgo/internal/vsr"
)

// member is a group in a directory.
type member struct {
	*replica
	*shard.Audit
}

// compareSnapshots: at equal op the metadata has equal bytes on every replica.
func (r *run) compareSnapshots() {
	for i, p := range r.replicas {
		for op, sum := range p.snapshots {
			for _, q := range r.replicas[:i] {
				if other, ok := q.snapshots[op]; ok && other != sum && !p.given && !q.given {
					r.problem(vsr.MetadataGroup, "the snapshots of op %d differ: %s", op, sums(map[string]snapshot.Sum{p.name: sum, q.name: other}))
				}
			}
		}
	}
}

func sums(all map[string]snapshot.Sum) string {
	var each []string
	for name, sum := range all {
		each = append(each, fmt.Sprintf("%s has %v", name, sum))
	}
	slices.Sort(each)
	return strings.Join(each, ", ")
}

// compare holds the logs of a group against each other, brings all that can to the last
// op that any of them knows to be committed, and compares the states there.
func (r *run) compare(all []*member) Group {
	g := Group{Group: uint64(all[0].Group), Of: len(all), Verdict: Equal}
	before := len(r.report.Problems)
	r.compareIdentities(all)
	last := vsr.Op(0)
	for _, m := range all {
		last = max(last, m.Applied.Op)
	}
	for _, m := range all {
		r.advance(m, all, last)
	}
	last = r.advanceTogether(all, last)
	for _, m := range all {
		if m.Applied.Op < last {
			g.Verdict = Behind
		}
	}
	g.Op = uint64(last)
	id, known := committed(all, last)
	for _, m := range all {
		if own, ok := m.Identity(last); ok && own == id || !known && m.Applied.Op == last {
			g.Held++
		}
	}
	r.compareStates(all, last)
	switch {
	case len(r.report.Problems) > before:
		g.Verdict = Differs
	case len(r.replicas) == 1:
		g.Verdict = Alone
	}
	return g
}

// committed is the identity under which somebody knows an op to be committed.
func committed(all []*member, op vsr.Op) (vsr.Identity, bool) {
	for _, m := range all {
		if m.Applied.Op >= op {
			if id, ok := m.Identity(op); ok {
				return id, true
			}
		}
	}
	return vsr.Identity{}, false
}

// compareIdentities names the first op at which two committed prefixes differ.
func (r *run) compareIdentities(all []*member) {
	first, last := all[0].First(), vsr.Op(0)
	for _, m := range all {
		first, last = min(first, m.First()), max(last, m.Applied.Op)
	}
	for op := first; op <= last; op++ {
		want, known := committed(all, op)
		for _, m := range all {
			if id, ok := m.Identity(op); known && ok && m.Applied.Op >= op && id != want {
				r.problem(m.Group, "op %d, which is committed, differs: %s", op, identities(all, op))
				return
			}
		}
	}
}

func identities(all []*member, op vsr.Op) string {
	var each []string
	for _, m := range all {
		if id, ok := m.Identity(op); ok && m.Applied.Op >= op {
			each = append(each, fmt.Sprintf("%s has %v", m.name, id))
		}
	}
	return strings.Join(each, ", ")
}

// advance applies what a log holds and others know to be committed.
func (r *run) advance(m *member, all []*member, last vsr.Op) {
	for m.Applied.Op < last {
		op := m.Applied.Op + 1
		id, known := committed(all, op)
		if !known {
			return
		}
		moved, err := m.Advance(op, id)
		if err != nil {
			m.problem("%v", err)
		}
		if !moved {
			return
		}
	}
}

// advanceTogether goes on with what every replica of the cluster holds under one identity:
// no disk knows it to be committed yet, and no view can drop it any more.
func (r *run) advanceTogether(all []*member, last vsr.Op) vsr.Op {
	if len(all) != int(all[0].id.ReplicaCount) {
		return last
	}
	for ; ; last++ {
		want, _ := all[0].Identity(last + 1)
		for _, m := range all {
			if id, ok := m.Identity(last + 1); !ok || id != want || m.Applied.Op != last {
				return last
			}
		}
		for _, m := range all {
			if _, err := m.Advance(last+1, want); err != nil {
				m.problem("%v", err)
			}
		}
	}
}

// compareStates: equal ops make equal states.
func (r *run) compareStates(all []*member, at vsr.Op) {
	var first *member
	var want xxh3.Uint128
	for _, m := range all {
		if m.Applied.Op != at {
			continue
		}
		sum := xxh3.Hash128(m.Encode())
		switch {
		case first == nil:
			first, want = m, sum
		case sum != want:
			r.problem(m.Group, "the states at op %d differ between %s and %s%s", at, first.name, m.name, difference(first, m))
			return
		}
	}
}

func difference(a, b *member) string {
	if a.Machine == nil {
		return ""
	}
	return ", in " + a.Machine.State().Difference(b.Machine.State())
}
