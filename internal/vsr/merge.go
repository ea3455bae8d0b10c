package vsr

import "bytes"

// outcome of a merge.
type outcome uint8

const (
	mergeAwaitingQuorum outcome = iota // too few votes
	mergeAwaitingRepair                // undecidable: another vote may decide
	mergeDeadlocked                    // undecidable, and all have voted
	mergeReady
)

// mergedLog is what a new view begins with: the ops commit+1..op.
type mergedLog struct {
	commit         Op
	commitIdentity Identity
	op             Op
	identity       Identity
	headers        []Header
	nacked         bool // it ends where it does because a nack quorum never had what a voter has next
}

// merge decides the log of a new view from the votes for it (VR Revisited §4.2
// step 3, with nacks). Canonical are the votes with the highest log_view: their
// senders had installed the last log that could commit anything. Where none of
// them can tell about an op, the next lower ones decide (merger.canonical). For
// each op above the highest commit point, in order:
//
//   - It ends the log if a nack quorum never had it: no replication quorum can
//     exist. Whoever is silent, or cannot tell, gives no nack.
//   - Else it stays, if a canonical vote has it.
//   - Else nothing is decided until more votes come.
//
// Two canonical votes may hold different ops at one place: one of the senders
// crashed while it installed a later log that this quorum knows nothing else of.
// Then neither was ever committed. A committed op is in every log that was
// installed or begun after it, so all canonical votes that have the place agree
// on it; and if it was committed in a view later than theirs, a replica that
// acknowledged it would be in the quorum with a higher log_view. So either may be
// kept, and what cannot be continued from there was never committed either
// (docs/decisions/0009).
func merge(q Quorums, votes []Message) (mergedLog, outcome) {
	if len(votes) < q.ViewChange {
		return mergedLog{}, mergeAwaitingQuorum
	}
	m := newMerger(q, votes)
	log := mergedLog{commit: m.commit, op: m.commit}
	var ok bool
	if log.commitIdentity, ok = m.anchor(); !ok {
		return log, m.undecided()
	}
	log.identity = log.commitIdentity
	for op := m.commit + 1; op <= m.head; op++ {
		canonical, decides := m.canonical(op)
		h, found := m.candidate(op, log.identity, canonical)
		switch {
		case !decides && !m.forked:
			return log, m.undecided()
		case m.nacks(op, h, found, canonical) >= q.Nack:
			log.nacked = m.held(op)
			return log, mergeReady
		case found:
			log.headers = append(log.headers, h)
			log.op, log.identity = op, h.Identity
		case m.forked:
			return log, mergeReady
		default:
			return log, m.undecided()
		}
	}
	return log, mergeReady
}

type merger struct {
	quorums Quorums
	votes   []Message
	logView View // the highest of the votes
	commit  Op
	head    Op
	forked  bool // canonical votes differed
}

func newMerger(q Quorums, votes []Message) *merger {
	m := &merger{quorums: q, votes: votes}
	for i := range votes {
		v := &votes[i]
		m.logView = max(m.logView, v.LogView)
		if v.Unknown {
			continue
		}
		m.commit = max(m.commit, v.Commit)
		if n := len(v.Headers); n > 0 {
			m.commit = max(m.commit, v.Headers[n-1].Commit) // its primary vouched for that
		}
		if v.Op > PipelineCeiling {
			m.commit = max(m.commit, v.Op-PipelineCeiling) // nothing deeper can be in flight
		}
	}
	m.head = m.commit
	for i := range votes {
		if v := &votes[i]; v.LogView == m.logView {
			m.head = max(m.head, v.Op, v.Doubt)
		}
	}
	return m
}

func (m *merger) undecided() outcome {
	if len(m.votes) < m.quorums.Replicas {
		return mergeAwaitingRepair
	}
	return mergeDeadlocked
}

// at returns what a vote says it has at op.
func at(v *Message, op Op) (Header, bool) {
	if v.Unknown || op <= v.Commit || op > v.Op {
		return Header{}, false
	}
	return v.Headers[op-v.Commit-1], true
}

// held reports whether any vote has an op at this place.
func (m *merger) held(op Op) bool {
	for i := range m.votes {
		if _, has := at(&m.votes[i], op); has {
			return true
		}
	}
	return false
}

// anchor returns the identity of the commit point. Everybody who knows it knows
// the same: committed ops do not differ.
func (m *merger) anchor() (Identity, bool) {
	if m.commit == 0 {
		return Identity{}, true
	}
	best, id, found := View(0), Identity{}, false
	for i := range m.votes {
		v := &m.votes[i]
		got, ok := v.CommitIdentity, !v.Unknown && v.Commit == m.commit
		if h, has := at(v, m.commit); has {
			got, ok = h.Identity, true
		}
		if ok && (!found || v.LogView > best) {
			best, id, found = v.LogView, got, true
		}
	}
	return id, found
}

// certain reports whether a vote can tell about op: it has it, or never had it.
func certain(v *Message, op Op) bool { return !v.Unknown && (op <= v.Op || op > v.Doubt) }

// canonical returns the log_view of the votes that decide about op, and whether
// they do. It is the highest of those that can tell. If that is not the highest of
// all, something may have been committed at op in a view above it, by replicas
// that have lost it; a nack quorum that can tell excludes that, since none of them
// was in such a view. Then what was committed at op was committed in a view up to
// theirs, and is in their logs.
func (m *merger) canonical(op Op) (logView View, decides bool) {
	n := 0
	for i := range m.votes {
		if v := &m.votes[i]; certain(v, op) {
			logView = max(logView, v.LogView)
			n++
		}
	}
	return logView, n > 0 && logView == m.logView || n >= m.quorums.Nack
}

// candidate returns the header at op that follows parent in a canonical vote.
// Of several the one sealed in the latest view is as good as any.
func (m *merger) candidate(op Op, parent Identity, canonical View) (best Header, found bool) {
	for i := range m.votes {
		v := &m.votes[i]
		h, ok := at(v, op)
		if !ok || v.LogView != canonical {
			continue
		}
		if h.Parent != parent || found && h.Identity != best.Identity {
			m.forked = true
		}
		if h.Parent == parent && (!found || later(h, best)) {
			best, found = h, true
		}
	}
	return best, found
}

func later(a, b Header) bool {
	if a.View != b.View {
		return a.View > b.View
	}
	return bytes.Compare(a.Identity[:], b.Identity[:]) > 0
}

// nacks counts the senders that certainly never acknowledged the candidate at
// op: it is above all they ever had, or they are behind the canonical log and
// hold something else there. A canonical vote that differs is no nack. Without a
// candidate it counts for whatever may be there.
func (m *merger) nacks(op Op, h Header, found bool, canonical View) int {
	n := 0
	for i := range m.votes {
		v := &m.votes[i]
		if !certain(v, op) {
			continue
		}
		has, ok := at(v, op)
		switch {
		case op > v.Op:
			n++
		case ok && v.LogView < canonical && (!found || has.Identity != h.Identity):
			n++
		}
	}
	return n
}
