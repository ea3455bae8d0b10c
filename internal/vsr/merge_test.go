package vsr

import (
	"fmt"
	"strings"
	"testing"
)

// logOf makes headers from words like "a b c": each op is named by its letter and
// follows the one before. A word "b@3" is sealed in view 3, "b^2" when op 2 was
// committed.
func logOf(words string) []Header {
	var headers []Header
	parent := Identity{}
	for i, w := range strings.Fields(words) {
		h := Header{Op: Op(i + 1), Parent: parent, Timestamp: uint64(i + 1)}
		name := w
		if at := strings.IndexAny(w, "@^"); at > 0 {
			name = w[:at]
			n := uint64(w[at+1] - '0')
			if w[at] == '@' {
				h.View = View(n)
			} else {
				h.Commit = Op(n)
			}
		}
		copy(h.Client[:], name)
		p := Prepare{Header: h}
		p.Seal()
		headers = append(headers, p.Header)
		parent = p.Identity
	}
	return headers
}

// ballot is a vote: its log, of which the first commit ops are committed.
func ballot(from uint8, logView View, commit Op, words string) Message {
	headers := logOf(words)
	m := Message{Kind: MessageDoViewChange, From: from, View: 9, LogView: logView, Commit: commit, Op: Op(len(headers)), Rest: &Rest{}}
	if len(headers) > 0 {
		m.Identity = headers[len(headers)-1].Identity
	}
	if commit > 0 {
		m.CommitIdentity = headers[commit-1].Identity
	}
	m.Headers = headers[commit:]
	return m
}

func unknown(from uint8, logView View, op Op) Message {
	return Message{Kind: MessageDoViewChange, From: from, View: 9, LogView: logView, Op: op, Unknown: true, Rest: &nothing}
}

func doubtful(m Message, op Op) Message {
	m.Doubt = op
	return m
}

func TestMerge(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int
		in   []Message
		want string // the log up to its head, "!" and the outcome
	}{
		{"one vote of two", 3, []Message{ballot(0, 1, 0, "a")}, "!0"},
		{"M-01 all agree", 3, []Message{ballot(0, 1, 1, "a b"), ballot(1, 1, 1, "a b")}, "a b"},
		{"nothing anywhere", 3, []Message{ballot(0, 0, 0, ""), ballot(1, 0, 0, "")}, ""},
		{"M-02 nack quorum above the commit point", 3, []Message{ballot(0, 1, 1, "a"), ballot(1, 1, 1, "a"), ballot(2, 1, 1, "a b")}, "a"},
		{"M-03 one nack short", 3, []Message{ballot(0, 1, 1, "a"), ballot(2, 1, 1, "a b c")}, "a b c"},
		{"nacks above a kept op", 5, []Message{ballot(0, 1, 1, "a b"), ballot(1, 1, 1, "a b c"), ballot(2, 1, 1, "a b c d"), ballot(3, 1, 1, "a")}, "a b c"},
		{"M-04 a committed op is not counted", 3, []Message{ballot(0, 1, 0, ""), ballot(1, 1, 2, "a b")}, "a b"},
		{"M-06 the commit point is learned from who knows it", 3, []Message{unknown(0, 1, 2), ballot(1, 1, 2, "a b")}, "a b"},
		{"M-05 nobody knows the commit point", 3, []Message{unknown(0, 1, 2), unknown(1, 1, 2)}, "!1"},
		{"M-08 and nobody is left", 3, []Message{unknown(0, 1, 2), unknown(1, 1, 2), unknown(2, 1, 2)}, "!2"},
		{"M-07 the head is known, the op is not", 3, []Message{unknown(0, 2, 2), ballot(1, 1, 1, "a")}, "!1"},
		{"two nacks decide against who cannot tell", 3, []Message{unknown(0, 2, 2), ballot(1, 1, 1, "a"), ballot(2, 1, 1, "a")}, "a"},
		{"M-13 one nacks, one cannot tell", 3, []Message{ballot(0, 1, 1, "a"), doubtful(ballot(1, 1, 1, "a"), 2)}, "!1"},
		{"who cannot tell may have had what one behind it has", 3, []Message{doubtful(ballot(0, 2, 1, "a"), 2), ballot(1, 1, 1, "a b")}, "!1"},
		{"which then decides with a nack quorum that can tell", 3, []Message{doubtful(ballot(0, 2, 1, "a"), 2), ballot(1, 1, 1, "a b"), ballot(2, 1, 1, "a")}, "a b"},
		{"also behind who takes a checkpoint", 3, []Message{unknown(0, 2, 2), ballot(1, 1, 1, "a b"), ballot(2, 1, 1, "a")}, "a b"},
		{"the highest that can tell decides", 5, []Message{doubtful(ballot(0, 3, 1, "a"), 2), ballot(1, 2, 1, "a c@1"), ballot(2, 1, 1, "a b"), ballot(3, 1, 1, "a b")}, "a c@1"},
		{"four of six, one in doubt", 6, []Message{doubtful(ballot(3, 1, 1, "a"), 3), ballot(0, 0, 1, "a b"), ballot(4, 0, 1, "a b"), ballot(5, 0, 0, "")}, "!1"},
		{"above the doubt the canonical log has ended", 3, []Message{doubtful(ballot(0, 2, 1, "a"), 2), ballot(1, 1, 1, "a b d"), ballot(2, 1, 1, "a b d")}, "a b"},
		{"a doubt below the head does not matter", 3, []Message{doubtful(ballot(0, 1, 1, "a b"), 2), ballot(1, 1, 1, "a b")}, "a b"},
		{"M-09 a lower log_view loses", 3, []Message{ballot(0, 2, 1, "a c"), ballot(1, 1, 1, "a b d")}, "a c"},
		{"however late it was sealed", 3, []Message{ballot(0, 2, 1, "a c"), ballot(1, 1, 1, "a b@1 d@1")}, "a c"},
		{"nor may it continue the canonical log", 3, []Message{ballot(0, 2, 1, "a c"), ballot(1, 1, 1, "a c d@1")}, "a c"},
		{"and where the canonical log ends, so do others", 3, []Message{ballot(0, 2, 1, "a"), ballot(1, 1, 1, "a b")}, "a"},
		{"an op below whose nack is implied", 5, []Message{ballot(0, 2, 1, "a c"), ballot(1, 1, 1, "a b"), ballot(2, 1, 1, "a b"), ballot(3, 1, 1, "a b")}, "a"},
		{"M-12 canonical votes that differ are no nacks", 5, []Message{ballot(0, 2, 1, "a b"), ballot(1, 2, 1, "a c@1"), ballot(2, 2, 1, "a b")}, "a c@1"},
		{"even where they are as many as a nack quorum", 3, []Message{ballot(0, 2, 1, "a b"), ballot(1, 2, 1, "a c@1"), ballot(2, 2, 1, "a b")}, "a c@1"},
		{"and what cannot be continued ends the log", 5, []Message{ballot(0, 2, 1, "a b d e"), ballot(1, 2, 1, "a c@1"), ballot(2, 2, 1, "a b d")}, "a c@1"},
		{"M-10 one behind knows of a commit that the canonical log has lost", 3, []Message{doubtful(ballot(0, 2, 1, "a"), 2), ballot(1, 1, 2, "a b")}, "a b"},
		{"M-11 and what one behind has above that is dropped", 3, []Message{doubtful(ballot(0, 2, 1, "a"), 2), ballot(1, 1, 2, "a b"), ballot(2, 1, 1, "a b c@1")}, "a b"},
		{"M-14 M-15 the lowest header is no commit point", 3, []Message{ballot(0, 1, 0, ""), ballot(1, 1, 0, "a"), ballot(2, 1, 0, "")}, ""},
		{"M-17 the head vouches for a commit", 3, []Message{ballot(0, 1, 0, ""), ballot(1, 1, 0, "a b c^2"), ballot(2, 1, 0, "")}, "a b"},
		{"four replicas: three votes", 4, []Message{ballot(0, 1, 1, "a"), ballot(1, 1, 1, "a b")}, "!0"},
		{"four replicas: two nacks are short", 4, []Message{ballot(0, 1, 1, "a"), ballot(1, 1, 1, "a b"), ballot(2, 1, 1, "a")}, "a b"},
		{"two replicas: one nack is enough", 2, []Message{ballot(0, 1, 1, "a"), ballot(1, 1, 1, "a b")}, "a"},
	} {
		log, outcome := merge(QuorumsOf(c.n), c.in)
		if strings.HasPrefix(c.want, "!") {
			if want := c.want[1:]; fmt.Sprint(uint8(outcome)) != want {
				t.Errorf("%s: outcome %d, want %s", c.name, outcome, want)
			}
			continue
		}
		want := logOf(c.want)
		id := Identity{}
		if len(want) > 0 {
			id = want[len(want)-1].Identity
		}
		if outcome != mergeReady || log.op != Op(len(want)) || log.identity != id || log.op-log.commit != Op(len(log.headers)) {
			t.Errorf("%s: outcome %d, head %d %v of commit %d, want head %d %v", c.name, outcome, log.op, log.identity, log.commit, len(want), id)
		}
	}
}

// The order of the votes does not matter.
func TestMergeHasNoOrder(t *testing.T) {
	votes := []Message{ballot(0, 2, 1, "a b d e"), ballot(1, 2, 1, "a c@1"), ballot(2, 1, 1, "a b d"), doubtful(ballot(3, 2, 1, "a"), 3), unknown(4, 2, 4)}
	first, firstOutcome := merge(QuorumsOf(5), votes)
	for range 120 {
		votes = append(votes[1:], votes[0])
		votes[0], votes[1] = votes[1], votes[0]
		if got, outcome := merge(QuorumsOf(5), votes); got.identity != first.identity || outcome != firstOutcome {
			t.Fatalf("in another order: outcome %d head %d, was %d head %d", outcome, got.op, firstOutcome, first.op)
		}
	}
}

// O-7 in votes: a voter who knows a later life of another makes its vote void.
func TestVotesOfEarlierLivesAreDropped(t *testing.T) {
	old, voter := ballot(1, 1, 0, "a"), ballot(2, 1, 0, "")
	old.Boot, voter.Boot = 3, 1
	voter.Boots = []uint64{0, 3, 1}
	if got := alive([]Message{old, voter}); len(got) != 2 {
		t.Fatalf("%d votes are left, want both", len(got))
	}
	voter.Boots = []uint64{0, 4, 1}
	if got := alive([]Message{old, voter}); len(got) != 1 || got[0].From != 2 {
		t.Fatalf("left %v, want the vote of replica 2 alone", got)
	}
}

// A vote that is no log is no vote.
func TestVotesThatAreNoChain(t *testing.T) {
	good := ballot(1, 1, 1, "a b c")
	if !good.chained() {
		t.Fatal("a good vote is refused")
	}
	for name, change := range map[string]func(m *Message){
		"a missing header":    func(m *Message) { m.Headers = m.Headers[1:] },
		"another order":       func(m *Message) { m.Headers[0], m.Headers[1] = m.Headers[1], m.Headers[0] },
		"another parent":      func(m *Message) { m.CommitIdentity[0] ^= 1 },
		"another head":        func(m *Message) { m.Identity[0] ^= 1 },
		"commit above head":   func(m *Message) { m.Commit, m.Headers = 4, nil },
		"time stands still":   func(m *Message) { m.Headers[1].Timestamp = m.Headers[0].Timestamp },
		"more than a window":  func(m *Message) { m.Op, m.Headers = m.Op+200, make([]Header, 202) },
		"a head without logs": func(m *Message) { m.Headers = nil },
	} {
		m := ballot(1, 1, 1, "a b c")
		change(&m)
		if m.chained() {
			t.Errorf("%s: accepted", name)
		}
		c := fresh(0, 3)
		m.Group, m.Incarnation, m.Boot = 7, 3, 1
		if c.Step(m); c.View().View != 0 {
			t.Errorf("%s: moved to view %d", name, c.View().View)
		}
	}
}
