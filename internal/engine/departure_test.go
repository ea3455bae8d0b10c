package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// absence is the limit of the tests, in ticks: 1.2 times their heartbeat.
const absence = 120

// shared is a cluster with a topic of six partitions, and a consumer group of it.
type shared struct{ *cluster }

func newShared(t *testing.T, heartbeat time.Duration) shared {
	t.Helper()
	cfg := worldConfig()
	cfg.Heartbeat.Interval = heartbeat
	s := shared{newCluster(t, 3, cfg)}
	admin, _ := s.begin()
	s.call(admin, wire.OperationCreateTopic, wire.CreateTopicRequest{Stream: galgo.NamedID("s"), Name: "t", Partitions: 6}.Append(nil))
	s.call(admin, wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t"), Name: "g"}.Append(nil))
	return s
}

// join signs a client in over a node, as it is now, and has it be a member.
func (s shared) join(client byte, node int) {
	s.t.Helper()
	by := metadata.Credential{Kind: metadata.CredentialPassword, Op: 1, Home: metadata.Home{Replica: uint8(node), Life: s.lives[node]}}
	id := galgo.ClientID{client}
	epoch := s.metadata(edge.MetadataRequest{Operation: wire.OperationRegister, Client: id, Body: by.Append(nil)}).Op
	s.metadata(edge.MetadataRequest{Operation: wire.OperationJoinConsumerGroup, Client: id, Session: epoch, Request: epoch, Body: namedGroup()})
}

// pass lets ticks go by.
func (s shared) pass(ticks int) {
	for range ticks {
		s.round()
	}
}

// wantMembers waits until every node that is up has these members.
func (s shared) wantMembers(want ...byte) {
	s.t.Helper()
	for i, w := range s.nodes {
		if w != nil {
			s.until(fmt.Sprintf("the members at node %d are %v", i, want), func() bool { return slices.Equal(membersAt(w), want) })
		}
	}
}

// haveMembers is wantMembers as of now.
func (s shared) haveMembers(when string, want ...byte) {
	s.t.Helper()
	for i, w := range s.nodes {
		if w != nil && !slices.Equal(membersAt(w), want) {
			s.t.Errorf("%s: node %d has the members %v, want %v", when, i, membersAt(w), want)
		}
	}
}

func membersAt(w *world) (ids []byte) {
	if g, ok := w.engine.View().ConsumerGroupAt(0, 0, 0); ok {
		for _, m := range g.Members {
			ids = append(ids, m.Client[0])
		}
	}
	slices.Sort(ids)
	return ids
}

// However short clients may be silent, a node is not taken for gone before it could be heard.
func TestAbsenceIsLongerThanTheSilenceOfAPrimary(t *testing.T) {
	for _, tt := range []struct {
		heartbeat time.Duration
		timing    vsr.Timing
		want      uint64
	}{
		{30 * time.Second, vsr.Timing{}, 3600},
		{100 * time.Millisecond, vsr.Timing{}, 1000},
		{time.Second, vsr.Timing{ElectionTicks: 15}, absence},
		{time.Second, vsr.Timing{ElectionTicks: 400}, 800},
	} {
		if got := absenceTicks(tt.heartbeat, tt.timing); got != tt.want {
			t.Errorf("%v, %d: %d ticks, want %d", tt.heartbeat, tt.timing.ElectionTicks, got, tt.want)
		}
	}
}

// A node that is gone for longer than the limit takes along the places of its clients in
// their groups, but for those of clients that have come back elsewhere.
func TestMembersOfANodeThatIsGoneLoseTheirPlaces(t *testing.T) {
	s := newShared(t, time.Second)
	leads := s.leader(0)
	gone, other := (leads+1)%3, (leads+2)%3
	s.join(1, leads)
	s.join(2, gone)
	s.join(3, gone)
	s.join(4, other)
	s.pass(3 * absence)
	s.haveMembers("all are there", 1, 2, 3, 4)
	s.kill(gone)
	s.join(3, other)
	s.pass(absence / 2)
	s.haveMembers("half of the limit", 1, 2, 3, 4)
	s.wantMembers(1, 3, 4)
	s.start(gone, false)
	s.wantMembers(1, 3, 4)
	s.join(2, gone)
	s.pass(3 * absence)
	s.haveMembers("client 2 is back", 1, 2, 3, 4)
}

// A node that is back in another life has taken its connections along, however short it was
// away: nobody waits for the limit.
func TestMembersOfTheLastLifeLoseTheirPlaces(t *testing.T) {
	for _, who := range []string{"a backup", "the primary", "all"} {
		t.Run(who, func(t *testing.T) {
			s := newShared(t, time.Hour)
			leads := s.leader(0)
			again := []int{(leads + 1) % 3}
			switch who {
			case "the primary":
				again = []int{leads}
			case "all":
				again = []int{0, 1, 2}
			}
			stays := (leads + 2) % 3
			s.join(1, stays)
			s.join(2, again[0])
			for i, node := range again[1:] { // so that one of them is at the next primary
				s.join(byte(3+i), node)
			}
			for _, node := range again {
				s.kill(node)
			}
			for _, node := range again {
				s.start(node, false)
			}
			if who == "all" {
				s.wantMembers()
				return
			}
			s.wantMembers(1)
			s.join(2, again[0])
			s.pass(3 * absence)
			s.haveMembers("client 2 is back", 1, 2)
		})
	}
}

// Who has just begun to lead has not heard of the others yet, and takes nobody for gone
// before the limit is over for it; then the primary before it.
func TestNextPrimaryGivesTheOthersTheirTime(t *testing.T) {
	s := newShared(t, time.Second)
	leads := s.leader(0)
	s.join(1, leads)
	s.join(2, (leads+1)%3)
	s.join(3, (leads+2)%3)
	s.pass(3 * absence) // backups hear nothing of each other
	s.kill(leads)
	s.leader(0)
	s.pass(absence / 2)
	s.haveMembers("half of the limit", 1, 2, 3)
	s.wantMembers(2, 3)
	s.pass(3 * absence)
	s.haveMembers("later", 2, 3)
}

// A node that was only cut off finds its sessions counted as gone when it is there again, in
// the same life; who signs in there again is there.
func TestNodeThatWasCutOffIsThereAgain(t *testing.T) {
	s := newShared(t, time.Second)
	leads := s.leader(0)
	cut := (leads + 1) % 3
	s.join(1, leads)
	s.join(2, cut)
	s.wantMembers(1, 2)
	s.lost = isolated(cut)
	s.until("the member is gone", func() bool { return slices.Equal(membersAt(s.nodes[leads]), []byte{1}) })
	s.lost = func(vsr.Message) bool { return false }
	s.wantMembers(1)
	view := s.nodes[cut].engine.View()
	if session, ok := view.Client(galgo.ClientID{2}); !ok || !view.IsDetached(session.ID, session.Epoch) {
		t.Error("the node that was cut off does not see that its session is detached")
	}
	s.join(2, cut)
	s.pass(3 * absence)
	s.haveMembers("client 2 is back", 1, 2)
}
