package engine

import (
	"slices"

	"galgo"
	"galgo/internal/partition"
	"galgo/internal/vsr"
)

// What TestRandomLives compares.

func (l *lives) checkAll(settled bool) {
	for _, t := range l.topics {
		for _, g := range t.groups {
			l.check(g, settled)
		}
	}
	if !settled {
		return
	}
	for _, t := range l.topics { // repeat what was not answered and can be recognised
		for _, g := range t.groups {
			for payload, s := range g.sends {
				if s.number > 0 && !s.refused && s.answered == 0 {
					l.submit(g, payload)
				}
			}
		}
	}
}

// read polls a group and its offsets, as they are in this very moment.
func (l *lives) read(g *lifeGroup) (got []string, stored map[uint32]uint64) {
	d := l.w.engine.data[l.w.engine.shardOf(g.id)]
	id := vsr.GroupID(g.id)
	var plan partition.Plan
	if code := d.Poll(id, partition.PollRequest{Strategy: galgo.FromOffset(0), Count: 1 << 20}, &plan); code != galgo.CodeOK {
		return nil, nil // being made or removed
	}
	got, err := payloadsOf(&plan, 0)
	if err != nil {
		l.failf("group %d: %v", g.id, err)
	}
	stored = map[uint32]uint64{}
	for key := range uint32(3) {
		if value, _, found, _ := d.Offset(id, galgo.ConsumerSingle, key); found {
			stored[key] = value
		}
	}
	return got, stored
}

// check compares a group with what was answered. After a start, when all outcomes
// are decided, it takes note of them.
func (l *lives) check(g *lifeGroup, settled bool) {
	got, stored := l.read(g)
	if got == nil && stored == nil {
		if settled || l.pending == nil {
			l.failf("group %d is not there", g.id)
		}
		return
	}
	at := make(map[string]uint64, len(got))
	for i, payload := range got {
		if _, twice := at[payload]; twice || g.sends[payload] == nil {
			l.failf("group %d: %.20q at offset %d is there twice (%v) or was never sent", g.id, payload, i, twice)
		}
		at[payload] = uint64(i)
	}
	for payload, s := range g.sends {
		offset, there := at[payload]
		maybe, surely := g.purged(s.submitted, s.answered)
		switch {
		case there && (s.refused && s.number == 0 || surely && s.stored):
			l.failf("group %d: %.20q is at offset %d; refused %v, purged %v", g.id, payload, offset, s.refused, surely)
		case !there && s.stored && !maybe:
			l.failf("group %d: %.20q, acknowledged at offset %d, is gone; %d messages are there", g.id, payload, s.base, len(got))
		case there && s.stored && !maybe && s.base != offset:
			l.failf("group %d: %.20q is at offset %d, acknowledged at %d", g.id, payload, offset, s.base)
		}
		if !settled {
			continue
		}
		switch {
		case there:
			*s = lifeSend{submitted: l.now(), answered: l.now(), stored: true, base: offset, number: s.number}
		case s.number > 0 && !s.stored && !s.refused: // comes again
			s.submitted, s.answered = 0, 0
		default:
			s.stored, s.refused = false, true
		}
	}
	for key := range uint32(3) {
		if s := g.stores[key]; s != nil {
			value, found := stored[key]
			l.checkStore(g, key, s, value, found)
			if settled {
				*s = lifeStore{value: value, found: found, submitted: l.now(), answered: l.now()}
			}
		}
	}
	if settled {
		g.purges = nil
	}
}

func (l *lives) checkStore(g *lifeGroup, key uint32, s *lifeStore, value uint64, found bool) {
	maybe, surely := g.purged(s.submitted, s.answered)
	none := !s.found || maybe
	known := s.found && !surely && value == s.value
	if s.answered < 0 || !found && none || found && (known || slices.Contains(s.doubt, value)) {
		return
	}
	l.failf("group %d: consumer %d is at %d (%v); answered %d (%v), in doubt %v, purged %v or perhaps %v", g.id, key, value, found, s.value, s.found, s.doubt, surely, maybe)
}

// purged says whether something that was asked for and answered then may be, or is
// sure to be, gone by a purge.
func (g *lifeGroup) purged(submitted, answered int) (maybe, surely bool) {
	for _, p := range g.purges {
		maybe = maybe || p.answered == 0 || p.answered > submitted
		surely = surely || p.ok && answered > 0 && answered < p.submitted
	}
	return maybe, surely
}
