package shard

import (
	"math"

	"galgo/internal/metadata"
	"galgo/internal/vsr"
)

// departTicks is how often the primary looks for sessions whose node is gone.
const departTicks = 50

// absences is what a replica knows of whether the others are there: what it has heard of them
// in the group of the metadata. A life that is followed by another one is over; one that was not
// heard of for long enough is taken for over. Only the primary decides by it, and what it
// decides is in the log.
type absences struct {
	signs    [vsr.ReplicasMax]sign
	ticks    uint64
	leads    bool
	since    uint64 // tick since which this replica leads
	underWay bool   // a departure is
}

// sign is the last one of a replica.
type sign struct {
	tick uint64
	life uint64 // the latest; 0: none was heard of
}

func (a *absences) heard(from uint8, life uint64) {
	if int(from) >= len(a.signs) || life < a.signs[from].life {
		return
	}
	a.signs[from] = sign{a.ticks, life}
}

// over is the latest life of a replica that is over; 0: none. Who has just begun to lead may
// not have had the time to hear of anybody.
func (a *absences) over(replica uint8, patience uint64) uint64 {
	s := &a.signs[replica]
	if patience > 0 && a.ticks-max(s.tick, a.since) >= patience {
		return math.MaxUint64
	}
	return s.life - min(s.life, 1)
}

// depart has the sessions detached whose connections went with a node, so that members of
// consumer groups that do not come back keep their partitions from nobody. One departure at
// a time is under way: what is left is found by the next look.
func (m *Metadata) depart() {
	a := &m.absences
	a.ticks++
	serves := m.group.core().Serving()
	if serves && !a.leads {
		a.since = a.ticks
	}
	a.leads = serves
	if !serves || a.underWay || a.ticks%departTicks != 0 {
		return
	}
	for replica := range uint8(m.cfg.Replicas) {
		if d, any := m.departure(replica); any {
			a.underWay = true
			m.Submit(MetadataRequest{Operation: metadata.OperationDepart, Body: d.Encode()}, func(MetadataReply) { a.underWay = false })
			return
		}
	}
}

// departure is what is to be proposed of a replica, if anything.
func (m *Metadata) departure(replica uint8) (metadata.Departure, bool) {
	over := m.absences.over(replica, m.cfg.AbsenceTicks)
	if replica == m.cfg.Replica {
		over = m.cfg.Boot - min(m.cfg.Boot, 1)
	}
	if over == 0 {
		return metadata.Departure{}, false
	}
	return m.machine.View().DepartureOf(replica, over)
}
